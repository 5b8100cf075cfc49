"""Reports of Python in files: lazy ones are written as a folder of parts, and such are counted.

The folder is the one that ``ppdm disguise --out`` writes; see :mod:`ppdm_dask.survey.parts`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce
from operator import add as plus
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ppdm_dask.audit.certainty import undisguised_attributes
from ppdm_dask.cluster.active import active_client, on_a_worker
from ppdm_dask.cluster.spread import summed
from ppdm_dask.errors import DataError, InputError
from ppdm_dask.faces.face import Face, html_table, names_of
from ppdm_dask.files.regular import ending
from ppdm_dask.files.table import Table
from ppdm_dask.shown import listed, shown
from ppdm_dask.survey.about import About
from ppdm_dask.survey.counts import Source, open_sources
from ppdm_dask.survey.disguise import write_part
from ppdm_dask.survey.parts import MANIFEST, Part, Sources, aside, checked, finish, report_files
from ppdm_dask.survey.reports import about_file, read_reports

if TYPE_CHECKING:
    from markupsafe import Markup

    from ppdm_dask.cluster.spread import Client
    from ppdm_dask.data.codebook import Codebook, Reports
    from ppdm_dask.designs import Design

__all__ = ["StoredReports", "open_reports", "write_parts"]


Types = Mapping[str, Any]
"""Types of Arrow of the columns that were kept, by name."""

Written = tuple[tuple[Part, ...], tuple[Types, ...]]
"""Parts, and the types that each has."""


def write_parts(
    reports: Any,
    summed: Callable[[Callable[[int, Reports], Written], Callable[[list[Any]], Written]], Written],
    out: Path,
    *,
    name: str,
    kept: Sequence[str],
    inputs: Sequence[Path],
    overwrite: bool,
) -> None:
    """Write lazy reports as a folder of parts, atomically.

    Parameters
    ----------
    reports : LazyReports
    summed : callable
        Applies a function of the number of a partition and its reports where these are made, and
        adds up what it returns by another one.
    out : Path
        A folder that is not there; any machine that makes reports has to see its parent.
    name : str
        Of the disguise, random.
    kept : sequence of str
        Columns beside the attributes.
    inputs : sequence of Path
        Files of answers: anyone who may not read all of them may not read the reports.
    overwrite : bool
        Replace a folder of parts.

    Raises
    ------
    InputError
        If the folder is there, or cannot be, or a kept column has no type of its own.
    DataError
        If there are no reports.
    """
    _require_place(out, overwrite)
    book, design = reports.codebook, reports.design
    truth = (*undisguised_attributes(design, book.names), *kept)
    about = About("reports", book, design, reports.simulated, truth, (name,))
    with aside(out, lambda _: None) as folder:
        work = partial(_write, about=about, inputs=tuple(inputs), folder=str(folder))
        parts, types = summed(work, _together)
        for column in kept:
            found = sorted({str(each[column]) for each in types})
            if len(found) > 1:
                raise InputError(
                    f"column {shown(column)}: its partitions hold different types "
                    f"({listed(found)}); convert it to one type with astype",
                    column,
                )
        if not sum(part.reports for part in parts):
            raise DataError(f"{out}: there are no reports; at least one is needed", out)
        finish(folder, out, replace(about, disguise=about.batches[0]), parts, inputs)


def _require_place(out: Path, overwrite: bool) -> None:
    if ending(out):
        raise InputError(f"{out}: a folder is written; a name without an ending is needed", out)
    if not out.absolute().parent.is_dir():
        raise InputError(f"{out}: there is no folder {str(out.parent)!r}", out)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        if not (out / MANIFEST).is_file():
            raise InputError(f"{out}: holds other files; name a folder that is not there", out)
        if not overwrite:
            raise InputError(f"{out}: already exists; overwrite=True replaces it", out)


def _write(
    i: int, reports: Reports, *, about: About, inputs: tuple[Path, ...], folder: str
) -> Written:
    """One task: write the reports that it has made."""
    import pyarrow as pa

    types: dict[str, Any] = {}
    for name, values in reports.kept.items():
        try:
            kind = pa.array(values, from_pandas=True).type
        except pa.ArrowException:
            raise InputError(
                f"column {shown(name)}: holds values of several types; convert it to one "
                "type with astype",
                name,
            ) from None
        # What is missing throughout has the type of none.
        types[name] = pa.string() if pa.types.is_null(kind) else kind
    others = Table.of_arrays(reports.kept, len(reports))
    _, part = write_part(i, about, types, inputs, folder, lambda append: append(reports, others))
    return (part,), (types,)


def _together(written: list[Written]) -> Written:
    parts = tuple(part for each, _ in written for part in each)
    return parts, tuple(types for _, each in written for types in each)


# -- reading ---------------------------------------------------------------------------------------


def open_reports(paths: str | Path | Sequence[str | Path]) -> StoredReports:
    """Reports of files, folders of parts and patterns, to be counted where they are read.

    Raises
    ------
    DataError
        If a file holds no reports, they were made under different designs or codebooks, or some
        would count twice.
    """
    given = [paths] if isinstance(paths, str | Path) else list(paths)
    return StoredReports(_sources([Path(path) for path in given]))


def _sources(paths: list[Path]) -> Sources:
    found = report_files(paths)
    if not found:
        raise DataError(f"{paths[0] if paths else 'reports'}: there are no files", paths)
    first, said = found[0]
    about = about_file(first) if said is None else said
    names = {"codebook": first, "design": first}
    sources = open_sources(found, about.codebook, about.design.bind(about.codebook), names)
    for path, each in sources:
        if each.kind != "reports":
            what = "holds counts, which `ppdm count` and `ppdm estimate` add up"
            raise DataError(f"{path}: {what}; files of reports are needed", path)
    return sources


class StoredReports(Face):
    """Reports in files, as ``count`` and ``estimate`` take them: a partition for each file.

    Parameters
    ----------
    sources : list of (Path, About)
    names : sequence of str, optional
        Attributes to read, which all files have; by default those of the first file.
    client : distributed.Client, optional
        Whose workers read; by default the active one, or else this process.
    """

    def __init__(
        self,
        sources: Sources,
        names: Sequence[str] | None = None,
        *,
        client: Client | None = None,
    ) -> None:
        self._sources = sources
        self._first = sources[0][1]
        book = self._first.codebook
        self._codebook = book if names is None else book.select(names)
        self._client = client

    @property
    def codebook(self) -> Codebook:
        """Declares the attributes and categories of the truth."""
        return self._codebook

    @property
    def design(self) -> Design:
        """The design that made the reports."""
        return self._first.design

    @property
    def simulated(self) -> bool:
        """Whether draws came from a seed, for any of them."""
        return any(about.simulated for _, about in self._sources)

    @property
    def npartitions(self) -> int:
        """How many files there are."""
        return len(self._sources)

    def _said(self) -> str:
        kind = "simulated, " if self.simulated else ""
        names = names_of(self.codebook.names, 90)
        return f"StoredReports({kind}{names}, npartitions={self.npartitions})"

    def _shown(self) -> Iterator[Markup]:
        yield html_table(self.codebook._listing())

    def reduce(
        self, part: Callable[[Reports], Any], add: Callable[[list[Any]], Any] | None = None
    ) -> Any:
        """Apply a function to blocks of reports, and add up what it returns.

        Workers of the active client read, if there is one, and otherwise this process.
        """
        client = self._client
        if client is None and not on_a_worker():
            client = active_client()
        together = partial(_added, add=add)
        work = partial(_of_blocks, part=part, add=together, names=self.codebook.names)
        found = [Source(path.resolve(), about, path) for path, about in self._sources]
        total = summed(work, found, together, self.codebook.names, client=client)
        if total is None:
            raise DataError(f"{found[0].path}: there are no reports; at least one is needed", found)
        return total


def _added(results: list[Any], *, add: Callable[[list[Any]], Any] | None) -> Any:
    """The sum of results; None where there are only those of files without reports."""
    there = [each for each in results if each is not None]
    if not there:
        return None
    return reduce(plus, there) if add is None else add(there)


def _of_blocks(
    _: int,
    source: Source,
    told: Callable[[int], None],
    *,
    part: Callable[[Reports], Any],
    add: Callable[[list[Any]], Any],
    names: Sequence[str],
) -> Any:
    total: Any = None
    for reports in _blocks(source, names):
        total = add([total, part(reports)])
        told(len(reports))
    return total


def _blocks(source: Source, names: Sequence[str]) -> Iterator[Reports]:
    """Blocks of a file, with the columns that were kept beside the attributes."""
    about = checked(source.place, source.about)
    others = [name for name in about.undisguised if name not in about.codebook.names]
    for block in read_reports(source.place, about, names, others):
        kept = {name: block.others[name].to_numpy() for name in others}
        yield replace(block.reports, design=about.design, kept=kept)
