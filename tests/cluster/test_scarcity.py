"""Memory and disk that do not suffice: one plain message, and a run that goes on afterwards."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from machines import needs_root
from runs import Run
from small_recipe import CONFIG, many, write_recipe
from toy_works import Draws, Hungry, make_cells

from ppdm_dask.cli import main
from ppdm_dask.cluster import client
from ppdm_dask.cluster.kinds import load_profile
from ppdm_dask.cluster.runner import execute
from ppdm_dask.engine.cells import Batch
from ppdm_dask.engine.ledger import Ledger
from ppdm_dask.experiments.folder import read_manifest

pytestmark = pytest.mark.cluster


def test_worker_over_its_memory_limit(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # A quarter of the deaths of a real run.
    monkeypatch.setitem(client.SETTINGS, "distributed.scheduler.allowed-failures", 0)
    profile = tmp_path / "small.toml"
    profile.write_text('kind = "local"\nworkers = 1\nmemory = "600 MiB"\n')
    cells = make_cells(2, 3)
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        work = Hungry(megabytes=700)
        outcome = execute(work, cells, ledger, profile=load_profile(profile))
        assert ledger.missing(cells) == [Batch(cells[1], 2, 3)]
        (given_up,) = outcome.quarantined
        assert given_up.reason == (
            "alone it took its worker over the memory limit of 600 MiB, once; "
            f"raise memory in {profile}; see {tmp_path / 'workers.log'}"
        )
        profile.write_text(profile.read_text().replace("600 MiB", "2 GiB"))
        again = execute(Draws(), cells, ledger, profile=load_profile(profile), retry_failed=True)
    assert again.complete
    assert capfd.readouterr() == ("", "")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 MiB with a file that nearly fills it."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64m", "ppdm", str(folder)]
    subprocess.run(mount, check=True)
    try:
        filler = folder / "filler"
        room = os.statvfs(folder)
        filler.write_bytes(bytes(room.f_bavail * room.f_frsize - 250_000))
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.fixture
def start(disk: Path, tmp_path: Path) -> Iterator[Callable[[], Run]]:
    runs: list[Run] = []

    def begin() -> Run:
        ledger = disk / "ledger.sqlite"
        runs.append(Run(tmp_path, ledger, workers=2, batch_seconds=0.01, bulk=2000))
        return runs[-1]

    yield begin
    for run in runs:
        run.close()


@needs_root
def test_disk_that_fills(disk: Path, start: Callable[[], Run]) -> None:
    run = start()
    assert run.end() == 1
    (message,) = run.errors.read_text().splitlines()
    path = disk / "ledger.sqlite"
    assert message == (
        f"RunFolderError: {path}: the disk is full; what is stored is kept: make room there, "
        "then give the same command again"
    )
    with Ledger(path, readonly=True) as ledger:
        kept = sum(ledger.finished(cell).size for cell in make_cells(2, 400))
    assert 0 < kept < 800
    (disk / "filler").unlink()
    again = start()
    assert again.end() == 0
    assert again.errors.read_text() == ""


@needs_root
def test_command_on_a_disk_that_fills(
    disk: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = write_recipe(tmp_path / "small.toml", many(CONFIG, {"sweep.repeats": 30_000}))
    command = ["run", str(recipe), "--workers", "0", "--out"]
    assert main([*command, str(tmp_path / "elsewhere")]) == 0
    expected = capsys.readouterr().out.splitlines()[-1]
    assert main([*command, str(disk)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    errors = [line for line in err.splitlines() if line.startswith("ppdm: ")]
    (folder,) = disk.glob("small-*")
    assert len(errors) == 1
    assert re.fullmatch(f"ppdm: error: {folder}/.*(the disk is full|No space left).*", errors[0])
    assert read_manifest(folder)["digest"] is None
    (disk / "filler").unlink()
    assert main([*command, str(disk)]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == expected
