"""Plain English on pages, in docstrings, help texts and messages: turns of phrase to avoid.

Each has a plainer word: `resume` or `continue`, `anyone who`, `only`, `is not a`, `again`, `one for
each`, `custom`, `in addition`, `assumed to be`, `atomically`, `if there is none`, `distribution`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

COUNTED = "longer|more|less|fewer|larger|smaller|wider|greater|worse|better|lower|higher|other|one"
COUNTABLE = (
    "answer|attribute|batch|bin|category|cell|column|core|file|group|kind|line|partition|recipe|"
    "report|row|run|worker"
)
TICS = {
    "go on": r"\bgo(?:es|ing)? on\b(?! and off)|\bgone on\b|\bwent on\b",
    "whoever": r"\bwho(?:so)?ever\b",
    "is no": rf"(?<!here )(?<!that )\bis no (?!(?:{COUNTED})\b)",
    "anew": r"\banew\b",
    "a task a partition": r"\ba task a partition\b",
    "of one's own": r"\bof one's own\b",
    "what there is": r"\bwhat there is\b",
    "is told": r"\b(?:is|as) told\b",
    "in words": r"\bin words\b",
    "lay": r"\blay\b",
    "besides": r"\bbesides\b",
    "alone": r"\balone\b",
    # `one per partition`: two articles hide the relation of the two things.
    "one a thing": rf"\bone an? (?:{COUNTABLE})\b",
    # `is assumed to be`, `is treated as`.
    "taken for": r"\b(?:is|are|be|was|were) taken for\b",
    # `again`.
    "afresh": r"\bafresh\b",
    # `a number changed`: numbers do not move.
    "numbers that move": r"\bnumbers? (?:that )?moved?\b",
    # `is asked`.
    "put to": r"\b(?:is|are|was|were) put to\b",
    # `is deleted`.
    "thrown away": r"\bthrow(?:s|n)? away\b",
    # `is passed on`.
    "hands over": r"\bhand(?:s|ed)? over\b",
    # `works for`.
    "serves": r"\bserves (?:all|any|both|every)\b",
    # `complete or not there` is `atomically`, or: it appears only when it is complete.
    "whole or not": r"\bwhole,? or not (?:at all|there)\b|\bthere whole\b",
    # `this many`.
    "so many": r"\b(?:after|first) so many\b",
    # `cannot be corrected for`: estimates know nothing.
    "estimates that know": r"\bestimates? knows?\b",
}
IN_PAGES = {
    # `if there is none`, `if it has one`: where is for places.
    "where there is none": r"\bwhere (?:there (?:is|are) (?:none|one)|it (?:has one|is none))\b",
    # `is not a`.
    "are no": rf"(?<!there )\bare no (?!(?:{COUNTED})\b)",
    # `reveals`, `says`.
    "tells of": r"\btells? (?:less|more|nothing|of)\b|\btold apart\b",
    # `it also has`.
    "beside it": r"\bbeside it:",
    # `determined`, `detected`.
    "found out": r"\bf(?:ound|inds?) out\b",
    # `is assigned`, `is distributed`.
    "dealt": r"\bdealt\b",
    # `is as precise as`.
    "is worth": r"\b(?:is|are) worth\b",
    # `distribution`, `probabilities`; the succession's is a name.
    "law": r"\blaws?\b(?! of succession)",
}
"""Further ones in pages: docstrings may be terser."""

THINGS = (
    "each|every|them|those|these|it|B|attributes?|batch|chance|columns?|costs|designs?|disguise|"
    "function|margins?|needed|number|objective|question|records|reports?|rounding"
)
DOES = "again|asked for|coded|comes|disguis(?:ed|ing)|ran|runs?|stands?|then"
BY_ITSELF = re.compile(
    rf"\b(?:{THINGS}|{DOES}),? alone\b|\balone,? (?:would|in the pool|it|or with|for the margins)\b"
    r"|`code` alone|^ *alone\b|\.alone\b|`alone`",
    re.IGNORECASE,
)
"""`alone` where it means by itself, not only."""

PAGES = [
    path
    for glob in ("*.md", "docs/**/*.md", "pipelines/**/*.md", "cluster/**/*.md")
    for path in sorted(ROOT.glob(glob))
]
MODULES = sorted((ROOT / "ppdm_dask").rglob("*.py"))


def prose(page: str) -> Iterator[tuple[int, str]]:
    """Lines of a page that are no code: blocks, indented lines and inline code are left out."""
    fenced = False
    for number, line in enumerate(page.splitlines(), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced and not line.startswith("    "):
            yield number, re.sub(r"`[^`]*`", "`code`", line)


def texts(module: str) -> Iterator[tuple[int, str]]:
    """Docstrings, and other texts of several words."""
    for node in ast.walk(ast.parse(module)):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and " " in node.value.strip()
        ):
            for i, line in enumerate(node.value.splitlines()):
                yield node.lineno + i, line


def found(lines: Iterator[tuple[int, str]], tics: Mapping[str, str] = TICS) -> list[str]:
    hits = []
    for number, line in lines:
        for name, pattern in tics.items():
            plain = BY_ITSELF.sub("", line) if name == "alone" else line
            if re.search(pattern, plain, re.IGNORECASE):
                hits.append(f"{number}: {name}: {line.strip()}")
    return hits


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_pages_are_plain(page: Path) -> None:
    assert found(prose(page.read_text()), {**TICS, **IN_PAGES}) == []


def test_docstrings_help_and_messages_are_plain() -> None:
    hits = [
        f"{path.relative_to(ROOT).as_posix()}:{hit}"
        for path in MODULES
        for hit in found(texts(path.read_text()))
    ]
    assert hits == []


def test_the_patterns_find_what_they_mean() -> None:
    for line in (
        "a killed run goes on",
        "this is no TOML",
        "it is drawn anew",
        "Whoever reads it",
        "the driver alone writes",
        "workers, one a core",
        "the tree is taken for J48",
        "drawn afresh in each wave",
        "if a number moved",
        "the question is put to everybody",
        "the key is thrown away",
        "the page hands over a label",
        "one reader serves all commands",
        "stop after so many generations",
        "a folder is there whole or not at all",
        "a second disguise, and no estimate knows",
    ):
        assert found(iter([(1, line)])), line
    for line in (
        "None where there is none",
        "labels are no numbers",
        "what a report tells of an answer",
        "Beside it: the table",
        "what the model finds out",
        "attributes are dealt to groups",
        "reports that are worth one answer",
        "the law of a report",
    ):
        assert found(iter([(1, line)]), IN_PAGES), line
        assert not found(iter([(1, line)])), line
    for line in (
        "there is no such file",
        "it is no longer than that",
        "each attribute alone would need more",
        "a batch that runs alone",
    ):
        assert not found(iter([(1, line)])), line
