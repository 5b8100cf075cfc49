"""Two attributes in one report: against a report on each, and against SPEA2 on joint matrices."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np

from ppdm_dask.arrays import Floats
from ppdm_dask.data.codebook import Codebook, Records
from ppdm_dask.errors import InputError
from ppdm_dask.experiments.trials.trial import Measure, Trial
from ppdm_dask.files.values import Number, Text, Whole
from ppdm_dask.search.joint import joint_level
from ppdm_dask.search.joint_cones import MOST_CELLS, largest_of_margins
from ppdm_dask.search.joint_law import JointLaw
from ppdm_dask.search.optimize import optimize
from ppdm_dask.search.problem import SMALLEST
from ppdm_dask.search.program import Program
from ppdm_dask.shown import listed

if TYPE_CHECKING:
    from ppdm_dask.randomness import SimulationStream

__all__ = ["JointTrial"]

KEPT = 0.5
"""Privacy of the search's objective at which a matrix tells as little as the reports alone."""


class Ready(NamedTuple):
    """What all repeats have in common."""

    law: JointLaw
    level: Mapping[str, Any]


@dataclass(frozen=True)
class JointTrial(Trial):
    """Proportions of two attributes at the privacy of reports on each alone.

    The joint law is that of the records.  The attributes alone have their optimal designs, whose
    best guesses are right with probabilities `level` of the way from that without a report to 1;
    what both reports together tell of each attribute, the joint designs tell at most.

    Parameters
    ----------
    first, second : str
        Attributes with up to 18 joint categories, all of which occur.
    level : float
        Level between no report (0) and certainty (1).
    generations : int
        Generations of SPEA2's search for square joint matrices, which has a new seed in each
        repeat.
    """

    measures = (
        Measure("error", "mean variance of the proportions, times n"),
        Measure("ratio", "error over the certified limit of joint designs"),
    )
    variants = ("alone", "joint", "SPEA2")

    uses_data = True

    first: Annotated[str, Text("the name of an attribute is needed")]
    second: Annotated[str, Text("the name of an attribute is needed")]
    level: Annotated[
        float, Number("a share between 0 and 1, both excluded, is needed", above=0, below=1)
    ]
    generations: Annotated[int, Whole(1)] = 300

    @property
    def names(self) -> tuple[str, str]:
        """The two attributes."""
        return self.first, self.second

    def check_codebook(self, codebook: Codebook) -> None:
        for key, name in zip(("first", "second"), self.names, strict=True):
            if name not in codebook.names:
                raise InputError(f"{key}: got {listed([name])}; the data have no such attribute")
        if self.first == self.second:
            raise InputError(f"second: got {listed([self.second])} twice; two are needed")
        cells = math.prod(len(codebook[name].categories) for name in self.names)
        if cells > MOST_CELLS:
            raise InputError(f"second: {cells} joint categories; up to {MOST_CELLS} are solved")

    def undefined(self, records: Records | None) -> str:
        assert records is not None
        least = self._table(records).min()
        return "" if least >= SMALLEST else "some joint category does not occur"

    def _table(self, records: Records) -> Floats:
        codebook = records.codebook
        shape = [len(codebook[name].categories) for name in self.names]
        table = np.zeros(shape)
        at = tuple(records.codes[:, codebook.names.index(name)] for name in self.names)
        np.add.at(table, at, 1.0)
        result: Floats = table / table.sum()
        return result

    def ready(self, records: Records | None) -> Ready:
        assert records is not None
        categories = tuple(tuple(records.codebook[name].categories) for name in self.names)
        law = JointLaw(self.names, categories, self._table(records))
        return Ready(law, joint_level(law, self.level, (1.0, 1.0)))

    def repeat(self, stream: SimulationStream, ready: Ready) -> Mapping[str, Any]:
        law, level = ready
        front = optimize(
            law.cells,
            1,
            method="spea2",
            generations=self.generations,
            objective=_Objective(law, np.array(level["privacy"])),
            map=map,
            progress=False,
            seed=int(stream.generator().integers(2**31)),
        )
        kept = front["privacy"].to_numpy() >= KEPT
        found = float(front["error"].to_numpy()[kept].min()) if kept.any() else math.nan
        noise = {"alone": level["mse_alone"], "joint": level["mse"], "SPEA2": found}
        figures = sum(law.shape)
        return {
            "error": {name: each / figures for name, each in noise.items()},
            "ratio": {name: each / level["bound"] for name, each in noise.items()},
        }


class _Objective:
    """Privacy .5 where a matrix tells of each attribute what it may; and the margins' noise."""

    def __init__(self, law: JointLaw, wrong: Floats) -> None:
        self.law, self.wrong = law, wrong
        self.program = Program(law.cells, law.contrasts("margins"), np.zeros(0))

    def __call__(self, P: Floats) -> Floats:
        right = largest_of_margins(P * self.law.cells, self.law.shape).sum(axis=1)
        privacy = KEPT * ((1 - right) / self.wrong).min(axis=1)
        noise = [self.program.noise_of_matrix(each) for each in P]
        return np.stack([np.clip(privacy, 0, 1), noise], axis=1)
