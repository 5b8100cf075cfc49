"""Batches in threads of this process: for work that runs without the interpreter's lock.

Threads begin at once and share what is loaded and compiled, which makes them cheaper than worker
processes. Work that holds the lock would only wait for itself.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from queue import Empty, SimpleQueue

from ppdm_dask.engine.cells import Batch, Performer, Result, TrialError, summarise
from ppdm_dask.engine.interrupt import Interruption, Stopped
from ppdm_dask.engine.planner import Tally

POLL_SECONDS = 0.2
GRACE_SECONDS = 1.0
"""After a signal: longer than a batch should take, so that what is in flight is stored too."""

Answer = tuple[Batch, Result | BaseException]


class Threads:
    """Threads that take batches from one queue and put results into another.

    Parameters
    ----------
    performer : Performer
        Does the batches of all threads.
    count : int
        How many threads, 1 or more.
    """

    def __init__(self, performer: Performer, count: int) -> None:
        self.performer = performer
        self.count = count
        self.in_flight = 0
        self._waiting: SimpleQueue[Batch | None] = SimpleQueue()
        self._answers: SimpleQueue[Answer] = SimpleQueue()
        for i in range(count):
            # A daemon: after a signal nobody waits longer than the grace for a batch.
            threading.Thread(target=self._work, name=f"ppdm-batches-{i}", daemon=True).start()

    def _work(self) -> None:
        while (batch := self._waiting.get()) is not None:
            try:
                answer: Result | BaseException = self.performer.perform(
                    batch.cell, batch.start, batch.stop
                )
            except BaseException as error:
                answer = error
            self._answers.put((batch, answer))

    def give(self, batch: Batch) -> None:
        """Have a batch done."""
        self.in_flight += 1
        self._waiting.put(batch)

    def take(self, seconds: float) -> Answer:
        """A batch that is done, with its result or exception; Empty after this time without one."""
        answer = self._answers.get(timeout=seconds)
        self.in_flight -= 1
        return answer

    def end(self) -> None:
        """Have the threads end after the batches that they do now."""
        with suppress(Empty):
            while self._waiting.get_nowait() is not None:
                self.in_flight -= 1
        for _ in range(self.count):
            self._waiting.put(None)


def drive(tally: Tally, performer: Performer, stop: Interruption, count: int) -> None:
    """Do in threads what is left of a run.

    Parameters
    ----------
    tally : Tally
        Hands out batches and takes results.
    performer : Performer
        Does them.
    stop : Interruption
        Says when to leave off.
    count : int
        How many threads.

    Raises
    ------
    Stopped
        If a signal said so; the batches that were in flight are stored if they ended in time.
    TrialError
        If the work raised an exception.
    """
    threads = Threads(performer, count)
    try:
        while True:
            # One more than there are threads, so that none waits while a result is stored.
            while threads.in_flight <= count and (batch := tally.planner.next()) is not None:
                threads.give(batch)
            if not threads.in_flight:
                return
            stop.check()
            with suppress(Empty):
                _store(tally, *threads.take(POLL_SECONDS))
    except Stopped:
        _store_last(tally, threads)
        raise
    finally:
        threads.end()


def _store(tally: Tally, batch: Batch, answer: Result | BaseException) -> None:
    if isinstance(answer, BaseException):
        raise TrialError(f"{batch}: {summarise(answer)}", batch) from answer
    tally.store(batch, answer)


def _store_last(tally: Tally, threads: Threads) -> None:
    """Store what ends soon after a signal."""
    threads.end()
    until = time.monotonic() + GRACE_SECONDS
    with suppress(Empty, TrialError):
        while threads.in_flight and (left := until - time.monotonic()) > 0:
            _store(tally, *threads.take(left))
