"""Adversaries who know more than the report: other attributes of the same block."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ppdm_dask.errors import DesignError
from ppdm_dask.privacy import Channel, check_prior
from ppdm_dask.shown import listed, shown

__all__ = ["Hint", "hint_attack"]


Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Hint:
    """What an adversary learns of one attribute from the report and true values of others.

    Parameters
    ----------
    about : str
    known : tuple of str
    worst_posterior : float
        Largest probability of a value of the attribute over possible reports and hints.
    privacy : float
        How often the best guess of the attribute is wrong.
    without_hint : float
        The same for an adversary who sees the whole report alone.
    """

    about: str
    known: tuple[str, ...]
    worst_posterior: float
    privacy: float
    without_hint: float


def hint_attack(design: Channel, prior: npt.ArrayLike, about: str, known: Iterable[str]) -> Hint:
    """Attack an attribute of a block with true values of other attributes of it.

    With one coin for a whole block, one known value can give the coin away and with it all answers:
    the price of the one-group scheme of [ZhanDu]_, as a number.

    Parameters
    ----------
    design : Design
        A block of several attributes, with a dense matrix.
    prior : array_like, shape of the block
        Joint prior, which the adversary knows.
    about : str
        Attribute of the block that the adversary wants to know.
    known : iterable of str
        Other attributes of the block, whose true values the adversary knows; none for no hint.

    Examples
    --------
    >>> from ppdm_dask.designs import Flip
    >>> attack = hint_attack(Flip(["a", "b"], 0.8), [[0.25, 0.25], [0.25, 0.25]], "a", ["b"])
    >>> attack.worst_posterior, round(attack.privacy, 3), round(attack.without_hint, 3)
    (1.0, 0.0, 0.2)
    """
    hints = tuple(known)
    for name in (about, *hints):
        if name not in design.attributes:
            raise DesignError(
                f"{shown(name)} is not in the block, which has: {listed(design.attributes)}",
                name,
            )
    if about in hints or len(set(hints)) < len(hints):
        raise DesignError(f"known: {listed(hints)}; distinct others than {shown(about)}", hints)
    p = check_prior(design, prior)
    joint = (design.matrix() * p).reshape(-1, *design.shape)
    kept = [design.attributes.index(name) for name in (about, *hints)]
    others = tuple(1 + i for i in range(len(design.shape)) if i not in kept)
    seen = joint.sum(axis=others)
    # Axes: report, then the kept attributes in the order of the block.
    axis = 1 + sorted(kept).index(kept[0])
    table = np.moveaxis(seen, axis, -1)
    total, largest = table.sum(axis=-1), table.max(axis=-1)
    possible = total > 0
    alone = table.sum(axis=tuple(range(1, table.ndim - 1))).max(axis=-1).sum()
    return Hint(
        about,
        hints,
        float((largest[possible] / total[possible]).max()),
        max(1.0 - float(largest.sum()), 0.0),
        max(1.0 - float(alone), 0.0),
    )
