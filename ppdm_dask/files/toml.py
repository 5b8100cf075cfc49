"""TOML files, read so that whatever a file holds ends in its tables or in one line."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ppdm_dask.errors import InputError
from ppdm_dask.files.regular import require_file
from ppdm_dask.shown import cut, printable

__all__ = ["read_text", "read_toml"]

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
        raise error(f"{path}: line {line}: this is no UTF-8 text", path) from None


def read_toml(path: Path, error: Callable[[str, Path], InputError]) -> dict[str, Any]:
    """Tables of a TOML file; see :func:`read_text`.

    Raises
    ------
    InputError
        What `error` makes, with the line where the text is no TOML.
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
        raise error(f"{path}: {where}: this is no TOML: {what.strip()}", path) from None
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
