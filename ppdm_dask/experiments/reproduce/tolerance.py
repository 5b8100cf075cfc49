"""How far apart two figures may be that were computed with other libraries or on another processor.

Means and estimates
    ``|found - expected| <= t sqrt(se_expected^2 + se_found^2)``, where t is the two-sided quantile
    of Student's t at ``FALSE_ALARM / m`` for the m such cells of the recipe (Bonferroni), with
    Welch's degrees of freedom.  Where there are fewer than ``FEW`` repeats a standard error says
    little, so it is at least the pooled one of its variable and method: the root mean square of the
    relative standard errors, times the mean.
Values without a standard error
    Texts and whole numbers are equal; other numbers agree to ``RELATIVE`` of the golden's and
    ``ABSOLUTE``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from ppdm_dask.experiments.reproduce.summary import Figure, Summary, Value

__all__ = [
    "ABSOLUTE",
    "FALSE_ALARM",
    "FEW",
    "RELATIVE",
    "Spread",
    "bound",
    "group",
    "is_close",
    "pools",
    "standard_error",
]

FALSE_ALARM = 1e-4
"""Probability that any cell of a recipe is taken for drift when its draws alone are others."""

FEW = 10
"""Repeats below which standard errors are pooled."""

RELATIVE = 1e-6
ABSOLUTE = 1e-12


@dataclass(frozen=True)
class Spread:
    """A pooled standard error.

    Parameters
    ----------
    relative : float
        Of the mean; 0 without pooling.
    freedom : int
        Degrees of freedom behind it.
    """

    relative: float = 0.0
    freedom: int = 0


def is_close(expected: Value, found: Value) -> bool:
    """Whether two values without standard errors agree."""
    if isinstance(expected, float) or isinstance(found, float):
        if isinstance(expected, int | float) and isinstance(found, int | float):
            if math.isinf(expected) or math.isinf(found):
                return expected == found
            return abs(found - expected) <= RELATIVE * abs(expected) + ABSOLUTE
        return False
    return expected == found


def bound(cells: int, expected: Figure, found: Figure, pooled: Spread) -> float:
    """Return the quantile t for one of so many cells.

    Parameters
    ----------
    cells : int
        With a standard error, in the recipe.
    expected, found : Figure
        With standard errors.
    pooled : Spread
        Of their variable and method.
    """
    from scipy import stats

    freedom = float(pooled.freedom) if pooled.freedom else _welch(expected, found)
    return float(stats.t.isf(FALSE_ALARM / (2 * cells), freedom))


def _welch(expected: Figure, found: Figure) -> float:
    """Welch's degrees of freedom; those of either alone where the other has no spread."""
    parts = [(figure.se or 0.0, figure.n - 1) for figure in (expected, found)]
    total = sum(se**2 for se, _ in parts)
    if total == 0 or min(n for _, n in parts) < 1:
        return float(max(1, *(n for _, n in parts)))
    # Divided first, or squares of small numbers vanish.
    return 1.0 / sum((se**2 / total) ** 2 / n for se, n in parts)


def pools(expected: Summary, found: Summary) -> dict[str, Spread]:
    """Return the pooled standard errors of a variable with few repeats, by method.

    Parameters
    ----------
    expected, found : Summary
        Of the same variable.

    Returns
    -------
    dict of str to Spread
        By :func:`group`; empty where there are repeats enough.
    """
    squares: dict[str, list[float]] = {}
    runs: dict[str, dict[str, int]] = {}
    for which, summary in enumerate((expected, found)):
        for label, figure in summary.cells.items():
            if not _is_few(figure):
                continue
            key = group(label)
            squares.setdefault(key, []).append(
                (float(figure.se or 0) / float(figure.value or 1)) ** 2
            )
            # Levels of one front move together: a front counts once.
            run = f"{which} {_without_level(label)}"
            runs.setdefault(key, {})[run] = figure.n - 1
    return {
        key: Spread(math.sqrt(float(np.mean(values))), sum(runs[key].values()))
        for key, values in squares.items()
    }


def _is_few(figure: Figure) -> bool:
    return figure.se is not None and 2 <= figure.n < FEW and bool(figure.value)


def group(label: str) -> str:
    """Return what a cell shares a relative spread with: the cells of its method, if it has one."""
    return next((part for part in _parts(label) if part.startswith("method=")), "")


def _without_level(label: str) -> str:
    return " ".join(part for part in _parts(label) if not part.startswith("level="))


def _parts(label: str) -> Iterable[str]:
    return label.split(" ")


def standard_error(figure: Figure, pooled: Mapping[str, Spread], label: str) -> float:
    """Return a figure's standard error, raised to the pooled one where repeats are few."""
    own = figure.se or 0.0
    if not _is_few(figure) or not isinstance(figure.value, int | float):
        return own
    return max(own, pooled.get(group(label), Spread()).relative * abs(figure.value))
