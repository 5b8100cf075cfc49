"""Read a configuration table key by key; every complaint names file, dotted path and value."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeGuard

from ppdm_dask.errors import InputError, RecipeError
from ppdm_dask.files import toml as files
from ppdm_dask.shown import cut, printable

__all__ = ["Table", "check_shares", "is_number", "read_toml", "scalar", "show"]


Scalar = str | bool | int | float

_LARGEST = 2**53


def show(value: object) -> str:
    """Return a value as one short line, the way a recipe would write it."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        text = " ".join(str(value).split())
    return cut(printable(text))


def scalar(value: object) -> Scalar | None:
    """Return the one form of a text, truth value or finite number, else None.

    An integral float becomes an integer: ``1`` and ``1.0`` say the same, so they must hash alike
    (a cell's key is a hash of its parameters).
    """
    if isinstance(value, float):
        if not math.isfinite(value) or abs(value) > _LARGEST:
            return None
        return int(value) if value.is_integer() else value
    return value if isinstance(value, str | bool | int) else None


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether a value is an integer or a float; a truth value is none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(show(name) for name in names)


class Table:
    """A table of a configuration that is being read; each key is taken once.

    Parameters
    ----------
    values : mapping
        The table's keys and values.
    source : str
        The file, for messages.
    path : str
        Dotted path of the table in the file; empty for the whole.
    """

    def __init__(self, values: Mapping[str, Any], source: str, path: str = "") -> None:
        self.source = source
        self.path = path
        self._rest = dict(values)
        self._asked: list[str] = []

    def dotted(self, key: str) -> str:
        """Dotted path of a key."""
        key = printable(cut(key))
        return f"{self.path}.{key}" if self.path else key

    def error(self, key: str, value: object, right: str) -> RecipeError:
        """Return the exception for a value: what is there, and what would be right."""
        if value is None and (guess := get_close_matches(key, self._rest, n=1)):
            # A key that is missing because it was misspelt.
            return self._unknown(guess[0], key)
        got = "nothing" if value is None else show(value)
        return RecipeError(f"{self.source}: {self.dotted(key)}: got {got}; {right}", value)

    def take(self, key: str) -> Any:
        """Return the raw value of a key, None where it is absent."""
        self._asked.append(key)
        return self._rest.pop(key, None)

    def text(self, key: str, right: str = "a text is needed") -> str:
        """Return a text that is not empty."""
        value = self.optional_text(key, right)
        if value is None:
            raise self.error(key, None, right)
        return value

    def optional_text(self, key: str, right: str = "a text is needed") -> str | None:
        """Return a text that is not empty, or None where the key is absent."""
        value = self.take(key)
        if value is not None and (not isinstance(value, str) or not value.strip()):
            raise self.error(key, value, right)
        return value

    def choice(self, key: str, known: Collection[str], what: str) -> str:
        """One of the known words."""
        value = self.optional_choice(key, known, what)
        if value is None:
            raise self.error(key, None, f"{what} is needed: {_listed(known)}")
        return value

    def optional_choice(self, key: str, known: Collection[str], what: str) -> str | None:
        """One of the known words, or None where the key is absent."""
        value = self.take(key)
        if value is not None and (not isinstance(value, str) or value not in known):
            guess = get_close_matches(value, known, n=1) if isinstance(value, str) else []
            hint = f"did you mean {show(guess[0])}? " if guess else ""
            raise self.error(key, value, f"{hint}{what} is needed: {_listed(known)}")
        return value

    def integer(self, key: str, minimum: int) -> int:
        """Return a whole number of at least `minimum`."""
        value = self.optional_integer(key, minimum)
        if value is None:
            raise self.error(key, None, f"a whole number of {minimum} or more is needed")
        return value

    def optional_integer(self, key: str, minimum: int) -> int | None:
        """Return a whole number of at least `minimum`, or None where the key is absent."""
        value = self.take(key)
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool) or value < minimum:
            raise self.error(key, value, f"a whole number of {minimum} or more is needed")
        return value

    def optional_number(self, key: str, right: str, holds: Callable[[float], bool]) -> float | None:
        """Return a finite number for which `holds` is true, or None where the key is absent."""
        value = self.take(key)
        if value is None:
            return None
        if is_number(value) and abs(value) <= sys.float_info.max and holds(float(value)):
            return float(value)
        raise self.error(key, value, right)

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a list of texts; empty where the key is absent."""
        value = self.take(key)
        if value is None:
            return ()
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self.error(key, value, "a list of texts is needed")
        return tuple(value)

    def scalars(self, key: str, right: str) -> tuple[Scalar, ...]:
        """Return a list, not empty, of distinct texts, truth values or finite numbers."""
        values = self.take(key)
        if not isinstance(values, list) or not values:
            raise self.error(key, values, right)
        found: list[Scalar] = []
        for i, value in enumerate(values):
            item = scalar(value)
            if item is None:
                raise self.error(f"{key}[{i}]", value, "a text or a finite number is needed")
            if item in found:
                raise self.error(f"{key}[{i}]", value, "the values of a list must differ")
            found.append(item)
        return tuple(found)

    def table(self, key: str, right: str) -> Table:
        """Return a table below this one."""
        table = self.optional_table(key, right)
        if table is None:
            raise self.error(key, None, right)
        return table

    def optional_table(self, key: str, right: str) -> Table | None:
        """Return a table below this one, or None where the key is absent."""
        value = self.take(key)
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise self.error(key, value, right)
        return Table(value, self.source, self.dotted(key))

    def tables(self, key: str, right: str) -> Iterator[Table]:
        """Return the tables of a list of tables (``[[key]]``); none where the key is absent."""
        value = self.take(key)
        if value is None:
            return
        if not isinstance(value, list) or not all(isinstance(item, Mapping) for item in value):
            raise self.error(key, value, right)
        for i, item in enumerate(value):
            yield Table(item, self.source, self.dotted(f"{key}[{i}]"))

    def rest(self) -> dict[str, Any]:
        """Whatever was not taken: the parameters of a design or a learner, in canonical form."""
        found = {key: self._canonical(key, value) for key, value in self._rest.items()}
        self._rest.clear()
        return found

    def _canonical(self, key: str, value: object) -> Any:
        if isinstance(value, Mapping):
            return {k: self._canonical(f"{key}.{k}", v) for k, v in value.items()}
        if isinstance(value, list | tuple):
            return [self._canonical(f"{key}[{i}]", v) for i, v in enumerate(value)]
        item = scalar(value)
        if item is None:
            raise self.error(key, value, "a text, a finite number or a list of them is needed")
        return item

    def remaining(self) -> tuple[str, ...]:
        """Keys that were not taken yet."""
        return tuple(self._rest)

    def done(self) -> None:
        """Complain about the first key that nobody asked for."""
        for key in self._rest:
            guess = get_close_matches(key, self._asked, n=1)
            raise self._unknown(key, guess[0] if guess else None)

    def _unknown(self, key: str, meant: str | None) -> RecipeError:
        hint = f"did you mean {show(meant)}?" if meant else f"known: {_listed(self._asked)}"
        value = self._rest[key]
        what = f"got {show(value)}; there is no such key, {hint}"
        return RecipeError(f"{self.source}: {self.dotted(key)}: {what}", value)


def check_shares(where: str, shares: Mapping[str, Any]) -> None:
    """Raise InputError, with the category, unless all values are proportions or counts."""
    for category, share in shares.items():
        if not is_number(share) or not share >= 0:
            at = f"{where}.{cut(printable(str(category)))}"
            raise InputError(f"{at}: got {show(share)}; a proportion is needed", share)


def read_toml(path: Path) -> dict[str, Any]:
    """Return the tables of a TOML file; RecipeError with the line where it is none."""
    return files.read_toml(path, RecipeError)
