"""Documents whose keys are declared once: as the parameters of what a table becomes.

Recipes, codebooks, designs and cluster profiles are read alike.  The annotation of a parameter says
what its value may be (:mod:`ppdm_dask.files.values`), its default whether it is needed, and the
docstring what it means; the reader, the way back to plain values and the JSON Schema follow.
"""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass
from types import UnionType
from typing import Any, ClassVar, NamedTuple, Self

from ppdm_dask.errors import InputError
from ppdm_dask.files.fields import TomlTable, canonical
from ppdm_dask.files.values import Many, Place, Schema, Text, Value, When, listed

__all__ = [
    "Anything",
    "By",
    "Declared",
    "Field",
    "Rest",
    "document",
    "document_of_kinds",
    "fields_of",
    "plain",
    "schema_of",
    "within",
]


class Field(NamedTuple):
    """A key of a table, as a parameter of what the table becomes declares it."""

    name: str
    """Of the parameter."""
    key: str
    value: Value
    needed: bool
    when: When | None


class Rest(Value):
    """All keys of a table that no other field declares."""

    right = "a table is needed"

    def read(self, value: Any, at: Place) -> Any:
        return canonical(value, at)

    def schema(self) -> Schema:
        return {}


class By(Rest):
    """Keys that another key of the table chooses.

    Parameters
    ----------
    key : str
        The other key.
    entries : mapping of str to object
        By the value of the other key, something whose ``declared`` is the class of the keys.
    """

    def __init__(self, key: str, entries: Mapping[str, Any]) -> None:
        self.key, self.entries = key, entries


class One(Value):
    """A table that becomes an object of a declared class."""

    def __init__(self, cls: type[Declared]) -> None:
        self.cls = cls

    def needed(self, path: str) -> str:
        keys = listed(field.key for field in fields_of(self.cls) if field.needed)
        return f"a table [{path}] is needed" + (f", with {keys}" if keys else "")

    def read(self, value: Any, at: Place) -> Any:
        if not isinstance(value, Mapping):
            raise at.wrong(value, self.needed(at.path))
        return self.cls.from_table(TomlTable(value, at.source, at.path, at.error))

    def schema(self) -> Schema:
        return self.cls.schema()


class Each(One):
    """A list of tables, whose ids differ where they have some."""

    def __init__(self, cls: type[Declared], least: int) -> None:
        super().__init__(cls)
        self.least = least

    def needed(self, path: str) -> str:
        many = "at least one table" if self.least else "a list of tables"
        return f"{many} [[{path}]] is needed"

    def read(self, value: Any, at: Place) -> tuple[Any, ...]:
        tables = isinstance(value, list | tuple) and all(isinstance(v, Mapping) for v in value)
        if not tables or len(value) < self.least:
            raise at.wrong(value, self.needed(at.path))
        found = []
        for i, each in enumerate(value):
            name = each.get(self.cls.named_by) if self.cls.named_by else i
            found.append(One.read(self, each, at[name if isinstance(name, str) else i]))
        ids = [getattr(each, "id", None) for each in found]
        for i, own in enumerate(ids):
            if own is not None and own in ids[:i]:
                raise at[i]["id"].wrong(own, "another entry has this id; ids must differ")
        return tuple(found)

    def schema(self) -> Schema:
        return {"type": "array", "items": super().schema(), "minItems": self.least}


class Anything(Value):
    """Whatever the constructor takes, which complains itself.

    Parameters
    ----------
    stated : JSON Schema
        What a file may have there.
    """

    right = "a value is needed"

    def __init__(self, stated: Schema | None = None) -> None:
        self.stated = stated or {}

    def read(self, value: Any, at: Place) -> Any:
        return value

    def schema(self) -> Schema:
        return self.stated


_JSON = {bool: "boolean", int: "integer", float: "number"}


