"""A decision tree as arrays over its nodes, in the order of levels.

A tree is written for people and for other programs as indented text, nested mappings or a drawing.
Its nodes can be met by other reports, or by its own once more: counts, errors, right answers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ppdm_dask.arrays import Floats, Ints
from ppdm_dask.drawing.style import COLOURS, GREY, save_as, styled
from ppdm_dask.errors import InputError
from ppdm_dask.extras import named
from ppdm_dask.faces.face import Face, picture
from ppdm_dask.faces.plots import axes_for
from ppdm_dask.inference.laws import undefined
from ppdm_dask.inference.result import Estimate
from ppdm_dask.inference.uncertainty import standard_error_of
from ppdm_dask.mine.evidence import ROUNDING, images, signed_cells
from ppdm_dask.mine.rows import Conjunction, NodeTables
from ppdm_dask.shown import given, printable

if TYPE_CHECKING:
    from markupsafe import Markup
    from matplotlib.axes import Axes

    from ppdm_dask.data.codebook import Codebook
    from ppdm_dask.mine.evidence import Evidence, Images, Stratum


def check_depth(max_depth: Any) -> None:
    """Raise InputError unless the depth is None or a whole number of 0 or more."""
    whole = isinstance(max_depth, int | np.integer) and not isinstance(max_depth, bool)
    if max_depth is not None and not (whole and max_depth >= 0):
        raise InputError(
            f"max_depth: got {given(max_depth)}; a whole number of 0 or more, or None, is needed",
            max_depth,
        )


def _below(tree: Tree) -> list[int]:
    """Number of nodes below each node."""
    below = np.zeros(len(tree), np.int64)
    for node in range(len(tree) - 1, 0, -1):
        below[tree.parent[node]] += below[node] + 1
    return [int(size) for size in below]


def _counts(tree: Tree, node: int) -> str:
    pairs = zip(tree.classes, tree.counts[node], strict=True)
    # Adding 0 turns -0.0, from rounding a small negative number, into 0.0.
    return ", ".join(f"{label} {round(count, 1) + 0.0:.1f}" for label, count in pairs)


def _edge(tree: Tree, node: int) -> str:
    attribute = tree.codebook.attributes[int(tree.attribute[tree.parent[node]])]
    return attribute.categories[int(tree.category[node])]


def export_text(tree: Tree, max_depth: int | None = None) -> str:
    """The tree as indented text: a line a node with its estimated counts of the classes.

    Parameters
    ----------
    tree : Tree
    max_depth : int, optional
        Nodes below are counted, not shown.
    """
    check_depth(max_depth)
    below = _below(tree)
    lines: list[str] = []
    stack = [0]
    while stack:
        node = stack.pop()
        indent = "|   " * max(int(tree.depth[node]) - 1, 0)
        text = f"[{_counts(tree, node)}]"
        if node:
            name = tree.codebook.names[tree.attribute[tree.parent[node]]]
            text = f"{indent}|--- {name} = {_edge(tree, node)}  {text}"
        cut = max_depth is not None and tree.depth[node] >= max_depth
        if not below[node] or cut:
            text += f"  {tree.classes[tree.label[node]]}"
        if below[node] and cut:
            text += f"  (and {below[node]} nodes below)"
        lines.append(text)
        if not cut:
            stack += reversed(tree.children(node))
    return "\n".join(lines)


def to_dict(tree: Tree, *, standard_errors: bool = False) -> dict[str, Any]:
    """The tree as nested mappings of JSON values.

    Parameters
    ----------
    tree : Tree
    standard_errors : bool
        Whether to add the standard errors of the counts; None where there is none.

    Returns
    -------
    dict
        ``label`` and ``counts`` by class; of an inner node also ``attribute``, ``gain`` in bits and
        ``children`` by category.
    """
    nodes: list[dict[str, Any]] = []
    for node in range(len(tree)):
        counts = zip(tree.classes, tree.counts[node], strict=True)
        found: dict[str, Any] = {
            "label": tree.classes[tree.label[node]],
            "counts": {label: float(count) for label, count in counts},
        }
        if standard_errors:
            errors = zip(tree.classes, tree.standard_error[node], strict=True)
            found["standard_errors"] = {
                label: None if np.isnan(error) else float(error) for label, error in errors
            }
        if tree.attribute[node] >= 0:
            found["attribute"] = tree.codebook.names[tree.attribute[node]]
            found["gain"] = float(tree.gain[node])
            found["children"] = {}
        if node:
            nodes[tree.parent[node]]["children"][_edge(tree, node)] = found
        nodes.append(found)
    return nodes[0]


def to_steps(tree: Tree) -> Any:
    """The root as :meth:`ppdm_dask.mine.classifier.Classifier.client_steps` has it.

    A node is a class, or ``{"attribute": name, "below": {category: node}}``; one below which all
    leaves say the same is a leaf.
    """
    nodes: list[Any] = [None] * len(tree)
    for node in range(len(tree) - 1, -1, -1):  # children stand behind their parents
        below = {_edge(tree, child): nodes[child] for child in tree.children(node)}
        first = next(iter(below.values()), tree.classes[tree.label[node]])
        if isinstance(first, str) and all(each == first for each in below.values()):
            nodes[node] = first
        else:
            attribute = tree.codebook.names[tree.attribute[node]]
            nodes[node] = {"attribute": attribute, "below": below}
    return nodes[0]


ARRAYS = ("attribute", "first_child", "parent", "category", "depth", "counts", "negative", "label")
"""Arrays of a tree's nodes without gaps; scores and standard errors have some."""


