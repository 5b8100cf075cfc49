"""The survey commands on cluster profiles: the reports of one process, and what a cluster lacks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import psutil
import pytest
from machines import DaskProcesses, free_port, needs_sshd, ssh_server

import ppdm_dask as pp
from ppdm_dask.cli import main
from ppdm_dask.cluster import client, losses, worker
from ppdm_dask.cluster.security import make_certificates, write_certificates
from ppdm_dask.designs.files import write_design
from ppdm_dask.survey import pieces

pytestmark = pytest.mark.cluster

N = 20_000
BOOK = pp.Codebook(
    (pp.Attribute("smokes", ("no", "yes")), pp.Attribute("drug", ("never", "once", "often")))
)
DESIGN = pp.Product([pp.Warner("smokes", 0.8), pp.KaryResponse("drug", 3, epsilon=1.5)])
BOTH = ["--codebook", "c.toml", "--design", "d.toml"]
DISGUISE = ["disguise", "data", *BOTH, "--simulate", "3", "--out"]


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers in three files, of which a part has 1,500."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(pieces, "RECORDS", 1_500)
    Path("c.toml").write_text(BOOK.as_toml())
    write_design(DESIGN, "d.toml")
    rng = np.random.default_rng(1)
    codes = np.stack([rng.integers(0, k, N) for k in BOOK.shape], axis=1)
    frame = BOOK.decode(pp.Records(codes, BOOK))
    Path("data").mkdir()
    for i in range(3):
        frame.iloc[i::3].to_parquet(f"data/{i}.parquet", row_group_size=1_000, index=False)


def read(folder: str) -> pd.DataFrame:
    parts = sorted(Path(folder).glob("part-*"))
    return pd.concat([pd.read_parquet(part) for part in parts], ignore_index=True)


def local(folder: Path) -> Path:
    path = folder / "local.toml"
    path.write_text('kind = "local"\nworkers = 2\nmemory = "1 GiB"\n')
    return path


@contextmanager
def scheduler(folder: Path, workers: int = 2) -> Iterator[tuple[Path, list[psutil.Process]]]:
    """A scheduler and workers that somebody else keeps running; its profile."""
    write_certificates(make_certificates(), folder / "certificates")
    dask = DaskProcesses(folder, free_port())
    with dask.scheduler() as first, ExitStack() as stack:
        there = [psutil.Process(first.pid)]
        if workers:
            there.append(psutil.Process(stack.enter_context(dask.workers(workers)).pid))
        yield dask.profile(workers or 1), there


@contextmanager
def ssh(folder: Path) -> Iterator[tuple[Path, list[psutil.Process]]]:
    with ssh_server(folder / "sshd") as server:
        path = folder / "ssh.toml"
        path.write_text(server.profile())
        yield path, []
        # What was started over SSH has ended with the command, or does so at once.
        left = psutil.Process(server.process.pid).children(recursive=True)
        assert psutil.wait_procs(left, timeout=20)[1] == []


def called(*arguments: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(list(arguments)) == 0, capsys.readouterr()
    return capsys.readouterr().out


@pytest.mark.parametrize("kind", ["local", pytest.param("ssh", marks=needs_sshd), "scheduler"])
def test_a_profile_gives_the_reports_of_one_process(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    called(*DISGUISE, "here", capsys=capsys)
    over = ["--over", "drug", "--json"]
    expected = called("estimate", "here", *BOTH, *over, capsys=capsys)
    with ExitStack() as stack:
        if kind == "local":
            profile = local(tmp_path)
        else:
            profile, _ = stack.enter_context((ssh if kind == "ssh" else scheduler)(tmp_path))
        where = ["--cluster", str(profile)]
        called(*DISGUISE, "there", *where, capsys=capsys)
        pd.testing.assert_frame_equal(read("there"), read("here"))
        if kind == "scheduler":
            called("count", "there", *BOTH, "--out", "c.parquet", *where, capsys=capsys)
            table = pd.read_parquet("c.parquet").set_index(["smokes", "drug"])["count"]
            plain = read("there").value_counts(["smokes", "drug"])
            assert (table == plain[table.index]).all() and table.sum() == N
            found = called("estimate", "there", *BOTH, *over, *where, capsys=capsys)
            assert found.replace("there", "here") == expected
    assert not [each for each in tmp_path.iterdir() if each.name.startswith(".")]


def test_a_cluster_that_is_another_or_has_no_worker_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with scheduler(tmp_path, 1) as (profile, there):
        ours = worker.own_versions()
        monkeypatch.setattr(worker, "own_versions", lambda: ours | {"numpy": "1.0"})
        assert main([*DISGUISE, "R", "--cluster", str(profile)]) == 2
        said = capsys.readouterr().err
        assert f"{profile}: the scheduler: numpy 1.0 here, {ours['numpy']} there; a run" in said
        monkeypatch.undo()
        monkeypatch.chdir(tmp_path)
        # Its workers have gone, and none comes.
        for each in there[1].children(recursive=True):
            each.kill()
        there[1].kill()
        monkeypatch.setattr(client, "Pool", _impatient)
        assert main([*DISGUISE, "R", "--cluster", str(profile)]) == 1
        said = capsys.readouterr().err
        assert "workers were lost: there has been no worker for 1 s; the same command" in said
    assert main([*DISGUISE, "R", "--cluster", str(profile)]) == 2
    assert "no scheduler that takes our certificate answers at tls://" in capsys.readouterr().err
    assert not Path("R").exists() and not list(tmp_path.glob(".R.*"))


def _impatient(**arguments: object) -> client.Pool:
    return losses.Pool(**{**arguments, "patience": 1.0})  # type: ignore[arg-type]
