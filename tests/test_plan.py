"""Plans before the field: variances, reports needed, limits, devices, and the protocol."""

from __future__ import annotations

import json
import math
import re
import shlex
from collections import Counter
from datetime import date, timedelta
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from pages import blocks, shell_lines
from scipy.stats import norm

import ppdm_dask as pp
from ppdm_dask.cli import main
from ppdm_dask.designs import (
    Design,
    Flip,
    Kuk,
    MultiGroup,
    Permanent,
    Product,
    SubsetSelection,
    UnaryEncoding,
    families,
)
from ppdm_dask.errors import InputError
from ppdm_dask.search import cheapest_epsilon, cheapest_posterior, cheapest_trait
from ppdm_dask.survey.devices import DEVICES, Wording, candidates

SKEWED = (0.6, 0.2, 0.1, 0.05, 0.02, 0.015, 0.01, 0.005)
MADE = pp.design_from_config
DESIGNS = {
    "crosswise": MADE({"id": "crosswise", "attribute": "a", "p": 0.2}),
    "flip": Flip(["a", "b"], 0.7),
    "forced": MADE({"id": "forced", "attribute": "a", "truth": 0.7, "forced": [0.3, 0.7]}),
    "identity": MADE({"id": "identity", "attributes": ["a"], "shape": [3]}),
    "kary": pp.KaryResponse("a", 5, 0.4),
    "kuk": Kuk("a", 0.8, 0.3, repeats=3),
    "mangat": MADE({"id": "mangat", "attribute": "a", "p": 0.7}),
    "matrix": pp.RRMatrix("a", [[0.7, 0.1], [0.2, 0.3], [0.1, 0.6]], p0=[0.8, 0.2]),
    "multigroup": MultiGroup([["a", "b"], ["c"]], [0.7, 0.8]),
    "permanent": Permanent(pp.Warner("a", 0.8), pp.RRMatrix("a", [[0.7, 0.1], [0.3, 0.9]])),
    "pram": MADE({"id": "pram", "attribute": "a", "q": 0.5, "prior": [0.2, 0.8]}),
    "product": Product([pp.Warner("a", 0.8), pp.KaryResponse("b", 3, 0.6)]),
    "subset": SubsetSelection("a", 5, size=2, p=0.7),
    "triangular": MADE({"id": "triangular", "attribute": "a", "p": 0.3}),
    "unary": UnaryEncoding("a", 5, epsilon=1.5),
    "unrelated": pp.UnrelatedQuestion("a", 0.6, 0.3),
    "warner": pp.Warner("a", 0.8),
}


def law_of(design: Design) -> np.ndarray:
    return np.random.default_rng(7).dirichlet(np.ones(design.n_true))


def test_every_family_has_a_case() -> None:
    assert set(DESIGNS) >= set(families())


