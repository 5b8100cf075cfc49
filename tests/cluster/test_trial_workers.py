"""A trial on worker processes gives the numbers that it gives in one."""

from __future__ import annotations

from pathlib import Path

import pytest

from ppdm_dask.experiments.kinds import load_recipe
from ppdm_dask.experiments.run import run

pytestmark = pytest.mark.cluster


def test_the_digest_is_that_of_one_process(tmp_path: Path) -> None:
    recipe = load_recipe("rules").with_changes(repeats=6)
    one = run(recipe, workers=0, out=tmp_path / "one")
    two = run(recipe, workers=2, batch_seconds=0.05, out=tmp_path / "two")
    assert one.digest is not None
    assert two.digest == one.digest
