"""Evidence: what is known of reports, as a table of counts or as sums of event weights.

Both add up, over partitions, owners, days and files.  A table serves reports of symbols; sums serve
reports that are sets, survey weights, strata, conditions and groups.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ppdm_dask.arrays import Bools, Floats, to_scale
from ppdm_dask.designs.matching import bound_to, covering, require_design
from ppdm_dask.errors import InputError, RecordsError
from ppdm_dask.inference.cell_laws import CellLaws, cell_laws, event_laws
from ppdm_dask.inference.clusters import (
    MAX_REPLICATES,
    ClusterTotals,
    ReplicateTotals,
    pairs,
)
from ppdm_dask.inference.sums import MAX_SUMS, SUMS, GroupedSums, WeightSums, check_size
from ppdm_dask.inference.tables import ContingencyTable, count, require_table
from ppdm_dask.inference.weights import (
    ROWS,
    Symbols,
    cell_sums,
    cell_weights,
    combined_masks,
    mask_weights,
)
from ppdm_dask.shown import shown

if TYPE_CHECKING:
    from ppdm_dask.data.codebook import Codebook, Records, Reports
    from ppdm_dask.designs.base import Design


Event = Mapping[str, Any]

MAX_COMPARED = 128
"""Cells of all groups up to which groups are compared: products of all pairs are summed."""

Evidence: TypeAlias = ContingencyTable | WeightSums | GroupedSums
"""What is known of reports; two of one kind and question add."""


class _Rows(NamedTuple):
    """Reports or different symbols, with what they count for.

    Parameters
    ----------
    symbols : Symbols
    design : Design
        In the order of their categories.
    digest : str
        Of the design that they say made them.
    times : pair of arrays
        Sums of d and of d^2 over the reports of each row.
    reports : array
        How many there are of each row.
    exponent : int
        Unit of d.
    strata : array, optional
    survey : mapping of name to array
        Clusters, fpc and replicates, where there are some.
    """

    symbols: Symbols
    design: Design
    digest: str
    times: tuple[Floats, Floats]
    reports: Floats
    exponent: int = 0
    strata: npt.NDArray[np.int64] | None = None
    survey: Mapping[str, npt.NDArray[Any]] = MappingProxyType({})

    def parts(self) -> Iterator[tuple[int, _Rows]]:
        """Each stratum with its rows."""
        strata = self.strata
        if not len(self.reports):
            return
        if strata is None or (strata == strata[0]).all():
            yield 0 if strata is None else int(strata[0]), self
            return
        # One sort parts all strata; a mask for each would read all reports once a stratum.
        order = np.argsort(strata, kind="stable")
        found, first = np.unique(strata[order], return_index=True)
        for stratum, rows in zip(found.tolist(), np.split(order, first[1:]), strict=True):
            d, dd = self.times
            yield (
                stratum,
                self._replace(
                    symbols=self.symbols.take(rows),  # type: ignore[attr-defined]
                    times=(d[rows], dd[rows]),
                    reports=self.reports[rows],
                    strata=None,
                ),
            )


@dataclass(frozen=True, eq=False)
class _Different:
    """The different reports that a table counts."""

    codebook: Codebook
    codes: npt.NDArray[np.int64]
    sizes: tuple[int, ...]

    def column(self, name: str) -> npt.NDArray[np.int64]:
        column: npt.NDArray[np.int64] = self.codes[:, self.codebook.index(name)]
        return column

    def slice(self, start: int, stop: int) -> _Different:
        return replace(self, codes=self.codes[start:stop])


def _rows(source: Reports | ContingencyTable, design: Design, names: Iterable[str]) -> _Rows:
    """Rows whose event weights are to be summed; names are the attributes that are asked about."""
    design = bound_to(source, design)
    if isinstance(source, ContingencyTable):
        require_table(source, design)
        table = source.marginal(covering(design, dict.fromkeys(names))).sparse()
        # The event weight is taken once for each symbol that occurs, however often it does.
        occurs = table.counts > 0
        counts = table.counts[occurs].astype(float)
        symbols = _Different(table.codebook, table.symbols()[occurs], table.sizes)
        return _Rows(symbols, design, source.design_digest, (counts, counts), counts)
    digest, _ = require_design(source, design)
    ones, survey = np.ones(len(source)), source.survey
    d, exponent = (ones, 0) if source.weights is None else to_scale(source.weights)
    if "replicates" in survey and source.weights is None:
        raise RecordsError("replicates: survey weights are needed too, for the estimate", source)
    return _Rows(source, design, digest, (d, d**2), ones, exponent, source.strata, survey)


def sum_weights(
    reports: Reports | ContingencyTable,
    design: Design,
    over: Iterable[str],
    where: Event | None = None,
    *,
    products: bool = False,
) -> WeightSums:
    """Sums of event weights of the joint categories of some attributes.

    Parameters
    ----------
    reports : Reports or ContingencyTable
    design : Design
        The design that made them.
    over : iterable of str
        Attributes of the cells.
    where : mapping of attribute to label or labels, optional
        Condition within which proportions are asked for.
    products : bool
        Whether products of the cells' weights are summed too, so that cells can be compared.

    Raises
    ------
    RecordsError
        If the reports were made by another design, or there are too many cells for a pass.
    """
    names, condition = tuple(over), where or {}
    codebook = reports.codebook.select(names)
    masks, cells = reports.codebook.masks(condition), math.prod(codebook.shape)
    strata = None if isinstance(reports, ContingencyTable) else reports.strata
    check_size(1 if strata is None else np.unique(strata).size, cells)
    rows = _rows(reports, design, (*names, *condition))
    laws = cell_laws(rows.design, rows.symbols.codebook, names, masks)
    parts = []
    for stratum, part in rows.parts():
        F = _condition(part, masks)
        sums = cell_sums(part.symbols, part.design, names, condition, part.times, F)
        parts.append((stratum, part, F, sums))

    def weights(some: Symbols) -> Floats:
        return cell_weights(some, rows.design, names, condition)

    gathered = _gather(codebook, rows, cells, parts, laws)
    return replace(gathered, **_survey_sums(rows, gathered, masks, weights, products))


def sum_event(
    reports: Reports | ContingencyTable,
    design: Design,
    event: Event,
    where: Event | None = None,
) -> WeightSums:
    """Sums for the single event "this, within the condition"; arguments as in `sum_weights`.

    An event that the condition excludes has the proportion 0.
    """
    book, condition = reports.codebook, where or {}
    both, masks = combined_masks(book, event, condition), book.masks(condition)
    rows = _rows(reports, design, (*event, *condition))
    laws = event_laws(rows.design, rows.symbols.codebook, book.masks(event), masks)
    parts = []
    for stratum, part in rows.parts():
        W, F = mask_weights(part.symbols, part.design, both), _condition(part, masks)
        d, dd = part.times
        terms = (d * W, dd * W, dd * W * F, dd * W**2)
        # Exact sums: weights of both signs cancel, and partitions should agree to the last bits.
        parts.append((stratum, part, F, tuple(np.array([math.fsum(x)]) for x in terms)))
    gathered = _gather(None, rows, 1, parts, laws)

    def weights(some: Symbols) -> Floats:
        return mask_weights(some, rows.design, both)[:, None]

    return replace(gathered, **_survey_sums(rows, gathered, masks, weights))


def _survey_sums(
    rows: _Rows,
    sums: WeightSums,
    masks: Mapping[str, Bools],
    weights: Callable[[Symbols], Floats],
    products: bool = False,
) -> dict[str, Any]:
    """Fields of the sums for finite populations, clusters, replicates and products."""
    survey, (n, cells) = rows.survey, (len(rows.reports), sums.w.shape[1])
    clusters, replicates, fpc = (survey.get(x) for x in ("clusters", "replicates", "fpc"))
    strata = np.zeros(n, np.int64) if rows.strata is None else rows.strata
    made: dict[str, Any] = {}
    at = np.searchsorted(sums.strata, strata)
    if fpc is not None:
        levels = np.zeros(len(sums.strata))
        levels[at] = fpc
        if (levels[at] != fpc).any():
            raise RecordsError("fpc: one number in each stratum is needed", fpc)
        made["fpc"] = levels
    if clusters is None and replicates is None and not products:
        return made
    cross = np.zeros((len(sums.strata), cells, cells))
    if clusters is not None:
        keys, which = pairs(strata, clusters)
        check_size(len(keys), cells + 1, "clusters")
        totals = np.zeros((len(keys), cells + 1))
    if replicates is not None:
        R = np.ldexp(replicates, -rows.exponent)
        if R.shape[1] > MAX_REPLICATES:
            raise RecordsError(f"replicates: {R.shape[1]}; {MAX_REPLICATES} at most are taken", R)
        under = np.zeros((R.shape[1], cells + 1))
    step = max(ROWS // (cells + 1), 1)
    for low in range(0, n, step):
        some = rows.symbols.slice(low, low + step)
        size = len(some.codes)
        F = mask_weights(some, rows.design, masks) if masks else np.ones(size)
        table = np.concatenate([F[:, None], weights(some)], axis=1)
        if clusters is not None:
            d, here = rows.times[0][low : low + size], which[low : low + size]
            for j, column in enumerate(table.T):
                totals[:, j] += np.bincount(here, d * column, len(keys))
        if replicates is not None:
            under += R[low : low + size].T @ table
        if products:
            W, dd = table[:, 1:], rows.times[1][low : low + size, None]
            for h in np.unique(at[low : low + size]):
                inside = at[low : low + size] == h
                cross[h] += W[inside].T @ (dd[inside] * W[inside])
    if clusters is not None:
        made["clusters"] = ClusterTotals(keys, totals)
    if replicates is not None:
        made["replicates"] = ReplicateTotals(under, R.T @ R)
    if products:
        made["products"] = cross
    return made


def _condition(rows: _Rows, masks: Mapping[str, Bools]) -> Floats:
    """Weights of the condition, 1 without one."""
    if not masks:
        return np.ones(len(rows.reports))
    return mask_weights(rows.symbols, rows.design, masks)


def _gather(
    codebook: Codebook | None,
    rows: _Rows,
    cells: int,
    parts: Sequence[tuple[int, _Rows, Floats, tuple[Floats, ...]]],
    laws: CellLaws,
) -> WeightSums:
    """The sums of all strata, each given with its rows, condition and sums of cells."""
    strata = np.array([stratum for stratum, *_ in parts], np.int64)
    singles = []
    for _, part, F, _ in parts:
        d, dd = part.times
        terms = (part.reports, d, dd, d * F, dd * F, dd * F**2)
        singles.append([float(x.sum()) for x in terms])
    tables = np.array([sums for *_, sums in parts]).reshape(-1, 4, cells)
    columns = [*np.array(singles).reshape(-1, 6).T, *np.moveaxis(tables, 1, 0)]
    values = dict(zip(SUMS, columns, strict=True))
    return WeightSums(codebook, rows.digest, strata, **values, exponent=rows.exponent, laws=laws)


def evidence_of(
    reports: Records | ContingencyTable,
    design: Design,
    over: Iterable[str] | Event,
    by: Iterable[str] = (),
    where: Event | None = None,
) -> Evidence:
    """Evidence that a question takes of reports: a table where that will do, or sums.

    Parameters
    ----------
    reports : Reports, undisguised Records, or a table of counts
    design : Design
        The design that made them.
    over : iterable of str, or mapping of attribute to label or labels
        Attributes, or a single event.
    by : iterable of str
        Attributes that make groups.
    where : mapping of attribute to label or labels, optional
        Condition.

    Raises
    ------
    InputError
        If an attribute is in two of the three, so that an answer would be known beforehand.
    """
    event = over if isinstance(over, Mapping) else None
    names, groups, condition = tuple(over), tuple(by), where or {}
    for name in groups:
        if name in names or name in condition:
            raise InputError(f"by: {shown(name)} is in over or where too; name it once", name)
    if groups:
        book, single = reports.codebook.select(groups), (names if event is None else event)
        check_size(math.prod(book.shape), 1)
        empty = GroupedSums(book, ())
        sums = tuple(
            _sums(reports, design, single, {**condition, **group}) for group in empty.labels()
        )
        cells = math.prod(reports.codebook.select((*groups, *names)).shape)
        joint = None
        if event is None and cells <= MAX_COMPARED and cells**2 * len(sums[0].n) <= MAX_SUMS:
            both = (*groups, *names)
            joint = sum_weights(reports, design, both, condition, products=True)  # type: ignore[arg-type]
        return GroupedSums(book, sums, joint)
    if event is not None or condition or _needs_sums(reports, design, names):
        return _sums(reports, design, names if event is None else event, condition)
    if isinstance(reports, ContingencyTable):
        return reports.marginal(covering(bound_to(reports, design), names))
    return count(reports, design, names)


def _sums(reports: Any, design: Design, over: tuple[str, ...] | Event, where: Event) -> WeightSums:
    if isinstance(over, Mapping):
        return sum_event(reports, design, over, where)
    return sum_weights(reports, design, over, where)


def _needs_sums(
    reports: Records | ContingencyTable, design: Design, names: tuple[str, ...]
) -> bool:
    """Whether reports cannot be counted: sets, survey weights or strata."""
    if isinstance(reports, ContingencyTable):
        return False
    sets = any(block.kind == "set" and block.attributes[0] in names for block in design.blocks)
    return sets or bool(reports.survey)
