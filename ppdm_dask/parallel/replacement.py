"""New jobs in place of those that ended, until jobs turn out not to work."""

# Dask has annotated few of its functions.
# mypy: allow-untyped-calls

from __future__ import annotations

import asyncio
import logging
import re
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Any

from distributed import SchedulerPlugin

from ppdm_dask.errors import ClusterError
from ppdm_dask.parallel.jobs import squeue_command

__all__ = ["Replacement"]

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
