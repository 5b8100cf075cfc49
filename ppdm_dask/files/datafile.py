"""The contract of a format of data: a file whose columns are known, read a block at a time.

A format is a class below :class:`DataFile` in a module of its own, and one entry of ``FORMATS`` in
:mod:`ppdm_dask.files.reader`.
"""

from __future__ import annotations

import codecs
import io
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, ClassVar, Self

from ppdm_dask.errors import DataError, InputError
from ppdm_dask.files.columns import read_number
from ppdm_dask.frozen import settle
from ppdm_dask.shown import listed, shown

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

__all__ = ["AS_FOUND", "BLOCK", "Block", "DataFile", "Levels", "Reading", "block_size"]


BLOCK = 65_536
"""Records that are held at a time, or more where columns are few."""

RECORDS = 1 << 20
"""Records of a task, which a larger row group may exceed: it is read in blocks."""

LARGEST_BLOCK = 1 << 24

CELLS = 1 << 21
"""Values that a block may hold although it has more records: of few columns, large blocks cost less
a record."""


def block_size(size: int | None, columns: int) -> int:
    """Records of so many columns that are held at a time, where `size` says how many or is None."""
    if size is None:
        size = max(BLOCK, CELLS // max(1, columns))
    if size < 1:
        raise DataError(f"block: got {size}; 1 or more records are needed", size)
    return min(size, LARGEST_BLOCK)


@dataclass(frozen=True, eq=False)
class Block:
    """Consecutive records of a file.

    Parameters
    ----------
    frame : DataFrame
        The columns asked for.
    offset : int
        Position of the first record in the file.
    lines : sequence of int
        Line of the file on which each record begins; empty where a format has no lines.
    """

    frame: pd.DataFrame
    offset: int
    lines: Sequence[int]

    def place(self, row: int | None) -> str:
        """Where a record, counted over the whole file from 0, is in a file of lines."""
        known = row is not None and 0 <= row - self.offset < len(self.lines)
        return f" (line {self.lines[row - self.offset]} of the file)" if known else ""  # type: ignore[operator]


SIGNS = {"comma": ",", "semicolon": ";", "tab": "\t", "\\t": "\t", "bar": "|", "pipe": "|"}
"""Separators by name."""


@dataclass(frozen=True)
class Reading:
    """How to read a file, as far as is known; what is None the reader finds out and reports.

    Parameters
    ----------
    delimiter : str, optional
        Sign between fields of a text file; or ``"comma"``, ``"semicolon"``, ``"tab"``, ``"bar"``.
    encoding : str, optional
        Of a text file, or of an old file of SPSS or Stata: ``"utf-8"``, ``"cp1252"``, ...
    decimal : {".", ","}, optional
        Decimal mark of a text file.
    sheet : str, optional
        Sheet of a spreadsheet, by name.
    split : tuple of str
        Columns that hold several answers, ``"a;c"``: each answer becomes a column
        ``"column: answer"`` of yes and no; see :mod:`ppdm_dask.files.splitting`.
    sign : str
        Sign between such answers.
    known : tuple of str
        Columns that a codebook declares, answers that nobody of this file gave among them.

    Raises
    ------
    InputError
        If one of them can be none.
    """

    delimiter: str | None = None
    encoding: str | None = None
    decimal: str | None = None
    sheet: str | None = None
    split: tuple[str, ...] = ()
    sign: str = ";"
    known: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        settle(self, split=tuple(self.split))
        if self.delimiter is not None:
            sign = SIGNS.get(self.delimiter, self.delimiter)
            if len(sign) != 1 or not sign.isascii() or sign in '"\r\n\0':
                need = "one ASCII sign, or comma, semicolon, tab or bar, is needed"
                raise InputError(f"--delimiter: got {shown(self.delimiter)}; {need}", sign)
            settle(self, delimiter=sign)
        if self.decimal not in (None, ".", ","):
            raise InputError(
                f"--decimal: got {shown(self.decimal)}; . or , is needed", self.decimal
            )
        if self.encoding is not None:
            settle(self, encoding=_encoding(self.encoding))
        if not self.sign:
            raise InputError("--split-at: a sign between answers is needed", self.sign)

    def told(self) -> dict[str, str]:
        """Options that were given which belong to some formats only."""
        names = ("delimiter", "encoding", "decimal", "sheet")
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}


def _encoding(name: str) -> str:
    try:
        found = codecs.lookup(name)
        "a".encode(name)  # which codecs of other things than texts refuse
    except (LookupError, UnicodeError, ValueError):
        raise InputError(
            f"--encoding: got {shown(name)}; a name such as utf-8, cp1252 or utf-16 is needed", name
        ) from None
    return found.name


AS_FOUND = Reading()
"""No option is given."""


