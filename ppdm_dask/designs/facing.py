"""How a design shows itself: what it is of, what it keeps, and a picture of its matrix."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product
from typing import TYPE_CHECKING, Any, ClassVar

from ppdm_dask.errors import InputError
from ppdm_dask.faces.face import Face, html_table, picture
from ppdm_dask.faces.listing import Listing
from ppdm_dask.faces.plots import MOST_CELLS, grid, grid_size
from ppdm_dask.shown import amount

if TYPE_CHECKING:
    from markupsafe import Markup
    from matplotlib.axes import Axes

__all__ = ["Facing"]

SMALL = 12
"""Categories or symbols up to which a notebook has the matrix."""


class Facing(Face):
    """The faces of a design; mixed into every one."""

    if TYPE_CHECKING:
        # What the contract has beside these methods.
        id: ClassVar[str]
        codebook: Any
        attributes: tuple[str, ...]
        shape: tuple[int, ...]

        @property
        def categories(self) -> Any: ...

        @property
        def blocks(self) -> tuple[Any, ...]: ...

        @property
        def n_true(self) -> int: ...

        @property
        def n_reported(self) -> int: ...

        @property
        def reported_shape(self) -> tuple[int, ...]: ...

        def matrix(self) -> Any: ...

        def epsilon(self) -> float: ...

    def _labels(self) -> list[tuple[str, ...]]:
        """Labels of each attribute: stated, those of the codebook, or numbers."""
        found = []
        for name, size, labels in zip(self.attributes, self.shape, self.categories, strict=True):
            if labels is None and self.codebook is not None and name in self.codebook.names:
                labels = self.codebook[name].categories
            fits = labels is not None and len(labels) == size
            found.append(tuple(labels) if fits else tuple(map(str, range(size))))
        return found

    def _named(self) -> tuple[list[str], list[str]]:
        """Names of the true categories, and of the reported symbols."""
        labels = self._labels()
        symbols = [
            own if len(own) == size else tuple(map(str, range(size)))
            for own, size in zip(labels, self.reported_shape, strict=True)
            # Symbols of several attributes may all stand in the column of the first.
            if size > 1 or len(own) == 1
        ]
        true, reported = ([", ".join(each) for each in product(*of)] for of in (labels, symbols))
        return true, reported

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the matrix: a column for each true category, a row for each report.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            By default the axes of a new figure.

        Raises
        ------
        InputError
            Beyond 64 categories or symbols; the blocks of a product may have fewer.
        """
        if max(self.n_true, self.n_reported) > MOST_CELLS:
            raise InputError(
                f"plot: {amount(self.n_true)} categories and {amount(self.n_reported)} symbols; "
                f"up to {MOST_CELLS} can be read: draw one of `blocks`",
                None,
            )
        true, reported = self._named()
        name = ", ".join(self.attributes)
        return grid(ax, self.matrix(), reported, true, x=f"{name}, true", y=f"{name}, reported")

    def _summary(self) -> Listing:
        """A row for each block."""
        rows = []
        for block in self.blocks:
            small = block.n_true * block.n_reported <= MOST_CELLS**2
            epsilon = block.epsilon() if small else math.nan
            rows.append(
                {
                    "design": block.id,
                    "attributes": ", ".join(block.attributes),
                    "categories": amount(block.n_true),
                    "symbols": amount(block.n_reported),
                    "epsilon": f"{epsilon:.4g}" if small else "",
                    "no inverse": block.undefined,
                }
            )
        shown = [name for name in rows[0] if name != "no inverse" or any(r[name] for r in rows)]
        return Listing.of({name: [row[name] for row in rows] for name in shown})

    def _said(self) -> str:
        return repr(self)

    def _shown(self) -> Iterator[Markup]:
        yield html_table(self._summary())
        if max(self.n_true, self.n_reported) <= SMALL:
            true, reported = self._named()
            yield picture(self.plot, *grid_size(reported, true), "Matrix of the design")
