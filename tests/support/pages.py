"""Code blocks of the pages.

Tests run blocks that they take from here, by page and language: ``tests/test_code_blocks.py`` reads
these calls, and every block that no test takes has to stand in its list with a reason.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from markdown_it import MarkdownIt

__all__ = ["INDENTED", "PAGES", "Block", "blocks", "every", "shell_lines"]

ROOT = Path(__file__).resolve().parents[2]

PAGES = tuple(
    sorted(
        path.relative_to(ROOT).as_posix()
        for pattern in (
            "*.md",
            "docs/**/*.md",
            "pipelines/**/*.md",
            "cluster/**/*.md",
            "ppdm_dask/**/*.md",
        )
        for path in ROOT.glob(pattern)
    )
)

INDENTED = "indented"
"""Language of a block without a fence, which states none."""


@dataclass(frozen=True)
class Block:
    """A block of code.

    Parameters
    ----------
    page : str
        From the root of the repository.
    section : str
        The last heading of the second level before it.
    line : int
        Of the page, counted from 1.
    language : str
        As the fence states it.
    text : str
    """

    page: str
    section: str
    line: int
    language: str
    text: str

    @property
    def place(self) -> str:
        """For messages."""
        return f"{self.page}:{self.line}"


@cache
def _all(page: str) -> tuple[Block, ...]:
    found, section, heading = [], "", False
    text = (ROOT / page).read_text(encoding="utf-8")
    for token in MarkdownIt("commonmark").parse(re.sub("^:::.*", "", text, flags=re.MULTILINE)):
        if token.type == "inline" and heading:
            section = token.content
        heading = token.type == "heading_open" and token.tag == "h2"
        if token.type in ("fence", "code_block"):
            language = (token.info.split() or [""])[0] if token.type == "fence" else INDENTED
            found.append(Block(page, section, token.map[0] + 1, language, token.content))
    return tuple(found)


def blocks(page: str, *languages: str) -> list[Block]:
    """Blocks of a page in some languages, or in all, in the page's order; at least one."""
    found = [block for block in _all(page) if not languages or block.language in languages]
    assert found or not languages, f"{page}: has no block of {' or '.join(languages)}"
    return found


def every(language: str) -> list[Block]:
    """Blocks of a language on all pages."""
    return [block for page in PAGES for block in _all(page) if block.language == language]


def shell_lines(page: str) -> str:
    """All blocks of shell of a page."""
    return "".join(block.text for block in blocks(page, "sh"))
