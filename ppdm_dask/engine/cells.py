"""What an experiment asks of a scheduler: cells, and trials that depend on their key alone."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Self, runtime_checkable

import numpy.typing as npt

__all__ = ["Cell", "Checkpointed", "Work"]


@dataclass(frozen=True)
class Cell:
    """A grid point of a sweep.

    Parameters
    ----------
    id : str
        Readable name, unique within the run.
    params : mapping of str to JSON scalar
        All that the cell's numbers depend on besides the seed; its hash keys the random streams,
        so that adding a grid point moves no other number.
    repeats : int
        Monte Carlo repeats of this cell, 1 or more.
    """

    id: str
    params: Mapping[str, Any]
    repeats: int

    @property
    def key(self) -> int:
        """64-bit key of the parameters, in ``[2**63, 2**64)`` so that it always fills two words."""
        text = json.dumps(dict(self.params), sort_keys=True, separators=(",", ":"))
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little") | 1 << 63


class Work(Protocol):
    """The computation behind the cells of one run; picklable, sent to a worker once."""

    def trials(self, cell: Cell, start: int, stop: int) -> dict[str, npt.NDArray[Any]]:
        """Results of repeats ``start .. stop - 1``; each array's first axis is the repeat.

        The numbers depend on the cell, the repeat and the run's seed alone.
        """
        ...  # pragma: no cover


@runtime_checkable
class Checkpointed(Work, Protocol):
    """A work whose repeats take long enough to be gone on with from their middle."""

    def keeping(self, folder: Path) -> Self:
        """The same work with checkpoints in a folder, which the run makes and removes.

        Where a worker does not see the folder, a repeat begins anew.
        """
        ...  # pragma: no cover
