"""Designs in which a yes never becomes a no: Mangat's, and the triangular model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import numpy as np

from ppdm_dask.arrays import Floats
from ppdm_dask.designs.base import register
from ppdm_dask.designs.labelled import Trait
from ppdm_dask.designs.mixture import Mixture
from ppdm_dask.designs.parameters import (
    LABELS,
    OneName,
    Probability,
    one_attribute,
    probability,
)
from ppdm_dask.randomness import exact

__all__ = ["Mangat", "Triangular"]

CERTAIN = np.eye(2)
CERTAIN.flags.writeable = False


class _OneSided(Trait, Mixture):
    """``P = q I + (1 - q) e 1^T``, e the unit vector of the trait: epsilon is infinite.

    A report other than the trait gives away that the truth is not the trait.
    """

    def __init__(
        self,
        attribute: OneName,
        p: Probability,
        trait: str | None = None,
        categories: Annotated[Sequence[str] | None, LABELS] = None,
    ) -> None:
        self.attributes = one_attribute(attribute)
        self.shape = (2,)
        self.p = probability("p", p)
        self._state(trait, categories)

    @property
    def factors(self) -> tuple[Floats, ...]:
        return (CERTAIN[self.position],)


@register
class Mangat(_OneSided):
    r"""Respondents with the trait say so; the others follow Warner's design.

    A report names the trait with the probability

    .. math:: \lambda = \pi + (1 - \pi)(1 - p)

    Parameters
    ----------
    attribute : str
        Binary.
    p : float
        Probability that a record without the trait is reported truthfully, in [0, 1]; at 0 there is
        no inverse.
    trait : str, optional
        Label of the trait; needed for real answers.  Without it category 1 is the trait.
    categories : sequence of str, optional
        Both labels in the order of the codes, as set by binding.
    """

    id = "mangat"

    @property
    def mixing(self) -> float:
        return self.p


@register
class Triangular(_OneSided):
    r"""Report the trait if it or an unrelated statement applies, else the other category.

    No device is needed: the statement may be about a birthday, say.  A report names the trait with
    the probability

    .. math:: \lambda = \pi + (1 - \pi) p

    Parameters
    ----------
    attribute : str
        Binary.
    p : float
        Probability that the unrelated statement applies, in [0, 1]; at 1 there is no inverse.
    trait : str, optional
        Label of the trait; needed for real answers.  Without it category 1 is the trait.
    categories : sequence of str, optional
        Both labels in the order of the codes, as set by binding.
    """

    id = "triangular"

    @property
    def mixing(self) -> float:
        return float(1 - exact(self.p))
