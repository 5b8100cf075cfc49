"""Partitioned record data: the same tables for any partitioning, scheduler and file layout."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import ppdm_dask as pp
from ppdm_dask.cluster.partitions import (
    Partition,
    disguise_and_count,
    disguise_and_sum,
    frame_partitions,
    parquet_partitions,
)
from ppdm_dask.errors import CodebookError, DataError, InputError
from ppdm_dask.experiments.inputs import prepare
from ppdm_dask.experiments.sweep.engines import BinaryNaiveBayes
from ppdm_dask.experiments.sweep.plan import SweepPlan
from ppdm_dask.experiments.sweep.recipe import Recipe
from ppdm_dask.experiments.sweep.trials import DISGUISE
from ppdm_dask.files import datafile


def assert_same(tables: list[pp.ContingencyTable], others: list[pp.ContingencyTable]) -> None:
    assert len(tables) == len(others)
    for one, two in zip(tables, others, strict=True):
        assert one.attributes == two.attributes
        np.testing.assert_array_equal(one.dense().counts, two.dense().counts)


@pytest.fixture(scope="module")
def survey() -> tuple[pd.DataFrame, pp.Codebook, pp.Design]:
    """A frame of 140,000 records, over two borders of logical blocks, and a design on it."""
    generator = np.random.default_rng(5)
    n = 140_000
    frame = pd.DataFrame(
        {
            "used": generator.choice(["no", "yes"], n, p=[0.8, 0.2]),
            "age": generator.integers(18, 90, n),
            "region": generator.choice(["east", "north", "west"], n),
        }
    )
    book = pp.Codebook(
        (
            pp.Attribute("used", ("no", "yes")),
            pp.Attribute("age", ("18-39", "40-64", "65+"), cuts=(39, 64), range=(18, 90)),
            pp.Attribute("region", ("east", "north", "west")),
        ),
        target="used",
    )
    P = [[0.7, 0.2, 0.1], [0.2, 0.6, 0.2], [0.1, 0.2, 0.7]]
    matrix = pp.RRMatrix("age", P, categories=book["age"].categories)
    return frame, book, pp.Product([pp.Warner("used", 0.8), matrix])


def test_any_partitioning_gives_the_tables_of_the_whole(survey):
    frame, book, design = survey
    stream = pp.Stream.from_seed(3)
    reports = design.disguise(book.encode(frame), stream)
    overs = [("used", "age"), ("region",)]
    whole = [pp.count(reports, design, over) for over in overs]
    for n in (1, 7, 40):
        parts = frame_partitions(frame, n)
        assert_same(disguise_and_count(parts, book, design, stream, overs), whole)


def test_labels_are_missed_before_anything_is_read(survey):
    _, book, design = survey
    bare = pp.RRMatrix("age", design.blocks[1].matrix())

    def read() -> pd.DataFrame:
        raise AssertionError("a partition was read")

    stream = pp.Stream.from_entropy()
    for over in (disguise_and_count, disguise_and_sum):
        with pytest.raises(InputError, match=r"design on 'age': .* add categories = \["):
            over([Partition(0, read)], book, bare, stream, [("age",)])


def test_a_real_disguise_counts_everybody_and_says_so(survey):
    frame, book, design = survey
    parts = frame_partitions(frame, 3)
    stream = pp.Stream.from_entropy()
    (table,) = disguise_and_count(parts, book, design, stream, [("used", "region")])
    assert table.n == len(frame)
    assert not table.simulated
    # The region passes undisguised: its margin is exact.
    expected = frame["region"].value_counts().sort_index().to_numpy()
    np.testing.assert_array_equal(table.marginal(["region"]).counts, expected)


def test_parquet_row_groups_over_files_are_one_data_set(survey, tmp_path, monkeypatch):
    frame, book, design = survey
    paths = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    frame.iloc[:100_001].to_parquet(paths[0], row_group_size=30_000)
    frame.iloc[100_001:].to_parquet(paths[1], row_group_size=7_777)
    each = parquet_partitions(paths, book, records=1)
    assert [part.offset for part in each][:6] == [0, 30_000, 60_000, 90_000, 100_001, 107_778]
    # Two of the first file's groups, and seven of the second's, are together below 60,000.
    some = parquet_partitions(paths, book, records=60_000)
    assert [part.offset for part in some][:3] == [0, 60_000, 100_001]
    assert [part.offset for part in parquet_partitions(paths, book)] == [0, 100_001]
    stream = pp.Stream.from_seed(4)
    overs = [("used", "age", "region")]
    expected = disguise_and_count(frame_partitions(frame, 1), book, design, stream, overs)
    for parts in (each, some):
        assert_same(disguise_and_count(parts, book, design, stream, overs), expected)
        whole = pd.concat([part.read() for part in parts], ignore_index=True)
        assert whole["region"].tolist() == frame["region"].tolist()
    # Without blocks as large as the partition.
    monkeypatch.setattr(datafile, "BLOCK", 999)
    monkeypatch.setattr(datafile, "CELLS", 1)
    assert max(len(block) for block, _ in each[0].blocks()) == 999
    assert_same(disguise_and_count(some, book, design, stream, overs), expected)


@pytest.mark.parametrize("q", [0.05, 0.6, 1])
def test_the_sweep_counts_what_the_partitions_count(q):
    """For one (q, repeat), class by feature, on Breast-Cancer and on Adult at full size."""
    recipe = Recipe.load("electronic-surveys")
    plan = SweepPlan(recipe, [prepare(recipe, entry) for entry in recipe.data])
    for index in (0, 2):
        cell = next(
            cell
            for point, cell, _ in plan.points
            if point.index[0] == index and point.values["q"] == q
        )
        setting = plan.work.setting(cell)
        engine = BinaryNaiveBayes(setting)
        repeat = 11
        expected = engine.pair_tables(repeat)
        sample = setting.sample
        book = sample.records.codebook
        training = sample.records.slice(0, sample.n_train)
        # The partitions carry codes as labels of a codebook of their own.
        codes = pd.DataFrame(training.codes, columns=book.names)
        own = pp.Codebook(tuple(pp.Attribute(name, ("0", "1")) for name in book.names))
        overs = [table.attributes for table in expected]
        stream = setting.stream(repeat, DISGUISE)
        for n in (1, 3, 17):
            parts = frame_partitions(codes, n)
            tables = disguise_and_count(parts, own, setting.design, stream, overs)
            assert_same(tables, expected)


def test_bad_records_name_the_row_in_the_whole_data_set(survey):
    frame, book, design = survey
    frame = frame.copy()
    frame.loc[120_123, "region"] = "south"
    parts = frame_partitions(frame, 5)
    with pytest.raises(CodebookError, match=r"'region', row 120123: value 'south'"):
        disguise_and_count(parts, book, design, pp.Stream.from_seed(1), [("used",)])


def test_bad_input_is_named(survey, tmp_path):
    frame, book, design = survey
    stream = pp.Stream.from_seed(1)
    with pytest.raises(InputError, match="partitions: got 0"):
        frame_partitions(frame, 0)
    with pytest.raises(InputError, match="there are none"):
        disguise_and_count([], book, design, stream, [("used",)])
    with pytest.raises(DataError, match=r"gone\.parquet: there is no such file"):
        parquet_partitions(tmp_path / "gone.parquet", book)
    text = tmp_path / "text.parquet"
    text.write_text("no Parquet at all")
    with pytest.raises(DataError, match=r"text\.parquet: cannot be read as Parquet"):
        parquet_partitions(text, book)
    short = tmp_path / "short.parquet"
    frame[["used", "age"]].to_parquet(short)
    with pytest.raises(DataError, match=r"short\.parquet: column 'region' is absent"):
        parquet_partitions(short, book)


def test_sets_are_summed_partition_by_partition(survey):
    from ppdm_dask.designs import SubsetSelection, UnaryEncoding

    frame, book, _ = survey
    design = pp.Product(
        [
            UnaryEncoding("region", 3, epsilon=1.0),
            SubsetSelection("age", 3, epsilon=2.0),
            pp.Warner("used", 0.8),
        ]
    )
    stream, overs = pp.Stream.from_seed(4), [("region",), ("age", "used"), ("used",)]
    reports = design.disguise(book.encode(frame), stream)
    whole = [pp.estimate(reports, over, design=design) for over in overs]
    for n in (1, 20):
        sums = disguise_and_sum(frame_partitions(frame, n), book, design, stream, overs)
        for one, other in zip(sums, whole, strict=True):
            estimate = one.estimate()
            np.testing.assert_allclose(estimate.values, other.values, rtol=1e-10)
            np.testing.assert_allclose(estimate.variance, other.variance, rtol=1e-7)
            assert estimate.n == len(frame)
    truth = (frame["used"] == "yes").mean()
    assert abs(whole[2].values[1] - truth) < 5 * whole[2].standard_error[1]
