"""The figure of PSE, the privacy of a single entry, against an axis of the grid."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ppdm_dask.experiments.results import grid_axes
from ppdm_dask.report import layout, style
from ppdm_dask.report.series import Series, series_of

if TYPE_CHECKING:
    import xarray as xr

    from ppdm_dask.experiments.recipe import Figure

__all__ = ["draw_privacy"]

LABELS = 0.42
"""Room for labels at the left of the curves, in widths of the axis."""


def draw_privacy(ds: xr.Dataset, figure: Figure, folder: Path) -> list[Path]:
    """Draw the PSE of single binary attributes, and of each data entry's least private one."""
    import matplotlib as mpl
    from matplotlib.lines import Line2D

    below = (
        "grey: one binary attribute, 1 with probability $W_a$; "
        "colour: each data set's least private"
    )
    canvas, axes = layout.new_figure(figure.title, below)
    labels: list[tuple[float, str, Any]] = []
    axis = figure.x_axis(grid_axes(ds))
    others = [other for other in grid_axes(ds) if other != axis]
    first = ds.isel(dict.fromkeys(others, 0)).sortby(axis)
    x = np.asarray(first[axis].to_numpy(), dtype=float)
    ramp = mpl.colormaps["Greys"]
    for i, w_a in enumerate(figure.w_a):
        pse = first["pse_curve"].sel(w_a=w_a).to_numpy()
        colour = ramp(0.45 + 0.5 * (i + 1) / len(figure.w_a))
        axes.plot(x, pse, color=colour, linewidth=1.3)
        labels.append((float(np.max(pse)), f"$W_a$ = {w_a:g}", colour))
    markers = [""] * len(labels)
    drawn: list[tuple[str, list[float]]] = []
    for line in series_of(ds, figure) if "pse" in ds else []:
        pse = line.column("pse")
        # Another axis may make no difference: an attribute's own report says nothing of groups.
        if (line.entry, pse.tolist()) not in drawn:
            drawn.append((line.entry, pse.tolist()))
            axes.plot(line.x, pse, color=line.colour, marker=line.marker, markersize=4.5)
            markers.append(line.marker)
            labels.append((float(np.max(pse)), _least_private(ds, line), line.colour))
    axes.set_ylim(bottom=0)
    axes.set_xlabel(style.WORDS.get(axis, axis))
    axes.set_ylabel("PSE: chance that a guess from one answer is wrong")
    if style.is_narrow():
        layout.legend(
            axes,
            [
                Line2D([], [], color=colour, label=text, marker=marker, markersize=4.5)
                for (_, text, colour), marker in zip(labels, markers, strict=True)
            ],
        )
        return style.save(canvas, folder, figure.id)
    # The curves meet at the right; they are told apart, and labelled, at the left.
    width = float(np.ptp(x)) or 1.0
    inside = 1e-9 * width
    ticks = [t for t in axes.get_xticks() if x.min() - inside <= t <= x.max() + inside]
    axes.set_xlim(x.min() - LABELS * width, x.max() + 0.02 * width)
    axes.set_xticks(ticks)
    style.write_labels(axes, labels, x=(LABELS - 0.02) / (LABELS + 1.02), align="right")
    return style.save(canvas, folder, figure.id)


def _least_private(ds: xr.Dataset, line: Series) -> str:
    """Name a line after its data entry and the attribute with the smallest PSE."""
    entry = f"{line.entry}/"
    columns = ds["column"].to_numpy()
    own = [i for i, column in enumerate(columns) if str(column).startswith(entry)]
    pse = ds["pse_attribute"].isel(column=own)
    by_attribute = pse.mean([dim for dim in pse.dims if dim != "column"]).to_numpy()
    least = int(np.argmin(by_attribute))
    return f"{line.name}: {str(columns[own[least]]).removeprefix(entry)}"
