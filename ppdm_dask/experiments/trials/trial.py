"""What a trial is: a simulation in one class, repeated over a grid of its parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from ppdm_dask.arrays import Floats
from ppdm_dask.files.declared import Declared, fields_of, plain

if TYPE_CHECKING:
    import xarray as xr

    from ppdm_dask.data.codebook import Codebook, Records
    from ppdm_dask.randomness import SimulationStream

__all__ = ["TRIALS", "Measure", "Trial", "find_trial"]

TRIALS: dict[str, str] = {
    "frequency": "ppdm_dask.experiments.trials.frequency:FrequencyTrial",
    "joint": "ppdm_dask.experiments.trials.joint:JointTrial",
    "rules": "ppdm_dask.experiments.trials.rules:RulesTrial",
    "selection": "ppdm_dask.experiments.trials.selection:SelectionTrial",
    "two-stage": "ppdm_dask.experiments.trials.stages:StagesTrial",
    "owners": "ppdm_dask.experiments.trials.owners:OwnersTrial",
    "respondents": "ppdm_dask.experiments.trials.respondents:RespondentsTrial",
}
"""By the name in a recipe's table ``[trial]``: the module, a colon, and the class."""


@dataclass(frozen=True)
class Measure:
    """A figure that every repeat gives, for every variant.

    Parameters
    ----------
    name : str
        Of the variable with the repeats; its summary is ``NAME_mean`` with ``NAME_mean_se``, or
        ``NAME_median`` with ``NAME_median_se``.
    doc : str
        What it is, in small letters; stands at the axis of figures.
    units : str
        "1" for shares and proportions.
    summary : {"mean", "median", "share", "exact"}
        How repeats are summarised: a share is the mean of numbers that are 0 or 1, whose standard
        error is not 0 where all are equal; an exact figure is the same in each repeat and is kept
        once.
    """

    name: str
    doc: str
    units: str = "1"
    summary: Literal["mean", "median", "share", "exact"] = "mean"

    @property
    def title(self) -> str:
        """What it is, as the beginning of a line."""
        return self.doc[:1].upper() + self.doc[1:]

    @property
    def variable(self) -> str:
        """The result's variable that tables and figures show."""
        ends = {"exact": "", "median": "_median"}
        return self.name + ends.get(self.summary, "_mean")


@dataclass(frozen=True)
class Trial(Declared):
    """A simulation at one setting; below it are frozen dataclasses whose fields are parameters.

    A recipe states each parameter once, in ``[trial]`` or with several values in ``[sweep.grid]``.
    The annotation of a field says what its value may be, its default whether it is needed, and the
    docstring what it means.
    """

    measures: ClassVar[tuple[Measure, ...]]
    variants: ClassVar[tuple[str, ...]] = ()
    """Ways that are compared on the same draws; the axis ``variant`` of the results, if any."""

    uses_data: ClassVar[bool] = False
    """Whether a recipe has ``[[data]]``."""

    def check_codebook(self, codebook: Codebook) -> None:
        """Raise InputError, ``PARAMETER: what is wrong``, where the data cannot serve.

        Binarised attributes have other categories than the codebook, and the same names.
        """

    def undefined(self, records: Records | None) -> str:
        """Why there are no numbers at this setting; empty where there are."""
        return ""

    def ready(self, records: Records | None) -> Any:
        """What all repeats have in common, made once in each process; by default the records."""
        return records

    def repeat(self, stream: SimulationStream, ready: Any) -> Mapping[str, Any]:
        """Measures of one repeat: by name a number or, with variants, a number by variant.

        All draws come from `stream`, and nothing else changes the numbers.  NaN stands for a
        figure that the repeat does not have.
        """
        raise NotImplementedError("a trial states `repeat` or `batch`")

    def batch(self, streams: Sequence[SimulationStream], ready: Any) -> Mapping[str, Floats]:
        """Measures of some repeats: by name an array of shape (repeats,) or (repeats, variants).

        To be overridden where several repeats at once are faster than one by one; the numbers of a
        repeat must not depend on its neighbours.
        """
        rows = [self.repeat(stream, ready) for stream in streams]
        return {
            each.name: np.array([self._row(row, each.name) for row in rows], float)
            for each in self.measures
        }

    def _row(self, row: Mapping[str, Any], name: str) -> Any:
        return [row[name][variant] for variant in self.variants] if self.variants else row[name]

    @classmethod
    def findings(cls, ds: xr.Dataset) -> list[str]:
        """Sentences that a reader of a result must know."""
        return []

    def stated(self) -> dict[str, Any]:
        """The parameters that differ from their defaults, which key the draws.

        So a parameter that is added later changes no number.
        """
        config = self.config()
        defaults = {f.key: plain(getattr(type(self), f.name, None)) for f in fields_of(type(self))}
        return {key: value for key, value in config.items() if value != defaults[key]}


def find_trial(name: str) -> type[Trial]:
    """The class of a registered trial."""
    # By name, so that reading a sweep's recipe does not load every trial's science.
    found: type[Trial] = resolve_name(TRIALS[name])
    return found
