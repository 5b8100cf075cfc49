"""The survey commands on worker processes: the same reports, and no answer beyond its task."""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

import ppdm_dask as pp
from ppdm_dask.cluster import worker
from ppdm_dask.cluster.client import Pool, local_pool
from ppdm_dask.cluster.spread import Place, summed
from ppdm_dask.designs.files import write_design
from ppdm_dask.errors import ClusterError, DataError
from ppdm_dask.survey import pieces
from ppdm_dask.survey.counts import count_files, open_sources
from ppdm_dask.survey.disguise import disguise_file

pytestmark = pytest.mark.cluster

N = 20_000
CANARY = "canary-7c1d"
BOOK = pp.Codebook(
    (pp.Attribute("smokes", ("no", "yes")), pp.Attribute("drug", ("never", "once", "often")))
)
DESIGN = pp.Product([pp.Warner("smokes", 0.8), pp.KaryResponse("drug", 3, epsilon=1.5)])
NAMES = {"codebook": Path("c.toml"), "design": Path("d.toml")}
BOTH = ["--codebook", "c.toml", "--design", "d.toml"]


class Borrowed(Place):
    """Workers that are there already."""

    pool: Pool
    elsewhere = True

    @contextmanager
    def client(self) -> Iterator[Any]:
        yield self.pool.client


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    with local_pool(2, tmp_path_factory.mktemp("pool") / "workers.log") as found:
        found.client.wait_for_workers(2, timeout=60)
        yield found


@pytest.fixture
def place(pool: Pool) -> Place:
    made = Borrowed(2)
    object.__setattr__(made, "pool", pool)
    return made


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(pieces, "RECORDS", 1_500)
    Path("c.toml").write_text(BOOK.as_toml())
    write_design(DESIGN, "d.toml")


def answers(n: int = N, seed: int = 1) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    codes = np.stack([rng.integers(0, k, n) for k in BOOK.shape], axis=1)
    return BOOK.decode(pp.Records(codes, BOOK))


def write(frame: pd.DataFrame, path: Path, group: int) -> None:
    path.parent.mkdir(exist_ok=True)
    table = pa.Table.from_pandas(frame, preserve_index=False)
    if path.suffix == ".csv":
        frame.to_csv(path, index=False)
    elif path.suffix == ".parquet":
        pq.write_table(table, path, row_group_size=group)
    else:
        pyarrow.feather.write_feather(table, path, chunksize=group)


def reports(folder: str) -> pd.DataFrame:
    named = json.loads(Path(folder, "manifest.json").read_text())["parts"]
    parts = [pd.read_parquet(Path(folder, part["name"])).astype(object) for part in named]
    return pd.concat(parts, ignore_index=True)


def of_python(frame: pd.DataFrame) -> pd.DataFrame:
    made = DESIGN.disguise(BOOK.encode(frame), pp.Stream.from_seed(3))
    return BOOK.decode(made).astype(object)


def test_a_worker_that_comes_late_is_compared(pool: Pool) -> None:
    ours = worker.own_versions()
    assert pool.client.submit(worker.require_same, ours, pure=False).result() is None
    late = pool.client.submit(worker.require_same, ours | {"numpy": "1.0"}, pure=False)
    says = rf"worker tls://127\.0\.0\.1:\d+: numpy 1\.0 here, {ours['numpy']} there; a run"
    with pytest.raises(ClusterError, match=says):
        late.result()


def slowly(i: int, _: object, __: object) -> int:
    time.sleep(0.01)
    return i


