"""The Client of Dask that is active where we are called."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from distributed import Client as Client

__all__ = ["active_client", "client_aside", "on_a_worker"]


def active_client() -> Client | None:
    """The client that Dask itself would take; None if there is none.

    Nothing is imported for it: the code that made a client has done that.
    """
    module = sys.modules.get("distributed.client")
    return None if module is None else cast("Client | None", module._get_global_client())


def on_a_worker() -> bool:
    """Whether this is within a task of a worker of Dask."""
    module = sys.modules.get("distributed.worker")
    if module is None:
        return False
    try:
        module.get_worker()
    except ValueError:
        return False
    return True


@contextmanager
def client_aside() -> Iterator[None]:
    """Context in which libraries that ask Dask for a scheduler find none but this thread.

    xarray would ask the active client for a lock where it writes, even into memory.
    """
    if active_client() is None:
        yield
        return
    import dask

    with dask.config.set(scheduler="synchronous"):
        yield
