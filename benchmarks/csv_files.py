"""CSV files: reading, encoding, disguising and counting, beside bare parsers.

Contestants read the same file of short texts in turns:

- pyarrow: texts as dictionaries, and nothing is looked at;
- pyarrow, texts: the same as plain texts;
- Python's csv, row by row;
- ours: blocks of texts with the line of each, where whatever is no CSV is refused;
- ours, encoded: also compared with a codebook;
- ours, disguised and counted: also k-ary response on each attribute, and a table of four.

    python benchmarks/csv_files.py --records 1e6 --rounds 5
"""

from __future__ import annotations

import csv
import statistics
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
from timing import Claim, interleave, options, ratio, report

import ppdm_dask as pp
from ppdm_dask.files.reader import open_data

SIZES = {"a0": 2, "a1": 3, "a2": 5, "a3": 4, "a4": 2, "a5": 6, "a6": 3}
COUNTED = list(SIZES)[:4]


def labels(k: int) -> list[str]:
    return [f"answer {v}" for v in range(k)]


def write(path: Path, n: int) -> None:
    rng = np.random.default_rng(1)
    columns = {
        name: pa.array(labels(k)).take(pa.array(rng.integers(0, k, n))) for name, k in SIZES.items()
    }
    arrow_csv.write_csv(pa.table(columns), path, arrow_csv.WriteOptions(quoting_style="none"))


def main() -> None:
    title = "CSV of seven attributes, CPU time a record"
    parser = options(title)
    parser.add_argument("--records", type=float, default=1e6)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    n = int(given.records)
    book = pp.Codebook(tuple(pp.Attribute(name, labels(k)) for name, k in SIZES.items()))
    design = pp.Product([pp.KaryResponse(name, k, p=0.7) for name, k in SIZES.items()])
    texts = pa.dictionary(pa.int32(), pa.string())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "answers.csv"
        write(path, n)

        def by_arrow(kinds: dict[str, pa.DataType]) -> int:
            how = arrow_csv.ConvertOptions(column_types=kinds)
            serial = arrow_csv.ReadOptions(use_threads=False)
            return len(arrow_csv.read_csv(path, serial, convert_options=how))

        def by_python() -> int:
            with path.open(newline="") as file:
                return sum(1 for _ in csv.reader(file)) - 1

        def read() -> int:
            return sum(len(block.frame) for block in open_data(path).blocks(list(SIZES)))

        def encoded() -> int:
            blocks = open_data(path).blocks(list(SIZES))
            return sum(len(book.encode(block.frame, block.offset)) for block in blocks)

        def counted() -> int:
            table = None
            for block in open_data(path).blocks(list(SIZES)):
                records = book.encode(block.frame, block.offset)
                reports = design.disguise(records, pp.Stream.from_entropy())
                part = pp.count(reports, design, COUNTED)
                table = part if table is None else table + part
            assert table is not None
            return table.n

        contestants = {
            "pyarrow": lambda: by_arrow(dict.fromkeys(SIZES, texts)),
            "pyarrow, texts": lambda: by_arrow({}),
            "Python's csv": by_python,
            "ours": read,
            "ours, encoded": encoded,
            "ours, disguised and counted": counted,
        }
        for name, contestant in contestants.items():
            if (found := contestant()) != n:
                raise SystemExit(f"{name}: {found} records were read of {n}")
        seconds = interleave(contestants, given.rounds)
    if not given.json:
        for name, times in seconds.items():
            print(f"{name:32s} {1e9 * statistics.median(times):10,.1f} ns a record")
    claims = [
        Claim("ours over pyarrow", ratio(seconds, "ours", "pyarrow"), most=2),
        Claim("ours over pyarrow, texts", ratio(seconds, "ours", "pyarrow, texts"), most=1),
        Claim("ours over Python's csv", ratio(seconds, "ours", "Python's csv"), most=1),
        Claim(
            "ours, disguised and counted, over pyarrow",
            ratio(seconds, "ours, disguised and counted", "pyarrow"),
            most=3,
        ),
    ]
    report(title, seconds if given.json else {}, claims, given)


if __name__ == "__main__":
    main()
