"""The distinct records of a data set with their shares: what an adversary may know beforehand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ppdm_dask.mine.rows import row_keys

if TYPE_CHECKING:
    from ppdm_dask.records import Records

__all__ = ["Population"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Population:
    """A joint law of attributes, as the records that occur.

    Parameters
    ----------
    names : tuple of str
    shape : tuple of int
        Categories of each attribute.
    patterns : array, shape (patterns, attributes)
        Codes of the distinct records.
    shares : float array, shape (patterns,)
        They sum to 1.
    laws : mapping of str to array
        Distribution of each attribute.
    """

    names: tuple[str, ...]
    shape: tuple[int, ...]
    patterns: npt.NDArray[np.int64]
    shares: Floats
    laws: Mapping[str, Floats]

    @classmethod
    def of(cls, records: Records) -> Population:
        """The records at hand, each as likely as any other."""
        names, shape = records.codebook.names, records.codebook.shape
        codes = records.codes.astype(np.int64)
        _, first, times = np.unique(row_keys(codes, shape), return_index=True, return_counts=True)
        laws = {
            name: np.bincount(codes[:, i], minlength=k) / len(codes)
            for i, (name, k) in enumerate(zip(names, shape, strict=True))
        }
        return cls(names, shape, codes[first], times / len(codes), laws)

    def columns(self, names: Sequence[str]) -> list[int]:
        """Positions of some attributes."""
        return [self.names.index(name) for name in names]

    def table(self, names: Sequence[str]) -> Floats:
        """Joint law of some attributes, an array with an axis for each."""
        columns = self.columns(names)
        found = np.zeros([self.shape[i] for i in columns])
        np.add.at(found, tuple(self.patterns[:, columns].T), self.shares)
        return found
