"""``ppdm disguise`` on Parquet files against an expert's script, as whole programs.

The script does what the command does and no more: it reads the same files by Polars, draws ChaCha20
words under a key of the operating system, disguises by NumPy and writes reports as dictionary
Parquet.  The command also checks values, keeps a record of disguises and seals its files.

CPU seconds are those of a process and its workers, as the system counts them; programs take turns.
Start-up is the command on a thousand records.

    python benchmarks/disguise.py --records 1e7 --rounds 5

With ``--memory`` it is the largest memory of ``ppdm disguise`` and ``ppdm count``, by the number of
records, which should not grow beyond a million.

    python benchmarks/disguise.py --memory 1e4 1e6 1e7 1e8
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from timing import Claim, options, ratio, report

SIZES = {"a0": 2, "a1": 3, "a2": 5, "a3": 4}
KEPT = 0.7
FEW = 1_000
FLAT_FROM = 1_000_000


def labels(k: int) -> list[str]:
    return [f"answer {v}" for v in range(k)]


def peer(data: Path, out: Path) -> None:
    """The expert's script."""
    import polars as pl
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms

    encryptor = Cipher(algorithms.ChaCha20(os.urandom(32), bytes(16)), mode=None).encryptor()
    zeros = bytes(1 << 20)

    def words(n: int) -> np.ndarray:
        drawn = np.empty(n, np.uint64)
        stream = drawn.view(np.uint8)
        for low in range(0, stream.size, len(zeros)):
            part = stream[low : low + len(zeros)]
            encryptor.update_into(zeros[: part.size], part.data)
        return drawn

    def disguised(codes: np.ndarray, k: int) -> np.ndarray:
        # One word decides coin and category.
        drawn = words(len(codes))
        keep = (drawn >> np.uint64(32)).astype(np.uint32) < np.uint32(KEPT * 2**32)
        low = drawn & np.uint64(0xFFFFFFFF)
        other = codes + (low * np.uint64(k - 1) >> np.uint64(32)).astype(np.uint8) + np.uint8(1)
        other -= np.where(other >= k, np.uint8(k), np.uint8(0))
        return np.where(keep, codes, other)

    out.mkdir()
    kinds = {name: pl.Enum(labels(k)) for name, k in SIZES.items()}
    for path in sorted(data.glob("*.parquet")):
        read = pl.scan_parquet(path).with_columns(
            pl.col(name).cast(kind).to_physical().cast(pl.UInt8) for name, kind in kinds.items()
        )
        codes = read.collect()
        reports = {
            name: pl.Series(disguised(codes[name].to_numpy(), k)).cat.to(kinds[name])
            for name, k in SIZES.items()
        }
        pl.DataFrame(reports).write_parquet(out / path.name, statistics=False)


def write(folder: Path, n: int) -> None:
    from records import write as write_answers

    folder.mkdir()
    write_answers(folder, n, SIZES)


@dataclass(frozen=True)
class Cost:
    """Seconds of processor and of the clock, and the largest memory in bytes."""

    cpu: float
    wall: float
    memory: int


def timed(command: Sequence[str | Path]) -> Cost:
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{command[0]} failed with exit code {process.returncode}")
    return Cost(used.ru_utime + used.ru_stime, time.perf_counter() - start, used.ru_maxrss * 1024)


def reports_in(folder: Path) -> int:
    import pyarrow.parquet as pq

    return sum(pq.read_metadata(path).num_rows for path in folder.glob("*.parquet"))


def write_survey(folder: Path) -> list[str | Path]:
    """A codebook and a design; options that name them."""
    import ppdm_dask as pp

    book = pp.Codebook(tuple(pp.Attribute(name, labels(k)) for name, k in SIZES.items()))
    book.to_toml(folder / "codebook.toml")
    design = ["id = 'product'"]
    for name, k in SIZES.items():
        design += ["[[blocks]]", "id = 'kary'", f"attribute = '{name}'", f"n = {k}", f"p = {KEPT}"]
    (folder / "design.toml").write_text("\n".join(design) + "\n")
    # Whoever runs this keeps no record of it.
    os.environ["XDG_STATE_HOME"] = str(folder / "state")
    return ["--codebook", folder / "codebook.toml", "--design", folder / "design.toml"]


