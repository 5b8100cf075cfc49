"""ID3 decision trees from disguised reports.  [ZhanDu]_, sections 4.5 and 4.6.

Trees are grown a level at a time, all nodes of it at once; counts are estimates and may be
negative.  They are pruned by their error on clean or disguised validation records.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from ppdm_dask.arrays import Bools, Floats, Ints, sum_rounding
from ppdm_dask.data.codebook import Records, Reports, require_categories
from ppdm_dask.designs.binding import check_fit
from ppdm_dask.designs.identity import Identity
from ppdm_dask.designs.matching import bound_to, require_order
from ppdm_dask.errors import InputError, RecordsError
from ppdm_dask.inference.stratified import Stratified, pair_strata
from ppdm_dask.kernels import ENTROPY_TIE
from ppdm_dask.mine.classifier import Classifier, check_inputs
from ppdm_dask.mine.evidence import ROUNDING, Evidence, SignedCells, signed_cells
from ppdm_dask.mine.tree import Tree, accuracy, check_depth, mean_entropy, node_counts
from ppdm_dask.ranges import real
from ppdm_dask.shown import given, listed

if TYPE_CHECKING:
    from ppdm_dask.designs.base import Design
    from ppdm_dask.inference.result import Estimate
    from ppdm_dask.inference.tables import ContingencyTable
    from ppdm_dask.mine.evidence import Conditions
    from ppdm_dask.randomness import Stream

__all__ = ["ID3"]


DEGENERATE = 1e-10
"""Directions whose variance is a smaller share of the largest do not vary: a category is empty."""


def split_z(evidence: Evidence, conditions: Conditions, column: int, candidates: int) -> float:
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

    Returns
    -------
    float
        0 or more; infinite where the test's p-value is too small for a double.
    """
    from scipy.special import chdtrc, ndtri

    parts = []
    counts = np.zeros((evidence.codebook.shape[column], evidence.n_classes))
    for stratum in evidence.strata:
        rows, weights = stratum.split_weights(conditions, column, evidence.target)
        multiplicity = stratum.multiplicity[rows].astype(float)
        counts += np.tensordot(multiplicity, weights, axes=1)
        parts.append((weights, multiplicity, stratum.n))
    size, n = counts.sum(), sum(n for *_, n in parts)
    square = sum(float(m @ w.sum(axis=(1, 2)) ** 2) for w, m, _ in parts)
    variance = _covariance([(w.sum(axis=(1, 2))[:, None], m, n) for w, m, n in parts])[0, 0]
    if not size > sum_rounding(square, n) or not variance >= 0:
        return 0.0
    present = size / math.sqrt(variance) if variance else math.inf
    by_value, by_class = counts.sum(axis=1) / size, counts.sum(axis=0) / size
    # In the node the weights of a row sum to `own`; the linearised contrasts sum to the contrasts.
    contrasts = []
    for weights, multiplicity, n in parts:
        of_value, of_class = weights.sum(axis=2), weights.sum(axis=1)
        own = of_value.sum(axis=1)
        t = (
            weights
            - of_value[:, :, None] * by_class
            - by_value[:, None] * of_class[:, None, :]
            + np.outer(by_value, by_class) * own[:, None, None]
        )
        # The last category and the last class follow from the others.
        contrasts.append((t[:, :-1, :-1].reshape(len(t), -1), multiplicity, n))
    total = (counts - np.outer(by_value, by_class) * size)[:-1, :-1].ravel()
    # Directions rather than an inverse: an empty category makes the covariance singular.
    spread, directions = np.linalg.eigh(_covariance(contrasts))
    varies = spread > DEGENERATE * spread.max(initial=0.0)
    if not varies.any():
        return 0.0
    statistic = float(((total @ directions[:, varies]) ** 2 / spread[varies]).sum())
    p = min(1.0, candidates * float(chdtrc(int(varies.sum()), statistic)))
    return min(present, -float(ndtri(p / 2)))


