"""Forced response: a die says whether to answer truly, or which answer to give."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Annotated, Any, Self

import numpy.typing as npt

from ppdm_dask.arrays import Floats
from ppdm_dask.designs.base import register
from ppdm_dask.designs.binding import needed_line
from ppdm_dask.designs.labelled import Labelled, Places
from ppdm_dask.designs.labels import Categories, Orders, read_categories
from ppdm_dask.designs.mixture import Mixture
from ppdm_dask.designs.parameters import (
    LABELS,
    LAW,
    PROBABILITY,
    OneName,
    labelled,
    noted_distribution,
    one_attribute,
    probability,
    ratio,
    stated_once,
)
from ppdm_dask.errors import DesignError
from ppdm_dask.randomness import exact
from ppdm_dask.shown import given

__all__ = ["ForcedResponse"]


@register
class ForcedResponse(Labelled, Mixture):
    r"""``P = t I + (1 - t) f 1^T``: the truth with probability t, else the category that f draws.

    So a proportion is estimated from the share of reports by

    .. math:: \hat p_x = \frac{\hat P^*_x - (1 - t) f_x}{t}

    Parameters
    ----------
    attribute : str
        Of two or more categories.
    truth : float
        t, the probability that the device asks for the truth, in [0, 1]; at 0 there is no inverse.
    forced : array, shape (n,), or mapping of label to float
        f, the distribution of the forced answer.
    forced_probability : array, shape (n,), or mapping of label to float
        Instead of truth and forced, as in most papers: the probability that the device forces each
        answer, ``(1 - t) f``; the truth has the remaining probability.
    categories : sequence of str, optional
        Labels in the order of the probabilities, if no mapping names them. Real answers need labels
        unless all probabilities are equal.

    Raises
    ------
    DesignError
        For a value outside its range, or unless either the two or the third are given.

    Examples
    --------
    Two dice: a forced yes at 2, 3 or 4, a forced no at 11 or 12, else the truth.

    >>> design = ForcedResponse("a", forced_probability={"no": "1/12", "yes": "1/6"})
    >>> design.truth, design.forced.round(4).tolist(), design.categories
    (0.75, [0.3333, 0.6667], (('no', 'yes'),))
    >>> design.matrix().round(4).tolist()
    [[0.8333, 0.0833], [0.1667, 0.9167]]
    """

    id = "forced"
    left_out = ("forced_probability",)

    def __init__(
        self,
        attribute: OneName,
        truth: Annotated[float | str | None, PROBABILITY] = None,
        forced: Annotated[npt.ArrayLike | Mapping[str, float | str] | None, LAW] = None,
        *,
        forced_probability: Annotated[npt.ArrayLike | Mapping[str, float | str] | None, LAW] = None,
        categories: Annotated[Sequence[str] | None, LABELS] = None,
    ) -> None:
        if (forced_probability is None) == (truth is None and forced is None):
            raise DesignError(
                "truth and forced, or forced_probability: exactly one of the two is needed", truth
            )
        if forced_probability is None and (truth is None or forced is None):
            absent = "truth" if truth is None else "forced"
            raise DesignError(f"{absent}: missing; 'forced' needs truth and forced", None)
        given = "forced" if forced_probability is None else "forced_probability"
        values, named = labelled(forced if forced_probability is None else forced_probability)
        if forced_probability is not None:
            truth, values = _remainder(values)
        law, notes = noted_distribution("forced", values)
        names = one_attribute(attribute)
        self.attributes = names
        self.shape = (law.size,)
        self.truth = probability("truth", truth)
        self.forced = law
        stated = stated_once(given, named, categories)
        self.labels = read_categories(stated, names, (law.size,))
        self.remarks = notes

    def permuted(self, order: Places, labels: Categories) -> Self:
        name = self.attributes[0]
        return type(self)(name, self.truth, self.forced[order[0]], categories=labels[0])

    def line_to_add(self, orders: Orders) -> str:
        return needed_line(self, orders, "forced")

    @property
    def mixing(self) -> float:
        return self.truth

    @property
    def factors(self) -> tuple[Floats, ...]:
        return (self.forced,)


def _remainder(values: Any) -> tuple[float, list[float]]:
    """Truth and law from the probabilities of forced answers, computed in rationals."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise DesignError(f"forced_probability: got {given(values)}; one for each category", values)
    shares = [ratio(value) for value in values]
    for share in shares:
        probability("forced_probability", share)
    exactly = [exact(share if isinstance(share, Fraction) else float(share)) for share in shares]
    total = sum(exactly, Fraction(0))
    if total > 1:
        raise DesignError(
            f"forced_probability: they sum to {float(total):.6g}; at most 1 is needed, and what is "
            "left is the probability of the truth",
            values,
        )
    if not total:
        return 1.0, [1 / len(shares)] * len(shares)
    return float(1 - total), [float(share / total) for share in exactly]
