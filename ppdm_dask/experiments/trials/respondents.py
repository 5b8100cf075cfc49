"""A model that respondents test on themselves: one bit each.  [ZhanMatwin]_, section 2.4."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import numpy.typing as npt

from ppdm_dask.data.attribute import Attribute
from ppdm_dask.data.codebook import Codebook, Records
from ppdm_dask.designs import UnrelatedQuestion, Warner
from ppdm_dask.errors import InputError
from ppdm_dask.experiments.grid import ERRORS, FEWEST
from ppdm_dask.experiments.samples import draw_test
from ppdm_dask.experiments.trials.results import cells, place_of
from ppdm_dask.experiments.trials.trial import Measure, Trial
from ppdm_dask.files.values import Choice, Many, Number, Text, Whole
from ppdm_dask.inference import Estimate, estimate
from ppdm_dask.mine.classifier import Classifier, score_disguised
from ppdm_dask.mine.id3 import ID3
from ppdm_dask.mine.naive_bayes import NaiveBayes
from ppdm_dask.mine.personal import score_by_personal
from ppdm_dask.shown import listed

if TYPE_CHECKING:
    import xarray as xr

    from ppdm_dask.randomness import SimulationStream

__all__ = ["RespondentsTrial"]

SPLIT, TRAIN, PEOPLE, BIT, RECORD, OTHERS = range(6)
"""Streams of a repeat."""

LEVEL = 0.95

MOST = 1 << 16
"""Joint categories of what is asked."""

FOUND = Codebook((Attribute("classified", ("wrong", "right")),))
"""What respondents find out."""

Between = Number("a share between 0 and 1 is needed", above=0, below=1)


@dataclass(frozen=True)
class RespondentsTrial(Trial):
    """The accuracy of a model on n people, by what they send at one epsilon.

    In each repeat a model is fitted to disguised training records.  People are drawn from the other
    records with replacement, so that the model's accuracy on those records is what is estimated.
    Each sends whether the model is right, by Warner's design (*bit*); or all answers and the class,
    by one unrelated question with even personal answers (*record*).  The accuracy behind such
    records takes the share of personal records that the model gets right: from the law of the
    personal answers, or from n other respondents who find it out (*record and others*).

    Parameters
    ----------
    epsilon : float
        Log of the largest likelihood ratio of what a person sends.
    n : int
        People who send something.
    attributes : tuple of str
        Features in the order in which they are used; by default all, as in the codebook.
    features : int, optional
        Number of features that are asked; all by default.
    learner : {"naive-bayes", "id3"}
        Which is fitted.
    max_depth : int, optional
        Of a tree.
    q : float
        Probability that a training record is the private one.
    train : float
        Share of the records used for training, between 0 and 1.
    """

    measures = (
        Measure("bias", "estimate less the accuracy on the test records"),
        Measure("squared", "squared error of the estimate, times n"),
        Measure("coverage", "share of intervals that hold the accuracy", summary="share"),
        Measure("half_width", "half the width of the 95 % interval"),
        Measure("accuracy", "accuracy on the test records themselves"),
    )
    variants = ("bit", "record", "record and others")
    uses_data = True

    epsilon: Annotated[float, Number("a number above 0 and up to 20 is needed", above=0, most=20)]
    n: Annotated[int, Whole(2)]
    attributes: Annotated[tuple[str, ...], Many(Text(), distinct=True)] = ()
    features: Annotated[int | None, Whole(1)] = None
    learner: Annotated[str, Choice(("naive-bayes", "id3"), "a learner")] = "naive-bayes"
    max_depth: Annotated[int | None, Whole(0)] = None
    q: Annotated[float, Number("a probability above 0 and up to 1 is needed", above=0, most=1)] = (
        0.8
    )
    train: Annotated[float, Between] = 0.5

    def check_codebook(self, codebook: Codebook) -> None:
        target = codebook.target
        if target is None:
            raise InputError("attributes: the codebook names no target to predict", codebook)
        others = [name for name in codebook.names if name != target]
        if unknown := [name for name in self.attributes if name not in others]:
            raise InputError(
                f"attributes: got {listed(unknown)}; there are {listed(others)}", unknown
            )
        if (self.features or 1) > (there := len(self.attributes or others)):
            raise InputError(f"features: got {self.features}; there are {there}", self.features)
        if (joint := math.prod(codebook.select(self._names(codebook)).shape)) > MOST:
            right = f"at most {MOST:,} joint categories are needed"
            raise InputError(f"features: got {joint:,} joint categories; {right}", joint)

    def _names(self, codebook: Codebook) -> list[str]:
        """What is asked, the class last."""
        features = self.attributes or tuple(n for n in codebook.names if n != codebook.target)
        assert codebook.target is not None
        return [*features[: self.features], codebook.target]

    def undefined(self, records: Records | None) -> str:
        assert records is not None
        trained = round(self.train * len(records))
        return "" if 0 < trained < len(records) else "the training or the test has no record"

    def _model(self) -> Classifier:
        return NaiveBayes() if self.learner == "naive-bayes" else ID3(max_depth=self.max_depth)

    def ready(self, records: Records | None) -> Records:
        assert records is not None
        book = records.codebook
        chosen = records.select(self._names(book))
        return Records(chosen.codes, Codebook(chosen.codebook.attributes, book.target))

    def bit(self) -> Warner:
        """The design of what is found out."""
        return Warner("classified", 1 / (1 + math.exp(-self.epsilon)))

    def record(self, codebook: Codebook, q: float | None = None) -> UnrelatedQuestion:
        """The design of a whole record, of the same epsilon unless q is given."""
        if q is None:
            # The largest ratio of two records is 1 + q K / (1 - q), for K joint categories.
            more = math.expm1(self.epsilon)
            q = more / (more + math.prod(codebook.shape))
        even = [[1 / size] * size for size in codebook.shape]
        return UnrelatedQuestion(codebook.names, q, even)

    def repeat(self, stream: SimulationStream, ready: Records) -> Mapping[str, Any]:
        size, book = len(ready), ready.codebook
        test = draw_test(size, size - round(self.train * size), stream.child(SPLIT))
        known = ready.take(np.sort(test))
        training = ready.take(np.setdiff1d(np.arange(size), test))
        reports = self.record(book, self.q).disguise(training, stream.child(TRAIN))
        model = self._model().fit(reports)
        accuracy = model.score(known)
        people = known.take(stream.generator(PEOPLE).integers(len(known), size=self.n))
        found = {
            "bit": self._by_bit(model, people, stream),
            **self._by_record(model, people, stream),
        }
        ends = {name: each.ends(LEVEL) for name, each in found.items()}
        return {
            "bias": {name: each.value - accuracy for name, each in found.items()},
            "squared": {
                name: self.n * (each.value - accuracy) ** 2 for name, each in found.items()
            },
            "coverage": {
                name: float(low <= accuracy <= high) for name, (low, high) in ends.items()
            },
            "half_width": {name: float(high - low) / 2 for name, (low, high) in ends.items()},
            "accuracy": dict.fromkeys(found, accuracy),
        }

    def _by_bit(self, model: Classifier, people: Records, stream: SimulationStream) -> Estimate:
        right = model.predict_codes(people) == people.column(model.target_)
        design = self.bit().bind(FOUND)
        reports = design.disguise(Records(right.astype(np.int8)[:, None], FOUND), stream.child(BIT))
        return estimate(reports, {"classified": "right"}, design=design)

    def _by_record(
        self, model: Classifier, people: Records, stream: SimulationStream
    ) -> dict[str, Estimate]:
        book = people.codebook
        design = self.record(book)
        reports = design.disguise(people, stream.child(RECORD))
        target = book.index(model.target_)

        def correct(codes: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
            hits: npt.NDArray[np.bool_] = (
                model.predict_codes(Records(codes, book)) == codes[:, target]
            )
            return hits

        by_law = score_disguised(correct, reports, design)
        drawn = stream.generator(OTHERS).integers(book.shape, size=(self.n, len(book.names)))
        others = Records(drawn, book)
        share = model.score(others)
        error = math.sqrt(share * (1 - share) / (self.n - 1))
        told = Estimate.single(share, error, self.n)
        by_others = score_by_personal(model, reports, told)
        return {"record": by_law, "record and others": by_others}

    @classmethod
    def findings(cls, ds: xr.Dataset) -> list[str]:
        """Where estimates are biased or intervals too short; what a record costs beside a bit."""
        found, ratios = [], []
        for where, cell in cells(ds):
            for variant in cls.variants:
                one = cell.sel(variant=variant)
                if one["completed"] < FEWEST:
                    continue
                place = f"{place_of(where)}, {variant}"
                bias, error = float(one["bias_mean"]), float(one["bias_mean_se"])
                if abs(bias) > ERRORS * error:
                    found.append(f"{place}: biased by {bias:+.4f}, standard error {error:.4f}.")
                share, error = float(one["coverage_mean"]), float(one["coverage_mean_se"])
                if share < LEVEL - ERRORS * error:
                    found.append(
                        f"{place}: intervals of 95 % hold the accuracy in {share:.3f} of the "
                        f"repeats, standard error {error:.4f}."
                    )
            squared = cell["squared_mean"]
            bit, record = (float(squared.sel(variant=v)) for v in cls.variants[:2])
            if bit > 0 and record > 0:
                ratios.append((record / bit, place_of(where)))
        if ratios:
            (least, here), (most, there) = min(ratios), max(ratios)
            found.append(
                f"For the same error, records need {least:,.1f} ({here}) to {most:,.0f} ({there}) "
                "times as many people as bits of the same epsilon."
            )
        return found
