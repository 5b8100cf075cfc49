"""Files of designs, codebooks and proportions belong together by label, whatever their orders."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ppdm_dask as pp
from ppdm_dask.cli import main
from ppdm_dask.designs import ForcedResponse, InvariantPRAM, Kuk, Mangat
from ppdm_dask.designs.files import read_design, write_design
from ppdm_dask.errors import DesignError, InputError, RecordsError
from ppdm_dask.inference.two_sample import TwoSample
from ppdm_dask.survey.reports import about_file

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def codebook(name: str, *labels: str) -> pp.Codebook:
    return pp.Codebook((pp.Attribute(name, labels),))


def write(file: str, text: str) -> str:
    Path(file).write_text(text, encoding="utf-8")
    return file


def write_codebook(file: str, name: str, *labels: str) -> str:
    listed = json.dumps(list(labels), ensure_ascii=False)
    return write(file, f'[[attribute]]\nname = "{name}"\ncategories = {listed}\n')


def refused(capsys: Capture, *arguments: str) -> str:
    assert main([*arguments]) == 2
    line = capsys.readouterr().err.strip()
    assert "\n" not in line
    return line.removeprefix("ppdm: error: ")


def done(capsys: Capture, *arguments: str) -> str:
    assert main([*arguments]) == 0
    return capsys.readouterr().out


JA = ("ja", "nein")
MANGAT = 'id = "mangat"\nattribute = "used"\np = 0.7\n'


# -- one-sided designs -----------------------------------------------------------------------------


def answers_file(n: int = 2_000) -> str:
    truth = np.where(np.random.default_rng(1).random(n) < 0.3, "ja", "nein")
    pd.DataFrame({"used": truth}).to_csv("s.csv", index=False)
    return "s.csv"


@pytest.mark.parametrize("order", [JA, JA[::-1]])
def test_whoever_has_the_trait_says_so_in_any_order(capsys: Capture, order) -> None:
    """Mangat's design: all with the trait report it; others report it with probability 1 - p."""
    write_codebook("c.toml", "used", *order)
    write("d.toml", MANGAT + 'trait = "ja"\n')
    both = ("--codebook", "c.toml", "--design", "d.toml")
    certain = ("--accept-certain", "used=nein")
    done(capsys, "disguise", answers_file(), *both, "--out", "r.csv", *certain)
    truth, reports = pd.read_csv("s.csv")["used"], pd.read_csv("r.csv")["used"]
    assert (reports[truth == "ja"] == "ja").all()
    share = (reports[truth == "nein"] == "ja").mean()
    assert abs(share - 0.3) < 6 * math.sqrt(0.3 * 0.7 / (truth == "nein").sum())
    found = json.loads(done(capsys, "estimate", "r.csv", *both, "--over", "used", "--json"))
    by_label = {cell["labels"]["used"]: cell["proportion"] for cell in found["cells"]}
    # pi = (share of ja - (1 - p)) / p, by hand.
    assert by_label["ja"] == pytest.approx(((reports == "ja").mean() - 0.3) / 0.7)


def test_without_a_label_every_command_refuses_with_the_line_to_add(capsys: Capture) -> None:
    write_codebook("c.toml", "used", *JA)
    write("d.toml", MANGAT)
    answers_file()
    says = (
        "d.toml: design on 'used': the order of categories matters for 'mangat'; "
        'add trait = "ja" or trait = "nein"'
    )
    both = ("--codebook", "c.toml", "--design", "d.toml")
    for arguments in (
        ("disguise", "s.csv", *both, "--out", "r.csv"),
        ("disguise", "s.csv", *both, "--out", "r.csv", "--simulate", "1"),
        ("count", "r.csv", *both, "--out", "n.parquet"),
        ("estimate", "r.csv", *both, "--over", "used"),
        ("audit", *both),
        ("check", "c.toml", "d.toml"),
    ):
        assert refused(capsys, *arguments) == says
    assert not Path("r.csv").exists()
    assert "states no labels of used" in done(capsys, "check", "d.toml")
    with pytest.raises(DesignError, match=r"^d.toml: design on 'used'.*add trait = \"ja\" or"):
        pp.Design.read("d.toml", pp.Codebook.from_toml("c.toml"))
    # The line that it says is the line that helps.
    write("d.toml", MANGAT + 'trait = "ja"\n')
    assert "codebook, 1 attribute" in done(capsys, "check", "c.toml", "d.toml")


