"""Invariant post-randomization: a matrix that leaves a given distribution as it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Self

import numpy as np
import numpy.typing as npt

from ppdm_dask.arrays import Floats
from ppdm_dask.designs.base import Design, register
from ppdm_dask.designs.binding import needed_line
from ppdm_dask.designs.labelled import Labelled, Places
from ppdm_dask.designs.labels import Categories, Orders, read_categories
from ppdm_dask.designs.matrix import RRMatrix
from ppdm_dask.designs.mixture import Mixture
from ppdm_dask.designs.parameters import (
    LABELS,
    LAW,
    OneName,
    Probability,
    distribution,
    labelled,
    noted_distribution,
    numbers,
    one_attribute,
    probability,
    stated_once,
)

__all__ = ["InvariantPRAM", "two_stage"]


@register
class InvariantPRAM(Labelled, Mixture):
    r"""``P = q I + (1 - q) p 1^T``, so that ``P p = p``: counts of reports are those of the truth.

    They are so in expectation, where the truth follows p:

    .. math:: P = q I + (1 - q) p 1^T, \qquad P p = p

    Parameters
    ----------
    attribute : str
    prior : array, shape (n,), or mapping of label to float
        p, the distribution that is left unchanged in expectation.
    q : float
        Probability of keeping the category, in [0, 1]; at 0 there is no inverse.
    categories : sequence of str, optional
        Labels in the order of the prior, if no mapping names them. Real answers need labels unless
        the prior is uniform.

    Raises
    ------
    DesignError
        For a value outside its range.
    """

    id = "pram"

    def __init__(
        self,
        attribute: OneName,
        prior: Annotated[npt.ArrayLike | Mapping[str, float | str], LAW],
        q: Probability,
        categories: Annotated[Sequence[str] | None, LABELS] = None,
    ) -> None:
        values, named = labelled(prior)
        law, notes = noted_distribution("prior", values)
        names = one_attribute(attribute)
        self.attributes = names
        self.shape = (law.size,)
        self.prior = law
        self.q = probability("q", q)
        stated = stated_once("prior", named, categories)
        self.labels = read_categories(stated, names, (law.size,))
        self.remarks = notes

    def permuted(self, order: Places, labels: Categories) -> Self:
        return type(self)(self.attributes[0], self.prior[order[0]], self.q, labels[0])

    def line_to_add(self, orders: Orders) -> str:
        return needed_line(self, orders, "prior")

    @property
    def mixing(self) -> float:
        return self.q

    @property
    def factors(self) -> tuple[Floats, ...]:
        return (self.prior,)


def two_stage(design: Design, prior: npt.ArrayLike) -> RRMatrix:
    r"""The design followed by a draw from the posterior: an invariant matrix of any shape.

    Its matrix leaves the prior p unchanged:

    .. math:: Q P, \qquad Q_{xy} = \frac{P_{yx} p_x}{(P p)_y}, \qquad Q P p = p

    Parameters
    ----------
    design : Design
        Of one block, with a dense matrix.
    prior : array, shape (true categories,)
    """
    P = design.matrix()
    p = distribution("prior", numbers("prior", prior).ravel(), design.n_true)
    law = P @ p
    posterior = np.divide(P * p, law[:, None], out=np.zeros_like(P), where=law[:, None] > 0)
    both = posterior.T @ P
    law = both / both.sum(axis=0)
    return RRMatrix(design.attributes, law, design.shape, categories=design.categories)
