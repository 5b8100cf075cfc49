"""A published survey: its device, and the counts of its answers or the law that they follow.

A claim with a ``[claim.survey]`` needs no run.  Its numbers are those that :func:`estimate` gives
for the counts, or :meth:`Design.variance` for the law, and the same rules judge them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ppdm_dask.data.attribute import Attribute
from ppdm_dask.data.codebook import Codebook, Reports
from ppdm_dask.designs.base import Design, design_from_config
from ppdm_dask.errors import InputError
from ppdm_dask.files.fields import TomlTable
from ppdm_dask.files.values import Many, Number, Text, Whole
from ppdm_dask.inference.proportions import Method, estimate
from ppdm_dask.inference.tables import ContingencyTable, count

if TYPE_CHECKING:
    import xarray as xr

METHODS: dict[str, Method] = {"invert": "invert", "mle": "mle"}

DIVISORS = ("n", "n - 1")
"""What a published variance divides by: the plain one by n, the unbiased one by n - 1."""


@dataclass(frozen=True)
class Survey:
    """One question that was asked with a device, as a publication states it.

    Parameters
    ----------
    design : Design
        The device, of one attribute, bound to the categories.
    of : str
        The category whose proportion is estimated.
    at : int
        Its position among the categories.
    table : ContingencyTable, optional
        Counts of what was reported.
    law : tuple of float, optional
        Instead of counts: the proportions of the true categories.
    n : int, optional
        Respondents; needed with a law for a standard error.
    method : {"invert", "mle"}
        Of the estimate.
    divisor : {"n", "n - 1"}
        Of the published variance.
    """

    design: Design
    of: str
    at: int
    table: ContingencyTable | None
    law: tuple[float, ...] | None
    n: int | None
    method: Method
    divisor: str

    @classmethod
    def read(cls, table: TomlTable) -> Self:
        """Read the keys of ``[claim.survey]``.

        Raises
        ------
        RecipeError
            One line: file, dotted path, value, and what would be right.
        """
        labels = table.get("categories", Many(Text(), "a list of categories is needed", 2, True))
        of = table.choice("of", labels, "a category")
        config = table.table("design", "a table with the id of a design is needed").rest()
        try:
            design = design_from_config(config)
            if len(design.attributes) != 1:
                raise InputError(f"{len(design.attributes)} attributes; one is needed", config)
            (name,) = design.attributes
            book = Codebook((Attribute(name, tuple(labels)),))
            design = design.bind(book)
        except InputError as error:
            raise table.error("design", config.get("id"), str(error)) from None
        counts, law = table.take("counts"), table.take("law")
        if (counts is None) == (law is None):
            raise table.error("counts", counts, "either counts or a law is needed")
        n = table.maybe("n", Whole(2)) if counts is None else None
        method = METHODS[table.optional_choice("method", METHODS, "a method") or "invert"]
        default = "n - 1" if law is None else "n"
        divisor = table.optional_choice("divisor", DIVISORS, "a divisor") or default
        counted = None if counts is None else _counted(table, counts, design, book)
        proportions = None if law is None else _law(table, law, labels, of)
        table.done()
        return cls(design, of, labels.index(of), counted, proportions, n, method, divisor)

    def numbers(self) -> xr.Dataset:
        """The numbers that can be judged, as a result without axes.

        From counts ``estimate``, ``total``, which is n times that, ``error``, and ``lower`` and
        ``upper`` of Wald's 95 % interval, the last three where there is a variance.  From a law
        ``ratio``, the variance over that of a direct question, and ``error`` where n is known.
        """
        import xarray as xr

        found = self._of_law() if self.table is None else self._of_counts(self.table)
        return xr.Dataset({key: ((), value) for key, value in found.items()})

    def _of_counts(self, table: ContingencyTable) -> dict[str, float]:
        over = self.design.attributes
        found = estimate(table, over, design=self.design, method=self.method)
        value = float(found.values[self.at])
        numbers = {"estimate": value, "total": value * found.n}
        if found.variance is not None:
            # Ours is the unbiased one; a plain one is less by a factor that n says exactly.
            variance = found.variance * (1.0 if self.divisor == "n - 1" else 1 - 1 / found.n)
            lower, upper = replace(found, variance=variance).ends(0.95, "wald")
            numbers["error"] = float(np.sqrt(variance[self.at]))
            numbers |= {"lower": float(lower[self.at]), "upper": float(upper[self.at])}
        return numbers

    def _of_law(self) -> dict[str, float]:
        assert self.law is not None
        variance, p = float(self.design.variance(self.law)[self.at]), self.law[self.at]
        numbers = {"ratio": variance / (p * (1 - p))}
        if self.n is not None:
            numbers["error"] = float(np.sqrt(variance / (self.n - (self.divisor == "n - 1"))))
        return numbers

    @property
    def words(self) -> str:
        """What was asked, and of how many, as text."""
        n = self.n if self.table is None else self.table.n
        return f"{self.design.id} design" + ("" if n is None else f", {n:,} respondents")


def _counted(table: TomlTable, counts: Any, design: Design, book: Codebook) -> ContingencyTable:
    """Counts by the words that people answered with."""
    if not isinstance(counts, Mapping) or not counts:
        raise table.error("counts", counts, "a table of answers with their counts is needed")
    inner = TomlTable(counts, table.source, table.dotted("counts"), table.place.error)
    numbers = np.array([inner.get(word, Whole(0)) for word in counts], dtype=np.int64)
    try:
        # Each word once: what it stands for is read as answers of the field are.
        reports = Reports.from_field({book.names[0]: list(counts)}, design, book)
        once = count(reports).dense()
    except InputError as error:
        raise table.error("counts", next(iter(counts)), str(error)) from None
    found = np.zeros_like(once.counts)
    np.add.at(found, np.asarray(reports.codes)[:, 0], numbers)
    if not found.any():
        raise table.error("counts", 0, "at least one respondent is needed")
    return replace(once, counts=found)


def _law(table: TomlTable, law: Any, labels: tuple[str, ...], of: str) -> tuple[float, ...]:
    """The proportions of all categories, by label; that of one is neither 0 nor 1."""
    if not isinstance(law, Mapping) or set(law) != set(labels):
        raise table.error("law", law, "a table with the proportion of each category is needed")
    inner = TomlTable(law, table.source, table.dotted("law"), table.place.error)
    share = Number("a proportion is needed", 0, 1)
    found = tuple(float(inner.get(label, share)) for label in labels)
    if found[labels.index(of)] in (0, 1):
        raise inner.error(of, law[of], "a proportion above 0 and below 1 is needed")
    if abs(sum(found) - 1) > 1e-9:
        raise table.error("law", sum(found), "proportions that sum to 1 are needed")
    return found
