"""Plans: sizes against formulas and simulation, limits, devices, and the files that are written."""

from __future__ import annotations

import itertools
import json
import math
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from shell_page import run_lines, shell_lines

import ppdm_dask as pp
from ppdm_dask.cli import main
from ppdm_dask.survey.devices import DEVICES, devices_of
from ppdm_dask.survey.plan import FAMILIES

THREE = {"never": 0.5, "once": 0.3, "often": 0.2}
Capture = pytest.CaptureFixture[str]


def test_the_size_of_warners_survey() -> None:
    # 1.96^2 (.09 + .16 / .36) / .03^2
    for family in ("warner", "crosswise", "unrelated", "forced"):
        found = pp.plan(0.1, half_width=0.03, epsilon=math.log(4)).option(family)
        assert found.reports == 2281
    asked = pp.plan(0.1, half_width=0.03, epsilon=math.log(4), response=0.5, design_effect=2)
    assert (asked.option("warner").reports, asked.option("warner").invited) == (4562, 9124)
    assert asked.option("warner").half_width == pytest.approx(0.03, rel=1e-3)


def test_the_power_of_a_difference() -> None:
    found = pp.plan(0.1, difference=0.05, power=0.9, epsilon=math.log(4)).option("warner")
    variance = 0.09 + 0.16 / 0.36
    a_group = (1.959964 + 1.281552) ** 2 * 2 * variance / 0.05**2
    assert found.reports == pytest.approx(2 * a_group, abs=1)


FAMILY: dict[str, Any] = {
    "warner": pp.Warner("a", 0.8),
    "forced": pp.designs.ForcedResponse("a", 0.7, [0.2, 0.8]),
    "mangat": pp.designs.Mangat("a", 0.6),
    "kuk": pp.designs.Kuk("a", 0.7, 0.2, 3),
    "kary": pp.KaryResponse("a", 4, p=0.6),
    "unrelated": pp.UnrelatedQuestion(["a", "b"], 0.6, [0.3, [0.2, 0.3, 0.5]]),
    "subset": pp.designs.SubsetSelection("a", 4, 2, 0.7),
    "unary": pp.designs.UnaryEncoding("a", 3, 0.6, 0.2),
}


@pytest.mark.parametrize("design", FAMILY.values(), ids=FAMILY)
def test_the_variance_is_that_over_all_truths_and_reports(design: pp.Design) -> None:
    prior = np.random.default_rng(1).dirichlet(np.ones(design.n_true))
    P, B = design.matrix(), design.left_inverse()
    expected = []
    for x in range(design.n_true):
        pairs = itertools.product(range(design.n_true), range(len(P)))
        weights = [(prior[t] * P[y, t], B[x, y]) for t, y in pairs]
        mean = math.fsum(chance * w for chance, w in weights)
        expected.append(math.fsum(chance * (w - mean) ** 2 for chance, w in weights))
    np.testing.assert_allclose(design.variance(prior), expected, rtol=1e-9, atol=1e-12)


GOALS: dict[str, tuple[Any, dict[str, Any]]] = {
    "two, epsilon": (0.1, {"epsilon": 1.2}),
    "two, posterior": (0.1, {"max_posterior": 0.4}),
    "three, epsilon": (THREE, {"epsilon": 1.0}),
    "three, posterior": (THREE, {"max_posterior": 0.7}),
    "three, one of them": (THREE, {"max_posterior": 0.5, "sensitive": "often"}),
}


@pytest.mark.parametrize("goal", GOALS.values(), ids=GOALS)
def test_every_design_meets_the_floor_and_wastes_little_of_it(goal: Any) -> None:
    prior, floor = goal
    found = pp.plan(prior, half_width=0.05, **floor)
    shares = np.array(list(found.prior.values()))
    at = list(found.prior).index(found.goal.sensitive) if found.goal.sensitive else None
    for option in (*found.options, *found.made):
        P = option.design.matrix()
        P = P[P.any(axis=1)]
        joint = P * shares
        posterior = joint / joint.sum(axis=1, keepdims=True)
        most = posterior.max() if at is None else posterior[:, at].max()
        if "epsilon" in floor:
            seen, limit = math.log((P.max(axis=1) / P.min(axis=1)).max()), floor["epsilon"]
        else:
            seen, limit = most, floor["max_posterior"]
        assert seen <= limit * (1 + 1e-6), option.family
        if option.device is None:
            assert seen > limit * 0.98, option.family
        assert option.ratio is None or option.ratio >= 1
    assert [o.reports for o in found.options] == sorted(o.reports for o in found.options)
    assert set(FAMILIES) <= {o.family for o in found.options} | set(found.left_out)


