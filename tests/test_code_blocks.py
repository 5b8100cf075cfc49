"""Every block of code on a page is run by a test, or stands here with the reason why it is not.

A test takes its blocks by ``blocks("docs/x.md", "python")``, ``shell_lines("docs/x.md")`` or
``every("toml")`` from ``tests/support/pages.py``; such calls are read from the tests.  To read a
file of TOML in ``every("sh")`` is not to run the shell, so that does not count.
"""

from __future__ import annotations

import ast
import re
import shlex
import tomllib
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
from pages import INDENTED, PAGES, Block, blocks

from ppdm_dask.cli.app import UsageProblem, parser

ANY = "any page"

NOT_RUN = {
    ("docs/r-users.md", "r"): "needs R, with RRreg and rr; the Python beside it runs",
    ("docs/ldp-users.md", "py"): "needs multi-freq-ldpy or pure-LDP, which no test installs; "
    "the Python beside it runs",
}
"""Blocks with a fence, by page and language."""

SHOWN = {
    "README.md": "printed by the first block; test_examples compares it",
    "docs/embed.md": "printed; test_survey_page compares it",
    "docs/field.md": "printed; test_survey_page compares it",
    "docs/scaling.md": "a formula of words, held by test_cluster_model",
    "docs/survey.md": "printed; test_survey_page compares it",
    "docs/web.md": "printed; test_survey_page compares it",
}
"""Pages with indented blocks that are no commands."""

PROGRAMS = {
    "helm": "needs a Kubernetes cluster",
    "kubectl": "needs a Kubernetes cluster",
    "docker": "needs Docker, and a registry to push to",
    "sudo": "needs root",
    "systemctl": "needs systemd",
    "journalctl": "needs systemd",
    "crontab": "needs a cron daemon",
    "srun": "needs SLURM",
    "sinfo": "needs SLURM",
    "dask": "needs other machines; tests/cluster/machines.py starts the same commands on this one",
    "mkdir": "copies a file into the reader's repository",
    "cp": "copies a file into the reader's repository",
}
"""Programs of indented commands that no test starts, each with the reason."""

INSTALLS = "installs packages, which a test may not; extras and files are compared"


def said(node: ast.expr) -> str:
    """Value of an argument, where it is one."""
    if isinstance(node, ast.Name) and node.id == "INDENTED":
        return INDENTED
    return str(node.value) if isinstance(node, ast.Constant) else ANY


@cache
def claims() -> set[tuple[str, str]]:
    """Pages and languages whose blocks a test takes."""
    found = set()
    for path in Path(__file__).parent.glob("**/test_*.py"):
        text = path.read_text(encoding="utf-8")
        if path == Path(__file__) or "from pages import" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                given = [said(each) for each in node.args]
                if node.func.id == "shell_lines":
                    found.add((given[0], "sh"))
                elif node.func.id == "every" and given != ["sh"]:
                    found.add((ANY, given[0]))
                elif node.func.id == "blocks":
                    found |= {(given[0], language) for language in given[1:]}
    return found


def fenced() -> list[Block]:
    """Blocks with a fence; those of the site's own directives are no code."""
    return [
        block
        for page in PAGES
        for block in blocks(page)
        if block.language != INDENTED and not block.language.startswith("{")
    ]


def test_every_block_with_a_fence_is_run_or_has_a_reason() -> None:
    taken = claims()
    for block in fenced():
        keys = {(block.page, block.language), (ANY, block.language)}
        run, excused = bool(keys & taken), (block.page, block.language) in NOT_RUN
        assert run != excused, f"{block.place}: run by {run} tests, excused: {excused}"


def test_reasons_and_claims_are_about_blocks_that_there_are() -> None:
    there = {(block.page, block.language) for page in PAGES for block in blocks(page)}
    assert set(NOT_RUN) <= there
    assert {key for key in claims() if key[0] != ANY} <= there
    assert len(fenced()) > 90


SECTIONS = {
    ("CONTRIBUTING.md", "python"): ["Add a design", "Add a trial"],
    ("CONTRIBUTING.md", "toml"): ["Add a trial"],
    ("docs/embed.md", "html"): ["LimeSurvey", "oTree"],
    ("docs/embed.md", "js"): ["REDCap", "formr", "Qualtrics"],
}
"""Sections of each block where tests take blocks by section, and not all of a page."""


def test_blocks_that_are_taken_by_section_are_in_those_sections() -> None:
    for (page, language), sections in SECTIONS.items():
        assert [x.section for x in blocks(page) if x.language == language] == sections, page


