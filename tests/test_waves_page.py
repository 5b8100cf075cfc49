"""Waves of a survey on one device: one permanent symbol, a fresh report of it at each wave."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import chromium
import numpy as np
import pytest
from respondent import IN_BROWSER, choose, click, heading, sent, wait
from scipy.stats import chi2
from test_collector import served

import ppdm_dask as pp
from ppdm_dask.collect import Limits, Store, Survey, build_page, collector
from ppdm_dask.collect.blocks import client_blocks
from ppdm_dask.collect.page import LARGEST
from ppdm_dask.collect.questionnaire import Questionnaire
from ppdm_dask.collect.series import keeps_of
from ppdm_dask.designs import Permanent
from ppdm_dask.errors import InputError
from ppdm_dask.files.fields import TomlTable

pytest.importorskip("uvicorn")

pytestmark = IN_BROWSER

CANARY = "canary-7f3a"
"""The true answer, as it is read."""


def book(*used: str) -> pp.Codebook:
    return pp.Codebook.from_config(
        {
            "attribute": [
                {"name": "used", "categories": used or ("no", "yes", "unsure")},
                {"name": "well", "categories": ["no", "yes"]},
            ]
        }
    )


NEVER = np.array([[0.0, 0.5, 0.5], [0.5, 0.0, 0.5], [0.5, 0.5, 0.0]])
"""The symbol is never the answer, so that each can be told from the other."""


def built(
    wave: int = 1,
    used: tuple[str, ...] = (),
    *,
    first: Any = NEVER,
    again: float = 0.6,
    series: str = "health",
) -> Survey:
    codebook = book(*used)
    stages = Permanent(pp.RRMatrix("used", first), pp.KaryResponse("used", 3, again))
    design = pp.Product([stages, pp.Warner("well", 0.8)]).bind(codebook)
    asked = {
        "title": "Health",
        "languages": ["en", "de"],
        "series": series,
        "wave": wave,
        "thanks": "Goodbye.",
        "question": [
            {"attribute": "used", "text": "Ever?", "labels": {"yes": CANARY}},
            {"attribute": "well", "text": "Are you well?"},
        ],
    }
    questions = Questionnaire.from_table(TomlTable(asked, "q", error=InputError))
    return Survey.of(build_page(questions, codebook, design, accept=["used"]), ())


class Site:
    """One address, at which the waves of a series follow each other."""

    def __init__(self, browser: chromium.Browser, folder: Path) -> None:
        self.browser, self.folder, self.port, self.n = browser, folder, 0, 0

    def take_part(self, survey: Survey, *answers: int) -> tuple[list[str], dict[str, Any]]:
        """Open the page, answer, send; the questions that were put, and the body that was sent."""
        self.n += 1
        store = Store(self.folder / f"{self.n}.db", survey.id, survey.text())
        with served(collector(survey, store, limits=Limits(rate=0)), self.port) as self.port:
            put = self.answer(survey, *answers)
            click(self.browser, "form button")
            wait(self.browser, "document.body.innerText.includes('Goodbye')")
            (body,) = sent(self.browser)
        assert store.counts() == {json.dumps(body["report"], separators=(",", ":")): 1}
        store.close()
        return put, body

    def answer(self, survey: Survey, *answers: int) -> list[str]:
        """Open the page and come to what will be sent; the questions that were put."""
        self.browser.open(f"http://127.0.0.1:{self.port}/")
        put = []
        click(self.browser, "form button")
        for code in answers:
            put.append(heading(self.browser))
            # Respondents are told before they answer.
            once = "You are asked this only once" in self.browser.evaluate(
                "document.body.innerText"
            )
            assert once == (put[-1] == "Ever?")
            choose(self.browser, code)
        click(self.browser, "form button")
        assert heading(self.browser) == "This is all that will be sent"
        return put

    def stored(self) -> dict[str, Any]:
        text = self.browser.evaluate("JSON.stringify({...localStorage})")
        return {key: json.loads(value) for key, value in json.loads(text).items()}


@pytest.fixture
def site(browser: chromium.Browser, tmp_path: Path) -> Iterator[Site]:
    site = Site(browser, tmp_path)
    yield site
    browser.evaluate("localStorage.clear()")


SERIES = "ppdm:series:health"


def test_a_second_wave_sends_a_fresh_report_of_the_same_symbol(
    browser: chromium.Browser, site: Site
) -> None:
    put, first = site.take_part(built(1), 1, 0)
    assert put == ["Ever?", "Are you well?"]
    kept = site.stored()[SERIES]
    (symbol,) = kept['["used"]']["symbols"]
    # Neither the answer nor a report is kept for later waves.
    assert kept.keys() == {'["used"]'} and kept['["used"]'].keys() == {"stage", "symbols"}
    assert symbol != sorted(("no", "yes", "unsure")).index("yes")
    reports, names = [first["report"][0]], {first["id"]}
    for wave in range(2, 14):
        put, body = site.take_part(built(wave), 0)
        # Nothing is asked again that is kept; what is not is asked.
        assert put == ["Are you well?"]
        assert site.stored()[SERIES] == kept
        reports.append(body["report"][0])
        names.add(body["id"])
        assert body.keys() == {"survey", "design", "id", "report"}
    # Nothing that is sent is the same in two waves, but by chance: names are not.
    assert len(names) == 13
    # One report in all of 13 waves, if they were not drawn afresh, has a chance of 2e-3 at .6.
    assert len(set(reports)) > 1


def test_the_answer_is_in_no_request_store_history_or_document(
    browser: chromium.Browser, site: Site
) -> None:
    # The report is the symbol, which is never the answer: its words would be the answer's.
    survey = built(1, again=1.0)
    _, body = site.take_part(survey, 1, 0)
    asked = [json.dumps(event["request"]) for event in browser.named("Network.requestWillBeSent")]
    assert not [each for each in asked if CANARY in each]
    assert body["report"][0] != 1
    assert CANARY not in browser.evaluate("document.querySelector('main').outerHTML")
    assert CANARY not in browser.evaluate("JSON.stringify({...localStorage, ...sessionStorage})")
    assert browser.evaluate("[history.state, document.cookie, document.title]") == [
        None,
        "",
        "Health",
    ]
    symbols = site.stored()[SERIES]['["used"]']["symbols"]
    assert symbols == [
        sorted(("no", "yes", "unsure")).index(("no", "yes", "unsure")[body["report"][0]])
    ]
    assert browser.named("Runtime.exceptionThrown", "Log.entryAdded") == []


def test_a_reload_draws_neither_stage_again(browser: chromium.Browser, site: Site) -> None:
    survey = built(1)
    store = Store(site.folder / "reports.db", survey.id, survey.text())
    with served(collector(survey, store)) as site.port:
        site.answer(survey, 2, 1)
        before = site.stored()
        assert len(before) == 2
        for _ in range(5):
            browser.open(f"http://127.0.0.1:{site.port}/")
            assert heading(browser) == "This is all that will be sent"
            assert site.stored() == before
    store.close()


def test_a_report_that_was_not_kept_is_drawn_from_the_symbol_that_was(
    browser: chromium.Browser, site: Site
) -> None:
    survey = built(1)
    store = Store(site.folder / "reports.db", survey.id, survey.text())
    with served(collector(survey, store)) as site.port:
        site.answer(survey, 2, 1)
        before = site.stored()[SERIES]
        browser.evaluate(f"localStorage.removeItem('ppdm:{survey.id}')")
        assert site.answer(survey, 1) == ["Are you well?"]
        assert site.stored()[SERIES] == before
    store.close()


def test_a_symbol_that_is_gone_before_the_report_is_drawn_is_asked_for(
    browser: chromium.Browser, site: Site
) -> None:
    site.take_part(built(1), 1, 0)
    later = built(2)
    store = Store(site.folder / "later.db", later.id, later.text())
    with served(collector(later, store), site.port) as site.port:
        browser.open(f"http://127.0.0.1:{site.port}/")
        click(browser, "form button")
        assert heading(browser) == "Are you well?"
        choose(browser, 0)
        browser.evaluate("localStorage.clear()")
        click(browser, "form button")
        assert heading(browser) == "Ever?"
        choose(browser, 1)
        assert heading(browser) == "Are you well?"
        choose(browser, 0)
        click(browser, "form button")
        assert heading(browser) == "This is all that will be sent"
        (symbol,) = site.stored()[SERIES]['["used"]']["symbols"]
        assert symbol != sorted(("no", "yes", "unsure")).index("yes")
    store.close()


def test_another_order_of_categories_is_the_same_symbol(site: Site) -> None:
    orders = [("no", "yes", "unsure"), ("unsure", "no", "yes"), ("yes", "unsure", "no")]
    said = set()
    for wave, order in enumerate(orders, 1):
        survey = built(wave, order, again=1.0)
        answers = (order.index("yes"), 0) if wave == 1 else (0,)
        _, body = site.take_part(survey, *answers)
        said.add(order[body["report"][0]])
    assert len(said) == 1 and "yes" not in said


def test_another_first_stage_is_not_drawn(browser: chromium.Browser, site: Site) -> None:
    site.take_part(built(1), 1, 0)
    before = site.stored()
    other = built(2, first=np.full((3, 3), 0.2) + 0.4 * np.eye(3))
    store = Store(site.folder / "other.db", other.id, other.text())
    with served(collector(other, store), site.port) as site.port:
        browser.open(f"http://127.0.0.1:{site.port}/")
        assert "more than you were told" in browser.evaluate("document.body.innerText")
        assert browser.evaluate("document.querySelectorAll('button').length") == 0
        assert site.stored() == before
    store.close()
    # Of another series it is another survey.
    put, _ = site.take_part(built(1, series="other"), 0, 0)
    assert put == ["Ever?", "Are you well?"]


def test_a_browser_that_keeps_nothing_is_not_asked(browser: chromium.Browser, site: Site) -> None:
    survey = built(1)
    store = Store(site.folder / "reports.db", survey.id, survey.text())
    with served(collector(survey, store)) as site.port:
        added = browser.send(
            "Page.addScriptToEvaluateOnNewDocument",
            source="Storage.prototype.setItem = () => { throw new Error('full'); };",
        )
        browser.open(f"http://127.0.0.1:{site.port}/")
        assert "This browser stores nothing" in browser.evaluate("document.body.innerText")
        browser.send("Page.removeScriptToEvaluateOnNewDocument", identifier=added["identifier"])
    store.close()


def test_it_is_small_and_says_what_waves_give_away() -> None:
    survey = built(1, first=np.full((3, 3), 0.2) + 0.4 * np.eye(3))
    assert len(survey.html.encode()) < LARGEST
    said = survey.html.partition('"privacy":')[2]
    block = survey.design.blocks[0]
    # (.6 .6 + .2 .4) / (.6 .2 + .2 .6 + .2 .2) of one wave by hand, and .6 / .2 of all.
    assert np.exp(block.epsilon()) == pytest.approx(0.44 / 0.28)
    assert "at most 1.57 times as likely" in said
    assert "and the symbol itself, can make one answer, compared with any other, at most 3" in said


LEVEL = 1e-6 / 6


@pytest.mark.parametrize("held", [None, 0, 1, 2])
def test_reports_follow_the_stages(browser: chromium.Browser, site: Site, held: int | None) -> None:
    """3,000 reports, of an answer with nothing kept and of a symbol that is kept."""
    survey = built(1)
    store = Store(site.folder / "reports.db", survey.id, survey.text())
    with served(collector(survey, store)) as port:
        browser.open(f"http://127.0.0.1:{port}/")
        block, n = survey.design.blocks[0], 3_000
        assert isinstance(block, Permanent)
        blocks = client_blocks(survey.design, survey.codebook)
        keeps = keeps_of(block, survey.codebook)
        blocks[0]["keeps"] = keeps
        kept = {}
        if held is not None:
            number = keeps["order"][0][held]
            kept = {keeps["name"]: {"stage": keeps["stage"], "symbols": [number]}}
        about = {"series": "law", "blocks": blocks}
        code = "".join(
            (files("ppdm_dask.collect") / "assets" / name).read_text(encoding="utf-8")
            for name in ("draw.js", "series.js")
        )
        call = f"""(([about, kept]) => {{
            const w = draw.secret(), waves = series(about);
            return [...Array({n})].map(() => {{
                localStorage.setItem("ppdm:series:law", JSON.stringify(kept));
                const report = waves.report([1, 0], () => w);
                const own = JSON.parse(localStorage.getItem("ppdm:series:law"));
                return [report[0], own[about.blocks[0].keeps.name].symbols[0]];
            }});
        }})"""
        given = json.dumps([about, kept])
        found = np.array(browser.evaluate(f"(() => {{ {code} return {call}({given}); }})()"))
    store.close()
    P1, P2 = block.first.matrix()[:, 1], block.again.matrix()
    first = P1 if held is None else np.eye(3)[held]
    symbols = np.argsort(keeps["order"][0])[found[:, 1]]
    counts = np.bincount(3 * found[:, 0] + symbols, minlength=9)
    expected = n * (P2 * first).ravel()
    assert (counts[expected == 0] == 0).all()
    counts, expected = counts[expected > 0], expected[expected > 0]
    statistic = float(((counts - expected) ** 2 / expected).sum())
    assert statistic < chi2.isf(LEVEL, len(expected) - 1)
