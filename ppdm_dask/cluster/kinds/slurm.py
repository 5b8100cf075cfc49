"""Workers as jobs of SLURM, one job per worker.

The pool is dask-jobqueue's SLURMCluster, kept at one size and ended with its driver.

Dask's adaptive scaling, the usual way to live with a walltime, compares what was asked for with
what should be, so with a fixed size it replaces no job that ended. Here SLURM is asked which jobs
there are, and what is missing is submitted again, until jobs turn out not to work.
"""

from __future__ import annotations

import asyncio
import logging
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Annotated, Any, ClassVar, Self

import dask
from distributed import SchedulerPlugin

from ppdm_dask.cluster.client import NETWORK, SETTINGS, Pool, connected
from ppdm_dask.cluster.jobs import cancel_jobs, end_jobs, squeue_command
from ppdm_dask.cluster.kinds.base import Beside, Profile, register
from ppdm_dask.cluster.nanny import close_cluster
from ppdm_dask.cluster.security import (
    ROLES,
    Certificates,
    GuardedScheduler,
    GuardedSecurity,
    write_certificates,
)
from ppdm_dask.cluster.surroundings import interrupts_blocked, logging_to
from ppdm_dask.engine.cells import summarise
from ppdm_dask.errors import ClusterError
from ppdm_dask.files.values import Many, Place, Schema, Text, Value
from ppdm_dask.frozen import settle

LEAST_WALLTIME = 60
# A job starts Python, and its last batch has to end, within its walltime.
LIFETIME_SHARE = 0.85
MARGIN_SECONDS = 20

_TIME = re.compile(r"(?:(\d+)-)?(\d+):([0-5]\d):([0-5]\d)")


class Time(Value):
    """A time as SLURM writes it, in seconds.

    Parameters
    ----------
    least : int
        Seconds that it lasts at the least.
    more : str
        What is needed where it lasts less.
    """

    right = 'a time is needed, "HH:MM:SS" or "D-HH:MM:SS"'

    def __init__(self, least: int, more: str) -> None:
        self.least, self.more = least, more

    def read(self, value: Any, at: Place) -> int:
        match = _TIME.fullmatch(Text(self.right).read(value, at))
        if match is None:
            raise at.wrong(value, self.right)
        days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
        found = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
        if found < self.least:
            raise at.wrong(value, self.more)
        return found

    def schema(self) -> Schema:
        return {"type": "string", "pattern": f"^{_TIME.pattern}$"}


WORD = Text("one word is needed", r"[^\s\x00-\x1f\x7f-\x9f]+")
DIRECTIVE = Text("options of sbatch begin with a hyphen", r"-[^\x00-\x1f\x7f-\x9f\u2028\u2029]*")


@register
@dataclass(frozen=True, kw_only=True)
class SLURMProfile(Profile):
    """Jobs that the run submits, replaces when they end, and cancels when it ends itself.

    Parameters
    ----------
    interface : str
        Network interface of the nodes on which workers listen, and the scheduler as well.
    walltime : int
        Seconds after which SLURM ends a job; a file has "HH:MM:SS" or "D-HH:MM:SS".
    scheduler_interface : str
        The interface of this machine, if its name differs here.
    lifetime : int
        Seconds after which a worker ends at the latest; a new job replaces it.
    queue, account : str or None
        Partition and account of SLURM; None leaves the choice to SLURM.
    directives : tuple of str
        Further options of ``sbatch``, such as ``--constraint=avx2``.
    python : str
        Path of the Python with this package, on all nodes.
    shared : str or None
        Folder that this machine and the nodes can read under the same path, for the jobs'
        certificates and logs; by default the run's own folder.
    """

    kind: ClassVar[str] = "slurm"
    needs_security: ClassVar[bool] = True

    interface: Annotated[str, Text("the nodes' network interface is needed, such as ib0 or eth0")]
    walltime: Annotated[int, Time(LEAST_WALLTIME, "a minute or more is needed")]
    scheduler_interface: str = ""
    lifetime: Annotated[int, Time(1, "a time above 0 is needed")] = 0
    queue: Annotated[str, WORD] | None = None
    account: Annotated[str, WORD] | None = None
    directives: Annotated[tuple[str, ...], Many(DIRECTIVE)] = ()
    python: str = sys.executable
    shared: Annotated[str, Beside("the path of a folder is needed", there="folder")] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        interface = self.scheduler_interface or self.interface
        settle(self, scheduler_interface=interface, lifetime=self.lifetime or self.latest)

    @property
    def latest(self) -> int:
        """Seconds after which a worker has to leave, so that a batch can end."""
        return min(int(self.walltime * LIFETIME_SHARE), self.walltime - MARGIN_SECONDS)

    def checked(self, at: Place) -> Self:
        if self.lifetime > self.latest:
            limit = f"at most {show_time(self.latest)} with this walltime, so that a batch can end"
            raise at["lifetime"].wrong(show_time(self.lifetime), limit)
        return self

    @property
    def where(self) -> str:
        queue = "" if self.queue is None else f" in {self.queue}"
        return f"{super().where}{queue}, jobs of {show_time(self.walltime)}"

    def pool(self, folder: Path) -> AbstractContextManager[Pool]:
        return slurm_pool(self, folder)


