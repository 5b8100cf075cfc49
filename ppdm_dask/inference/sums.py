"""Sums of event weights: what estimates need of reports that cannot be counted into a table.

They serve reports that are sets, survey weights, strata and conditional proportions, and add up
over partitions as tables do.

Beside it: errors of sums of event weights: variances that few reports carry, and what intervals
need; weights of all joint categories of some attributes, summed over reports.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ppdm_dask.arrays import EPS, Bools, Floats, sum_rounding, to_scale
from ppdm_dask.designs.base import row_major
from ppdm_dask.designs.matching import bound_to, covering, require_design
from ppdm_dask.errors import InputError, RecordsError
from ppdm_dask.inference.blocks import along_blocks
from ppdm_dask.inference.events import (
    answers_of,
    combined_masks,
    event_weights,
    mask_weights,
    touched_part,
)
from ppdm_dask.inference.fit import fit_of_sums
from ppdm_dask.inference.inversion import Estimate
from ppdm_dask.inference.laws import EventLaw, law_of_cells, law_of_event, lift
from ppdm_dask.inference.moments import ROUNDING, Estimand, check_estimand, standard_error_of
from ppdm_dask.inference.tables import DENSE_CELLS
from ppdm_dask.inference.uncertainty import Proportion

if TYPE_CHECKING:
    from ppdm_dask.data.codebook import Codebook, Reports
    from ppdm_dask.designs.base import Design
    from ppdm_dask.designs.sets import SetDesign

__all__ = [
    "CellLaws",
    "WeightSums",
    "cell_laws",
    "cell_sums",
    "cell_weights",
    "effective_size",
    "estimate_of",
    "event_laws",
    "freedom_of",
    "lifted",
    "proportion_of",
    "sum_event",
    "sum_weights",
]


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


Names = tuple[str, ...]
Sums = tuple[Floats, Floats, Floats, Floats]

ROWS = 1 << 22
"""Entries of the matrix of weights, reports by cells, that is held at once."""

MAX_ENTRIES = 1 << 34
"""Entries of that matrix in all, above which a pass is refused."""

CHUNK = 1 << 16

MAX_TABLE = 1 << 12
"""Joint categories of a block up to which its weights are always looked up in a table, symbols by
cells; dense designs have no more.  Larger blocks have one only where there are as many reports."""


def cell_sums(
    reports: Reports,
    design: Design,
    names: Names,
    where: Mapping[str, Any],
    d: Floats,
    F: Floats,
) -> Sums:
    """Sums over reports of d W, d^2 W, d^2 W F and d^2 W^2, each of shape (cells,).

    Structured designs take O(reports + cells): by tables of reports where all of it are symbols, by
    bits for one attribute whose reports are sets.  Otherwise weights are made cell by cell.
    """
    shared = {n for block in design.blocks for n in block.attributes if n in names} | set(names)
    apart = not any(
        name in shared
        or any(name in b.attributes and shared & {*b.attributes} for b in design.blocks)
        for name in where
    )
    if apart:
        # The condition belongs to other blocks: it scales each report.
        scales = np.stack([d * F, d**2 * F, d**2 * F**2], axis=1)
        blocks = [b for b in design.blocks if any(name in names for name in b.attributes)]
        if len(names) == 1 and len(blocks) == 1 and blocks[0].kind == "set":
            return _by_bits(reports, blocks[0], scales)  # type: ignore[arg-type]
        symbols = all(block.kind == "symbol" for block in blocks)
        if symbols and set(covering(design, names)) == set(names):
            return _by_table(reports, design, names, scales)
    return _by_rows(reports, design, names, where, d, F)


def _by_bits(reports: Reports, block: SetDesign, scales: Floats) -> Sums:
    bits = answers_of(reports, block.attributes, block)
    same = bool((scales == 1).all())  # one column stands for all three
    single, square = np.zeros((1 if same else 3, block.n_true)), np.zeros((1, block.n_true))
    for low in range(0, len(bits), CHUNK):
        part, rows = scales[low : low + CHUNK], bits[low : low + CHUNK]
        sums, squares = block.sum_weights(rows, part[:, :1] if same else part, part[:, 2:])
        single, square = single + sums, square + squares
    return single[0], single[-2 if not same else 0], single[-1], square[0]


def _by_table(reports: Reports, design: Design, names: Names, scales: Floats) -> Sums:
    sizes = tuple(reports.sizes[reports.codebook.index(name)] for name in names)
    columns = [reports.codebook.index(name) for name in names]
    joint = row_major(reports.codes[:, columns], sizes)
    cells = math.prod(sizes)
    tables: list[Floats] = [
        np.bincount(joint, scale, cells).astype(float).reshape(sizes) for scale in scales.T
    ]
    steps = [(0, "invert"), (1, "invert"), (2, "invert"), (2, "invert_squared")]
    w, ddw, ddwf, ddww = (along_blocks(tables[i], names, design, s).ravel() for i, s in steps)
    return w, ddw, ddwf, ddww


def _by_rows(
    reports: Reports,
    design: Design,
    names: Names,
    where: Mapping[str, Any],
    d: Floats,
    F: Floats,
) -> Sums:
    cells = math.prod(reports.codebook.select(names).shape)
    if cells * len(reports) > MAX_ENTRIES:
        raise RecordsError(
            f"{cells} cells by {len(reports)} reports are too many for one pass; estimate fewer "
            "attributes at once, or events",
            reports,
        )
    totals = np.zeros((4, cells))
    step = max(ROWS // max(cells, 1), 1)
    for low in range(0, len(reports), step):
        rows = slice(low, low + step)
        W = cell_weights(reports.slice(low, low + step), design, names, where)
        s, f = d[rows], F[rows]
        totals += np.stack([s @ W, s**2 @ W, (s**2 * f) @ W, s**2 @ W**2])
    return totals[0], totals[1], totals[2], totals[3]


def cell_weights(
    reports: Reports, design: Design, names: Names, where: Mapping[str, Any]
) -> Floats:
    """Weights of "each cell, within the condition", shape (n, joint categories of the names)."""
    book = reports.codebook
    masks = book.masks(where)
    shape = book.select(names).shape
    weights = np.ones((len(reports), *(1,) * len(names)))
    covered: set[str] = set()
    for block in design.blocks:
        covered.update(block.attributes)
        touched = [n for n in block.attributes if n in names or n in masks]
        if not touched:
            continue
        there, part = touched_part(block, touched, book.names)
        own = [n for n in there if n in names]
        matrix = _block_weights(part, answers_of(reports, there, part), own, masks)
        weights = weights * _aligned(matrix, own, names, shape)
    for name in (*names, *masks):
        if name in covered:
            continue
        covered.add(name)
        codes = reports.column(name)
        allowed = masks.get(name, np.ones(len(book[name].categories), bool))
        if name in names:
            one = (codes[:, None] == np.arange(len(allowed))) & allowed
            weights = weights * _aligned(one.astype(float), [name], names, shape)
        else:
            weights = weights * allowed[codes].reshape(-1, *(1,) * len(names))
    return np.broadcast_to(weights, (len(reports), *shape)).reshape(len(reports), -1)


def _aligned(matrix: Floats, own: list[str], names: Names, shape: tuple[int, ...]) -> Floats:
    """A matrix over some attributes' joint categories, with its axes among those of all names."""
    sizes = [shape[names.index(name)] for name in own]
    order = sorted(range(len(own)), key=lambda i: names.index(own[i]))
    tensor = matrix.reshape(-1, *sizes).transpose(0, *(1 + i for i in order))
    return tensor.reshape(-1, *(k if n in own else 1 for n, k in zip(names, shape, strict=True)))


