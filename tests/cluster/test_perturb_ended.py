"""``ppdm perturb --workers`` that is ended: no worker's half-written true columns stay."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytestmark = pytest.mark.cluster


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_no_part(tmp_path: Path, number: signal.Signals) -> None:
    n = 1_500_000
    table = pa.table({"a": np.random.default_rng(1).normal(size=n), "name": ["Zebulon"] * n})
    pq.write_table(table, tmp_path / "d.parquet", row_group_size=n // 5)
    command = [sys.executable, "-m", "ppdm_dask", "perturb", "d.parquet", "--method", "aibr"]
    command += ["--k", "8", "--out", "out", "--keep", "name", "--workers", "2"]
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # tests may run where it is ignored
    process = subprocess.Popen(
        command, cwd=tmp_path, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )
    signal.signal(signal.SIGHUP, before)
    with process:
        deadline = time.monotonic() + 120
        while not list(tmp_path.glob("out/.part-*")) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert process.poll() is None
        process.send_signal(number)
        process.wait(60)
    assert process.returncode == 130
    assert list(tmp_path.glob("out/.*")) == []
