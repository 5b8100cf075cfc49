"""The parameters of a design, from its constructor's signature to a configuration and back.

Readers of single values: each complaint names the parameter, the value and what is right.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from ppdm_dask.data.words import by_label
from ppdm_dask.designs.labels import written
from ppdm_dask.errors import DesignError
from ppdm_dask.faces.face import WIDEST, brief, names_of
from ppdm_dask.files.declared import Anything, fields_of, schema_of
from ppdm_dask.files.values import Choice, Many, Place, Schema, Value, Whole, is_number
from ppdm_dask.frozen import Frozen
from ppdm_dask.shown import amount, given, listed, quoted

if TYPE_CHECKING:
    from ppdm_dask.designs.labels import Categories

__all__ = [
    "BLOCKS",
    "CHANCES",
    "GROUPS",
    "LABELS",
    "LAW",
    "LAWS",
    "MATRIX",
    "NAMES",
    "PROBABILITY",
    "SHAPE",
    "STAGE",
    "WORDS",
    "Inverse",
    "Nonnegative",
    "OneName",
    "Parameters",
    "Probability",
    "Size",
    "arguments",
    "attribute_names",
    "distribution",
    "inverse_name",
    "labelled",
    "nonnegative",
    "noted_distribution",
    "numbers",
    "one_attribute",
    "probability",
    "ratio",
    "read_words",
    "rescaled",
    "same_config",
    "shape_of",
    "stated_once",
    "sums_to_one",
    "whole",
]

MOST_CATEGORIES = 1 << 20
"""Of an attribute."""

MOST_CELLS = 1 << 62
"""Joint categories of a block, whose positions have to be 64-bit integers."""


_RATIO = re.compile(r"\d{1,20} ?/ ?0*[1-9]\d{0,19}")

ROUNDING = 1e-9
"""How far a sum of probabilities may be from 1 without being touched."""

SINGLE = 1e-6
"""How far it may be, by the rounding of numbers in single precision, to be scaled to 1."""


def ratio(value: Any) -> Any:
    """A ratio as text, such as ``"3/4"``, as a Fraction; anything else as it is."""
    if isinstance(value, str) and _RATIO.fullmatch(value.strip()):
        return Fraction(value.replace(" ", ""))
    return value


def _unfold(values: Any) -> Any:
    """Nested sequences with the nearest numbers in place of ratios."""
    if isinstance(values, str | Fraction):
        found = ratio(values)
        return float(found) if isinstance(found, Fraction) else found
    if isinstance(values, Iterable) and not isinstance(values, np.ndarray | Mapping):
        return [_unfold(value) for value in values]
    if isinstance(values, bool):
        raise TypeError("a truth value is not a number")
    return values


def _holds_truth(values: Any) -> bool:
    """Whether a truth value stands in nested lists, which NumPy takes for 0 or 1."""
    if isinstance(values, list | tuple):
        return any(map(_holds_truth, values))
    return isinstance(values, bool)


def numbers(name: str, values: Any) -> npt.NDArray[np.float64]:
    """A new array of floats from nested sequences of numbers, or ratios as text."""
    try:
        found = np.array(values, dtype=float)
        if not _holds_truth(values):
            return found
    except (TypeError, ValueError, OverflowError):
        pass
    try:
        return np.array(_unfold(values), dtype=float)
    except (TypeError, ValueError, OverflowError, RecursionError):
        raise DesignError(f"{name}: got {given(values)}; numbers are needed", values) from None


class Ratio(Value):
    """A number from 0 to a largest, or a ratio as text: then the nearest float.

    Parameters
    ----------
    right : str
    most : float
    """

    def __init__(self, right: str, most: float) -> None:
        self.right, self.most = right, most

    def read(self, value: Any, at: Place) -> float:
        number = ratio(value)
        if not is_number(number) or not 0 <= number <= self.most:
            raise at.wrong(number, self.right)
        return float(number)

    def schema(self) -> Schema:
        number: Schema = {"type": "number", "minimum": 0}
        if math.isfinite(self.most):
            number["maximum"] = self.most
        return {"anyOf": [number, {"type": "string", "pattern": f"^ *{_RATIO.pattern} *$"}]}


PROBABILITY = Ratio("a probability in [0, 1] is needed", 1)
NONNEGATIVE = Ratio("a number of 0 or more is needed", math.inf)

Probability = Annotated[float, PROBABILITY]
Nonnegative = Annotated[float, NONNEGATIVE]
Size = Annotated[int, Whole(2, MOST_CATEGORIES)]
"""Number of categories."""

INVERSE = Choice(("weighted", "textbook"), "the name of a left inverse")
Inverse = Annotated[str, INVERSE]

_TEXT: Schema = {"type": "string", "minLength": 1}
_TEXTS: Schema = {"type": "array", "items": _TEXT, "minItems": 1}
_LAW: Schema = {"type": "array", "items": PROBABILITY.schema(), "minItems": 1}
_LABELLED: Schema = {
    "type": "object",
    "additionalProperties": PROBABILITY.schema(),
    "minProperties": 1,
}

OneName = Annotated[str, Anything({"anyOf": [_TEXT, {**_TEXTS, "maxItems": 1}]})]
NAMES = Anything({"anyOf": [_TEXT, {**_TEXTS, "uniqueItems": True}]})
SHAPE = Many(Whole(1, MOST_CATEGORIES))
LABELS = Anything(
    {"type": "array", "items": {"anyOf": [{"type": "string"}, {**_TEXTS, "minItems": 0}]}}
)
LAW = Anything({"anyOf": [_LAW, _LABELLED]})
MATRIX = Anything({"type": "array", "items": _LAW, "minItems": 1})
CHANCES = Anything({"anyOf": [PROBABILITY.schema(), _LAW]})
"""One probability, or one for each of several."""

LAWS = Anything(
    {
        "anyOf": [
            PROBABILITY.schema(),
            {**_LAW, "items": {"anyOf": [PROBABILITY.schema(), _LAW, _LABELLED]}},
            _LABELLED,
            {**_LABELLED, "additionalProperties": {"anyOf": [_LAW, _LABELLED]}},
        ]
    }
)
"""A law for all attributes, or of each."""

_MEANT: Schema = {"type": ["string", "integer"]}


def _words_of(*kinds: Schema) -> Schema:
    return {"type": "object", "minProperties": 1, "additionalProperties": {"anyOf": [*kinds]}}


WORDS = Anything(_words_of(_MEANT, _words_of(_MEANT, _words_of(_MEANT))))
"""What reported symbols are called in the field, and the label or number that each is; of several
attributes by their names, and there perhaps by the category of the first one."""

GROUPS = Anything({"type": "array", "items": _TEXTS, "minItems": 1})
BLOCKS = Anything({"type": "array", "items": {"$ref": "#"}, "minItems": 1})
STAGE = Anything({"$ref": "#"})


def argument(name: str) -> Place:
    """Place of an argument of a design."""
    return Place(name, error=DesignError, show=given)


def probability(name: str, value: Any) -> float:
    """A number in [0, 1], or a ratio as text: then the nearest float."""
    return PROBABILITY.read(value, argument(name))


def nonnegative(name: str, value: Any) -> float:
    """A finite number of 0 or more, or a ratio as text."""
    return NONNEGATIVE.read(value, argument(name))


def whole(name: str, value: Any, least: int, most: int = MOST_CATEGORIES) -> int:
    """A whole number, neither below the least allowed nor above the most."""
    return Whole(least, most).read(value, argument(name))


def sums_to_one(sums: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    """Which sums of probabilities are 1 but for the rounding of single precision."""
    return np.abs(sums - 1) <= SINGLE


def rescaled(
    what: str, values: npt.NDArray[np.float64]
) -> tuple[npt.NDArray[np.float64], tuple[str, ...]]:
    """Probabilities along axis 0 whose sums are near 1, scaled to it where they are too far.

    Returns
    -------
    values, notes : array, tuple of str
        The note has the largest distance, where any was taken out.
    """
    sums = values.sum(axis=0)
    off = float(np.abs(sums - 1).max())
    if off <= ROUNDING:
        return values, ()
    said = f"{what}: sums were up to {off:.2g} off 1, as in single precision, and were scaled to 1"
    return values / sums, (said,)


def distribution(name: str, values: Any, size: int | None = None) -> npt.NDArray[np.float64]:
    """A probability vector, read-only; see :func:`noted_distribution`."""
    return noted_distribution(name, values, size)[0]


def noted_distribution(
    name: str, values: Any, size: int | None = None
) -> tuple[npt.NDArray[np.float64], tuple[str, ...]]:
    """A probability vector, read-only, and a note where its sum missed 1 and it was scaled."""
    vector = numbers(name, values)
    if vector.ndim != 1 or not vector.size or (size is not None and vector.size != size):
        expected = "" if size is None else f" of length {size}"
        raise DesignError(f"{name}: shape {vector.shape}; a vector{expected} is needed", values)
    if not np.isfinite(vector).all() or (vector < 0).any():
        raise DesignError(f"{name}: got {given(vector.tolist())}; probabilities are needed", values)
    if not sums_to_one(vector.sum()):
        total = float(vector.sum())
        raise DesignError(
            f"{name}: got {given(vector.tolist())}, which sum to {total:.6g}, {abs(total - 1):.2g} "
            "off; probabilities that sum to 1 are needed",
            values,
        )
    vector, notes = rescaled(name, vector)
    vector.flags.writeable = False
    return vector, notes


def labelled(values: Any) -> tuple[Any, tuple[str, ...] | None]:
    """Values and their labels, where a table of label and value is given."""
    if isinstance(values, Mapping):
        return list(values.values()), tuple(values)
    return values, None


def stated_once(name: str, labels: tuple[str, ...] | None, categories: Any) -> Any:
    """Labels from a table or from ``categories``; DesignError where both say something else."""
    if labels is None:
        return categories
    if categories is not None and tuple(categories) != labels:
        raise DesignError(
            f"categories: got {given(categories)}; {name} names {quoted(labels)}: leave it out",
            categories,
        )
    return labels


def read_words(names: Sequence[str], value: Any) -> dict[str, dict[str, Any]]:
    """What reports are called in the field, by attribute: word to label, or to number.

    After the first attribute of several a table may be by the categories of that one, with a table
    of words for each: it says by which device a person answered.

    Raises
    ------
    DesignError
        Unless it is a table of words; of several attributes, one for each that has words.
    """
    tables = value
    if len(names) == 1 and isinstance(value, Mapping):
        tables = {names[0]: value}
    if not isinstance(tables, Mapping) or not tables:
        raise DesignError(f"symbols: got {given(value)}; a table of words is needed", value)
    found: dict[str, dict[str, Any]] = {}
    for name, table in tables.items():
        if name not in names:
            raise DesignError(
                f"symbols: {given(name)} is not an attribute of the block; it has {quoted(names)}",
                name,
            )
        if name != names[0] and isinstance(table, Mapping) and table and by_label(table):
            found[name] = {label: _table_of(name, words) for label, words in table.items()}
        else:
            found[name] = _table_of(name, table)
    return found


def _table_of(name: str, table: Any) -> dict[str, str]:
    if not isinstance(table, Mapping) or not table:
        raise DesignError(
            f"symbols of {given(name)}: got {given(table)}; a table of words is needed", table
        )
    for word, meant in table.items():
        whole_number = isinstance(meant, int) and not isinstance(meant, bool)
        if not isinstance(word, str) or not word or not (isinstance(meant, str) or whole_number):
            raise DesignError(
                f"symbols of {given(name)}: got {given(word)} = {given(meant)}; the word of a "
                "report and the label or number that it is are needed",
                table,
            )
    return {word: str(meant) for word, meant in table.items()}


def attribute_names(value: Any) -> tuple[str, ...]:
    """One name or several, distinct and not empty."""
    names: tuple[str, ...] = ()
    if isinstance(value, Iterable) and not isinstance(value, Mapping):
        names = (value,) if isinstance(value, str) else tuple(value)
    if not names or "" in names or any(not isinstance(name, str) for name in names):
        raise DesignError(f"attributes: got {given(value)}; one or more names are needed", value)
    if len(set(names)) < len(names):
        raise DesignError(f"attributes: got {given(value)}; distinct names are needed", value)
    return names


def inverse_name(value: Any) -> str:
    """Which of a family's left inverses estimates use."""
    return INVERSE.read(value, argument("inverse"))


