"""When a search writes its checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from ppdm_dask.search.checkpoint_file import require_file

if TYPE_CHECKING:
    from ppdm_dask.search.spea2 import Evolution

__all__ = ["Keeper"]

GENERATIONS = 500
"""Generations after which a checkpoint is written."""

SECONDS = 60.0
"""Time after which one is written earlier, where an objective takes long."""


class Keeper:
    """Takes up the checkpoint of a search, and writes it now and then.

    Parameters
    ----------
    path : Path or None
        None keeps nothing.

    Raises
    ------
    InputError
        Where no checkpoint could be: in a folder that is not there, at a device.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.there = path is not None and require_file(path)
        self._last = monotonic()

    def take_up(
        self, evolution: Evolution, take: Callable[[dict[str, Any]], None] | None = None
    ) -> None:
        """Go on from the file; parameters as of :meth:`Evolution.restore`."""
        assert self.path is not None
        evolution.restore(self.path, take)

    def after_generation(
        self, evolution: Evolution, more: Callable[[], Mapping[str, Any]] | None = None
    ) -> None:
        """Write the file if it is due, with the state of what goes on beside the evolution."""
        if self.path is None:
            return
        now = monotonic()
        due = evolution.finished or not evolution.generation % GENERATIONS
        if due or now > self._last + SECONDS:
            evolution.save(self.path, None if more is None else more())
            self._last = monotonic()