def to_arrays(tree: Tree) -> dict[str, Any]:
    """The tree as JSON values, with which :func:`from_arrays` makes an equal one."""
    return {
        "columns": list(tree.codebook.names),
        "tolerance": float(tree.tolerance),
        **{name: getattr(tree, name).tolist() for name in ARRAYS},
        "score": [json_number(score) for score in tree.score.tolist()],
        "standard_error": [[json_number(x) for x in row] for row in tree.standard_error.tolist()],
    }


def from_arrays(fitted: Mapping[str, Any], codebook: Codebook, target: str, n_reports: int) -> Tree:
    """Inverse of :func:`to_arrays`; the reports stay behind.

    Parameters
    ----------
    fitted : mapping
    codebook : Codebook
        Of the features and the target, in any order.
    target : str
    n_reports : int

    Raises
    ------
    InputError
        For arrays that are no tree.
    """
    book = codebook.select(fitted["columns"])
    arrays: dict[str, Any] = {name: np.array(fitted[name]) for name in ARRAYS}
    nodes, k = len(arrays["attribute"]), len(codebook[target].categories)
    gaps = {name: np.array(fitted[name], float) for name in ("score", "standard_error")}
    for name, array in (arrays | gaps).items():
        wide = name in ("counts", "standard_error")
        if array.shape != ((nodes, k) if wide else (nodes,)):
            raise InputError(f"fitted.{name}: has another shape than the tree", name)
    inner = np.flatnonzero(arrays["attribute"] >= 0)
    last = arrays["first_child"][inner] + np.array(book.shape)[arrays["attribute"][inner]]
    if (arrays["first_child"][inner] <= inner).any() or (last > nodes).any():
        raise InputError("fitted.first_child: leads out of the tree", "first_child")
    arrays["counts"] = arrays["counts"].astype(float)
    tolerance = float(fitted["tolerance"])
    tree = Tree(book, book.index(target), n_reports, tolerance, **arrays, score=gaps["score"])
    # What would be computed from the reports comes along.
    tree.__dict__["standard_error"] = gaps["standard_error"]
    return tree


def json_number(value: float) -> float | None:
    """A number as JSON has it: None where there is none."""
    return value if math.isfinite(value) else None


