"""Records (true answers) and reports (what leaves the respondent's hands), as codes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from ppdm_dask.errors import RecordsError

if TYPE_CHECKING:
    from ppdm_dask.codebook import Codebook

__all__ = ["Records", "Reports", "code_dtype"]


def code_dtype(n_categories: int) -> np.dtype[Any]:
    """Smallest unsigned integer type that holds the codes 0 .. n_categories - 1."""
    return np.min_scalar_type(max(n_categories - 1, 0))


@dataclass(frozen=True, eq=False)
class Records:
    """Coded answers, one row a record and one column an attribute of the codebook.

    Parameters
    ----------
    codes : array of unsigned integers, shape (n_records, n_attributes)
        ``codes[i, a]`` in ``0 .. codebook.shape[a] - 1``. Kept read-only, columns contiguous.
    codebook : Codebook
        Declares the attributes and categories.
    offset : int
        Position of the first record in the whole data set; random draws are keyed by it.

    Raises
    ------
    RecordsError
        If the codes have the wrong shape or type, or lie outside the declared categories or
        symbols.
    """

    codes: npt.NDArray[Any]
    codebook: Codebook
    offset: int = 0

    def __post_init__(self) -> None:
        codes = np.asarray(self.codes)
        shape = self.sizes
        if codes.ndim != 2 or codes.shape[1] != len(shape):
            raise RecordsError(
                f"codes have shape {codes.shape}; the codebook needs (n, {len(shape)})", codes
            )
        if codes.dtype.kind not in "iu":
            raise RecordsError(f"codes have type {codes.dtype}; integers are needed", codes)
        if self.offset < 0:
            raise RecordsError(f"offset is {self.offset}; it must be 0 or more", self.offset)
        for name, size, column in zip(self.codebook.names, shape, codes.T, strict=True):
            if column.size and (int(column.min()) < 0 or int(column.max()) >= size):
                bad = int(column.min()) if int(column.min()) < 0 else int(column.max())
                raise RecordsError(f"attribute {name!r}: code {bad} is not in 0 .. {size - 1}", bad)
        codes = np.asfortranarray(codes, dtype=code_dtype(max(shape, default=1)))
        if codes is self.codes:
            codes = codes.view()
        codes.flags.writeable = False
        object.__setattr__(self, "codes", codes)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Codes that each column can hold: the categories of its attribute."""
        return self.codebook.shape

    def __len__(self) -> int:
        return int(self.codes.shape[0])

    def column(self, name: str) -> npt.NDArray[Any]:
        """Codes of one attribute, shape (n_records,)."""
        return self.codes[:, self.codebook.index(name)]

    def select(self, names: Iterable[str]) -> Self:
        """The same records over fewer attributes, in the order given."""
        names = tuple(names)
        columns = [self.codebook.index(name) for name in names]
        return replace(self, codes=self.codes[:, columns], codebook=self.codebook.select(names))

    def take(self, rows: npt.ArrayLike) -> Self:
        """The records at some positions, in that order, numbered anew from 0."""
        return replace(self, codes=self.codes[np.asarray(rows)], offset=0)

    def slice(self, start: int, stop: int) -> Self:
        """Records start .. stop - 1, counted as in a list; their offset moves along."""
        rows = range(len(self))[start:stop]
        return replace(self, codes=self.codes[start:stop], offset=self.offset + rows.start)


@dataclass(frozen=True, eq=False)
class Reports(Records):
    """Disguised answers: codes of reported symbols, and which design made them.

    Parameters
    ----------
    design_digest : str
        Digest of the design that disguised the records; estimates check it.
    simulated : bool
        True if a seeded generator drew the disguise, so that the seed would undo it.
    reported_sizes : tuple of int, optional
        Reported symbols of each column, where a design has more of them than categories; the
        attributes and labels of the codebook are those of the truth.
    """

    design_digest: str = ""
    simulated: bool = True
    reported_sizes: tuple[int, ...] | None = None

    @property
    def sizes(self) -> tuple[int, ...]:
        """Reported symbols that each column can hold."""
        return self.codebook.shape if self.reported_sizes is None else self.reported_sizes

    def select(self, names: Iterable[str]) -> Self:
        names = tuple(names)
        columns = [self.codebook.index(name) for name in names]
        return replace(
            self,
            codes=self.codes[:, columns],
            codebook=self.codebook.select(names),
            reported_sizes=tuple(self.sizes[i] for i in columns),
        )
