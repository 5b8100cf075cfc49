"""What the page's script reads: texts in all languages, and how answers become a report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ppdm_dask.audit.certainty import undisguised_attributes
from ppdm_dask.collect.blocks import block_of, client_blocks, symbols_of
from ppdm_dask.collect.questionnaire import Question, Questionnaire, Tested, Texts
from ppdm_dask.collect.sentences import sentences
from ppdm_dask.collect.series import keeps_of
from ppdm_dask.designs.permanent import Permanent, permanent_attributes

if TYPE_CHECKING:
    from ppdm_dask.collect.classify import ModelTest
    from ppdm_dask.data.codebook import Codebook
    from ppdm_dask.designs.base import Design

__all__ = ["content"]


def content(
    questionnaire: Questionnaire,
    asked: Codebook,
    design: Design,
    survey: str,
    test: ModelTest | None,
    needed: Sequence[str],
    certain: bool,
) -> dict[str, Any]:
    """Plain values for the script.

    Parameters
    ----------
    questionnaire : Questionnaire
    asked : Codebook
        Of what is sent.
    design : Design
        Bound to it.
    survey : str
        Identifier of the survey.
    test : ModelTest, optional
        The model that the page applies.
    needed : sequence of str
        Attributes that the model needs.
    certain : bool
        Whether something that a report makes certain was accepted.
    """
    languages = questionnaire.languages
    book = asked if test is None else test.codebook
    questions = [_question(questionnaire, each, book, design) for each in questionnaire.question]
    drawn = any(each["disguised"] and not each["hand"] for each in questions)
    found: dict[str, Any] = {
        "id": survey,
        "design": design.digest,
        "collector": f"{questionnaire.collector or ''}/reports",
        "languages": list(languages),
        "title": _texts(questionnaire, questionnaire.title),
        "welcome": _texts(questionnaire, questionnaire.welcome),
        "thanks": _texts(questionnaire, questionnaire.thanks),
        "words": {language: questionnaire.words_in(language) for language in languages},
        "places": list(asked.names),
        "questions": questions,
        "blocks": _blocks(questionnaire, asked, design),
        "privacy": {
            language: sentences(questionnaire, design, needed, language) for language in languages
        },
        "certain": certain,
    }
    if questionnaire.series is not None:
        found["series"] = questionnaire.series
    if test is not None and (tested := questionnaire.classifier) is not None:
        shown = _shown(questionnaire, tested, asked, design)
        made = "model_drawn" if shown["disguised"] else "model_true"
        found["classifier"] = {**shown, "made": made, **test.client()}
        drawn = True
    found["drawn"] = drawn
    # What was never asked for is not said to be erased, nor what is seen above to be unseen.
    by_hand = all(each["hand"] for each in questions)
    found["erased"] = "forgotten" if drawn else "erased_hand" if by_hand else ""
    return found


def _blocks(questionnaire: Questionnaire, asked: Codebook, design: Design) -> list[dict[str, Any]]:
    """Blocks as ``draw.js`` and ``series.js`` take them."""
    hands = questionnaire.hands.keys()
    found = client_blocks(design, asked)
    for client, block in zip(found, design.blocks, strict=True):
        if hands >= {*block.attributes}:
            client["step"] = {"op": "truth"}  # the device has made the report
        elif isinstance(block, Permanent):
            client["keeps"] = keeps_of(block, asked)
    return found


def _question(
    questionnaire: Questionnaire, question: Question, book: Codebook, design: Design
) -> dict[str, Any]:
    name = question.attribute
    categories = book[name].categories
    hand = questionnaire.hands.get(name)
    shown = _shown(questionnaire, question, book, design)
    labels = shown["reports"] if hand else _labels(questionnaire, question, categories)
    found = {
        **shown,
        "made": "by_hand" if hand else "disguised" if shown["disguised"] else "true",
        "help": _texts(questionnaire, question.help),
        "labels": labels,
        "hand": hand is not None,
        "optional": question.optional,
        "unanswered": None
        if question.unanswered is None
        else categories.index(question.unanswered),
        "only": [
            [book.index(other), [book[other].categories.index(c) for c in labels]]
            for other, labels in question.only_if.items()
        ],
    }
    if question.private:
        found |= {"private": True, "note": "model_note"}
    if name in permanent_attributes(design):
        found["note"] = "once"
    if hand is not None:
        found["instruction"] = _texts(questionnaire, hand.instruction)
    return found


def _shown(
    questionnaire: Questionnaire, asked: Question | Tested, book: Codebook, design: Design
) -> dict[str, Any]:
    """What is shown of an attribute before its report is sent."""
    name = asked.attribute
    categories = book[name].categories
    reports = _labels(questionnaire, asked, categories)
    block = block_of(design, name)
    if block is not None and block.kind == "symbol":
        hand = questionnaire.hands.get(name)
        given = {} if hand is None else hand.symbols.get(name, {})
        names = symbols_of(block, name, book)
        if given or names != categories:
            reports = _each(questionnaire, given, names)
    return {
        "place": book.index(name),
        "text": _texts(questionnaire, asked.text),
        "reports": reports,
        "disguised": not undisguised_attributes(design, [name]),
    }


def _labels(
    questionnaire: Questionnaire, asked: Question | Tested, categories: Sequence[str]
) -> dict[str, list[str]]:
    return _each(questionnaire, asked.labels, categories)


def _each(
    questionnaire: Questionnaire, given: Mapping[str, Texts], names: Sequence[str]
) -> dict[str, list[str]]:
    """Texts for names, by language; the name itself where none is given."""
    return {
        language: [questionnaire.say(given.get(name, {"": name}), language) for name in names]
        for language in questionnaire.languages
    }


def _texts(questionnaire: Questionnaire, given: Texts | None) -> dict[str, str]:
    return {language: questionnaire.say(given, language) for language in questionnaire.languages}
