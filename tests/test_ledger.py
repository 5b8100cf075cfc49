"""The ledger keeps every batch once, whole, and through kills."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ppdm_dask.engine.cells import Batch, Cell, gaps
from ppdm_dask.engine.ledger import Ledger, pack, unpack
from ppdm_dask.errors import PPDMError, RunFolderError

CELL = Cell("q=0.5", {"q": 0.5}, 10)
OTHER = Cell("q=1", {"q": 1}, 4)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.sqlite"


@pytest.fixture
def ledger(path: Path) -> Iterator[Ledger]:
    with Ledger(path) as opened:
        yield opened


def store(ledger: Ledger, cell: Cell, start: int, stop: int, seconds: float = 0.5) -> None:
    """Repeat r has the number 100 r and the pair (r, -r)."""
    repeats = np.arange(start, stop)
    arrays = {
        "correct": (100 * repeats).astype(np.int32),
        "pair": np.stack([repeats, -repeats], axis=1).astype(float),
    }
    ledger.commit(cell, start, stop, arrays, seconds)


class TestGaps:
    def test_known_cases(self) -> None:
        assert list(gaps([], 5)) == [(0, 5)]
        assert list(gaps([(0, 5)], 5)) == []
        assert list(gaps([(1, 2), (4, 5)], 7)) == [(0, 1), (2, 4), (5, 7)]
        assert list(gaps([(0, 2), (2, 9)], 5)) == []
        assert list(gaps([(6, 9)], 5)) == [(0, 5)]

    @given(st.lists(st.booleans(), max_size=30), st.integers(1, 40))
    def test_gaps_are_what_is_not_stored(self, kept: list[bool], repeats: int) -> None:
        stored = [(index, index + 1) for index, keep in enumerate(kept) if keep]
        open_repeats = [r for start, stop in gaps(stored, repeats) for r in range(start, stop)]
        assert open_repeats == [r for r in range(repeats) if (r, r + 1) not in stored]


class TestPayload:
    @pytest.mark.parametrize("dtype", ["?", "i1", "<u2", ">i4", "<i8", "<u8", ">f8", "<f4", "<c16"])
    def test_arrays_come_back_in_little_endian(self, dtype: str) -> None:
        array = np.arange(6).reshape(3, 2).astype(dtype)
        back = unpack(pack({"x": array}))["x"]
        assert back.dtype == array.dtype.newbyteorder("<")
        np.testing.assert_array_equal(back, array)

    def test_bytes_are_the_raw_values(self) -> None:
        payload = pack({"x": np.array([1, 2], ">i4")})
        assert payload.endswith(bytes([1, 0, 0, 0, 2, 0, 0, 0]))

    def test_nan_bits_and_strides_survive(self) -> None:
        array = np.array([np.nan, -0.0, np.inf, 5e-324, 1.0, 2.0])[::2]
        back = unpack(pack({"x": array}))["x"]
        assert back.tobytes() == np.ascontiguousarray(array).tobytes()

    def test_cut_bytes_are_refused(self) -> None:
        payload = pack({"x": np.arange(4)})
        with pytest.raises(ValueError, match="buffer is smaller"):
            unpack(payload[:-1])
        with pytest.raises(ValueError, match="bytes stored"):
            unpack(payload + b"\0")


class TestCommit:
    def test_results_come_back_in_order_of_the_repeats(self, ledger: Ledger) -> None:
        for start, stop in [(6, 10), (0, 1), (1, 6)]:
            store(ledger, CELL, start, stop)
        results = ledger.collect(CELL)
        np.testing.assert_array_equal(results["correct"], 100 * np.arange(10))
        assert results["correct"].dtype == np.int32
        np.testing.assert_array_equal(results["pair"][:, 1], -np.arange(10))
        np.testing.assert_array_equal(ledger.finished(CELL), np.arange(10))
        assert ledger.missing([CELL]) == []

    def test_partial_cell_says_which_repeats_it_has(self, ledger: Ledger) -> None:
        store(ledger, CELL, 2, 4)
        store(ledger, CELL, 7, 8)
        np.testing.assert_array_equal(ledger.finished(CELL), [2, 3, 7])
        np.testing.assert_array_equal(ledger.collect(CELL)["correct"], [200, 300, 700])
        assert ledger.missing([OTHER, CELL]) == [
            Batch(OTHER, 0, 4),
            Batch(CELL, 0, 2),
            Batch(CELL, 4, 7),
            Batch(CELL, 8, 10),
        ]

    def test_nothing_stored(self, ledger: Ledger) -> None:
        assert ledger.collect(CELL) == {}
        assert ledger.finished(CELL).size == 0
        assert ledger.cost(CELL) == (0.0, 0)
        assert ledger.cheapest(CELL) is None

    def test_fewer_repeats_asked_than_stored(self, ledger: Ledger) -> None:
        store(ledger, CELL, 0, 6)
        store(ledger, CELL, 6, 10)
        fewer = Cell(CELL.id, CELL.params, 5)
        np.testing.assert_array_equal(ledger.collect(fewer)["correct"], 100 * np.arange(5))
        np.testing.assert_array_equal(ledger.finished(fewer), np.arange(5))
        assert ledger.missing([fewer]) == []

    def test_cost(self, ledger: Ledger) -> None:
        store(ledger, CELL, 0, 2, seconds=1.0)
        store(ledger, CELL, 2, 10, seconds=2.0)
        assert ledger.cost(CELL) == (3.0, 10)
        assert ledger.cheapest(CELL) == 0.25

    @pytest.mark.parametrize("clash", [(3, 4), (0, 4), (5, 6), (0, 10), (3, 6)])
    def test_no_repeat_is_stored_twice(self, ledger: Ledger, clash: tuple[int, int]) -> None:
        store(ledger, CELL, 3, 6)
        with pytest.raises(PPDMError, match=r"^cell q=0\.5, .*repeats 3 to 5 are stored already$"):
            store(ledger, CELL, *clash)
        np.testing.assert_array_equal(ledger.finished(CELL), [3, 4, 5])
        store(ledger, CELL, 0, 3)
        store(ledger, CELL, 6, 7)
        store(ledger, OTHER, 3, 4)
        np.testing.assert_array_equal(ledger.finished(CELL), np.arange(7))

    def test_wrong_results_are_refused_and_leave_nothing(self, ledger: Ledger) -> None:
        with pytest.raises(PPDMError, match=r"'x' has shape \(3,\); its first axis must be 2"):
            ledger.commit(CELL, 0, 2, {"x": np.zeros(3)}, 0.1)
        with pytest.raises(PPDMError, match=r"'x' has shape \(\); its first axis"):
            ledger.commit(CELL, 0, 2, {"x": np.array(1.0)}, 0.1)
        with pytest.raises(PPDMError, match="'x' has type object; numbers are needed"):
            ledger.commit(CELL, 0, 1, {"x": np.array([None])}, 0.1)
        with pytest.raises(PPDMError, match="empty or negative"):
            ledger.commit(CELL, 2, 2, {"x": np.zeros(0)}, 0.1)
        assert ledger.finished(CELL).size == 0
        ledger.commit(CELL, 0, 2, {"x": np.zeros(2, np.int32)}, 0.1)
        with pytest.raises(PPDMError, match="earlier batches have"):
            ledger.commit(CELL, 2, 4, {"x": np.zeros(2, np.int64)}, 0.1)
        with pytest.raises(PPDMError, match="earlier batches have"):
            ledger.commit(CELL, 2, 4, {"y": np.zeros(2, np.int32)}, 0.1)
        np.testing.assert_array_equal(ledger.finished(CELL), [0, 1])

    def test_keys_of_64_bits(self, ledger: Ledger) -> None:
        assert CELL.key >= 2**63
        store(ledger, CELL, 0, 1)
        assert ledger.stored(CELL) == [(0, 1)]


class TestFile:
    def test_closing_leaves_one_file(self, path: Path) -> None:
        with Ledger(path) as ledger:
            store(ledger, CELL, 0, 10)
        assert [entry.name for entry in path.parent.iterdir()] == ["ledger.sqlite"]
        with Ledger(path) as ledger:
            np.testing.assert_array_equal(ledger.finished(CELL), np.arange(10))

    def test_second_writer_learns_who_is_first(self, path: Path, ledger: Ledger) -> None:
        with pytest.raises(RunFolderError) as error:
            Ledger(path)
        assert f"in use by process {os.getpid()};" in str(error.value)
        assert "\n" not in str(error.value)
        ledger.close()
        Ledger(path).close()

    def test_reader_sees_a_live_run(self, path: Path, ledger: Ledger) -> None:
        store(ledger, CELL, 0, 3)
        with Ledger(path, readonly=True) as reader:
            np.testing.assert_array_equal(reader.finished(CELL), [0, 1, 2])
            store(ledger, CELL, 3, 5)
            np.testing.assert_array_equal(reader.finished(CELL), np.arange(5))
            with pytest.raises(RunFolderError, match="readonly"):
                store(reader, CELL, 5, 6)

    def test_reader_of_nothing(self, path: Path) -> None:
        with pytest.raises(RunFolderError, match="there is no such ledger"):
            Ledger(path, readonly=True)
        assert not path.exists()

    @pytest.mark.parametrize("readonly", [False, True])
    def test_text_file(self, path: Path, readonly: bool) -> None:
        path.write_text("q,accuracy\n" * 200)
        with pytest.raises(RunFolderError) as error:
            Ledger(path, readonly=readonly)
        assert str(path) in str(error.value)
        assert "not a ledger, or damaged" in str(error.value)
        assert path.read_text() == "q,accuracy\n" * 200
        assert [entry.name for entry in path.parent.iterdir()] == ["ledger.sqlite"]

    def test_database_of_another_program(self, path: Path) -> None:
        connection = sqlite3.connect(path)
        connection.execute("CREATE TABLE birds (name TEXT)")
        connection.close()
        with pytest.raises(RunFolderError, match="not a ledger of a run"):
            Ledger(path)

    def test_other_version(self, path: Path) -> None:
        Ledger(path).close()
        connection = sqlite3.connect(path)
        connection.execute("PRAGMA user_version = 9")
        connection.close()
        with pytest.raises(RunFolderError, match="version 9; this program reads version 2"):
            Ledger(path, readonly=True)

    def test_truncated_file(self, path: Path) -> None:
        with Ledger(path) as ledger:
            ledger.commit(CELL, 0, 10, {"x": np.zeros((10, 5000))}, 0.1)
        path.write_bytes(path.read_bytes()[: 4096 * 10])
        with pytest.raises(RunFolderError, match="not a ledger, or damaged"):
            Ledger(path)

    def test_flipped_byte_in_the_results(self, path: Path) -> None:
        with Ledger(path) as ledger:
            ledger.commit(CELL, 0, 2, {"x": np.full(2, 1234567890123, np.int64)}, 0.1)
        content = path.read_bytes()
        value = (1234567890123).to_bytes(8, "little")
        assert content.count(value) == 2
        path.write_bytes(content.replace(value, value[:3] + b"\0" + value[4:], 1))
        with (
            Ledger(path, readonly=True) as ledger,
            pytest.raises(RunFolderError, match=r"cell q=0\.5, repeats 0 to 1 are damaged"),
        ):
            ledger.collect(CELL)

    def test_folder_that_does_not_exist(self, tmp_path: Path) -> None:
        with pytest.raises(RunFolderError, match="cannot be written"):
            Ledger(tmp_path / "nowhere" / "ledger.sqlite")

    def test_folder_in_place_of_the_file(self, path: Path) -> None:
        path.mkdir()
        with pytest.raises(RunFolderError, match="this ledger cannot be used"):
            Ledger(path)

    def test_closed_ledger(self, path: Path) -> None:
        ledger = Ledger(path)
        ledger.close()
        ledger.close()
        with pytest.raises(ValueError, match="is closed"):
            ledger.stored(CELL)


KILLED = """
import os, signal, sys
import numpy as np
from ppdm_dask.engine.cells import Cell
from ppdm_dask.engine.ledger import Ledger

ledger = Ledger(sys.argv[1])
cell = Cell("q=0.5", {"q": 0.5}, 10)
for repeat in range(5):
    ledger.commit(cell, repeat, repeat + 1, {"x": np.array([repeat])}, 0.1)
print("stored", flush=True)
signal.pause()
"""


def test_killed_writer_loses_nothing_and_frees_the_lock(path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, str(path)], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "stored\n"
            with pytest.raises(RunFolderError, match=f"in use by process {process.pid};"):
                Ledger(path)
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()
    with Ledger(path, readonly=True) as reader:
        np.testing.assert_array_equal(reader.collect(CELL)["x"], np.arange(5))
    with Ledger(path) as ledger:
        np.testing.assert_array_equal(ledger.collect(CELL)["x"], np.arange(5))
        assert ledger.missing([CELL]) == [Batch(CELL, 5, 10)]
