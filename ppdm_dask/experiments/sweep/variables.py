"""Result variables of sweeps, in the order of the run's digest."""

from __future__ import annotations

from ppdm_dask.experiments.variables import GRID, Variable

__all__ = ["ADVERSARIES", "DIMENSIONS", "DISCLOSURES", "REGISTRY", "SPLITS_AVERAGED", "variable"]


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