LINES = [
    ('id = "kuk"\nattribute = "a"\np1 = 0.8\np2 = 0.1\n', 'trait = "x"'),
    (
        'id = "matrix"\nattributes = ["a"]\nP = [[0.9, 0.3], [0.1, 0.7]]\n',
        'categories = ["x", "y"]',
    ),
    (
        'id = "forced"\nattribute = "a"\ntruth = 0.5\nforced = [0.1, 0.9]\n',
        'categories = ["x", "y"]',
    ),
    (
        'id = "unrelated"\nattributes = ["a"]\nq = 0.5\nw_y = 0.1\n',
        'categories = ["x", "y"]',
    ),
    ('id = "pram"\nattribute = "a"\nq = 0.5\nprior = [0.1, 0.9]\n', 'categories = ["x", "y"]'),
    ('id = "triangular"\nattribute = "a"\np = 0.3\n', 'trait = "x"'),
]


@pytest.mark.parametrize(("first", "second"), [("x", "y"), ("y", "x")])
def test_who_gets_a_single_number_is_said(first: str, second: str) -> None:
    """The label that the message names is the one that gets the number where its line is added."""
    text = 'id = "unrelated"\nattributes = ["a"]\nq = 0.5\nw_y = 0.1\n'
    book = codebook("a", first, second)
    with pytest.raises(DesignError) as caught:
        read_design(write("d.toml", text), book)
    said = f"0.1 is the probability of the last label of 'a', which would be {second!r}"
    assert str(caught.value).endswith(said)
    design = read_design(write("d.toml", f'{text}categories = ["{first}", "{second}"]\n'), book)
    # With probability 1 - q the report is the answer to the other question, whose law is w_y.
    assert design.matrix()[1, 0] == pytest.approx(0.5 * 0.1)
    # A list of numbers shows its order, and each says whose it is.
    listed = text.replace("0.1", f'{{ "{first}" = 0.1, "{second}" = 0.9 }}')
    design = read_design(write("d.toml", listed), book)
    assert design.matrix()[0, 1] == pytest.approx(0.5 * 0.1)


@pytest.mark.parametrize(("text", "line"), LINES)
def test_the_line_to_add_is_accepted(text: str, line: str) -> None:
    book = codebook("a", "x", "y")
    with pytest.raises(DesignError, match=r"^d.toml: design on 'a': the order of cat") as caught:
        read_design(write("d.toml", text), book)
    assert f"add {line}" in str(caught.value)
    design = read_design(write("d.toml", text + line + "\n"), book)
    assert design.codebook is book and design.bind(book) is design
    other = design.bind(codebook("a", "y", "x"))
    np.testing.assert_array_equal(other.matrix(), design.matrix()[::-1, ::-1])
    # What is bound can be written and read.
    write_design(other, "e.toml")
    assert read_design("e.toml", codebook("a", "y", "x")) == other


# -- laws ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [JA, JA[::-1]])
def test_an_unrelated_question_is_by_label(order) -> None:
    """Truth .2, P(Y = ja) = .1, q = .6: a share of .6 * .2 + .4 * .1 = .16 estimates .2."""
    book, n = codebook("used", *order), 10_000
    design = pp.UnrelatedQuestion("used", 0.6, {"ja": 0.1, "nein": 0.9})
    codes = np.full((n, 1), order.index("nein"))
    codes[:1_600] = order.index("ja")
    reports = pp.Reports(codes, book, simulated=False)
    assert pp.estimate(reports, {"used": "ja"}, design=design).value == pytest.approx(0.2)
    table = pp.count(reports, design)
    assert pp.invert(table, design).proportions.sel(used="ja").item() == pytest.approx(0.2)
    assert pp.mle(table, design).proportions.sel(used="ja").item() == pytest.approx(0.2)
    # Bound to the other order it is put right; with other labels, or none, it is refused.
    bound = design.bind(codebook("used", *order[::-1]))
    assert pp.estimate(reports, {"used": "ja"}, design=bound).value == pytest.approx(0.2)
    with pytest.raises(DesignError, match="design on 'used': the codebook has no category 'yes'"):
        other = pp.UnrelatedQuestion("used", 0.6, {"yes": 0.1, "nein": 0.9})
        pp.estimate(reports, {"used": "ja"}, design=other)
    bare = pp.UnrelatedQuestion("used", 0.6, 0.1)
    for by_hand in (reports, replace(reports, simulated=True)):
        with pytest.raises(DesignError, match=r"the order of categories matters for 'unrelated'"):
            pp.estimate(by_hand, {"used": "ja"}, design=bare)
    with pytest.raises(DesignError, match=r"the order of categories matters for 'unrelated'"):
        bare.disguise(pp.Records(codes, book), pp.Stream.from_entropy())