def test_no_matrix_of_two_symbols_beats_the_limits() -> None:
    grid = np.linspace(0.001, 0.999, 400)
    a, b = (x.ravel() for x in np.meshgrid(grid, grid))  # P(yes | no), P(yes | yes)
    keep = b > a + 1e-3
    a, b = a[keep], b[keep]
    p = 0.1
    report = (1 - p) * a + p * b
    variance = report * (1 - report) / (b - a) ** 2
    posterior = np.maximum(p * b / report, p * (1 - b) / (1 - report))
    ratio = np.maximum.reduce([b / a, (1 - a) / (1 - b)])
    for kind, seen, floor in (
        ("max_posterior", posterior, 0.4),
        ("epsilon", np.log(ratio), 1.2),
    ):
        found = pp.plan(p, half_width=0.05, **{kind: floor})
        best = min(o.variance / o.ratio for o in found.options if o.ratio is not None)
        least = variance[seen <= floor].min()
        assert best <= least * (1 + 1e-9)
        assert best >= least * 0.98


def test_the_limit_of_three_categories_is_that_of_the_search() -> None:
    found = pp.plan(THREE, half_width=0.03, max_posterior=0.7)
    best = found.option("matrix")
    assert best.ratio == pytest.approx(1, abs=1e-6)
    shares = list(THREE.values())
    # Its front ends a little more private than the floor demands.
    front = pp.optimize(shares, n_records=1, delta=0.7, method="bound")
    least = float(front["bound"].min())
    assert 0.99 * least < best.design.variance(np.array(shares)).mean() < least
    for option in found.options:
        mean = option.design.variance(np.array(shares)).sum()
        assert option.ratio == pytest.approx(
            mean / best.design.variance(np.array(shares)).sum(), rel=1e-4
        )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("prior", "floor"),
    [(0.1, {"epsilon": 1.2}), (0.2, {"max_posterior": 0.5}), (THREE, {"max_posterior": 0.7})],
)
def test_the_planned_half_width_is_met(prior: Any, floor: dict[str, float]) -> None:
    found = pp.plan(prior, half_width=0.05, **floor)
    shares = np.array(list(found.prior.values()))
    rng = np.random.default_rng(7)
    for option in (*found.options, *found.made):
        B = option.design.left_inverse()
        chances = option.design.apply(shares)
        counts = rng.multinomial(option.reports, chances / chances.sum(), 1_000)
        estimates = counts @ B.T / option.reports
        squares = counts @ (B**2).T / option.reports
        errors = np.sqrt((squares - estimates**2) / (option.reports - 1))
        widest = 1.959964 * errors.mean(axis=0).max()
        assert widest == pytest.approx(0.05, rel=0.05), option.family
        spread = 1.959964 * estimates.std(axis=0, ddof=1).max()
        assert spread == pytest.approx(0.05, rel=0.08), option.family


# -- devices ---------------------------------------------------------------------------------------


def test_devices_have_the_chances_that_counting_gives() -> None:
    for device in DEVICES:
        numbers = [int(w) for w in device.event.replace(".", "").split() if w.isdigit()]
        top = max(numbers, default=0)
        if device.kind == "die":
            assert device.probability == Fraction(top, 6)
        elif device.kind == "dice":
            sums = [a + b for a, b in itertools.product(range(1, 7), repeat=2)]
            assert device.probability == Fraction(sum(s <= top for s in sums), 36)
        elif device.kind == "cards":
            assert device.probability == Fraction(top, 10)
        elif device.kind == "digit":
            assert device.probability == Fraction(top + 1, 10)