def show_time(seconds: int) -> str:
    """Write a time as SLURM reads it, ``HH:MM:SS``."""
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"


# SLURM is asked this often while jobs come and go, and less and less while nothing happens.
LEAST_SECONDS = 1.0
MOST_SECONDS = 60.0
COMMAND_SECONDS = 20.0
# Jobs in a row that ended before their worker was there, above the number of workers.
MOST_BARREN = 3
TAIL_BYTES = 4096

logger = logging.getLogger("distributed.slurm")


class Arrivals(SchedulerPlugin):
    """Names of the workers that have been there, and whether any has left since it was asked."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.left = False

    def add_worker(self, scheduler: Any, worker: str) -> None:
        self.names.add(scheduler.workers[worker].name)

    def remove_worker(self, scheduler: Any, worker: str, **_: Any) -> None:
        self.left = True


class Replacement:
    """Keeps a cluster of jobs at its size.

    Parameters
    ----------
    cluster : NamedJobs
        Its scheduler runs in this process.
    name : str
        Common name of its jobs.
    workers : int
        Size of the cluster.
    source : str
        Named in messages.
    logs : Path
        Folder in which jobs write their output.
    """

    def __init__(self, cluster: Any, name: str, workers: int, source: str, logs: Path) -> None:
        self.cluster = cluster
        self.name = name
        self.workers = workers
        self.source = source
        self.logs = logs
        self._arrivals = Arrivals()
        self._trouble = ""
        self._barren = 0
        self._pause = LEAST_SECONDS
        self._next = 0.0
        self._asking = False
        self._over = False
        cluster.loop.add_callback(cluster.scheduler.add_plugin, self._arrivals)

    def begin(self) -> None:
        """Have ended jobs replaced, unless SLURM was asked a moment ago.

        Raises
        ------
        ClusterError
            If SLURM refuses the jobs, or they end before they have done anything.
        """
        if self._trouble:
            raise ClusterError(f"{self.source}: {self._trouble}", self.name)
        if self._arrivals.left:
            self._arrivals.left = False
            self._next, self._pause = 0.0, LEAST_SECONDS
        if monotonic() >= self._next and not self._asking:
            self._next = monotonic() + self._pause
            self._pause = min(2 * self._pause, MOST_SECONDS)
            self._asking = True
            self.cluster.loop.add_callback(self._replace)

    def close(self) -> None:
        """Submit nothing more."""
        self._over = True

    async def _replace(self) -> None:
        """Submit a job for each one that is gone; runs in the event loop's thread."""
        try:
            there = await self._ask()
            if there is None or self._over:
                return
            jobs = self.cluster.workers
            for name, job in list(jobs.items()):
                if job.refusal:
                    self._trouble = _refused(job.refusal)
                    return
                if job.job_id not in there:
                    logger.info("job %s of worker %s has ended", job.job_id, name)
                    del jobs[name]
                    self.cluster.worker_spec.pop(name, None)
                    self._note(name, job)
            if self._trouble:
                return
            if len(self.cluster.worker_spec) < self.workers:
                self._pause = LEAST_SECONDS
                self.cluster.scale(self.workers)
        finally:
            self._asking = False

    def _note(self, name: str, job: Any) -> None:
        """Count the jobs in a row that ended before their worker was there."""
        if name in self._arrivals.names:
            self._barren = 0
            return
        self._barren += 1
        if self._barren > self.workers + MOST_BARREN:
            said = self._tail(self.logs / f"{self.name}-{job.job_id}.err")
            self._trouble = (
                f"{self._barren} jobs in a row ended before their worker was there"
                + (f" (last: {said[-1]})" if said else "")
                + f"; their output is in {self.logs}"
            )

    async def _ask(self) -> set[str] | None:
        """Numbers of the jobs there are; None if SLURM does not answer."""
        with suppress(OSError, TimeoutError):
            asked = await asyncio.create_subprocess_exec(
                *squeue_command(self.name),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
            )
            try:
                answer, _ = await asyncio.wait_for(asked.communicate(), COMMAND_SECONDS)
            finally:
                with suppress(ProcessLookupError):
                    asked.kill()
            if asked.returncode == 0:
                return set(answer.decode().split())
        return None

    def last_death(self) -> str:
        """What the newest output of a job says of the end of a worker process or of the job."""
        files = sorted(self.logs.glob(f"{self.name}-*.err"), key=lambda file: file.stat().st_mtime)
        for file in reversed(files[-5:]):
            for line in reversed(self._tail(file)):
                if found := re.search(r"Worker process .*|slurmstepd: error: .*", line):
                    return found[0]
        return ""

    @staticmethod
    def _tail(file: Path) -> list[str]:
        """Last lines of a file, without empty ones."""
        try:
            with file.open("rb") as stream:
                stream.seek(max(0, file.stat().st_size - TAIL_BYTES))
                text = stream.read().decode(errors="replace")
        except OSError:
            return []
        return [line.strip() for line in text.splitlines() if line.strip()]


