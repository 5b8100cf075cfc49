"""The respondent's page in headless Chromium: what it sends, keeps, forgets, and how it is used."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import checks
import chromium
import numpy as np
import pytest
from respondent import IN_BROWSER, NEEDS_AXE, choose, click, heading, sent, violations, wait
from scipy.stats import chi2
from strategies import codebook_of
from test_collector import served

import ppdm_dask as pp
from ppdm_dask.collect import Limits, Store, Survey, build_page, collector
from ppdm_dask.collect.blocks import client_blocks
from ppdm_dask.collect.questionnaire import Questionnaire
from ppdm_dask.designs import Design
from ppdm_dask.errors import InputError
from ppdm_dask.files.fields import TomlTable

pytest.importorskip("uvicorn")

pytestmark = IN_BROWSER

BOOK = pp.Codebook.from_config(
    {
        "attribute": [
            {"name": "region", "categories": ["north", "south"]},
            {"name": "used", "categories": ["no", "yes"]},
            {"name": "often", "categories": ["never", "seldom", "daily"]},
            {"name": "dice", "categories": ["no", "yes"]},
        ]
    }
)
ASKED: dict[str, Any] = {
    "title": {"en": "Health at work", "de": "Gesundheit bei der Arbeit"},
    "languages": ["en", "de"],
    "welcome": {"en": "Welcome.\n\nEvery answer is changed at random.", "de": "Willkommen."},
    "thanks": {"en": "Goodbye.", "de": "Tschüss."},
    "question": [
        {
            "attribute": "used",
            "text": {"en": "Have you ever used it?", "de": "Haben Sie es je genommen?"},
            "help": "Once is enough.",
            "labels": {"yes": {"en": "Yes", "de": "Ja"}, "no": {"en": "No", "de": "Nein"}},
        },
        {
            "attribute": "often",
            "text": {"en": "How often?", "de": "Wie oft?"},
            "only_if": {"used": ["yes"]},
            "unanswered": "never",
        },
        {
            "attribute": "region",
            "text": "Region",
            "optional": True,
            "unanswered": "north",
        },
        {"attribute": "dice", "text": {"en": "Did you steal?", "de": "Haben Sie gestohlen?"}},
    ],
    "hand": [
        {
            "attributes": ["dice"],
            "instruction": {"en": "Roll a die. On 6 say yes.", "de": "Würfeln Sie."},
            "symbols": {
                "dice": {"no": {"en": "I say no", "de": "Ich sage nein"}, "yes": "I say yes"}
            },
        }
    ],
}


def built(theta: float = 0.8) -> Survey:
    blocks = [
        pp.Warner("used", theta),
        pp.KaryResponse("often", 3, 0.6),
        pp.Warner("dice", 5 / 6),
    ]
    design = pp.Product(blocks).bind(BOOK)
    asked = Questionnaire.from_table(TomlTable(ASKED, "q", error=InputError))
    page = build_page(asked, BOOK, design, accept=["used"])
    return Survey.of(page, ["dice"])


@pytest.fixture
def survey() -> Survey:
    return built()


@pytest.fixture
def store(tmp_path: Path, survey: Survey) -> Iterator[Store]:
    made = Store(tmp_path / "reports.db", survey.id, survey.text())
    yield made
    made.close()


@pytest.fixture
def address(survey: Survey, store: Store) -> Iterator[str]:
    with served(collector(survey, store, limits=Limits(rate=0))) as port:
        yield f"http://127.0.0.1:{port}/"


def fill(browser: chromium.Browser, used: int, often: int, region: int, dice: int) -> None:
    """Answer everything, and come to what will be sent."""
    click(browser, "form button")
    choose(browser, used)
    if used:
        choose(browser, often)
    choose(browser, region)
    choose(browser, dice)
    click(browser, "form button")


def test_it_sends_the_report_once_and_the_answer_never(
    browser: chromium.Browser, address: str, survey: Survey, store: Store
) -> None:
    browser.open(address)
    browser.evaluate("localStorage.clear()")
    browser.open(address)
    browser.evaluate(
        "window.broken = []; document.addEventListener('securitypolicyviolation', "
        "e => broken.push(e.violatedDirective)); 0"
    )
    fill(browser, used=1, often=2, region=1, dice=1)
    assert heading(browser) == "This is all that will be sent"
    kept = json.loads(browser.evaluate("localStorage.getItem(Object.keys(localStorage)[0])"))
    # What is kept is the report, by name, and nothing else anywhere.
    assert set(kept) == {"id", "report", "sent"}
    assert browser.evaluate("[localStorage.length, sessionStorage.length, document.cookie]") == [
        1,
        0,
        "",
    ]
    assert browser.evaluate("[history.length, history.state]")[1] is None
    assert browser.evaluate("document.querySelectorAll('input, [checked]').length") == 0
    assert kept["report"][0] == 1 and kept["report"][3] == 1  # as given: region, and the die's
    shown = browser.evaluate("document.body.innerText")
    labels = {"used": ["No", "Yes"], "often": list(BOOK["often"].categories)}
    for name, words in labels.items():
        assert f"{words[kept['report'][BOOK.index(name)]]}\n" in shown
    assert survey.design.digest in shown
    assert "Nobody can work out for certain" in shown
    # Sent before the respondent says so: nothing.
    assert sent(browser) == []
    click(browser, "form button")
    wait(browser, "document.body.innerText.includes('Goodbye')")
    expected = {"survey": survey.id, "design": survey.design.digest, "id": kept["id"]}
    assert sent(browser) == [{**expected, "report": kept["report"]}]
    assert store.counts() == {json.dumps(kept["report"], separators=(",", ":")): 1}
    # Anyone who has the device and the database cannot tell which report came from it.
    assert json.loads(browser.evaluate("Object.values(localStorage)[0]")) == {"sent": True}
    # The page again: nothing more can be sent.
    browser.open(address)
    assert "You have taken part already" in browser.evaluate("document.body.innerText")
    assert browser.evaluate("document.querySelectorAll('button').length") == 0
    asked = {event["request"]["url"] for event in browser.named("Network.requestWillBeSent")}
    assert {url for url in asked if not url.startswith("data:")} == {address}
    assert browser.evaluate("window.broken ?? []") == []
    assert browser.named("Runtime.exceptionThrown", "Log.entryAdded") == []


def test_a_reload_keeps_the_report_and_what_follows_from_the_answer_is_hidden(
    browser: chromium.Browser, tmp_path: Path
) -> None:
    # With theta 0 each report is the opposite of the answer: the truth can be told from a copy.
    survey = built(theta=0.0)
    store = Store(tmp_path / "reports.db", survey.id, survey.text())
    with served(collector(survey, store, limits=Limits(rate=0))) as port:
        url = f"http://127.0.0.1:{port}/"
        browser.open(url)
        seen = set()
        for _ in range(12):
            browser.evaluate("localStorage.clear()")
            browser.open(url)
            fill(browser, used=0, often=0, region=1, dice=0)
            before = json.loads(browser.evaluate("Object.values(localStorage)[0]"))
            browser.open(url)
            assert json.loads(browser.evaluate("Object.values(localStorage)[0]")) == before
            assert heading(browser) == "This is all that will be sent"
            assert before["report"][1] == 1
            assert "Nobody can work out" not in browser.evaluate("document.body.innerText")
            # A question that was not put is answered by its category, and disguised as any.
            seen.add(before["report"][2])
        assert len(seen) > 1  # three in ten thousand runs give one value
    store.close()


def test_an_answer_that_was_taken_back_puts_no_question(
    browser: chromium.Browser, tmp_path: Path
) -> None:
    names = ("first", "second", "third")
    two = ["v0", "v1"]
    book = pp.Codebook.from_config({"attribute": [{"name": n, "categories": two} for n in names]})
    asked = {
        "title": "t",
        "question": [
            {"attribute": "first", "text": "1"},
            {"attribute": "second", "text": "2", "only_if": {"first": ["v1"]}, "unanswered": "v0"},
            {"attribute": "third", "text": "3", "only_if": {"second": ["v1"]}, "unanswered": "v0"},
        ],
    }
    # Each report is the opposite of the answer, so that the answers can be told.
    design = pp.Product([pp.Warner(name, 0.0) for name in book.names]).bind(book)
    asking = Questionnaire.from_table(TomlTable(asked, "q", error=InputError))
    survey = Survey.of(build_page(asking, book, design, accept=book.names), ())
    store = Store(tmp_path / "reports.db", survey.id, survey.text())
    with served(collector(survey, store)) as port:
        url = f"http://127.0.0.1:{port}/"
        browser.open(url)
        browser.evaluate("localStorage.clear()")
        browser.open(url)
        click(browser, "form button")
        choose(browser, 1)
        browser.evaluate("document.querySelector('input[value=\"1\"]').click()")
        click(browser, "form button")
        assert heading(browser) == "3"
        for _ in range(2):
            browser.evaluate("[...document.querySelectorAll('button.plain')].at(-1).click()")
        assert heading(browser) == "1"
        choose(browser, 0)
        assert heading(browser) == "t"  # neither the second nor the third is put
        click(browser, "form button")
        assert json.loads(browser.evaluate("Object.values(localStorage)[0]"))["report"] == [1, 1, 1]
    store.close()


def test_a_second_window_draws_no_second_report(browser: chromium.Browser, address: str) -> None:
    browser.open(address)
    browser.evaluate("localStorage.clear()")
    browser.open(address)
    click(browser, "form button")
    for code in (0, 1, 0):
        choose(browser, code)
    # Another window has drawn a report since this one was opened.
    drawn = {"id": "0" * 32, "report": [0, 1, 2, 0], "sent": False}
    name = "'ppdm:' + JSON.parse(document.getElementById('survey').textContent).id"
    browser.evaluate(f"localStorage.setItem({name}, {json.dumps(json.dumps(drawn))})")
    click(browser, "form button")
    assert heading(browser) == "This is all that will be sent"
    assert json.loads(browser.evaluate("Object.values(localStorage)[0]")) == drawn


def test_the_language_is_the_first_that_the_browser_asks_for(
    browser: chromium.Browser, address: str
) -> None:
    found = {}
    for asked in ("de-AT,de,en-US,en", "fr,en,de", "fr", "en-GB,de"):
        browser.send("Emulation.setUserAgentOverride", userAgent="test", acceptLanguage=asked)
        browser.open(address)
        browser.evaluate("localStorage.clear()")
        browser.open(address)
        found[asked] = browser.evaluate("document.documentElement.lang")
    browser.send("Emulation.setUserAgentOverride", userAgent="", acceptLanguage="en")
    assert list(found.values()) == ["de", "en", "en", "en"], found


def test_a_lost_connection_and_a_refusal_lose_nothing(
    browser: chromium.Browser, survey: Survey, tmp_path: Path
) -> None:
    store = Store(tmp_path / "reports.db", survey.id, survey.text())
    with served(collector(survey, store, tokens=True)) as port:
        url = f"http://127.0.0.1:{port}/"
        browser.open(url)
        browser.evaluate("localStorage.clear()")
        browser.open(url)
        fill(browser, used=0, often=0, region=1, dice=0)
        kept = json.loads(browser.evaluate("Object.values(localStorage)[0]"))
        browser.send("Network.emulateNetworkConditions", offline=True, latency=0,
                     downloadThroughput=-1, uploadThroughput=-1)  # fmt: skip
        click(browser, "form button")
        wait(browser, "document.querySelector('.error').textContent.includes('no connection')")
        browser.send("Network.emulateNetworkConditions", offline=False, latency=0,
                     downloadThroughput=-1, uploadThroughput=-1)  # fmt: skip
        click(browser, "form button")
        wait(browser, "document.querySelector('.error').textContent.includes('403')")
        assert json.loads(browser.evaluate("Object.values(localStorage)[0]")) == kept
        (token,) = store.make_tokens(1)
        browser.evaluate(f"location.hash = 'token={token}'")
        click(browser, "form button")
        wait(browser, "document.body.innerText.includes('Goodbye')")
    assert sum(store.counts().values()) == 1
    store.close()


def test_it_works_by_keyboard_in_two_languages_on_a_narrow_screen(
    browser: chromium.Browser, address: str
) -> None:
    browser.look(360, mobile=True)
    browser.open(address)
    browser.evaluate("localStorage.clear()")
    browser.open(address)

    def press(*keys: str) -> None:
        codes = {"Tab": 9, "Enter": 13, " ": 32, "ArrowDown": 40}
        for key in keys:
            text = {"text": "\r"} if key == "Enter" else {"text": " "} if key == " " else {}
            browser.send("Input.dispatchKeyEvent", type="keyDown", key=key,
                         windowsVirtualKeyCode=codes[key], **text)  # fmt: skip
            browser.send("Input.dispatchKeyEvent", type="keyUp", key=key,
                         windowsVirtualKeyCode=codes[key])  # fmt: skip

    def fits() -> None:
        assert browser.evaluate("document.documentElement.scrollWidth") <= 360
        small = "[...document.querySelectorAll('button, label.answer')].filter(e => "
        small += "e.getBoundingClientRect().height < 44).length"
        assert browser.evaluate(small) == 0

    fits()
    press("Tab", "Tab", "Enter")  # past the choice of language, to Begin
    assert heading(browser) == "Have you ever used it?"
    # The heading has the focus, so that a screen reader says it; the first answer follows.
    assert browser.evaluate("document.activeElement.tagName") == "H1"
    fits()
    browser.evaluate("document.querySelector('select').value = 'de'")
    browser.evaluate("document.querySelector('select').dispatchEvent(new Event('change'))")
    assert heading(browser) == "Haben Sie es je genommen?"
    assert browser.evaluate("document.documentElement.lang") == "de"
    press("Tab", " ", "Tab", "Enter")
    assert heading(browser) == "Region"
    fits()
    press("Tab", " ", "ArrowDown", "Tab", "Enter")
    assert heading(browser) == "Haben Sie gestohlen?"
    assert "Würfeln Sie." in browser.evaluate("document.body.innerText")
    press("Tab", "Enter")  # from an answer: a form without one is not sent
    assert browser.evaluate("document.querySelector('[role=alert]').textContent")
    press(" ", "Tab", "Enter")
    press("Tab", "Enter")
    assert heading(browser) == "Nur das wird gesendet"
    assert "Ich sage nein" in browser.evaluate("document.body.innerText")
    fits()
    assert browser.pdf().startswith(b"%PDF")
    press("Tab", "Enter")
    wait(browser, "document.body.innerText.includes('Tschüss')")
    browser.look(1280)


@NEEDS_AXE
@pytest.mark.parametrize("dark", [False, True])
def test_axe_finds_no_violation_on_any_screen(
    browser: chromium.Browser, address: str, dark: bool
) -> None:
    browser.look(390, dark=dark, mobile=True)
    browser.send("Page.setBypassCSP", enabled=True)
    browser.open(address)
    browser.evaluate("localStorage.clear()")
    browser.open(address)
    assert violations(browser) == []
    click(browser, "form button")
    for code in (1, 2, 1, 1):
        assert violations(browser) == []
        click(browser, "form button")  # without an answer: the message is looked at too
        assert violations(browser) == []
        choose(browser, code)
    assert violations(browser) == []
    click(browser, "form button")
    assert violations(browser) == []
    click(browser, "form button")
    wait(browser, "document.body.innerText.includes('Goodbye')")
    assert violations(browser) == []
    browser.send("Page.setBypassCSP", enabled=False)
    browser.look(1280)


SYMBOLS = [
    d
    for designs in checks.EXAMPLES.values()
    for d in designs
    if all(b.kind == "symbol" for b in d.blocks)
]
SMALL = [d for d in SYMBOLS if d.n_true <= 16 and d.n_reported <= 64]


@pytest.mark.parametrize("design", SMALL, ids=lambda d: f"{d.id}-{'x'.join(map(str, d.shape))}")
def test_reports_of_the_page_s_own_draws_follow_the_design(
    browser: chromium.Browser, address: str, design: Design
) -> None:
    """3,000 reports of one answer; all tests together fail by chance once in a million runs."""
    browser.open(address)
    book = codebook_of(design)
    P, n = design.matrix(), 3_000
    x = int(np.argmax((P > 0).sum(axis=0)))
    true = [int(code) for code in np.unravel_index(x, book.shape)]
    # A script of the page is not reached from outside it; the same text stands in the page.
    code = _script("draw.js")
    call = f"(([b, c]) => {{ const w = draw.secret(); return [...Array({n})].map("
    call += "() => draw.report(b, c, () => w)); })"
    given = json.dumps([client_blocks(design, book), true])
    found = np.array(browser.evaluate(f"(() => {{ {code} return {call}({given}); }})()"))
    rows = np.ravel_multi_index(tuple(found.T), design.reported_shape)
    counts = np.bincount(rows, minlength=design.n_reported)
    expected = n * P[:, x]
    assert (counts[expected == 0] == 0).all()
    # Rare symbols are put together, so that the chi-square law holds.
    large = expected >= 8
    observed = np.append(counts[large], counts[~large].sum())
    wanted = np.append(expected[large], expected[~large].sum())
    observed, wanted = observed[wanted > 0], wanted[wanted > 0]
    if len(wanted) > 1:
        statistic = float(((observed - wanted) ** 2 / wanted).sum())
        assert statistic < chi2.isf(1e-6 / len(SMALL), len(wanted) - 1)


def _script(name: str) -> str:
    from importlib.resources import files

    return (files("ppdm_dask.collect") / "assets" / name).read_text(encoding="utf-8")
