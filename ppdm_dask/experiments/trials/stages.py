"""A survey in two stages against one with a single design, for the guess or for the truth."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np

from ppdm_dask.arrays import Floats
from ppdm_dask.data.attribute import Attribute
from ppdm_dask.data.codebook import Codebook, Records
from ppdm_dask.designs import Design
from ppdm_dask.experiments.trials.trial import Measure, Trial
from ppdm_dask.files.values import Many, Number, Place
from ppdm_dask.files.values import Whole as WholeNumber
from ppdm_dask.inference import Estimate, estimate
from ppdm_dask.survey.stages import TwoStage

if TYPE_CHECKING:
    from typing import Self

    from ppdm_dask.randomness import SimulationStream

__all__ = ["StagesTrial"]

Shares = Annotated[
    tuple[float, ...],
    Many(
        Number("a proportion of 1e-6 or more is needed", 1e-6, 1),
        "a list of 2 to 10 proportions is needed",
        2,
    ),
]
PEOPLE, PILOT, SECOND, GUESSED, KNOWN = range(5)  # streams of a repeat
LEVEL = 0.95


class Ready(NamedTuple):
    """What all repeats have in common."""

    plan: TwoStage
    codebook: Codebook
    known: Design
    """The best one if the truth is known."""


@dataclass(frozen=True)
class StagesTrial(Trial):
    """Proportions from n reports: by the best design at a guess, in two stages, or at the truth.

    Parameters
    ----------
    epsilon : float
        Of all designs.
    n : int
        Reports of both stages together.
    pilot : float
        Share of the reports in the pilot.
    truth, guess : tuple of float
        Proportions; by default the guess is that all are equal.
    """

    measures = (
        Measure("error", "mean squared error over the categories, times n"),
        Measure("expected", "the same by theory, if the pilot found the truth", summary="exact"),
        Measure("bias", "error of the first category's estimate"),
        Measure("coverage", "share of the categories that are within their 95 % interval"),
    )
    variants = ("guess", "two stages", "truth")

    epsilon: Annotated[float, Number("a number above 0 and up to 20 is needed", above=0, most=20)]
    n: Annotated[int, WholeNumber(10)]
    truth: Shares
    pilot: Annotated[
        float, Number("a share between 0 and 1, both excluded, is needed", above=0, below=1)
    ] = 0.2
    guess: Shares = ()

    def checked(self, at: Place) -> Self:
        for name in ("truth", "guess"):
            shares = getattr(self, name)
            if shares and (abs(sum(shares) - 1) > 1e-9 or len(shares) > 10):
                raise at[name].wrong(list(shares), "2 to 10 proportions of sum 1 are needed")
        if self.guess and len(self.guess) != len(self.truth):
            raise at["guess"].wrong(list(self.guess), f"{len(self.truth)} proportions are needed")
        return self

    def ready(self, records: Records | None) -> Ready:
        k = len(self.truth)
        labels = tuple(str(i) for i in range(k))
        guess = dict(zip(labels, self.guess or (1 / k,) * k, strict=True))
        first = min(max(round(self.pilot * self.n), 2), self.n - 2)
        plan = TwoStage(guess, (first, self.n - first), epsilon=self.epsilon)
        known = TwoStage(dict(zip(labels, self.truth, strict=True)), (2, 2), epsilon=self.epsilon)
        return Ready(plan, Codebook((Attribute("answer", labels),)), known.first)

    def repeat(self, stream: SimulationStream, ready: Ready) -> Mapping[str, Any]:
        plan, k, p = ready.plan, len(self.truth), np.array(self.truth)
        drawn = stream.child(PEOPLE).generator().choice(k, (self.n, 1), p=p / p.sum())
        people = Records(drawn, ready.codebook)
        pilot = plan.first.disguise(people[: plan.sizes[0]], stream=stream.child(PILOT))
        design = plan.second(pilot)
        second = design.disguise(people[plan.sizes[0] :], stream=stream.child(SECOND))
        found = {"two stages": plan.estimate(pilot, second, design=design)}
        once = (("guess", plan.first, GUESSED), ("truth", ready.known, KNOWN))
        for name, single, key in once:
            reports = single.disguise(people, stream=stream.child(key))
            found[name] = estimate(reports, ["answer"], design=single)
        expected = {
            "guess": plan.first.variance(p) / self.n,
            "two stages": plan.expected_variance(p, ready.known),
            "truth": ready.known.variance(p) / self.n,
        }
        return {
            "error": {
                name: float(((each.values - p) ** 2).mean()) * self.n
                for name, each in found.items()
            },
            "expected": {name: math.fsum(each) / k * self.n for name, each in expected.items()},
            "bias": {name: float(each.values[0] - p[0]) for name, each in found.items()},
            "coverage": {name: _coverage(each, p) for name, each in found.items()},
        }


def _coverage(found: Estimate, p: Floats) -> float:
    low, high = found.ends(LEVEL)
    return float(((low <= p) & (p <= high)).mean())
