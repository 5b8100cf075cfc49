"""Depths of trees that cross-validated scores of disguised records choose, and what that costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from ppdm_dask.data.codebook import Codebook, Records
from ppdm_dask.designs.flip import Flip
from ppdm_dask.designs.multigroup import MultiGroup
from ppdm_dask.errors import InputError
from ppdm_dask.experiments.parts import Share
from ppdm_dask.experiments.samples import draw_test
from ppdm_dask.experiments.trials.trial import Measure, Trial
from ppdm_dask.files.values import Many, Number, Whole
from ppdm_dask.mine.id3 import ID3
from ppdm_dask.mine.selection import one_standard_error

if TYPE_CHECKING:
    from ppdm_dask.arrays import Floats
    from ppdm_dask.randomness import SimulationStream

__all__ = ["SelectionTrial"]

SPLIT, FOLDS, GROUPS, DISGUISE = range(4)
"""Roles of the streams below that of a repeat."""


@dataclass(frozen=True)
class SelectionTrial(Trial):
    """Depths of ID3 trees that are chosen by scores of disguised records.

    In each repeat attributes are dealt to groups at random, and the records are split.  Trees of
    each depth are cross-validated on the disguised training part; the chosen depth is fitted to all
    of it, and judged on the undisguised test part.

    Parameters
    ----------
    theta : float
        Probability of a truthful answer.
    groups : int
        Number of groups of attributes, each with its own coin.
    depths : tuple of int
        Depths to choose from, in rising order.
    folds : int
        Number of folds of the cross-validation.
    train : float
        Share of the records that is disguised; the choice is tested on the rest.
    """

    measures = (
        Measure("accuracy", "accuracy of the chosen tree on the test part"),
        Measure("regret", "accuracy lost to the depth that is best on the test part"),
        Measure("depth", "depth that is chosen", "conditions"),
        Measure("optimism", "score of the chosen depth less its accuracy"),
    )
    variants = ("largest", "one_error", "clean", "deepest")
    """The largest score; the least depth within one standard error of it; the largest score of
    undisguised answers to the same trees; no choice."""

    uses_data = True

    theta: Annotated[float, Number("a probability from 0 to 1 is needed", 0, 1)]
    groups: Annotated[int, Whole(1)] = 1
    depths: Annotated[
        tuple[int, ...], Many(Whole(0), "a list of depths is needed", 1, distinct=True)
    ] = (0, 1, 2, 3, 4, 6)
    folds: Annotated[int, Whole(2)] = 5
    train: Share = 0.7

    def check_codebook(self, codebook: Codebook) -> None:
        if self.groups > (number := len(codebook.names)):
            raise InputError(f"groups: got {self.groups}; there are {number} attributes", self)

    def undefined(self, records: Records | None) -> str:
        assert records is not None
        return Flip(records.codebook.names, self.theta, records.codebook.shape).undefined

    def repeat(self, stream: SimulationStream, ready: Records) -> Mapping[str, Any]:
        names, n = ready.codebook.names, len(ready)
        test = draw_test(n, n - round(self.train * n), stream.child(SPLIT))
        train = ready.take(np.setdiff1d(np.arange(n), test))
        groups = stream.child(GROUPS)
        design = MultiGroup.random(names, self.groups, self.theta, groups)
        reports = design.disguise(train, stream.child(DISGUISE))
        fold = stream.generator(FOLDS).permutation(len(train)) % self.folds
        scores = np.empty((3, self.folds, len(self.depths)))
        for k in range(self.folds):
            inside, left = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
            for d, depth in enumerate(self.depths):
                tree = ID3(design, ready.codebook.target, max_depth=depth).fit(reports.take(inside))
                found = tree.score_disguised(reports.take(left))
                clean = tree.score(train.take(left))
                scores[:, k, d] = float(found.value), float(found.standard_error), clean
        judged = np.array(
            [
                ID3(design, ready.codebook.target, max_depth=depth)
                .fit(reports)
                .score(ready.take(test))
                for depth in self.depths
            ]
        )
        return self._compare(scores, judged)

    def _compare(self, scores: Floats, judged: Floats) -> Mapping[str, Any]:
        """Measures by variant, from the scores of each fold and depth and the final accuracies."""
        disguised, errors, clean = scores
        means = disguised.mean(axis=0)
        # What a search of scikit-learn would hand to `refit`.
        results = {
            "param_max_depth": self.depths,
            "mean_test_accuracy": means,
            "std_test_accuracy": disguised.std(axis=0),
        }
        for k in range(self.folds):
            results[f"split{k}_test_accuracy"] = disguised[k]
            # Of a fold whose score rests on few reports there is no error; then the spread serves.
            if np.isfinite(errors).all():
                results[f"split{k}_test_standard_error"] = errors[k]
        chosen = {
            "largest": int(means.argmax()),
            "one_error": one_standard_error("max_depth")(results),
            "clean": int(clean.mean(axis=0).argmax()),
            "deepest": int(np.argmax(self.depths)),
        }
        score = {name: clean.mean(axis=0) if name == "clean" else means for name in chosen}
        return {
            "accuracy": {name: judged[d] for name, d in chosen.items()},
            "regret": {name: judged.max() - judged[d] for name, d in chosen.items()},
            "depth": {name: self.depths[d] for name, d in chosen.items()},
            "optimism": {name: score[name][d] - judged[d] for name, d in chosen.items()},
        }
