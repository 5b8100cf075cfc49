"""Result variables of perturbation experiments, in the order of the run's digest."""

from __future__ import annotations

from ppdm_dask.experiments.variables import Variable

__all__ = ["METRICS", "PERTURBATION_REGISTRY"]

SETTING = ("data", "setting")
TRIAL = ("data", "setting", "repeat")
JUDGED = ("data", "setting", "classifier")

METRICS: dict[str, tuple[str, str]] = {
    "vd": ("1", "VD, relative distance of release and original in the Frobenius norm"),
    "rp": ("ranks", "RP, mean absolute change of a value's rank within its column"),
    "rk": ("1", "RK, share of values that keep their rank within their column"),
    "cp": ("ranks", "CP, mean absolute change of a column's rank among the column means"),
    "ck": ("1", "CK, share of columns that keep their rank among the column means"),
    "linkage": ("1", "linkage, share of released records whose nearest original is their own"),
    "interval": ("1", "interval disclosure, share of values released close to the original"),
}
"""Metrics of a release: units and meaning."""


def _mean(prefix: str, dims: tuple[str, ...], units: str, what: str) -> tuple[Variable, ...]:
    mean = f"Mean over the repeats of {what}; NaN where there are none."
    error = f"Standard error of the mean of {what}; NaN below two repeats."
    return (
        Variable(f"{prefix}_mean", dims, "float64", units, mean, "derived"),
        Variable(f"{prefix}_mean_se", dims, "float64", units, error, "derived"),
    )


PERTURBATION_REGISTRY: tuple[Variable, ...] = (
    Variable("n_train", ("data",), "int32", "records", "Records in the training part."),
    Variable("n_test", ("data",), "int32", "records", "Records in the test part."),
    Variable(
        "undefined",
        SETTING,
        "str",
        "",
        "Why there are no numbers for a setting on these data; empty where there are.",
    ),
    Variable(
        "entry", SETTING, "str", "", "Entry [[perturb]] of the recipe that the setting belongs to."
    ),
    Variable("parameter", SETTING, "str", "", "The parameter that its entry sweeps."),
    Variable("value", SETTING, "float64", "1", "Value of that parameter."),
    Variable(
        "published", SETTING, "int32", "1", "1 for the paper's setting, 0 for others, -1: none."
    ),
    Variable(
        "benchmark_correct",
        ("data", "classifier", "repeat"),
        "int32",
        "records",
        "Test records predicted correctly after training on the original; -1 where not computed.",
    ),
    Variable(
        "majority_correct",
        ("data", "repeat"),
        "int32",
        "records",
        "Test records of the class that is the most frequent in the training part.",
    ),
    Variable(
        "correct",
        (*JUDGED, "repeat"),
        "int32",
        "records",
        "Test records predicted correctly after training on the release; -1 where not computed.",
    ),
    *(
        Variable(
            name, TRIAL, "float64", units, f"{what[0].upper()}{what[1:]}, of the training part."
        )
        for name, (units, what) in METRICS.items()
    ),
    Variable("completed", SETTING, "int32", "repeats", "Repeats that are computed.", "derived"),
    *_mean("benchmark", ("data", "classifier"), "1", "the accuracy after training on the original"),
    *_mean("majority", ("data",), "1", "the accuracy of predicting the most frequent class"),
    *_mean("accuracy", JUDGED, "1", "the accuracy after training on the release"),
    *_mean("r", JUDGED, "1", "r = (R_o - R_p) / R_o, the relative loss of accuracy"),
    *_mean(
        "delta_r",
        JUDGED,
        "1",
        "Delta R = R_p - (1 - a) R_o, with a the recipe's `accept`; above 0 the use is acceptable",
    ),
    *(
        variable
        for name, (units, what) in METRICS.items()
        for variable in _mean(name, SETTING, units, what.partition(",")[0])
    ),
    Variable(
        "chosen",
        SETTING,
        "int32",
        "1",
        "1 for the most private setting of its entry where the mean of r is below the recipe's "
        "`accept` for every judge, 0 for others; -1 while not all of them are computed.",
        "derived",
    ),
)