def one_attribute(value: Any) -> tuple[str]:
    """The name of exactly one attribute."""
    names = attribute_names(value)
    if len(names) != 1:
        raise DesignError(f"attribute: got {given(value)}; exactly one is needed", value)
    return (names[0],)


def shape_of(value: Any, n_attributes: int) -> tuple[int, ...]:
    """Numbers of categories, one for each attribute, each 1 or more."""
    sizes = tuple(value) if isinstance(value, Iterable) else ()
    integers = all(isinstance(k, int | np.integer) and not isinstance(k, bool) for k in sizes)
    if len(sizes) != n_attributes or not integers or min(sizes, default=1) < 1:
        raise DesignError(
            f"shape: got {given(value)}; {n_attributes} whole numbers of 1 or more are needed",
            value,
        )
    if max(sizes, default=1) > MOST_CATEGORIES or math.prod(map(int, sizes)) > MOST_CELLS:
        raise DesignError(
            f"shape: got {given(value)}; at most {MOST_CATEGORIES:,} categories and 2^62 "
            "combinations of them are possible",
            value,
        )
    return tuple(int(k) for k in sizes)


def arguments(cls: type, family: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of a constructor from a table: those without a default are needed.

    Raises
    ------
    DesignError
        For a parameter that is unknown or missing, as one of the family.
    """
    known = {field.key: field for field in fields_of(cls)}
    needed = {key for key, field in known.items() if field.needed}
    for key in parameters:
        if key not in known:
            have = ", ".join(sorted(known))
            raise DesignError(
                f"{listed([key])}: not a parameter of {family!r}; it has: {have}", key
            )
    for key in sorted(needed - set(parameters)):
        raise DesignError(f"{key}: missing; {family!r} needs it", key)
    return {known[key].name: value for key, value in parameters.items()}


class Parameters(Frozen):
    """Configuration and ``repr`` of a design by the signature of its constructor.

    Each parameter is read from the attribute of its name; ``attribute``, ``n`` and ``categories``
    follow from what every design has.  None, which says nothing, is left out, and so is the
    weighted inverse, which goes without saying.
    """

    id: ClassVar[str]
    attributes: tuple[str, ...]
    shape: tuple[int, ...]

    left_out: ClassVar[tuple[str, ...]] = ()
    """Parameters that say others in another way, or only check them: no configuration has them."""

    keys: ClassVar[Mapping[str, str]] = {}
    """Keys of parameters that a configuration calls otherwise."""

    either: ClassVar[tuple[str, ...]] = ()
    """Keys of which exactly one is needed."""

    if TYPE_CHECKING:
        # What the contract has beside these methods.
        @property
        def categories(self) -> Categories: ...

        @property
        def digest(self) -> str: ...

    _symbols: Mapping[str, Mapping[str, Any]] = MappingProxyType({})

    @property
    def symbols(self) -> Mapping[str, Mapping[str, Any]]:
        """What reports are called where people randomise themselves, by attribute.

        ``{"used": {"same": "yes", "different": "no"}}``: who says *same* reports *yes*.  Words are
        no part of the law: neither reports nor the digest depend on them.
        """
        return self._symbols

    @property
    def _own_symbols(self) -> Mapping[str, Mapping[str, Any]]:
        """Words that a configuration states beside the parameters."""
        return self._symbols

    def with_symbols(self, symbols: Mapping[str, Any]) -> Self:
        """The same design with words for its reports: a table of word and label or number.

        Of several attributes a table for each that has words.

        Raises
        ------
        DesignError
            If it is not such a table.
        """
        return self._worded(read_words(self.attributes, symbols))

    def _worded(self, words: Mapping[str, Mapping[str, Any]]) -> Self:
        kept = object.__new__(type(self))
        vars(kept).update(vars(self), _symbols=MappingProxyType(words))
        return kept

    def _parameter(self, name: str) -> Any:
        """Value of one parameter, as the constructor takes it."""
        match name:
            case "attribute":
                return self.attributes[0]
            case "n":
                return self.shape[0]
            case "categories":
                return written(self.categories).get("categories")
        return getattr(self, name)

    def _stated(self) -> Iterator[tuple[str, str, Any]]:
        """Each parameter that has to be said for an equal design, its key, and its value."""
        kind: type = type(self)
        for field in fields_of(kind):
            value = None if field.name in self.left_out else self._parameter(field.name)
            if value is not None and not (field.name == "inverse" and value == "weighted"):
                yield field.name, field.key, value

    def config(self) -> dict[str, Any]:
        """Parameters as JSON values, from which ``design_from_config`` builds an equal one."""
        plain: dict[str, Any] = as_plain(self._config())
        return plain

    def _config(self) -> dict[str, Any]:
        """The configuration with arrays in it, which may be large, as they are."""
        found = {"id": self.id, **{key: _config_of(value) for _, key, value in self._stated()}}
        if stated := self._own_symbols:
            words = {name: dict(table) for name, table in stated.items()}
            found["symbols"] = words if len(self.attributes) > 1 else words[self.attributes[0]]
        return found

    @classmethod
    def from_config(cls, parameters: Mapping[str, Any]) -> Self:
        """Inverse of :meth:`config`, without the ``id``.

        Raises
        ------
        DesignError
            For a parameter that is unknown or missing, or an impossible value.
        """
        own = dict(parameters)
        words = own.pop("symbols", None)
        made = cls(**arguments(cls, cls.id, own))
        return made if words is None else made.with_symbols(words)

    @classmethod
    def schema(cls) -> Schema:
        """JSON Schema of a design file of the family."""
        found = schema_of(cls)
        properties = {
            "id": {"const": cls.id},
            **found["properties"],
            "symbols": {
                **WORDS.schema(),
                "description": "Words of reports, and the meaning of each.",
            },
        }
        return {**found, "properties": properties, "required": ["id", *found.get("required", ())]}

    def expression(self) -> str:
        """The call that makes an equal design, as Python; long lists are cut."""
        stated = (f"{name}={_short(value)}" for name, _, value in self._stated())
        return f"{type(self).__name__}({', '.join(stated)})"

    def __repr__(self) -> str:
        whole = self.expression()
        if len(whole) <= WIDEST and whole.isprintable():
            return whole
        what = f"{amount(math.prod(self.shape))} categories, digest {self.digest[:12]}"
        return brief(f"{type(self).__name__}({names_of(self.attributes)}; {what})")


def _config_of(value: Any) -> Any:
    """A parameter as JSON has it, but for arrays."""
    if isinstance(value, tuple | list):
        return [_config_of(item) for item in value]
    return value._config() if isinstance(value, Parameters) else value


def as_plain(value: Any) -> Any:
    """A configuration with arrays as the lists that JSON has."""
    if isinstance(value, dict):
        return {key: as_plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [as_plain(item) for item in value]
    return value.tolist() if isinstance(value, np.ndarray) else value


def same_config(one: Any, other: Any) -> bool:
    """Whether two configurations with arrays in them are equal; no array becomes a list for it."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same_config(one[k], other[k]) for k in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same_config, one, other))
    arrays = isinstance(one, np.ndarray) and isinstance(other, np.ndarray)
    if arrays and one.dtype == other.dtype:
        return np.array_equal(one, other)
    return bool(as_plain(one) == as_plain(other))


SHOWN = 50
"""Entries of a list that a ``repr`` writes out; of a longer one it has the first three."""


def _short(value: Any) -> str:
    """A parameter as Python has it."""
    if isinstance(value, Parameters):
        return value.expression()
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if not isinstance(value, tuple | list):
        return repr(value)
    items = [_short(item) for item in (value if len(value) <= SHOWN else value[:3])]
    return f"[{', '.join(items + ['...'] * (len(value) > SHOWN))}]"
