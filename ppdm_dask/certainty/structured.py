"""What is certain under families of which no matrix is made."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ppdm_dask.certainty.sentences import NEARLY, NEGLIGIBLE, Certainty, Words, degree_of, worst_of

if TYPE_CHECKING:
    from ppdm_dask.designs.flip import Flip
    from ppdm_dask.designs.mixture import Mixture
    from ppdm_dask.designs.sets import SetDesign

__all__ = ["of_flip", "of_mixture", "of_sets"]

Floats = npt.NDArray[np.float64]


def of_mixture(words: Words, block: Mixture) -> Iterator[Certainty]:
    """Of ``q I + (1 - q) r 1^T``: a report speaks for its own labels, or against them if q < 0.

    Of all reports with a label, the one least likely to be drawn otherwise tells most.  With
    ``w = (1 - q) n r`` for it, the label's share is ``(q + w / k) / (q + w)``.
    """
    q = block.mixing
    if q < 0:  # one attribute with r uniform; no other family has a negative q
        yield from _against_itself(words, block)
        return
    told = False
    for axis, (name, law) in enumerate(zip(block.attributes, block.factors, strict=True)):
        others = [r for i, r in enumerate(block.factors) if i != axis]
        if law.size == 1:
            continue
        most, least = (_shares(q, law, others, end) for end in (np.min, np.max))
        if (worst := worst_of(degree_of(float(s)) for s in least)) is not None:
            told = True
            yield words.whole([name], worst, float(least.min()))
            continue
        for code, share in enumerate(most.tolist()):
            if (degree := degree_of(share)) is not None:
                told = True
                yield words.one_label(name, code, degree, share, [words.label(name, code)])
    if len(block.attributes) > 1 and not told:
        w = (1 - q) * math.prod(float(r.min()) * r.size for r in block.factors)
        if q + w / 2 > NEARLY * (q + w):
            yield words.function("nearly", f"which half of all combinations {words.names()} are in")


def _shares(q: float, law: Floats, others: Sequence[Floats], end: Callable[..., Any]) -> Floats:
    """Share of each label in the report of it with the others' labels at one end of their laws."""
    k = law.size
    w = (1 - q) * law * k * math.prod(float(end(r)) * r.size for r in others)
    occurs = q + (1 - q) * law * math.prod(float(end(r)) for r in others) > NEGLIGIBLE
    shares: Floats = np.divide(q + w / k, q + w, out=np.full(k, 1 / k), where=occurs)
    return shares


def _against_itself(words: Words, block: Mixture) -> Iterator[Certainty]:
    name, k, q = block.attributes[0], block.n_true, block.mixing
    own, other = q + (1 - q) / k, (1 - q) / k
    share = other / (own + (k - 1) * other)
    degree = degree_of(share) if k == 2 else None
    if (worst := worst_of([degree])) is not None:
        yield words.whole([name], worst, share)
    elif degree is not None:
        for code in range(2):
            yield words.one_label(name, code, degree, share, [words.label(name, 1 - code)])
    elif k > 2 and own <= NEGLIGIBLE * other * k:
        yield words.ruled_out(name, range(k), "rules out the answer that it names")


def of_flip(words: Words, block: Flip) -> Iterator[Certainty]:
    """Of several attributes: a report is the whole truth or its opposite, and tells which agree."""
    share = max(block.theta, 1 - block.theta)
    worst = worst_of([degree_of(share)])
    if worst is not None:
        yield words.whole(block.attributes, worst, share)
    if worst != "certain":
        yield words.function(
            "certain", f"which answers to {words.names()} agree: all are as reported, or none is"
        )


def of_sets(words: Words, block: SetDesign) -> Iterator[Certainty]:
    """Within a report all answers inside are alike, and so are all outside."""
    name, k = block.attributes[0], block.shape[0]
    often, inside, outside = _odds(block)
    sizes = np.flatnonzero(often > NEGLIGIBLE)
    told = []
    for m, odds, form in ((1, inside, "that holds one answer"), (k - 1, outside, "of all but one")):
        share = odds / (m * inside + (k - m) * outside) if odds else 0.0
        degree = degree_of(share)
        if m in sizes and degree is not None:
            told.append((m, words.any_label(name, degree, share, form), share))
    worst = worst_of(found.degree for _, found, _ in told)
    if worst is not None and {m for m, _, _ in told} == set(sizes.tolist()):
        yield words.whole([name], worst, min(share for _, _, share in told))
        return
    yield from (found for _, found, _ in told)
    partly = bool(((sizes > 0) & (sizes < k)).any())
    if k > 2 and partly and outside <= NEGLIGIBLE * inside:
        yield words.ruled_out(name, range(k), "rules out the answers that it does not hold")
    elif k > 2 and partly and inside <= NEGLIGIBLE * outside:
        yield words.ruled_out(name, range(k), "rules out the answers that it holds")


def _odds(block: SetDesign) -> tuple[Floats, float, float]:
    """How often a report has each size, 0 to k; and the odds of an answer inside and outside."""
    from scipy.stats import binom

    from ppdm_dask.designs.subset import SubsetSelection
    from ppdm_dask.designs.unary import UnaryEncoding

    k = block.shape[0]
    m = np.arange(k + 1)
    if isinstance(block, SubsetSelection):
        s = block.size
        return (m == s).astype(float), block.p * (k - s), (1 - block.p) * s
    if isinstance(block, UnaryEncoding):
        p, q = block.p, block.q
        often = p * binom.pmf(m - 1, k - 1, q) + (1 - p) * binom.pmf(m, k - 1, q)
        return often, p * (1 - q), (1 - p) * q
    raise NotImplementedError(type(block).__name__)
