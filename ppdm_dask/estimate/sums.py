"""Sums of event weights: what estimates need of reports that cannot be counted into a table.

They serve reports that are sets, survey weights, strata and conditional proportions, and add up
over partitions as tables do.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ppdm_dask.errors import InputError, RecordsError
from ppdm_dask.estimate.cells import cell_sums
from ppdm_dask.estimate.inversion import Estimate
from ppdm_dask.estimate.moments import ROUNDING, Estimand, check_estimand
from ppdm_dask.estimate.surveyed import (
    CellLaws,
    cell_laws,
    estimate_of,
    event_laws,
    lifted,
)
from ppdm_dask.events import combined_masks, event_weights, mask_weights
from ppdm_dask.matching import bound_to, require_design
from ppdm_dask.rounding import EPS, sum_rounding, to_scale
from ppdm_dask.tables import DENSE_CELLS

if TYPE_CHECKING:
    from ppdm_dask.codebook import Codebook
    from ppdm_dask.designs.base import Design
    from ppdm_dask.records import Reports

__all__ = ["WeightSums", "sum_event", "sum_weights"]

Floats = npt.NDArray[np.float64]
Event = Mapping[str, Any]

FIRST = ("d", "f", "w")
"""Sums that are linear in the survey weights; all others but n are quadratic."""

SUMS = ("n", "d", "dd", "f", "ddf", "ddff", "w", "ddw", "ddwf", "ddww")

MAX_SUMS = 1 << 24
"""Cells times strata above which no sums are kept: each of four arrays would take 128 MiB."""


@dataclass(frozen=True, eq=False)
class WeightSums:
    """Sums over reports by stratum: d survey weights, W weights of cells, F those of a condition.

    W is the weight of "the cell and the condition"; without a condition F is 1.  The sums add;
    as they are of floating-point numbers, their last bits depend on the order.  Survey weights are
    in units of a power of two, so that estimates do not depend on their scale.

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
    exponent : int
        The unit of d is 2 to this power.
    laws : CellLaws, optional
        What the design says of the cells' weights, for the errors of what few reports carry.
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
    exponent: int = 0
    laws: CellLaws | None = None

    def __add__(self, other: WeightSums) -> WeightSums:
        if not isinstance(other, WeightSums):
            return NotImplemented
        if _digest(other.codebook) != _digest(self.codebook):
            raise RecordsError("sums over different attributes or categories do not add", other)
        if other.design_digest != self.design_digest:
            raise RecordsError("sums of reports made by different designs do not add", other)
        # Sums without reports have no unit.
        units = [one.exponent for one in (self, other) if len(one.strata)]
        exponent = max(units, default=0)
        strata = np.union1d(self.strata, other.strata)
        _check_size(strata.size, self.w.shape[1])
        added: dict[str, Floats] = {}
        for name in SUMS:
            total = np.zeros((len(strata), *getattr(self, name).shape[1:]))
            for one in (self, other):
                total[np.searchsorted(strata, one.strata)] += one.in_units(name, exponent)
            added[name] = total
        book, laws = self.codebook, other.laws if self.laws is None else self.laws
        return WeightSums(book, self.design_digest, strata, **added, exponent=exponent, laws=laws)

    def in_units(self, name: str, exponent: int = 0) -> Floats:
        """One of the sums, with survey weights in units of 2 to the exponent."""
        times = 0 if name == "n" else 1 if name in FIRST else 2
        values: Floats = np.ldexp(getattr(self, name), times * (self.exponent - exponent))
        return values

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
        total, share = self.f.sum(), self.f.sum() / self.d.sum()
        noise = float(sum_rounding(self.ddff.sum(), self.n.sum()))
        if not total > noise:
            share = 0.0 if total >= -noise else share
            raise InputError(
                f"where: its estimated proportion is {share:.4g}; nothing can be said within it",
                self,
            )
        result: Floats = self.w.sum(axis=0) / total
        return result

    def variances(self, estimand: Estimand = "population") -> Floats:
        """Variances of :meth:`values`, none of them 0 by chance: see `estimate.floors.lift`."""
        return lifted(self, self.unbiased(estimand), estimand)[0]

    def unbiased(self, estimand: Estimand = "population") -> Floats:
        """Unbiased variances of :meth:`values`, linearised: z = d (W - r F) / sum d F.

        *Population*: sum over strata of n/(n-1) sum (z - mean z)^2; not a number where a stratum
        has a single report.  *This file*: given the records only the disguise is random, and
        E[(W - r F)^2 | x] - (1 - 2 r) 1_{cell and condition} - r^2 1_condition is the variance.
        """
        check_estimand(estimand)
        r, scale = self.values(), self.f.sum() ** 2
        ratio = np.broadcast_to(r, self.w.shape)
        square = self.ddww - 2 * ratio * self.ddwf + ratio**2 * self.ddff[:, None]
        relative = max(ROUNDING, 4 * EPS * math.sqrt(self.n.sum()))
        noise = relative * (self.ddww + ratio**2 * self.ddff[:, None])
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
        values = self.values()
        noise = sum_rounding(self.ddww.sum(axis=0), int(self.n.sum())) / self.f.sum()
        negative = float((values < -noise).mean())
        return estimate_of(self, self.codebook, negative, estimand)