def _value_of(hint: Any, needed: bool) -> tuple[Value, When | None]:
    """What an annotation says, and when it holds."""
    marks = getattr(hint, "__metadata__", ())
    when = next((mark for mark in marks if isinstance(mark, When)), None)
    if stated := [mark for mark in marks if isinstance(mark, Value)]:
        return stated[0], when
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return _value_of(inner[0], needed)[0], when
    if origin in (typing.Union, UnionType):
        return _value_of(next(each for each in inner if each is not type(None)), needed)
    if origin is tuple and inner[1:] == (...,):
        if isinstance(inner[0], type) and issubclass(inner[0], Declared):
            return Each(inner[0], int(needed)), None
        return Many(_value_of(inner[0], needed)[0]), None
    if isinstance(hint, type) and issubclass(hint, Declared):
        return One(hint), None
    if hint in _JSON:  # the constructor knows more
        return Anything({"type": _JSON[hint]}), None
    return Text() if hint is str else Anything(), None


def fields_of(cls: type[Any]) -> tuple[Field, ...]:
    """Keys that a class declares, in the order of its constructor's parameters."""
    if cls not in _FIELDS:
        _FIELDS[cls] = tuple(_declared(cls))
    return _FIELDS[cls]


_FIELDS: dict[type, tuple[Field, ...]] = {}


def _declared(cls: type) -> Iterator[Field]:
    keys, apart = getattr(cls, "keys", {}), getattr(cls, "apart", ())
    # The names in annotations of a generated constructor are those of the modules of its bases.
    generated = is_dataclass(cls) and vars(cls)["__dataclass_params__"].init
    stated: Any = cls if generated else getattr(cls, "__init__")  # noqa: B009, for mypy
    hints = typing.get_type_hints(stated, include_extras=True)
    for each in inspect.signature(cls).parameters.values():
        if each.name not in apart:
            needed = each.default is each.empty
            value, when = _value_of(hints.get(each.name), needed)
            key = keys.get(each.name, each.name)
            yield Field(each.name, key, value, needed, when)


def plain(value: Any) -> Any:
    """A value of a field as a file has it."""
    if isinstance(value, Declared):
        return value.config()
    if isinstance(value, Mapping):
        return {key: plain(each) for key, each in value.items()}
    return [plain(each) for each in value] if isinstance(value, tuple) else value


class Declared:
    """What a table becomes; below it are frozen dataclasses whose fields are the table's keys."""

    keys: ClassVar[Mapping[str, str]] = {}
    """Keys of fields that a file calls otherwise."""

    apart: ClassVar[tuple[str, ...]] = ()
    """Fields that no file has."""

    either: ClassVar[tuple[str, ...]] = ()
    """Keys of which exactly one is needed."""

    named_by: ClassVar[str] = ""
    """The key by which messages call one of several tables; their positions, if there is none."""

    @classmethod
    def from_table(cls, table: TomlTable) -> Self:
        """Read a table, all of whose keys have to be declared.

        Raises
        ------
        InputError
            One line: file, dotted path, value, and what would be right.
        """
        found = cls.take(table)
        table.done()
        try:
            return cls(**found).checked(table.place)
        except InputError as error:
            if str(error).startswith(table.source):
                raise
            raise table.place.error(f"{table.source}: {error}", error.subject) from None

    @classmethod
    def take(cls, table: TomlTable) -> dict[str, Any]:
        """Take the declared keys of a table, by field."""
        found: dict[str, Any] = {}
        there = table.remaining()
        for field in fields_of(cls):
            if field.needed and field.key not in there and not isinstance(field.value, Rest):
                raise table.error(field.key, None, field.value.needed(table.dotted(field.key)))
        given = [key for key in cls.either if key in there]
        if cls.either and len(given) != 1:
            last = given[-1] if given else cls.either[-1]
            both = " or ".join(f"`{key}`" for key in cls.either)
            raise table.error(last, table.take(last), f"either {both} is needed, and not both")
        for field in fields_of(cls):
            value, when = field.value, field.when
            if isinstance(value, By):
                chosen = value.entries[found[value.key]].declared
                found[field.name] = chosen(**chosen.take(table)).config()
            elif isinstance(value, Rest):
                found[field.name] = table.rest()
            elif when is None or when.holds(found.get(when.key)):
                needed = field.needed or (when is not None and when.needed)
                read = (table.get if needed else table.maybe)(field.key, value)
                found |= {} if read is None else {field.name: read}
        for field in fields_of(cls):
            if field.when is not None and field.key in table.remaining():
                raise table.unknown(field.key, f" without {field.when}")
        return found

    def checked(self, at: Place) -> Self:
        """Return it as it is meant, if its fields agree with one another; override to say how.

        Parameters
        ----------
        at : Place
            Of the table.
        """
        return self

    def config(self) -> dict[str, Any]:
        """Return the table as plain values, without the keys that say nothing."""
        found: dict[str, Any] = {}
        for field in fields_of(type(self)):
            value = getattr(self, field.name)
            if isinstance(field.value, Rest):
                found |= plain(value)
            elif value is not None and value != ():
                found[field.key] = plain(value)
        return found

    @classmethod
    def schema(cls) -> Schema:
        """JSON Schema of the table; override to add what its annotations cannot say."""
        return schema_of(cls)