def test_laws_of_a_block_are_by_attribute_and_label() -> None:
    laws = {"a": {"y": 0.1, "x": 0.9}, "b": {"u": "1/2", "v": "1/3", "w": "1/6"}}
    design = pp.UnrelatedQuestion(["a", "b"], 0.5, laws)
    book = pp.Codebook((pp.Attribute("b", ("w", "u", "v")), pp.Attribute("a", ("x", "y"))))
    bound = design.bind(book)
    assert bound.categories == (("x", "y"), ("w", "u", "v"))
    np.testing.assert_allclose(bound.w_y[0], [0.9, 0.1])
    np.testing.assert_allclose(bound.w_y[1], [1 / 6, 1 / 2, 1 / 3])
    with pytest.raises(DesignError, match="w_y of 'b': missing"):
        pp.UnrelatedQuestion(["a", "b"], 0.5, {"a": {"y": 0.1, "x": 0.9}})
    with pytest.raises(DesignError, match="w_y of 'c': no attribute of the design"):
        pp.UnrelatedQuestion(["a"], 0.5, {"a": {"y": 1.0, "x": 0.0}, "c": {"y": 1.0}})
    with pytest.raises(DesignError, match=r"categories: got \['y', 'x'\].*leave it out"):
        InvariantPRAM("a", {"x": 0.1, "y": 0.9}, 0.5, categories=["y", "x"])


def test_forced_answers_as_papers_state_them() -> None:
    """Two dice: yes is forced by 2, 3, 4 (1/6), no by 11 and 12 (1/12); else the truth, 3/4."""
    papers = ForcedResponse("a", forced_probability={"yes": "1/6", "no": "1/12"})
    ours = ForcedResponse("a", "3/4", {"yes": "2/3", "no": "1/3"})
    assert papers == ours
    assert papers.truth == 0.75
    matrix = papers.bind(codebook("a", "no", "yes")).matrix()
    np.testing.assert_allclose(matrix, [[3 / 4 + 1 / 12, 1 / 12], [1 / 6, 3 / 4 + 1 / 6]])
    read = read_design(
        write(
            "d.toml",
            'id = "forced"\nattribute = "a"\nforced_probability = {no = "1/12", yes = "1/6"}',
        )
    )
    assert read.digest == papers.digest
    assert ForcedResponse("a", forced_probability=[0, 0]).truth == 1
    for wrong, says in (
        ({"yes": "5/6", "no": "1/3"}, "forced_probability: they sum to 1.16667; at most 1"),
        ({"yes": 1.5, "no": 0}, "forced_probability: got 1.5; a probability"),
        ({"yes": "a sixth", "no": 0}, "forced_probability: got 'a sixth'; a probability"),
    ):
        with pytest.raises(DesignError, match=says):
            ForcedResponse("a", forced_probability=wrong)
    with pytest.raises(DesignError, match="truth and forced, or forced_probability: exactly one"):
        ForcedResponse("a", 0.5, [0.5, 0.5], forced_probability=[0.1, 0.1])