def draw(tree: Tree, path: str | Path, max_depth: int | None = 4) -> None:
    """Draw the tree to a file, the root on the left; the file's ending says the kind (png, svg).

    Inner nodes show the attribute that splits them, leaves their class, all of them the estimated
    counts of the classes; a frame has the colour of the class.  A branch that continues says by how
    many nodes.

    Parameters
    ----------
    tree : Tree
    path : path-like
    max_depth : int, optional
        Depth down to which nodes are shown; None for all.

    Raises
    ------
    InputError
        If more than 100 branches would end in the drawing.
    """
    with named("draw"):
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

    heights = _readable(tree, max_depth)
    with styled():
        figure = Figure(figsize=_size(tree, heights))
        FigureCanvasAgg(figure)
        _paint(figure.add_axes((0.0, 0.0, 1.0, 1.0)), tree, heights, max_depth)
        save_as(figure, Path(path))


def _readable(tree: Tree, max_depth: int | None) -> dict[int, float]:
    """Nodes to show with their heights; InputError where they are too many."""
    check_depth(max_depth)
    heights = _layout(tree, max_depth)
    ends = 1 + int(max(heights.values()))
    if ends > MAX_ENDS:
        raise InputError(
            f"max_depth: got {given(max_depth)}; {ends} branches end there, more than the "
            f"{MAX_ENDS} that can be read in one drawing: give a smaller depth",
            max_depth,
        )
    return heights


def _size(tree: Tree, heights: Mapping[int, float]) -> tuple[float, float]:
    """Width and height of a drawing in inches."""
    deepest = max(int(tree.depth[node]) for node in heights)
    row = 0.2 + 0.14 * (len(tree.classes) + 2)
    return 2.7 * (deepest + 1), max(1.0, row * (1 + int(max(heights.values()))))


def _paint(axes: Axes, tree: Tree, heights: Mapping[int, float], max_depth: int | None) -> None:
    below = _below(tree)
    axes.set_axis_off()
    axes.set_xlim(-0.5, max(int(tree.depth[node]) for node in heights) + 0.5)
    axes.set_ylim(int(max(heights.values())) + 0.5, -0.5)
    for node, y in heights.items():
        x, colour = int(tree.depth[node]), COLOURS[int(tree.label[node]) % len(COLOURS)]
        if node:
            above = heights[int(tree.parent[node])]
            elbow = [x - 1, x - 0.6, x]
            axes.plot(elbow, [above, y, y], color=GREY, linewidth=0.8, zorder=1)
            axes.text(x - 0.46, y, printable(_edge(tree, node)), **_TEXT, bbox=_PLAIN)
        inner = _drawn(tree, node, max_depth)
        label = tree.classes[int(tree.label[node])]
        name = tree.codebook.names[tree.attribute[node]] if inner else f"→ {label}"
        lines = [name, *_counts(tree, node).split(", ")]
        if below[node] and not inner:
            lines.append(f"(+ {below[node]} nodes)")
        frame: dict[str, Any] = {"facecolor": "white", "edgecolor": colour}
        frame |= {"boxstyle": "round,pad=0.3", "linewidth": 0.9 if inner else 1.8}
        axes.text(x, y, "\n".join(map(printable, lines)), **_TEXT, bbox=frame)


MAX_ENDS = 100
MOST_SHOWN = 16
"""Branches that end in a notebook's picture."""

# A dollar sign in a label is not a formula.
_TEXT: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": 7.5, "parse_math": False}
_PLAIN = {"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none"}


def _drawn(tree: Tree, node: int, max_depth: int | None) -> bool:
    """Whether a node's children are shown."""
    return tree.attribute[node] >= 0 and (max_depth is None or bool(tree.depth[node] < max_depth))


def _layout(tree: Tree, max_depth: int | None) -> dict[int, float]:
    """Nodes to show, parents first, and their heights: the ends of branches stand in rows."""
    shown, stack = [], [0]
    heights: dict[int, float] = {}
    while stack:
        node = stack.pop()
        shown.append(node)
        if _drawn(tree, node, max_depth):
            stack += reversed(tree.children(node))
        else:
            heights[node] = float(len(heights))
    for node in reversed(shown):
        if node not in heights:
            heights[node] = float(np.mean([heights[child] for child in tree.children(node)]))
    return {node: heights[node] for node in shown}


