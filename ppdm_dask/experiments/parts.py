"""The tables of a recipe, each a frozen dataclass that reads itself.

Beside it: what recipes of all kinds have in common: where they come from, their digest, their
changes.
"""

from __future__ import annotations

import hashlib
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self, TypeVar

from ppdm_dask import datasets
from ppdm_dask.files.fields import Table
from ppdm_dask.files.reader import endings, format_of

__all__ = [
    "About",
    "DataEntry",
    "Part",
    "RecipeBase",
    "read_each",
    "read_id",
]


class _Named(Protocol):
    @property
    def id(self) -> str: ...  # pragma: no cover


class Drawn(_Named, Protocol):
    """A table ``[[figure]]``."""

    @property
    def title(self) -> str: ...  # pragma: no cover


class Repeats(Protocol):
    """The table ``[sweep]``."""

    @property
    def repeats(self) -> int: ...  # pragma: no cover
    @property
    def seed(self) -> int: ...  # pragma: no cover


Entry = TypeVar("Entry", bound=_Named)


@dataclass(frozen=True, kw_only=True)
class RecipeBase(ABC):
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

    about: About
    sweep: Repeats
    figures: tuple[Drawn, ...] = ()
    name: str = field(default="recipe", compare=False)
    source: str = field(default="recipe", compare=False)
    base: Path = field(default=Path(), compare=False)

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
        root = Table(config, source)
        about = About.read(root.table("about", "a table [about] with a title is needed"))
        own = cls._read(root)
        root.done()
        return cls(about=about, **own, name=name or Path(source).stem, source=source)

    @classmethod
    @abstractmethod
    def _read(cls, root: Table) -> dict[str, Any]:
        """Read the tables besides ``[about]``, by the fields that keep them."""

    @abstractmethod
    def config(self) -> dict[str, Any]:
        """Return the recipe as plain tables, defaults filled in, for :meth:`from_config`."""

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

    def path(self, name: str) -> Path:
        """Return a file that the recipe names."""
        return self.base / name


def read_each(
    root: Table, key: str, need: str, read: Callable[[Table], Entry], least: int = 0
) -> tuple[Entry, ...]:
    """Read a list of tables whose ids differ.

    Raises
    ------
    RecipeError
        If two have the same id, one cannot be read, or there are fewer than `least`.
    """
    found: dict[str, Entry] = {}
    for table in root.tables(key, need):
        entry = read(table)
        if entry.id in found:
            raise table.error("id", entry.id, "another entry has this id; ids must differ")
        found[entry.id] = entry
    if len(found) < least:
        raise root.error(key, None, need)
    return tuple(found.values())


BINARISE = ("midrange", "median")
INCOMPLETE = ("keep", "drop")
DUPLICATES = ("keep", "drop")

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_ID_NEEDED = "an id of letters, digits, '.', '_' and '-' is needed, a letter or digit first"


def read_id(table: Table) -> str:
    """Return the id of a table."""
    name = table.text("id", _ID_NEEDED)
    if not _ID.fullmatch(name):
        raise table.error("id", name, _ID_NEEDED)
    return name


class Part:
    """What the tables have in common: back to plain values."""

    def config(self) -> dict[str, Any]:
        """Return the table as plain values, without the keys that say nothing."""
        found = {f.name: getattr(self, f.name) for f in fields(self)}  # type: ignore[arg-type]
        return {
            key: list(value) if isinstance(value, tuple) else value
            for key, value in found.items()
            if value is not None and value != ()
        }


@dataclass(frozen=True)
class About(Part):
    """Title, references and notes; no number depends on them."""

    title: str
    references: tuple[str, ...] = ()
    notes: str | None = None

    @classmethod
    def read(cls, table: Table) -> Self:
        """Read the table ``[about]``."""
        about = cls(table.text("title"), table.texts("references"), table.optional_text("notes"))
        table.done()
        return about


@dataclass(frozen=True)
class DataEntry(Part):
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
        Use only the first so many records, 2 or more.
    incomplete : {"keep", "drop"}
        What to do with records that miss a value.
    duplicates : {"drop"}, optional
        Leave out records that are equal, over all attributes of the codebook, to an earlier one.
    """

    id: str
    codebook: str
    set: str | None = None
    file: str | None = None
    binarise: str | None = None
    records: int | None = None
    incomplete: str = "keep"
    duplicates: str | None = None

    @classmethod
    def read(cls, table: Table) -> Self:
        """Read a table ``[[data]]``."""
        name = read_id(table)
        codebook = table.text("codebook", "a path relative to the recipe is needed")
        bundled = table.optional_choice("set", datasets.names(), "a bundled data set")
        file = table.optional_text("file", "a path relative to the recipe is needed")
        if (bundled is None) == (file is None):
            right = "either a bundled `set` or a `file` is needed, and not both"
            raise table.error("file", file, right)
        if file is not None and format_of(Path(file)) is None:
            raise table.error("file", file, f"a file that ends in {endings()} is needed")
        binarise = table.optional_choice("binarise", BINARISE, "a rule")
        records = table.optional_integer("records", 2)
        incomplete = table.optional_choice("incomplete", INCOMPLETE, "a way") or "keep"
        duplicates = table.optional_choice("duplicates", DUPLICATES, "a way")
        table.done()
        # Only what changes the records, so that writing out the default changes no key.
        duplicates = None if duplicates == "keep" else duplicates
        return cls(name, codebook, bundled, file, binarise, records, incomplete, duplicates)
