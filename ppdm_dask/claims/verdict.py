"""What a rule finds: a status, the number that decides, and how many cells say what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ppdm_dask.experiments.grid import ERRORS

STATUSES = ("reproduced", "differs", "undecided", "not judged", "not testable")

ROUNDING = 1e-9
"""Difference of exact numbers that is rounding."""


def number(value: float, error: float = 0.0) -> str:
    """Write a number with its standard error, with digits that the error leaves of use."""
    if not np.isfinite(value):
        return "none"
    if abs(value) < 1e-12 and not error > 0:
        return "0"  # what rounding leaves of it differs from machine to machine
    if not np.isfinite(error) or error <= 0:
        whole = float(value).is_integer() and abs(value) < 1e9
        return f"{value:,.0f}" if whole else f"{value:.5g}"
    if abs(value) < 1e-3 and error < 1e-3:
        return f"{value:.2e} ± {error:.1e}"
    # Two significant digits of the error, and the value to the same place.
    digits = max(0, min(6, 1 - int(np.floor(np.log10(error)))))
    return f"{value:.{digits}f} ± {error:.{digits}f}"


@dataclass(frozen=True)
class Comparison:
    """One cell's say: a margin above 0 is as claimed, with its standard error."""

    label: str
    margin: float
    error: float
    text: str
    figure: float

    @property
    def told(self) -> str:
        """The numbers, and where they are."""
        # A calculation has one cell, without a name.
        return f"{self.text} at {self.label}" if self.label else self.text

    @property
    def _doubt(self) -> float:
        # Without a standard error, as after one repeat, nothing is beyond doubt.
        return ERRORS * self.error + ROUNDING if np.isfinite(self.error) else np.inf

    @property
    def clear(self) -> bool:
        """Whether it is as claimed beyond doubt."""
        return bool(self.margin > self._doubt)

    @property
    def against(self) -> bool:
        """Whether it is against the claim beyond doubt."""
        return bool(self.margin < -self._doubt)


@dataclass(frozen=True)
class Row:
    """A printed number with ours."""

    label: str
    printed: float
    ours: float
    error: float
    tolerance: float


@dataclass(frozen=True)
class Verdict:
    """What the results say to a claim.

    Parameters
    ----------
    status : str
        One of :data:`STATUSES`.
    measured : str
        The numbers that decide, as text; for "not judged" and "not testable" the reason.
    figure, error : float, optional
        The number that decides and its standard error, 0 for an exact one.
    cells, against : int
        Comparisons made, and how many of them go clearly against the claim.
    rows : tuple of Row
        Printed numbers beside ours, for claims that print some.
    of : {"value", "difference", "change"}
        What the number that decides is.
    """

    status: str
    measured: str
    figure: float | None = None
    error: float | None = None
    cells: int = 0
    against: int = 0
    rows: tuple[Row, ...] = ()
    of: str = "value"


def decide(
    comparisons: Sequence[Comparison], share: float = 1.0, ties: bool = False, of: str = "value"
) -> Verdict:
    """Let comparisons, one or more, decide.

    `share` of them must not go clearly against the claim.  Where `ties` are as claimed none has to
    be so beyond doubt, else half of them do.  `of` says what the comparisons' figures are.
    """
    n = len(comparisons)
    against = sum(each.against for each in comparisons)
    clear = sum(each.clear for each in comparisons)
    worst = min(comparisons, key=_strength)
    # A claim on a trend survives single reversals up to its share, but has to hold clearly in half
    # of the cells: else it may be chance.
    if against > (1 - share) * n + ROUNDING:
        status = "differs"
    elif 2 * clear >= n or (ties and all(np.isfinite(each.error) for each in comparisons)):
        status = "reproduced"
    else:
        status = "undecided"
    least = "" if n == 1 else f"; {_count(n, clear, against)}"
    text = f"{worst.told}{least}"
    return Verdict(status, text, worst.figure, worst.error, n, against, of=of)


def _strength(each: Comparison) -> float:
    """How strongly a comparison speaks for a claim, to find the one that does so least."""
    # Below all others, however large their margins are: a clear contradiction has to be named.
    return each.margin - 1e12 if each.against else each.margin


def _count(n: int, clear: int, against: int) -> str:
    if against:
        return f"the worst of {n} comparisons, {against} clearly against"
    return f"the weakest of {n} comparisons, {clear} clearly as claimed"
