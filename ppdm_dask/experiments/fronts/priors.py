"""Priors of a search: a distribution cut into bins, or an attribute of a data set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from ppdm_dask.errors import DataError
from ppdm_dask.experiments.fields import Table
from ppdm_dask.experiments.parts import Part, read_id
from ppdm_dask.shown import listed, shown

__all__ = ["Prior", "PriorSpec"]

Floats = npt.NDArray[np.float64]

LAWS = ("normal", "gamma", "uniform")


@dataclass(frozen=True, eq=False)
class Prior:
    """Proportions of the categories that occur.

    Parameters
    ----------
    name : str
        The entry's id, with the attribute for an attribute of a data set.
    proportions : array, shape (n,)
    sha256 : str
        Digest of the data file; empty for a law.
    dropped : int
        Categories of the attribute that do not occur.
    """

    name: str
    proportions: Floats
    sha256: str = ""
    dropped: int = 0


@dataclass(frozen=True)
class PriorSpec(Part):
    """A table ``[[prior]]``.

    Parameters
    ----------
    id : str
    delta : tuple of float
        Bounds on the posterior, in (0, 1].
    law : {"normal", "gamma", "uniform"}, optional
        Cut into ``bins`` equal bins: the normal on ``[-reach, reach]``, the gamma from 0 to its
        quantile ``upper``; probabilities are scaled to sum to 1.
    set : str, optional
        Or a bundled data set, with ``attributes``: numeric ones are cut into ``bins`` equal bins
        over their range, and missing values left out.
    methods : tuple of str
        Only these of the recipe's methods; all of them by default.
    """

    id: str
    delta: tuple[float, ...]
    bins: int = 10
    law: str | None = None
    reach: float | None = None
    shape: float | None = None
    scale: float | None = None
    upper: float | None = None
    set: str | None = None
    attributes: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()

    @classmethod
    def read(cls, table: Table, methods: tuple[str, ...]) -> Self:
        """Read a table ``[[prior]]``; `methods` are the recipe's."""
        from ppdm_dask import datasets

        name = read_id(table)
        law = table.optional_choice("law", LAWS, "a law")
        bundled = table.optional_choice("set", datasets.names(), "a bundled data set")
        if (law is None) == (bundled is None):
            raise table.error("law", law, "either a `law` or a `set` is needed, and not both")
        delta = []
        for i, value in enumerate(table.scalars("delta", "a list of bounds is needed")):
            if isinstance(value, bool | str) or not 0 < value <= 1:
                raise table.error(f"delta[{i}]", value, "a number in (0, 1] is needed")
            delta.append(float(value))
        bins = table.optional_integer("bins", 2) or 10
        numbers: dict[str, float | None] = {}
        for key in {"normal": ("reach",), "gamma": ("shape", "scale", "upper")}.get(law or "", ()):
            value = table.take(key)
            below = value is not None and (key != "upper" or value < 1)
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if not number or not below or not value > 0:
                right = "a proportion in (0, 1)" if key == "upper" else "a number above 0"
                raise table.error(key, value, f"{right} is needed")
            numbers[key] = float(value)
        attributes = table.texts("attributes")
        if bundled is not None:
            columns = list(datasets.load(bundled).columns)
            for i, attribute in enumerate(attributes):
                if attribute not in columns or attribute in attributes[:i]:
                    right = f"an attribute of {bundled!r} is needed, each once: "
                    raise table.error(f"attributes[{i}]", attribute, right + listed(columns))
        if bool(attributes) != (bundled is not None):
            raise table.error("attributes", list(attributes), "attributes of a `set` are needed")
        own = table.texts("methods")
        for i, method in enumerate(own):
            if method not in methods:
                right = f"one of the search's methods is needed: {', '.join(methods)}"
                raise table.error(f"methods[{i}]", method, right)
        table.done()
        return cls(
            name,
            tuple(delta),
            bins,
            law,
            set=bundled,
            attributes=attributes,
            methods=own,
            **numbers,
        )

    def priors(self) -> list[Prior]:
        """The priors that the entry stands for."""
        if self.law is not None:
            return [Prior(self.id, self._cut())]
        from ppdm_dask import datasets

        frame = datasets.load(str(self.set))
        sha256 = datasets.describe(str(self.set)).sha256
        return [
            Prior(f"{self.id}/{name}", *_proportions(frame[name], self.bins, sha256))
            for name in self.attributes
        ]

    def _cut(self) -> Floats:
        from scipy import stats

        if self.law == "uniform":
            return np.full(self.bins, 1 / self.bins)
        if self.law == "normal":
            assert self.reach is not None
            law, low, high = stats.norm(), -self.reach, self.reach
        else:
            law = stats.gamma(self.shape, scale=self.scale)
            low, high = 0.0, float(law.ppf(self.upper))
        found: Floats = np.diff(law.cdf(np.linspace(low, high, self.bins + 1)))
        found /= found.sum()
        return found


def _proportions(column: Any, bins: int, sha256: str) -> tuple[Floats, str, int]:
    """Proportions of the categories or bins that occur, in their order."""
    import pandas as pd

    present = column.dropna()
    if not len(present):
        raise DataError(f"attribute {shown(column.name)} has no values", column)
    if pd.api.types.is_numeric_dtype(present):
        values = present.to_numpy(dtype=float)
        counts, _ = np.histogram(values, bins=bins)
    else:
        counts = present.astype(str).value_counts().sort_index().to_numpy()
    occurring = counts[counts > 0]
    return occurring / occurring.sum(), sha256, int((counts == 0).sum())
