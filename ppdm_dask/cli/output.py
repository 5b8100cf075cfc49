"""Printing: tables, lines and JSON on standard output."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from ppdm_dask.shown import printable

if TYPE_CHECKING:
    from collections.abc import Iterable

    import xarray as xr
    from rich.console import RenderableType

__all__ = ["print_json", "print_lines", "print_result", "print_table", "say"]

PIPED_WIDTH = 80
"""Columns of a table that goes into a file or a pipe, unless its numbers need more."""


def print_table(table: RenderableType) -> None:
    """Print a table: without control codes where it is no terminal."""
    from rich.console import Console

    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = max(PIPED_WIDTH, console.measure(table).minimum)
    # Written by hand: rich ends the process by itself when a pipe breaks.
    with console.capture() as capture:
        console.print(table)
    text = capture.get()
    sys.stdout.write("\n".join(line.rstrip() for line in text.splitlines()) + "\n")


def print_lines(lines: Iterable[str]) -> None:
    """Print lines, with what could drive a terminal written as escapes."""
    for line in lines:
        say(line)


def say(line: str = "") -> None:
    """Print a line; see :func:`print_lines`."""
    print(printable(line, keep="\n\t"))


def print_json(value: Any) -> None:
    """Print one JSON document."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    # JSON leaves some signs as they are that a terminal may obey.
    print("".join(s if s.isprintable() or s == "\n" else json.dumps(s)[1:-1] for s in text))


def print_result(ds: xr.Dataset) -> None:
    """Print the tables of a result, and the notes below them."""
    from ppdm_dask.experiments.kinds import kind_of_result

    kind = kind_of_result(ds)
    for heading, table in kind.tables(ds):
        print(f"\n{heading}\n")
        print_table(table)
    if notes := kind.notes(ds):
        print()
        print_lines(notes)
