"""The tables of a perturbation recipe, each a frozen dataclass that reads itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from ppdm_dask.errors import InputError, RecipeError
from ppdm_dask.experiments.fields import Scalar, Table, scalar
from ppdm_dask.experiments.parts import Part, read_id
from ppdm_dask.experiments.perturbation.classifiers import CLASSIFIERS
from ppdm_dask.perturb import methods, perturbation_from_config
from ppdm_dask.perturb.disclosure import INTERVAL

__all__ = ["Metrics", "PerturbSpec", "Plot", "Resampling", "Usability"]

FIGURES = ("usability",)


def _names(table: Table, key: str, known: tuple[str, ...], what: str) -> tuple[str, ...]:
    """Some of the known names, each once; all of them where the key is absent."""
    names = table.texts(key)
    for i, name in enumerate(names):
        if name not in known or name in names[:i]:
            right = f"{what} is needed, each once: {', '.join(known)}"
            raise table.error(f"{key}[{i}]", name, right)
    return names or known


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
        published = scalar(table.take("published"))
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
        data = table.choice("data", by_id[perturb].data, f"a data entry of {perturb!r}")
        table.done()
        return cls(name, kind, title, perturb, data)
