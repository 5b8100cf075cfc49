"""Lazy reports as a folder of parts, which the commands and Python count; joins by an index."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import ppdm_dask as pp
from ppdm_dask.cli import main
from ppdm_dask.cluster.reports import LazyReports
from ppdm_dask.data import partitioned
from ppdm_dask.designs import UnaryEncoding
from ppdm_dask.designs.files import write_design
from ppdm_dask.errors import DataError, InputError
from ppdm_dask.survey.disguise import disguise_file

N = 3_000
BOOK = pp.Codebook(
    (pp.Attribute("used", ("no", "yes")), pp.Attribute("region", ("east", "north", "west")))
)
DESIGN = pp.Warner("used", 0.8).bind(BOOK)
SEED = pp.Stream.from_seed(4)


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(partitioned, "_disguised", {})


@pytest.fixture
def any_values() -> Iterator[None]:
    """Columns of objects stay what they are."""
    with dask.config.set({"dataframe.convert-string": False}):
        yield


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    generator = np.random.default_rng(5)
    return pd.DataFrame(
        {
            "used": generator.choice(["no", "yes"], N, p=[0.7, 0.3]),
            "region": generator.choice(["east", "north", "west"], N),
            "w": generator.uniform(1, 3, N),
            "school": generator.choice(["a", "b", None], N),
        },
        index=pd.Index(generator.permutation(N), name="person"),
    )


def part(frames: list[pd.DataFrame], i: int) -> pd.DataFrame:
    return frames[i]


def source(frame: pd.DataFrame, rows: int = 500) -> dd.DataFrame:
    """A collection whose last partition is empty."""
    frames = [*(frame.iloc[low : low + rows] for low in range(0, N, rows)), frame.head(0)]
    return dd.from_map(partial(part, frames), range(len(frames)), meta=frame.head(0))


def contents(folder: str) -> pd.DataFrame:
    parts = json.loads(Path(folder, "manifest.json").read_text())["parts"]
    there = {path.name for path in Path(folder).iterdir()}
    assert there == {"manifest.json", *(each["name"] for each in parts)}
    read = [pq.read_table(Path(folder, each["name"])) for each in parts]
    assert [table.num_rows for table in read] == [each["reports"] for each in parts]
    return pd.concat([table.to_pandas().astype(object) for table in read], ignore_index=True)


@pytest.mark.parametrize("persisted", [False, True])
def test_a_folder_has_the_reports_and_python_counts_it(
    persisted: bool, frame: pd.DataFrame
) -> None:
    lazy: LazyReports = DESIGN.disguise(source(frame), keep=["w", "school"])
    whole = lazy.compute()
    (lazy.persist() if persisted else lazy).to_parquet("R")
    found = contents("R")
    expected = lazy.to_frame().compute().astype(object).reset_index(drop=True)
    # A missing value is None in one and NA in the other.
    pd.testing.assert_frame_equal(
        found.where(found.notna(), None), expected.where(expected.notna(), None)
    )
    for path in ("R", Path("R"), ["R"]):
        np.testing.assert_array_equal(pp.count(path).counts, pp.count(whole).counts)
    asked: dict[str, Any] = {"over": ["used"], "by": "region", "weights": "w"}
    stored, memory = pp.estimate("R", **asked), pp.estimate(whole, **asked)
    np.testing.assert_allclose(stored.values, memory.values, rtol=1e-12)
    np.testing.assert_allclose(stored.standard_error, memory.standard_error, rtol=1e-9)
    assert not [name for name in os.listdir() if name.startswith(".")]


def test_the_commands_take_it_as_their_own(
    frame: pd.DataFrame, capsys: pytest.CaptureFixture[str]
) -> None:
    """And it is what ``ppdm disguise`` writes, but for names drawn at random and row groups."""
    frame[["used", "region"]].to_parquet("answers.parquet", index=False)
    DESIGN.disguise("answers.parquet", SEED).to_parquet("python")
    disguise_file(Path("answers.parquet"), BOOK, DESIGN, SEED, Path("command"), keep=["region"])
    pd.testing.assert_frame_equal(contents("python"), contents("command"))
    Path("c.toml").write_text(BOOK.as_toml())
    write_design(pp.Warner("used", 0.8), "d.toml")
    both = ["--codebook", "c.toml", "--design", "d.toml"]
    said = []
    for folder in ("python", "command"):
        assert main(["estimate", folder, *both, "--over", "used", "--by", "region", "--json"]) == 0
        said.append(json.loads(capsys.readouterr().out.replace(folder, "R")))
        about = json.loads(json.loads(Path(folder, "manifest.json").read_text())["about"])
        assert (about["undisguised"], about["simulated"]) == (["region"], True)
    assert said[0] == said[1]
    assert main(["count", "python", *both, "--out", "counts.parquet"]) == 0
    assert main(["count", "python", *both, "--add", "counts.parquet"]) == 0
    assert pd.read_parquet("counts.parquet")["count"].sum() == N


def test_the_same_reports_are_not_counted_twice(frame: pd.DataFrame) -> None:
    lazy = DESIGN.disguise(source(frame))
    lazy.to_parquet("R")
    lazy.persist().to_parquet("S")
    with pytest.raises(DataError, match=r"S/part-000000\.parquet: holds reports that R/part-0000"):
        pp.count(["R", "S"])
    (other,) = [DESIGN.disguise(source(frame.iloc[::-1]))]
    other.to_parquet("T")
    assert pp.count(["R", "T"]).n == 2 * N


def test_sets_and_other_symbols(frame: pd.DataFrame) -> None:
    tall = [[0.6, 0.1], [0.3, 0.3], [0.1, 0.6]]
    design = pp.Product(
        [pp.RRMatrix("used", tall, categories=["no", "yes"]), UnaryEncoding("region", 3, epsilon=1)]
    ).bind(BOOK)
    lazy = design.disguise(source(frame))
    lazy.to_parquet("R")
    whole = lazy.compute()
    np.testing.assert_array_equal(
        pp.count("R", over=["used"]).counts, np.bincount(whole.codes[:, 0])
    )
    for over in (["used"], ["region"], ["used", "region"]):
        stored, memory = pp.estimate("R", over=over), pp.estimate(whole, over=over)
        np.testing.assert_allclose(stored.values, memory.values, rtol=1e-12, atol=1e-15)


@pytest.mark.usefixtures("any_values")
def test_what_is_refused_leaves_nothing(frame: pd.DataFrame) -> None:
    lazy = DESIGN.disguise(source(frame), SEED)
    Path("other").mkdir()
    Path("other/notes.txt").touch()
    for out, says in (
        ("R.parquet", "a folder is written; a name without an ending"),
        ("no/R", "there is no folder 'no'"),
        ("other", "holds other files; name a folder that is not there"),
    ):
        with pytest.raises(InputError, match=says):
            lazy.to_parquet(out)
    bad = frame.copy()
    bad.iloc[1_234, 0] = "perhaps"
    with pytest.raises(InputError, match=r"row 1?234: value 'perhaps' is not declared"):
        DESIGN.disguise(source(bad), SEED).to_parquet("R")
    mixed = frame.astype({"school": object})
    mixed.iloc[700, 3] = 7
    with pytest.raises(
        InputError, match="column 'school': holds values of several types; convert it to one type"
    ):
        DESIGN.disguise(source(mixed), SEED, keep=["school"]).to_parquet("R")
    mixed.iloc[500:1_000, 3] = 7
    with pytest.raises(
        InputError, match=r"'school': its partitions hold different .*int64, string"
    ):
        DESIGN.disguise(source(mixed), SEED, keep=["school"]).to_parquet("R")
    nobody = dd.from_pandas(frame.head(0), npartitions=1)
    with pytest.raises(DataError, match="there are no reports"):
        DESIGN.disguise(nobody, SEED).to_parquet("R")
    assert sorted(os.listdir()) == ["other"]
    lazy.to_parquet("R")
    with pytest.raises(InputError, match="R: already exists; overwrite=True replaces it"):
        lazy.to_parquet("R")
    lazy.to_parquet("R", overwrite=True)
    assert pp.count("R").n == N
    for paths, says in (
        ("no", "no: there is no such file"),
        ("*.no", r"\*\.no: there is no file of this pattern"),
        ("other", r"other/notes\.txt: is not a data file"),
    ):
        with pytest.raises(InputError, match=says):
            pp.count(paths)


def test_a_file_of_reports_alone_is_counted(frame: pd.DataFrame) -> None:
    frame[["used", "w"]].to_parquet("answers.parquet", index=False)
    made = pp.Warner("used", 0.8).bind(BOOK.select(["used"]))
    for out in ("r.parquet", "r.csv"):
        book = pp.Codebook((BOOK["used"],))
        disguise_file(Path("answers.parquet"), book, made, SEED, Path(out), keep=["w"])
    first, second = (pp.estimate(out, over=["used"], weights="w") for out in ("r.parquet", "r.csv"))
    np.testing.assert_allclose(first.values, second.values, rtol=1e-12)
    codes = pp.Warner("used", 0.8).bind(book).disguise(frame, SEED).codes[:, 0]
    np.testing.assert_array_equal(pp.count("r.csv").counts, np.bincount(codes))


def test_answers_that_some_may_not_read_have_reports_that_they_may_not_read(
    frame: pd.DataFrame,
) -> None:
    frame[["used", "region"]].to_parquet("answers.parquet", index=False)
    os.chmod("answers.parquet", 0o600)
    DESIGN.disguise("answers.parquet").to_parquet("R")
    assert {path.stat().st_mode & 0o777 for path in Path("R").iterdir()} == {0o600}


@pytest.mark.parametrize("how", ["known divisions", "unknown divisions", "shuffled"])
def test_columns_of_the_source_are_joined_by_its_index_where_it_is_kept(
    how: str, frame: pd.DataFrame
) -> None:
    given = dd.from_pandas(frame, npartitions=4) if how == "known divisions" else source(frame)
    lazy = DESIGN.disguise(given.shuffle("region") if how == "shuffled" else given, keep=["person"])
    labels = lazy.to_frame(index="person")
    pd.testing.assert_frame_equal(labels._meta, labels.compute().head(0))
    for joined in (
        labels.join(given[["w"]]),
        labels.merge(given[["w"]], left_index=True, right_index=True),
    ):
        found = joined.compute()
        assert len(found) == N
        pd.testing.assert_series_equal(found["w"], frame["w"][found.index])
        # The region is not disguised: it says that rows are those of their person.
        assert (found["region"].astype(str) == frame["region"][found.index]).all()
    with pytest.raises(InputError, match="index: got 'w'; a column that is kept is needed, there "):
        lazy.to_frame(index="w")


def test_a_collection_that_dask_optimises_is_written_too(frame: pd.DataFrame) -> None:
    (lazy,) = dask.optimize(DESIGN.disguise(source(frame)))
    lazy.to_parquet("R")
    np.testing.assert_array_equal(pp.count("R").counts, pp.count(lazy).counts)


KILLED = """
import time
import dask.dataframe as dd, pandas as pd
import ppdm_dask as pp

def slow(i):
    time.sleep(0.3)
    return pd.DataFrame({"used": ["no", "yes"] * 50})

meta = pd.DataFrame({"used": ["no"]})
book = pp.Codebook((pp.Attribute("used", ("no", "yes")),))
reports = pp.Warner("used", 0.8).bind(book).disguise(dd.from_map(slow, range(100), meta=meta))
reports.to_parquet("R")
"""


def test_nothing_takes_what_is_killed_before_its_manifest(frame: pd.DataFrame) -> None:
    Path("run.py").write_text(KILLED)
    with subprocess.Popen([sys.executable, "run.py"]) as process:
        deadline = time.monotonic() + 60
        while not (parts := list(Path().glob(".R.*.part/part-*.parquet"))):
            assert time.monotonic() < deadline and process.poll() is None
            time.sleep(0.01)
        process.kill()
    for path in ("R", "*", parts[0].parent, parts[0]):
        with pytest.raises(InputError):
            pp.count(path)
    DESIGN.disguise(source(frame)).to_parquet("R")
    assert not list(Path().glob(".R.*")) and pp.count("R").n == N
