"""Do reports contradict the design?  Tests, intervals that hold their estimate, and sentences."""

from __future__ import annotations

import json
import math
from pathlib import Path

import checks
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.stats import binom, chi2
from strategies import SEEDS, blocks, codebook_of, designs, reports_of

from ppdm_dask import (
    Attribute,
    Codebook,
    Identity,
    KaryResponse,
    Product,
    Reports,
    RRMatrix,
    Warner,
    invert,
)
from ppdm_dask.cli import main
from ppdm_dask.designs import Kuk
from ppdm_dask.designs.files import write_design
from ppdm_dask.designs.sets import pack
from ppdm_dask.designs.subset import SubsetSelection
from ppdm_dask.inference import em, estimate, mle
from ppdm_dask.inference.stratified import Stratified
from ppdm_dask.inference.tables import ContingencyTable
from ppdm_dask.survey.about import About
from ppdm_dask.survey.counts import open_sources, write_counts
from ppdm_dask.survey.estimate import Question, estimate_files
from ppdm_dask.survey.statements import statements

Capture = pytest.CaptureFixture[str]
KARY = KaryResponse("x", 3, 0.8)
COUNTS = [700, 250, 50]


def table_of(design, counts):
    counts = np.asarray(counts, np.int64).reshape(design.reported_shape)
    return ContingencyTable(
        codebook_of(design), counts, None, design.digest, True, design.reported_shape
    )


# -- the test ----------------------------------------------------------------------------------


def test_reports_that_no_truth_makes():
    """By hand: the best fit has x = c at 0, and its law is (.6632, .2368, .1)."""
    best = np.array([(0.9 * 700 / 950 - 0.1) / 0.7, (0.9 * 250 / 950 - 0.1) / 0.7, 0.0])
    law = KARY.matrix() @ best
    statistic = 2 * float(np.array(COUNTS) @ np.log(np.array(COUNTS) / 1000 / law))
    for made in (fit(table_of(KARY, COUNTS), KARY) for fit in (invert, mle)):
        found = made.fit
        assert (found.method, found.freedom) == ("likelihood ratio", 1)
        assert found.statistic == pytest.approx(statistic, rel=1e-9)
        assert found.p_value == pytest.approx(chi2.sf(statistic, 1), rel=1e-6)
        assert found.contradicts
    close = em(table_of(KARY, COUNTS), KARY).fit
    assert close.p_value == pytest.approx(found.p_value)


def test_a_square_design_fits_whatever_is_inside_the_simplex():
    found = invert(table_of(KARY, [500, 300, 200]), KARY).fit
    assert (found.p_value, found.statistic, found.freedom) == (1, 0, 0)


def test_tall_designs_have_degrees_of_freedom():
    """Kuk's cards: 4 symbols, one proportion: two degrees, against a search over a grid."""
    design = Kuk("a", 0.7, 0.2, 3)
    counts = np.array([60, 120, 90, 130])
    found = invert(table_of(design, counts), design).fit
    grid = np.linspace(0, 1, 100_001)
    value = counts @ np.log(design.matrix() @ np.stack([1 - grid, grid]))
    statistic = 2 * (counts @ np.log(counts / 400) - value.max())
    assert found.freedom == 2
    assert found.statistic == pytest.approx(statistic, rel=1e-6)
    assert found.p_value == pytest.approx(chi2.sf(statistic, 2), rel=1e-5)


def test_rare_symbols_are_tested_by_exact_tails():
    """Whatever the truth, at least a fifth say yes: none of 30 does so with probability .8^30."""
    design = Warner("a", 0.8)
    few = invert(table_of(design, [12, 1]), design).fit
    assert few.method == "binomial tails"
    assert few.p_value == pytest.approx(min(4 * binom.cdf(1, 13, 0.2), 1))
    large = KaryResponse("a", 2_000, 0.9)
    counts = np.zeros(2_000, int)
    counts[:3] = [900, 50, 50]
    assert not invert(table_of(large, counts), large).fit.contradicts
    never = RRMatrix("a", [[0.5, 0.2], [0.5, 0.8], [0, 0]])
    assert invert(table_of(never, [10, 10, 1]), never).fit.p_value == 0


