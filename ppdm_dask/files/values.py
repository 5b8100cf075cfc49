"""What a value of a configuration may be: read, complained of and put into a JSON Schema alike.

A document declares its keys as fields or parameters, each annotated with one of these; see
:mod:`ppdm_dask.files.fields`.
"""

from __future__ import annotations

import json
import math
import numbers
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any, TypeGuard

from ppdm_dask.errors import InputError, RecipeError
from ppdm_dask.shown import cut, printable

__all__ = [
    "Choice",
    "Either",
    "Many",
    "Named",
    "Number",
    "Place",
    "Plain",
    "Scalar",
    "Text",
    "Value",
    "When",
    "Whole",
    "is_number",
    "listed",
    "scalar",
    "show",
]

Scalar = str | bool | int | float

Schema = dict[str, Any]

_LARGEST = 2**53


def show(value: object) -> str:
    """Return a value as one short line, the way a recipe would write it."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        text = " ".join(str(value).split())
    return cut(printable(text))


def listed(names: Iterable[str]) -> str:
    """Names as a recipe would write them."""
    return ", ".join(show(name) for name in names)


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
    """Whether a value is a number that a float can hold; a truth value is none."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number that no float can hold
        return False


@dataclass(frozen=True)
class Place:
    """Where a value stands, for messages.

    Parameters
    ----------
    path : str
        Dotted path in the file, or name of a parameter.
    source : str
        The file; empty for an argument of a call.
    error : type
        Of the exception for a wrong value.
    show : callable
        Writes a value in a line.
    """

    path: str
    source: str = ""
    error: type[InputError] = RecipeError
    show: Callable[[object], str] = show

    def __getitem__(self, inner: int | str) -> Place:
        """Return the place of an entry of a list, or of a key of a table."""
        if isinstance(inner, int):
            return replace(self, path=f"{self.path}[{inner}]")
        key = printable(cut(inner))
        return replace(self, path=f"{self.path}.{key}" if self.path else key)

    def wrong(self, value: object, right: str) -> InputError:
        """Return the exception for a value: what is there, and what would be right."""
        got = "nothing" if value is None else self.show(value)
        return self.told(f"got {got}; {right}", value)

    def told(self, what: str, subject: object = None) -> InputError:
        """Return the exception that says something of what stands here."""
        where = [part for part in (self.source, self.path) if part]
        return self.error(": ".join([*where, what]), subject)


class Value(ABC):
    """What a value may be."""

    right: str
    """What is needed."""

    def needed(self, path: str) -> str:
        """What is needed at a dotted path."""
        return self.right

    @abstractmethod
    def read(self, value: Any, at: Place) -> Any:
        """Return the value in its one form.

        Raises
        ------
        InputError
            One line: place, value, and what would be right.
        """

    @abstractmethod
    def schema(self) -> Schema:
        """JSON Schema of it."""


@dataclass(frozen=True)
class Text(Value):
    """A text that is not blank, or matches a pattern as a whole."""

    right: str = "a text is needed"
    pattern: str = ""

    def read(self, value: Any, at: Place) -> str:
        if not isinstance(value, str):
            raise at.wrong(value, self.right)
        if not (re.fullmatch(self.pattern, value) if self.pattern else value.strip()):
            raise at.wrong(value, self.right)
        return value

    def schema(self) -> Schema:
        return {"type": "string", "pattern": f"^(?:{self.pattern})$" if self.pattern else r"\S"}


@dataclass(frozen=True)
class Choice(Value):
    """One of some words; a callable gives them where they are not known before."""

    known: Collection[str] | Callable[[], Collection[str]]
    what: str

    @property
    def words(self) -> Collection[str]:
        """The words."""
        return self.known() if callable(self.known) else self.known

    def needed(self, path: str) -> str:
        return f"{self.what} is needed: {listed(self.words)}"

    def read(self, value: Any, at: Place) -> str:
        words = self.words
        if isinstance(value, str) and value in words:
            return value
        guess = get_close_matches(value, words, n=1) if isinstance(value, str) else []
        hint = f"did you mean {show(guess[0])}? " if guess else ""
        raise at.wrong(value, hint + self.needed(at.path))

    def schema(self) -> Schema:
        return {"enum": list(self.words)}


@dataclass(frozen=True)
class Whole(Value):
    """A whole number, no less than one and, where that is given, no more than another."""

    least: int
    most: int | None = None

    def needed(self, path: str) -> str:
        span = f"of {self.least} or more" if self.most is None else f"from {self.least} to "
        return f"a whole number {span}{'' if self.most is None else f'{self.most:,}'} is needed"

    def read(self, value: Any, at: Place) -> int:
        whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
        if not whole or value < self.least or (self.most is not None and value > self.most):
            raise at.wrong(value, self.needed(at.path))
        return int(value)

    def schema(self) -> Schema:
        ends = {} if self.most is None else {"maximum": self.most}
        return {"type": "integer", "minimum": self.least, **ends}


