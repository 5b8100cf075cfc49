"""Answers that people randomised themselves: their words become the reports that they are."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest
from checks import EXAMPLES, has_sets
from strategies import codebook_of, random_records, with_labels

import ppdm_dask as pp
from ppdm_dask.cli import main
from ppdm_dask.designs import (
    Crosswise,
    Design,
    ForcedResponse,
    Kuk,
    SubsetSelection,
    UnaryEncoding,
    mixed,
)
from ppdm_dask.designs.files import write_design
from ppdm_dask.designs.sets import unpack
from ppdm_dask.errors import CodebookError, DesignError, InputError, RecordsError
from ppdm_dask.inference.two_sample import ItemCount, TwoSample

Capture = pytest.CaptureFixture[str]
BOTH = ("--codebook", "c.toml", "--design", "d.toml")
BOOK = pp.Codebook((pp.Attribute("used", ("nein", "ja")),))
WORDS = {"same": "ja", "different": "nein"}
CROSSWISE = Crosswise("used", 0.25).with_symbols(WORDS)

# The first example of each family whose reports are not too many to write down, and a product.
FAMILIES = {
    name: next(d for d in examples if d.n_true < 1000 and not d.undefined)
    for name, examples in EXAMPLES.items()
}
OTHERS = {
    "cards": Kuk("a", 0.3, 0.6, 5),
    "tall": next(d for d in EXAMPLES["matrix"] if d.n_reported > d.n_true and not d.undefined),
    "sets and symbols": pp.Product([UnaryEncoding("a", 3, epsilon=1.0), pp.Warner("b", 0.8)]),
}


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def written(reports: pp.Reports, design: Design) -> dict[str, list[object]]:
    """What an interviewer would have typed: labels, numbers, or labels between semicolons."""
    columns: dict[str, list[object]] = {}
    for attribute, size, codes in zip(
        reports.codebook.attributes, reports.sizes, reports.codes.T, strict=True
    ):
        labels = np.array(attribute.categories, object)
        if attribute.name in reports.sets:
            inside = unpack(reports.sets[attribute.name], len(labels))
            columns[attribute.name] = [";".join(labels[row]) for row in inside]
        else:
            columns[attribute.name] = (
                labels[codes].tolist() if size == len(labels) else codes.tolist()
            )
    return columns


@pytest.mark.parametrize("name", [*FAMILIES, *OTHERS])
def test_reports_of_every_family_are_read_as_they_were_made(name: str) -> None:
    design = {**FAMILIES, **OTHERS}[name]
    book = codebook_of(design)
    design = with_labels(design, book)
    made = design.disguise(random_records(book, 60, 3), pp.Stream.from_seed(4))
    columns = written(made, design)
    if has_sets(design):
        # An empty cell is not an answer; the empty set has a word.
        words = {}
        for each in made.sets:
            columns[each] = [text or "none" for text in columns[each]]
            words[each] = {**{label: label for label in book[each].categories}, "none": ""}
        design = design.with_symbols(words if len(book.names) > 1 else words["a"])
    read = pp.Reports.from_field(columns, design, book)
    np.testing.assert_array_equal(read.codes, made.codes)
    assert read.sizes == made.sizes
    assert list(read.sets) == list(made.sets)
    for attribute, bits in made.sets.items():
        np.testing.assert_array_equal(read.sets[attribute], bits)
    assert (read.design_digest, read.simulated) == (made.design_digest, False)
    over = [book.names[0]]
    np.testing.assert_array_equal(
        pp.estimate(read, over, design=design).values, pp.estimate(made, over, design=design).values
    )


def test_words_are_outside_the_digest_and_in_the_file() -> None:
    plain = Crosswise("used", 0.25)
    assert CROSSWISE.digest == plain.digest
    assert plain != CROSSWISE
    both = pp.Product(
        [CROSSWISE, Kuk("k", 0.8, 0.3, trait="y").with_symbols({"red": "y", "b": "n"})]
    )
    write_design(both, "d.toml")
    book = pp.Codebook((*BOOK.attributes, pp.Attribute("k", ("y", "n"))))
    found = Design.read("d.toml", book)
    assert found.symbols == {"used": WORDS, "k": {"red": "y", "b": "n"}}
    assert found.digest == both.digest
    groups = pp.MultiGroup([["a", "b"], ["c"]], 0.8).with_symbols({"b": {"x": "1", "y": "0"}})
    assert pp.design_from_config(groups.config()) == groups
    with pytest.raises(
        DesignError, match="'d' is not an attribute of the block; it has 'a', 'b', 'c'"
    ):
        groups.with_symbols({"d": {"x": "1", "y": "0"}})


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            {"same": "Ja", "different": "nein"},
            "'same' is 'Ja', which is not a report of the design",
        ),
        ({"same": "ja"}, "no word is given for 'nein'"),
        (["different", "same"], "a table of words is needed"),
        ({"same": True, "different": "nein"}, "'same' = True; the word of a report"),
        ({"same": {"ja": "nein"}}, "the word of a report"),
        ({}, "a table of words is needed"),
    ],
)
def test_words_that_are_no_reports_are_refused(words: Any, said: str) -> None:
    with pytest.raises(DesignError, match=said):
        Crosswise("used", 0.25).with_symbols(words).bind(BOOK)


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        ("Ja", r"row 1: 'Ja' is not a report .*; near it is 'ja', the same but for case: correct"),
        ("ja ", "row 1: 'ja ' is not a report .* near it is 'ja', the same but for outer spaces"),
        ("\uff4aa", "near it is 'ja', the same but for how its signs are stored"),
        (" J\u00e0", "near it is 'ja', the same but for spaces, case or accents"),
        ("nien", "near it is 'nein': correct"),
        ("yes", r"'yes' is not a report of the design; there are 'nein', 'ja'$"),
        (1, "'1' is not a report"),
    ],
)
def test_a_label_that_is_none_is_named_with_the_nearest(cell: object, said: str) -> None:
    frame = pd.DataFrame({"used": ["ja", cell]})
    with pytest.raises(CodebookError, match=said) as caught:
        pp.Reports.from_field(frame, pp.Warner("used", 0.8), BOOK)
    assert (caught.value.row, str(cell) in caught.value.without_data().args[0]) == (1, cell == 1)


def test_words_stand_for_reports_and_several_for_one() -> None:
    frame = {"used": ["same", "Same ", "different"]}
    design = CROSSWISE.with_symbols({**WORDS, "Same ": "ja"})
    assert pp.Reports.from_field(frame, design, BOOK).codes.ravel().tolist() == [1, 1, 0]
    # With words for reports the labels themselves are none.
    with pytest.raises(CodebookError, match="'ja' is not a report"):
        pp.Reports.from_field({"used": ["ja"]}, design, BOOK)


def test_zero_padded_codes_stay_labels() -> None:
    book = pp.Codebook((pp.Attribute("icd", ("0001", "0010", "1")),))
    Path("d.csv").write_text("icd\n0001\n1\n0010\n")
    write_design(pp.KaryResponse("icd", 3, 0.8), "d.toml")
    book.to_toml("c.toml")
    assert main(["import", "d.csv", *BOTH, "--out", "r.csv"]) == 0
    assert Path("r.csv").read_text() == "icd\n0001\n1\n0010\n"


def test_forced_answers_as_papers_state_them() -> None:
    """P(forced yes) = 1/6 and P(forced no) = 1/12 leave 3/4 for the truth: pi = (l - 1/6) / .75."""
    design = ForcedResponse("used", forced_probability={"ja": "1/6", "nein": "1/12"})
    other = ForcedResponse("used", "3/4", {"ja": "2/3", "nein": "1/3"})
    assert design.digest == other.digest
    reports = pp.Reports.from_field({"used": ["ja"] * 140 + ["nein"] * 260}, design, BOOK)
    found = pp.estimate(reports, {"used": "ja"}, design=design)
    assert found.value == pytest.approx((0.35 - 1 / 6) / 0.75, abs=1e-12)
    error = math.sqrt(0.35 * 0.65 / 399) / 0.75
    assert found.standard_error == pytest.approx(error, abs=1e-12)


class TestRowsWithoutAReport:
    FRAME = pd.DataFrame(
        {
            "used": ["ja", None, "nein", "verweigert", "", "ja", "nein"],
            "w": [1.0, 2.0, 0.0, 1.5, 1.0, math.nan, 3.0],
        }
    )

    def test_nonresponse_is_refused_dropped_or_a_category(self) -> None:
        frame, design = self.FRAME, pp.Warner("used", 0.8)
        with pytest.raises(RecordsError, match=r"row 1: no answer .* drop leaves such rows out$"):
            pp.Reports.from_field(frame, design, BOOK)
        with pytest.raises(CodebookError, match="row 3: 'verweigert' is not a report"):
            pp.Reports.from_field(frame, design, BOOK, nonresponse="drop")
        with pytest.raises(RecordsError, match="the device offers no category for that"):
            pp.Reports.from_field(frame, design, BOOK, nonresponse="category")
        with pytest.raises(InputError, match="nonresponse: got 'skip'; refuse or drop or category"):
            pp.Reports.from_field(frame, design, BOOK, nonresponse="skip")
        with pytest.raises(InputError, match="'ja' is a report on 'used'"):
            pp.Reports.from_field(frame, design, BOOK, no_answer=["ja"])
        read = pp.Reports.from_field(
            frame, design, BOOK, nonresponse="drop", no_answer=["verweigert"]
        )
        assert read.codes.ravel().tolist() == [1, 0, 1, 0]
        assert read.imported is not None
        assert (read.imported.rows, read.imported.nonresponse) == (7, {"used": 3})

    def test_a_device_may_offer_the_category(self) -> None:
        asked = pp.Attribute(
            "used", ("-", "nein", "ja"), missing="-", missing_codes=("verweigert",)
        )
        book, design = pp.Codebook((asked,)), pp.KaryResponse("used", 3, 0.8)
        with pytest.raises(RecordsError, match="category takes them for a report '-'"):
            pp.Reports.from_field(self.FRAME, design, book)
        read = pp.Reports.from_field(self.FRAME, design, book, nonresponse="category")
        assert read.codes.ravel().tolist() == [2, 0, 1, 0, 0, 2, 1]
        with pytest.raises(RecordsError, match=r"3 categories; the design expects 2; '-' stands"):
            pp.Reports.from_field(self.FRAME, pp.Warner("used", 0.8), book)

    def test_weights_of_zero_and_blank_are_dropped_by_choice(self) -> None:
        frame, design = self.FRAME, pp.Warner("used", 0.8)
        options: dict[str, Any] = {
            "nonresponse": "drop",
            "no_answer": ["verweigert"],
            "weights": "w",
        }
        with pytest.raises(RecordsError, match="'w', row 2: the weight is 0 or missing"):
            pp.Reports.from_field(frame, design, BOOK, **options)
        read = pp.Reports.from_field(frame, design, BOOK, unweighted="drop", **options)
        assert read.weights is not None
        assert (read.weights.tolist(), read.kept["w"].tolist()) == ([1, 3], [1, 3])
        assert read.imported is not None
        assert (read.imported.unweighted, read.imported.dropped) == (2, 3)
        # (1 * 1 + 3 * 0) / 4 = .25 report ja; (.25 - .2) / .6.
        share = pp.estimate(read, {"used": "ja"}, design=design).value
        assert share == pytest.approx(0.05 / 0.6, abs=1e-12)
        for wrong in ("-1", "heavy"):
            frame = pd.DataFrame({"used": ["ja"], "w": [wrong]})
            with pytest.raises(
                RecordsError, match=f"row 0: '{wrong}'; survey weights are positive"
            ):
                pp.Reports.from_field(frame, design, BOOK, unweighted="drop", weights="w")


def test_sets_are_read_label_by_label() -> None:
    book = pp.Codebook((pp.Attribute("drug", ("a; b", "c", "d")),))
    design = SubsetSelection("drug", 3, 2, 0.8)
    read = pp.Reports.from_field({"drug": ["c|a; b", "d|c"]}, design, book, separator="|")
    assert unpack(read.sets["drug"], 3).tolist() == [[True, True, False], [False, True, True]]
    for cell, said in (
        ("c", "has 1 label; the design gives no report of so many"),
        ("c|c", "names a category twice"),
        ("c|e", "'e' is not a report of the design"),
    ):
        with pytest.raises(CodebookError, match=said.replace("|", r"\|")):
            pp.Reports.from_field({"drug": ["c|d", cell]}, design, book, separator="|")


def test_a_report_that_the_device_never_gives_is_refused() -> None:
    design = pp.RRMatrix("used", [[0.7, 0.2], [0.3, 0.8], [0, 0]], categories=["nein", "ja"])
    with pytest.raises(RecordsError, match="row 1: the design never gives this report"):
        pp.Reports.from_field({"used": [1, 2]}, design, BOOK)


def test_two_samples_from_the_field() -> None:
    """pi = [l1 (1 - q2) - l2 (1 - q1)] / (q1 - q2), sample by sample, rows by a column."""
    scheme = TwoSample("used", "june", (0.7, 0.3), yes="ja")
    frame = pd.DataFrame(
        {
            "form": ["A"] * 400 + ["B"] * 601,
            "used": ["ja"] * 140 + ["nein"] * 260 + ["ja"] * 150 + ["nein"] * 450 + [None],
        }
    )
    samples = [
        scheme.from_field(frame[frame["form"] == form], h, BOOK, nonresponse="drop")
        for h, form in enumerate("AB")
    ]
    found = scheme.estimate(*samples)
    assert found[0].value == pytest.approx((0.35 * 0.7 - 0.25 * 0.3) / 0.4)
    with pytest.raises(RecordsError, match="exchange the two"):
        scheme.estimate(*samples[::-1])


class TestItemCount:
    """A list experiment: difference of mean counts, with the variances of both groups."""

    SCHEME = ItemCount("used", 3, trait="ja")
    CONTROL = [0] * 20 + [1] * 50 + [2] * 25 + [3] * 5
    TREATED = [0] * 15 + [1] * 45 + [2] * 40 + [3] * 15 + [4] * 5

    def read(self, treated: bool, counts: list[Any], **options: Any) -> pp.Reports:
        return self.SCHEME.from_field({"used": counts}, treated, BOOK, **options)

    def test_the_difference_of_means(self) -> None:
        groups = (
            self.read(False, [*self.CONTROL, None], nonresponse="drop"),
            self.read(True, self.TREATED),
        )
        found = self.SCHEME.estimate(*groups)
        c, t = np.array(self.CONTROL), np.array(self.TREATED)
        yes = found[list(found.labels["used"]).index("ja")]
        assert yes.value == pytest.approx(t.mean() - c.mean(), abs=1e-12)
        error = math.sqrt(c.var(ddof=1) / len(c) + t.var(ddof=1) / len(t))
        assert yes.standard_error == pytest.approx(error, abs=1e-12)
        with pytest.raises(RecordsError, match="exchange the two"):
            self.SCHEME.estimate(*groups[::-1])

    def test_weights_are_used(self) -> None:
        """A weight of 2 estimates what the row twice does."""
        frame = {"used": ["0", "1", "3"], "w": [1, 2, 1]}
        weighted = self.SCHEME.from_field(frame, True, BOOK, weights="w")
        found = self.SCHEME.estimate(self.read(False, self.CONTROL), weighted)
        twice = self.SCHEME.estimate(self.read(False, self.CONTROL), self.read(True, [0, 1, 1, 3]))
        np.testing.assert_allclose(found.values, twice.values, atol=1e-12)

    def test_a_count_that_cannot_be_is_refused(self) -> None:
        with pytest.raises(RecordsError, match="row 1: the design never gives this report"):
            self.read(False, [3, 4])
        with pytest.raises(CodebookError, match="'5' is not a report of the design"):
            self.read(True, [4, 5])

    def test_a_known_law_of_the_others_makes_a_design(self) -> None:
        """P is that law, and the same shifted by one; mean counts are an inverse of it."""
        law = np.array([0.2, 0.5, 0.25, 0.05])
        design = self.SCHEME.design(law, BOOK)
        P = design.matrix()
        np.testing.assert_allclose(P[:, 0], [*law, 0])
        np.testing.assert_allclose(P[:, 1], [0, *law])
        np.testing.assert_allclose(np.arange(5) @ P - law @ np.arange(4), [0, 1], atol=1e-12)
        reports = pp.Reports.from_field({"used": self.TREATED}, design, BOOK)
        found = pp.estimate(reports, {"used": "ja"}, design=design)
        assert 0 < found.value < 1


class TestItemCountDesign:
    """One matrix of both lists: expected counts give back what they are expected of."""

    FILE = """
