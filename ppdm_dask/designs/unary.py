"""Unary encoding: a bit for each category, each disguised by itself; OUE is one choice of it."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ppdm_dask.arrays import Floats
from ppdm_dask.designs.base import register
from ppdm_dask.designs.draws import Steps, coin_of
from ppdm_dask.designs.parameters import (
    Inverse,
    Nonnegative,
    OneName,
    Probability,
    Size,
    inverse_name,
    nonnegative,
    one_attribute,
    probability,
    whole,
)
from ppdm_dask.designs.sets import Bits, SetDesign
from ppdm_dask.distributions import binomial_law
from ppdm_dask.errors import DesignError
from ppdm_dask.randomness import exact

if TYPE_CHECKING:
    from ppdm_dask.randomness import Stream

__all__ = ["UnaryEncoding"]

OTHERS, TRUTH = 0, 1
MIN_DIFFERENCE = 1e-12


@register
class UnaryEncoding(SetDesign):
    r"""The report holds the true category with probability p, and each other one with q.

    The textbook's weight of category v, and epsilon for p above q:

    .. math:: w_v = \frac{y_v - q}{p - q}, \qquad
        \epsilon = \log \frac{p (1 - q)}{(1 - p) q}

    Parameters
    ----------
    attribute : str
    n : int
        k, categories, 2 or more.
    p, q : float, optional
        In [0, 1]; if they are equal there is no inverse.
    epsilon : float, optional
        In place of p and q: optimised unary encoding (OUE), ``p = 1/2, q = 1 / (e^epsilon + 1)``.
    inverse : {"weighted", "textbook"}
        The weighted left inverse, of least variance for uniform categories, whose weights of all
        categories sum to 1 in each report; or the usual ``(y_v - q) / (p - q)``, whose weights do
        not.

    Raises
    ------
    DesignError
        For a value outside its range, or unless either p and q or epsilon are given.

    Notes
    -----
    With ``a = p (1 - q)``, ``b = (1 - p) q``, m categories in a report, and c = a for those inside
    of it, c = b outside, the density of v given the report, over a uniform one, is u, and the
    weighted inverse has the weights w:

    .. math:: u_v = \frac{k c_v}{m a + (k - m) b}, \qquad w_v = \frac1k + \frac{u_v - 1}{j}, \qquad
        j = \frac{k E[u_x \mid x] - k}{k - 1}
    """

    id = "unary"
    left_out = ("epsilon",)

    def __init__(
        self,
        attribute: OneName,
        n: Size,
        p: Probability | None = None,
        q: Probability | None = None,
        *,
        epsilon: Nonnegative | None = None,
        inverse: Inverse = "weighted",
    ) -> None:
        names, k = one_attribute(attribute), whole("n", n, 2)
        if (epsilon is None) == (p is None and q is None) or (p is None) != (q is None):
            raise DesignError("p and q, or epsilon: exactly one of the two is needed", (p, q))
        if epsilon is not None:
            # Optimised unary encoding: of all p and q with this epsilon, the least variance of
            # rare categories.
            e = math.exp(-nonnegative("epsilon", epsilon))
            p, q = 0.5, e / (1 + e)
        self.attributes = names
        self.shape = (k,)
        self.p = probability("p", p)
        self.q = probability("q", q)
        self.inverse = inverse_name(inverse)

    @property
    def undefined(self) -> str:
        same = abs(self.p - self.q) < MIN_DIFFERENCE
        return "the true category is reported as often as any other" if same else ""

    def chances(self, size: npt.NDArray[np.int64]) -> tuple[Floats, Floats]:
        k, p, q = self.shape[0], self.p, self.q
        within = p * q ** np.maximum(size - 1, 0) * (1 - q) ** (k - size)
        without = (1 - p) * q ** size.astype(float) * (1 - q) ** np.maximum(k - 1 - size, 0)
        return np.where(size > 0, within, 0.0), np.where(size < k, without, 0.0)

    def _densities(self, size: npt.NDArray[np.int64]) -> tuple[Floats, Floats]:
        """u inside and outside; the empty and the full report say nothing."""
        k = self.shape[0]
        a, b = self.p * (1 - self.q), (1 - self.p) * self.q
        total = size * a + (k - size) * b
        speaks = (size > 0) & (size < k) & (total > 0)
        total = np.where(speaks, total, 1.0)
        return np.where(speaks, k * a / total, 1.0), np.where(speaks, k * b / total, 1.0)

    @cached_property
    def _information(self) -> float:
        """j: the information matrix P^T D^-1 P is j I + (1 - j/k) 1 1^T, less a constant."""
        k = self.shape[0]
        others = np.arange(k)
        # Of the k - 1 other categories a binomial number is in a report, so O(k) terms replace 2^k.
        law = binomial_law(others, k - 1, self.q)
        inside = self._densities(others + 1)[0]
        outside = self._densities(others)[1]
        expected = math.fsum(law * (self.p * inside + (1 - self.p) * outside))
        return k * (expected - 1) / (k - 1)

    def pair_weights(self, size: npt.NDArray[np.int64]) -> tuple[Floats, Floats]:
        if self.inverse == "textbook":
            scale = self.p - self.q
            ones = np.ones(np.shape(size))
            return (1 - self.q) / scale * ones, -self.q / scale * ones
        within, without = self._densities(size)
        k, j = self.shape[0], self._information
        # Where nothing can be estimated, j is 0 or what rounding leaves of it.
        with np.errstate(divide="ignore", invalid="ignore"):
            return 1 / k + (within - 1) / j, 1 / k + (without - 1) / j

    def category_moments(self) -> tuple[float, float]:
        k, p, q = self.shape[0], self.p, self.q
        within, without = (w**2 for w in self.pair_weights(np.arange(k + 1)))
        law = binomial_law(np.arange(k), k - 1, q)
        inside = float(law @ (p * within[1:] + (1 - p) * without[:-1]))
        # Of another truth: its own bit, and those of the k - 2 others.
        rest = binomial_law(np.arange(k - 1), k - 2, q)
        outside = 0.0
        for own, chance in ((1, p), (0, 1 - p)):
            here = q * within[own + 1 : own + k] + (1 - q) * without[own : own + k - 1]
            outside += chance * float(rest @ here)
        return inside, outside

    def draw(self, true: npt.NDArray[np.int64], stream: Stream, start: int) -> Bits:
        from ppdm_dask.kernels.disguise import put_truth

        k, stop = self.shape[0], start + len(true)
        q, p = self._coins
        # Whole words for each record, as clients draw them, where draws can be repeated.
        stride = k if stream.fresh else -(-k // 64) * 64
        plane = stream.source(OTHERS).bernoulli(q, stop * stride)
        coin = stream.source(TRUTH).bernoulli(p, stop)
        bits = np.empty((len(true), -(-k // 8)), np.uint8)
        put_truth(plane, coin, start, stride, true, k, bits)
        return bits

    @cached_property
    def _coins(self) -> tuple[Fraction, Fraction]:
        return exact(self.q), exact(self.p)

    def steps(self) -> Steps:
        k, others, truth = self.shape[0], coin_of(self.q, 0, OTHERS), coin_of(self.p, 0, TRUTH)
        return {"op": "unary", "others": others, "truth": truth, "k": k}

    def log_ratio(self) -> float:
        a, b = self.p * (1 - self.q), (1 - self.p) * self.q
        if not a or not b:
            return math.inf if a or b else 0.0
        return abs(math.log(a / b))

    def worst_posterior(self, prior: Floats) -> float:
        """Of a report that holds only the category, or all but it."""
        ratio, k = self.log_ratio(), self.shape[0]
        largest = float(prior.max())
        if k == 1 or math.isinf(ratio):
            return 1.0
        return largest / (largest + (1 - largest) * math.exp(-ratio))
