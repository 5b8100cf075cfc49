"""Sending batches to workers in a sliding window, through the loss of any worker or of all."""

# Dask has annotated few of its functions.
# mypy: allow-untyped-calls

from __future__ import annotations

import uuid
from collections import Counter, deque
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from queue import Empty, SimpleQueue
from time import monotonic, sleep
from typing import Any

from distributed import Future, KilledWorker
from distributed.scheduler import NoValidWorkerError

from ppdm_dask.errors import PPDMError
from ppdm_dask.experiments.plan import Work
from ppdm_dask.parallel.batches import Batch, TrialError
from ppdm_dask.parallel.client import Pool
from ppdm_dask.parallel.interrupt import Interruption, Stopped
from ppdm_dask.parallel.perform import Result
from ppdm_dask.parallel.tally import Tally
from ppdm_dask.parallel.worker import Failure, WorkPlugin, perform_batch

__all__ = ["Dispatcher"]

WINDOW = 4  # batches in flight a worker
POLL_SECONDS = 0.2
MEND_SECONDS = 2.0
FETCH_SECONDS = 60.0
MOST_REBUILDS = 3  # pools lost in a row without a finished batch
MOST_SPLITS = 12  # of suspect batches, a cell


class PoolLost(Exception):
    """The workers, or the way to them, are gone or stuck; others may do better."""


class Dispatcher:
    """Has workers do what a tally's planner hands out, through the loss of any of them.

    A batch whose workers died several times is only *suspect*, since its neighbours on the worker
    get the same marks. Suspects run again, each alone in the pool; one that ends its worker there
    too is cut in halves, and what cannot be cut is quarantined.

    Parameters
    ----------
    tally : Tally
        Takes the results.
    work : Work
        The computation.
    stop : Interruption
        Says when to leave off.
    connect : callable
        Returns a context that yields a :class:`Pool`; called again when a pool was lost.
    stall_seconds : float
        Time without a finished batch after which a pool counts as stuck; batches that should take
        long get 20 times what they should.
    """

    def __init__(
        self,
        tally: Tally,
        work: Work,
        stop: Interruption,
        connect: Callable[[], AbstractContextManager[Pool]],
        stall_seconds: float,
    ) -> None:
        self.tally = tally
        self.work = work
        self.stop = stop
        self.connect = connect
        self.stall_seconds = stall_seconds
        self.suspects: deque[Batch] = deque()
        self._splits: Counter[str] = Counter()

    def run(self) -> None:
        """Go on until nothing is missing but what was quarantined.

        Raises
        ------
        Stopped
            If a signal said so; the workers have ended.
        TrialError
            If the work raised an exception.
        PPDMError
            If pools are lost one after the other.
        """
        fruitless = 0
        while self.tally.planner.unfinished:
            before = self.tally.computed + len(self.tally.quarantined)
            try:
                with self.connect() as pool:
                    _Session(self, pool).drive()
            except PoolLost as loss:
                moved = self.tally.computed + len(self.tally.quarantined) > before
                fruitless = 1 if moved else fruitless + 1
                if fruitless > MOST_REBUILDS:
                    raise PPDMError(
                        f"workers were lost {fruitless} times in a row without finishing a batch: "
                        f"{loss}; what is stored is kept"
                    ) from loss
                self._wait(2.0 ** (fruitless - 1))

    def _wait(self, seconds: float) -> None:
        end = monotonic() + seconds
        while monotonic() < end:
            self.stop.check()
            sleep(0.05)

    def judge(self, batch: Batch, *, alone: bool, reason: str) -> None:
        """Decide on a batch whose workers died."""
        if not alone:
            self.suspects.append(batch)
        elif batch.size > 1 and self._splits[batch.cell.id] < MOST_SPLITS:
            self._splits[batch.cell.id] += 1
            self.suspects.extendleft(reversed(self.tally.planner.split(batch)))
        else:
            self.tally.quarantine(batch, reason)


