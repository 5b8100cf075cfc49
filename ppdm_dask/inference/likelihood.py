"""Maximum likelihood on the simplex: exactly, and by expectation-maximisation."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from ppdm_dask.arrays import Floats
from ppdm_dask.designs.matching import bound_to
from ppdm_dask.errors import InputError
from ppdm_dask.inference.fit import fit_of_table
from ppdm_dask.inference.inversion import invert
from ppdm_dask.inference.maximum import (
    MAX_DENSE,
    channel,
    maximum,
    maximum_of_shares,
    require_possible,
)
from ppdm_dask.inference.result import Estimate, labels_of
from ppdm_dask.inference.tables import along_blocks, check_table
from ppdm_dask.inference.uncertainty import Estimand, check_estimand
from ppdm_dask.ranges import real, whole

if TYPE_CHECKING:
    from ppdm_dask.designs.base import Design
    from ppdm_dask.inference.tables import ContingencyTable


ZERO = 1e-12
"""Proportion up to which a cell of the exact maximum is 0."""


def _finish(
    table: ContingencyTable,
    design: Design,
    p: Floats,
    method: str,
    estimand: Estimand,
    steps: int,
    converged: bool,
    zero: float = ZERO,
) -> Estimate:
    """Gap, negative share of the inversion, and variances where the maximum is inside.

    These are of the observed information, which fails at the boundary of the simplex.  Cells up to
    `zero` are on it, as far as can be told.
    """
    names, n = table.attributes, table.n
    observed = table.counts / n
    law = along_blocks(p, names, design, "apply")
    ratio = np.divide(observed, law, out=np.zeros_like(law), where=observed > 0)
    gap = max(float(along_blocks(ratio, names, design, "apply_transposed").max()) - 1, 0.0)
    inverse = along_blocks(observed, names, design, "invert")
    zeros = int((p <= zero).sum())
    variance, reason = None, ""
    if zeros and p.size > 1:
        what = (
            "are 0" if zero == ZERO else f"are below {zero:.2g}, which this tolerance takes for 0"
        )
        reason = (
            f"the maximum is on the boundary ({zeros} of {p.size} cells {what}), where standard "
            "errors fail; ask for a profile likelihood interval"
        )
    elif n < 2:
        variance = np.full(p.shape, np.nan)
    elif estimand == "file":
        reason = "the likelihood is of the population; standard errors of this file are inversion's"
    elif p.size <= MAX_DENSE:
        P = channel(table, design)
        weight = np.divide(observed, law**2, out=np.zeros_like(law), where=observed > 0).ravel()
        information = P.T @ (weight[:, None] * P)
        inner = np.linalg.pinv(information, hermitian=True)
        total = inner.sum(axis=1)
        diagonal = np.diag(inner) - total**2 / total.sum()
        variance = np.maximum(diagonal, 0).reshape(p.shape) / n
    else:
        square = np.divide(law**2, observed, out=np.zeros_like(law), where=observed > 0)
        variance = (along_blocks(square, names, design, "invert_squared") - p**2) / n
    return Estimate(
        labels_of(table.codebook),
        p,
        variance,
        n,
        method,
        estimand,
        float((inverse < 0).mean()),
        why=reason,
        steps=steps,
        converged=converged,
        gap=gap,
        tested=partial(fit_of_table, table, design),
        inversion=None if estimand == "file" else partial(invert, table, design),
        design_digest=table.design_digest,
    )


def pseudo_mle(inverted: Estimate, design: Design) -> Estimate:
    """Maximum likelihood on the simplex of weighted reports.

    The shares that survey weights estimate of the population's reports take the place of counts:
    of a square design they are P times the inversion.  Inside the simplex it is the inversion and
    has its errors; at the boundary there are none, but intervals.

    Parameters
    ----------
    inverted : Estimate
        Of sums of event weights, over attributes.
    design : Design

    Raises
    ------
    InputError
        For designs that report more symbols than there are categories.
    """
    names, shape = tuple(inverted.labels), inverted.values.shape
    observed = along_blocks(inverted.values, names, design, "apply")
    if observed.shape != shape or any(
        b.kind == "set" and {*b.attributes} & {*names} for b in design.blocks
    ):
        raise InputError(
            "method: mle of weighted reports needs as many symbols as categories; use invert",
            design,
        )
    # Sums that cancel leave roundings of shares that are 0.
    observed = np.maximum(observed, 0)
    p, steps = maximum_of_shares(observed / observed.sum(), names, shape, design)
    inside = bool((p > ZERO).all()) or p.size == 1
    what = "the maximum is on the boundary, where standard errors fail; intervals do not"
    return replace(
        inverted,
        values=p,
        variance=inverted.variance if inside else None,
        why=inverted.why if inside else what,
        method="maximum likelihood",
        steps=steps,
        inversion=partial(_itself, inverted),
    )


def _itself(inverted: Estimate) -> Estimate:
    return inverted


def em(
    table: ContingencyTable,
    design: Design,
    *,
    estimand: Estimand = "population",
    tolerance: float = 1e-9,
    max_steps: int = 10_000,
) -> Estimate:
    r"""Expectation-maximisation from uniform proportions: Eq. (3) of [HuangDu]_.

    .. math:: p_j \leftarrow \sum_i P^*_i \frac{P_{ij} p_j}{\sum_l P_{il} p_l}

    (The printed sum has its letters mixed up.)  It stops where no proportion moves by more than the
    tolerance; `gap` says how far the likelihood may still be from its maximum, which is approached
    slowly at the boundary.

    Near 0 a step is at most about the square of a proportion, so a cell below the square root of
    the last step cannot be told from 0: then there are no standard errors.

    Parameters
    ----------
    table, design, estimand
        As in :func:`ppdm_dask.invert`.
    tolerance : float
        Largest change of a proportion at the end.
    max_steps : int

    Returns
    -------
    Estimate
        With the steps taken and whether they converged.
    """
    check_estimand(estimand)
    real("tolerance", tolerance, 0)
    whole("max_steps", max_steps, 1)
    design = bound_to(table, design)
    table = check_table(table, design)
    names, shape = table.attributes, table.codebook.shape
    observed = table.counts / table.n
    p = np.full(shape, 1 / math.prod(shape))
    converged, steps, moved = False, 0, 1.0
    while steps < max_steps and not converged:
        steps += 1
        law = along_blocks(p, names, design, "apply")
        require_possible(observed, law)
        ratio = np.divide(observed, law, out=np.zeros_like(law), where=observed > 0)
        after = p * along_blocks(ratio, names, design, "apply_transposed")
        moved = float(np.abs(after - p).max())
        converged = moved <= tolerance
        p = after
    zero = max(math.sqrt(max(moved, tolerance)), ZERO)
    return _finish(table, design, p / p.sum(), "em", estimand, steps, converged, zero)


def mle(table: ContingencyTable, design: Design, *, estimand: Estimand = "population") -> Estimate:
    r"""Maximum likelihood on the simplex, exactly.

    .. math:: \hat p = \arg\max_p \sum_y n_y \log (P p)_y, \qquad p \ge 0, \; \sum_x p_x = 1

    It is the inversion where P is square and the inversion lies within the simplex (Theorem 1 of
    [HuangDu]_, which does not say so); a water level for mixtures; else an interior-point method.

    Parameters
    ----------
    table, design, estimand
        As in :func:`ppdm_dask.invert`.

    Raises
    ------
    InputError
        Where an exact solution would take a dense matrix of more than 2,048 cells.
    """
    check_estimand(estimand)
    design = bound_to(table, design)
    table = check_table(table, design)
    p, steps = maximum(table, design)
    return _finish(table, design, p, "maximum likelihood", estimand, steps, True)
