"""From a recipe's data entry to coded records: read, cut, binarise, encode."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ppdm_dask import datasets
from ppdm_dask.data.codebook import Codebook, Records
from ppdm_dask.errors import CodebookError, DataError, InputError, RecipeError
from ppdm_dask.experiments.parts import DataEntry
from ppdm_dask.files.reader import DataFile, Reading, open_data
from ppdm_dask.files.regular import require_file
from ppdm_dask.shown import located, shown

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "DataRecipe",
    "Prepared",
    "declared_codebook",
    "encode_data",
    "prepare",
    "prepare_all",
    "read_data",
]


class DataRecipe(Protocol):
    """What is needed of a recipe, of whichever kind, to read its data."""

    @property
    def data(self) -> tuple[DataEntry, ...]: ...

    @property
    def source(self) -> str: ...

    def path(self, name: str) -> Path: ...


@dataclass(frozen=True, eq=False)
class Prepared:
    """The records of a data entry, coded.

    Parameters
    ----------
    entry : DataEntry
    records : Records
        With the codebook that was fitted on the data where the entry binarises.
    sha256 : str
        Digest of the data file.
    note : str
        What was found out of how the data file is written.
    """

    entry: DataEntry
    records: Records
    sha256: str
    note: str = ""

    @property
    def codebook(self) -> Codebook:
        """The codebook of the records; it has a target."""
        return self.records.codebook

    @property
    def digests(self) -> dict[str, str]:
        """Digests of the data file and the fitted codebook, as the manifest keeps them."""
        return {"data": self.sha256, "codebook": self.codebook.digest}


def declared_codebook(recipe: DataRecipe, entry: DataEntry) -> Codebook:
    """Return the codebook that an entry names, before any fitting.

    Raises
    ------
    RecipeError
        If there is no such file, or the codebook has no target.
    CodebookError
        If the file is not a codebook.
    """
    where = (
        f"{recipe.source}: data[{recipe.data.index(entry)}].codebook: got {shown(entry.codebook)}"
    )
    path = recipe.path(entry.codebook)
    if not os.path.isfile(path):  # which no odd name troubles
        raise RecipeError(f"{where}; there is no file {located(path)}", path)
    codebook = Codebook.from_toml(path)
    if codebook.target is None:
        raise RecipeError(f"{where}; a codebook with a target, the class to learn, is needed", path)
    return codebook


def read_data(recipe: DataRecipe, entry: DataEntry, codebook: Codebook) -> tuple[pd.DataFrame, str]:
    """Read the records that an entry asks for, and the digest of their file.

    Raises
    ------
    InputError
        One line on whatever is wrong with the recipe or the data.
    """
    frame, sha256 = _read(recipe, entry, codebook)
    columns = [name for name in codebook.names if name in frame.columns]
    if entry.incomplete == "drop":
        frame = frame.dropna(subset=columns).reset_index(drop=True)
    if entry.duplicates == "drop":
        frame = frame.drop_duplicates(subset=columns, ignore_index=True)
    if entry.records is not None:
        if entry.records > len(frame):
            what = f"data[{recipe.data.index(entry)}].records: got {entry.records}"
            raise RecipeError(f"{recipe.source}: {what}; the data have {len(frame)}", entry)
        frame = frame.iloc[: entry.records]
    return frame, sha256


def prepare(recipe: DataRecipe, entry: DataEntry) -> Prepared:
    """Read, cut, binarise and encode the data of an entry.

    Raises
    ------
    InputError
        One line on whatever is wrong with the recipe, the codebook or the data.
    """
    codebook = declared_codebook(recipe, entry)
    frame, sha256 = read_data(recipe, entry, codebook)
    return encode_data(recipe, entry, codebook, frame, sha256)


def encode_data(
    recipe: DataRecipe, entry: DataEntry, codebook: Codebook, frame: pd.DataFrame, sha256: str
) -> Prepared:
    """Binarise and encode data that were read; CodebookError where they do not fit."""
    try:
        if entry.binarise is not None:
            codebook = codebook.binarise(frame, entry.binarise)
        note = "" if entry.file is None else _open(recipe, entry).note
        return Prepared(entry, codebook.encode(frame), sha256, note)
    except CodebookError as error:
        what = f"{recipe.path(entry.codebook)}: does not fit the data of {shown(entry.id)}: {error}"
        raise CodebookError(what, error.subject) from None


def prepare_all(recipe: DataRecipe) -> tuple[Prepared, ...]:
    """All entries of a recipe, in order; see :func:`prepare`."""
    return tuple(prepare(recipe, entry) for entry in recipe.data)


def _read(recipe: DataRecipe, entry: DataEntry, codebook: Codebook) -> tuple[pd.DataFrame, str]:
    """Return the data as they are, and the digest of their file."""
    if entry.set is not None:
        return datasets.load(entry.set), datasets.describe(entry.set).sha256
    path = recipe.path(str(entry.file))
    where = f"data[{recipe.data.index(entry)}].file: got {shown(entry.file)}"
    if not os.path.lexists(path):
        raise RecipeError(f"{recipe.source}: {where}; there is no file {located(path)}", path)
    require_file(path)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}", path) from None
    frame = _open(recipe, entry, content).read(codebook.names).frame
    return frame, hashlib.sha256(content).hexdigest()


def _open(recipe: DataRecipe, entry: DataEntry, content: bytes | None = None) -> DataFile:
    try:
        how = Reading(entry.delimiter, entry.encoding, entry.decimal, entry.sheet)
        return open_data(recipe.path(str(entry.file)), content, how)
    except InputError as error:
        if isinstance(error, DataError):
            raise
        what = str(error).removeprefix("--")
        place = f"{recipe.source}: data[{recipe.data.index(entry)}]"
        raise RecipeError(f"{place}.{what}", error.subject) from None