def _digest(codebook: Codebook | None) -> str:
    return "" if codebook is None else codebook.digest


def _check_size(strata: int, cells: int) -> None:
    if cells > DENSE_CELLS or strata * cells > MAX_SUMS:
        where = f" in {strata:,} strata" if strata > 1 else ""
        raise RecordsError(
            f"{cells:,} cells{where} are too many to sum weights for (at most {DENSE_CELLS:,}, and "
            f"{MAX_SUMS:,} with strata); estimate fewer attributes at once, or events",
            cells,
        )


def _parts(reports: Reports) -> Iterator[tuple[int, npt.NDArray[np.int64] | None]]:
    """Each stratum with the positions of its reports; None for all of them."""
    strata = reports.strata
    if not len(reports):
        return
    if strata is None or (strata == strata[0]).all():
        yield 0 if strata is None else int(strata[0]), None
        return
    order = np.argsort(strata, kind="stable")
    found, first = np.unique(strata[order], return_index=True)
    yield from zip(found.tolist(), np.split(order, first[1:]), strict=True)


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
    cells = math.prod(codebook.shape)
    _check_size(1 if reports.strata is None else np.unique(reports.strata).size, cells)
    condition = np.ones(len(reports)) if not where else event_weights(reports, design, where)
    d, exponent = _scaled(reports)
    parts = []
    for stratum, rows in _parts(reports):
        some = reports if rows is None else reports.take(rows)
        own, F = (d, condition) if rows is None else (d[rows], condition[rows])
        parts.append((stratum, own, F, cell_sums(some, design, names, where or {}, own, F)))
    laws = cell_laws(design, reports.codebook, names, reports.codebook.masks(where or {}))
    return _gather(codebook, digest, cells, parts, exponent, laws)


def sum_event(
    reports: Reports, design: Design, event: Event, where: Event | None = None
) -> WeightSums:
    """Sums for the single event "this, within the condition"; arguments as in `sum_weights`.

    An event that the condition excludes has the proportion 0.
    """
    design = bound_to(reports, design)
    digest, _ = require_design(reports, design)
    condition = np.ones(len(reports)) if not where else event_weights(reports, design, where)
    joint = mask_weights(reports, design, combined_masks(reports.codebook, event, where or {}))
    d, exponent = _scaled(reports)
    parts = []
    for stratum, rows in _parts(reports):
        own, W, F = (x if rows is None else x[rows] for x in (d, joint, condition))
        terms = (own * W, own**2 * W, own**2 * W * F, own**2 * W**2)
        parts.append((stratum, own, F, tuple(np.array([math.fsum(x)]) for x in terms)))
    book = reports.codebook
    laws = event_laws(design, book, book.masks(event), book.masks(where or {}))
    return _gather(None, digest, 1, parts, exponent, laws)


def _scaled(reports: Reports) -> tuple[Floats, int]:
    if reports.weights is None:
        return np.ones(len(reports)), 0
    return to_scale(reports.weights)


def _gather(
    codebook: Codebook | None,
    digest: str,
    cells: int,
    parts: Sequence[tuple[int, Floats, Floats, tuple[Floats, ...]]],
    exponent: int,
    laws: CellLaws,
) -> WeightSums:
    """The sums of all strata, each given with its survey weights, condition and sums of cells."""
    strata = np.array([stratum for stratum, *_ in parts], np.int64)
    singles = np.array(
        [
            [float(len(d)), *(float(x.sum()) for x in (d, d**2, d * F, d**2 * F, d**2 * F**2))]
            for _, d, F, _ in parts
        ]
    ).reshape(-1, 6)
    tables = np.array([sums for *_, sums in parts]).reshape(-1, 4, cells)
    values = dict(zip(SUMS, [*singles.T, *np.moveaxis(tables, 1, 0)], strict=True))
    return WeightSums(codebook, digest, strata, **values, exponent=exponent, laws=laws)
