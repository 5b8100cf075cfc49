"""Result variables of searches, in the order of the run's digest."""

from __future__ import annotations

from ppdm_dask.experiments.variables import Variable

__all__ = ["FRONT_REGISTRY"]

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
)
