"""``ppdm reproduce``: the same, within tolerance, drifted, failed; goldens and notifications."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from reproduce_site import Site, moved

from ppdm_dask.errors import RunFolderError
from ppdm_dask.files.documents import seal
from ppdm_dask.reproduce.compare import Comparison, Drift
from ppdm_dask.reproduce.documents import drift_keys, notify
from ppdm_dask.reproduce.golden import Golden, write_sum
from ppdm_dask.reproduce.reproduce import Reproduced
from ppdm_dask.reproduce.summary import Figure

Capture = pytest.CaptureFixture[str]

running: Any = import_module("ppdm_dask.experiments.run")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """A site with goldens, which nobody changes."""
    site = Site(tmp_path_factory.mktemp("made"))
    assert site.reproduce("--renew", "the first of these goldens") == 0
    return site


@pytest.fixture
def site(made: Site, tmp_path: Path) -> Site:
    """A copy of it, with the finished runs."""
    folder = tmp_path / "site"
    folder.mkdir()
    site = Site(folder)
    shutil.copytree(made.golden, site.golden, dirs_exist_ok=True)
    shutil.copytree(made.out, site.out)
    return site


def batches(site: Site) -> list[Any]:
    """All that the ledgers hold."""
    found = []
    for path in sorted(site.out.rglob("ledger.sqlite")):
        connection = sqlite3.connect(path)
        found += connection.execute("SELECT * FROM batches ORDER BY cell, start").fetchall()
        connection.close()
    return found


def test_a_renewal_writes_each_golden_with_its_reason(made):
    for recipe in ("surveys", "trees"):
        golden = Golden.read(made.golden / recipe / "small.json")
        (entry,) = golden.history
        assert entry["reason"] == "the first of these goldens"
        assert entry["digest"] == golden.digest


def test_the_second_time_computes_nothing(site, capsys, monkeypatch):
    before, goldens = batches(site), site.files()
    monkeypatch.setattr(running, "make_plan", lambda recipe: pytest.fail("it runs again"))
    for _ in range(2):
        assert site.reproduce() == 0
        out = capsys.readouterr().out
        assert out.splitlines()[-1] == f"green: 2 recipes as in {site.golden}"
        found = site.read("reproduction.json")
        assert found["status"] == "green"
        assert [r["status"] for r in found["recipes"]] == ["same", "same"]
        assert [r["comparison"] for r in found["recipes"]] == ["exact", "exact"]
        assert all(r["reused"] and r["reasons"] == [] for r in found["recipes"])
        assert all(r["digest"] == r["expected_digest"] for r in found["recipes"])
        assert site.read("drift.json")["drifts"] == []
    assert before == batches(site)
    assert goldens == site.files()


def test_the_page_is_written_and_its_failure_is_said(site, capsys, monkeypatch):
    assert site.reproduce("--page") == 0
    page = site.out / "report.html"
    assert f"page: {page}" in capsys.readouterr().out
    text = page.read_text(encoding="utf-8")
    assert "surveys" in text
    assert "trees" in text
    pages = import_module("ppdm_dask.report")

    def broken(document: Path) -> Path:
        raise RunFolderError(f"{document}: the disk is full", document)

    monkeypatch.setattr(pages, "write_reproduction", broken)
    assert site.reproduce("--page") == 1
    captured = capsys.readouterr()
    assert "ppdm: warning: no page was written: " in captured.err
    assert "green: 2 recipes" in captured.out


def test_an_unfinished_run_is_gone_on_with(site):
    (path,) = site.out.rglob("surveys-*/ledger.sqlite")
    kept = batches(site)
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("DELETE FROM batches WHERE rowid = (SELECT max(rowid) FROM batches)")
    connection.close()
    left = batches(site)
    assert len(left) == len(kept) - 1
    manifest = path.with_name("manifest.json")
    manifest.write_text(json.dumps(seal(json.loads(manifest.read_text()) | {"status": "partial"})))
    assert site.reproduce() == 0
    assert [r["reused"] for r in site.read("reproduction.json")["recipes"]] == [False, True]
    assert all(batch in batches(site) for batch in left)


def test_a_damaged_result_is_made_again_from_the_ledger(site):
    (path,) = site.out.rglob("surveys-*/result.nc")
    path.write_bytes(b"nothing of the kind")
    assert site.reproduce() == 0
    assert path.stat().st_size > 1_000


def test_a_fresh_reproduction_computes_anew_and_an_interrupted_one_goes_on(site):
    assert site.reproduce() == 0
    first = {path: path.stat().st_ino for path in site.out.rglob("manifest.json")}
    assert site.reproduce("--fresh") == 0
    found = site.read("reproduction.json")["recipes"]
    assert [r["reused"] for r in found] == [False, False]
    second = {path: path.stat().st_ino for path in site.out.rglob("manifest.json")}
    assert set(second) == set(first)
    # Without a whole reproduction there is nothing to be computed again.
    (site.out / "reproduction.json").unlink()
    assert site.reproduce("--fresh") == 0
    assert [r["reused"] for r in site.read("reproduction.json")["recipes"]] == [True, True]


def test_a_moved_constant_is_drift_and_named(site, capsys):
    goldens = site.files()
    with moved(0.01):
        assert site.reproduce() == 1
    drift = site.read("drift.json")
    assert drift["status"] == "drift"
    (recipe,) = drift["recipes"]
    assert (recipe["name"], recipe["status"], recipe["comparison"]) == (
        "surveys",
        "drifted",
        "exact",
    )
    # Without an effect of w_y at q = 1, and with one at q = 1/2.
    cells = {(d["variable"], d["cell"]) for d in drift["drifts"]}
    assert ("accuracy_disguised", "data=cancer q=0.5") in cells
    assert not any(cell == "data=cancer q=1" for _, cell in cells)
    golden = Golden.read(site.golden / "surveys" / "small.json")
    one = next(
        d for d in drift["drifts"] if (d["variable"], d["cell"]) == ("floored", "data=cancer q=0.5")
    )
    expected = golden.summaries["floored"].cells["data=cancer q=0.5"]
    assert one["recipe"] == "surveys"
    assert one["expected"] == expected.value
    assert one["found"] != one["expected"]
    z = (one["found"] - one["expected"]) / np.hypot(one["expected_se"], one["found_se"])
    assert one["z"] == pytest.approx(z)
    # A person reads the recipe, the cell, both figures and z.
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("surveys: ") and "cells differ" in line for line in lines)
    most = next(line for line in lines if line.startswith("  most by z: "))
    for part in ("data=", "q=0.5: expected ", ", found ", ", z = "):
        assert part in most
    assert lines[-1].startswith("drift: 1 of 2 recipes, open since ")
    assert goldens == site.files()


def test_a_changed_recipe_is_drift_too(site, capsys):
    path = site.golden / "surveys.toml"
    path.write_text(path.read_text().replace("w_y = 0.5", "w_y = 0.4"))
    assert site.reproduce() == 1
    assert "surveys: the recipe is another one than the golden's" in capsys.readouterr().out
    assert site.read("drift.json")["drifts"]


def find_feature() -> str | None:
    """A processor feature that NumPy found here and does without if asked to."""
    show: Any = np.show_config(mode="dicts")
    found = show["SIMD Extensions"].get("found", [])
    return next((name for name in ("X86_V4", "X86_V3", *reversed(found)) if name in found), None)


FEATURE = find_feature()


@pytest.mark.skipif(FEATURE is None, reason="NumPy has no kernels beyond its baseline here")
def test_without_a_processor_feature_tolerances_decide_and_it_says_so(site):
    assert FEATURE is not None
    before = batches(site)
    done = site.elsewhere(NPY_DISABLE_CPU_FEATURES=FEATURE)
    assert done.returncode == 0, done.stdout + done.stderr
    reason = f"numpy's processor features: without {FEATURE}"
    assert f"all: {reason}" in done.stdout
    found = site.read("reproduction.json")
    for recipe in found["recipes"]:
        assert (recipe["status"], recipe["comparison"]) == ("within tolerance", "tolerance")
        assert recipe["reasons"][0] == reason
        # Computed here, not read from the runs of the other environment.
        assert not recipe["reused"]
    assert len(batches(site)) > len(before)


def test_under_tolerance_a_large_change_is_drift_with_its_bound(site, capsys):
    golden = site.golden / "surveys" / "small.json"
    golden.write_text(golden.read_text().replace('"numpy": "', '"numpy": "1.0 before '))
    write_sum(golden, golden.read_bytes())
    with moved(0.4):
        assert site.reproduce() == 1
    found = site.read("drift.json")
    (recipe,) = found["recipes"]
    assert recipe["comparison"] == "tolerance"
    tested = [d for d in found["drifts"] if d["z"] is not None]
    assert tested
    assert all(abs(d["z"]) > d["bound"] for d in tested)
    assert "surveys: numpy: 1.0 before " in capsys.readouterr().out


def test_a_failure_of_one_recipe_hides_no_other(site, capsys, monkeypatch):
    plan = running.make_plan

    def broken(recipe: Any) -> Any:
        if recipe.name == "surveys":
            raise ZeroDivisionError("the\nfault")
        return plan(recipe)

    monkeypatch.setattr(running, "make_plan", broken)
    shutil.rmtree(site.out)
    assert site.reproduce() == 1
    assert "surveys: ZeroDivisionError: the fault" in capsys.readouterr().out
    first, second = site.read("reproduction.json")["recipes"]
    assert (first["status"], first["digest"]) == ("failed", None)
    assert "ZeroDivisionError" in first["traceback"]
    assert (second["status"], second["traceback"]) == ("same", "")
    assert site.read("drift.json")["recipes"][0]["status"] == "failed"


def refused(site: Site, capsys: Capture, *arguments: str) -> str:
    assert site.reproduce(*arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    return err


def test_user_errors_are_one_line(site, capsys, monkeypatch):
    assert "--renew: got 'because'; a sentence" in refused(site, capsys, "--renew", "because")
    assert "--renew: nothing is compared" in refused(
        site, capsys, "--renew", "a good reason", "--hook", "true"
    )
    assert "--renew: goldens are made on this machine" in refused(
        site, capsys, "--renew", "a good reason", "--cluster", "local"
    )
    assert "local: says how many workers there are" in refused(site, capsys, "--cluster", "local")
    assert "--hook: got '\"'; No closing quotation" in refused(site, capsys, "--hook", '"')
    assert "--hook: got nothing" in refused(site, capsys, "--hook", " ")
    assert "got recipe 'survey'" in refused(site, capsys, "survey")
    (site.golden / "trees" / "small.json").unlink()
    before = set(site.out.rglob("*"))
    assert "there is no such golden" in refused(site, capsys)
    assert set(site.out.rglob("*")) == before
    grades = import_module("ppdm_dask.reproduce.reproduce")
    monkeypatch.setattr(grades, "FILE", "absent.toml")
    from ppdm_dask.cli import main

    assert main(["reproduce", "--out", str(site.out)]) == 2
    assert "--against: got nothing; an installed package has no goldens" in capsys.readouterr().err


def test_two_reproductions_do_not_share_a_folder(site, capsys):
    from ppdm_dask.files.lock import RunLock

    lock = RunLock(site.out / "reproduce.lock", site.out)
    assert f"{site.out}: in use by process {os.getpid()}" in refused(site, capsys)
    lock.release()
    assert site.reproduce() == 0


def test_renewal_is_idempotent_and_keeps_the_history(site, capsys):
    before = site.files()
    assert site.reproduce("--renew", "nothing has changed since") == 0
    assert capsys.readouterr().out.count(": unchanged, digest ") == 2
    assert before == site.files()
    path = site.golden / "trees.toml"
    path.write_text(path.read_text().replace("seed = 7", "seed = 8"))
    assert site.reproduce("trees", "--renew", "another seed is wanted") == 0
    golden = Golden.read(site.golden / "trees" / "small.json")
    assert [entry["reason"] for entry in golden.history] == [
        "the first of these goldens",
        "another seed is wanted",
    ]
    assert golden.history[-1]["digest"] == golden.digest != golden.history[0]["digest"]
    changed = {name for name, content in site.files().items() if before[name] != content}
    assert changed == {"trees.toml", "trees/small.json", "SHA256SUMS"}
    assert site.reproduce() == 0


class Hook:
    """A hook that notes its calls, and fails while the file ``broken`` is there."""

    def __init__(self, folder: Path) -> None:
        self.calls_file, self.broken = folder / "calls", folder / "broken"
        script = folder / "hook.sh"
        script.write_text(
            f'#!/bin/sh\n[ ! -e "{self.broken}" ] || exit 3\n'
            f'echo "$1 $2 $3" >>"{self.calls_file}"\n'
        )
        script.chmod(0o755)
        self.command = f"'{script}' 'for me'"

    @property
    def calls(self) -> list[str]:
        return self.calls_file.read_text().splitlines() if self.calls_file.is_file() else []


@pytest.fixture
def hook(tmp_path: Path) -> Hook:
    return Hook(tmp_path)


def test_one_notification_a_drift_and_one_at_its_end(site, hook):
    def night(shift: float | None) -> int:
        if shift is None:
            return site.reproduce("--hook", hook.command)
        with moved(shift):
            return site.reproduce("--hook", hook.command)

    drift = (site.out / "drift.json").resolve()
    assert night(None) == 0
    assert hook.calls == []
    assert night(0.01) == 1
    assert hook.calls == [f"for me drift {drift}"]
    # The same drift, of which nobody is told twice.
    assert night(0.01) == 1
    assert len(hook.calls) == 1
    assert night(None) == 0
    assert hook.calls[1:] == [f"for me closed {drift}"]
    assert night(None) == 0
    assert len(hook.calls) == 2
    # What comes back after it had gone is news.
    assert night(0.01) == 1
    assert hook.calls[2:] == [f"for me drift {drift}"]


def test_a_drift_is_known_by_its_cells_and_not_by_their_figures(tmp_path):
    def key(status: str, *cells: tuple[str, float]) -> str | None:
        drifts = tuple(
            Drift("surveys", "correct", cell, "records", Figure(1.0), Figure(value))
            for cell, value in cells
        )
        found = Comparison("exact", status, (), drifts)  # type: ignore[arg-type]
        return drift_keys([Reproduced("surveys", tmp_path, None, found, "ab")])["surveys"]

    assert key("same") is None
    assert key("within tolerance") is None
    one = key("drifted", ("q=0", 2.0), ("q=1", 3.0))
    assert one == key("drifted", ("q=1", 3.5), ("q=0", 2.5))
    others = {key("drifted", ("q=0", 2.0)), key("drifted"), key("failed"), one}
    assert len(others - {None}) == 4


def test_what_is_told_depends_on_what_was_told(tmp_path, hook):
    state, document = tmp_path / "state.json", tmp_path / "drift.json"

    def tell(use: bool = True, grade: str = "small", **keys: str | None) -> str | None:
        return notify(state, grade, keys, document, hook.command if use else None).event

    assert tell(a=None, b=None) is None
    assert not state.exists()
    assert tell(use=False, a="1", b=None) is None  # nobody to tell
    assert tell(a="1", b=None) == "drift"
    assert tell(a="1", b=None) is None
    assert tell(a="2", b=None) == "drift"  # other cells
    assert tell(a="1", b=None) is None  # back to those that somebody knows
    assert tell(a="1", b="3") == "drift"
    assert tell(b="3") is None  # a recipe that was not run stays open
    assert tell(a=None, b="3") is None
    assert tell(grade="full", a=None, b=None) is None  # another grade, another story
    assert tell(use=False, b=None) is None  # the end, with nobody to tell
    assert tell(a=None, b=None) == "closed"
    assert tell(a=None, b=None) is None
    assert tell(a="1", b=None) == "drift"
    assert [call.split()[2] for call in hook.calls] == ["drift"] * 3 + ["closed", "drift"]


def test_a_hook_that_fails_is_called_again(site, hook, tmp_path, capsys):
    state, document = tmp_path / "state.json", tmp_path / "drift.json"
    hook.broken.touch()
    for _ in range(2):
        told = notify(state, "small", {"a": "1"}, document, hook.command)
        assert (told.event, told.problem[-12:]) == ("drift", "ended with 3")
    hook.broken.unlink()
    assert notify(state, "small", {"a": "1"}, document, hook.command).problem == ""
    assert notify(state, "small", {"a": "1"}, document, hook.command).event is None
    hook.broken.touch()
    assert notify(state, "small", {"a": None}, document, hook.command).problem
    hook.broken.unlink()
    assert notify(state, "small", {"a": None}, document, hook.command).event == "closed"
    missing = notify(state, "small", {"a": "1"}, document, str(tmp_path / "none"))
    assert missing.problem.endswith("cannot be run: No such file or directory")
    # The command says so and ends with 1, for somebody should know.
    path = site.golden / "trees.toml"
    path.write_text(path.read_text().replace("seed = 7", "seed = 8"))
    hook.broken.touch()
    assert site.reproduce("--hook", hook.command) == 1
    assert "ppdm: warning: the hook" in capsys.readouterr().err


def test_a_foreign_state_is_refused(site, capsys):
    (site.out / "state.json").write_text("{}")
    assert site.reproduce() == 2
    assert "state.json: this is not a state of notifications" in capsys.readouterr().err


def batches_below(out):
    """Batches that the ledger of the one run in a folder holds; 0 before there is any."""
    for path in out.rglob("ledger.sqlite"):
        uri = f"file:{path}?mode=ro"
        with (
            contextlib.closing(sqlite3.connect(uri, uri=True)) as ledger,
            contextlib.suppress(sqlite3.OperationalError),
        ):
            return ledger.execute("SELECT count(*) FROM batches").fetchone()[0]
    return 0


def test_ctrl_c_ends_it_resumably(made, tmp_path):
    golden, out = tmp_path / "golden", tmp_path / "out"
    shutil.copytree(made.golden, golden)
    path = golden / "surveys.toml"
    path.write_text(path.read_text().replace("repeats = 12", "repeats = 4000000"))
    command = [
        "reproduce",
        "surveys",
        "--against",
        str(golden),
        "--out",
        str(out),
        "--workers",
        "0",
    ]
    process = subprocess.Popen(
        [sys.executable, "-W", "error", "-m", "ppdm_dask", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 120
    # More than the two benchmarks: after the first ones a process still looks for libraries, and a
    # signal between the opening of a file and its `with` leaves it open, which Python then reports.
    while batches_below(out) <= 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert f"resume with the same command: ppdm {' '.join(command)}" in err
    assert not (out / "reproduction.json").exists()
    (manifest,) = out.rglob("manifest.json")
    assert json.loads(manifest.read_text())["status"] == "partial"
    assert batches_below(out) > 0
