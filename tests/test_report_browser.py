"""Pages of runs in headless Chromium: quiet, self-contained, readable, reachable, printable."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import chromium
import pytest
from respondent import IN_BROWSER

from ppdm_dask.files.documents import seal
from ppdm_dask.report.pages import write_reproduction

pytestmark = IN_BROWSER

KINDS = ("answers", "groups", "numbers", "fronts", "own", "claims", "reproduction")
TAB = 9


@pytest.fixture(scope="module")
def pages(
    report_pages: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    """A page of each kind of run, and one of a reproduction of some of them."""
    folder, pages = tmp_path_factory.mktemp("reproduction"), report_pages
    recipes: list[dict[str, Any]] = [
        {
            "name": name,
            "folder": str(pages[name].parent),
            "status": "same",
            "comparison": "exact",
            "reasons": [],
            "digest": json.loads((pages[name].parent / "manifest.json").read_text())["digest"],
            "drifts": [],
        }
        for name in ("claims", "groups", "numbers", "fronts")
    ]
    document = folder / "reproduction.json"
    about = {"status": "green", "grade": "small", "started": "a", "finished": "b"}
    document.write_text(json.dumps(seal(about | {"recipes": recipes})), encoding="utf-8")
    return pages | {"reproduction": write_reproduction(document)}


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("kind", KINDS)
def test_a_page_is_quiet_and_fits_the_screen(
    browser: chromium.Browser, pages: dict[str, Path], kind: str, width: int
) -> None:
    url = pages[kind].as_uri()
    browser.look(width, mobile=width < 500)
    browser.open(url)
    assert (
        browser.named("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded") == []
    )
    asked = {event["request"]["url"] for event in browser.named("Network.requestWillBeSent")}
    assert {name for name in asked if not name.startswith("data:")} == {url}
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    # Nothing sticks out of the screen but what scrolls in a region of its own.
    out = """[...document.querySelectorAll("main *")].filter(e => !e.closest(".scroll") &&
        e.getBoundingClientRect().right > innerWidth + 1).map(e => e.outerHTML.slice(0, 80))"""
    assert browser.evaluate(out) == []
    images = browser.evaluate(
        """[...document.images].map(i => [i.alt, i.naturalWidth, i.currentSrc.length,
        i.getBoundingClientRect().width])"""
    )
    assert images
    for alt, natural, _, shown in images:
        assert len(alt) > 40
        assert natural > 0
        assert shown >= 0.9 * min(width - 34, 280)
    if width < 500:
        # On a telephone the narrow pictures are shown, so that letters keep about their size.
        assert all(natural < 400 and shown > 0.85 * natural for _, natural, _, shown in images)


@pytest.mark.parametrize("kind", KINDS)
def test_everything_is_reached_by_tab_in_order(
    browser: chromium.Browser, pages: dict[str, Path], kind: str
) -> None:
    browser.look(1280)
    browser.open(pages[kind].as_uri())
    browser.evaluate(
        """window.wanted = [...document.querySelectorAll("a[href], [tabindex='0']")];
        wanted.forEach((element, i) => element.dataset.order = i); document.body.focus(); 0"""
    )
    wanted = browser.evaluate("wanted.length")
    reached = []
    for _ in range(wanted):
        browser.press("Tab", TAB)
        reached.append(
            browser.evaluate(
                """[document.activeElement.dataset.order,
                getComputedStyle(document.activeElement).outlineStyle,
                document.activeElement.getBoundingClientRect().left >= 0]"""
            )
        )
    assert [int(order) for order, *_ in reached] == list(range(wanted))
    # Each shows that it has the focus, the skip link too, which is out of sight without it.
    assert all(outline == "solid" and inside for _, outline, inside in reached)
    assert browser.evaluate("wanted[0].textContent") == "Skip to the content"


def test_the_skip_link_leads_to_the_content(
    browser: chromium.Browser, pages: dict[str, Path]
) -> None:
    browser.open(pages["claims"].as_uri())
    browser.press("Tab", TAB)
    browser.evaluate("document.activeElement.click(); 0")
    assert browser.evaluate("document.activeElement.id") == "main"


@pytest.mark.parametrize("kind", KINDS)
def test_a_reader_of_screens_finds_landmarks_names_and_headings(
    browser: chromium.Browser, pages: dict[str, Path], kind: str
) -> None:
    browser.look(1280)
    browser.open(pages[kind].as_uri())
    nodes = browser.send("Accessibility.getFullAXTree")["nodes"]
    roles: dict[str, list[str]] = {}
    for node in nodes:
        if not node.get("ignored"):
            role = node.get("role", {}).get("value", "")
            roles.setdefault(role, []).append(node.get("name", {}).get("value", ""))
    assert len(roles["main"]) == 1
    assert len(roles["navigation"]) == 1
    for role in ("link", "heading", "image", "region", "article"):
        assert all(name.strip() for name in roles.get(role, [])), role
    assert "table" in roles
    # Who goes from landmark to landmark can tell them apart.
    assert len(set(roles["region"])) == len(roles["region"])


CONTRAST = """
(() => {
  const parse = colour => colour.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(v => v / 255)
    .map(v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
  const behind = element => {
    for (let e = element; e; e = e.parentElement) {
      const colour = parse(getComputedStyle(e).backgroundColor);
      if (colour.length < 4 || colour[3] > 0) return colour;
    }
    return [255, 255, 255];
  };
  const bad = [];
  for (const e of document.querySelectorAll("body *")) {
    const own = [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
    if (!own || e.closest("style")) continue;
    const one = light(parse(getComputedStyle(e).color)), other = light(behind(e));
    const ratio = (Math.max(one, other) + .05) / (Math.min(one, other) + .05);
    if (ratio < 4.5) bad.push([ratio.toFixed(2), e.tagName, e.textContent.slice(0, 40)]);
  }
  return bad;
})()
"""


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("kind", ["claims", "fronts", "reproduction"])
def test_letters_stand_out_from_what_is_behind_them(
    browser: chromium.Browser, pages: dict[str, Path], kind: str, dark: bool
) -> None:
    """A ratio of 4.5 or more, as WCAG asks at level AA."""
    browser.look(1280, dark=dark)
    browser.open(pages[kind].as_uri())
    back = browser.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (back != "rgb(255, 255, 255)") is dark
    assert browser.evaluate(CONTRAST) == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_prints(browser: chromium.Browser, pages: dict[str, Path], kind: str) -> None:
    browser.look(1280, dark=True)
    browser.open(pages[kind].as_uri())
    pdf = browser.pdf()
    assert pdf.startswith(b"%PDF-")
    assert len(re.findall(rb"/Type\s*/Page\b", pdf)) >= 2
    # On paper, at the width of a sheet: nothing hidden, nothing cut, black on white.
    browser.send(
        "Emulation.setDeviceMetricsOverride",
        width=690,
        height=1000,
        deviceScaleFactor=1,
        mobile=False,
    )
    browser.send("Emulation.setEmulatedMedia", media="print", features=[])
    assert browser.evaluate("document.documentElement.scrollWidth") <= 690
    cut = """[...document.querySelectorAll("figure, figure img, table")].filter(
        e => e.getBoundingClientRect().right > innerWidth + 1).map(e => e.outerHTML.slice(0, 90))"""
    assert browser.evaluate(cut) == []
    assert browser.evaluate(
        """[...document.images].every(i => getComputedStyle(i.closest("figure")).breakInside
        === "avoid" && i.getBoundingClientRect().height < 950)"""
    )
    assert browser.evaluate("getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