@pytest.mark.parametrize("design", DESIGNS.values(), ids=DESIGNS)
def test_variance_is_that_of_all_truths_and_reports(design: Design) -> None:
    p, P, B = law_of(design), design.matrix(), design.left_inverse()
    mean, square = np.zeros(len(p)), np.zeros(len(p))
    for x, y in product(range(design.n_true), range(design.n_reported)):
        mean += p[x] * P[y, x] * B[:, y]
        square += p[x] * P[y, x] * B[:, y] ** 2
    np.testing.assert_allclose(design.variance(p), square - mean**2, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("design", DESIGNS.values(), ids=DESIGNS)
def test_variance_is_that_of_drawn_reports(design: Design) -> None:
    n, rng, p = 20_000, np.random.default_rng(11), law_of(design)
    truth = np.stack(np.unravel_index(rng.choice(len(p), n, p=p), design.shape), axis=1)
    book = pp.Codebook(
        [
            pp.Attribute(name, tuple(map(str, range(size))))
            for name, size in zip(design.attributes, design.shape, strict=True)
        ]
    )
    reports = design.disguise(pp.Records(truth.astype(np.uint8), book), pp.Stream.from_seed(3))
    cell = {name: {str(0)} for name in design.attributes}
    weights = pp.event_weights(reports, design, cell)
    squares = (weights - weights.mean()) ** 2
    wrong = abs(squares.mean() - design.variance(p)[0])
    # Six standard errors; the second term is for designs whose squares hardly vary.
    assert wrong < 6 * squares.std() / math.sqrt(n) + 36 * np.abs(weights).max() ** 2 / n


def test_variance_of_many_categories_needs_no_matrix() -> None:
    # Sum over k even categories: k times the textbook's formula of [YeBarg]_ less the prior's part.
    k, s, e = 400, 100, math.exp(1.2)
    p, r = s * e / (s * e + k - s), (s - s * e / (s * e + k - s)) / (k - 1)
    inside = p / k + (1 - 1 / k) * r
    expected = inside * (1 - inside) / (p - r) ** 2
    found = SubsetSelection("a", k, size=s, epsilon=1.2).variance(np.full(k, 1 / k))
    np.testing.assert_allclose(found, expected, rtol=1e-9)


# -- limits ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("epsilon", "noise"), [(0.5, 95.986), (1.0, 22.611), (2.0, 4.438)])
def test_even_categories_are_best_told_by_subsets(epsilon: float, noise: float) -> None:
    even = np.full(8, 1 / 8)
    found = cheapest_epsilon(even, epsilon)
    sizes = [SubsetSelection("a", 8, s, epsilon=epsilon).variance(even).sum() for s in range(1, 8)]
    assert found is not None
    assert found.noise == pytest.approx(noise, abs=6e-4)
    assert found.noise == pytest.approx(min(sizes), rel=1e-6)


def test_a_skewed_prior_has_a_better_design_than_every_family() -> None:
    found = cheapest_epsilon(SKEWED, 2.0)
    assert found is not None and found.P is not None
    assert found.noise == pytest.approx(3.823, abs=6e-4)
    design = pp.RRMatrix("a", found.P, p0=SKEWED)
    assert design.epsilon() == pytest.approx(2.0, abs=1e-9)
    assert design.variance(SKEWED).sum() == pytest.approx(found.noise, rel=1e-6)


def test_no_drawn_design_beats_a_limit() -> None:
    rng, p = np.random.default_rng(5), np.array([0.85, 0.15])
    P = rng.dirichlet(np.full(3, 0.5), size=(40_000, 2)).transpose(0, 2, 1)
    law = P @ p
    J = np.einsum("nyi,nyj->nij", P / law[:, :, None], P)
    flat = np.abs(np.linalg.det(J)) < 1e-9
    noise = np.full(len(P), np.inf)
    noise[~flat] = np.trace(np.linalg.inv(J[~flat]), axis1=1, axis2=2) - (p**2).sum()
    posterior = P * p / law[:, :, None]
    epsilon = np.abs(np.log(P[:, :, 0] / P[:, :, 1])).max(axis=1)
    for floor in (0.4, 0.7):
        kept = posterior[:, :, 1].max(axis=1) <= floor
        assert kept.sum() > 100
        assert noise[kept].min() >= cheapest_trait(0.15, floor).noise
    for most in (0.9, 0.97):
        kept = posterior.max(axis=(1, 2)) <= most
        assert kept.sum() > 100
        assert noise[kept].min() >= cheapest_posterior(p, most).noise
    kept = epsilon <= 1.5
    assert kept.sum() > 100
    limit = cheapest_epsilon(p, 1.5)
    assert limit is not None and noise[kept].min() >= limit.noise


# -- reports needed --------------------------------------------------------------------------------


def test_warners_textbook_case() -> None:
    found = pp.plan(0.1, half_width=0.03, epsilon=math.log(4))
    assert found["warner"].parameters == {"theta": 0.8}
    assert found["warner"].need == (2281, 2281, 2281)
    assert found["warner"].times == pytest.approx(1, rel=1e-9)  # alone has that epsilon
    invited = pp.plan(0.1, half_width=0.03, epsilon=math.log(4), design_effect=2, nonresponse=0.5)
    assert invited["warner"].need.invited in (9124, 9125)  # 2281.16 * 4


FLOORS = [
    (0.1, {"max_posterior": 0.6}),
    (0.2, {"epsilon": 1.5}),
    ({"a": 0.4, "b": 0.3, "c": 0.2, "d": 0.1}, {"max_posterior": 0.7}),
    ({"a": 0.4, "b": 0.3, "c": 0.2, "d": 0.1}, {"epsilon": 1.5}),
]


@pytest.mark.parametrize(("prior", "floor"), FLOORS)
def test_the_planned_half_width_is_met(prior: object, floor: dict[str, float]) -> None:
    found = pp.plan(prior, half_width=0.04, **floor)  # type: ignore[arg-type]
    p, z, rng = np.array([*found.prior.values()]), norm.ppf(0.975), np.random.default_rng(1)
    planned = [(row.design, row.need) for row in found.rows if row.design is not None]
    planned += [(row.made.design, row.made.need) for row in found.rows if row.made is not None]
    assert len(planned) >= 7
    for design, need in planned:
        B, law = design.left_inverse(), design.matrix() @ p
        counts = rng.multinomial(need.n, law, size=1000)
        estimates = counts @ B.T / need.n
        squares = counts @ (B**2).T / need.n
        half = z * np.sqrt((squares - estimates**2) / (need.n - 1))
        widest = int(design.variance(p).argmax())
        assert half[:, widest].mean() == pytest.approx(0.04, rel=0.05)
        assert (half.mean(axis=0) < 0.04 * 1.05).all()
        covered = (np.abs(estimates - p) < half).mean(axis=0)
        assert (covered > 0.925).all()  # .95 less 3.6 standard errors of 1,000 repeats


def test_a_planned_difference_is_found_as_often_as_wanted() -> None:
    found = pp.plan(0.1, difference=0.08, power=0.8, epsilon=1.5)
    rng = np.random.default_rng(2)
    for family in ("warner", "unrelated"):
        row = found[family]
        n, B = row.need.n // 2, row.design.left_inverse()[1]
        groups = []
        for share in (0.1, 0.18):
            law = row.design.matrix() @ [1 - share, share]
            counts = rng.multinomial(n, law, size=4000)
            mean = counts @ B / n
            groups.append((mean, (counts @ B**2 / n - mean**2) / n))
        (m1, v1), (m2, v2) = groups
        power = (np.abs(m1 - m2) > norm.ppf(0.975) * np.sqrt(v1 + v2)).mean()
        assert power == pytest.approx(0.8, abs=0.025)  # four standard errors


@pytest.mark.parametrize(("prior", "floor"), FLOORS)
def test_all_designs_keep_the_floor_and_none_beats_the_limit(
    prior: object, floor: dict[str, float]
) -> None:
    found = pp.plan(prior, half_width=0.03, **floor)  # type: ignore[arg-type]
    p = np.array([*found.prior.values()])
    for row in found.rows:
        for design in (row.design, None if row.made is None else row.made.design):
            if design is None:
                continue
            joint = design.matrix() * p
            joint = joint[joint.sum(axis=1) > 0]
            posterior = joint / joint.sum(axis=1, keepdims=True)
            guarded = posterior if found.trait is None else posterior[:, 1]
            assert guarded.max() <= floor.get("max_posterior", 1) + 1e-8
            assert design.epsilon() <= floor.get("epsilon", np.inf) + 1e-8
        assert row.times is None or row.times > 1 - 1e-8
    assert found["matrix"].times == pytest.approx(1, abs=1e-6)


def test_the_trait_is_named_and_not_placed() -> None:
    first = pp.plan({"used": 0.1, "never": 0.9}, trait="used", half_width=0.03, max_posterior=0.6)
    second = pp.plan({"never": 0.9, "used": 0.1}, trait="used", half_width=0.03, max_posterior=0.6)
    for row in first.rows:
        other = second[row.family]
        assert row.need == other.need
        assert row.times == pytest.approx(other.times)
        assert row.made is None or row.made.odds == other.made.odds


# -- devices ---------------------------------------------------------------------------------------


def test_devices_make_the_probabilities_that_they_say() -> None:
    days = [date(2021, 1, 1) + timedelta(i) for i in range(1461)]
    counted = {
        "two-dice": Counter(a + b for a, b in product(range(1, 7), repeat=2)),
        "two-coins": Counter(map(sum, product((0, 1), repeat=2))),
        "three-coins": Counter(map(sum, product((0, 1), repeat=3))),
        "birth-day": Counter(day.day for day in days),
        "birth-month": Counter(day.month for day in days),
    }
    for device, weights in DEVICES.items():
        counts = counted.get(device)
        shares = [Fraction(w, sum(weights)) for w in weights]
        if counts is None:
            assert len(set(weights)) == 1
        else:
            total = sum(counts.values())
            assert shares == [Fraction(counts[key], total) for key in sorted(counts)]
    event = Wording().event("two-dice", 0, 3)
    assert (event.probability, event.text) == (Fraction(10, 36), "the sum is 2 to 5")


def test_the_device_is_the_most_precise_that_keeps_the_floor() -> None:
    found = pp.plan(0.1, half_width=0.03, max_posterior=0.4)
    p = np.array([0.9, 0.1])
    for family in ("warner", "crosswise", "forced", "triangular", "kuk"):
        kept = []
        for each in candidates(family, "answer", ("no", "yes"), "yes", Wording()):
            P = pp.design_from_config(each.config).in_order({"answer": ("no", "yes")}).matrix()
            a, b = P[:, 1] * 0.1, P @ p
            if (a <= 0.4 * b + 1e-9).all() and abs(np.linalg.det(P)) > 1e-9:
                B = np.linalg.inv(P)
                kept.append(float(B[1] ** 2 @ b - 0.01))
        assert found[family].made.design.variance(p)[1] == pytest.approx(min(kept))


def test_texts_in_another_language(tmp_path: Path) -> None:
    own = Wording().path.read_text(encoding="utf-8")
    other = tmp_path / "texts.toml"
    other.write_text(own.replace("Roll a die", "Wirf einen Würfel"), encoding="utf-8")
    assert Wording(other).event("die", 0, 0).prepare.startswith("Wirf einen Würfel")
    for old, new, what in (
        ("{question} Otherwise give", "{frage} Otherwise give", "texts.warner: braces may hold"),
        ('one = "it shows {first}"\n', "", "devices.coin.one: got"),
        ('"5", "6"]', '"5"]', "devices.die.outcomes: 6 texts"),
    ):
        other.write_text(own.replace(old, new, 1), encoding="utf-8")
        with pytest.raises(InputError, match=what):
            Wording(other)


# -- command and protocol --------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["warner", "crosswise", "forced", "unrelated", "kuk", "matrix"])
def test_the_written_design_disguises_and_has_the_digest_of_the_protocol(
    family: str, tmp_path: Path
) -> None:
    found = pp.plan(0.1, half_width=0.03, max_posterior=0.6, attribute="used", question="<Used?>")
    paths = pp.report.write_protocol(found, tmp_path / "field", family)
    book = pp.Codebook([pp.Attribute("used", ("yes", "no"))])
    design = Design.read(paths["design"], book)
    page = paths["html"].read_text(encoding="utf-8")
    planned = Design.read(paths["design"])
    assert planned.digest in page
    assert planned.digest in paths["text"].read_text(encoding="utf-8").replace("\n    ", "")
    assert "&lt;Used?&gt;" in page and "<Used?>" not in page
    assert "http" not in page and "src=" not in page
    answers = {"used": ["yes"] * 300 + ["no"] * 700}
    reports = design.disguise(answers, pp.Stream.from_seed(1))
    assert pp.estimate(reports, ["used"]).to_frame()["proportion"].sum() == pytest.approx(1)


def test_the_command_writes_and_prints(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "field"
    asked = ["plan", "--prior", "0.1", "--half-width", "0.03", "--epsilon", "1.38629436111989"]
    assert main([*asked, "--out", str(out), "--design", "warner", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {row["design"]: row["n"] for row in found["designs"]}["warner"] == 2281
    assert sorted(path.name for path in out.iterdir()) == [
        "design.toml",
        "protocol.html",
        "protocol.txt",
    ]
    assert main(asked) == 0
    printed = capsys.readouterr().out
    assert "2,281" in printed and max(map(len, printed.split("\n\n")[0].splitlines())) <= 80


@pytest.mark.parametrize(
    ("options", "what"),
    [
        (["--prior", "0.1", "--half-width", "0.03"], "--max-posterior, --epsilon: a privacy floor"),
        (["--prior", "0.1", "--epsilon", "1"], "--half-width, --difference: exactly one"),
        (["--prior", "1.5", "--half-width", ".1", "--epsilon", "1"], "--prior: got 1.5"),
        (["--prior", "none.toml", "--half-width", ".1", "--epsilon", "1"], "none.toml: there is"),
        (
            ["--prior", "0.3", "--half-width", ".1", "--max-posterior", ".2"],
            "--max-posterior: got 0.2; a number above 0.3",
        ),
        (["--prior", "0.3", "--difference", ".9", "--epsilon", "1"], "--difference: got 0.9"),
        (
            ["--prior", "0.3", "--half-width", ".1", "--epsilon", "1", "--design", "mangat"],
            "--design: mangat is not possible: epsilon is infinite",
        ),
        (
            ["--prior", "0.3", "--half-width", ".1", "--epsilon", "1", "--nonresponse", "1"],
            "--nonresponse: got 1",
        ),
    ],
)
def test_bad_input_is_one_line_and_writes_nothing(
    options: list[str], what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "field"
    assert main(["plan", *options, "--out", str(out)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and what in error
    assert not out.exists()


def test_the_page_runs_as_it_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = shell_lines("docs/plan.md")
    for name, text in re.findall(
        r"^cat > (\S+) <<'END'\n(.*?)^END", lines, re.DOTALL | re.MULTILINE
    ):
        Path(name).write_text(text, encoding="utf-8")
    commands = re.findall(r"^ppdm (.*)$", lines.replace("\\\n", " "), flags=re.MULTILINE)
    assert len(commands) == 5
    for command in commands:
        words, _, target = command.partition(" > ")
        assert main(shlex.split(words)) == 0
        printed = capsys.readouterr()
        assert printed.err == ""
        if target:
            Path(target).write_text(printed.out, encoding="utf-8")
    assert Path("plan.json").read_text(encoding="utf-8").count('"n": 2281') >= 1
    assert "Have you ever taken something" in Path("field/protocol.html").read_text("utf-8")
    for block in blocks("docs/plan.md", "python"):
        exec(compile(block.text, block.place, "exec"), {})


def test_the_written_design_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    plan = ["plan", "--prior", "0.1", "--half-width", "0.03", "--max-posterior", "0.4"]
    plan += ["--attribute", "used", "--trait", "yes"]
    assert main([*plan, "--design", "crosswise", "--out", "p"]) == 0
    book = pp.Codebook((pp.Attribute("used", ("no", "yes")),))
    book.to_toml("c.toml")
    p = pp.Design.read("p/design.toml", book).matrix()[1, 1]
    Path("field.csv").write_text("used\n" + "same\n" * 30 + "different\n" * 70)
    both = ["--codebook", "c.toml", "--design", "p/design.toml"]
    assert main(["import", "field.csv", *both, "--out", "r.parquet"]) == 0
    capsys.readouterr()
    assert main(["estimate", "r.parquet", *both, "--over", "used", "--json"]) == 0
    cells = json.loads(capsys.readouterr().out)["cells"]
    yes = next(cell for cell in cells if cell["labels"]["used"] == "yes")
    # "same" is said with probability p by those who have the trait, 1 - p by the others.
    assert yes["proportion"] == pytest.approx((0.3 - (1 - p)) / (2 * p - 1))
