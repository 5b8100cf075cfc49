"""Tree-augmented naive Bayes from disguised reports.  [FriedmanGeiger]_, section 4."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from scipy.special import xlogy
from sklearn.utils.validation import check_is_fitted

from ppdm_dask.arrays import Floats
from ppdm_dask.drawing.style import COLOURS, GREY, save_as, styled
from ppdm_dask.errors import InputError
from ppdm_dask.extras import named
from ppdm_dask.faces.face import MOST_ROWS, picture
from ppdm_dask.faces.plots import axes_for
from ppdm_dask.kernels import ENTROPY_TIE, FLOOR_ROUNDING
from ppdm_dask.mine.naive_bayes import NaiveBayes
from ppdm_dask.shown import given, printable

if TYPE_CHECKING:
    from markupsafe import Markup
    from matplotlib.axes import Axes

    from ppdm_dask.inference import Estimate

__all__ = ["TAN", "conditional_information", "maximum_tree"]

Edge = tuple[str, str]

STEPS = 10_000
MARGIN = 1e-13
"""Up to this the margins of a pair's law are those of its attributes; else after STEPS steps."""


def conditional_information(joint: Floats) -> float:
    """Mutual information of two attributes given the class, in nats: ``I(A; B | C)``.

    Parameters
    ----------
    joint : array, shape (classes, categories of A, categories of B)
        Estimated proportions; those below 0 are taken as 0, and all as shares of their sum, so
        that it is the information of a law and never negative.
    """
    law = np.maximum(joint, 0)
    law /= law.sum()
    # Sums of p log p of the law and its margins.
    inner = xlogy(law, law).sum() + xlogy(law.sum(axis=(1, 2)), law.sum(axis=(1, 2))).sum()
    outer = sum(xlogy(m, m).sum() for m in (law.sum(axis=2), law.sum(axis=1)))
    return max(float(inner - outer), 0.0)


def maximum_tree(information: Floats) -> list[tuple[int, int]]:
    """Edges of the spanning tree of most information, strongest first (Kruskal).

    Of edges within ``ENTROPY_TIE`` of the strongest that closes no circle, the first is taken: by
    its first end, then by its second.

    Parameters
    ----------
    information : array, shape (n, n)
        Symmetric.
    """
    n = len(information)
    part = list(range(n))
    left = list(combinations(range(n), 2))
    found: list[tuple[int, int]] = []
    while len(found) < n - 1:
        left = [(i, j) for i, j in left if part[i] != part[j]]
        best = max(information[edge] for edge in left)
        i, j = next(edge for edge in left if information[edge] >= best - ENTROPY_TIE)
        found.append((i, j))
        part = [part[i] if p == part[j] else p for p in part]
    return found


def _with_margins(table: Floats, first: Floats, second: Floats) -> Floats:
    """The law of two attributes in each class that has their own laws as margins.

    Of all such laws it is the nearest to the table in relative entropy: iterative proportional
    fitting.

    Parameters
    ----------
    table : array, shape (n_first, n_second, classes)
        Positive.
    first, second : arrays, shapes (n_first, classes) and (n_second, classes)
        Laws in each class.
    """
    law: Floats = table / table.sum(axis=(0, 1))
    for _ in range(STEPS):
        law = law * (first / law.sum(axis=1))[:, None]
        law = law * (second / law.sum(axis=0))
        if float(np.abs(law.sum(axis=1) - first).max()) <= MARGIN:
            break
    return law


