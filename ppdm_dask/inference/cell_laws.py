"""What is known of the weights of cells, within a condition, before a report is seen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ppdm_dask.arrays import Bools
from ppdm_dask.inference.laws import EventLaw, law_of_cells, law_of_event

if TYPE_CHECKING:
    from ppdm_dask.data.codebook import Codebook
    from ppdm_dask.designs.base import Design


__all__ = ["CellLaws", "cell_laws", "event_laws"]


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


def cell_laws(
    design: Design, book: Codebook, names: tuple[str, ...], where: Mapping[str, Bools]
) -> CellLaws:
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


def event_laws(
    design: Design, book: Codebook, event: Mapping[str, Bools], where: Mapping[str, Bools]
) -> CellLaws:
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


def _decided(events: Mapping[str, Bools], where: Mapping[str, Bools]) -> Bools:
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
