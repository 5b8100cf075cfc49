"""What happens in a worker process: the work arrives as a plugin, batches as three numbers."""

from __future__ import annotations

import os
import pickle
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from distributed import WorkerPlugin, get_worker
from distributed.protocol import pickle as by_value

from ppdm_dask.cluster.peers import difference, own_versions
from ppdm_dask.engine.batches import Performer, Result, summarise
from ppdm_dask.engine.cells import Cell, Work
from ppdm_dask.errors import InputError, PPDMError

__all__ = ["Carrier", "Failure", "Unfit", "WorkPlugin", "perform_batch"]


@dataclass(frozen=True)
class Failure:
    """An exception of the work, told as a value: what a future raises is Dask's own trouble.

    Parameters
    ----------
    summary : str
        Type and message, one line.
    traceback : str
        As Python prints it.
    pickled : bytes or None
        The exception, if it can be pickled.
    """

    summary: str
    traceback: str
    pickled: bytes | None

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        """Describe an exception; one of ours without the value it is about."""
        if isinstance(error, PPDMError):
            error = error.without_data().with_traceback(error.__traceback__)
        try:
            pickled = pickle.dumps(error)
            pickle.loads(pickled)
        except Exception:
            pickled = None
        return cls(summarise(error), "".join(traceback.format_exception(error)), pickled)

    def restore(self) -> BaseException | None:
        """Bring the exception back, with the worker's traceback as a note; None if it cannot be."""
        if self.pickled is None:
            return None
        try:
            error = pickle.loads(self.pickled)
        except Exception:
            return None
        if not isinstance(error, BaseException):
            return None
        error.add_note(f"In a worker process:\n{self.traceback}")
        return error


@dataclass(frozen=True)
class Unfit:
    """A worker that came late and is not what the driver is.

    Parameters
    ----------
    reason : str
        Which worker, and what differs.
    """

    reason: str


class Carrier(WorkerPlugin):
    """Carries an object to each worker once, and to a worker that was started in place of another.

    Parameters
    ----------
    content : object
        Pickled here (by value what a script defines), unpickled by a worker's first task.
    what : str
        What it is, for messages.
    name : str
        Under which a worker keeps the plugin.
    log : str or None
        File of this machine that takes what the worker process writes to its standard error.
    compare : bool
        Whether each worker has to compare its versions with this process before its first task.

    Raises
    ------
    InputError
        If the object cannot be pickled.
    """

    def __init__(
        self, content: object, what: str, name: str, log: str | None, *, compare: bool = False
    ) -> None:
        self.name = name
        self.log = log
        try:
            self._pickled: bytes = by_value.dumps(content)
        except Exception as error:
            raise InputError(
                f"this {what} cannot be sent to other processes ({summarise(error)}); "
                "make it picklable, or use workers=0",
                content,
            ) from error
        self._versions = own_versions() if compare else None
        self._content: Any = None
        self._opened = False

    def setup(self, worker: Any) -> None:
        """Send standard error to the log; a crash then tells its story there, not on a terminal."""
        if self.log is not None:
            descriptor = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            os.dup2(descriptor, 2)
            os.close(descriptor)

    def content(self) -> Any:
        """The object, in a worker; an :class:`Unfit` where the worker is not what the driver is."""
        if not self._opened:
            if self._versions is not None:
                what = difference(self._versions, own_versions())
                if what:
                    return Unfit(f"worker {get_worker().address}: {what}")
            self._content = by_value.loads(self._pickled)
            self._opened = True
        return self._content


class WorkPlugin(Carrier):
    """Carries the work and its cells.

    Parameters
    ----------
    work : Work
        The computation.
    cells : sequence of Cell
        Batches name a cell by its position.
    name, log, compare
        As of :class:`Carrier`.
    """

    def __init__(
        self,
        work: Work,
        cells: Sequence[Cell],
        name: str,
        log: str | None,
        *,
        compare: bool = False,
    ) -> None:
        super().__init__(work, "work", name, log, compare=compare)
        self.cells = tuple(cells)
        self._performer: Performer | None = None

    def perform(self, index: int, start: int, stop: int) -> Result | Unfit:
        """Do repeats of the cell at position ``index``."""
        if self._performer is None:
            work = self.content()
            if isinstance(work, Unfit):
                return work
            self._performer = Performer(work)
        return self._performer.perform(self.cells[index], start, stop)


def perform_batch(name: str, index: int, start: int, stop: int) -> Result | Failure | Unfit:
    """Task of one batch.

    Raises
    ------
    KeyError
        If the worker lacks the plugin, so that the batch has to be sent again.
    """
    plugin = cast(WorkPlugin, get_worker().plugins[name])
    try:
        return plugin.perform(index, start, stop)
    except BaseException as error:
        return Failure.of(error)
