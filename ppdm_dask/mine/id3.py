"""ID3 decision trees from disguised reports.  [ZhanDu]_, sections 4.5 and 4.6.

Counts are estimates and may be negative.  Trees are pruned by their error on clean or disguised
validation records.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import clone
from sklearn.utils import Bunch
from sklearn.utils.validation import check_is_fitted

from ppdm_dask.arrays import Floats
from ppdm_dask.data.codebook import Records, Reports, require_categories
from ppdm_dask.data.partitioned import PartitionedReports
from ppdm_dask.designs.binding import check_fit
from ppdm_dask.designs.matching import bound_to, require_order
from ppdm_dask.errors import InputError, RecordsError
from ppdm_dask.inference.owners import pair_strata, scored, weights_of
from ppdm_dask.inference.stratified import Stratified
from ppdm_dask.inference.tables import ContingencyTable, count
from ppdm_dask.mine.classifier import Classifier, check_inputs, undisguised
from ppdm_dask.mine.evidence import Evidence
from ppdm_dask.mine.growth import CRITERIA, Rules, grow
from ppdm_dask.mine.pruning import WeakestLinks, prune_tree, subtree, weakest_links
from ppdm_dask.mine.tree import Tree, accuracy, from_arrays, to_arrays, to_steps
from ppdm_dask.ranges import real
from ppdm_dask.shown import given, listed

if TYPE_CHECKING:
    from markupsafe import Markup
    from matplotlib.axes import Axes

    from ppdm_dask.designs.base import Design
    from ppdm_dask.inference.result import Estimate
    from ppdm_dask.randomness import Stream

__all__ = ["ID3"]


class ID3(Classifier):
    r"""ID3 decision tree of categorical attributes, fitted to disguised reports.

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
        (:func:`ppdm_dask.mine.growth.split_z`); 1.96 asks for significance at 5 %.  None, the
        default, is the paper's algorithm.
    criterion : {"information_gain", "gain_ratio"}
        What the attribute that splits a node has most of.  The gain ratio favours attributes of
        many categories less (:func:`ppdm_dask.mine.growth.gain_ratio`).
    ccp_alpha : float, optional
        Share of right answers that each leaf has to bring: of the pruned trees, the smallest one
        with the least estimated error plus `ccp_alpha` times its leaves is kept
        (:func:`ppdm_dask.mine.pruning.weakest_links`).  None, the default, prunes nothing; 0 only
        branches that bring nothing on the training reports.

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
    *Choice by gain.*  Let ``w_vc`` be the count of class c where the attribute is v:

    .. math:: n_{vc} = \max(0, w_{vc}), \qquad n_v = \sum_c n_{vc}, \qquad
        H_v = -\sum_c \frac{n_{vc}}{n_v} \log \frac{n_{vc}}{n_v}

    Of the attributes not yet on the path, the one with the least

    .. math:: \frac{\sum_v n_v H_v}{\sum_v n_v}

    splits the node: it has the largest gain, Eqs. (9) and (10) of [ZhanDu]_.  Values within 1e-10
    nats of the best tie, and the attribute that comes first in the codebook wins.  A gain of 0 or
    less splits too.

    *Leaves.*  A node is a leaf if at most one of its class counts is positive, no attribute is left
    on its path, or a parameter says so.  Its label is the class with the largest count, the first
    of those that tie; where no count is positive, the label its parent would have as a leaf.

    *Rounding.*  Where all blocks are flips (Warner and multi-group designs) with rational theta, or
    undisguised, counts are whole numbers at a common scale and compared exactly, unless they leave
    64 bits or more than 2**21 true patterns are behind the reports.  Otherwise sums within 1e-10 of
    the total absolute weight of these patterns (of the number of reports where nothing is
    disguised, or the patterns are too many) count as 0 and tie.

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
        criterion: str = CRITERIA[0],
        ccp_alpha: float | None = None,
    ) -> None:
        self.design = design
        self.target = target
        self.max_depth = max_depth
        self.min_weight = min_weight
        self.min_z = min_z
        self.criterion = criterion
        self.ccp_alpha = ccp_alpha

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit to reports, which hold the target, or to undisguised columns and classes.

        Parameters
        ----------
        X : Reports, Records, Owners, one of these a stratum under a stratified design, or array or
            frame; or lazy reports, or paths of files and folders of reports.
        y : array, shape (n_records,), optional
            Classes, for arrays and frames only.

        Raises
        ------
        NotInvertible
            Where the design allows no estimate.
        RecordsError
            If the target is not an attribute of the reports, there are none, they lack attributes
            of the design, or they were made by another design.
        InputError
            If a parameter is out of its range.
        """
        reports = self._learned(X, y)
        if isinstance(reports, PartitionedReports):
            return self.fit_table(count(reports, self.design_))  # type: ignore[arg-type]
        strata = pair_strata(self.design_, reports)
        self._check_target(strata[0][0].codebook.names)
        weights = weights_of(self.design_, reports)
        return self._fit(Evidence.collect(strata, self.target_, weights))

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
            raise RecordsError("ID3 needs at least one attribute beyond the target", names)

    def _fit(self, evidence: Evidence) -> Self:
        rules = Rules(self.max_depth, self.min_weight, self.min_z, self.criterion)
        if self.ccp_alpha is not None:
            real("ccp_alpha", self.ccp_alpha, 0)
        codebook = evidence.codebook
        for stratum in evidence.strata:
            stratum.design.require_inverse()
        self.classes_ = self._labelled(codebook[self.target_].categories)
        self._fitted_to(codebook.names[c] for c in evidence.features)
        self.categories_ = {name: codebook[name].categories for name in codebook.names}
        self.n_reports_ = evidence.n
        tree = grow(evidence, rules)
        if self.ccp_alpha is not None:
            tree = subtree(tree, weakest_links(tree).cut(self.ccp_alpha))
        self._set_tree(tree)
        return self

    def cost_complexity_pruning_path(self, X: Any, y: Any = None) -> Bunch:
        """The trees that `ccp_alpha` can give, from the largest to the root on its own.

        Parameters
        ----------
        X, y
            As for :meth:`fit`.

        Returns
        -------
        Bunch
            ``ccp_alphas``, shape (trees,), from 0 on; ``errors``, the estimated share of the
            training reports that each tree gets wrong, which flatters large trees and may be
            negative; ``leaves``.

        Examples
        --------
        >>> import ppdm_dask as pp
        >>> frame = pp.datasets.load("breast-cancer")
        >>> book = pp.Codebook.from_toml(pp.resources.codebook_path("breast-cancer"))
        >>> records = book.binarise(frame, "midrange").encode(frame)
        >>> path = pp.ID3(target="class").cost_complexity_pruning_path(records)
        >>> int(path.leaves[-1])
        1
        >>> len(pp.ID3(target="class", ccp_alpha=path.ccp_alphas[-2]).fit(records).tree_.leaves)
        2
        """
        found: WeakestLinks = weakest_links(clone(self).set_params(ccp_alpha=None).fit(X, y).tree_)
        return Bunch(ccp_alphas=found.alphas, errors=found.errors, leaves=found.leaves)

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

    def client_steps(self) -> dict[str, Any]:
        check_is_fitted(self)
        return {"op": "tree", "root": to_steps(self.tree_)}

    def plot(self, ax: Axes | None = None, max_depth: int | None = 4) -> Axes:
        """Draw the tree on axes of matplotlib, down to a depth."""
        check_is_fitted(self)
        return self.tree_.plot(ax, max_depth)

    def _shown(self) -> Iterator[Markup]:
        return self.tree_._shown()

    def fitted_values(self) -> dict[str, Any]:
        """Arrays of the tree, as JSON values."""
        return to_arrays(self.tree_)

    def restore(self, fitted: Mapping[str, Any]) -> None:
        """Inverse of :meth:`fitted_values`."""
        self._set_tree(from_arrays(fitted, self.codebook_, self.target_, self.n_reports_))

    def count_correct(self, X: Records) -> int:
        """Records whose target is the predicted one; of reports, whose reported target is."""
        codes, tree = self._codes(X, target=True), self.tree_
        return int((tree.label[tree.apply(codes)] == codes[:, tree.target]).sum())

    def score_disguised(
        self, reports: Records | Sequence[Records], stream: Stream | None = None
    ) -> Estimate:
        r"""Unbiased accuracy on the truth behind disguised test reports.

        The mean weight, summed over the leaves l, of "in the leaf, and of the class that is its
        label", which solves Eq. (15) of [ZhanDu]_ for any number of groups, unequal thetas and
        partial disguise; the value may leave [0, 1]:

        .. math:: \hat A = \frac1n \sum_i \sum_l w(l \wedge c = c_l, \; y_i)

        Parameters
        ----------
        reports : Reports, or one Reports a stratum under a stratified design
            Disguised by the same design, independent of the training reports.
        stream : Stream, optional
            Not needed, for nothing is sampled; other learners do.
        """
        evidence = self._other_evidence(reports)
        return accuracy(self.tree_, evidence)

    def prune(self, validation: Records | Sequence[Records], min_z: float = 0.0) -> Self:
        """Prune by validation records; see :func:`ppdm_dask.mine.pruning.prune_tree`.

        Parameters
        ----------
        validation : Records, Reports, or one of these a stratum under a stratified design
            ``Reports`` are taken to be disguised by the model's design, ``Records`` to be clean;
            neither may be among the training reports.
        min_z : float
            Standard errors by which a branch has to be better than a leaf in its place: with 1, the
            rule of one standard error.

        Returns
        -------
        ID3
            A new, fitted model; this one stays as it is.
        """
        real("min_z", min_z, 0)
        evidence = self._other_evidence(validation, clean=True)
        pruned = clone(self)
        same = ("classes_", "features_", "n_features_in_", "categories_", "n_reports_")
        for name in (*same, "feature_names_in_", "design_", "target_", "codebook_", "_columns"):
            if hasattr(self, name):
                setattr(pruned, name, getattr(self, name))
        pruned._set_tree(prune_tree(self.tree_, evidence, min_z))
        return pruned  # type: ignore[no-any-return]

    def _other_evidence(
        self, reports: Records | Sequence[Records], *, clean: bool = False
    ) -> Evidence:
        """Other reports of the design, or clean records where they may be, in the tree's order."""
        check_is_fitted(self)
        codebook = self.tree_.codebook
        if clean and isinstance(reports, Records) and not isinstance(reports, Reports):
            design: Design | Stratified = undisguised(codebook)
        else:
            design = self.design_
            reports = scored(design, reports)
        found = []
        for records, part in pair_strata(design, reports):
            self._names(records, target=True)
            found.append((records.select(codebook.names), part))
        return Evidence.collect(found, self.target_, weights_of(design, reports))
