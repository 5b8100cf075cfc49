"""Look over the built site: links, what it would load from elsewhere, formulas, and barriers.

    .venv/bin/python tools/check_site.py build/site

Every link inside has to lead to a file and, with a #, to an id on it; no page loads from another
host. Formulas are MathML: none is shown as TeX, and nothing of class "math" is without it. Where
PPDM_AXE names axe.min.js, axe-core looks in Chromium at one page of each kind, at two widths and in
both colour schemes. The exit code is 1, with a line for each fault.
"""

from __future__ import annotations

import os
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parents[1]
# Attributes that make a browser load something by itself.
LOADED = {("link", "href"), ("script", "src"), ("img", "src"), ("source", "src"), ("iframe", "src")}
KINDS = (
    "docs/index.html",
    "docs/survey.html",
    "docs/designs.html",
    "docs/reproduction.html",
    "docs/r-users.html",
    "docs/bibliography.html",
    "docs/tutorials/dice-survey.html",
    "docs/tutorials/dask.html",
    "docs/tutorials/optimal-designs.html",
    "docs/api/index.html",
    "docs/api/estimates.html",
    "README.html",
    "search.html",
)
WIDTHS = (1280, 390)


# What stands between these is not read as prose.
AS_IT_STANDS = {"code", "pre", "script", "style", "textarea"}
TEX = re.compile(r"\$[^$\s](?:[^$\n]*[^$\s])?\$|\$\$|\\[a-zA-Z]{2,}|:math:|\.\. math::|[_^]\{")


class Page(HTMLParser):
    """Ids, links and formulas of a page, and TeX that is shown as such."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[tuple[str, str, str]] = []
        self.formulas, self.awaited = 0, False
        self.lacking = 0
        self.tex: list[str] = []
        self._inside: list[str] = []
        self.feed(text)

    def handle_data(self, data: str) -> None:
        if not self._inside:
            self.tex += TEX.findall(data)

    def handle_endtag(self, tag: str) -> None:
        if self._inside and tag == self._inside[-1]:
            self._inside.pop()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in AS_IT_STANDS:
            self._inside.append(tag)
        self.formulas += tag == "math"
        self.lacking += self.awaited and tag != "math"
        self.awaited = "math" in (dict(attrs).get("class") or "").split()
        for name, value in attrs:
            if value is None:
                continue
            if name == "id" or (tag == "a" and name == "name"):
                self.ids.add(value)
            elif name in ("href", "src"):
                self.links.append((tag, name, value))


def faults(site: Path) -> list[str]:
    """Dead links, what would be loaded from elsewhere, and formulas that are none."""
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    found = []
    for path, page in pages.items():
        here = path.relative_to(site)
        found += [f"{here}: shows TeX: {text}" for text in page.tex]
        if page.lacking:
            found.append(f"{here}: {page.lacking} formulas without MathML")
        for tag, name, value in page.links:
            parts = urlsplit(value)
            if parts.scheme or parts.netloc:
                if (tag, name) in LOADED and parts.scheme != "data":
                    found.append(f"{here}: loads {value}")
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if target.is_dir():
                target /= "index.html"
            if not target.is_file():
                found.append(f"{here}: {value} leads to no file")
            elif (
                parts.fragment
                and target in pages
                and unquote(parts.fragment) not in pages[target].ids
            ):
                found.append(f"{here}: {value} leads to no place on its page")
    return found


def barriers(site: Path, axe: str) -> list[str]:
    """What axe-core finds."""
    sys.path.insert(0, str(ROOT / "tests" / "support"))
    import chromium

    script = Path(axe).read_text(encoding="utf-8")
    found = []
    with chromium.browsing() as browser:
        for name in KINDS:
            for width in WIDTHS:
                for dark in (False, True):
                    browser.look(width, dark=dark, mobile=width < 500)
                    browser.open((site / name).as_uri())
                    wide = browser.evaluate("document.documentElement.scrollWidth")
                    if wide > width:
                        found.append(f"{name} at {width} pixels: {wide} wide")
                    browser.evaluate(script + "; 0")
                    for each in browser.evaluate(
                        "axe.run().then(r => r.violations.map("
                        "v => [v.id, v.nodes.length, v.nodes[0].target.join(' ')]))"
                    ):
                        rule, times, where = each
                        scheme = "dark" if dark else "light"
                        found.append(f"{name}, {width}, {scheme}: {rule}, {times} times: {where}")
    return found


def main(folder: str) -> int:
    site, axe = Path(folder).resolve(), os.environ.get("PPDM_AXE", "")
    found = faults(site)
    pages = sum(1 for _ in site.rglob("*.html"))
    print(f"site: {pages} pages, {len(found)} faults of links and formulas")
    if axe:
        seen = barriers(site, axe)
        print(f"site: axe-core looked at {len(KINDS)} pages, {len(seen)} barriers")
        found += seen
    for line in found:
        print(f"site: {line}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
