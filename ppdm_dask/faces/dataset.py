"""A result as a data set: value, error and interval with labels, and what they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ppdm_dask.extras import named

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["FOUR", "dataset_of"]

FOUR = ("value", "error", "low", "high")
"""Variables of every :meth:`to_dataset`."""


def dataset_of(
    labels: Mapping[str, Sequence[str]],
    numbers: Sequence[Any],
    *,
    units: str,
    level: float,
    interval: str,
    further: Mapping[str, Any] | None = None,
    **attrs: str | float,
) -> xr.Dataset:
    """A data set of estimates.

    Parameters
    ----------
    labels : mapping of axis to labels
        An axis with the name of a variable gets a ``_`` at its end.
    numbers : sequence of four arrays
        Values, standard errors, lower and upper ends, each with the axes of `labels`.
    units : str
        Of all of them.
    level : float
        Of the interval.
    interval : str
        Its method.
    further : mapping of str to array, optional
        Variables beside the four, of the same axes.
    **attrs
        Further attributes, such as ``method`` and ``design_digest``; empty ones are left out.

    Returns
    -------
    xarray.Dataset
        ``value``, ``error``, ``low``, ``high``, and the further variables.
    """
    with named("to_dataset"):
        import xarray as xr

    variables_of = {**dict(zip(FOUR, numbers, strict=True)), **(further or {})}
    axes = {}
    for axis, of in labels.items():
        name = axis
        while name in variables_of or name in axes:
            name += "_"
        axes[name] = list(of)
    shape = tuple(map(len, axes.values()))
    about = {
        "value": {"units": units},
        "error": {"units": units, "long_name": "standard error"},
        "low": {"units": units, "long_name": "lower end of the interval"},
        "high": {"units": units, "long_name": "upper end of the interval"},
    }
    variables = {
        name: (tuple(axes), np.asarray(values).reshape(shape), about.get(name, {}))
        for name, values in variables_of.items()
    }
    said = {"units": units, "level": level, "interval": interval, **attrs}
    return xr.Dataset(variables, axes, {k: v for k, v in said.items() if v != ""})
