"""A sweep over designs: its cells, the work behind them, and the result made from the ledger.

What needs no repeat is done here too: the check of a recipe's designs against its codebooks, and
the privacy of the cells, which follows from design and data.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from ppdm_dask import privacy
from ppdm_dask.audit.adversary import Population, disclose
from ppdm_dask.data.codebook import Records
from ppdm_dask.designs import Design, Identity, design_from_config
from ppdm_dask.designs.multigroup import RandomGroups, scheme_from_config
from ppdm_dask.engine.cells import Cell
from ppdm_dask.errors import DesignError, RecipeError
from ppdm_dask.experiments.inputs import Prepared, declared_codebook, prepare_all
from ppdm_dask.experiments.kind import Finished
from ppdm_dask.experiments.learners import LEARNERS
from ppdm_dask.experiments.parts import DataEntry, GridPoint
from ppdm_dask.experiments.samples import DataPlan, Sample, draw_sample
from ppdm_dask.experiments.sweep.recipe import Recipe
from ppdm_dask.experiments.sweep.results import (
    ADVERSARIES,
    DISCLOSURES,
    SPLITS_AVERAGED,
    build_dataset,
    empty_arrays,
)
from ppdm_dask.experiments.sweep.trials import Engine, PlainEngine, Results, Setting
from ppdm_dask.files.fields import show
from ppdm_dask.kernels import has_numba

if TYPE_CHECKING:
    import xarray as xr


def fill_privacy(arrays: dict[str, npt.NDArray[Any]], plan: SweepPlan) -> None:
    """Fill what the result says on privacy: PSE, its curves, and what adversaries learn."""
    populations = [Population.of(prepared.records) for prepared in plan.prepared]
    starts = np.cumsum([0, *(len(population.names) for population in populations)])
    for point, cell, _ in plan.points:
        setting = plan.work.setting(cell)
        entry, *where = point.index
        population = populations[entry]
        for i, name in enumerate(population.names, int(starts[entry])):
            # None where the design is not lumpable to the attribute: no law of its own report.
            channel = setting.design.marginal([name])
            if channel is not None:
                pse = privacy.pse(channel, population.laws[name])
                arrays["pse_attribute"][(i, *where)] = pse
        for name, value in _disclosures(setting, population).items():
            arrays[name][point.index] = value
    for i, w_a in enumerate(plan.recipe.w_a):
        for point in plan.recipe.points():
            channel = single_attribute(plan.recipe.design_at(point))
            if channel is not None:
                pse = privacy.pse(channel, [1 - w_a, w_a])
                arrays["pse_curve"][(i, *point.index[1:])] = pse


def _disclosures(setting: Setting, population: Population) -> dict[str, float]:
    """What each adversary learns in a cell, by variable."""
    scheme = setting.design
    repeats = 1
    if isinstance(scheme, RandomGroups) and scheme.redrawn and scheme.groups > 1:
        # What leaks depends on who shares a group; a mean over all repeats would take too long.
        repeats = SPLITS_AVERAGED
    designs = [setting.design_for(repeat) for repeat in range(repeats)]
    found = {}
    for adversary in ADVERSARIES:
        # A single attribute's report is the same in all groups, unless their thetas differ.
        own = adversary == "own" and scheme.marginal(population.names[:1]) is not None
        each = [disclose(adversary, design, population) for design in designs[: 1 if own else None]]
        for measure in each[0]._fields:
            values = [getattr(disclosure, measure) for disclosure in each]
            found[f"{measure}_{adversary}"] = math.fsum(values) / len(values)
    return found


def single_attribute(config: Mapping[str, Any]) -> Design | None:
    """The design of a single binary attribute; None where a configuration needs several."""
    alone = {**config, "attributes": ["A"], "shape": [2]}
    if isinstance(config.get("groups"), int):
        # However many groups there are, a single attribute is in one.
        alone |= {"groups": [["A"]]}
        alone.pop("split", None)
    try:
        design = design_from_config(alone)
    except DesignError:
        return None
    # With labels it is about one attribute, not about any.
    return None if any(design.categories) else design


# A design's message begins with its parameter: "q: ...", "theta[1]: ..." or "w_y of 'age': ...".
_PARAMETER = re.compile(r"(?P<name>\w+)(?:\[\d+\]| of '[^']*')?: (?P<rest>.*)", re.DOTALL)


def check_recipe(recipe: Recipe) -> None:
    """Check what only the codebooks and the design can tell; no data are read.

    A RecipeError names the dotted path of the parameter, such as ``sweep.grid.q[3]``.
    """
    shapes, books = {}, {}
    for entry in recipe.data:
        book = declared_codebook(recipe, entry)
        binary = entry.binarise is not None
        # Labels of binarised data are known when the data are read.
        books[entry.id] = None if binary else book
        shapes[entry.id] = (list(book.names), [2] * len(book.names) if binary else list(book.shape))
    for point in recipe.points():
        attributes, shape = shapes[point.entry.id]
        config = {**recipe.design_at(point), "attributes": attributes, "shape": shape}
        try:
            scheme = scheme_from_config(config)
            declared = books[point.entry.id]
            if declared is not None and isinstance(scheme, Design):
                scheme.bind(declared, positions=True)
        except DesignError as error:
            raise _located(recipe, point, error) from None
    for i, figure in enumerate(recipe.figures):
        for point in recipe.points() if figure.w_a else ():
            if single_attribute(recipe.design_at(point)) is None:
                raise RecipeError(
                    f"{recipe.source}: figure[{i}].w_a: got {show(list(figure.w_a))}; leave the "
                    "figure out: the design does not disguise each attribute by itself",
                    figure,
                )


def _located(recipe: Recipe, point: GridPoint[DataEntry], error: DesignError) -> RecipeError:
    """Return the same complaint, with the recipe's file and the dotted path of the parameter."""
    message = " ".join(str(error).split())
    match = _PARAMETER.fullmatch(message)
    name, rest = (match["name"], match["rest"]) if match else ("", message)
    path, value = _place(recipe, point, name)
    if path == "design":
        rest = message  # what looked like a parameter's name was the beginning of a sentence
    if not rest.startswith("got "):
        rest = f"got {show(value)}; {rest}" if value is not None else rest
    return RecipeError(f"{recipe.source}: {path}: {rest}", error.subject)


