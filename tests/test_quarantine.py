"""What a run gave up is remembered, said again, and tried again on request alone."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from small_recipe import changed, write_recipe
from toy_works import Draws, make_cells

from ppdm_dask.cli import main
from ppdm_dask.cluster.runner import execute
from ppdm_dask.engine.cells import Batch, Quarantined, subtract
from ppdm_dask.engine.ledger import Ledger
from ppdm_dask.experiments.folder import RunFolder, read_manifest
from ppdm_dask.experiments.kinds import load_recipe, make_plan

CELLS = make_cells(2, 10)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.sqlite"


def given_up(start: int, stop: int, reason: str = "died") -> Quarantined:
    return Quarantined(Batch(CELLS[1], start, stop), reason)


def test_entries_last_until_their_repeats_are_stored(path: Path) -> None:
    with Ledger(path) as ledger:
        ledger.quarantine(given_up(2, 3))
        ledger.quarantine(given_up(5, 10, "not tried"))
    with Ledger(path) as ledger:
        assert ledger.quarantined(CELLS) == [given_up(2, 3), given_up(5, 10, "not tried")]
        ledger.commit(CELLS[1], 0, 7, {"x": np.zeros(7)}, 1.0)
        assert ledger.quarantined(CELLS) == [given_up(7, 10, "not tried")]
        # Tried again, and given up for another reason.
        ledger.quarantine(given_up(8, 9, "hung"))
        assert ledger.quarantined(CELLS) == [
            given_up(7, 8, "not tried"),
            given_up(8, 9, "hung"),
            given_up(9, 10, "not tried"),
        ]
        ledger.commit(CELLS[1], 7, 10, {"x": np.zeros(3)}, 1.0)
        assert ledger.quarantined(CELLS) == []


def test_subtract() -> None:
    gaps = [Batch(CELLS[0], 0, 10), Batch(CELLS[1], 0, 4), Batch(CELLS[1], 6, 10)]
    out = [Batch(CELLS[1], 0, 1), Batch(CELLS[1], 3, 8), Batch(CELLS[1], 9, 10)]
    assert subtract(gaps, out) == [
        Batch(CELLS[0], 0, 10),
        Batch(CELLS[1], 1, 3),
        Batch(CELLS[1], 8, 9),
    ]


def test_given_up_repeats_wait_for_a_request(path: Path, tmp_path: Path) -> None:
    record = tmp_path / "record"
    work = Draws(record=str(record))
    with Ledger(path) as ledger:
        ledger.quarantine(given_up(2, 4))
        outcome = execute(work, CELLS, ledger, workers=0)
        assert (outcome.computed_repeats, outcome.remembered) == (18, 1)
        assert outcome.quarantined == (given_up(2, 4),)
        assert not outcome.complete
        record.unlink()
        same = execute(work, CELLS, ledger, workers=0)
        assert (same.computed_repeats, same.mode) == (0, "nothing to do")
        assert same.quarantined == outcome.quarantined
        assert not record.exists()
        again = execute(work, CELLS, ledger, workers=0, retry_failed=True)
        assert (again.computed_repeats, again.remembered, again.quarantined) == (2, 0, ())
        assert again.complete
    done = [line.split()[:2] for line in record.read_text().splitlines()]
    assert done == [["q=1", "2"], ["q=1", "3"]]


def test_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    path = write_recipe(tmp_path / "small.toml", changed("figure", []))
    command = ["run", str(path), "--workers", "0"]
    assert main([*command, "--out", "whole"]) == 0
    expected = capsys.readouterr().out.splitlines()[-1]

    recipe = load_recipe(path)
    plan = make_plan(recipe)
    folder = RunFolder.plan(recipe, "runs")
    folder.start(plan.inputs)
    with Ledger(folder.ledger) as ledger:
        cell = next(cell for cell in plan.cells if cell.repeats == 4)
        entry = Quarantined(Batch(cell, 2, 3), "its worker process died")
        ledger.quarantine(entry)
    for _ in range(2):
        assert main(command) == 1
        out, err = capsys.readouterr()
        assert out.splitlines()[-1] == "digest: none, since trials were quarantined"
        told = [line for line in err.splitlines() if line.startswith("ppdm: ")]
        assert told == [
            f"ppdm: quarantined: {entry}",
            "ppdm: small: given up in an earlier run; --retry-failed tries again",
        ]
        manifest = read_manifest(folder.path)
        assert (manifest["status"], manifest["quarantined"]) == ("partial", [str(entry)])
    assert main([*command, "--retry-failed"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == expected
    assert json.loads(folder.manifest.read_text())["quarantined"] == []
    assert main(command) == 0
