"""Reports of a Dask user's data: lazy, the same in any partitioning, and one for each answer."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import dask
import dask.dataframe as dd
import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import ppdm_dask as pp
from ppdm_dask.cluster import reports as reports_room
from ppdm_dask.cluster.keys import KeyNumber, _held
from ppdm_dask.cluster.reports import LazyReports
from ppdm_dask.data import partitioned
from ppdm_dask.data.partitioned import PartitionedReports
from ppdm_dask.designs import UnaryEncoding
from ppdm_dask.errors import ClusterError, CodebookError, DataError, DisguisedAgain, InputError
from ppdm_dask.inference import sum_weights
from ppdm_dask.randomness import KeyedStream

N = 3_000
BOOK = pp.Codebook(
    (pp.Attribute("used", ("no", "yes")), pp.Attribute("region", ("east", "north", "west")))
)
DESIGN = pp.Warner("used", 0.8).bind(BOOK)
SEED = pp.Stream.from_seed(4)


@pytest.fixture(autouse=True)
def nothing_disguised_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partitioned, "_disguised", {})


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    generator = np.random.default_rng(5)
    return pd.DataFrame(
        {
            "name": [f"person {i}" for i in range(N)],
            "region": generator.choice(["east", "north", "west"], N),
            "used": generator.choice(["no", "yes"], N, p=[0.7, 0.3]),
        }
    )


@pytest.fixture(scope="module")
def whole(frame: pd.DataFrame) -> pp.Reports:
    return DESIGN.disguise(BOOK.encode(frame), SEED)


def cut(frame: pd.DataFrame, n: int) -> list[pd.DataFrame]:
    return [frame.iloc[low : low + n] for low in range(0, len(frame), n)]


def part(frames: list[pd.DataFrame], i: int) -> pd.DataFrame:
    return frames[i]


def from_frames(frames: list[pd.DataFrame]) -> dd.DataFrame:
    """A collection with unknown divisions."""
    return dd.from_map(partial(part, frames), range(len(frames)), meta=frames[0].head(0))


def shouted(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(used=frame["used"].str.lower())


def files(frame: pd.DataFrame, folder: Path) -> dict[str, Any]:
    for i, piece in enumerate(cut(frame, 1_100)):
        piece.to_csv(folder / f"{i}.csv", index=False)
        piece.to_parquet(folder / f"{i}.parquet", row_group_size=400)
        piece.reset_index(drop=True).to_feather(folder / f"{i}.arrow")
    return {
        "csv": [folder / f"{i}.csv" for i in range(3)],
        "parquet": str(folder / "*.parquet"),
        "arrow": str(folder / "?.arrow"),
    }


COLLECTIONS: dict[str, Callable[[pd.DataFrame], Any]] = {
    "pandas": lambda frame: frame,
    "arrow": lambda frame: pa.Table.from_pandas(frame),
    "a stream of arrow": lambda frame: pa.RecordBatchReader.from_batches(
        pa.Schema.from_pandas(frame), pa.Table.from_pandas(frame).to_batches(700)
    ),
    "dict": lambda frame: frame.to_dict("list"),
    "polars": lambda frame: pl.from_pandas(frame),
    "polars in chunks": lambda frame: pl.concat(
        [pl.from_pandas(frame.head(700)), pl.from_pandas(frame.tail(-700))], rechunk=False
    ),
    "polars with types": lambda frame: pl.from_pandas(frame).with_columns(
        pl.col("used").cast(pl.Enum(["yes", "no"])), pl.col("region").cast(pl.Categorical)
    ),
    "dict of polars": lambda frame: pl.from_pandas(frame).to_dict(),
    "narwhals of pandas": lambda frame: nw.from_native(frame),
    "narwhals of polars": lambda frame: nw.from_native(pl.from_pandas(frame)),
    "dask": lambda frame: dd.from_pandas(frame, npartitions=7),
    "one partition": lambda frame: dd.from_pandas(frame, npartitions=1),
    "unknown divisions": lambda frame: from_frames(cut(frame, 333)),
    "map_partitions before": lambda frame: from_frames(
        cut(frame.assign(used=frame["used"].str.upper()), 333)
    ).map_partitions(shouted),
    "empty partitions": lambda frame: from_frames(
        [frame.head(0), *cut(frame, 1_000), frame.head(0)]
    ),
    "categoricals": lambda frame: dd.from_pandas(frame.astype({"used": "category"}), npartitions=2),
    "persisted": lambda frame: dd.from_pandas(frame, npartitions=3).persist(),
    "delayed": lambda frame: [dask.delayed(part)(cut(frame, 700), i) for i in range(5)],
    "delayed arrow": lambda frame: [
        dask.delayed(pa.Table.from_pandas)(piece) for piece in cut(frame, 1_600)
    ],
}


@pytest.mark.parametrize("kind", COLLECTIONS)
def test_a_simulation_is_the_same_for_any_collection(
    kind: str, frame: pd.DataFrame, whole: pp.Reports
) -> None:
    given = COLLECTIONS[kind](frame)
    reports = DESIGN.disguise(given, SEED)
    if isinstance(reports, LazyReports):
        assert isinstance(reports, PartitionedReports) and reports.simulated
        table = pp.count(reports, DESIGN)
        np.testing.assert_array_equal(table.counts, pp.count(whole, DESIGN).counts)
        reports = reports.compute()
    np.testing.assert_array_equal(reports.codes, whole.codes)
    assert (reports.design_digest, reports.simulated) == (whole.design_digest, True)


def test_partitions_lack_categories_and_have_them_in_another_order(frame: pd.DataFrame) -> None:
    pieces = [piece.astype("category") for piece in cut(frame[["region", "used"]].head(60), 2)]
    assert {tuple(piece["used"].cat.categories) for piece in pieces} > {("no",), ("no", "yes")}
    pieces[3] = pieces[3].assign(used=pieces[3]["used"].cat.set_categories(["yes", "no"]))
    found = DESIGN.disguise(from_frames(pieces), SEED).compute()
    expected = DESIGN.disguise(BOOK.encode(frame.head(60)), SEED)
    np.testing.assert_array_equal(found.codes, expected.codes)


@pytest.mark.parametrize("kind", ["csv", "parquet", "arrow"])
def test_files_are_a_collection(
    kind: str, frame: pd.DataFrame, whole: pp.Reports, tmp_path: Path
) -> None:
    reports = DESIGN.disguise(files(frame, tmp_path)[kind], SEED)
    # One for each file: row groups of Parquet that are so small share it.
    assert reports.npartitions == 3
    np.testing.assert_array_equal(reports.compute().codes, whole.codes)


def test_a_folder_is_its_files(frame: pd.DataFrame, whole: pp.Reports, tmp_path: Path) -> None:
    (tmp_path / "answers").mkdir()
    for i, piece in enumerate(cut(frame, 375)):  # named as Dask names them
        piece.to_parquet(tmp_path / "answers" / f"part.{i}.parquet")
    reports = DESIGN.disguise(tmp_path / "answers", SEED)
    np.testing.assert_array_equal(reports.compute().codes, whole.codes)
    again = DESIGN.disguise(dd.read_parquet(tmp_path / "answers"), SEED)
    np.testing.assert_array_equal(again.compute().codes, whole.codes)


@pytest.mark.parametrize("scheduler", ["sync", "threads"])
def test_one_answer_has_one_report(scheduler: str, frame: pd.DataFrame) -> None:
    """However often, in whatever way, and from however many partitions it is computed."""
    reports = DESIGN.disguise(from_frames(cut(frame, 100)))
    assert not reports.simulated and reports.npartitions == 30
    first = reports.compute(scheduler=scheduler)
    assert not first.simulated and len(first) == N
    used = pd.Series(first.column("used"))
    for _ in range(4):
        np.testing.assert_array_equal(reports.compute(scheduler=scheduler).codes, first.codes)
    other, table = dask.compute(reports, reports.count(["used"]), scheduler=scheduler)
    np.testing.assert_array_equal(other.codes, first.codes)
    np.testing.assert_array_equal(table.counts, np.bincount(used))
    kept = reports.persist(scheduler=scheduler)
    np.testing.assert_array_equal(kept.compute().codes, first.codes)
    np.testing.assert_array_equal(pp.count(kept, DESIGN, ["used"]).counts, np.bincount(used))
    labels = reports.to_frame()["used"].compute(scheduler=scheduler)
    np.testing.assert_array_equal(labels.cat.codes, used)
    # A tenth of 3,000 flips of .2: SE .0073.
    truth = BOOK.encode(frame).column("used")
    assert abs((first.column("used") != truth).mean() - 0.2) < 0.04
    np.testing.assert_array_equal(first.column("region"), BOOK.encode(frame).column("region"))


def test_partitions_of_the_same_answers_draw_apart(frame: pd.DataFrame) -> None:
    piece = frame.head(1_000)
    codes = DESIGN.disguise(from_frames([piece, piece])).compute().column("used")
    # Flips of .2 and .2 that are independent agree in .68 of the cases: SE .015.
    assert abs((codes[:1_000] == codes[1_000:]).mean() - 0.68) < 0.06


def reversed_at_times(frame: pd.DataFrame, folder: Path) -> pd.DataFrame:
    """What a shuffle does: other order, same rows."""
    mark = folder / "computed"
    if mark.exists():
        return frame.iloc[::-1]
    mark.touch()
    return frame


def test_rows_without_an_order_have_one_report_too(frame: pd.DataFrame, tmp_path: Path) -> None:
    source = from_frames([frame]).map_partitions(reversed_at_times, tmp_path, meta=frame.head(0))
    shuffled = source.shuffle("used", npartitions=1)
    reports = DESIGN.disguise(shuffled)
    first, second = reports.compute(), reports.compute()
    np.testing.assert_array_equal(first.codes, second.codes)
    # The order tells nothing of the truth, by which rows are sorted on the way: 3,000 ranks in
    # random order have a correlation of 0, SE .018.
    region = first.column("region")
    assert abs(np.corrcoef(np.arange(N), region)[0, 1]) < 0.09
    expected = np.bincount(BOOK.encode(frame).column("region"))
    np.testing.assert_array_equal(np.bincount(region), expected)


@pytest.mark.parametrize("kind", ["dask", "delayed", "csv"])
def test_kept_columns_stay_with_their_records(
    kind: str, frame: pd.DataFrame, whole: pp.Reports, tmp_path: Path
) -> None:
    given = COLLECTIONS[kind](frame) if kind in COLLECTIONS else files(frame, tmp_path)[kind]
    reports = DESIGN.disguise(given, SEED, keep=["name"])
    assert reports.compute().kept["name"].tolist() == frame["name"].tolist()
    assert reports.to_frame()["name"].compute().tolist() == frame["name"].tolist()
    # Without an order of their own too: the region is not disguised.
    if kind == "dask":
        real = DESIGN.disguise(given.shuffle("name", npartitions=3), keep=["name"])
        one, two = real.compute(), real.compute()
        np.testing.assert_array_equal(one.codes, two.codes)
        assert one.kept["name"].tolist() == two.kept["name"].tolist()
        there = frame.set_index("name")["region"]
        assert real.codebook.decode(one)["region"].tolist() == there[one.kept["name"]].tolist()


def test_the_same_answers_again_are_said_to_add_up(frame: pd.DataFrame, tmp_path: Path) -> None:
    path = tmp_path / "answers.parquet"
    frame.sample(frac=1, random_state=1).to_parquet(path)
    own = pd.read_parquet(path)
    for make in (
        lambda: own,
        lambda: dd.from_pandas(own, npartitions=2),
        lambda: dd.read_parquet(path),
        lambda: path,
    ):
        DESIGN.disguise(make(), SEED)
        DESIGN.disguise(make())
        DESIGN.disguise(make(), SEED)
        with pytest.warns(DisguisedAgain, match="the answers to 'used' were disguised before"):
            DESIGN.disguise(make())
        pp.Warner("region", 0.8)  # another attribute is another answer
    other = pp.KaryResponse("region", 3, epsilon=1.0).bind(BOOK)
    other.disguise(own)


def test_what_holds_the_key_is_not_pickled(frame: pd.DataFrame) -> None:
    reports = DESIGN.disguise(from_frames(cut(frame, 1_000)))
    for each in (reports, reports.count(), reports.to_frame(), reports.expr):
        with pytest.raises(InputError, match=r"holds? a key in memory, which must not be written"):
            pickle.dumps(each)
    shown = repr(reports) + str(reports.to_frame()) + repr(reports.expr)
    shown += repr(reports.expr.optimize().__dask_graph__())
    secret = _held[reports._plan.draws.number]._secret
    assert secret.hex() not in shown and repr(secret) not in shown
    with pytest.raises(InputError, match="must not be written or copied"):
        reports.compute(scheduler="processes")


def test_the_key_dies_with_what_holds_it(frame: pd.DataFrame) -> None:
    reports = DESIGN.disguise(from_frames(cut(frame, 1_000)))
    number = reports._plan.draws.number
    labels = reports.to_frame()
    reports.compute()
    del reports
    assert number in _held
    assert len(labels.compute()) == N
    del labels
    assert number not in _held
    # A task that comes too late is told at once.
    with pytest.raises(ClusterError, match="the key of this disguise is no longer in this process"):
        KeyNumber(number).stream(waiting=3_600)


def test_names_of_tasks_say_what_is_done(frame: pd.DataFrame) -> None:
    reports = DESIGN.disguise(from_frames(cut(frame, 100)))
    graph = reports.count(["used"]).expr.optimize().__dask_graph__()
    names = {key[0].rpartition("-")[0] for key in graph if key[0].count("-") >= 1}
    assert {"disguise-count", "given"} <= names
    # 30 partitions in one task each, 2 sums and the last one, and what the tasks share.
    assert len(graph) == 30 + 2 + 1 + 2
    assert any(key[0].startswith("sum-") for key in graph)


def test_labels_are_as_in_files_of_reports() -> None:
    book = pp.Codebook(
        (
            pp.Attribute("a", ("x", "y", "z")),
            pp.Attribute("b", ("no", "yes")),
            pp.Attribute("c", ("l", "m", "r")),
        )
    )
    tall = [[0.6, 0.1], [0.3, 0.3], [0.1, 0.6]]
    design = pp.Product(
        [
            UnaryEncoding("a", 3, epsilon=1.0),
            pp.RRMatrix("b", tall, categories=["no", "yes"]),
            pp.KaryResponse("c", 3, epsilon=1.0),
        ]
    ).bind(book)
    generator = np.random.default_rng(2)
    frame = pd.DataFrame({a.name: generator.choice(a.categories, 50) for a in book.attributes})
    reports = design.disguise(dd.from_pandas(frame, npartitions=3))
    made, codes = reports.to_frame(), reports.compute()
    found = made.compute()
    pd.testing.assert_frame_equal(made._meta, found.head(0))
    assert found["c"].tolist() == [("l", "m", "r")[code] for code in codes.column("c")]
    assert found["b"].tolist() == codes.column("b").tolist() and set(found["b"]) == {0, 1, 2}
    assert b"".join(found["a"]) == codes.sets["a"].tobytes()


def test_frames_that_polars_has_not_collected_are_refused(frame: pd.DataFrame) -> None:
    for lazy in (pl.from_pandas(frame).lazy(), nw.from_native(pl.from_pandas(frame).lazy())):
        with pytest.raises(CodebookError, match=r"got a LazyFrame; .*\(collect a lazy one\)"):
            DESIGN.disguise(lazy, SEED)


def test_a_wrapped_frame_is_known_again(frame: pd.DataFrame) -> None:
    given = pl.from_pandas(frame)
    DESIGN.disguise(given)
    with pytest.warns(DisguisedAgain):
        DESIGN.disguise(nw.from_native(given))


def test_errors_say_where(frame: pd.DataFrame, tmp_path: Path) -> None:
    bad = frame.copy()
    bad.loc[2_345, "region"] = "south"
    value = "attribute 'region', row {}: value 'south' is not declared"
    with pytest.raises(CodebookError, match="partition 2: " + value.format(345)):
        pp.count(DESIGN.disguise(from_frames(cut(bad, 1_000))), DESIGN)
    with pytest.raises(CodebookError, match="^(partition 2: )?" + value.format("2?345")):
        DESIGN.disguise(from_frames(cut(bad, 1_000)), SEED).compute()
    given = files(bad, tmp_path)
    with pytest.raises(CodebookError, match=r"2\.csv: " + value.format(145)):
        DESIGN.disguise(given["csv"]).compute()
    with pytest.raises(CodebookError, match="^" + value.format(2_345)):
        DESIGN.disguise(given["parquet"]).compute()
    with pytest.raises(CodebookError, match="column 'used' is absent; the columns are"):
        DESIGN.disguise(from_frames([frame.drop(columns="used")]))
    with pytest.raises(InputError, match=r"column 'used' is absent"):
        frame.drop(columns="used").to_csv(tmp_path / "short.csv", index=False)
        DESIGN.disguise([tmp_path / "short.csv"])
    with pytest.raises(DataError, match=r"gone\.parquet: there is no such file"):
        DESIGN.disguise(tmp_path / "gone.parquet")
    with pytest.raises(InputError, match="a codebook is needed to read a table"):
        pp.Warner("used", 0.8).disguise(frame)
    with pytest.raises(InputError, match="got a Bag of Dask; a DataFrame"):
        import dask.bag

        DESIGN.disguise(dask.bag.from_sequence([1]))
    with pytest.raises(CodebookError, match="got a int; a DataFrame"):
        DESIGN.disguise(5)


def test_a_design_remembers_its_codebook(tmp_path: Path, frame: pd.DataFrame) -> None:
    (tmp_path / "d.toml").write_text('id = "warner"\nattribute = "used"\ntheta = 0.8\n')
    design = pp.Design.read(tmp_path / "d.toml", BOOK)
    assert design.codebook is BOOK and design == pp.Warner("used", 0.8)
    assert pickle.loads(pickle.dumps(design)).codebook.digest == BOOK.digest
    assert pp.Warner("used", 0.8).codebook is None
    given = pp.Warner("used", 0.8).disguise(frame, SEED, codebook=BOOK)
    np.testing.assert_array_equal(given.codes, design.disguise(frame, SEED).codes)


def test_other_work_on_reports_is_done_where_they_are_made(frame: pd.DataFrame) -> None:
    reports = DESIGN.disguise(from_frames(cut(frame, 100)))
    sums = reports.reduce(partial(sum_weights, design=DESIGN, over=("used",)))
    expected = pp.estimate(reports.compute(), ["used"])
    np.testing.assert_allclose(sums.estimate().values, expected.values, rtol=1e-12)
    total = reports.reduce(len, sum)
    assert total == N
    assert reports.reduce(lambda part: len(part)) == N


def test_very_many_partitions_share_tasks(
    frame: pd.DataFrame, whole: pp.Reports, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And nothing else changes: not the draws of a partition, nor positions."""
    frames = cut(frame, 50)
    key = KeyedStream()
    one = DESIGN.disguise(from_frames(frames), key)
    monkeypatch.setattr(reports_room, "MOST_TASKS", 7)
    with pytest.warns(DisguisedAgain):
        two = DESIGN.disguise(from_frames(frames), key)
    assert (one.npartitions, two.npartitions) == (60, 7)
    np.testing.assert_array_equal(one.compute().codes, two.compute().codes)
    simulated = DESIGN.disguise(from_frames(frames), SEED)
    assert simulated.npartitions == 7
    np.testing.assert_array_equal(simulated.compute().codes, whole.codes)


