"""Waves of one survey pooled: errors of the mean where the same people answer at each of them.

The mean over all reports of the waves is unbiased, as of one wave.  Its error is not that of as
many people: who answers in two waves has the same truth in both, and the same permanent symbol
where the design has a permanent first stage.  With W the weight of a report, z the permanent
symbols and ``m = E[W | z]``, two reports of one person have the covariance ``Var m``, so that

    Var(mean) = sum_s (n_s / N^2) Var W + sum_{s != r} (N_sr / N^2) Var m

for waves of n_s reports, N in all, and N_sr people in both s and r.  Of the same n people in t
waves it is ``(Var m + (Var W - Var m) / t) / n``: the second stage's noise shrinks with t, the
first's and that of the sample do not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from ppdm_dask.arrays import Floats
from ppdm_dask.data.codebook import Reports
from ppdm_dask.designs.base import Design, inside_of
from ppdm_dask.designs.matching import bound_to, require_design
from ppdm_dask.designs.permanent import Permanent
from ppdm_dask.errors import InputError, NotLumpable, RecordsError
from ppdm_dask.inference.proportions import design_of
from ppdm_dask.inference.result import Estimate, labels_of
from ppdm_dask.inference.weights import Masks, answers_of, mask_weights
from ppdm_dask.privacy import check_prior
from ppdm_dask.ranges import real, whole
from ppdm_dask.shown import amount, given, listed

__all__ = ["estimate_waves", "variance_of_waves"]

MAX_CELLS = 4_096
"""Cells whose weights are made one by one."""


def estimate_waves(
    waves: Sequence[Reports],
    over: str | Iterable[str] | Mapping[str, Any],
    *,
    design: Design | None = None,
    overlap: float = 1.0,
) -> Estimate:
    r"""Estimate proportions from the reports of several waves that the same people took part in.

    Proportions are those of all reports together; what they estimate is taken to be the same at
    each wave.  Nobody can tell which reports are of one person, so no clusters are known: standard
    errors follow from the two stages of the design, and from how many people are in both of two
    waves.  With W the weight of a report and m its mean given the permanent symbol, for waves of
    n_s reports, N in all, of whom n_sr are in both s and r,

    .. math:: \operatorname{Var}(\hat p) =
        \sum_s \frac{n_s}{N^2} \operatorname{Var}(W) +
        \sum_{s \ne r} \frac{n_{sr}}{N^2} \operatorname{Var}(m)

    Only Wald's intervals are made.

    Parameters
    ----------
    waves : sequence of Reports
        Of each wave, made by the same design.
    over : str, iterable of str, or mapping
        Attributes, for the proportions of their joint categories; or an event.
    design : Design, optional
        By default the one that the reports carry.
    overlap : float in [0, 1]
        Of two waves, the share of the smaller one's respondents who are in the other too.  At 1,
        the default, errors are the largest that there can be; at 0 they are those of as many people
        as reports.

    Returns
    -------
    Estimate
        Its ``unbiased`` has the variances as they were estimated; ``variance`` keeps them within
        what is possible: between a permanent stage without noise, and one that makes all of it.

    Raises
    ------
    InputError
        If there is nothing to pool, or a value is out of range.
    RecordsError
        If a wave has no reports, or another design made it.

    Examples
    --------
    >>> import ppdm_dask as pp
    >>> book = pp.Codebook((pp.Attribute("drug", ("no", "yes")),))
    >>> stages = pp.designs.Permanent(pp.Warner("drug", 0.8), pp.Warner("drug", 0.7)).bind(book)
    >>> answers = pp.Records(np.repeat([[0], [1]], [700, 300], axis=0), book)
    >>> kept = stages.first.sample(answers.codes, pp.Stream.from_seed(1), 0)
    >>> waves = [stages.disguise(answers, pp.Stream.from_seed(s)) for s in (2, 3)]
    >>> pooled = pp.estimate_waves(waves, {"drug": "yes"})
    >>> apart = pp.estimate_waves(waves, {"drug": "yes"}, overlap=0)
    >>> pooled.standard_error > apart.standard_error
    True
    """
    share = real("overlap", overlap, 0, 1)
    parts: list[Any] = list(waves)
    if not parts or not all(isinstance(part, Reports) for part in parts):
        raise InputError(f"waves: got {given(waves)}; a list with the reports of each is needed")
    made = design_of(parts[0], design)
    book = parts[0].codebook
    for i, part in enumerate(parts, 1):
        if not len(part):
            raise RecordsError(f"wave {i}: there are no reports; at least one is needed", part)
        if part.weights is not None:
            raise InputError(f"wave {i}: has survey weights, which waves do not take", part)
    labels, events = _events(book, over)
    bound = [bound_to(part, made) for part in parts]
    for part, own in zip(parts, bound, strict=True):
        require_design(part, own)
    sums = np.zeros((len(events), 3))
    for part, own in zip(parts, bound, strict=True):
        for i, event in enumerate(events):
            weight, shared = _weights(part, own, part.codebook.masks(event))
            sums[i] += weight.sum(), (weight**2).sum(), shared.sum()
    sizes = np.array([len(part) for part in parts])
    shape = tuple(map(len, labels.values()))
    value, square, common = (each.reshape(shape) for each in sums.T / sizes.sum())
    unbiased, variance = _variances(value, square, common, sizes, share)
    return Estimate(
        labels,
        value,
        variance,
        int(sizes.sum()),
        negative_share=float((value < 0).mean()),
        unbiased=unbiased,
        design_digest=made.digest,
    )


def _events(
    book: Any, over: str | Iterable[str] | Mapping[str, Any]
) -> tuple[dict[str, tuple[str, ...]], list[Mapping[str, Any]]]:
    """Axes of the estimate, and the event of each cell."""
    if isinstance(over, Mapping):
        book.masks(over)
        return {}, [over]
    names = (over,) if isinstance(over, str) else tuple(over)
    if not names or len(set(names)) < len(names):
        raise InputError(f"over: got {listed(names) or 'none'}; distinct attributes are needed")
    labels = labels_of(book.select(names))
    cells = int(np.prod([len(each) for each in labels.values()], dtype=float))
    if cells > MAX_CELLS:
        raise InputError(f"over: {amount(cells)} cells; at most {MAX_CELLS:,} of waves", cells)
    return labels, [dict(zip(names, each, strict=True)) for each in product(*labels.values())]


def _weights(reports: Reports, design: Design, masks: Masks) -> tuple[Floats, Floats]:
    """Weights w of an event, and what has ``E[m^2]`` for expectation, each of shape (n,).

    Given the truth, blocks are independent: the second one is a product of the permanent blocks'
    own, and of the weights of others, whose ``m`` is 1 within the event and 0 outside.
    """
    weight, shared = np.ones(len(reports)), np.ones(len(reports))
    rest = dict(masks)
    for block in design.blocks:
        touched = [name for name in block.attributes if name in masks]
        if not isinstance(block, Permanent) or not touched:
            continue
        if lacking := [name for name in block.attributes if name not in reports.codebook.names]:
            raise NotLumpable(f"a block of 'permanent' is cut: it lacks {listed(lacking)}", block)
        block.require_inverse()
        own = {name: rest.pop(name) for name in touched}
        w, g = _of_symbols(block, own)
        symbols = block.joint(answers_of(reports, block.attributes, block))
        weight *= w[symbols]
        shared *= g[symbols]
    if rest:
        other = mask_weights(reports, design, rest)
        weight, shared = weight * other, shared * other
    return weight, shared


def _of_symbols(block: Permanent, masks: Masks) -> tuple[Floats, Floats]:
    """w and its partner for each reported symbol of a block, shape (reported symbols,)."""
    w = block.invert_transposed(inside_of(block, masks).ravel().astype(float))
    m = block.again.apply_transposed(w)
    return w, block.invert_transposed(block.first.apply_transposed(m**2))


def _variances(
    value: Floats, square: Floats, common: Floats, sizes: Any, overlap: float
) -> tuple[Floats, Floats]:
    """Variances of the pooled mean: unbiased, and within what is possible.

    Parameters
    ----------
    value, square, common : arrays of one shape
        Estimates of the mean, ``E[W^2]`` and ``E[m^2]``.
    """
    n = float(sizes.sum())
    both = np.minimum.outer(sizes, sizes).astype(float)
    np.fill_diagonal(both, 0)
    alone, pairs = 1 / n, overlap * float(both.sum()) / n**2
    left = 1 - alone - pairs
    if left <= 1e-12:
        none = np.full(np.shape(value), np.nan)
        return none, none

    def variance(of: Floats) -> Floats:
        # p^2 is estimated by the square of the mean less its variance, which is what is asked for.
        found: Floats = (alone * (square - value**2) + pairs * (of - value**2)) / left
        return found

    # m has the mean of the event, so its square has at least that; and no more than W's.
    possible = np.minimum(np.maximum(common, np.maximum(value**2, value)), square)
    return variance(common), variance(np.maximum(possible, value**2))


def variance_of_waves(design: Permanent, prior: Any, waves: int) -> Floats:
    r"""Variance of one person's mean report of several waves, of people drawn from a prior.

    With W the weight of a report and m its mean given the permanent symbol, for each category

    .. math:: \operatorname{Var}(m) + \frac{\operatorname{Var}(W) - \operatorname{Var}(m)}{t}

    Divided by n it is the variance of the proportion estimated from n people's reports of t waves.
    At one wave it is :meth:`Design.variance`.

    Parameters
    ----------
    design : Permanent
    prior : array_like, shape of the block, or mapping of label to proportion
    waves : int

    Returns
    -------
    array, shape (true categories,)

    Examples
    --------
    >>> from ppdm_dask import Warner
    >>> from ppdm_dask.designs import Permanent
    >>> stages = Permanent(Warner("a", 0.8), Warner("a", 0.7))
    >>> [round(float(variance_of_waves(stages, [0.9, 0.1], t)[1]), 3) for t in (1, 2, 100)]
    [4.18, 2.357, 0.571]
    """
    t = whole("waves", waves, 1)
    one = design.variance(prior)
    p = check_prior(design, prior)
    m = design.again.apply_transposed(design.left_inverse().T)  # (permanent symbols, categories)
    between = (m**2).T @ design.first.apply(p) - p**2
    return np.asarray(between + (one - between) / t)
