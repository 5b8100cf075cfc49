"""Read a configuration table key by key; every complaint names file, dotted path and value.

Documents whose keys are known beforehand declare them: see :mod:`ppdm_dask.files.declared`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from ppdm_dask.errors import InputError, RecipeError
from ppdm_dask.files import documents as files
from ppdm_dask.files.values import (
    Choice,
    Many,
    Place,
    Plain,
    Scalar,
    Text,
    Value,
    is_number,
    listed,
    scalar,
    show,
)
from ppdm_dask.shown import cut, printable

__all__ = [
    "Scalar",
    "TomlTable",
    "canonical",
    "check_shares",
    "is_number",
    "read_toml",
    "scalar",
    "show",
]


class TomlTable:
    """A table of a configuration while it is read; each key is read once.

    Parameters
    ----------
    values : mapping
        The table's keys and values.
    source : str
        The file, for messages.
    path : str
        Dotted path of the table in the file; empty for the whole.
    error : type
        Of the exceptions.
    """

    def __init__(
        self,
        values: Mapping[str, Any],
        source: str,
        path: str = "",
        error: type[InputError] = RecipeError,
    ) -> None:
        self.source = source
        self.path = path
        self.place = Place(path, source, error)
        self._rest = dict(values)
        self._asked: list[str] = []

    def dotted(self, key: str) -> str:
        """Dotted path of a key."""
        return self.place[key].path

    def error(self, key: str, value: object, right: str) -> InputError:
        """Return the exception for a value: what is there, and what would be right."""
        if value is None and (guess := get_close_matches(key, self._rest, n=1)):
            # A key that is missing because it was misspelt.
            return self.unknown(guess[0], f", did you mean {show(key)}?")
        return self.place[key].wrong(value, right)

    def unknown(self, key: str, more: str) -> InputError:
        """Return the exception for a key that does not belong here."""
        return self.place[key].wrong(self._rest[key], f"there is no such key{more}")

    def take(self, key: str) -> Any:
        """Return the raw value of a key, None where it is absent."""
        self._asked.append(key)
        return self._rest.pop(key, None)

    def maybe(self, key: str, value: Value) -> Any:
        """Return the value of a key, or None if it is absent."""
        found = self.take(key)
        return None if found is None else value.read(found, self.place[key])

    def get(self, key: str, value: Value) -> Any:
        """Return what stands at a key, which is needed."""
        found = self.maybe(key, value)
        if found is None:
            raise self.error(key, None, value.needed(self.dotted(key)))
        return found

    def text(self, key: str, right: str = "a text is needed") -> str:
        """Return a text that is not blank."""
        return str(self.get(key, Text(right)))

    def optional_text(self, key: str, right: str = "a text is needed") -> str | None:
        """Return a text that is not blank, or None where the key is absent."""
        found: str | None = self.maybe(key, Text(right))
        return found

    def choice(self, key: str, known: Collection[str], what: str) -> str:
        """One of the known words."""
        return str(self.get(key, Choice(known, what)))

    def optional_choice(self, key: str, known: Collection[str], what: str) -> str | None:
        """One of the known words, or None where the key is absent."""
        found: str | None = self.maybe(key, Choice(known, what))
        return found

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a list of texts; empty where the key is absent."""
        return self.maybe(key, Many(Text())) or ()

    def scalars(self, key: str, right: str) -> tuple[Scalar, ...]:
        """Return a list, not empty, of distinct texts, truth values or finite numbers."""
        found: tuple[Scalar, ...] = self.get(key, Many(Plain(), right, 1, distinct=True))
        return found

    def table(self, key: str, right: str) -> TomlTable:
        """Return a table below this one."""
        value = self.take(key)
        if not isinstance(value, Mapping):
            raise self.error(key, value, right)
        return TomlTable(value, self.source, self.dotted(key), self.place.error)

    def tables(self, key: str, right: str) -> Iterator[TomlTable]:
        """Return the tables of a list of tables (``[[key]]``); none where the key is absent."""
        value = self.take(key)
        if value is None:
            return
        if not isinstance(value, list) or not all(isinstance(item, Mapping) for item in value):
            raise self.error(key, value, right)
        for i, item in enumerate(value):
            yield TomlTable(item, self.source, self.dotted(f"{key}[{i}]"), self.place.error)

    def rest(self) -> dict[str, Any]:
        """All keys that were not read: parameters of a design or a learner, in canonical form."""
        found = {key: canonical(value, self.place[key]) for key, value in self._rest.items()}
        self._rest.clear()
        return found

    def remaining(self) -> tuple[str, ...]:
        """Keys that were not taken yet."""
        return tuple(self._rest)

    def done(self) -> None:
        """Raise an error for the first unknown key."""
        for key in self._rest:
            guess = get_close_matches(key, self._asked, n=1)
            known = f"did you mean {show(guess[0])}?" if guess else f"known: {listed(self._asked)}"
            raise self.unknown(key, f", {known}")


def canonical(value: object, at: Place) -> Any:
    """A value, its tables and lists, in the one form of :func:`scalar`."""
    if isinstance(value, Mapping):
        return {key: canonical(each, at[key]) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [canonical(each, at[i]) for i, each in enumerate(value)]
    return Plain("a text, a finite number or a list of them is needed").read(value, at)


def check_shares(where: str, shares: Mapping[str, Any]) -> None:
    """Raise InputError, with the category, unless all values are proportions or counts."""
    for category, share in shares.items():
        if not is_number(share) or not share >= 0:
            at = f"{where}.{cut(printable(str(category)))}"
            raise InputError(f"{at}: got {show(share)}; a proportion is needed", share)


def read_toml(path: Path) -> dict[str, Any]:
    """Return the tables of a TOML file; RecipeError with the line where it is none."""
    return files.read_toml(path, RecipeError)
