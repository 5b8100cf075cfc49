"""Recipes of searches, read from TOML into frozen dataclasses.

Beside it: priors of a search: a distribution cut into bins, or an attribute of a data set.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np

from ppdm_dask import datasets
from ppdm_dask.arrays import Floats
from ppdm_dask.errors import DataError
from ppdm_dask.experiments.parts import About, Part, RecipeBase, read_each, read_id
from ppdm_dask.files.fields import Table, is_number
from ppdm_dask.shown import listed, shown

__all__ = ["FrontFigure", "FrontRecipe", "FrontSweep", "Prior", "PriorSpec", "SearchSpec"]


LAWS = ("normal", "gamma", "uniform")


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
class PriorSpec(Part):
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

    id: str
    delta: tuple[float, ...]
    bins: int = 10
    law: str | None = None
    reach: float | None = None
    shape: float | None = None
    scale: float | None = None
    upper: float | None = None
    set: str | None = None
    attributes: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()

    @classmethod
    def read(cls, table: Table, methods: tuple[str, ...]) -> Self:
        """Read a table ``[[prior]]``; `methods` are the recipe's."""
        name = read_id(table)
        law = table.optional_choice("law", LAWS, "a law")
        bundled = table.optional_choice("set", datasets.names(), "a bundled data set")
        if (law is None) == (bundled is None):
            raise table.error("law", law, "either a `law` or a `set` is needed, and not both")
        delta = []
        for i, value in enumerate(table.scalars("delta", "a list of bounds is needed")):
            if not is_number(value) or not 0 < value <= 1:
                raise table.error(f"delta[{i}]", value, "a number in (0, 1] is needed")
            delta.append(float(value))
        bins = table.optional_integer("bins", 2) or 10
        numbers: dict[str, float | None] = {}
        for key in {"normal": ("reach",), "gamma": ("shape", "scale", "upper")}.get(law or "", ()):
            most = 1.0 if key == "upper" else math.inf
            right = "a proportion in (0, 1)" if key == "upper" else "a number above 0"
            right += " is needed"
            number = table.optional_number(key, right, partial(_inside, most=most))
            if number is None:
                raise table.error(key, None, right)
            numbers[key] = number
        attributes = table.texts("attributes")
        if bundled is not None:
            columns = list(datasets.load(bundled).columns)
            for i, attribute in enumerate(attributes):
                if attribute not in columns or attribute in attributes[:i]:
                    right = f"an attribute of {bundled!r} is needed, each once: "
                    raise table.error(f"attributes[{i}]", attribute, right + listed(columns))
        if bool(attributes) != (bundled is not None):
            raise table.error("attributes", list(attributes), "attributes of a `set` are needed")
        own = table.texts("methods")
        for i, method in enumerate(own):
            if method not in methods:
                right = f"one of the search's methods is needed: {', '.join(methods)}"
                raise table.error(f"methods[{i}]", method, right)
        table.done()
        return cls(
            name,
            tuple(delta),
            bins,
            law,
            set=bundled,
            attributes=attributes,
            methods=own,
            **numbers,
        )

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


def _inside(value: float, most: float) -> bool:
    return 0 < value < most


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


METHODS = ("spea2", "memetic")
KINDS = ("front", "iterative")


@dataclass(frozen=True)
class SearchSpec(Part):
    """The table ``[search]``.

    Parameters
    ----------
    methods : tuple of {"spea2", "memetic"}
    n_records : int
        Reports that the MSE is for.
    generations, memetic_generations : int
    population, archive, slots, density : int
    rate, scale : float
        As of :class:`~ppdm_dask.search.spea2.Settings`.
    simulations : int
        Samples that the MSE of the iterative estimator is averaged over; 0 leaves it out.
    """

    methods: tuple[str, ...]
    n_records: int
    generations: int = 20_000
    memetic_generations: int = 3_000
    population: int = 200
    archive: int = 100
    slots: int = 1_000
    density: int = 1
    rate: float = 1.0
    scale: float = 0.1
    simulations: int = 0

    @classmethod
    def read(cls, table: Table) -> Self:
        """Read the table ``[search]``."""
        methods = table.texts("methods")
        for i, method in enumerate(methods):
            if method not in METHODS or method in methods[:i]:
                right = f"a method is needed, each once: {', '.join(METHODS)}"
                raise table.error(f"methods[{i}]", method, right)
        if not methods:
            raise table.error("methods", None, f"at least one is needed of {', '.join(METHODS)}")
        given: dict[str, Any] = {}
        least = {"generations": 1, "memetic_generations": 1, "population": 2, "archive": 2}
        for key, smallest in {**least, "slots": 1, "density": 1, "simulations": 0}.items():
            value = table.optional_integer(key, smallest)
            if value is not None:
                given[key] = value
        n_records = table.integer("n_records", 1)
        for key in ("rate", "scale"):
            number = table.optional_number(
                key, "a number in (0, 1] is needed", lambda found: 0 < found <= 1
            )
            if number is not None:
                given[key] = number
        table.done()
        return cls(methods, n_records, **given)


