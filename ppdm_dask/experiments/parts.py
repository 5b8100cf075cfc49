"""The tables of a recipe, each a frozen dataclass that declares its keys.

Also here: what recipes of all kinds have in common: where they come from, their digest, their
changes.
"""

from __future__ import annotations

import hashlib
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Annotated, Any, ClassVar, Generic, Protocol, Self, TypeVar

from ppdm_dask import datasets
from ppdm_dask.faces.face import Face
from ppdm_dask.files.declared import Declared, fields_of, plain
from ppdm_dask.files.fields import TomlTable
from ppdm_dask.files.reader import FORMATS, endings
from ppdm_dask.files.values import Choice, Many, Number, Plain, Scalar, Text, Whole
from ppdm_dask.frozen import settle

__all__ = [
    "VALUES",
    "About",
    "DataEntry",
    "Grid",
    "GridPoint",
    "Id",
    "RecipeBase",
    "Repeats",
    "Seed",
    "Share",
    "Some",
    "grid_points",
]


class Drawn(Protocol):
    """A table ``[[figure]]``."""

    @property
    def id(self) -> str: ...  # pragma: no cover
    @property
    def title(self) -> str: ...  # pragma: no cover


class Repeated(Protocol):
    """The table ``[sweep]``."""

    @property
    def repeats(self) -> int: ...  # pragma: no cover
    @property
    def seed(self) -> int: ...  # pragma: no cover


Id = Annotated[
    str,
    Text(
        "an id of letters, digits, '.', '_' and '-' is needed, a letter or digit first",
        "[A-Za-z0-9][A-Za-z0-9._-]*",
    ),
]
Repeats = Annotated[int, Whole(1)]
Seed = Annotated[int, Whole(0)]
Share = Annotated[
    float, Number("a share between 0 and 1, both excluded, is needed", above=0, below=1)
]
Some = Annotated[tuple[str, ...], Many(Text(), distinct=True)]
"""Texts, each once."""

Grid = Mapping[str, tuple[Scalar, ...]]
"""Values by axis, in the order of the results' dimensions."""

VALUES = Many(Plain(), "a list of at least one value is needed", 1, distinct=True)
"""Values of a parameter that is swept."""


