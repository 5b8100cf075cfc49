"""One repeat of a sweep: disguise, fit, score.  The plain path, for every design and learner."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from ppdm_dask.designs.multigroup import RandomGroups
from ppdm_dask.experiments.learners import build_learner
from ppdm_dask.experiments.samples import Sample
from ppdm_dask.randomness import SimulationStream

if TYPE_CHECKING:
    from ppdm_dask.designs.base import Design

DISGUISE, SCORE, GROUPS = 0, 2, 3
"""Roles of the streams below (cell, repeat), beside that of the split."""

DTYPES: dict[str, np.dtype[Any]] = {
    "correct": np.dtype(np.int32),
    "correct_disguised": np.dtype(np.int32),
    "accuracy_disguised": np.dtype(np.float64),
    "floored": np.dtype(np.int32),
    "nodes": np.dtype(np.int32),
}
"""What a trial may give; see the registry of result variables for what they mean."""

Results = dict[str, npt.NDArray[Any]]


@dataclass(frozen=True, eq=False)
class Setting:
    """What the repeats of one cell have in common.

    ``mine`` has the learner and its parameters, ``seed`` is that of the run, ``key`` the cell's.
    """

    sample: Sample
    design: Design | RandomGroups
    mine: Mapping[str, Any]
    seed: int
    key: int

    @cached_property
    def names(self) -> list[str]:
        """All attributes: the class, then the features in the codebook's order."""
        target = self.sample.target
        return [target, *(name for name in self.sample.records.codebook.names if name != target)]

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
        # All records at once, as the compiled engines do: draws are keyed by a record's position.
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
        # What a tree is worth depends on its size, which the result keeps.
        tree = getattr(model, "tree_", None)
        return row if tree is None else {**row, "nodes": len(tree)}
