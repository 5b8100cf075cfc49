"""AIBR on two workers: the release of one partition, in memory that does not grow with parts."""

from __future__ import annotations

import resource
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ppdm_dask.cluster.client import local_pool
from ppdm_dask.cluster.partitions import parquet_partitions
from ppdm_dask.cluster.perturbing import perturb_partitions
from ppdm_dask.perturb import AIBR
from ppdm_dask.randomness import Stream

pytestmark = pytest.mark.cluster

COLUMNS = [f"x{j}" for j in range(8)]
GROUP = 100_000


def peak() -> int:
    """Bytes that the process has used at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def write(path: Path, groups: int) -> None:
    with pq.ParquetWriter(path, pa.schema([(name, pa.float64()) for name in COLUMNS])) as writer:
        for group in range(groups):
            values = np.random.default_rng(group).normal(size=(GROUP, 8))
            writer.write_table(pa.table(dict(zip(COLUMNS, values.T, strict=True))))


def test_memory_is_flat_and_the_release_the_same(tmp_path: Path) -> None:
    peaks = []
    with local_pool(2, tmp_path / "workers.log") as pool:
        pool.client.wait_for_workers(2, timeout=60)
        for groups in (4, 24):
            data = tmp_path / f"{groups}.parquet"
            write(data, groups)
            parts = perturb_partitions(
                AIBR(7),
                parquet_partitions(data, COLUMNS, records=1),
                COLUMNS,
                Stream.from_seed(1),
                tmp_path / str(groups),
                client=pool.client,
            )
            peaks.append(max(pool.client.run(peak).values()))
            assert len(parts.files) == groups
            assert parts.counts.sum(axis=1).tolist() == [groups * GROUP] * 8
    # 20 partitions more are 128 MB of originals and as much again of releases.
    assert peaks[1] - peaks[0] < 50e6
    whole = pd.read_parquet(tmp_path / "4.parquet")
    files = sorted((tmp_path / "4").iterdir())
    released = pd.concat([pd.read_parquet(file) for file in files], ignore_index=True)
    expected = AIBR(7).fit(whole).perturb(whole, Stream.from_seed(1))
    np.testing.assert_array_equal(released.to_numpy(), expected)
