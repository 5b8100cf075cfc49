"""What a run keeps is believed only whole: results, manifests, ledgers, goldens, documents.

Any flipped bit is refused in one line, or what is read is right all the same.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_recipe import CONFIG, many, write_recipe

from ppdm_dask.cli import main
from ppdm_dask.designs.files import read_design, write_design
from ppdm_dask.designs.matrix import RRMatrix
from ppdm_dask.engine.cells import Batch, Cell, Quarantined
from ppdm_dask.engine.ledger import Ledger
from ppdm_dask.errors import DataError, InputError, PPDMError, RunFolderError
from ppdm_dask.experiments.folder import read_manifest, read_run
from ppdm_dask.experiments.results import digest, read_netcdf, write_netcdf
from ppdm_dask.files.documents import parse_json, read_sealed, seal
from ppdm_dask.files.regular import read_bounded
from ppdm_dask.reproduce.documents import write_json
from ppdm_dask.reproduce.golden import SUMS, Golden, golden_path

FLIPS = pytest.mark.parametrize(
    "number", [20, pytest.param(200, marks=pytest.mark.slow)], ids=["some", "many"]
)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished run."""
    folder = tmp_path_factory.mktemp("stored")
    recipe = write_recipe(folder / "small.toml", many(CONFIG, {"sweep.repeats": 2, "figure": []}))
    assert main(["run", str(recipe), "--workers", "0", "--out", str(folder / "runs")]) == 0
    (run,) = (folder / "runs").iterdir()
    (run / "report.html").unlink()
    return run


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(finished, tmp_path / "run"))


