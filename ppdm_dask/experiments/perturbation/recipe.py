"""Recipes of perturbation experiments, read from TOML into frozen dataclasses.

Beside it: the tables of a perturbation recipe, each a frozen dataclass that reads itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from ppdm_dask.errors import InputError, RecipeError
from ppdm_dask.experiments.parts import About, DataEntry, Part, RecipeBase, read_each, read_id
from ppdm_dask.experiments.perturbation.trials import CLASSIFIERS
from ppdm_dask.files.fields import Scalar, Table, scalar
from ppdm_dask.perturb import methods, perturbation_from_config
from ppdm_dask.perturb.metrics import INTERVAL
from ppdm_dask.shown import listed, shown

__all__ = [
    "Metrics",
    "PerturbSpec",
    "PerturbationRecipe",
    "Plot",
    "Resampling",
    "Setting",
    "Usability",
]


FIGURES = ("usability",)


def _names(table: Table, key: str, known: tuple[str, ...], what: str) -> tuple[str, ...]:
    """Some of the known names, each once; all of them where the key is absent."""
    names = table.texts(key)
    for i, name in enumerate(names):
        if name not in known or name in names[:i]:
            right = f"{what} is needed, each once: {listed(known)}"
            raise table.error(f"{key}[{i}]", name, right)
    return names or known


def _optional_scalar(table: Table, key: str) -> Scalar | None:
    value = table.take(key)
    if value is not None and scalar(value) is None:
        raise table.error(key, value, "a text or a finite number is needed")
    return scalar(value)


@dataclass(frozen=True)
class PerturbSpec(Part):
    """A perturbation method with one parameter that runs over some values.

    Parameters
    ----------
    id : str
    method : str
        Id of a registered method.
    data : tuple of str
        Ids of the data entries it is run on; all of them unless the recipe names some.
    parameters : mapping
        The method's fixed parameters.
    axis : str
        The parameter that is swept.
    values : tuple of scalar
    published : scalar, optional
        The value that the paper takes.
    """

    id: str
    method: str
    data: tuple[str, ...]
    parameters: Mapping[str, Any]
    axis: str
    values: tuple[Scalar, ...]
    published: Scalar | None = None

    @classmethod
    def read(cls, table: Table, known: tuple[str, ...]) -> Self:
        """Read a table ``[[perturb]]``; `known` are the ids of the data entries."""
        name = read_id(table)
        method = table.choice("method", methods(), "a perturbation method")
        data = _names(table, "data", known, "the id of a data entry")
        published = _optional_scalar(table, "published")
        need = "a table [perturb.sweep] with the values of one parameter is needed"
        sweep = table.table("sweep", need)
        axes = sweep.remaining()
        if len(axes) != 1:
            raise table.error(
                "sweep", list(axes), "exactly one parameter with its values is needed"
            )
        axis = axes[0]
        values = sweep.scalars(axis, "a list of at least one value is needed")
        if published is not None and published not in values:
            raise table.error("published", published, f"one of the values of {axis} is needed")
        parameters = table.rest()
        if axis in parameters:
            right = f"sweep.{axis} gives the values; leave one of the two out"
            raise table.error(axis, parameters[axis], right)
        spec = cls(name, method, data, parameters, axis, values, published)
        for i, value in enumerate(values):
            try:
                perturbation_from_config(spec.at(value))
            except InputError as error:
                key, _, right = str(error).partition(": ")
                where = f"sweep.{axis}[{i}]" if key == axis else key
                if right.startswith("got "):  # the value stands in the method's message
                    what = f"{table.source}: {table.dotted(where)}: {right}"
                    raise RecipeError(what, error.subject) from None
                raise table.error(where, spec.at(value).get(key), right) from None
        private = methods()[method].private_end
        if axis not in private:
            right = f"a parameter that trades privacy for use is needed: {', '.join(private)}"
            raise table.error("sweep", axis, right)
        return spec

    def at(self, value: Scalar) -> dict[str, Any]:
        """Return configuration of the method with a value of the swept parameter."""
        return {"id": self.method, **self.parameters, self.axis: value}

    def label(self, value: Scalar) -> str:
        """Readable name of a setting, such as ``ssvd k=7 e=0.45``."""
        config = self.at(value)
        order = [key for key in methods()[self.method].required if key in config]
        order += [key for key in config if key not in ("id", *order)]
        return " ".join([self.method, *(f"{key}={config[key]}" for key in order)])

    @property
    def by_privacy(self) -> tuple[int, ...]:
        """Positions of the values, the most private one first."""
        small = methods()[self.method].private_end[self.axis] == "small"
        order = sorted(range(len(self.values)), key=lambda i: float(self.values[i]))
        return tuple(order if small else reversed(order))

    def config(self) -> dict[str, Any]:
        """Return the table as plain values."""
        found: dict[str, Any] = {"id": self.id, "method": self.method, "data": list(self.data)}
        if self.published is not None:
            found["published"] = self.published
        return {**found, **self.parameters, "sweep": {self.axis: list(self.values)}}


@dataclass(frozen=True)
class Usability(Part):
    """Which classifiers are trained on the release, and when it is good enough.

    Parameters
    ----------
    classifiers : tuple of str
    judges : tuple of str
        The classifiers that decide whether a setting is acceptable.
    accept : float
        A setting is acceptable where the mean of r is below this for every judge.
    """

    classifiers: tuple[str, ...]
    judges: tuple[str, ...]
    accept: float

    @classmethod
    def read(cls, table: Table) -> Self:
        """Read the table ``[usability]``."""
        classifiers = _names(table, "classifiers", tuple(CLASSIFIERS), "a classifier")
        judges = _names(table, "judges", classifiers, "one of `classifiers`")
        accept = table.take("accept")
        if not isinstance(accept, float) or not 0 < accept < 1:
            right = "a share between 0 and 1, both excluded, is needed"
            raise table.error("accept", accept, right)
        table.done()
        return cls(classifiers, judges, accept)


@dataclass(frozen=True)
class Metrics(Part):
    """Parameters of the metrics: half-width of the disclosed interval, a share of the range."""

    interval: float = INTERVAL

    @classmethod
    def read(cls, table: Table) -> Self:
        """Read the table ``[metrics]``."""
        interval = table.take("interval")
        if interval is None:
            interval = INTERVAL
        if not isinstance(interval, float) or not 0 < interval < 1:
            right = "a share between 0 and 1, both excluded, is needed"
            raise table.error("interval", interval, right)
        table.done()
        return cls(interval)


@dataclass(frozen=True)
class Resampling(Part):
    """Repeats, each with its own split into training and test part."""

    repeats: int
    seed: int
    train: float

    @classmethod
    def read(cls, table: Table) -> Self:
        """Read the table ``[sweep]``."""
        repeats, seed = table.integer("repeats", 1), table.integer("seed", 0)
        train = table.take("train")
        if not isinstance(train, float) or not 0 < train < 1:
            raise table.error("train", train, "a share between 0 and 1, both excluded, is needed")
        table.done()
        return cls(repeats, seed, train)


@dataclass(frozen=True)
class Plot(Part):
    """A figure: usability of one entry of ``[[perturb]]`` against its parameter, on some data."""

    id: str
    kind: str
    title: str
    perturb: str
    data: str

    @classmethod
    def read(cls, table: Table, specs: tuple[PerturbSpec, ...]) -> Self:
        """Read a table ``[[figure]]``."""
        name = read_id(table)
        kind = table.choice("kind", FIGURES, "a kind of figure")
        title = table.text("title")
        by_id = {spec.id: spec for spec in specs}
        perturb = table.choice("perturb", by_id, "the id of a [[perturb]]")
        data = table.choice("data", by_id[perturb].data, f"a data entry of {shown(perturb)}")
        table.done()
        return cls(name, kind, title, perturb, data)


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


@dataclass(frozen=True, kw_only=True)
class PerturbationRecipe(RecipeBase):
    """An experiment with perturbed data; see ``pipelines/README.md`` for the tables.

    Parameters
    ----------
    about, data, perturb, usability, metrics, sweep, figures
        The recipe's tables.
    name, source, base
        As of :class:`~ppdm_dask.experiments.parts.RecipeBase`.
    """

    kind = "perturbation"

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
        metrics = root.optional_table("metrics", "a table [metrics] is needed")
        sweep = Resampling.read(root.table("sweep", "a table [sweep] is needed"))
        need = "figures are tables [[figure]]"
        figures = read_each(root, "figure", need, lambda table: Plot.read(table, perturb))
        root.done()
        recipe = cls(
            about=about,
            data=data,
            perturb=perturb,
            usability=usability,
            metrics=Metrics() if metrics is None else Metrics.read(metrics),
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
                data = shown(self.data[setting.data].id)
                right = f"{shown(owner)} has {setting.label} on {data} already"
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
