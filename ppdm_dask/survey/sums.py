"""Event weights summed over files of reports and counts, with survey weights and strata."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ppdm_dask.errors import DataError, NotLumpable, RecordsError
from ppdm_dask.estimate import sum_weights
from ppdm_dask.matching import covering
from ppdm_dask.shown import listed, shown
from ppdm_dask.survey.counts import Sources, count_files, weighted_cells
from ppdm_dask.survey.reports import read_reports

if TYPE_CHECKING:
    from ppdm_dask.codebook import Codebook
    from ppdm_dask.designs import Design
    from ppdm_dask.estimate import WeightSums
    from ppdm_dask.records import Reports
    from ppdm_dask.survey.estimate import Question

__all__ = ["sum_files"]


def sum_files(
    sources: Sources, codebook: Codebook, design: Design, question: Question
) -> WeightSums:
    """Add up the event weights that a question asks for, block by block.

    Raises
    ------
    DataError
        One line that names the file, the column and the row at fault.
    """
    total: WeightSums | None = None
    strata: dict[str, int] = {}
    for source in sources:
        try:
            for sums in _sums(source, codebook, design, question, strata):
                total = sums if total is None else total + sums
        except (NotLumpable, RecordsError) as error:
            raise DataError(f"{source[0]}: {error}", error.subject) from None
    if total is None:
        raise DataError(f"{sources[0][0]}: there are no reports; at least one is needed", sources)
    return total


def _sums(
    source: tuple[Path, Any],
    codebook: Codebook,
    design: Design,
    question: Question,
    strata: dict[str, int],
) -> Iterator[WeightSums]:
    """Sums over a file, block by block."""
    path, about = source
    if about.kind == "reports":
        for reports in _surveyed(source, codebook, design, question, strata):
            yield sum_weights(reports, design, question.over, question.where)
        return
    for option in ("weights", "strata"):
        if getattr(question, option):
            raise DataError(f"{path}: counts keep no column for --{option}; give the reports", path)
    names = covering(design, (*question.over, *question.where))
    for cells, counts in weighted_cells(count_files([source], codebook, design, names)):
        yield _sum_counted(cells, counts, design, question)


def _sum_counted(
    cells: Reports, counts: npt.NDArray[np.int64], design: Design, question: Question
) -> WeightSums:
    """Sums over reports of which there are several alike, as if each stood there by itself.

    With c as survey weights of the different reports, sums of d f are sums over all reports; with
    the square root of c, so are sums of d^2 f.  Where d = 1, both are the same for a single f.
    """
    c = counts.astype(float)
    single = sum_weights(cells.surveyed(c), design, question.over, question.where)
    double = sum_weights(cells.surveyed(np.sqrt(c)), design, question.over, question.where)
    d, f, w = (single.in_units(name) for name in ("d", "f", "w"))
    return replace(
        double,
        exponent=0,
        n=d,
        d=d,
        dd=d,
        f=f,
        ddf=f,
        w=w,
        ddw=w,
        ddff=double.in_units("ddff"),
        ddwf=double.in_units("ddwf"),
        ddww=double.in_units("ddww"),
    )


def _surveyed(
    source: tuple[Path, Any],
    codebook: Codebook,
    design: Design,
    question: Question,
    strata: dict[str, int],
) -> Iterator[Reports]:
    """Reports of a file, block by block, with survey weights and strata."""
    path, about = source
    names = covering(design, (*question.over, *question.where))
    extra = [name for name in (question.weights, question.strata) if name]
    for name in extra:
        if name not in about.undisguised:
            kept = listed(about.undisguised) or "none"
            raise DataError(
                f"{path}: column {shown(name)} was not kept undisguised; columns that were: {kept}",
                name,
            )
    if question.weights in about.codebook.names:
        raise DataError(
            f"{path}: column {shown(question.weights)} holds categories of the codebook, no "
            "numbers; "
            "survey weights are kept as numbers where the codebook does not name them",
            path,
        )
    for name in names:
        if name not in about.codebook.names:
            there = listed(about.codebook.names)
            raise DataError(f"{path}: holds no attribute {shown(name)}; there are {there}", name)
    for block in read_reports(path, about, names, list(dict.fromkeys(extra))):
        reports, offset = block.reports, block.reports.offset
        if question.weights:
            values = _weights(path, block.others[question.weights], offset)
            reports = reports.surveyed(values, reports.strata)
        if question.strata:
            codes = _strata(path, block.others[question.strata], offset, strata)
            reports = reports.surveyed(reports.weights, codes)
        yield reports


def _weights(path: Path, values: Any, offset: int) -> Any:
    from ppdm_dask.coding import read_numbers

    numbers, wrong = read_numbers(values)
    wrong = wrong | ~(numbers > 0)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise DataError(
            f"{path}: column {values.name!r}, row {row + offset}: {shown(values.iloc[row])}; "
            "survey weights are positive numbers",
            path,
        )
    return numbers


def _strata(path: Path, values: Any, offset: int, known: dict[str, int]) -> Any:
    from ppdm_dask.coding import factorise

    positions, texts = factorise(values)
    if (positions < 0).any():
        row = int(np.argmax(positions < 0)) + offset
        raise DataError(
            f"{path}: column {shown(values.name)}, row {row}: no stratum is given", path
        )
    codes = np.array([known.setdefault(text, len(known)) for text in texts], np.int64)
    return codes[positions]
