"""Compare a result with its golden: exactly if possible, otherwise within tolerances.

The tolerances apply to figures that were computed with other libraries or on another processor.

Means and estimates
    ``|found - expected| <= t sqrt(se_expected^2 + se_found^2)``, where t is the two-sided quantile
    of Student's t at ``FALSE_ALARM / m`` for the m such cells of the recipe (Bonferroni), with
    Welch's degrees of freedom.  With fewer than ``FEW`` repeats a standard error is unreliable, so
    it is raised to at least the pooled one of its variable and method: the root mean square of the
    relative standard errors, times the mean.
Values without a standard error
    Texts and whole numbers are equal; other numbers agree to ``RELATIVE`` of the golden's and
    ``ABSOLUTE``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ppdm_dask.reproduce.golden import Fingerprint, Golden, as_json, differences
from ppdm_dask.reproduce.summary import Figure, Summary, Value

__all__ = ["Drift"]


FALSE_ALARM = 1e-4
"""False-alarm rate per recipe when only the random draws change."""

FEW = 10
"""Repeats below which standard errors are pooled."""

# Other libraries sum in another order, so the last digits are theirs.
RELATIVE = 1e-6
ABSOLUTE = 1e-12


@dataclass(frozen=True)
class Spread:
    """A pooled standard error relative to the mean, and its degrees of freedom; 0 without one."""

    relative: float = 0.0
    freedom: int = 0


def is_close(expected: Value, found: Value) -> bool:
    """Whether two values without standard errors agree."""
    if isinstance(expected, float) or isinstance(found, float):
        if isinstance(expected, int | float) and isinstance(found, int | float):
            # An infinite MSE says that no matrix reaches the level: near is not enough.
            if math.isinf(expected) or math.isinf(found):
                return expected == found
            return abs(found - expected) <= RELATIVE * abs(expected) + ABSOLUTE
        return False
    return expected == found


def bound(cells: int, expected: Figure, found: Figure, pooled: Spread) -> float:
    """The quantile t for one of so many cells of a recipe that have standard errors."""
    from scipy import stats

    freedom = float(pooled.freedom) if pooled.freedom else _welch(expected, found)
    return float(stats.t.isf(FALSE_ALARM / (2 * cells), freedom))


def _welch(expected: Figure, found: Figure) -> float:
    """Welch's degrees of freedom; those of one where the other has no spread."""
    parts = [(figure.se or 0.0, figure.n - 1) for figure in (expected, found)]
    total = sum(se**2 for se, _ in parts)
    if total == 0 or min(n for _, n in parts) < 1:
        return float(max(1, *(n for _, n in parts)))
    # Divided first, or squares of small numbers vanish.
    return 1.0 / sum((se**2 / total) ** 2 / n for se, n in parts)


def pools(expected: Summary, found: Summary) -> dict[str, Spread]:
    """Pooled standard errors of a variable with few repeats, by :func:`group`.

    Empty where there are repeats enough.
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
            parts = (part for part in label.split(" ") if not part.startswith("level="))
            run = f"{which} {' '.join(parts)}"
            runs.setdefault(key, {})[run] = figure.n - 1
    return {
        key: Spread(math.sqrt(float(np.mean(values))), sum(runs[key].values()))
        for key, values in squares.items()
    }


def _is_few(figure: Figure) -> bool:
    return figure.se is not None and 2 <= figure.n < FEW and bool(figure.value)


def group(label: str) -> str:
    """Return the method of a cell, whose cells share a relative spread; empty without one."""
    return next((part for part in label.split(" ") if part.startswith("method=")), "")


def standard_error(figure: Figure, pooled: Mapping[str, Spread], label: str) -> float:
    """Return a figure's standard error, raised to the pooled one where repeats are few."""
    own = figure.se or 0.0
    if not _is_few(figure) or not isinstance(figure.value, int | float):
        return own
    return max(own, pooled.get(group(label), Spread()).relative * abs(figure.value))


