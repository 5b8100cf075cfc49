"""Sending batches to one pool of workers in a sliding window, and taking what comes back."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from itertools import islice
from queue import Empty, SimpleQueue
from time import monotonic, sleep
from typing import Any

from distributed import Future, KilledWorker

from ppdm_dask.cluster.client import Pool
from ppdm_dask.cluster.losses import (
    PoolLost,
    WorkerWatch,
    check_loss,
    deliver,
    describe_death,
    lost_with_connection,
    plugin_name,
)
from ppdm_dask.cluster.worker import Failure, Unfit, WorkPlugin, perform_batch
from ppdm_dask.engine.cells import Batch, Result, TrialError, Work
from ppdm_dask.engine.interrupt import Interruption, Stopped
from ppdm_dask.engine.planner import Suspects, Tally
from ppdm_dask.errors import ClusterError, ClusterUnreachable, PPDMError

LOG = logging.getLogger(__name__)

WINDOW = 4  # batches in flight a worker
POLL_SECONDS = 0.2
START_SECONDS = 60.0  # for a pool's first batch, before which workers load and compile


class Session:
    """Work with one pool, until nothing is missing or the pool is lost.

    Parameters
    ----------
    tally : Tally
        Hands out batches and takes results.
    suspects : Suspects
        Batches whose workers died.
    work : Work
        The computation.
    stop : Interruption
        Says when to leave off.
    pool : Pool
        The workers.
    stall_seconds : float
        Time without a finished batch after which the pool counts as stuck.
    """

    def __init__(
        self,
        tally: Tally,
        suspects: Suspects,
        work: Work,
        stop: Interruption,
        pool: Pool,
        stall_seconds: float,
    ) -> None:
        self.tally = tally
        self.suspects = suspects
        self.work = work
        self.stop = stop
        self.pool = pool
        self.stall_seconds = stall_seconds
        self.name = plugin_name(pool.client)
        self.positions = {cell.id: index for index, cell in enumerate(tally.cells)}
        self.in_flight: dict[str, tuple[Batch, Future[Any]]] = {}
        self.finished: SimpleQueue[tuple[str, object]] = SimpleQueue()
        self.loop: Any = pool.client.loop
        self.alone = False
        self.sent = 0
        self.losses = 0
        self.watcher = WorkerWatch(pool)
        self.last = monotonic()

    def drive(self) -> None:
        """Send batches and take results until there is nothing to send."""
        remote = self.pool.remote
        log = None if remote or self.pool.log is None else str(self.pool.log)
        plugin = WorkPlugin(self.work, self.tally.cells, self.name, log, compare=remote)
        plural = "s" if self.pool.workers > 1 else ""
        self.tally.enter(f"starting {self.pool.workers} worker{plural}")
        try:
            with lost_with_connection():
                if remote:
                    self.watcher.greet(self.stop)
                self.pool.client.register_plugin(plugin, name=self.name)
            while self.fill():
                self.stop.check()
                self.watch()
                with suppress(Empty):
                    self.take(*self.finished.get(timeout=POLL_SECONDS))
                    while True:
                        # What has come meanwhile is made up for in one go.
                        self.take(*self.finished.get_nowait())
        except Stopped:
            self.take_finished()
            raise
        finally:
            self.leave()

    def fill(self) -> bool:
        """Send what the window has room for; whether anything is in flight."""
        waiting = self.suspects.waiting
        if waiting:
            # The window drains first; then one suspect at a time.
            if not self.in_flight:
                self.alone = True
                self.send([waiting.popleft()])
            return True
        if not self.in_flight:
            self.alone = False
        if not self.alone:
            room = WINDOW * self.pool.workers - len(self.in_flight)
            batches = list(islice(iter(self.tally.planner.next, None), room))
            if batches:
                self.send(batches)
        return bool(self.in_flight)

    def send(self, batches: Sequence[Batch]) -> None:
        """Submit batches, each under a key of its own; one message costs little more than another.

        Parameters
        ----------
        batches : sequence of Batch
            One or more.
        """
        # Fresh keys: Dask would answer a batch that is sent again with its earlier result or error.
        keys = [f"{self.name}-{self.sent + i}" for i in range(1, len(batches) + 1)]
        self.sent += len(batches)
        try:
            with lost_with_connection():
                futures = self.pool.client.map(
                    perform_batch,
                    [self.name] * len(batches),
                    [self.positions[batch.cell.id] for batch in batches],
                    [batch.start for batch in batches],
                    [batch.stop for batch in batches],
                    key=keys,
                    pure=False,
                )
        except PoolLost:
            for batch in batches:
                self.put_back(batch)
            raise
        for key, batch, future in zip(keys, batches, futures, strict=True):
            self.in_flight[key] = (batch, future)
            self.loop.add_callback(deliver, self.pool.client, key, future, self.finished)

    def take(self, key: str, answer: object) -> None:
        """Store, judge or put back what came of a batch."""
        batch, future = self.in_flight[key]
        if answer is None and future.status == "error":
            answer = future.exception()
        del self.in_flight[key]
        future.release()
        self.last = monotonic()
        if isinstance(answer, Result):
            if self.tally.mode.startswith("starting"):
                self.tally.mode = self.tally.mode.removeprefix("starting ")
            self.losses = 0
            self.tally.store(batch, answer)
        elif isinstance(answer, Unfit):
            self.put_back(batch)
            raise ClusterError(f"{self.pool.source}: {answer.reason}", batch)
        elif isinstance(answer, Failure):
            raise TrialError(f"{batch}: {answer.summary}", batch) from answer.restore()
        elif isinstance(answer, KilledWorker):
            self.suspects.judge(batch, alone=self.alone, reason=describe_death(self.pool, answer))
        else:
            self.lose(batch, answer)

    def lose(self, batch: Batch, answer: object) -> None:
        """Put a batch back whose result was lost through no fault of its own."""
        self.put_back(batch)
        self.losses += 1
        check_loss(self.pool, answer, self.losses, 2 * WINDOW * self.pool.workers)

    def put_back(self, batch: Batch) -> None:
        """Return a batch that was not done, to be sent again."""
        if self.alone:
            self.suspects.waiting.appendleft(batch)
        else:
            self.tally.planner.put_back(batch)

    def watch(self) -> None:
        """Give the pool up when nothing finishes."""
        now = monotonic()
        if not self.watcher.check():
            self.last = now
        start = START_SECONDS if self.tally.mode.startswith("starting") else 0.0
        limit = max(self.stall_seconds, start)
        if now < self.last + limit:
            # The usual case, in which thousands of batches in flight need not be gone through.
            return
        longest = max(self.tally.planner.expected(batch) for batch, _ in self.in_flight.values())
        limit = max(limit, 20 * longest)
        if now < self.last + limit:
            return
        for batch, _ in self.in_flight.values():
            if self.alone:
                self.tally.quarantine(batch, f"it ran alone for {limit:.0f} s without an end")
            else:
                self.suspects.waiting.append(batch)
        self.in_flight.clear()
        raise PoolLost(f"no batch finished in {limit:.0f} s")

    def take_finished(self) -> None:
        """Store what has arrived already."""
        with suppress(Empty, PoolLost, TrialError):
            while True:
                self.take(*self.finished.get_nowait())

    def leave(self) -> None:
        """Return what is in flight, for the next pool, and free this one."""
        for batch, future in self.in_flight.values():
            self.put_back(batch)
            future.release()
        self.in_flight.clear()
        if self.pool.shared or self.pool.kept:
            # Workers stay without this work; a failure here must not hide why the session ends.
            with suppress(Exception):
                self.pool.client.unregister_worker_plugin(self.name)


MOST_REBUILDS = 3  # of pools lost in a row without a finished batch
# A scheduler that others keep running may take a while to be there again.
PATIENCE_SECONDS = 300.0
MOST_WAIT_SECONDS = 30.0


def dispatch(
    tally: Tally,
    work: Work,
    stop: Interruption,
    connect: Callable[[], AbstractContextManager[Pool]],
    stall_seconds: float,
) -> None:
    """Continue until nothing is missing but what was quarantined.

    Parameters
    ----------
    tally : Tally
        Hands out batches and takes results.
    work : Work
        The computation.
    stop : Interruption
        Says when to leave off.
    connect : callable
        Returns a context that yields a :class:`Pool`; called again when a pool was lost.
    stall_seconds : float
        Time without a finished batch after which a pool counts as stuck; batches that should take
        long get 20 times what they should, and the first batch of a pool at least a minute.

    Raises
    ------
    Stopped
        If a signal said so; the workers have ended.
    TrialError
        If the work raised an exception.
    ClusterError
        If the cluster does not answer the first time, or must not be used.
    PPDMError
        If pools are lost one after the other.
    """
    suspects = Suspects(tally)
    fruitless, connected, fruitful = 0, False, monotonic()
    while tally.planner.unfinished:
        before = tally.computed + len(tally.quarantined)
        patient = False
        try:
            with connect() as pool:
                connected = True
                LOG.info("%d workers", pool.workers, extra={"fields": {"shared": pool.shared}})
                patient = pool.shared
                Session(tally, suspects, work, stop, pool, stall_seconds).drive()
        except (PoolLost, ClusterUnreachable) as loss:
            if not connected:
                raise
            LOG.info("workers are lost: %s", loss)
            if tally.computed + len(tally.quarantined) > before:
                fruitless, fruitful = 0, monotonic()
                continue
            fruitless += 1
            patient = patient or isinstance(loss, ClusterUnreachable)
            waited = monotonic() - fruitful
            if fruitless > MOST_REBUILDS and not (patient and waited < PATIENCE_SECONDS):
                raise PPDMError(
                    f"workers were lost {fruitless} times in a row without finishing a batch: "
                    f"{loss}; what is stored is kept"
                ) from loss
            # Waits double: a scheduler that restarts may take a second or minutes.
            _wait(min(2.0 ** (fruitless - 1), MOST_WAIT_SECONDS), stop)


def _wait(seconds: float, stop: Interruption) -> None:
    end = monotonic() + seconds
    while monotonic() < end:
        stop.check()
        sleep(0.05)
