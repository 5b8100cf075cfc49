"""JSON documents that carry a checksum of their own content.

It tells damage and careless edits.  Someone who means to forge a document can make its checksum
anew: a checksum is no signature.

Beside it: the form of a JSON document: which keys it must have, and what may stand there.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

from ppdm_dask.errors import InputError
from ppdm_dask.files.regular import read_bounded
from ppdm_dask.shown import located

__all__ = [
    "NUMBER",
    "Form",
    "misfit",
    "parse_json",
    "read_sealed",
    "seal",
]


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


CHECKSUM = "checksum"


def seal(content: Mapping[str, Any]) -> dict[str, Any]:
    """The document with its checksum, which replaces the one it had."""
    return {**content, CHECKSUM: _checksum(content)}


def _checksum(content: Mapping[str, Any]) -> str:
    """SHA-256 of the content as JSON, its keys sorted, without white space."""
    rest = {key: value for key, value in content.items() if key != CHECKSUM}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def parse_json(content: bytes) -> Any:
    """JSON in UTF-8; a ValueError where it is none, nested too deeply, or could not be written."""
    try:
        found = json.loads(content.decode("utf-8"))
        # Halves of a sign and what is no finite number can be read, but not written again.
        json.dumps(found, ensure_ascii=False, allow_nan=False).encode("utf-8")
        return found
    except RecursionError:
        raise ValueError("nested too deeply") from None


def read_sealed(
    path: Path, what: str, error: type[InputError] = InputError, *, required: bool = True
) -> dict[str, Any]:
    """Read a document that :func:`seal` made; its checksum stays in it.

    Parameters
    ----------
    path : Path
    what : str
        What it should be, for messages, such as "manifest of a run".
    error : type
        Of the errors.
    required : bool
        Whether a document without a checksum, of an earlier version, is refused.

    Raises
    ------
    FileNotFoundError
    InputError
        Of the type `error`: if the file cannot be read, is no such document, or is damaged.
    """
    try:
        found = parse_json(read_bounded(path))
    except FileNotFoundError:
        raise
    except OSError as problem:
        raise error(f"{located(path)}: cannot be read: {problem.strerror}", path) from None
    except ValueError:
        raise error(f"{path}: this is no {what}", path) from None
    if not isinstance(found, dict):
        raise error(f"{path}: this is no {what}", path)
    if CHECKSUM not in found:
        if not required:
            return found
        raise error(
            f"{path}: this is no {what}, or one of an earlier version: it has no checksum", path
        )
    if found[CHECKSUM] != _checksum(found):
        raise error(f"{path}: damaged or edited: its content does not match its checksum", path)
    return found
