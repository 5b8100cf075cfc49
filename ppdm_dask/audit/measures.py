"""What reports give away under a design: every measure, per block and per attribute."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from ppdm_dask.arrays import Floats
from ppdm_dask.designs.base import design_from_config
from ppdm_dask.designs.permanent import epsilon_of_waves, lasting, permanent_blocks
from ppdm_dask.errors import DesignError, InputError
from ppdm_dask.privacy import amplified, check_prior, hint_attack
from ppdm_dask.shown import amount, cut, listed

if TYPE_CHECKING:
    from ppdm_dask.designs import Design

__all__ = ["Finding", "Subject", "audit", "epsilon_of"]


MAX_JOINT = 1 << 16
"""Joint categories of a block above which its joint measures are not computed."""

MAX_HINT = 1_024
"""Joint categories of a block above which no hint is tried: its matrix is dense."""


@dataclass(frozen=True)
class Finding:
    """A measure: its value, infinite too, or None where it is not computed, and a sentence."""

    measure: str
    value: float | None
    sentence: str


@dataclass(frozen=True)
class Subject:
    """What the findings are about.

    Parameters
    ----------
    name : str
        Attributes, or ``all answers together``.
    kind : {"block", "attribute", "design"}
    prior : str
        What the adversary is assumed to know beforehand.
    findings : list of Finding
    """

    name: str
    kind: str
    prior: str
    findings: list[Finding]


WAVES = (2, 4, 12)
"""Waves whose reports are looked at together, beside all that there can be."""


def audit(design: Design, priors: Mapping[str, Floats]) -> list[Subject]:
    """Every privacy measure of a design.

    Parameters
    ----------
    design : Design
    priors : mapping of attribute to array
        Proportions before a report; for other attributes all categories are assumed to be equally
        likely.

    Returns
    -------
    list of Subject
        Block by block: the block, the attributes of a block of several, and the whole design.

    Raises
    ------
    InputError
        If a prior has another number of categories than the design, or names no attribute.
    """
    sizes = dict(zip(design.attributes, design.shape, strict=True))
    for name, prior in priors.items():
        if name not in sizes:
            raise InputError(
                f"prior.{cut(name)}: the design has no such attribute; it has {listed(sizes)}", name
            )
        if len(prior) != sizes[name]:
            raise InputError(
                f"prior.{name}: {len(prior)} categories; the design has {sizes[name]}", name
            )
    subjects = []
    for block in design.blocks:
        own = [priors.get(n, np.full(k, 1 / k)) for n, k in _sizes(block)]
        subjects.append(_block(block, own, priors))
        if len(block.attributes) > 1:
            subjects += _attributes(block, own, priors)
    if len(design.blocks) > 1:
        findings = [*_ratios(design), *_of_waves(design)]
        subjects.append(Subject("all answers together", "design", "any proportions", findings))
    return subjects


def _sizes(block: Design) -> list[tuple[str, int]]:
    return list(zip(block.attributes, block.shape, strict=True))


def _told(names: tuple[str, ...], priors: Mapping[str, Floats]) -> str:
    given = [name for name in names if name in priors]
    if not given:
        return "each answer taken for equally likely"
    if len(given) < len(names):
        return f"proportions of {', '.join(given)}; of others each taken for equally likely"
    return "proportions given" + ("; attributes taken for independent" if names[1:] else "")


def _block(block: Design, own: list[Floats], priors: Mapping[str, Floats]) -> Subject:
    findings = [*_ratios(block), *_of_waves(block)]
    if block.n_true > MAX_JOINT:
        why = f"not computed: {amount(block.n_true)} joint categories"
        findings += [Finding(measure, None, why) for measure in _MEASURES]
    else:
        findings += _with_prior(block, reduce(np.multiply.outer, own).ravel())
    name = ", ".join(block.attributes)
    return Subject(f"{name} ({block.id})", "block", _told(block.attributes, priors), findings)


def _attributes(
    block: Design, own: list[Floats], priors: Mapping[str, Floats]
) -> Iterator[Subject]:
    """Three adversaries: of one reported attribute, of the others' truth, of the whole report."""
    joint = reduce(np.multiply.outer, own) if block.n_true <= MAX_JOINT else None
    for name, prior in zip(block.attributes, own, strict=True):
        lumped = block.marginal([name])
        if lumped is None and joint is not None:
            lumped, prior = block.attribute_channel(name, check_prior(block, joint))
        findings = []
        if lumped is None:
            findings.append(Finding("all", None, "not computed: the block is too large"))
        else:
            findings += [*_ratios(lumped), *_with_prior(lumped, prior)]
        seen = list(findings)
        findings += _hint(block, joint, name)
        yield Subject(f"{name} alone", "attribute", _told((name,), priors), findings)
        if joint is not None and _is_small(block):
            yield from _from_whole(block, joint, name, seen, priors)