@pytest.mark.parametrize(
    ("text", "number"),
    [
        (pp.Warner("a", "3/4"), pp.Warner("a", 0.75)),
        (pp.KaryResponse("a", 4, "2/5"), pp.KaryResponse("a", 4, 0.4)),
        (pp.KaryResponse("a", 3, epsilon="3/2"), pp.KaryResponse("a", 3, epsilon=1.5)),
        (Mangat("a", "7/10", "x"), Mangat("a", 0.7, "x")),
        (Kuk("a", "4/5", "1/5", 3), Kuk("a", 0.8, 0.2, 3)),
        (
            pp.RRMatrix("a", [["3/4", "1/4"], ["1/4", "3/4"]]),
            pp.RRMatrix("a", [[0.75, 0.25], [0.25, 0.75]]),
        ),
        (InvariantPRAM("a", ["1/4", "3/4"], "1/2"), InvariantPRAM("a", [0.25, 0.75], 0.5)),
        (pp.UnrelatedQuestion("a", "1/2", "1/4"), pp.UnrelatedQuestion("a", 0.5, 0.25)),
        (pp.MultiGroup([["a"]], "4/5"), pp.MultiGroup([["a"]], 0.8)),
    ],
)
def test_ratios_as_text_are_the_numbers(text: pp.Design, number: pp.Design) -> None:
    assert text == number
    assert text.digest == number.digest


@pytest.mark.parametrize(
    "bad", ["0.75", "3/0", "4/3", "-1/2", "1/2/3", "1e3/1e4", " ", "9" * 50 + "/1"]
)
def test_other_texts_are_no_probabilities(bad: str) -> None:
    with pytest.raises(DesignError, match=r"^theta: got "):
        pp.Warner("a", bad)


# -- matrices --------------------------------------------------------------------------------------

HABIT = ("never", "once", "often")
PRIOR = {"never": 0.6, "once": 0.3, "often": 0.1}


def test_an_optimised_matrix_keeps_its_bounds_in_any_order(capsys: Capture) -> None:
    """By position it had a worst posterior of .991 and a privacy of .189 in this order."""
    write("prior.toml", 'attribute = "habit"\n[prior]\nnever = 0.6\nonce = 0.3\noften = 0.1\n')
    search = ("--n", "10000", "--delta", "0.75", "--method", "bound", "--choose", "privacy=0.3")
    done(capsys, "optimize", "--prior", "prior.toml", *search, "--out", "o")
    order = ("often", "once", "never")
    write_codebook("c.toml", "habit", *order)
    design = pp.Design.read("o/design.toml", pp.Codebook.from_toml("c.toml"))
    assert design.categories == (order,)
    prior = [PRIOR[label] for label in order]
    assert design.max_posterior(prior) <= 0.75 + 1e-9
    assert design.privacy(prior) >= 0.3 - 1e-9
    both = ("--codebook", "c.toml", "--design", "o/design.toml")
    done(capsys, "check", "c.toml", "o/design.toml", "prior.toml")
    found = json.loads(done(capsys, "audit", *both, "--prior", "prior.toml", "--json"))
    without = json.loads(
        done(capsys, "audit", "--design", "o/design.toml", "--prior", "prior.toml", "--json")
    )
    for audit in (found, without):
        values = {f["measure"]: f["value"] for f in audit["subjects"][0]["findings"]}
        assert values["worst posterior"] <= 0.75 + 1e-9
        assert values["MAP privacy"] >= 0.3 - 1e-9
    # A search without labels gives a design without: nobody knows what its categories are.
    front = pp.optimize(list(PRIOR.values()), 10_000, 0.75, method="bound", privacy=0.3)
    assert pp.chosen_design(front, "habit", privacy=0.3).unlabelled == ("habit",)


def test_a_matrix_in_single_precision_is_scaled_and_says_so(capsys: Capture) -> None:
    single = np.array([[0.7, 0.1, 0.2], [0.2, 0.8, 0.1], [0.1, 0.1, 0.7]], np.float32)
    off = float(np.abs(single.astype(float).sum(axis=0) - 1).max())
    assert 1e-9 < off < 1e-6
    design = pp.RRMatrix("a", single)
    assert design.notes == (
        f"P: sums were up to {off:.2g} off 1, as in single precision, and were scaled to 1",
    )
    np.testing.assert_allclose(design.matrix().sum(axis=0), 1, atol=1e-15)
    np.testing.assert_allclose(design.matrix(), single, atol=1e-7)
    assert pp.design_from_config(design.config()) == design
    assert not pp.RRMatrix("a", single.astype(float).round(7)).notes
    rows = json.dumps(single.astype(float).tolist())
    write("d.toml", f'id = "matrix"\nattributes = ["a"]\nP = {rows}\n')
    assert "were scaled to 1" in done(capsys, "check", "d.toml")
    wrong = single.astype(float)
    wrong[0, 2] -= 6e-5
    with pytest.raises(DesignError, match=r"^P: column 2 sums to 0.99994, 6e-05 off; each must"):
        pp.RRMatrix("a", wrong)
    law = np.array([0.1, 0.3, 0.6], np.float32)
    assert ForcedResponse("a", 0.5, law).notes
    with pytest.raises(
        DesignError, match=r"^forced: got \[0.1, 0.3, 0.59\], which sum to 0.99, 0.01"
    ):
        ForcedResponse("a", 0.5, [0.1, 0.3, 0.59])


