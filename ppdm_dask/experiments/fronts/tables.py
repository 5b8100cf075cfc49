"""Results of searches as tables of text, and as plain values for JSON.

Beside it: what a reader of fronts must know: where a search falls behind Warner's matrices.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ppdm_dask.arrays import Floats
from ppdm_dask.drawing.tables import plain_table, plain_value
from ppdm_dask.search.rays import listable

if TYPE_CHECKING:
    import xarray as xr
    from rich.table import Table

__all__ = [
    "as_json",
    "findings",
    "is_attained",
    "mean_line",
    "notes",
    "tables",
    "undefined_cases",
]


WORSE = 1e-9
"""Relative excess over Warner's MSE that is no rounding."""


def findings(ds: xr.Dataset) -> list[str]:
    """Sentences on levels at which Warner's best matrix beats a search, and on missing priors."""
    return [*_behind_warner(ds), *_dropped(ds)]


def _behind_warner(ds: xr.Dataset) -> Iterator[str]:
    methods = [str(name) for name in ds["method"].to_numpy()]
    levels = ds["level"].to_numpy()
    warner = ds["mse"].isel(method=methods.index("warner"))
    for i, case in enumerate(ds["case"].to_numpy()):
        for m, method in enumerate(methods):
            if method == "warner":
                continue
            for repeat in range(ds.sizes["repeat"]):
                own = ds["mse"].to_numpy()[i, m, repeat]
                other = warner.to_numpy()[i, repeat]
                both = np.isfinite(own) & np.isfinite(other)
                worse = both & (own > other * (1 + WORSE))
                if worse.any():
                    most = float((own[worse] / other[worse]).max())
                    at = ", ".join(f"{f:g}" for f in levels[worse])
                    yield (
                        f"{case}: in repeat {repeat} {method} is behind Warner's matrices at "
                        f"f = {at}, by a factor of up to {most:.4f}."
                    )


def _dropped(ds: xr.Dataset) -> Iterator[str]:
    for case, count in zip(ds["case"].to_numpy(), ds["dropped"].to_numpy(), strict=True):
        if count > 0:
            yield f"{case}: {count} bins in which no value lies were left out."


SHOWN = (0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.95)
"""Levels f in the tables."""


def as_json(ds: xr.Dataset) -> dict[str, Any]:
    """Return a result as JSON values: a case each, with its levels and methods."""
    levels = ds["level"].to_numpy()
    cases = []
    for i, name in enumerate(ds["case"].to_numpy()):
        part = ds.isel(case=i)
        row: dict[str, Any] = {"case": str(name)}
        keys = ("delta", "p_max", "categories", "dropped", "undefined")
        row |= {key: plain_value(part[key].item()) for key in keys}
        if not row["undefined"]:
            row["attained"] = is_attained(part)
            row["levels"] = [
                {
                    "f": float(f),
                    "privacy": plain_value(part["privacy"].to_numpy()[k]),
                    "limit": plain_value(part["limit"].to_numpy()[k]),
                }
                for k, f in enumerate(levels)
            ]
            row["methods"] = {
                str(method): _method(part.isel(method=m))
                for m, method in enumerate(ds["method"].to_numpy())
                if part["completed"].to_numpy()[m]
            }
        cases.append(row)
    return {"cases": cases}


def _method(part: xr.Dataset) -> dict[str, Any]:
    trials = ("hypervolume", "median_ratio", "privacy_min", "privacy_max")
    found: dict[str, Any] = {"completed": int(part["completed"])}
    found |= {key: [plain_value(v) for v in part[key].to_numpy()] for key in trials}
    for key in ("mse", "iterative_mse"):
        values = part[key].to_numpy()
        found[key] = [[_finite(v) for v in row] for row in values]
    return found


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def tables(ds: xr.Dataset) -> Iterator[tuple[str, Table]]:
    """Headings and tables, two a case: MSE over limit by level, and whole fronts."""
    at = [int(np.argmin(np.abs(ds["level"].to_numpy() - f))) for f in SHOWN]
    for i, name in enumerate(ds["case"].to_numpy()):
        part = ds.isel(case=i)
        if str(part["undefined"].item()):
            continue
        privacy, limit = part["privacy"].to_numpy(), part["limit"].to_numpy()
        ratios, whole = [], []
        for m, method in enumerate(ds["method"].to_numpy()):
            done = int(part["completed"].to_numpy()[m])
            if not done:
                continue
            mse = part["mse"].to_numpy()[m] / limit
            ratios.append([str(method), *(_mean(mse[:, k]) for k in at)])
            spans = [part[key].to_numpy()[m] for key in ("privacy_min", "privacy_max")]
            whole.append(
                [
                    str(method),
                    str(done),
                    _mean(part["hypervolume"].to_numpy()[m]),
                    _mean(part["median_ratio"].to_numpy()[m]),
                    f"{_mean(spans[0])} ... {_mean(spans[1])}",
                ]
            )
        header = ["privacy", *(f"{privacy[k]:.3f}" for k in at)]
        heading = f"{name}: {int(part['categories'])} categories, p max {float(part['p_max']):.4f}"
        right = range(1, len(header))
        yield f"{heading}\nMSE / certified limit, by level", plain_table(header, ratios, right)
        columns = ["method", "repeats", "hypervolume", "median MSE / limit", "privacy"]
        yield f"{name}: the whole front", plain_table(columns, whole, (1, 2, 3, 4))


def _mean(values: Floats) -> str:
    """Mean over the repeats that are there; a dash where a repeat has no matrix."""
    there = values[~np.isnan(values)]
    if not there.size:
        return ""
    return f"{there.mean():.3f}" if np.isfinite(there).all() else "-"


def undefined_cases(ds: xr.Dataset) -> list[str]:
    """Which cases are undefined, and why."""
    pairs = zip(ds["case"].to_numpy(), ds["undefined"].to_numpy(), strict=True)
    return [f"{case}: {reason}" for case, reason in pairs if reason]


def notes(ds: xr.Dataset) -> list[str]:
    """Say which cases are undefined, and why, and which limits no design need attain."""
    found = [f"undefined: {case}" for case in undefined_cases(ds)]
    for i, case in enumerate(ds["case"].to_numpy()):
        part = ds.isel(case=i)
        if not str(part["undefined"].item()) and not is_attained(part):
            found.append(
                f"{case}: with {int(part['categories'])} categories the certified limit may lie "
                "lower than what is possible"
            )
    return found


def is_attained(part: xr.Dataset) -> bool:
    """Whether designs attain the limit of a case; otherwise it is a lower bound."""
    return listable(int(part["categories"]), float(part["delta"]))


def mean_line(part: xr.Dataset, method: int, *, iterative: bool) -> Floats | None:
    """Mean error of a case's searches at its levels of privacy; None where there is no search.

    Not a number left of the least private matrix that they find, for there the front would only go
    on level.

    Parameters
    ----------
    part : xarray.Dataset
        A result at one case.
    method : int
        Position on the axis of methods.
    iterative : bool
        Whether the error is that of the iterative estimator.
    """
    values = part["iterative_mse" if iterative else "mse"].to_numpy()[method]
    values = np.where(np.isfinite(values), values, np.nan)
    there = ~np.isnan(values).all(axis=1)
    if not there.any():
        return None
    least = part["privacy_min"].to_numpy()[method][there].mean()
    line: Floats = np.where(part["privacy"].to_numpy() >= least, values[there].mean(axis=0), np.nan)
    return line
