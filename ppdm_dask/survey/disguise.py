"""The client side of a survey: a data file goes in, a file of reports comes out.

Also here: files of reports, written a block at a time.
"""

from __future__ import annotations

import csv
import hashlib
import logging
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ppdm_dask.audit.certainty import Certainty, bare_attributes, certainties
from ppdm_dask.audit.measures import epsilon_of
from ppdm_dask.cluster.spread import HERE, Place, Work, summed
from ppdm_dask.data.codebook import Codebook
from ppdm_dask.errors import CodebookError, DataError, InputError, RecordsError, RunFolderError
from ppdm_dask.faces.face import Face
from ppdm_dask.files.reader import (
    AS_FOUND,
    Block,
    DataFile,
    Reading,
    expand,
    open_data,
    require_same_types,
)
from ppdm_dask.files.regular import ending
from ppdm_dask.files.writing import replacing, write_text
from ppdm_dask.randomness import KeyedStream, SealedStream
from ppdm_dask.shown import listed, quoted, shown
from ppdm_dask.survey.about import EMPTY, KEY, PLACE, About, file_checksum, seal
from ppdm_dask.survey.marker import NOTHING, Again, Answers, Remembered, Sketch, Sketcher
from ppdm_dask.survey.parts import Part, aside, batch_of, finish, part_name, seal_of
from ppdm_dask.survey.pieces import Piece, cut, placed
from ppdm_dask.survey.reports import beside, is_made, reported_labels, set_sizes

if TYPE_CHECKING:
    import pyarrow as pa

    from ppdm_dask.data.codebook import Reports
    from ppdm_dask.designs import Design
    from ppdm_dask.files.table import Table
    from ppdm_dask.randomness import Stream

LOG = logging.getLogger(__name__)

__all__ = ["Disguised", "disguise_file", "in_file", "write_part", "writing"]


Append = Callable[["Reports", "Table"], None]


@contextmanager
def writing(
    path: Path, about: About, kept: dict[str, Any], inputs: Iterable[Path] = ()
) -> Iterator[Append]:
    """Return a function that appends reports; the file is complete or does not exist.

    Parameters
    ----------
    path : Path
        Ends in ``.parquet`` or ``.csv``; a CSV gets a file beside it that says what made it.
    about : About
    kept : dict of str to pyarrow.DataType
        Columns that are passed on as they are.
    inputs : iterable of Path
        Files of answers: anyone who may not read all of them may not read the reports.
    """
    summary, given = _Summary(about), tuple(inputs)
    with replacing(path, given) as aside:
        if ending(path) == ".parquet":
            with _parquet(aside, about, kept, summary) as append:
                yield append
            seal(aside)
            return
        with aside.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow([*about.codebook.names, *kept])
            labels = reported_labels(about)

            def append_rows(reports: Reports, others: Table) -> None:
                summary.add(reports, others)
                columns = [_texts(reports, name, labels[name]) for name in about.codebook.names]
                columns += [others[name].cells() for name in kept]
                writer.writerows(zip(*columns, strict=True))

            yield append_rows
        # Before the reports: without it they cannot be told from others.
        made = replace(summary.about(), data=file_checksum(aside))
        write_text(beside(path), made.text() + "\n", given)


class _Summary:
    """How many reports are written, and a digest of each column of truth among them."""

    def __init__(self, about: About) -> None:
        self._about = about
        self._n = 0
        self._imported = about.imported
        self._digests = {name: hashlib.sha256() for name in about.undisguised}

    def add(self, reports: Reports, others: Table) -> None:
        self._n += len(reports)
        if reports.imported is not None:
            before = self._imported
            self._imported = reports.imported if before is None else before + reports.imported
        for name, digest in self._digests.items():
            if name in self._about.codebook.names:
                labels = np.array(self._about.codebook[name].categories, object)
                values = labels[reports.column(name)].tolist()
            else:
                values = others[name].cells()
            for value in values:
                text = value.encode()
                digest.update(len(text).to_bytes(8, "little") + text)

    def about(self) -> About:
        kept = {name: digest.hexdigest() for name, digest in self._digests.items()}
        return replace(self._about, n=self._n, kept=kept, imported=self._imported)


