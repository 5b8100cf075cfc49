"""Numbers of figures in words, for those who cannot see them."""

from __future__ import annotations

import numpy as np

from ppdm_dask.arrays import Floats

__all__ = ["course", "span"]


def course(axis: str, x: Floats, y: Floats, form: str) -> str:
    """The course of a line: its ends, and its extremes where they lie between."""
    there = np.isfinite(y)
    x, y = x[there], y[there]
    if not x.size:
        return "no numbers yet"
    text = f"{_told(y[0], form)} at {axis} = {x[0]:.3g}"
    for which, i in (("least", int(np.argmin(y))), ("most", int(np.argmax(y)))):
        if 0 < i < len(x) - 1 and y[i] not in (y[0], y[-1]):
            text += f", {which} {_told(y[i], form)} at {x[i]:.3g}"
    return text + (f", {_told(y[-1], form)} at {x[-1]:.3g}" if x.size > 1 else "")


def _told(value: float, form: str) -> str:
    """A number; 0 where it is one, and no 0 with a sign."""
    text = f"{value:{form}}"
    return text.removeprefix("-") if float(text) == 0 and value else text if value else "0"


def span(values: Floats, form: str) -> str:
    """The least and the largest of the numbers that are known."""
    known = values[np.isfinite(values)]
    if not known.size:
        return "not known"
    return f"from {known.min():{form}} to {known.max():{form}}"
