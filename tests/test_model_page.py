"""A page that applies a model, in headless Chromium: what it finds out, sends and forgets."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import chromium
import numpy as np
import pytest
from respondent import IN_BROWSER, NEEDS_AXE, choose, click, heading, sent, violations, wait
from scipy.stats import chi2
from test_collector import served
from tested import ASKED, BOOK, DESIGN, DOMAIN, LEARNERS, model, survey

import ppdm_dask as pp
from ppdm_dask.collect import Limits, Store, Survey, collector
from ppdm_dask.collect.blocks import client_blocks
from ppdm_dask.collect.templates import asset

pytest.importorskip("uvicorn")

pytestmark = IN_BROWSER

OPPOSITE = pp.Warner("classified", 0.0).bind(BOOK)
"""Reports the opposite of what was found out, so that it can be told."""


@pytest.fixture
def address(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    """The page of a survey that a test may choose."""
    made: Survey = getattr(request, "param", None) or survey()
    store = Store(tmp_path / "reports.db", made.id, made.text())
    with served(collector(made, store, limits=Limits(rate=0))) as port:
        yield f"http://127.0.0.1:{port}/"
    store.close()


def begin(browser: chromium.Browser, address: str) -> None:
    browser.open(address)
    browser.evaluate("localStorage.clear(); sessionStorage.clear()")
    browser.open(address)


def answer(browser: chromium.Browser, row: Any) -> None:
    """Answer everything, and come to what will be sent."""
    click(browser, "form button")
    for question in ASKED["question"]:
        name = question["attribute"]
        label = row[name] if name != "region" else "here"
        choose(browser, BOOK[name].categories.index(label))
    click(browser, "form button")


@pytest.mark.parametrize("learner", LEARNERS)
def test_the_browser_predicts_what_python_does_of_all_answers(
    browser: chromium.Browser, address: str, learner: str
) -> None:
    browser.open(address)
    made = survey(learner)
    assert made.test is not None
    codes = made.test.encode(DOMAIN.assign(region="here")).codes
    given = json.dumps([made.test.client(), codes.tolist()])
    call = "([t, rows]) => rows.map(r => [classify.predict(t.step, r), classify.outcome(t, r)])"
    found = browser.evaluate(f"(() => {{ {asset('classify.js')} return ({call})({given}); }})()")
    predicted, outcomes = np.array(found).T
    labels = np.array(BOOK["ill"].categories)[predicted]
    assert labels.tolist() == model(learner).predict(DOMAIN).tolist()
    right = np.array(BOOK["classified"].categories)[outcomes] == "right"
    assert (right == (labels == DOMAIN["ill"])).all()


@pytest.mark.parametrize(
    "address", [survey(design=OPPOSITE, accept=("classified",))], indirect=True, ids=["opposite"]
)
def test_nothing_that_is_sent_kept_or_shown_tells_more_than_the_bit(
    browser: chromium.Browser, address: str
) -> None:
    """People whose answers all differ and of whom the model is right leave the same traces."""
    right = model("naive-bayes").predict(DOMAIN) == DOMAIN["ill"]
    first = DOMAIN[right].iloc[0]
    other = DOMAIN[right & DOMAIN.ne(first).all(axis=1)].iloc[-1]
    wrong = DOMAIN[~right].iloc[0]
    traces = []
    for row in (first, other, wrong):
        begin(browser, address)
        before = browser.evaluate("document.getElementById('survey').textContent")
        long = browser.evaluate("history.length")
        answer(browser, row)
        assert heading(browser) == "This is all that will be sent"
        kept = json.loads(browser.evaluate("Object.values(localStorage)[0]"))
        assert set(kept) == {"id", "report", "sent"} and len(kept["report"]) == 2
        page = browser.evaluate("document.documentElement.outerHTML")
        assert browser.evaluate("document.querySelectorAll('input, [checked]').length") == 0
        click(browser, "form button")
        wait(browser, "document.body.innerText.includes('Goodbye')")
        (body,) = sent(browser)
        assert set(body) == {"survey", "design", "id", "report"} and body["id"] == kept["id"]
        rest = browser.evaluate(
            "[Object.values(localStorage), sessionStorage.length, document.cookie, history.state, "
            "location.href, document.documentElement.outerHTML]"
        )
        assert rest[:4] == [['{"sent":true}'], 0, "", None]
        assert browser.evaluate("history.length") == long
        assert browser.evaluate("document.getElementById('survey').textContent") == before
        traces.append((body["report"], page, rest))
        urls = {event["request"]["url"] for event in browser.named("Network.requestWillBeSent")}
        assert {u for u in urls if not u.startswith("data:")} == {address, f"{address}reports"}
    assert traces[0] == traces[1]
    assert [report[1] for report, *_ in traces] == [1, 1, 0]  # the opposite: wrong, wrong, right
    assert browser.named("Runtime.exceptionThrown", "Log.entryAdded") == []


def test_what_is_found_out_and_what_it_gives_away_are_shown(
    browser: chromium.Browser, address: str, tmp_path: Path
) -> None:
    browser.look(390, mobile=True)
    begin(browser, address)
    click(browser, "form button")
    assert "never sent" not in browser.evaluate("document.body.innerText")
    choose(browser, 0)
    assert heading(browser) == "How old?"
    assert "This answer is never sent." in browser.evaluate("document.body.innerText")
    begin(browser, address)
    answer(browser, DOMAIN.iloc[0])
    shown = browser.evaluate("document.body.innerText")
    for line in (
        "Does the model guess right?",
        "determined on this device, then changed at random",
        "the true result is sent with a probability of 80 %.",
        "can make one answer, compared with any other, at most 4 times as likely as before.",
        "“Does the model guess right?”: this device determines the result from your answers to "
        "“How old?”, “Do you smoke?”, “Which town?”, “Ill?”",
        "Never sent: your answers to “How old?”, “Do you smoke?”, “Which town?”, “Ill?”.",
        "Nobody can work out for certain",
        "Your own answers are erased from this page.",
        DESIGN.digest,
    ):
        assert line in shown, line
    assert browser.evaluate("document.querySelectorAll('dt').length") == 2
    assert browser.evaluate("document.documentElement.scrollWidth") <= 390
    browser.screenshot(tmp_path / "review.png")
    browser.look(1280)


def test_the_bit_follows_the_law_of_the_design(browser: chromium.Browser, address: str) -> None:
    """3,000 reports of each of two people; both fail by chance once in a million runs."""
    browser.open(address)
    made, n = survey(), 3_000
    assert made.test is not None
    people = made.test.encode(DOMAIN.assign(region="here"))
    blocks = client_blocks(made.design, made.codebook)
    for outcome in (0, 1):
        row = int(np.flatnonzero(people.column("classified") == outcome)[0])
        codes = people.codes[row].tolist()
        codes[made.codebook.index("classified")] = 0
        given = json.dumps([made.test.client(), blocks, codes])
        place = made.codebook.index("classified")
        call = f"(([t, b, c]) => {{ c[{place}] = classify.outcome(t, c); const w = draw.secret();"
        call += f" return [...Array({n})].map(() => draw.report(b, c, () => w)[{place}]); }})"
        scripts = asset("draw.js") + asset("classify.js")
        found = browser.evaluate(f"(() => {{ {scripts} return {call}({given}); }})()")
        counts = np.bincount(found, minlength=2)
        expected = n * made.design.matrix()[:, outcome]
        assert ((counts - expected) ** 2 / expected).sum() < chi2.isf(5e-7, 1)


def test_the_page_is_small_and_others_carry_no_model() -> None:
    from test_respondent_page import built

    assert len(survey("tan").html.encode()) < 60_000
    assert "classify" in survey().html
    assert "const classify" not in built().html


@NEEDS_AXE
@pytest.mark.parametrize("dark", [False, True])
def test_axe_finds_no_violation_where_a_model_is_applied(
    browser: chromium.Browser, address: str, dark: bool
) -> None:
    browser.look(390, dark=dark, mobile=True)
    browser.send("Page.setBypassCSP", enabled=True)
    begin(browser, address)
    click(browser, "form button")
    choose(browser, 0)
    assert violations(browser) == []  # of a private question
    for code in (0, 0, 0, 0):
        choose(browser, code)
    click(browser, "form button")
    assert heading(browser) == "This is all that will be sent"
    assert violations(browser) == []
    browser.send("Page.setBypassCSP", enabled=False)
    browser.look(1280)
