"""Sizes and rates of the evolution."""

from __future__ import annotations

from dataclasses import dataclass

from ppdm_dask.errors import InputError
from ppdm_dask.shown import given

__all__ = ["Settings"]


@dataclass(frozen=True)
class Settings:
    """Sizes and rates of the evolution.

    Parameters
    ----------
    generations : int
        L, after which it stops.
    population, archive : int
        N_Q and N_V, 2 or more.
    slots : int
        Size of Omega.
    density : int
        Which nearest neighbour the density looks at; 1 in the paper.
    rate, scale : float
        Probability of a mutation, and the largest change of an entry by one.
    patience : int, optional
        Stop after so many generations in a row that leave Omega as it is.
    symbols : int, optional
        Reported symbols K, as many as categories by default.
    """

    generations: int = 20_000
    population: int = 200
    archive: int = 100
    slots: int = 1_000
    density: int = 1
    rate: float = 1.0
    scale: float = 0.1
    patience: int | None = None
    symbols: int | None = None

    def __post_init__(self) -> None:
        least = {"generations": 0, "population": 2, "archive": 2, "slots": 1, "density": 1}
        least |= {name: 1 for name in ("patience", "symbols") if getattr(self, name) is not None}
        for name, smallest in least.items():
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < smallest:
                raise InputError(
                    f"{name}: got {given(value)}; a whole number of {smallest} or more is needed",
                    value,
                )
        for name in ("rate", "scale"):
            value = getattr(self, name)
            if not isinstance(value, int | float) or not 0 < value <= 1:
                raise InputError(f"{name}: got {given(value)}; a number in (0, 1] is needed", value)
