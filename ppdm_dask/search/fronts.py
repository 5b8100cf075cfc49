"""A picture of a front: error by privacy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ppdm_dask.errors import InputError
from ppdm_dask.faces.plots import lines

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes

__all__ = ["plot_front"]

WORDS = {
    "mse": "designs",
    "error": "designs, by the objective",
    "bound": "certified limit",
    "mse_alone": "attributes alone",
}


def plot_front(front: xr.Dataset, ax: Axes | None = None) -> Axes:
    """Draw a front on axes of matplotlib: errors against privacy.

    Parameters
    ----------
    front : Dataset
        Result of :func:`ppdm_dask.optimize` or of :func:`ppdm_dask.joint_front`; the privacy of the
        latter is the mean over its attributes.
    ax : matplotlib Axes, optional
        By default the axes of a new figure.

    Raises
    ------
    InputError
        For a data set that is not a front.
    """
    names = [name for name in WORDS if name in front]
    if "privacy" not in front or not names:
        raise InputError("front: a result of optimize() or joint_front() is needed", None)
    privacy = front["privacy"]
    if "attribute" in privacy.dims:
        privacy = privacy.mean("attribute")
    x, label = privacy.to_numpy(), "privacy: how often the best guess is wrong"
    if "epsilon" in front:
        x, label = front["epsilon"].to_numpy(), "epsilon"
    curves = [(WORDS[name], x, front[name].to_numpy()) for name in names]
    positive = all((of[of == of] > 0).all() for _, _, of in curves)
    return lines(ax, curves, x=label, y="mean squared error", log=positive)
