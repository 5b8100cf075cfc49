"""Recipes of searches, read from TOML into frozen dataclasses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from ppdm_dask.experiments.fields import Table
from ppdm_dask.experiments.fronts.priors import PriorSpec
from ppdm_dask.experiments.parts import About, Part, read_id
from ppdm_dask.experiments.recipe_base import RecipeBase, read_each

__all__ = ["FrontFigure", "FrontRecipe", "FrontSweep", "SearchSpec"]

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
            value = table.take(key)
            if value is not None:
                if isinstance(value, bool | str) or not 0 < value <= 1:
                    raise table.error(key, value, "a number in (0, 1] is needed")
                given[key] = float(value)
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


@dataclass(frozen=True)
class FrontRecipe(RecipeBase):
    """An experiment with searches; see ``pipelines/README.md`` for the tables.

    Parameters
    ----------
    about, prior, search, sweep, figures
        The recipe's tables.
    name, source, base
        As of :class:`~ppdm_dask.experiments.recipe_base.RecipeBase`.
    """

    kind = "front"

    about: About
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
        name = name or Path(source).stem
        return cls(about, priors, search, sweep, figures, name=name, source=source)

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