Status = Literal["same", "within tolerance", "drifted", "failed"]


@dataclass(frozen=True)
class Drift:
    """A cell whose value has changed.

    Parameters
    ----------
    recipe, variable : str
    cell : str
        Label of the cell; empty if the variable has one value, or differs as a whole.
    units : str
    expected, found : Figure or None
        None if one side has no such cell.
    z : float or None
        ``(found - expected) / sqrt(se_expected^2 + se_found^2)``; None without standard errors.
    bound : float or None
        Largest absolute z allowed; None where the two have to be equal.
    """

    recipe: str
    variable: str
    cell: str
    units: str
    expected: Figure | None
    found: Figure | None
    z: float | None = None
    bound: float | None = None

    def config(self) -> dict[str, Any]:
        """Return the drift as JSON values."""
        return {
            "recipe": self.recipe,
            "variable": self.variable,
            "cell": self.cell,
            "units": self.units,
            "expected": _value(self.expected),
            "found": _value(self.found),
            "z": self.z,
            "bound": self.bound,
            "expected_se": self.expected.se if self.expected else None,
            "found_se": self.found.se if self.found else None,
            "expected_n": self.expected.n if self.expected else None,
            "found_n": self.found.n if self.found else None,
        }

    @property
    def size(self) -> float:
        """Size of the change: z if there is one, otherwise relative to the larger value."""
        return self._relative if self.z is None else abs(self.z)

    @property
    def _relative(self) -> float:
        values = [_value(self.expected), _value(self.found)]
        numbers = [float(v) for v in values if isinstance(v, int | float)]
        if len(numbers) < 2:
            return math.inf
        largest = max(map(abs, numbers))
        return abs(numbers[1] - numbers[0]) / largest if largest else 0.0


@dataclass(frozen=True)
class Comparison:
    """What a comparison found.

    Parameters
    ----------
    kind : {"exact", "tolerance"}
        To the bit, or within tolerances.
    status : {"same", "within tolerance", "drifted", "failed"}
    reasons : tuple of str
        Why it was not compared to the bit, and what else a reader must know.
    drifts : tuple of Drift
        Cells that differ, in the order of the golden.
    """

    kind: Literal["exact", "tolerance"]
    status: Status
    reasons: tuple[str, ...] = ()
    drifts: tuple[Drift, ...] = ()


def compare(
    golden: Golden,
    recipe_digest: str,
    digest: str,
    summaries: Mapping[str, Summary],
    fingerprint: Fingerprint,
) -> Comparison:
    """Compare a result with its golden.

    To the bit where the fingerprints of the environments match, else within tolerances.
    """
    reasons = differences(golden.fingerprint, fingerprint)
    # Only the environment decides how to compare: another recipe on the same one is a drift.
    exact = not reasons
    if golden.recipe_digest != recipe_digest:
        reasons.append("the recipe is another one than the golden's")
    if digest == golden.digest:
        if exact:
            return Comparison("exact", "same", tuple(reasons))
        return Comparison("tolerance", "within tolerance", (*reasons, "the digest is the same"))
    cells = list(_pairs(golden.summaries, summaries))
    if exact:
        # A cell that moved within its standard error is a drift too where bits must agree.
        drifts = [_exact(golden.recipe, *pair) for pair in cells if pair[2] != pair[3]]
        drifts += _unseen(golden, summaries, {drift.variable for drift in drifts})
        return Comparison("exact", "drifted", tuple(reasons), tuple(drifts))
    drifts = list(_beyond(golden, summaries, cells))
    status: Status = "drifted" if drifts else "within tolerance"
    return Comparison("tolerance", status, tuple(reasons), tuple(drifts))


Pair = tuple[Summary, str, Figure | None, Figure | None]


