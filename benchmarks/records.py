"""Record data: disguise and count, against other engines, an undisguised count and the floor.

Every contestant reads the same Parquet files (texts, as a survey has them), disguises each
attribute by k-ary response and counts reports over the first four.  CPU seconds of all threads are
compared, a record at a time, in rounds that take turns.

The expert's script draws ChaCha20 words as we do; DuckDB draws by its own ``random()``, which
protects nobody.  The floor decodes the same columns and draws the words, and does nothing else.

    python benchmarks/records.py --records 1e7 --attributes 12 --rounds 3

With ``--workers`` partitions of a million records are generated, disguised and counted by worker
processes, for several sizes: records a second, CPU time, and the largest memory of a worker, which
should not grow.

    python benchmarks/records.py --workers 2 --sizes 1e7 3e7 1e8
"""

from __future__ import annotations

import math
import os
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from timing import Claim, interleave, options, ratio, report

import ppdm_dask as pp
from ppdm_dask.cluster.partitions import Partition, disguise_and_count, parquet_partitions

SIZES = (2, 3, 5, 4, 2, 6, 3, 2, 4, 5, 2, 8)
COUNTED = 4
KEPT = 0.7
GROUP = 1 << 19
FILES = 2

Contestant = Callable[[], int]


def labels(k: int) -> list[str]:
    return [f"answer {v}" for v in range(k)]


def write(folder: Path, n: int, sizes: dict[str, int]) -> list[Path]:
    """Files of one data set, in row groups of half a million records."""
    rng, files = np.random.default_rng(1), []
    for part in range(FILES):
        files.append(folder / f"part-{part}.parquet")
        schema = pa.schema([(name, pa.string()) for name in sizes])
        with pq.ParquetWriter(files[-1], schema) as writer:
            low, high = n * part // FILES, n * (part + 1) // FILES
            for start in range(low, high, GROUP):
                m = min(GROUP, high - start)
                columns = [
                    pa.array(labels(k)).take(pa.array(rng.integers(0, k, m)))
                    for k in sizes.values()
                ]
                writer.write_table(pa.table(columns, schema=schema), row_group_size=GROUP)
    return files


def words(n: int) -> np.ndarray:
    """Uniform words of ChaCha20 under a key of the operating system."""
    return pp.Stream.from_entropy().source().words(n)


def ours(files: list[Path], sizes: dict[str, int]) -> tuple[Contestant, Contestant]:
    """From files, and from codes that are in memory."""
    book = pp.Codebook(tuple(pp.Attribute(name, labels(k)) for name, k in sizes.items()))
    design = pp.Product([pp.KaryResponse(name, k, p=KEPT) for name, k in sizes.items()])
    over = list(sizes)[:COUNTED]
    rng = np.random.default_rng(2)
    codes = np.stack([rng.integers(0, k, GROUP) for k in sizes.values()], axis=1)
    records = pp.Records(codes.astype(np.uint8), book)

    def read() -> int:
        parts = parquet_partitions(files, book)
        (table,) = disguise_and_count(parts, book, design, pp.Stream.from_entropy(), [over])
        return table.n

    def generated() -> int:
        return pp.count(design.disguise(records, pp.Stream.from_entropy()), design, over).n

    return read, generated


def batches(files: list[Path], names: list[str]) -> Iterator[pa.Table]:
    for path in files:
        with pq.ParquetFile(path, read_dictionary=names) as file:
            for i in range(file.num_row_groups):
                yield file.read_row_group(i, names, use_threads=False)


