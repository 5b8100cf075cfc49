"""The log: levels, JSON, nothing of the data in it; and what a shell completes."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from small_recipe import changed, write_recipe

import ppdm_dask as pp
from ppdm_dask.cli import main

FreshPython = Callable[[str], str]

CANARY = "canary-80571"

BOOK = """
[[attribute]]
name = "used"
categories = ["no", "yes"]
"""

DESIGN = """
id = "warner"
attribute = "used"
theta = 0.8
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("book.toml").write_text(BOOK)
    Path("design.toml").write_text(DESIGN)
    rows = "".join(f"{'yes' if i % 3 else 'no'},{CANARY}{i}\n" for i in range(60))
    Path("answers.csv").write_text("used,name\n" + rows)
    return tmp_path


def disguise(*before: str, data: str = "answers.csv", out: str = "reports.parquet") -> int:
    files = ["--codebook", "book.toml", "--design", "design.toml", "--out", out, "--drop", "name"]
    return main([*before, "disguise", data, *files])


def test_the_package_shows_nothing_by_itself(fresh_python: FreshPython) -> None:
    code = """
import logging, sys, io
sys.stderr = io.StringIO()
import ppdm_dask
log = logging.getLogger("ppdm_dask")
assert [type(each) for each in log.handlers] == [logging.NullHandler]
log.error("lost")
print(repr(sys.stderr.getvalue()))
"""
    assert fresh_python(code).strip() == "''"


@pytest.mark.parametrize(
    ("options", "levels"),
    [
        ([], set()),
        (["-v"], {"info"}),
        (["-vv"], {"info"}),
        (["-q"], set()),
        (["-v", "-q"], set()),
    ],
)
def test_levels(
    folder: Path, capsys: pytest.CaptureFixture[str], options: list[str], levels: set[str]
) -> None:
    assert disguise("--log-json", *options) == 0
    found = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert {each["level"] for each in found} - {"note"} == levels
    if "-q" in options:
        assert found == []
    for each in found:
        assert {"time", "level", "logger", "message"} <= set(each)
        assert each["logger"].startswith("ppdm_dask")


def test_results_stay_on_standard_output(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert disguise() == 0
    capsys.readouterr()
    both = ["--codebook", "book.toml", "--design", "design.toml"]
    asked = ["estimate", "reports.parquet", *both, "--over", "used"]
    texts = []
    for options in ([], ["-vv", "--log-json"], ["-q"]):
        assert main([*options, *asked, "--json"]) == 0
        seen = capsys.readouterr()
        texts.append(seen.out)
        json.loads(seen.out)
    assert texts[0] == texts[1] == texts[2]


def test_a_run_says_its_batches_in_detail(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = write_recipe(tmp_path / "small.toml", changed("figure", []))
    run = ["run", str(recipe), "--workers", "0", "--out", str(tmp_path / "runs")]
    assert main(["-vv", "--log-json", *run]) == 0
    seen = capsys.readouterr()
    found = [json.loads(line) for line in seen.err.splitlines()]
    assert {"debug", "info", "note"} == {each["level"] for each in found}
    stored = [each for each in found if each["message"].endswith("is stored")]
    assert stored and all(each["seconds"] >= 0 for each in stored)
    (last,) = [each for each in found if each["message"].endswith("has a result")]
    assert f"digest: {last['digest']}" in seen.out
    # Progress is in the log, with numbers.
    assert any(each.get("done") == each.get("total", -1) for each in found)


def test_nothing_of_the_data_is_logged(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    secret = f"maybe-{CANARY}"
    wrong = Path("answers.csv").read_text().replace("no,", f"{secret},", 1)
    Path("wrong.csv").write_text(wrong)
    assert disguise("-vv", "--log-json") == 0
    assert disguise("-vv", "--log-json", data="wrong.csv", out="other.parquet") == 2
    seen = capfd.readouterr()
    (error,) = [each for each in map(json.loads, seen.err.splitlines()) if each["level"] == "error"]
    assert "used" in error["message"]
    assert CANARY not in seen.err + seen.out
    # A person at a terminal sees the one value it is about.
    assert disguise(data="wrong.csv", out="other.parquet") == 2
    assert secret in capfd.readouterr().err


def test_errors_are_objects_too(capsys: pytest.CaptureFixture[str]) -> None:
    for command in (["nothing"], ["run", "no-such-recipe"], ["run", "--repeats", "x", "a"]):
        assert main(["--log-json", *command]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert json.loads(line)["level"] == "error"
        assert main(["-q", *command]) == 2
        assert capsys.readouterr().err.startswith("ppdm: error: ")


def test_a_command_leaves_the_log_as_it_was(capsys: pytest.CaptureFixture[str]) -> None:
    log = logging.getLogger("ppdm_dask")
    before = log.level, log.propagate, list(log.handlers)
    main(["-vv", "--log-json", "list"])
    assert (log.level, log.propagate, list(log.handlers)) == before
    assert main(["nothing"]) == 2
    assert capsys.readouterr().err.startswith("ppdm: error: ")


def complete(shell: str, text: str) -> str:
    words = text.split(" ")
    environment = {
        **os.environ,
        "_PPDM_COMPLETE": f"complete_{shell}",
        "COMP_WORDS": text,
        "COMP_CWORD": str(len(words) - 1),
        "_TYPER_COMPLETE_ARGS": text,
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }
    done = subprocess.run(
        [sys.executable, "-m", "ppdm_dask"], env=environment, capture_output=True, text=True
    )
    return done.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete_names_of_recipes(shell: str) -> None:
    found = complete(shell, "ppdm run electronic")
    for name in pp.resources.recipes():
        assert (name in found) == name.startswith("electronic"), name


def test_names_that_are_completed() -> None:
    from ppdm_dask.cli.completing import profile_names, recipe_names

    assert recipe_names("") == pp.resources.recipes()
    assert profile_names("lo") == ["local"]
    assert recipe_names("zzz") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_is_told_how_to_complete(shell: str) -> None:
    environment = {**os.environ, "_PPDM_COMPLETE": f"source_{shell}"}
    done = subprocess.run(
        [sys.executable, "-m", "ppdm_dask"], env=environment, capture_output=True, text=True
    )
    assert "_PPDM_COMPLETE" in done.stdout
    if shell == "bash":  # which is there to read it
        checked = subprocess.run(["bash", "-n"], input=done.stdout, text=True)
        assert checked.returncode == 0


def test_completion_can_be_shown(capsys: pytest.CaptureFixture[str]) -> None:
    seen: Any = main(["--help"])
    assert seen == 0
    out = capsys.readouterr().out
    assert "--install-completion" in out and "--log-json" in out