def described(cls: type) -> tuple[str, dict[str, str]]:
    """Summary of a class, and what its docstring and those of its bases say of each parameter."""
    found: dict[str, str] = {}
    for each in reversed(cls.__mro__):
        _, _, section = inspect.cleandoc(each.__doc__ or "").partition("Parameters\n----------\n")
        section = re.split(r"\n\n\w+\n-+\n", section)[0]
        for names, text in re.findall(
            r"^(\S[^\n:]*)[^\n]*\n((?:[ ]+[^\n]*\n?|\n)+)", section, re.M
        ):
            words = " ".join(text.split())
            found |= dict.fromkeys((name.strip() for name in names.split(",")), words)
    summary = inspect.cleandoc(cls.__doc__ or cls.__name__).partition("\n\n")[0]
    return " ".join(summary.split()), found


def schema_of(cls: type) -> Schema:
    """JSON Schema of a table that becomes an object of a class."""
    title, texts = described(cls)
    found: Schema = {"title": title, "type": "object", "properties": {}}
    needed, closed = [], True
    rules: list[Schema] = []
    for field in fields_of(cls):
        if isinstance(field.value, By):
            rules += _chosen(field.value, found["properties"])
            continue
        if isinstance(field.value, Rest):
            closed = False
            continue
        stated = field.value.schema()
        if text := texts.get(field.name):
            stated = {**stated, "description": text}
        found["properties"][field.key] = stated
        if field.needed:
            needed.append(field.key)
        if field.when is not None:
            then = {"then": {"required": [field.key]}} if field.when.needed else {}
            without = {"else": {"properties": {field.key: False}}}
            rules.append({"if": field.when.schema(), **then, **without})
    if needed:
        found["required"] = needed
    if either := getattr(cls, "either", ()):
        found["oneOf"] = [{"required": [key]} for key in either]
    if rules:
        found["allOf"] = rules
    return found | ({"additionalProperties": False} if closed else {})


DIALECT = "https://json-schema.org/draft/2020-12/schema"


def document(title: str, schema: Schema) -> Schema:
    """A whole JSON Schema, of draft 2020-12."""
    return {"$schema": DIALECT, **schema, "title": title}


def within(schema: Any, whole: Schema) -> Any:
    """A schema for another document: `whole` in place of references to the document itself."""
    if isinstance(schema, Mapping):
        if schema.get("$ref") == "#":
            return whole
        return {key: within(each, whole) for key, each in schema.items()}
    return [within(each, whole) for each in schema] if isinstance(schema, list) else schema


def document_of_kinds(title: str, key: str, kinds: Mapping[str, Schema]) -> Schema:
    """A JSON Schema of documents whose kind a key of them names."""
    rules = [
        {"if": When(key, (name,)).schema(), "then": {"$ref": f"#/$defs/{name}"}} for name in kinds
    ]
    named = {"properties": {key: {"enum": list(kinds)}}, "required": [key]}
    return document(title, {"type": "object", **named, "allOf": rules, "$defs": dict(kinds)})


def _chosen(value: By, properties: Schema) -> list[Schema]:
    """Rules on the keys that each value of another key brings; adds the keys to the properties."""
    rules, own = [], list(properties)
    for name, entry in value.entries.items():
        inner = entry.declared.schema()
        properties |= {key: {} for key in inner["properties"]}
        then = {
            "properties": inner["properties"],
            "required": inner.get("required", []),
            "propertyNames": {"enum": [*own, *inner["properties"]]},
        }
        rules.append({"if": {"properties": {value.key: {"const": name}}}, "then": then})
    return rules
