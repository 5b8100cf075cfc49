"""Reports as a regression needs them: their patterns, and the weights of the true cells."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ppdm_dask.arrays import Floats, Ints
from ppdm_dask.data.codebook import Records, table_of
from ppdm_dask.designs.identity import Identity
from ppdm_dask.errors import InputError, RecordsError
from ppdm_dask.inference.clusters import Lone, linearised
from ppdm_dask.inference.formulas import Variable, missing_in
from ppdm_dask.inference.weights import answers_of, cell_weights, touched_part

if TYPE_CHECKING:
    import pandas as pd

    from ppdm_dask.designs.base import Design

__all__ = ["Columns", "Sample", "disguises", "opened"]


@dataclass(frozen=True, eq=False)
class Sample:
    """Reports as a fit needs them, a row for each different pattern of them.

    Rows of X are patterns of undisguised predictors times true cells of disguised ones.
    """

    frame: pd.DataFrame
    X: Floats
    which: Ints
    row: Ints
    d: Floats
    V: Floats
    T: Floats
    squares: Floats
    P: Floats | None
    survey: dict[str, Any]
    n: int

    @property
    def cells(self) -> int:
        return int(self.V.shape[1])

    def totals(self, values: Floats) -> Floats:
        """Weighted sums over patterns for each row of X, from shape (patterns, cells, ...)."""
        shape = (len(self.X) // self.cells, *values.shape[1:])
        total = np.zeros(shape)
        np.add.at(total, self.row, values * self.d.reshape(-1, *(1,) * (values.ndim - 1)))
        return total.reshape(-1, *values.shape[2:])

    def by_pattern(self, rows: Floats) -> Floats:
        """Values of rows of X as (patterns, cells, ...)."""
        return rows.reshape(-1, self.cells, *rows.shape[1:])[self.row]

    def covariance(self, scores: Floats, lone: Lone) -> Floats:
        """Covariance of the sum of the respondents' scores, given by pattern."""
        return linearised(scores[self.which], lone=lone, **self.survey)


def disguises(design: Design | None, name: str) -> bool:
    """Whether a design disguises an attribute."""
    blocks = () if design is None else design.blocks
    return any(name in b.attributes and not isinstance(b, Identity) for b in blocks)


def opened(
    X: Any, names: Iterable[str], survey: Mapping[str, Any], missing: str
) -> tuple[Records | None, dict[str, Any], dict[str, Any], int]:
    """Records, the columns beside them, the survey's structure, and rows that were left out.

    Parameters
    ----------
    X : Records or table
    names : iterable of str
        Variables, whose missing values are looked at.
    survey : mapping
        Weights, strata, clusters and fpc: arrays, names, or None.
    missing : {"fail", "drop"}
    """
    records = X if isinstance(X, Records) else None
    if records is not None:
        records = records.surveyed_by(**survey)
        if records.replicates is not None:
            raise InputError("replicates: regressions take none; give clusters and strata", None)
        kept: dict[str, Any] = dict(records.kept)
        found, n = dict(records.survey), len(records)
    else:
        table = table_of(X)
        kept = {str(name): table[name].to_numpy() for name in table.columns}
        n = len(table)
        found = {}
        for name, value in survey.items():
            if isinstance(value, str) and value not in kept:
                raise RecordsError(f"{name}: there is no column {value!r}", value)
            if value is not None:
                found[name] = np.asarray(kept[value] if isinstance(value, str) else value)
    if not n:
        raise RecordsError("there are no reports; at least one is needed", None)
    names = list(names)
    kept = {name: _as_numbers(x) if name in names else np.asarray(x) for name, x in kept.items()}
    gone = np.zeros(n, bool)
    for name in names:
        if name in kept and (records is None or name not in records.codebook.names):
            gone |= missing_in(kept[name])
    if not gone.any():
        return records, kept, found, 0
    count = int(gone.sum())
    if missing == "fail":
        raise RecordsError(
            f"{count:,} of {n:,} rows lack a variable; missing='drop' leaves them out", None
        )
    if gone.all():
        raise RecordsError("every row lacks a variable", None)
    rows = np.flatnonzero(~gone)
    kept = {name: column[rows] for name, column in kept.items()}
    found = {name: np.asarray(column)[rows] for name, column in found.items()}
    return None if records is None else records.take(rows), kept, found, count


