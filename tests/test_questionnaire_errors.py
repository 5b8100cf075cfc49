"""What is wrong with a questionnaire is said in one line: file, dotted path, and what is right."""

from __future__ import annotations

import re
from importlib.resources import files
from typing import Any

import pytest

import ppdm_dask as pp
from ppdm_dask.collect import Page, Survey, build_page
from ppdm_dask.collect.questionnaire import Questionnaire, filled, words_of
from ppdm_dask.designs import ForcedResponse
from ppdm_dask.errors import InputError
from ppdm_dask.files.fields import Table

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
    table = Table({"title": "t", "question": asked, **more}, "q.toml", error=InputError)
    return build_page(Questionnaire.from_table(table), BOOK, design, source="q.toml", accept=accept)


HAND = {"attributes": ["used"], "instruction": "Roll a die."}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"words": {"en": {"same": "{answer}"}}}, 'words.en.same: got "{answer}"; {question}, {ch'),
        ({"words": {"en": {"next": "{i}"}}}, 'words.en.next: got "{i}"; nothing is filled in here'),
        ({"words": {"fr": {"next": "x"}}}, "words.fr: the page is not shown in it; languages are"),
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
         "question.region.only_if: what is sent for 'region' can tell that it was asked"),
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
    # Whoever reports "daily" was asked: those who were not can report "never" only.
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


def test_words_are_filled_in_and_other_braces_stay() -> None:
    hostile = "a { b} {} {0} {x.__class__} {i}"
    assert filled(hostile, i="7") == "a { b} {} {0} {x.__class__} 7"
    assert "{question}" in filled("{question}", question="{question}")
    text = "{i} </script><b> “{chance}” 😀"
    html = made(used={"text": text}, words={"en": {"odds": "a { b} {ratio}"}}).html
    assert html.count("</script>") == 2  # the page's own
    assert "a { b} 5.67" in html


def test_the_page_has_words_for_all_it_says_and_no_others() -> None:
    script = (files("ppdm_dask.collect") / "assets" / "page.js").read_text(encoding="utf-8")
    by_script = {*re.findall(r'"([a-z_]+)"', script)}
    by_python = {"same", "same_between", "odds", "no_odds", "script"}
    by_python |= {"model_" + word for word in ("same", "same_between", "from", "private", "too")}
    assert {*words_of("en")} == {*words_of("de")}
    assert {*words_of("en")} <= by_script | by_python
    assert words_of("de-AT") == words_of("de") and words_of("fr") == words_of("en")


def test_a_survey_is_read_back_whatever_its_texts_hold(tmp_path: Any) -> None:
    page = made(title="a\r\nb\r", used={"text": "c\r\nd\u2028e\x85f"})
    Survey.of(page, ()).write(tmp_path)
    assert Survey.read(tmp_path).html == page.html