def test_sets_weights_and_conditions_are_tested_by_standard_errors():
    design = SubsetSelection("a", 10, size=2, p=0.6)
    inside = np.zeros((200, 10), bool)
    inside[:, :2] = True  # nobody says any of the others, which chance alone would
    reports = Reports(
        np.zeros((200, 1), int),
        codebook_of(design),
        0,
        design.digest,
        True,
        sets={"a": pack(inside)},
    )
    found = estimate(reports, ["a"], design=design).fit
    assert found.method == "standard errors"
    assert found.contradicts
    assert found.freedom == 0
    warner = Warner("a", 0.8)
    codes = np.repeat([0, 1], [95, 5])[:, None]
    weighted = reports_of(codes, codebook_of(warner), warner).surveyed(np.linspace(1, 2, 100))
    single = estimate(weighted, {"a": "1"}, design=warner)
    z = -single.value / math.sqrt(0.16 / 0.36 / single.size)
    assert single.fit.statistic == pytest.approx(z)
    assert single.fit.contradicts
    whole = estimate(weighted, ["a"], design=warner)
    assert whole.fit.contradicts
    few = estimate(weighted.slice(80, 100), ["a"], design=warner).fit
    assert not few.contradicts
    tiny = estimate(weighted.slice(0, 20), {"a": "1"}, design=warner).fit
    assert math.isnan(tiny.p_value)
    assert "fewer than 30 effective reports" in tiny.reason


def test_owners_have_the_worst_of_their_fits():
    warner = Warner("a", 0.8)
    parts = [
        reports_of(np.repeat([0, 1], counts)[:, None], codebook_of(warner), warner)
        for counts in ([95, 5], [60, 40])
    ]
    each = [estimate(part, ["a"], design=warner).fit.p_value for part in parts]
    both = Stratified([warner, warner]).estimate(parts, ["a"]).fit
    assert both.p_value == pytest.approx(2 * min(each))
    assert both.contradicts


@pytest.mark.slow
@pytest.mark.parametrize(
    ("design", "law", "n"),
    [
        (KARY, [0.5, 0.5, 0.0], 300),
        (KARY, [1.0, 0.0, 0.0], 300),
        (KaryResponse("a", 12, epsilon=1.0), [0.6, 0.4] + [0.0] * 10, 600),
        (KaryResponse("a", 60, epsilon=1.0), [1.0] + [0.0] * 59, 200),
        (RRMatrix("a", checks.TALL), [0.0, 1.0, 0.0], 200),
        (Kuk("a", 0.7, 0.2, 3), [1.0, 0.0], 150),
        (Product([Warner("a", 0.75), Identity("b", [3])]), [0.4, 0.0, 0.2, 0.0, 0.4, 0.0], 200),
    ],
    ids=["edge", "corner", "many-at-0", "rare-symbols", "tall", "kuk", "partly-undisguised"],
)
def test_alarms_are_no_more_frequent_than_they_say(design, law, n):
    """On the boundary, where they are most frequent; 400 draws, 5 % at most but for chance."""
    rng = np.random.default_rng([n, design.n_true])
    drawn = rng.multinomial(n, design.apply(np.array(law)), size=400)
    p = np.array([invert(table_of(design, counts), design).fit.p_value for counts in drawn])
    for alarm in (0.05, 0.01):
        assert binom.sf((p <= alarm).sum() - 1, 400, alarm * 1.2) > 1e-4


def test_a_wrong_design_is_noticed():
    """Reports of theta = .9 read as of theta = .8, where few have the trait."""
    rng = np.random.default_rng(5)
    counts = rng.multinomial(1_000, Warner("a", 0.9).apply(np.array([0.97, 0.03])))
    assert invert(table_of(Warner("a", 0.8), counts), Warner("a", 0.8)).fit.contradicts


# -- an estimate lies in its interval ----------------------------------------------------------


def survey(design, counts, path, **options):
    """The answer of ``ppdm estimate`` to counts of reports."""
    book = codebook_of(design)
    write_counts(
        path, table_of(design, counts), About("counts", book, design, True, (), ("b" * 32,))
    )
    named = {"codebook": Path("c.toml"), "design": Path("d.toml")}
    sources = open_sources([path], book, design, named)
    return estimate_files(sources, book, design, Question(design.attributes, **options))


