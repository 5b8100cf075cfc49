"""A search's populations on the workers of one pool, where a user's objective is worth it."""

from __future__ import annotations

import signal
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from queue import Empty, SimpleQueue
from time import perf_counter
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from distributed import Future, KilledWorker, get_worker

from ppdm_dask.arrays import Floats
from ppdm_dask.cluster.active import active_client, on_a_worker
from ppdm_dask.cluster.client import Pool
from ppdm_dask.cluster.losses import (
    WorkerWatch,
    check_loss,
    deliver,
    describe_death,
    lost_with_connection,
    plugin_name,
)
from ppdm_dask.cluster.worker import Carrier, Failure, Unfit
from ppdm_dask.engine.interrupt import Interruption, Stopped
from ppdm_dask.errors import ClusterError, InputError, PPDMError
from ppdm_dask.search.problem import BLOCK
from ppdm_dask.shown import given
from ppdm_dask.system import usable_cores

if TYPE_CHECKING:
    from distributed import Client


POLL_SECONDS = 0.2
MOST_LOSSES = 8  # results in a row, a worker


class ChunkSession:
    """One function on the workers of one pool; what a lost worker was at is sent to another.

    Parameters
    ----------
    pool : Pool
    function : callable
        Of a chunk; travels to each worker once.
    log : str or None
        File of this machine that takes what workers write to standard error.

    Raises
    ------
    InputError
        If the function cannot be pickled.
    PoolLost
        If the scheduler does not answer.
    """

    def __init__(self, pool: Pool, function: Callable[[Floats], Any], log: str | None) -> None:
        self.pool = pool
        self.name = plugin_name(pool.client)
        self.watcher = WorkerWatch(pool)
        self.finished: SimpleQueue[tuple[str, object]] = SimpleQueue()
        self.sent = 0
        self.losses = 0
        carrier = Carrier(function, "objective", self.name, log, compare=pool.remote)
        with lost_with_connection():
            pool.client.register_plugin(carrier, name=self.name)

    def greet(self, stop: Interruption) -> None:
        """Wait for a first worker elsewhere, which has to be what this process is."""
        if self.pool.remote:
            self.watcher.greet(stop)

    def evaluate(self, chunks: Sequence[Floats], found: dict[int, Any], stop: Interruption) -> None:
        """Put what the function returns for each chunk into `found`, by the chunk's number.

        Raises
        ------
        Stopped
            If a signal said so.
        PoolLost
            If the workers are gone; what is in `found` stays.
        PPDMError
            If a chunk ended its worker several times, or the function raised what cannot be sent.
        Exception
            What else the function raised.
        """
        waiting = deque(i for i in range(len(chunks)) if i not in found)
        in_flight: dict[str, tuple[int, Future[Any]]] = {}
        try:
            while waiting or in_flight:
                # One a worker: a chunk that waits behind another would be blamed with it.
                while waiting and len(in_flight) < self.pool.workers:
                    number = waiting.popleft()
                    key, future = self._send(chunks[number])
                    in_flight[key] = (number, future)
                stop.check()
                self.watcher.check()
                with suppress(Empty):
                    key, answer = self.finished.get(timeout=POLL_SECONDS)
                    if key not in in_flight:  # left by a stack that was given up
                        continue
                    number, future = in_flight.pop(key)
                    if answer is None and future.status == "error":
                        answer = future.exception()
                    future.release()
                    if self._arrived(answer, len(chunks[number])):
                        found[number] = answer
                    else:
                        waiting.append(number)
        finally:
            for _, future in in_flight.values():
                future.release()

    def _send(self, chunk: Floats) -> tuple[str, Future[Any]]:
        self.sent += 1
        key = f"{self.name}-{self.sent}"
        client = self.pool.client
        with lost_with_connection():
            future = client.submit(_evaluate_chunk, self.name, chunk, key=key, pure=False)
        loop: Any = client.loop
        loop.add_callback(deliver, client, key, future, self.finished)
        return key, future

    def _arrived(self, answer: object, size: int) -> bool:
        """Whether an answer is the function's; if not, the chunk has to be sent again."""
        if isinstance(answer, Unfit):
            raise ClusterError(f"{self.pool.source}: {answer.reason}", answer)
        if isinstance(answer, Failure):
            raise answer.restore() or PPDMError(f"objective: {answer.summary}", answer)
        if isinstance(answer, KilledWorker):
            how = describe_death(self.pool, answer, alone=False)
            raise PPDMError(f"objective: on a chunk of {size} matrices {how}", answer)
        if answer is not None and not isinstance(answer, BaseException):
            self.losses = 0
            return True
        self.losses += 1
        check_loss(self.pool, answer, self.losses, MOST_LOSSES * self.pool.workers)
        return False

    def leave(self) -> None:
        """Take the function back from workers that run on without us."""
        with suppress(Exception):
            self.pool.client.unregister_worker_plugin(self.name)


