"""The unrelated-question design over a record or a block of it: [ZhanMatwin]_, 2.2."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from ppdm_dask.designs.base import Floats
from ppdm_dask.designs.mixture import COIN, PERSONAL, Mixture
from ppdm_dask.designs.parameters import (
    attribute_names,
    check_keys,
    distribution,
    probability,
    shape_of,
)
from ppdm_dask.designs.registry import register
from ppdm_dask.errors import DesignError
from ppdm_dask.randomness import exact

__all__ = ["COIN", "PERSONAL", "UnrelatedQuestion"]

Personal = float | Sequence[float] | npt.NDArray[np.float64]


@register
@dataclass(frozen=True, eq=False, init=False)
class UnrelatedQuestion(Mixture):
    """With probability q the true answers, else the answers to unrelated questions.

    ``P*(A) = q P(A) + (1 - q) P(Y)``, Eq. (1) of [ZhanMatwin]_.  The personal attributes are
    independent of the private ones and of one another.

    Parameters
    ----------
    attributes : str or iterable of str
        The block: one coin decides for all of it.
    q : float
        In [0, 1]; at 0 the design has no inverse.
    w_y : float or sequence
        Law of the personal attributes.  A number is P(Y = 1) of every attribute, all binary; in a
        sequence each attribute has its own: a number if binary, else a probability vector.
    shape : sequence of int, optional
        Categories of each attribute, checked against w_y.

    Raises
    ------
    DesignError
        For a value outside its range, or lengths that disagree.
    """

    id = "unrelated"

    attributes: tuple[str, ...]
    shape: tuple[int, ...]
    q: float
    w_y: tuple[Floats, ...]

    def __init__(
        self,
        attributes: str | Iterable[str],
        q: float,
        w_y: float | Sequence[Personal] = 0.5,
        shape: Sequence[int] | None = None,
    ) -> None:
        names = attribute_names(attributes)
        laws = _laws(names, w_y)
        sizes = tuple(law.size for law in laws)
        if shape is not None and shape_of(shape, len(names)) != sizes:
            raise DesignError(
                f"w_y: gives {list(sizes)} categories; shape says {list(shape)} "
                "(a single number stands for a binary attribute)",
                w_y,
            )
        object.__setattr__(self, "attributes", names)
        object.__setattr__(self, "shape", sizes)
        object.__setattr__(self, "q", probability("q", q))
        object.__setattr__(self, "w_y", laws)

    @property
    def mixing(self) -> float:
        return self.q

    @property
    def factors(self) -> tuple[Floats, ...]:
        return self.w_y

    @property
    def undefined(self) -> str:
        return super().undefined if self.q else "at q = 0 every report is the personal answer"

    def marginal(self, attributes: Sequence[str]) -> UnrelatedQuestion:
        laws = dict(zip(self.attributes, self.w_y, strict=True))
        return UnrelatedQuestion(attributes, self.q, [laws[name] for name in attributes])

    def config(self) -> dict[str, Any]:
        laws = [float(law[1]) if law.size == 2 else law.tolist() for law in self.w_y]
        return self._named(q=self.q, w_y=laws)

    @classmethod
    def from_config(cls, parameters: Mapping[str, Any]) -> Self:
        check_keys(cls.id, parameters, {"attributes", "q"}, {"w_y", "shape"})
        return cls(**parameters)


def _laws(names: tuple[str, ...], w_y: Any) -> tuple[Floats, ...]:
    if isinstance(w_y, str) or not isinstance(w_y, Iterable):
        entries = [probability("w_y", w_y)] * len(names)
    else:
        entries = list(w_y)
    if len(entries) != len(names):
        raise DesignError(
            f"w_y: got {len(entries)} entries; one for each of {len(names)} attributes is needed",
            w_y,
        )
    return tuple(_law(name, entry) for name, entry in zip(names, entries, strict=True))


def _law(name: str, entry: Any) -> Floats:
    what = f"w_y of {name!r}"
    if isinstance(entry, str) or not isinstance(entry, Iterable):
        law = np.array([1.0, probability(what, entry)])
    else:
        law = distribution(what, entry)
    if law.size == 2:
        # P(Y = 1) alone goes into the configuration, from which an equal law must come back.
        yes = float(law[1])
        law = np.array([float(1 - exact(yes)), yes])
        law.flags.writeable = False
    return law
