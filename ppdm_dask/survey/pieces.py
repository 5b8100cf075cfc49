"""Files of answers cut into pieces: what one task reads, and one part of the reports holds."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ppdm_dask.cluster.spread import summed
from ppdm_dask.files.arrow import ArrowColumns, together
from ppdm_dask.files.datafile import RECORDS, Block
from ppdm_dask.files.reader import AS_FOUND, Reading, open_data

if TYPE_CHECKING:
    from collections.abc import Callable

    from ppdm_dask.cluster.spread import Client
    from ppdm_dask.files.datafile import DataFile

__all__ = ["Piece", "Span", "cut", "placed"]

LINE_BYTES = 32
"""Of a text file whose records are not known before it is read."""


@dataclass(frozen=True)
class Span:
    """Consecutive records of a file.

    Parameters
    ----------
    path : Path
    file : int
        Number of the file.
    groups : tuple of int or None
        Row groups; None for the whole file.
    row : int
        Position of the first record in the file.
    records : int
        How many there are; about so many if the format does not say.
    known : bool
        Whether that is exact.
    start : int
        Position of the first record in all files; that in the file where it is not known.
    how : Reading
        How the file is to be read.
    """

    path: Path
    file: int
    groups: tuple[int, ...] | None
    row: int
    records: int
    known: bool
    start: int
    how: Reading = AS_FOUND

    def blocks(
        self, columns: Sequence[str], size: int | None, kept: Collection[str]
    ) -> Iterator[Block]:
        """Records in blocks, whose offset is that in the file."""
        file = open_data(self.path, how=self.how)
        if self.groups is None:
            yield from file.blocks(columns, size, kept=kept)
            return
        for block in file.blocks_of(self.groups, columns, size, kept=kept):
            yield replace(block, offset=self.row + block.offset)


@dataclass(frozen=True)
class Piece:
    """Spans that one task reads, in order."""

    spans: tuple[Span, ...]

    @property
    def records(self) -> int:
        """Records, about."""
        return sum(span.records for span in self.spans)


def cut(files: Sequence[DataFile], how: Reading = AS_FOUND) -> list[Piece]:
    """Cut files at row groups into pieces; small files share one.

    Pieces depend on the files only.
    """
    pieces: list[Piece] = []
    waiting: list[Span] = []
    for span in (span for i, file in enumerate(files) for span in _spans(file, i, how)):
        if waiting and sum(each.records for each in waiting) + span.records > RECORDS:
            pieces.append(Piece(tuple(waiting)))
            waiting = []
        waiting.append(span)
    return [*pieces, Piece(tuple(waiting))] if waiting else pieces


def _spans(file: DataFile, number: int, how: Reading) -> Iterator[Span]:
    if not isinstance(file, ArrowColumns):
        records = file.path.stat().st_size // LINE_BYTES
        yield Span(file.path, number, None, 0, records, False, 0, how)
        return
    sizes = file.row_groups()
    for groups, first, last in together(sizes, RECORDS):
        some = None if len(groups) == len(sizes) else groups
        yield Span(file.path, number, some, first, last - first, True, first)


def placed(
    pieces: Sequence[Piece], client: Client | None, done: Callable[[int], None] | None = None
) -> list[Piece]:
    """Pieces that know where their records are in all files, which simulated draws go by.

    Records of files whose format does not say how many there are have to be counted, but for those
    of the last one.
    """
    spans = [span for piece in pieces for span in piece.spans]
    unknown = [span for span in spans[:-1] if not span.known]
    counted = summed(_count, unknown, _concatenated, (), client=client) if unknown else []
    exact = {id(span): n for span, n in zip(unknown, counted, strict=True)}
    made: dict[int, Span] = {}
    start = 0
    for span in spans:
        n = exact.get(id(span), span.records)
        known = span.known or id(span) in exact
        made[id(span)] = replace(span, start=start, records=n, known=known)
        start += n
    return [Piece(tuple(made[id(span)] for span in piece.spans)) for piece in pieces]


def _count(_: int, span: Span, __: Callable[[int], None]) -> list[int]:
    return [sum(len(block.table) for block in open_data(span.path, how=span.how).blocks([]))]


def _concatenated(parts: list[list[int]]) -> list[int]:
    return [n for part in parts for n in part]
