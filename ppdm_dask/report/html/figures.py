"""Figures for a page: drawn for a wide and a narrow screen, embedded, and told in words."""

from __future__ import annotations

import base64
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ppdm_dask.report import style
from ppdm_dask.report.figures import draw_figures
from ppdm_dask.report.html.alternatives import describe

if TYPE_CHECKING:
    import xarray as xr

    from ppdm_dask.experiments.kinds import AnyRecipe

__all__ = ["embed_figures"]


def embed_figures(ds: xr.Dataset, recipe: AnyRecipe, folder: Path) -> list[dict[str, Any]]:
    """Draw the figures of a recipe into a folder, and return them for a page.

    Returns
    -------
    list of dict
        Of each figure ``id``, ``title``, ``alt`` (what it shows, with numbers), and ``wide`` and
        ``narrow``: pictures as data URLs.  An SVG within a page's ``img`` can run nothing and load
        nothing.
    """
    draw_figures(ds, recipe, folder)
    with tempfile.TemporaryDirectory() as scratch:
        with style.styled(narrow=True):
            draw_figures(ds, recipe, Path(scratch))
        return [
            {
                "id": figure.id,
                "title": figure.title,
                "alt": describe(ds, recipe, figure),
                "wide": _url(folder / f"{figure.id}.svg"),
                "narrow": _url(Path(scratch) / f"{figure.id}.svg"),
            }
            for figure in recipe.figures
        ]


def _url(path: Path) -> str:
    return "data:image/svg+xml;base64," + base64.b64encode(path.read_bytes()).decode()
