"""A law of several attributes with its labels, and what of it is to be estimated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ppdm_dask.arrays import Floats
from ppdm_dask.errors import InputError
from ppdm_dask.ranges import real
from ppdm_dask.search.joint_cones import margins_of
from ppdm_dask.search.problem import SMALLEST
from ppdm_dask.shown import given, quoted

__all__ = ["Aim", "JointLaw", "joint_law"]

Aim = Literal["margins", "pairs", "cells"]


@dataclass(frozen=True, eq=False)
class JointLaw:
    """A joint law with its labels."""

    attributes: tuple[str, ...]
    categories: tuple[tuple[str, ...], ...]
    table: Floats

    @property
    def shape(self) -> tuple[int, ...]:
        return self.table.shape

    @property
    def cells(self) -> Floats:
        return self.table.ravel()

    @cached_property
    def margins(self) -> list[Floats]:
        return [margin @ self.cells for margin in margins_of(self.shape)]

    def contrasts(self, aim: str | npt.ArrayLike) -> Floats:
        """L of what is estimated."""
        if not isinstance(aim, str):
            L = _numbers(aim, "aim")
            if (
                L.ndim != 2
                or L.shape[1] != self.cells.size
                or not np.isfinite(L).all()
                or not L.any()
            ):
                raise InputError(
                    f"aim: shape {L.shape}; a matrix of numbers with a column for each of the "
                    f"{self.cells.size} joint categories is needed",
                    aim,
                )
            if not (np.ptp(L, axis=1) > 0).any():
                raise InputError(
                    "aim: every row is constant, so its sum is known; rows that differ between "
                    "joint categories are needed",
                    aim,
                )
            return L
        if aim == "cells":
            return np.eye(self.cells.size)
        margins = margins_of(self.shape)
        if aim == "margins":
            return np.concatenate(margins)
        if aim == "pairs":
            pairs = combinations(margins, 2)
            return np.concatenate(
                [(a[:, None] * b[None]).reshape(-1, self.cells.size) for a, b in pairs]
            )
        raise InputError(f"aim: got {given(aim)}; margins, pairs, cells or a matrix is needed", aim)

    def each(
        self,
        name: str,
        stated: Mapping[str, float],
        missing: float | None,
        low: float = 0.0,
        high: float = 1.0,
    ) -> tuple[float, ...]:
        """A number within a range for each attribute, in their order."""
        for attribute in stated:
            if attribute not in self.attributes:
                raise InputError(
                    f"{name}: {given(attribute)} is not in the prior, whose attributes are "
                    f"{quoted(self.attributes)}",
                    attribute,
                )
        found = []
        for attribute in self.attributes:
            value = stated.get(attribute, missing)
            if value is None:
                raise InputError(
                    f"{name}: none for {attribute!r}; each attribute needs one", stated
                )
            found.append(real(f"{name}[{attribute}]", value, low, high))
        return tuple(found)


def _numbers(stated: Any, name: str) -> Floats:
    try:
        found = np.asarray(stated)
        if np.iscomplexobj(found):
            raise ValueError
        return found.astype(float)
    except (TypeError, ValueError):
        raise InputError(f"{name}: a table of real numbers is needed", stated) from None


def joint_law(prior: Any) -> JointLaw:
    """A joint law from an xarray DataArray, or what becomes one, with its labels.

    Raises
    ------
    InputError
        If it is none, or has a cell below 1e-6: its name is in the message.
    """
    if not getattr(getattr(prior, "index", None), "is_unique", True):
        raise InputError("prior: a cell is there more than once; once each is needed", prior)
    table = prior.to_xarray() if hasattr(prior, "to_xarray") else prior
    if not (hasattr(table, "dims") and hasattr(table, "coords") and hasattr(table, "to_numpy")):
        raise InputError(
            f"prior: got {type(prior).__name__}; an xarray DataArray with a dimension for each "
            "attribute, or a pandas Series with a level for each, is needed",
            prior,
        )
    names = tuple(str(each) for each in table.dims)
    if len(names) < 2:
        raise InputError(f"prior: got {len(names)} attributes; 2 or more are needed", prior)
    for name in names:
        if name not in table.coords:
            raise InputError(f"prior: {name!r} has no coordinates; its categories are needed", name)
    labels = tuple(tuple(str(each) for each in table.coords[name].to_numpy()) for name in names)
    for name, own in zip(names, labels, strict=True):
        if len(own) < 2:
            raise InputError(
                f"prior: {name!r} has {len(own)} categories; 2 or more are needed", name
            )
    shares = _numbers(table.to_numpy(), "prior")
    shares = np.where(np.isnan(shares), 0.0, shares)  # a table of counts lacks cells of none
    for cell in np.argwhere(~(shares >= SMALLEST))[:1]:
        place = ", ".join(f"{n}={own[i]}" for n, own, i in zip(names, labels, cell, strict=True))
        raise InputError(
            f"prior: {place} has proportion {shares[tuple(cell)]:g}; {SMALLEST:g} or more is "
            "needed: give it a small share, or merge categories",
            prior,
        )
    if not abs(float(shares.sum()) - 1) <= 1e-9:
        raise InputError(f"prior: proportions sum to {shares.sum():.12g}; 1 is needed", prior)
    return JointLaw(names, labels, shares / shares.sum())
