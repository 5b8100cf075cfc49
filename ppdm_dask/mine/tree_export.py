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


def draw(tree: Tree, path: str | Path, max_depth: int | None = 4) -> None:
    """Draw the tree to a file, the root on the left; the file's ending says the kind (png, svg).

    Inner nodes show the attribute that splits them, leaves their class, all of them the estimated
    counts of the classes; a frame has the colour of the class.  A branch that goes on says by how
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
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from ppdm_dask.report.style import COLOURS, DPI, GREY, styled

    check_depth(max_depth)
    below = _below(tree)
    heights = _layout(tree, max_depth)
    ends = 1 + int(max(heights.values()))
    if ends > MAX_ENDS:
        raise InputError(
            f"max_depth: got {max_depth!r}; {ends} branches end there, more than the {MAX_ENDS} "
            "that can be read in one drawing: give a smaller depth",
            max_depth,
        )
    deepest = max(int(tree.depth[node]) for node in heights)
    row = 0.2 + 0.14 * (len(tree.classes) + 2)
    with styled():
        figure = Figure(figsize=(2.7 * (deepest + 1), max(1.0, row * ends)))
        FigureCanvasAgg(figure)
        axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
        axes.set_axis_off()
        axes.set_xlim(-0.5, deepest + 0.5)
        axes.set_ylim(ends - 0.5, -0.5)
        for node, y in heights.items():
            x, colour = int(tree.depth[node]), COLOURS[int(tree.label[node]) % len(COLOURS)]
            if node:
                above = heights[int(tree.parent[node])]
                elbow = [x - 1, x - 0.6, x]
                axes.plot(elbow, [above, y, y], color=GREY, linewidth=0.8, zorder=1)
                axes.text(x - 0.46, y, _edge(tree, node), **_TEXT, bbox=_PLAIN)
            inner = _drawn(tree, node, max_depth)
            label = tree.classes[int(tree.label[node])]
            name = tree.codebook.names[tree.attribute[node]] if inner else f"→ {label}"
            lines = [name, *_counts(tree, node).split(", ")]
            if below[node] and not inner:
                lines.append(f"(+ {below[node]} nodes)")
            frame: dict[str, Any] = {"facecolor": "white", "edgecolor": colour}
            frame |= {"boxstyle": "round,pad=0.3", "linewidth": 0.9 if inner else 1.8}
            axes.text(x, y, "\n".join(lines), **_TEXT, bbox=frame)
        figure.savefig(Path(path), dpi=DPI)


MAX_ENDS = 100

# A dollar sign in a label is no formula.
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
