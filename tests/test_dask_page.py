"""The page for users of Dask runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ppdm_dask.data import partitioned


def test_from_parquet_to_an_interval(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(partitioned, "_disguised", {})
    page = (root / "docs" / "dask.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    assert len(blocks) == 5
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "docs/dask.md", "exec"), names)
    # .2 of 100,000 people by Warner's design at .8: SE .0026.
    assert abs(names["share"] - 0.2) < 0.011  # type: ignore[operator]
    assert names["low"] < names["share"] < names["high"]  # type: ignore[operator]
    assert len(list((tmp_path / "reports").glob("*.parquet"))) == 8
