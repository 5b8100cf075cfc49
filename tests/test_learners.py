"""The registry of learners: what it names is there, and a further learner is one line in it."""

from __future__ import annotations

import sys
from pathlib import Path
from pkgutil import resolve_name
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from small_recipe import TREES, changed, many

import ppdm_dask as pp
from ppdm_dask.errors import RecipeError
from ppdm_dask.experiments.learners import LEARNERS, Entry, build_learner
from ppdm_dask.inference import estimate
from ppdm_dask.mine.classifier import Classifier, score_disguised


class MostFrequent(Classifier):
    """The class that is estimated to be the most frequent, whatever else a record says."""

    def __init__(self, design: Any, target: str) -> None:
        self.design, self.target = design, target

    def fit(self, reports: pp.Reports, y: None = None) -> MostFrequent:
        found = estimate(reports, (self.target,), design=self.design).values
        self.code_, self.floored_ = int(np.argmax(found)), int((found < 0).sum())
        return self

    def predict_codes(self, X: pp.Records) -> Any:
        return np.full(len(X), self.code_)

    def count_correct(self, X: pp.Records) -> int:
        return int((X.column(self.target) == self.code_).sum())

    def predict_proba(self, X: pp.Records) -> Any:
        return np.eye(2)[self.predict_codes(X)]

    def draw(self, path: Any) -> None:
        Path(path).write_text("always the same")

    def score_disguised(self, reports: pp.Reports, stream: Any = None) -> Any:
        at = reports.codebook.index(self.target)
        return score_disguised(
            lambda codes: codes[:, at] == self.code_, reports, self.design, stream
        )


@pytest.fixture
def most_frequent(monkeypatch: pytest.MonkeyPatch) -> str:
    module = ModuleType("ppdm_dask.mine.most_frequent")
    module.MostFrequent = MostFrequent  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(LEARNERS, "most-frequent", Entry("most_frequent:MostFrequent"))
    return "most-frequent"


@pytest.mark.parametrize("name", LEARNERS)
def test_a_registered_learner_is_a_classifier(name: str) -> None:
    assert issubclass(resolve_name(f"ppdm_dask.mine.{LEARNERS[name].path}"), Classifier)
    design = pp.Warner("a", 0.8)
    learner: Any = build_learner({"learner": name}, design, "a")
    assert (learner.design, learner.target) == (design, "a")


def test_a_sweep_runs_a_learner_of_one_line(most_frequent: str, tmp_path: Path) -> None:
    mine = {"learner": most_frequent}
    recipe = pp.Recipe.from_config(many(TREES, {"mine": mine, "figure": []}))
    assert recipe.mine.config() == mine
    result = pp.run(recipe, workers=0, out=tmp_path).dataset
    # Undisguised it is the majority class, which the result has from counts of its own.
    np.testing.assert_array_equal(result["benchmark_correct"], result["majority_correct"])
    told = result.isel(data=0).sel(theta=1.0)
    assert (told["correct"] == told["majority_correct"].item()).all()
    assert "nodes" not in result


def test_a_learner_without_parameters_takes_none(most_frequent: str) -> None:
    config = changed("mine", {"learner": most_frequent, "floor": 0.1})
    with pytest.raises(RecipeError, match=r"mine\.floor: got 0\.1; there is no such key"):
        pp.Recipe.from_config(config)