def _pairs(expected: Mapping[str, Summary], found: Mapping[str, Summary]) -> Iterator[Pair]:
    """All cells of either side, in the golden's order."""
    for name in dict.fromkeys([*expected, *found]):
        ours = expected[name].cells if name in expected else {}
        theirs = found[name].cells if name in found else {}
        summary = expected.get(name) or found[name]
        for label in dict.fromkeys([*ours, *theirs]):
            yield summary, label, ours.get(label), theirs.get(label)


def _exact(
    recipe: str, summary: Summary, label: str, expected: Figure | None, found: Figure | None
) -> Drift:
    z = None
    if expected and found:
        z = _z(expected, found, math.hypot(expected.se or 0.0, found.se or 0.0))
    return Drift(recipe, summary.name, label, summary.units, expected, found, z)


def _unseen(golden: Golden, summaries: Mapping[str, Summary], seen: set[str]) -> Iterator[Drift]:
    """Variables that differ though no summary of a cell does."""
    for name, summary in golden.summaries.items():
        if name in summaries and name not in seen and summaries[name].digest != summary.digest:
            ours, theirs = Figure(summary.digest), Figure(summaries[name].digest)
            yield Drift(golden.recipe, name, "", "digest", ours, theirs)


def _beyond(golden: Golden, summaries: Mapping[str, Summary], cells: list[Pair]) -> Iterator[Drift]:
    """Cells beyond their tolerance."""
    # Bonferroni: of thousands of cells one always lies far out.
    tested = sum(summary.kind == "mean" for summary, *_ in cells)
    pooled: dict[str, Mapping[str, Spread]] = {}
    for summary, label, expected, found in cells:
        name = summary.name
        if expected is None or found is None:
            # With other draws a search may reach a level that it did not, or miss one.
            if _is_partial(found, summaries.get(name)):
                continue
            if _is_partial(expected, golden.summaries.get(name)):
                continue
            yield Drift(golden.recipe, name, label, summary.units, expected, found)
            continue
        if name not in pooled:
            pooled[name] = pools(golden.summaries[name], summaries[name])
        drift = _test(golden.recipe, summary, label, expected, found, pooled[name], tested)
        if drift is not None:
            yield drift


def _test(
    recipe: str,
    summary: Summary,
    label: str,
    expected: Figure,
    found: Figure,
    pooled: Mapping[str, Spread],
    tested: int,
) -> Drift | None:
    """One cell; None if it is within its tolerance."""
    errors = [standard_error(figure, pooled, label) for figure in (expected, found)]
    total = math.hypot(*errors)
    z = _z(expected, found, total)
    if z is None:
        if is_close(expected.value, found.value) or _some_reach(expected, found):
            return None
        return Drift(recipe, summary.name, label, summary.units, expected, found)
    limit = bound(tested, expected, found, pooled.get(group(label), Spread()))
    # Close values pass too: a standard error may be next to nothing where repeats hardly vary.
    if abs(z) <= limit or is_close(expected.value, found.value):
        return None
    return Drift(recipe, summary.name, label, summary.units, expected, found, z, limit)


def _z(expected: Figure, found: Figure, total: float) -> float | None:
    values = expected.value, found.value
    numbers = [float(v) for v in values if isinstance(v, int | float) and math.isfinite(v)]
    if len(numbers) < 2 or not total > 0:
        return None
    return (numbers[1] - numbers[0]) / total


def _some_reach(expected: Figure, found: Figure) -> bool:
    """Whether a side has repeats that reach a level of a front and others that do not.

    Such a cell has no mean, and whether other draws reach the level is open.
    """
    return any(figure.value is None and figure.n > 0 for figure in (expected, found))


def _is_partial(figure: Figure | None, of: Summary | None) -> bool:
    """Whether some repeats have no number here, as at a level that few searches reach."""
    if figure is None or of is None:
        return False
    return 0 < figure.n < max(other.n for other in of.cells.values())


def _value(figure: Figure | None) -> Any:
    return as_json(figure.value) if figure else None
