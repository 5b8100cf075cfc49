"""The form of a JSON document: which keys it must have, and what may stand there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

__all__ = ["NUMBER", "Form", "misfit"]

Form: TypeAlias = type | tuple[type, ...] | list[Any] | Mapping[Any, Any]
"""Types; a list of one form, that of all items; or a table of forms by key, ``...`` for any key."""

NUMBER = (int, float)


def misfit(value: Any, form: Form, where: str = "") -> str | None:
    """The first place at which a value does not have a form; None if it has it everywhere.

    Parameters
    ----------
    value : JSON value
    form : Form
        Keys that it does not name may stand there too.
    where : str
        Dotted path of the value.

    Examples
    --------
    >>> misfit({"name": "a", "sizes": [1, "2"]}, {"name": str, "sizes": [int]})
    'sizes[1]'
    >>> misfit({"a": {}}, {...: {"name": str}})
    'a.name'
    """
    if isinstance(form, type | tuple):
        return None if isinstance(value, form) else where
    if isinstance(form, list):
        if not isinstance(value, list):
            return where
        parts = [(item, form[0], f"{where}[{i}]") for i, item in enumerate(value)]
    else:
        if not isinstance(value, dict):
            return where
        under = f"{where}." if where else ""
        named = dict.fromkeys(value, form[...]) if ... in form else form
        if missing := [key for key in named if key not in value]:
            return f"{under}{missing[0]}"
        parts = [(value[key], each, f"{under}{key}") for key, each in named.items()]
    return next((at for part in parts if (at := misfit(*part)) is not None), None)
