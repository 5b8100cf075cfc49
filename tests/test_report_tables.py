"""Tables of results: what they say, and that a terminal of 80 columns holds them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ppdm_dask.cli.output import print_result
from ppdm_dask.experiments.sweep import SWEEP
from ppdm_dask.experiments.sweep.results import DISCLOSURES, build_dataset, empty_arrays

Capture = pytest.CaptureFixture[str]

THETAS = [0, 0.1, 0.45, 0.5, 0.51, 1]


def result(groups: tuple[int, ...] = (1, 2, 3), repeats: int = 40, computed: int = 40) -> Any:
    """Trees over groups and theta, with numbers as wide as they come; theta = 1/2 undefined."""
    coordinates = {"data": ["votes"], "groups": groups, "theta": THETAS, "column": ["votes/party"]}
    arrays = empty_arrays(coordinates, repeats, 1, ["nodes", *DISCLOSURES])
    arrays["n_train"][:], arrays["n_test"][:] = 348, 87
    arrays["benchmark_correct"][:], arrays["majority_correct"][:] = 80, 52
    arrays["undefined"][:, :, 3] = "no inverse"
    done = slice(0, computed)
    for i in (0, 1, 2, 4, 5):
        arrays["correct"][0, :, i, done] = (50 + np.arange(repeats) % 7)[done]
        arrays["accuracy_disguised"][0, :, i, done] = (0.5 + np.arange(repeats) % 7 / 87)[done]
        arrays["floored"][0, :, i, done], arrays["nodes"][0, :, i, done] = 3, 8
    wild = -9.8765 + 43.21 * (-1.0) ** np.arange(repeats)
    arrays["accuracy_disguised"][0, :, 4, done] = wild[done]
    arrays["accuracy_disguised"][0, -1, 4, done] *= 100
    arrays["pse_attribute"][0] = [0, 0.2, 0.4, 0.5, 0.4567, 0]
    arrays["advantage_joint"][0] = 0.25
    return build_dataset(arrays, coordinates)


def printed(ds: Any, capsys: Capture) -> list[str]:
    print_result(ds)
    lines = capsys.readouterr().out.split("\n")
    assert max(map(len, lines)) <= 80
    assert not any("\u2026" in line for line in lines)
    return lines


def test_two_axes_are_tables_below_one_another(capsys: Capture) -> None:
    lines = printed(result(), capsys)
    heads = [i for i, line in enumerate(lines) if line.startswith("groups = ")]
    assert [lines[i] for i in heads] == ["groups = 1", "groups = 2", "groups = 3"]
    assert sum(line.startswith("theta ") for line in lines) == 3
    table = lines[heads[0] : heads[1]]
    rows = {cells[0]: cells for line in table if (cells := line.split()) and cells[0][0].isdigit()}
    assert list(rows) == [f"{theta:g}" for theta in THETAS]
    mean = result()["accuracy_mean"].sel(theta=0.1, groups=1).item()
    assert rows["0.1"][1] == f"{mean:.4f}"
    assert rows["0.1"][-2:] == ["0.2000", "0.375"]  # PSE, and the share of negative nodes
    assert rows["0.5"][1:] == ["undefined", "undefined", "0.5000"]
    assert "negative" in table[3]
    # The columns of all three tables stand below one another.
    rules = [line for line in lines if line.startswith("\u2500")]
    assert len(rules) == 3
    assert len(set(rules)) == 1
    assert lines[-2] == "undefined at theta = 0.5: no inverse"


def test_undefined_cells_are_named_by_the_axes_that_matter() -> None:
    ds = result()
    assert SWEEP.notes(ds) == ["undefined at theta = 0.5: no inverse"]
    ds["undefined"][0, :, 4] = "no inverse"
    assert SWEEP.notes(ds) == ["undefined at theta = 0.5; theta = 0.51: no inverse"]
    ds["undefined"][0, 1, 4] = ""
    (note,) = SWEEP.notes(ds)
    assert note.startswith("undefined at groups = 1, theta = 0.5; groups = 1, theta = 0.51; ")
    ds["undefined"][0] = ""
    ds["undefined"][0, 1] = "too many"
    assert SWEEP.notes(ds) == ["undefined at groups = 2: too many"]


def test_large_errors_leave_few_digits(capsys: Capture) -> None:
    lines = printed(result(), capsys)
    (row,) = [line for line in lines[: lines.index("groups = 2")] if line.startswith(" 0.51")]
    assert "-9.88 \u00b1 6.92" in row
    last = [line for line in lines if line.startswith(" 0.51")][-1]
    assert "-988 \u00b1 692" in last


def test_a_partial_table_counts_repeats(capsys: Capture) -> None:
    lines = printed(result(computed=7), capsys)
    assert any(line.endswith("done") for line in lines)
    assert any(line.split()[0] == "0.1" and line.endswith(" 7") for line in lines if line.strip())


def test_json_has_what_the_tables_leave_out() -> None:
    cells = SWEEP.as_json(result())["cells"]
    assert len(cells) == 18
    assert cells[7] | {"data": "votes", "groups": 2, "theta": 0.1} == cells[7]
    assert cells[7]["negative_share"] == 0.375
    assert cells[7]["advantage_joint"] == 0.25
    assert cells[7]["posterior_own"] is None
    assert cells[9]["accuracy_mean"] is None
