"""Files of several owners: reports, with the design stored in each file, and true answers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ppdm_dask.data.codebook import Codebook, Records, Reports
from ppdm_dask.designs.identity import Identity
from ppdm_dask.designs.matching import covering
from ppdm_dask.errors import CodebookError, DataError, InputError, NotLumpable
from ppdm_dask.files.reader import AS_FOUND, DataFile, open_data
from ppdm_dask.files.regular import ending
from ppdm_dask.inference.owners import Owners
from ppdm_dask.shown import listed
from ppdm_dask.survey.about import KEY, file_checksum
from ppdm_dask.survey.counts import open_sources
from ppdm_dask.survey.disguise import in_file
from ppdm_dask.survey.parts import report_files
from ppdm_dask.survey.reports import about_file, all_reports, beside, parquet_metadata

if TYPE_CHECKING:
    from ppdm_dask.designs import Design
    from ppdm_dask.survey.parts import Sources

__all__ = ["OwnerFiles", "open_owners"]


@dataclass(frozen=True)
class OwnerFiles:
    """Files that were opened, by owner.

    Parameters
    ----------
    reports : tuple of list of (Path, About)
        Files of reports of one design each.
    clean : tuple of Path
        Data files of true answers.
    """

    reports: tuple[Sources, ...]
    clean: tuple[Path, ...] = ()

    @property
    def simulated(self) -> bool:
        """Whether a seed drew some of the reports."""
        return any(about.simulated for part in self.reports for _, about in part)

    def common(self, codebook: Codebook) -> list[str]:
        """Attributes that every file has, in the order of the codebook."""
        there = [set(about.codebook.names) for part in self.reports for _, about in part]
        there += [set(map(str, _open(path, codebook).columns)) for path in self.clean]
        return [name for name in codebook.names if all(name in each for each in there)]

    def load(
        self,
        codebook: Codebook,
        names: Sequence[str],
        target: str | None = None,
        *,
        keep: Sequence[str] = (),
        weights: str = "sum",
    ) -> Reports | Owners:
        """Read them into memory: reports, where there is one owner.

        Parameters
        ----------
        codebook : Codebook
        names : sequence of str
            Attributes.
        target : str, optional
            The one to predict; files do not say.
        keep : sequence of str
            Columns to keep beside the attributes of one owner.
        weights : {"sum", "precision"}
            As of :class:`ppdm_dask.Owners`.

        Raises
        ------
        NotLumpable
            If the attributes cut a block that does not marginalise.
        """
        book = Codebook(codebook.select(names).attributes, target)
        found: list[Records] = [
            _narrowed(replace(all_reports(part, names, keep), codebook=book))
            for part in self.reports
        ]
        if len(found) == 1 and not self.clean and isinstance(found[0], Reports):
            return found[0]
        if keep:
            raise InputError(f"{listed(keep)}: reports of several owners take no weights", keep)
        return Owners(*found, *(_truth(path, book) for path in self.clean), weights=weights)


def open_owners(
    paths: Iterable[str | Path],
    codebook: Codebook,
    design: Design | None,
    names: dict[str, Path],
    clean: Iterable[str | Path] = (),
) -> OwnerFiles:
    """The descriptions in files of several owners, checked against a codebook.

    Parameters
    ----------
    paths : paths
        Files of reports, folders of parts, and patterns.
    codebook : Codebook
        Codebook of all files.
    design : Design, optional
        That all reports have to be of; by default those are taken that the files carry.  Reports of
        one design are one owner's.
    names : mapping of "codebook" and, with a design, "design" to Path
        Their files, for messages.
    clean : paths
        Data files of true answers, of owners who do not disguise.

    Raises
    ------
    DataError
        One line that names the file which does not belong, whose records are in another one too,
        or which is said to hold true answers and holds reports.
    """
    given = [Path(path) for path in paths]
    if design is not None:
        reports: tuple[Sources, ...] = (open_sources(given, codebook, design, names),)
    else:
        if not given:
            raise InputError("no file is given; reports are needed", given)
        by_design: dict[str, Sources] = {}
        for path, said in report_files(given):
            about = about_file(path) if said is None else said
            # The codebook first: a design does not say which attribute differs.
            about.require(path, codebook, about.design, names)
            by_design.setdefault(about.design.digest, []).append((path, about))
        reports = tuple(_opened(part, codebook, names) for part in by_design.values())
    truth = tuple(Path(path) for path in clean)
    seen: dict[str, Path] = {}
    for path in truth:
        _open(path, codebook)
        if _says(path):
            raise DataError(f"{path}: holds reports, which are not true answers", path)
        if (digest := file_checksum(path)) in seen:
            raise DataError(
                f"{path}: holds the records of {seen[digest]}; they would count twice", path
            )
        seen[digest] = path
    return OwnerFiles(reports, truth)


def _opened(part: Sources, codebook: Codebook, names: dict[str, Path]) -> Sources:
    """Files of one design, by the design that they carry."""
    path, about = part[0]
    try:
        return open_sources(part, codebook, about.design, {**names, "design": path})
    except DataError:
        raise
    except InputError as error:
        raise DataError(f"{path}: {error}", error.subject) from None


def _narrowed(reports: Reports) -> Reports:
    """Reports under the design of their own attributes, where the file had others."""
    design, book = reports.design, reports.codebook
    assert design is not None
    kept = [name for name in design.attributes if name in book.names]
    if len(kept) == len(design.attributes):
        return reports
    if missing := [name for name in covering(design, kept) if name not in kept]:
        raise NotLumpable(
            f"{listed(missing)} was disguised together with what is asked for, and cannot be left "
            "out: choose it too",
            design,
        )
    part = design.marginal(kept) if kept else Identity(book.names, book.shape)
    assert part is not None
    return replace(reports, design=part, design_digest=part.digest)


def _open(path: Path, codebook: Codebook) -> DataFile:
    return open_data(path, how=replace(AS_FOUND, known=codebook.names))


def _says(path: Path) -> bool:
    """Whether a data file says of itself that it holds reports or counts."""
    if beside(path).exists():
        return True
    return ending(path) == ".parquet" and KEY in parquet_metadata(path)


def _truth(path: Path, codebook: Codebook) -> Records:
    """True answers of a data file, in memory."""
    file = _open(path, codebook)
    file.require(codebook.names)
    codes = []
    for block in file.blocks(list(codebook.names)):
        try:
            codes.append(codebook.encode(block.table, block.offset).codes)
        except CodebookError as error:
            raise in_file(error, path, block) from None
    if not sum(map(len, codes)):
        raise DataError(f"{path}: there are no records; at least one is needed", path)
    return Records(np.concatenate(codes), codebook)
