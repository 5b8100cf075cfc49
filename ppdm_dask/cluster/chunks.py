"""Having the workers of one pool evaluate the chunks of a stack."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from distributed import Future, KilledWorker, get_worker

from ppdm_dask.arrays import Floats
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
from ppdm_dask.engine.interrupt import Interruption
from ppdm_dask.errors import ClusterError, PPDMError

if TYPE_CHECKING:
    pass

__all__ = ["ChunkSession"]


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
        """Take the function back from workers that go on without us."""
        with suppress(Exception):
            self.pool.client.unregister_worker_plugin(self.name)


def _evaluate_chunk(name: str, chunk: Floats) -> Any:
    """Task of one chunk; a KeyError if the worker lacks the plugin, so that it is sent again."""
    carrier = cast(Carrier, get_worker().plugins[name])
    try:
        function = carrier.content()
        # Arrays come read-only, for which kernels would be compiled anew.
        return function if isinstance(function, Unfit) else function(np.array(chunk))
    except BaseException as error:
        return Failure.of(error)