@dataclass(frozen=True, eq=False, repr=False)
class Tree(Face):
    """Nodes of a decision tree; node 0 is the root and children stand behind their parents.

    Parameters
    ----------
    codebook : Codebook
        Attributes and categories of the reports that the tree was grown on.
    target : int
        Column of the class.
    n_reports : int
    tolerance : float
        Counts up to it are rounding; 0 where they are exact.
    attribute : int array, shape (nodes,)
        Column of the codebook that splits the node; -1 for a leaf.
    first_child : int array, shape (nodes,)
        The child of category v is ``first_child + v``; -1 for a leaf.
    parent, category : int arrays, shape (nodes,)
        The node above, and the category of its attribute that leads here; -1 for the root.
    depth : int array, shape (nodes,)
        Conditions on the path to the node.
    counts : float array, shape (nodes, classes)
        Estimated records of each class; they may be negative.
    negative : bool array, shape (nodes,)
        Whether one of these counts is negative.
    label : int array, shape (nodes,)
        Code of the class that the node would predict as a leaf.
    score : float array, shape (nodes,)
        Mean entropy in nats after the split; NaN for a leaf.
    evidence : Evidence, optional
        The reports behind the counts.  A pickled tree leaves them behind, and takes their standard
        errors along.
    """

    codebook: Codebook
    target: int
    n_reports: int
    tolerance: float
    attribute: Ints
    first_child: Ints
    parent: Ints
    category: Ints
    depth: Ints
    counts: Floats
    negative: npt.NDArray[np.bool_]
    label: Ints
    score: Floats
    evidence: Evidence | None = None

    def __getstate__(self) -> dict[str, Any]:
        # A model may travel to people who may not see the reports.
        standard_error = self.standard_error
        return {**self.__dict__, "evidence": None, "standard_error": standard_error}

    def __len__(self) -> int:
        """Return the number of nodes."""
        return len(self.attribute)

    @property
    def classes(self) -> tuple[str, ...]:
        """Labels of the classes."""
        return self.codebook.attributes[self.target].categories

    @property
    def leaves(self) -> Ints:
        """Numbers of the leaves."""
        return np.flatnonzero(self.attribute < 0)

    @property
    def weight(self) -> Floats:
        """Estimated records in each node, shape (nodes,)."""
        total: Floats = self.counts.sum(axis=1)
        return total

    @cached_property
    def gain(self) -> Floats:
        """Information gain of each split in bits, Eq. (10) of [ZhanDu]_; NaN for a leaf.

        From counts clipped at 0, so that it may be negative.
        """
        result: Floats = (mean_entropy(self.counts[:, None, :]) - self.score) / np.log(2)
        return result

    @cached_property
    def standard_error(self) -> Floats:
        """Standard errors of the counts, for the population behind the reports; NaN below two.

        Computed when first asked for.
        """
        return standard_errors(self)

    def children(self, node: int) -> range:
        """Numbers of a node's children, by category; none for a leaf."""
        first = int(self.first_child[node])
        if first < 0:
            return range(0)
        return range(first, first + self.codebook.shape[self.attribute[node]])

    def conditions(self, node: int) -> dict[int, int]:
        """The path to a node: columns of the codebook and the codes they must have."""
        found = {}
        while node:
            above = int(self.parent[node])
            found[int(self.attribute[above])] = int(self.category[node])
            node = above
        return dict(reversed(found.items()))

    def route(self, codes: npt.NDArray[Any]) -> Iterator[tuple[Ints, Ints]]:
        """Send rows down the tree: at each level, the rows that are there and their nodes.

        Parameters
        ----------
        codes : array, shape (n, attributes of the codebook)
        """
        rows, nodes = np.arange(len(codes)), np.zeros(len(codes), np.int64)
        while len(rows):
            yield rows, nodes
            inner = np.flatnonzero(self.attribute[nodes] >= 0)
            rows, nodes = rows[inner], nodes[inner]
            nodes = self.first_child[nodes] + codes[rows, self.attribute[nodes]]

    def apply(self, codes: npt.NDArray[Any]) -> Ints:
        """Leaf of each row, shape (n,)."""
        leaf = np.zeros(len(codes), np.int64)
        for rows, nodes in self.route(codes):
            leaf[rows] = nodes
        return leaf

    def export_text(self, max_depth: int | None = None) -> str:
        """The tree as indented text, down to a depth."""
        return export_text(self, max_depth)

    def to_dict(self, *, standard_errors: bool = False) -> dict[str, Any]:
        """The tree as nested mappings of JSON values."""
        return to_dict(self, standard_errors=standard_errors)

    def draw(self, path: str | Path, max_depth: int | None = 4) -> None:
        """Draw the tree to a file, down to a depth."""
        draw(self, path, max_depth)

    def plot(self, ax: Axes | None = None, max_depth: int | None = 4) -> Axes:
        """Draw the tree on axes of matplotlib, down to a depth; see :func:`draw`."""
        heights = _readable(self, max_depth)
        ax = axes_for(ax, *_size(self, heights))
        _paint(ax, self, heights, max_depth)
        return ax

    def _said(self) -> str:
        target = self.codebook.names[self.target]
        leaves, deepest = int((self.attribute < 0).sum()), int(self.depth.max())
        return (
            f"Tree for {target}: {len(self.attribute):,} nodes, {leaves:,} leaves, depth "
            f"{deepest}, {self.n_reports:,} reports"
        )

    def _shown(self) -> Iterator[Markup]:
        # As deep as there is room for in a notebook.
        for depth in (3, 2, 1, 0):
            heights = _layout(self, depth)
            if max(heights.values()) < MOST_SHOWN or not depth:
                yield picture(partial(self.plot, max_depth=depth), *_size(self, heights), "Tree")
                return