def _evaluate_chunk(name: str, chunk: Floats) -> Any:
    """Task of one chunk; a KeyError if the worker lacks the plugin, so that it is sent again."""
    carrier = cast(Carrier, get_worker().plugins[name])
    try:
        function = carrier.content()
        # Arrays come read-only, for which kernels would be compiled again.
        return function if isinstance(function, Unfit) else function(np.array(chunk))
    except BaseException as error:
        return Failure.of(error)


WORTH_SECONDS = 0.05
"""What a matrix has to cost for workers to be worth it."""

LONGEST_SECONDS = 30.0
"""What a chunk may take, so that no more is lost with a worker: a first population is long."""

MOST_BYTES = 4 << 20  # a chunk; Dask complains about larger messages

MOST_REBUILDS = 3  # of pools lost in a row without a finished chunk


@contextmanager
def population_map(
    client: Client | None = None,
    *,
    workers: int | None = None,
    log: Path | None = None,
    worth_seconds: float = WORTH_SECONDS,
) -> Iterator[PopulationMap]:
    """Map for :func:`ppdm_dask.optimize` that evaluates an expensive objective on workers.

    The first matrices are evaluated in this process.  Where one of them costs less than 50 ms all
    others are too.  Else each worker gets a chunk of every generation's children.  The matrices
    that are found are the same, to the bit, with any number of workers or none, and whichever of
    them are killed: chunks are cut where the objective's stacks end.

    Parameters
    ----------
    client : distributed.Client, optional
        Connection to a cluster, which stays open.  Excludes `workers`.
    workers : int, optional
        Worker processes on this machine, started when they are worth it; 0 stays in this process,
        the default is one per core.  They listen on the loopback interface and are gone at the end.
    log : path, optional
        File that takes what these workers and Dask's parts have to say.
    worth_seconds : float
        What a matrix has to cost.

    Raises
    ------
    InputError
        If an argument is out of its range; in the search, if the objective cannot be pickled.
    PPDMError
        In the search: if a chunk ended its worker four times, or workers cannot be kept alive.

    Examples
    --------
    >>> import ppdm_dask as pp
    >>> from ppdm_dask.cluster.population import population_map
    >>> def objective(P):
    ...     guess = (P * [0.3, 0.7]).max(axis=2).sum(axis=1)
    ...     return [[1 - a, 1 - abs(d)] for a, d in zip(guess, P[:, 0, 0] - P[:, 0, 1])]
    >>> with population_map(workers=2) as population:
    ...     front = pp.optimize(
    ...         [0.3, 0.7], 1000, method="spea2", generations=5, objective=objective, map=population
    ...     )
    >>> population.away  # it costs some microseconds a matrix
    False
    """
    if workers is not None and client is not None:
        raise InputError("give workers or client, not both", workers)
    if workers is not None and workers < 0:
        raise InputError(f"workers is {workers}; it must be 0 or more", workers)
    if not 0 <= worth_seconds < float("inf"):
        raise InputError(
            f"worth_seconds: got {given(worth_seconds)}; 0 or more is needed", worth_seconds
        )
    population = PopulationMap(client, workers, log, worth_seconds)
    try:
        yield population
    finally:
        population.close()


def offered_map(client: Client | None) -> AbstractContextManager[PopulationMap | None]:
    """Map for a search: on a client, or the active one of this process; None where there is none.

    Within a task the active client is the worker's, whose threads may all wait as this one would.
    """
    if client is None and not on_a_worker():
        client = active_client()
    return nullcontext() if client is None else population_map(client, worth_seconds=WORTH_SECONDS)