@dataclass(frozen=True)
class FrontSweep(Part):
    """The table ``[sweep]``: searches with different draws, and the seed of all of them."""

    repeats: int
    seed: int

    @classmethod
    def read(cls, table: Table) -> Self:
        """Read the table ``[sweep]``."""
        sweep = cls(table.integer("repeats", 1), table.integer("seed", 0))
        table.done()
        return sweep


@dataclass(frozen=True)
class FrontFigure(Part):
    """A figure of fronts: MSE against privacy, by the inversion or by the iterative estimator."""

    id: str
    kind: str
    title: str
    prior: str
    delta: tuple[float, ...] = ()

    @classmethod
    def read(cls, table: Table, priors: Mapping[str, PriorSpec]) -> Self:
        """Read a table ``[[figure]]``; `priors` are the recipe's, by name of their cases."""
        name = read_id(table)
        kind = table.choice("kind", KINDS, "a kind of figure")
        title = table.text("title")
        prior = table.choice("prior", priors, "a prior of the recipe")
        known = priors[prior].delta
        delta = (
            tuple(table.scalars("delta", "a list is needed"))
            if "delta" in (table.remaining())
            else known
        )
        for i, value in enumerate(delta):
            if value not in known:
                right = f"a delta of this prior is needed: {', '.join(map(str, known))}"
                raise table.error(f"delta[{i}]", value, right)
        table.done()
        return cls(name, kind, title, prior, tuple(float(value) for value in delta))


@dataclass(frozen=True, kw_only=True)
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

    @classmethod
    def from_config(
        cls, config: Mapping[str, Any], source: str = "recipe", name: str | None = None
    ) -> Self:
        """Build a recipe from plain tables, as :meth:`config` gives them.

        Raises
        ------
        RecipeError
            One line: `source`, dotted path, value, and what would be right.
        """
        root = Table(config, source)
        about = About.read(root.table("about", "a table [about] with a title is needed"))
        search = SearchSpec.read(root.table("search", "a table [search] is needed"))
        sweep = FrontSweep.read(root.table("sweep", "a table [sweep] is needed"))
        need = "at least one table [[prior]] is needed"
        priors = read_each(
            root, "prior", need, lambda table: PriorSpec.read(table, search.methods), least=1
        )
        named = {name: spec for spec in priors for name in _cases(spec)}
        need = "figures are tables [[figure]]"
        figures = read_each(root, "figure", need, lambda table: FrontFigure.read(table, named))
        root.done()
        return cls(
            about=about,
            prior=priors,
            search=search,
            sweep=sweep,
            figures=figures,
            name=name or Path(source).stem,
            source=source,
        )

    def config(self) -> dict[str, Any]:
        """Return the recipe as plain tables, defaults filled in, for :meth:`from_config`."""
        return {
            "about": self.about.config(),
            "prior": [spec.config() for spec in self.prior],
            "search": self.search.config(),
            "sweep": self.sweep.config(),
            "figure": [figure.config() for figure in self.figures],
        }

    def points(self) -> tuple[str, ...]:
        """Names of the cases: a prior with a delta."""
        return tuple(
            f"{name} delta={delta:g}"
            for spec in self.prior
            for name in _cases(spec)
            for delta in spec.delta
        )


def _cases(spec: PriorSpec) -> list[str]:
    """Names of the cases of a prior: one an attribute, or the prior itself."""
    return [f"{spec.id}/{attribute}" for attribute in spec.attributes] or [spec.id]
