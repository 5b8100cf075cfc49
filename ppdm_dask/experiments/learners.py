"""The learners that recipes name: where each one is, and what its parameters may be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Annotated, Any, Protocol

from ppdm_dask.files.declared import Declared
from ppdm_dask.files.values import Choice, Either, Number, Whole
from ppdm_dask.frozen import settle

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


@dataclass(frozen=True)
class NoParameters(Declared):
    """No parameters."""


@dataclass(frozen=True)
class NaiveBayesSpec(Declared):
    """Parameters of naive Bayes, tree-augmented or not.

    Parameters
    ----------
    floor : "1/n" or float
        Smallest probability; smaller estimates are raised to it.
    """

    floor: Annotated[
        str | float,
        Either(
            'the text "1/n" or a proportion between 0 and 1, both excluded, is needed',
            (Choice(("1/n",), "a text"), Number("", above=0, below=1)),
        ),
    ] = "1/n"


NOT_NEGATIVE = Number("a number of 0 or more is needed", 0, canonical=True)


@dataclass(frozen=True)
class ID3Spec(Declared):
    """Only what changes the paper's algorithm, so that writing out a default changes no key.

    Parameters
    ----------
    max_depth : int, optional
        Largest number of tests on a path from the root to a leaf.
    min_weight : float, optional
        Smallest estimated number of records in a node that is split.
    min_z : float, optional
        Standard errors by which the data must support a split.
    """

    max_depth: Annotated[int, Whole(0)] | None = None
    min_weight: Annotated[float, NOT_NEGATIVE] | None = None
    min_z: Annotated[float, NOT_NEGATIVE] | None = None

    def __post_init__(self) -> None:
        settle(self, min_weight=self.min_weight or None)


@dataclass(frozen=True)
class Entry:
    """A learner as recipes know it.

    Parameters
    ----------
    path : str
        Module below ``ppdm_dask.mine``, a colon, and the class, which is made of a design, a target
        and the parameters by name.
    declared : type
        What declares the parameters in the table that names the learner; by default there are none.
    tree : bool
        Whether its size is a result.
    """

    # A path and no class: reading a recipe must not wait for scikit-learn, which takes a second.
    path: str
    declared: type[Declared] = NoParameters
    tree: bool = False

    def build(self, design: Design, target: str, **parameters: Any) -> Learner:
        """The learner on a design."""
        learner: Learner = resolve_name(f"ppdm_dask.mine.{self.path}")(design, target, **parameters)
        return learner


LEARNERS: dict[str, Entry] = {
    "naive-bayes": Entry("naive_bayes:NaiveBayes", NaiveBayesSpec),
    "tan": Entry("tan:TAN", NaiveBayesSpec),
    "id3": Entry("id3:ID3", ID3Spec, tree=True),
}
"""By the name in ``[mine]``, and among the classifiers of ``[usability]``."""


def build_learner(mine: Mapping[str, Any], design: Design, target: str) -> Learner:
    """The learner of a recipe's table ``[mine]``, on a design."""
    parameters = dict(mine)
    return LEARNERS[parameters.pop("learner")].build(design, target, **parameters)
