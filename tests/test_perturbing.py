"""AIBR on partitions: the same release for any partitioning, and nothing but counts comes back."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from ppdm_dask.cluster.partitions import frame_partitions, parquet_partitions
from ppdm_dask.cluster.perturbing import perturb_partitions, summarise_partitions
from ppdm_dask.errors import DataError, InputError
from ppdm_dask.perturb import AIBR
from ppdm_dask.perturb.release import METADATA
from ppdm_dask.randomness import Stream

COLUMNS = ("age", "income", "visits")


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    """140,000 records, over two borders of logical blocks, with gaps and whole numbers."""
    rng = np.random.default_rng(1)
    n = 140_000
    visits = pd.Series(rng.poisson(4, n)).astype("Int64").mask(rng.random(n) < 0.1)
    return pd.DataFrame(
        {
            "age": rng.integers(18, 90, n),
            "income": rng.lognormal(10, 1, n),
            "visits": visits,
            "region": rng.choice(["east", "north"], n),
        }
    )


def read(parts) -> pd.DataFrame:
    return pd.concat([pd.read_parquet(file) for file in parts.files], ignore_index=True)


def test_any_partitioning_gives_the_release_of_the_whole(frame, tmp_path):
    method = AIBR(9, integers=True)
    stream = Stream.from_seed(3)
    columns = frame[list(COLUMNS)]
    whole = AIBR(9, integers=True).fit(columns)
    expected = whole.perturb(columns, stream)
    for n in (1, 7, 64):
        partitions = frame_partitions(frame, n)
        parts = perturb_partitions(
            method, partitions, COLUMNS, stream, tmp_path / str(n), keep=["region"]
        )
        released = read(parts)
        assert len(parts.files) == n
        found = released[list(COLUMNS)].to_numpy(dtype=float, na_value=np.nan)
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(parts.counts, whole.counts(columns))
        np.testing.assert_array_equal(parts.method.edges_, whole.edges_)
        assert list(released) == ["age", "income", "visits", "region"]
        assert released["region"].equals(frame["region"])
        assert [str(dtype) for dtype in released.dtypes][:3] == ["int64", "float64", "Int64"]
        assert (released["visits"].isna() == frame["visits"].isna()).all()


def test_row_groups_of_files_are_one_data_set(frame, tmp_path):
    paths = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    frame.iloc[:80_001].to_parquet(paths[0], row_group_size=30_000)
    frame.iloc[80_001:].to_parquet(paths[1], row_group_size=11_111)
    partitions = parquet_partitions(paths, COLUMNS, records=1)
    parts = perturb_partitions(AIBR(5), partitions, COLUMNS, Stream.from_seed(4), tmp_path / "out")
    assert len(parts.files) == 3 + 6
    columns = frame[list(COLUMNS)]
    expected = AIBR(5).fit(columns).perturb(columns, Stream.from_seed(4))
    np.testing.assert_array_equal(read(parts).to_numpy(dtype=float), expected)


def test_files_say_what_made_them(frame, tmp_path):
    partitions = frame_partitions(frame.iloc[:100], 2)
    for stream in (Stream.from_seed(1), Stream.from_entropy()):
        folder = tmp_path / str(stream.simulated)
        parts = perturb_partitions(AIBR(5), partitions, ["age"], stream, folder)
        about = json.loads(pq.read_schema(parts.files[0]).metadata[METADATA])
        config = {"id": "aibr", "k": 5, "integers": False, "constant": "refuse"}
        assert about == {**config, "simulated": stream.simulated}
    assert not list(tmp_path.rglob(".*"))


def test_the_tree_of_summaries_is_the_summary(frame):
    partitions = frame_partitions(frame, 40)
    summary = summarise_partitions(partitions, COLUMNS)
    assert summary.n == 140_000
    assert summary.missing.tolist() == [0, 0, int(frame["visits"].isna().sum())]
    assert summary.low[1] == frame["income"].min()
    assert summary.high[1] == frame["income"].max()
    assert summary.whole.tolist() == [True, False, True]


def test_bad_data_name_the_row_in_the_whole(frame, tmp_path):
    text = frame.assign(age=frame["age"].astype(object))
    text.loc[120_123, "age"] = "old"
    stream = Stream.from_seed(1)
    with pytest.raises(DataError, match="column 'age', row 120123: 'old' is not a finite number"):
        perturb_partitions(AIBR(3), frame_partitions(text, 9), ["age"], stream, tmp_path / "a")
    with pytest.raises(InputError, match="there are none"):
        perturb_partitions(AIBR(3), [], ["age"], stream, tmp_path / "b")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    with pytest.raises(DataError, match="full: the folder is not empty"):
        perturb_partitions(AIBR(3), frame_partitions(frame, 2), ["age"], stream, tmp_path / "full")
    with pytest.raises(DataError, match="cannot be made"):
        perturb_partitions(
            AIBR(3), frame_partitions(frame, 2), ["age"], stream, tmp_path / "full" / "file" / "x"
        )
    gone = frame.assign(gone=np.nan)
    with pytest.raises(DataError, match="column 'gone': every value is missing"):
        perturb_partitions(AIBR(3), frame_partitions(gone, 2), ["gone"], stream, tmp_path / "c")