def _covariance(parts: Sequence[tuple[Floats, Floats, int]]) -> Floats:
    """Covariance of sums of weights, shape (k, k), from (weights, multiplicity, n) by stratum."""
    k = parts[0][0].shape[1]
    matrix = np.zeros((k, k))
    for weights, multiplicity, n in parts:
        total = multiplicity @ weights
        second = (weights.T * multiplicity) @ weights
        factor = n / (n - 1) if n > 1 else math.nan
        matrix += (second - np.outer(total, total) / n) * factor
    return matrix


Counts = npt.NDArray[Any]


@dataclass(frozen=True)
class Rules:
    """When to stop; the parameters of :class:`ppdm_dask.mine.ID3`.

    Raises
    ------
    InputError
        If one is out of its range.
    """

    max_depth: int | None = None
    min_weight: float = 0.0
    min_z: float | None = None

    def __post_init__(self) -> None:
        check_depth(self.max_depth)
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

    def split(self, column: int, wanted: Bools, path: Ints) -> Counts:
        """Counts by category and class of the nodes wanted, shape (nodes, categories, classes)."""

    def descend(self, columns: Ints, first: Ints) -> None:
        """Move to the next level: node i splits by a column, its children begin at ``first[i]``."""


class CellCounter:
    """Counts by summing signed cells; each cell knows its node."""

    def __init__(self, cells: SignedCells, evidence: Evidence) -> None:
        self.scale, self.tolerance = cells.scale, cells.tolerance
        self._shape, self._target = evidence.codebook.shape, evidence.target
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

    def split(self, column: int, wanted: Bools, path: Ints) -> Counts:
        k, n_classes = self._shape[column], self._shape[self._target]
        index = self._node * k
        index += self._columns[column]
        index *= n_classes
        index += self._columns[self._target]
        totals = self._sum(index, len(wanted) * k * n_classes)
        return totals.reshape(len(wanted), k, n_classes)

    def descend(self, columns: Ints, first: Ints) -> None:
        code = self._columns[columns[self._node], np.arange(len(self._node))]
        self._node = first[self._node] + code


class EventCounter:
    """Counts by event weights, a node at a time, where there are too many cells."""

    def __init__(self, evidence: Evidence) -> None:
        self.scale, self._evidence = 1, evidence
        counts = self.root()
        self.tolerance = ROUNDING * float(max(evidence.n, np.abs(counts).sum()))

    def root(self) -> Counts:
        return self._evidence.class_counts({})

    def keep(self, nodes: Ints) -> None:
        pass

    def split(self, column: int, wanted: Bools, path: Ints) -> Counts:
        shape = self._evidence.codebook.shape
        result = np.zeros((len(wanted), shape[column], shape[self._evidence.target]))
        for i in np.flatnonzero(wanted):
            result[i] = self._evidence.split_counts(conditions_of(path[i]), column)
        return result

    def descend(self, columns: Ints, first: Ints) -> None:
        pass


def conditions_of(path: Ints) -> dict[int, int]:
    """Conditions of a node: columns with their codes, from codes by column (-1: none)."""
    return {int(c): int(path[c]) for c in np.flatnonzero(path >= 0)}


def first_best(scores: Counts, tie: int | float, *, largest: bool) -> Ints:
    """Position of the best score of each row; within `tie` of it, the one that comes first."""
    if largest:
        near = scores >= scores.max(axis=1, keepdims=True) - tie
    else:
        near = scores <= scores.min(axis=1, keepdims=True) + tie
    position: Ints = np.argmax(near, axis=1)
    return position


def grow(evidence: Evidence, rules: Rules) -> Tree:
    """Grow the tree that the evidence supports."""
    cells = signed_cells(evidence)
    counter: Counter = EventCounter(evidence) if cells is None else CellCounter(cells, evidence)
    features = np.array(evidence.features)
    shape = np.array(evidence.codebook.shape)
    counts = counter.root()[None]
    path = np.full((1, len(shape)), -1)  # codes that lead to a node, by column
    parent, category = np.array([-1]), np.array([-1])
    inherited = np.array([0])
    levels: list[dict[str, Counts]] = []
    start = 0  # number of the level's first node
    while len(counts):
        positive = counts > counter.tolerance
        majority = first_best(counts, counter.tolerance, largest=True)
        label = np.where(positive.any(axis=1), majority, inherited)
        going = (positive.sum(axis=1) > 1) & (path[:, features] < 0).any(axis=1)
        going &= np.maximum(counts, 0).sum(axis=1) >= rules.min_weight * counter.scale
        if rules.max_depth is not None and len(levels) >= rules.max_depth:
            going[:] = False
        chosen, best, children = _split(counter, evidence, np.flatnonzero(going), path, rules)
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


