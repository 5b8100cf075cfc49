"""Smaller trees from grown ones: by other records, or by what each leaf has to be worth.

The error of a node as a leaf is the estimated share of records that reach it and are not of its
class.  Under a disguise it is a sum of signed weights, so that it may be negative, and a branch may
seem to err more than a leaf in its place.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush

import numpy as np

from ppdm_dask.arrays import Bools, Floats, Ints
from ppdm_dask.mine.evidence import Evidence
from ppdm_dask.mine.rows import Conjunction, NodeTables
from ppdm_dask.mine.tree import Tree, node_counts, sum_variance

__all__ = ["WeakestLinks", "prune_tree", "subtree", "weakest_links"]


def subtree(tree: Tree, cut: Bools) -> Tree:
    """The tree whose leaves are the nodes that are cut, and what lies above them."""
    kept = np.zeros(len(tree), dtype=bool)
    kept[0] = True
    for node in range(1, len(tree)):
        above = tree.parent[node]
        kept[node] = kept[above] and not cut[above]
    nodes = np.flatnonzero(kept)
    number = np.cumsum(kept) - 1
    leaf = cut[nodes]
    parent, first = tree.parent[nodes], tree.first_child[nodes]
    pruned = replace(
        tree,
        attribute=np.where(leaf, -1, tree.attribute[nodes]),
        first_child=np.where(leaf, -1, number[first]),
        parent=np.where(parent < 0, -1, number[parent]),
        category=tree.category[nodes],
        depth=tree.depth[nodes],
        counts=tree.counts[nodes],
        negative=tree.negative[nodes],
        label=tree.label[nodes],
        score=np.where(leaf, np.nan, tree.score[nodes]),
    )
    if tree.evidence is None:
        # A tree that travelled has no reports to compute them from again.
        pruned.__dict__["standard_error"] = tree.standard_error[nodes]
    return pruned


# -- by other records ------------------------------------------------------------------------------


def prune_tree(tree: Tree, validation: Evidence, min_z: float = 0.0) -> Tree:
    """Cut every branch that does not beat a leaf in its place.

    From the bottom up, a node becomes a leaf unless its branch, pruned already, predicts more of
    the validation records correctly than the node's own label.  Under a disguise these numbers are
    estimated by event weights, w(leaf and class = label), so that one may be negative.

    Parameters
    ----------
    tree : Tree
    validation : Evidence
        Records or reports that the tree was not grown on, over the same attributes.
    min_z : float
        Standard errors of the difference by which the branch has to be better.  Both numbers are
        of the same records, so the error is that of the sum of the records' differences.
    """
    found = node_counts(tree, validation)
    as_leaf = found.counts[np.arange(len(tree)), tree.label]
    if min_z:
        margin = min_z * found.scale
        return subtree(tree, _Comparison(tree, validation).cut(margin, as_leaf, found.tolerance))
    below = np.zeros_like(as_leaf)
    cut = tree.attribute < 0
    for node in range(len(tree) - 1, -1, -1):
        # Children stand behind their parents, so that `below` is complete here.
        cut[node] |= bool(as_leaf[node] >= below[node] - found.tolerance)
        if node:
            below[tree.parent[node]] += as_leaf[node] if cut[node] else below[node]
    return subtree(tree, cut)


class _Comparison:
    """Branches against leaves, record by record: depth first, as the tables of nodes are kept."""

    def __init__(self, tree: Tree, validation: Evidence) -> None:
        self._tree = tree
        strata = validation.strata
        self._tables = [NodeTables(stratum, validation.target) for stratum in strata]
        self._times = [stratum.multiplicity for stratum in strata]
        self._n = [stratum.n for stratum in strata]

    def cut(self, margin: float, as_leaf: Floats, tolerance: float) -> Bools:
        """Nodes to cut: the branch's right answers exceed the leaf's by no more than the margin.

        Parameters
        ----------
        margin : float
            In standard errors, times the scale of the counts.
        as_leaf : array, shape (nodes,)
            Right answers of each node as a leaf, at that scale.
        tolerance : float
        """
        self._cut = self._tree.attribute < 0
        self._margin, self._as_leaf, self._tolerance = margin, as_leaf, tolerance
        self._visit(0, ())
        return self._cut

    def _visit(self, node: int, path: Conjunction) -> tuple[Sequence[Floats], float]:
        """Weights of each row's right answers below a node that is not a leaf, and their sum."""
        tree = self._tree
        column = int(tree.attribute[node])
        children: Ints = np.array(tree.children(node), np.int64)
        below = [np.zeros(len(times)) for times in self._times]
        right = 0.0
        for code, child in enumerate(children.tolist()):
            if not self._cut[child]:
                found, sum_below = self._visit(child, (*path, (column, code)))
                if not self._cut[child]:
                    for total, part in zip(below, found, strict=True):
                        total += part
                    right += sum_below
                    continue
            right += self._as_leaf[child]
        labels = np.where(self._cut[children], tree.label[children], -1)
        variance = 0.0
        for total, tables, times, n in zip(below, self._tables, self._times, self._n, strict=True):
            if (labels >= 0).any():
                rows, weights = tables.label_weights(path, column, labels)
                total[rows] += weights
            rows, weights = tables.label_weight(path, int(tree.label[node]))
            difference = total.copy()
            difference[rows] -= weights
            first, second = times @ difference, times @ difference**2
            variance += float(sum_variance(first, second, n))
        bound = self._margin * math.sqrt(variance) if variance >= 0 else math.inf
        better = right - self._as_leaf[node] > bound + self._tolerance
        self._cut[node] = not better
        return below, right


