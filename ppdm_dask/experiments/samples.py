"""The records of a data entry, split into a training and a test part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ppdm_dask.arrays import Ints
from ppdm_dask.data.codebook import Records
from ppdm_dask.errors import InputError, RecipeError
from ppdm_dask.experiments.inputs import Prepared
from ppdm_dask.randomness import SimulationStream
from ppdm_dask.shown import shown

SPLIT = 1
"""Role of the stream that draws a split; a sweep's other streams have 0, 2 and 3."""


def draw_test(n: int, n_test: int, stream: SimulationStream) -> Ints:
    """A uniform sample without replacement of ``n_test`` of the positions ``0 .. n - 1``."""
    from ppdm_dask.kernels.draws import choose

    # A partial shuffle: drawing the smaller test part takes the fewest words of the stream.
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
        # Training records first: engines then reach either part without an index, and the
        # training part by itself gets the same reports as within the whole.
        train_rows, test_rows = sample.split(seed, 0)
        together = records.take(np.concatenate([train_rows, test_rows]))
        return cls(together, target, n_train, split_key, redrawn)

    @property
    def n_test(self) -> int:
        """Records in the test part."""
        return len(self.records) - self.n_train

    def split(self, seed: int, repeat: int) -> tuple[Ints, Ints]:
        """Positions of the training and the test records in a repeat, drawn from its stream."""
        stream = SimulationStream(seed, (self.split_key, repeat, SPLIT))
        test = draw_test(len(self.records), self.n_test, stream)
        is_test = np.zeros(len(self.records), bool)
        is_test[test] = True
        return np.flatnonzero(~is_test), np.flatnonzero(is_test)

    def parts(self, seed: int, repeat: int) -> tuple[Ints, Ints]:
        """Positions of the training and the test records among :attr:`records`."""
        if self.redrawn:
            return self.split(seed, repeat)
        # `draw` has put the records into this order.
        return np.arange(self.n_train), np.arange(self.n_train, len(self.records))

    def majority_correct(self, seed: int, repeat: int) -> int:
        """Test records of the class that is most frequent in the training part."""
        train, test = self.parts(seed, repeat)
        classes = self.records.column(self.target)
        # By the training part, since the test part's own classes are what is predicted.
        majority = np.bincount(classes[train]).argmax()
        return int((classes[test] == majority).sum())


class DataPlan:
    """What plans have in common whose cells rest on the records of data entries."""

    prepared: Sequence[Prepared]

    @property
    def inputs(self) -> dict[str, dict[str, str]]:
        """Digests of each data entry's file and codebook, for the manifest."""
        return {each.entry.id: each.digests for each in self.prepared}

    @staticmethod
    def data_of(prepared: Prepared) -> dict[str, Any]:
        """A data entry in the parameters of its cells."""
        # Without its id: a cell's key, and so its draws, follow only from what is computed.
        entry = {key: value for key, value in prepared.entry.config().items() if key != "id"}
        return {**entry, **prepared.digests}


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
