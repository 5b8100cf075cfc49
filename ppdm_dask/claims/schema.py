"""JSON Schema of files of claims, which :mod:`ppdm_dask.claims.claim` reads."""

from __future__ import annotations

from typing import Any

from ppdm_dask.claims.calculations import CALCULATIONS
from ppdm_dask.claims.claim import Claim, Paper
from ppdm_dask.claims.quantity import Quantity
from ppdm_dask.claims.rules import DECIMAL, RULES
from ppdm_dask.claims.survey import DIVISORS, METHODS, Survey
from ppdm_dask.designs.base import design_schema
from ppdm_dask.files.declared import described, document, within
from ppdm_dask.files.values import Many, Number, Plain, Schema, Text, Whole

__all__ = ["claims_schema"]

TEXT = Text().schema()
NUMBER: Schema = {"type": "number"}
FLAG: Schema = {"type": "boolean"}
SHARE = Number("", above=0, most=1).schema()
VALUES = Many(Plain(), least=1, distinct=True).schema()
PLACES: Schema = {"type": "object", "additionalProperties": VALUES}
OTHER: Schema = {"$ref": "#/$defs/quantity"}
DESIGN: Schema = {"$ref": "#/$defs/design"}
THAN: Schema = {"anyOf": [NUMBER, OTHER]}

QUANTITY: Schema = {
    "variable": TEXT,
    "at": PLACES,
    "minus": OTHER,
    "over": OTHER,
    "plus": NUMBER,
    "times": NUMBER,
    "each": FLAG,
}
"""Keys of a quantity; the variable is needed, except where it is that of an outer one."""

COMMON = ("id", "where", "says", "printed")
"""Keys of every claim; those that cannot be tested have only these and the reason."""

JUDGED = ("recipe", "calculation", "survey")
"""Exactly one of them says what a claim is judged on."""

OWN: dict[str, tuple[Schema, tuple[str, ...]]] = {
    "compare": (
        {"relation": {"enum": ["above", "below"]}, "than": THAN, "share": SHARE, "ties": FLAG},
        ("variable", "relation", "than"),
    ),
    "equal": ({"than": THAN, "tolerance": NUMBER}, ("variable", "than")),
    "defined": ({}, ("variable",)),
    "monotone": (
        {
            "along": TEXT,
            "direction": {"enum": ["rises", "falls"]},
            "paths": {"type": "array", "items": {"type": "array", "minItems": 2}, "minItems": 1},
            "share": SHARE,
            "mean": FLAG,
        },
        ("variable", "along", "direction", "paths"),
    ),
    "extreme": (
        {"along": TEXT, "which": {"enum": ["largest", "smallest"]}, "place": VALUES},
        ("variable", "along", "which", "place"),
    ),
}
"""Keys of a rule apart from those of a quantity, and which are needed."""


def _table(properties: Schema, required: tuple[str, ...] = ()) -> Schema:
    return {"properties": properties, "required": list(required)}


def _closed(properties: Schema, required: tuple[str, ...] = ()) -> Schema:
    table = _table(properties, required)
    return {"type": "object", **table, "additionalProperties": False}


def _numbers(each: Schema) -> Schema:
    """A table by variable."""
    return {"type": "object", "additionalProperties": each, "minProperties": 1}


def _rules(common: list[str]) -> list[Schema]:
    """What each rule says of the claim's keys."""
    by_variable = _numbers(NUMBER)
    variants: dict[str, Schema] = {
        name: _only(common, QUANTITY | own, needed) for name, (own, needed) in OWN.items()
    }
    several = {"at": PLACES, "each": FLAG, "expected": by_variable, "tolerance": by_variable}
    one = {**QUANTITY, "expected": NUMBER, "tolerance": NUMBER}
    variants["within"] = {
        "if": _table({"expected": {"type": "object"}}, ("expected",)),
        "then": _only(common, several, ("expected", "tolerance")),
        "else": _only(common, one, ("variable", "expected", "tolerance")),
    }
    digits = Text(pattern=DECIMAL).schema()
    variants["printed"] = _only(common, {"expected": _numbers(digits)}, ("expected",))
    return [{"if": _table({"rule": {"const": rule}}), "then": variants[rule]} for rule in RULES]


def _only(common: list[str], own: Schema, needed: tuple[str, ...]) -> Schema:
    return {**_table(own, needed), "propertyNames": {"enum": [*common, *own]}}


def _survey() -> Schema:
    share = Number("", 0, 1).schema()
    count = Whole(0).schema()
    properties: Schema = {
        "design": DESIGN,
        "categories": Many(Text(), least=2, distinct=True).schema(),
        "of": TEXT,
        "counts": {**_numbers(count), "description": "How often each answer was given."},
        "law": {"type": "object", "additionalProperties": share, "minProperties": 2},
        "n": Whole(2).schema(),
        "method": {"enum": list(METHODS)},
        "divisor": {"enum": list(DIVISORS)},
    }
    title, texts = described(Survey)
    found = _closed(_said(properties, texts), ("design", "categories", "of"))
    either = [{"required": ["law"]}, {"required": ["counts"], "properties": {"n": False}}]
    return {"title": title, **found, "oneOf": either}


def _said(properties: Schema, texts: dict[str, str]) -> Schema:
    """Properties with what a docstring says of each, where they do not say it themselves."""
    return {
        key: {"description": texts[key], **each} if key in texts else each
        for key, each in properties.items()
    }


def claims_schema() -> dict[str, Any]:
    """JSON Schema of a file of claims, such as ``pipelines/claims/guo.toml``."""
    title, texts = described(Claim)
    properties: Schema = {
        **dict.fromkeys(("id", "where", "says", "printed", "recipe"), TEXT),
        "calculation": {"enum": list(CALCULATIONS)},
        "survey": {"$ref": "#/$defs/survey"},
        "figures": {"type": "array", "items": TEXT},
        "test": TEXT,
        "differs": TEXT,
        "untestable": TEXT,
        "rule": {
            "description": " ".join(
                f"{name}: {described(rule)[0]}" for name, rule in RULES.items()
            ),
            "enum": list(RULES),
        },
    }
    common = [key for key in properties if key != "untestable"]
    judged: Schema = {
        "required": ["test", "rule"],
        "oneOf": [{"required": [key]} for key in JUDGED],
        "allOf": _rules(common),
    }
    claim: Schema = {
        "title": title,
        "type": "object",
        "properties": _said(properties, texts),
        "required": ["id", "where", "says"],
        "if": {"required": ["untestable"]},
        "then": {"propertyNames": {"enum": [*COMMON, "untestable"]}},
        "else": judged,
    }
    _, said = described(Paper)
    paper: Schema = {"description": said["key"], **TEXT}
    whole = _closed(
        {
            "paper": paper,
            "title": TEXT,
            "authors": TEXT,
            "claim": {"type": "array", "items": {"$ref": "#/$defs/claim"}},
        },
        ("paper", "title", "authors"),
    )
    design = within(design_schema(), DESIGN)
    families = design.pop("$defs")
    del design["$schema"]
    about, of_parts = described(Quantity)
    defs = {
        "claim": claim,
        "quantity": {"title": about, **_closed(_said(QUANTITY, of_parts))},
        "survey": _survey(),
        "design": design,
        **families,
    }
    return document("Claims of a publication, for ppdm_dask", {**whole, "$defs": defs})