def flipped(path: Path, number: int, look: Callable[[], None]) -> int:
    """Look at a file with each of some bits flipped; how often it was refused."""
    whole = path.read_bytes()
    rng = np.random.default_rng(number)
    refused = 0
    for place in rng.integers(8 * len(whole), size=number):
        content = bytearray(whole)
        content[place // 8] ^= 1 << place % 8
        path.write_bytes(content)
        try:
            look()
        except InputError as error:
            assert "\n" not in str(error)
            refused += 1
        except PPDMError as error:
            pytest.fail(f"bit {place}: {error}")
    path.write_bytes(whole)
    return refused


def one_line(capsys: pytest.CaptureFixture[str]) -> str:
    out, error = capsys.readouterr()
    assert out == ""
    assert error.startswith("ppdm: error: ") and error.count("\n") == 1
    return error


# -- results ---------------------------------------------------------------------------------------


@FLIPS
def test_a_result_with_a_flipped_bit_is_refused(run: Path, number: int) -> None:
    assert flipped(run / "result.nc", number, lambda: read_run(run)) == number


COMMANDS = [["show"], ["show", "--json"], ["figures"], ["report"]]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_number_that_was_edited_is_printed_by_no_command(
    run: Path, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    ds = read_netcdf(run / "result.nc")
    ds["accuracy_mean"][...] = 0.999
    write_netcdf(ds, run / "result.nc")
    before = sorted(run.iterdir())
    assert main([*command, str(run)]) == 2
    # Of another size it is not even read.
    found = one_line(capsys)
    assert f"{run / 'result.nc'}: " in found
    assert "damaged or edited: not the file" in found or "bytes are expected" in found
    assert sorted(run.iterdir()) == before


@pytest.mark.parametrize(
    "text",
    ["NaN", "[1e999]", '{"a": -Infinity}', '"\\ud800"', '{"\\udc00": 1}', "[" * 5_000, "1" * 5_000],
)
def test_what_could_not_be_written_again_is_not_read(text: str) -> None:
    with pytest.raises(ValueError):
        parse_json(text.encode())
    assert parse_json(b'["\\ud83d\\ude00", "\\u00e9", 1e300]') == ["\U0001f600", "\u00e9", 1e300]


def test_no_more_is_made_room_for_than_a_file_holds(tmp_path: Path) -> None:
    path = tmp_path / "small"
    path.write_bytes(b"1234")
    assert read_bounded(path, 10**30) == read_bounded(path, 4) == b"1234"
    with pytest.raises(OSError, match="it has 4 bytes; at most 3 are expected"):
        read_bounded(path, 3)
    with pytest.raises(OSError, match="there can be no file of this name"):
        read_bounded(tmp_path / "a\0b")


def test_a_result_is_edited_with_its_checksums_and_the_digest_still_tells(run: Path) -> None:
    ds = read_netcdf(run / "result.nc")
    ds["accuracy_mean"][...] = 0.999
    written = write_netcdf(ds, run / "result.nc")
    manifest = read_manifest(run)
    (run / "manifest.json").write_text(json.dumps(seal({**manifest, "result": written})))
    with pytest.raises(RunFolderError, match="do not have the digest of the manifest"):
        read_run(run)


def test_the_ledger_makes_an_edited_result_again(
    run: Path, finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Even where its manifest was edited with it, by the command that made it."""
    ds = read_netcdf(run / "result.nc")
    ds["accuracy_mean"][...] = 0.999
    written = write_netcdf(ds, run / "result.nc")
    manifest = read_manifest(run)
    forged = {**manifest, "result": written, "digest": digest(ds)}
    (run / "manifest.json").write_text(json.dumps(seal(forged)))
    recipe = finished.parent.parent / "small.toml"
    assert main(["run", str(recipe), "--workers", "0", "--out", str(run)]) == 0
    assert "does not match its ledger" in capsys.readouterr().err
    assert read_run(run).manifest["digest"] == manifest["digest"]
    assert digest(read_run(run).dataset) == manifest["digest"]


def test_what_is_no_file_is_not_waited_for(
    run: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for name in ("result.nc", "manifest.json"):
        path = run / name
        kept = tmp_path / "kept"
        path.rename(kept)
        for make in (os.mkfifo, os.mkdir, lambda at: at.symlink_to("/dev/zero"), _sparse):
            make(path)
            began = time.monotonic()
            assert main(["show", str(run)]) == 2
            assert time.monotonic() - began < 60
            assert str(path) in one_line(capsys)
            path.rmdir() if path.is_dir() else path.unlink()
        kept.rename(path)
    assert main(["show", str(run)]) == 0


def _sparse(path: Path) -> None:
    path.touch()
    os.truncate(path, 64 << 30)


# -- manifests and documents -----------------------------------------------------------------------


@FLIPS
def test_a_manifest_with_a_flipped_bit_is_refused_or_the_same(run: Path, number: int) -> None:
    whole = read_manifest(run)

    def look() -> None:
        assert read_run(run).manifest == whole  # a bit of white space

    assert flipped(run / "manifest.json", number, look) > number // 2


def test_a_manifest_that_was_edited_is_refused(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = run / "manifest.json"
    text = path.read_text()
    path.write_text(text.replace('"status": "finished"', '"status": "partial"'))
    assert main(["show", str(run)]) == 2
    assert f"{path}: damaged or edited: its content does not match its checksum" in one_line(capsys)
    content = json.loads(text)
    del content["checksum"]
    path.write_text(json.dumps(content))
    assert main(["show", str(run)]) == 2
    assert "one of an earlier version: it has no checksum" in one_line(capsys)


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[" * 100_000, b"\xff\xfe", b"1" * 5000, b'{"a": 1e999}', b"null", b"\0" * 64],
    ids=["empty", "cut", "deep", "UTF-16", "long", "infinite", "null", "zeros"],
)
def test_documents_that_are_none_are_one_line(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "manifest.json").write_bytes(content)
    with pytest.raises(RunFolderError, match=r"manifest\.json: this is not a manifest"):
        read_manifest(tmp_path)


@FLIPS
def test_a_reproduction_with_a_flipped_bit_is_refused_or_the_same(
    tmp_path: Path, number: int
) -> None:
    path = tmp_path / "reproduction.json"
    recipe = {"name": "surveys", "folder": "runs/surveys", "status": "same", "digest": "0f" * 32}
    write_json(path, {"schema": "ppdm reproduction 1", "status": "green", "recipes": [recipe] * 9})
    whole = read_sealed(path, "reproduction")

    def look() -> None:
        assert read_sealed(path, "reproduction") == whole

    assert flipped(path, number, look) > number // 2


# -- ledgers ---------------------------------------------------------------------------------------

CELLS = [Cell(f"q={q}", {"q": q}, 12) for q in range(4)]


def fill(path: Path) -> dict[str, Any]:
    """Batches of several cells, some of them quarantined; what is in the ledger."""
    rng = np.random.default_rng(1)
    with Ledger(path) as ledger:
        for cell in CELLS:
            for start in range(0, 9, 3):
                arrays = {"x": rng.normal(size=(3, 20)), "n": rng.integers(9, size=3)}
                ledger.commit(cell, start, start + 3, arrays, 0.25)
            ledger.quarantine(Quarantined(Batch(cell, 9, 10), "gave up"))
    return {cell.id: contents(path, cell) for cell in CELLS}


def contents(path: Path, cell: Cell) -> tuple[Any, ...]:
    with Ledger(path, readonly=True) as ledger:
        return ledger.finished(cell), ledger.collect(cell), ledger.quarantined([cell])


@FLIPS
@pytest.mark.parametrize("readonly", [True, False])
def test_a_ledger_with_a_flipped_bit_is_refused_or_right(
    tmp_path: Path, number: int, readonly: bool
) -> None:
    path = tmp_path / "ledger.sqlite"
    whole = fill(path)

    def look() -> None:
        with Ledger(path, readonly=readonly) as ledger:
            for cell in CELLS:
                repeats, arrays, _ = whole[cell.id]
                there = ledger.finished(cell)
                assert set(there) <= set(repeats)
                rows = np.searchsorted(repeats, there)
                found = ledger.collect(cell)
                for name, values in found.items():
                    np.testing.assert_array_equal(values, arrays[name][rows])
                missing = {
                    r for batch in ledger.missing([cell]) for r in range(batch.start, batch.stop)
                }
                assert missing == set(range(12)) - set(there)
                for entry in ledger.quarantined([cell]):
                    assert entry.reason == "gave up"
                ledger.cost(cell)
            ledger.work()

    flipped(path, number, look)
    for leftover in tmp_path.glob("ledger.sqlite-*"):
        leftover.unlink()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("UPDATE batches SET start = start + 12, stop = stop + 12", "an entry of cell q=0 is dam"),
        ("UPDATE batches SET seconds = 1e9", "an entry of cell q=0 is damaged"),
        ("UPDATE batches SET start = 'one' WHERE start = 0", "an entry of cell q=0 is damaged"),
        ("UPDATE batches SET payload = zeroblob(10)", "of cell q=0, repeats 0 to 2 are damaged"),
        ("UPDATE batches SET payload = 'text'", "of cell q=0, repeats 0 to 2 are damaged"),
        ("UPDATE quarantined SET reason = 'none'", "an entry of cell q=0 is damaged"),
    ],
)
def test_entries_of_a_ledger_are_checked(tmp_path: Path, change: str, says: str) -> None:
    path = tmp_path / "ledger.sqlite"
    fill(path)
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        connection.execute(change)
    connection.close()
    with pytest.raises(RunFolderError, match=says):
        contents(path, CELLS[0])


def test_a_pipe_in_place_of_a_ledger_is_not_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    os.mkfifo(path)
    with pytest.raises(RunFolderError, match="this is a device or a pipe, not a ledger"):
        Ledger(path)
    with pytest.raises(RunFolderError, match="there is no such ledger"):
        Ledger(path, readonly=True)
    assert [each.name for each in tmp_path.iterdir()] == ["ledger.sqlite"]


# -- goldens and designs ---------------------------------------------------------------------------


@pytest.fixture
def golden(tmp_path: Path, root: Path) -> Path:
    """A copy of one of ours, in a folder of goldens of its own."""
    path = golden_path(tmp_path, "electronic-surveys", "small")
    Golden.read(root / "tests/golden/electronic-surveys/small.json").write(path)
    return path


@FLIPS
def test_a_golden_with_a_flipped_bit_is_refused(golden: Path, number: int) -> None:
    assert flipped(golden, number, lambda: Golden.read(golden)) == number


@FLIPS
def test_a_list_of_checksums_with_a_flipped_bit_is_refused_or_right(
    golden: Path, number: int
) -> None:
    whole = Golden.read(golden)

    def look() -> None:
        assert Golden.read(golden) == whole  # the end of the line

    flipped(golden.parent.parent / SUMS, number, look)


def test_goldens_are_listed_as_sha256sum_does(golden: Path, root: Path) -> None:
    import hashlib

    for folder in (golden.parent.parent, root / "tests/golden"):
        lines = (folder / SUMS).read_text().splitlines()
        listed = dict(reversed(line.split("  ")) for line in lines)
        there = {path.relative_to(folder).as_posix(): path for path in folder.glob("*/*.json")}
        assert set(listed) == set(there)
        for name, path in there.items():
            assert listed[name] == hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_golden_that_is_not_listed_is_refused_and_can_be_renewed(golden: Path) -> None:
    other = golden_path(golden.parent.parent, "other", "small")
    other.parent.mkdir()
    shutil.copy(golden, other)
    with pytest.raises(DataError, match="remove the golden and renew it"):
        Golden.read(other)
    Golden.read(golden).write(other)
    assert Golden.read(other) == Golden.read(golden)
    # A folder of an earlier version has no list.
    (golden.parent.parent / SUMS).unlink()
    assert Golden.read(other).digest == Golden.read(golden).digest


@FLIPS
def test_a_design_with_a_flipped_bit_is_refused_or_right(tmp_path: Path, number: int) -> None:
    """Columns have to sum to 1, so that no single digit that counts can change unseen."""
    path = tmp_path / "design.toml"
    rng = np.random.default_rng(4)
    design = RRMatrix("answer", rng.dirichlet(np.ones(5), 3).T, p0=[0.2, 0.5, 0.3])
    write_design(design, path)

    def look() -> None:
        found = read_design(path)
        if found.attributes == design.attributes:  # else no codebook fits
            np.testing.assert_allclose(found.matrix(), design.matrix(), atol=2e-6)

    assert flipped(path, number, look) > number // 2