def _as_numbers(values: Any) -> npt.NDArray[Any]:
    """A column, as numbers where all of it is: files hold texts of kept columns."""
    column = np.asarray(values)
    if column.dtype.kind in "iufb":
        return column
    try:
        return np.array([math.nan if x is None or x == "" else x for x in column.tolist()], float)
    except (TypeError, ValueError):
        return column


@dataclass(frozen=True, eq=False)
class Columns:
    """Variables of reports, and what the design says of them.

    Parameters
    ----------
    records : Records or None
    design : Design or None
        Bound to their codebook.
    kept : mapping of str to array
    variables : mapping of str to Variable
    found : dict
        Codes of kept columns, once they are known.
    """

    records: Records | None
    design: Design | None
    kept: Mapping[str, Any]
    variables: Mapping[str, Variable]
    found: dict[str, npt.NDArray[Any]] = field(default_factory=dict)

    @property
    def n(self) -> int:
        """Respondents."""
        return len(next(iter(self.kept.values()))) if self.records is None else len(self.records)

    def codes(self, name: str) -> npt.NDArray[Any]:
        """Codes, or numbers, of an undisguised variable, shape (n,)."""
        if self.records is not None and name in self.records.codebook.names:
            return self.records.column(name)
        if name not in self.found:
            self.found[name] = self.variables[name].coded(self.kept[name])
        return self.found[name]

    def respondents(self, names: Sequence[str]) -> pd.DataFrame:
        """Predictors, a row for each respondent; disguised ones run through their categories."""
        import pandas as pd

        columns = {}
        for name in names:
            variable = self.variables[name]
            hidden = np.arange(self.n) % max(len(variable.labels), 1)
            columns[name] = variable.column(hidden if variable.disguised else self.codes(name))
        return pd.DataFrame(columns, index=range(self.n))

    def reported(self, names: Sequence[str]) -> list[npt.NDArray[Any]]:
        """Columns of reports on which the weights of some attributes depend."""
        found: list[npt.NDArray[Any]] = []
        for block, touched in self._touched(names):
            assert self.records is not None
            there, part = touched_part(block, touched, self.records.codebook.names)
            found += list(answers_of(self.records, there, part).T)
        return found

    def _touched(self, names: Sequence[str]) -> list[tuple[Design, list[str]]]:
        blocks = () if self.design is None else self.design.blocks
        pairs = [(block, [n for n in block.attributes if n in names]) for block in blocks]
        return [(block, touched) for block, touched in pairs if touched]

    def crossed(
        self, starts: Ints, seen: Sequence[str], hidden: Sequence[str], shape: tuple[int, ...]
    ) -> pd.DataFrame:
        """Patterns of the undisguised predictors, each with all true cells of the others."""
        import pandas as pd

        cells = math.prod(shape)
        columns = {}
        for name in seen:
            columns[name] = self.variables[name].column(np.repeat(self.codes(name)[starts], cells))
        for name, codes in zip(hidden, np.indices(shape).reshape(len(shape), cells), strict=True):
            columns[name] = self.variables[name].column(np.tile(codes, len(starts)))
        return pd.DataFrame(columns, index=range(len(starts) * cells))

    def weights(self, rows: Ints, names: Sequence[str]) -> Floats:
        """Weights of the true joint categories of disguised attributes, shape (rows, cells)."""
        if not names:
            return np.ones((len(rows), 1))
        assert self.records is not None
        assert self.design is not None
        for block, _ in self._touched(names):
            block.require_inverse()
        return cell_weights(self.records.take(rows), self.design, tuple(names), {})

    def chances(self, outcome: str, rows: Ints, statistic: Floats) -> Floats | None:
        """Chance of the reported outcome for each class; None where classes do not say it.

        Parameters
        ----------
        statistic : array, shape (categories, classes - 1)
            1 in the class of each category; in none for the first class.
        """
        every = np.concatenate([1 - statistic.sum(axis=1, keepdims=True), statistic], axis=1)
        if not self.variables[outcome].disguised:
            return np.asarray(every[self.codes(outcome)[rows]])
        ((block, touched),) = self._touched([outcome])
        part = block.marginal(touched)
        if len(every) != every.shape[1] or part is None or part.kind == "set":
            return None
        assert self.records is not None
        symbols = part.joint(answers_of(self.records.take(rows), touched, part))
        return np.asarray((part.matrix() @ every)[symbols])
