"""Files of answers that people randomised themselves become files of reports.

Nothing is drawn or protected here: the device did that, before the answers were typed.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ppdm_dask.audit.certainty import bare_attributes
from ppdm_dask.data.codebook import Codebook, Reports
from ppdm_dask.data.field import field_codes
from ppdm_dask.data.words import FieldRules, Imported
from ppdm_dask.errors import CodebookError, DataError, InputError, RecordsError
from ppdm_dask.files.reader import (
    AS_FOUND,
    BLOCK,
    Reading,
    expand,
    open_data,
    require_same_types,
)
from ppdm_dask.files.regular import ending
from ppdm_dask.shown import shown
from ppdm_dask.survey.about import About
from ppdm_dask.survey.disguise import in_file, writing
from ppdm_dask.survey.pieces import cut
from ppdm_dask.survey.reports import is_made

if TYPE_CHECKING:
    from ppdm_dask.designs import Design
    from ppdm_dask.files.datafile import Block, DataFile
    from ppdm_dask.survey.disguise import Progress

__all__ = ["DESIGN_COLUMN", "FieldRules", "import_files"]

DESIGN_COLUMN = "ppdmdesign"
"""Column of a platform's file that says by which design a report was made: the digest.

The name is one that every platform takes: LimeSurvey allows no underscore, REDCap no capital.
"""


def import_files(
    data: Sequence[Path],
    codebook: Codebook,
    design: Design,
    out: Path,
    *,
    keep: Sequence[str] = (),
    weights: str | None = None,
    rules: FieldRules | None = None,
    block: int = BLOCK,
    how: Reading = AS_FOUND,
    progress: Progress | None = None,
) -> tuple[About, tuple[str, ...]]:
    """Make a file of reports from files of answers that were randomised in the field.

    Parameters
    ----------
    data : sequence of Path
        Files, folders and patterns; each with a column for every attribute of the design.
    codebook : Codebook
    design : Design
        By which people were asked; bound to the codebook.
    out : Path
        ``.parquet`` or ``.csv``.
    keep : sequence of str
        Columns of true values to keep: attributes as their categories, others as they are.
    weights : str, optional
        Column of survey weights, which is kept as it is.
    rules : FieldRules, optional
        What to do with rows that do not have a complete report; by default they are refused.
    block : int
        Records held at a time.
    how : Reading
        How the files are to be read.
    progress : callable, optional
        Called with the approximate number of records; returns a function that is called with the
        number of records done.

    Returns
    -------
    about, left_out : About, tuple of str
        What the reports say of themselves, and columns of the data that they do not hold.

    Raises
    ------
    InputError
        One line; then nothing is written.
    """
    import pyarrow as pa

    rules = FieldRules() if rules is None else rules
    design = design.bind(codebook)
    if ending(out) not in (".csv", ".parquet"):
        raise InputError(f"{out}: a name that ends in .parquet or .csv is needed", out)
    how = replace(how, known=codebook.names)
    files = [open_data(path, how=how) for path in expand(data)]
    kept = tuple(dict.fromkeys([*keep, *([weights] if weights is not None else [])]))
    if both := [name for name in kept if name in design.attributes]:
        raise InputError(f"--keep: {both[0]!r} is reported under the design already", both[0])
    if weights in codebook.names:
        raise InputError(
            f"--weights: the codebook has {weights!r} as an attribute; delete it there", weights
        )
    for file in files:
        if is_made(file):
            raise DataError(f"{file.path}: holds reports already", file.path)
        file.require(design.attributes, "the design's column")
        file.require(kept, "--keep: column")
    names = [n for n in files[0].columns if n in design.attributes or n in kept]
    require_same_types(files, names)
    book = Codebook(codebook.select(name for name in names if name in codebook.names).attributes)
    others = [name for name in names if name not in book.names]
    marked = {file.path for file in files if _is_marked(file, codebook)}
    true = {*kept, *bare_attributes(design)}
    total = Imported(choice=rules.nonresponse, symbols=dict(design.symbols))
    about = About(
        "reports",
        book,
        design,
        simulated=False,
        undisguised=tuple(name for name in names if name in true),
        batches=(os.urandom(16).hex(),),
        imported=total,
    )
    done = progress(sum(piece.records for piece in cut(files))) if progress else None
    types = {name: files[0].types.get(name, pa.string()) for name in others}
    with writing(out, about, types, [file.path for file in files]) as append:
        for file in files:
            marks = [DESIGN_COLUMN] if file.path in marked else []
            read = list(dict.fromkeys([*others, *marks]))
            for part in file.blocks([*book.names, *read], block, kept=read):
                try:
                    found = field_codes(
                        part.table, book.attributes, design, rules, weights, part.offset
                    )
                except (CodebookError, RecordsError) as error:
                    raise in_file(error, file.path, part) from None
                if marks:
                    _require_design(file.path, part, found.rows, design)
                reports = Reports(
                    found.codes,
                    book,
                    total.reports,
                    design.digest,
                    simulated=False,
                    reported_sizes=found.sizes,
                    sets=found.sets,
                    imported=found.imported,
                )
                append(reports, part.table.select(others).take(found.rows))
                total += found.imported
                if done is not None:
                    done(found.imported.rows)
        if not total.reports:
            raise DataError(f"{files[0].path}: there are no reports; at least one is needed", files)
    seen = [*names, *([DESIGN_COLUMN] if files[0].path in marked else [])]
    left_out = tuple(name for name in files[0].columns if name not in seen)
    return replace(about, n=total.reports, imported=total), left_out


def _is_marked(file: DataFile, codebook: Codebook) -> bool:
    """Whether reports say by which design they were made."""
    return DESIGN_COLUMN in file.columns and DESIGN_COLUMN not in codebook.names


def _require_design(path: Path, part: Block, rows: npt.NDArray[np.bool_], design: Design) -> None:
    """Raise unless all rows that are kept say that they were made by a design."""
    given = np.array(part.table[DESIGN_COLUMN].objects(), object)
    wrong = np.flatnonzero(rows & (given != design.digest))
    if len(wrong):
        row = int(wrong[0])
        named = given[row] if isinstance(given[row], str) else ""
        said = f"the report is of the design {shown(named)}" if named else "no design is named"
        raise DataError(
            f"{path}: column {DESIGN_COLUMN!r}, row {part.offset + row}: {said}; the one that is "
            f"given is {shown(design.digest)}{part.place(part.offset + row)}",
            named,
        )
