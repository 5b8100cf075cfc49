"""The key of a lazy disguise: in the memory of its holder and of the cluster, and nowhere else.

A graph holds the number of a key, which is random and says nothing of it.  The key itself is
registered in the process that called ``disguise``.  When a graph with its number is sent to a
cluster, this process sends the key after it as a plug-in of the workers, over the same connection;
those that join later get it from the scheduler's memory.  Tasks look it up by number, and wait for
it.  When nothing holds the disguise any longer, the key is taken back.

So it is never part of a task, a result or a graph, which are what Dask names, logs, spills, shows
and pickles.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from distributed import Client, WorkerPlugin

from ppdm_dask.errors import ClusterError, InputError
from ppdm_dask.randomness import KeyedStream, SealedStream

if TYPE_CHECKING:
    from distributed import Worker

__all__ = ["HeldKey", "KeyNumber"]

WAIT_SECONDS = 60.0
"""How long a task waits for a key that is on its way."""

_changed = threading.Condition()
_held: dict[str, KeyedStream] = {}
_carried: dict[str, KeyedStream] = {}
_gone: set[str] = set()


class KeyNumber:
    """The number of a key, as it stands in a graph.

    Parameters
    ----------
    number : str
        Hexadecimal.
    """

    def __init__(self, number: str) -> None:
        self.number = number

    def __repr__(self) -> str:
        return f"KeyNumber({self.number[:8]})"

    def __dask_tokenize__(self) -> object:
        return ("ppdm_dask key", self.number)

    def __reduce__(self) -> tuple[Any, ...]:
        sent, client = _sent_by_dask()
        if not sent:
            raise InputError(
                "a lazy disguise holds a key in memory, which must not be written or copied; write "
                "its reports (to_frame().to_parquet()), or compute it here or through a Client",
                self,
            )
        held = _HOLDERS.get(self.number)
        if held is not None and client is not None:
            held.send(client)
        return KeyNumber, (self.number,)

    def stream(self, waiting: float = WAIT_SECONDS) -> KeyedStream:
        """The stream of the key.

        Raises
        ------
        ClusterError
            If this process has not got it in time: its holder is gone.
        """
        with _changed:
            _changed.wait_for(lambda: self._find() or self.number in _gone, waiting)
            found = self._find()
        if found is None:
            raise ClusterError(
                "the key of this disguise is no longer in this process, because the lazy reports "
                "and all frames made from them were deleted; these reports cannot be made again: "
                "keep one of them, or write the reports to files"
            )
        return found

    def _find(self) -> KeyedStream | None:
        return _held.get(self.number) or _carried.get(self.number)


class HeldKey(KeyNumber):
    """A key, in the process that made it; it is forgotten with this object.

    Parameters
    ----------
    stream : KeyedStream, optional
        By default one with a new secret.
    """

    def __init__(self, stream: KeyedStream | None = None) -> None:
        super().__init__(uuid4().hex)
        self._clients: weakref.WeakSet[Client] = weakref.WeakSet()
        _held[self.number] = KeyedStream() if stream is None else stream
        _HOLDERS[self.number] = self
        weakref.finalize(self, _forget, self.number, self._clients)

    def send(self, client: Client) -> None:
        """Have the workers of a cluster get the key, without waiting for it."""
        if client in self._clients:
            return
        self._clients.add(client)
        plugin = _Carrier(self.number, _held[self.number].sealed())
        _soon(client, partial(client.register_plugin, plugin, name=_name(self.number)))


_HOLDERS: weakref.WeakValueDictionary[str, HeldKey] = weakref.WeakValueDictionary()


def _name(number: str) -> str:
    return f"ppdm-disguise-{number}"


def _soon(client: Client, call: Callable[[], Any]) -> None:
    """Call in the client's own thread: this one may hold a lock that the thread waits for."""
    loop: Any = client.loop
    loop.add_callback(_quietly, client, call)


async def _quietly(client: Client, call: Callable[[], Any]) -> None:
    # A client that is closed meanwhile has no workers that could wait; they say what they miss.
    if client.status == "running":
        with suppress(Exception):
            await call()


def _forget(number: str, clients: weakref.WeakSet[Client]) -> None:
    with _changed:
        # A task that is left over from a failed computation must not wait for it.
        _gone.add(number)
        _held.pop(number, None)
        _changed.notify_all()
    for client in list(clients):
        with suppress(Exception):
            _soon(client, partial(client.unregister_worker_plugin, _name(number)))


class _Carrier(WorkerPlugin):
    """Brings the key to a worker."""

    def __init__(self, number: str, sealed: SealedStream) -> None:
        self.number = number
        self._sealed = sealed

    def setup(self, worker: Worker) -> None:
        with _changed:
            _gone.discard(self.number)
            _carried[self.number] = self._sealed.open()
            _changed.notify_all()

    def teardown(self, worker: Worker) -> None:
        with _changed:
            _gone.add(self.number)
            _carried.pop(self.number, None)
            _changed.notify_all()


def _sent_by_dask() -> tuple[bool, Client | None]:
    """Whether Dask's communication pickles us, and the client that sends a graph, if one does."""
    frame, sent = sys._getframe(1), False
    while frame.f_back is not None:
        frame = frame.f_back
        module = str(frame.f_globals.get("__name__", ""))
        sent = sent or module.startswith("distributed.")
        if module == Client.__module__ and isinstance(frame.f_locals.get("self"), Client):
            return True, frame.f_locals["self"]
    return sent, None