def _refused(complaint: str) -> str:
    """What ``sbatch`` said, out of what dask-jobqueue makes of it."""
    _, _, said = complaint.partition("stderr:")
    lines = [line.strip() for line in (said or complaint).splitlines() if line.strip()]
    return f"SLURM refuses the jobs: {'; '.join(lines)}"


MEBI = 2**20
# The process that watches over a worker counts against the job's memory too.
NANNY_MEBI = 256
# Jobs may wait in a queue for as long as they like; anyone who waits for them may interrupt.
PATIENCE_SECONDS = 30 * 86400.0
# For SLURM's answer that the jobs have ended; then this is left to the watching process.
END_SECONDS = 10.0
# A job whose scheduler does not answer ends after this.
ARRIVAL_SECONDS = 30

WORKER = "ppdm_dask.cluster.job"
WATCHER = "ppdm_dask.cluster.jobs"

CONFIG = {
    # Workers come when their turn in the queue has come.
    "distributed.scheduler.no-workers-timeout": None,
    # Nothing but the profile configures a run: what a user's files may say here has no argument,
    # or one that counts as absent when it is None.
    **{f"jobqueue.slurm.{key}": None for key in ("queue", "account", "project", "local-directory")},
    **{f"jobqueue.slurm.{key}": None for key in ("extra", "env-extra", "job-extra", "header-skip")},
}


@contextmanager
def slurm_pool(profile: SLURMProfile, folder: Path) -> Iterator[Pool]:
    """Start a scheduler in this process, submit a job for each worker, and cancel what is left.

    The context is entered before a job runs; batches wait for them. The jobs also end when this
    process is killed.

    Parameters
    ----------
    profile : SLURMProfile
        Size and kind of the jobs.
    folder : Path
        Folder of the run, for logs.

    Raises
    ------
    ClusterError
        If dask-jobqueue or SLURM's commands are missing, or the scheduler cannot be started.
    """
    cluster_class = _cluster_class(profile)
    certificates = profile.certificates(*ROLES)
    assert certificates is not None
    name = f"ppdm-{uuid.uuid4().hex[:12]}"
    shared = (folder if profile.shared is None else Path(profile.shared)).absolute()
    with ExitStack() as stack:
        log = folder / "workers.log"
        stack.enter_context(logging_to(log))
        keys = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=shared))
        stack.callback(shutil.rmtree, keys, ignore_errors=True)
        pair = {"worker": certificates.pairs["worker"]}
        write_certificates(Certificates(certificates.authority, pair), keys / "worker")
        stack.enter_context(_watched(name, keys))
        stack.enter_context(dask.config.set(SETTINGS | NETWORK | CONFIG))
        options = _options(profile, name, certificates, keys, shared / "jobs")
        try:
            with interrupts_blocked():
                cluster = cluster_class(**options)
        except (RuntimeError, ValueError) as error:
            what = f"{profile.source}: the scheduler cannot be started: {summarise(error)}"
            raise ClusterError(what, profile) from error
        # Undone in reverse: nothing more is submitted, the jobs are cancelled, the cluster closes.
        stack.callback(close_cluster, cluster)
        stack.callback(cancel_jobs, name)
        replacement = Replacement(cluster, name, profile.workers, profile.source, shared / "jobs")
        stack.callback(replacement.close)
        client = stack.enter_context(
            connected(cluster.scheduler_address, certificates, profile.source)
        )
        cluster.scale(profile.workers)
        yield Pool(
            client=client,
            workers=profile.workers,
            alive=lambda: len(cluster.scheduler.workers),
            mend=replacement.begin,
            last_death=replacement.last_death,
            log=log,
            remote=True,
            patience=PATIENCE_SECONDS,
            more_memory=f"raise memory in {profile.source}",
        )


