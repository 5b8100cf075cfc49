"""Figures of the house: modules, lines, circles, imports inside functions, floors.

    python tools/house.py
    python tools/house.py --json
    python tools/house.py --list lonely

What is counted: modules and lines of the package; circles between modules; imports of our own in
functions; modules with one importer; floors (the longest way down by imports); pairs of rooms that
import each other; and lines that were once copied from file to file.
"""

from __future__ import annotations

import argparse
import ast
import json
import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

__all__ = [
    "ROOMS",
    "Module",
    "circles",
    "edges_of",
    "figures",
    "floors",
    "main",
    "read_modules",
    "upward",
]

PACKAGE = "ppdm_dask"
COPIED = ("\nFloats =", "# mypy: allow-untyped-calls", "object.__setattr__")


@cache
def stub_names(stub: Path) -> dict[str, str]:
    """Names that a package loads when they are used, with the module of each."""
    body = ast.parse(stub.read_text(encoding="utf-8")).body if stub.is_file() else []
    return {
        alias.name: node.module or alias.name
        for node in body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


class Module:
    """A module, and what it imports of our own: at its top, in functions, and for types only."""

    def __init__(self, path: Path, name: str, known: frozenset[str]) -> None:
        self.path, self.name, self.known = path, name, known
        self.text = path.read_text(encoding="utf-8")
        self.lines = self.text.count("\n")
        self.top: set[str] = set()
        self.late: list[tuple[int, str]] = []
        self.typing: set[str] = set()
        tree = ast.parse(self.text)
        self._walk(tree.body, inside=False, typing=False)
        self.top |= set(self._lazy(tree))

    def _walk(self, body: list[ast.stmt], *, inside: bool, typing: bool) -> None:
        for node in body:
            if isinstance(node, ast.Import | ast.ImportFrom):
                for target in dict.fromkeys(self._targets(node)):
                    if typing:
                        self.typing.add(target)
                    elif inside:
                        self.late.append((node.lineno, target))
                    else:
                        self.top.add(target)
                continue
            guard = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
            within = inside or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            for field in ("body", "orelse", "finalbody"):
                inner = getattr(node, field, None)
                if isinstance(inner, list):
                    only = typing or (guard and field == "body")
                    self._walk(inner, inside=within, typing=only)
            for handler in getattr(node, "handlers", []):
                self._walk(handler.body, inside=within, typing=typing)
            for case in getattr(node, "cases", []):
                self._walk(case.body, inside=within, typing=typing)

    def _lazy(self, tree: ast.Module) -> Iterator[str]:
        """What a module reaches as ``pp.name`` or ``pp.room.name``, where the stubs say it is."""
        root = next(path for path in self.path.parents if path.name == PACKAGE)
        for node in ast.walk(tree):
            path = ast.unparse(node).split(".") if isinstance(node, ast.Attribute) else []
            if len(path) < 2 or path[0] != "pp":
                continue
            name = ".".join([PACKAGE, *path[1:]])
            *parents, last = path[1:]
            stub = stub_names(root.joinpath(*parents, "__init__.pyi"))
            if last in stub:
                name = ".".join([PACKAGE, *parents, stub[last]])
            if name in self.known:
                yield name

    def _targets(self, node: ast.Import | ast.ImportFrom) -> Iterator[str]:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in self.known)
            return
        if node.level:
            package = self.name if self.path.name == "__init__.py" else self.name.rpartition(".")[0]
            for _ in range(node.level - 1):
                package = package.rpartition(".")[0]
            base = f"{package}.{node.module}" if node.module else package
        else:
            base = node.module or ""
        if base.partition(".")[0] != PACKAGE:
            return
        for alias in node.names:
            inner = f"{base}.{alias.name}"
            yield inner if inner in self.known else base


