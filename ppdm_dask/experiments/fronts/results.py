"""Results of fronts: variables, findings, tables, JSON and figures."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ppdm_dask.arrays import Floats
from ppdm_dask.drawing import style
from ppdm_dask.drawing.texts import course, plain_table, plain_value
from ppdm_dask.experiments.variables import Variable
from ppdm_dask.search.rays import listable

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from rich.table import Table

    from ppdm_dask.experiments.fronts.recipe import FrontFigure, FrontRecipe


WORSE = 1e-9
"""Relative excess over Warner's MSE that is more than rounding."""


def error_of(ds: xr.Dataset) -> str:
    """The variable with the errors: the MSE, or the one of the recipe's own objective."""
    return "error" if "error" in ds else "mse"


def findings(ds: xr.Dataset) -> list[str]:
    """Sentences on levels at which Warner's best matrix beats a search, and on missing priors."""
    return [*_behind_warner(ds), *_dropped(ds)]


def _behind_warner(ds: xr.Dataset) -> Iterator[str]:
    methods = [str(name) for name in ds["method"].to_numpy()]
    levels = ds["level"].to_numpy()
    # Any front should contain the matrices that the paper compares with.
    errors = ds[error_of(ds)]
    warner = errors.isel(method=methods.index("warner"))
    for i, case in enumerate(ds["case"].to_numpy()):
        for m, method in enumerate(methods):
            if method == "warner":
                continue
            for repeat in range(ds.sizes["repeat"]):
                own = errors.to_numpy()[i, m, repeat]
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
    """Return a result as JSON values: one table per case, with its levels and methods."""
    levels = ds["level"].to_numpy()
    cases = []
    for i, name in enumerate(ds["case"].to_numpy()):
        part = ds.isel(case=i)
        row: dict[str, Any] = {"case": str(name)}
        keys = ("delta", "p_max", "categories", "dropped", "undefined")
        row |= {key: plain_value(part[key].item()) for key in keys}
        if not row["undefined"]:
            if "limit" in part:
                row["attained"] = is_attained(part)
            row["levels"] = [
                {"f": float(f)}
                | {
                    key: plain_value(part[key].to_numpy()[k])
                    for key in ("privacy", "limit")
                    if key in part
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
    found |= {key: [plain_value(v) for v in part[key].to_numpy()] for key in trials if key in part}
    for key in ("mse", "iterative_mse", "error"):
        if key not in part:
            continue
        values = part[key].to_numpy()
        # Infinite where a repeat has no matrix at the level; JSON has no infinity.
        found[key] = [[_finite(v) for v in row] for row in values]
    return found


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def tables(ds: xr.Dataset) -> Iterator[tuple[str, Table]]:
    """Headings and tables, two per case: MSE over limit by level, and whole fronts."""
    # The nearest levels, as those of a result are floats.
    at = [int(np.argmin(np.abs(ds["level"].to_numpy() - f))) for f in SHOWN]
    for i, name in enumerate(ds["case"].to_numpy()):
        part = ds.isel(case=i)
        if str(part["undefined"].item()):
            continue
        privacy = part["privacy"].to_numpy()
        limit = part["limit"].to_numpy() if "limit" in part else np.ones(len(privacy))
        ratios, whole = [], []
        for m, method in enumerate(ds["method"].to_numpy()):
            done = int(part["completed"].to_numpy()[m])
            if not done:
                continue
            mse = part[error_of(ds)].to_numpy()[m] / limit
            form = ".3f" if "limit" in part else ".4g"
            ratios.append([str(method), *(_mean(mse[:, k], form) for k in at)])
            spans = [part[key].to_numpy()[m] for key in ("privacy_min", "privacy_max")]
            whole.append(
                [
                    str(method),
                    str(done),
                    *(
                        _mean(part[key].to_numpy()[m])
                        for key in ("hypervolume", "median_ratio")
                        if key in part
                    ),
                    f"{_mean(spans[0])} ... {_mean(spans[1])}",
                ]
            )
        header = ["privacy", *(f"{privacy[k]:.3f}" for k in at)]
        heading = f"{name}: {int(part['categories'])} categories, p max {float(part['p_max']):.4f}"
        right = range(1, len(header))
        what = "MSE / certified limit" if "limit" in part else "Error by the recipe's objective"
        yield f"{heading}\n{what}, by level", plain_table(header, ratios, right)
        ratios_too = ["hypervolume", "median MSE / limit"] if "limit" in part else []
        columns = ["method", "repeats", *ratios_too, "privacy"]
        yield f"{name}: the whole front", plain_table(columns, whole, range(1, len(columns)))


def _mean(values: Floats, form: str = ".3f") -> str:
    """Mean over the repeats that are there; a dash where a repeat has no matrix."""
    there = values[~np.isnan(values)]
    if not there.size:
        return ""
    return format(there.mean(), form) if np.isfinite(there).all() else "-"


def undefined_cases(ds: xr.Dataset) -> list[str]:
    """Which cases are undefined, and why."""
    pairs = zip(ds["case"].to_numpy(), ds["undefined"].to_numpy(), strict=True)
    return [f"{case}: {reason}" for case, reason in pairs if reason]


def notes(ds: xr.Dataset) -> list[str]:
    """Say which cases are undefined, and why, and which limits no design need attain."""
    found = [f"undefined: {case}" for case in undefined_cases(ds)]
    for i, case in enumerate(ds["case"].to_numpy()):
        part = ds.isel(case=i)
        if "limit" in part and not str(part["undefined"].item()) and not is_attained(part):
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

    NaN at levels below the least private matrix that they find, where the front would only be
    continued level.
    """
    values = part["iterative_mse" if iterative else error_of(part)].to_numpy()[method]
    values = np.where(np.isfinite(values), values, np.nan)
    there = ~np.isnan(values).all(axis=1)
    if not there.any():
        return None
    # The mean over repeats, as the line is one.
    least = part["privacy_min"].to_numpy()[method][there].mean()
    line: Floats = np.where(part["privacy"].to_numpy() >= least, values[there].mean(axis=0), np.nan)
    return line


LOOKS: dict[str, dict[str, Any]] = {
    "warner": {"linestyle": (0, (1, 1.5)), "linewidth": 1.4},
    "spea2": {"linestyle": "-", "linewidth": 1.6},
    "memetic": {"linestyle": (0, (5, 1.5)), "linewidth": 1.2},
    "limit": {"linestyle": "-", "linewidth": 0.8},
}
NAMES = {
    "warner": "Warner's matrices",
    "spea2": "the paper's search",
    "memetic": "with gradient polish",
    "limit": "certified limit",
}
LOWER = "certified lower bound"
"""Name of a limit that no design need attain."""


def draw(ds: xr.Dataset, recipe: FrontRecipe, figure: FrontFigure, folder: Path) -> list[Path]:
    """Draw a figure of fronts."""
    iterative = figure.kind == "iterative"
    done = int(ds["completed"].max())
    estimator = "the iterative estimator" if iterative else "inversion"
    searches = "one search" if done == 1 else f"mean of {done} searches"
    own = "error" in ds
    below = f"by {estimator}; {searches}; logarithmic scale"
    if own:
        below = f"by the objective {ds.attrs['objective']}; {searches}; logarithmic scale"
    canvas, axes = style.new_figure(figure.title, below)
    axes.set_yscale("log")
    cases = [str(name) for name in ds["case"].to_numpy()]
    methods = [str(name) for name in ds["method"].to_numpy()]
    shown = set()
    attained = True
    for number, delta in enumerate(figure.delta):
        case = f"{figure.prior} delta={delta:g}"
        part = ds.isel(case=cases.index(case))
        if str(part["undefined"].item()):
            continue
        colour = style.COLOURS[number % len(style.COLOURS)]
        privacy = part["privacy"].to_numpy()
        for m, method in enumerate(methods):
            mean = mean_line(part, m, iterative=iterative)
            if mean is not None:
                axes.plot(privacy, mean, color=colour, **LOOKS[method])
                shown.add(method)
        if not iterative and not own and not np.isnan(part["limit"].to_numpy()).all():
            axes.plot(privacy, part["limit"].to_numpy(), color="black", **LOOKS["limit"])
            shown.add("limit")
            attained &= is_attained(part)  # one line of the legend stands for all cases
    axes.set_xlabel("privacy" if own else "privacy: how often the best guess is wrong")
    axes.set_ylabel("error" if own else "mean squared error")
    names = NAMES if attained else {**NAMES, "limit": LOWER}
    _legend(axes, figure, {name: names[name] for name in LOOKS if name in shown})
    return style.save(canvas, folder, figure.id)


def _legend(axes: Axes, figure: FrontFigure, shown: dict[str, str]) -> None:
    from matplotlib.lines import Line2D

    handles = []
    if len(figure.delta) > 1:
        for number, delta in enumerate(figure.delta):
            colour = style.COLOURS[number % len(style.COLOURS)]
            handles.append(Line2D([], [], color=colour, label=f"$\\delta$ = {delta:g}"))
    # With several deltas the colours are theirs; methods then differ by their dashes.
    grey = style.GREY if len(figure.delta) > 1 else style.COLOURS[0]
    for name, label in shown.items():
        colour = "black" if name == "limit" else grey
        handles.append(Line2D([], [], color=colour, label=label, **LOOKS[name]))
    if handles:
        style.legend(axes, handles)


def words(ds: xr.Dataset, recipe: FrontRecipe, figure: FrontFigure) -> list[str]:
    """Say with numbers what a figure of fronts shows."""
    iterative = figure.kind == "iterative"
    estimator = "the iterative estimator" if iterative else "inversion"
    told = [f"Mean squared error by {estimator} against privacy, as lines."]
    if "error" in ds:
        told = [f"Error against privacy by the objective {ds.attrs['objective']}, as lines."]
    cases = [str(name) for name in ds["case"].to_numpy()]
    for delta in figure.delta:
        case = f"{figure.prior} delta={delta:g}"
        part = ds.isel(case=cases.index(case))
        if reason := str(part["undefined"].item()):
            told.append(f"{case} is undefined: {reason}.")
            continue
        # From the least private level to the most private one.
        order = np.argsort(part["privacy"].to_numpy())
        x = part["privacy"].to_numpy()[order]
        for m, method in enumerate(part["method"].to_numpy()):
            line = mean_line(part, m, iterative=iterative)
            if line is not None:
                told.append(f"{case}, {method}: {course('privacy', x, line[order], '.2e')}.")
        if not iterative and "limit" in part:
            limit = part["limit"].to_numpy()[order]
            name = NAMES["limit"] if is_attained(part) else LOWER
            told.append(f"{case}, {name}: {course('privacy', x, limit, '.2e')}.")
    return told


CASE = ("case",)
LEVEL = ("case", "level")
TRIAL = ("case", "method", "repeat")
FRONT = ("case", "method", "repeat", "level")

FRONT_REGISTRY: tuple[Variable, ...] = (
    Variable("delta", CASE, "float64", "1", "Largest posterior allowed."),
    Variable("p_max", CASE, "float64", "1", "Proportion of the most frequent category."),
    Variable("categories", CASE, "int32", "1", "Categories that occur."),
    Variable("dropped", CASE, "int32", "1", "Categories that do not occur and were left out."),
    Variable("undefined", CASE, "str", "", "Why there is no front; empty where there is one."),
    Variable(
        "privacy",
        LEVEL,
        "float64",
        "1",
        "Privacy at the level, 1 - p_max - f (delta - p_max); NaN where undefined.",
    ),
    Variable(
        "limit",
        LEVEL,
        "float64",
        "1",
        "Certified limit: no design of at least that privacy has a smaller MSE; NaN where "
        "undefined or not computed yet.",
    ),
    Variable(
        "mse",
        FRONT,
        "float64",
        "1",
        "Least MSE of the matrices found with at least that privacy; inf where there is none, NaN "
        "where not computed.",
    ),
    Variable(
        "iterative_mse",
        FRONT,
        "float64",
        "1",
        "MSE of the iterative estimator with those matrices, over simulated samples; NaN where "
        "there is none.",
    ),
    Variable("privacy_min", TRIAL, "float64", "1", "Least privacy of the matrices found."),
    Variable("privacy_max", TRIAL, "float64", "1", "Largest privacy of the matrices found."),
    Variable(
        "completed", ("case", "method"), "int32", "repeats", "Repeats that are computed.", "derived"
    ),
    Variable(
        "hypervolume",
        TRIAL,
        "float64",
        "1",
        "Area between the front and the limit at the first level, in (level, log10 MSE), over that "
        "of the limit itself; NaN where not computed.",
        "derived",
    ),
    Variable(
        "median_ratio",
        TRIAL,
        "float64",
        "1",
        "Median over the levels of MSE / limit; NaN where not computed.",
        "derived",
    ),
    Variable(
        "error",
        FRONT,
        "float64",
        "1",
        "Least error by the recipe's own objective with at least the level's privacy by it, 1 - f; "
        "inf where there is none, NaN where not computed.",
        "optional",
    ),
)

PAPER_ONLY = ("limit", "mse", "iterative_mse", "hypervolume", "median_ratio")
"""Variables that a result by another objective does not have."""