def _from_whole(
    block: Design,
    joint: Floats,
    name: str,
    alone: list[Finding],
    priors: Mapping[str, Floats],
) -> Iterator[Subject]:
    """What all of the block's report says of an attribute, where that is more than its own part.

    As of a list and its count, or of a device and the word that was said: neither part tells much.
    """
    axis = block.attributes.index(name)
    others = tuple(1 + i for i in range(len(block.shape)) if i != axis)
    own = joint.sum(axis=tuple(i - 1 for i in others))
    both = (block.matrix() * joint.ravel()).reshape(-1, *block.shape).sum(axis=others)
    # A category without prior mass has no conditional law, and takes nothing from the ratios.
    P, prior = both[:, own > 0] / own[own > 0], own[own > 0]
    if P.shape[1] < 2:
        return
    law = design_from_config({"id": "matrix", "attributes": name, "P": P / P.sum(axis=0)})
    findings = [*_ratios(law), *_with_prior(law, prior)]
    before = {each.measure: each.value for each in alone}
    if any(_differs(each.value, before.get(each.measure)) for each in findings):
        told = _told(block.attributes, priors)
        yield Subject(f"{name} from the whole report", "attribute", told, findings)


def _is_small(block: Design) -> bool:
    """Whether the block's matrix is looked through, by hints and for whole reports."""
    return block.kind != "set" and max(block.n_true, block.n_reported) <= MAX_HINT


def _differs(value: float | None, other: float | None) -> bool:
    """Whether two values of a measure are more than rounding apart."""
    if value is None or other is None:
        return value is not other
    return not math.isclose(value, other, rel_tol=1e-9, abs_tol=1e-12)


def epsilon_of(design: Design) -> float | None:
    """Epsilon of a design; None where a block is too large to look through."""
    try:
        return design.epsilon()
    except DesignError:
        return None


def _of_waves(design: Design) -> Iterator[Finding]:
    """What reports of several waves give away together, where a first stage is permanent."""
    if not permanent_blocks(design) or epsilon_of(design) is None:
        return
    for waves in (*WAVES, None):
        value, exact = epsilon_of_waves(design, waves)
        said = f"{waves} waves" if waves else "any number of waves"
        if math.isinf(value):
            why = "reports of them can rule out an answer"
            if not math.isinf(lasting(design).log_ratio()):
                why = "answers without a permanent first stage are disguised again in each"
            yield Finding(f"epsilon, {said}", value, why)
            continue
        times = f"{math.exp(value):.4g}" if value < 700 else f"e^{value:.4g}"
        bound = "" if exact else ", by a bound"
        yield Finding(
            f"epsilon, {said}",
            value,
            f"one person's reports are at most {times} times likelier for one answer than "
            f"another{bound}",
        )


def _share(value: float) -> str:
    return f"{100 * value:.1f} %"


def _ratios(design: Design) -> Iterator[Finding]:
    epsilon = epsilon_of(design)
    if epsilon is None:
        why = "not computed: a block is too large"
        yield Finding("epsilon", None, why)
        yield Finding("gamma", None, why)
        return
    if math.isinf(epsilon):
        yield Finding("epsilon", math.inf, "some report rules out an answer for certain")
        yield Finding("gamma", math.inf, "no bound holds for every prior: see the worst posterior")
        return
    gamma = math.exp(epsilon) if epsilon < 700 else math.inf
    times = f"{gamma:.4g}" if math.isfinite(gamma) else f"e^{epsilon:.4g}"
    yield Finding(
        "epsilon",
        epsilon,
        f"a report is at most {times} times likelier for one answer than another",
    )
    after = amplified(gamma, 0.1)
    yield Finding(
        "gamma",
        gamma,
        f"what was held 10 % likely is at most {_share(after)} likely after a report",
    )


def _with_prior(design: Design, prior: Floats) -> Iterator[Finding]:
    largest = float(prior.max())
    for measure, (compute, sentence) in _MEASURES.items():
        try:
            value = compute(design, prior)
        except DesignError as error:
            why = str(error).partition(";")[0]
            yield Finding(measure, None, f"not computed: {why}")
            continue
        yield Finding(measure, value, sentence(value, largest))


_MEASURES: dict[str, tuple[Callable[[Design, Floats], float], Callable[[float, float], str]]] = {
    "MAP privacy": (
        lambda design, prior: design.privacy(prior),
        lambda value, most: (
            f"the best guess from a report is wrong {_share(value)} of the time, "
            f"{_share(1 - most)} without"
        ),
    ),
    "worst posterior": (
        lambda design, prior: design.max_posterior(prior),
        lambda value, most: (
            "an answer is certain after some report"
            if value > 1 - 1e-12
            else f"no answer is more than {_share(value)} likely after a report, "
            f"{_share(most)} before"
        ),
    ),
    "PSE": (
        lambda design, prior: design.pse(prior),
        lambda value, _: (
            "uncertainty that a report leaves: two guesses drawn from it differ "
            f"{_share(value)} of the time"
        ),
    ),
}


def _hint(block: Design, joint: Floats | None, about: str) -> Iterator[Finding]:
    others = [name for name in block.attributes if name != about]
    if joint is None or not _is_small(block):
        yield Finding("hint attack", None, "not computed: the block is too large")
        return
    hint = hint_attack(block, joint, about, others)
    sure = ", and some are certain" if hint.worst_posterior > 1 - 1e-12 else ""
    yield Finding(
        "hint attack",
        hint.privacy,
        f"who knows the true {', '.join(others)} of the same person guesses wrong "
        f"{_share(hint.privacy)} of the time, {_share(hint.without_hint)} without{sure}",
    )
