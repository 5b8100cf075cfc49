"""k-ary randomized response: the truth with probability p, else another category, all alike.

Also here: the crosswise model: Warner's design without a device.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ppdm_dask.arrays import Floats
from ppdm_dask.designs.base import Codes, register
from ppdm_dask.designs.draws import Steps, coin_of
from ppdm_dask.designs.mixture import Mixture
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
from ppdm_dask.errors import DesignError
from ppdm_dask.randomness import exact, unpack_plane

if TYPE_CHECKING:
    from ppdm_dask.randomness import Stream

__all__ = ["Crosswise", "KaryResponse", "Warner"]


KEEP, OTHER = 0, 1


@register
class KaryResponse(Mixture):
    r"""P has p on its diagonal and (1 - p) / (n - 1) elsewhere.

    With ``r = (1 - p) / (n - 1)`` and the share of reports of x, a proportion is estimated by

    .. math:: \hat p_x = \frac{\hat P^*_x - r}{p - r}, \qquad
        \epsilon = \left| \log \frac{p}{r} \right|

    Warner's scheme, uniform perturbation and FRAPP of [HuangDu]_, section III-B, are three names of
    it, and so three ways to say p.  Theorem 2 calls their sets of matrices the same; uniform
    perturbation and FRAPP with lambda of 1 or more reach only p of 1/n or more.

    Parameters
    ----------
    attribute : str
    n : int
        Categories, 2 or more.
    p : float, optional
        Warner's: probability of reporting the truth, in [0, 1].
    q : float, optional
        Uniform perturbation's: the truth is kept with probability q, and otherwise replaced by a
        random category, possibly the same one; ``p = q + (1 - q) / n``.
    lambda_ : float, optional
        FRAPP's ratio of diagonal to other entries, 0 or more; ``p = lambda / (lambda + n - 1)``.
        It is called ``lambda`` in configurations.
    epsilon : float, optional
        In place of p: the local differential privacy that ``p = e^epsilon / (e^epsilon + n - 1)``
        gives.

    Raises
    ------
    DesignError
        For a value outside its range, or unless exactly one of the four is given.
    """

    id = "kary"
    keys: ClassVar[Mapping[str, str]] = {"lambda_": "lambda"}
    left_out = ("q", "lambda_", "epsilon")
    either: ClassVar[tuple[str, ...]] = ("p", "q", "lambda", "epsilon")

    def __init__(
        self,
        attribute: OneName,
        n: Size,
        p: Probability | None = None,
        *,
        q: Probability | None = None,
        lambda_: Nonnegative | None = None,
        epsilon: Nonnegative | None = None,
    ) -> None:
        names = one_attribute(attribute)
        size = whole("n", n, 2)
        given = {"p": p, "q": q, "lambda": lambda_, "epsilon": epsilon}
        if sum(value is not None for value in given.values()) != 1:
            raise DesignError(
                f"{', '.join(given)}: exactly one of them is needed", tuple(given.values())
            )
        if q is not None:
            keep = exact(probability("q", q))
            p = float(keep + (1 - keep) / size)
        elif lambda_ is not None:
            ratio = exact(nonnegative("lambda", lambda_))
            p = float(ratio / (ratio + size - 1))
        elif epsilon is not None:
            p = 1 / (1 + (size - 1) * math.exp(-nonnegative("epsilon", epsilon)))
        self.attributes = names
        self.shape = (size,)
        self.p = probability("p", p)

    @property
    def mixing(self) -> float:
        n, p = self.shape[0], exact(self.p)
        return float((n * p - 1) / (n - 1))

    @property
    def factors(self) -> tuple[Floats, ...]:
        n = self.shape[0]
        return (np.full(n, 1 / n),)

    @property
    def _drawn_factors(self) -> tuple[Floats, ...]:
        # Other categories are drawn alike, exactly.
        return self.factors

    def sample(self, codes: Codes, stream: Stream, start: int) -> Codes:
        n, stop = self.shape[0], start + len(codes)
        plane = stream.source(KEEP).bernoulli(exact(self.p), stop)
        if n == 2:
            return np.where(unpack_plane(plane, start, stop)[:, None], codes, 1 - codes)
        from ppdm_dask.kernels.disguise import keep_or_step

        words = stream.source(OTHER).words(len(codes), start)
        reports = np.empty_like(codes)
        keep_or_step(codes[:, 0], plane, start, words, n, reports[:, 0])
        return reports

    def steps(self) -> Steps:
        if self.shape[0] == 2:
            return {"op": "flip", "keep": coin_of(self.p, KEEP)}
        return {"op": "step", "keep": coin_of(self.p, KEEP), "at": [OTHER], "n": self.shape[0]}


@register
class Warner(KaryResponse):
    r"""Warner's design for one binary attribute: the truth with probability theta, else not.

    From the share of n reports that name the trait, the true share is estimated by [Warner]_ as
    follows, with the variance V:

    .. math:: \hat \pi = \frac{\hat \lambda - (1 - \theta)}{2 \theta - 1}, \qquad
        V = \frac{\pi (1 - \pi)}{n} + \frac{\theta (1 - \theta)}{n (2 \theta - 1)^2}

    Parameters
    ----------
    attribute : str
    theta : float
        In [0, 1]; at 1/2 the design has no inverse.
    """

    id = "warner"
    either = ()

    def __init__(self, attribute: OneName, theta: Probability) -> None:
        super().__init__(attribute, 2, probability("theta", theta))

    @property
    def theta(self) -> float:
        """Probability of the truth."""
        return self.p


@register
class Crosswise(KaryResponse):
    r"""Report 1 if both the trait and an unrelated statement apply or neither does, else 0.

    Its P is that of Warner's design with theta = p: a report is 1 with probability

    .. math:: \lambda = \pi p + (1 - \pi)(1 - p)

    Parameters
    ----------
    attribute : str
        Binary attribute. Category 1 is the trait; with the other category as the trait, the
        probabilities are the same.
    p : float
        Probability that the unrelated statement applies, in [0, 1]; at 1/2 there is no inverse.
    """

    id = "crosswise"
    either = ()

    def __init__(self, attribute: OneName, p: Probability) -> None:
        super().__init__(attribute, 2, probability("p", p))
