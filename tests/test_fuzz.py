"""Damaged files of every kind: one line, no traceback, no hang; and damage that once did worse."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

CASES = 12
"""Cases of each target; ``tools/fuzz.py`` has no end of them."""


@pytest.fixture(scope="module")
def fuzzing(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, ...]]:
    """The tool, a folder of valid files, and the scenes on them by target."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(root / "tools"))
        import fuzz

        seeds = tmp_path_factory.mktemp("seeds")
        yield fuzz, seeds, fuzz.prepare(seeds)
    for name in [name for name in sys.modules if name.split(".")[0] in ("fuzz", "fuzzing")]:
        del sys.modules[name]


def said(failure: Any) -> str:
    command = " ".join(failure.case.scene.command)
    return f"case {failure.case.index}: ppdm {command}: {failure.what}: {failure.detail}"


def test_damaged_files_are_refused_in_one_line_or_read(fuzzing: tuple[Any, ...]) -> None:
    fuzz, seeds, scenes = fuzzing
    cases = itertools.chain.from_iterable(
        itertools.islice(fuzz.cases_of(target, each, 0), CASES) for target, each in scenes.items()
    )
    found = list(fuzz.run_cases(cases, seeds))
    assert len(found) == CASES * len(scenes)
    assert [said(failure) for _, failure in found if failure] == []


# A file, a piece of its text, and what stood there when a command ended with a traceback or worse.
TEXTS: tuple[tuple[str, str, str], ...] = ()


@pytest.mark.parametrize(("file", "old", "new"), TEXTS)
def test_what_once_went_wrong(fuzzing: tuple[Any, ...], file: str, old: str, new: str) -> None:
    fuzz, seeds, scenes = fuzzing
    cases = []
    for target, each in scenes.items():
        for scene in dict.fromkeys(each):
            if Path(scene.file).name == file and old in (text := (seeds / scene.file).read_text()):
                content = text.replace(old, new, 1).encode("utf-8", "surrogatepass")
                cases.append(fuzz.Case(target, 0, len(cases), scene, content))
    assert cases, f"{old!r} stands in no {file}"
    found = list(fuzz.run_cases(iter(cases), seeds))
    assert [said(failure) for _, failure in found if failure] == []
