"""The client side of a survey: a data file goes in, a file of reports comes out."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ppdm_dask.codebook import Codebook
from ppdm_dask.errors import CodebookError, DataError, InputError, RecordsError
from ppdm_dask.privacy import attribute_channel
from ppdm_dask.survey.about import About
from ppdm_dask.survey.data import BLOCK, DataFile, open_data
from ppdm_dask.survey.reports import is_made, writing

if TYPE_CHECKING:
    from ppdm_dask.designs import Design
    from ppdm_dask.randomness import Stream

__all__ = ["Disguised", "bare_attributes", "disguise_file"]


@dataclass(frozen=True)
class Disguised:
    """What was done with a file.

    Parameters
    ----------
    records : int
    disguised, undisguised, dropped : tuple of str
        Columns of the data that are disguised, passed on as they are, and left out.
    simulated : bool
    """

    records: int
    disguised: tuple[str, ...]
    undisguised: tuple[str, ...]
    dropped: tuple[str, ...]
    simulated: bool


def bare_attributes(design: Design) -> tuple[str, ...]:
    """Attributes whose own report tells the truth for certain: the design hides nothing of them."""
    found: list[str] = []
    for block in design.blocks:
        for name, size in zip(block.attributes, block.shape, strict=True):
            if block.kind == "set" or size == 1:
                continue
            seen, prior = block.marginal([name]), np.full(size, 1 / size)
            if seen is None:  # a block with a dense matrix
                uniform = np.full(block.n_true, 1 / block.n_true)
                seen, prior = attribute_channel(block, name, uniform)
            if seen.privacy(prior) <= 1e-12:
                found.append(name)
    return tuple(found)


def disguise_file(
    data: Path,
    codebook: Codebook,
    design: Design,
    stream: Stream,
    out: Path,
    *,
    keep: Sequence[str] = (),
    drop: Sequence[str] = (),
    block: int = BLOCK,
) -> Disguised:
    """Disguise a file block by block; true answers reach no other file.

    Parameters
    ----------
    data : Path
        CSV or Parquet with a column for each attribute of the design.
    codebook : Codebook
    design : Design
    stream : Stream
        ``Stream.from_entropy()`` for a real disguise; under ``Stream.from_seed`` the reports are
        those of ``design.disguise`` on all records, whatever the block.
    out : Path
        ``.parquet`` or ``.csv``.
    keep : sequence of str
        Columns to pass on undisguised: attributes as their categories, others as they are.
    drop : sequence of str
        Columns to leave out.
    block : int
        Records held at a time.

    Raises
    ------
    InputError
        If the design does not fit the codebook, the data lack an attribute, hold a column that is
        neither disguised nor kept nor dropped, or a value that is not declared; then nothing is
        written.
    """
    design = design.bind(codebook, positions=stream.simulated)
    file = open_data(data)
    if is_made(data):
        raise DataError(
            f"{data}: holds reports already; disguising a person again adds up, and no estimate "
            "knows",
            data,
        )
    names, others = _columns(file, codebook, design, keep, drop)
    book = Codebook(codebook.select(names).attributes)
    kept = tuple(name for name in file.columns if name in keep)
    about = About("reports", book, design, stream.simulated, kept, (os.urandom(16).hex(),))
    if out.suffix not in (".csv", ".parquet"):
        raise InputError(f"{out}: a name that ends in .parquet or .csv is needed", out)
    total = 0
    with writing(out, about, others) as append:
        for part in file.blocks([*names, *others], block):
            try:
                records = book.encode(part.frame, part.offset)
            except CodebookError as error:
                raise DataError(f"{data}: {error}{part.place(error.row)}", error.subject) from None
            append(design.disguise(records, stream), part.frame[list(others)])
            total += len(records)
        if not total:
            raise DataError(f"{data}: there are no records; at least one is needed", data)
    disguised = tuple(n for n in names if n not in about.undisguised)
    return Disguised(total, disguised, about.undisguised, tuple(drop), stream.simulated)


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
            raise InputError(f"column {name!r}: either keep it or drop it, not both", name)
        if name in design.attributes and (name in drop or name not in bare):
            word = "keep" if name in keep else "drop"
            raise InputError(
                f"column {name!r}: the design disguises it, so it cannot be told to {word}", name
            )
    for name in bare:
        if name not in keep:
            raise RecordsError(
                f"{file.path}: column {name!r}: the design reports the truth of it; name it in "
                "--keep-undisguised if that is meant",
                name,
            )
    known = {*design.attributes, *keep, *drop}
    if surplus := [name for name in file.columns if name not in known]:
        word = "column" if len(surplus) == 1 else "columns"
        raise DataError(
            f"{file.path}: {word} {', '.join(map(repr, surplus))}: the design does not disguise "
            "what is there; name it in --keep-undisguised to report the truth, or in --drop to "
            "leave it out",
            surplus,
        )
    coded = [
        name
        for name in file.columns
        if name in design.attributes or (name in keep and name in codebook.names)
    ]
    others = [name for name in file.columns if name in keep and name not in coded]
    return coded, {name: file.types.get(name, pa.string()) for name in others}
