"""How a run shows itself: what it is, its tables' notes, and its figures."""

from __future__ import annotations

import base64
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from ppdm_dask.errors import InputError
from ppdm_dask.experiments.kinds import kind_of
from ppdm_dask.faces.face import Face
from ppdm_dask.faces.plots import axes_for
from ppdm_dask.shown import given, listed

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes

    from ppdm_dask.experiments.kinds import AnyRecipe

__all__ = ["RunFace"]


class RunFace(Face):
    """The faces of a run; mixed into what holds a result."""

    if TYPE_CHECKING:
        dataset: xr.Dataset

        @property
        def recipe(self) -> AnyRecipe: ...

    @abstractmethod
    def _state(self) -> str: ...

    def plot(self, ax: Axes | None = None, figure: str | None = None) -> Axes:
        """Show a figure of the recipe on axes of matplotlib, as the report has it.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            By default the axes of a new figure.
        figure : str, optional
            Its id; by default the first.

        Raises
        ------
        InputError
            If the recipe has no such figure.
        """
        from matplotlib.image import imread

        wanted = self._figure(figure)
        with TemporaryDirectory() as folder:
            drawn = _draw(self.dataset, self.recipe, wanted, Path(folder))
            pixels = imread(drawn["png"])
        high, wide = pixels.shape[:2]
        ax = axes_for(ax, 7.2, 7.2 * high / wide)
        # Its scales and panels are in the picture.
        ax.imshow(pixels, interpolation="antialiased")
        ax.set_axis_off()
        return ax

    def _figure(self, wanted: str | None) -> Any:
        figures = {figure.id: figure for figure in self.recipe.figures}
        if not figures or (wanted is not None and wanted not in figures):
            raise InputError(
                f"figure: got {given(wanted)}; the recipe has {listed(figures) or 'none'}", wanted
            )
        return figures[wanted] if wanted is not None else next(iter(figures.values()))

    def _said(self) -> str:
        sizes = ", ".join(f"{name} {size:,}" for name, size in self.dataset.sizes.items())
        return f"{type(self).__name__} of {self.recipe.name}, {self._state()}\n{sizes}"

    def _shown(self) -> Iterator[Markup]:
        recipe, kind = self.recipe, kind_of(self.recipe)
        for figure in recipe.figures[:1]:
            with TemporaryDirectory() as folder:
                drawn = _draw(self.dataset, recipe, figure, Path(folder))
                data = base64.b64encode(drawn["svg"].read_bytes()).decode("ascii")
            words = kind.describe(self.dataset, recipe, figure)
            yield Markup('<img alt="{}" src="data:image/svg+xml;base64,{}">').format(words, data)
        notes = kind.notes(self.dataset)
        yield Markup("").join(Markup("<p>{}</p>").format(note) for note in notes)


def _draw(dataset: xr.Dataset, recipe: AnyRecipe, figure: Any, folder: Path) -> Mapping[str, Path]:
    """Files of one figure, by their kind."""
    one: Any = replace(recipe, figures=(figure,))
    paths = kind_of(recipe).draw_figures(dataset, one, folder)
    return {path.suffix[1:]: path for path in paths}
