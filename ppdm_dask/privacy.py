"""How much a report tells about the truth behind it.

Every measure needs the adversary's prior.  On a whole block it is the joint prior of the block,
seen by an adversary who knows the whole report; :func:`per_attribute` takes the adversary who
looks at one reported attribute and knows that attribute's prior.  The two differ, and results say
which was taken.

Also here: adversaries who know more than the report: other attributes of the same block.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from ppdm_dask.arrays import Floats
from ppdm_dask.errors import DesignError, InputError
from ppdm_dask.ranges import real, reals
from ppdm_dask.shown import listed, shown

__all__ = [
    "Channel",
    "Hint",
    "PosteriorSummary",
    "Prior",
    "amplified",
    "attribute_channel",
    "check_prior",
    "epsilon",
    "gamma",
    "hint_attack",
    "map_privacy",
    "max_posterior",
    "per_attribute",
    "posterior",
    "pse",
    "pse_unrelated",
]


Prior: TypeAlias = npt.ArrayLike | Mapping[str, float]


class PosteriorSummary(NamedTuple):
    """What privacy measures need of the joint law J(y, x) = P[y, x] p[x], per reported y."""

    total: Floats
    """sum over x of J(y, x): probability of the report."""
    largest: Floats
    """max over x of J(y, x)."""
    squares: Floats
    """sum over x of J(y, x) ** 2."""


class Channel(Protocol):
    """What measures ask of a design: nothing but its law, in the form that its structure allows.

    A :class:`~ppdm_dask.Design` is one; none is imported here, so that a family may use these
    formulas.
    """

    @property
    def attributes(self) -> tuple[str, ...]:
        """Attributes of the block."""
        ...  # pragma: no cover

    @property
    def shape(self) -> tuple[int, ...]:
        """True categories of each attribute."""
        ...  # pragma: no cover

    @property
    def n_true(self) -> int:
        """Joint true categories."""
        ...  # pragma: no cover

    @property
    def blocks(self) -> Sequence[Channel]:
        """Independent blocks."""
        ...  # pragma: no cover

    def matrix(self) -> Floats:
        """P, shape (reported symbols, true categories)."""
        ...  # pragma: no cover

    def posterior_summary(self, prior: Floats) -> PosteriorSummary:
        """Totals, largest entries and sums of squares of P[y, x] p[x] per symbol y."""
        ...  # pragma: no cover

    def log_ratio(self) -> float:
        """Log of the largest P[y, x] / P[y, x']."""
        ...  # pragma: no cover

    def worst_posterior(self, prior: Floats) -> float:
        """Largest P(x | y), for a checked prior."""
        ...  # pragma: no cover

    def shares_in_order(self, shares: Mapping[str, float]) -> list[float]:
        """Proportions by label in the order of the categories."""
        ...  # pragma: no cover

    def attribute_channel(self, attribute: str, prior: Floats) -> tuple[Channel, Floats]:
        """The channel of one attribute, and its prior, for a checked joint prior."""
        ...  # pragma: no cover


def check_prior(design: Channel, prior: Prior) -> Floats:
    """A prior over the joint categories of a block, shape (true categories,).

    For one attribute a mapping of label and proportion may be given.
    """
    if isinstance(prior, Mapping):
        prior = design.shares_in_order(prior)
    try:
        p = np.asarray(prior, dtype=float).reshape(-1)
    except (TypeError, ValueError):
        raise DesignError("prior: probabilities that sum to 1 are needed", prior) from None
    if p.size != design.n_true:
        raise DesignError(
            f"prior: {p.size} categories; {design.n_true} are needed for "
            f"{listed(design.attributes)}",
            prior,
        )
    if not np.isfinite(p).all() or (p < 0).any() or abs(p.sum() - 1) > 1e-9:
        raise DesignError("prior: probabilities that sum to 1 are needed", prior)
    return p


def posterior(design: Channel, prior: Prior) -> Floats:
    r"""P(x | y), shape (reported symbols, true categories); nan where y cannot occur.

    .. math:: P(x \mid y) = \frac{P_{yx} p_x}{\sum_{x'} P_{yx'} p_{x'}}
    """
    joint = design.matrix() * check_prior(design, prior)
    total = joint.sum(axis=1, keepdims=True)
    result: Floats = np.divide(joint, total, out=np.full_like(joint, np.nan), where=total > 0)
    return result


def map_privacy(design: Channel, prior: Prior) -> float:
    r"""MAP privacy: how often the best guess is wrong, 1 - sum_y max_x P[y, x] p[x].

    In [0, 1 - max p].  Eq. (8) of [HuangDu]_:

    .. math:: 1 - \sum_y \max_x P_{yx} p_x
    """
    largest = design.posterior_summary(check_prior(design, prior)).largest
    # Rounding can leave -1e-16 where the best guess is always right.
    return max(1.0 - math.fsum(largest), 0.0)


def max_posterior(design: Channel, prior: Prior) -> float:
    r"""max over x and possible y of P(x | y), in [max p, 1].  Eq. (9) of [HuangDu]_.

    .. math:: \max_{x, y} P(x \mid y) \ge \max_x p_x
    """
    return design.worst_posterior(check_prior(design, prior))


def pse(design: Channel, prior: Prior) -> float:
    r"""Expected Gini impurity of the posterior, in [0, 1 - 1/n].

    .. math:: \sum_y \sum_x P(x, y) \, (1 - P(x \mid y))

    For one binary attribute under the unrelated-question design it is the PSE of [ZhanMatwin]_,
    section 4, in its corrected form (:func:`pse_unrelated`).
    """
    summary = design.posterior_summary(check_prior(design, prior))
    possible = summary.total > 0
    kept = summary.squares[possible] / summary.total[possible]
    # Rounding can leave -1e-16 where the truth is certain.
    return max(math.fsum(summary.total[possible] - kept), 0.0)


def pse_unrelated(w_a: npt.ArrayLike, w_y: npt.ArrayLike, q: npt.ArrayLike) -> Floats:
    r"""PSE of one binary attribute in closed form: Eq. (2) of [ZhanMatwin]_, corrected.

    Parameters
    ----------
    w_a, w_y : array_like in [0, 1]
        P(A = 1) of the private and P(Y = 1) of the personal attribute.
    q : array_like in [0, 1]
        Probability of the private question.

    Raises
    ------
    InputError
        For a value outside of its range, or shapes that do not broadcast.

    Notes
    -----
    A report of 1 has the probability :math:`r_{11}` if the original is 1, :math:`r_{10}` if it is
    0, and :math:`P_1` in all; so for a report of 0:

    .. math:: r_{11} = q + (1 - q) W_y, \qquad r_{10} = (1 - q) W_y

    .. math:: r_{00} = q + (1 - q)(1 - W_y), \qquad r_{01} = (1 - q)(1 - W_y)

    .. math:: P_1 = W_a r_{11} + (1 - W_a) r_{10}, \qquad P_0 = 1 - P_1

    .. math:: \text{PSE} = 2 W_a (1 - W_a)
        \left( \frac{r_{11} r_{10}}{P_1} + \frac{r_{00} r_{01}}{P_0} \right)

    The printed equation takes ``(1 - q)(1 - W_y)`` for Pr(R = 1 | O = 0); it is ``(1 - q) W_y``.
    """
    given = {"w_a": w_a, "w_y": w_y, "q": q}
    w_a, w_y, q = (reals(name, value, 0, 1) for name, value in given.items())
    try:
        shape = np.broadcast_shapes(w_a.shape, w_y.shape, q.shape)
    except ValueError:
        shapes = ", ".join(str(array.shape) for array in (w_a, w_y, q))
        raise InputError(
            f"w_a, w_y, q: shapes {shapes}; shapes that broadcast are needed", given
        ) from None
    r11, r10 = q + (1 - q) * w_y, (1 - q) * w_y
    r00, r01 = q + (1 - q) * (1 - w_y), (1 - q) * (1 - w_y)
    p1 = w_a * r11 + (1 - w_a) * r10
    p0 = 1 - p1
    ones = np.divide(r11 * r10, p1, out=np.zeros(shape), where=p1 > 0)
    zeros = np.divide(r00 * r01, p0, out=np.zeros(shape), where=p0 > 0)
    result: Floats = 2 * w_a * (1 - w_a) * (ones + zeros)
    return result


def epsilon(design: Channel) -> float:
    r"""Log of max over y, x, x' of P[y, x] / P[y, x']; inf where a possible report rules x out.

    .. math:: \epsilon = \max_{y, x, x'} \log \frac{P_{yx}}{P_{yx'}}

    Independent blocks add up.
    """
    return sum(block.log_ratio() for block in design.blocks)


def gamma(design: Channel) -> float:
    r"""Amplification: the largest P[y, x] / P[y, x'], or e^epsilon.

    .. math:: \gamma = \max_{y, x, x'} \frac{P_{yx}}{P_{yx'}} = e^\epsilon

    Infinite where a possible report rules x' out.  Independent blocks multiply.
    """
    ratio = epsilon(design)
    return math.exp(ratio) if ratio < 700 else math.inf


def amplified(gamma: float, before: float) -> float:
    r"""Largest probability after the report of a property that had one before it, for any prior.

    .. math:: \frac{\gamma \rho}{\gamma \rho + 1 - \rho}

    A design of amplification gamma lets no property of a record rise from rho to more, whatever the
    adversary's prior.

    Parameters
    ----------
    gamma : float
        Of 1 or more; see :func:`gamma`.
    before : float
        rho, in [0, 1].

    Examples
    --------
    >>> round(amplified(19.0, 0.05), 12)
    0.5
    """
    gamma = real("gamma", gamma, 1, infinite=True)
    before = real("before", before, 0, 1)
    if before in (0, 1) or math.isinf(gamma):
        return float(before > 0)
    return gamma * before / (gamma * before + 1 - before)


def attribute_channel(design: Channel, attribute: str, prior: Prior) -> tuple[Channel, Floats]:
    """What an adversary sees who looks at one reported attribute, and that attribute's prior.

    Parameters
    ----------
    design : Design
        A block.
    attribute : str
    prior : array_like, shape of the block
        Joint prior; where the block is not lumpable the channel of one attribute depends on it.
    """
    return design.attribute_channel(attribute, check_prior(design, prior))


def per_attribute(
    measure: Callable[[Channel, Floats], float], design: Channel, prior: Prior
) -> dict[str, float]:
    """A measure for the adversary who sees one reported attribute, for each attribute of a block.

    Examples
    --------
    >>> from ppdm_dask import UnrelatedQuestion, privacy
    >>> block = UnrelatedQuestion(["a", "b"], q=0.6)
    >>> result = privacy.per_attribute(privacy.pse, block, [[0.15, 0.35], [0.15, 0.35]])
    >>> {name: round(value, 6) for name, value in result.items()}
    {'a': 0.32, 'b': 0.285229}
    """
    return {name: measure(*attribute_channel(design, name, prior)) for name in design.attributes}


@dataclass(frozen=True)
class Hint:
    """What an adversary learns of one attribute from the report and true values of others.

    Parameters
    ----------
    about : str
    known : tuple of str
    worst_posterior : float
        Largest probability of a value of the attribute over possible reports and hints.
    privacy : float
        How often the best guess of the attribute is wrong.
    without_hint : float
        The same for an adversary who sees only the whole report.
    """

    about: str
    known: tuple[str, ...]
    worst_posterior: float
    privacy: float
    without_hint: float


def hint_attack(design: Channel, prior: npt.ArrayLike, about: str, known: Iterable[str]) -> Hint:
    """Attack an attribute of a block with true values of other attributes of it.

    With one coin for a whole block, one known value can give the coin away and with it all answers:
    the price of the one-group scheme of [ZhanDu]_, as a number.

    Parameters
    ----------
    design : Design
        A block of several attributes, with a dense matrix.
    prior : array_like, shape of the block
        Joint prior, which the adversary knows.
    about : str
        Attribute of the block that the adversary wants to know.
    known : iterable of str
        Other attributes of the block, whose true values the adversary knows; none for no hint.

    Examples
    --------
    >>> from ppdm_dask.designs import Flip
    >>> attack = hint_attack(Flip(["a", "b"], 0.8), [[0.25, 0.25], [0.25, 0.25]], "a", ["b"])
    >>> attack.worst_posterior, round(attack.privacy, 3), round(attack.without_hint, 3)
    (1.0, 0.0, 0.2)
    """
    hints = tuple(known)
    for name in (about, *hints):
        if name not in design.attributes:
            raise DesignError(
                f"{shown(name)} is not in the block, which has: {listed(design.attributes)}",
                name,
            )
    if about in hints or len(set(hints)) < len(hints):
        raise DesignError(f"known: {listed(hints)}; distinct others than {shown(about)}", hints)
    p = check_prior(design, prior)
    joint = (design.matrix() * p).reshape(-1, *design.shape)
    kept = [design.attributes.index(name) for name in (about, *hints)]
    others = tuple(1 + i for i in range(len(design.shape)) if i not in kept)
    seen = joint.sum(axis=others)
    # Axes: report, then the kept attributes in the order of the block.
    axis = 1 + sorted(kept).index(kept[0])
    table = np.moveaxis(seen, axis, -1)
    total, largest = table.sum(axis=-1), table.max(axis=-1)
    possible = total > 0
    alone = table.sum(axis=tuple(range(1, table.ndim - 1))).max(axis=-1).sum()
    return Hint(
        about,
        hints,
        float((largest[possible] / total[possible]).max()),
        max(1.0 - float(largest.sum()), 0.0),
        max(1.0 - float(alone), 0.0),
    )
