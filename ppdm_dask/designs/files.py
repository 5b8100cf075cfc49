"""Design files: the configuration of a design as TOML."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ppdm_dask.designs.base import Design
from ppdm_dask.errors import DesignError
from ppdm_dask.files.writing import write_text

__all__ = ["read_design", "write_design"]

read_design = Design.read


def write_design(design: Design, path: str | Path, comment: str = "") -> None:
    """Write a design as TOML, atomically.

    Parameters
    ----------
    design : Design
    path : path
    comment : str
        Lines at the head of the file.

    Raises
    ------
    DesignError
        If the file cannot be written.
    """
    lines = [f"# {line}" for line in comment.splitlines()]
    lines += _table(design.config(), "")
    try:
        write_text(Path(path), "\n".join(lines) + "\n")
    except ValueError as error:
        raise DesignError(str(error), path) from None


def _table(config: Mapping[str, Any], prefix: str) -> list[str]:
    lines, below = [], []
    for key, value in config.items():
        if isinstance(value, list) and value and isinstance(value[0], Mapping):
            for item in value:
                below += ["", f"[[{prefix}{key}]]", *_table(item, f"{prefix}{key}.")]
        elif isinstance(value, list) and value and isinstance(value[0], list):
            lines += [f"{key} = [", *(f"    {_value(row)}," for row in value), "]"]
        else:
            lines.append(f"{key} = {_value(value)}")
    return [*lines, *below]


def _value(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_value(k)} = {_value(v)}" for k, v in value.items()) + "}"
    # JSON writes texts, truth values and finite numbers as TOML does, but for one character.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
