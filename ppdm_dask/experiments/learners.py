"""The learners that recipes name: where each one is, and how its parameters are read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, Protocol

from ppdm_dask.files.fields import Table, is_number, scalar

if TYPE_CHECKING:
    from ppdm_dask.data.codebook import Records, Reports
    from ppdm_dask.designs.base import Design
    from ppdm_dask.inference.result import Estimate
    from ppdm_dask.randomness import Stream


class Learner(Protocol):
    """What an experiment needs of a classifier.

    A tree also has ``tree_``, whose length is the number of its nodes.
    """

    floored_: int

    def fit(self, reports: Reports) -> Learner: ...

    def count_correct(self, X: Records) -> int: ...

    def score_disguised(self, reports: Reports, stream: Stream | None = None) -> Estimate: ...


def _no_parameters(table: Table) -> dict[str, Any]:
    return {}


def _naive_bayes(table: Table) -> dict[str, Any]:
    floor = table.take("floor")
    if floor is None:
        floor = "1/n"
    if floor != "1/n" and not (is_number(floor) and 0 < floor < 1):
        right = 'the text "1/n" or a proportion between 0 and 1, both excluded, is needed'
        raise table.error("floor", floor, right)
    return {"floor": floor}


def _id3(table: Table) -> dict[str, Any]:
    """Only what changes the paper's algorithm, so that writing out a default changes no key."""
    found: dict[str, Any] = {"max_depth": table.optional_integer("max_depth", 0)}
    for name in ("min_weight", "min_z"):
        value = table.take(name)
        found[name] = scalar(value)
        if value is not None and not (is_number(found[name]) and found[name] >= 0):
            raise table.error(name, value, "a number of 0 or more is needed")
    if found["min_weight"] == 0:
        found["min_weight"] = None
    return {name: value for name, value in found.items() if value is not None}


@dataclass(frozen=True)
class Entry:
    """A learner as recipes know it.

    Parameters
    ----------
    path : str
        Module below ``ppdm_dask.mine``, a colon, and the class, which is made of a design, a target
        and the parameters by name.
    read : callable
        Takes the parameters from the table that names the learner, and returns them as the cell's
        key has them; by default there are none.
    tree : bool
        Whether its size is a result.
    """

    # A path and no class: reading a recipe must not wait for scikit-learn, which takes a second.
    path: str
    read: Callable[[Table], dict[str, Any]] = _no_parameters
    tree: bool = False

    def build(self, design: Design, target: str, **parameters: Any) -> Learner:
        """The learner on a design."""
        learner: Learner = resolve_name(f"ppdm_dask.mine.{self.path}")(design, target, **parameters)
        return learner


LEARNERS: dict[str, Entry] = {
    "naive-bayes": Entry("naive_bayes:NaiveBayes", _naive_bayes),
    "id3": Entry("id3:ID3", _id3, tree=True),
}
"""By the name in ``[mine]``, and among the classifiers of ``[usability]``."""


def build_learner(mine: Mapping[str, Any], design: Design, target: str) -> Learner:
    """The learner of a recipe's table ``[mine]``, on a design."""
    parameters = dict(mine)
    return LEARNERS[parameters.pop("learner")].build(design, target, **parameters)
