"""The respondent's page: one file of HTML that asks, disguises, shows and sends.

Its script makes the report by the steps of the design (:meth:`ppdm_dask.Design.steps`), from words
of the browser's own cryptographic generator, and makes no request but the one that sends it.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ppdm_dask.audit.certainty import bare_attributes, certainties, undisguised_attributes
from ppdm_dask.audit.measures import epsilon_of
from ppdm_dask.collect.blocks import client_blocks
from ppdm_dask.collect.questionnaire import (
    WORDS_OF_SERIES,
    Question,
    Questionnaire,
    filled,
    symbols_of,
    words_of,
)
from ppdm_dask.collect.series import keeps_of
from ppdm_dask.collect.templates import asset, template
from ppdm_dask.designs.permanent import Permanent, lasting, permanent_blocks
from ppdm_dask.errors import InputError
from ppdm_dask.files.writing import write_text
from ppdm_dask.shown import quoted, shown

if TYPE_CHECKING:
    from ppdm_dask.data.codebook import Codebook
    from ppdm_dask.designs.base import Design

__all__ = ["Page", "build_page"]

LARGEST = 60_000
"""Bytes of a page that a telephone loads at once."""

SCRIPTS = ("draw.js", "series.js", "page.js")

NAMED = 8
"""What is made certain, as far as a message names it."""


@dataclass(frozen=True)
class Page:
    """A page, and what a collector has to know of it.

    Parameters
    ----------
    html : str
    survey : str
        Identifier that the page sends with each report: a digest of questionnaire, codebook and
        design.
    codebook : Codebook
        Of what is asked; the symbols of a report stand in its order.
    design : Design
        Bound to it.
    """

    html: str
    survey: str
    codebook: Codebook
    design: Design

    def write(self, folder: str | Path) -> Path:
        """Write ``index.html`` into a folder, which is made if it is absent."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "index.html"
        write_text(path, self.html)
        return path


def build_page(
    questionnaire: Questionnaire,
    codebook: Codebook,
    design: Design,
    *,
    source: str = "questionnaire",
    accept: Sequence[str] = (),
) -> Page:
    """Make the page of a survey.

    Parameters
    ----------
    questionnaire : Questionnaire
    codebook : Codebook
        Has the attributes that are asked.
    design : Design
        Bound to the codebook.
    source : str
        File of the questionnaire, for messages.
    accept : sequence of str
        Attributes, labels or ``attribute=label`` that a report may make certain.

    Returns
    -------
    Page

    Raises
    ------
    InputError
        If questionnaire, codebook and design do not fit, the design gives answers away that are not
        accepted, or the page would be larger than 60 kB.
    """
    questionnaire.require(source, codebook, design)
    asked = codebook.select([name for name in codebook.names if name in questionnaire.asked])
    certain = _refuse_certain(source, asked, design, accept)
    certain |= _refuse_telling(source, questionnaire, asked, design, accept)
    about = {
        "codebook": asked.digest,
        "design": design.digest,
        "questionnaire": questionnaire.config(),
    }
    survey = hashlib.sha256(_json(about).encode()).hexdigest()[:32]
    values = {**_values(questionnaire, asked, design, survey), "certain": certain}
    first = questionnaire.languages[0]
    style, script = asset("page.css"), "".join(map(asset, SCRIPTS))
    html = template("page.html.j2").render(
        language=first,
        title=questionnaire.say(questionnaire.title, first),
        policy=_policy(script, style, questionnaire.collector),
        style=_raw(style),
        script=_raw(script),
        survey=_raw(_json(values).replace("<", "\\u003c")),
        noscript=_words(questionnaire, first)["script"],
    )
    if (size := len(html.encode())) > LARGEST:
        raise InputError(
            f"{source}: the page would have {size:,} bytes; at most {LARGEST:,} load at once on a "
            "telephone: ask less, or take a design with fewer symbols",
            size,
        )
    return Page(html, survey, asked, design)


def _refuse_certain(source: str, asked: Codebook, design: Design, accept: Sequence[str]) -> bool:
    """Refuse a design that makes answers certain; whether it does so of some that are accepted."""
    labels = {name: asked[name].categories for name in design.attributes}
    kept = {name for block in permanent_blocks(design) for name in block.attributes}
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
        hidden = [n for n in question.only_if if n in design.attributes and n not in bare]
        if not hidden or not _tells_put(question, asked, design):
            continue
        accepted = True
        if told := [name for name in hidden if name not in accept]:
            raise InputError(
                f"{source}: question.{question.attribute}.only_if: what is sent for "
                f"{shown(question.attribute)} can tell that it was asked, and so the answer to "
                f"{quoted(told)}; disguise it with a design that can give every report for every "
                f"answer, or name {quoted(told)} in --accept-certain",
                question.attribute,
            )
    return accepted


def _tells_put(question: Question, asked: Codebook, design: Design) -> bool:
    """Whether some report has a chance from an answer, and none from those who were not asked."""
    name = question.attribute
    block = next((each for each in design.blocks if name in each.attributes), None)
    if block is None or question.unanswered is None:
        return True
    if block.kind == "symbol" and block.attributes == (name,):
        matrix = block.matrix()
        never = matrix[:, asked[name].categories.index(question.unanswered)] == 0
        return bool((never & (matrix > 0).any(axis=1)).any())
    epsilon = epsilon_of(block)
    return epsilon is None or math.isinf(epsilon)


