"""Functions of rooms above this one, by name, as entry points of another package would be.

`PLUGINS` names a function for each, and what calls it imports it by its name; so no room imports
one above it.  Designs ask for collections of Dask, the search for workers that evaluate an
objective, codebooks for proposals.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

__all__ = ["PLUGINS", "plugin"]

PLUGINS: dict[str, str] = {
    "dask": "ppdm_dask.cluster.reports:disguise",
    "population": "ppdm_dask.cluster.population:offered_map",
    "files": "ppdm_dask.survey.stored:open_reports",
    "parts": "ppdm_dask.survey.stored:write_parts",
    "proposal": "ppdm_dask.survey.proposal:propose_for_frame",
}
"""Module and function by name; see :func:`plugin`."""


def plugin(name: str) -> Callable[..., Any]:
    """The function that `PLUGINS` has under a name."""
    module, _, function = PLUGINS[name].partition(":")
    found: Callable[..., Any] = getattr(import_module(module), function)
    return found
