"""Whether a questionnaire fits a codebook, a design and a model, before a page is made of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from ppdm_dask.collect.blocks import symbols_of
from ppdm_dask.collect.questionnaire import Question, Questionnaire, Tested, Texts
from ppdm_dask.collect.words import needed_words
from ppdm_dask.designs.permanent import Permanent, permanent_attributes
from ppdm_dask.errors import InputError
from ppdm_dask.files.values import Place
from ppdm_dask.shown import quoted, shown

if TYPE_CHECKING:
    from ppdm_dask.data.codebook import Codebook
    from ppdm_dask.designs.base import Design

__all__ = ["require_fitting"]


def require_fitting(
    questionnaire: Questionnaire,
    codebook: Codebook,
    design: Design,
    needed: Sequence[str] = (),
    *,
    source: str = "questionnaire",
    framed: bool = False,
) -> None:
    """Check that a questionnaire fits a codebook, a design that is bound to it, and a model.

    Parameters
    ----------
    questionnaire : Questionnaire
    codebook : Codebook
    design : Design
    needed : sequence of str
        Attributes that the model needs, if there is one.
    source : str
        The file, for messages.
    framed : bool
        Whether a page in a frame is made too.

    Raises
    ------
    InputError
        One line: file, dotted path, value, and what would be right.
    """
    at = Place("", source, InputError)
    _require_questions(at, questionnaire, codebook)
    _require_private(at, questionnaire, design, needed)
    if questionnaire.classifier is not None:
        _require_classifier(at, questionnaire, questionnaire.classifier, codebook)
    if lacking := [name for name in design.attributes if name not in questionnaire.sent]:
        raise at["question"].told(f"the design needs a question on {quoted(lacking)}")
    _require_hands(at, questionnaire, codebook, design)
    _require_series(at, questionnaire, design, needed, framed)
    _require_words(at, questionnaire, (*questionnaire.parts, *(["frame"] if framed else [])))


def _require_words(at: Place, questionnaire: Questionnaire, parts: Collection[str]) -> None:
    """Refuse a language in which the page could not say all that it says."""
    for language in questionnaire.languages:
        own = questionnaire.words.get(language, {})
        if missing := [key for key in needed_words(language, parts) if key not in own]:
            raise at["words"][language].told(
                f"the page's own words are not known in {shown(language)}; state {quoted(missing)}"
            )


def _require_questions(at: Place, questionnaire: Questionnaire, codebook: Codebook) -> None:
    before: dict[str, tuple[str, ...]] = {}
    for asked in questionnaire.question:
        name, place = asked.attribute, at["question"][asked.attribute]
        if name in before:
            raise place.told("the attribute is asked twice", name)
        _require_known(place, name, codebook)
        categories = codebook[name].categories
        wrong = [label for label in asked.labels if label not in categories]
        if asked.unanswered is not None and asked.unanswered not in categories:
            wrong = [asked.unanswered]
        if wrong:
            raise place.told(f"{shown(wrong[0])} is not a category; there are {quoted(categories)}")
        _require_condition(place["only_if"], asked, before)
        offered = [c for c in categories if c != asked.unanswered]
        _require_distinct(place["labels"], questionnaire, _labels(asked, offered))
        before[name] = categories


def _require_condition(place: Place, asked: Question, before: Mapping[str, Sequence[str]]) -> None:
    for other, labels in asked.only_if.items():
        if other not in before:
            raise place.told(f"{shown(other)} is not asked before")
        if bad := [label for label in labels if label not in before[other]]:
            raise place[other].told(
                f"{shown(bad[0])} is not a category; there are {quoted(before[other])}"
            )


def _require_private(
    at: Place, questionnaire: Questionnaire, design: Design, needed: Sequence[str]
) -> None:
    """Refuse a model that lacks answers, and answers that nothing needs."""
    if lacking := [name for name in needed if name not in questionnaire.asked]:
        raise at["question"].told(f"the model needs a question on {quoted(lacking)}")
    for hand in questionnaire.hand:
        if hidden := {*hand.attributes} & {*needed}:
            raise at["question"][min(hidden)].told(
                "the model needs the true answer, which a device in the hand does not give"
            )
    for name in questionnaire.private:
        place = at["question"][name]["private"]
        if name in design.attributes:
            raise place.told("the design disguises it, so it is sent; leave `private` out")
        if name not in needed:
            raise place.told("no model needs it; leave the question out")


def _require_classifier(
    at: Place, questionnaire: Questionnaire, found: Tested, codebook: Codebook
) -> None:
    name, place = found.attribute, at["classifier"]
    _require_known(place, name, codebook)
    if name in questionnaire.asked:
        raise place["attribute"].wrong(name, "the page determines it; leave the question out")
    categories = codebook[name].categories
    if len(categories) != 2:
        raise place["attribute"].wrong(
            name, f"two categories are needed, right and wrong; there are {quoted(categories)}"
        )
    for key, labels in (("right", (found.right,)), ("labels", found.labels)):
        for label in labels:
            if label not in categories:
                raise place[key].told(
                    f"{shown(label)} is not a category; there are {quoted(categories)}"
                )
    _require_distinct(place["labels"], questionnaire, _labels(found, categories))
    for i, hand in enumerate(questionnaire.hand):
        if name in hand.attributes:
            raise at["hand"][i]["attributes"].told(
                f"{shown(name)} is determined by the page, so a device cannot give it"
            )


def _require_hands(
    at: Place, questionnaire: Questionnaire, codebook: Codebook, design: Design
) -> None:
    blocks = {frozenset(block.attributes): block for block in design.blocks}
    for i, hand in enumerate(questionnaire.hand):
        place, block = at["hand"][i], blocks.get(frozenset(hand.attributes))
        if any({*hand.attributes} & {*other.attributes} for other in questionnaire.hand[:i]):
            raise place["attributes"].told(
                f"{quoted(hand.attributes)} has a device already, in another table [[hand]]"
            )
        if block is None:
            there = "; ".join(quoted(each.attributes) for each in design.blocks)
            raise place["attributes"].told(
                f"{quoted(hand.attributes)} is not a block of the design; its blocks are {there}"
            )
        if isinstance(block, Permanent):
            raise place["attributes"].told(
                f"the page itself draws the permanent first stage of {quoted(hand.attributes)}"
            )
        if block.kind == "set":
            raise place["attributes"].told(
                f"reports of {quoted(hand.attributes)} are sets, which no device gives"
            )
        for name, words in hand.symbols.items():
            if name not in block.attributes:
                raise place["symbols"][name].told(
                    f"it is none of this table's attributes, {quoted(hand.attributes)}"
                )
            if words.keys() != {*(symbols := symbols_of(block, name, codebook))}:
                raise place["symbols"][name].told(
                    f"words for {quoted(symbols)} are needed, one for each"
                )
            _require_distinct(place["symbols"][name], questionnaire, words)
        for asked in questionnaire.question:
            if asked.attribute in hand.attributes and (asked.only_if or asked.optional):
                raise at["question"][asked.attribute].told(
                    "respondents answer it with their own device, so everybody must be asked"
                )
            if hidden := {*asked.only_if} & {*hand.attributes}:
                raise at["question"][asked.attribute]["only_if"].told(
                    f"the true answer to {shown(min(hidden))} is not known to the page"
                )


def _require_series(
    at: Place,
    questionnaire: Questionnaire,
    design: Design,
    needed: Sequence[str],
    framed: bool,
) -> None:
    """Check what a permanent first stage asks of a questionnaire: answers that never change."""
    kept = permanent_attributes(design)
    if kept and questionnaire.series is None:
        raise at["series"].wrong(
            None, "devices keep the permanent first stage of the design by this name"
        )
    if questionnaire.series is not None and not kept:
        raise at["series"].told(
            "no block of the design has a permanent first stage, so nothing is kept"
        )
    if kept and framed:
        raise at["series"].told(
            "a browser may not keep a permanent first stage for a page in a frame; leave --embed "
            "out, or take a design without one"
        )
    for asked in questionnaire.question:
        place = at["question"][asked.attribute]["only_if"]
        if asked.only_if and asked.attribute in kept:
            raise place.told(
                "its symbol is stored for later waves, so everybody must be asked once"
            )
        if hidden := {*asked.only_if} & kept:
            raise place.told(f"the answer to {shown(min(hidden))} is not asked for in later waves")
    if hidden := kept.intersection(needed):
        raise at["question"][min(hidden)].told(
            "the model needs the answer in each wave, and one with a permanent first stage is "
            "asked for once"
        )
    if (found := questionnaire.classifier) is not None and found.attribute in kept:
        raise at["classifier"]["attribute"].wrong(
            found.attribute,
            "it is determined in each wave, so a block without a permanent first stage is needed",
        )


def _require_known(place: Place, name: str, codebook: Codebook) -> None:
    if name not in codebook.names:
        raise place["attribute"].wrong(
            name, f"it is not in the codebook, which has {quoted(codebook.names)}"
        )


def _labels(asked: Question | Tested, categories: Sequence[str]) -> dict[str, Texts]:
    return {c: asked.labels.get(c, {"": c}) for c in categories}


def _require_distinct(
    place: Place, questionnaire: Questionnaire, words: Mapping[str, Texts]
) -> None:
    """Refuse answers that nobody can tell apart."""
    for language in questionnaire.languages:
        first: dict[str, str] = {}
        for name, texts in words.items():
            text = " ".join(questionnaire.say(texts, language).split())
            if text in first:
                raise place.told(
                    f"{quoted([first[text], name])} both read {shown(text)} in "
                    f"{shown(language)}; a text for each is needed"
                )
            first[text] = name
