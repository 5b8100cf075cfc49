"""Sums of event weights: what estimates need of reports that cannot be counted into a table.

They serve reports that are sets, survey weights, strata and conditional proportions, and add up
over partitions as tables do.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ppdm_dask.errors import InputError, RecordsError
from ppdm_dask.estimate.cells import cell_sums
from ppdm_dask.estimate.inversion import Estimate
from ppdm_dask.events import Estimand, check_estimand, event_weights
from ppdm_dask.matching import bound_to, require_design

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

    def __add__(self, other: WeightSums) -> WeightSums:
        if not isinstance(other, WeightSums):
            return NotImplemented
        if _digest(other.codebook) != _digest(self.codebook):
            raise RecordsError("sums over different attributes or categories do not add", other)
        if other.design_digest != self.design_digest:
            raise RecordsError("sums of reports made by different designs do not add", other)
        strata = np.union1d(self.strata, other.strata)
        added: dict[str, Floats] = {}
        for field in fields(self)[3:]:
            mine: Floats = getattr(self, field.name)
            total = np.zeros((len(strata), *mine.shape[1:]))
            for one in (self, other):
                total[np.searchsorted(strata, one.strata)] += getattr(one, field.name)
            added[field.name] = total
        return WeightSums(self.codebook, self.design_digest, strata, **added)

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

    def estimate(self, estimand: Estimand = "population") -> Estimate:
        """Estimated proportions of the cells, with variances for the estimand."""
        if self.codebook is None:
            raise InputError("these are the sums of one event; ask for its proportion", self)
        shape = self.codebook.shape
        values = self.values().reshape(shape)
        variance = self.variances(estimand).reshape(shape)
        n, negative = int(self.n.sum()), float((values < 0).mean())
        return Estimate(self.codebook, values, variance, n, "inversion", estimand, negative)


def _digest(codebook: Codebook | None) -> str:
    return "" if codebook is None else codebook.digest


def _empty(codebook: Codebook | None, digest: str, cells: int) -> WeightSums:
    none = np.zeros(0)
    table = np.zeros((0, cells))
    return WeightSums(codebook, digest, np.zeros(0, np.int64), *(none,) * 6, *(table,) * 4)


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
    design = bound_to(reports, design)
    digest, _ = require_design(reports, design)
    names = tuple(over)
    codebook = reports.codebook.select(names)
    total = _empty(codebook, digest, math.prod(codebook.shape))
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
        total = total + _of_stratum(codebook, digest, stratum, d, F, (w, ddw, ddwf, ddww))
    return total


def sum_event(
    reports: Reports, design: Design, event: Event, where: Event | None = None
) -> WeightSums:
    """Sums for the single event "this, within the condition"; arguments as in `sum_weights`."""
    design = bound_to(reports, design)
    digest, _ = require_design(reports, design)
    total = _empty(None, digest, 1)
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
        total = total + _of_stratum(None, digest, stratum, d, F, sums)
    return total


def _of_stratum(
    codebook: Codebook | None,
    digest: str,
    stratum: int,
    d: Floats,
    F: Floats,
    cells: tuple[Floats, ...],
) -> WeightSums:
    sums = [float(x.sum()) for x in (d, d**2, d * F, d**2 * F, d**2 * F**2)]
    singles = [np.array([float(len(d))]), *(np.array([value]) for value in sums)]
    return WeightSums(
        codebook, digest, np.array([stratum]), *singles, *(c.reshape(1, -1) for c in cells)
    )
