"""Import a module of the package in another form than its file has."""

from __future__ import annotations

import ast
import builtins
import importlib.util
import sys
from collections.abc import Callable, Mapping
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType
from typing import Any

__all__ = ["Patches", "traced"]

REACHED = "__mutation_reached__"
"""Name among the builtins of what a traced statement calls."""


class _Loader(SourceFileLoader):
    def __init__(self, name: str, path: str, make: Callable[[], CodeType]) -> None:
        super().__init__(name, path)
        self._make = make

    def get_code(self, fullname: str) -> CodeType:
        return self._make()


class Patches:
    """A finder of modules that have another code than their file.

    Parameters
    ----------
    codes : mapping of str to callable
        By dotted name, what compiles the module.
    files : mapping of str to Path
        Their files.
    """

    def __init__(
        self, codes: Mapping[str, Callable[[], CodeType]], files: Mapping[str, Path]
    ) -> None:
        self._codes = codes
        self._files = files

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Part of the protocol of ``sys.meta_path``."""
        if name not in self._codes:
            return None
        file = self._files[name]
        within = [str(file.parent)] if file.name == "__init__.py" else None
        return importlib.util.spec_from_file_location(
            name,
            file,
            loader=_Loader(name, str(file), self._codes[name]),
            submodule_search_locations=within,
        )

    def install(self) -> None:
        """Use it before all other finders."""
        loaded = [name for name in sys.modules if name.split(".")[0] == "ppdm_dask"]
        if loaded:
            raise RuntimeError(f"too late: {loaded[0]} is imported already")
        sys.meta_path.insert(0, self)  # type: ignore[arg-type]


def traced(module: str, path: Path, reached: Callable[[str, int], None]) -> CodeType:
    """A module whose statements in functions say that they are reached."""
    setattr(builtins, REACHED, reached)
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.Lambda):
            _mark(module, function)
    return compile(ast.fix_missing_locations(tree), str(path), "exec")


def _mark(module: str, function: ast.AST) -> None:
    for node in ast.walk(function):
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if not isinstance(block, list) or isinstance(node, ast.ClassDef):
                continue
            marked: list[ast.stmt] = []
            for statement in block:
                if not _is_mark(statement) and not (marked and _is_mark(marked[-1])):
                    said = ast.Expr(
                        ast.Call(
                            ast.Name(REACHED, ast.Load()),
                            [ast.Constant(module), ast.Constant(statement.lineno)],
                            [],
                        )
                    )
                    marked.append(ast.copy_location(said, statement))
                marked.append(statement)
            setattr(node, name, marked)


def _is_mark(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Call)
        and isinstance(statement.value.func, ast.Name)
        and statement.value.func.id == REACHED
    )
