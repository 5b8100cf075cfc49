"""The errata of papers, from the page that the project keeps of them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from ppdm_dask.resources import errata_path

__all__ = ["errata_of"]


def errata_of(papers: Iterable[str]) -> list[dict[str, Any]]:
    """The errata of papers by their keys, as HTML: what there is.

    The page is Markdown; any HTML in it is shown as text.
    """
    from markdown_it import MarkdownIt
    from markupsafe import Markup

    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    text = errata_path().read_text(encoding="utf-8")
    sections = dict(re.findall(r"^## (\S+)\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL))
    return [
        {"paper": key, "html": Markup(_scrolling(markdown.render(sections[key]), key))}
        for key in papers
        if key in sections
    ]


def _scrolling(html: str, key: str) -> str:
    """Put wide parts into regions that scroll by themselves and can be reached by keyboard."""
    what = f"Part of the errata of {key}"
    region = f'<div class="scroll" role="region" tabindex="0" aria-label="{what}">'
    html = re.sub(r"(<table>.*?</table>)", rf"{region}\1</div>", html, flags=re.DOTALL)
    return re.sub(r"(<pre>.*?</pre>)", rf"{region}\1</div>", html, flags=re.DOTALL)
