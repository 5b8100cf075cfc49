"""Documents in TOML and JSON: whatever a file holds ends in its tables or in one line.

A JSON document has a form, which keys it must have and what may stand there, and carries a checksum
of its own content.  That tells damage and careless edits.  Someone who means to forge a document
can make a new checksum: it is not a signature.
"""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from ppdm_dask.errors import InputError
from ppdm_dask.files.regular import read_bounded, require_file
from ppdm_dask.shown import cut, located, printable

LARGEST = 16 << 20
"""Bytes of a file that a person writes; more is some other file."""

DEEPEST = 100
"""Dotted or bracketed levels of a key or a value."""


def read_text(path: Path, error: Callable[[str, Path], InputError]) -> str:
    """Text of a small UTF-8 file.

    Parameters
    ----------
    path : Path
    error : callable
        Makes the exception of a message and the path.

    Raises
    ------
    InputError
        What `error` makes: there is no such file, or it is too large or no text.
    """
    size = require_file(path, error)
    if size > LARGEST:
        raise error(
            f"{path}: holds {size:,} bytes; a text file of {LARGEST:,} at most is needed", path
        )
    try:
        content = path.read_bytes()
        return content.decode()
    except OSError as fault:
        raise error(f"{path}: cannot be read: {fault.strerror}", path) from None
    except UnicodeDecodeError as fault:
        line = content[: fault.start].count(b"\n") + 1
        raise error(f"{path}: line {line}: this is not UTF-8 text", path) from None


def read_toml(path: Path, error: Callable[[str, Path], InputError]) -> dict[str, Any]:
    """Tables of a TOML file; see :func:`read_text`.

    Raises
    ------
    InputError
        What `error` makes, with the line where the text is not TOML.
    """
    text = read_text(path, error)
    if _deepest_key(text) > DEEPEST:  # the parser's time grows with the square of it
        raise error(f"{path}: has a key of more than {DEEPEST} levels", path)
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as fault:
        what = " ".join(str(fault).split())
        at = re.search(r"\(at (line \d+, column \d+)\)$", what)
        where = at[1] if at else "at the end"
        what = what[: at.start()].strip() if at else what.removesuffix("(at end of document)")
        raise error(f"{path}: {where}: this is not TOML: {what.strip()}", path) from None
    except RecursionError:
        raise error(f"{path}: its values are nested too deeply", path) from None
    except ValueError:  # Python reads no whole number of more than some thousand digits
        raise error(f"{path}: holds a whole number of more than 64 bits", path) from None
    if where := _too_large(tables):
        raise error(f"{path}: {printable(cut(where))}: a whole number of more than 64 bits", path)
    return tables


def _deepest_key(text: str) -> int:
    heads = (line.partition("=")[0] for line in text.splitlines() if "." in line)
    keys = (re.sub(r""""[^"]*"|'[^']*'|#.*""", "", head) for head in heads)
    return max((key.count(".") for key in keys), default=0)


def _too_large(tables: dict[str, Any]) -> str:
    """Dotted path of a whole number that TOML does not allow; empty if there is none."""
    left: list[tuple[str, Any]] = list(tables.items())
    while left:
        path, value = left.pop()
        if isinstance(value, dict):
            left += [(f"{path}.{key}", each) for key, each in value.items()]
        elif isinstance(value, list):
            left += [(f"{path}[{i}]", each) for i, each in enumerate(value)]
        elif isinstance(value, int) and not -(2**63) <= value < 2**63:
            return path
    return ""


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
        # Halves of a sign and what is not a finite number can be read, but not written again.
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
        Of the type `error`: if the file cannot be read, is not such a document, or is damaged.
    """
    try:
        found = parse_json(read_bounded(path))
    except FileNotFoundError:
        raise
    except OSError as problem:
        raise error(f"{located(path)}: cannot be read: {problem.strerror}", path) from None
    except ValueError:
        raise error(f"{path}: this is not a {what}", path) from None
    if not isinstance(found, dict):
        raise error(f"{path}: this is not a {what}", path)
    if CHECKSUM not in found:
        if not required:
            return found
        raise error(
            f"{path}: this is not a {what}, or one of an earlier version: it has no checksum", path
        )
    if found[CHECKSUM] != _checksum(found):
        raise error(f"{path}: damaged or edited: its content does not match its checksum", path)
    return found