@dataclass(frozen=True, kw_only=True, repr=False)
class RecipeBase(Face, Declared, ABC):
    """An experiment: what is computed; never where or how fast.

    Parameters
    ----------
    about, sweep, figures
        The tables that recipes of all kinds have.
    name : str
        Name of the recipe's file without its ending.
    source : str
        The file as messages call it.
    base : Path
        Folder that relative paths start from.
    """

    kind: ClassVar[str]
    keys: ClassVar[Mapping[str, str]] = {"figures": "figure"}
    apart = ("name", "source", "base")

    about: About
    sweep: Repeated
    figures: tuple[Drawn, ...] = ()
    name: str = field(default="recipe", compare=False)
    source: str = field(default="recipe", compare=False)
    base: Path = field(default=Path(), compare=False)

    def _said(self) -> str:
        figures = len(self.figures)
        return (
            f"{type(self).__name__} {self.name}, {self.sweep.repeats:,} repeats, {figures} "
            f"figure{'s' * (figures != 1)}: {self.about.title}"
        )

    @classmethod
    def from_config(
        cls, config: Mapping[str, Any], source: str = "recipe", name: str | None = None
    ) -> Self:
        """Build a recipe from plain tables, as :meth:`config` gives them.

        Raises
        ------
        RecipeError
            One line: `source`, dotted path, value, and what would be right.
        """
        recipe = cls.from_table(TomlTable(config, source))
        return replace(recipe, name=name or Path(source).stem, source=source)

    def config(self) -> dict[str, Any]:
        """Return the recipe as plain tables, defaults filled in, for :meth:`from_config`."""
        return {each.key: plain(getattr(self, each.name)) for each in fields_of(type(self))}

    def _content(self) -> dict[str, Any]:
        """What the digest is taken of: all that a number depends on."""
        return {key: value for key, value in self.config().items() if key != "about"}

    @property
    def digest(self) -> str:
        """SHA-256 of the recipe's canonical JSON without its title, references and notes."""
        text = json.dumps(self._content(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def with_changes(self, *, repeats: int | None = None, seed: int | None = None) -> Self:
        """Return the same recipe with another number of repeats or another seed.

        Raises
        ------
        RecipeError
            If `repeats` is below 1 or `seed` below 0.
        """
        config = self.config()
        changes = {"repeats": repeats, "seed": seed}
        config["sweep"] |= {key: value for key, value in changes.items() if value is not None}
        changed = self.from_config(config, self.source, self.name)
        return replace(changed, base=self.base)

    @abstractmethod
    def points(self) -> Sequence[Any]:
        """What is computed, repeat by repeat; the commands tell how many there are."""

    def placed(self, base: Path) -> Self:
        """Return the recipe of a folder, which relative paths start from."""
        return replace(self, base=base)

    @property
    def code(self) -> Path | None:
        """A file of Python that a run of it would execute; None for most recipes."""
        return None

    def path(self, name: str) -> Path:
        """Return a file that the recipe names."""
        return self.base / name


@dataclass(frozen=True)
class About(Declared):
    """Title, references and notes; no number depends on them.

    Parameters
    ----------
    title : str
    references : tuple of str
        Keys of the bibliography, or whole references.
    notes : str, optional
    """

    title: str
    references: tuple[str, ...] = ()
    notes: str | None = None


# Small or capital letters, as far as a JSON Schema can say so.
_ENDINGS = "|".join(
    re.sub("[a-z]", lambda letter: f"[{letter[0]}{letter[0].upper()}]", re.escape(each))
    for form in FORMATS
    for each in form.endings
)
DATA_FILE = Text(f"a file that ends in {endings()} is needed", rf".*(?:{_ENDINGS})")
KEEP_OR_DROP = Choice(("keep", "drop"), "a way")


@dataclass(frozen=True)
class DataEntry(Declared):
    """One variant of the data: a set, its codebook, and how it is prepared.

    Parameters
    ----------
    id : str
        Name on the results' axis ``data``.
    codebook : str
        Path of the codebook, relative to the recipe.
    set, file : str, optional
        Either a bundled set or a file of data relative to the recipe.
    binarise : {"midrange", "median"}, optional
        Rule that makes every attribute binary, fitted on the data.
    records : int, optional
        Use only the first records, this many, 2 or more.
    incomplete : {"keep", "drop"}
        What to do with records that have a missing value.
    duplicates : {"keep", "drop"}, optional
        "drop" leaves out records that are equal, over all attributes of the codebook, to an earlier
        one.
    delimiter, encoding, decimal, sheet : str, optional
        The format of the file, if it cannot be detected; see
        :class:`ppdm_dask.files.datafile.Reading`.
    """

    either = ("set", "file")

    id: Id
    codebook: Annotated[str, Text("a path relative to the recipe is needed")]
    set: Annotated[str, Choice(datasets.names, "a bundled data set")] | None = None
    file: Annotated[str, DATA_FILE] | None = None
    binarise: Annotated[str, Choice(("midrange", "median"), "a rule")] | None = None
    records: Annotated[int, Whole(2)] | None = None
    incomplete: Annotated[str, KEEP_OR_DROP] = "keep"
    duplicates: Annotated[str, KEEP_OR_DROP] | None = None
    delimiter: Annotated[str, Text()] | None = None
    encoding: Annotated[str, Text()] | None = None
    decimal: Annotated[str, Choice((".", ","), "a decimal mark")] | None = None
    sheet: Annotated[str, Text()] | None = None

    def __post_init__(self) -> None:
        # Only what changes the records, so that writing out the default changes no key.
        settle(self, duplicates=None if self.duplicates == "keep" else self.duplicates)


Entry = TypeVar("Entry", bound=DataEntry | None)


@dataclass(frozen=True)
class GridPoint(Generic[Entry]):
    """A data entry, if there are any, with one value of each grid axis.

    Parameters
    ----------
    index : tuple of int
        Position along the axes ``data`` and the grid's, in order.
    entry : DataEntry or None
    values : mapping of str to scalar
        The grid's parameters at this point.
    """

    index: tuple[int, ...]
    entry: Entry
    values: Mapping[str, Scalar]

    @property
    def id(self) -> str:
        """Readable name, unique within the recipe, such as ``adult-midrange q=0.4``."""
        data = [] if self.entry is None else [self.entry.id]
        return " ".join([*data, *(f"{axis}={value}" for axis, value in self.values.items())])


def grid_points(entries: Sequence[Entry], grid: Grid) -> tuple[GridPoint[Entry], ...]:
    """All points of a grid on some data entries, the last axis running fastest."""
    ranges = [range(len(entries)), *(range(len(values)) for values in grid.values())]
    points = []
    for index in product(*ranges):
        values = {axis: grid[axis][i] for axis, i in zip(grid, index[1:], strict=True)}
        points.append(GridPoint(index, entries[index[0]], values))
    return tuple(points)
