"""A tree for people and for other programs: indented text, nested mappings, a drawing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ppdm_dask.errors import InputError

if TYPE_CHECKING:
    from ppdm_dask.mine.tree import Tree

__all__ = ["check_depth", "draw", "export_text", "to_dict"]


def check_depth(max_depth: Any) -> None:
    """Raise InputError unless the depth is None or a whole number of 0 or more."""
    whole = isinstance(max_depth, int | np.integer) and not isinstance(max_depth, bool)
    if max_depth is not None and not (whole and max_depth >= 0):
        raise InputError(
            f"max_depth: got {max_depth!r}; a whole number of 0 or more, or None, is needed",
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
        Whether to add the standard errors of the counts.

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
            found["standard_errors"] = {label: float(error) for label, error in errors}
        if tree.attribute[node] >= 0:
            found["attribute"] = tree.codebook.names[tree.attribute[node]]
            found["gain"] = float(tree.gain[node])
            found["children"] = {}
        if node:
            nodes[tree.parent[node]]["children"][_edge(tree, node)] = found
        nodes.append(found)
    return nodes[0]


def draw(tree: Tree, path: str | Path, max_depth: int | None = 4) -> None:
    """Draw the tree to a file; its ending says the kind (png, svg, pdf).

    Inner nodes show the attribute that splits them, leaves their class, all of them the estimated
    counts of the classes.  A branch that goes on below says by how many nodes.

    Parameters
    ----------
    tree : Tree
    path : path-like
    max_depth : int, optional
        Depth down to which nodes are shown; None for all.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from ppdm_dask.report.style import COLOURS, DPI, GREY, styled

    check_depth(max_depth)
    below = _below(tree)
    shown, places = _layout(tree, max_depth)
    deepest = max(int(tree.depth[node]) for node in shown)
    ends = sum(1 for node in shown if node not in places or not _drawn(tree, node, max_depth))
    with styled():
        figure = Figure(figsize=(max(4.0, 1.55 * ends), 1.0 + 1.25 * (deepest + 1)))
        FigureCanvasAgg(figure)
        axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
        axes.set_axis_off()
        axes.set_xlim(-0.6, ends - 0.4)
        axes.set_ylim(deepest + 0.6, -0.6)
        for node in shown:
            x, y = places[node], int(tree.depth[node])
            colour = COLOURS[int(tree.label[node]) % len(COLOURS)]
            if node:
                above = places[int(tree.parent[node])]
                axes.plot([above, x], [y - 1, y], color=GREY, linewidth=0.8, zorder=1)
                middle = (above + 2 * x) / 3
                axes.text(middle, y - 1 / 3, _edge(tree, node), **_EDGE)
            inner = _drawn(tree, node, max_depth)
            name = tree.codebook.names[tree.attribute[node]] if inner else _class(tree, node)
            text = "\n".join([name, *_counts(tree, node).split(", ")])
            if below[node] and not inner:
                text += f"\n(+ {below[node]} nodes)"
            box: dict[str, Any] = {"facecolor": "white", "edgecolor": colour}
            box |= {"boxstyle": "round,pad=0.35", "linewidth": 0.9 if inner else 1.8}
            axes.text(x, y, text, ha="center", va="center", fontsize=7.5, bbox=box, zorder=2)
        figure.savefig(Path(path), dpi=DPI)


_EDGE: dict[str, Any] = {
    "ha": "center",
    "va": "center",
    "fontsize": 7.5,
    "bbox": {"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none"},
    "zorder": 3,
}


def _class(tree: Tree, node: int) -> str:
    return tree.classes[int(tree.label[node])]


def _drawn(tree: Tree, node: int, max_depth: int | None) -> bool:
    """Whether a node's children are shown."""
    return tree.attribute[node] >= 0 and (max_depth is None or bool(tree.depth[node] < max_depth))


def _layout(tree: Tree, max_depth: int | None) -> tuple[list[int], dict[int, float]]:
    """Nodes to show, parents first, and where each stands: leaves side by side."""
    shown, stack = [], [0]
    places: dict[int, float] = {}
    ends = 0
    while stack:
        node = stack.pop()
        shown.append(node)
        if _drawn(tree, node, max_depth):
            stack += reversed(tree.children(node))
        else:
            places[node] = float(ends)
            ends += 1
    for node in reversed(shown):
        if node not in places:
            places[node] = float(np.mean([places[child] for child in tree.children(node)]))
    return shown, places