@dataclass(frozen=True)
class Number(Value):
    """A finite number in a range.

    Parameters
    ----------
    right : str
    least, most : float, optional
        Ends that belong to the range.
    above, below : float, optional
        Ends that do not.
    canonical : bool
        Whether a whole number stays one; a float by default.
    """

    right: str
    least: float | None = None
    most: float | None = None
    above: float | None = None
    below: float | None = None
    canonical: bool = False

    def holds(self, value: Any) -> bool:
        """Whether a number is in the range."""
        return (
            (self.least is None or value >= self.least)
            and (self.most is None or value <= self.most)
            and (self.above is None or value > self.above)
            and (self.below is None or value < self.below)
        )

    def read(self, value: Any, at: Place) -> float:
        if not is_number(value) or not self.holds(value):
            raise at.wrong(value, self.right)
        found = scalar(value) if self.canonical else None
        return float(value) + 0.0 if not is_number(found) else found  # -0.0 is 0

    def schema(self) -> Schema:
        ends = {
            "minimum": self.least,
            "maximum": self.most,
            "exclusiveMinimum": self.above,
            "exclusiveMaximum": self.below,
        }
        return {"type": "number", **{key: end for key, end in ends.items() if end is not None}}


@dataclass(frozen=True)
class Plain(Value):
    """A text, a truth value or a finite number, in the one form of :func:`scalar`."""

    right: str = "a text or a finite number is needed"

    def read(self, value: Any, at: Place) -> Scalar:
        found = scalar(value)
        if found is None:
            raise at.wrong(value, self.right)
        return found

    def schema(self) -> Schema:
        return {"type": ["string", "boolean", "number"]}


@dataclass(frozen=True)
class Many(Value):
    """A list, as a tuple.

    Parameters
    ----------
    item : Value
    right : str
    least : int
        Entries that it has at the least.
    distinct : bool
        Whether entries must differ.
    """

    item: Value
    right: str = "a list of texts is needed"
    least: int = 0
    distinct: bool = False

    def read(self, value: Any, at: Place) -> tuple[Any, ...]:
        single = isinstance(value, str | bytes | Mapping)
        if single or not isinstance(value, Iterable) or len(values := tuple(value)) < self.least:
            raise at.wrong(value, self.right)
        try:
            found = tuple(self.item.read(each, at) for each in values)
        except InputError:  # only now is it worth saying which
            found = tuple(self.item.read(each, at[i]) for i, each in enumerate(values))
        if self.distinct and len(set(found)) < len(found):
            first = {each: i for i, each in reversed(list(enumerate(found)))}
            i = next(i for i, each in enumerate(found) if first[each] != i)
            raise at[i].wrong(values[i], "the values of a list must differ")
        return found

    def schema(self) -> Schema:
        found: Schema = {"type": "array", "items": self.item.schema()}
        if self.least:
            found["minItems"] = self.least
        return found | ({"uniqueItems": True} if self.distinct else {})


@dataclass(frozen=True)
class Named(Value):
    """A table whose keys are names that the file gives.

    Parameters
    ----------
    item : Value
        What stands at each name.
    name : Text
        What a name may be.
    right : str
    """

    item: Value
    name: Text
    right: str

    def read(self, value: Any, at: Place) -> dict[str, Any]:
        if not isinstance(value, Mapping) or not value:
            raise at.wrong(value, self.right)
        for key, each in value.items():
            if not re.fullmatch(self.name.pattern, key):
                raise at[key].wrong(each, self.name.right)
        return {key: self.item.read(each, at[key]) for key, each in value.items()}

    def schema(self) -> Schema:
        return {
            "type": "object",
            "propertyNames": {"pattern": self.name.schema()["pattern"]},
            "additionalProperties": self.item.schema(),
            "minProperties": 1,
        }


@dataclass(frozen=True)
class Either(Value):
    """What any of several values may be."""

    right: str
    forms: tuple[Value, ...]

    def read(self, value: Any, at: Place) -> Any:
        for form in self.forms:
            try:
                return form.read(value, at)
            except InputError:
                continue
        raise at.wrong(value, self.right)

    def schema(self) -> Schema:
        return {"anyOf": [form.schema() for form in self.forms]}


@dataclass(frozen=True)
class When:
    """Says that a key belongs to a table only where another has one of some values.

    Parameters
    ----------
    key : str
        The other key.
    values : tuple of str
        Its values; any that is given, where there are none.
    needed : bool
        Whether the key must be there then.
    """

    key: str
    values: tuple[str, ...] = ()
    needed: bool = True

    def holds(self, value: object) -> bool:
        """Whether the other key has one of the values."""
        return value in self.values if self.values else value is not None

    def __str__(self) -> str:
        return " or ".join(f"{self.key} = {show(value)}" for value in self.values) or self.key

    def schema(self) -> Schema:
        """JSON Schema of a table in which it holds."""
        found: Schema = {"required": [self.key]}
        if self.values:
            found["properties"] = {self.key: {"enum": list(self.values)}}
        return found
