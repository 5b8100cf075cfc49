"""A trial in one file: Warner's question, whose error has a formula."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from ppdm_dask.data.codebook import Records
from ppdm_dask.experiments.trials.trial import Measure, Trial
from ppdm_dask.files.values import Number, Whole
from ppdm_dask.randomness import SimulationStream

Proportion = Annotated[float, Number("a proportion from 0 to 1 is needed", 0, 1)]


@dataclass(frozen=True)
class Warner(Trial):
    """A proportion from n answers, randomised by Warner's question or plain.

    Parameters
    ----------
    theta : float
        Probability of a truthful answer.
    n : int
        People who answer.
    share : float
        Of the people who have the trait.
    """

    measures = (
        Measure("squared_error", "Squared error of the estimate"),
        Measure("variance", "Variance by Warner's formula", summary="exact"),
        Measure("too_large", "Whether the estimate exceeds the truth", summary="share"),
    )
    variants = ("warner", "plain")

    theta: Proportion
    n: Annotated[int, Whole(1)]
    share: Proportion = 0.3

    def undefined(self, records: Records | None) -> str:
        return "answers say nothing at theta = 1/2" if self.theta == 0.5 else ""

    def repeat(self, stream: SimulationStream, ready: Any) -> Mapping[str, Any]:
        draw = stream.generator()
        have = draw.random(self.n) < self.share
        yes = have == (draw.random(self.n) < self.theta)
        found = {
            "warner": (yes.mean() - (1 - self.theta)) / (2 * self.theta - 1),
            "plain": have.mean(),
        }
        plain = self.share * (1 - self.share) / self.n
        more = self.theta * (1 - self.theta) / (self.n * (2 * self.theta - 1) ** 2)
        return {
            "squared_error": {name: (each - self.share) ** 2 for name, each in found.items()},
            "variance": {"warner": plain + more, "plain": plain},
            "too_large": {name: float(each > self.share) for name, each in found.items()},
        }