def _cluster_class(profile: SLURMProfile) -> Callable[..., Any]:
    try:
        from ppdm_dask.cluster.jobqueue import NamedJobs
    except ImportError as error:
        package = (error.name or "").partition(".")[0].replace("_", "-")
        what = f"{profile.source}: {package} is not installed"
        raise ClusterError(f"{what}; pip install 'ppdm-dask[cluster]'", profile) from error
    for command in ("sbatch", "squeue", "scancel"):
        if shutil.which(command) is None:
            what = f"{profile.source}: there is no command {command} on this machine"
            raise ClusterError(f"{what}; jobs are submitted where SLURM's commands are", profile)
    return NamedJobs


@contextmanager
def _watched(name: str, keys: Path) -> Iterator[None]:
    """Context after which no job of that name is left, even if this process does not live on."""
    watcher = subprocess.Popen(
        [sys.executable, "-m", WATCHER, name, str(keys)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert watcher.stdin is not None
    try:
        yield
    finally:
        if end_jobs(name, within_seconds=END_SECONDS):
            watcher.kill()
            watcher.wait()
        # Otherwise SLURM does not answer, and the other keeps trying after this process.
        watcher.stdin.close()


def _options(
    profile: SLURMProfile, name: str, certificates: Certificates, keys: Path, logs: Path
) -> dict[str, Any]:
    """Arguments of the cluster; private keys go by files that only the user can read."""
    texts = certificates.texts("scheduler", "client")
    # What jobs are told has to be names of files.
    paths = {
        "tls_ca_file": str(keys / "worker" / "ca.pem"),
        "tls_worker_cert": str(keys / "worker" / "worker.pem"),
        "tls_worker_key": str(keys / "worker" / "worker-key.pem"),
    }
    memory = -(-profile.memory // MEBI) + NANNY_MEBI
    return {
        "cores": 1,
        "processes": 1,
        "memory": profile.memory,
        "job_mem": f"{memory}M",
        "job_cpu": 1,
        "queue": profile.queue,
        "account": profile.account,
        "walltime": show_time(profile.walltime),
        "job_name": name,
        # A job that SLURM starts again by itself would come back under a name that is gone.
        "job_extra_directives": ["--no-requeue", *profile.directives],
        "job_directives_skip": [],
        "job_script_prologue": [],
        "shebang": "#!/usr/bin/env bash",
        "log_directory": str(logs),
        # In place of the shell, which would end at once when the job is cancelled, and leave the
        # worker behind where SLURM tells processes of a job by their parents.
        "python": f"exec {shlex.quote(profile.python)}",
        "interface": profile.interface,
        "death_timeout": ARRIVAL_SECONDS,
        "worker_command": WORKER,
        "worker_extra_args": [
            *("--memory", str(profile.memory)),
            *("--lifetime", str(profile.lifetime)),
        ],
        "scheduler_cls": GuardedScheduler,
        "scheduler_options": {"interface": profile.scheduler_interface, "port": 0},
        "security": GuardedSecurity(**(texts | paths)),
        "silence_logs": False,
        "name": "slurm",
    }
