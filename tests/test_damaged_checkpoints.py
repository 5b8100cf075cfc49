"""Checkpoints of searches are taken up whole or not at all, and never wrong."""

from __future__ import annotations

import hashlib
import io
import json
import logging
import os
import pickle
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ppdm_dask.cli import main
from ppdm_dask.errors import InputError
from ppdm_dask.experiments.fronts.plan import FrontPlan
from ppdm_dask.experiments.fronts.recipe import FrontRecipe
from ppdm_dask.randomness import SimulationStream
from ppdm_dask.search import methods as checkpoints
from ppdm_dask.search.checkpoints import MAGIC, DamagedCheckpoint, read_checkpoint, write_checkpoint
from ppdm_dask.search.limit import levels
from ppdm_dask.search.methods import evolve, refine
from ppdm_dask.search.problem import Problem, Settings
from ppdm_dask.search.spea2 import Evolution

PROBLEM = Problem([0.2, 0.5, 0.3], 1_000, 0.8)
TINY = Settings(generations=4, population=6, archive=6, slots=20)
AT = levels(PROBLEM)[::30]
MOST = 1 << 22


def search(path: Path, method: str = "memetic", generations: int = 6):
    chosen = Settings(generations=generations, population=6, archive=6, slots=20)
    if method == "spea2":
        return evolve(PROBLEM, chosen, SimulationStream(1), checkpoint=path)
    return refine(PROBLEM, chosen, SimulationStream(1), at=AT, checkpoint=path)


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> bytes:
    """A memetic search's checkpoint."""
    path = tmp_path_factory.mktemp("kept") / "search.checkpoint"
    search(path, generations=4)
    return path.read_bytes()


def forged(facts: object, arrays: object, values: bytes = b"") -> bytes:
    """A file whose checksum is right."""
    return signed(json.dumps({"facts": facts, "arrays": arrays}).encode(), values)


def signed(header: bytes, values: bytes = b"") -> bytes:
    content = len(header).to_bytes(8, "little") + header + values
    return MAGIC + hashlib.sha256(content).hexdigest().encode() + b"\n" + content


def npz(**arrays: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def npy_header_of_64_gib() -> bytes:
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (8589934592,), }"
    header += b" " * (118 - len(header) - 1) + b"\n"
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("population.npy", b"\x93NUMPY\x01\x00v\x00" + header)
    return file.getvalue()


def bomb() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("population.npy", bytes(1 << 26))
    return file.getvalue()


DAMAGE = {
    "empty": b"",
    "text": b"not a checkpoint\n",
    "npy": npz(a=np.zeros(3))[30:],
    "earlier": npz(population=np.zeros((2, 3, 3))),
    "64 GiB": npy_header_of_64_gib(),
    "bomb": bomb(),
    "pickle": pickle.dumps({"population": np.zeros(3)}),
    "magic": MAGIC,
    "no content": MAGIC + hashlib.sha256(b"").hexdigest().encode() + b"\n",
    "header too long": MAGIC + b"0" * 64 + b"\n" + b"\xff" * 8,
    "huge shape": forged({}, [["population", "<f8", [1 << 40, 3, 3]]]),
    "shape that overflows": forged({}, [["population", "<f8", [1 << 32, 1 << 32, 1 << 32]]]),
    "negative shape": forged({}, [["population", "<f8", [-1]]]),
    "objects": forged({}, [["population", "|O", [1]]], bytes(8)),
    "shape of texts": forged({}, [["population", "<f8", ["3"]]]),
    "a list": forged([1], []),
    "values beyond": forged({}, [], b"12345678"),
    "no arrays": forged({}, {}),
    "deep": signed(b'{"facts": ' + b"[" * 100_000),
}