@st.composite
def counted(draw):
    design = draw(st.one_of(blocks(["a"]), blocks(["a", "b"]), designs(2)))
    assume(not design.undefined and design.n_true <= 9)
    rng = np.random.default_rng(draw(SEEDS))
    n = draw(st.sampled_from([1, 2, 7, 40, 1_000]))
    # From laws that the design can make, and from others that it cannot.
    law = rng.dirichlet(np.full(design.n_true, 0.3))
    if draw(st.booleans()):
        law = design.apply(law)
    counts = rng.multinomial(n, law / law.sum())
    assume(not counts[design.matrix().sum(axis=1) == 0].any())
    return design, counts


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(counted(), st.sampled_from(["invert", "mle", "em"]), st.sampled_from([0.5, 0.95]))
def test_an_estimate_lies_in_its_interval(tmp_path_factory, case, method, level):
    design, counts = case
    found = survey(
        design, counts, tmp_path_factory.mktemp("e") / "n.parquet", method=method, level=level
    )
    for cell in found.cells:
        assert math.isnan(cell.lower) == math.isnan(cell.upper)
        if not math.isnan(cell.lower):
            assert cell.lower <= cell.value <= cell.upper
            assert cell.lower < cell.upper or method != "invert" or found.n < 2 or design.n_true < 2


def test_the_profile_of_all_counts(tmp_path):
    found = survey(KARY, COUNTS, tmp_path / "n.parquet", method="mle")
    first = found.cells[0]
    assert first.value == pytest.approx(0.804511, abs=5e-7)
    assert (first.lower, first.upper) == pytest.approx((0.7677, 0.8397), abs=5e-5)
    assert found.intervals == "profile likelihood"
    # With x = c at 0 it is the profile of a binomial count among those of a and b.
    a, b = 700, 250
    share = np.linspace(0.1, 0.8, 700_001)
    value = a * np.log(share) + b * np.log(0.9 - share)
    kept = share[2 * (value.max() - value) <= 1.959964**2]
    ends = (kept.min() - 0.1) / 0.7, (kept.max() - 0.1) / 0.7
    assert (first.lower, first.upper) == pytest.approx(ends, abs=1e-5)


# -- sentences ---------------------------------------------------------------------------------


def said(found):
    return {text.partition(":")[0]: text for text in statements(found)}


@pytest.mark.parametrize("method", ["invert", "mle", "em"])
def test_a_contradiction_is_said(tmp_path, method):
    found = said(survey(KARY, COUNTS, tmp_path / "n.parquet", method=method))
    assert (
        "the reports contradict the design or the answers (likelihood ratio 33.41 on 1 degree"
        in (found["contradiction"])
    )
    if method == "invert":
        assert "cannot be told from 0" not in found
        assert "x = 2" in found["beyond 0 and 1"]
    assert "contradiction" not in said(survey(KARY, [500, 300, 200], tmp_path / "m.parquet"))


def test_three_reports_say_nothing(tmp_path):
    found = said(survey(Warner("a", 0.8), [1, 2], tmp_path / "n.parquet"))
    assert found["says nothing"].startswith("says nothing: 3 reports leave open nearly all")
    assert "a = 0; a = 1" in found["says nothing"]
    assert "says nothing" not in said(survey(Warner("a", 0.8), [200, 100], tmp_path / "m.parquet"))


def test_few_reports_behind_a_category_are_said(tmp_path):
    design = KaryResponse("a", 4, 0.9)
    found = survey(design, [60, 39, 1, 0], tmp_path / "n.parquet")
    assert [cell.few for cell in found.cells] == [False, False, True, True]
    assert "a = 2; a = 3; standard errors are no smaller" in said(found)["few reports behind"]
    plain = survey(Identity("a", [3]), [60, 40, 0], tmp_path / "m.parquet")
    assert math.isnan(plain.cells[2].standard_error)
    assert plain.cells[2].upper == pytest.approx(0.0369935, abs=1e-6)
    assert "a = 2, as no report varies" in said(plain)["undefined"]


CODEBOOK = Codebook(
    (
        Attribute("smokes", ("no", "yes")),
        Attribute("region", ("N", "S")),
        *(Attribute(name, ("no", "yes")) for name in ("lower", "upper", "proportion")),
        Attribute("standard_error", ("no", "yes")),
    )
)