def test_a_new_block_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page with a block that nobody takes fails the census."""
    new = Block("docs/index.md", "", 1, "sh", "ppdm list\n")
    monkeypatch.setattr(f"{__name__}.fenced", lambda: [new])
    with pytest.raises(AssertionError, match=r"docs/index\.md:1"):
        test_every_block_with_a_fence_is_run_or_has_a_reason()


# -- indented commands -----------------------------------------------------------------------------

WORD = re.compile(r"(?:\S*/)?(ppdm|make|pip|python[\d.]*)")
SETTING = re.compile(r"[A-Z_]+=\S+")


def commands(text: str) -> list[list[str]]:
    """Words of each command of a block, without comments, variables and what a here-document is."""
    text = re.sub(r"<<'END'\n.*?^END$", "", text, flags=re.DOTALL | re.MULTILINE)
    lines = text.replace("\\\n", " ").splitlines()
    found = [shlex.split(line, comments=True) for line in lines if line[:1].strip()]
    for words in found:
        while words and SETTING.fullmatch(words[0]):
            del words[0]
    return [words for words in found if words]


def programs(text: str) -> list[str]:
    """The first word of each line, as far as it looks like a command's."""
    try:
        return [words[0] for words in commands(text)]
    except ValueError:  # an apostrophe of prose
        return [""]


def is_command(block: Block) -> bool:
    first = programs(block.text)[:1]
    return bool(first) and (bool(WORD.fullmatch(first[0])) or first[0] in PROGRAMS)


def parsed(words: list[str]) -> None:
    """Let the parser of ``ppdm`` judge a command, and call nothing."""
    command: Any = parser
    # Options of a group take no values.
    while group := getattr(command, "commands", {}):
        options = list(takewhile(lambda word: word.startswith("-"), words))
        known = {name for each in command.params for name in each.opts}
        assert known.issuperset(options), options
        if not words[len(options) :]:  # such as ppdm --help
            return
        name, *words = words[len(options) :]
        assert name in group, f"there is no command {name}"
        command = group[name]
    command.make_context(command.name, words)


def judge(root: Path, words: list[str]) -> None:
    """What a command names is there: subcommands and options, targets, extras, scripts."""
    program = WORD.fullmatch(words[0])
    if program is None:
        assert words[0] in PROGRAMS, f"{words[0]} is in no list"
    elif program[1] == "ppdm":
        # "..." stands for more, and what follows 2> is the shell's.
        rest = [word for word in words[1:] if word != "..."]
        rest = rest[: rest.index("2>")] if "2>" in rest else rest
        if rest == ["--install-completion"]:  # would change the user's shell
            assert any(rest[0] in each.opts for each in parser.params)
        elif "..." in words:
            parsed([*rest, "x", "--over", "a", "--codebook", "b", "--design", "d"])
        else:
            parsed(rest)
    elif program[1] == "make":
        text = (root / "Makefile").read_text()
        target, *settings = words[1:]
        assert re.search(rf"^{target}:", text, re.MULTILINE), target
        for each in settings:
            assert re.search(rf"^{each.partition('=')[0]} :=", text, re.MULTILINE), each
    elif program[1] == "pip":
        assert words[1] in ("install", "freeze"), INSTALLS
        project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
        for each in words:
            if named := re.fullmatch(r"(?:\.|ppdm-dask)\[(.*)\]", each):
                assert set(named[1].split(",")) <= set(project["optional-dependencies"])
        assert (root / "constraints.txt").is_file()
    elif words[1] == "-m":
        assert words[2] == "venv"
    elif words[1] == "-c":
        compile(words[2], "-c", "exec")
    else:
        script = (root / words[1]).read_text()
        for option in words[2:]:
            assert not option.startswith("--") or f'"{option}"' in script, option


@pytest.mark.parametrize(
    "block", [b for page in PAGES for b in blocks(page) if b.language == INDENTED],
    ids=lambda block: block.place,
)  # fmt: skip
def test_indented_commands_name_what_there_is(root: Path, block: Block) -> None:
    if "dd.read" in block.text:
        assert ("README.md", INDENTED) in claims()  # test_examples runs it
    elif is_command(block):
        text = re.sub(r"^for .*?^done$", "", block.text, flags=re.DOTALL | re.MULTILINE)
        for words in commands(text):
            judge(root, words)
    else:
        assert block.page in SHOWN, f"{block.place}: neither commands nor in SHOWN"


@pytest.mark.parametrize(
    "line", ["ppdm lst", "ppdm run x --wrkers 2", "ppdm optimize --n many", "make swep",
             "make sweep RECIP=x", "pip install 'ppdm-dask[al]'", "python tools/none.py",
             "python benchmarks/scaling.py --figur x", "wget x"],
)  # fmt: skip
def test_commands_that_there_are_not_are_found(root: Path, line: str) -> None:
    (words,) = commands(line)
    with pytest.raises((UsageProblem, AssertionError, OSError)):
        judge(root, words)