def test_epsilon_is_that_of_the_law_drawn(capsys: Capture) -> None:
    """1e-25 is under the resolution of 2^-62: who reports that symbol certainly has the other."""
    tiny = [[1 - 1e-25, 0.5], [1e-25, 0.5]]
    assert pp.RRMatrix("a", tiny).epsilon() == math.inf
    assert ForcedResponse("a", 0.5, [1e-25, 0.5, 0.5]).epsilon() == math.inf
    assert InvariantPRAM("a", [1e-25, 0.5, 0.5], 0.5).epsilon() == math.inf
    # Coins have as many digits as it takes.
    assert ForcedResponse("a", 0.5, [1e-25, 1]).epsilon() == pytest.approx(math.log(1e25), rel=1e-6)
    # 2^-61 is met exactly.
    share = 2.0**-61
    exact = pp.RRMatrix("a", [[1 - share, 0.5], [share, 0.5]])
    assert exact.epsilon() == pytest.approx(60 * math.log(2), rel=1e-12)
    write("d.toml", f'id = "matrix"\nattributes = ["a"]\nP = {json.dumps(tiny)}\n')
    found = json.loads(done(capsys, "audit", "--design", "d.toml", "--json"))
    (epsilon,) = [f for f in found["subjects"][0]["findings"] if f["measure"] == "epsilon"]
    assert epsilon["value"] == "infinite"


# -- files together --------------------------------------------------------------------------------


def test_files_that_do_not_belong_together_are_refused_by_check(capsys: Capture) -> None:
    write_codebook("c.toml", "a", "x", "y", "z")
    write("d.toml", 'id = "warner"\nattribute = "a"\ntheta = 0.8\n')
    line = refused(capsys, "check", "c.toml", "d.toml").splitlines()[-1]
    assert line == (
        "d.toml: does not fit c.toml: attribute 'a' has 3 categories; the design expects 2"
    )
    assert refused(capsys, "audit", "--codebook", "c.toml", "--design", "d.toml") == line
    # With a codebook that it fits, it is right; so is a prior.
    write_codebook("b.toml", "a", "x", "y")
    done(capsys, "check", "c.toml", "d.toml", "b.toml")
    write("p.toml", 'attribute = "a"\n[prior]\ny = "1/3"\nx = "2/3"\n')
    assert "prior, 1 attribute: a (2 categories)" in done(capsys, "check", "b.toml", "p.toml")
    line = refused(capsys, "check", "c.toml", "p.toml")
    assert line == "p.toml: prior.a.z: absent; all are needed, no others"


def test_any_design_and_any_prior_is_checked_as_what_it_is(capsys: Capture) -> None:
    for text, _ in LINES:
        assert "d.toml: design, " in done(capsys, "check", write("d.toml", text))
    write("p.toml", 'attribute = "a"\n[prior]\nx = 0.5\ny = 0.5\n')
    write("q.toml", "[prior.a]\nx = 0.5\ny = 0.5\n")
    assert done(capsys, "check", "p.toml", "q.toml").count("prior, 1 attribute: a (2 cat") == 2
    # One format: what optimize reads audit reads, and the other way round.
    write("d.toml", 'id = "warner"\nattribute = "a"\ntheta = 0.8\n')
    for prior in ("p.toml", "q.toml"):
        done(capsys, "audit", "--design", "d.toml", "--prior", prior)
        few = ("--n", "100", "--method", "spea2", "--generations", "2", "--out", f"o-{prior}")
        done(capsys, "optimize", "--prior", prior, *few)
    write("p.toml", "[prior.a]\nx = 0.5\nz = 0.5\n")
    write("d.toml", MANGAT.replace("used", "a") + 'trait = "y"\n')
    line = refused(capsys, "audit", "--design", "d.toml", "--prior", "p.toml")
    assert line.startswith("p.toml: design on 'a': the prior has no category 'y', the trait")


