"""A decision tree as arrays over its nodes, in the order of levels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from ppdm_dask.codebook import Codebook
    from ppdm_dask.mine.evidence import Evidence

__all__ = ["Tree"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Tree:
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
        from ppdm_dask.mine.growth import mean_entropy

        result: Floats = (mean_entropy(self.counts[:, None, :]) - self.score) / np.log(2)
        return result

    @cached_property
    def standard_error(self) -> Floats:
        """Standard errors of the counts, for the population behind the reports; NaN below two.

        Computed when first asked for.
        """
        from ppdm_dask.mine.recount import standard_errors

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
        from ppdm_dask.mine.tree_export import export_text

        return export_text(self, max_depth)

    def to_dict(self, *, standard_errors: bool = False) -> dict[str, Any]:
        """The tree as nested mappings of JSON values."""
        from ppdm_dask.mine.tree_export import to_dict

        return to_dict(self, standard_errors=standard_errors)

    def draw(self, path: str | Path, max_depth: int | None = 4) -> None:
        """Draw the tree to a file, down to a depth."""
        from ppdm_dask.mine.tree_export import draw

        draw(self, path, max_depth)