def _split(
    counter: Counter, evidence: Evidence, nodes: Ints, path: Ints, rules: Rules
) -> tuple[Ints, Floats, Counts]:
    """Split the nodes of a level that go on; the counter then stands at the next level.

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
    tables = []
    for j, column in enumerate(evidence.features):
        wanted = path[nodes, column] < 0
        tables.append(counter.split(column, wanted, path[nodes]))
        scores[wanted, j] = mean_entropy(tables[-1][wanted])
    position = first_best(scores, ENTROPY_TIE, largest=False)
    rows = np.arange(len(nodes))
    if rules.min_z is not None:
        candidates = np.isfinite(scores).sum(axis=1)
        z = [
            split_z(evidence, conditions_of(path[node]), int(features[j]), int(m))
            for node, j, m in zip(nodes, position, candidates, strict=True)
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
        # A tree that travelled has no reports to compute them from again.
        pruned.__dict__["standard_error"] = tree.standard_error[nodes]
    return pruned


class ID3(Classifier):
    """ID3 decision tree of categorical attributes, fitted to disguised reports.

    A node is a conjunction of conditions ``attribute = category``; its class counts ``w_c`` are
    sums of unbiased event weights over all reports, so that they may be negative.

    Parameters
    ----------
    design : Design or Stratified, optional
        The design that made the reports; by default the one that they carry, and ``Identity`` for
        undisguised records, arrays and frames.
    target : str, optional
        The attribute to predict; the other attributes of the reports are the features.  By default
        the target of their codebook.
    max_depth : int, optional
        Most conditions on a path, 0 or more.
    min_weight : float
        A node whose counts, clipped at 0, sum to less is not split.
    min_z : float, optional
        A node is split only where its data are so many standard errors away from not supporting the
        split: its estimated size from 0, and class and attribute from independence, by a Wald test
        whose p-value is multiplied by the number of attributes to choose from
        (:func:`ppdm_dask.mine.id3.split_z`).  None, the default, is the paper's algorithm.

    Attributes
    ----------
    tree_ : Tree
        The nodes, with estimated counts and their standard errors.
    classes_ : array of str
        Labels of the target's categories.
    design_, target_ : Design or Stratified, str
        Those in force.
    features_ : tuple of str
    feature_names_in_ : array of str
        The same, but for arrays without names.
    categories_ : dict of str to tuple of str
        Categories of each feature and the target; records to predict must have the same.
    n_reports_ : int
    floored_ : int
        Nodes, leaves and the root among them, one of whose class counts is negative.
    negative_share_ : float
        The same as a share of all nodes.

    Notes
    -----
    *Choice.*  Let ``w_vc`` be the count of class c where the attribute is v,
    ``n_vc = max(0, w_vc)``, ``n_v = sum_c n_vc`` and ``H_v`` the entropy of ``n_vc / n_v``.  Of the
    attributes not yet on the path, the one with the least ``sum_v n_v H_v / sum_v n_v`` splits the
    node: it has the largest gain, Eq. (10) of [ZhanDu]_.  Values within 1e-10 nats of the best tie,
    and the attribute that comes first in the codebook wins.  A gain of 0 or less splits too.

    *Leaves.*  A node is a leaf if at most one of its class counts is positive, no attribute is left
    on its path, or a parameter says so.  Its label is the class with the largest count, the first
    of those that tie; where no count is positive, the label its parent would have as a leaf.

    *Rounding.*  Where all blocks are flips (Warner and multi-group designs) with rational theta, or
    undisguised, counts are whole numbers at a common scale and compared exactly, unless they leave
    64 bits.  Otherwise sums within 1e-10 of the total absolute weight (the number of reports where
    nothing is disguised) count as 0 and tie.

    Examples
    --------
    >>> import ppdm_dask as pp
    >>> frame = pp.datasets.load("breast-cancer")
    >>> book = pp.Codebook.from_toml(pp.resources.codebook_path("breast-cancer"))
    >>> records = book.binarise(frame, "midrange").encode(frame)
    >>> design = pp.MultiGroup.random(records.codebook.names, 2, 0.9, pp.Stream.from_seed(1))
    >>> reports = design.disguise(records, pp.Stream.from_seed(2))
    >>> tree = pp.ID3(design, target="class").fit(reports)
    >>> tree.score(records) > 0.8
    True
    """

    def __init__(
        self,
        design: Design | Stratified | None = None,
        target: str | None = None,
        max_depth: int | None = None,
        min_weight: float = 0.0,
        min_z: float | None = None,
    ) -> None:
        self.design = design
        self.target = target
        self.max_depth = max_depth
        self.min_weight = min_weight
        self.min_z = min_z

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit to reports, which hold the target, or to undisguised columns and classes.

        Parameters
        ----------
        X : Reports, Records, one of these a stratum under a stratified design, or array or frame
        y : array, shape (n_records,), optional
            Classes, for arrays and frames only.

        Raises
        ------
        NotInvertible
            Where the design allows no estimate.
        RecordsError
            If the target is no attribute of the reports, there are none, they lack attributes of
            the design, or they were made by another design.
        InputError
            If a parameter is out of its range.
        """
        reports = self._learned(X, y)
        strata = pair_strata(self.design_, reports)
        self._check_target(strata[0][0].codebook.names)
        return self._fit(Evidence.collect(strata, self.target_))

    def fit_table(self, table: ContingencyTable) -> Self:
        """Fit to a table of reports over all attributes, possibly summed over partitions.

        Parameters
        ----------
        table : ContingencyTable
            As counted by ``count(reports, design)``.
        """
        self._columns = None
        self._settle(table)
        if isinstance(self.design_, Stratified):
            raise InputError("a table has one design; fit a stratified one to reports", table)
        design = bound_to(table, self.design_)
        if table.design_digest and table.design_digest != design.digest:
            raise RecordsError("the table holds reports made by another design", design)
        if not table.n:
            raise RecordsError("the table holds no records; at least one is needed", table)
        self._check_target(table.attributes)
        check_fit(design, table.codebook)
        require_order(table, design)
        return self._fit(Evidence.from_table(table, design, self.target_))

    def _check_target(self, names: Sequence[str]) -> None:
        if self.target_ not in names:
            raise RecordsError(
                f"target: got {given(self.target_)}; the attributes are: {listed(names)}",
                self.target_,
            )
        if len(names) < 2:
            raise RecordsError("ID3 needs at least one attribute besides the target", names)

    def _fit(self, evidence: Evidence) -> Self:
        rules = Rules(self.max_depth, self.min_weight, self.min_z)
        codebook = evidence.codebook
        for stratum in evidence.strata:
            stratum.design.require_inverse()
        self.classes_ = self._labelled(codebook[self.target_].categories)
        self._fitted_to(codebook.names[c] for c in evidence.features)
        self.categories_ = {name: codebook[name].categories for name in codebook.names}
        self.n_reports_ = evidence.n
        self._set_tree(grow(evidence, rules))
        return self

    def _set_tree(self, tree: Tree) -> None:
        self.tree_ = tree
        self.floored_ = int(tree.negative.sum())
        self.negative_share_ = self.floored_ / len(tree)

    def _names(self, X: Records, *, target: bool) -> list[str]:
        """The model's attributes, the target only if it is asked for, if X has them as it does."""
        check_is_fitted(self)
        names = [n for n in self.tree_.codebook.names if target or n != self.target_]
        check_inputs(X, names, self.categories_)
        return names

    def _codes(self, X: Records, *, target: bool = False) -> npt.NDArray[Any]:
        """Codes in the order of the tree's codebook; the target stays 0 unless it is asked for."""
        names = self._names(X, target=target)
        require_categories(X, names, "predict from")
        codebook = self.tree_.codebook
        codes = np.zeros((len(X), len(codebook.names)), X.codes.dtype, order="F")
        codes[:, [codebook.index(name) for name in names]] = X.select(names).codes
        return codes

    def predict_codes(self, X: Any) -> npt.NDArray[np.int64]:
        """Predicted codes of the target, shape (n,); the target itself is not looked at.

        Reported answers are taken as they are, which is not the truth; sets, and symbols that are
        no categories, are refused (RecordsError).
        """
        leaves = self.apply(X)
        labels: npt.NDArray[np.int64] = self.tree_.label[leaves]
        return labels

    def apply(self, X: Any) -> npt.NDArray[np.int64]:
        """Number of the leaf that each record reaches, shape (n,)."""
        codes = self._codes(self._asked(X))
        return self.tree_.apply(codes)

    def predict_proba(self, X: Any) -> Floats:
        """Shares of the classes in the leaf, shape (n, n_classes).

        From its counts clipped at 0; where none is positive, from the nearest node above that has
        one.
        """
        leaf = self.apply(X)
        counts = self.tree_.counts
        clipped = np.where(counts > self.tree_.tolerance, counts, 0.0)
        for node in range(1, len(clipped)):
            if not clipped[node].any():
                clipped[node] = clipped[self.tree_.parent[node]]
        result: Floats = (clipped / clipped.sum(axis=1, keepdims=True))[leaf]
        return result

    def draw(self, path: str | Path, max_depth: int | None = 4) -> None:
        """Draw the tree to a file, down to a depth; see :func:`ppdm_dask.mine.tree.draw`."""
        check_is_fitted(self)
        self.tree_.draw(path, max_depth)

    def count_correct(self, X: Records) -> int:
        """Records whose target is the predicted one; of reports, whose reported target is."""
        codes, tree = self._codes(X, target=True), self.tree_
        return int((tree.label[tree.apply(codes)] == codes[:, tree.target]).sum())

    def score_disguised(
        self, reports: Records | Sequence[Records], stream: Stream | None = None
    ) -> Estimate:
        """Unbiased accuracy on the truth behind disguised test reports.

        The sum over the leaves of w(leaf and class = its label), which solves Eq. (15) of [ZhanDu]_
        for any number of groups, unequal thetas and partial disguise; the value may leave [0, 1].

        Parameters
        ----------
        reports : Reports, or one Reports a stratum under a stratified design
            Disguised by the same design, independent of the training reports.
        stream : Stream, optional
            Not needed, for nothing is sampled; other learners do.
        """
        evidence = self._other_evidence(reports)
        return accuracy(self.tree_, evidence)

    def prune(self, validation: Records | Sequence[Records]) -> Self:
        """Prune by the error on validation records; see :func:`ppdm_dask.mine.id3.prune_tree`.

        Parameters
        ----------
        validation : Records, Reports, or one of these a stratum under a stratified design
            ``Reports`` are taken to be disguised by the model's design, ``Records`` to be clean;
            neither may be among the training reports.

        Returns
        -------
        ID3
            A new, fitted model; this one stays as it is.
        """
        evidence = self._other_evidence(validation, clean=True)
        pruned = clone(self)
        same = ("classes_", "features_", "n_features_in_", "categories_", "n_reports_")
        for name in (*same, "feature_names_in_", "design_", "target_", "_columns"):
            if hasattr(self, name):
                setattr(pruned, name, getattr(self, name))
        pruned._set_tree(prune_tree(self.tree_, evidence))
        return pruned  # type: ignore[no-any-return]

    def _other_evidence(
        self, reports: Records | Sequence[Records], *, clean: bool = False
    ) -> Evidence:
        """Other reports of the design, or clean records where they may be, in the tree's order."""
        check_is_fitted(self)
        codebook = self.tree_.codebook
        if clean and isinstance(reports, Records) and not isinstance(reports, Reports):
            design: Design | Stratified = Identity(codebook.names, codebook.shape)
        else:
            design = self.design_
        found = []
        for records, part in pair_strata(design, reports):
            self._names(records, target=True)
            found.append((records.select(codebook.names), part))
        return Evidence.collect(found, self.target_)