id = "itemcount"
attribute = "used"
count = "statements"
items = 3
categories = ["ja", "nein"]
trait = "ja"
treated = "lang"
control = "kurz"
share = "1/2"
expected = [0.2, 0.5, 0.25, 0.05]
"""
    # A fifth has the trait, independently of the harmless counts; of 1,000 people half got either.
    TOLD: ClassVar = {"kurz": (100, 250, 125, 25), "lang": (80, 220, 150, 45, 5)}

    @pytest.fixture(autouse=True)
    def _files(self, _elsewhere: None) -> None:
        counts = pp.Attribute("statements", ("0", "1", "2", "3"))
        pp.Codebook((*BOOK.attributes, counts)).to_toml("c.toml")
        Path("d.toml").write_text(self.FILE)
        rows = [
            f"{w},{k}" for w, ns in self.TOLD.items() for k, n in enumerate(ns) for _ in range(n)
        ]
        Path("f.csv").write_text("\n".join(["used,statements", *rows]) + "\n")

    def ask(self, capsys: Capture, *options: str) -> dict[tuple[str, ...], dict[str, float]]:
        capsys.readouterr()
        assert main(["estimate", "r.parquet", *BOTH, *options, "--json"]) == 0
        cells = json.loads(capsys.readouterr().out)["cells"]
        return {tuple(cell["labels"].values()): cell for cell in cells}

    def test_trait_and_counts_are_told_apart(self, capsys: Capture) -> None:
        assert main(["import", "f.csv", *BOTH, "--out", "r.parquet"]) == 0
        found = self.ask(capsys, "--over", "used")["ja",]
        assert found["proportion"] == pytest.approx(0.2, abs=1e-12)
        # No unbiased estimate is more precise than the difference of means is in expectation.
        law, k = np.array([0.2, 0.5, 0.25, 0.05]), np.arange(4)
        spread = law @ k**2 - (law @ k) ** 2
        least = math.sqrt((2 * spread + 2 * (spread + 0.16)) / 999)
        assert least < found["standard_error"] < 1.1 * least
        for i, share in enumerate(law):
            cell = self.ask(capsys, "--over", "statements")[str(i),]
            assert cell["proportion"] == pytest.approx(share, abs=1e-12)
        both = self.ask(capsys, "--over", "used,statements", "--method", "mle")
        assert both["ja", "1"]["proportion"] == pytest.approx(0.1, abs=1e-6)

    @pytest.mark.parametrize(
        ("old", "new", "said"),
        [
            ('trait = "ja"', 'trait = "Ja"', "trait: got 'Ja'; one of 'ja', 'nein'"),
            ('"1/2"', "1.0", "share: got 1.0; within 0 and 1"),
            ('"kurz"', '"lang"', "treated, control: both are 'lang'"),
            ("items = 3", "items = 0", "items: got 0"),
            ("0.5, 0.25, 0.05", "0.5, 0.3, 0.0", "expected: got .* positive ones"),
            ('count = "statements"\n', "", "count: missing; 'itemcount' needs it"),
            ('"ja", "nein"]', "]", "trait: got 'ja'"),
        ],
    )
    def test_a_mistake_is_one_line(self, capsys: Capture, old: str, new: str, said: str) -> None:
        Path("d.toml").write_text(self.FILE.replace(old, new, 1))
        assert main(["import", "f.csv", *BOTH, "--out", "r.parquet"]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert re.search(said, line), line

    def test_a_count_that_a_list_cannot_have_is_refused(self, capsys: Capture) -> None:
        Path("f.csv").write_text("used,statements\nlang,4\nkurz,4\n")
        assert main(["import", "f.csv", *BOTH, "--out", "r.parquet"]) == 2
        assert "row 1: the design never gives this report" in capsys.readouterr().err


def test_strata_of_two_devices_add_up() -> None:
    """p = (n1 p1 + n2 p2) / n, p_h by each device's own inverse."""
    dice = ForcedResponse("used", forced_probability={"ja": "1/6", "nein": "1/12"})
    parts = [
        pp.Reports.from_field({"used": ["same"] * 35 + ["different"] * 65}, CROSSWISE, BOOK),
        pp.Reports.from_field({"used": ["ja"] * 140 + ["nein"] * 260}, dice, BOOK),
    ]
    found = pp.estimate(parts, {"used": "ja"}, design=pp.Stratified([CROSSWISE, dice]))
    one, other = (0.35 - 0.75) / -0.5, (0.35 - 1 / 6) / 0.75
    assert found.value == pytest.approx(0.2 * one + 0.8 * other, abs=1e-12)


