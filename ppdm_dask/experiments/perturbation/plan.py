"""A perturbation experiment: its cells, the work behind them, and the result from the ledger."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ppdm_dask.arrays import Floats
from ppdm_dask.engine.cells import Cell
from ppdm_dask.errors import InputError, RecipeError
from ppdm_dask.experiments.grid import moments
from ppdm_dask.experiments.inputs import Prepared, declared_codebook, encode_data, read_data
from ppdm_dask.experiments.parts import DataEntry
from ppdm_dask.experiments.perturbation.recipe import PerturbationRecipe, Setting
from ppdm_dask.experiments.perturbation.results import METRICS, PERTURBATION_REGISTRY
from ppdm_dask.experiments.perturbation.trials import (
    ORIGINAL,
    Material,
    PerturbationWork,
    lift_ranges,
    split_key,
)
from ppdm_dask.experiments.samples import DataPlan, draw_sample
from ppdm_dask.experiments.variables import assemble
from ppdm_dask.perturb import perturbation_from_config
from ppdm_dask.perturb.base import ColumnSummary
from ppdm_dask.shown import given, shown

if TYPE_CHECKING:
    import xarray as xr

    from ppdm_dask.experiments.kind import Finished


Arrays = dict[str, npt.NDArray[Any]]
Coordinates = Mapping[str, Sequence[str]]


def empty_arrays(coordinates: Coordinates, repeats: int, *, derived: bool = False) -> Arrays:
    """Arrays of the measured or the derived variables, filled with missing numbers."""
    sizes = {name: len(values) for name, values in coordinates.items()} | {"repeat": repeats}
    return {
        v.name: v.empty(tuple(sizes[dim] for dim in v.dims))
        for v in PERTURBATION_REGISTRY
        if (v.kind == "derived") == derived
    }


def build_dataset(
    measured: Arrays, coordinates: Coordinates, recipe: PerturbationRecipe
) -> xr.Dataset:
    """Assemble the result from arrays that :func:`empty_arrays` made, and derive its statistics."""
    arrays = {**measured, **_derive(measured, coordinates, recipe)}
    attributes = {
        "title": recipe.about.title,
        "recipe": recipe.name,
        "experiment": recipe.kind,
        "accept": recipe.usability.accept,
        "judges": json.dumps(list(recipe.usability.judges)),
        "interval": recipe.metrics.interval,
    }
    return assemble(PERTURBATION_REGISTRY, arrays, coordinates, ["setting"], attributes)


def _derive(arrays: Arrays, coordinates: Coordinates, recipe: PerturbationRecipe) -> Arrays:
    repeats = arrays["correct"].shape[-1]
    found = empty_arrays(coordinates, repeats, derived=True)

    def put(name: str, index: Any, values: npt.ArrayLike, scale: int = 1) -> None:
        mean, error, *_ = moments(values, scale)
        found[f"{name}_mean"][index], found[f"{name}_mean_se"][index] = mean, error

    accept = recipe.usability.accept
    sizes = [int(n) for n in arrays["n_test"]]
    for i, n in enumerate(sizes):
        put("majority", i, arrays["majority_correct"][i], n)
        for c, row in enumerate(arrays["benchmark_correct"][i]):
            put("benchmark", (i, c), row[row >= 0], n)
    for i, s in np.ndindex(arrays["undefined"].shape):
        done = arrays["correct"][i, s, 0] >= 0
        found["completed"][i, s] = np.count_nonzero(done)
        for name in METRICS:
            values = arrays[name][i, s]
            put(name, (i, s), values[done & ~np.isnan(values)])
        for c, correct in enumerate(arrays["correct"][i, s]):
            before = arrays["benchmark_correct"][i, c]
            both = done & (before > 0)
            # The release and the original share a repeat's split, so that r is a paired ratio.
            put("accuracy", (i, s, c), correct[done], sizes[i])
            put("r", (i, s, c), (before[both] - correct[both]) / before[both])
            put("delta_r", (i, s, c), (correct[both] - (1 - accept) * before[both]) / sizes[i])
    found["chosen"] = _choose(found, coordinates, recipe)
    return found


def _choose(found: Arrays, coordinates: Coordinates, recipe: PerturbationRecipe) -> Any:
    """Mark the most private acceptable setting of each entry on each data entry."""
    chosen = found["chosen"]
    labels, classifiers = list(coordinates["setting"]), list(coordinates["classifier"])
    judges = [classifiers.index(name) for name in recipe.usability.judges]
    for i, entry in enumerate(recipe.data):
        for spec in recipe.perturb:
            if entry.id not in spec.data:
                continue
            order = [labels.index(spec.label(spec.values[v])) for v in spec.by_privacy]
            if not (found["completed"][i, order] > 0).all():
                continue  # a more private setting that is still to come may be acceptable
            chosen[i, order] = 0
            for s in order:
                # By the means, as the paper does; standard errors stand beside them.
                if (found["r_mean"][i, s, judges] < recipe.usability.accept).all():
                    chosen[i, s] = 1
                    break
    return chosen


def check_perturbation(recipe: PerturbationRecipe) -> None:
    """Raise RecipeError where an attribute to perturb is not numeric; no data are read."""
    for i, entry in enumerate(recipe.data):
        codebook = declared_codebook(recipe, entry)
        for attribute in codebook.attributes:
            if attribute.name != codebook.target and not attribute.numeric:
                raise RecipeError(
                    f"{recipe.source}: data[{i}].codebook: got {given(entry.codebook)}; attribute "
                    f"{shown(attribute.name)} is nominal, and only numbers can be perturbed",
                    attribute,
                )


@dataclass(frozen=True, eq=False)
class PerturbationPlan(DataPlan):
    """The cells of a recipe on its data entries, which are in the recipe's order.

    ``values`` are their columns to perturb, in the codebooks' order: arrays of shape (n, m).
    """

    recipe: PerturbationRecipe
    prepared: Sequence[Prepared]
    values: Sequence[Floats]

    @classmethod
    def make(cls, recipe: PerturbationRecipe) -> PerturbationPlan:
        """Read the data; InputError where they are wrong, or too few for a setting."""
        found = [_read(recipe, entry) for entry in recipe.data]
        plan = cls(recipe, [prepared for prepared, _ in found], [values for _, values in found])
        plan._check_data()
        return plan

    def _params(self, prepared: Prepared, method: Mapping[str, Any]) -> dict[str, Any]:
        recipe = self.recipe
        return {
            "experiment": "perturbation",
            "data": self.data_of(prepared),
            "perturb": dict(method),
            "train": recipe.sweep.train,
            "classifiers": list(recipe.usability.classifiers),
            "interval": recipe.metrics.interval,
        }

    @cached_property
    def points(self) -> list[tuple[Setting, Cell]]:
        """Each setting with its cell."""
        repeats = self.recipe.sweep.repeats
        found = []
        for setting in self.recipe.settings:
            prepared = self.prepared[setting.data]
            params = self._params(prepared, setting.spec.at(setting.value))
            found.append((setting, Cell(f"{prepared.entry.id} {setting.label}", params, repeats)))
        return found

    @cached_property
    def benchmarks(self) -> list[Cell]:
        """One cell a data entry: the same classifiers on the original."""
        repeats = self.recipe.sweep.repeats
        return [
            Cell(f"{p.entry.id} original", self._params(p, ORIGINAL), repeats)
            for p in self.prepared
        ]

    @property
    def cells(self) -> list[Cell]:
        """Everything to compute."""
        return self.benchmarks + [cell for _, cell in self.points]

    @property
    def listed(self) -> list[tuple[Cell, str]]:
        """All cells, each with why it is undefined; here none is."""
        return [(cell, "") for cell in self.cells]

    @cached_property
    def work(self) -> PerturbationWork:
        """The computation behind the cells."""
        sweep = self.recipe.sweep
        materials = {}
        for prepared, values, cell in zip(self.prepared, self.values, self.benchmarks, strict=True):
            key, source = split_key(cell.params), self.recipe.source
            # True: each repeat draws its own split.
            sample = draw_sample(prepared, source, sweep.train, key, True, sweep.seed)
            materials[key] = Material(values, sample, lift_ranges(prepared.codebook))
        return PerturbationWork(materials, sweep.seed)

    def _check_data(self) -> None:
        """Refuse settings that a training part is too small for, before anything is computed."""
        for prepared, cell in zip(self.prepared, self.benchmarks, strict=True):
            material = self.work.materials[split_key(cell.params)]
            n_train = material.sample.n_train
            names = tuple(n for n in prepared.codebook.names if n != prepared.codebook.target)
            # The first records stand for any training part: what counts is how many there are.
            summary = ColumnSummary.of(material.values[:n_train], names)
            for setting, _ in self.points:
                if self.prepared[setting.data] is prepared:
                    try:
                        method = perturbation_from_config(setting.spec.at(setting.value))
                        method.check_summary(summary)
                    except InputError as error:
                        at = self.recipe.perturb.index(setting.spec)
                        what = f"{self.recipe.source}: perturb[{at}]: {setting.label} on the "
                        what += f"training part of {shown(prepared.entry.id)}: {error}"
                        raise RecipeError(what, error.subject) from None

    def collect(self, ledger: Finished) -> xr.Dataset:
        """The result from the finished repeats of all cells."""
        recipe = self.recipe
        repeats = recipe.sweep.repeats
        coordinates = {
            "data": [entry.id for entry in recipe.data],
            "setting": list(recipe.labels),
            "classifier": list(recipe.usability.classifiers),
        }
        arrays = empty_arrays(coordinates, repeats)
        # Entries may be meant for some of the data only, which leaves holes in the grid.
        arrays["undefined"][...] = "the recipe does not ask for it"
        for i, cell in enumerate(self.benchmarks):
            sample = self.work.materials[split_key(cell.params)].sample
            arrays["n_train"][i], arrays["n_test"][i] = sample.n_train, sample.n_test
            arrays["majority_correct"][i] = [
                sample.majority_correct(recipe.sweep.seed, repeat) for repeat in range(repeats)
            ]
            if (done := ledger.finished(cell)).size:
                correct = ledger.collect(cell)["correct"]
                arrays["benchmark_correct"][i][:, done] = correct.T
        for setting, cell in self.points:
            place = setting.data, recipe.labels.index(setting.label)
            arrays["undefined"][place] = ""
            arrays["entry"][place] = setting.spec.id
            arrays["parameter"][place] = setting.spec.axis
            arrays["value"][place] = setting.value
            arrays["published"][place] = setting.published
            if (done := ledger.finished(cell)).size:
                for name, values in ledger.collect(cell).items():
                    arrays[name][place][..., done] = np.moveaxis(values, 0, -1)
        return build_dataset(arrays, coordinates, recipe)


def _read(recipe: PerturbationRecipe, entry: DataEntry) -> tuple[Prepared, Floats]:
    """Records of a data entry, coded and as numbers."""
    codebook = declared_codebook(recipe, entry)
    frame, sha256 = read_data(recipe, entry, codebook)
    prepared = encode_data(recipe, entry, codebook, frame, sha256)
    columns = [
        a.read_numbers(frame[a.name]) for a in codebook.attributes if a.name != codebook.target
    ]
    return prepared, np.stack(columns, axis=1)
