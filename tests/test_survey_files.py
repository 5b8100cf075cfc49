"""A survey's files: what is disguised, counted and estimated is what Python would get in memory."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from strategies import make_codebook, random_records

import ppdm_dask as pp
from ppdm_dask.cli import main
from ppdm_dask.designs import Kuk, SubsetSelection, UnaryEncoding
from ppdm_dask.designs.files import write_design
from ppdm_dask.randomness import LOGICAL_BLOCK
from ppdm_dask.survey.counts import count_files, open_sources
from ppdm_dask.survey.disguise import disguise_file
from ppdm_dask.survey.estimate import Question, estimate_files
from ppdm_dask.survey.reports import about_file, read_reports

Capture = pytest.CaptureFixture[str]

BOOK = pp.Codebook(
    (
        pp.Attribute("smokes", ("no", "yes")),
        pp.Attribute("drug", ("never", "once", "often")),
        pp.Attribute("age", ("?", "<= 30", "(30, 50]", "> 50"), cuts=(30, 50), missing="?"),
    )
)
DESIGN = pp.Product(
    [
        pp.Warner("smokes", theta=0.8),
        pp.RRMatrix(
            "drug",
            [[0.7, 0.1, 0.2], [0.2, 0.8, 0.1], [0.1, 0.1, 0.7]],
            categories=["never", "once", "often"],
        ),
        pp.KaryResponse("age", n=4, epsilon=1.5),
    ]
)
JOINT = 0.7 * np.eye(20) + 0.3 * np.random.default_rng(8).dirichlet(np.ones(20), 20).T
BOOK_LABELS = [attribute.categories for attribute in BOOK.attributes]
FILES = {"codebook": Path("c.toml"), "design": Path("d.toml")}


def answers(n: int, seed: int = 1) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    smokes = rng.random(n) < 0.3
    drug = np.where(rng.random(n) < np.where(smokes, 0.5, 0.85), 0, rng.integers(1, 3, n))
    age = rng.integers(15, 80, n)
    return pd.DataFrame(
        {
            "smokes": np.where(smokes, "yes", "no"),
            "drug": np.array(["never", "once", "often"])[drug],
            "age": pd.array(np.where(rng.random(n) < 0.1, None, age), dtype="Int64"),
            "weight": rng.integers(1, 5, n) / 2,
            "region": rng.choice(["north", "south"], n),
        }
    )


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    BOOK.to_toml("c.toml")
    write_design(DESIGN, "d.toml")


def estimated(over: str, *files: str, **asked: Any) -> Any:
    sources = open_sources([Path(file) for file in files], BOOK, DESIGN, FILES)
    return estimate_files(sources, BOOK, DESIGN, Question(tuple(over.split(",")), **asked))


def numbers(found: Any) -> Any:
    return np.array([[cell.value, cell.standard_error] for cell in found.cells], float)


def codes(path: str) -> Any:
    about = about_file(Path(path))
    blocks = read_reports(Path(path), about, about.codebook.names, size=300)
    return np.concatenate([block.reports.codes for block in blocks])


@pytest.mark.parametrize("source", ["s.csv", "s.parquet"])
@pytest.mark.parametrize("target", ["r.csv", "r.parquet"])
def test_files_hold_the_reports_that_python_makes(source: str, target: str) -> None:
    """Whatever the size of the blocks: also across a border of the keyed blocks of records."""
    frame = answers(1_500)
    frame[["smokes", "drug", "age"]].to_csv("s.csv", index=False)
    frame[["smokes", "drug", "age"]].to_parquet("s.parquet", row_group_size=400)
    expected = DESIGN.disguise(BOOK.encode(frame), pp.Stream.from_seed(7))
    for block in (90, 1_000, 65_536):
        done = disguise_file(
            Path(source), BOOK, DESIGN, pp.Stream.from_seed(7), Path(target), block=block
        )
        np.testing.assert_array_equal(codes(target), expected.codes)
        assert (done.records, done.simulated) == (1_500, True)
    over = ("drug", "smokes")
    want = pp.invert(pp.count(expected, DESIGN, over), DESIGN)
    found = numbers(estimated("drug,smokes", target))
    np.testing.assert_allclose(found[:, 0], want.values.ravel(), rtol=1e-12)
    np.testing.assert_allclose(found[:, 1], want.standard_error.to_numpy().ravel(), rtol=1e-12)


def test_a_border_of_keyed_blocks_is_no_border_of_files() -> None:
    n = LOGICAL_BLOCK
    frame = pd.DataFrame({"smokes": np.where(np.arange(n + 500) % 3 == 0, "yes", "no")})
    frame.to_parquet("s.parquet")
    book, design = BOOK.select(["smokes"]), pp.Warner("smokes", theta=0.8)
    expected = design.disguise(book.encode(frame), pp.Stream.from_seed(3))
    disguise_file(
        Path("s.parquet"), book, design, pp.Stream.from_seed(3), Path("r.parquet"), block=50_000
    )
    np.testing.assert_array_equal(codes("r.parquet"), expected.codes)


@pytest.mark.slow
def test_intervals_cover_the_known_truth_at_the_rate_they_say() -> None:
    """120 keyed disguises of one file: the disguise is all that is random about `file`."""
    answers(600)[["smokes", "drug", "age"]].to_csv("s.csv", index=False)
    frame = pd.read_csv("s.csv")
    truth = {
        "drug": frame["drug"].value_counts(normalize=True),
        "smokes": frame["smokes"].value_counts(normalize=True),
    }
    covered = dict.fromkeys(truth, 0)
    values: dict[str, list[float]] = {name: [] for name in truth}
    errors: dict[str, list[float]] = {name: [] for name in truth}
    cell_of = {"drug": "once", "smokes": "yes"}
    for seed in range(120):
        stream = pp.Stream.from_seed(seed)
        disguise_file(Path("s.csv"), BOOK, DESIGN, stream, Path("r.parquet"))
        for name, label in cell_of.items():
            found = estimated(name, "r.parquet", estimand="file")
            (cell,) = (cell for cell in found.cells if cell.labels == (label,))
            assert cell.lower <= cell.upper
            covered[name] += cell.lower <= truth[name][label] <= cell.upper
            values[name].append(cell.value)
            errors[name].append(cell.standard_error or math.nan)
    for name, label in cell_of.items():
        # Four standard deviations of a binomial count with p = 0.95, and of the mean.
        assert abs(covered[name] - 114) < 4 * math.sqrt(120 * 0.95 * 0.05)
        spread = float(np.std(values[name], ddof=1))
        assert abs(np.mean(values[name]) - truth[name][label]) < 4 * spread / math.sqrt(120)
        assert np.mean(errors[name]) == pytest.approx(spread, rel=4 / math.sqrt(240))


def _hand_made() -> tuple[Any, Any]:
    """Eight reports, with weights and strata, and the weight of every cell in each, by hand."""
    rows = [
        ("yes", "often"),
        ("no", "never"),
        ("no", "once"),
        ("yes", "never"),
        ("no", "never"),
        ("no", "often"),
        ("yes", "once"),
        ("no", "never"),
    ]
    frame = pd.DataFrame(rows, columns=["smokes", "drug"])
    frame["age"], frame["weight"] = "20", [1, 2, 1, 3, 1, 1, 2, 1]
    frame["region"] = list("aabbaabb")
    frame.to_csv("s.csv", index=False)
    # Reports as they are: the draws of a seed do not matter to the arithmetic.
    disguise_file(
        Path("s.csv"),
        BOOK,
        DESIGN,
        pp.Stream.from_seed(1),
        Path("r.csv"),
        keep=["weight", "region"],
    )
    reports = pd.read_csv("r.csv")
    B = np.linalg.inv(np.kron([[0.8, 0.2], [0.2, 0.8]], DESIGN.blocks[1].matrix()))
    symbol = [
        3 * ("no", "yes").index(a) + ("never", "once", "often").index(b)
        for a, b in zip(reports["smokes"], reports["drug"], strict=True)
    ]
    return reports, B[:, symbol].T


def test_estimates_are_those_of_the_definition() -> None:
    reports, W = _hand_made()
    found = numbers(estimated("smokes,drug", "r.csv"))
    np.testing.assert_allclose(found[:, 0], W.mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(found[:, 1], W.std(axis=0, ddof=1) / math.sqrt(8), atol=1e-12)
    # A condition is a ratio of means, linearised.
    inside, both = W[:, 3:].sum(axis=1), W[:, 3:]
    ratio = both.mean(axis=0) / inside.mean()
    error = (both - ratio * inside[:, None]).std(axis=0, ddof=1) / math.sqrt(8) / inside.mean()
    asked = {"where": {"smokes": ["yes"]}}
    found = numbers(estimated("drug", "r.csv", **asked))
    np.testing.assert_allclose(found, np.stack([ratio, error], axis=1), atol=1e-12)
    # Survey weights: Hajek's mean; strata: each has its own mean.
    d = reports["weight"].to_numpy(float)
    mean = d @ W / d.sum()
    z = d[:, None] * (W - mean) / d.sum()
    variance = np.zeros(6)
    for region in ("a", "b"):
        part = z[(reports["region"] == region).to_numpy()]
        variance += len(part) / (len(part) - 1) * ((part - part.mean(axis=0)) ** 2).sum(axis=0)
    found = numbers(estimated("smokes,drug", "r.csv", weights="weight", strata="region"))
    np.testing.assert_allclose(found, np.stack([mean, np.sqrt(variance)], axis=1), atol=1e-12)


def test_counts_add_up_to_the_reports(capsys: Capture) -> None:
    for i, n in enumerate((300, 200, 100)):
        part = answers(n, i)[["smokes", "drug", "age"]]
        part.to_csv(f"s{i}.csv", index=False)
        target = Path(f"r{i}.{'csv' if i else 'parquet'}")
        disguise_file(Path(f"s{i}.csv"), BOOK, DESIGN, pp.Stream.from_seed(i), target)
    both = ("--codebook", "c.toml", "--design", "d.toml")
    assert main(["count", "r0.parquet", "r1.csv", *both, "--out", "one.parquet"]) == 0
    assert main(["count", "one.parquet", "r2.csv", *both, "--out", "all.parquet"]) == 0
    assert main(["count", "r2.csv", *both, "--over", "smokes,drug", "--out", "two.parquet"]) == 0
    assert "600 reports in " in capsys.readouterr().out
    reports = ("r0.parquet", "r1.csv", "r2.csv")
    sources = open_sources([Path(file) for file in reports], BOOK, DESIGN, FILES)
    total = sum(pd.read_parquet(file)["count"].sum() for file in ("one.parquet", "two.parquet"))
    assert total == count_files(sources, BOOK, DESIGN, BOOK.names).n == 600
    for over in ("age", "smokes,drug", "drug,smokes"):
        expected = numbers(estimated(over, *reports))
        np.testing.assert_allclose(numbers(estimated(over, "all.parquet")), expected, rtol=1e-12)
        if over != "age":
            mixed = numbers(estimated(over, "one.parquet", "two.parquet"))
            np.testing.assert_allclose(mixed, expected, rtol=1e-12)
    asked: dict[str, Any] = {"where": {"smokes": ["yes"], "age": ["> 50", "(30, 50]"]}}
    expected = numbers(estimated("drug", *reports, **asked))
    np.testing.assert_allclose(numbers(estimated("drug", "all.parquet", **asked)), expected)
    for method in ("mle", "em"):
        found = estimated("drug", "all.parquet", method=method)
        table = count_files(sources, BOOK, DESIGN, ["drug"])
        want = getattr(pp, method)(table, DESIGN).values
        np.testing.assert_allclose([cell.value for cell in found.cells], want, atol=1e-12)
        interval = pp.event_interval(table, DESIGN, {"drug": "once"})
        assert (found.cells[1].lower, found.cells[1].upper) == (interval.lower, interval.upper)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize(
    "design",
    [
        UnaryEncoding("a", 10, epsilon=2.0),
        SubsetSelection("a", 10, epsilon=1.0),
        Kuk("b", 0.8, 0.3, repeats=3),
        pp.RRMatrix(["a", "b"], JOINT, shape=[10, 2]),
    ],
    ids=["unary", "subset", "kuk", "joint"],
)
def test_every_kind_of_report_survives_its_file(design: pp.Design, suffix: str) -> None:
    """Sets, symbols that are no categories, and whole blocks: as in memory."""
    book = make_codebook(["a", "b"], [10, 2])
    records = random_records(book, 400, 5)
    frame = book.decode(records)
    frame.to_csv("s.csv", index=False)
    keep = [name for name in ("a", "b") if name not in design.attributes]
    out, stream = Path("r" + suffix), pp.Stream.from_seed(2)
    disguise_file(Path("s.csv"), book, design, stream, out, keep=keep, block=150)
    expected = design.disguise(records, pp.Stream.from_seed(2))
    blocks = list(read_reports(out, about_file(out), ["a", "b"], size=90))
    np.testing.assert_array_equal(
        np.concatenate([block.reports.codes for block in blocks]), expected.codes
    )
    for name, bits in expected.sets.items():
        found = np.concatenate([block.reports.sets[name] for block in blocks])
        np.testing.assert_array_equal(found, bits)
    sources = open_sources([out], book, design, FILES)
    for over in (["a"], ["b"], ["b", "a"]):
        answer = estimate_files(sources, book, design, Question(tuple(over)))
        want = pp.estimate(expected, over, design=design)
        np.testing.assert_allclose(
            [cell.value for cell in answer.cells], want.values.ravel(), atol=1e-12
        )


def test_a_block_that_does_not_marginalise_is_said_to_be_counted_along(capsys: Capture) -> None:
    rng = np.random.default_rng(3)
    P = 0.7 * np.eye(6) + 0.3 * rng.dirichlet(np.ones(6), 6).T
    design = pp.RRMatrix(["smokes", "drug"], P, shape=[2, 3], categories=BOOK_LABELS[:2])
    assert design.marginal(["drug"]) is None
    write_design(design, "joint.toml")
    answers(500)[["smokes", "drug"]].to_csv("s.csv", index=False)
    both = ("--codebook", "c.toml", "--design", "joint.toml")
    assert main(["disguise", "s.csv", *both, "--simulate", "1", "--out", "r.csv"]) == 0
    capsys.readouterr()
    assert main(["estimate", "r.csv", *both, "--over", "drug", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    records = BOOK.select(["smokes", "drug"]).encode(answers(500))
    reports = design.disguise(records, pp.Stream.from_seed(1))
    want = pp.estimate(reports, ["drug"], design=design)
    assert [cell["proportion"] for cell in found["cells"]] == pytest.approx(want.values.tolist())
    assert found["counted_along"] == ["smokes"]
    assert any(text.startswith("counted along: smokes, disguised") for text in found["statements"])
    assert main(["estimate", "r.csv", *both, "--over", "drug", "--method", "mle"]) == 2
    assert "--over: smokes was disguised together with" in capsys.readouterr().err


def test_no_more_than_a_block_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    answers(2_000)[["smokes", "drug", "age"]].to_csv("s.csv", index=False)
    sizes = []
    encode = pp.Codebook.encode

    def noted(self: pp.Codebook, frame: pd.DataFrame, offset: int = 0) -> pp.Records:
        sizes.append(len(frame))
        return encode(self, frame, offset)

    monkeypatch.setattr(pp.Codebook, "encode", noted)
    disguise_file(Path("s.csv"), BOOK, DESIGN, pp.Stream.from_entropy(), Path("r.csv"), block=300)
    assert sizes == [300] * 6 + [200]


def test_a_real_disguise_is_its_own_and_the_file_says_which(capsys: Capture) -> None:
    answers(400).to_parquet("s.parquet")
    rest = ["--codebook", "c.toml", "--design", "d.toml", "--drop", "weight", "--json"]
    rest += ["--keep-undisguised", "region"]
    for out, more in (("a", []), ("b", []), ("c", ["--simulate", "4"]), ("d", ["--simulate", "4"])):
        assert main(["disguise", "s.parquet", *rest, "--out", f"{out}.parquet", *more]) == 0
        assert json.loads(capsys.readouterr().out)["simulated"] is bool(more)
        about = json.loads(pq.read_metadata(f"{out}.parquet").metadata[b"ppdm"])
        assert about["simulated"] is bool(more)
        assert about["version"] == pp.__version__
        assert about["design_digest"] == DESIGN.digest
        assert about["codebook_digest"] == BOOK.digest
        assert about["undisguised"] == ["region"]
    a, b, c, d = (pd.read_parquet(f"{name}.parquet") for name in "abcd")
    assert list(a) == ["smokes", "drug", "age", "region"]
    assert not a.equals(b)
    assert c.equals(d)
    # Each report is the truth as often as the design says, and not more (six standard errors).
    kept = (a["smokes"] == answers(400)["smokes"]).mean()
    assert abs(kept - 0.8) < 6 * math.sqrt(0.8 * 0.2 / 400)
