"""Raw values are looked for in all that is sent or written, by every process of a command."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import ppdm_dask as pp
from ppdm_dask.designs.files import write_design

pytestmark = pytest.mark.cluster

N = 20_000
NAME = "canary-3f6a"
INCOME = 61_417.328125
FORMS = [NAME.encode(), b"61417.3281", struct.pack("<d", INCOME), struct.pack(">d", INCOME)]
BOOK = pp.Codebook(
    (
        pp.Attribute("smokes", ("no", "yes")),
        pp.Attribute("income", ("low", "high"), cuts=(50_000.0,)),
    )
)
DESIGN = pp.Product([pp.Warner("smokes", 0.8), pp.Warner("income", 0.7)])
BOTH = ["--codebook", "c.toml", "--design", "d.toml"]

# Python runs this at the start of each process; what goes into messages, and comes out, is kept.
WIRE = """
import os
from distributed.comm import tcp

to_frames, from_frames = tcp.to_frames, tcp.from_frames

def keep(frames):
    with open(os.path.join(os.environ["PPDM_WIRE"], f"{os.getpid()}.bin"), "ab") as file:
        for frame in frames:
            file.write(frame)

async def sent(*arguments, **options):
    frames = await to_frames(*arguments, **options)
    keep(frames)
    return frames

async def received(frames, *arguments, **options):
    keep(frames)
    return await from_frames(frames, *arguments, **options)

tcp.to_frames, tcp.from_frames = sent, received
"""

LAZY = """
import dask, dask.dataframe as dd
from distributed import Client, LocalCluster
import ppdm_dask as pp

if __name__ == "__main__":
    book = pp.Codebook.from_toml("c.toml")
    design = pp.Design.read("d.toml", book)
    settings = {"distributed.worker.memory.target": 1e-9}
    with (
        dask.config.set(settings),
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster),
    ):
        for answers in ("data/*.parquet", dd.read_parquet("data")):
            reports = design.disguise(answers)
            kept = reports.persist()
            assert pp.count(kept).n == 20_000
            reports.to_frame().groupby("income", observed=True).size().compute()
            reports.to_parquet("lazy" if isinstance(answers, str) else "frame")
            assert pp.count("lazy", over=["income"]).n == 20_000
"""


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "code"))
    monkeypatch.setenv("PPDM_WIRE", str(tmp_path / "wire"))
    monkeypatch.setenv("DASK_DISTRIBUTED__COMM__COMPRESSION", "False")
    for name in ("tmp", "state", "code", "wire", "data"):
        Path(name).mkdir()
    Path("code/sitecustomize.py").write_text(WIRE)
    Path("c.toml").write_text(BOOK.as_toml())
    write_design(DESIGN, "d.toml")
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(
        {
            "name": [f"{NAME}-{i}" for i in range(N)],
            "smokes": rng.choice(["no", "yes"], N),
            "income": rng.choice([20_000.0, INCOME], N),
        }
    )
    for i in range(2):
        frame.iloc[i::2].to_parquet(f"data/{i}.parquet", row_group_size=1_000, index=False)


def files_below(folder: Path) -> Iterator[Path]:
    """Files below a folder; those of folders that are gone by then are passed over."""
    for place, _, names in os.walk(folder):
        yield from (Path(place, name) for name in names)


def holding(folder: Path) -> list[str]:
    """Files below a folder that hold a raw value."""
    found = []
    for path in files_below(folder):
        try:
            if path.is_file() and path.relative_to(folder).parts[0] not in ("data", "code"):
                text = path.read_bytes()
                found += [f"{path}: {form!r}" for form in FORMS if form in text]
        except FileNotFoundError:  # it was there for a moment
            continue
    return found


@contextmanager
def watched(folder: Path) -> Iterator[list[str]]:
    """What was found at any time, in files that are gone at the end too."""
    found: list[str] = []
    stop = threading.Event()

    def look() -> None:
        while not stop.wait(0.2):
            found.extend(holding(folder))

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        yield found
    finally:
        stop.set()
        watcher.join()
        found.extend(holding(folder))


def processes() -> set[str]:
    return {path.name for path in Path("wire").iterdir() if path.stat().st_size > 1_000}


def ppdm(*arguments: str, code: int = 0) -> str:
    command = [sys.executable, "-m", "ppdm_dask", *arguments, "--workers", "2"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


def test_commands_with_workers(tmp_path: Path) -> None:
    with watched(tmp_path) as found:
        said = ppdm("disguise", "data", *BOTH, "--drop", "name", "--out", "R")
        said += ppdm("count", "R", *BOTH, "--out", "counts.parquet")
        # Driver and two workers, each time.
        assert len(processes()) >= 6
        bad = pd.read_parquet("data/1.parquet")
        bad.loc[4_321, "smokes"] = f"{NAME}-bad"
        bad.to_parquet("data/1.parquet", row_group_size=1_000, index=False)
        said += ppdm("disguise", "data", *BOTH, "--drop", "name", "--out", "S", code=2)
    assert "row 4321: the value is not declared" in said
    assert found == []
    assert not [form for form in FORMS if form in said.encode()]


def test_lazy_reports_on_a_cluster_that_spills(tmp_path: Path) -> None:
    Path("code/lazy.py").write_text(LAZY)
    spilled = False
    with watched(tmp_path) as found:
        command = [sys.executable, "code/lazy.py"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
            while process.poll() is None:
                spilled = spilled or any(
                    "storage" in path.parent.parts for path in files_below(Path("tmp"))
                )
                time.sleep(0.05)
            assert process.stdout is not None
            said = process.stdout.read()
    assert process.returncode == 0, said.decode()
    assert spilled and len(processes()) >= 3
    assert found == []
    assert not [form for form in FORMS if form in said]


def test_the_search_finds_what_is_sent_and_written(tmp_path: Path) -> None:
    """As Dask itself sends and spills a frame of answers."""
    code = LAZY.partition("        for answers")[0]
    code += (
        "        frame = dd.read_parquet('data').persist()\n"
        "        frame.compute()\n"
        "        __import__('time').sleep(1)\n"
    )
    Path("code/raw.py").write_text(code)
    with watched(tmp_path) as found:
        subprocess.run([sys.executable, "code/raw.py"], check=True, capture_output=True)
    for place, form in (("wire", FORMS[0]), ("wire", FORMS[2]), ("tmp", FORMS[0])):
        assert [each for each in found if str(tmp_path / place) in each and repr(form) in each]
    assert os.path.exists("wire")
