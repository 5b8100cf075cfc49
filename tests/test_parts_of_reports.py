"""Folders of parts of reports: the same reports as in one file, all of them or none."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

import ppdm_dask as pp
from ppdm_dask.cli import main
from ppdm_dask.cli.counting import RecordsReporter
from ppdm_dask.cluster import spread
from ppdm_dask.designs.files import write_design
from ppdm_dask.survey import pieces

Capture = pytest.CaptureFixture[str]
BOOK = pp.Codebook(
    (
        pp.Attribute("smokes", ("no", "yes")),
        pp.Attribute("drug", ("(none)", "never", "once", "often"), missing="(none)"),
        pp.Attribute("region", ("n", "s")),
    )
)
DESIGN = pp.Product([pp.Warner("smokes", 0.8), pp.KaryResponse("drug", 4, epsilon=1.5)])
BOTH = ("--codebook", "c.toml", "--design", "d.toml")
KEEP = ("--keep-undisguised", "region", "--keep-undisguised", "w", "--drop", "name")
N = 3_000
# 65,536 records share a keyed block; a border of it lies within the data.
FIRST = 65_000


def answers(n: int = N, seed: int = 1) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    codes = np.stack([rng.integers(0, k, n) for k in BOOK.shape], axis=1)
    frame = BOOK.decode(pp.Records(codes, BOOK))
    frame["drug"] = frame["drug"].astype(object).where(frame["drug"] != "(none)", None)
    return frame.assign(w=1 + np.arange(n) % 3, name=[f"person-{i}" for i in range(n)])


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(pieces, "RECORDS", 1_000)
    monkeypatch.setattr(pieces, "LINE_BYTES", 10)
    Path("c.toml").write_text(BOOK.as_toml())
    write_design(DESIGN, "d.toml")


def write(frame: pd.DataFrame, path: str, group: int = 700) -> None:
    Path(path).parent.mkdir(exist_ok=True)
    table = pa.Table.from_pandas(frame, preserve_index=False)
    if path.endswith(".csv"):
        frame.to_csv(path, index=False)
    elif path.endswith(".parquet"):
        pq.write_table(table, path, row_group_size=group)
    else:
        pyarrow.feather.write_feather(table, path, chunksize=group)


def done(capsys: Capture, *arguments: str) -> str:
    code = main(list(arguments))
    out, err = capsys.readouterr()
    assert (code, err) == (0, "")
    return out


def refused(capsys: Capture, *arguments: str) -> str:
    before = {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}
    assert main(list(arguments)) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()} == before
    return err.removeprefix("ppdm: error: ").rstrip("\n")


def disguise(*data: str, out: str = "R", seed: int | None = 5) -> tuple[str, ...]:
    drawn = () if seed is None else ("--simulate", str(seed))
    return ("disguise", *data, *BOTH, *KEEP, *drawn, "--out", out)


def reports(folder: str) -> pd.DataFrame:
    """Reports of the parts that the manifest names, in order."""
    manifest = json.loads(Path(folder, "manifest.json").read_text())
    parts = [pd.read_parquet(Path(folder, part["name"])) for part in manifest["parts"]]
    assert [len(part) for part in parts] == [part["reports"] for part in manifest["parts"]]
    whole = pd.concat([part.astype(object) for part in parts], ignore_index=True)
    return whole[["smokes", "drug", "region", "w"]].astype({"w": int})


def of_python(frame: pd.DataFrame, seed: int = 5) -> pd.DataFrame:
    """What design.disguise makes of all records at once."""
    made = DESIGN.disguise(BOOK.encode(frame), pp.Stream.from_seed(seed))
    # A frame has no value where an answer is missing, and reports have its category.
    return BOOK.decode(made).astype(object).fillna("(none)").assign(w=frame["w"].to_numpy())


@pytest.mark.parametrize("suffix", ["csv", "parquet", "arrow"])
@pytest.mark.parametrize("cuts", [[0, N], [0, 900, 1_700, N], [0, 1, 2, 2_900, N]])
def test_reports_do_not_depend_on_files_and_parts(
    capsys: Capture, suffix: str, cuts: list[int]
) -> None:
    frame = answers()
    for i, (low, high) in enumerate(pairwise(cuts)):
        write(frame.iloc[low:high], f"data/{i}.{suffix}", 700 - 100 * len(cuts))
    expected = of_python(frame)
    said = done(capsys, *disguise("data"))
    assert f"3,000 reports: R, {len(list(Path('R').glob('part-*')))} part" in said
    pd.testing.assert_frame_equal(reports("R"), expected)
    done(capsys, *disguise(f"data/*.{suffix}", out="r.parquet"))
    one = pd.read_parquet("r.parquet").astype(object).astype({"w": int})
    pd.testing.assert_frame_equal(one[list(expected)], expected)
    for source, out in (("R", "parts"), ("r.parquet", "one")):
        done(capsys, "count", source, *BOTH, "--out", f"{out}.parquet")
    counts = [pd.read_parquet(f"{out}.parquet") for out in ("parts", "one")]
    pd.testing.assert_frame_equal(*counts)
    plain = expected.groupby(["smokes", "drug", "region"]).size()
    names = list(plain.index.names)
    assert counts[0].set_index(names)["count"].sort_index().to_dict() == plain.to_dict()


def test_a_border_of_keyed_blocks_is_no_border_of_parts(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pieces, "RECORDS", 20_000)
    frame = answers(70_000)
    write(frame.iloc[:FIRST], "data/1.parquet", 9_000)
    write(frame.iloc[FIRST:], "data/2.parquet", 9_000)
    done(capsys, *disguise("data"), "--block", "5000")
    pd.testing.assert_frame_equal(reports("R"), of_python(frame))


def test_estimates_of_parts_are_those_of_one_file(capsys: Capture) -> None:
    write(answers(), "s.parquet")
    for out in ("R", "r.parquet"):
        done(capsys, *disguise("s.parquet", out=out))
    for asked in (
        ("--over", "smokes,drug"),
        ("--over", "smokes", "--by", "region", "--weights", "w"),
        ("--over", "drug", "--where", "smokes=yes", "--strata", "region"),
    ):
        found = [
            json.loads(done(capsys, "estimate", source, *BOTH, *asked, "--json"))["cells"]
            for source in ("R", "r.parquet")
        ]
        for one, other in zip(*found, strict=True):
            assert one.pop("labels") == other.pop("labels")
            # Sums of parts are added in another order than those of blocks.
            assert one == pytest.approx(other, rel=1e-9)


@pytest.mark.parametrize("groups", [["region"], ["drug"], ["region", "drug"]])
def test_groups_are_those_of_python(capsys: Capture, groups: list[str]) -> None:
    frame = answers()
    write(frame, "s.parquet")
    done(capsys, *disguise("s.parquet"))
    made = DESIGN.disguise(BOOK.encode(frame), pp.Stream.from_seed(5))
    expected = pp.estimate(made, ["smokes"], by=groups, design=DESIGN)
    by = [text for name in groups for text in ("--by", name)]
    done(capsys, "estimate", "R", *BOTH, "--over", "smokes", *by, "--out", "e.csv")
    table = pd.read_csv("e.csv")
    assert list(table.columns[: len(groups) + 1]) == [*groups, "smokes"]
    assert table["proportion"].to_numpy() == pytest.approx(expected.values.ravel(), rel=1e-9)
    errors = [cell.standard_error for cell in expected.rows()]
    assert table["standard_error"].to_numpy() == pytest.approx(errors, rel=1e-9)
    assert "--by: 'smokes' is in --over too" in refused(
        capsys, "estimate", "R", *BOTH, "--over", "smokes", "--by", "smokes"
    )


def test_a_file_is_known_again_however_it_is_cut(capsys: Capture) -> None:
    frame = answers()
    write(frame, "s.parquet", 300)
    assert "again" not in done(capsys, *disguise("s.parquet", seed=None))
    said = done(capsys, *disguise("s.parquet", out="r.parquet", seed=None))
    assert "the answers to 'smokes', 'drug' have now been" not in said  # two epsilons
    assert said.count("have now been disguised 2 times") == 2
    write(frame, "t.csv")
    assert done(capsys, *disguise("t.csv", out="S", seed=None)).count("disguised 3 times") == 2
    # Of several files each is known by itself.
    write(answers(seed=8), "u.csv")
    said = done(capsys, *disguise("t.csv", "u.csv", out="T", seed=None))
    assert said.count("disguised 4 times") == 2
    said = done(capsys, *disguise("u.csv", out="U", seed=None))
    assert said.count("disguised 2 times") == 2
    # Of two files with equal counts the sentence names each attribute once.
    for i, folder in enumerate(("V", "W")):
        write(answers(seed=10), "v.csv")
        write(answers(seed=11), "w.csv")
        said = done(capsys, *disguise("v.csv", "w.csv", out=folder, seed=None))
        assert said.count("'smokes'") == said.count("'drug'") == i
    one, other = reports("S"), reports("T").iloc[:N]
    # Independent disguises of .8: two agree in .68 of the cases, SE .0085.
    assert abs((one["smokes"] == other["smokes"]).mean() - 0.68) < 0.05


def test_files_that_do_not_belong_together(capsys: Capture) -> None:
    frame = answers()
    write(frame, "data/1.parquet")
    write(frame.assign(w="one"), "data/2.parquet")
    assert refused(capsys, *disguise("data")) == (
        "data/2.parquet: column 'w' holds string, and int64 in data/1.parquet; write all parts "
        "with one type"
    )
    write(frame.assign(more=1), "data/2.parquet")
    assert "data/2.parquet: column 'more'" in refused(capsys, *disguise("data"))
    frame.loc[2_345, "drug"] = "sometimes"
    write(frame, "data/2.parquet")
    for out in ("R", "r.parquet"):
        said = refused(capsys, *disguise("data", out=out))
        assert said.startswith("data/2.parquet: attribute 'drug', row 2345: value 'sometimes' is")
    write(answers(), "data/2.csv")
    Path("data/2.parquet").unlink()
    assert "data/2.csv: is not a Parquet file" in refused(capsys, *disguise("data"))
    Path("other").mkdir()
    Path("other/mine.txt").write_text("x")
    said = refused(capsys, *disguise("data/1.parquet", out="other"))
    assert said.startswith("--out: folder other holds other files")
    assert "for workers name a folder of parts" in refused(
        capsys, *disguise("data/1.parquet", out="r.parquet"), "--workers", "2"
    )


def test_parts_that_are_not_as_the_manifest_says(capsys: Capture) -> None:
    write(answers(), "s.parquet")
    done(capsys, *disguise("s.parquet"))
    done(capsys, *disguise("s.parquet", out="S"))
    count = ("count", "R", *BOTH, "--out", "k.parquet")
    said = refused(capsys, *disguise("s.parquet"))
    assert said == "--out: R already exists; --force replaces it"
    part = Path("R/part-000001.parquet")
    whole = part.read_bytes()
    part.write_bytes(whole[:500] + bytes([whole[500] ^ 1]) + whole[501:])
    assert refused(capsys, *count).startswith(f"{part}: is damaged or was changed")
    shutil.copy("S/part-000001.parquet", part)
    assert refused(capsys, *count).startswith(f"{part}: is not the part that R/manifest.json names")
    part.unlink()
    assert refused(capsys, *count).startswith(f"{part}: is missing, and the manifest names it")
    part.write_bytes(whole)
    shutil.copy(part, "R/part-000009.parquet")
    assert refused(capsys, *count).startswith("R/part-000009.parquet: the manifest does not name")
    Path("R/part-000009.parquet").unlink()
    manifest = Path("R/manifest.json")
    text = manifest.read_text()
    manifest.write_text(text.replace('"reports": 700', '"reports": 701', 1))
    assert refused(capsys, *count).startswith("R/manifest.json: damaged or edited")
    manifest.unlink()
    for source in ("R", str(part), "R/*.parquet"):
        said = refused(capsys, "estimate", source, *BOTH, "--over", "smokes")
        assert "is a part of reports, and R/manifest.json is missing" in said
    manifest.write_text(text)
    done(capsys, *count)
    # The same reports twice: by the folder, a part of it, a pattern, or counts.
    for again in (str(part), "R/*.parquet", "k.parquet"):
        said = refused(capsys, "count", "R", again, *BOTH, "--out", "l.parquet")
        assert "they would count twice" in said
    assert "3,000 reports" in done(capsys, "count", "R/*.parquet", *BOTH, "--out", "l.parquet")
    done(capsys, *disguise("s.parquet"), "--force")
    assert not list(Path().glob(".*.part"))


def test_a_folder_that_grows_is_counted_once(capsys: Capture) -> None:
    for i in range(3):
        write(answers(seed=i), f"s{i}.csv")
    done(capsys, *disguise("s0.csv", out="in-0"))
    add = ("count", "in-*", *BOTH, "--add", "k.parquet")
    assert "3,000 reports in" in done(capsys, *add)
    said = done(capsys, *add)
    assert "skipped, as already counted: 1 file of reports" in said
    done(capsys, *disguise("s1.csv", out="in-1"))
    assert "6,000 reports in" in done(capsys, *add)
    Path("loose").mkdir()
    done(capsys, *disguise("s2.csv", out="loose/r.csv"))
    add = ("count", "in-*", "loose", *BOTH, "--add", "k.parquet")
    assert "9,000 reports in" in done(capsys, *add)
    assert "3 files of reports" in done(capsys, *add)
    done(capsys, "count", "in-0", "in-1", "loose", *BOTH, "--out", "all.parquet")
    pd.testing.assert_frame_equal(pd.read_parquet("k.parquet"), pd.read_parquet("all.parquet"))
    # Other reports of the same people in the place of those that were counted.
    done(capsys, *disguise("s1.csv", out="in-1", seed=6), "--force")
    said = refused(capsys, *add)
    assert said.startswith("in-1/part-000000.parquet: changed since k.parquet counted it")
    assert "--out or --add is needed" in refused(capsys, "count", "in-0", *BOTH)
    said = refused(capsys, "count", "in-0", *BOTH, "--add", "k.parquet", "--over", "drug")
    assert "k.parquet counts smokes, drug, region" in said


def test_what_a_killed_command_left_is_removed_and_said(capsys: Capture) -> None:
    write(answers(100_000), "s.csv")
    Path("run.py").write_text(
        "import sys\n"
        "from ppdm_dask.survey import pieces\n"
        "from ppdm_dask.cli import main\n"
        "pieces.RECORDS = 1000\n"
        "sys.exit(main())\n"
    )
    command = [sys.executable, "run.py", *disguise("s.csv", seed=None), "--block", "50"]
    for number, code in ((signal.SIGKILL, -9), (signal.SIGINT, 130), (signal.SIGTERM, -15)):
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            deadline = time.monotonic() + 60
            begun = f".R.{process.pid}-*.part/.part-*"
            while not list(Path().glob(begun)) and time.monotonic() < deadline:
                time.sleep(0.01)
            process.send_signal(number)
            _, said = process.communicate(timeout=60)
        assert process.returncode == code
        assert not Path("R").exists()
        left = list(Path().glob(".R.*.part"))
        assert len(left) == (number == signal.SIGKILL)
        if number == signal.SIGINT:
            assert "ppdm: removed what a killed command left of R" in said
    assert not Path(".ppdm-disguises.json").exists()
    done(capsys, *disguise("s.csv"))


def test_progress_is_shown_where_it_takes_long(capsys: Capture) -> None:
    with RecordsReporter("disguise", interval=0.0) as progress:
        told = progress(1_000)
        told(400)
        told(800)
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("ppdm: disguise: 400 of about 1,000 records, ")
    assert second.startswith("ppdm: disguise: 1,200 of about 1,200 records, ")
    with RecordsReporter("count") as progress:
        progress(1_000)(1_000)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("n", [1, 15, 16, 17, 256, 257, 273])
def test_the_tree_adds_sixteen_at_a_time(n: int) -> None:
    def nested(level: list[Any]) -> Any:
        while len(level) > 1:
            level = [tuple(level[i : i + 16]) for i in range(0, len(level), 16)]
        return level[0]

    def work(i: int, piece: int, told: Any) -> Any:
        return piece

    # A single one is not added to anything.
    def bare(value: Any) -> Any:
        while isinstance(value, tuple) and len(value) == 1:
            value = value[0]
        return tuple(map(bare, value)) if isinstance(value, tuple) else value

    found = spread.summed(work, range(n), tuple, ())
    assert bare(found) == bare(nested(list(range(n))))


def test_reports_are_open_to_nobody_who_may_not_read_the_answers(capsys: Capture) -> None:
    write(answers(), "s.parquet")
    os.chmod("s.parquet", 0o600)
    done(capsys, *disguise("s.parquet"))
    modes = {path.stat().st_mode & 0o777 for path in Path("R").iterdir()}
    assert modes == {0o600}
