"""What is solved one after the other, kept in a checkpoint between runs: levels, and epsilons."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import monotonic
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from ppdm_dask.search.checkpoints import (
    DamagedCheckpoint,
    read_checkpoint,
    require_file,
    write_checkpoint,
)

Arrays = Mapping[str, npt.NDArray[Any]]

SECONDS = 5.0
"""Time after which what was solved since is written."""


class Result(Protocol):
    """What is kept."""

    def arrays(self) -> Arrays:
        """Its numbers by name."""
        ...  # pragma: no cover


class Resumable(Protocol):
    """What solves one after the other, each from where the one before ended."""

    def state(self) -> Arrays:
        """What the next one begins from."""
        ...  # pragma: no cover

    def begin_from(self, state: Arrays) -> None:
        """Continue from there; a KeyError or ValueError where that cannot be."""
        ...  # pragma: no cover


W = TypeVar("W")
R = TypeVar("R", bound=Result)


def most_bytes(several: int, n: int) -> int:
    """More than the file of so many designs of n categories has."""
    return (1 << 20) + 64 * several * (n + 10) ** 3


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
        self._results: list[Arrays] = []
        self._state: Arrays = {}
        self._identity = dict(identity)
        self._written = 0
        self._last = monotonic()
        if path is not None and require_file(path):
            facts, arrays = read_checkpoint(path, most)
            done = facts.pop("done", None)
            if facts != self._identity or not isinstance(done, int) or done < 0:
                raise self._refusal("this is the checkpoint of another search")
            self._state = _below("state", arrays)
            self._results = [_below(str(i), arrays) for i in range(done)]
            self._written = done

    def each(
        self,
        wanted: Sequence[W],
        solve: Callable[[W], R],
        read: Callable[[W, Arrays], R],
        hook: Callable[[int], None] | None = None,
        solver: Resumable | None = None,
    ) -> list[R]:
        """A result for each that is wanted, from the file as far as it goes.

        What ends the work, too, leaves all that was solved in the file.

        Parameters
        ----------
        wanted : sequence
        solve, read : callable
            Make a result of what is wanted; `read` of the arrays in the file, too.
        hook : callable, optional
            Called with the number of results after each one that is solved.
        solver : Resumable, optional
            What `solve` belongs to, where a result depends on those before.

        Raises
        ------
        DamagedCheckpoint
            Where `read` or the solver raises a KeyError or ValueError.
        """
        found = self._taken_up(wanted, read, solver)
        try:
            for one in wanted[len(found) :]:
                found.append(solve(one))
                if self.path is not None:
                    self._add(found[-1].arrays(), {} if solver is None else solver.state())
                if hook is not None:
                    hook(len(found))
        finally:
            if len(self._results) > self._written:
                self._write()
        return found

    def _taken_up(
        self, wanted: Sequence[W], read: Callable[[W, Arrays], R], solver: Resumable | None
    ) -> list[R]:
        try:
            if len(self._results) > len(wanted):
                raise ValueError(f"it has {len(self._results)} results, of {len(wanted)}")
            found = list(map(read, wanted, self._results))
            if found and solver is not None:
                solver.begin_from(self._state)
        except (KeyError, ValueError, TypeError) as error:
            what = " ".join(str(error).split())
            raise self._refusal(f"no checkpoint of this search: {what}") from None
        return found

    def _add(self, result: Arrays, state: Arrays) -> None:
        """Take one more result, and what the next one begins from; write both if it is time."""
        self._results.append(result)
        self._state = state
        if monotonic() > self._last + SECONDS:
            self._write()

    def _refusal(self, what: str) -> DamagedCheckpoint:
        return DamagedCheckpoint(f"{self.path}: {what}; remove it to begin again", self.path)

    def _write(self) -> None:
        assert self.path is not None
        named = {str(i): arrays for i, arrays in enumerate(self._results)} | {"state": self._state}
        arrays = {f"{i}.{name}": a for i, each in named.items() for name, a in each.items()}
        write_checkpoint(self.path, {**self._identity, "done": len(self._results)}, arrays)
        # After the write: on a slow disk the search must not write all the time.
        self._written, self._last = len(self._results), monotonic()


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
