"""Recipes of perturbation experiments, read from TOML into frozen dataclasses.

Also here: the tables of a perturbation recipe, each a frozen dataclass that reads itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Self

from ppdm_dask.errors import InputError
from ppdm_dask.experiments.parts import (
    VALUES,
    DataEntry,
    Id,
    RecipeBase,
    Repeats,
    Seed,
    Share,
    Some,
)
from ppdm_dask.experiments.perturbation.trials import CLASSIFIERS, USUAL
from ppdm_dask.files.declared import Declared, Rest, schema_of
from ppdm_dask.files.values import Choice, Many, Named, Place, Plain, Scalar, Schema, Text, When
from ppdm_dask.frozen import settle
from ppdm_dask.perturb import methods, perturbation_from_config
from ppdm_dask.perturb.metrics import INTERVAL
from ppdm_dask.shown import shown

__all__ = [
    "Metrics",
    "PerturbSpec",
    "PerturbationRecipe",
    "Plot",
    "Resampling",
    "Setting",
    "Usability",
]


@dataclass(frozen=True)
class PerturbSpec(Declared):
    """A perturbation method with one parameter that runs over some values.

    Parameters
    ----------
    id : str
    method : str
        Id of a registered method.
    sweep : mapping of str to tuple
        Values of the one parameter that is swept.
    data : tuple of str
        Ids of the data entries on which the method runs; all of them unless the recipe names some.
    published : scalar, optional
        The value that the paper uses.
    parameters : mapping
        The method's fixed parameters.
    """

    id: Id
    method: Annotated[str, Choice(methods, "a perturbation method")]
    sweep: Annotated[
        Mapping[str, tuple[Scalar, ...]],
        Named(
            VALUES,
            Text("the name of a parameter is needed", r"\w+"),
            "a table [perturb.sweep] with the values of one parameter is needed",
        ),
    ]
    data: Some = ()
    published: Annotated[Scalar, Plain()] | None = None
    parameters: Annotated[Mapping[str, Any], Rest()] = field(default_factory=dict)

    @classmethod
    def schema(cls) -> Schema:
        found = super().schema()
        own = list(found["properties"])
        found["allOf"] = [
            {
                "if": When("method", (name,)).schema(),
                "then": {
                    "properties": {
                        **stated,
                        "sweep": {
                            "properties": {key: {"items": value} for key, value in stated.items()},
                            "propertyNames": {"enum": list(stated)},
                        },
                    },
                    "propertyNames": {"enum": [*own, *stated]},
                },
            }
            for name, method in methods().items()
            for known in [schema_of(method)["properties"]]
            for stated in [{key: value for key, value in known.items() if key != "seed"}]
        ]
        return found

    def of(self, at: Place, known: tuple[str, ...]) -> Self:
        """Return the entry with its data filled in; `known` are the ids of the data entries."""
        Many(Choice(known, "the id of a data entry")).read(self.data, at["data"])
        if len(self.sweep) != 1:
            right = "exactly one parameter with its values is needed"
            raise at["sweep"].wrong(list(self.sweep), right)
        axis = self.axis
        if self.published is not None and self.published not in self.values:
            right = f"one of the values of {axis} is needed"
            raise at["published"].wrong(self.published, right)
        if axis in self.parameters:
            right = f"sweep.{axis} gives the values; leave one of the two out"
            raise at[axis].wrong(self.parameters[axis], right)
        for i, value in enumerate(self.values):
            try:
                perturbation_from_config(self.at(value))
            except InputError as error:
                key, _, right = str(error).partition(": ")
                where = at["sweep"][axis][i] if key == axis else at[key]
                if right.startswith("got "):  # the value stands in the method's message
                    raise where.told(right, error.subject) from None
                raise where.wrong(self.at(value).get(key), right) from None
        private = methods()[self.method].private_end
        if axis not in private:
            right = f"a parameter that trades privacy for use is needed: {', '.join(private)}"
            raise at["sweep"].wrong(axis, right)
        return replace(self, data=self.data or known)

    @property
    def axis(self) -> str:
        """The parameter that is swept."""
        return next(iter(self.sweep))

    @property
    def values(self) -> tuple[Scalar, ...]:
        """Its values."""
        return self.sweep[self.axis]

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


CLASSIFIER = Many(Choice(CLASSIFIERS, "a classifier"), distinct=True)


@dataclass(frozen=True)
class Usability(Declared):
    """Which classifiers are trained on the release, and when it is good enough.

    Parameters
    ----------
    accept : float
        A setting is acceptable if the mean of r is below this for every judge.
    classifiers : tuple of str
        By default nearest neighbours, the SVM, the entropy tree, naive Bayes and ID3.
    judges : tuple of str
        The classifiers that decide whether a setting is acceptable; all that are trained by
        default.
    """

    accept: Share
    classifiers: Annotated[tuple[str, ...], CLASSIFIER] = USUAL
    judges: Annotated[tuple[str, ...], CLASSIFIER] = ()

    def __post_init__(self) -> None:
        settle(
            self,
            classifiers=self.classifiers or USUAL,
            judges=self.judges or self.classifiers or USUAL,
        )

    def checked(self, at: Place) -> Self:
        Many(Choice(self.classifiers, "one of `classifiers`")).read(self.judges, at["judges"])
        return self


@dataclass(frozen=True)
class Metrics(Declared):
    """Parameters of the metrics.

    Parameters
    ----------
    interval : float
        Half-width of the disclosed interval, a share of the range.
    """

    interval: Share = INTERVAL


@dataclass(frozen=True)
class Resampling(Declared):
    """Repeats, each with its own split into training and test part.

    Parameters
    ----------
    repeats : int
        Splits of each setting, 1 or more.
    seed : int
        Entropy of all random streams, 0 or more.
    train : float
        Share of the records in the training part, in (0, 1).
    """

    repeats: Repeats
    seed: Seed
    train: Share


@dataclass(frozen=True)
class Plot(Declared):
    """A figure: usability of one entry of ``[[perturb]]`` against its parameter, on some data.

    Parameters
    ----------
    id : str
        Name of its files.
    kind : {"usability"}
    title : str
    perturb : str
        Id of an entry of ``[[perturb]]``.
    data : str
        Id of one of its data entries.
    """

    id: Id
    kind: Annotated[str, Choice(("usability",), "a kind of figure")]
    title: str
    perturb: str
    data: str

    def check(self, at: Place, specs: tuple[PerturbSpec, ...]) -> None:
        """Refuse what no entry of ``[[perturb]]`` has."""
        by_id = {spec.id: spec for spec in specs}
        Choice(by_id, "the id of a [[perturb]]").read(self.perturb, at["perturb"])
        data = Choice(by_id[self.perturb].data, f"a data entry of {shown(self.perturb)}")
        data.read(self.data, at["data"])


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


@dataclass(frozen=True, kw_only=True, repr=False)
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
    sweep: Resampling
    metrics: Metrics = Metrics()
    figures: tuple[Plot, ...] = ()

    def checked(self, at: Place) -> Self:
        ids = tuple(entry.id for entry in self.data)
        specs = enumerate(self.perturb)
        recipe = replace(self, perturb=tuple(e.of(at["perturb"][i], ids) for i, e in specs))
        for i, figure in enumerate(self.figures):
            figure.check(at["figure"][i], recipe.perturb)
        owners: dict[tuple[int, str], str] = {}
        for setting in recipe.settings:
            owner = owners.setdefault((setting.data, setting.label), setting.spec.id)
            if owner != setting.spec.id:
                data = shown(self.data[setting.data].id)
                right = f"{shown(owner)} has {setting.label} on {data} already"
                raise at["perturb"].wrong(setting.spec.id, right)
        return recipe

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