@dataclass(frozen=True)
class Levels:
    """What a file declares of the values of a column.

    Parameters
    ----------
    texts : tuple of str
        Labels, also of values that nobody has.
    ordered : bool
        Whether their order is declared.
    numbers : tuple of float
        The number that each label stands for, where the file has numbers.
    missing : tuple of str or float
        Values that stand for a missing one, as the column holds them.
    limits : tuple of (float, float)
        Ranges of such numbers.
    marks : frozenset of str
        Texts of missing values that are declared only where they occur.
    labels : mapping of str to str
        Labels of some values of a column that is read as its numbers, by their texts.
    """

    texts: tuple[str, ...] = ()
    ordered: bool = False
    numbers: tuple[float, ...] = ()
    missing: tuple[str | float, ...] = ()
    limits: tuple[tuple[float, float], ...] = ()
    marks: frozenset[str] = frozenset()
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class DataFile(ABC):
    """A file of records whose columns are known.

    Parameters
    ----------
    path : Path
    columns : tuple of str
        Distinct names, none of them empty.
    types : dict of str to pyarrow.DataType
        Where the format declares them; a CSV file holds texts.
    content : bytes, optional
        What the file holds, where it was read already.
    metadata : mapping of bytes to bytes
        What the file says of itself beside its columns.
    note : str
        What was found out of how the file is written, in a line; empty where nothing had to be.
    """

    format: ClassVar[str]
    """Name of the format, for messages."""

    endings: ClassVar[tuple[str, ...]]
    """How names of its files end, in small letters."""

    options: ClassVar[frozenset[str]] = frozenset()
    """What of :class:`Reading` belongs to it."""

    path: Path
    columns: tuple[str, ...]
    types: dict[str, pa.DataType] = field(default_factory=dict)
    content: bytes | None = field(default=None, repr=False)
    metadata: Mapping[bytes, bytes] = field(default_factory=dict, repr=False)
    note: str = field(default="", repr=False)

    @classmethod
    @abstractmethod
    def open(cls, path: Path, content: bytes | None = None, how: Reading = AS_FOUND) -> Self:
        """Read the names of the columns of a file that is there, or of its content.

        Raises
        ------
        DataError
            One line that names the file, if it is not of the format.
        """

    @abstractmethod
    def _blocks(self, columns: list[str], size: int, kept: Collection[str]) -> Iterator[Block]:
        """Blocks of columns that are there and readable; see :meth:`blocks`."""

    def require(self, names: Sequence[str], what: str = "column") -> None:
        """Raise DataError unless all the columns are there."""
        there = frozenset(self.columns)
        for name in names:
            if name not in there:
                # A file without a header has a record, not names, in its first line.
                known = (
                    "does the first line hold the names of the columns?"
                    if any(read_number(column) == read_number(column) for column in self.columns)
                    else f"the columns are {listed(self.columns)}"
                )
                raise DataError(f"{self.path}: {what} {shown(name)} is absent; {known}", name)

    def refusal(self, name: str) -> str:
        """Why the values of a column cannot be read; empty if they can."""
        return ""

    def blocks(
        self,
        columns: Sequence[str],
        size: int | None = None,
        *,
        kept: Collection[str] = (),
        sets: Collection[str] = (),
    ) -> Iterator[Block]:
        """Read some columns, `size` records at a time; nothing of the file's order changes.

        Parameters
        ----------
        columns : sequence of str
        size : int
            Most records of a block; by default some :data:`BLOCK`.
        kept : collection of str
            Columns of whatever type that are passed on as they are; see
            :func:`ppdm_dask.files.arrow.arrow_frame`.
        sets : collection of str
            Columns of packed bits, which are read as bytes.

        Raises
        ------
        DataError
            If a column is absent or not to be read, or the file is damaged.
        """
        most = block_size(size, len(columns))
        self._check(columns, {*kept, *sets})
        return self._blocks(list(columns), most, kept)

    def read(self, columns: Sequence[str], *, kept: Collection[str] = ()) -> Block:
        """All records of some columns as one block; see :meth:`blocks`."""
        import pandas as pd

        frames: list[pd.DataFrame] = []
        lines: list[int] = []
        for block in self.blocks(columns, kept=kept):
            frames.append(block.frame)
            lines += block.lines
        empty = pd.DataFrame({name: pd.Series(dtype=object) for name in columns})
        frame = pd.concat(frames, ignore_index=True) if frames else empty
        return Block(frame, 0, lines)

    def row_groups(self) -> list[int]:
        """Records of each group that can be read by itself.

        Raises
        ------
        DataError
            If the format has no such groups.
        """
        raise self._groupless()

    def read_groups(
        self, groups: Sequence[int], columns: Sequence[str], *, kept: Collection[str] = ()
    ) -> pd.DataFrame:
        """Records of some row groups: `columns` and those kept as they are, in the file's order.

        Raises
        ------
        DataError
            If the format has no such groups, or as :meth:`blocks`.
        """
        raise self._groupless()

    def blocks_of(
        self,
        groups: Sequence[int],
        columns: Sequence[str],
        size: int | None = None,
        *,
        kept: Collection[str] = (),
    ) -> Iterator[Block]:
        """The same in blocks, as :meth:`blocks`; offsets count from the first of the groups.

        Raises
        ------
        DataError
            As :meth:`read_groups`.
        """
        raise self._groupless()

    def levels(self, name: str) -> Levels | None:
        """What the file declares of a column's values; None if nothing."""
        return None

    def _groupless(self) -> DataError:
        return DataError(
            f"{self.path}: a {self.format} file cannot be read from its middle; write it as "
            "Parquet",
            self.path,
        )

    def _check(self, columns: Sequence[str], as_they_are: Collection[str]) -> None:
        """Refuse columns that are absent, or of a type whose values are not read."""
        self.require(columns)
        for name in columns:
            if name not in as_they_are and (why := self.refusal(name)):
                raise DataError(f"{self.path}: column {shown(name)} {why}", name)


@contextmanager
def needed_extra(path: Path, form: str) -> Iterator[None]:
    """Context of an import that only an extra of the package brings; without it, one line."""
    try:
        yield
    except ImportError:
        raise DataError(
            f'{path}: reading {form} files needs pip install "ppdm-dask[formats]"', path
        ) from None


def open_bytes(path: Path, content: bytes | None) -> BinaryIO:
    """A file opened to be read, or its content; DataError where it cannot be."""
    if content is not None:
        return io.BytesIO(content)
    try:
        return path.open("rb")
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}", path) from None
