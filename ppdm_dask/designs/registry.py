"""The registry of design families: by id, to configurations and to the battery of tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from ppdm_dask.errors import DesignError
from ppdm_dask.shown import given

if TYPE_CHECKING:
    from ppdm_dask.designs.base import Design

__all__ = ["design_from_config", "families", "register"]

_FAMILIES: dict[str, type[Design]] = {}

Family = TypeVar("Family", bound="type[Design]")


def register(family: Family) -> Family:
    """Class decorator: make a family known by its ``id`` to configurations and to the battery."""
    if family.id in _FAMILIES:
        raise DesignError(f"two design families are called {family.id!r}", family)
    _FAMILIES[family.id] = family
    return family


def families() -> dict[str, type[Design]]:
    """Registered families by id, in alphabetical order."""
    return dict(sorted(_FAMILIES.items()))


def design_from_config(config: Mapping[str, Any]) -> Design:
    """Build the design that a configuration describes.

    Parameters
    ----------
    config : mapping
        ``id`` names the family, the other keys are its parameters, as :meth:`Design.config` gives
        them.

    Raises
    ------
    DesignError
        For an unknown family, an unknown or missing parameter, or an impossible value.
    """
    if not isinstance(config, Mapping):
        raise DesignError(f"design: got {given(config)}; a table with an id is needed", config)
    parameters = dict(config)
    name = parameters.pop("id", None)
    if not isinstance(name, str) or name not in _FAMILIES:
        known = ", ".join(families())
        raise DesignError(f"id: got {given(name)}; a design family is needed: {known}", name)
    return _FAMILIES[name].from_config(parameters)
