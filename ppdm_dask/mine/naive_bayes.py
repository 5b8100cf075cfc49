"""Naive Bayes from disguised reports.  [ZhanMatwin]_, sections 2.3 and 2.4."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial, reduce
from operator import add as plus
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from ppdm_dask.arrays import Floats
from ppdm_dask.data.codebook import Records, Reports, require_categories
from ppdm_dask.data.partitioned import PartitionedReports
from ppdm_dask.drawing.style import COLOURS, save_as, styled
from ppdm_dask.errors import InputError, RecordsError
from ppdm_dask.extras import named
from ppdm_dask.faces.face import MOST_ROWS, html_table, picture
from ppdm_dask.faces.plots import height, shares
from ppdm_dask.inference import Estimate, Evidence, estimate, evidence_of, invert
from ppdm_dask.inference.owners import Owners, pair_strata, scored, weights_of
from ppdm_dask.inference.stratified import Stratified
from ppdm_dask.inference.tables import ContingencyTable
from ppdm_dask.kernels import FLOOR_ROUNDING, SCORE_TIE
from ppdm_dask.mine.classifier import (
    Classifier,
    Correct,
    check_inputs,
    score_disguised,
    score_strata,
)
from ppdm_dask.ranges import real
from ppdm_dask.shown import given, listed

if TYPE_CHECKING:
    from markupsafe import Markup
    from matplotlib.axes import Axes

    from ppdm_dask.designs.base import Design
    from ppdm_dask.randomness import Stream

__all__ = ["NaiveBayes"]


def first_largest(scores: Floats) -> npt.NDArray[np.int64]:
    """Position of the largest score in each row; the first of those within ``SCORE_TIE`` of it."""
    best = scores.max(axis=1, keepdims=True)
    first: npt.NDArray[np.int64] = np.argmax(scores >= best - SCORE_TIE, axis=1)
    return first


def joint_estimates(
    reports: Any, design: Design | Stratified, margins: Sequence[tuple[str, ...]]
) -> list[Estimate]:
    """Joint proportions of several groups of attributes; partitions are gone through once."""
    if not isinstance(reports, PartitionedReports):
        return [estimate(reports, names, design=design) for names in margins]
    total = reports.reduce(partial(_evidence_of_each, design=design, margins=margins), _added)
    return [
        estimate(each, names, design=design)
        if isinstance(each, ContingencyTable)
        else estimate(each)
        for each, names in zip(total, margins, strict=True)
    ]


def _evidence_of_each(
    reports: Reports, *, design: Any, margins: Sequence[tuple[str, ...]]
) -> list[Evidence]:
    return [evidence_of(reports, design, names) for names in margins]


def _added(results: list[list[Any]]) -> list[Any]:
    return [reduce(plus, parts) for parts in zip(*results, strict=True)]


def draw_bars(
    path: Path, classes: Sequence[str], panels: Sequence[tuple[str, Sequence[str], Floats]]
) -> None:
    """Draw panels in three columns; in each a row a category, and in a row a bar a class."""
    with named("draw"):
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

    bars = max(len(rows) for _, rows, _ in panels) * len(classes)
    if len(panels) > MAX_PANELS or bars > MAX_BARS:
        raise InputError(
            f"{path}: {len(panels)} panels of up to {bars} bars are too many for a drawing; at "
            f"most {MAX_PANELS} of {MAX_BARS} are drawn",
            path,
        )
    across = min(3, len(panels))
    lines = [panels[i : i + across] for i in range(0, len(panels), across)]
    heights = [
        max(len(rows) for _, rows, _ in line) * (0.1 + 0.13 * len(classes)) for line in lines
    ]
    # DejaVu Sans has most alphabets; a dollar sign in a label is not a formula.
    text: dict[str, Any] = {"parse_math": False}
    with styled():
        figure = Figure(
            figsize=(3.4 * across, sum(heights) + 0.45 * len(lines) + 0.5), layout="constrained"
        )
        FigureCanvasAgg(figure)
        grid = figure.subplots(
            len(lines),
            across,
            squeeze=False,
            gridspec_kw={"height_ratios": [h + 0.3 for h in heights]},
        )
        drawn: list[Any] = []
        for axes, panel in zip(grid.ravel(), [*panels, *[None] * across], strict=False):
            if panel is None:
                axes.set_axis_off()
                continue
            title, rows, shares = panel
            drawn = []
            for c in range(len(classes)):
                places = np.arange(len(rows)) + (c - (len(classes) - 1) / 2) * 0.8 / len(classes)
                colour = COLOURS[c % len(COLOURS)]
                drawn.append(axes.barh(places, shares[:, c], 0.8 / len(classes), color=colour))
            axes.set_title(title, fontsize=9, **text)
            axes.set_yticks(np.arange(len(rows)), [_cut(row) for row in rows], fontsize=7.5, **text)
            axes.set_ylim(len(rows) - 0.5, -0.5)
            axes.set_xlim(0, 1)
            axes.tick_params(axis="x", labelsize=7)
            axes.grid(visible=False, axis="y")
        legend = figure.legend(drawn, classes, loc="outside upper left", ncols=6, fontsize=8)
        for each in legend.get_texts():
            each.set_parse_math(False)
        save_as(figure, Path(path))


MAX_PANELS = 40
MAX_BARS = 400


def _cut(label: str) -> str:
    return label if len(label) <= 24 else f"{label[:23]}…"


class NaiveBayes(Classifier):
    r"""Naive Bayes classifier of categorical attributes, fitted to disguised reports.

    The joint proportions of class and attribute, P(c) and P(a, c), are estimated without bias by
    inverting the design, or, where reports are sets or have survey weights or strata, by summing
    their event weights.  Estimates that are too small for a logarithm, negative ones among them,
    are raised to a floor, and the conditionals P(a | c) are renormalised; how many were raised is
    recorded.  Section 2.3 of [ZhanMatwin]_, for the floor f:

    .. math:: \hat c = \arg\max_c P(c) \prod_a P(a \mid c), \qquad
        P(a \mid c) = \frac{\max(\hat P(a, c), f)}{\sum_{a'} \max(\hat P(a', c), f)}

    Parameters
    ----------
    design : Design or Stratified, optional
        The design that made the reports; by default the one that they carry, and ``Identity`` for
        undisguised records, arrays and frames.
    target : str, optional
        The attribute to predict; the other attributes of the reports are the features.  By default
        the target of their codebook.
    floor : "1/n" or float, default "1/n"
        Smallest estimated proportion: one record in n, or a number in (0, 1).

    Attributes
    ----------
    classes_ : array of str
        Labels of the target's categories.
    design_, target_ : Design or Stratified, str
        Those in force.
    features_ : tuple of str
    feature_names_in_ : array of str
        The same, but for arrays without names.
    categories_ : dict of str to tuple of str
        Categories of each feature and the target; records to predict must have the same.
    class_log_prior_ : array, shape (n_classes,)
    feature_log_prob_ : dict of str to array, shape (n_categories, n_classes)
        log P(a | c) by attribute.
    n_reports_ : int
    floor_ : float
        The floor as a proportion.
    floored_ : int
        Joint estimates P(a, c) that were raised to the floor.
    floored_share_ : float
        The same as a share of all joint estimates.

    Examples
    --------
    >>> import ppdm_dask as pp
    >>> frame = pp.datasets.load("breast-cancer")
    >>> book = pp.Codebook.from_toml(pp.resources.codebook_path("breast-cancer"))
    >>> records = book.binarise(frame, "midrange").encode(frame)
    >>> design = pp.UnrelatedQuestion(records.codebook.names, q=0.6)
    >>> reports = design.disguise(records, pp.Stream.from_seed(1))
    >>> model = pp.NaiveBayes(design, target="class").fit(reports)
    >>> model.score(records) > 0.9
    True
    """

    _together: ClassVar[int] = 1
    """Features that a table of :meth:`fit_tables` holds."""

    def __init__(
        self,
        design: Design | Stratified | None = None,
        target: str | None = None,
        floor: str | float = "1/n",
    ) -> None:
        self.design = design
        self.target = target
        self.floor = floor

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit to reports, which hold the target, or to undisguised columns and classes.

        Parameters
        ----------
        X : Reports, Records, Owners, one of these a stratum under a stratified design, or array or
            frame; or lazy reports, or paths of files and folders of reports.
        y : array, shape (n_records,), optional
            Classes, for arrays and frames only.
        sample_weight : array, shape (n_records,), optional
            Survey weights, 0 or more.

        Raises
        ------
        NotInvertible
            Where the design allows no estimate.
        RecordsError
            If the target is not an attribute of the reports, or they were made by another design.
        """
        reports = self._learned(X, y, sample_weight)
        names = self.codebook_.names
        if self.target_ not in names:
            raise RecordsError(
                f"target: got {given(self.target_)}; the attributes are: {listed(names)}",
                self.target_,
            )
        features = [name for name in names if name != self.target_]
        if not features:
            raise RecordsError("naive Bayes needs at least one attribute beyond the target", names)
        if not isinstance(reports, PartitionedReports) and not len(self._first(reports)):
            raise RecordsError("there are no reports to fit; at least one is needed", reports)
        return self._fit(features, joint_estimates(reports, self.design_, self._margins(features)))

    def _margins(self, features: Sequence[str]) -> list[tuple[str, ...]]:
        """Attributes whose joint proportions are estimated, the target first."""
        return [(self.target_, name) for name in features]

    def _first(self, reports: Records | Sequence[Records]) -> Records:
        """The reports, or those of the first stratum."""
        if isinstance(reports, Owners) or isinstance(self.design_, Stratified):
            return pair_strata(self.design_, reports)[0][0]
        if not isinstance(reports, Records):
            raise RecordsError(f"fit: got {type(reports).__name__}; Reports are needed", reports)
        return reports

    def fit_tables(
        self, tables: Iterable[ContingencyTable], names: Iterable[str] | None = None
    ) -> Self:
        """Fit to one table of reports a feature, each covering the target and that feature.

        Parameters
        ----------
        tables : iterable of ContingencyTable
            As counted by ``count(reports, design, (target, feature))``, possibly summed over
            partitions.
        names : iterable of str, optional
            All attributes in the order of their tables; from the tables' axes after the first by
            default.
        """
        tables = list(tables)
        if not tables or not tables[0].n:
            raise RecordsError("there are no reports to fit; at least one is needed", tables)
        self._columns = None
        self._settle(tables[0])
        if names is None:
            # A block that is not lumpable was counted whole, which adds attributes to the end.
            wanted = slice(1, 1 + self._together)
            features = [*dict.fromkeys(n for t in tables for n in t.attributes[wanted])]
        else:
            features = [name for name in names if name != self.target_]
        estimates = [
            invert(table, self.design_).marginal(margin)  # type: ignore[arg-type]
            for table, margin in zip(tables, self._margins(features), strict=True)
        ]
        return self._fit(features, estimates)

    def _fit(self, features: list[str], estimates: list[Estimate]) -> Self:
        """Fit to the joint proportions of the target and each feature."""
        labels = {name: part for made in estimates for name, part in made.labels.items()}
        return self._fit_joint(
            features, estimates[0].n, labels, [made.values for made in estimates]
        )

    def _fit_joint(
        self, features: list[str], n: int, labels: Mapping[str, Any], joints: Sequence[Floats]
    ) -> Self:
        """Fit to arrays of these proportions, shape (classes, categories of the feature)."""
        self.n_reports_ = n
        self.floor_ = self._floor(n)
        classes = labels[self.target_]
        self.classes_ = self._labelled(classes)
        self._fitted_to(features)
        self.categories_ = {self.target_: classes}
        self.feature_log_prob_ = {}
        self.floored_ = 0
        n_joint = 0
        prior = joints[0].sum(axis=1)
        for name, values in zip(features, joints, strict=True):
            joint = values.T
            self.categories_[name] = labels[name]
            self.floored_ += int((joint < self.floor_ - FLOOR_ROUNDING).sum())
            n_joint += joint.size
            raised = np.maximum(joint, self.floor_)
            self.feature_log_prob_[name] = np.log(raised / raised.sum(axis=0))
        raised = np.maximum(prior, self.floor_)
        self.class_log_prior_ = np.log(raised / raised.sum())
        self.floored_share_ = self.floored_ / n_joint
        return self

    def _floor(self, n: int) -> float:
        if self.floor == "1/n":
            return 1 / n
        try:
            return real("floor", self.floor, 0, 1, open_ends=True)
        except InputError as error:
            got = str(error).partition(";")[0]
            raise InputError(
                f"{got}; '1/n' or a number between 0 and 1 is needed", self.floor
            ) from None

    def _scores(self, codes: npt.NDArray[Any], columns: list[int]) -> Floats:
        scores = np.tile(self.class_log_prior_, (len(codes), 1))
        column_of = dict(zip(self.features_, columns, strict=True))
        for names, gains in self._gains():
            scores += gains[tuple(codes[:, column_of[name]] for name in names)]
        return scores

    def _positions(self, X: Records, *others: str) -> list[int]:
        """Positions of the features, and of others, in records coded as the model's reports."""
        names = [*self.features_, *others]
        check_inputs(X, names, self.categories_)
        return [X.codebook.index(name) for name in names]

    def _joint_scores(self, X: Any) -> Floats:
        X = self._asked(X)
        columns = self._positions(X)
        require_categories(X, self.features_, "predict from")
        return self._scores(X.codes, columns)

    def predict_codes(self, X: Any) -> npt.NDArray[np.int64]:
        """Predicted codes of the target, shape (n,); the target itself is not looked at.

        Reported answers are taken as they are, which is not the truth; sets, and symbols that are
        no categories, are refused (RecordsError).
        """
        return first_largest(self._joint_scores(X))

    def predict_proba(self, X: Any) -> Floats:
        """Posterior class probabilities under the fitted model, shape (n, n_classes)."""
        scores = self._joint_scores(X)
        odds = np.exp(scores - scores.max(axis=1, keepdims=True))
        result: Floats = odds / odds.sum(axis=1, keepdims=True)
        return result

    def draw(self, path: str | Path) -> None:
        """Draw P(a | c) to a file: a panel a feature, a bar a category and class.

        The last panel has the classes themselves.  The file's ending says the kind (svg, png, pdf).

        Raises
        ------
        InputError
            For more than 40 features, or more than 400 bars of one.
        """
        check_is_fitted(self)
        classes = tuple(str(label) for label in self.classes_)
        panels = [
            (f"P({name} | {self.target_})", self.categories_[name], np.exp(log))
            for name, log in self.feature_log_prob_.items()
        ]
        prior = np.diag(np.exp(self.class_log_prior_))
        draw_bars(Path(path), classes, [*panels, (f"P({self.target_})", classes, prior)])

    def client_steps(self) -> dict[str, Any]:
        check_is_fitted(self)
        return {
            "op": "scores",
            "classes": [*self.categories_[self.target_]],
            "prior": self.class_log_prior_.tolist(),
            "tables": [
                {
                    "attributes": [*names],
                    "categories": [[*self.categories_[name]] for name in names],
                    "gains": gains.tolist(),
                }
                for names, gains in self._gains()
            ],
            "tie": SCORE_TIE,
        }

    def _gains(self) -> Iterator[tuple[tuple[str, ...], Floats]]:
        """What is added to the log prior: attributes, and an array by their codes and class."""
        for name in self.features_:
            yield (name,), self.feature_log_prob_[name]

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw P(a | c) on axes of matplotlib: a row a category, a marker a class.

        Raises
        ------
        InputError
            For more than 200 categories.
        """
        check_is_fitted(self)
        laws = self.feature_log_prob_.items()
        panels = [(name, self.categories_[name], np.exp(log)) for name, log in laws]
        classes = [f"{self.target_} = {label}" for label in self.classes_]
        return shares(ax, panels, classes, x=f"P(category | {self.target_})")

    def _shown(self) -> Iterator[Markup]:
        import pandas as pd

        laws = np.exp(self.class_log_prior_).tolist()
        yield html_table(pd.DataFrame({self.target_: self.classes_, "proportion": laws}))
        rows = sum(map(len, self.categories_.values()))
        if rows <= MOST_ROWS:
            yield picture(self.plot, 6, height(rows), "Proportions of categories by class")

    def fitted_values(self) -> dict[str, Any]:
        """Logarithms of the probabilities, and what the floor did; as JSON values."""
        return {
            "floor": self.floor_,
            "floored": self.floored_,
            "floored_share": self.floored_share_,
            "class_log_prior": self.class_log_prior_.tolist(),
            "feature_log_prob": {k: v.tolist() for k, v in self.feature_log_prob_.items()},
        }

    def restore(self, fitted: Mapping[str, Any]) -> None:
        """Inverse of :meth:`fitted_values`."""
        self.floor_, self.floored_ = float(fitted["floor"]), int(fitted["floored"])
        self.floored_share_ = float(fitted["floored_share"])
        self.class_log_prior_ = np.array(fitted["class_log_prior"], float)
        tables = {n: np.array(fitted["feature_log_prob"][n], float) for n in self.features_}
        n = len(self.classes_)
        shapes = {name: (len(self.categories_[name]), n) for name in tables}
        if any(tables[name].shape != shape for name, shape in shapes.items()):
            raise InputError("fitted: has other categories than the codebook", fitted)
        if self.class_log_prior_.shape != (n,):
            raise InputError("fitted: has other classes than the codebook", fitted)
        self.feature_log_prob_ = tables

    def count_correct(self, X: Records) -> int:
        """Records whose target is the predicted one; of reports, whose reported target is."""
        check_is_fitted(self)
        *_, target = self._positions(X, self.target_)
        require_categories(X, [self.target_], "count as right")
        return int((self.predict_codes(X) == X.codes[:, target]).sum())

    def score_disguised(
        self, reports: Reports | Sequence[Records], stream: Stream | None = None
    ) -> Estimate:
        r"""Unbiased accuracy on the truth behind disguised test reports.

        The sum over the true records x of their weights, where the model is right; for the
        unrelated-question design on the whole record it is what section 2.4 of [ZhanMatwin]_ has:

        .. math:: \frac1n \sum_i \sum_x B_{x y_i} 1[\hat c(x) = c(x)], \qquad
            P(cc) = \frac{P^*(cc) - (1 - q) P_Y(cc)}{q}

        The value may leave [0, 1].

        Parameters
        ----------
        reports : Reports, or one Reports a stratum under a stratified design
            Disguised by the same design, independent of the training reports.
        stream : Stream, optional
            Needed only where the disguised attributes have over 2**20 joint categories: the sum
            over them is then sampled.
        """
        check_is_fitted(self)
        reports = scored(self.design_, reports)
        correct = self._correct(self._first(reports))
        if isinstance(reports, Owners) or isinstance(self.design_, Stratified):
            strata, weights = pair_strata(self.design_, reports), weights_of(self.design_, reports)
            return score_strata(correct, strata, stream, weights)
        return score_disguised(correct, reports, self.design_, stream)  # type: ignore[arg-type]

    def _correct(self, like: Records) -> Correct:
        """Whether codes of such records are classified as their target says."""
        *columns, target = self._positions(like, self.target_)

        def correct(codes: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
            hits: npt.NDArray[np.bool_]
            hits = first_largest(self._scores(codes, columns)) == codes[:, target]
            return hits

        return correct
