"""Classifiers that judge a release: trained on it, scored on the undisguised test part.

The first three stand for the paper's: 1-nearest-neighbour, a support vector machine as Weka's SMO
has it (linear, on columns scaled to [0, 1]), and a decision tree that splits by entropy.  The tree
stands for J48 and is not C4.5: it has binary splits, information gain in place of gain ratio, and
no pruning by confidence; leaves keep 2 records, as J48's do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ppdm_dask.codebook import Codebook
from ppdm_dask.designs import Identity
from ppdm_dask.randomness import SimulationStream
from ppdm_dask.records import Records

if TYPE_CHECKING:
    from ppdm_dask.perturb.columns import Floats

__all__ = ["CLASSIFIERS", "TrainTest", "lift_ranges"]


@dataclass(frozen=True, eq=False)
class TrainTest:
    """A training part to learn from, and a test part to predict.

    Parameters
    ----------
    train, test : array of float, shape (n, m)
        The release, and the undisguised test part.
    train_classes : array of int, shape (n,)
        Codes of the target's categories.
    test_records : Records
        The test part in categories, the target among them.
    codebook : Codebook
        Cuts of the columns, without ranges: a release may leave those of the original.
    stream : SimulationStream
        For classifiers that break ties at random.
    """

    train: Floats
    train_classes: npt.NDArray[Any]
    test: Floats
    test_records: Records
    codebook: Codebook
    stream: SimulationStream

    @property
    def test_classes(self) -> npt.NDArray[Any]:
        """Codes of the classes to predict, shape (n,)."""
        return self.test_records.column(str(self.codebook.target))

    @cached_property
    def train_records(self) -> Records:
        """The release in the categories of the codebook."""
        import pandas as pd

        book = self.codebook
        values = iter(self.train.T)
        codes = [
            self.train_classes
            if attribute.name == book.target
            else attribute.encode(pd.Series(next(values)))
            for attribute in book.attributes
        ]
        return Records(np.stack(codes, axis=1), book)


def lift_ranges(codebook: Codebook) -> Codebook:
    """Return the codebook without the ranges of its attributes."""
    attributes = tuple(
        replace(a, range=None) if a.range is not None else a for a in codebook.attributes
    )
    return replace(codebook, attributes=attributes)


def _scaled(model: Any) -> Any:
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import MinMaxScaler

    return make_pipeline(MinMaxScaler(), model)


def _nearest_neighbour(parts: TrainTest) -> Any:
    from sklearn.neighbors import KNeighborsClassifier

    # A tree computes distances as they are; the expanded squares of brute force lose digits.
    return _scaled(KNeighborsClassifier(1, algorithm="kd_tree"))


def _support_vectors(parts: TrainTest) -> Any:
    from sklearn.svm import SVC

    return _scaled(SVC(kernel="linear"))


def _entropy_tree(parts: TrainTest) -> Any:
    from sklearn.tree import DecisionTreeClassifier

    seed = int(parts.stream.source().words(1)[0] >> np.uint64(33))
    return DecisionTreeClassifier(criterion="entropy", min_samples_leaf=2, random_state=seed)


def _fit_numbers(make: Callable[[TrainTest], Any]) -> Callable[[TrainTest], int]:
    def count_correct(parts: TrainTest) -> int:
        model = make(parts).fit(parts.train, parts.train_classes)
        return int((model.predict(parts.test) == parts.test_classes).sum())

    return count_correct


def _fit_categories(name: str) -> Callable[[TrainTest], int]:
    def count_correct(parts: TrainTest) -> int:
        from ppdm_dask.mine import ID3, NaiveBayes

        book = parts.codebook
        design = Identity(book.names, book.shape)
        learner: Any = {"id3": ID3, "naive-bayes": NaiveBayes}[name]
        reports = design.disguise(parts.train_records, parts.stream)
        return int(learner(design, book.target).fit(reports).count_correct(parts.test_records))

    return count_correct


CLASSIFIERS: Mapping[str, Callable[[TrainTest], int]] = {
    "1nn": _fit_numbers(_nearest_neighbour),
    "svm": _fit_numbers(_support_vectors),
    "entropy-tree": _fit_numbers(_entropy_tree),
    "naive-bayes": _fit_categories("naive-bayes"),
    "id3": _fit_categories("id3"),
}
"""By name: how many test records are predicted correctly after training on the training part."""
