"""A respondent at a page in headless Chromium: what they do, and what the browser has seen."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any, Protocol

import chromium
import pytest

__all__ = [
    "AXE",
    "IN_BROWSER",
    "NEEDS_AXE",
    "NEEDS_CHROMIUM",
    "choose",
    "click",
    "heading",
    "sent",
    "violations",
    "wait",
]

AXE = os.environ.get("PPDM_AXE", "")

NEEDS_CHROMIUM = pytest.mark.skipif(
    chromium.PROGRAM is None, reason="there is no chromium; apt-get install chromium"
)
NEEDS_AXE = pytest.mark.skipif(not AXE, reason="PPDM_AXE names no axe.min.js; npm pack axe-core")
IN_BROWSER = [pytest.mark.slow, NEEDS_CHROMIUM]
"""Marks of a module whose tests are all in a browser."""


class Place(Protocol):
    """A page, or one in a frame."""

    def evaluate(self, expression: str) -> Any: ...


def click(place: Place, selector: str) -> None:
    found = f"document.querySelector({json.dumps(selector)})"
    assert place.evaluate(f"(e => {{ if (e) e.click(); return !!e; }})({found})"), selector


def choose(place: Place, code: int) -> None:
    """Answer a question."""
    click(place, f"input[value='{code}']")
    click(place, "form button")


def heading(place: Place) -> str:
    return str(place.evaluate("document.querySelector('h1').textContent"))


def wait(place: Place, condition: str) -> None:
    ends = time.monotonic() + 20
    while not place.evaluate(condition):
        assert time.monotonic() < ends, condition
        time.sleep(0.02)


def sent(browser: chromium.Browser) -> list[dict[str, Any]]:
    """Bodies of all requests but those for the page."""
    return [
        json.loads(event["request"]["postData"])
        for event in browser.named("Network.requestWillBeSent")
        if event["request"]["method"] == "POST"
    ]


def violations(place: Place) -> list[Any]:
    """What axe finds on a page as it is; the page's own policy has to be bypassed."""
    place.evaluate(Path(AXE).read_text(encoding="utf-8") + "; 0")
    found = "axe.run().then(r => r.violations.map(v => [v.id, v.nodes.map(n => n.html)]))"
    return list(place.evaluate(found))
