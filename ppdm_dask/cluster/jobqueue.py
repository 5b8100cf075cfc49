"""dask-jobqueue's cluster and job, changed where many jobs with a common end ask for it."""

from __future__ import annotations

import asyncio
from typing import Any
from weakref import WeakKeyDictionary

from dask_jobqueue.slurm import SLURMCluster, SLURMJob
from distributed.core import Status

# sbatch processes at a time: the controller serves all users.
ABREAST = 8

_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()


class NamedJob(SLURMJob):
    """One job; ``job_id`` is SLURM's number for it, ``refusal`` why it could not be submitted."""

    refusal = ""

    async def start(self) -> None:
        """Submit the job; a refusal is noted, as it concerns all jobs alike."""
        async with _turns.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(ABREAST)):
            try:
                await super().start()
            except (RuntimeError, ValueError, OSError) as error:
                self.refusal = str(error)
                self.status = Status.running

    async def close(self) -> None:
        """Forget the job: all jobs of a cluster are cancelled together, by their name."""
        self.status = Status.closed
        self._event_finished.set()


class NamedJobs(SLURMCluster):
    """Cluster of such jobs."""

    job_cls = NamedJob

    def new_worker_spec(self) -> dict[str, Any]:
        """Name and kind of the next worker; no name comes twice, as a late worker may bear it."""
        self._i += 1
        return {self._new_worker_name(self._i): self.new_spec}