def read_modules(root: Path) -> dict[str, Module]:
    """The modules below a folder that holds the package, by name."""
    paths = {}
    for path in sorted((root / PACKAGE).rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        paths[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    known = frozenset(paths)
    return {name: Module(path, name, known) for name, path in paths.items()}


def circles(edges: dict[str, set[str]]) -> list[list[str]]:
    """Strongly connected parts of more than one module (Tarjan's)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for other in sorted(edges[name]):
            if other not in index:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], index[other])
        if low[name] == index[name]:
            part = []
            while True:
                part.append(stack.pop())
                if part[-1] == name:
                    break
            if len(part) > 1:
                found.append(sorted(part))

    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(10_000)
    try:
        for name in sorted(edges):
            if name not in index:
                visit(name)
    finally:
        sys.setrecursionlimit(limit)
    return found


def floors(edges: dict[str, set[str]]) -> int:
    """Modules on the longest way down, each circle taken as one."""
    part = {name: name for name in edges}
    for circle in circles(edges):
        part |= dict.fromkeys(circle, circle[0])
    down: dict[str, set[str]] = defaultdict(set)
    for name, others in edges.items():
        down[part[name]] |= {part[other] for other in others} - {part[name]}
    height: dict[str, int] = {}

    def measure(name: str) -> int:
        if name not in height:
            height[name] = 1 + max((measure(other) for other in down[name]), default=0)
        return height[name]

    return max(measure(name) for name in {*part.values()})


ROOMS = (
    "arrays",
    "errors",
    "frozen",
    "shown",
    "ranges",
    "resources",
    "system",
    "extras",
    "distributions",
    "files",
    "drawing",
    "faces",
    "data",
    "datasets",
    "kernels",
    "randomness",
    "privacy",
    "designs",
    "inference",
    "mine",
    "audit",
    "perturb",
    "search",
    "engine",
    "cluster",
    "survey",
    "collect",
    "experiments",
    "reproduce",
    "claims",
    "report",
    "cli",
)
"""The rooms, in the order in which imports go down: a room imports from those before it."""


def upward(modules: dict[str, Module]) -> list[str]:
    """Imports of a later room by an earlier one, for types and inside functions too."""
    place = {name: i for i, name in enumerate(ROOMS)}
    found = []
    for name, module in modules.items():
        for other in sorted(module.top | module.typing | {target for _, target in module.late}):
            here, there = place.get(room(name), len(ROOMS)), place.get(room(other), -1)
            if there > here:
                found.append(f"{name} -> {other}")
    return found


def room(name: str) -> str:
    """The part of the package that a module belongs to."""
    parts = name.split(".")
    return parts[1] if len(parts) > 1 else ""


def edges_of(modules: dict[str, Module]) -> dict[str, set[str]]:
    """All that each module imports of our own, wherever in it."""
    return {
        name: (module.top | module.typing | {target for _, target in module.late}) - {name}
        for name, module in modules.items()
    }


def figures(modules: dict[str, Module]) -> tuple[dict[str, int], dict[str, list[str]]]:
    """The figures, and what is behind those that are a list."""
    packages = {name for name, module in modules.items() if module.path.name == "__init__.py"}
    top = {name: module.top - {name} for name, module in modules.items()}
    every = edges_of(modules)
    importers: dict[str, set[str]] = defaultdict(set)
    for name, others in every.items():
        for other in others:
            importers[other].add(name)
    late = [
        f"{name}:{line} {target}"
        for name, module in modules.items()
        for line, target in module.late
    ]
    lonely = [
        f"{name} <- {next(iter(importers[name]))}"
        for name in sorted(modules)
        if len(importers[name]) == 1 and name not in packages
    ]
    mutual = {
        tuple(sorted((room(name), room(other))))
        for name, others in every.items()
        for other in others
        if room(name) != room(other) and room(name) and room(other)
    }
    ways = {(room(name), room(other)) for name in every for other in every[name]}
    pairs = sorted(f"{a} - {b}" for a, b in mutual if (a, b) in ways and (b, a) in ways)
    rings = circles(every)
    counts = {
        "modules": len(modules),
        "lines": sum(module.lines for module in modules.values()),
        "circles at the top": len(circles(top)),
        "circles": len(rings),
        "imports in functions": len(late),
        "modules with one importer": len(lonely),
        "floors": floors(every),
        "pairs of rooms": len(pairs),
        "upward imports": len(upward(modules)),
    }
    for text in COPIED:
        counts[f"copies of {text!r}"] = sum(m.text.count(text) for m in modules.values())
    lists = {
        "late": late,
        "lonely": lonely,
        "pairs": pairs,
        "circles": [" ".join(ring) for ring in rings],
        "upward": upward(modules),
    }
    return counts, lists


def main(arguments: list[str] | None = None) -> int:
    """Print the figures of the package in this checkout, or in another."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--list", choices=("late", "lonely", "pairs", "circles", "upward"))
    options = parser.parse_args(arguments)
    counts, lists = figures(read_modules(options.root))
    if options.list:
        print(*lists[options.list], sep="\n")
    elif options.json:
        print(json.dumps(counts, indent=2))
    else:
        for name, count in counts.items():
            print(f"{name:40} {count:7}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