@pytest.fixture
def field(tmp_path, monkeypatch):
    """Reports of 400 people on six questions, their weights beside them."""
    monkeypatch.chdir(tmp_path)
    design = Product([Warner(n, 0.8) for n in CODEBOOK.names if n != "region"])
    rng = np.random.default_rng(3)
    n, lines = 400, [",".join([*CODEBOOK.names, "w"])]
    for i in range(n):
        yes = ["no", "yes"]
        answers = ["yes" if rng.random() < 0.3 else "no", "S" if i % 20 else "N"]
        answers += [yes[int(rng.random() < 0.4)] for _ in range(4)]
        lines.append(",".join([*answers, f"{rng.lognormal():.3f}"]))
    Path("s.csv").write_text("\n".join(lines) + "\n")
    CODEBOOK.to_toml("c.toml")
    write_design(design, "d.toml")
    given = ("--codebook", "c.toml", "--design", "d.toml")
    kept = ("--keep-undisguised", "region,w", "--simulate", "1", "--out", "r.parquet")
    assert main(["disguise", "s.csv", *given, *kept]) == 0
    return ("estimate", "r.parquet", *given)


def answer(capsys, *arguments):
    capsys.readouterr()
    assert main([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_labels_and_numbers_never_collide(field, capsys):
    names = ["lower", "upper", "proportion", "standard_error"]
    found = answer(capsys, *field, "--over", ",".join(names), "--out", "e.csv")
    assert len(found["cells"]) == 16
    for cell in found["cells"]:
        assert list(cell["labels"]) == names
        assert set(cell["labels"].values()) <= {"no", "yes"}
        assert cell["lower"] < cell["proportion"] < cell["upper"]
        assert cell["standard_error"] > 0
    head, first, *_ = Path("e.csv").read_text().splitlines()
    assert head == ",".join([*names, "proportion_", "standard_error_", "lower_", "upper_"])
    assert first.startswith("no,no,no,no,0.")
    assert main([*field, "--over", "proportion"]) == 0
    assert capsys.readouterr().out.split()[:2] == ["proportion", "proportion_"]


def test_a_ratio_is_not_unbiased_and_has_the_size_of_its_domain(field, capsys):
    found = answer(capsys, *field, "--over", "smokes", "--where", "region=N")
    words = {text.partition(":")[0]: text for text in found["statements"]}
    assert found["effective_size"] == pytest.approx(20)
    assert found["degrees_of_freedom"] == pytest.approx(19)
    assert words["effective size"].startswith("effective size: 20 of 400 reports")
    assert "not unbiased itself" in words["method"]
    assert "with an effective size of 20 a ratio may be far from the truth" in words["small"]
    assert "with an effective size of 20 intervals" in words["few reports"]
    # What is recommended must be allowed.
    assert "--method mle" not in " ".join(found["statements"])
    weighted = answer(capsys, *field, "--over", "smokes", "--weights", "w", "--interval", "wald")
    words = {text.partition(":")[0]: text for text in weighted["statements"]}
    d = [float(line.rpartition(",")[2]) for line in Path("s.csv").read_text().splitlines()[1:]]
    kish = sum(d) ** 2 / sum(x * x for x in d)
    assert weighted["effective_size"] == pytest.approx(kish)
    assert "compare --interval score" in words["few reports"]
    assert "--method mle" in words["few reports"]
    likely = answer(capsys, *field, "--over", "smokes", "--weights", "w", "--method", "mle")
    assert all(0 <= c["lower"] <= c["proportion"] <= c["upper"] <= 1 for c in likely["cells"])
    plain = answer(capsys, *field, "--over", "smokes")
    words = {text.partition(":")[0]: text for text in plain["statements"]}
    assert words["method"].startswith("method: inversion, unbiased")
    assert "few reports" not in words
    assert (plain["effective_size"], plain["degrees_of_freedom"]) == (400, None)
    assert plain["fit"] == {
        "p_value": 1.0,
        "statistic": 0.0,
        "freedom": 0,
        "method": "likelihood ratio",
        "contradicts": False,
        "reason": None,
    }


def test_few_reports_recommend_what_there_is(tmp_path):
    small = said(survey(Warner("a", 0.8), [70, 30], tmp_path / "n.parquet"))
    assert "compare --method mle" in small["few reports"]
    file = said(survey(Warner("a", 0.8), [70, 30], tmp_path / "m.parquet", estimand="file"))
    assert "--method mle" not in file["few reports"]
