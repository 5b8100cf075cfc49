"""Files of reports and counts: damaged, edited or forged, they are refused or right."""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ppdm_dask as pp
from ppdm_dask.cli import main
from ppdm_dask.errors import DataError, InputError
from ppdm_dask.inference import sum_weights
from ppdm_dask.survey.about import EMPTY, KEY, PLACE, About, seal, sealed
from ppdm_dask.survey.counts import count_files, exact_sum, open_sources, write_counts
from ppdm_dask.survey.disguise import disguise_file
from ppdm_dask.survey.estimate import Question, estimate_files, sum_files
from ppdm_dask.survey.reports import about_file

BOOK = pp.Codebook(
    (pp.Attribute("smokes", ("no", "yes")), pp.Attribute("drug", ("never", "once", "often")))
)
DESIGN = pp.Product([pp.Warner("smokes", 0.8), pp.KaryResponse("drug", 3, 0.7)])
NAMES = {"codebook": Path("c.toml"), "design": Path("d.toml")}
KINDS = ("r.parquet", "r.csv", "n.parquet")


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Reports in either format, and counts of them."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(1)
    codes = np.stack([rng.integers(0, 2, 200), rng.integers(0, 3, 200)], axis=1)
    frame = BOOK.decode(pp.Records(codes, BOOK)).assign(region=rng.choice(["N", "S"], 200))
    frame.to_csv("s.csv", index=False)
    for out in ("r.parquet", "r.csv"):
        disguise_file(
            Path("s.csv"), BOOK, DESIGN, pp.Stream.from_seed(3), Path(out), keep=["region"]
        )
    sources = open_sources([Path("r.parquet")], BOOK, DESIGN, NAMES)
    table = count_files(sources, BOOK, DESIGN, BOOK.names)
    write_counts(Path("n.parquet"), table, sources[0][1])
    return tmp_path


def estimated(path: str, **asked: object) -> list[float]:
    sources = open_sources([Path(path)], BOOK, DESIGN, NAMES)
    found = estimate_files(sources, BOOK, DESIGN, Question(("drug",), **asked))  # type: ignore[arg-type]
    return [number for c in found.cells for number in (c.value, np.nan_to_num(c.standard_error))]


