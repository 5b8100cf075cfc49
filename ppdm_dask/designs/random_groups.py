"""Groups that are still to be drawn: what a sweep says in place of a multi-group design."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from ppdm_dask.designs.base import Design, design_from_config
from ppdm_dask.designs.flip import Flip
from ppdm_dask.designs.multigroup import MultiGroup, check_groups, deal, read_number, read_thetas
from ppdm_dask.designs.parameters import attribute_names, check_keys
from ppdm_dask.errors import DesignError
from ppdm_dask.shown import given

if TYPE_CHECKING:
    from ppdm_dask.randomness import Stream

__all__ = ["RandomGroups", "scheme_from_config"]

SPLITS = ("redrawn", "fixed")


@dataclass(frozen=True, init=False)
class RandomGroups:
    """A number of groups, and when the split of the attributes into them is drawn.

    It is no design: no channel matrix belongs to it before :meth:`draw`.  What the reports of a
    single attribute say does not depend on the split.

    Parameters
    ----------
    attributes : sequence of str
        Binary attributes to split.
    groups : int
        From 1 to the number of attributes.
    theta : float or sequence of float
        As in :class:`MultiGroup`.
    split : {"redrawn", "fixed"}
        Anew in each repeat, or once for all repeats and cells that share their records.
    shape : sequence of int, optional
        Categories of each attribute, checked to be 2.

    Raises
    ------
    DesignError
        For an impossible value, or an attribute that is not binary.
    """

    attributes: tuple[str, ...]
    groups: int
    theta: tuple[float, ...]
    split: str

    def __init__(
        self,
        attributes: Sequence[str],
        groups: int,
        theta: float | Sequence[float],
        split: str = "redrawn",
        shape: Sequence[int] | None = None,
    ) -> None:
        names = attribute_names(attributes)
        g = read_number(groups, len(names))
        if split not in SPLITS:
            raise DesignError(f"split: got {given(split)}; 'redrawn' or 'fixed' is needed", split)
        check_groups([names], names, shape)
        object.__setattr__(self, "attributes", names)
        object.__setattr__(self, "groups", g)
        object.__setattr__(self, "theta", read_thetas(theta, g))
        object.__setattr__(self, "split", split)

    @property
    def redrawn(self) -> bool:
        """Whether each repeat draws its own groups."""
        return self.split == "redrawn"

    @property
    def undefined(self) -> str:
        """Why nothing can be estimated, as of a design; empty where something can."""
        for j, theta in enumerate(self.theta, 1):
            if reason := Flip(self.attributes, theta).undefined:
                return f"group {j}: {reason}"
        return ""

    def draw(self, stream: Stream) -> MultiGroup:
        """The design with the groups that a stream deals, by the rule of :func:`deal`."""
        return MultiGroup(deal(self.attributes, self.groups, stream), self.theta)

    def marginal(self, attributes: Sequence[str]) -> Design | None:
        """The design seen by some attributes; None where it depends on the split."""
        same = self.groups == 1 or (len(attributes) == 1 and len(set(self.theta)) == 1)
        return Flip(attributes, self.theta[0]) if same else None

    @classmethod
    def from_config(cls, parameters: Mapping[str, Any]) -> Self:
        """Build from a recipe's parameters and the attributes and shape of its records."""
        required = {"attributes", "groups", "theta"}
        check_keys(MultiGroup.id, parameters, required, {"shape", "split"})
        return cls(**parameters)


def scheme_from_config(config: Mapping[str, Any]) -> Design | RandomGroups:
    """The design that a configuration describes, or random groups where it gives their number.

    ``{"id": "multigroup", "groups": 3, "theta": 0.8, "split": "redrawn", "attributes": [...]}``
    are random groups; with lists of names as ``groups`` it is a design.
    """
    if config.get("id") == MultiGroup.id and isinstance(config.get("groups"), int | float):
        return RandomGroups.from_config({k: v for k, v in config.items() if k != "id"})
    return design_from_config(config)
