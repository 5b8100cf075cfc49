"""What an adversary learns about single attributes from a report, by what the adversary knows.

Three adversaries look at a report; each knows the design:

own
    sees the reported value of one attribute and knows how that attribute is distributed;
product
    sees the whole report, knows how each attribute is distributed and takes them for independent;
joint
    sees the whole report and knows how whole records are distributed.

They differ much.  Six attributes with P(A = 1) = .7 behind one coin, fair personal answers and
q = .6, have the worst posterior .903 for the first and .976 for the second.  Under the joint law
of real records a single flip group gives nearly everything away, for the opposite of a record
rarely exists.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from ppdm_dask import privacy
from ppdm_dask.audit.posteriors import (
    MAX_REPORTS,
    Knowledge,
    enumerate_reports,
    flip_product,
    flips_joint,
    join,
    mixture_joint,
    mixture_product,
    outer,
    unknown,
)
from ppdm_dask.designs.flip import Flip
from ppdm_dask.designs.identity import Identity
from ppdm_dask.designs.mixture import Mixture
from ppdm_dask.mine.signed_cells import as_flip

if TYPE_CHECKING:
    from ppdm_dask.audit.posteriors import Population
    from ppdm_dask.designs.base import Design

__all__ = ["Disclosure", "disclose", "learn"]


MAX_TABLE = 1 << 16
"""Joint categories up to which a design without structure is enumerated."""

Floats = npt.NDArray[np.float64]


class Disclosure(NamedTuple):
    """The worst over the disguised attributes; NaN where there is too much to enumerate."""

    posterior: float
    """Largest posterior of any value of any attribute, in [max P(x), 1]."""
    guess: float
    """How often the best guess is right, for the attribute where it is right most often."""
    advantage: float
    """By how much more often than without a report, for the attribute where that is most."""


def disclose(adversary: str, design: Design, population: Population) -> Disclosure:
    """What an adversary learns of the attribute that is protected worst.

    Attributes that the design leaves as they are do not count, unless it disguises none.

    Parameters
    ----------
    adversary : {"own", "product", "joint"}
        See the module's description.
    design : Design
        Over attributes of the population.
    population : Population
        What the adversary's prior is taken from.
    """
    names = _disguised(design) or population.names
    prior = np.array([population.laws[name].max() for name in names])
    posterior, correct = learn(adversary, design, population)
    # Rounding alone can lead out of the ranges.
    return Disclosure(
        min(float(posterior.max()), 1.0),
        min(float(correct.max()), 1.0),
        max(float((correct - prior).max()), 0.0),
    )


def learn(adversary: str, design: Design, population: Population) -> Knowledge:
    """What an adversary learns of each attribute that the design disguises, in its order."""
    if not _disguised(design):
        certain = np.ones(len(population.names))
        return Knowledge(certain, certain)
    return {"own": _own, "product": _product, "joint": _joint}[adversary](design, population)


def _disguised(design: Design) -> tuple[str, ...]:
    return tuple(name for block in _blocks(design) for name in block.attributes)


def _blocks(design: Design) -> list[Design]:
    """The blocks that disguise, those that are flips as such."""
    found = [block for block in design.blocks if not isinstance(block, Identity)]
    return [as_flip(block) or block for block in found]


def _own(design: Design, population: Population) -> Knowledge:
    worst, correct = [], []
    for block in _blocks(design):
        for name in block.attributes:
            channel, law = block.marginal([name]), population.laws[name]
            if channel is None:
                joint = population.table(block.attributes)
                channel, law = block.attribute_channel(name, privacy.check_prior(block, joint))
            worst.append(privacy.max_posterior(channel, law))
            correct.append(1 - privacy.map_privacy(channel, law))
    return Knowledge(np.array(worst), np.array(correct))


def _product(design: Design, population: Population) -> Knowledge:
    # Attributes and blocks are independent: only the report of its own block tells on an attribute.
    found = []
    for block in _blocks(design):
        laws = [population.laws[name] for name in block.attributes]
        if isinstance(block, Flip):
            found.append(flip_product(block, laws))
        elif isinstance(block, Mixture) and block.mixing >= 0:
            found.append(mixture_product(block, laws))
        elif block.n_true <= MAX_TABLE:
            found.append(_enumerate([block], outer(laws), len(laws)))
        else:
            found.append(unknown(len(laws)))
    return join(found)


def _joint(design: Design, population: Population) -> Knowledge:
    blocks = _blocks(design)
    flips = [block for block in blocks if isinstance(block, Flip)]
    if len(flips) == len(blocks) and len(population.shares) << len(flips) <= MAX_REPORTS:
        return flips_joint(flips, population)
    block, names = blocks[0], _disguised(design)
    whole = len(blocks) == 1 and len(names) == len(population.names)
    if whole and isinstance(block, Mixture) and block.mixing >= 0:
        return mixture_joint(block, population)
    if math.prod(population.shape) > MAX_TABLE:
        return unknown(len(names))
    rest = [name for name in population.names if name not in names]
    return _enumerate(blocks, population.table([*names, *rest]), len(names))


def _enumerate(blocks: list[Design], prior: Floats, n: int) -> Knowledge:
    sizes = [block.n_true for block in blocks]

    def report(true: Floats) -> Floats:
        law = true.reshape(*sizes, -1)
        for axis, block in enumerate(blocks):
            law = np.moveaxis(block.apply(np.moveaxis(law, axis, 0)), 0, axis)
        return law

    return enumerate_reports(report, prior, n)
