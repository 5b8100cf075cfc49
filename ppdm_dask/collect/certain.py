"""What a page must not give away for certain, unless those who build it accept that by name."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ppdm_dask.audit.certainty import bare_attributes, certainties, undisguised_attributes
from ppdm_dask.audit.measures import epsilon_of
from ppdm_dask.collect.blocks import block_of
from ppdm_dask.designs.permanent import lasting, permanent_attributes
from ppdm_dask.errors import InputError
from ppdm_dask.shown import quoted, shown

if TYPE_CHECKING:
    from ppdm_dask.collect.questionnaire import Question, Questionnaire
    from ppdm_dask.data.codebook import Codebook
    from ppdm_dask.designs.base import Design

__all__ = ["refuse_certain"]

NAMED = 8
"""What is made certain, as far as a message names it."""


def refuse_certain(
    questionnaire: Questionnaire,
    asked: Codebook,
    design: Design,
    accept: Sequence[str],
    source: str,
) -> bool:
    """Refuse what a report would give away for certain; whether some of it is accepted.

    Parameters
    ----------
    questionnaire : Questionnaire
    asked : Codebook
        Of what is sent.
    design : Design
        Bound to it.
    accept : sequence of str
        Attributes, labels or ``attribute=label`` that a report may make certain.
    source : str
        File of the questionnaire, for messages.

    Raises
    ------
    InputError
        One line: what is given away, and the names that would accept it.
    """
    accepted = [
        _refuse_answers(source, asked, design, accept),
        _refuse_telling(source, questionnaire, asked, design, accept),
        _refuse_bare(source, questionnaire, design, accept),
    ]
    return any(accepted)


def _refuse_answers(source: str, asked: Codebook, design: Design, accept: Sequence[str]) -> bool:
    """Refuse a design that makes answers certain; whether it does so of some that are accepted."""
    labels = {name: asked[name].categories for name in design.attributes}
    kept = permanent_attributes(design)
    bare = [name for name in bare_attributes(design) if name not in kept]
    # What waves without end, or anyone who has the device, can tell is what the first stage tells.
    design = lasting(design)
    given_away = [
        each for each in certainties(design, labels) if each.gives_away and not each.accepted(bare)
    ]
    refused = [each for each in given_away if not each.accepted((*accept, *bare))]
    if refused:
        said = "; ".join(each.sentence for each in refused[:NAMED])
        names = dict.fromkeys(name for each in refused for name in each.attributes)
        raise InputError(
            f"{source}: the design gives answers away: {said}; take another design, or name "
            f"{quoted(names)} in --accept-certain",
            refused,
        )
    return bool(given_away)


def _refuse_telling(
    source: str,
    questionnaire: Questionnaire,
    asked: Codebook,
    design: Design,
    accept: Sequence[str],
) -> bool:
    """Refuse a question whose report can tell for certain that it was put; whether one is accepted.

    That it was put tells a disguised answer to an earlier question.
    """
    bare, accepted = bare_attributes(design), False
    for question in questionnaire.question:
        hidden = [
            n
            for n in question.only_if
            if n in questionnaire.private or (n in design.attributes and n not in bare)
        ]
        if question.private or not hidden or not _tells_put(question, asked, design):
            continue
        accepted = True
        if told := [name for name in hidden if name not in accept]:
            raise InputError(
                f"{source}: question.{question.attribute}.only_if: what is sent for "
                f"{shown(question.attribute)} can show that it was asked, and so the answer to "
                f"{quoted(told)}; disguise it with a design that can give every report for every "
                f"answer, or name {quoted(told)} in --accept-certain",
                question.attribute,
            )
    return accepted


def _tells_put(question: Question, asked: Codebook, design: Design) -> bool:
    """Whether some report has a chance from an answer, and none from those who were not asked."""
    name = question.attribute
    block = block_of(design, name)
    if block is None or question.unanswered is None:
        return True
    if block.kind == "symbol" and block.attributes == (name,):
        matrix = block.matrix()
        never = matrix[:, asked[name].categories.index(question.unanswered)] == 0
        return bool((never & (matrix > 0).any(axis=1)).any())
    epsilon = epsilon_of(block)
    return epsilon is None or math.isinf(epsilon)


def _refuse_bare(
    source: str, questionnaire: Questionnaire, design: Design, accept: Sequence[str]
) -> bool:
    """Refuse to send what a model found as it is; whether it is accepted."""
    if (found := questionnaire.classifier) is None:
        return False
    if not undisguised_attributes(design, [found.attribute]):
        return False
    if found.attribute not in accept:
        raise InputError(
            f"{source}: classifier.attribute: the design does not disguise "
            f"{shown(found.attribute)}, which makes something certain about answers that are not "
            f"sent; add a block for it, or name {quoted([found.attribute])} in --accept-certain",
            found.attribute,
        )
    return True
