"""AIBR on partitioned records: records a second, and memory against the number of partitions.

Two workers perturb Parquet files with row groups of one size and more and more of them. The claim
is that the largest worker's memory does not grow with their number, and that the smallest file
gives the same release as one partition.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from ppdm_dask.cluster.client import local_pool
from ppdm_dask.cluster.partitions import parquet_partitions
from ppdm_dask.cluster.perturbing import perturb_partitions
from ppdm_dask.perturb import AIBR
from ppdm_dask.randomness import Stream

COLUMNS = [f"x{j}" for j in range(8)]
GROUP = 156_250
"""Records of a row group: 10^7 records are 64 of them."""


def write(path: Path, groups: int) -> None:
    with pq.ParquetWriter(path, pa.schema([(name, pa.float64()) for name in COLUMNS])) as writer:
        for group in range(groups):
            values = np.random.default_rng(group).lognormal(size=(GROUP, 8))
            frame = pd.DataFrame(values, columns=COLUMNS)
            writer.write_table(pa.Table.from_pandas(frame, preserve_index=False))


def peak() -> int:
    """Bytes that the process has used at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def measure(folder: Path, groups: int) -> tuple[float, float]:
    """Seconds, and the largest worker's memory in MB, in a pool of its own."""
    data = folder / f"{groups}.parquet"
    write(data, groups)
    with local_pool(2, folder / "workers.log") as pool:
        pool.client.wait_for_workers(2, timeout=60)
        partitions = parquet_partitions(data, COLUMNS, records=1)
        began = time.perf_counter()
        perturb_partitions(
            AIBR(20),
            partitions,
            COLUMNS,
            Stream.from_seed(1),
            folder / str(groups),
            client=pool.client,
        )
        seconds = time.perf_counter() - began
        memory = max(pool.client.run(peak).values()) / 1e6
    return seconds, memory


def main() -> None:
    sizes = [int(text) for text in sys.argv[1:]] or [8, 16, 32, 64]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        print("partitions      records   seconds   records/s   largest worker, MB")
        for groups in sizes:
            seconds, memory = measure(folder, groups)
            n = groups * GROUP
            print(f"{groups:10d} {n:12,d} {seconds:9.2f} {n / seconds:11,.0f} {memory:20.0f}")
        first = sizes[0]
        parts = sorted((folder / str(first)).iterdir())
        released = pd.concat([pd.read_parquet(part) for part in parts], ignore_index=True)
        whole = pd.read_parquet(folder / f"{first}.parquet")
        expected = AIBR(20).fit(whole).perturb(whole, Stream.from_seed(1))
        same = np.array_equal(released.to_numpy(), expected)
        print(f"{first} partitions release what one does: {same}")


if __name__ == "__main__":
    main()