class _Session:
    """Work with one pool."""

    def __init__(self, dispatcher: Dispatcher, pool: Pool) -> None:
        self.dispatcher = dispatcher
        self.tally = dispatcher.tally
        self.pool = pool
        self.name = f"ppdm-{uuid.uuid4().hex}"
        self.positions = {cell.id: index for index, cell in enumerate(self.tally.cells)}
        self.in_flight: dict[str, tuple[Batch, Future[Any]]] = {}
        self.finished: SimpleQueue[str] = SimpleQueue()
        self.alone = False
        self.sent = 0
        self.losses = 0
        self.last = self.last_mend = monotonic()

    def drive(self) -> None:
        """Send batches and take results until there is nothing to send."""
        log = None if self.pool.log is None else str(self.pool.log)
        plugin = WorkPlugin(self.dispatcher.work, self.tally.cells, self.name, log)
        plural = "s" if self.pool.workers > 1 else ""
        self.tally.enter(f"starting {self.pool.workers} worker{plural}")
        try:
            self.pool.client.register_plugin(plugin, name=self.name)
            while self.fill():
                self.dispatcher.stop.check()
                self.watch()
                with suppress(Empty):
                    self.take(self.finished.get(timeout=POLL_SECONDS))
        except Stopped:
            self.take_finished()
            raise
        finally:
            self.leave()

    def fill(self) -> bool:
        """Send what the window has room for; whether anything is in flight."""
        suspects = self.dispatcher.suspects
        if suspects:
            # The window drains first; then one suspect at a time.
            if not self.in_flight:
                self.alone = True
                self.send(suspects.popleft())
            return True
        if not self.in_flight:
            self.alone = False
        if not self.alone:
            while len(self.in_flight) < WINDOW * self.pool.workers:
                batch = self.tally.planner.next()
                if batch is None:
                    break
                self.send(batch)
        return bool(self.in_flight)

    def send(self, batch: Batch) -> None:
        """Submit one batch under a key of its own."""
        self.sent += 1
        key = f"{self.name}-{self.sent}"
        future = self.pool.client.submit(
            perform_batch,
            self.name,
            self.positions[batch.cell.id],
            batch.start,
            batch.stop,
            key=key,
            pure=False,
        )
        self.in_flight[key] = (batch, future)
        future.add_done_callback(self.note)

    def note(self, future: Future[Any]) -> None:
        """Tell the main thread that a future is done."""
        self.finished.put(str(future.key))

    def take(self, key: str) -> None:
        """Store, judge or put back what came of a batch."""
        batch, future = self.in_flight[key]
        answer: object = None
        if future.status == "finished":
            answer = self.fetch(future)
        elif future.status == "error":
            answer = future.exception()
        if answer is None and future.status == "pending":
            # Its worker ended before the result was fetched, and it runs again.
            future.add_done_callback(self.note)
            return
        del self.in_flight[key]
        future.release()
        self.last = monotonic()
        if isinstance(answer, Result):
            if self.tally.mode.startswith("starting"):
                self.tally.mode = self.tally.mode.removeprefix("starting ")
            self.losses = 0
            self.tally.store(batch, answer)
        elif isinstance(answer, Failure):
            raise TrialError(f"{batch}: {answer.summary}", batch) from answer.restore()
        elif isinstance(answer, KilledWorker):
            self.dispatcher.judge(batch, alone=self.alone, reason=self.death(answer))
        else:
            self.lose(batch, answer)

    def fetch(self, future: Future[Any]) -> object:
        """Fetch the result of a finished future; None if it went with its worker."""
        end = monotonic() + FETCH_SECONDS
        while future.status == "finished" and monotonic() < end:
            try:
                answer: object = future.result(timeout=1.0)
                return answer
            except TimeoutError:
                self.dispatcher.stop.check()
            except Exception as error:
                return error
        return None

    def death(self, killed: KilledWorker) -> str:
        """Say how a worker ended, and where more is to be read."""
        times = killed.allowed_failures + 1
        end = f"its worker process died {times} times while it ran alone"
        last = self.pool.last_death()
        where = "" if self.pool.log is None else f"; see {self.pool.log}"
        return end + (f" (last: {last})" if last else "") + where

    def lose(self, batch: Batch, answer: object) -> None:
        """Put a batch back whose result was lost through no fault of its own."""
        if self.alone:
            self.dispatcher.suspects.appendleft(batch)
        else:
            self.tally.planner.put_back(batch)
        self.losses += 1
        if isinstance(answer, NoValidWorkerError):
            where = "" if self.pool.log is None else f"; see {self.pool.log}"
            raise PoolLost(f"no worker process is left or can be started{where}")
        if self.losses > 2 * WINDOW * self.pool.workers or self.pool.client.status != "running":
            raise PoolLost(f"results do not arrive ({answer or 'cancelled'})")

    def watch(self) -> None:
        """Have lost workers replaced; give the pool up when nothing finishes."""
        now = monotonic()
        if now > self.last_mend + MEND_SECONDS:
            self.pool.mend()
            self.last_mend = now
        longest = max(self.tally.planner.expected(batch) for batch, _ in self.in_flight.values())
        limit = max(self.dispatcher.stall_seconds, 20 * longest)
        if now < self.last + limit:
            return
        for batch, _ in self.in_flight.values():
            if self.alone:
                self.tally.quarantine(batch, f"it ran alone for {limit:.0f} s without an end")
            else:
                self.dispatcher.suspects.append(batch)
        self.in_flight.clear()
        raise PoolLost(f"no batch finished in {limit:.0f} s")

    def take_finished(self) -> None:
        """Store what has arrived already; the time to leave is short."""
        end = monotonic() + 1.0
        with suppress(Empty, Stopped, PoolLost, TrialError):
            while monotonic() < end:
                key = self.finished.get_nowait()
                if self.in_flight[key][1].status == "finished":
                    self.take(key)

    def leave(self) -> None:
        """Return what is in flight, for the next pool, and free this one."""
        for batch, future in self.in_flight.values():
            if self.alone:
                self.dispatcher.suspects.appendleft(batch)
            else:
                self.tally.planner.put_back(batch)
            future.release()
        self.in_flight.clear()
        if self.pool.log is None:
            # The pool goes on without us.
            with suppress(Exception):
                self.pool.client.unregister_worker_plugin(self.name)
