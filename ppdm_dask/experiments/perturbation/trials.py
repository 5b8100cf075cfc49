"""One repeat: split, fit the method on the training part, release it, measure, train and score.

Classifiers that judge a release are trained on it and scored on the undisguised test part.
The first three stand for the paper's: 1-nearest-neighbour, a support vector machine as Weka's SMO
has it (linear, on columns scaled to [0, 1]), and a decision tree that splits by entropy.  The tree
stands for J48 and is not C4.5: it has binary splits, information gain in place of gain ratio, and
no pruning by confidence; leaves keep 2 records, as J48's do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from ppdm_dask.arrays import Floats
from ppdm_dask.data.codebook import Codebook, Records
from ppdm_dask.designs import Identity
from ppdm_dask.engine.cells import Cell
from ppdm_dask.experiments.learners import LEARNERS
from ppdm_dask.experiments.samples import Sample
from ppdm_dask.perturb import disclosure, distortion, perturbation_from_config
from ppdm_dask.randomness import SimulationStream


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
        # Columns of the release are the attributes but the target, in the codebook's order.
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

    # 31 bits, which is what scikit-learn takes for a seed.
    seed = int(parts.stream.source().words(1)[0] >> np.uint64(33))
    return DecisionTreeClassifier(criterion="entropy", min_samples_leaf=2, random_state=seed)


def _fit_numbers(make: Callable[[TrainTest], Any]) -> Callable[[TrainTest], int]:
    def count_correct(parts: TrainTest) -> int:
        model = make(parts).fit(parts.train, parts.train_classes)
        return int((model.predict(parts.test) == parts.test_classes).sum())

    return count_correct


def _fit_categories(name: str) -> Callable[[TrainTest], int]:
    def count_correct(parts: TrainTest) -> int:
        book = parts.codebook
        # Our learners as everybody uses them: undisguised records are reports of `Identity`.
        design = Identity(book.names, book.shape)
        learner = LEARNERS[name].build(design, str(book.target))
        reports = design.disguise(parts.train_records, parts.stream)
        return int(learner.fit(reports).count_correct(parts.test_records))

    return count_correct


CLASSIFIERS: Mapping[str, Callable[[TrainTest], int]] = {
    "1nn": _fit_numbers(_nearest_neighbour),
    "svm": _fit_numbers(_support_vectors),
    "entropy-tree": _fit_numbers(_entropy_tree),
    **{name: _fit_categories(name) for name in LEARNERS},
}
"""By name: how many test records are predicted correctly after training on the training part."""

USUAL = ("1nn", "svm", "entropy-tree", "naive-bayes", "id3")
"""Those of a recipe that names none; a further learner must not change its digest."""


ORIGINAL = {"id": "original"}
"""Stands in place of a method for the benchmark: the original is released as it is."""

FIT, RELEASE, CLASSIFY = 0, 1, 2
"""Roles of the streams below (setting, repeat)."""


def split_key(params: Mapping[str, Any]) -> int:
    """Key of the splits: they depend only on the data and the share."""
    return Cell("split", {"data": params["data"], "train": params["train"]}, 1).key


def stream_key(params: Mapping[str, Any]) -> int:
    """Key of a setting's draws: no classifier or metric moves them."""
    return Cell("draws", {k: params[k] for k in ("data", "train", "perturb")}, 1).key


@dataclass(frozen=True, eq=False)
class Material:
    """A data entry as the trials need it.

    Parameters
    ----------
    values : array of float, shape (n, m)
        The columns to perturb.
    sample : Sample
        The same records coded, with their splits.
    codebook : Codebook
        The sample's without ranges, which a release may leave.
    """

    values: Floats
    sample: Sample
    codebook: Codebook


class PerturbationWork:
    """The repeats of an experiment's cells; it goes to a worker once.

    Data entries go by :func:`split_key`.
    """

    def __init__(self, materials: Mapping[int, Material], seed: int) -> None:
        self.materials = materials
        self.seed = seed

    def trials(self, cell: Cell, start: int, stop: int) -> dict[str, npt.NDArray[Any]]:
        """Results of repeats ``start .. stop - 1``; ``correct`` has a column per classifier."""
        params = cell.params
        material = self.materials[split_key(params)]
        rows = [self._trial(params, material, repeat) for repeat in range(start, stop)]
        found = {"correct": np.array([correct for correct, _ in rows], np.int32)}
        for name in rows[0][1]:
            found[name] = np.array([metrics[name] for _, metrics in rows], np.float64)
        return found

    def _trial(
        self, params: Mapping[str, Any], material: Material, repeat: int
    ) -> tuple[list[int], dict[str, float]]:
        sample = material.sample
        train, test = sample.parts(self.seed, repeat)
        stream = SimulationStream(self.seed, (stream_key(params), repeat))
        original = released = material.values[train]
        metrics: dict[str, float] = {}
        # Fitted on the training part, which is all that is released.
        if params["perturb"] != ORIGINAL:
            method = perturbation_from_config(params["perturb"])
            method.fit(original, stream=stream.child(FIT))
            released = method.perturb(original, stream.child(RELEASE))
            metrics |= distortion(original, released)._asdict()
            metrics |= disclosure(original, released, params["interval"])._asdict()
        parts = TrainTest(
            train=released,
            train_classes=sample.records.column(sample.target)[train],
            test=material.values[test],
            test_records=sample.records.take(test),
            codebook=material.codebook,
            stream=stream.child(CLASSIFY),
        )
        return _scores(params["classifiers"], parts), metrics


def _scores(classifiers: Sequence[str], parts: TrainTest) -> list[int]:
    from sklearn import config_context

    # The inputs were checked; scikit-learn's own checks would cost more than its work.
    with config_context(assume_finite=True, skip_parameter_validation=True):
        return [CLASSIFIERS[name](parts) for name in classifiers]
