"""What a shell completes beside options and files: names that the package knows without loading."""

from __future__ import annotations

from ppdm_dask import resources

__all__ = ["profile_names", "recipe_names"]


def recipe_names(incomplete: str) -> list[str]:
    """Recipes of the package that begin so."""
    return [name for name in resources.recipes() if name.startswith(incomplete)]


def profile_names(incomplete: str) -> list[str]:
    """Cluster profiles of the package that begin so."""
    return [name for name in resources.profiles() if name.startswith(incomplete)]