def _place(recipe: Recipe, point: GridPoint[DataEntry], name: str) -> tuple[str, Any]:
    axes = list(recipe.sweep.grid)
    if name in axes:
        position = point.index[1 + axes.index(name)]
        return f"sweep.grid.{name}[{position}]", point.values[name]
    if name in recipe.design.parameters:
        return f"design.{name}", recipe.design.parameters[name]
    return "design", None


def choose_engine(setting: Setting) -> Engine:
    """The fastest engine that can compute a cell; the plain one can compute all."""
    if not has_numba():
        return PlainEngine(setting)
    # Not at the top: numba and the compiled loops, which checking a recipe does without.
    from ppdm_dask.experiments.sweep.engines import BinaryID3, BinaryNaiveBayes

    for engine in (BinaryNaiveBayes, BinaryID3):
        if engine.serves(setting):
            return engine(setting)
    return PlainEngine(setting)


def build_design(config: Mapping[str, Any], records: Records) -> Design | RandomGroups:
    """The design of a cell over all attributes of the records, or its groups still to be dealt.

    Labels that the recipe states are those of the records; without labels the order of the
    codebook is the design's, as sweeps only simulate.
    """
    codebook = records.codebook
    whole = {"attributes": list(codebook.names), "shape": list(codebook.shape)}
    scheme = scheme_from_config({**config, **whole})
    return scheme if isinstance(scheme, RandomGroups) else scheme.bind(codebook, positions=True)


def split_key(params: Mapping[str, Any]) -> int:
    """Key of a cell's split: it depends only on the data and the share."""
    return Cell("split", {k: params[k] for k in ("data", "train", "split")}, 1).key


class SweepWork:
    """The repeats of a sweep's cells, on samples by :func:`split_key`; it goes to a worker once."""

    def __init__(self, samples: Mapping[int, Sample], seed: int) -> None:
        self.samples = samples
        self.seed = seed
        self._engines: dict[int, Engine] = {}

    # Engines stay behind: each process makes its own, of what only it needs.
    def __getstate__(self) -> tuple[Mapping[int, Sample], int]:
        return self.samples, self.seed

    def __setstate__(self, state: tuple[Mapping[int, Sample], int]) -> None:
        self.__init__(*state)  # type: ignore[misc]

    def setting(self, cell: Cell) -> Setting:
        """What the repeats of a cell have in common."""
        sample = self.samples[split_key(cell.params)]
        design = build_design(cell.params["design"], sample.records)
        return Setting(sample, design, cell.params["mine"], self.seed, cell.key)

    def _engine(self, cell: Cell) -> Engine:
        if cell.key not in self._engines:
            self._engines[cell.key] = choose_engine(self.setting(cell))
        return self._engines[cell.key]

    def unlocked(self, cell: Cell) -> bool:
        """Whether a compiled engine serves the cell."""
        return not isinstance(self._engine(cell), PlainEngine)

    def trials(self, cell: Cell, start: int, stop: int) -> Results:
        """Results of repeats ``start .. stop - 1`` of a cell."""
        return self._engine(cell).run(start, stop)


