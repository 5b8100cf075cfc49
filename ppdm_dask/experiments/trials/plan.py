"""A trial over its grid: the cells, the work behind them, and the result from the ledger."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ppdm_dask.arrays import Floats
from ppdm_dask.engine.cells import Cell
from ppdm_dask.errors import InputError
from ppdm_dask.experiments.inputs import Prepared, declared_codebook, prepare_all
from ppdm_dask.experiments.kind import Finished
from ppdm_dask.experiments.parts import DataEntry, GridPoint
from ppdm_dask.experiments.samples import DataPlan
from ppdm_dask.experiments.trials.recipe import TrialRecipe
from ppdm_dask.experiments.trials.results import build_dataset
from ppdm_dask.experiments.trials.trial import Trial
from ppdm_dask.randomness import SimulationStream

if TYPE_CHECKING:
    import xarray as xr

    from ppdm_dask.data.codebook import Records

KEPT = 8
"""Cells whose preparation a process keeps."""


def check_trial(recipe: TrialRecipe) -> None:
    """Raise RecipeError where a codebook does not serve a setting; no data are read."""
    books = {entry.id: declared_codebook(recipe, entry) for entry in recipe.data}
    for point in recipe.points():
        if point.entry is not None:
            try:
                recipe.setting(point).check_codebook(books[point.entry.id])
            except InputError as error:
                raise recipe.place(point, error) from None


class TrialWork:
    """The repeats of a trial's cells; it goes to a worker once.

    Parameters
    ----------
    settings : mapping of int to (Trial, int)
        By the key of a cell: the trial at its setting, and which records it has.
    records : sequence of Records or None
    seed : int
    """

    def __init__(
        self,
        settings: Mapping[int, tuple[Trial, int]],
        records: Sequence[Records | None],
        seed: int,
    ) -> None:
        self.settings, self.records, self.seed = settings, records, seed
        self._ready: dict[int, Any] = {}

    # What is prepared stays behind: each process makes its own, of what only it needs.
    def __getstate__(self) -> tuple[Any, ...]:
        return self.settings, self.records, self.seed

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.__init__(*state)  # type: ignore[misc]

    def trials(self, cell: Cell, start: int, stop: int) -> dict[str, Floats]:
        """Results of repeats ``start .. stop - 1``, a column per variant if there are any."""
        trial, data = self.settings[cell.key]
        if cell.key not in self._ready:
            if len(self._ready) >= KEPT:
                self._ready.pop(next(iter(self._ready)))
            self._ready[cell.key] = trial.ready(self.records[data])
        streams = [SimulationStream(self.seed, (cell.key, i)) for i in range(start, stop)]
        found = trial.batch(streams, self._ready[cell.key])
        names = [each.name for each in trial.measures]
        shape = (stop - start, *([len(trial.variants)] if trial.variants else []))
        arrays = {name: np.asarray(values, float) for name, values in found.items()}
        if set(arrays) != set(names) or any(a.shape != shape for a in arrays.values()):
            got = {name: array.shape for name, array in arrays.items()}
            raise ValueError(f"{type(trial).__name__} gave {got}; {names} of shape {shape} are due")
        return {name: arrays[name] for name in names}


@dataclass(frozen=True, eq=False)
class TrialPlan(DataPlan):
    """The cells of a recipe on its data entries, if there are any, in the recipe's order."""

    recipe: TrialRecipe
    prepared: Sequence[Prepared]

    @classmethod
    def make(cls, recipe: TrialRecipe) -> Self:
        """Read the data of a recipe."""
        return cls(recipe, prepare_all(recipe))

    @cached_property
    def records(self) -> list[Records | None]:
        """Records of the data entries; None in place of them where there are none."""
        return [each.records for each in self.prepared] or [None]

    @cached_property
    def points(self) -> list[tuple[GridPoint[DataEntry | None], Trial, Cell, str]]:
        """Each grid point with its trial, its cell and why it is undefined, if it is."""
        found = []
        for point in self.recipe.points():
            trial = self.recipe.setting(point)
            params = {
                "experiment": "trial",
                "trial": self.recipe.trial.name,
                "setting": trial.stated(),
            }
            if self.prepared:
                params["data"] = self.data_of(self.prepared[point.index[0]])
            cell = Cell(point.id, params, self.recipe.sweep.repeats)
            try:
                reason = trial.undefined(self.records[point.index[0]])
            except InputError as error:
                raise self.recipe.place(point, error) from None
            found.append((point, trial, cell, reason))
        return found

    @property
    def listed(self) -> list[tuple[Cell, str]]:
        """All cells, each with why it is undefined; an empty text where it is not."""
        return [(cell, reason) for *_, cell, reason in self.points]

    @property
    def cells(self) -> list[Cell]:
        """Everything to compute."""
        return [cell for cell, reason in self.listed if not reason]

    @cached_property
    def work(self) -> TrialWork:
        """The computation behind the cells."""
        settings = {cell.key: (trial, point.index[0]) for point, trial, cell, _ in self.points}
        return TrialWork(settings, self.records, self.recipe.sweep.seed)

    def collect(self, ledger: Finished) -> xr.Dataset:
        """The result from the finished repeats of all cells."""
        done = {
            point.index: (ledger.finished(cell), ledger.collect(cell))
            for point, _, cell, reason in self.points
            if not reason
        }
        undefined = {point.index: reason for point, *_, reason in self.points}
        return build_dataset(self.recipe, done, undefined)