def floor(files: list[Path], sizes: dict[str, int]) -> Contestant:
    """Bytes decoded and words drawn: one an attribute, a bit for its coin as we draw it."""

    def run() -> int:
        n = 0
        for table in batches(files, list(sizes)):
            n += len(table)
            for k in sizes.values():
                words(len(table) // 8 if k == 2 else len(table) * 9 // 8)
        return n

    return run


def tally(columns: list[np.ndarray], sizes: dict[str, int]) -> np.ndarray:
    index = np.zeros(len(columns[0]), np.int64)
    for codes, k in zip(columns[:COUNTED], sizes.values(), strict=False):
        index *= k
        index += codes
    return np.bincount(index, minlength=math.prod(list(sizes.values())[:COUNTED]))


def disguised(codes: np.ndarray, k: int) -> np.ndarray:
    """k-ary response as an expert writes it: one word a record decides coin and category."""
    drawn = words(len(codes))
    scaled = (drawn >> np.uint64(32)).astype(np.uint32)
    keep = scaled < np.uint32(KEPT * 2**32)
    step = ((drawn & np.uint64(0xFFFFFFFF)) * np.uint64(k - 1) >> np.uint64(32)).astype(np.uint8)
    other = codes + step + np.uint8(1)
    other -= np.where(other >= k, np.uint8(k), np.uint8(0))
    return np.where(keep, codes, other)


def pandas_numpy(files: list[Path], sizes: dict[str, int]) -> Contestant:
    import pandas as pd

    def run() -> int:
        total = np.zeros(math.prod(list(sizes.values())[:COUNTED]), np.int64)
        for path in files:
            frame = pd.read_parquet(path, columns=list(sizes))
            columns = []
            for name, k in sizes.items():
                codes = pd.Categorical(frame[name], categories=labels(k)).codes
                columns.append(disguised(codes.astype(np.uint8), k))
            total += tally(columns, sizes)
        return int(total.sum())

    return run


def polars_numpy(files: list[Path], sizes: dict[str, int]) -> Contestant:
    import polars as pl

    def run() -> int:
        total = np.zeros(math.prod(list(sizes.values())[:COUNTED]), np.int64)
        for path in files:
            frame = pl.scan_parquet(path).with_columns(
                pl.col(name).cast(pl.Enum(labels(k))).to_physical() for name, k in sizes.items()
            )
            read = frame.collect()
            columns = [
                disguised(read[name].to_numpy().astype(np.uint8), k) for name, k in sizes.items()
            ]
            total += tally(columns, sizes)
        return int(total.sum())

    return run


def duck(files: list[Path], sizes: dict[str, int]) -> Contestant:
    import duckdb

    def one(name: str, k: int) -> str:
        listed = ", ".join(f"'{label}'" for label in labels(k))
        code = f"list_position([{listed}], {name}) - 1"
        other = f"({code} + 1 + floor(random() * {k - 1})::INTEGER) % {k}"
        return f"CASE WHEN random() < {KEPT} THEN {code} ELSE {other} END AS {name}"

    over = ", ".join(list(sizes)[:COUNTED])
    # Volatile columns that nobody counts would be left out: they are summed.
    rest = "".join(f", sum({name})" for name in list(sizes)[COUNTED:])
    select = ", ".join(one(name, k) for name, k in sizes.items())
    paths = ", ".join(f"'{path}'" for path in files)
    query = (
        f"WITH d AS MATERIALIZED (SELECT {select} FROM read_parquet([{paths}])) "
        f"SELECT count(*) AS n{rest} FROM d GROUP BY {over}"
    )

    def run() -> int:
        with duckdb.connect() as connection:
            return sum(row[0] for row in connection.execute(query).fetchall())

    return run


def dask_groupby(files: list[Path], sizes: dict[str, int]) -> Contestant:
    """Nothing is disguised: what a Dask user counts already."""
    import dask.dataframe as dd

    over = list(sizes)[:COUNTED]

    def run() -> int:
        # All columns are read, as all of them are disguised by the others.
        frame = dd.read_parquet([str(path) for path in files], split_row_groups=True)
        counted = frame.map_partitions(
            lambda part: part.groupby(over, observed=True).size(), meta=("n", "int64")
        )
        return int(counted.compute(scheduler="threads").sum())

    return run


PEERS: dict[str, Callable[[list[Path], dict[str, int]], Contestant]] = {
    "pandas and NumPy": pandas_numpy,
    "Polars and NumPy": polars_numpy,
    "DuckDB, random()": duck,
    "Dask groupby, undisguised": dask_groupby,
    "floor: decode and draw": floor,
}
BOUNDS: dict[str, dict[str, Any]] = {
    "pandas and NumPy": {"most": 1.0},
    "Polars and NumPy": {"most": 1.5},
    "DuckDB, random()": {"most": 1.0},
    "Dask groupby, undisguised": {"most": 1.5},
    "floor: decode and draw": {"most": 4.0},
}


PART = 1 << 20
FLAT = 1.1


@dataclass(frozen=True)
class Generated:
    """A partition's answers, drawn where they are disguised; as texts in dictionaries."""

    part: int
    records: int
    sizes: tuple[tuple[str, int], ...]

    def __call__(self) -> Any:
        import pandas as pd

        rng = np.random.default_rng(self.part)
        return pd.DataFrame(
            {
                name: pd.Categorical.from_codes(
                    rng.integers(0, k, self.records, np.int8), categories=labels(k)
                )
                for name, k in self.sizes
            }
        )


def used() -> tuple[float, int]:
    """CPU seconds of this process so far, and its largest memory in bytes."""
    spent = resource.getrusage(resource.RUSAGE_SELF)
    return spent.ru_utime + spent.ru_stime, spent.ru_maxrss * 1024


def at_size(n: int, sizes: dict[str, int], workers: int, log: Path) -> dict[str, float]:
    """Disguise, count and estimate n generated records on new worker processes."""
    from ppdm_dask.cluster.client import local_pool

    book = pp.Codebook(tuple(pp.Attribute(name, labels(k)) for name, k in sizes.items()))
    design = pp.Product([pp.KaryResponse(name, k, p=KEPT) for name, k in sizes.items()])
    over = list(sizes)[:COUNTED]

    def run(client: Any, records: int) -> int:
        parts = [
            Partition(low, Generated(i, min(PART, records - low), tuple(sizes.items())))
            for i, low in enumerate(range(0, records, PART))
        ]
        key = pp.Stream.from_entropy()
        (table,) = disguise_and_count(parts, book, design, key, [over], client=client)
        pp.estimate(table, over, design=design)
        return table.n

    with local_pool(workers, log) as pool:
        pool.client.wait_for_workers(workers)
        # Each worker loads its code, and has had a partition or more.
        run(pool.client, 4 * workers * PART)
        before, start = pool.client.run(used), time.perf_counter()
        if run(pool.client, n) != n:
            raise SystemExit(f"{n:,} records: others were counted")
        wall = time.perf_counter() - start
        after = pool.client.run(used)
    cpu = sum(after[worker][0] - before[worker][0] for worker in after)
    return {"cpu": cpu / n, "rate": n / wall, "memory": max(most for _, most in after.values())}


def growth(given: Any, sizes: dict[str, int]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        found = {
            int(n): at_size(int(n), sizes, given.workers, Path(folder) / "log") for n in given.sizes
        }
    (least, first), *_, (_, last) = found.items()
    title = f"Generated records on {given.workers} workers, {len(sizes)} attributes"
    if not given.json:
        for n, each in found.items():
            print(
                f"{n:14,} records {1e9 * each['cpu']:8.1f} ns of CPU a record "
                f"{each['rate'] / 1e6:8.2f} million a second {each['memory'] / 1e6:8.0f} MB"
            )
        print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    grown = last["memory"] / first["memory"]
    claims = [Claim(f"largest memory of a worker, over that at {least:,}", grown, most=FLAT)]
    cpu = {f"{n:,}": [each["cpu"]] for n, each in found.items()}
    report(title, cpu if given.json else {}, claims, given)


def main() -> None:
    title = "Disguise and count of record data, CPU time a record"
    parser = options(title)
    parser.add_argument("--records", type=float, default=1e6, help="1e6 to 1e8")
    parser.add_argument("--attributes", type=int, default=4, choices=range(4, len(SIZES) + 1))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--workers", type=int, default=0, help="generated records on workers")
    parser.add_argument("--sizes", type=float, nargs="+", default=[1e7, 3e7, 1e8])
    given = parser.parse_args()
    # Polars is told before it is loaded: one thread, as CPU time is what is compared.
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    n, sizes = int(given.records), {f"a{i}": k for i, k in enumerate(SIZES[: given.attributes])}
    if given.workers:
        growth(given, sizes)
        return
    with tempfile.TemporaryDirectory() as folder:
        files = write(Path(folder), n, sizes)
        read, generated = ours(files, sizes)
        contestants = {"ours": read, "ours, codes in memory": generated}
        for name, peer in PEERS.items():
            try:
                contestants[name] = peer(files, sizes)
            except ImportError as error:
                print(f"{name}: left out, {error.name} is not installed", file=sys.stderr)
        for name, contestant in contestants.items():
            if name != "ours, codes in memory" and (counted := contestant()) != n:
                raise SystemExit(f"{name}: {counted} records were counted of {n}")
        seconds = interleave(contestants, given.rounds)
    claims = [
        Claim(f"{given.attributes} attributes, ours over {name}", ratio(seconds, "ours", name), **b)
        for name, b in BOUNDS.items()
        if name in seconds
    ]
    if not given.json:
        # A record takes less than the microsecond in which the other benchmarks are told.
        for name, times in seconds.items():
            print(f"{name:32s} {1e9 * statistics.median(times):10,.1f} ns a record")
    report(title, seconds if given.json else {}, claims, given)


if __name__ == "__main__":
    main()
