"""An objective of a recipe: a function of a file of Python beside it, or of an installed package.

A file is run only where the person who starts the run names it too: a recipe runs no code by
itself.  Its SHA-256 is a key of the recipe, so that it is part of the recipe's digest and of the
run's id, and its text travels with the work, so that workers need no file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ppdm_dask.errors import InputError
from ppdm_dask.search.problem import GivenObjective, Problem
from ppdm_dask.shown import given, listed, located

__all__ = ["GROUP", "RecipeObjective", "code_of", "locate"]

GROUP = "ppdm_dask.objectives"
"""Entry points that are objectives."""

MOST_BYTES = 1 << 20
"""Of a file of code."""


@dataclass(frozen=True)
class RecipeObjective:
    """A function by its name, with the text of its file if it has one.

    Parameters
    ----------
    name : str
        ``FILE.py:FUNCTION``, or the name of an entry point.
    text : str
        Of the file; empty for an entry point.
    sha256 : str
        Of the source.
    """

    name: str
    text: str
    sha256: str

    def of(self, problem: Problem) -> GivenObjective:
        """The objective for one prior and number of records.

        Raises
        ------
        InputError
            If the code raises while it is loaded, or has no such function.
        """
        function = _function(self.name, self.text)
        bound = partial(function, prior=problem.prior, n_records=problem.n_records)
        return GivenObjective(problem, bound)


@lru_cache(maxsize=8)
def _function(name: str, text: str) -> Callable[..., Any]:
    if not text:
        loaded: Callable[..., Any] = _entry(name).load()
        return loaded
    file, _, wanted = name.rpartition(":")
    space: dict[str, Any] = {"__name__": Path(file).stem}
    try:
        exec(compile(text, file, "exec"), space)
    except Exception as error:
        raise InputError(f"{file}: {type(error).__name__}: {error}", name) from error
    found = space.get(wanted)
    if not callable(found):
        raise InputError(f"{file}: has no function {given(wanted)}", name)
    function: Callable[..., Any] = found
    return function


def _entry(name: str) -> EntryPoint:
    known = entry_points(group=GROUP)
    if name not in known.names:
        have = listed(sorted(known.names)) or "none"
        raise InputError(
            f"got {given(name)}; FILE.py:FUNCTION of a file beside the recipe is needed, or an "
            f"entry point of the group {GROUP}, of which there are: {have}",
            name,
        )
    return known[name]


def code_of(name: str | None, base: Path) -> Path | None:
    """The file of code that an objective needs; None for an entry point, or no objective."""
    file, colon, _ = (name or "").rpartition(":")
    return base / file if colon and file.endswith(".py") else None


def locate(name: str, base: Path) -> RecipeObjective:
    """Find the source of an objective; nothing of it is run.

    Parameters
    ----------
    name : str
    base : Path
        Folder of the recipe.

    Raises
    ------
    InputError
        What is wrong, without the place.
    """
    path = code_of(name, base)
    if path is None:
        entry = _entry(name)
        spec = find_spec(entry.module)
        if spec is None or spec.origin is None:
            raise InputError(f"got {given(name)}; {entry.module} has no source file", name)
        content = Path(spec.origin).read_bytes()
        return RecipeObjective(name, "", hashlib.sha256(content).hexdigest())
    if Path(path.name) != Path(name.rpartition(":")[0]):
        raise InputError(f"got {given(name)}; a file beside the recipe is needed", name)
    try:
        content = path.read_bytes()
        if len(content) > MOST_BYTES:
            raise InputError(f"{path.name} has {len(content):,} bytes; code is needed", name)
        text = content.decode()
    except OSError as error:
        raise InputError(f"{located(path)}: cannot be read: {error.strerror}", name) from None
    except UnicodeDecodeError:
        raise InputError(f"{located(path)}: is not text in UTF-8", name) from None
    return RecipeObjective(name, text, hashlib.sha256(content).hexdigest())