def sum_variance(total: Floats, square: Floats, n: int) -> Floats:
    """Variance of a sum of n weights, for the population behind the reports.

    Parameters
    ----------
    total, square : array
        Sum of the weights and of their squares.
    n : int
        Reports of one stratum; variances of strata add.  NaN for fewer than two.
    """
    if n < 2:
        return np.full(np.shape(total), np.nan)
    return np.maximum(square - total**2 / n, 0.0) * (n / (n - 1))


def mean_entropy(counts: npt.NDArray[Any]) -> Floats:
    """Mean entropy of the class over the categories: sum_v n_v H_v / sum_v n_v, in nats.

    Parameters
    ----------
    counts : array, shape (..., categories, classes)
        Signed counts; negative ones count as 0.

    Returns
    -------
    array, shape (...)
        Infinite where no count is positive.
    """
    from scipy.special import xlogy

    clipped = np.maximum(counts, 0).astype(np.float64)
    size = clipped.sum(axis=-1)
    parts = xlogy(size, size) - xlogy(clipped, clipped).sum(axis=-1)
    total = size.sum(axis=-1)
    score: Floats = np.full(total.shape, np.inf)
    np.divide(parts.sum(axis=-1), total, out=score, where=total > 0)
    return score


class SignedCounts(NamedTuple):
    """Counts, shape (nodes, classes), times scale; differences up to the tolerance are rounding."""

    counts: npt.NDArray[Any]
    scale: int
    tolerance: int | float


def node_counts(tree: Tree, evidence: Evidence) -> SignedCounts:
    """Estimated records of each class in each node among other reports."""
    cells = signed_cells(evidence, passes=len(tree))
    if cells is None:
        counts = np.zeros((len(tree), evidence.n_classes))
        for stratum in evidence.strata:
            counts += _moments(tree, NodeTables(stratum, evidence.target))[0]
        return SignedCounts(counts, 1, ROUNDING * float(np.abs(counts).sum(axis=1).max()))
    totals = np.zeros((len(tree), evidence.n_classes), cells.weights.dtype)
    classes = cells.codes[:, evidence.target]
    for rows, nodes in tree.route(cells.codes):
        np.add.at(totals, (nodes, classes[rows]), cells.weights[rows])
    return SignedCounts(totals, cells.scale, cells.tolerance)


def _paths(tree: Tree) -> list[Conjunction]:
    """Conditions of each node, from the root on."""
    paths: list[Conjunction] = [()]
    for above, category in zip(tree.parent[1:], tree.category[1:], strict=True):
        paths.append((*paths[above], (int(tree.attribute[above]), int(category))))
    return paths


