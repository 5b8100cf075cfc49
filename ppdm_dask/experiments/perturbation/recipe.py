"""Recipes of perturbation experiments, read from TOML into frozen dataclasses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from ppdm_dask.experiments.fields import Scalar, Table
from ppdm_dask.experiments.parts import About, DataEntry
from ppdm_dask.experiments.perturbation.parts import (
    Metrics,
    PerturbSpec,
    Plot,
    Resampling,
    Usability,
)
from ppdm_dask.experiments.recipe_base import RecipeBase, read_each

__all__ = ["PerturbationRecipe", "Setting"]


@dataclass(frozen=True)
class Setting:
    """A method with all its parameters, on one data entry.

    Parameters
    ----------
    data : int
        Position of the data entry.
    label : str
        Name on the results' axis ``setting``.
    spec : PerturbSpec
        The entry of ``[[perturb]]`` that it belongs to.
    value : scalar
        Value of the entry's swept parameter.
    """

    data: int
    label: str
    spec: PerturbSpec
    value: Scalar

    @property
    def published(self) -> bool:
        """Whether the paper takes this setting."""
        return self.spec.published == self.value


@dataclass(frozen=True)
class PerturbationRecipe(RecipeBase):
    """An experiment with perturbed data; see ``pipelines/README.md`` for the tables.

    Parameters
    ----------
    about, data, perturb, usability, metrics, sweep, figures
        The recipe's tables.
    name, source, base
        As of :class:`~ppdm_dask.experiments.recipe_base.RecipeBase`.
    """

    kind = "perturbation"

    about: About
    data: tuple[DataEntry, ...]
    perturb: tuple[PerturbSpec, ...]
    usability: Usability
    metrics: Metrics
    sweep: Resampling
    figures: tuple[Plot, ...] = ()

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
        need = "at least one table [[data]] is needed"
        data = read_each(root, "data", need, DataEntry.read, least=1)
        ids = tuple(entry.id for entry in data)
        need = "at least one table [[perturb]] is needed"
        perturb = read_each(root, "perturb", need, lambda t: PerturbSpec.read(t, ids), least=1)
        usability = Usability.read(root.table("usability", "a table [usability] is needed"))
        metrics = root.take("metrics")
        sweep = Resampling.read(root.table("sweep", "a table [sweep] is needed"))
        need = "figures are tables [[figure]]"
        figures = read_each(root, "figure", need, lambda table: Plot.read(table, perturb))
        root.done()
        recipe = cls(
            about=about,
            data=data,
            perturb=perturb,
            usability=usability,
            metrics=Metrics.read(Table(metrics or {}, source, "metrics")),
            sweep=sweep,
            figures=figures,
            name=name or Path(source).stem,
            source=source,
        )
        recipe._check_settings(root)
        return recipe

    def _check_settings(self, root: Table) -> None:
        owners: dict[tuple[int, str], str] = {}
        for setting in self.settings:
            owner = owners.setdefault((setting.data, setting.label), setting.spec.id)
            if owner != setting.spec.id:
                right = f"{owner!r} has {setting.label} on {self.data[setting.data].id!r} already"
                raise root.error("perturb", setting.spec.id, right)

    def config(self) -> dict[str, Any]:
        """Return the recipe as plain tables, defaults filled in, for :meth:`from_config`."""
        return {
            "about": self.about.config(),
            "data": [entry.config() for entry in self.data],
            "perturb": [spec.config() for spec in self.perturb],
            "usability": self.usability.config(),
            "metrics": self.metrics.config(),
            "sweep": self.sweep.config(),
            "figure": [figure.config() for figure in self.figures],
        }

    @property
    def settings(self) -> tuple[Setting, ...]:
        """What is run, in the order of the data entries, the ``[[perturb]]`` and their values."""
        return tuple(
            Setting(i, spec.label(value), spec, value)
            for i, entry in enumerate(self.data)
            for spec in self.perturb
            if entry.id in spec.data
            for value in spec.values
        )

    @property
    def labels(self) -> tuple[str, ...]:
        """The results' axis ``setting``: labels of all settings, each once."""
        labels = (spec.label(value) for spec in self.perturb for value in spec.values)
        return tuple(dict.fromkeys(labels))

    def points(self) -> tuple[Setting, ...]:
        """All grid points; the settings."""
        return self.settings