@dataclass(frozen=True, eq=False)
class SweepPlan(DataPlan):
    """The cells of a recipe on its data entries, which are in the recipe's order."""

    recipe: Recipe
    prepared: Sequence[Prepared]

    @classmethod
    def make(cls, recipe: Recipe) -> Self:
        """Read the data of a recipe."""
        return cls(recipe, prepare_all(recipe))

    def _params(self, prepared: Prepared, design: Mapping[str, Any]) -> dict[str, Any]:
        sweep = self.recipe.sweep
        return {
            "data": self.data_of(prepared),
            "design": dict(design),
            "mine": self.recipe.mine.config(),
            "train": sweep.train,
            "split": sweep.split,
        }

    @property
    def redrawn(self) -> bool:
        """Whether each repeat draws its own split."""
        return self.recipe.sweep.split == "redrawn"

    @cached_property
    def points(self) -> list[tuple[GridPoint[DataEntry], Cell, str]]:
        """Each grid point with its cell and why it is undefined (empty where it is not)."""
        repeats = self.recipe.sweep.repeats
        found = []
        for point in self.recipe.points():
            prepared = self.prepared[point.index[0]]
            design = self.recipe.design_at(point)
            cell = Cell(point.id, self._params(prepared, design), repeats)
            try:
                undefined = build_design(design, prepared.records).undefined
            except DesignError as error:
                raise RecipeError(f"{self.recipe.source}: design: {error}", error) from None
            found.append((point, cell, undefined))
        return found

    @cached_property
    def benchmarks(self) -> list[Cell]:
        """One cell a data entry: the same learner on undisguised records."""
        # Undisguised records are the same in every repeat unless the split is another.
        repeats = self.recipe.sweep.repeats if self.redrawn else 1
        return [
            Cell(f"{p.entry.id} undisguised", self._params(p, {"id": Identity.id}), repeats)
            for p in self.prepared
        ]

    @property
    def listed(self) -> list[tuple[Cell, str]]:
        """All cells, each with why it is undefined; an empty text where it is not."""
        return [(cell, "") for cell in self.benchmarks] + [(c, why) for _, c, why in self.points]

    @property
    def cells(self) -> list[Cell]:
        """Everything to compute: the benchmarks, and the grid points that are defined."""
        return self.benchmarks + [cell for _, cell, reason in self.points if not reason]

    @cached_property
    def work(self) -> SweepWork:
        """The computation behind the cells."""
        sweep = self.recipe.sweep
        samples = {}
        for prepared, cell in zip(self.prepared, self.benchmarks, strict=True):
            key = split_key(cell.params)
            samples[key] = draw_sample(
                prepared, self.recipe.source, sweep.train, key, self.redrawn, sweep.seed
            )
        return SweepWork(samples, sweep.seed)

    def collect(self, ledger: Finished) -> xr.Dataset:
        """The result from the finished repeats of all cells."""
        recipe, sweep = self.recipe, self.recipe.sweep
        coordinates: dict[str, Sequence[Any]] = dict(recipe.coordinates)
        columns = [f"{p.entry.id}/{name}" for p in self.prepared for name in p.codebook.names]
        coordinates["column"] = columns
        if recipe.w_a:
            coordinates["w_a"] = recipe.w_a
        splits = sweep.repeats if self.redrawn else 1
        optional = [*DISCLOSURES, *(["nodes"] if LEARNERS[recipe.mine.learner].tree else [])]
        arrays = empty_arrays(coordinates, sweep.repeats, splits, optional)
        for i, cell in enumerate(self.benchmarks):
            sample = self.work.samples[split_key(cell.params)]
            arrays["n_train"][i], arrays["n_test"][i] = sample.n_train, sample.n_test
            if (repeats := ledger.finished(cell)).size:
                arrays["benchmark_correct"][i, repeats] = ledger.collect(cell)["correct"]
            arrays["majority_correct"][i] = [
                sample.majority_correct(sweep.seed, split) for split in range(splits)
            ]
        for point, cell, reason in self.points:
            arrays["undefined"][point.index] = reason
            if not reason:
                repeats = ledger.finished(cell)
                for name, values in ledger.collect(cell).items():
                    arrays[name][point.index][repeats] = values
        fill_privacy(arrays, self)
        about = {"title": recipe.about.title, "recipe": recipe.name}
        return build_dataset(arrays, coordinates, about)
