"""Subset selection: a random subset of fixed size, the truth likelier in it than others."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated

import numpy as np
import numpy.typing as npt

from ppdm_dask.arrays import Floats
from ppdm_dask.designs.base import register
from ppdm_dask.designs.draws import Steps, coin_of
from ppdm_dask.designs.parameters import (
    Nonnegative,
    OneName,
    Probability,
    Size,
    nonnegative,
    one_attribute,
    probability,
    whole,
)
from ppdm_dask.designs.sets import Bits, SetDesign, check_size
from ppdm_dask.errors import DesignError
from ppdm_dask.files.values import Whole
from ppdm_dask.randomness import exact, unpack_plane

if TYPE_CHECKING:
    from ppdm_dask.randomness import Stream

__all__ = ["SubsetSelection"]

TRUTH, OTHERS = 0, 1
MIN_DIFFERENCE = 1e-12


@register
class SubsetSelection(SetDesign):
    r"""The true category is in the report with probability p; the rest of it is drawn at random.

    Its weighted left inverse is the textbook estimator, r being the probability that some other
    category is in the report, and y_v whether v is:

    .. math:: w_v = \frac{y_v - r}{p - r}, \qquad
        r = \frac{p (s - 1) + (1 - p) s}{k - 1}

    Parameters
    ----------
    attribute : str
    n : int
        k, categories, 2 or more.
    size : int, optional
        s, categories in a report, 1 to k - 1.  With epsilon, ``k / (e^epsilon + 1)`` rounded by
        default, which has least variance.
    p : float, optional
        In [0, 1]; at ``s / k`` there is no inverse.
    epsilon : float, optional
        In place of p: ``p = s e^epsilon / (s e^epsilon + k - s)``.

    Raises
    ------
    DesignError
        For a value outside its range, or unless exactly one of p and epsilon is given.
    """

    id = "subset"
    left_out = ("epsilon",)
    either = ("p", "epsilon")

    def __init__(
        self,
        attribute: OneName,
        n: Size,
        size: Annotated[int | None, Whole(1)] = None,
        p: Probability | None = None,
        *,
        epsilon: Nonnegative | None = None,
    ) -> None:
        names, k = one_attribute(attribute), whole("n", n, 2)
        if (p is None) == (epsilon is None):
            raise DesignError("p, epsilon: exactly one of the two is needed", (p, epsilon))
        e = 1.0 if epsilon is None else math.exp(-nonnegative("epsilon", epsilon))
        if size is None:
            if epsilon is None:
                raise DesignError("size: missing; with p it is needed", None)
            size = min(max(round(k * e / (1 + e)), 1), k - 1)
        s = whole("size", size, 1)
        if s >= k:
            raise DesignError(f"size: got {s}; at most {k - 1} of {k} categories", size)
        if p is None:
            p = s / (s + (k - s) * e)
        self.attributes = names
        self.shape = (k,)
        self.size = s
        self.p = probability("p", p)

    @property
    def _other(self) -> float:
        """r: probability that a category other than the truth is in the report."""
        return float((self.size - exact(self.p)) / (self.shape[0] - 1))

    @property
    def undefined(self) -> str:
        same = abs(self.p - self._other) < MIN_DIFFERENCE
        return "the true category is reported as often as any other" if same else ""

    def chances(self, size: npt.NDArray[np.int64]) -> tuple[Floats, Floats]:
        k, s = self.shape[0], self.size
        fits = (size == s).astype(float)
        within, without = self.p / math.comb(k - 1, s - 1), (1 - self.p) / math.comb(k - 1, s)
        return within * fits, without * fits

    def pair_weights(self, size: npt.NDArray[np.int64]) -> tuple[Floats, Floats]:
        check_size(size, self.size, self)
        r, ones = self._other, np.ones(np.shape(size))
        return (1 - r) / (self.p - r) * ones, -r / (self.p - r) * ones

    def category_moments(self) -> tuple[float, float]:
        p, r = self.p, self._other
        within, without = (float(w[0]) ** 2 for w in self.pair_weights(np.array([self.size])))
        return p * within + (1 - p) * without, r * within + (1 - r) * without

    def draw(self, true: npt.NDArray[np.int64], stream: Stream, start: int) -> Bits:
        from ppdm_dask.kernels.draws import draw_subsets

        k, s, stop = self.shape[0], self.size, start + len(true)
        coin = unpack_plane(stream.source(TRUTH).bernoulli(exact(self.p), stop), start, stop)
        steps = min(s, k - s)
        words = stream.source(OTHERS).words(len(true) * steps, start * steps)
        bits = np.zeros((len(true), -(-k // 8)), np.uint8)
        draw_subsets(true, coin, words.reshape(len(true), steps), k, s, bits)
        return bits

    def steps(self) -> Steps:
        k, hold = self.shape[0], coin_of(self.p, 0, TRUTH)
        return {"op": "subset", "truth": hold, "at": [0, OTHERS], "k": k, "size": self.size}

    def log_ratio(self) -> float:
        k, s = self.shape[0], self.size
        a, b = self.p * (k - s), (1 - self.p) * s
        return abs(math.log(a / b)) if a and b else math.inf

    def worst_posterior(self, prior: Floats) -> float:
        """Of the commonest category, told together with the rarest ones."""
        k, s = self.shape[0], self.size
        a, b = self.p * (k - s), (1 - self.p) * s
        # x is with m - 1 others on the likelier side, which are best as rare as can be.
        likely, unlikely, m = (a, b, s) if a >= b else (b, a, k - s)
        order = np.sort(prior)
        x = order[-1]
        rare = math.fsum(order[: m - 1])
        rest = math.fsum(order[m - 1 : -1])
        return float(likely * x / (likely * (x + rare) + unlikely * rest))
