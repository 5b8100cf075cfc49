"""Sizes that no survey has are refused at once, in one line, before memory is asked for."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from ppdm_dask.cli import main
from ppdm_dask.designs import design_from_config
from ppdm_dask.designs.files import read_design
from ppdm_dask.errors import DesignError

HUGE = [2**31, 10**9, 2**63, 2**64 + 1, 10**400]


def cases() -> list[dict[str, object]]:
    found: list[dict[str, object]] = []
    for k in HUGE:
        found += [
            {"id": "kuk", "attribute": "a", "p1": 0.7, "p2": 0.2, "repeats": k},
            {"id": "kary", "attribute": "a", "n": k, "p": 0.5},
            {"id": "unary", "attribute": "a", "n": k, "p": 0.5, "q": 0.2},
            {"id": "subset", "attribute": "a", "n": k, "size": 2, "p": 0.5},
            {"id": "subset", "attribute": "a", "n": 10, "size": k, "p": 0.5},
            {"id": "identity", "attributes": ["a"], "shape": [k]},
            {"id": "identity", "attributes": ["a", "b"], "shape": [2, k]},
            {"id": "flip", "attributes": ["a"], "theta": k},
            {"id": "warner", "attribute": "a", "theta": k},
            {"id": "matrix", "attributes": ["a"], "matrix": [[1.0, k], [0.0, 1.0]]},
            {"id": "matrix", "attributes": ["a"], "matrix": [[1, 0], [0, 1]], "p0": [k, 1]},
            {"id": "matrix", "attributes": ["a"], "matrix": [[1, 0], [0, 1]], "shape": [k]},
        ]
    found.append({"id": "kuk", "attribute": "a", "p1": 0.7, "p2": 0.2, "repeats": 10**5})
    for size in (2**20, 2**16):
        shape = [size] * 8
        names = list("abcdefgh")
        found.append({"id": "identity", "attributes": names, "shape": shape})
    return found


@pytest.mark.parametrize("config", cases(), ids=lambda config: str(config)[:60])
def test_absurd_sizes_are_refused_at_once(config: dict[str, object]) -> None:
    began = time.monotonic()
    with pytest.raises(DesignError) as error:
        design_from_config(config)
    assert time.monotonic() - began < 30
    assert "\n" not in str(error.value) and len(str(error.value)) < 300


def test_the_largest_sizes_are_still_quick() -> None:
    began = time.monotonic()
    kuk = design_from_config(
        {"id": "kuk", "attribute": "a", "p1": 0.7, "p2": 0.2, "repeats": 1_000}
    )
    assert kuk.matrix().sum(axis=0) == pytest.approx([1, 1])
    for config in (
        {"id": "kary", "attribute": "a", "n": 2**20, "p": 0.5},
        {"id": "unary", "attribute": "a", "n": 2**20, "p": 0.5, "q": 0.2},
        {"id": "subset", "attribute": "a", "n": 2**20, "size": 2, "p": 0.5},
        {"id": "identity", "attributes": ["a", "b", "c"], "shape": [2**20] * 3},
    ):
        assert not design_from_config(config).undefined
    assert time.monotonic() - began < 60


@pytest.mark.parametrize("repeats", ["100000", "1000000000", "9" * 400])
def test_design_files_of_absurd_sizes_are_refused(repeats: str, tmp_path: Path) -> None:
    path = tmp_path / "design.toml"
    path.write_text(f'id = "kuk"\nattribute = "a"\np1 = 0.7\np2 = 0.2\nrepeats = {repeats}\n')
    says = (
        r"repeats: (got .*; a whole number from 1 to 1,000 is|a whole number of more than 64 bits)"
    )
    with pytest.raises(DesignError, match=says) as error:
        read_design(path)
    assert str(error.value).startswith(f"{path}: ")


def test_a_number_of_symbols_that_nobody_can_read_is_said_by_its_size(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "design.toml"
    path.write_text('id = "unary"\nattribute = "a"\nn = 100000\nepsilon = 1.0\n')
    assert main(["check", str(path)]) == 0
    # The sets are 2 ** 100,000, and log10 of 2 is .30103.
    assert "about 10^30,102 symbols for 100,000 categories" in capsys.readouterr().out
