"""Two owners of records, one of whom disguises: what the other gains.  [ZhanDu]_, 2 and 4.8."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from ppdm_dask.data.codebook import Codebook, Records
from ppdm_dask.designs.multigroup import MultiGroup
from ppdm_dask.errors import InputError
from ppdm_dask.experiments.samples import draw_test
from ppdm_dask.experiments.trials.results import cells, place_of
from ppdm_dask.experiments.trials.trial import Measure, Trial
from ppdm_dask.files.values import Choice, Number, Place, Whole
from ppdm_dask.inference.owners import Owners
from ppdm_dask.mine.classifier import Classifier
from ppdm_dask.mine.id3 import ID3
from ppdm_dask.mine.naive_bayes import NaiveBayes

if TYPE_CHECKING:
    from typing import Self

    import xarray as xr

    from ppdm_dask.randomness import SimulationStream

__all__ = ["OwnersTrial"]

SPLIT, GROUPS, DISGUISE = 1, 2, 3
"""Streams of a repeat."""

ERRORS = 2.0
"""Standard errors below 0 from which a mean gain is reported as a loss."""

Between = Number("a share between 0 and 1 is needed", above=0, below=1)


@dataclass(frozen=True)
class OwnersTrial(Trial):
    """A's reports and B's true records in one model: the accuracy on records of neither.

    In each repeat the training records are dealt to A and B at random, the attributes to groups.

    Parameters
    ----------
    theta : float
        Probability that A reports a group of answers truthfully; otherwise the whole group is
        reversed.
    share : float
        B's share of the training records, between 0 and 1.
    learner : {"id3", "naive-bayes"}
        Which is fitted.
    max_depth : int, optional
        Depth of the trees; by default without limit.
    groups : int
        Number of groups of attributes, including the class.
    train : float
        Share of all records used for training, between 0 and 1.
    """

    measures = (
        Measure("accuracy", "accuracy on clean test records"),
        Measure("gain", "accuracy less that of B's records alone"),
    )
    variants = ("A", "B", "A + B", "A + B by precision")
    uses_data = True

    theta: Annotated[float, Number("a probability from 0 to 1 is needed", 0, 1)]
    share: Annotated[float, Between]
    learner: Annotated[str, Choice(("id3", "naive-bayes"), "a learner")] = "id3"
    max_depth: Annotated[int | None, Whole(0)] = None
    groups: Annotated[int, Whole(1)] = 2
    train: Annotated[float, Between] = 0.8

    def checked(self, at: Place) -> Self:
        if self.max_depth is not None and self.learner != "id3":
            raise at["max_depth"].wrong(self.max_depth, "only trees have a depth; leave it out")
        return self

    def check_codebook(self, codebook: Codebook) -> None:
        if codebook.target is None:
            raise InputError("learner: the codebook names no target to predict", codebook)
        if self.groups > len(codebook.names):
            right = f"at most the {len(codebook.names)} attributes are needed"
            raise InputError(f"groups: got {self.groups}; {right}", self.groups)

    def undefined(self, records: Records | None) -> str:
        assert records is not None
        if min(self._sizes(len(records))) < 1:
            return "A, B or the test has no record"
        return "at theta = 1/2 nothing can be told from A's reports" if self.theta == 0.5 else ""

    def _sizes(self, n: int) -> tuple[int, int, int]:
        """Records of A, of B, and of the test."""
        trained = round(self.train * n)
        own = round(self.share * trained)
        return trained - own, own, n - trained

    def _model(self) -> Classifier:
        return NaiveBayes() if self.learner == "naive-bayes" else ID3(max_depth=self.max_depth)

    def repeat(self, stream: SimulationStream, ready: Records) -> Mapping[str, Any]:
        of_a, of_b, tested = self._sizes(len(ready))
        test = draw_test(len(ready), tested, stream.child(SPLIT))
        trained = np.setdiff1d(np.arange(len(ready)), test)
        chosen = draw_test(len(trained), of_b, stream.child(SPLIT, 1))
        clean = ready.take(trained[chosen])
        others = ready.take(np.delete(trained, chosen))
        names = ready.codebook.names
        design = MultiGroup.random(names, self.groups, self.theta, stream.child(GROUPS))
        reports = design.disguise(others, stream.child(DISGUISE))
        assert len(reports) == of_a
        evidence: dict[str, Any] = {
            "A": reports,
            "B": clean,
            "A + B": Owners(reports, clean),
            "A + B by precision": Owners(reports, clean, weights="precision"),
        }
        records = ready.take(test)
        accuracy = {name: self._model().fit(each).score(records) for name, each in evidence.items()}
        gain = {name: value - accuracy["B"] for name, value in accuracy.items()}
        return {"accuracy": accuracy, "gain": gain}

    @classmethod
    def findings(cls, ds: xr.Dataset) -> list[str]:
        """Where A's reports make B's model worse than B's records alone, by paired repeats."""
        found = []
        for variant in cls.variants[2:]:
            part = ds.sel(variant=variant)
            known = list(_cells(part))
            worse = [where for where, gain, error in known if gain < -ERRORS * error]
            better = sum(gain > ERRORS * error for _, gain, error in known)
            if not known:
                continue
            head = f"{variant}: better than B alone by more than {ERRORS:g} standard errors in "
            head += f"{better} of {len(known)} cells, worse in {len(worse)}"
            found.append(f"{head}: {'; '.join(worse)}." if worse else f"{head}.")
        return found


def _cells(ds: xr.Dataset) -> Iterator[tuple[str, float, float]]:
    """Each cell as text, with its mean gain and its standard error, where there are some."""
    for where, cell in cells(ds):
        gain, error = float(cell["gain_mean"]), float(cell["gain_mean_se"])
        if math.isnan(gain) or math.isnan(error):
            continue
        yield f"{place_of(where)} ({gain:+.4f}, standard error {error:.4f})", gain, error
