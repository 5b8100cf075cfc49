"""A pool of batch jobs: dask-jobqueue's SLURMCluster, kept at one size and ended with its driver.

Dask's adaptive scaling, the usual way to live with a walltime, compares what was asked for with
what should be, so with a fixed size it replaces no job that ended. Here SLURM is asked which jobs
there are, and what is missing is submitted anew.
"""

# Dask has annotated few of its functions.
# mypy: allow-untyped-calls

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import dask

from ppdm_dask.errors import ClusterError
from ppdm_dask.parallel.batches import summarise
from ppdm_dask.parallel.client import SETTINGS, Pool
from ppdm_dask.parallel.foreign import NETWORK, connected
from ppdm_dask.parallel.guarded import GuardedScheduler, GuardedSecurity
from ppdm_dask.parallel.jobs import cancel_jobs, end_jobs
from ppdm_dask.parallel.profiles.slurm import SLURMProfile, show_time
from ppdm_dask.parallel.replacement import Replacement
from ppdm_dask.parallel.security import ROLES, Certificates, write_certificates
from ppdm_dask.parallel.spec import close_cluster
from ppdm_dask.parallel.surroundings import interrupts_blocked, logging_to

__all__ = ["slurm_pool"]

MEBI = 2**20
# The process that watches over a worker counts against the job's memory too.
NANNY_MEBI = 256
# Jobs may wait in a queue for as long as they like; whoever waits for them may interrupt.
PATIENCE_SECONDS = 30 * 86400.0
# For SLURM's answer that the jobs have ended; then this is left to the watching process.
END_SECONDS = 10.0
# A job whose scheduler does not answer ends after this.
ARRIVAL_SECONDS = 30

WORKER = "ppdm_dask.parallel.job"
WATCHER = "ppdm_dask.parallel.jobs"

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
        from ppdm_dask.parallel.jobqueue import NamedJobs
    except ImportError as error:
        package = (error.name or "").partition(".")[0].replace("_", "-")
        what = f"{profile.source}: {package} is not installed"
        raise ClusterError(f"{what}; pip install 'ppdm_dask[cluster]'", profile) from error
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
        # Otherwise SLURM does not answer, and the other goes on trying after this process.
        watcher.stdin.close()


def _options(
    profile: SLURMProfile, name: str, certificates: Certificates, keys: Path, logs: Path
) -> dict[str, Any]:
    """Arguments of the cluster; private keys go by files that the user alone can read."""
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