def _values(
    questionnaire: Questionnaire, asked: Codebook, design: Design, survey: str
) -> dict[str, Any]:
    """What the page's script reads."""
    languages = questionnaire.languages
    hands = {name for hand in questionnaire.hand for name in hand.attributes}

    def texts(given: Mapping[str, str] | None) -> dict[str, str]:
        return {language: questionnaire.say(given, language) for language in languages}

    blocks = client_blocks(design, asked)
    by_hand = [i for i, block in enumerate(design.blocks) if hands.issuperset(block.attributes)]
    for i in by_hand:
        blocks[i]["step"] = {"op": "truth"}  # the device has made the report
    for i, block in enumerate(design.blocks):
        if isinstance(block, Permanent):
            blocks[i]["keeps"] = keeps_of(block, asked)
    own = {} if questionnaire.series is None else {"series": questionnaire.series}
    return {
        **own,
        "id": survey,
        "design": design.digest,
        "collector": f"{questionnaire.collector or ''}/reports",
        "languages": list(languages),
        "title": texts(questionnaire.title),
        "welcome": texts(questionnaire.welcome),
        "thanks": texts(questionnaire.thanks),
        "words": {language: dict(_words(questionnaire, language)) for language in languages},
        "places": list(asked.names),
        "questions": [
            _question(questionnaire, each, asked, design) for each in questionnaire.question
        ],
        "blocks": blocks,
        "privacy": {
            language: _privacy(questionnaire, asked, design, language) for language in languages
        },
    }


def _question(
    questionnaire: Questionnaire, question: Question, asked: Codebook, design: Design
) -> dict[str, Any]:
    name, languages = question.attribute, questionnaire.languages
    categories = asked[name].categories
    hand = next((each for each in questionnaire.hand if name in each.attributes), None)
    own = {
        language: [questionnaire.say(question.labels.get(c, {"": c}), language) for c in categories]
        for language in languages
    }
    reports = own
    asides = {language: [questionnaire.say(question.help, language)] for language in languages}
    if name in design.attributes:
        block = next(block for block in design.blocks if name in block.attributes)
        if isinstance(block, Permanent):
            for language, lines in asides.items():
                lines.append(_words(questionnaire, language)["once"])
        given = {} if hand is None else hand.symbols.get(name, {})
        if block.kind == "symbol":
            names = symbols_of(block, name, asked)
            if given or names != categories:
                reports = {
                    language: [questionnaire.say(given.get(n, {"": n}), language) for n in names]
                    for language in languages
                }
    found: dict[str, Any] = {
        "place": asked.index(name),
        "text": {lang: questionnaire.say(question.text, lang) for lang in languages},
        "help": {lang: "\n\n".join(lines) for lang, lines in asides.items()},
        "labels": own if hand is None else reports,
        "reports": reports,
        "hand": hand is not None,
        "disguised": not undisguised_attributes(design, [name]),
        "optional": question.optional,
        "unanswered": None
        if question.unanswered is None
        else categories.index(question.unanswered),
        "only": [
            [asked.index(other), [asked[other].categories.index(c) for c in labels]]
            for other, labels in question.only_if.items()
        ],
    }
    if hand is not None:
        found["instruction"] = {
            lang: questionnaire.say(hand.instruction, lang) for lang in languages
        }
    return found


def _words(questionnaire: Questionnaire, language: str) -> Mapping[str, str]:
    found = {**words_of(language), **questionnaire.words.get(language, {})}
    dropped = () if questionnaire.series else WORDS_OF_SERIES
    return {key: text for key, text in found.items() if key not in dropped}


def _privacy(
    questionnaire: Questionnaire, asked: Codebook, design: Design, language: str
) -> list[str]:
    """Sentences on what a report gives away, for any reader and any prior knowledge."""
    words, said = _words(questionnaire, language), []
    texts = {q.attribute: questionnaire.say(q.text, language) for q in questionnaire.question}
    bare = bare_attributes(design)
    for block in design.blocks:
        names = [name for name in block.attributes if name not in bare]
        if not names:
            continue
        for name in names:
            if (chances := _kept(block, name)) is not None:
                low, high = (_per_cent(f(chances)) for f in (min, max))
                key = "same" if low == high else "same_between"
                said.append(
                    filled(words[key], question=texts[name], chance=low, low=low, high=high)
                )
        called = ", ".join(f"“{texts[name]}”" for name in names)
        epsilon = epsilon_of(block)
        if epsilon is None or math.isinf(epsilon):
            said.append(filled(words["no_odds"], attributes=called))
        else:
            ratio = f"{math.exp(epsilon):.3g}"
            said.append(filled(words["odds"], attributes=called, ratio=ratio))
        if isinstance(block, Permanent):
            most = block.epsilon_of_waves(None).value
            key = "lasting_no_odds" if math.isinf(most) else "lasting"
            ratio = "" if math.isinf(most) else f"{math.exp(most):.3g}"
            said.append(filled(words[key], attributes=called, ratio=ratio))
    return said


def _kept(block: Design, name: str) -> list[float] | None:
    """Chance by category that the own answer is reported; None where reports are no answers."""
    if block.kind != "symbol" or block.reported_shape != block.shape:
        return None
    alone = block if block.attributes == (name,) else block.marginal([name])
    return None if alone is None else [float(p) for p in alone.matrix().diagonal()]


def _per_cent(chance: float) -> str:
    return f"{100 * chance:.3g} %"


def _policy(script: str, style: str, collector: str | None) -> str:
    """What the page may do: run its script, use its style, and send to its collector."""

    def digest(text: str) -> str:
        return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()

    return "; ".join(
        [
            "default-src 'none'",
            f"script-src 'sha256-{digest(script)}'",
            f"style-src 'sha256-{digest(style)}'",
            "img-src data:",
            f"connect-src {collector or chr(39) + 'self' + chr(39)}",
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )


def _json(values: Any) -> str:
    return json.dumps(values, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def _raw(text: str) -> Any:
    """Text that the template takes as it is: a script or a style of ours."""
    from markupsafe import Markup

    return Markup(text)
