"""Where recipes, codebooks and cluster profiles lie, in a checkout and in an installed package."""

from __future__ import annotations

import difflib
import os
from pathlib import Path

from ppdm_dask.errors import CodebookError, InputError, PPDMError, ProfileError, RecipeError
from ppdm_dask.shown import shown

__all__ = [
    "cluster_dir",
    "codebook_path",
    "errata_path",
    "pipelines_dir",
    "profile_path",
    "profiles",
    "recipe_path",
    "recipes",
]

_PACKAGE = Path(__file__).resolve().parent


def pipelines_dir() -> Path:
    """Folder of the recipes that come with the package.

    Raises
    ------
    PPDMError
        If the installation has lost its data files.
    """
    return _shipped("pipelines", "no recipes found")


def cluster_dir() -> Path:
    """Folder of the cluster profiles that come with the package.

    Raises
    ------
    PPDMError
        If the installation has lost its data files.
    """
    return _shipped("cluster", "no cluster profiles found")


def errata_path() -> Path:
    """The page of the papers' errata.

    Raises
    ------
    PPDMError
        If the installation has lost it.
    """
    return _shipped("docs/errata.md", "the errata are missing")


def recipes() -> list[str]:
    """Names of the recipes that come with the package, sorted."""
    return _names(pipelines_dir())


def profiles() -> list[str]:
    """Names of the cluster profiles that come with the package, sorted."""
    return _names(cluster_dir())


def recipe_path(name_or_path: str | os.PathLike[str]) -> Path:
    """File of a recipe.

    Parameters
    ----------
    name_or_path : str or path
        A bare name, such as "electronic-surveys", means a recipe of the package. Whatever ends in
        ``.toml``, has a folder in it or is a path object is taken as the path of a file, as it is.

    Raises
    ------
    RecipeError
        If no recipe of the package has that name.
    """
    return _find(name_or_path, pipelines_dir(), "recipe", RecipeError)


def codebook_path(name_or_path: str | os.PathLike[str]) -> Path:
    """File of a codebook, by the rules of :func:`recipe_path`; "adult" is one of the package.

    Raises
    ------
    CodebookError
        If no codebook of the package has that name.
    """
    return _find(name_or_path, pipelines_dir() / "codebooks", "codebook", CodebookError)


def profile_path(name_or_path: str | os.PathLike[str]) -> Path:
    """File of a cluster profile, by the rules of :func:`recipe_path`; "local" is of the package.

    Raises
    ------
    ProfileError
        If no profile of the package has that name.
    """
    return _find(name_or_path, cluster_dir(), "cluster profile", ProfileError)


def _shipped(name: str, lost: str) -> Path:
    # A wheel carries files inside the package; a checkout has them beside the package.
    for folder in (_PACKAGE / "_data", _PACKAGE.parent):
        if (folder / name).exists():
            return folder / name
    raise PPDMError(f"{_PACKAGE}: {lost}; install the package again", _PACKAGE)


def _names(folder: Path) -> list[str]:
    return sorted(path.stem for path in folder.glob("*.toml"))


def _find(
    name_or_path: str | os.PathLike[str], folder: Path, what: str, error: type[InputError]
) -> Path:
    path = Path(name_or_path)
    if not isinstance(name_or_path, str) or path.suffix == ".toml" or path.name != name_or_path:
        return path
    names = _names(folder)
    if name_or_path in names:
        return folder / f"{name_or_path}.toml"
    close = difflib.get_close_matches(name_or_path, names, n=1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    raise error(
        f"no {what} is called {shown(name_or_path)}; {hint}there are: {', '.join(names)}; "
        "or give the path of a .toml file",
        name_or_path,
    )
