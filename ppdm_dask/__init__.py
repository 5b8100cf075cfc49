"""Privacy-preserving data mining by randomization, on Dask.

A randomization design is a column-stochastic matrix P with ``reported = P @ true``; estimates,
miners and privacy measures all follow from it. The public names below are imported when they are
first used, so that ``import ppdm_dask`` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ppdm_dask import datasets, perturb, privacy, resources
    from ppdm_dask.data.codebook import Attribute, Codebook
    from ppdm_dask.data.records import Records, Reports
    from ppdm_dask.designs import (
        Design,
        Identity,
        KaryResponse,
        MultiGroup,
        Product,
        RRMatrix,
        UnrelatedQuestion,
        Warner,
        design_from_config,
    )
    from ppdm_dask.errors import InputError, NotInvertible, NotLumpable, PPDMError
    from ppdm_dask.experiments.run import run
    from ppdm_dask.experiments.sweep.recipe import Recipe
    from ppdm_dask.inference import Estimate, em, estimate_proportions, event_interval, invert, mle
    from ppdm_dask.inference.events import event_weights
    from ppdm_dask.inference.proportions import proportion
    from ppdm_dask.inference.stratified import Stratified
    from ppdm_dask.inference.tables import ContingencyTable, count
    from ppdm_dask.inference.uncertainty import Proportion
    from ppdm_dask.mine import ID3, NaiveBayes
    from ppdm_dask.randomness import Stream
    from ppdm_dask.search.front import chosen_design
    from ppdm_dask.search.optimize import optimize

__version__ = "0.1.0"

__all__ = [
    "ID3",
    "Attribute",
    "Codebook",
    "ContingencyTable",
    "Design",
    "Estimate",
    "Identity",
    "InputError",
    "KaryResponse",
    "MultiGroup",
    "NaiveBayes",
    "NotInvertible",
    "NotLumpable",
    "PPDMError",
    "Product",
    "Proportion",
    "RRMatrix",
    "Recipe",
    "Records",
    "Reports",
    "Stratified",
    "Stream",
    "UnrelatedQuestion",
    "Warner",
    "__version__",
    "chosen_design",
    "count",
    "datasets",
    "design_from_config",
    "em",
    "estimate_proportions",
    "event_interval",
    "event_weights",
    "invert",
    "mle",
    "optimize",
    "perturb",
    "privacy",
    "proportion",
    "resources",
    "run",
]

_MODULES = ("datasets", "perturb", "privacy", "resources")

_HOMES = {
    name: module
    for module, names in {
        "codebook": ("Attribute", "Codebook"),
        "designs": (
            "Design",
            "Identity",
            "KaryResponse",
            "MultiGroup",
            "Product",
            "RRMatrix",
            "UnrelatedQuestion",
            "Warner",
            "design_from_config",
        ),
        "errors": ("InputError", "NotInvertible", "NotLumpable", "PPDMError"),
        "estimate": (
            "Estimate",
            "em",
            "estimate_proportions",
            "event_interval",
            "invert",
            "mle",
        ),
        "designs.stratified": ("Stratified",),
        "estimate.proportions": ("proportion",),
        "events": ("event_weights",),
        "uncertainty": ("Proportion",),
        "experiments.recipe": ("Recipe",),
        "experiments.run": ("run",),
        "mine": ("ID3", "NaiveBayes"),
        "randomness": ("Stream",),
        "records": ("Records", "Reports"),
        "search.front": ("chosen_design",),
        "search.optimize": ("optimize",),
        "tables": ("ContingencyTable", "count"),
    }.items()
    for name in names
}


def __getattr__(name: str) -> Any:
    """Import a public name on first use (PEP 562)."""
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