def memory(folder: Path, sizes: Sequence[int]) -> dict[str, dict[int, int]]:
    """Largest memory in bytes of both commands, by the number of records."""
    files, ppdm = write_survey(folder), Path(sys.executable).with_name("ppdm")
    found: dict[str, dict[int, int]] = {"disguise": {}, "count": {}}
    for n in sizes:
        data, reports, counts = (folder / f"{n}{end}" for end in ("", "-r.parquet", "-c.parquet"))
        write(data, n)
        over = [option for name in SIZES for option in ("--over", name)]
        commands = {
            "disguise": [ppdm, "disguise", data, *files, "--out", reports],
            "count": [ppdm, "count", reports, *files, *over, "--out", counts],
        }
        for name, command in commands.items():
            found[name][n] = timed(command).memory
        subprocess.run(["rm", "-r", data, reports, counts], check=True)
    return found


def grown(given: argparse.Namespace) -> None:
    """Print the memory by size, and claim that it does not grow from a million on."""
    with tempfile.TemporaryDirectory() as folder:
        found = memory(Path(folder), [int(n) for n in given.memory])
    claims = []
    for name, sizes in found.items():
        if not given.json:
            for n, most in sizes.items():
                print(f"ppdm {name:10s}{n:14,} records {most / 1e6:8.0f} MB")
        large = [most for n, most in sizes.items() if n >= FLAT_FROM]
        if len(large) > 1:
            said = f"ppdm {name}, largest memory over that at {FLAT_FROM:,} records"
            claims.append(Claim(said, max(large) / large[0], most=1.15))
    report("Memory of ppdm disguise and ppdm count", {}, claims, given)


def rounds(folder: Path, n: int, number: int, workers: int) -> dict[str, list[Cost]]:
    files = write_survey(folder)
    write(folder / "many", n)
    write(folder / "few", FEW)

    def ours(data: str, *more: str) -> list[str | Path]:
        command = Path(sys.executable).with_name("ppdm")
        return [command, "disguise", folder / data, *files, *more, "--out"]

    commands = {
        "ours": ours("many", "--workers", "0"),
        f"ours, {workers} workers": ours("many", "--workers", str(workers)),
        "Polars and NumPy": [sys.executable, __file__, "--peer", folder / "many"],
        "start-up": ours("few"),
        "start-up of Polars and NumPy": [sys.executable, __file__, "--peer", folder / "few"],
    }
    costs: dict[str, list[Cost]] = {name: [] for name in commands}
    for turn in range(-1, number):
        for name, command in commands.items():
            out = folder / f"{turn} {name}"
            cost = timed([*command, out])
            if (made := reports_in(out)) != (FEW if "start" in name else n):
                raise SystemExit(f"{name}: wrote {made} reports")
            subprocess.run(["rm", "-r", out], check=True)
            for record in folder.glob("*/.ppdm-disguises.json"):
                record.unlink()
            if turn >= 0:
                costs[name].append(cost)
    return costs


def main() -> None:
    title = "ppdm disguise of Parquet files, the whole program"
    parser = options(title)
    parser.add_argument("--records", type=float, default=1e7)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--memory", type=float, nargs="+", metavar="RECORDS")
    parser.add_argument("--peer", type=Path, nargs=2, help="run the script: DATA OUT")
    given = parser.parse_args()
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    # Installed programs are compiled once.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    if given.peer:
        peer(*given.peer)
        return
    if given.memory:
        grown(given)
        return
    n, workers = int(given.records), f"ours, {given.workers} workers"
    with tempfile.TemporaryDirectory() as folder:
        costs = rounds(Path(folder), n, given.rounds, given.workers)
    cpu = {name: [cost.cpu for cost in each] for name, each in costs.items()}
    wall = {name: [cost.wall for cost in each] for name, each in costs.items()}
    start = statistics.median(wall["start-up"])
    claims = [
        Claim(
            f"{n:,} records, CPU, ours over Polars and NumPy",
            ratio(cpu, "ours", "Polars and NumPy"),
            most=1.5,
        ),
        Claim("start-up over a second", start, most=1.0),
        Claim(
            f"clock, one process over {given.workers} workers", ratio(wall, "ours", workers), 1.7
        ),
    ]
    if not given.json:
        for name in costs:
            used, passed = statistics.median(cpu[name]), statistics.median(wall[name])
            print(f"{name:32s} {used:8.2f} s of CPU {passed:8.2f} s")
        print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    report(title, cpu if given.json else {}, claims, given)


if __name__ == "__main__":
    main()