def flips(path: Path, kind: str, count: int) -> int:
    """Turn random bits of a file, one at a time; how many of the files were read, and right."""
    rng = np.random.default_rng(5)
    whole, right, read = path.read_bytes(), estimated(kind), 0
    for place in rng.integers(0, 8 * len(whole), count).tolist():
        turned = bytearray(whole)
        turned[place // 8] ^= 1 << place % 8
        path.write_bytes(turned)
        try:
            found = estimated(kind)
        except InputError as error:
            assert "\n" not in str(error)
            assert str(error).startswith(("r.", "n."))
            continue
        assert found == right
        read += 1
    path.write_bytes(whole)
    return read


@pytest.mark.parametrize("kind", [*KINDS, "r.csv.about.json"])
@pytest.mark.parametrize("count", [30, pytest.param(200, marks=pytest.mark.slow)])
def test_any_turned_bit_is_seen(files: Path, kind: str, count: int) -> None:
    read = flips(files / kind, kind.removesuffix(".about.json"), count)
    # Space between two values of JSON may change; nothing else.
    assert read == 0 or (kind.endswith(".json") and read < count / 10)


def test_edits_that_are_legal_are_seen(files: Path) -> None:
    """Another answer, a row twice, rows exchanged: all could have been reported."""
    lines = Path("r.csv").read_text().splitlines(keepends=True)
    first, *rest = lines
    other = rest[0].replace("yes", "no") if "yes" in rest[0] else rest[0].replace("no", "yes")
    for rows in ([other, *rest[1:]], [*rest, rest[0]], rest[::-1], rest[:-1]):
        Path("r.csv").write_text("".join([first, *rows]))
        with pytest.raises(DataError, match="is damaged or was changed: its checksum is not"):
            about_file(Path("r.csv"))
    table = pq.read_table("r.parquet")
    kept = pq.read_metadata("r.parquet").metadata
    assert kept is not None
    meta = {key: kept[key] for key in (KEY, PLACE)}
    pq.write_table(table.slice(0, 100).replace_schema_metadata(meta), "r.parquet")
    with pytest.raises(DataError, match=r"r\.parquet: is damaged or was changed"):
        about_file(Path("r.parquet"))
    pq.write_table(table.replace_schema_metadata({KEY: meta[KEY]}), "r.parquet")
    with pytest.raises(DataError, match="its checksum is gone"):
        about_file(Path("r.parquet"))


def test_a_checksum_is_that_of_the_file_with_zeros_in_its_place(files: Path) -> None:
    """By the definition, with Python's bytes."""
    whole = Path("n.parquet").read_bytes()
    written = pq.read_metadata("n.parquet").metadata[PLACE]  # type: ignore[index]
    assert whole.count(written) == 1
    assert hashlib.sha256(whole.replace(written, EMPTY)).hexdigest().encode() == written
    assert sealed(Path("n.parquet"))


def forged(about: About, columns: dict[str, list[object]]) -> None:
    """A file of counts with a right checksum, by someone who knows how they are made."""
    table = pa.table({**columns, "count": pa.array(columns["count"], pa.int64())})
    meta = {KEY: about.text().encode(), PLACE: EMPTY}
    pq.write_table(table.replace_schema_metadata(meta), "f.parquet", write_page_checksum=True)
    seal(Path("f.parquet"))


def cells(counts: list[int]) -> dict[str, list[object]]:
    smokes = ["no", "no", "no", "yes", "yes", "yes"]
    return {"smokes": [*smokes], "drug": ["never", "once", "often"] * 2, "count": [*counts]}


def test_totals_beyond_64_bits_are_refused(files: Path) -> None:
    about = replace(about_file(Path("n.parquet")), n=None)
    forged(about, cells([2**62] * 6))
    with pytest.raises(DataError) as error:
        estimated("f.parquet")
    assert str(error.value) == (
        f"f.parquet: is damaged: holds counts of {6 * 2**62:,} reports; "
        f"at most {2**63 - 1:,} are possible"
    )
    # Each file by itself is small enough; together they are not.
    forged(replace(about, batches=("a" * 32,)), cells([2**61, 0, 0, 0, 0, 0]))
    shutil.copy("f.parquet", "g.parquet")
    forged(replace(about, batches=("b" * 32,)), cells([2**62, 2**61, 2**60, 0, 0, 0]))
    sources = open_sources([Path("f.parquet"), Path("g.parquet")], BOOK, DESIGN, NAMES)
    with pytest.raises(DataError, match=r"g\.parquet: with it there are"):
        count_files(sources, BOOK, DESIGN, ["drug"])
    with pytest.raises(DataError, match="holds counts of 6 reports; 200 were written"):
        forged(replace(about, n=200), cells([1] * 6))
        estimated("f.parquet")


def test_exact_sums() -> None:
    for counts in ([2**63 - 1] * 9, [], [0, 1], [2**32 - 1] * 5 + [2**32]):
        assert exact_sum(np.array(counts, np.int64)) == sum(counts)


def test_large_counts_within_a_condition_take_no_time(files: Path) -> None:
    """10^11 reports a cell: the estimate of a thousandth of them, with errors 10^4 times less."""
    about = replace(about_file(Path("n.parquet")), n=None)
    small = [17_000, 9_000, 4_000, 8_000, 7_000, 5_000]
    where = {"where": {"smokes": ["yes"]}}
    forged(about, cells(small))
    few = np.array(estimated("f.parquet", **where)).reshape(3, 2)
    forged(about, cells([10**8 * count for count in small]))
    many = np.array(estimated("f.parquet", **where)).reshape(3, 2)
    np.testing.assert_allclose(many[:, 0], few[:, 0], rtol=1e-9)
    np.testing.assert_allclose(1e4 * many[:, 1], few[:, 1], rtol=1e-4)


def test_sums_of_counted_reports_are_those_of_the_reports(files: Path) -> None:
    question = Question(("drug",), where={"smokes": ["yes"]})
    sources = {p: open_sources([Path(p)], BOOK, DESIGN, NAMES) for p in ("r.parquet", "n.parquet")}
    one, other = (sum_files(sources[p], BOOK, DESIGN, question) for p in sources)
    frame = pd.read_parquet("r.parquet")[["smokes", "drug"]].astype(str)
    codes = BOOK.encode(frame).codes
    plain = sum_weights(
        pp.Reports(codes, BOOK, 0, DESIGN.digest), DESIGN, ["drug"], {"smokes": "yes"}
    )
    for name in ("n", "d", "dd", "f", "ddf", "ddff", "w", "ddw", "ddwf", "ddww"):
        for sums in (one, other):
            np.testing.assert_allclose(getattr(sums, name), getattr(plain, name), rtol=1e-12)


def test_batches_are_needed_and_distinct(files: Path) -> None:
    about = about_file(Path("n.parquet"))
    for batches in ((), ("a" * 32, "a" * 32), ("x",), ("A" * 32,)):
        forged(replace(about, batches=batches), cells([40, 40, 40, 40, 20, 20]))
        with pytest.raises(DataError, match="its description of the design is damaged"):
            open_sources([Path("f.parquet")], BOOK, DESIGN, NAMES)
    with pytest.raises(DataError, match=r"n\.parquet: holds reports that r\.parquet holds too"):
        open_sources([Path("r.parquet"), Path("n.parquet")], BOOK, DESIGN, NAMES)


def test_a_file_that_claims_more_cells_than_there_can_be(files: Path) -> None:
    """Refused by what Parquet says of itself, before anything is unpacked."""
    about = replace(about_file(Path("n.parquet")), n=None)
    n = 3_000_000
    forged(about, {"smokes": ["no"] * n, "drug": ["once"] * n, "count": [1] * n})
    assert Path("f.parquet").stat().st_size < 100_000
    with pytest.raises(DataError, match="has 3,000,000 cells; there can be 6"):
        estimated("f.parquet")


def test_a_small_file_that_unpacks_to_a_large_one(files: Path) -> None:
    meta = pq.read_metadata("r.parquet").metadata
    n = 40_000_000
    zeros = pa.table({"smokes": pa.array(np.zeros(n)), "drug": pa.array(np.zeros(n))})
    pq.write_table(
        zeros.replace_schema_metadata({KEY: meta[KEY], PLACE: EMPTY}),  # type: ignore[index]
        "f.parquet",
        row_group_size=n,
        use_dictionary=False,
        compression="zstd",
    )
    seal(Path("f.parquet"))
    assert Path("f.parquet").stat().st_size < 1 << 20
    with pytest.raises(DataError, match=r"f\.parquet: is damaged: a column would unpack to 3"):
        about_file(Path("f.parquet"))


@pytest.mark.parametrize("kind", KINDS)
def test_files_of_before_checksums_are_read_with_a_remark(
    files: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """They cannot be made again: answers are disguised once."""
    Path("c.toml").write_text(BOOK.as_toml())
    from ppdm_dask.designs.files import write_design

    write_design(DESIGN, "d.toml")
    right = estimated(kind)
    text = (
        Path("r.csv.about.json").read_bytes()
        if kind == "r.csv"
        else pq.read_metadata(kind).metadata[KEY]  # type: ignore[index]
    )
    config = {**json.loads(text), "format": 1}
    for key in ("checksum", "data_checksum", "kept"):
        del config[key]
    if kind == "r.csv":
        Path("r.csv.about.json").write_text(json.dumps(config))
    else:
        table = pq.read_table(kind).replace_schema_metadata({KEY: json.dumps(config).encode()})
        pq.write_table(table, kind)
    assert estimated(kind) == right
    both = ("--codebook", "c.toml", "--design", "d.toml")
    assert main(["estimate", kind, *both, "--over", "drug", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)["statements"]
    assert f"older file: {kind} has no checksum, so that damage to it would not be seen" in said


def test_files_that_may_be_of_the_same_people(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from ppdm_dask.designs.files import write_design

    Path("c.toml").write_text(BOOK.as_toml())
    write_design(DESIGN, "d.toml")
    both = ("--codebook", "c.toml", "--design", "d.toml", "--over", "drug")
    again = pd.read_csv("s.csv")
    for name, frame in (
        ("other", again.assign(region="N")),
        ("fewer", again.iloc[:-1]),
        ("same", again.assign(drug="once")),  # answers are not compared: they are disguised
    ):
        frame.to_csv(f"{name}.csv", index=False)
        out = Path(f"{name}.parquet")
        stream = pp.Stream.from_seed(9)
        disguise_file(Path(f"{name}.csv"), BOOK, DESIGN, stream, out, keep=["region"])
    for name, alike in (("other", False), ("fewer", False), ("same", True)):
        assert main(["estimate", "r.csv", f"{name}.parquet", *both]) == 0
        out = capsys.readouterr().out
        said = (
            "the same people? r.csv, same.parquet have 200 reports each and the same region; "
            "people who are in several count several times, which nothing else can show"
        )
        assert (said in out) == alike
        assert ("the same people?" in out) == alike