# -- files of before designs carried labels --------------------------------------------------------


def old_file(design: pp.Design, book: pp.Codebook, file: str) -> None:
    """A file of reports as it was written before: the design's configuration has no labels."""
    frame = pd.DataFrame({"used": list(book["used"].categories) * 50})
    frame.to_csv("s.csv", index=False)
    book.to_toml(Path("c.toml"))
    write_design(design.bind(book), "new.toml")
    arguments = ["disguise", "s.csv", "--codebook", "c.toml", "--design", "new.toml"]
    certain = ["--accept-certain", "used"] if isinstance(design, Mangat) else []
    assert main([*arguments, "--out", file, *certain]) == 0
    table, about = pq.read_table(file), json.loads(pq.read_metadata(file).metadata[b"ppdm"])
    about["format"] = 1
    for key in ("checksum", "kept", "data_checksum"):
        del about[key]
    bare = {k: v for k, v in about["design"].items() if k not in ("trait", "categories")}
    about |= {"design": bare, "design_digest": pp.design_from_config(bare).digest}
    pq.write_table(table.replace_schema_metadata({b"ppdm": json.dumps(about).encode()}), file)


@pytest.mark.parametrize(
    "labelled",
    [Mangat("used", 0.7, "yes"), pp.UnrelatedQuestion("used", 0.6, {"no": 0.9, "yes": 0.1})],
)
def test_old_reports_are_taken_where_the_law_is_the_same(
    labelled: pp.Design, capsys: Capture
) -> None:
    book = codebook("used", "no", "yes")
    old_file(labelled, book, "r.parquet")
    assert about_file(Path("r.parquet")).design.unlabelled == ("used",)
    both = ("--codebook", "c.toml", "--design", "new.toml")
    done(capsys, "estimate", "r.parquet", *both, "--over", "used")
    # Counts of it have labels, and add up with others.
    done(capsys, "count", "r.parquet", *both, "--out", "n.parquet")
    assert not about_file(Path("n.parquet")).design.unlabelled
    # With the labels the other way round it is another design.
    swap = {"no": "yes", "yes": "no"}
    config = labelled.config()
    for key in ("trait", "categories"):
        if key in config:
            value = config[key]
            config[key] = swap[value] if key == "trait" else [swap[label] for label in value]
    write_design(pp.design_from_config(config), "new.toml")
    line = refused(capsys, "estimate", "r.parquet", *both, "--over", "used")
    assert line.startswith("r.parquet: was made under another design than new.toml")
    # In another order its codebook is another one.
    write_codebook("c.toml", "used", "yes", "no")
    line = refused(capsys, "estimate", "r.parquet", *both, "--over", "used")
    assert line.startswith("r.parquet: was made under another")


# -- learners, strata, samples ---------------------------------------------------------------------


def test_learners_and_strata_go_by_label() -> None:
    """Fitted to reports coded in two orders, they predict the same labels."""
    rng = np.random.default_rng(4)
    n = 3_000
    used = rng.random(n) < 0.4
    habit = np.where(rng.random(n) < np.where(used, 0.8, 0.2), 0, rng.integers(1, 3, n))
    frame = pd.DataFrame(
        {"used": np.where(used, "yes", "no"), "habit": np.array(HABIT, object)[habit]}
    )
    matrix = pp.RRMatrix(
        "habit", [[0.8, 0.1, 0.1], [0.1, 0.6, 0.0], [0.1, 0.3, 0.9]], categories=HABIT
    )
    design = pp.Product([Mangat("used", 0.8, "yes"), matrix])
    one = pp.Codebook((pp.Attribute("used", ("no", "yes")), pp.Attribute("habit", HABIT)))
    two = pp.Codebook((pp.Attribute("used", ("yes", "no")), pp.Attribute("habit", HABIT[::-1])))
    reports = design.disguise(one.encode(frame), pp.Stream.from_seed(5))
    labels = {n: np.array(one[n].categories, object)[reports.column(n)] for n in one.names}
    recoded = two.encode(pd.DataFrame(labels))
    other = pp.Reports(recoded.codes, two, 0, design.digest, True)
    found = []
    for source in (reports, other):
        tree = pp.ID3(design, target="used").fit(source)
        bayes = pp.NaiveBayes(design, target="used").fit(source)
        table = pp.ID3(design, target="used").fit_table(pp.count(source, design, ("used", "habit")))
        clean = source.codebook.encode(frame)
        predicted = [model.predict(clean).tolist() for model in (tree, bayes, table)]
        strata = pp.Stratified([design, design])
        share = strata.estimate([source, source], {"used": "yes"}).value
        accuracy = bayes.score_disguised(source).value
        found.append((predicted, share, accuracy))
    (labels_one, *numbers_one), (labels_two, *numbers_two) = found
    assert labels_one == labels_two
    assert numbers_one == pytest.approx(numbers_two, rel=1e-9)


