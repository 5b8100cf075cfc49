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

What a report tells follows from the structure of the design where it has one; other designs are
enumerated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from ppdm_dask import privacy
from ppdm_dask.arrays import Floats
from ppdm_dask.designs.flip import Flip
from ppdm_dask.designs.identity import Identity
from ppdm_dask.designs.mixture import Mixture
from ppdm_dask.mine.evidence import as_flip, row_keys

if TYPE_CHECKING:
    from ppdm_dask.data.codebook import Records
    from ppdm_dask.designs.base import Design


@dataclass(frozen=True, eq=False)
class Population:
    """A joint law of attributes, as the records that occur.

    Parameters
    ----------
    names : tuple of str
    shape : tuple of int
        Categories of each attribute.
    patterns : array, shape (patterns, attributes)
        Codes of the distinct records.
    shares : float array, shape (patterns,)
        They sum to 1.
    laws : mapping of str to array
        Distribution of each attribute.
    """

    names: tuple[str, ...]
    shape: tuple[int, ...]
    patterns: npt.NDArray[np.int64]
    shares: Floats
    laws: Mapping[str, Floats]

    @classmethod
    def of(cls, records: Records) -> Population:
        """The records at hand, each as likely as any other."""
        names, shape = records.codebook.names, records.codebook.shape
        codes = records.codes.astype(np.int64)
        _, first, times = np.unique(row_keys(codes, shape), return_index=True, return_counts=True)
        laws = {
            name: np.bincount(codes[:, i], minlength=k) / len(codes)
            for i, (name, k) in enumerate(zip(names, shape, strict=True))
        }
        return cls(names, shape, codes[first], times / len(codes), laws)

    def columns(self, names: Sequence[str]) -> list[int]:
        """Positions of some attributes."""
        return [self.names.index(name) for name in names]

    def table(self, names: Sequence[str]) -> Floats:
        """Joint law of some attributes, an array with an axis for each."""
        columns = self.columns(names)
        found = np.zeros([self.shape[i] for i in columns])
        np.add.at(found, tuple(self.patterns[:, columns].T), self.shares)
        return found


MAX_REPORTS = 1 << 20
"""Reports up to which the best guesses are summed over all of them."""

ROUNDING = 1e-15
"""Share of the likeliest report below which one counts as impossible where all are enumerated."""


class Knowledge(NamedTuple):
    """What is learnt of each of some attributes, arrays of shape (attributes,); NaN if unknown."""

    posterior: Floats
    """Largest P(value | report) over the attribute's values and the possible reports."""
    correct: Floats
    """Probability that the best guess is right: sum over reports y of max over x of P(x, y)."""


def unknown(n: int) -> Knowledge:
    """For n attributes, what is too large to enumerate."""
    return Knowledge(np.full(n, np.nan), np.full(n, np.nan))