class TestTheCommand:
    @pytest.fixture(autouse=True)
    def _files(self, _elsewhere: None) -> None:
        (pp.Codebook((*BOOK.attributes, pp.Attribute("region", ("N", "S"))))).to_toml("c.toml")
        write_design(CROSSWISE, "d.toml")
        rows = ["N,same,7,2"] * 30 + ["S,different,8,1"] * 60 + ["S,,9,1", "N,same,9,0"]
        Path("f.csv").write_text("\n".join(["region,used,school,w", *rows]) + "\n")

    IMPORT = ("import", "f.csv", *BOTH, "--keep", "region", "--weights", "w", "--out", "r.parquet")
    CHOICES = ("--nonresponse", "drop", "--unweighted", "drop")

    def test_a_file_is_imported_and_estimated(self, capsys: Capture) -> None:
        assert main([*self.IMPORT, *self.CHOICES]) == 0
        out = capsys.readouterr().out.splitlines()
        assert out[-5:] == [
            "left out: school",
            "field: 90 reports randomised by the people themselves, of 92 rows; the device is as "
            "they used it",
            "no answer: used in 1 row; 1 row left out",
            "no weight: 1 row left out",
            "90 reports: r.parquet",
        ]
        ask = ("estimate", "r.parquet", *BOTH, "--over", "used", "--json")
        assert main([*ask, "--weights", "w"]) == 0
        found = json.loads(capsys.readouterr().out)
        # Half of the weight reports ja: (.5 - .75) / (.25 - .75).
        assert found["cells"][1]["proportion"] == pytest.approx(0.5, abs=1e-12)
        assert found["simulated"] is False
        assert "no answer: used in 1 row; 1 row left out" in found["statements"]
        # Counts keep the provenance too.
        assert main(["count", "r.parquet", *BOTH, "--out", "k.parquet"]) == 0
        capsys.readouterr()
        assert main(["estimate", "k.parquet", *BOTH, "--over", "used", "--json"]) == 0
        assert any(
            line.startswith("field: 90 reports")
            for line in json.loads(capsys.readouterr().out)["statements"]
        )

    def test_a_file_of_which_nothing_is_left(self, capsys: Capture) -> None:
        Path("f.csv").write_text("region,used,school,w\nN,,1,2\n")
        assert main([*self.IMPORT, *self.CHOICES]) == 2
        assert "f.csv: there are no reports" in capsys.readouterr().err
        assert not list(Path().glob("*r.parquet*"))
        with pytest.raises(InputError, match="the codebook has 'region' as an attribute"):
            pp.survey.import_files(
                [Path("f.csv")],
                pp.Codebook.from_toml("c.toml"),
                CROSSWISE,
                Path("s.csv"),
                weights="region",
            )

    @pytest.mark.parametrize(
        ("options", "said"),
        [
            (("--separator", ""), "separator: got ''"),
            ((), "f.csv: column 'w', row 91: the weight is 0 or missing"),
            (("--unweighted", "drop"), "f.csv: attribute 'used', row 90: no answer is given"),
            ((*CHOICES, "--keep", "used"), "'used' is reported under the design already"),
            ((*CHOICES, "--keep", "county"), "county"),
        ],
    )
    def test_one_line_and_nothing_written(
        self, capsys: Capture, options: tuple[str, ...], said: str
    ) -> None:
        assert main([*self.IMPORT, *options]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert said in line
        assert not list(Path().glob("*r.parquet*"))

    def test_field_and_own_reports_add_up_under_one_design_only(self, capsys: Capture) -> None:
        assert main([*self.IMPORT, *self.CHOICES]) == 0
        Path("own.csv").write_text("used,region\n" + "ja,N\nnein,S\n" * 40)
        own = ("disguise", "own.csv", *BOTH, "--keep-undisguised", "region", "--out", "own.parquet")
        # Without words the design is the same.
        write_design(Crosswise("used", 0.25), "d.toml")
        assert main([*own]) == 0
        assert main(["count", "r.parquet", "own.parquet", *BOTH, "--out", "k.parquet"]) == 0
        assert "170 reports" in capsys.readouterr().out
        write_design(Crosswise("used", 0.3), "d.toml")
        assert main(["count", "own.parquet", "r.parquet", *BOTH, "--out", "l.parquet"]) == 2
        assert "own.parquet: was made under another design than d.toml" in capsys.readouterr().err
        assert not Path("l.parquet").exists()

    def test_damage_to_provenance_is_seen(self, capsys: Capture) -> None:
        assert main([*self.IMPORT[:-1], "r.csv", *self.CHOICES]) == 0
        about = Path("r.csv.about.json")
        about.write_text(about.read_text().replace('"dropped": 1', '"dropped": 0'))
        assert main(["estimate", "r.csv", *BOTH, "--over", "used"]) == 2
        assert "damaged" in capsys.readouterr().err
        assert main(["import", "r.csv", *BOTH, "--out", "s.csv"]) == 2
        assert "holds reports already" in capsys.readouterr().err


class TestMixedDevices:
    """Two devices in one file are two strata: p = (n_A p_A + n_B p_B) / n."""

    FILE = """
id = "mixed"
by = "form"
categories = ["ja", "nein"]

[devices.A]
id = "crosswise"
attribute = "used"
p = "1/4"
symbols = {same = "ja", different = "nein"}

[devices.B]
id = "forced"
attribute = "used"
forced_probability = {ja = "1/6", nein = "1/12"}
"""
    ROWS = ("A,same",) * 35 + ("A,different",) * 65 + ("B,ja",) * 140 + ("B,nein",) * 260

    @pytest.fixture(autouse=True)
    def _files(self, _elsewhere: None) -> None:
        forms = pp.Attribute("form", ("B", "A"))
        pp.Codebook((*BOOK.attributes, forms)).to_toml("c.toml")
        Path("d.toml").write_text(self.FILE)
        Path("f.csv").write_text("\n".join(["form,used", *self.ROWS]) + "\n")

    def test_estimates_are_those_of_strata(self, capsys: Capture) -> None:
        assert main(["import", "f.csv", *BOTH, "--out", "r.parquet"]) == 0
        capsys.readouterr()
        found = {}
        for by in ([], ["--by", "form"]):
            assert main(["estimate", "r.parquet", *BOTH, "--over", "used", *by, "--json"]) == 0
            for cell in json.loads(capsys.readouterr().out)["cells"]:
                key = tuple(sorted(cell.pop("labels").items()))
                found[key] = cell
        one, other = (0.35 - 0.75) / -0.5, (0.35 - 1 / 6) / 0.75
        value = found[("used", "ja"),]["proportion"]
        assert value == pytest.approx(0.2 * one + 0.8 * other, abs=1e-12)
        for form, share in (("A", one), ("B", other)):
            cell = found[("form", form), ("used", "ja")]
            assert cell["proportion"] == pytest.approx(share, abs=1e-12)
        error = math.sqrt(0.35 * 0.65 / 399) / 0.75
        assert found[("form", "B"), ("used", "ja")]["standard_error"] == pytest.approx(
            error, rel=2e-3
        )

    @pytest.mark.parametrize(
        ("old", "new", "said"),
        [
            ('p = "1/4"', 'p = "1/4"\nn = 3', "n: not a parameter of 'crosswise'"),
            ('by = "form"\n', "", "by: missing; 'mixed' needs it"),
            ('"ja", "nein"]', '"ja", "nein", "?"]', "2 distinct labels are needed"),
            ('same = "ja", ', "", "symbols of 'used': no word is given for 'ja'"),
            ("[devices.B]", "[devices.C]", "the codebook has no category 'C'"),
            ('id = "crosswise"', 'id = "mangat"', "add trait = "),
        ],
    )
    def test_a_mistake_is_one_line(self, capsys: Capture, old: str, new: str, said: str) -> None:
        Path("d.toml").write_text(self.FILE.replace(old, new, 1))
        assert main(["import", "f.csv", *BOTH, "--out", "r.parquet"]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert said in line

    @pytest.mark.parametrize("row", ["A,ja", "B,same"])
    def test_a_word_of_another_device_is_refused(self, capsys: Capture, row: str) -> None:
        form, word = row.split(",")
        Path("f.csv").write_text("\n".join(["used,form", "same,A", f"{word},{form}"]) + "\n")
        assert main(["import", "f.csv", *BOTH, "--out", "r.parquet"]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert f"row 1: '{word}' is not a report of the design with form '{form}'" in line

    def test_one_word_may_be_two_reports(self) -> None:
        """Each device has its own: what is no by one is ja by the other."""
        devices = {
            "A": CROSSWISE.with_symbols({"0": "ja", "1": "nein"}),
            "B": pp.Warner("used", 0.8).with_symbols({"0": "nein", "1": "ja"}),
        }
        design = mixed("form", devices, ["ja", "nein"])
        write_design(design, "e.toml")
        assert Design.read("e.toml") == design == pp.design_from_config(design.config())
        book = pp.Codebook.from_toml("c.toml")
        frame = {"used": ["0", "0", None, "1"], "form": ["B", "A", "A", None]}
        read = pp.Reports.from_field(frame, design, book, nonresponse="drop")
        assert read.column("used").tolist() == [0, 1]
        assert read.imported is not None
        assert read.imported.nonresponse == {"form": 1, "used": 2}
        assert read.imported.dropped == 2

    def test_devices_have_the_same_symbols(self) -> None:
        devices = {"A": pp.Warner("used", 0.8), "B": Kuk("used", 0.8, 0.3, 5, trait="ja")}
        with pytest.raises(DesignError, match=r"'B' is about 'used' in \[2\] categories and \[6\]"):
            mixed("form", devices, ["ja", "nein"])

    def test_no_device_may_be_a_device(self) -> None:
        """Rows without a form are of the device that the missing category is."""
        forms = pp.Attribute("form", ("A", "?"), missing="?")
        devices = {"A": CROSSWISE, "?": pp.Warner("used", 0.8)}
        design = mixed("form", devices, ["ja", "nein"])
        read = pp.Reports.from_field(
            {"used": ["same", "ja"], "form": ["A", None]},
            design,
            pp.Codebook((*BOOK.attributes, forms)),
            nonresponse="category",
        )
        assert read.codes.tolist() == [[1, 0], [1, 1]]


def test_a_file_of_another_dialect_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    frame = pd.DataFrame({"used": ["ja", "nein", "nein"] * 20, "kg": ["1,5"] * 60})
    Path("c.toml").write_text('[[attribute]]\nname = "used"\ncategories = ["nein", "ja"]\n')
    Path("d.toml").write_text('id = "warner"\nattribute = "used"\ntheta = "3/4"\n')
    frame.to_csv("a.csv", sep=";", index=False, encoding="cp1252")
    frame.to_excel("a.xlsx", index=False)
    options = ("--codebook", "c.toml", "--design", "d.toml", "--keep", "kg")
    for name, more in (("a.csv", ("--delimiter", "semicolon")), ("a.xlsx", ())):
        assert main(["import", name, *options, *more, "--out", f"{name}.parquet"]) == 0
    first, second = (pd.read_parquet(f"{n}.parquet") for n in ("a.csv", "a.xlsx"))
    assert first["used"].tolist() == second["used"].tolist() == frame["used"].tolist()
