"""The result of a sweep: its variables in the order of the digest, and the dataset of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ppdm_dask.experiments.grid import moments
from ppdm_dask.experiments.variables import GRID, Variable, assemble

if TYPE_CHECKING:
    import xarray as xr


DIMENSIONS = ("data", "repeat", "split", "column", "w_a")
"""Dimensions that are not axes of a grid."""

CELL = ("data", GRID)
TRIAL = ("data", GRID, "repeat")


def _moments(prefix: str, what: str) -> tuple[Variable, ...]:
    """Mean and variance over the repeats, with their standard errors."""
    texts = {
        "mean": f"Mean of {what} over the repeats; NaN where undefined.",
        "mean_se": f"Standard error of the mean of {what}; NaN below two repeats.",
        "variance": f"Sample variance (n - 1) of {what} over the repeats; NaN below two repeats.",
        "variance_se": f"Standard error of that variance, from the fourth central moment of {what}"
        "; NaN below two repeats.",
    }
    return tuple(
        Variable(f"{prefix}_{name}", CELL, "float64", "1", doc, "derived")
        for name, doc in texts.items()
    )


ADVERSARIES = {
    "own": "sees an attribute's own report and knows its distribution",
    "product": "sees the whole report and knows each attribute's distribution, but not how they "
    "go together",
    "joint": "sees the whole report and knows the joint distribution of the records",
}
"""Adversaries by the ending of their variables' names, and what they see and know."""

SPLITS_AVERAGED = 20
"""Splits of the attributes over which a disclosure is averaged where each repeat draws its own."""


def _disclosures() -> tuple[Variable, ...]:
    """What each adversary learns, for the attribute that is protected worst."""
    texts = {
        "posterior": "Largest posterior of any value of any attribute given any possible report",
        "guess": "Probability that the best guess at an attribute is right, for the attribute "
        "where it is largest",
        "advantage": "By how much this probability exceeds that of the best guess without a "
        "report, for the attribute where that is most",
    }
    where = (
        "Over the attributes that are disguised, under the distribution in the data; where each "
        f"repeat draws its own groups, the mean over the groups of the first {SPLITS_AVERAGED} "
        "repeats. NaN where there are too many reports to enumerate."
    )
    return tuple(
        Variable(
            f"{name}_{adversary}",
            CELL,
            "float64",
            "1",
            f"{text}, of an adversary who {knows}. {where}",
            "optional",
        )
        for name, text in texts.items()
        for adversary, knows in ADVERSARIES.items()
    )


REGISTRY: tuple[Variable, ...] = (
    Variable("n_train", ("data",), "int32", "records", "Records in the training part."),
    Variable("n_test", ("data",), "int32", "records", "Records in the test part."),
    Variable(
        "benchmark_correct",
        ("data", "split"),
        "int32",
        "records",
        "Test records that the learner predicts correctly when the training part is undisguised, "
        "for the fixed split or for that of each repeat.",
    ),
    Variable(
        "majority_correct",
        ("data", "split"),
        "int32",
        "records",
        "Test records of the class that is the most frequent in the training part.",
    ),
    Variable(
        "undefined",
        CELL,
        "str",
        "",
        "Why nothing can be estimated in the cell; empty where something can.",
    ),
    Variable(
        "correct",
        TRIAL,
        "int32",
        "records",
        "Correct predictions on the clean test part; -1 where undefined or not computed yet.",
    ),
    Variable(
        "correct_disguised",
        TRIAL,
        "int32",
        "reports",
        "Reports of the disguised test part whose reported class is the one predicted for them; "
        "-1 where undefined or not computed yet.",
    ),
    Variable(
        "accuracy_disguised",
        TRIAL,
        "float64",
        "1",
        "Unbiased estimate of the accuracy from the disguised test part; it may leave [0, 1]. "
        "NaN where undefined or not computed yet.",
    ),
    Variable(
        "floored",
        TRIAL,
        "int32",
        "estimates",
        "Estimates below what a count can be. Naive Bayes: joint proportions of class and "
        "attribute that were raised to the floor. ID3: nodes of the tree one of whose class counts "
        "is negative. -1 where undefined or not computed yet.",
    ),
    Variable(
        "nodes",
        TRIAL,
        "int32",
        "nodes",
        "Nodes of the tree, leaves and root among them; -1 where undefined or not computed yet.",
        "optional",
    ),
    Variable(
        "pse_attribute",
        ("column", GRID),
        "float64",
        "1",
        "PSE of each attribute: expected Gini impurity of its posterior given its own report, "
        "under the attribute's distribution in the data.",
        "optional",
    ),
    Variable(
        "pse_curve",
        ("w_a", GRID),
        "float64",
        "1",
        "PSE of a binary attribute that has the value 1 with probability w_a.",
        "optional",
    ),
    *_disclosures(),
    Variable("completed", CELL, "int32", "repeats", "Repeats that are computed.", "derived"),
    Variable(
        "benchmark",
        ("data",),
        "float64",
        "1",
        "Accuracy on the clean test part when the training part is undisguised; the mean over "
        "the repeats where each has its own split.",
        "derived",
    ),
    Variable(
        "majority",
        ("data",),
        "float64",
        "1",
        "Accuracy of always predicting the training part's most frequent class; the mean over "
        "the repeats where each has its own split.",
        "derived",
    ),
    *_moments("accuracy", "the accuracy on the clean test part"),
    *_moments("disguised", "the accuracy estimated from the disguised test part"),
    Variable(
        "floored_mean", CELL, "float64", "estimates", "Mean of floored over the repeats.", "derived"
    ),
    Variable(
        "negative_share",
        CELL,
        "float64",
        "1",
        "Share of the tree's nodes one of whose class counts is negative: mean of floored / nodes "
        "over the repeats.",
        "derived",
    ),
    Variable(
        "pse",
        CELL,
        "float64",
        "1",
        "Least PSE of readers of one answer: the minimum of pse_attribute over the attributes. Who "
        "reads the whole report may be left with less; see the adversaries product and joint.",
        "derived",
    ),
)

