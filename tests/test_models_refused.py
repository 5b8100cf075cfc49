"""Models, rules and owners: what they are asked wrongly, and attributes chosen from a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning

import ppdm_dask as pp
from ppdm_dask.cli import main
from ppdm_dask.designs.files import write_design
from ppdm_dask.errors import InputError, PPDMError, RecordsError

BOOK = pp.Codebook(
    (
        pp.Attribute("a", ("no", "yes")),
        pp.Attribute("b", ("1", "2", "3")),
        pp.Attribute("y", ("no", "yes")),
    ),
    target="y",
)
RECORDS = pp.Records(
    np.random.default_rng(3).integers(0, BOOK.shape, (400, 3)).astype(np.uint8), BOOK
)
DESIGN = pp.Product([pp.KaryResponse(n, len(BOOK[n]), p=0.8) for n in BOOK.names])
REPORTS = DESIGN.disguise(RECORDS, pp.Stream.from_seed(1))


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    columns = zip(BOOK.names, RECORDS.codes.T, strict=True)
    table = pd.DataFrame({n: np.array(BOOK[n].categories)[codes] for n, codes in columns})
    table.to_csv("answers.csv", index=False)
    table[:60].to_csv("own.csv", index=False)
    BOOK.to_toml("c.toml")
    write_design(DESIGN, "d.toml")
    made = ("disguise", "answers.csv", "--codebook", "c.toml")
    assert main([*made, "--design", "d.toml", "--out", "r.parquet"]) == 0


MINE = ("r.parquet", "--codebook", "c.toml", "--out", "m.json")


@pytest.mark.parametrize("others", [(), ("--design", "d.toml"), ("--clean", "own.csv")])
@pytest.mark.parametrize("learner", ["naive-bayes", "tan", "id3"])
@pytest.mark.usefixtures("files")
def test_a_model_of_some_attributes_is_that_of_reports_without_the_others(
    learner: str, others: tuple[str, ...]
) -> None:
    assert main(["mine", learner, *MINE, *others, "--features", "b"]) == 0
    found = pp.read_model("m.json")
    assert list(found.features_) == ["b"]
    # People who were never asked the other question, under the design without it.
    book = BOOK.select(["b", "y"])
    design = pp.Product(DESIGN.designs[1:])
    codes = pp.load_reports("r.parquet", BOOK, DESIGN).select(["b", "y"]).codes
    reports = pp.Reports(codes, book, design=design, design_digest=design.digest)
    records = pp.Records(RECORDS.codes[:60, 1:], book)
    asked: Any = pp.Owners(reports, records) if "--clean" in others else reports
    model = {"naive-bayes": pp.NaiveBayes, "tan": pp.TAN, "id3": pp.ID3}[learner](target="y")
    assert found.fitted_values() == model.fit(asked).fitted_values()


@pytest.mark.usefixtures("files")
def test_a_block_that_does_not_marginalise_is_not_cut(capsys: pytest.CaptureFixture[str]) -> None:
    P = np.full((6, 6), 0.05) + np.diag(np.linspace(0.6, 0.75, 6))
    block = pp.RRMatrix(
        ["a", "b"],
        P / P.sum(axis=0),
        shape=(2, 3),
        categories=[BOOK["a"].categories, BOOK["b"].categories],
    )
    assert block.marginal(["b"]) is None
    write_design(pp.Product([block, pp.Warner("y", 0.8)]), "d.toml")
    made = ("disguise", "answers.csv", "--codebook", "c.toml")
    assert main([*made, "--design", "d.toml", "--out", "r.parquet", "--force"]) == 0
    capsys.readouterr()
    assert main(["mine", "id3", *MINE, "--features", "b"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "a was disguised together with what is asked for" in line
    assert not Path("m.json").exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("--picture m.txt", "--picture: got 'm.txt'"),
        ("--folds 1", "--folds: got 1"),
        ("--prune 2", "--prune: got 2"),
        ("--features y", "--features: got 'y', which is the target"),
    ],
)
@pytest.mark.usefixtures("files")
def test_a_message_names_the_option(
    capsys: pytest.CaptureFixture[str], arguments: str, says: str
) -> None:
    capsys.readouterr()
    assert main(["mine", "id3", *MINE, *arguments.split()]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert says in line


def results(means: list[float], errors: list[float], values: list[Any]) -> dict[str, Any]:
    """What a search of one fold hands to ``refit``."""
    return {
        "param_depth": values,
        "mean_test_accuracy": np.array(means),
        "split0_test_accuracy": np.array(means),
        "split0_test_standard_error": np.array(errors),
    }


NAN = float("nan")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (results([0.7, 0.8], [NAN, NAN], [1, 2]), "no standard error"),
        (results([NAN, NAN], [0.1, 0.1], [1, 2]), "no model of the search has a score"),
        (results([0.7, 0.8], [0.1, 0.1], ["gain", "ratio"]), "depth: got 'gain'"),
        ({"param_depth": [1], "mean_test_f1": [0.1]}, "got 'accuracy'; the search has: f1"),
    ],
)
def test_the_rule_of_one_error_says_what_it_lacks(given: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        pp.one_standard_error("depth")(given)


@pytest.mark.parametrize(
    ("ask", "says"),
    [
        (lambda: pp.association_rules(REPORTS, attributes=[]), "attributes: got none"),
        (lambda: pp.association_rules(REPORTS, attributes="ab"), "got ab; there are a, b, y"),
        (lambda: pp.association_rules(pd.DataFrame({"a": [1]})), "got DataFrame"),
        (lambda: pp.Owners(REPORTS, RECORDS, weights=2), "weights: got 2"),  # type: ignore[arg-type]
        (lambda: pp.LatentClasses(over="ab").fit(REPORTS), "'ab'"),
        (lambda: pp.LatentClasses().fit(pp.Owners(REPORTS, RECORDS)), "got Owners; Reports"),
        (lambda: pp.LatentClasses().fit([REPORTS, REPORTS[:5]]), "got list; Reports"),
        (lambda: pp.Disguise(None).transform(RECORDS), "design: got None"),  # type: ignore[arg-type]
        (lambda: pp.ID3().fit(REPORTS[:0]), "there are no records; at"),
        (lambda: pp.NaiveBayes().fit(REPORTS).draw("m.txt"), "m.txt: a drawing's name ends"),
        (lambda: pp.TAN().fit(REPORTS).draw("m.txt"), "m.txt: a drawing's name ends"),
        (lambda: pp.ID3(max_depth=1).fit(REPORTS).draw("m.txt"), "m.txt: a drawing's name ends"),
    ],
)
def test_one_line_says_what_would_be_right(ask: Any, says: str) -> None:
    with pytest.raises(PPDMError, match=says) as caught:
        ask()
    assert "\n" not in str(caught.value)


def test_one_attribute_may_be_named_without_a_list() -> None:
    assert pp.LatentClasses(n_clusters=1, over="b").fit(REPORTS).features_ == ("b",)
    with pytest.raises(RecordsError):
        pp.LatentClasses().fit(REPORTS[:0])


def test_owners_of_what_never_varies_count_alike() -> None:
    book = pp.Codebook((pp.Attribute("a", ("x",)), pp.Attribute("b", ("z",))))
    parts = [pp.Records(np.zeros((n, 2), np.uint8), book) for n in (3, 5)]
    assert pp.Owners(*parts, weights="precision").design.weights == (1.0, 1.0)


def test_clusters_that_did_not_converge_are_announced() -> None:
    with pytest.warns(ConvergenceWarning, match="in 2 steps"):
        model = pp.LatentClasses(n_clusters=3, n_init=1, max_steps=2).fit(REPORTS)
    assert not model.converged_


def test_a_tree_of_attributes_rests_on_owners_in_any_order() -> None:
    one = pp.TAN().fit(pp.Owners(REPORTS, RECORDS, weights="precision")).fitted_values()
    other = pp.TAN().fit(pp.Owners(RECORDS, REPORTS, weights="precision")).fitted_values()
    assert json.dumps(one) == json.dumps(other)
