"""Design files: the configuration of a design as TOML."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ppdm_dask.designs.registry import design_from_config
from ppdm_dask.errors import DesignError, InputError
from ppdm_dask.files.toml import read_toml

if TYPE_CHECKING:
    from ppdm_dask.codebook import Codebook
    from ppdm_dask.designs.base import Design

__all__ = ["read_design", "write_design"]


def read_design(path: str | Path, codebook: Codebook | None = None) -> Design:
    """Read a design from a TOML file with its ``id`` and parameters.

    Parameters
    ----------
    path : path
    codebook : Codebook, optional
        Bind the design to it: see :meth:`Design.bind`.

    Raises
    ------
    InputError
        One line: the file, the parameter, and what would be right.
    """
    path = Path(path)
    content = read_toml(path, DesignError)
    try:
        design = design_from_config(content)
        return design if codebook is None else design.bind(codebook)
    except InputError as error:
        raise DesignError(f"{path}: {error}", error.subject) from None


def write_design(design: Design, path: str | Path, comment: str = "") -> None:
    """Write a design as TOML, whole or not at all.

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
    from ppdm_dask.files.atomic import write_text

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
    # JSON writes texts, truth values and finite numbers as TOML does, but for one character.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