def _moments(tree: Tree, rows: NodeTables) -> tuple[Floats, Floats]:
    """Sums of the event weights, and of their squares, by node and class."""
    paths, shape = _paths(tree), tree.counts.shape
    total, square = np.empty(shape), np.empty(shape)
    total[0], square[0] = rows.moments(())
    for node in np.flatnonzero(tree.attribute >= 0).tolist():
        children = tree.children(node)
        below = slice(children.start, children.stop)
        total[below], square[below] = rows.moments_below(paths[node], int(tree.attribute[node]))
    return total, square


def standard_errors(tree: Tree) -> Floats:
    """Standard errors of a tree's counts, shape (nodes, classes).

    Not numbers where the weights of all reports are alike, as of a node that no report reaches.
    """
    evidence = tree.evidence
    assert evidence is not None
    variance = np.zeros(tree.counts.shape)
    for stratum in evidence.strata:
        found = images(stratum)
        if found is None:
            total, square = _moments(tree, NodeTables(stratum, evidence.target))
        else:
            total, square = _moments_of_images(tree, evidence, stratum, found)
        variance = variance + sum_variance(total, square, stratum.n)
    scale = np.maximum(np.abs(tree.counts), 1) ** 2
    return standard_error_of(undefined(variance, 1, scale)[0])


def _moments_of_images(
    tree: Tree, evidence: Evidence, stratum: Stratum, found: Images
) -> tuple[Floats, Floats]:
    """The same from the images of the rows."""
    n_classes = evidence.n_classes
    total = np.zeros(len(tree) * n_classes)
    square = np.zeros(len(tree) * n_classes)
    codes, report, weights, scale = found
    for rows, nodes in tree.route(codes):
        # The weight of a report in a node is the sum over its images there.
        key = (nodes * n_classes + codes[rows, evidence.target]) * len(stratum.codes) + report[rows]
        pairs, which = np.unique(key, return_inverse=True)
        sums = np.zeros(len(pairs), np.int64)
        np.add.at(sums, which, weights[rows])
        event, row = np.divmod(pairs, len(stratum.codes))
        weight, times = stratum.factor * (sums / scale), stratum.multiplicity[row]
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
        tables, paths = NodeTables(stratum, evidence.target), _paths(tree)
        if len(tree) == 1:
            rows, part = tables.label_weight((), int(tree.label[0]))
            total[rows] += part
        for node in np.flatnonzero(tree.attribute >= 0).tolist():
            children: Ints = np.array(tree.children(node), np.int64)
            labels = np.where(tree.attribute[children] < 0, tree.label[children], -1)
            if (labels >= 0).any():
                rows, part = tables.label_weights(paths[node], int(tree.attribute[node]), labels)
                total[rows] += part
        return total, 1
    codes, report, weights, scale = found
    right = tree.label[tree.apply(codes)] == codes[:, evidence.target]
    sums = np.zeros(len(stratum.codes), np.int64)
    np.add.at(sums, report[right], weights[right])
    if stratum.factor != 1:
        return stratum.factor * (sums / scale), 1
    return sums, scale


def accuracy(tree: Tree, evidence: Evidence) -> Estimate:
    """Unbiased accuracy of a tree on the truth behind reports; it is never clipped."""
    n = evidence.n
    value, variance = 0.0, 0.0
    for stratum in evidence.strata:
        weights, scale = leaf_weights(tree, evidence, stratum)
        times = stratum.multiplicity
        if weights.dtype.kind == "i":
            # Whole numbers have one sum and one rounding, no matter who adds them up.
            value += int(times @ weights) / (scale * n)
        else:
            value += math.fsum(times * weights) / n
        shares = weights / scale
        total, square = math.fsum(times * shares), math.fsum(times * shares**2)
        variance += float(sum_variance(np.array(total), np.array(square), stratum.n))
    # Weights that are all alike by chance say nothing of how they vary.
    spread, _ = undefined(np.array(variance / n**2), n, max(value**2, 1.0))
    return Estimate.single(value, float(standard_error_of(spread)), n)
