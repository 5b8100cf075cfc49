"""One coin for a block of binary attributes: all answers true, or all of them their opposites."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, NamedTuple

import numpy as np
import numpy.typing as npt

from ppdm_dask.arrays import Floats
from ppdm_dask.designs.base import Codes, Design, register
from ppdm_dask.designs.draws import Steps, coin_of
from ppdm_dask.designs.parameters import (
    NAMES,
    SHAPE,
    Probability,
    attribute_names,
    probability,
    shape_of,
)
from ppdm_dask.errors import DesignError
from ppdm_dask.privacy import PosteriorSummary
from ppdm_dask.randomness import exact, unpack_plane
from ppdm_dask.shown import shown

if TYPE_CHECKING:
    from ppdm_dask.randomness import Stream

__all__ = ["Flip", "IntegerWeights"]

MIN_DIFFERENCE = 1e-12
"""|2 theta - 1| below this counts as 0: 1/2 reached by rounding is not quite 1/2."""


class IntegerWeights(NamedTuple):
    """Weights of a flip in whole numbers: report y counts ``truth`` at y, ``opposite`` at not y.

    The weights themselves are these numbers over ``scale``, which is positive.
    """

    truth: int
    opposite: int
    scale: int


@register
class Flip(Design):
    r"""With probability theta all answers of the block are true, else all are reversed.

    It is the one-group scheme, Eq. (3) of [ZhanDu]_; R sends a joint category to its opposite:

    .. math:: P = \theta I + (1 - \theta) R, \qquad
        B = \frac{\theta I - (1 - \theta) R}{2 \theta - 1}

    Parameters
    ----------
    attributes : str or iterable of str
        Binary attributes; one coin decides for all of them.
    theta : float
        Probability of the truth, in [0, 1]; at 1/2 the design has no inverse.
    shape : sequence of int, optional
        Categories of each attribute, checked to be 2.

    Raises
    ------
    DesignError
        If theta is not a probability or an attribute is not binary.
    """

    id = "flip"
    left_out = ("shape",)

    def __init__(
        self,
        attributes: Annotated[str | Iterable[str], NAMES],
        theta: Probability,
        shape: Annotated[Sequence[int] | None, SHAPE] = None,
    ) -> None:
        names = attribute_names(attributes)
        if shape is not None:
            for name, size in zip(names, shape_of(shape, len(names)), strict=True):
                if size != 2:
                    raise DesignError(
                        f"shape: attribute {shown(name)} has {size} categories; a flip needs 2",
                        shape,
                    )
        self.attributes = names
        self.shape = (2,) * len(names)
        self.theta = probability("theta", theta)

    @property
    def undefined(self) -> str:
        if abs(float(2 * exact(self.theta) - 1)) >= MIN_DIFFERENCE:
            return ""
        return "at theta = 1/2 an answer and its opposite are reported alike"

    @property
    def integer_weights(self) -> IntegerWeights:
        """Weights for theta = T / D: T and -(D - T) over 2 T - D, with its sign moved into them."""
        self.require_inverse()
        theta = exact(self.theta)
        T, D = theta.numerator, theta.denominator
        sign = 1 if 2 * T > D else -1
        return IntegerWeights(sign * T, -sign * (D - T), abs(2 * T - D))

    @property
    def _chances(self) -> tuple[float, float]:
        """Probabilities of the truth and of its opposite."""
        return self.theta, float(1 - exact(self.theta))

    @property
    def _coefficients(self) -> tuple[float, float]:
        """Coefficients (a, b) of B = a I + b R."""
        # By way of integers: 2 theta - 1 in doubles would lose the digits that cancel.
        truth, opposite, scale = self.integer_weights
        return truth / scale, opposite / scale

    def matrix(self) -> Floats:
        self._require_dense()
        truth, opposite = self._chances
        P: Floats = truth * np.eye(self.n_true) + opposite * np.eye(self.n_true)[::-1]
        return P

    def left_inverse(self) -> Floats:
        self._require_dense()
        a, b = self._coefficients
        B: Floats = a * np.eye(self.n_true) + b * np.eye(self.n_true)[::-1]
        return B

    def marginal(self, attributes: Sequence[str]) -> Flip:
        return Flip(attributes, self.theta)

    # The opposite of joint category x is n_true - 1 - x, so that R reverses a vector.

    def apply(self, true: Floats) -> Floats:
        truth, opposite = self._chances
        result: Floats = truth * true + opposite * true[::-1]
        return result

    def invert(self, reported: Floats) -> Floats:
        a, b = self._coefficients
        result: Floats = a * reported + b * reported[::-1]
        return result

    def invert_squared(self, reported: Floats) -> Floats:
        a, b = self._coefficients
        result: Floats = a**2 * reported + b**2 * reported[::-1]
        return result

    # I and R are symmetric, and so are P and its inverse.

    def apply_transposed(self, reported: Floats) -> Floats:
        return self.apply(reported)

    def invert_transposed(self, true: Floats) -> Floats:
        return self.invert(true)

    def weights(self, masks: Mapping[str, npt.NDArray[np.bool_]], codes: Codes) -> Floats:
        a, b = self._coefficients
        inside = np.ones(len(codes), dtype=bool)
        across = np.ones(len(codes), dtype=bool)
        for axis, name in enumerate(self.attributes):
            if name in masks:
                inside &= masks[name][codes[:, axis]]
                # Whether the opposite report is in the event.
                across &= masks[name][::-1][codes[:, axis]]
        result: Floats = a * inside + b * across
        return result

    def sample(self, codes: Codes, stream: Stream, start: int) -> Codes:
        stop = start + len(codes)
        keep = unpack_plane(stream.source(0).bernoulli(exact(self.theta), stop), start, stop)
        return np.where(keep[:, None], codes, 1 - codes)

    def steps(self) -> Steps:
        return {"op": "flip", "keep": coin_of(self.theta, 0)}

    def sample_inverse(self, codes: Codes, stream: Stream) -> tuple[Codes, Floats]:
        """Keep the report with probability theta, for ``|a| : |b|`` is theta : 1 - theta."""
        a, b = self._coefficients
        n = len(codes)
        keep = unpack_plane(stream.source(0).bernoulli(exact(self.theta), n), 0, n)
        factors = np.where(keep, math.copysign(1, a), math.copysign(1, b))
        return np.where(keep[:, None], codes, 1 - codes), (abs(a) + abs(b)) * factors

    def posterior_summary(self, prior: Floats) -> PosteriorSummary:
        p = np.asarray(prior, dtype=float).reshape(-1)
        truth, opposite = self._chances
        kept, reversed_ = truth * p, opposite * p[::-1]
        return PosteriorSummary(
            kept + reversed_, np.maximum(kept, reversed_), kept**2 + reversed_**2
        )

    def likelihood_range(self) -> tuple[Floats, Floats]:
        # With two or more attributes some truths are neither the report nor its opposite.
        low = min(self._chances) if self.n_true == 2 else 0.0
        both = np.array([[low], [max(self._chances)]])
        # Views of two numbers: the joint domain may be large.
        lows, highs = np.broadcast_to(both, (2, self.n_true))
        return lows, highs

    def log_ratio(self) -> float:
        """As in the base class: of two or more attributes each report rules some truths out."""
        low, high = sorted(self._chances)
        return math.log(high / low) if self.n_true == 2 and low else math.inf