@pytest.fixture(scope="module")
def prior_file(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("prior") / "prior.toml"
    path.write_text('attribute = "answer"\n[prior]\na = 0.2\nb = 0.5\nc = 0.3\n')
    return path


def refused(prior_file: Path, checkpoint: Path, out: Path, capsys) -> str:
    began = time.monotonic()
    code = main(
        [
            *("optimize", "--prior", str(prior_file), "--n", "1000", "--generations", "2"),
            *("--checkpoint", str(checkpoint), "--out", str(out)),
        ]
    )
    error = capsys.readouterr().err
    assert code == 2
    assert time.monotonic() - began < 60  # a second where nothing else runs; no wait for gigabytes
    assert error.startswith(f"ppdm: error: {checkpoint}: ") and error.count("\n") == 1
    assert not out.exists()
    return error


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_checkpoint_is_one_line_with_its_remedy(name, prior_file, tmp_path, capsys):
    path = tmp_path / "search.checkpoint"
    path.write_bytes(DAMAGE[name])
    error = refused(prior_file, path, tmp_path / "out", capsys)
    assert "no checkpoint of this search: " in error or "checkpoint of another search" in error
    assert error.endswith("; remove it to begin again\n")
    assert path.read_bytes() == DAMAGE[name]
    if name in ("earlier", "64 GiB", "bomb"):
        assert "an earlier version of this program wrote it" in error


def test_what_is_no_file_is_one_line(prior_file, tmp_path, capsys):
    pipe, loop = tmp_path / "pipe", tmp_path / "loop"
    os.mkfifo(pipe)
    loop.symlink_to(loop)
    out = tmp_path / "out"
    assert "this is a device or a pipe" in refused(prior_file, pipe, out, capsys)
    assert "this is a device or a pipe" in refused(prior_file, Path("/dev/zero"), out, capsys)
    assert "this is a folder" in refused(prior_file, tmp_path, out, capsys)
    assert "cannot be read" in refused(prior_file, loop, out, capsys)
    none = tmp_path / "none" / "search.checkpoint"
    assert "there is no folder" in refused(prior_file, none, out, capsys)


def test_a_file_of_64_gib_is_not_read(prior_file, tmp_path, capsys):
    path = tmp_path / "search.checkpoint"
    path.write_bytes(MAGIC + b"0" * 64 + b"\n")
    os.truncate(path, 64 << 30)  # sparse
    error = refused(prior_file, path, tmp_path / "out", capsys)
    assert "it has 68,719,476,736 bytes, this search needs at most" in error


def test_truncated_anywhere(whole, tmp_path):
    path = tmp_path / "search.checkpoint"
    for stop in [*range(0, 200, 7), *range(200, len(whole), len(whole) // 20), len(whole) - 1]:
        path.write_bytes(whole[:stop])
        with pytest.raises(DamagedCheckpoint, match="remove it to begin again"):
            search(path)


def flip(whole: bytes, place: int, path: Path) -> None:
    """No bit of the file can change unnoticed: what follows the checksum is under it."""
    content = bytearray(whole)
    content[place // 8] ^= 1 << place % 8
    path.write_bytes(content)
    with pytest.raises(DamagedCheckpoint, match="remove it to begin again"):
        search(path)


@pytest.mark.parametrize(
    "number", [20, pytest.param(200, marks=pytest.mark.slow)], ids=["some", "many"]
)
def test_bit_flips_are_refused(whole, tmp_path, number):
    rng = np.random.default_rng(number)
    for place in rng.integers(8 * len(whole), size=number):
        flip(whole, int(place), tmp_path / "search.checkpoint")


@settings(max_examples=40)
@given(st.data())
def test_a_right_checksum_over_wrong_content_is_refused_too(tmp_path_factory, whole, data):
    """Arrays of other shapes and types, and missing ones, under a checksum that is right."""
    path = tmp_path_factory.mktemp("forged") / "search.checkpoint"
    path.write_bytes(whole)
    facts, arrays = read_checkpoint(path, MOST)
    name = data.draw(st.sampled_from(sorted(arrays)))
    kind = data.draw(st.sampled_from(["missing", "shorter", "longer", "flat", "type", "facts"]))
    array = arrays[name]
    if kind == "missing":
        del arrays[name]
    elif kind in ("shorter", "longer"):
        if not array.ndim or not len(array):
            return
        arrays[name] = array[:-1] if kind == "shorter" else np.concatenate([array, array])
    elif kind == "flat":
        arrays[name] = array.ravel() if array.ndim > 1 else array[None]
    elif kind == "type":
        other = np.float64 if array.dtype.kind == "i" else np.int64
        arrays[name] = np.zeros(array.shape, other)
    else:
        facts = {**facts, data.draw(st.sampled_from(sorted(facts))): None}
    write_checkpoint(path, facts, arrays)
    with pytest.raises(DamagedCheckpoint, match="remove it to begin again"):
        search(path)


@pytest.mark.parametrize("at", [[0, 0], [3, 2], [0, 20], [-1, 4]])
def test_slots_that_omega_does_not_have_are_refused(tmp_path, at):
    path = tmp_path / "search.checkpoint"
    Evolution(PROBLEM, TINY, SimulationStream(1)).save(path)
    facts, arrays = read_checkpoint(path, MOST)
    slots = np.array(at)
    for name in ("P", "privacy", "worst", "mse"):
        arrays[f"omega_{name}"] = np.resize(
            arrays[f"omega_{name}"], (2, *arrays[f"omega_{name}"].shape[1:])
        )
    write_checkpoint(path, facts, {**arrays, "omega_at": slots})
    with pytest.raises(DamagedCheckpoint, match="slots do not belong to this Omega"):
        Evolution(PROBLEM, TINY, SimulationStream(1)).restore(path)


@settings(max_examples=30)
@given(st.data())
def test_numbers_that_no_matrix_of_it_has_are_refused(tmp_path_factory, whole, data):
    """One number of one matrix, under a checksum that is right: too good a one would stay."""
    path = tmp_path_factory.mktemp("better") / "search.checkpoint"
    path.write_bytes(whole)
    facts, arrays = read_checkpoint(path, MOST)
    wrong = st.sampled_from([0.0, -1.0, float("nan"), -float("inf"), 1e-9])
    if data.draw(st.booleans()):
        name = data.draw(st.sampled_from(["omega_privacy", "omega_worst", "omega_mse"]))
        values = arrays[name]
    else:
        values = arrays["found"][data.draw(st.integers(0, 2))]
    values[data.draw(st.integers(0, len(values) - 1))] = data.draw(wrong)
    write_checkpoint(path, facts, arrays)
    with pytest.raises(DamagedCheckpoint, match="remove it to begin again"):
        search(path)


@pytest.mark.parametrize("method", ["spea2", "memetic"])
def test_whole_checkpoints_are_taken_up_to_the_same_bits(tmp_path, method, monkeypatch):
    monkeypatch.setattr(checkpoints, "GENERATIONS", 3)
    path = tmp_path / "search.checkpoint"
    search(path, method, generations=4)
    resumed = search(path, method)
    once = search(tmp_path / "other", method)
    np.testing.assert_array_equal(resumed.P, once.P)


RECIPE = {
    "about": {"title": "Searches"},
    "prior": [{"id": "uniform", "law": "uniform", "bins": 3, "delta": [0.8]}],
    "search": {"methods": ["spea2"], "n_records": 100, "generations": 4, "population": 6}
    | {"archive": 6, "slots": 20},
    "sweep": {"repeats": 1, "seed": 5},
}


@pytest.mark.parametrize("name", ["empty", "earlier", "flip", "another"])
def test_a_run_begins_a_repeat_again_where_its_checkpoint_is_damaged(tmp_path, name, whole, caplog):
    plan = FrontPlan.make(FrontRecipe.from_config(RECIPE))
    cell = next(cell for cell in plan.cells if cell.params["method"] == "spea2")
    expected = plan.work.trials(cell, 0, 1)
    path = tmp_path / f"{cell.key:016x}-0.checkpoint"
    content = {"flip": whole[:-1] + b"!", "another": whole}.get(name) or DAMAGE.get(name, b"")
    path.write_bytes(content)
    with caplog.at_level(logging.WARNING):
        found = plan.work.keeping(tmp_path).trials(cell, 0, 1)
    (record,) = caplog.records
    assert record.getMessage().startswith(f"{path}: ")
    assert record.getMessage().endswith(": this repeat begins again")
    np.testing.assert_array_equal(found["mse"], expected["mse"])
    assert not list(tmp_path.iterdir())


def test_a_run_s_checkpoint_that_is_no_file_is_one_line(tmp_path):
    plan = FrontPlan.make(FrontRecipe.from_config(RECIPE))
    cell = next(cell for cell in plan.cells if cell.params["method"] == "spea2")
    (tmp_path / f"{cell.key:016x}-0.checkpoint").mkdir()
    with pytest.raises(InputError, match="this is a folder"):
        plan.work.keeping(tmp_path).trials(cell, 0, 1)