@pytest.mark.slow
def test_a_hundred_thousand_partitions_are_a_small_graph() -> None:
    tiny = pd.DataFrame({"used": ["no", "yes"], "region": ["east", "west"]})
    reports = DESIGN.disguise(dd.from_map(partial(_same, tiny), range(100_000), meta=tiny))
    graph = reports.count(["used"]).expr.optimize().__dask_graph__()
    # 4,000 tasks of 25 partitions, 250 + 16 sums and the last one, and what the tasks share.
    assert len(graph) == 4_000 + 250 + 16 + 1 + 2


def _same(frame: pd.DataFrame, _: int) -> pd.DataFrame:
    return frame


def test_no_column_of_the_source_is_paired_by_position(frame: pd.DataFrame) -> None:
    source = dd.from_pandas(frame.assign(n=1), npartitions=3)
    labels = DESIGN.disguise(source, SEED).to_frame()
    assert labels.assign(n=source["n"]).compute()["n"].isna().all()
    joined = labels.join(source[["n"]], how="left").compute()
    assert len(joined) == len(frame) and joined["n"].isna().all()
    assert not len(labels.join(source[["n"]], how="inner").compute())
    together = DESIGN.disguise(source, SEED, keep=["n"]).to_frame().compute()
    assert (together["n"] == 1).all()
