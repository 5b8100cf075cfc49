"""Columns that hold several answers each, ``"a;c"``, as a column of yes and no for each answer."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from ppdm_dask.errors import DataError
from ppdm_dask.files.column import Column, Texts
from ppdm_dask.files.datafile import AS_FOUND, Block, DataFile, Levels, Reading
from ppdm_dask.files.table import Table
from ppdm_dask.shown import shown

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["NO", "YES", "split"]

NO, YES = "no", "yes"

MOST_ANSWERS = 200
"""Different answers of a column, above which it is none of several answers."""


def split(file: DataFile, how: Reading) -> DataFile:
    """The file with a column ``"column: answer"`` for each answer of the columns to split.

    Answers are those that occur, which takes a reading of these columns, and those that a codebook
    declares.

    Raises
    ------
    DataError
        If a column is absent or holds too many answers, or a name is that of another column.
    """
    import pyarrow as pa

    columns = tuple(dict.fromkeys(how.split))
    file.require(columns, "--split: column")
    found: dict[str, dict[str, None]] = {
        name: {
            each.removeprefix(f"{name}: "): None
            for each in how.known
            if each.startswith(f"{name}: ")
        }
        for name in columns
    }
    for block in file.blocks(columns):
        for name in columns:
            there = {
                piece for text in block.table[name].coded()[1] for piece in _cut(text, how.sign)
            }
            found[name] |= dict.fromkeys(sorted(there))
            if len(found[name]) > MOST_ANSWERS:
                raise DataError(
                    f"{file.path}: --split: column {shown(name)} has more than {MOST_ANSWERS} "
                    f"different answers between {shown(how.sign)}; --split-at names another sign",
                    name,
                )
    parts = {f"{name}: {answer}": (name, answer) for name in columns for answer in found[name]}
    names: list[str] = []
    for name in file.columns:
        names += [f"{name}: {answer}" for answer in found[name]] if name in found else [name]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise DataError(f"{file.path}: --split: column {shown(twice)} already exists", twice)
    types = {n: kind for n, kind in file.types.items() if n not in found}
    types |= dict.fromkeys(parts, pa.string())
    return _SplitFile(
        file.path,
        tuple(names),
        types,
        file.content,
        file.metadata,
        file.note,
        inner=file,
        parts=parts,
        sign=how.sign,
    )


def _cut(text: str, sign: str) -> list[str]:
    return [piece for each in text.split(sign) if (piece := each.strip())]


@dataclass(frozen=True)
class _SplitFile(DataFile):
    """A file of any format, some columns of which are split."""

    endings: ClassVar[tuple[str, ...]] = ()

    inner: DataFile = field(kw_only=True)
    parts: dict[str, tuple[str, str]] = field(kw_only=True)
    sign: str = field(kw_only=True)

    @property
    def format(self) -> str:  # type: ignore[override]
        return self.inner.format

    @classmethod
    def open(cls, path: Path, content: bytes | None = None, how: Reading = AS_FOUND) -> Self:
        raise NotImplementedError  # made of an open file, by `split`

    def refusal(self, name: str) -> str:
        return self.inner.refusal(self.parts[name][0] if name in self.parts else name)

    def levels(self, name: str) -> Levels | None:
        return Levels((NO, YES), True) if name in self.parts else self.inner.levels(name)

    def _blocks(self, columns: list[str], size: int, kept: Collection[str]) -> Iterator[Block]:
        read = list(dict.fromkeys(self.parts[n][0] if n in self.parts else n for n in columns))
        there = [name for name in kept if name not in self.parts]
        for block in self.inner.blocks(read, size, kept=there):
            yield replace(block, table=self._split(block.table, columns, kept))

    def _split(self, table: Table, columns: list[str], kept: Collection[str]) -> Table:
        made: list[Column] = []
        for name in columns:
            if name not in self.parts:
                made.append(table[name])
                continue
            column, answer = self.parts[name]
            positions, texts = table[column].coded()
            held = [answer in _cut(text, self.sign) for text in texts]
            codes = np.array([*held, -1], np.int8)[positions]
            made.append(Texts(codes, [NO, YES], categories=name not in kept))
        return Table(columns, made, len(table))