YES_BOOK = pp.Codebook((pp.Attribute("sick", ("ja", "nein")), pp.Attribute("may", ("n", "j"))))


def test_two_samples_are_by_label() -> None:
    """Truths: all sick say ja; with q = 1 the report is the sick answer, with 0 the other's."""
    records = pp.Records(np.array([[0, 0], [0, 1], [1, 1]]), YES_BOOK)
    scheme = TwoSample("sick", "may", (1, 0), ("ja", "j"))
    truth, other = (scheme.disguise(records, h, pp.Stream.from_entropy()) for h in (0, 1))
    assert truth.codes[:, 0].tolist() == [0, 0, 1]
    assert other.codes[:, 0].tolist() == [1, 0, 0]
    found = scheme.estimate(truth, other)
    assert (found[0].value, found[1].value) == pytest.approx((2 / 3, 2 / 3))
    bare = TwoSample("sick", "may", (1, 0))
    with pytest.raises(DesignError, match=r"two samples on 'sick': .*add yes='ja' or yes='nein'"):
        bare.disguise(records, 0, pp.Stream.from_entropy())
    with pytest.raises(
        DesignError, match="two samples on 'may': the codebook has no category 'ja'"
    ):
        TwoSample("sick", "may", (1, 0), "ja").disguise(records, 0, pp.Stream.from_entropy())
    with pytest.raises(DesignError, match=r"^yes: got"):
        TwoSample("sick", "may", (1, 0), ("a", "b", "c"))


def test_two_samples_use_weights_and_know_each_other() -> None:
    scheme = TwoSample("sick", "may", ("7/10", "3/10"), ("ja", "j"))
    book = YES_BOOK.select(["sick"])

    def answers(sample: int, yes: list[int], weights: list[float]) -> pp.Reports:
        codes = 1 - np.array(yes)[:, None]
        return pp.Reports(codes, book, 0, scheme.digest(sample), False, weights=weights)

    first = answers(0, [1, 1, 0, 0, 0], [3.0, 1.0, 2.0, 2.0, 2.0])
    second = answers(1, [1, 0, 0, 1], [1.0, 1.0, 1.0, 5.0])
    found = scheme.estimate(first, second)
    l1, l2 = 4 / 10, 6 / 8
    assert found[0].value == pytest.approx((l1 * 0.7 - l2 * 0.3) / 0.4)
    # Linearised variance of a ratio: n / (n - 1) sum d^2 (y - l)^2 / (sum d)^2.
    v1 = 5 / 4 * ((9 + 1) * 0.6**2 + 3 * 4 * 0.4**2) / 100
    v2 = 4 / 3 * ((1 + 25) * 0.25**2 + 2 * 0.75**2) / 64
    error = math.sqrt(0.7**2 * v1 + 0.3**2 * v2) / 0.4
    assert found[0].standard_error == pytest.approx(error)
    # A report of weight 2 is not two reports, but it counts as much.
    doubled = scheme.estimate(
        first.surveyed(first.weights * 2), second.surveyed(second.weights * 9)
    )
    assert doubled[0].value == pytest.approx(found[0].value)
    with pytest.raises(RecordsError, match="sample 1 holds reports of the other; exchange the two"):
        scheme.estimate(second, first)
    with pytest.raises(RecordsError, match="sample 2 was made by another design"):
        other = TwoSample("sick", "may", (0.7, 0.3), ("nein", "j"))
        scheme.estimate(first, replace(second, design_digest=other.digest(1)))
    with pytest.raises(RecordsError, match="sample 1 does not say which sample it is"):
        scheme.estimate(replace(first, design_digest=""), second)


