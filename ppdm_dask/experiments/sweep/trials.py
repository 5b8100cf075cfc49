"""One repeat of a sweep: disguise, fit, score.  The plain path, for every design and learner.

Beside it: the records of one data entry, split into a training and a test part.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from ppdm_dask.data.codebook import Records
from ppdm_dask.designs.multigroup import RandomGroups
from ppdm_dask.errors import InputError, RecipeError
from ppdm_dask.randomness import SimulationStream
from ppdm_dask.shown import shown

if TYPE_CHECKING:
    from ppdm_dask.data.codebook import Reports
    from ppdm_dask.designs.base import Design
    from ppdm_dask.experiments.inputs import Prepared
    from ppdm_dask.inference.result import Estimate
    from ppdm_dask.randomness import Stream

__all__ = [
    "DISGUISE",
    "DTYPES",
    "GROUPS",
    "SCORE",
    "SPLIT",
    "Engine",
    "PlainEngine",
    "Sample",
    "Setting",
    "build_learner",
    "draw_sample",
    "draw_test",
]


DISGUISE, SPLIT, SCORE, GROUPS = 0, 1, 2, 3
"""Roles of the streams below (cell, repeat)."""


def draw_test(n: int, n_test: int, stream: SimulationStream) -> npt.NDArray[np.int64]:
    """A uniform sample without replacement of ``n_test`` of the positions ``0 .. n - 1``."""
    from ppdm_dask.kernels.sampling import choose

    order = np.empty(n, np.int64)
    choose(n, stream.source().words(n_test), order)
    return order[:n_test]


@dataclass(frozen=True, eq=False)
class Sample:
    """Records of a data entry and how they are split.

    Parameters
    ----------
    records : Records
        All of them; with a fixed split the training records come first.
    target : str
    n_train : int
    split_key : int
        Key of the split's streams: it depends on the data and the share, not on the grid, so that
        all cells of a data entry meet the same splits.
    redrawn : bool
        Whether each repeat draws its own split.
    """

    records: Records
    target: str
    n_train: int
    split_key: int
    redrawn: bool

    @classmethod
    def draw(
        cls, records: Records, target: str, train: float, split_key: int, redrawn: bool, seed: int
    ) -> Sample:
        """Split the records; a fixed split is drawn here, once.

        Raises
        ------
        InputError
            If one of the parts would be empty.
        """
        n = len(records)
        n_train = round(train * n)
        if not 0 < n_train < n:
            raise InputError(
                f"train: a share of {train} of {n} records leaves a part empty; "
                "both parts need a record",
                train,
            )
        sample = cls(records, target, n_train, split_key, redrawn)
        if redrawn:
            return sample
        train_rows, test_rows = sample.split(seed, 0)
        together = records.take(np.concatenate([train_rows, test_rows]))
        return cls(together, target, n_train, split_key, redrawn)

    @property
    def n_test(self) -> int:
        """Records in the test part."""
        return len(self.records) - self.n_train

    def split(self, seed: int, repeat: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Positions of the training and the test records in a repeat, drawn from its stream."""
        stream = SimulationStream(seed, (self.split_key, repeat, SPLIT))
        test = draw_test(len(self.records), self.n_test, stream)
        is_test = np.zeros(len(self.records), bool)
        is_test[test] = True
        return np.flatnonzero(~is_test), np.flatnonzero(is_test)

    def parts(self, seed: int, repeat: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Positions of the training and the test records among :attr:`records`."""
        if self.redrawn:
            return self.split(seed, repeat)
        return np.arange(self.n_train), np.arange(self.n_train, len(self.records))

    def majority_correct(self, seed: int, repeat: int) -> int:
        """Test records of the class that is most frequent in the training part."""
        train, test = self.parts(seed, repeat)
        classes = self.records.column(self.target)
        majority = np.bincount(classes[train]).argmax()
        return int((classes[test] == majority).sum())


def draw_sample(
    prepared: Prepared, source: str, train: float, split_key: int, redrawn: bool, seed: int
) -> Sample:
    """Split the data of a recipe's entry; see :meth:`Sample.draw`.

    Raises
    ------
    RecipeError
        With the recipe's file and the entry, if one of the parts would be empty.
    """
    target = prepared.codebook.target
    assert target is not None
    try:
        return Sample.draw(prepared.records, target, train, split_key, redrawn, seed)
    except InputError as error:
        what = f"{source}: data {shown(prepared.entry.id)}: sweep.{error}"
        raise RecipeError(what, error.subject) from None


DTYPES: dict[str, np.dtype[Any]] = {
    "correct": np.dtype(np.int32),
    "correct_disguised": np.dtype(np.int32),
    "accuracy_disguised": np.dtype(np.float64),
    "floored": np.dtype(np.int32),
    "nodes": np.dtype(np.int32),
}
"""What a trial may give; see the registry of result variables for what they mean."""

Results = dict[str, npt.NDArray[Any]]


class Learner(Protocol):
    """What a sweep needs of a classifier."""

    floored_: int

    def fit(self, reports: Reports) -> Learner: ...

    def count_correct(self, X: Records) -> int: ...

    def score_disguised(self, reports: Reports, stream: Stream | None = None) -> Estimate: ...


def build_learner(mine: Mapping[str, Any], design: Design, target: str) -> Learner:
    """The learner that a recipe names, on a design."""
    from ppdm_dask.mine import ID3, NaiveBayes

    learners = {"id3": ID3, "naive-bayes": NaiveBayes}
    parameters = {key: value for key, value in mine.items() if key != "learner"}
    learner: Learner = learners[mine["learner"]](design, target, **parameters)
    return learner


@dataclass(frozen=True, eq=False)
class Setting:
    """What the repeats of one cell have in common.

    Parameters
    ----------
    sample : Sample
    design : Design or RandomGroups
    mine : mapping
        ``learner`` and its parameters.
    seed : int
        Entropy of the run.
    key : int
        Key of the cell.
    """

    sample: Sample
    design: Design | RandomGroups
    mine: Mapping[str, Any]
    seed: int
    key: int

    def stream(self, repeat: int, role: int) -> SimulationStream:
        """The stream of a role in a repeat."""
        return SimulationStream(self.seed, (self.key, repeat, role))

    def design_for(self, repeat: int) -> Design:
        """The design of a repeat; random groups are dealt here.

        Groups that stay the same are dealt once for all cells that share the records.
        """
        if not isinstance(self.design, RandomGroups):
            return self.design
        if self.design.redrawn:
            return self.design.draw(self.stream(repeat, GROUPS))
        return self.design.draw(SimulationStream(self.seed, (self.sample.split_key, 0, GROUPS)))


class Engine(Protocol):
    """A way to run the repeats of a cell; all give the same numbers."""

    def run(self, start: int, stop: int) -> Results:
        """Results of repeats ``start .. stop - 1``."""
        ...  # pragma: no cover


@dataclass(frozen=True, eq=False)
class PlainEngine:
    """The package's own path, a repeat at a time: what a user would type."""

    setting: Setting

    def run(self, start: int, stop: int) -> Results:
        """Results of repeats ``start .. stop - 1``."""
        rows = [self._trial(repeat) for repeat in range(start, stop)]
        return {
            name: np.array([row[name] for row in rows]).astype(DTYPES[name]) for name in rows[0]
        }

    def _trial(self, repeat: int) -> dict[str, float]:
        setting, sample = self.setting, self.setting.sample
        train, test = sample.parts(setting.seed, repeat)
        design = setting.design_for(repeat)
        reports = design.disguise(sample.records, setting.stream(repeat, DISGUISE))
        model = build_learner(setting.mine, design, sample.target)
        model.fit(reports.take(train))
        disguised = reports.take(test)
        accuracy = model.score_disguised(disguised, setting.stream(repeat, SCORE))
        row = {
            "correct": model.count_correct(sample.records.take(test)),
            "correct_disguised": model.count_correct(disguised),
            "accuracy_disguised": accuracy.value,
            "floored": model.floored_,
        }
        tree = getattr(model, "tree_", None)
        return row if tree is None else {**row, "nodes": len(tree)}