def _texts(reports: Reports, name: str, labels: list[str] | None) -> Sequence[object]:
    if name in reports.sets:
        return [bytes(row).hex() for row in reports.sets[name]]
    codes = reports.column(name)
    texts: list[object] = codes.tolist() if labels is None else np.array(labels, object)[codes]
    return texts


@contextmanager
def _parquet(
    aside: Path, about: About, kept: dict[str, Any], summary: _Summary
) -> Iterator[Append]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    sets, labels = set_sizes(about.design), reported_labels(about)
    fields = []
    for name in about.codebook.names:
        kind = pa.int32() if labels[name] is None else pa.dictionary(pa.int32(), pa.string())
        # A report is always there: nothing has to say so, value by value.
        kind = pa.binary(sets[name]) if name in sets else kind
        fields.append(pa.field(name, kind, nullable=False))
    fields += [pa.field(name, kind) for name, kind in kept.items()]
    schema = pa.schema(fields)
    # Statistics of a column would say what is the least and the greatest report there.
    with pq.ParquetWriter(
        aside, schema, write_page_checksum=True, write_statistics=False
    ) as writer:

        def append(reports: Reports, others: Table) -> None:
            summary.add(reports, others)
            columns: list[pa.Array] = []
            for name in about.codebook.names:
                if name in sets:
                    rows = [bytes(row) for row in reports.sets[name]]
                    columns.append(pa.array(rows, pa.binary(sets[name])))
                    continue
                codes = pa.array(reports.column(name).astype(np.int32))
                if labels[name] is not None:
                    texts = pa.array(labels[name], pa.string())
                    codes = pa.DictionaryArray.from_arrays(codes, texts)
                columns.append(codes)
            columns += [others[name].arrow(kind) for name, kind in kept.items()]
            writer.write_table(pa.Table.from_arrays(columns, schema=schema))

        yield append
        writer.add_key_value_metadata({KEY: summary.about().text().encode(), PLACE: EMPTY})


NAMED = 3
"""Sentences on what is certain that a refusal has before it counts the rest."""


@dataclass(frozen=True, repr=False)
class Disguised(Face):
    """What was done with a file.

    Parameters
    ----------
    records : int
    disguised, undisguised, dropped : tuple of str
        Columns of the data that are disguised, passed on as they are, and left out.
    simulated : bool
    certain : tuple of Certainty
        What reports make certain, nearly so or likely, and what they rule out.
    before : Remembered
        Whether the same answers were disguised before; see :mod:`ppdm_dask.survey.marker`.
    parts : int
        Files of a folder of parts; 0 for one file.
    """

    records: int
    disguised: tuple[str, ...]
    undisguised: tuple[str, ...]
    dropped: tuple[str, ...]
    simulated: bool
    certain: tuple[Certainty, ...] = ()
    before: Remembered = NOTHING
    parts: int = 0

    def _said(self) -> str:
        kept = f", {len(self.undisguised)} columns as they are" if self.undisguised else ""
        n = len(self.disguised)
        return f"Disguised: {self.records:,} records, {n} columns{kept}"


