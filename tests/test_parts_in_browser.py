"""A series, a model and a frame in one page, in headless Chromium."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import chromium
import pytest
from respondent import AXE, IN_BROWSER, choose, click, heading, sent, violations, wait
from test_collector import served
from test_embed_page import Frame, hosts
from test_page_parts import SERIES, together
from tested import ASKED, BOOK, DOMAIN, model

import ppdm_dask as pp
from ppdm_dask.collect import Limits, Store, Survey, collector, write_embedded
from ppdm_dask.designs import Permanent

pytest.importorskip("uvicorn")

pytestmark = IN_BROWSER

OPPOSITE = Permanent(pp.Warner("region", 0.0), pp.Warner("region", 1.0))
"""The symbol is the opposite of the answer, and each report is the symbol."""


def answer(page: Any, row: Any) -> list[str]:
    """Answer all that is asked, and come to what is shown; the questions that were put."""
    texts = {question["text"]: question["attribute"] for question in ASKED["question"]}
    put = []
    click(page, "form button")
    while (text := heading(page)) in texts:
        name = texts[text]
        put.append(name)
        choose(page, BOOK[name].categories.index("there" if name == "region" else row[name]))
    click(page, "form button")
    return put


def test_each_wave_asks_for_what_the_model_needs_and_keeps_the_symbol(
    browser: chromium.Browser, tmp_path: Path
) -> None:
    browser.look(360, mobile=True)
    browser.send("Page.setBypassCSP", enabled=True)
    port, right = 0, model("naive-bayes").predict(DOMAIN) == DOMAIN["ill"]
    people = [DOMAIN[right].iloc[0], DOMAIN[~right].iloc[-1]]
    needed = ["age", "smoker", "town", "ill"]
    for wave, row in enumerate(people, 1):
        page = together("series", "classifier", theta=1, stages=OPPOSITE, wave=wave)
        survey = Survey.of(page, ())
        store = Store(tmp_path / f"{wave}.db", survey.id, survey.text())
        with served(collector(survey, store, limits=Limits(rate=0)), port) as port:
            browser.open(f"http://127.0.0.1:{port}/")
            held = "In an earlier wave, this device stored" in browser.evaluate(
                "document.body.innerText"
            )
            assert held == (wave == 2)
            assert answer(browser, row) == (["region", *needed] if wave == 1 else needed)
            shown = browser.evaluate("document.body.innerText")
            assert "the symbol itself" in shown or "All waves together" in shown
            assert "determined on this device" in shown and "Never sent: your answers" in shown
            assert not AXE or violations(browser) == []
            kept = json.loads(browser.evaluate("JSON.stringify({...localStorage})"))
            assert {*kept} >= {f"ppdm:{survey.id}", f"ppdm:series:{SERIES['series']}"}
            assert len(kept) == wave + 1
            click(browser, "form button")
            wait(browser, "document.body.innerText.includes('Goodbye')")
            (body,) = sent(browser)
        store.close()
        # "there" is kept as "here"; the finding is of this wave's own answers.
        labels = [BOOK[n].categories[c] for n, c in zip(survey.codebook.names, body["report"],
                                                        strict=True)]  # fmt: skip
        assert labels == ["here", "right" if wave == 1 else "wrong"]
    assert browser.named("Runtime.exceptionThrown") == []
    browser.evaluate("localStorage.clear()")
    browser.send("Page.setBypassCSP", enabled=False)
    browser.look(1280)


def test_a_frame_hands_over_what_a_model_found_and_no_answer(
    browser: chromium.Browser, tmp_path: Path
) -> None:
    with hosts() as made:
        ours: dict[str, Any] = {}
        theirs: dict[str, Any] = {}
        address, platform = made.serve(ours), made.serve(theirs)
        page = together("classifier", theta=1, embed=(platform,))
        assert page.framed is not None
        for path in write_embedded(tmp_path, page.framed):
            ours[path.name] = path.read_text()
        theirs["index"] = f"""<!doctype html><div id="here"></div><script>
            window.found = {{}}; window.seen = [];
            addEventListener("message", e => seen.push(e.data));
            </script><script src="{address}/embed.js"></script><script>
            const put = (name) => (text) => {{ found[name] = text; }};
            ppdm.embed({{into: "#here", fields: {{region: put("region"),
            classified: put("classified"), ppdmdesign: put("ppdmdesign")}}}});</script>"""
        row = DOMAIN[model("naive-bayes").predict(DOMAIN) == DOMAIN["ill"]].iloc[0]
        browser.open(f"{platform}/index")
        frame = Frame(browser, address)
        wait(frame, "document.querySelector('main h1') !== null")
        answer(frame, row)
        assert heading(frame) == "This is all that the questionnaire receives"
        click(frame, "form button")
        wait(browser, "'ppdmdesign' in found")
        found = browser.evaluate("found")
        assert found.keys() == {"region", "classified", "ppdmdesign"}
        assert (found["classified"], found["ppdmdesign"]) == ("right", page.design.digest)
        seen = json.dumps(browser.evaluate("seen"))
        assert not [name for name in ("age", "smoker", "town", "ill") if f'"{row[name]}"' in seen]
