"""Errors of sums of event weights: variances that few reports carry, and what intervals need."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ppdm_dask.estimate.fit import fit_of_sums
from ppdm_dask.estimate.floors import lift
from ppdm_dask.estimate.inversion import Estimate
from ppdm_dask.estimate.laws import EventLaw, law_of_cells, law_of_event
from ppdm_dask.estimate.moments import Estimand, standard_error_of
from ppdm_dask.uncertainty import Proportion

if TYPE_CHECKING:
    from ppdm_dask.codebook import Codebook
    from ppdm_dask.designs.base import Design
    from ppdm_dask.estimate.sums import WeightSums

__all__ = [
    "CellLaws",
    "cell_laws",
    "effective_size",
    "estimate_of",
    "event_laws",
    "freedom_of",
    "lifted",
    "proportion_of",
]

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Masks = Mapping[str, Bools]


@dataclass(frozen=True)
class CellLaws:
    """What is known of the weights of some cells before a report is seen.

    Parameters
    ----------
    law : EventLaw or None
        Of the cells' weights; a condition in other blocks does not touch it, and within the same
        blocks it is not known.
    decided : bool array, shape (cells,)
        Where the condition rules a cell out, or implies it: 0 and 1 for certain.
    """

    law: EventLaw | None
    decided: Bools


def cell_laws(design: Design, book: Codebook, names: tuple[str, ...], where: Masks) -> CellLaws:
    """Laws of all joint categories of some attributes, within a condition.

    Parameters
    ----------
    design : Design
    book : Codebook
        Of the reports.
    names : tuple of str
    where : mapping of attribute to bool array
    """
    law = None
    if _apart(design, names, where):
        law = law_of_cells(design, book.select(names), book.names)
    single = {name: np.eye(len(book[name]), dtype=bool) for name in names}
    return CellLaws(None if law is None else law.reshaped((-1,)), _decided(single, where))


def event_laws(design: Design, book: Codebook, event: Masks, where: Masks) -> CellLaws:
    """The same of a single event."""
    law = None
    if _apart(design, event, where):
        law = law_of_event(design, event, book.names)
    single = {name: mask[None, :] for name, mask in event.items()}
    return CellLaws(None if law is None else law.reshaped((1,)), _decided(single, where))


def _apart(design: Design, names: Iterable[str], where: Iterable[str]) -> bool:
    """Whether a condition is about other blocks than the cells, so that their weights multiply."""
    shared = set(names)
    for block in design.blocks:
        if shared & {*block.attributes}:
            shared |= {*block.attributes}
    return not shared & {*where}


def _decided(events: Masks, where: Masks) -> Bools:
    """Whether a condition rules events out, or implies them, whatever people answered.

    Parameters
    ----------
    events : mapping of attribute to bool array, shape (events of the attribute, categories)
        All combinations of their events are looked at.
    where : mapping of attribute to bool array, shape (categories,)
    """
    out, implied = np.zeros((), bool), np.ones((), bool)
    for name, masks in events.items():
        allowed = where.get(name, np.ones(masks.shape[1], bool))
        out = np.logical_or.outer(out, ~(masks & allowed).any(axis=1))
        implied = np.logical_and.outer(implied, (masks | ~allowed).all(axis=1))
    return np.asarray(out | implied).ravel()


def effective_size(sums: WeightSums) -> float:
    """Reports that would say as much: ``(sum d F)^2 / sum d^2 F^2``."""
    squares = float(sums.ddff.sum())
    return float(sums.f.sum()) ** 2 / squares if squares > 0 else 0.0


def freedom_of(sums: WeightSums) -> float | None:
    """Degrees of freedom of the variances: effective reports less strata, 1 or more.

    None where neither weights nor strata nor a condition are in the sums.
    """
    unit = (sums.d, sums.dd, sums.f, sums.ddf, sums.ddff)
    if len(sums.n) < 2 and all((x == sums.n).all() for x in unit):
        return None
    return max(effective_size(sums) - len(sums.n), 1.0)


def lifted(sums: WeightSums, unbiased: Floats, estimand: Estimand) -> tuple[Floats, Bools]:
    """Variances none of which is 0 by chance, and where few reports carry them."""
    if sums.laws is None:
        return lift(unbiased, sums.values(), None, effective_size(sums))
    law, exact = sums.laws.law, sums.laws.decided
    if law is not None:
        exact = exact | law.told(estimand)
    return lift(unbiased, sums.values(), law, effective_size(sums), exact)


def _moments(sums: WeightSums) -> tuple[Floats, Floats] | None:
    """Second moments of the weights of the cells, of records inside and outside of each.

    None under a disguised condition, F not 0 or 1: they would miss its noise, and score intervals
    would cover far less than they say.
    """
    if sums.laws is None or sums.laws.law is None:
        return None
    if float(np.abs(sums.ddff - sums.ddf).sum()) > 1e-9 * float(sums.ddff.sum()):
        return None
    square = sums.ddww.sum(axis=0) / sums.ddff.sum()
    return sums.laws.law.second_moments(sums.values(), square)


def proportion_of(sums: WeightSums, estimand: Estimand) -> Proportion:
    """The proportion of a single event."""
    variance, few = lifted(sums, sums.unbiased(estimand), estimand)
    moments = _moments(sums)
    return Proportion(
        float(sums.values()[0]),
        float(standard_error_of(variance)[0]),
        int(sums.n.sum()),
        estimand,
        None if moments is None else (float(moments[0][0]), float(moments[1][0])),
        effective_size(sums),
        freedom_of(sums),
        bool(few[0]),
    )


def estimate_of(
    sums: WeightSums, codebook: Codebook, negative: float, estimand: Estimand
) -> Estimate:
    """Proportions of all cells, which are those of a codebook."""
    shape, moments, unbiased = codebook.shape, _moments(sums), sums.unbiased(estimand)
    variance, few = lifted(sums, unbiased, estimand)
    values = sums.values().reshape(shape)
    inside, outside = (None, None) if moments is None else (m.reshape(shape) for m in moments)
    size, freedom = effective_size(sums), freedom_of(sums)
    return Estimate(
        codebook,
        values,
        variance.reshape(shape),
        int(sums.n.sum()),
        "inversion",
        estimand,
        negative,
        few=few.reshape(shape),
        unbiased=unbiased.reshape(shape),
        moments=None if inside is None or outside is None else (inside, outside),
        size=size,
        freedom=freedom,
        tested=partial(
            fit_of_sums, values, inside, outside, size, freedom, variance.reshape(shape)
        ),
    )