def test_workers_that_are_killed_as_they_start_are_replaced(tmp_path: Path) -> None:
    """Dask's nannies give up such workers; then nobody would do the work, and it would not end."""
    stop = time.monotonic() + 5
    killed = []

    def kill() -> None:
        while time.monotonic() < stop:
            for child in multiprocessing.active_children():
                if child.name.startswith("Dask Worker") and child.pid:
                    killed.append(child.pid)
                    child.kill()
            time.sleep(0.3)

    with Place(2).client() as client:
        killer = threading.Thread(target=kill)
        killer.start()
        items = [SimpleNamespace(records=1)] * 50
        assert summed(slowly, items, sum, (), client=client) == sum(range(50))
        killer.join()
    assert len(killed) > 2


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".arrow"])
@pytest.mark.parametrize(("files", "group"), [(1, 900), (3, 700), (7, 10_000)])
def test_counts_do_not_depend_on_workers_files_or_formats(
    place: Place, pool: Pool, tmp_path: Path, suffix: str, files: int, group: int
) -> None:
    frame = answers()
    edges = [N * i // files for i in range(files + 1)]
    for i in range(files):
        write(frame.iloc[edges[i] : edges[i + 1]], tmp_path / f"data/{i}{suffix}", group)
    stream = pp.Stream.from_seed(3)
    expected = of_python(frame)
    tables = []
    for name, where in (("here", Place()), ("there", place)):
        disguise_file(tmp_path / "data", BOOK, DESIGN, stream, tmp_path / name, place=where)
        pd.testing.assert_frame_equal(reports(name), expected)
        sources = open_sources([tmp_path / name], BOOK, DESIGN, NAMES)
        for client in (None, pool.client):
            tables.append(count_files(sources, BOOK, DESIGN, BOOK.names, client=client).counts)
    labels = [pd.Categorical(expected[a.name], a.categories) for a in BOOK.attributes]
    plain = pd.crosstab(labels[0], labels[1], dropna=False).to_numpy()
    assert all((table == plain).all() for table in tables)


def test_a_worker_that_is_killed_is_survived(
    place: Place, pool: Pool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pieces, "RECORDS", 1_000)
    frame = answers(200_000)
    write(frame, tmp_path / "s.parquet", 1_000)
    first = next(iter(pool.client.run(os.getpid).values()))

    def kill() -> None:
        deadline = time.monotonic() + 60
        while not list(tmp_path.glob(".R.*.part/part-*")) and time.monotonic() < deadline:
            time.sleep(0.005)
        os.kill(first, signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    stream = pp.Stream.from_seed(3)
    disguise_file(tmp_path / "s.parquet", BOOK, DESIGN, stream, tmp_path / "R", place=place)
    killer.join()
    assert first not in pool.client.run(os.getpid).values()
    pd.testing.assert_frame_equal(reports("R"), of_python(frame))
    assert {path.name[:5] for path in Path("R").iterdir()} == {"part-", "manif"}


def command(block: int = 20) -> list[str]:
    """The command, with small parts, which take the longer the smaller blocks are."""
    Path("run.py").write_text(
        "import sys\n"
        "from ppdm_dask.survey import pieces\n"
        "from ppdm_dask.cli import main\n"
        "if __name__ == '__main__':\n"
        "    pieces.RECORDS = 1000\n"
        "    sys.exit(main())\n"
    )
    drawn = ["--simulate", "3", "--block", str(block), "--workers", "2"]
    return [sys.executable, "run.py", "disguise", "s.parquet", *BOTH, "--out", "R", *drawn]


def test_a_driver_that_is_ended_leaves_nothing_that_counts(tmp_path: Path) -> None:
    frame = answers(200_000)
    write(frame, tmp_path / "s.parquet", 1_000)
    # While workers are being started, and when parts are there.
    early, late = ".R.{}-*.part", ".R.{}-*.part/part-*"
    for number, moment, code in (
        (signal.SIGINT, early, 130),
        (signal.SIGINT, late, 130),
        (signal.SIGKILL, late, -9),
    ):
        with subprocess.Popen(command(), stderr=subprocess.PIPE, text=True) as process:
            deadline = time.monotonic() + 60
            while not list(tmp_path.glob(moment.format(process.pid))):
                assert time.monotonic() < deadline
                time.sleep(0.01)
            process.send_signal(number)
            began = time.monotonic()
            _, said = process.communicate(timeout=60)
        assert (process.returncode, "Traceback" in said) == (code, False)
        assert not re.search("INFO|WARNING|distributed", said), said
        assert time.monotonic() < began + 8
        assert not Path("R").exists()
        assert len(list(tmp_path.glob(".R.*.part"))) == (number == signal.SIGKILL)
    done = subprocess.run(command(1_000), capture_output=True, text=True, check=True)
    assert "ppdm: removed what a killed command left of R" in done.stderr
    assert "200,000 reports: R, 200 parts" in done.stdout
    assert not list(tmp_path.glob(".R.*"))
    pd.testing.assert_frame_equal(reports("R"), of_python(frame))


def test_raw_values_are_in_nothing_that_leaves_the_task(
    place: Place, pool: Pool, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    frame = answers().assign(name=[f"{CANARY}-{i}" for i in range(N)])
    write(frame, tmp_path / "data/s.parquet", 1_000)
    stream = pp.Stream.from_entropy()
    out = tmp_path / "R"
    done = disguise_file(tmp_path / "data", BOOK, DESIGN, stream, out, drop=["name"], place=place)
    assert (done.records, done.before.again) == (N, ())
    frame.loc[12_345, "smokes"] = f"{CANARY}-bad"
    write(frame, tmp_path / "data/s.parquet", 1_000)
    with pytest.raises(DataError) as caught:
        disguise_file(
            tmp_path / "data", BOOK, DESIGN, stream, tmp_path / "S", drop=["name"], place=place
        )
    assert str(caught.value) == (
        f"{tmp_path}/data/s.parquet: attribute 'smokes', row 12345: the value is not declared; "
        "there are 'no', 'yes'"
    )
    assert not (tmp_path / "S").exists()
    assert pool.log is not None
    kept = [pool.client.get_scheduler_logs(), pool.client.get_worker_logs()]
    written = "".join([pool.log.read_text(), *capfd.readouterr(), *map(str, kept)])
    assert "Register worker" in written
    assert CANARY not in written
    mine = tmp_path / "data/s.parquet"
    for path in tmp_path.rglob("*"):
        assert path == mine or not path.is_file() or CANARY.encode() not in path.read_bytes(), path
    # That it could have been seen.
    assert CANARY.encode() in mine.read_bytes()
    key = (tmp_path / "state/ppdm/disguises.key").read_bytes()
    for path in (*out.iterdir(), pool.log):
        assert key not in path.read_bytes()
        assert key.hex().encode() not in path.read_bytes()


def test_one_answer_has_one_report_though_its_task_runs_again(
    place: Place, pool: Pool, tmp_path: Path
) -> None:
    """A real disguise whose worker is killed: parts that were written twice are the same."""
    write(answers(200_000), tmp_path / "s.parquet", 1_000)
    seen: dict[str, set[bytes]] = {}
    stop = threading.Event()

    def watch() -> None:
        killed = False
        while not stop.is_set():
            # The folder comes to its place in the midst of a look.
            with suppress(FileNotFoundError):
                for path in tmp_path.glob(".R.*.part/part-*"):
                    with suppress(FileNotFoundError):
                        seen.setdefault(path.name, set()).add(path.read_bytes())
            if seen and not killed:
                os.kill(next(iter(pool.client.run(os.getpid).values())), signal.SIGKILL)
                killed = True

    watcher = threading.Thread(target=watch)
    watcher.start()
    out = tmp_path / "R"
    disguise_file(tmp_path / "s.parquet", BOOK, DESIGN, pp.Stream.from_entropy(), out, place=place)
    stop.set()
    watcher.join()
    assert seen
    for name, contents in seen.items():
        assert contents == {(out / name).read_bytes()}
