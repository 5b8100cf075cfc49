"""Reports of a collector as files for all other commands; each export has the new reports."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ppdm_dask.audit.certainty import undisguised_attributes
from ppdm_dask.collect.survey import Survey
from ppdm_dask.data.words import Imported
from ppdm_dask.errors import DataError
from ppdm_dask.files.table import Table
from ppdm_dask.survey.about import About
from ppdm_dask.survey.disguise import writing
from ppdm_dask.survey.reports import about_file

if TYPE_CHECKING:
    from ppdm_dask.collect.store import Store

__all__ = ["export_reports"]

BLOCK = 50_000


def export_reports(survey: Survey, store: Store, folder: Path) -> list[tuple[Path, int]]:
    """Write the exports that are missing in a folder, including the new reports.

    Each report is in exactly one export, even after interruptions. If the file of an earlier export
    was deleted, it is written again.

    Parameters
    ----------
    survey : Survey
    store : Store
    folder : Path
        Made if it is absent; it gets ``reports-0001.parquet`` and so on.

    Returns
    -------
    list of (path, reports)
        Of the files that were written.

    Raises
    ------
    DataError
        If there are no reports at all, or a file of that name is not this export.
    """
    if folder.exists() and not folder.is_dir():
        raise DataError(f"{folder}: is a file; a folder is needed", folder)
    store.assign()
    exports = store.exports()
    if not exports:
        raise DataError("there are no reports yet; nothing is exported", folder)
    folder.mkdir(parents=True, exist_ok=True)
    missing = []
    for number, batch in exports:
        path = folder / f"reports-{number:04d}.parquet"
        if not path.exists():
            missing.append((path, number, batch))
        elif about_file(path).batches != (batch,):
            raise DataError(
                f"{path}: holds reports of another survey or database; name another folder", path
            )
    return [(path, _write(survey, store, path, number, batch)) for path, number, batch in missing]


def _write(survey: Survey, store: Store, path: Path, number: int, batch: str) -> int:
    # Where a device in the hand made some of them, they are answers of the field.
    imported = Imported() if survey.hands else None
    about = About(
        "reports",
        survey.codebook,
        survey.design,
        simulated=False,
        undisguised=undisguised_attributes(survey.design, survey.codebook.names),
        batches=(batch,),
        imported=imported,
    )
    n = 0
    with writing(path, about, {}) as append:
        for texts in store.of_export(number, BLOCK):
            reports = survey.reports(texts, n)
            if survey.hands:
                reports = replace(reports, imported=Imported(rows=len(texts)))
            append(reports, Table.of({}, len(texts)))
            n += len(texts)
    return n