def test_proportions_by_label_need_labels() -> None:
    shares = {"x": 0.3, "y": 0.7}
    assert pp.Warner("a", 0.8).privacy(shares) == pp.Warner("a", 0.8).privacy([0.3, 0.7])
    bound = Mangat("a", 0.7, "y").bind(codebook("a", "y", "x"))
    assert bound.max_posterior(shares) == bound.max_posterior([0.7, 0.3])
    for design, says in (
        (Mangat("a", 0.7), "proportions by label need a design on one attribute, bound to"),
        (pp.Identity(["a", "b"], [2, 2]), "proportions by label need a design on one attribute"),
        (bound.bind(codebook("a", "x", "y")), "prior: has 'x', 'z'; the design has 'x', 'y'"),
    ):
        with pytest.raises(DesignError, match=says):
            design.privacy({"x": 0.3, "z": 0.7})


def test_other_numbers_of_labels_are_named() -> None:
    book = codebook("a", "x", "y", "z")
    with pytest.raises(DesignError, match="design on 'a': 'mangat' is of two categories"):
        Mangat("a", 0.7, "y").bind(book)
    with pytest.raises(RecordsError, match="attribute 'a' has 3 categories; the design expects 2"):
        Mangat("a", 0.7).bind(book)
    with pytest.raises(DesignError, match="design on 'a': the design has no category 'z'"):
        pp.RRMatrix("a", [[0.9, 0.3], [0.1, 0.7]], categories=["x", "y"]).bind(book)
    many = codebook("a", *(f"l{i:02}" for i in range(30)))
    law = np.arange(1, 31) / 465
    with pytest.raises(DesignError, match=r'add categories = \["l00", .*"l19", \.\.\.\], put into'):
        InvariantPRAM("a", law, 0.5).bind(many)


# -- what labels may be ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Mangat("a", 0.5, ""), "^trait: got ''"),
        (lambda: Mangat("a", 0.5, None, ["x", "y"]), "^trait: missing; one of the categories 'x'"),
        (lambda: Mangat("a", 0.5, "z", ["x", "y"]), "^trait: got 'z'; one of"),
        (lambda: Mangat("a", 0.5, "x", ["x", "x"]), "^categories of 'a': got 'x', 'x'; 2 distinct"),
        (lambda: pp.RRMatrix("a", np.eye(2), categories="xy"), "^categories: got 'xy'; a list of"),
        (lambda: pp.RRMatrix("a", np.eye(2), categories=["x"]), "^categories of 'a': got 'x'; 2"),
        (lambda: pp.RRMatrix("a", np.eye(2), categories=[1, 2]), "^categories"),
        (
            lambda: pp.RRMatrix(["a", "b"], np.eye(4), [2, 2], categories=[["x", "y"]]),
            "lists of labels, one for each of 2",
        ),
    ],
)
def test_bad_labels_are_named(make, says: str) -> None:
    with pytest.raises(InputError, match=says):
        make()


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    labels=st.lists(
        st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8),
        min_size=2,
        max_size=4,
        unique=True,
    ),
    seed=st.integers(0, 99),
)
def test_any_labels_survive_a_design_file(labels: list[str], seed: int, tmp_path_factory) -> None:
    """Commas, quotes, spaces, other scripts, combining and control characters."""
    rng = np.random.default_rng(seed)
    law = rng.dirichlet(np.ones(len(labels)))
    path = tmp_path_factory.mktemp("any") / "d.toml"
    shares = dict(zip(labels, law.tolist(), strict=True))
    for design in (
        ForcedResponse("a", 0.5, shares),
        pp.UnrelatedQuestion(["a", "b"], 0.5, {"a": shares, "b": {"x": 0.5, "y": 0.5}}),
        pp.Product([Mangat("b", 0.6, labels[0], labels[:2]), InvariantPRAM("a", shares, 0.3)]),
    ):
        write_design(design, path)
        assert read_design(path) == design
