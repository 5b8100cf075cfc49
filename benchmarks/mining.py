"""Disguising, counting and mining 10^6 records of 10 attributes under general matrices.

Attributes have 2 to 20 categories, each disguised by a matrix of its own without zeros.  The peer
is scikit-learn on the undisguised records: CategoricalNB on codes, and an entropy tree of the same
depth on codes (ordinal, whose splits are binary) and on one column per category (one-hot).  Our
tree splits by all categories, and a report has weight in all nodes, where an undisguised record is
in one.  A second size says how times grow with the number of records.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable

import numpy as np
from sklearn.naive_bayes import CategoricalNB
from sklearn.preprocessing import OneHotEncoder
from sklearn.tree import DecisionTreeClassifier
from timing import Claim, interleave, options, ratio, report

from ppdm_dask import (
    ID3,
    TAN,
    Attribute,
    Codebook,
    NaiveBayes,
    Product,
    Records,
    RRMatrix,
    Stream,
    count,
)

SHAPE = (2, 3, 4, 5, 6, 8, 10, 12, 16, 20)
NAMES = [*"abcdefghij"]
KEEP, DEPTH, ROUNDS = 0.75, 4, 5


def records_of(n: int) -> Records:
    """Attributes that all depend on one hidden number; the first is the class."""
    rng = np.random.default_rng(1)
    hidden = rng.random(n)
    columns = [(k * (hidden + rng.random(n)) / 2).astype(np.uint8) for k in SHAPE]
    columns[0] = (hidden + 0.2 * rng.standard_normal(n) > 0.5).astype(np.uint8)
    attributes = (
        Attribute(name, tuple(map(str, range(k)))) for name, k in zip(NAMES, SHAPE, strict=True)
    )
    return Records(np.stack(columns, axis=1), Codebook(tuple(attributes), NAMES[0]))


def design_of() -> Product:
    rng = np.random.default_rng(2)
    matrices = [KEEP * np.eye(k) + (1 - KEEP) * rng.dirichlet(np.ones(k), k).T for k in SHAPE]
    return Product([RRMatrix(name, P) for name, P in zip(NAMES, matrices, strict=True)])


def ours(n: int) -> dict[str, Callable[[], int]]:
    records, design = records_of(n), design_of()
    reports = design.disguise(records, Stream.from_seed(3))
    test = reports.slice(0, n // 5)
    model = ID3(design, NAMES[0], max_depth=DEPTH).fit(reports)

    def done(work: Callable[[], object], units: int = n) -> Callable[[], int]:
        def run() -> int:
            work()
            return units

        return run

    return {
        "disguise": done(lambda: design.disguise(records, Stream.from_seed(3))),
        "count of a pair": done(lambda: count(reports, design, [NAMES[0], NAMES[-1]])),
        "count of all": done(lambda: count(reports, design)),
        "naive Bayes": done(lambda: NaiveBayes(design, NAMES[0]).fit(reports)),
        "TAN": done(lambda: TAN(design, NAMES[0]).fit(reports)),
        "ID3": done(lambda: ID3(design, NAMES[0], max_depth=DEPTH).fit(reports)),
        "ID3's score of a fifth": done(lambda: model.score_disguised(test), len(test)),
    }


def peers(n: int) -> dict[str, Callable[[], int]]:
    codes = records_of(n).codes
    X, y = codes[:, 1:], codes[:, 0]
    one_hot = OneHotEncoder(sparse_output=False, dtype=np.float32).fit_transform(X)

    def tree(data: np.ndarray) -> int:
        DecisionTreeClassifier(criterion="entropy", max_depth=DEPTH).fit(data, y)
        return n

    def bayes() -> int:
        CategoricalNB().fit(X, y)
        return n

    return {
        "CategoricalNB, undisguised": bayes,
        "tree on codes, undisguised": lambda: tree(X),
        "tree on one-hot, undisguised": lambda: tree(one_hot),
    }


def main() -> None:
    parser = options("Mining reports of 10 attributes: CPU per record")
    parser.add_argument("--records", type=int, default=1_000_000, help="records (1000000)")
    given = parser.parse_args()
    seconds = interleave(ours(given.records) | peers(given.records), ROUNDS)
    small = interleave(ours(given.records // 8), ROUNDS)
    pairs = {
        "naive Bayes": ("CategoricalNB, undisguised",),
        "ID3": ("tree on codes, undisguised", "tree on one-hot, undisguised"),
    }
    claims = [
        Claim(f"{mine} over {peer}", ratio(seconds, mine, peer), most=3)
        for mine, others in pairs.items()
        for peer in others
    ]
    for name, times in small.items():
        # 1 is linear, 8 quadratic; sorts, outgrown caches and trees with more nodes are between.
        growth = statistics.median(seconds[name]) / statistics.median(times)
        claims.append(Claim(f"{name}: a record among 8 times as many", growth, most=3))
    report(f"{given.records} records: {parser.description}", seconds, claims, given)


if __name__ == "__main__":
    main()
