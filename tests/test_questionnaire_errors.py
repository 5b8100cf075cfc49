"""What is wrong with a questionnaire is said in one line: file, dotted path, and what is right."""

from __future__ import annotations

import re
from importlib.resources import files
from typing import Any

import pytest

import ppdm_dask as pp
from ppdm_dask.collect import Page, Survey, build_page
from ppdm_dask.collect.questionnaire import Questionnaire
from ppdm_dask.collect.words import PARTS, filled, needed_words, words_of
from ppdm_dask.designs import ForcedResponse, Permanent
from ppdm_dask.errors import InputError
from ppdm_dask.files.fields import TomlTable

BOOK = pp.Codebook.from_config(
    {
        "attribute": [
            {"name": "region", "categories": ["north", "south"]},
            {"name": "used", "categories": ["no", "yes"]},
            {"name": "often", "categories": ["never", "seldom", "daily"]},
        ]
    }
)
DESIGN = pp.Product([pp.Warner("used", 0.85), pp.KaryResponse("often", 3, 0.7)]).bind(BOOK)


def made(
    used: dict[str, Any] | None = None,
    often: dict[str, Any] | None = None,
    region: dict[str, Any] | None = None,
    *,
    design: pp.Design = DESIGN,
    accept: tuple[str, ...] = (),
    **more: Any,
) -> Page:
    """The page of a questionnaire that is right but for what is given."""
    asked = [
        {"attribute": "used", "text": "Used?", **(used or {})},
        {"attribute": "often", "text": "How often?", **(often or {})},
        {"attribute": "region", "text": "Region", **(region or {})},
    ]
    table = TomlTable({"title": "t", "question": asked, **more}, "q.toml", error=InputError)
    return build_page(Questionnaire.from_table(table), BOOK, design, source="q.toml", accept=accept)


HAND = {"attributes": ["used"], "instruction": "Roll a die."}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"words": {"en": {"same": "{answer}"}}}, 'words.en.same: got "{answer}"; {question}, {ch'),
        ({"words": {"en": {"next": "{i}"}}}, 'words.en.next: got "{i}"; nothing is filled in here'),
        ({"words": {"fr": {"next": "x"}}}, "words.fr: the page does not have this language;"),
        ({"often": {"labels": {"seldom": "X", "daily": " X "}}},
         "question.often.labels: 'seldom', 'daily' both read 'X' in 'en'; a text for each"),
        ({"often": {"labels": {"seldom": "daily"}}}, "'seldom', 'daily' both read 'daily' in"),
        ({"hand": [HAND, HAND]}, "hand[1].attributes: 'used' has a device already"),
        ({"hand": [{**HAND, "symbols": {"often": {"never": "x"}}}]},
         "hand[0].symbols.often: it is none of this table's attributes, 'used'"),
        ({"hand": [{**HAND, "symbols": {"used": {"yes": "x"}}}]},
         "hand[0].symbols.used: words for 'no', 'yes' are needed"),
        ({"hand": [{**HAND, "symbols": {"used": {"yes": "x", "no": "x"}}}]},
         "hand[0].symbols.used: 'yes', 'no' both read 'x'"),
        ({"region": {"only_if": {"used": ["yes"]}, "unanswered": "north"}},
         "question.region.only_if: what is sent for 'region' can show that it was asked"),
    ],
)  # fmt: skip
def test_a_questionnaire_that_is_wrong_is_refused_in_one_line(
    given: dict[str, Any], said: str
) -> None:
    with pytest.raises(InputError) as caught:
        made(**given)
    line = str(caught.value)
    assert line.startswith("q.toml: ") and said in line and "\n" not in line


def test_a_question_that_follows_from_a_hidden_answer_is_hidden_as_well() -> None:
    follows = {"only_if": {"used": ["yes"]}, "unanswered": "never"}
    assert '"certain":false' in made(often=follows).html
    # Anyone who reports "daily" was asked: those who were not can report "never" only.
    told = ForcedResponse("often", 0.7, [1.0, 0.0, 0.0], categories=["never", "seldom", "daily"])
    telling = pp.Product([pp.Warner("used", 0.85), told]).bind(BOOK)
    every = tuple(BOOK["often"].categories)
    with pytest.raises(InputError, match=r"question\.often\.only_if: .* the answer to 'used'"):
        made(often=follows, design=telling, accept=("often", *every))
    page = made(often=follows, design=telling, accept=("often", *every, "used"))
    # What is accepted is not promised to respondents.
    assert '"certain":true' in page.html
    # An attribute that is sent as it is may follow from another one that is.
    open_ = {"only_if": {"used": ["yes"]}, "unanswered": "never"}
    bare = pp.Product([pp.Identity(["used"], [2]), pp.KaryResponse("often", 3, 0.7)]).bind(BOOK)
    assert made(often=open_, design=bare, accept=("used",)).survey


