"""What is solved one after the other, kept in a checkpoint between runs: levels, and epsilons."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from ppdm_dask.search.checkpoints import (
    DamagedCheckpoint,
    read_checkpoint,
    require_file,
    write_checkpoint,
)

Arrays = Mapping[str, npt.NDArray[Any]]
T = TypeVar("T")

SECONDS = 5.0
"""Time after which what was solved since is written."""


class Solved:
    """Arrays of each result, in order, and of what the next one begins from.

    Parameters
    ----------
    path : Path or None
        None keeps nothing.
    identity : mapping
        What makes these results these, as JSON values.
    most : int
        Bytes that they can have.

    Raises
    ------
    InputError
        Where no checkpoint could be: in a folder that is not there, at a device.
    DamagedCheckpoint
        If the file is not a checkpoint, a damaged one, or one of something else.
    """

    def __init__(self, path: Path | None, identity: Mapping[str, Any], most: int) -> None:
        self.path = path
        self.results: list[Arrays] = []
        self.state: Arrays = {}
        self._identity = dict(identity)
        self._written = 0
        self._last = monotonic()
        if path is not None and require_file(path):
            facts, arrays = read_checkpoint(path, most)
            done = facts.pop("done", None)
            if facts != self._identity or not isinstance(done, int) or done < 0:
                raise self._refusal("this is the checkpoint of another search")
            self.state = _below("state", arrays)
            self.results = [_below(str(i), arrays) for i in range(done)]
            self._written = done

    def taken_up(
        self,
        read: Callable[[int, Arrays], T],
        most: int,
        begin_from: Callable[[Arrays], None] | None = None,
    ) -> list[T]:
        """What the file has of at most so many results, each as `read` makes it of its arrays.

        Parameters
        ----------
        read : callable
        most : int
        begin_from : callable, optional
            Is given what the next result begins from, where the file has any results.

        Raises
        ------
        DamagedCheckpoint
            Where either raises a KeyError or ValueError.
        """
        try:
            if len(self.results) > most:
                raise ValueError(f"it has {len(self.results)} results, of {most}")
            found = [read(i, arrays) for i, arrays in enumerate(self.results)]
            if found and begin_from is not None:
                begin_from(self.state)
        except (KeyError, ValueError, TypeError) as error:
            what = " ".join(str(error).split())
            raise self._refusal(f"no checkpoint of this search: {what}") from None
        return found

    def add(self, result: Callable[[], Arrays], state: Callable[[], Arrays] = dict) -> None:
        """Take one more result, and what the next one begins from; write both if it is time."""
        if self.path is None:
            return
        self.results.append(result())
        self.state = state()
        if monotonic() > self._last + SECONDS:
            self._write()

    @contextmanager
    def at_the_end(self) -> Iterator[None]:
        """Write what is not yet written, whatever ends the work."""
        try:
            yield
        finally:
            if len(self.results) > self._written:
                self._write()

    def _refusal(self, what: str) -> DamagedCheckpoint:
        return DamagedCheckpoint(f"{self.path}: {what}; remove it to begin again", self.path)

    def _write(self) -> None:
        assert self.path is not None
        named = {str(i): arrays for i, arrays in enumerate(self.results)} | {"state": self.state}
        arrays = {f"{i}.{name}": a for i, each in named.items() for name, a in each.items()}
        write_checkpoint(self.path, {**self._identity, "done": len(self.results)}, arrays)
        # After the write: on a slow disk the search must not write all the time.
        self._written, self._last = len(self.results), monotonic()


def _below(prefix: str, arrays: Arrays) -> Arrays:
    start = f"{prefix}."
    return {k.removeprefix(start): v for k, v in arrays.items() if k.startswith(start)}


def finite(arrays: Arrays, name: str, shape: tuple[int | None, ...]) -> npt.NDArray[np.float64]:
    """An array of finite numbers; None in the shape is any length.

    Raises
    ------
    KeyError, ValueError
        If it is not there, or something else.
    """
    array = arrays[name]
    fits = array.dtype.kind == "f" and array.ndim == len(shape)
    if not fits or any(n not in (None, m) for n, m in zip(shape, array.shape, strict=True)):
        raise ValueError(f"{name} has shape {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} has numbers that are not finite")
    return array
