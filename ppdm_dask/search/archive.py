"""Omega: the best matrix found for each slot of privacy.  Section V-H of [HuangDu]_."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from ppdm_dask.arrays import Floats, Ints
from ppdm_dask.search.objectives import Objectives

__all__ = ["Omega", "nondominated", "require_form"]


NUMBERS = ("privacy", "worst", "mse")


def nondominated(privacy: Floats, mse: Floats) -> Ints:
    """Indices of the points that no other dominates, by falling privacy; equals once."""
    order = np.lexsort((mse, -privacy))
    best = np.minimum.accumulate(mse[order])
    keep = np.ones(len(order), dtype=bool)
    keep[1:] = mse[order][1:] < best[:-1]
    return order[keep & np.isfinite(mse[order])]


class Omega:
    """A matrix a slot: of privacy in ``[i / slots, (i + 1) / slots)``, that with the least MSE.

    Parameters
    ----------
    slots : int
    shape : (int, int)
        Reported symbols and true categories.

    Attributes
    ----------
    P : array, shape (slots, K, n)
    privacy, worst, mse : arrays, shape (slots,)
        The MSE of an empty slot is infinite.
    """

    def __init__(self, slots: int, shape: tuple[int, int]) -> None:
        self.P = np.zeros((slots, *shape))
        self.privacy = np.full(slots, np.nan)
        self.worst = np.full(slots, np.nan)
        self.mse = np.full(slots, np.inf)

    def __len__(self) -> int:
        return int(np.isfinite(self.mse).sum())

    def slot(self, privacy: Floats) -> Ints:
        """The slot of each privacy."""
        slots = len(self.mse)
        return np.minimum((privacy * slots).astype(np.int64), slots - 1)

    def offer(self, P: Floats, found: Objectives) -> int:
        """Take the matrices that beat their slot; how many slots changed.

        Of several for one slot the best is taken, of equal ones the first; a slot keeps what is as
        good.
        """
        slot = self.slot(found.privacy)
        order = np.lexsort((found.mse, slot))
        first = order[np.r_[True, slot[order][1:] != slot[order][:-1]]] if len(order) else order
        better = first[found.mse[first] < self.mse[slot[first]]]
        at = slot[better]
        self.P[at] = P[better]
        self.privacy[at] = found.privacy[better]
        self.worst[at] = found.worst[better]
        self.mse[at] = found.mse[better]
        return len(better)

    def write_back(self, P: Floats, found: Objectives) -> None:
        """Replace the matrices that their slot beats by the slot's, in place."""
        slot = self.slot(found.privacy)
        worse = np.flatnonzero(self.mse[slot] < found.mse)
        at = slot[worse]
        P[worse] = self.P[at]
        found.privacy[worse] = self.privacy[at]
        found.worst[worse] = self.worst[at]
        found.mse[worse] = self.mse[at]

    def front(self) -> tuple[Floats, Objectives]:
        """The matrices that no other dominates, by falling privacy, and what they achieve."""
        keep = nondominated(np.where(np.isnan(self.privacy), -1.0, self.privacy), self.mse)
        return self.P[keep], Objectives(self.privacy[keep], self.worst[keep], self.mse[keep])

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """The filled slots as arrays, for :meth:`from_state`."""
        at = np.flatnonzero(np.isfinite(self.mse))
        return {
            "omega_at": at,
            "omega_P": self.P[at],
            "omega_privacy": self.privacy[at],
            "omega_worst": self.worst[at],
            "omega_mse": self.mse[at],
        }

    @classmethod
    def from_state(cls, state: Mapping[str, npt.NDArray[Any]], like: Omega) -> Self:
        """Inverse of :meth:`state`, for an Omega of the size of another.

        Raises
        ------
        KeyError, ValueError
            If the state is none of such an Omega.
        """
        slots, *shape = like.P.shape
        at = state["omega_at"]
        require_form(state, "omega_at", (len(at),), "i")
        if not (np.diff(at, prepend=-1, append=slots) > 0).all():
            raise ValueError("its slots are none of this Omega's")
        omega = cls(slots, (shape[0], shape[1]))
        for name, wanted in (("P", (len(at), *shape)), *((key, (len(at),)) for key in NUMBERS)):
            require_form(state, f"omega_{name}", wanted)
            getattr(omega, name)[at] = state[f"omega_{name}"]
        return omega


def require_form(
    state: Mapping[str, npt.NDArray[Any]], name: str, shape: tuple[int, ...], kind: str = "f"
) -> None:
    """Raise a KeyError or ValueError unless an array of a checkpoint has a shape and a type."""
    array = state[name]
    if array.shape != shape or array.dtype.kind != kind:
        raise ValueError(f"{name} has shape {array.shape}, {shape} is needed")