FRENCH = {key: words_of("en")[key] for key in needed_words("fr")}
SERIES = {"series": "health", "wave": 2}
WAVES = pp.Product(
    [Permanent(pp.Warner("used", 0.75), pp.Warner("used", 0.8)), pp.KaryResponse("often", 3, 0.7)]
).bind(BOOK)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "series: got nothing; devices keep the permanent first stage of the design by this"),
        ({"series": "health"}, "wave: got nothing; both series and wave are needed, or neither"),
        ({"wave": 2}, "series: got nothing; both series and wave are needed, or neither"),
        ({"series": "a b", "wave": 2}, "series: got 'a b'; a name of up to 64 letters"),
        ({"series": "a", "wave": 0}, "wave: got 0; a whole number"),
        ({**SERIES, "often": {"only_if": {"used": ["yes"]}, "unanswered": "never"}},
         "question.often.only_if: the answer to 'used' is not asked for in later waves"),
        ({**SERIES, "hand": [HAND]},
         "hand[0].attributes: the page itself draws the permanent first stage of 'used'"),
        ({**SERIES, "languages": ["fr"], "words": {"fr": FRENCH}},
         "not known in 'fr'; state 'once', 'held', 'changed', 'unkept', 'lasting', 'lasting_no"),
    ],
)  # fmt: skip
def test_a_series_that_is_wrong_is_refused_in_one_line(given: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as caught:
        made(design=WAVES, **given)
    line = str(caught.value)
    assert line.startswith("q.toml: ") and said in line.replace('"', "'") and "\n" not in line


def test_what_a_series_keeps_is_put_to_everybody() -> None:
    later = Permanent(pp.KaryResponse("often", 3, 0.7), pp.KaryResponse("often", 3, 0.7))
    design = pp.Product([pp.Warner("used", 0.8), later]).bind(BOOK)
    often = {"only_if": {"used": ["yes"]}, "unanswered": "never"}
    with pytest.raises(InputError, match=r"often\.only_if: its symbol is stored for later"):
        made(design=design, often=often, **SERIES)
    with pytest.raises(InputError, match=r"series: no block of the design has a permanent first"):
        made(**SERIES)


def test_a_first_stage_that_gives_answers_away_is_refused() -> None:
    """One report leaves both answers possible; reports of enough waves would not."""
    sure = Permanent(pp.Warner("used", 1.0), pp.Warner("used", 0.8))
    design = pp.Product([sure, pp.KaryResponse("often", 3, 0.7)]).bind(BOOK)
    with pytest.raises(InputError, match="gives answers away: every report gives away the answer"):
        made(design=design, **SERIES)
    page = made(design=design, accept=("used",), **SERIES)
    assert "All waves together can rule out some answers" in page.html


def test_a_page_of_a_single_wave_has_no_words_of_a_series() -> None:
    assert "earlier wave" in made(design=WAVES, **SERIES).html.partition('id="survey"')[2]
    assert "earlier wave" not in made().html.partition('id="survey"')[2].partition("</script>")[0]
    assert made(design=WAVES, **SERIES).survey != made(design=WAVES, **SERIES | {"wave": 3}).survey


def test_words_are_filled_in_and_other_braces_stay() -> None:
    hostile = "a { b} {} {0} {x.__class__} {i}"
    assert filled(hostile, i="7") == "a { b} {} {0} {x.__class__} 7"
    assert "{question}" in filled("{question}", question="{question}")
    text = "{i} </script><b> “{chance}” 😀"
    html = made(used={"text": text}, words={"en": {"odds": "a { b} {ratio}"}}).html
    assert html.count("</script>") == 2  # the page's own
    assert "a { b} 5.67" in html


SCRIPTS = ("page", "series", "classify", "send", "frame")


def test_the_page_has_words_for_all_it_says_and_no_others() -> None:
    # Texts of scripts, and of what Python makes for them; sentences are said by Python itself.
    assets = files("ppdm_dask.collect") / "assets"
    scripts = "".join((assets / f"{name}.js").read_text(encoding="utf-8") for name in SCRIPTS)
    content = (files("ppdm_dask.collect") / "content.py").read_text(encoding="utf-8")
    named = {*re.findall(r'"([a-z_]+)"', scripts + content)}
    named |= {*re.findall(r"words\[\S+\]\.([a-z_]+)", scripts)}
    by_python = {"same", "same_between", "odds", "no_odds", "lasting", "lasting_no_odds"}
    by_python |= {"model_" + word for word in ("same", "same_between", "from", "private", "too")}
    by_python |= {"quoted", "decimal", "script"}
    for part in PARTS:
        assert {*words_of("en", [part])} == {*words_of("de", [part])}
    assert {*words_of("en", PARTS)} - named == by_python
    assert words_of("de-AT") == words_of("de") and words_of("fr") == words_of("en")


def test_a_survey_is_read_back_whatever_its_texts_hold(tmp_path: Any) -> None:
    page = made(title="a\r\nb\r", used={"text": "c\r\nd\u2028e\x85f"})
    Survey.of(page, ()).write(tmp_path)
    assert Survey.read(tmp_path).html == page.html