class PopulationMap:
    """Applies a function to the matrices of stacks; made by :func:`population_map`.

    Attributes
    ----------
    seconds : float or None
        What a matrix cost when it was measured.
    away : bool
        Whether workers evaluate.
    """

    def __init__(
        self, client: Client | None, workers: int | None, log: Path | None, worth_seconds: float
    ) -> None:
        self.seconds: float | None = None
        self.away = False
        self._client, self._workers, self._log = client, workers, log
        self._worth_seconds = worth_seconds
        self._function: Callable[[Floats], Any] | None = None
        self._open = ExitStack()
        self._session: ChunkSession | None = None

    def __call__(self, function: Callable[[Floats], Any], parts: Iterable[Floats]) -> list[Any]:
        """What the function returns for consecutive chunks of the parts, in their order."""
        if function is not self._function:
            self.close()
            self._function, self.seconds, self.away = function, None, False
        found: list[Any] = []
        for P in parts:
            start = 0
            if self.seconds is None:
                here, start = self._measure(function, P)
                found += here
            if start < len(P):
                rest = P[start:]
                found += self._on_workers(rest) if self.away else [function(rest)]
        return found

    def close(self) -> None:
        """End what was started."""
        self._session = None
        self._open.close()

    def _measure(self, function: Callable[[Floats], Any], P: Floats) -> tuple[list[Any], int]:
        """Evaluate the first block here, and the second: the first may load and compile."""
        found: list[Any] = []
        start, cost = 0, float("inf")
        while start < len(P) and len(found) < 2 and cost >= self._worth_seconds:
            block = P[start : start + BLOCK]
            began = perf_counter()
            found.append(function(block))
            cost = min(cost, (perf_counter() - began) / len(block))
            start += len(block)
        if found:
            self.seconds = cost
            alone = self._client is None and self._workers is None and usable_cores() == 1
            worth = cost >= self._worth_seconds
            self.away = worth and self._workers != 0 and not alone
        return found, start

    def _on_workers(self, P: Floats) -> list[Any]:
        try:
            with Interruption() as stop:
                try:
                    found = self._through_losses(P, stop)
                except Stopped:
                    self.close()
                    raise
            # What came after the last look, with the last chunk, counts too.
            stop.check()
            return found
        except Stopped as stopped:
            if stopped.args[0] == signal.SIGINT:
                raise KeyboardInterrupt from None
            sys.exit(128 + stopped.args[0])

    def _through_losses(self, P: Floats, stop: Interruption) -> list[Any]:
        from ppdm_dask.cluster.losses import PoolLost

        found: dict[int, Any] = {}
        chunks: list[Floats] = []
        losses = 0
        while not chunks or len(found) < len(chunks):
            before = len(found)
            try:
                session = self._connect(stop)
                chunks = chunks or cut(P, session.pool.workers, self.seconds or 0.0)
                session.evaluate(chunks, found, stop)
            except PoolLost as loss:
                self.close()
                losses = losses + 1 if len(found) == before else 0
                if losses > MOST_REBUILDS:
                    raise PPDMError(
                        f"workers were lost {losses} times in a row without finishing a chunk: "
                        f"{loss}"
                    ) from loss
        return [found[i] for i in range(len(chunks))]

    def _connect(self, stop: Interruption) -> ChunkSession:
        if self._session is None:
            try:
                self._session = self._begin(stop)
            except BaseException:
                self.close()
                raise
        return self._session

    def _begin(self, stop: Interruption) -> ChunkSession:
        # Loading Dask takes half a second, which a cheap objective need not spend.
        from dask.system import CPU_COUNT

        from ppdm_dask.cluster.client import borrowed_pool, local_pool

        assert self._function is not None
        log = self._log
        if self._client is not None:
            pool = self._open.enter_context(borrowed_pool(self._client))
            log = None
        else:
            if log is None:
                log = Path(self._open.enter_context(tempfile.TemporaryDirectory())) / "workers.log"
            pool = self._open.enter_context(local_pool(self._workers or CPU_COUNT, log))
            # What is gone at the end is nowhere to be read.
            pool = replace(pool, log=self._log)
        session = ChunkSession(pool, self._function, None if log is None else str(log))
        if pool.shared:
            self._open.callback(session.leave)
        session.greet(stop)
        return session


def cut(P: Floats, workers: int, seconds: float) -> list[Floats]:
    """A chunk a worker, or several where one would be long; each begins at a multiple of 8.

    Parameters
    ----------
    P : array, shape (m, K, n)
    workers : int
    seconds : float
        What a matrix costs.
    """
    blocks = -(-len(P) // BLOCK)
    turns = max(1.0, len(P) * seconds / LONGEST_SECONDS, P.nbytes / MOST_BYTES) / workers
    number = min(blocks, workers * int(np.ceil(max(turns, 1.0))))
    edges = [blocks * i // number * BLOCK for i in range(number)] + [len(P)]
    return [P[low:high] for low, high in pairwise(edges)]