def test_two_dice_force_both_answers_alike() -> None:
    sums = [a + b for a, b in itertools.product(range(1, 7), repeat=2)]
    for each in devices_of("forced", "used", ("no", "yes"), "yes", "Used?"):
        if each.device != "dice":
            continue
        forced = each.probabilities["forced"]
        low = max(s for s in range(2, 13) if sum(x <= s for x in sums) <= 36 * forced)
        assert f"the sum is {low}" in each.text
        high = 14 - low
        assert f"the sum is {high}" in each.text
        assert sum(x >= high for x in sums) == 36 * forced
        P = each.design.matrix()
        np.testing.assert_allclose(P[1], [float(forced), 1 - float(forced)])


@pytest.mark.parametrize("family", ["warner", "crosswise", "unrelated", "triangular", "kary"])
def test_people_are_told_what_the_design_does(family: str) -> None:
    found = devices_of(family, "used", ("no", "yes"), "yes", "Have you used it?")
    assert found
    for each in found:
        assert "Have you used it?" in each.text
        name, chance = next(iter(each.probabilities.items()))
        stated = each.design.config()
        assert float(stated.get(name, stated.get("p"))) == pytest.approx(
            float(chance) if name in stated else float(chance + (1 - chance) / 2)
        )


# -- files and commands ----------------------------------------------------------------------------


def run(*arguments: str) -> int:
    return main(list(arguments))


PLAN = ("plan", "--prevalence", "0.1", "--half-width", "0.03", "--max-posterior", "0.4")


def test_the_written_design_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(*PLAN, "--attribute", "used", "--choose", "crosswise", "--out", "p") == 0
    book = pp.Codebook((pp.Attribute("used", ("no", "yes")),))
    book.to_toml("c.toml")
    digest = pp.Design.read("p/design.toml", book).digest
    for name in ("protocol.txt", "protocol.html"):
        assert digest in Path("p", name).read_text()
    page = Path("p/protocol.html").read_text()
    assert "src=" not in page
    assert "http" not in page
    Path("field.csv").write_text("used\n" + "same\n" * 30 + "different\n" * 70)
    out = ("--codebook", "c.toml", "--design", "p/design.toml")
    assert run("import", "field.csv", *out, "--out", "r.parquet") == 0
    capsys.readouterr()
    assert run("estimate", "r.parquet", *out, "--over", "used", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    # "same" is said with probability 5/6 by those who have the trait, 1/6 by the others.
    yes = next(cell for cell in told["cells"] if cell["labels"]["used"] == "yes")
    assert yes["proportion"] == pytest.approx((0.3 - 1 / 6) / (4 / 6))


def test_mistakes_are_one_line_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    for arguments, words in (
        (PLAN[:-2], "--max-posterior or --epsilon: exactly one"),
        ((*PLAN, "--difference", "0.1"), "--half-width or --difference: exactly one"),
        ((*PLAN[:1], *PLAN[3:]), "--prevalence or --prior is needed"),
        (("plan", "--prevalence", "1.5", *PLAN[3:]), "--prior: got 1.5; a number between 0 and 1"),
        (("plan", "--prevalence", "0.5", *PLAN[3:]), "without any report 'yes' has 0.5"),
        ((*PLAN, "--response", "0"), "--response: got 0"),
        ((*PLAN, "--design-effect", "0.5"), "--design-effect: got 0.5; 1 or more"),
        ((*PLAN, "--choose", "kary", "--out", "x"), "got 'kary': is Warner's design"),
        ((*PLAN, "--sensitive", "maybe"), "got 'maybe'; labels: no, yes"),
    ):
        capsys.readouterr()
        assert run(*arguments) == 2
        shown = capsys.readouterr()
        assert shown.out == ""
        assert len(shown.err.splitlines()) == 1
        assert words in shown.err
    assert list(tmp_path.iterdir()) == []
    assert run(*PLAN, "--out", "x") == 0
    assert run(*PLAN, "--out", "x") == 2
    assert "is there already" in capsys.readouterr().err


def test_the_page_on_plans_runs_as_it_stands(root: Path, tmp_path: Path) -> None:
    page = (root / "docs" / "plan.md").read_text()
    _, folder = run_lines(shell_lines(page), root, tmp_path)
    assert (folder / "plan" / "protocol.html").exists()
    (block,) = re.findall(r"```python\n(.*?)```", page, re.S)
    names: dict[str, Any] = {}
    exec(compile(block, "docs/plan.md", "exec"), names)
    assert (names["warner"].reports, names["warner"].parameters) == (2281, "theta = 0.8")