class TAN(NaiveBayes):
    r"""Tree-augmented naive Bayes: each attribute depends on the class and one other attribute.

    The attributes are joined by the spanning tree of most conditional mutual information given the
    class, which is the most likely of all trees [FriedmanGeiger]_.  The joint proportions
    P(c, a, b) behind it are estimated without bias, as naive Bayes estimates P(c, a): by inverting
    the design, or by event weights.

    Where estimates have to be repaired, the laws stay those of naive Bayes: P(c) and P(a | c) are
    floored as there.  Joint estimates of a pair in the tree are raised to the same floor and then
    fitted to P(a | c) and P(b | c), so that the law is, over attributes a and over pairs (a, b) in
    the tree,

    .. math:: P(c) \prod_a P(a \mid c)
        \prod_{(a, b)} \frac{P(a, b \mid c)}{P(a \mid c) P(b \mid c)}

    It does not depend on which attribute is the root.

    Parameters
    ----------
    design : Design or Stratified, optional
        The design that made the reports; by default the one that they carry, and ``Identity`` for
        undisguised records, arrays and frames.
    target : str, optional
        The attribute to predict; by default the target of the codebook.
    floor : "1/n" or float, default "1/n"
        Smallest estimated proportion: one record in n, or a number in (0, 1).

    Attributes
    ----------
    classes_, features_, feature_names_in_, categories_, n_reports_, floor_
        As of :class:`ppdm_dask.NaiveBayes`.
    class_log_prior_, feature_log_prob_
        log P(c) and log P(a | c), as of :class:`ppdm_dask.NaiveBayes`.
    edges_ : tuple of pairs of str
        Pairs in the tree, the strongest first; in a pair the attribute that comes first.
    edge_log_prob_ : dict of pair to array, shape (n_categories, n_categories, n_classes)
        log P(a, b | c).
    information_ : array, shape (n_features, n_features)
        I(A; B | C) in nats, of estimates below 0 taken as 0.
    negative_share_ : float
        Share of the joint estimates P(c, a, b) that are below 0.
    floored_, floored_share_ : int, float
        Joint estimates P(c, a), and P(c, a, b) of pairs in the tree, that were raised to the floor.

    Notes
    -----
    Noise of a strong disguise adds information to every pair, most to pairs of many categories; it
    vanishes as 1 / n.

    Examples
    --------
    >>> import ppdm_dask as pp
    >>> frame = pp.datasets.load("breast-cancer")
    >>> book = pp.Codebook.from_toml(pp.resources.codebook_path("breast-cancer"))
    >>> records = book.binarise(frame, "midrange").encode(frame)
    >>> design = pp.UnrelatedQuestion(records.codebook.names, q=0.8)
    >>> reports = design.disguise(records, pp.Stream.from_seed(1))
    >>> model = pp.TAN(design, target="class").fit(reports)
    >>> len(model.edges_), model.score(records) > 0.9
    (8, True)
    """

    _together: ClassVar[int] = 2

    def _margins(self, features: Sequence[str]) -> list[tuple[str, ...]]:
        if len(features) == 1:
            return super()._margins(features)
        return [(self.target_, *pair) for pair in combinations(features, 2)]

    def _fit(self, features: list[str], estimates: list[Estimate]) -> Self:
        labels = {name: part for made in estimates for name, part in made.labels.items()}
        joint = {tuple(made.labels)[1:]: made.values for made in estimates}
        # A margin of an inversion is the same from whichever pair it is taken.
        alone: dict[str, Floats] = {}
        for names, values in joint.items():
            for axis, name in enumerate(names):
                alone.setdefault(name, values.sum(axis=2 - axis) if len(names) == 2 else values)
        laws = [alone[name] for name in features]
        self._fit_joint(features, estimates[0].n, labels, laws)
        self._fit_tree({pair: values for pair, values in joint.items() if len(pair) == 2})
        return self

    def _fit_tree(self, joint: Mapping[tuple[str, ...], Floats]) -> None:
        """The tree, and the laws of its pairs, from joint proportions of class and pairs."""
        m, size = len(self.features_), sum(values.size for values in joint.values())
        self.information_ = np.zeros((m, m))
        for (i, j), values in zip(combinations(range(m), 2), joint.values(), strict=True):
            self.information_[i, j] = self.information_[j, i] = conditional_information(values)
        negative = sum(int((values < -FLOOR_ROUNDING).sum()) for values in joint.values())
        self.negative_share_ = negative / max(size, 1)
        ends = maximum_tree(self.information_)
        self.edges_: tuple[Edge, ...] = tuple(
            (self.features_[i], self.features_[j]) for i, j in ends
        )
        self.edge_log_prob_: dict[Edge, Floats] = {}
        cells = sum(law.size for law in self.feature_log_prob_.values())
        for a, b in self.edges_:
            table = np.moveaxis(joint[a, b], 0, 2)
            self.floored_ += int((table < self.floor_ - FLOOR_ROUNDING).sum())
            cells += table.size
            raised = np.maximum(table, self.floor_)
            first, second = (np.exp(self.feature_log_prob_[name]) for name in (a, b))
            self.edge_log_prob_[a, b] = np.log(_with_margins(raised, first, second))
        self.floored_share_ = self.floored_ / cells

    def _gains(self) -> Iterator[tuple[tuple[str, ...], Floats]]:
        yield from super()._gains()
        for (a, b), log in self.edge_log_prob_.items():
            yield (a, b), log - self.feature_log_prob_[a][:, None] - self.feature_log_prob_[b]

    def parents(self, root: str | None = None) -> dict[str, str | None]:
        """The parent of each attribute beside the class, from a root; the root has none.

        Parameters
        ----------
        root : str, optional
            By default the first attribute.  The law of all attributes is the same for any.

        Raises
        ------
        InputError
            If no attribute has that name.
        """
        check_is_fitted(self)
        first = self.features_[0] if root is None else root
        if first not in self.features_:
            raise InputError(f"root: got {given(root)}; one of the features is needed", root)
        found: dict[str, str | None] = {first: None}
        stack = [first]
        while stack:
            above = stack.pop()
            for a, b in self.edges_:
                other = b if a == above else a if b == above else None
                if other is not None and other not in found:
                    found[other] = above
                    stack.append(other)
        return found

    def draw(self, path: str | Path) -> None:
        """Draw the tree of attributes to a file, with the information of each pair.

        The first attribute is the root, on the left; the class is a parent of all and is not drawn.
        The file's ending says the kind (svg, png, pdf).

        Raises
        ------
        InputError
            For more than 100 attributes.
        """
        with named("draw"):
            from matplotlib.backends.backend_agg import FigureCanvasAgg
            from matplotlib.figure import Figure

        places = self._drawn(path)
        with styled():
            figure = Figure(figsize=_size(places))
            FigureCanvasAgg(figure)
            self._paint(figure.add_axes((0.0, 0.0, 1.0, 1.0)), places)
            save_as(figure, Path(path))

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the tree of attributes on axes of matplotlib; see :meth:`draw`."""
        places = self._drawn("plot")
        ax = axes_for(ax, *_size(places))
        self._paint(ax, places)
        return ax

    def _shown(self) -> Iterator[Markup]:
        if len(self.features_) <= MOST_ROWS:
            yield picture(self.plot, *_size(self._drawn("plot")), "Tree of attributes")

    def _drawn(self, where: str | Path) -> dict[str, tuple[float, float]]:
        """Places of the attributes; InputError where they are too many."""
        parents = self.parents()
        if len(parents) > MAX_DRAWN:
            raise InputError(
                f"{where}: {len(parents)} attributes are too many for a drawing; at most "
                f"{MAX_DRAWN} are drawn",
                where,
            )
        return _places(parents)

    def _paint(self, axes: Axes, places: Mapping[str, tuple[float, float]]) -> None:
        parents = self.parents()
        deepest, rows = (1 + max(place[axis] for place in places.values()) for axis in (0, 1))
        # A dollar sign in a name is not a formula.
        text: dict[str, Any] = {"ha": "center", "va": "center", "parse_math": False}
        frame = {"boxstyle": "round,pad=0.3", "facecolor": "white", "edgecolor": COLOURS[0]}
        plain = {"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none"}
        axes.set_axis_off()
        axes.set_xlim(-0.5, deepest - 0.5)
        axes.set_ylim(rows - 0.3, -1.2)
        title = f"given {self.target_}; I(A; B | {self.target_}) in nats"
        axes.text((deepest - 1) / 2, -0.9, printable(title), fontsize=8, color=GREY, **text)
        for name, above in parents.items():
            x, y = places[name]
            if above is not None:
                i, j = (self.features_.index(each) for each in (above, name))
                start = places[above][1]
                axes.plot([x - 1, x], [start, y], color=GREY, linewidth=0.8, zorder=1)
                gain = f"{self.information_[i, j]:.3f}"
                axes.text(x - 0.5, (start + y) / 2, gain, fontsize=7, bbox=plain, **text)
        for name, (x, y) in places.items():
            axes.text(x, y, printable(name), fontsize=8, bbox=frame, **text)

    def fitted_values(self) -> dict[str, Any]:
        """Those of naive Bayes, the information of all pairs, and the tree with its laws."""
        laws = self.edge_log_prob_.items()
        return super().fitted_values() | {
            "information": self.information_.tolist(),
            "negative_share": self.negative_share_,
            "edges": [{"attributes": [*pair], "log_prob": law.tolist()} for pair, law in laws],
        }

    def restore(self, fitted: Mapping[str, Any]) -> None:
        super().restore(fitted)
        self.information_ = np.array(fitted["information"], float)
        self.negative_share_ = float(fitted["negative_share"])
        found = {
            (str(edge["attributes"][0]), str(edge["attributes"][1])): np.array(
                edge["log_prob"], float
            )
            for edge in fitted["edges"]
        }
        for (a, b), law in found.items():
            sizes = (len(self.categories_[a]), len(self.categories_[b]), len(self.classes_))
            if law.shape != sizes:
                raise InputError("fitted: has other categories than the codebook", fitted)
        self.edge_log_prob_, self.edges_ = found, tuple(found)
        m = len(self.features_)
        whole = len(found) == m - 1 and set(self.parents()) == set(self.features_)
        if not whole or self.information_.shape != (m, m):
            raise InputError("fitted: edges: a tree over all features is needed", fitted)


MAX_DRAWN = 100


def _size(places: Mapping[str, tuple[float, float]]) -> tuple[float, float]:
    """Width and height of a drawing in inches."""
    deepest, rows = (1 + max(place[axis] for place in places.values()) for axis in (0, 1))
    return max(2.2 * deepest, 3.5), 0.45 * rows + 0.5


def _places(parents: Mapping[str, str | None]) -> dict[str, tuple[float, float]]:
    """Depth and row of each attribute: leaves have rows of their own, others stand in the midst."""
    children: dict[str | None, list[str]] = {}
    depth: dict[str | None, int] = {None: -1}
    for name, above in parents.items():  # Parents stand before their children.
        children.setdefault(above, []).append(name)
        depth[name] = depth[above] + 1
    row: dict[str, float] = {}

    def place(name: str) -> float:
        below = [place(child) for child in children.get(name, [])]
        leaves = sum(1 for each in row if each not in children)
        row[name] = (below[0] + below[-1]) / 2 if below else float(leaves)
        return row[name]

    place(children[None][0])
    return {name: (float(depth[name]), row[name]) for name in parents}
