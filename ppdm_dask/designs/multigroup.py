"""The multi-group scheme: attributes in groups, one coin a group.  [ZhanDu]_, section 4.

Also here: groups that are still to be drawn: what a sweep says in place of a multi-group design.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Self

import numpy as np

from ppdm_dask.arrays import Floats
from ppdm_dask.designs.base import MAX_DENSE, Design, design_from_config, register
from ppdm_dask.designs.flip import Flip
from ppdm_dask.designs.parameters import (
    CHANCES,
    GROUPS,
    NAMES,
    SHAPE,
    arguments,
    attribute_names,
    probability,
    shape_of,
)
from ppdm_dask.designs.product import Product
from ppdm_dask.errors import DesignError, NotInvertible
from ppdm_dask.files.values import Choice, Whole
from ppdm_dask.frozen import settle
from ppdm_dask.privacy import PosteriorSummary
from ppdm_dask.randomness import exact
from ppdm_dask.shown import given, listed, shown

if TYPE_CHECKING:
    from ppdm_dask.randomness import Stream

__all__ = [
    "MultiGroup",
    "RandomGroups",
    "check_groups",
    "coefficient_matrix",
    "deal",
    "read_number",
    "read_thetas",
    "scheme_from_config",
]


Groups = tuple[tuple[str, ...], ...]


@register
class MultiGroup(Product):
    r"""Each group of binary attributes is reported as it is with probability theta, else reversed.

    Over the ways to reverse the g groups in an event the matrix is, as Eqs. (4), (6) and (8) of
    [ZhanDu]_ have it for one, two and three groups,

    .. math:: M_g = \bigotimes_{b=1}^g
        \begin{pmatrix} \theta_b & 1 - \theta_b \\ 1 - \theta_b & \theta_b \end{pmatrix}

    The groups are disguised independently; attributes outside every group, the class among them
    if so wished, stay undisguised (section 4.7 of [ZhanDu]_).

    Parameters
    ----------
    groups : sequence of sequences of str
        Names of binary attributes, one or more per group, each in one group.
    theta : float or sequence of float
        Probability of the truth, in [0, 1]: one for all groups, or one per group.  At 1/2 nothing
        can be estimated.
    attributes : sequence of str, optional
        All attributes of the records, to check the groups against.
    shape : sequence of int, optional
        Categories of each of `attributes`, which must be 2 within the groups.

    Raises
    ------
    DesignError
        If a group is empty, an attribute is in two groups, unknown or not binary, or theta is no
        probability; names the group (counted from 1) and the attribute.

    Examples
    --------
    >>> design = MultiGroup([["age", "sex"], ["income"]], theta=0.8)
    >>> design.groups, design.theta
    ((('age', 'sex'), ('income',)), (0.8, 0.8))
    """

    id = "multigroup"
    left_out = ("attributes", "shape")

    def __init__(
        self,
        groups: Annotated[Iterable[Iterable[str]], GROUPS],
        theta: Annotated[float | Iterable[float], CHANCES],
        attributes: Annotated[Sequence[str] | None, NAMES] = None,
        shape: Annotated[Sequence[int] | None, SHAPE] = None,
    ) -> None:
        checked = check_groups(groups, attributes, shape)
        thetas = read_thetas(theta, len(checked))
        super().__init__(Flip(group, t) for group, t in zip(checked, thetas, strict=True))

    @classmethod
    def by_attribute(cls, names: Iterable[str], theta: float | Iterable[float]) -> Self:
        """The N-group scheme: a group for each attribute."""
        return cls([[name] for name in attribute_names(names)], theta)

    @classmethod
    def random(
        cls, names: Iterable[str], g: int, theta: float | Iterable[float], stream: Stream
    ) -> Self:
        """Split attributes into g groups at random; see :func:`deal` for the rule."""
        return cls(deal(names, g, stream), theta)

    @property
    def groups(self) -> Groups:
        """The attributes of each group."""
        return tuple(block.attributes for block in self.designs)

    @property
    def _own_symbols(self) -> Mapping[str, Mapping[str, Any]]:
        return self.symbols

    @property
    def theta(self) -> tuple[float, ...]:
        """Probability of the truth of each group."""
        return tuple(block.theta for block in self.designs if isinstance(block, Flip))

    @property
    def undefined(self) -> str:
        for j, block in enumerate(self.designs, 1):
            if block.undefined:
                return f"group {j} ({', '.join(block.attributes)}): {block.undefined}"
        return ""

    def require_inverse(self) -> None:
        for j, block in enumerate(self.designs, 1):
            try:
                block.require_inverse()
            except NotInvertible as error:
                raise NotInvertible(f"group {j}: {error}", error.subject) from None

    def marginal(self, attributes: Sequence[str]) -> MultiGroup | None:
        """The groups as far as they hold the attributes, in the order given.

        None where that order takes a group apart.
        """
        product = super().marginal(attributes)
        if product is None:
            return None
        thetas = [block.theta for block in product.blocks if isinstance(block, Flip)]
        return MultiGroup([block.attributes for block in product.blocks], thetas)

    def posterior_summary(self, prior: Floats) -> PosteriorSummary:
        """As in the base class, group by group: a report has 2^g truths, not all of them."""
        sizes = [block.n_true for block in self.designs]
        total = np.asarray(prior, dtype=float).reshape(sizes)
        largest, squares = total, total**2
        for axis, theta in enumerate(self.theta):
            t, u = theta, float(1 - exact(theta))
            total = t * total + u * np.flip(total, axis)
            largest = np.maximum(t * largest, u * np.flip(largest, axis))
            squares = t**2 * squares + u**2 * np.flip(squares, axis)
        return PosteriorSummary(total.ravel(), largest.ravel(), squares.ravel())

    def _by_label(self) -> dict[str, Any]:
        return self._channel()

    def _channel(self) -> dict[str, Any]:
        return {key: value for key, value in self._config().items() if key != "symbols"}

    def _parameter(self, name: str) -> Any:
        if name == "theta" and len(set(self.theta)) == 1:
            return self.theta[0]
        return super()._parameter(name)


def check_groups(
    groups: Any, attributes: Sequence[str] | None = None, shape: Sequence[int] | None = None
) -> Groups:
    """Groups as tuples of names; arguments and complaints as of :class:`MultiGroup`."""
    several = isinstance(groups, Iterable) and not isinstance(groups, str)
    found = list(groups) if several else []
    if not found:
        raise DesignError(
            f"groups: got {given(groups)}; one or more lists of attribute names are needed", groups
        )
    sizes: dict[str, int | None] = {}
    if attributes is not None:
        names = attribute_names(attributes)
        known = (None,) * len(names) if shape is None else shape_of(shape, len(names))
        sizes = dict(zip(names, known, strict=True))
    group_of: dict[str, int] = {}
    for j, group in enumerate(found, 1):
        if isinstance(group, str | Mapping) or not isinstance(group, Iterable):
            raise DesignError(
                f"groups: group {j} is {shown(group)}; a list of attribute names is needed", groups
            )
        found[j - 1] = tuple(group)
        if not found[j - 1]:
            raise DesignError(f"groups: group {j} is empty; leave it out or name attributes", found)
        for name in found[j - 1]:
            if not isinstance(name, str) or not name:
                raise DesignError(f"groups: group {j} has {shown(name)}; a name is needed", name)
            if name in group_of:
                where = f"groups {group_of[name]} and {j}" if group_of[name] != j else f"group {j}"
                times = "is in" if group_of[name] != j else "occurs twice in"
                raise DesignError(
                    f"groups: attribute {shown(name)} {times} {where}; each belongs to one at most",
                    name,
                )
            group_of[name] = j
            if attributes is not None and name not in sizes:
                raise DesignError(
                    f"groups: group {j} has the unknown attribute {shown(name)}; "
                    f"there are {listed(sizes)}",
                    name,
                )
            if sizes.get(name) not in (None, 2):
                raise DesignError(
                    f"groups: group {j} has attribute {shown(name)} with {sizes[name]} categories; "
                    "only binary attributes can be reversed",
                    name,
                )
    return tuple(found)


def read_thetas(theta: Any, g: int) -> tuple[float, ...]:
    """One theta a group, from one number for all or a sequence."""
    if isinstance(theta, str) or not isinstance(theta, Iterable):
        return (probability("theta", theta),) * g
    thetas = tuple(theta)
    if len(thetas) != g:
        raise DesignError(
            f"theta: got {len(thetas)} values; one for all or one for each of {g} groups is needed",
            theta,
        )
    return tuple(probability(f"theta[{j}]", value) for j, value in enumerate(thetas))


def read_number(g: Any, n: int) -> int:
    """A number of groups for n attributes."""
    whole = isinstance(g, int | np.integer) and not isinstance(g, bool)
    if not whole or not 1 <= g <= n:
        raise DesignError(
            f"groups: got {given(g)}; a whole number from 1 to {n}, the number of attributes, "
            "is needed",
            g,
        )
    return int(g)


def deal(names: Iterable[str], g: int, stream: Stream) -> Groups:
    """Split names into g groups at random, as evenly as possible.

    All names are shuffled (Fisher-Yates from the front; step i takes one 64-bit word of
    ``stream.source()`` and swaps with position ``i + floor(word * (n - i) / 2**64)``), then dealt:
    group j gets the names at shuffled positions j, j + g, j + 2 g, ..., in the order of `names`.

    Raises
    ------
    DesignError
        Unless g is a whole number from 1 to the number of names.
    """
    from ppdm_dask.kernels.draws import choose

    known = attribute_names(names)
    n = len(known)
    g = read_number(g, n)
    order = np.empty(n, np.int64)
    choose(n, stream.source().words(n), order)
    return tuple(tuple(known[i] for i in sorted(order[j::g])) for j in range(g))


def coefficient_matrix(thetas: Sequence[float]) -> Floats:
    """M_g over the 2^g ways to reverse groups in an event: Eqs. (4), (6) and (8) of [ZhanDu]_.

    Entry [i, j] is the probability that the event reversed as in j is reported reversed as in i;
    bit g - 1 - b of the index says whether group b is reversed, so that the rows are in the order
    of Eq. (7).  The printed Eq. (8) has one wrong entry, (2, 6): it is theta^2 (1 - theta).

    Parameters
    ----------
    thetas : sequence of float, length g
        Up to 12 groups.  Estimates do not use the matrix.
    """
    if 1 << len(thetas) > MAX_DENSE:
        raise DesignError(f"theta: {len(thetas)} groups; the matrix is made for up to 12", thetas)
    matrix: Floats = np.ones((1, 1))
    for t in read_thetas(thetas, len(thetas)):
        matrix = np.asarray(np.kron(matrix, [[t, 1 - t], [1 - t, t]]), dtype=np.float64)
    return matrix


SPLITS = ("redrawn", "fixed")


@dataclass(frozen=True, init=False)
class RandomGroups:
    """A number of groups, and when the split of the attributes into them is drawn.

    It is not a design: no channel matrix belongs to it before :meth:`draw`.  What the reports of a
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
        Again in each repeat, or once for all repeats and cells with the same records.
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
        attributes: Annotated[Sequence[str], NAMES],
        groups: Annotated[int, Whole(1)],
        theta: Annotated[float | Sequence[float], CHANCES],
        split: Annotated[str, Choice(SPLITS, "a way to deal")] = "redrawn",
        shape: Annotated[Sequence[int] | None, SHAPE] = None,
    ) -> None:
        names = attribute_names(attributes)
        g = read_number(groups, len(names))
        if split not in SPLITS:
            raise DesignError(f"split: got {given(split)}; 'redrawn' or 'fixed' is needed", split)
        check_groups([names], names, shape)
        settle(self, attributes=names, groups=g, theta=read_thetas(theta, g), split=split)

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
        return cls(**arguments(cls, MultiGroup.id, parameters))


def scheme_from_config(config: Mapping[str, Any]) -> Design | RandomGroups:
    """The design that a configuration describes, or random groups where it gives their number.

    ``{"id": "multigroup", "groups": 3, "theta": 0.8, "split": "redrawn", "attributes": [...]}``
    are random groups; with lists of names as ``groups`` it is a design.
    """
    if config.get("id") == MultiGroup.id and isinstance(config.get("groups"), int | float):
        return RandomGroups.from_config({k: v for k, v in config.items() if k != "id"})
    return design_from_config(config)