DISCLOSURES = tuple(declared.name for declared in _disclosures())
"""Variables that say what adversaries learn in a cell."""

_BY_NAME = {variable.name: variable for variable in REGISTRY}


def variable(name: str) -> Variable:
    """Return the declaration of a variable; KeyError for a name that is not in the registry."""
    return _BY_NAME[name]


Arrays = Mapping[str, npt.ArrayLike]
Coordinates = Mapping[str, Sequence[Any]]


def empty_arrays(
    coordinates: Coordinates, repeats: int, splits: int = 1, optional: Collection[str] = ()
) -> dict[str, npt.NDArray[Any]]:
    """Arrays of measured variables, filled with what stands for a missing number.

    Parameters
    ----------
    coordinates : mapping of str to sequence
        Axis ``data``, the grid's axes in order and, for the variables on them, ``column`` (texts
        ``data/attribute``) and ``w_a``.
    repeats, splits : int
        Length of those axes; there is 1 split of the data, or as many as repeats.
    optional : collection of str
        Which optional variables are wanted. Those on ``column`` and ``w_a`` are there where their
        axis is.
    """
    sizes = {name: len(values) for name, values in coordinates.items()}
    sizes |= {"repeat": repeats, "split": splits}
    arrays = {}
    for declared in REGISTRY:
        dims = declared.dimensions(_grid(coordinates))
        wanted = declared.kind == "measured" or declared.name in optional
        if declared.kind == "optional" and not {"column", "w_a"}.isdisjoint(dims):
            wanted = set(dims) <= set(sizes)
        if wanted:
            arrays[declared.name] = declared.empty(tuple(sizes[dim] for dim in dims))
    return arrays


def build_dataset(
    measured: Arrays, coordinates: Coordinates, attributes: Mapping[str, str | int] | None = None
) -> xr.Dataset:
    """Assemble a sweep's result from arrays of :func:`empty_arrays`, and derive its statistics.

    Raises
    ------
    ValueError
        For an unknown or missing variable, a wrong shape, or values that its type cannot hold.
    """
    grid = _grid(coordinates)
    names = {v.name for v in REGISTRY if v.kind != "derived"}
    needed = {v.name for v in REGISTRY if v.kind == "measured"}
    if unknown := sorted(set(measured) - names):
        raise ValueError(f"no measured variable is called {unknown[0]!r}")
    if missing := sorted(needed - set(measured)):
        raise ValueError(f"the measured variable {missing[0]!r} is missing")
    arrays = {name: _cast(variable(name), values) for name, values in measured.items()}
    arrays |= _derive(arrays, coordinates)
    return assemble(REGISTRY, arrays, coordinates, grid, attributes or {})


def _grid(coordinates: Coordinates) -> tuple[str, ...]:
    return tuple(name for name in coordinates if name not in DIMENSIONS)


def _cast(declared: Variable, values: npt.ArrayLike) -> npt.NDArray[Any]:
    """Return the values in the declared type, unchanged."""
    array = np.asarray(values)
    # A count that wrapped around would still be a whole number, so it is compared.
    cast = array.astype(object if declared.dtype == "str" else declared.dtype)
    if declared.dtype == "int32" and not np.array_equal(cast, array):
        raise ValueError(f"{declared.name} does not fit into {declared.dtype}")
    return cast


def _derive(arrays: Mapping[str, npt.NDArray[Any]], axes: Coordinates) -> dict[str, Any]:
    """Return the statistics of the measured variables."""
    shape = arrays["correct"].shape[:-1]
    # `pse` and `negative_share` rest on variables that a result may lack.
    names = {v.name for v in REGISTRY if v.kind == "derived"} - {"pse"}
    if "nodes" not in arrays:
        names.remove("negative_share")
    found = {name: variable(name).empty(shape) for name in names}
    for name in ("benchmark", "majority"):
        counts = arrays[f"{name}_correct"]
        found[name] = np.array(
            [moments(row[row >= 0], n).mean for row, n in zip(counts, _sizes(arrays), strict=True)]
        )
    for index in np.ndindex(shape):
        there = arrays["correct"][index] >= 0
        found["completed"][index] = np.count_nonzero(there)
        # As shares of integers: sums of counts are exact, in whatever order.
        clean = moments(arrays["correct"][index][there], _sizes(arrays)[index[0]])
        disguised = moments(arrays["accuracy_disguised"][index][there])
        for key, value in clean._asdict().items():
            found[f"accuracy_{key}"][index] = value
        for key, value in disguised._asdict().items():
            found[f"disguised_{key}"][index] = value
        floored = arrays["floored"][index][there]
        found["floored_mean"][index] = moments(floored).mean
        if "nodes" in arrays:
            share = moments(floored / arrays["nodes"][index][there]).mean
            found["negative_share"][index] = share
    if "pse_attribute" in arrays:
        found["pse"] = _least(arrays["pse_attribute"], axes)
    return found


def _sizes(arrays: Mapping[str, npt.NDArray[Any]]) -> list[int]:
    return [int(n) for n in arrays["n_test"]]


def _least(pse: npt.NDArray[np.float64], axes: Coordinates) -> npt.NDArray[np.float64]:
    """Minimum over the columns of each data entry."""
    owner = np.array([str(column).partition("/")[0] for column in axes["column"]])
    return np.stack([pse[owner == entry].min(axis=0) for entry in axes["data"]])
