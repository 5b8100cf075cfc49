"""Frequencies of many categories at an epsilon: mechanisms, theory and the certified limit."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np

from ppdm_dask.arrays import Floats
from ppdm_dask.data.attribute import Attribute
from ppdm_dask.data.codebook import Codebook, Records
from ppdm_dask.designs import Design, KaryResponse, SubsetSelection, UnaryEncoding
from ppdm_dask.experiments.trials.trial import Measure, Trial
from ppdm_dask.files.values import Number, Place, Whole
from ppdm_dask.inference import estimate
from ppdm_dask.search.cheapest import cheapest_epsilon

if TYPE_CHECKING:
    from typing import Self

    from ppdm_dask.randomness import SimulationStream

__all__ = ["FrequencyTrial"]

ATTRIBUTE = "value"


class Ready(NamedTuple):
    """What all repeats have in common."""

    codebook: Codebook
    law: Floats
    designs: dict[str, Design]
    expected: dict[str, float]
    limit: float


@dataclass(frozen=True)
class FrequencyTrial(Trial):
    """Proportions of k categories from n reports of one epsilon, by several mechanisms.

    Subsets have the size of least variance at the true proportions; weights of unary encoding are
    those of least variance for even categories.

    Parameters
    ----------
    epsilon : float
        Log of the largest likelihood ratio of a report.
    n : int
        Reports.
    k : int
        Categories.
    common : int
        Number of common categories; they are equally frequent, and so are the others.
    share : float
        Share of the common categories together.
    """

    measures = (
        Measure("error", "mean squared error over the categories, times n"),
        Measure("expected", "the same by theory", summary="exact"),
        Measure("limit", "certified: no design of the epsilon has a smaller one", summary="exact"),
        Measure("ratio", "error by theory over the certified limit", summary="exact"),
    )
    variants = ("k-ary", "OUE", "subset selection")

    epsilon: Annotated[float, Number("a number above 0 and up to 20 is needed", above=0, most=20)]
    n: Annotated[int, Whole(2)]
    k: Annotated[int, Whole(2, 1000)]
    common: Annotated[int, Whole(0)] = 0
    share: Annotated[float, Number("a share between 0 and 1 is needed", 0, below=1)] = 0.0

    def checked(self, at: Place) -> Self:
        if self.common >= self.k:
            raise at["common"].wrong(self.common, f"fewer than all {self.k} categories are needed")
        if (self.common > 0) != (self.share > 0):
            raise at["share"].wrong(self.share, "common categories and their share go together")
        return self

    def ready(self, records: Records | None) -> Ready:
        rare = self.k - self.common
        law = np.full(self.k, (1 - self.share) / rare)
        law[: self.common] = self.share / max(self.common, 1)
        k, epsilon = self.k, self.epsilon
        subsets = [SubsetSelection(ATTRIBUTE, k, s, epsilon=epsilon) for s in range(1, k)]
        designs: dict[str, Design] = {
            "k-ary": KaryResponse(ATTRIBUTE, k, epsilon=epsilon),
            "OUE": UnaryEncoding(ATTRIBUTE, k, epsilon=epsilon),
            "subset selection": min(subsets, key=lambda each: math.fsum(each.variance(law))),
        }
        least = cheapest_epsilon(law, epsilon)
        return Ready(
            Codebook((Attribute(ATTRIBUTE, tuple(str(i) for i in range(k))),)),
            law,
            designs,
            {name: math.fsum(each.variance(law)) / k for name, each in designs.items()},
            math.nan if least is None else least.noise / k,
        )

    def repeat(self, stream: SimulationStream, ready: Ready) -> Mapping[str, Any]:
        p = ready.law
        people = stream.child(0).generator().choice(self.k, (self.n, 1), p=p / p.sum())
        records, errors = Records(people, ready.codebook), {}
        for i, (name, design) in enumerate(ready.designs.items(), 1):
            reports = design.disguise(records, stream=stream.child(i))
            found = estimate(reports, [ATTRIBUTE], design=design)
            errors[name] = float(((found.values - p) ** 2).mean()) * self.n
        return {
            "error": errors,
            "expected": ready.expected,
            "limit": dict.fromkeys(ready.designs, ready.limit),
            "ratio": {name: each / ready.limit for name, each in ready.expected.items()},
        }
