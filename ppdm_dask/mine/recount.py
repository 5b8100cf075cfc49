"""A tree's nodes met by other reports, or by its own once more: counts, errors, right answers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ppdm_dask.inference.laws import undefined
from ppdm_dask.inference.moments import standard_error_of
from ppdm_dask.inference.uncertainty import Proportion
from ppdm_dask.mine.signed_cells import ROUNDING, images, signed_cells
from ppdm_dask.mine.tree import sum_variance

if TYPE_CHECKING:
    from ppdm_dask.mine.evidence import Evidence, Stratum
    from ppdm_dask.mine.tree import Tree

__all__ = ["accuracy", "leaf_weights", "node_counts", "standard_errors"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class SignedCounts(NamedTuple):
    """Counts, shape (nodes, classes), times scale; differences up to the tolerance are rounding."""

    counts: npt.NDArray[Any]
    scale: int
    tolerance: int | float


def node_counts(tree: Tree, evidence: Evidence) -> SignedCounts:
    """Estimated records of each class in each node among other reports."""
    cells = signed_cells(evidence)
    if cells is None:
        counts = np.array([evidence.class_counts(tree.conditions(i)) for i in range(len(tree))])
        return SignedCounts(counts, 1, ROUNDING * float(np.abs(counts).sum(axis=1).max()))
    totals = np.zeros((len(tree), evidence.n_classes), cells.weights.dtype)
    classes = cells.codes[:, evidence.target]
    for rows, nodes in tree.route(cells.codes):
        np.add.at(totals, (nodes, classes[rows]), cells.weights[rows])
    return SignedCounts(totals, cells.scale, cells.tolerance)


def _walk(tree: Tree, stratum: Stratum) -> Iterator[tuple[int, Ints, dict[int, int]]]:
    """Each node with the rows of a stratum that its undisguised conditions let in, and the others.

    Disguised conditions cannot rule a row out: weights of an event that sum to 0 need not be 0 in a
    part of it.
    """
    stack: list[tuple[int, Ints, dict[int, int]]] = [(0, np.arange(len(stratum.codes)), {})]
    while stack:
        node, rows, conditions = stack.pop()
        yield node, rows, conditions
        column = int(tree.attribute[node])
        for category, child in enumerate(tree.children(node)):
            if stratum.unit(column) < 0:
                inside = rows[stratum.codes[rows, column] == category]
                stack.append((child, inside, conditions))
            else:
                stack.append((child, rows, {**conditions, column: category}))


def standard_errors(tree: Tree) -> Floats:
    """Standard errors of a tree's counts, shape (nodes, classes).

    Not numbers where the weights of all reports are alike, as of a node that no report reaches.
    """
    evidence = tree.evidence
    assert evidence is not None
    variance = np.zeros(tree.counts.shape)
    for stratum in evidence.strata:
        total, square = _moments(tree, evidence, stratum)
        variance = variance + sum_variance(total, square, stratum.n)
    scale = np.maximum(np.abs(tree.counts), 1) ** 2
    return standard_error_of(undefined(variance, 1, scale)[0])


def _moments(tree: Tree, evidence: Evidence, stratum: Stratum) -> tuple[Floats, Floats]:
    """Sums of the event weights, and of their squares, by node and class."""
    target, n_classes = evidence.target, evidence.n_classes
    total = np.zeros(len(tree) * n_classes)
    square = np.zeros(len(tree) * n_classes)
    found = images(stratum)
    if found is None:
        for node, rows, conditions in _walk(tree, stratum):
            times = stratum.multiplicity[rows]
            for c in range(n_classes):
                weight = stratum.weights(evidence.event(conditions, c), rows)
                total[node * n_classes + c] = times @ weight
                square[node * n_classes + c] = times @ weight**2
    else:
        codes, report, weights, scale = found
        for rows, nodes in tree.route(codes):
            # The weight of a report in a node is the sum over its images there.
            key = (nodes * n_classes + codes[rows, target]) * len(stratum.codes) + report[rows]
            pairs, which = np.unique(key, return_inverse=True)
            sums = np.zeros(len(pairs), np.int64)
            np.add.at(sums, which, weights[rows])
            event, row = np.divmod(pairs, len(stratum.codes))
            weight, times = sums / scale, stratum.multiplicity[row]
            np.add.at(total, event, times * weight)
            np.add.at(square, event, times * weight**2)
    shape = (len(tree), n_classes)
    return total.reshape(shape), square.reshape(shape)


def leaf_weights(tree: Tree, evidence: Evidence, stratum: Stratum) -> tuple[npt.NDArray[Any], int]:
    """Sum over leaves of w(leaf and class = its label, y), for each row y of a stratum.

    It is Eq. (15) of [ZhanDu]_ solved for the truth, by leaves in place of test sets.

    Returns
    -------
    weights, scale : array of shape (rows,), and int
        The sums times scale; integers where all blocks are flips.
    """
    found = images(stratum)
    if found is None:
        total = np.zeros(len(stratum.codes))
        for node, rows, conditions in _walk(tree, stratum):
            if tree.attribute[node] < 0:
                event = evidence.event(conditions, int(tree.label[node]))
                total[rows] += stratum.weights(event, rows)
        return total, 1
    codes, report, weights, scale = found
    right = tree.label[tree.apply(codes)] == codes[:, evidence.target]
    sums = np.zeros(len(stratum.codes), np.int64)
    np.add.at(sums, report[right], weights[right])
    return sums, scale


def accuracy(tree: Tree, evidence: Evidence) -> Proportion:
    """Unbiased accuracy of a tree on the truth behind reports; it is never clipped."""
    n = evidence.n
    value, variance = 0.0, 0.0
    for stratum in evidence.strata:
        weights, scale = leaf_weights(tree, evidence, stratum)
        times = stratum.multiplicity
        if weights.dtype.kind == "i":
            # Whole numbers have one sum and one rounding, whoever adds them up.
            value += int(times @ weights) / (scale * n)
        else:
            value += math.fsum(times * weights) / n
        shares = weights / scale
        total, square = math.fsum(times * shares), math.fsum(times * shares**2)
        variance += float(sum_variance(np.array(total), np.array(square), stratum.n))
    # Weights that are all alike by chance say nothing of how they vary.
    spread, _ = undefined(np.array(variance / n**2), n, max(value**2, 1.0))
    return Proportion(value, float(standard_error_of(spread)), n, "population")
