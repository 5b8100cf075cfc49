"""Growing an ID3 tree, a level at a time: counts of nodes, the choice of splits, when to stop."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from ppdm_dask.arrays import Bools, Floats, Ints, sum_rounding
from ppdm_dask.designs.identity import Identity
from ppdm_dask.errors import InputError
from ppdm_dask.kernels import ENTROPY_TIE
from ppdm_dask.mine.evidence import ROUNDING, signed_cells
from ppdm_dask.mine.rows import Conjunction, NodeTables
from ppdm_dask.mine.tree import Tree, check_depth, mean_entropy
from ppdm_dask.ranges import real
from ppdm_dask.shown import given, listed

if TYPE_CHECKING:
    from ppdm_dask.mine.evidence import Conditions, Evidence, SignedCells

__all__ = ["Rules", "grow", "split_z"]

Counts = npt.NDArray[Any]

DEGENERATE = 1e-10
"""Directions whose variance is a smaller share of the largest do not vary: a category is empty."""


def split_z(
    evidence: Evidence,
    conditions: Conditions,
    column: int,
    candidates: int,
    tables: Sequence[NodeTables] | None = None,
    clean: Counts | None = None,
) -> float:
    """How many standard errors a node is away from not supporting a split.

    The smaller of two numbers.  The first is the node's estimated number of records over its
    standard error: without records there is nothing to split.  The second is the normal deviate of
    a two-sided test that class and attribute are independent within the node: a Wald test of the
    contrasts ``w_vc - w_v w_c / w``, linearised in the event weights, whose p-value is multiplied
    by the number of attributes from which this one was chosen (Bonferroni).

    Parameters
    ----------
    evidence : Evidence
    conditions : mapping of column to code
        The node.
    column : int
        The attribute that would split it.
    candidates : int
        Attributes that it was chosen from.
    tables : sequence of NodeTables, optional
        Those of the strata, where they are made already.
    clean : array, shape (categories, classes), optional
        Counts of the node where nothing is disguised: of 0s and 1s there is nothing more to know.

    Returns
    -------
    float
        0 or more; infinite where the test's p-value is too small for a double.
    """
    from scipy.special import chdtrc, ndtri

    parts = []
    counts = np.zeros((evidence.codebook.shape[column], evidence.n_classes))
    if clean is not None:
        counts += clean
        weights = np.eye(counts.size).reshape(counts.size, *counts.shape)
        parts.append((weights, counts.ravel(), counts.ravel(), evidence.n))
    else:
        if tables is None:
            tables = [NodeTables(stratum, evidence.target) for stratum in evidence.strata]
        path = tuple(conditions.items())
        for stratum, rows in zip(evidence.strata, tables, strict=True):
            weights, first, second = rows.split_moments(path, column)
            counts += np.tensordot(first, weights, axes=1)
            parts.append((weights, first, second, stratum.n))
    size, n = counts.sum(), evidence.n
    square = sum(float(second @ w.sum(axis=(1, 2)) ** 2) for w, _, second, _ in parts)
    variance = _covariance([(w.sum(axis=(1, 2))[:, None], *rest) for w, *rest in parts])[0, 0]
    if not size > sum_rounding(square, n) or math.isnan(variance):
        return 0.0
    # All weights of the root are 1: what is left of their variance is rounding, of either sign.
    present = size / math.sqrt(variance) if variance > 0 else math.inf
    by_value, by_class = counts.sum(axis=1) / size, counts.sum(axis=0) / size
    # In the node the weights of a row sum to `own`; the linearised contrasts sum to the contrasts.
    contrasts = []
    for weights, *rest in parts:
        of_value, of_class = weights.sum(axis=2), weights.sum(axis=1)
        own = of_value.sum(axis=1)
        t = (
            weights
            - of_value[:, :, None] * by_class
            - by_value[:, None] * of_class[:, None, :]
            + np.outer(by_value, by_class) * own[:, None, None]
        )
        # The last category and the last class follow from the others.
        contrasts.append((t[:, :-1, :-1].reshape(len(t), -1), *rest))
    total = (counts - np.outer(by_value, by_class) * size)[:-1, :-1].ravel()
    # Directions rather than an inverse: an empty category makes the covariance singular.
    spread, directions = np.linalg.eigh(_covariance(contrasts))
    varies = spread > DEGENERATE * spread.max(initial=0.0)
    if not varies.any():
        return 0.0
    statistic = float(((total @ directions[:, varies]) ** 2 / spread[varies]).sum())
    p = min(1.0, candidates * float(chdtrc(int(varies.sum()), statistic)))
    return min(present, -float(ndtri(p / 2)))


def _covariance(parts: Sequence[tuple[Floats, Floats, Floats, int]]) -> Floats:
    """Covariance of sums of weights, shape (k, k).

    By stratum from weights, shape (symbols, k), the sums of their factors and of the squares of
    these, shape (symbols,), and n.
    """
    k = parts[0][0].shape[1]
    matrix = np.zeros((k, k))
    for weights, first, second, n in parts:
        total = first @ weights
        squares = (weights.T * second) @ weights
        factor = n / (n - 1) if n > 1 else math.nan
        matrix += (squares - np.outer(total, total) / n) * factor
    return matrix


CRITERIA = ("information_gain", "gain_ratio")


@dataclass(frozen=True)
class Rules:
    """How to split and when to stop; the parameters of :class:`ppdm_dask.mine.ID3`.

    Raises
    ------
    InputError
        If one is out of its range.
    """

    max_depth: int | None = None
    min_weight: float = 0.0
    min_z: float | None = None
    criterion: str = CRITERIA[0]

    def __post_init__(self) -> None:
        check_depth(self.max_depth)
        if self.criterion not in CRITERIA:
            raise InputError(
                f"criterion: got {given(self.criterion)}; one of {listed(CRITERIA)} is needed",
                self.criterion,
            )
        real("min_weight", self.min_weight, 0)
        if self.min_z is not None:
            real("min_z", self.min_z, 0)


class Counter(Protocol):
    """Signed counts of the nodes of one level, which it numbers from 0."""

    scale: int
    tolerance: int | float

    def root(self) -> Counts:
        """Counts of the classes in the root, shape (classes,)."""

    def keep(self, nodes: Ints) -> None:
        """Keep some nodes of the level, numbered from 0 again."""

    def split(self, wanted: Bools) -> list[Counts]:
        """Counts by category and class, shape (nodes, categories, classes), one a feature.

        Only those are looked at that are wanted, shape (nodes, features).
        """

    def descend(self, columns: Ints, first: Ints) -> None:
        """Move to the next level: node i splits by a column, its children begin at ``first[i]``."""


class CellCounter:
    """Counts by summing signed cells; each cell knows its node."""

    def __init__(self, cells: SignedCells, evidence: Evidence) -> None:
        self.scale, self.tolerance = cells.scale, cells.tolerance
        self._shape, self._target = evidence.codebook.shape, evidence.target
        self._features = evidence.features
        self._columns = np.ascontiguousarray(cells.codes.T)
        self._weights = cells.weights
        self._node = np.zeros(len(cells.weights), np.int64)

    def _sum(self, index: Ints, size: int) -> Counts:
        # Not bincount: its sums are doubles, and whole numbers have to stay exact.
        totals = np.zeros(size, self._weights.dtype)
        np.add.at(totals, index, self._weights)
        return totals

    def root(self) -> Counts:
        return self._sum(self._columns[self._target], self._shape[self._target])

    def keep(self, nodes: Ints) -> None:
        number = np.full(1 + max(self._node.max(initial=0), nodes.max(initial=0)), -1)
        number[nodes] = np.arange(len(nodes))
        node = number[self._node]
        inside = np.flatnonzero(node >= 0)
        self._node, self._weights = node[inside], self._weights[inside]
        self._columns = self._columns[:, inside]

    def split(self, wanted: Bools) -> list[Counts]:
        n_classes = self._shape[self._target]
        tables = []
        for column in self._features:
            k = self._shape[column]
            index = self._node * k
            index += self._columns[column]
            index *= n_classes
            index += self._columns[self._target]
            totals = self._sum(index, len(wanted) * k * n_classes)
            tables.append(totals.reshape(len(wanted), k, n_classes))
        return tables

    def descend(self, columns: Ints, first: Ints) -> None:
        code = self._columns[columns[self._node], np.arange(len(self._node))]
        self._node = first[self._node] + code


class RowCounter:
    """Counts by the weights of the reports, where there are too many cells."""

    def __init__(self, evidence: Evidence) -> None:
        self.scale, self._evidence = 1, evidence
        self._strata = [NodeTables(stratum, evidence.target) for stratum in evidence.strata]
        self._paths: list[Conjunction] = [()]
        self.tolerance = ROUNDING * float(max(evidence.n, np.abs(self.root()).sum()))

    def root(self) -> Counts:
        counts: Counts = np.sum([stratum.moments(())[0] for stratum in self._strata], axis=0)
        return counts

    def keep(self, nodes: Ints) -> None:
        self._paths = [self._paths[i] for i in nodes]

    def split(self, wanted: Bools) -> list[Counts]:
        shape, features = self._evidence.codebook.shape, self._evidence.features
        n_classes = self._evidence.n_classes
        tables = [np.zeros((len(wanted), shape[column], n_classes)) for column in features]
        at = 0
        # Children of one node stand together.
        for (above, last), group in groupby(self._paths, key=_parting):
            codes = [path[-1][1] for path in group if path]
            free = np.flatnonzero(wanted[at])
            below = at + max(len(codes), 1)
            for stratum in self._strata:
                found = stratum.split(above, last, codes, [features[j] for j in free])
                for j, counts in zip(free, found, strict=True):
                    tables[j][at:below] += counts
            at = below
        return tables

    def descend(self, columns: Ints, first: Ints) -> None:
        shape = self._evidence.codebook.shape
        self._paths = [
            (*path, (int(column), code))
            for path, column in zip(self._paths, columns, strict=True)
            for code in range(shape[column])
        ]


def _parting(path: Conjunction) -> tuple[Conjunction, int | None]:
    """The node above, and the column that split it."""
    return (path[:-1], path[-1][0]) if path else ((), None)


def conditions_of(path: Ints) -> dict[int, int]:
    """Conditions of a node: columns with their codes, from codes by column (-1: none)."""
    return {int(c): int(path[c]) for c in np.flatnonzero(path >= 0)}


def first_best(scores: Counts, tie: int | float) -> Ints:
    """Position of the largest score of each row; within `tie` of it, the one that comes first."""
    position: Ints = np.argmax(scores >= scores.max(axis=1, keepdims=True) - tie, axis=1)
    return position


def _undisguised(evidence: Evidence) -> bool:
    """Whether each record weighs 0 or 1 in every node."""
    blocks = [block for stratum in evidence.strata for block, _ in stratum.blocks]
    return len(evidence.strata) == 1 and all(isinstance(block, Identity) for block in blocks)


def grow(evidence: Evidence, rules: Rules) -> Tree:
    """Grow the tree that the evidence supports."""
    features = np.array(evidence.features)
    shape = np.array(evidence.codebook.shape)
    # Nodes that there will be, were all attributes alike.
    deepest = len(shape) if rules.max_depth is None else min(rules.max_depth, len(shape))
    passes = math.exp(min(deepest * float(np.log(shape).mean()), 100))
    cells = signed_cells(evidence, passes)
    counter: Counter = RowCounter(evidence) if cells is None else CellCounter(cells, evidence)
    counts = counter.root()[None]
    path = np.full((1, len(shape)), -1)  # codes that lead to a node, by column
    parent, category = np.array([-1]), np.array([-1])
    inherited = np.array([0])
    levels: list[dict[str, Counts]] = []
    start = 0  # number of the level's first node
    while len(counts):
        positive = counts > counter.tolerance
        majority = first_best(counts, counter.tolerance)
        label = np.where(positive.any(axis=1), majority, inherited)
        going = (positive.sum(axis=1) > 1) & (path[:, features] < 0).any(axis=1)
        going &= np.maximum(counts, 0).sum(axis=1) >= rules.min_weight * counter.scale
        if rules.max_depth is not None and len(levels) >= rules.max_depth:
            going[:] = False
        chosen, best, children = _split(
            counter, evidence, np.flatnonzero(going), counts, path, rules
        )
        nodes = np.flatnonzero(chosen >= 0)
        width = shape[chosen[nodes]]
        first = np.cumsum(width) - width
        first_child = np.full(len(counts), -1)
        first_child[nodes] = start + len(counts) + first
        levels.append(
            {
                "attribute": chosen,
                "first_child": first_child,
                "parent": parent,
                "category": category,
                "depth": np.full(len(counts), len(levels)),
                "counts": counts / counter.scale,
                "negative": np.any(counts < -counter.tolerance, axis=1),
                "label": label,
                "score": best,
            }
        )
        above = np.repeat(nodes, width)
        category = np.arange(len(above)) - np.repeat(first, width)
        path = path[above]
        path[np.arange(len(above)), chosen[above]] = category
        parent, inherited = start + above, label[above]
        start += len(counts)
        counts = children
    arrays = {key: np.concatenate([level[key] for level in levels]) for key in levels[0]}
    tolerance = counter.tolerance / counter.scale
    return Tree(
        evidence.codebook, evidence.target, evidence.n, tolerance, **arrays, evidence=evidence
    )


def gain_ratio(gain: Floats, split: Floats) -> Floats:
    """Gain in proportion to the entropy of the split, of the attributes that gain enough.

    These are the attributes whose gain is that of the mean at least: where a split is almost no
    split, the ratio is large for nothing.  [Quinlan]_, p. 101.

    Parameters
    ----------
    gain, split : array, shape (nodes, features)
        Information gain, -inf where an attribute is not a candidate, and entropy of the split, in
        nats.  Under a disguise a gain may be negative.

    Returns
    -------
    array, shape (nodes, features)
        0 for an attribute with a single category in the node; -inf for those left out.
    """
    candidate = np.isfinite(gain)
    mean = np.where(candidate, gain, 0).sum(axis=1) / np.maximum(candidate.sum(axis=1), 1)
    ratio = np.zeros(gain.shape)
    np.divide(gain, split, out=ratio, where=candidate & (split > ENTROPY_TIE))
    found: Floats = np.where(candidate & (gain >= mean[:, None] - ENTROPY_TIE), ratio, -np.inf)
    return found


def _split(
    counter: Counter, evidence: Evidence, nodes: Ints, counts: Counts, path: Ints, rules: Rules
) -> tuple[Ints, Floats, Counts]:
    """Split the nodes of a level that grow further; the counter then stands at the next level.

    Returns
    -------
    chosen : int array, shape (nodes of the level,)
        Column that splits each node, -1 for a leaf.
    best : array of the same shape
        Score of the split; NaN for a leaf.
    children : array, shape (children, classes)
        Counts of the next level's nodes.
    """
    features, shape = np.array(evidence.features), np.array(evidence.codebook.shape)
    chosen, best = np.full(len(path), -1), np.full(len(path), np.nan)
    if not len(nodes):
        return chosen, best, np.zeros((0, shape[evidence.target]))
    counter.keep(nodes)
    scores = np.full((len(nodes), len(features)), np.inf)
    wanted = path[nodes][:, features] < 0
    tables = counter.split(wanted)
    for j, table in enumerate(tables):
        scores[wanted[:, j], j] = mean_entropy(table[wanted[:, j]])
    merit = -scores
    if rules.criterion == "gain_ratio":
        splits = np.zeros(scores.shape)
        for j, table in enumerate(tables):
            # Entropy of the categories, whose sizes are those of the clipped counts.
            splits[:, j] = mean_entropy(np.maximum(table, 0).sum(axis=2)[:, None, :])
        gain = mean_entropy(counts[nodes][:, None, :])[:, None] - scores
        merit = gain_ratio(gain, splits)
    position = first_best(merit, ENTROPY_TIE)
    rows = np.arange(len(nodes))
    if rules.min_z is not None:
        candidates = np.isfinite(scores).sum(axis=1)
        clean = _undisguised(evidence)
        known = None if clean else [NodeTables(s, evidence.target) for s in evidence.strata]
        z = [
            split_z(
                evidence,
                conditions_of(path[node]),
                int(features[j]),
                int(candidates[i]),
                known,
                tables[j][i] / counter.scale if clean else None,
            )
            for i, (node, j) in enumerate(zip(nodes, position, strict=True))
        ]
        rows = np.flatnonzero(np.array(z) >= rules.min_z)
        counter.keep(rows)  # numbered again, as descend counts the nodes that are split
    position = position[rows]
    chosen[nodes[rows]] = features[position]
    best[nodes[rows]] = scores[rows, position]
    width = shape[features[position]]
    first = np.cumsum(width) - width
    children = np.zeros((int(width.sum()), shape[evidence.target]), tables[0].dtype)
    for j, table in enumerate(tables):
        ours = np.flatnonzero(position == j)
        places = first[ours][:, None] + np.arange(table.shape[1])
        children[places] = table[rows[ours]]
    counter.descend(features[position], first)
    return chosen, best, children
