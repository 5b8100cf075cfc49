"""The page for users of Dask runs as it stands."""

from __future__ import annotations

from pathlib import Path

import pytest
from pages import blocks

from ppdm_dask.data import partitioned


def test_from_parquet_to_an_interval(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(partitioned, "_disguised", {})
    names: dict[str, object] = {}
    for block in blocks("docs/dask.md", "python"):
        exec(compile(block.text, block.place, "exec"), names)
    # .2 of 100,000 people by Warner's design at .8: SE .0026.
    assert abs(names["share"] - 0.2) < 0.011  # type: ignore[operator]
    assert names["low"] < names["share"] < names["high"]  # type: ignore[operator]
    assert len(list((tmp_path / "reports").glob("*.parquet"))) == 8
