"""Modules under the names of earlier versions; each says its new name when it is imported."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

__all__ = ["MOVED", "install", "moved_attribute", "new_name"]

MOVED = {
    "attribute": "data.attribute",
    "binning": "data.binning",
    "certainty": "audit.certainty",
    "cluster.foreign": "cluster.client",
    "cluster.peers": "cluster.worker",
    "codebook": "data.codebook",
    "designs.registry": "designs.base",
    "designs.stratified": "inference.stratified",
    "designs.two_sample": "inference.two_sample",
    "engine.batches": "engine.cells",
    "engine.progress": "engine.cells",
    "estimate": "inference",
    "events": "inference.weights",
    "experiments.recipe": "experiments.sweep.recipe",
    "experiments.reproduce": "reproduce",
    "hints": "privacy",
    "matching": "designs.matching",
    "parallel": "cluster",
    "parallel.ledger": "engine.ledger",
    "parallel.profiles": "cluster.kinds",
    "perturb.columns": "perturb.base",
    "records": "data.codebook",
    "report.html": "report",
    "search.front": "search.optimize",
    "search.objectives": "search.problem",
    "search.toolbox": "search.operators",
    "tables": "inference.tables",
    "uncertainty": "inference.uncertainty",
}
"""New names by old ones, both below the package; what lies below an old name went along."""

PACKAGE = "ppdm_dask"


def new_name(name: str) -> str | None:
    """New full name of a module; None for one that has not moved."""
    package, _, rest = name.partition(".")
    if package != PACKAGE:
        return None
    old = rest
    while old:
        if old in MOVED:
            return f"{PACKAGE}.{MOVED[old]}{rest[len(old) :]}"
        old = old.rpartition(".")[0]
    return None


def moved_attribute(package: str, moved: dict[str, str], name: str) -> Any:
    """What a package had under a name that is in another module now; said when it is asked for.

    Parameters
    ----------
    package : str
        Full name.
    moved : dict
        Modules below ``ppdm_dask`` by the names that went there.
    """
    if name not in moved:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    home = f"{PACKAGE}.{moved[name]}"
    warnings.warn(
        f"{package}.{name} is {home}.{name} now; the old name will be removed in the next release",
        DeprecationWarning,
        stacklevel=3,
    )
    return getattr(import_module(home), name)


class _Finder:
    """Finds modules by their old names, where no file has that name any more."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if new_name(name) is None:
            return None
        # Anything may have lain below; whatever did not is not found by its new name either.
        return ModuleSpec(name, _Loader(), is_package=True)  # type: ignore[arg-type]


class _Earlier(ModuleType):
    """A module under its old name, which a function of the package may have now."""

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        # The import system puts the module in the place of the function.
        return getattr(self, self.__name__.rpartition(".")[2])(*arguments, **keywords)


class _Loader:
    @staticmethod
    def create_module(spec: ModuleSpec) -> ModuleType:
        return _Earlier(spec.name)

    @staticmethod
    def exec_module(module: ModuleType) -> None:
        name = new_name(module.__name__)
        assert name is not None
        try:
            found = import_module(name)
        except ModuleNotFoundError as error:
            if error.name != name:
                raise
            raise ModuleNotFoundError(
                f"No module named {module.__name__!r}", name=module.__name__
            ) from None
        warnings.warn(
            f"{module.__name__} is {name} now; the old name will be removed in the next release",
            DeprecationWarning,
            stacklevel=2,
        )

        def forward(attribute: str) -> Any:
            return getattr(found, attribute)

        module.__dict__["__getattr__"] = forward
        module.__doc__ = found.__doc__


def install() -> None:
    """Make old names known to the import system, after everything that is there."""
    if not any(finder is _Finder for finder in sys.meta_path):
        sys.meta_path.append(_Finder)
