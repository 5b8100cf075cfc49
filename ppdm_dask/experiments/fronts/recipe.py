"""Recipes of searches, read from TOML into frozen dataclasses.

Also here: priors of a search: a distribution cut into bins, or an attribute of a data set.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Self

import numpy as np

from ppdm_dask import datasets
from ppdm_dask.arrays import Floats
from ppdm_dask.errors import DataError, InputError, RecipeError
from ppdm_dask.experiments.fronts.objective import code_of, locate
from ppdm_dask.experiments.parts import Id, RecipeBase, Repeats, Seed
from ppdm_dask.files.declared import Declared
from ppdm_dask.files.fields import show
from ppdm_dask.files.values import Choice, Many, Number, Place, Text, When, Whole
from ppdm_dask.shown import shown

__all__ = ["FrontFigure", "FrontRecipe", "FrontSweep", "Prior", "PriorSpec", "SearchSpec"]


LAWS = ("normal", "gamma", "uniform")
METHODS = ("spea2", "memetic")
KINDS = ("front", "iterative")

POSITIVE = Number("a number above 0 is needed", above=0)


@dataclass(frozen=True, eq=False)
class Prior:
    """Proportions of the categories that occur.

    Parameters
    ----------
    name : str
        The entry's id, with the attribute for an attribute of a data set.
    proportions : array, shape (n,)
    sha256 : str
        Digest of the data file; empty for a law.
    dropped : int
        Categories of the attribute that do not occur.
    """

    name: str
    proportions: Floats
    sha256: str = ""
    dropped: int = 0


@dataclass(frozen=True)
class PriorSpec(Declared):
    """A table ``[[prior]]``.

    Parameters
    ----------
    id : str
    delta : tuple of float
        Bounds on the posterior, in (0, 1].
    law : {"normal", "gamma", "uniform"}, optional
        Cut into ``bins`` equal bins: the normal on ``[-reach, reach]``, the gamma from 0 to its
        quantile ``upper``; probabilities are scaled to sum to 1.
    set : str, optional
        Or a bundled data set, with ``attributes``: numeric ones are cut into ``bins`` equal bins
        over their range, and missing values left out.
    methods : tuple of str
        Only these of the recipe's methods; all of them by default.
    """

    either = ("law", "set")

    id: Id
    delta: Annotated[
        tuple[float, ...],
        Many(
            Number("a number in (0, 1] is needed", above=0, most=1),
            "a list of bounds is needed",
            1,
            distinct=True,
        ),
    ]
    bins: Annotated[int, Whole(2)] = 10
    law: Annotated[str, Choice(LAWS, "a law")] | None = None
    reach: Annotated[float | None, POSITIVE, When("law", ("normal",))] = None
    shape: Annotated[float | None, POSITIVE, When("law", ("gamma",))] = None
    scale: Annotated[float | None, POSITIVE, When("law", ("gamma",))] = None
    upper: Annotated[
        float | None,
        Number("a proportion in (0, 1) is needed", above=0, below=1),
        When("law", ("gamma",)),
    ] = None
    set: Annotated[str, Choice(datasets.names, "a bundled data set")] | None = None
    attributes: Annotated[
        tuple[str, ...],
        Many(Text(), "attributes of the `set` are needed", 1, distinct=True),
        When("set"),
    ] = ()
    methods: Annotated[tuple[str, ...], Many(Choice(METHODS, "a method"))] = ()

    def checked(self, at: Place) -> Self:
        if self.set is not None:
            columns = list(datasets.load(self.set).columns)
            attribute = Choice(columns, f"an attribute of {self.set!r}")
            Many(attribute).read(self.attributes, at["attributes"])
        return self

    def priors(self) -> list[Prior]:
        """The priors that the entry stands for."""
        if self.law is not None:
            return [Prior(self.id, self._cut())]
        frame = datasets.load(str(self.set))
        sha256 = datasets.describe(str(self.set)).sha256
        return [
            Prior(f"{self.id}/{name}", *_proportions(frame[name], self.bins, sha256))
            for name in self.attributes
        ]

    def _cut(self) -> Floats:
        from scipy import stats

        if self.law == "uniform":
            return np.full(self.bins, 1 / self.bins)
        if self.law == "normal":
            assert self.reach is not None
            law, low, high = stats.norm(), -self.reach, self.reach
        else:
            law = stats.gamma(self.shape, scale=self.scale)
            low, high = 0.0, float(law.ppf(self.upper))
        found: Floats = np.diff(law.cdf(np.linspace(low, high, self.bins + 1)))
        found /= found.sum()
        return found


def _proportions(column: Any, bins: int, sha256: str) -> tuple[Floats, str, int]:
    """Proportions of the categories or bins that occur, in their order."""
    import pandas as pd

    present = column.dropna()
    if not len(present):
        raise DataError(f"attribute {shown(column.name)} has no values", column)
    if pd.api.types.is_numeric_dtype(present):
        values = present.to_numpy(dtype=float)
        counts, _ = np.histogram(values, bins=bins)
    else:
        counts = present.astype(str).value_counts().sort_index().to_numpy()
    occurring = counts[counts > 0]
    return occurring / occurring.sum(), sha256, int((counts == 0).sum())


UpToOne = Annotated[float, Number("a number in (0, 1] is needed", above=0, most=1)]


@dataclass(frozen=True)
class SearchSpec(Declared):
    """The table ``[search]``.

    Parameters
    ----------
    methods : tuple of {"spea2", "memetic"}
    n_records : int
        Number of reports for which the MSE is computed.
    generations, memetic_generations : int
    population, archive, slots, density : int
    rate, scale : float
        As of :class:`~ppdm_dask.search.spea2.Settings`.
    simulations : int
        Number of samples for the MSE of the iterative estimator; 0: not computed.
    objective : str, optional
        In place of the paper's privacy and MSE, for ``"spea2"`` only: ``FILE.py:FUNCTION`` for a
        file in the recipe's folder, which the run must name too, or the name of an entry point of
        the group ``ppdm_dask.objectives``.
    objective_sha256 : str, optional
        Checksum of the objective's source; filled in, and checked if given.
    """

    methods: Annotated[
        tuple[str, ...],
        Many(
            Choice(METHODS, "a method"),
            f"a list of at least one of {', '.join(METHODS)} is needed",
            1,
            distinct=True,
        ),
    ]
    n_records: Annotated[int, Whole(1)]
    generations: Annotated[int, Whole(1)] = 20_000
    memetic_generations: Annotated[int, Whole(1)] = 3_000
    population: Annotated[int, Whole(2)] = 200
    archive: Annotated[int, Whole(2)] = 100
    slots: Annotated[int, Whole(1)] = 1_000
    density: Annotated[int, Whole(1)] = 1
    rate: UpToOne = 1.0
    scale: UpToOne = 0.1
    simulations: Annotated[int, Whole(0)] = 0
    objective: Annotated[str, Text("FILE.py:FUNCTION or an entry point is needed")] | None = None
    objective_sha256: Annotated[
        str | None,
        Text("a SHA-256 in hexadecimal digits is needed", "[0-9a-f]{64}"),
        When("objective", needed=False),
    ] = None

    def checked(self, at: Place) -> Self:
        if self.objective is not None:
            if self.methods != ("spea2",):
                right = 'only ["spea2"] takes an objective'
                raise at["methods"].wrong(list(self.methods), right)
            if self.simulations:
                raise at["simulations"].wrong(self.simulations, "0 is needed with an objective")
        return self


@dataclass(frozen=True)
class FrontSweep(Declared):
    """The table ``[sweep]``: searches with different draws, and the seed of all of them.

    Parameters
    ----------
    repeats : int
        Searches of each case, 1 or more.
    seed : int
        Entropy of all random streams, 0 or more.
    """

    repeats: Repeats
    seed: Seed


@dataclass(frozen=True)
class FrontFigure(Declared):
    """A figure of fronts: MSE against privacy, by the inversion or by the iterative estimator.

    Parameters
    ----------
    id : str
        Name of its files.
    kind : {"front", "iterative"}
    title : str
    prior : str
        Id of a prior, with the attribute for one of a data set: ``id/attribute``.
    delta : tuple of float
        Some of the prior's bounds; all of them by default.
    """

    id: Id
    kind: Annotated[str, Choice(KINDS, "a kind of figure")]
    title: str
    prior: str
    delta: Annotated[
        tuple[float, ...],
        Many(Number("a number in (0, 1] is needed", above=0, most=1), "a list is needed", 1),
    ] = ()

    def of(self, at: Place, priors: Mapping[str, PriorSpec]) -> Self:
        """Return the figure with its bounds filled in; `priors` are by name of their cases."""
        Choice(priors, "a prior of the recipe").read(self.prior, at["prior"])
        known = priors[self.prior].delta
        for i, value in enumerate(self.delta):
            if value not in known:
                right = f"a delta of this prior is needed: {', '.join(map(str, known))}"
                raise at["delta"][i].wrong(value, right)
        return replace(self, delta=self.delta or known)


@dataclass(frozen=True, kw_only=True, repr=False)
class FrontRecipe(RecipeBase):
    """An experiment with searches; see ``pipelines/README.md`` for the tables.

    Parameters
    ----------
    about, prior, search, sweep, figures
        The recipe's tables.
    name, source, base
        As of :class:`~ppdm_dask.experiments.parts.RecipeBase`.
    """

    kind = "front"

    prior: tuple[PriorSpec, ...]
    search: SearchSpec
    sweep: FrontSweep
    figures: tuple[FrontFigure, ...] = ()

    def placed(self, base: Path) -> Self:
        objective = self.search.objective
        if objective is None:
            return super().placed(base)
        try:
            found = locate(objective, base)
        except InputError as error:
            what = f"{self.source}: search.objective: {error}"
            raise RecipeError(what, error.subject) from None
        stated = self.search.objective_sha256
        if stated not in (None, found.sha256):
            raise RecipeError(
                f"{self.source}: search.objective_sha256: got {show(stated)}; the source of "
                f"{show(objective)} has {found.sha256}",
                stated,
            )
        search = replace(self.search, objective_sha256=found.sha256)
        return replace(super().placed(base), search=search)

    @property
    def code(self) -> Path | None:
        return code_of(self.search.objective, self.base)

    def checked(self, at: Place) -> Self:
        for i, spec in enumerate(self.prior):
            methods = Choice(self.search.methods, "one of the search's methods")
            Many(methods).read(spec.methods, at["prior"][i]["methods"])
        if self.search.objective is not None:
            for i, figure in enumerate(self.figures):
                if figure.kind == "iterative":
                    right = '"front" is needed with an objective'
                    raise at["figure"][i]["kind"].wrong(figure.kind, right)
        named = {name: spec for spec in self.prior for name in _cases(spec)}
        drawn = enumerate(self.figures)
        return replace(self, figures=tuple(each.of(at["figure"][i], named) for i, each in drawn))

    def points(self) -> tuple[str, ...]:
        """Names of the cases: a prior with a delta."""
        return tuple(
            f"{name} delta={delta:g}"
            for spec in self.prior
            for name in _cases(spec)
            for delta in spec.delta
        )


def _cases(spec: PriorSpec) -> list[str]:
    """Names of the cases of a prior: one for each attribute, or the prior itself."""
    return [f"{spec.id}/{attribute}" for attribute in spec.attributes] or [spec.id]
