"""Sums of event weights: what estimates need of reports that cannot be counted into a table.

They serve reports that are sets, survey weights, strata and conditional proportions, and add up
over partitions as tables do.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ppdm_dask.errors import InputError, RecordsError
from ppdm_dask.estimate.cells import cell_sums
from ppdm_dask.estimate.fit import fit_of_sums
from ppdm_dask.estimate.floors import EventLaw, law_of_cells, law_of_event, lift
from ppdm_dask.estimate.inversion import Estimate
from ppdm_dask.events import (
    Estimand,
    Proportion,
    check_estimand,
    event_weights,
    standard_error_of,
)
from ppdm_dask.matching import require_design

if TYPE_CHECKING:
    from ppdm_dask.codebook import Codebook
    from ppdm_dask.designs.base import Design
    from ppdm_dask.records import Reports

__all__ = ["WeightSums", "sum_event", "sum_weights"]

Floats = npt.NDArray[np.float64]
Event = Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class WeightSums:
    """Sums over reports by stratum: d survey weights, W weights of cells, F those of a condition.

    W is the weight of "the cell and the condition"; without a condition F is 1.  The sums add;
    as they are of floating-point numbers, their last bits depend on the order.

    Parameters
    ----------
    codebook : Codebook
        Attributes of the cells; none for a single event.
    design_digest : str
    strata : int array, shape (H,)
        Ascending.
    n, d, dd : arrays, shape (H,)
        Reports, sum d, sum d^2.
    f, ddf, ddff : arrays, shape (H,)
        Sums of d F, d^2 F and d^2 F^2.
    w, ddw, ddwf, ddww : arrays, shape (H, cells)
        Sums of d W, d^2 W, d^2 W F and d^2 W^2.
    law : EventLaw, optional
        What the design says of the cells' weights; of a condition in other blocks it is the same.
    decided : bool array, shape (cells,), optional
        Where the condition rules a cell out, or is the cell: 0 and 1 for certain.
    """

    codebook: Codebook | None
    design_digest: str
    strata: npt.NDArray[np.int64]
    n: Floats
    d: Floats
    dd: Floats
    f: Floats
    ddf: Floats
    ddff: Floats
    w: Floats
    ddw: Floats
    ddwf: Floats
    ddww: Floats
    law: EventLaw | None = None
    decided: npt.NDArray[np.bool_] | None = None

    def __add__(self, other: WeightSums) -> WeightSums:
        if not isinstance(other, WeightSums):
            return NotImplemented
        if _digest(other.codebook) != _digest(self.codebook):
            raise RecordsError("sums over different attributes or categories do not add", other)
        if other.design_digest != self.design_digest:
            raise RecordsError("sums of reports made by different designs do not add", other)
        strata = np.union1d(self.strata, other.strata)
        added: dict[str, Floats] = {}
        for field in fields(self)[3:-2]:
            mine: Floats = getattr(self, field.name)
            total = np.zeros((len(strata), *mine.shape[1:]))
            for one in (self, other):
                total[np.searchsorted(strata, one.strata)] += getattr(one, field.name)
            added[field.name] = total
        return WeightSums(
            self.codebook,
            self.design_digest,
            strata,
            **added,
            law=other.law if self.law is None else self.law,
            decided=other.decided if self.decided is None else self.decided,
        )

    @property
    def size(self) -> float:
        """Effective reports: ``(sum d F)^2 / sum d^2 F^2``."""
        return float(self.f.sum() ** 2 / self.ddff.sum()) if self.ddff.sum() > 0 else 0.0

    @property
    def freedom(self) -> float | None:
        """Degrees of freedom of the variances: effective reports less strata.

        None where neither weights nor strata nor a condition are in the sums.
        """
        plain = all((x == self.n).all() for x in (self.d, self.dd, self.f, self.ddf, self.ddff))
        return None if plain and len(self.n) < 2 else max(self.size - len(self.n), 1.0)

    def moments(self) -> tuple[Floats, Floats] | None:
        """Second moments of the weights of the cells, of records inside and outside of each."""
        if self.law is None:
            return None
        return self.law.second_moments(self.values(), self.ddww.sum(axis=0) / self.ddff.sum())

    def values(self) -> Floats:
        """Hajek's estimates of the cells' proportions within the condition.

        Raises
        ------
        RecordsError
            Without reports.
        InputError
            If the condition has no estimated share, so that nothing can be said within it.
        """
        if not self.n.sum():
            raise RecordsError("there are no reports; at least one is needed", self)
        share = self.f.sum() / self.d.sum()
        if not share > 0:
            raise InputError(
                f"where: its estimated proportion is {share:.4g}; nothing can be said within it",
                self,
            )
        result: Floats = self.w.sum(axis=0) / self.f.sum()
        return result

    def variances(self, estimand: Estimand = "population") -> Floats:
        """Variances of :meth:`values`, linearised: z = d (W - r F) / sum d F.

        *Population*: sum over strata of n/(n-1) sum (z - mean z)^2; not a number where a stratum
        has a single report.  *This file*: given the records only the disguise is random, and
        E[(W - r F)^2 | x] - (1 - 2 r) 1_{cell and condition} - r^2 1_condition is the variance.
        """
        return self._lifted(self._unbiased(estimand), estimand)[0]

    def _lifted(self, variance: Floats, estimand: Estimand) -> tuple[Floats, npt.NDArray[np.bool_]]:
        """Variances none of which is 0 by chance, and where few reports carry them."""
        exact = np.zeros(variance.shape, bool) if self.decided is None else self.decided
        if self.law is not None:
            exact = exact | self.law.told(estimand)
        return lift(variance, self.values(), self.law, self.size, exact)

    def _unbiased(self, estimand: Estimand) -> Floats:
        check_estimand(estimand)
        r, scale = self.values(), self.f.sum() ** 2
        ratio = np.broadcast_to(r, self.w.shape)
        square = self.ddww - 2 * ratio * self.ddwf + ratio**2 * self.ddff[:, None]
        noise = 1e-14 * (self.ddww + ratio**2 * self.ddff[:, None])
        if estimand == "file":
            square = square - (1 - 2 * ratio) * self.ddw - ratio**2 * self.ddf[:, None]
            total = square.sum(axis=0)
        else:
            mean = (self.w - ratio * self.f[:, None]) ** 2 / self.n[:, None]
            square = np.maximum(square - mean, 0)
            factor = np.divide(
                self.n, self.n - 1, out=np.full(len(self.n), np.nan), where=self.n > 1
            )
            total = (factor[:, None] * square).sum(axis=0)
        total = np.where(np.abs(total) <= noise.sum(axis=0), 0.0, total)
        if self.n.sum() < 2:
            total = np.full(total.shape, np.nan)
        return np.asarray(total / scale)

    def proportion(self, estimand: Estimand = "population") -> Proportion:
        """Estimated proportion of a single event, with its standard error."""
        value, moments = float(self.values()[0]), self.moments()
        variance, few = self._lifted(self._unbiased(estimand), estimand)
        error = float(standard_error_of(variance)[0])
        pair = None if moments is None else (float(moments[0][0]), float(moments[1][0]))
        n = int(self.n.sum())
        return Proportion(value, error, n, estimand, pair, self.size, self.freedom, bool(few[0]))

    def estimate(self, estimand: Estimand = "population") -> Estimate:
        """Estimated proportions of the cells, with variances for the estimand."""
        if self.codebook is None:
            raise InputError("these are the sums of one event; ask for its proportion", self)
        shape, moments = self.codebook.shape, self.moments()
        values = self.values().reshape(shape)
        unbiased = self._unbiased(estimand)
        variance, few = self._lifted(unbiased, estimand)
        inside, outside = (None, None) if moments is None else (m.reshape(shape) for m in moments)
        return Estimate(
            self.codebook,
            values,
            variance.reshape(shape),
            int(self.n.sum()),
            "inversion",
            estimand,
            float((values < 0).mean()),
            moments=None if inside is None or outside is None else (inside, outside),
            few=few.reshape(shape),
            unbiased=unbiased.reshape(shape),
            size=self.size,
            freedom=self.freedom,
            tested=partial(fit_of_sums, values, inside, outside, self.size, self.freedom),
        )


def _digest(codebook: Codebook | None) -> str:
    return "" if codebook is None else codebook.digest


def _empty(
    codebook: Codebook | None,
    digest: str,
    cells: int,
    law: EventLaw | None,
    decided: npt.NDArray[np.bool_],
) -> WeightSums:
    none = np.zeros(0)
    sums = [*[none] * 6, *[np.zeros((0, cells))] * 4]
    return _made(codebook, digest, np.zeros(0, np.int64), sums, law, decided)


def _decided(
    events: Mapping[str, npt.NDArray[np.bool_]], within: Mapping[str, npt.NDArray[np.bool_]]
) -> npt.NDArray[np.bool_]:
    """Whether a condition rules events out, or implies them, whatever people answered.

    Parameters
    ----------
    events : mapping of attribute to bool array, shape (events of the attribute, categories)
        All combinations of their events are looked at.
    within : mapping of attribute to bool array, shape (categories,)
    """
    out, implied = np.zeros((), bool), np.ones((), bool)
    for name, masks in events.items():
        allowed = within.get(name, np.ones(masks.shape[1], bool))
        out = np.logical_or.outer(out, ~(masks & allowed).any(axis=1))
        implied = np.logical_and.outer(implied, (masks | ~allowed).all(axis=1))
    return np.asarray(out | implied).ravel()


def _apart(design: Design, names: Iterable[str], where: Event | None) -> bool:
    """Whether a condition is about other blocks than the cells, so that their weights multiply."""
    shared = set(names)
    for block in design.blocks:
        if shared & {*block.attributes}:
            shared |= {*block.attributes}
    return not shared & {*(where or {})}


def _gather(
    reports: Reports, part: npt.NDArray[np.bool_], condition: Floats
) -> tuple[Floats, Floats]:
    d = np.ones(int(part.sum())) if reports.weights is None else reports.weights[part]
    return d, condition[part]


def sum_weights(
    reports: Reports, design: Design, over: Iterable[str], where: Event | None = None
) -> WeightSums:
    """Sums of event weights of the joint categories of some attributes.

    Parameters
    ----------
    reports : Reports
    design : Design
        The design that made them.
    over : iterable of str
        Attributes of the cells.
    where : mapping of attribute to label or labels, optional
        Condition within which proportions are asked for.

    Raises
    ------
    RecordsError
        If the reports were made by another design, or there are too many cells for a pass.
    """
    digest, _ = require_design(reports, design)
    names = tuple(over)
    codebook = reports.codebook.select(names)
    law = None
    if _apart(design, names, where):
        law = law_of_cells(design, codebook, reports.codebook.names)
    law = None if law is None else law.reshaped((-1,))
    single = {name: np.eye(len(codebook[name]), dtype=bool) for name in names}
    decided = _decided(single, reports.codebook.masks(where or {}))
    total = _empty(codebook, digest, math.prod(codebook.shape), law, decided)
    condition = np.ones(len(reports)) if not where else event_weights(reports, design, where)
    strata = reports.strata
    found = [0] if strata is None else np.unique(strata).tolist()
    for stratum in found:
        part = np.ones(len(reports), bool) if strata is None else strata == stratum
        if not part.any():
            continue
        d, F = _gather(reports, part, condition)
        some = reports if part.all() else reports.take(part)
        w, ddw, ddwf, ddww = cell_sums(some, design, names, where or {}, d, F)
        total = total + _of_stratum(total, stratum, d, F, (w, ddw, ddwf, ddww))
    return total


def sum_event(
    reports: Reports, design: Design, event: Event, where: Event | None = None
) -> WeightSums:
    """Sums for the single event "this, within the condition"; arguments as in `sum_weights`."""
    digest, _ = require_design(reports, design)
    law = None
    if _apart(design, event, where):
        law = law_of_event(design, reports.codebook.masks(event), reports.codebook.names)
    masks = {name: mask[None, :] for name, mask in reports.codebook.masks(event).items()}
    decided = _decided(masks, reports.codebook.masks(where or {}))
    total = _empty(None, digest, 1, None if law is None else law.reshaped((1,)), decided)
    if where:
        condition = event_weights(reports, design, where)
        masks, within = reports.codebook.masks(event), reports.codebook.masks(where)
        both = dict(masks)
        for name, mask in within.items():
            both[name] = both[name] & mask if name in both else mask
        labels = {
            name: [c for c, m in zip(reports.codebook[name].categories, mask, strict=True) if m]
            for name, mask in both.items()
        }
        joint = event_weights(reports, design, labels)
    else:
        condition, joint = np.ones(len(reports)), event_weights(reports, design, event)
    strata = np.zeros(len(reports), np.int64) if reports.strata is None else reports.strata
    for stratum in np.unique(strata).tolist():
        part = strata == stratum
        d, F = _gather(reports, part, condition)
        W = joint[part]
        sums = tuple(np.array([math.fsum(x)]) for x in (d * W, d**2 * W, d**2 * W * F, d**2 * W**2))
        total = total + _of_stratum(total, stratum, d, F, sums)
    return total


def _of_stratum(
    total: WeightSums, stratum: int, d: Floats, F: Floats, cells: tuple[Floats, ...]
) -> WeightSums:
    """Sums of one stratum, of the same cells as the total."""
    singles = [float(x.sum()) for x in (d, d**2, d * F, d**2 * F, d**2 * F**2)]
    rows = [np.array([value]) for value in (float(len(d)), *singles)]
    return _made(
        total.codebook,
        total.design_digest,
        np.array([stratum]),
        [*rows, *(c.reshape(1, -1) for c in cells)],
        total.law,
        total.decided,
    )


def _made(
    codebook: Codebook | None,
    digest: str,
    strata: npt.NDArray[np.int64],
    sums: Sequence[Floats],
    law: EventLaw | None,
    decided: npt.NDArray[np.bool_] | None,
) -> WeightSums:
    named = dict(zip((field.name for field in fields(WeightSums)[3:-2]), sums, strict=True))
    return WeightSums(codebook, digest, strata, **named, law=law, decided=decided)
