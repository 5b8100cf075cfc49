"""What recipes of all kinds have in common: where they come from, their digest, their changes."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol, Self, TypeVar

from ppdm_dask.experiments.fields import Table

__all__ = ["RecipeBase", "read_each"]


class _Named(Protocol):
    @property
    def id(self) -> str: ...  # pragma: no cover


Entry = TypeVar("Entry", bound=_Named)


@dataclass(frozen=True)
class RecipeBase(ABC):
    """An experiment: what is computed; never where or how fast.

    Parameters
    ----------
    name : str
        Name of the recipe's file without its ending.
    source : str
        The file as messages call it.
    base : Path
        Folder that relative paths start from.
    """

    kind: ClassVar[Literal["sweep", "perturbation", "front"]]

    name: str = field(default="recipe", compare=False, kw_only=True)
    source: str = field(default="recipe", compare=False, kw_only=True)
    base: Path = field(default=Path(), compare=False, kw_only=True)

    @classmethod
    @abstractmethod
    def from_config(
        cls, config: Mapping[str, Any], source: str = "recipe", name: str | None = None
    ) -> Self:
        """Build a recipe from plain tables, as :meth:`config` gives them.

        Raises
        ------
        RecipeError
            One line: `source`, dotted path, value, and what would be right.
        """

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
