"""Reduced-error pruning on clean or disguised validation records.  [ZhanDu]_, section 4.6."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ppdm_dask.mine.recount import node_counts

if TYPE_CHECKING:
    from ppdm_dask.mine.evidence import Evidence
    from ppdm_dask.mine.tree import Tree

__all__ = ["prune_tree"]


def prune_tree(tree: Tree, validation: Evidence) -> Tree:
    """Cut every branch that does not beat a leaf in its place.

    From the bottom up, a node becomes a leaf unless its branch, pruned already, predicts more of
    the validation records correctly than the node's own label.  Under a disguise these numbers are
    estimated by event weights, w(leaf and class = label), so that one may be negative.

    Parameters
    ----------
    tree : Tree
    validation : Evidence
        Records or reports that the tree was not grown on, over the same attributes.
    """
    found = node_counts(tree, validation)
    as_leaf = found.counts[np.arange(len(tree)), tree.label]
    below = np.zeros_like(as_leaf)
    inner = tree.attribute >= 0
    cut = ~inner
    for node in range(len(tree) - 1, -1, -1):
        # Children stand behind their parents, so that `below` is complete here.
        cut[node] |= bool(as_leaf[node] >= below[node] - found.tolerance)
        if node:
            below[tree.parent[node]] += as_leaf[node] if cut[node] else below[node]
    return _subtree(tree, cut)


def _subtree(tree: Tree, cut: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Tree:
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
        pruned.__dict__["standard_error"] = tree.standard_error[nodes]
    return pruned
