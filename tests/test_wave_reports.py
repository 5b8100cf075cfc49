"""Rehearsed waves: devices of invented respondents keep their permanent symbols in a file."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from checks import assert_plausible, chi_square

import ppdm_dask as pp
from ppdm_dask.collect import Survey, rehearse
from ppdm_dask.collect.series import Devices, disguise_wave, keeps_of
from ppdm_dask.designs import Permanent
from ppdm_dask.errors import DataError, InputError

BOOK = pp.Codebook.from_config(
    {
        "attribute": [
            {"name": "used", "categories": ["no", "yes", "unsure"]},
            {"name": "well", "categories": ["no", "yes"]},
        ]
    }
)
FIRST = pp.RRMatrix(
    "used",
    [[0.6, 0.2, 0.1], [0.3, 0.7, 0.2], [0.1, 0.1, 0.7]],
    categories=["no", "yes", "unsure"],
)
STAGES = Permanent(FIRST, pp.KaryResponse("used", 3, 0.6))
DESIGN = pp.Product([STAGES, pp.Warner("well", 0.8)]).bind(BOOK)


def records(n: int, seed: int = 1) -> pp.Records:
    rng = np.random.default_rng(seed)
    return pp.Records(np.stack([rng.integers(3, size=n), rng.integers(2, size=n)], axis=1), BOOK)


def test_the_law_of_two_waves_is_that_of_one_symbol(tmp_path: Path) -> None:
    n, x = 40_000, 1
    people = pp.Records(np.tile([x, 0], (n, 1)), BOOK)
    path, waves = tmp_path / "devices.json", []
    for seed in (1, 2):
        devices = Devices.read(path)
        waves.append(disguise_wave(DESIGN, people, pp.Stream.from_seed(seed), devices))
        devices.write(path)
    one, two = (wave.codes[:, 0].astype(int) for wave in waves)
    P1, P2 = STAGES.first.matrix()[:, x], STAGES.again.matrix()
    expected = n * np.einsum("z,az,bz->ab", P1, P2, P2).ravel()
    assert_plausible(iter([chi_square(np.bincount(3 * one + two, minlength=9), expected)]))
    # The other block is drawn afresh from the answer.
    well = np.bincount(2 * waves[0].codes[:, 1] + waves[1].codes[:, 1], minlength=4)
    assert_plausible(iter([chi_square(well, n * np.array([0.64, 0.16, 0.16, 0.04]))]))
    assert all(wave.design_digest == DESIGN.digest for wave in waves)


def test_answers_are_not_looked_at_where_a_symbol_is_kept() -> None:
    devices, other = Devices(), records(500, seed=2)
    disguise_wave(DESIGN, records(500), pp.Stream.from_seed(1), devices)
    same = [
        disguise_wave(DESIGN, people, pp.Stream.from_seed(3), devices).codes[:, 0]
        for people in (records(500), other)
    ]
    np.testing.assert_array_equal(*same)


def test_a_codebook_in_another_order_reads_the_same_symbols() -> None:
    devices, n = Devices(), 300
    disguise_wave(DESIGN, records(n), pp.Stream.from_seed(1), devices)
    block = DESIGN.blocks[0]
    turned = pp.Codebook((pp.Attribute("used", ("unsure", "no", "yes")),))
    own = Permanent(FIRST, pp.KaryResponse("used", 3, 0.6)).bind(turned)
    assert isinstance(block, Permanent) and isinstance(own, Permanent)
    before = devices.symbols(block, BOOK, n)
    after = devices.symbols(own, turned, n)
    assert before is not None and after is not None
    labels = np.array(["no", "yes", "unsure"])[before[:, 0]]
    np.testing.assert_array_equal(np.array(["unsure", "no", "yes"])[after[:, 0]], labels)
    assert keeps_of(block, BOOK)["stage"] == keeps_of(own, turned)["stage"]


def test_devices_that_keep_nothing_are_refused(tmp_path: Path) -> None:
    book = pp.Codebook((BOOK["well"],))
    survey = Survey("0" * 32, book, pp.Warner("well", 0.8).bind(book), (), "")
    path = tmp_path / "devices.json"
    with pytest.raises(InputError, match=r"devices\.json: the design has no permanent first stage"):
        rehearse(survey, tmp_path / "x.csv", "http://127.0.0.1:1/", devices=path)
    assert not path.exists()


def test_symbols_of_something_else_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "devices.json"
    devices = Devices.read(path)
    disguise_wave(DESIGN, records(20), pp.Stream.from_seed(1), devices)
    devices.write(path)
    kept = json.loads(path.read_text())["blocks"]['["used"]']
    assert len(kept["symbols"]) == 20
    with pytest.raises(InputError, match=r"json: symbols of 'used' are of 20 devices; there are 7"):
        disguise_wave(DESIGN, records(7), pp.Stream.from_seed(1), Devices.read(path))
    other = Permanent(pp.KaryResponse("used", 3, 0.5), pp.KaryResponse("used", 3, 0.6))
    with pytest.raises(InputError, match=r"json: symbols of 'used' are of another first stage"):
        disguise_wave(other.bind(BOOK), records(20), pp.Stream.from_seed(1), Devices.read(path))
    path.write_text("{}")
    with pytest.raises(InputError, match=r"devices\.json: "):
        Devices.read(path)


@pytest.mark.parametrize("odd", [[], [7], [-1], [0, 0], [10**30]])
def test_symbols_that_are_none_are_refused(odd: list[int], tmp_path: Path) -> None:
    path = tmp_path / "devices.json"
    devices = Devices()
    disguise_wave(DESIGN, records(20), pp.Stream.from_seed(1), devices)
    next(iter(devices.blocks.values()))["symbols"][3] = odd
    devices.write(path)
    with pytest.raises(DataError, match=r"devices\.json: symbols of .*: device 3: was not written"):
        disguise_wave(DESIGN, records(20), pp.Stream.from_seed(1), Devices.read(path))


@pytest.mark.parametrize("odd", [None, [], {}, {"stage": "x", "symbols": [["x"]]}])
def test_devices_of_another_form_are_refused(odd: object, tmp_path: Path) -> None:
    path = tmp_path / "devices.json"
    Devices({'["a"]': odd}).write(path)
    with pytest.raises(
        DataError, match=r"devices\.json: blocks\..*: was not written by this version"
    ):
        Devices.read(path)
