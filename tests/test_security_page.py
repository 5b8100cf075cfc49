"""The page on security names tests that there are."""

from __future__ import annotations

import re
from pathlib import Path


def test_each_promise_has_a_test_that_is_there(root: Path) -> None:
    page = (root / "docs/security.md").read_text()
    rows = [line for line in page.splitlines() if re.fullmatch(r"\|.*\.py`.*\|", line)]
    assert len(rows) > 15
    for row in rows:
        promise, tests = row.strip("|").rsplit("|", 1)
        named = re.findall(r"`([\w/]+\.py)`", tests)
        assert named, promise
        for name in named:
            assert (root / "tests" / name).is_file(), (promise, name)
            assert "def test_" in (root / "tests" / name).read_text()
