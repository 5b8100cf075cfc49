"""A codebook proposed from a data file, for a person to edit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ppdm_dask.codebook import Codebook
from ppdm_dask.errors import DataError
from ppdm_dask.files.reader import DataFile, open_data
from ppdm_dask.shown import printable, quoted, shown
from ppdm_dask.survey.columns import Column
from ppdm_dask.survey.lookalikes import alike, oddities

__all__ = ["Column", "Proposal", "propose_codebook"]


@dataclass(frozen=True)
class Proposal:
    """A codebook for a person to edit, and what it leaves out."""

    source: str
    n: int
    columns: tuple[Column, ...]
    codebook: Codebook

    def text(self) -> str:
        """Codebook file with remarks at its head."""
        lines = [
            f"Proposed by `ppdm codebook` from the {self.n:,} records of {self.source!r}, for you",
            "to edit. It was read off true answers and goes wherever reports go: let categories",
            "and cuts be those of the questionnaire, also where nobody gave the answer. Delete",
            "these remarks before you pass it on.",
        ]
        left = [(c.name, f"{c.left_out}\n{c.remedy}") for c in self.columns if c.left_out]
        notes = [(c.name, note) for c in self.columns for note in c.notes]
        for heading, found in (("Left out:", left), ("To look at:", [*notes, *self._names()])):
            if found:
                lines += ["", heading]
            for name, what in found:
                first, *rest = what.rstrip().splitlines()
                lines += [f"  {shown(name)}: {first}", *(f"      {line}" for line in rest)]
        comment = "\n".join(f"# {printable(line)}".rstrip() for line in lines)
        return f"{comment}\n\n{self.codebook.as_toml()}"

    def _names(self) -> list[tuple[str, str]]:
        """Names of columns that look like another's or hide something, with what they do."""
        names = [column.name for column in self.columns]
        found = [(name, what) for name in names for what in oddities(name)]
        return found + [(group[0], f"looks like {quoted(group[1:])}") for group in alike(names)]


def propose_codebook(
    data: Path,
    *,
    most: int = 20,
    bins: int = 4,
    order: Literal["sorted", "appearance"] = "sorted",
) -> Proposal:
    """Propose categories and cuts from all records of a file.

    Parameters
    ----------
    data : Path
        CSV or Parquet.
    most : int
        Labels of an attribute; of more, numbers are cut and texts left out, with the reason.
    bins : int
        Bins of numbers, 2 or more.
    order : {"sorted", "appearance"}
        Of labels; numbers are sorted as numbers.

    Raises
    ------
    DataError
        If the file has no records, or nothing can be proposed for any column.
    """
    file = open_data(data)
    columns = tuple(_column(file, name) for name in file.columns)
    readable = [column for column in columns if not column.left_out]
    n = 0
    for block in file.blocks([column.name for column in readable]):
        for column in readable:
            column.add(block.frame[column.name])
        n += len(block.frame)
    if not n:
        raise DataError(f"{data}: there are no records; at least one is needed", data)
    for column in readable:
        column.propose(most, bins, order)
    attributes = tuple(c.attribute for c in columns if c.attribute is not None)
    if not attributes:
        raise DataError(f"{data}: nothing can be proposed for any column: {_why(columns)}", data)
    return Proposal(str(data), n, columns, Codebook(attributes))


def _column(file: DataFile, name: str) -> Column:
    """A column before its values are read; left out where they are not read at all."""
    if why := file.refusal(name):
        return Column(name, left_out=why, remedy="all other columns are read")
    levels, ordered = file.levels(name) or ((), False)
    return Column(name, levels, ordered)


def _why(columns: Sequence[Column], most: int = 12) -> str:
    """Why no column is proposed, with one value of the file at most: several make a record."""
    constant = [column for column in columns if column.labels and len(column.labels) == 1]
    reasons = [
        f"{shown(column.name)}: " + ("has one value" if column in constant[1:] else column.left_out)
        for column in columns[:most]
    ]
    more = f"; and {len(columns) - most} more columns" if len(columns) > most else ""
    return "; ".join(reasons) + more