def join(parts: Sequence[Knowledge]) -> Knowledge:
    """The attributes of several parts, in their order."""
    return Knowledge(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def outer(laws: Sequence[Floats]) -> Floats:
    """Product law, an array with an axis for each attribute."""
    found: Floats = reduce(np.multiply.outer, laws, np.ones(()))
    return found


def flip_product(block: Flip, laws: Sequence[Floats]) -> Knowledge:
    """A flip under a product prior.

    A report y is the truth with weight ``theta p(y)`` and its opposite with
    ``(1 - theta) p(not y)``: the coin decides on all attributes of the block alike, so that each
    is known as well as the coin.
    """
    truth, opposite = block.theta, 1 - block.theta
    n = len(laws)
    # The report that is most one-sided: every attribute at its more frequent value, or its less.
    odds = math.prod(float(law.min() / law.max()) for law in laws)
    high, low = max(truth, opposite), min(truth, opposite)
    correct = np.nan
    if block.n_true <= MAX_REPORTS:
        p = outer(laws).ravel()
        correct = float(np.maximum(truth * p, opposite * p[::-1]).sum())
    return Knowledge(np.full(n, high / (high + low * odds)), np.full(n, correct))


def mixture_product(block: Mixture, laws: Sequence[Floats]) -> Knowledge:
    """A mixture ``q I + (1 - q) r 1^T`` with q >= 0 under a product prior.

    With p(y) the prior of a report and r(y) its chance as an unrelated answer, attribute a has
    ``P(x_a = v, y) = q [v = y_a] p(y) + (1 - q) r(y) p_a(v)``, and its posterior rises or falls
    throughout in ``p(y) / r(y)``, a product over the attributes.
    """
    q, factors, n = block.mixing, block.factors, len(laws)
    ends = [_ends(p, r) for p, r in zip(laws, factors, strict=True)]
    worst, correct = np.zeros(n), np.full(n, np.nan)
    for a, (p, r) in enumerate(zip(laws, factors, strict=True)):
        for side in (0, 1):
            others = [pair[side] for b, pair in enumerate(ends) if b != a]
            told = q * math.prod(x for x, _ in others) * p
            rest = (1 - q) * math.prod(x for _, x in others) * r
            joint = rest[:, None] * p + np.diag(told)
            total = told + rest
            possible = total > 0
            found = joint[possible].max(axis=1) / total[possible]
            worst[a] = max(worst[a], found.max(initial=0.0))
    if block.n_true <= MAX_REPORTS:
        truth, unrelated = q * outer(laws), (1 - q) * outer(factors)
        for a, p in enumerate(laws):
            along = [1] * n
            along[a] = -1
            same = truth + unrelated * p.reshape(along)
            correct[a] = np.maximum(same, unrelated * _others(p).reshape(along)).sum()
    return Knowledge(worst, correct)


def _ends(p: Floats, r: Floats) -> tuple[tuple[float, float], tuple[float, float]]:
    """(p, r) of the values with the largest and the smallest p / r, the larger one scaled to 1."""
    pairs = [(float(a), float(b)) for a, b in zip(p, r, strict=True) if a > 0 or b > 0]
    pairs = [(a / max(a, b), b / max(a, b)) for a, b in pairs]
    pairs.sort(key=lambda pair: pair[0] - pair[1])  # rises with the ratio once scaled
    return pairs[-1], pairs[0]


def _others(p: Floats) -> Floats:
    """For each value, the largest probability among the others; 0 where there are none."""
    if p.size == 1:
        return np.zeros(1)
    first, second = np.argsort(-p, kind="stable")[:2]
    found = np.full(p.size, p[first])
    found[first] = p[second]
    return found


def flips_joint(blocks: Sequence[Flip], population: Population) -> Knowledge:
    """Flips under a joint prior, by enumerating the records that occur and the coins.

    What no block covers is reported as it is.  Given the report, an attribute is known as well as
    the coin of its block.
    """
    groups = np.zeros((len(blocks), len(population.names)), np.int64)
    for group, block in zip(groups, blocks, strict=True):
        group[population.columns(block.attributes)] = 1
    coins = np.array(list(product((True, False), repeat=len(blocks))))
    thetas = np.array([block.theta for block in blocks])
    chances = np.where(coins, thetas, 1 - thetas).prod(axis=1)
    weights = chances[:, None] * population.shares
    # Codes of binary attributes are bits; each group is reversed where its coin says so.
    images = population.patterns ^ (~coins @ groups)[:, None]
    keys = row_keys(images.reshape(-1, len(population.names)), population.shape)
    distinct, which = np.unique(keys, return_inverse=True)
    which = which.reshape(weights.shape)

    def add(rows: npt.NDArray[np.bool_]) -> Floats:
        found = np.bincount(which[rows].ravel(), weights[rows].ravel(), distinct.size)
        return found.astype(np.float64, copy=False)

    found = []
    for block, kept in zip(blocks, coins.T, strict=True):
        truth, opposite = add(kept), add(~kept)
        total, largest = truth + opposite, np.maximum(truth, opposite)
        possible = total > 0
        posterior = float((largest[possible] / total[possible]).max())
        n = len(block.attributes)
        found.append(Knowledge(np.full(n, posterior), np.full(n, largest.sum())))
    return join(found)


def mixture_joint(block: Mixture, population: Population) -> Knowledge:
    """A mixture over all attributes, with q >= 0, under a joint prior.

    As for a product prior, with p(y) the share of the record y; a report that is not a record is an
    unrelated answer for certain.
    """
    q, n = block.mixing, len(block.attributes)
    codes = population.patterns[:, population.columns(block.attributes)]
    unrelated = np.ones(len(codes))
    for column, r in zip(codes.T, block.factors, strict=True):
        unrelated *= r[column]
    told, rest = q * population.shares, (1 - q) * unrelated
    total = told + rest
    possible = total > 0
    answers = math.prod(int(np.count_nonzero(r)) for r in block.factors)
    elsewhere = q < 1 and np.count_nonzero(unrelated) < answers
    worst, correct = np.empty(n), np.empty(n)
    for a, (name, column) in enumerate(zip(block.attributes, codes.T, strict=True)):
        p = population.laws[name]
        largest = np.maximum(told + rest * p[column], rest * _others(p)[column])
        worst[a] = (largest[possible] / total[possible]).max()
        correct[a] = largest.sum()
        if elsewhere:
            worst[a] = max(worst[a], p.max())
            correct[a] += (1 - q) * max(1 - unrelated.sum(), 0.0) * p.max()
    return Knowledge(worst, correct)


def enumerate_reports(report: Callable[[Floats], Floats], prior: Floats, n: int) -> Knowledge:
    """Any design, from P(x_a = v, y) over all reports y.

    Parameters
    ----------
    report : callable
        Law of the reports from one of the truths, shaped as `prior`.
    prior : array
        Joint law, an axis for each attribute.
    n : int
        Only this many attributes are used, the first ones.
    """
    worst, correct = np.empty(n), np.empty(n)
    for a in range(n):
        parts = []
        for value in range(prior.shape[a]):
            part = np.zeros_like(prior)
            here = (slice(None),) * a + (value,)
            part[here] = prior[here]
            parts.append(report(part).ravel())
        total, largest = np.sum(parts, axis=0), np.max(parts, axis=0)
        possible = total > ROUNDING * total.max()
        worst[a] = (largest[possible] / total[possible]).max()
        correct[a] = largest.sum()
    return Knowledge(worst, correct)


MAX_TABLE = 1 << 16
"""Joint categories up to which a design without structure is enumerated."""


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
