"""One repeat: split, fit the method on the training part, release it, measure, train and score."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ppdm_dask.codebook import Codebook
from ppdm_dask.experiments.perturbation.classifiers import CLASSIFIERS, TrainTest
from ppdm_dask.experiments.plan import Cell
from ppdm_dask.experiments.sample import Sample
from ppdm_dask.perturb import disclosure, distortion, perturbation_from_config
from ppdm_dask.perturb.columns import Floats
from ppdm_dask.randomness import SimulationStream

__all__ = ["ORIGINAL", "Material", "PerturbationWork", "split_key", "stream_key"]

ORIGINAL = {"id": "original"}
"""Stands in place of a method for the benchmark: the original is released as it is."""

FIT, RELEASE, CLASSIFY = 0, 1, 2
"""Roles of the streams below (setting, repeat)."""


def split_key(params: Mapping[str, Any]) -> int:
    """Key of the splits: they depend on the data and the share alone."""
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

    Parameters
    ----------
    materials : mapping of int to Material
        By :func:`split_key`.
    seed : int
        Entropy of the run.
    """

    def __init__(self, materials: Mapping[int, Material], seed: int) -> None:
        self.materials = materials
        self.seed = seed

    def trials(self, cell: Cell, start: int, stop: int) -> dict[str, npt.NDArray[Any]]:
        """Results of repeats ``start .. stop - 1``; one column of ``correct`` a classifier."""
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

    # What goes in was checked; scikit-learn's own checks would cost more than its work.
    with config_context(assume_finite=True, skip_parameter_validation=True):
        return [CLASSIFIERS[name](parts) for name in classifiers]