def _block_weights(
    block: Design, answers: Any, own: list[str], masks: Mapping[str, npt.NDArray[np.bool_]]
) -> Floats:
    """Weights of the joint categories of the named attributes of a block, within the condition."""
    if block.kind == "set" and own:
        matrix: Floats = block.weight_matrix(answers)  # type: ignore[attr-defined]
        allowed = masks.get(block.attributes[0])
        return matrix if allowed is None else matrix * allowed
    if not own:
        return block.weights(masks, answers)[:, None]
    shape = tuple(block.shape[block.attributes.index(name)] for name in own)
    if block.n_true > max(len(answers), MAX_TABLE):
        return _one_by_one(block, answers, own, masks, shape)
    codes = np.stack(np.unravel_index(np.arange(block.n_true), block.shape), axis=1)
    columns = [block.attributes.index(name) for name in own]
    sizes = tuple(block.shape[i] for i in columns)
    inside = row_major(codes[:, columns], sizes)[:, None] == np.arange(math.prod(sizes))
    for axis, name in enumerate(block.attributes):
        if name in masks:
            inside &= masks[name][codes[:, axis], None]
    result: Floats = block.invert_transposed(inside.astype(float))[block.joint(answers)]
    return result


def _one_by_one(
    block: Design,
    answers: Any,
    own: list[str],
    masks: Mapping[str, npt.NDArray[np.bool_]],
    shape: tuple[int, ...],
) -> Floats:
    """The same, an event at a time: structured designs need no joint domain for one."""
    columns = []
    for cell in np.ndindex(*shape):
        event = dict(masks)
        for name, code, size in zip(own, cell, shape, strict=True):
            mask = np.arange(size) == code
            event[name] = mask & masks[name] if name in masks else mask
        columns.append(block.weights(event, answers))
    return np.stack(columns, axis=1)


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