# -- by what a leaf has to be worth ----------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class WeakestLinks:
    """The nested trees of minimal cost-complexity pruning.

    Parameters
    ----------
    alphas : array, shape (trees,)
        Ascending from 0: from each on, up to the next, the same tree is the smallest that minimises
        the error plus alpha times the number of leaves.
    errors : array, shape (trees,)
        Estimated share of the training records that each tree gets wrong; it may be negative.
    leaves : int array, shape (trees,)
    critical : array, shape (nodes,)
        The alpha from which on a node is a leaf; infinite for nodes that vanish with one above,
        and less than all for leaves.
    """

    alphas: Floats
    errors: Floats
    leaves: Ints
    critical: Floats

    def cut(self, alpha: float) -> Bools:
        """Nodes that are leaves of the tree at an alpha, or lie below one."""
        found: Bools = self.critical <= alpha
        return found


ROUNDING = 1e-12
"""Share of the largest count up to which sums of counts differ by rounding."""


def weakest_links(tree: Tree) -> WeakestLinks:
    """The sequence of trees that minimise the error plus alpha times the number of leaves.

    Sections 3.3 and 10.2 of [Breiman]_, on estimated errors.  What that book shows of trees whose
    branches never err more than their roots holds for any numbers: with alpha the cost of a branch
    grows at least as fast as that of a leaf, so that what is cut stays cut.

    Parameters
    ----------
    tree : Tree
        Its counts are those of the reports that it was grown on.
    """
    n, inner = tree.n_reports, tree.attribute >= 0
    tie = max(tree.tolerance, ROUNDING * float(np.abs(tree.counts).max(initial=1.0)))
    as_leaf = tree.counts[np.arange(len(tree)), tree.label]
    right, leaves = np.where(inner, 0.0, as_leaf), np.where(inner, 0, 1)
    for node in range(len(tree) - 1, 0, -1):
        right[tree.parent[node]] += right[node]
        leaves[tree.parent[node]] += leaves[node]

    def worth(node: int) -> float:
        """Right answers that a leaf of the branch brings; of a single leaf none whatever they are.

        It is the alpha at which the branch costs as much as a leaf in its place.
        """
        more = int(leaves[node]) - 1
        return float(right[node] - as_leaf[node]) / (n * more) if more else -math.inf

    critical = np.where(inner, math.inf, -math.inf)
    link = np.array([worth(node) if inner[node] else math.inf for node in range(len(tree))])
    heap = [(link[node], node) for node in np.flatnonzero(inner).tolist()]
    heapify(heap)
    alphas, errors, sizes = [0.0], [], []
    while True:
        while heap and heap[0][0] != link[heap[0][1]]:
            heappop(heap)  # it has changed since, or is gone
        if not heap or heap[0][0] > alphas[-1] + tie / n:
            errors.append(float(tree.counts[0].sum() - right[0]) / n)
            sizes.append(int(leaves[0]))
            if not heap:
                break
            alphas.append(heap[0][0])
        node = heappop(heap)[1]
        critical[node] = alphas[-1]
        gone = [node]
        while gone:
            below = gone.pop()
            link[below] = math.inf
            gone += (child for child in tree.children(below) if link[child] < math.inf)
        fewer, loss = leaves[node] - 1, right[node] - as_leaf[node]
        leaves[node], right[node] = 1, as_leaf[node]
        while node:
            node = int(tree.parent[node])
            leaves[node] -= fewer
            right[node] -= loss
            link[node] = worth(node)
            heappush(heap, (link[node], node))
    return WeakestLinks(np.array(alphas), np.array(errors), np.array(sizes), critical)