def disguise_file(
    data: Path | Sequence[Path],
    codebook: Codebook,
    design: Design,
    stream: Stream,
    out: Path,
    *,
    keep: Sequence[str] = (),
    drop: Sequence[str] = (),
    accept: Sequence[str] = (),
    block: int | None = None,
    how: Reading = AS_FOUND,
    place: Place = HERE,
    progress: Progress | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Disguised:
    """Disguise files block by block; true answers reach no other file.

    A real disguise is entered into a record beside the data, which tells when the same answers are
    disguised again.

    Parameters
    ----------
    data : Path or sequence of Path
        Data files with a column for each attribute of the design; folders and patterns of such.
        Their records come one after another, files in the order of their paths.
    codebook : Codebook
    design : Design
    stream : Stream
        ``Stream.from_entropy()`` for a real disguise; under ``Stream.from_seed`` the reports are
        those of ``design.disguise`` on all records, whatever the block, the place and the files.
    out : Path
        ``.parquet`` or ``.csv``; a name without an ending for a folder of Parquet files, each
        written by the task that made it, with a manifest (:mod:`ppdm_dask.survey.parts`).
    keep : sequence of str
        Columns to pass on undisguised: attributes as their categories, others as they are.
    drop : sequence of str
        Columns to leave out.
    accept : sequence of str
        Attributes, labels, or ``attribute=label``, that reports may make certain or nearly so.
    block : int, optional
        Records held at a time; by default more of few columns than of many.
    how : Reading
        How to read the files, as far as is known.
    place : Place
        Worker processes or a cluster, for a folder of parts.
    progress : callable, optional
        Called with the approximate number of records; returns a function that is called with the
        number of records done.
    say : callable
        Called with the detected format of files, and with remains of an earlier command that are
        removed.

    Raises
    ------
    InputError
        If the design does not fit the codebook, the data lack an attribute, hold a column that is
        neither disguised nor kept nor dropped, a report makes an answer certain or nearly so that
        is not accepted, or a value is not declared; then nothing is written.
    """
    design = design.bind(codebook, positions=stream.simulated)
    given = [data] if isinstance(data, Path) else list(data)
    # Messages name files as they were given; machines of a cluster know them by whole paths.
    paths = expand([each.resolve() for each in given] if place.cluster is not None else given)
    how = replace(how, known=codebook.names)
    files = [open_data(path, how=how) for path in paths]
    for file in files:
        if is_made(file):
            raise DataError(
                f"{file.path}: holds reports, which are already disguised; a second disguise "
                "reveals more and cannot be corrected for",
                file.path,
            )
    names, others = _columns(files[0], codebook, design, keep, drop)
    for file in files[1:]:
        _columns(file, codebook, design, keep, drop)
    require_same_types(files, [*names, *others])
    book = Codebook(codebook.select(names).attributes)
    kept = tuple(name for name in files[0].columns if name in keep)
    certain = _accepted(paths[0], codebook, design, keep, accept)
    disguise = os.urandom(16).hex()
    about = About("reports", book, design, stream.simulated, kept, (disguise,))
    kind = ending(out)
    if kind not in (".csv", ".parquet", ""):
        raise InputError(f"{out}: a name that ends in .parquet or .csv is needed", out)
    if kind and place.elsewhere:
        raise InputError(
            f"{out}: one process writes reports into one file; for workers name a folder of parts, "
            "without an ending",
            out,
        )
    hidden = [name for name in design.attributes if name not in kept]
    records = {} if stream.simulated else _records(paths, hidden)
    key = stream if stream.simulated else KeyedStream()
    task = _Disguise(
        about,
        tuple(others.items()),
        block,
        key.sealed() if isinstance(key, KeyedStream) else key,
        tuple(records[path.absolute().parent].sketcher for path in paths) if records else (),
        tuple(paths),
    )
    pieces = cut(files, how)
    told = [*names, *others]
    with ExitStack() as stack:
        if kind:
            client = None
            append = stack.enter_context(writing(out, about, others, paths))
            work: Work = partial(_appended, task=task, append=append)
        else:
            folder = stack.enter_context(aside(out, say))
            client = stack.enter_context(place.client())
            work = partial(_written, task=task, folder=str(folder))
        if stream.simulated:
            pieces = placed(pieces, client)
        done = progress(sum(piece.records for piece in pieces)) if progress else None
        made: _Made = (
            summed(work, pieces, _total, told, client=client, done=done) if pieces else _Made()
        )
        LOG.info("%d records of %d files are disguised", made.records, len(paths))
        if not made.records:
            raise DataError(f"{paths[0]}: there are no records; at least one is needed", paths[0])
        if not kind:
            finish(folder, out, replace(about, disguise=disguise), made.parts, paths)
    for note, path in {file.note: file.path for file in reversed(files) if file.note}.items():
        say(f"{path}: {note}")
    disguised = tuple(n for n in names if n not in about.undisguised)
    epsilons = _epsilons(design, hidden)
    before = _remembered(records, paths, made.sketches, epsilons)
    return Disguised(
        made.records,
        disguised,
        about.undisguised,
        tuple(drop),
        stream.simulated,
        certain,
        before,
        len(made.parts),
    )


Progress = Callable[[int], Callable[[int], None]]


@dataclass(frozen=True)
class _Disguise:
    """What all tasks of a disguise have in common."""

    about: About
    others: tuple[tuple[str, Any], ...]
    block: int | None
    key: Stream | SealedStream
    sketchers: tuple[Sketcher, ...]
    paths: tuple[Path, ...]


@dataclass(frozen=True)
class _Made:
    """What leaves the tasks: how many reports, sketches of answers by file, and parts."""

    records: int = 0
    sketches: Mapping[int, Sketch] = field(default_factory=dict)
    parts: tuple[Part, ...] = ()


def _total(made: Sequence[_Made]) -> _Made:
    sketches: dict[int, Sketch] = {}
    for each in made:
        for number, sketch in each.sketches.items():
            sketches[number] = sketches[number] + sketch if number in sketches else sketch
    parts = tuple(part for each in made for part in each.parts)
    return _Made(sum(each.records for each in made), sketches, parts)


def _written(
    i: int, piece: Piece, told: Callable[[int], None], *, task: _Disguise, folder: str
) -> _Made:
    """One task: read, encode, disguise, write.  Raw records go no further."""
    made, part = write_part(
        i,
        task.about,
        dict(task.others),
        task.paths,
        folder,
        lambda append: _appended(i, piece, told, task=task, append=append),
    )
    return replace(made, parts=(part,))


T = TypeVar("T")


def write_part(
    i: int,
    about: About,
    kept: Mapping[str, Any],
    inputs: Sequence[Path],
    folder: str,
    fill: Callable[[Append], T],
) -> tuple[T, Part]:
    """Write part i of a folder: what `fill` returns, and the part.

    A task that is run again writes the same file; if two run at once, the file is still complete.
    """
    path = Path(folder) / part_name(i)
    if not path.parent.is_dir():
        raise RunFolderError(
            f"{path.parent}: is not there on the machine of a worker; write to a folder that all "
            "machines share",
            path.parent,
        )
    disguise, batch = about.batches[0], batch_of(about.batches[0], i)
    named = replace(about, batches=(batch,), disguise=disguise)
    n = 0
    with writing(path, named, dict(kept), inputs) as append:

        def counted(reports: Reports, others: Table) -> None:
            nonlocal n
            n += len(reports)
            append(reports, others)

        found = fill(counted)
    return found, Part(path.name, n, seal_of(path), batch)


def _appended(
    i: int, piece: Piece, told: Callable[[int], None], *, task: _Disguise, append: Append
) -> _Made:
    """Reports of a piece, appended block by block."""
    about, kept = task.about, [name for name, _ in task.others]
    book, design = about.codebook, about.design
    stream = task.key.open() if isinstance(task.key, SealedStream) else task.key
    total = 0
    sketches: dict[int, Sketch] = {}
    for j, span in enumerate(piece.spans):
        # Without a simulation a span has draws of its own, whatever is before it.
        draws = stream if stream.simulated else stream.child(i, j)
        for part in span.blocks([*book.names, *kept], task.block, kept):
            try:
                records = book.encode(part.table, part.offset)
            except CodebookError as error:
                raise in_file(error, span.path, part) from None
            start = span.start - span.row + part.offset
            reports = design.disguise(replace(records, offset=start), draws)
            append(reports, part.table.select(kept))
            if task.sketchers:
                sketch = task.sketchers[span.file].sketch(part.table, part.offset)
                before = sketches.get(span.file)
                sketches[span.file] = sketch if before is None else before + sketch
            total += len(records)
            told(len(records))
    return _Made(total, sketches)


def in_file(error: InputError, path: Path, part: Block) -> DataError:
    """The error of a value in a block of a file: with the file, and the row or line."""
    line = f"{path}: {error}{part.place(error.row)}"
    if error.row is None or error.told is None:
        return DataError(line, error.subject)
    said = f"{path}: {error.told}{part.place(error.row)}"
    return DataError.at(error.row, line, error.subject, told=said)


def _records(paths: Sequence[Path], hidden: Sequence[str]) -> dict[Path, Answers]:
    """The record of each folder of data."""
    folders = dict.fromkeys(path.absolute().parent for path in paths)
    return {folder: Answers(folder, hidden) for folder in folders}


def _remembered(
    records: Mapping[Path, Answers],
    paths: Sequence[Path],
    sketches: Mapping[int, Sketch],
    epsilons: Mapping[str, float | None],
) -> Remembered:
    """Enter the disguise into the records; what they said, each sentence once."""
    again: dict[Again, None] = {}
    problem = ""
    for folder, record in records.items():
        mine = [sketches[i] for i in sketches if paths[i].absolute().parent == folder]
        before = record.remember(mine, epsilons)
        again |= dict.fromkeys(before.again)
        problem = problem or before.problem
    return Remembered(tuple(again), problem) if records else NOTHING


def _epsilons(design: Design, names: Sequence[str]) -> dict[str, float | None]:
    """Epsilon of each attribute's block; None where there is no bound, or it is not known."""
    found: dict[str, float | None] = {}
    for block in design.blocks:
        epsilon = epsilon_of(block)
        bounded = epsilon is not None and math.isfinite(epsilon)
        found |= dict.fromkeys(block.attributes, epsilon if bounded else None)
    return {name: found[name] for name in names}


def _accepted(
    data: Path, codebook: Codebook, design: Design, keep: Sequence[str], accept: Sequence[str]
) -> tuple[Certainty, ...]:
    """What reports make certain of what is not kept in truth; InputError unless it is accepted."""
    labels = {name: codebook[name].categories for name in design.attributes}
    found = [
        each for each in certainties(design, labels) if not set(keep).issuperset(each.attributes)
    ]
    given = [each for each in found if each.gives_away]
    known = {name for each in given for name in each.names()}
    for name in accept:
        if name not in known:
            there = listed(sorted({n for each in given for n in each.attributes})) or "none"
            raise InputError(
                f"--accept-certain: {shown(name)} is not made certain by any report; there "
                f"are: {there}",
                name,
            )
    if refused := [each for each in given if not each.accepted((*accept, *keep))]:
        said = "; ".join(each.sentence for each in refused[:NAMED])
        more = f"; and {len(refused) - NAMED} more" if len(refused) > NAMED else ""
        names = dict.fromkeys(n for each in refused for n in each.attributes if n not in keep)
        raise InputError(
            f"{data}: the design gives answers away: {said}{more}; take another design, or name "
            f"{quoted(names)} in --accept-certain",
            refused,
        )
    return tuple(found)


def _columns(
    file: DataFile, codebook: Codebook, design: Design, keep: Sequence[str], drop: Sequence[str]
) -> tuple[list[str], dict[str, Any]]:
    """Coded columns in the order of the file, and those passed on as they are with their types."""
    import pyarrow as pa

    file.require(design.attributes, "the design's column")
    file.require(keep, "--keep-undisguised: column")
    file.require(drop, "--drop: column")
    bare = bare_attributes(design)
    for name in (*keep, *drop):
        if name in keep and name in drop:
            raise InputError(f"column {shown(name)}: either keep it or drop it, not both", name)
        if name in design.attributes and (name in drop or name not in bare):
            word = "keep" if name in keep else "drop"
            raise InputError(
                f"column {shown(name)}: the design disguises it, so it cannot be told to {word}",
                name,
            )
    for name in bare:
        if name not in keep:
            raise RecordsError(
                f"{file.path}: column {shown(name)}: the design does not disguise it; name it "
                "in --keep-undisguised if that is intended",
                name,
            )
    known = {*design.attributes, *keep, *drop}
    if surplus := [name for name in file.columns if name not in known]:
        word = "column" if len(surplus) == 1 else "columns"
        raise DataError(
            f"{file.path}: {word} {quoted(surplus)}: not disguised by the design; "
            "name it in --keep-undisguised to keep its true values, or in --drop to leave it out",
            surplus,
        )
    coded = [
        name
        for name in file.columns
        if name in design.attributes or (name in keep and name in codebook.names)
    ]
    others = [name for name in file.columns if name in keep and name not in coded]
    return coded, {name: file.types.get(name, pa.string()) for name in others}
