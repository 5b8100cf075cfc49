"""Records (true answers) and reports (what leaves the respondent's hands), as codes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from ppdm_dask.errors import InputError, RecordsError
from ppdm_dask.ranges import whole
from ppdm_dask.shown import shown

if TYPE_CHECKING:
    from ppdm_dask.data.codebook import Codebook

__all__ = ["Records", "Reports", "code_dtype", "require_categories"]


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
    weights : array of float, shape (n_records,), optional
        Survey weights, positive: how many of the population a record stands for.
    strata : array of int, shape (n_records,), optional
        Stratum of each record, 0 or more; within a stratum records are a random sample.

    Raises
    ------
    RecordsError
        If the codes have the wrong shape or type, or lie outside the declared categories or
        symbols.
    """

    codes: npt.NDArray[Any]
    codebook: Codebook
    offset: int = 0
    weights: npt.NDArray[np.float64] | None = field(default=None, kw_only=True)
    strata: npt.NDArray[np.int64] | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        codes = np.asarray(self.codes)
        shape = self.sizes
        if codes.ndim != 2 or codes.shape[1] != len(shape):
            raise RecordsError(
                f"codes have shape {codes.shape}; the codebook needs (n, {len(shape)})", codes
            )
        if codes.dtype.kind not in "iu":
            raise RecordsError(f"codes have type {codes.dtype}; integers are needed", codes)
        try:
            whole("offset", self.offset, 0)
        except InputError as error:
            raise RecordsError(str(error), self.offset) from None
        for name, size, column in zip(self.codebook.names, shape, codes.T, strict=True):
            if column.size and (int(column.min()) < 0 or int(column.max()) >= size):
                bad = int(column.min()) if int(column.min()) < 0 else int(column.max())
                what = f"is not in 0 .. {size - 1}"
                raise RecordsError.at(
                    int(np.argmax(column == bad)) + self.offset,
                    f"attribute {name!r}: code {bad} {what}",
                    bad,
                    told=f"attribute {name!r}: a code {what}",
                )
        codes = np.asfortranarray(codes, dtype=code_dtype(max(shape, default=1)))
        if codes is self.codes:
            codes = codes.view()
        codes.flags.writeable = False
        object.__setattr__(self, "codes", codes)
        _check_survey(self, len(codes))

    @property
    def sizes(self) -> tuple[int, ...]:
        """Codes that each column can hold: the categories of its attribute."""
        return self.codebook.shape

    def __len__(self) -> int:
        return int(self.codes.shape[0])

    def column(self, name: str) -> npt.NDArray[Any]:
        """Codes of one attribute, shape (n_records,)."""
        return self.codes[:, self.codebook.index(name)]

    def _columns(self, names: tuple[str, ...]) -> dict[str, Any]:
        columns = [self.codebook.index(name) for name in names]
        return {"codes": self.codes[:, columns], "codebook": self.codebook.select(names)}

    def _rows(self, rows: Any) -> dict[str, Any]:
        """What changes where only some rows are kept."""
        fields: dict[str, Any] = {"codes": self.codes[rows]}
        for name in ("weights", "strata"):
            values = getattr(self, name)
            fields[name] = None if values is None else values[rows]
        return fields

    def select(self, names: Iterable[str]) -> Self:
        """The same records over fewer attributes, in the order given."""
        return replace(self, **self._columns(tuple(names)))

    def take(self, rows: npt.ArrayLike) -> Self:
        """The records at some positions, in that order, numbered anew from 0."""
        return replace(self, offset=0, **self._rows(np.asarray(rows)))

    def slice(self, start: int, stop: int) -> Self:
        """Records start .. stop - 1, counted as in a list; their offset moves along."""
        rows = range(len(self))[start:stop]
        return replace(self, offset=self.offset + rows.start, **self._rows(slice(start, stop)))

    def surveyed(
        self, weights: npt.ArrayLike | None = None, strata: npt.ArrayLike | None = None
    ) -> Self:
        """The same records with survey weights, strata or both."""
        # What is given is checked and made an array of floats or integers there.
        given: dict[str, Any] = {"weights": weights, "strata": strata}
        return replace(self, **given)


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
    sets : mapping of attribute to array of uint8, shape (n_records, ceil(categories / 8))
        Reports that are subsets of the categories: v is in one if bit ``v % 8`` of byte ``v // 8``
        is 1.  Their column of codes holds zeros.
    """

    design_digest: str = ""
    simulated: bool = True
    reported_sizes: tuple[int, ...] | None = None
    sets: Mapping[str, npt.NDArray[np.uint8]] = field(default_factory=dict)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Reported symbols that each column can hold."""
        return self.codebook.shape if self.reported_sizes is None else self.reported_sizes

    def __post_init__(self) -> None:
        super().__post_init__()
        kept = {}
        for name, given in self.sets.items():
            bits, n_bytes = np.asarray(given), -(-len(self.codebook[name].categories) // 8)
            if bits.dtype != np.uint8 or bits.shape != (len(self), n_bytes):
                raise RecordsError(
                    f"sets of {name!r} are {bits.dtype} {bits.shape}; "
                    f"uint8 {(len(self), n_bytes)} is needed",
                    bits,
                )
            kept[name] = bits.view()
            kept[name].flags.writeable = False
        object.__setattr__(self, "sets", MappingProxyType(kept))

    def _columns(self, names: tuple[str, ...]) -> dict[str, Any]:
        sizes = tuple(self.sizes[self.codebook.index(name)] for name in names)
        sets = {name: bits for name, bits in self.sets.items() if name in names}
        return {**super()._columns(names), "reported_sizes": sizes, "sets": sets}

    def _rows(self, rows: Any) -> dict[str, Any]:
        sets = {name: bits[rows] for name, bits in self.sets.items()}
        return {**super()._rows(rows), "sets": sets}

    def __reduce__(self) -> tuple[Any, ...]:
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return _rebuild, (type(self), {**values, "sets": dict(self.sets)})


def _rebuild(kind: type[Reports], values: dict[str, Any]) -> Reports:
    return kind(**values)


def _check_survey(records: Records, n: int) -> None:
    """Weights and strata as read-only arrays of the right shape, or a complaint."""
    if records.weights is not None:
        try:
            weights = np.array(records.weights, dtype=float)
        except (TypeError, ValueError):
            weights = np.zeros(0)
        if weights.shape != (n,) or not (np.isfinite(weights) & (weights > 0)).all():
            raise RecordsError(f"weights: {n} positive numbers are needed", records.weights)
        weights.flags.writeable = False
        object.__setattr__(records, "weights", weights)
    if records.strata is not None:
        strata = np.array(records.strata)
        if strata.shape != (n,) or strata.dtype.kind not in "iu" or (strata < 0).any():
            raise RecordsError(f"strata: {n} whole numbers of 0 or more are needed", records.strata)
        strata = strata.astype(np.int64)
        strata.flags.writeable = False
        object.__setattr__(records, "strata", strata)


def require_categories(records: Records, names: Iterable[str], what: str) -> None:
    """Raise RecordsError for reports whose symbols are not the categories of their attribute.

    Sets and symbols of designs that have more of them than categories have no label.
    """
    sets = getattr(records, "sets", {})
    for name in names:
        symbols = records.sizes[records.codebook.index(name)]
        known = len(records.codebook[name].categories)
        if name in sets or symbols != known:
            are = "sets" if name in sets else f"{symbols} symbols for {known} categories"
            raise RecordsError(
                f"reports of {shown(name)} are {are}, which are no answers to {what}; "
                "estimate from "
                "them instead",
                records,
            )
