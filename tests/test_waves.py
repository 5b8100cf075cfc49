"""Waves pooled: unbiased estimates and variances by enumeration, and intervals that cover."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checks import EXAMPLES
from strategies import make_codebook, random_records, reports_of

import ppdm_dask as pp
from ppdm_dask.cli import main
from ppdm_dask.designs import Design, Mangat, Permanent, permanent_blocks
from ppdm_dask.errors import DesignError, InputError, RecordsError
from ppdm_dask.inference import variance_of_waves

TALL = np.array([[0.6, 0.1], [0.3, 0.2], [0.1, 0.7]])
SKEWED = np.array([[0.6, 0.2, 0.1], [0.3, 0.7, 0.2], [0.1, 0.1, 0.7]])
BINARY = Permanent(pp.Warner("a", 0.8), pp.Warner("a", 0.7))
OVER_THREE = Permanent(pp.RRMatrix("a", TALL), pp.RRMatrix("a", SKEWED))


def people(design: Design, prior: np.ndarray, waves: int) -> dict[tuple[int, ...], float]:
    """Chance of each sequence of joint reports of one person, by going through all stages."""
    chances: dict[tuple[int, ...], float] = {}
    for x, p in enumerate(prior):
        codes = np.unravel_index(x, design.shape)
        kept = []
        for block in design.blocks:
            own = int(codes[design.attributes.index(block.attributes[0])])
            first = block.first.matrix() if isinstance(block, Permanent) else np.eye(block.n_true)
            kept.append([(z, first[z, own]) for z in range(len(first))])
        again = [(b.again if isinstance(b, Permanent) else b).matrix() for b in design.blocks]
        for symbols in itertools.product(*kept):
            chance = p * math.prod(q for _, q in symbols)
            law = np.ones(1)
            for (z, _), P in zip(symbols, again, strict=True):
                law = np.multiply.outer(law, P[:, z]).ravel()
            for reports in itertools.product(range(len(law)), repeat=waves):
                more = chance * math.prod(law[y] for y in reports)
                chances[reports] = chances.get(reports, 0.0) + more
    return chances


def pooled(design: Design, waves: list[list[int]], over: Any, **options: Any) -> pp.Estimate:
    """The estimate from joint reports of each wave."""
    book = make_codebook(design.attributes, design.shape)
    made = []
    for wave in waves:
        codes = np.stack(np.unravel_index(wave, design.reported_shape), axis=1)
        made.append(
            pp.Reports(codes, book, 0, design.digest, True, reported_sizes=design.reported_shape)
        )
    return pp.estimate_waves(made, over, design=design, **options)


BOTH = pp.Product([BINARY, pp.Warner("b", 0.9)])

CASES = [
    (BINARY, [0.7, 0.3], {"a": "1"}, 0.3),
    (OVER_THREE, [0.4, 0.6], {"a": "1"}, 0.6),
    (BOTH, [0.4, 0.3, 0.1, 0.2], {"a": "1", "b": "1"}, 0.2),
    (BOTH, [0.4, 0.3, 0.1, 0.2], {"b": "1"}, 0.5),
]


@pytest.mark.parametrize(("design", "prior", "event", "truth"), CASES)
@pytest.mark.parametrize("second", [(0, 1), (0,)])
def test_means_and_variances_are_unbiased(
    design: Design, prior: list[float], event: Any, truth: float, second: tuple[int, ...]
) -> None:
    """Two people in the first wave, both or one of them in the second: all that can happen."""
    law = people(design, np.array(prior), 2)
    kept: dict[Any, tuple[float, float]] = {}
    mean = square = expected = 0.0
    for (one, p), (two, q) in itertools.product(law.items(), repeat=2):
        pair = one, two
        waves = ([r[0] for r in pair], [pair[i][1] for i in second])
        key = tuple(map(tuple, map(sorted, waves)))
        if key not in kept:
            found = pooled(design, list(waves), event)
            assert found.unbiased is not None
            kept[key] = found.value, float(found.unbiased)
        value, variance = kept[key]
        mean += p * q * value
        square += p * q * value**2
        expected += p * q * variance
    assert mean == pytest.approx(truth, rel=1e-9)
    assert expected == pytest.approx(square - mean**2, rel=1e-9)


@pytest.mark.parametrize("design", [BINARY, OVER_THREE], ids=["binary", "three"])
@pytest.mark.parametrize("waves", [1, 2, 4])
def test_the_variance_of_a_person_s_mean_is_that_of_all_reports(
    design: Permanent, waves: int
) -> None:
    prior, B = np.array([0.7, 0.3]), design.left_inverse()
    means = np.zeros(2)
    squares = np.zeros(2)
    for reports, chance in people(design, prior, waves).items():
        weight = B[:, list(reports)].mean(axis=1)
        means += chance * weight
        squares += chance * weight**2
    np.testing.assert_allclose(variance_of_waves(design, prior, waves), squares - means**2)
    if waves == 1:
        np.testing.assert_allclose(variance_of_waves(design, prior, 1), design.variance(prior))


def test_waves_without_end_leave_the_noise_of_the_first_stage() -> None:
    found = variance_of_waves(BINARY, [0.7, 0.3], 10**12)
    np.testing.assert_allclose(found, pp.Warner("a", 0.8).variance([0.7, 0.3]))
    with pytest.raises(InputError, match=r"^waves: got 0; a whole number of 1 or more"):
        variance_of_waves(BINARY, [0.7, 0.3], 0)


def drawn_waves(n: int, t: int, seed: int) -> list[pp.Reports]:
    """Reports of the same n people in t waves, three tenths of whom have the trait."""
    stream = pp.Stream.from_seed(seed)
    stages = Permanent(pp.Warner("a", 0.75), pp.Warner("a", 0.9))
    true = (stream.generator(9).random((n, 1)) < 0.3).astype(np.int64)
    kept = stages.first.sample(true, stream.child(0), 0)
    book = make_codebook(["a"], [2])
    return [
        reports_of(stages.again.sample(kept, stream.child(1, wave), 0), book, stages)
        for wave in range(t)
    ]


@pytest.mark.slow
def test_intervals_cover_where_those_of_as_many_people_do_not() -> None:
    repeats, stages = 600, Permanent(pp.Warner("a", 0.75), pp.Warner("a", 0.9))
    covered = {1.0: 0, 0.0: 0}
    values, errors = [], []
    for seed in range(repeats):
        waves = drawn_waves(300, 4, seed)
        for overlap in covered:
            found = pp.estimate_waves(waves, {"a": "1"}, design=stages, overlap=overlap)
            low, high = found.interval()
            covered[overlap] += low <= 0.3 <= high
        values.append(found.value)
        errors.append(pp.estimate_waves(waves, {"a": "1"}, design=stages).standard_error)
    # Four standard errors of a coverage of .95: 570 +- 21.
    assert abs(covered[1.0] - 570) <= 22
    assert covered[0.0] < 500
    exact = math.sqrt(variance_of_waves(stages, [0.7, 0.3], 4)[1] / 300)
    assert np.mean(errors) == pytest.approx(exact, rel=0.02)
    assert np.std(values) == pytest.approx(exact, rel=4 / math.sqrt(2 * repeats))


def test_one_wave_is_the_estimate_of_its_reports() -> None:
    (wave,) = drawn_waves(500, 1, 1)
    stages = Permanent(pp.Warner("a", 0.75), pp.Warner("a", 0.9))
    found = pp.estimate_waves([wave], "a", design=stages)
    plain = pp.estimate(wave, ["a"], design=stages)
    np.testing.assert_allclose(found.values, plain.values)
    np.testing.assert_allclose(found.variance, plain.variance)
    assert found.labels == plain.labels and found.n == 500


STAGED = [
    design
    for family in ("permanent", "product")
    for design in EXAMPLES[family]
    if permanent_blocks(design) and not design.undefined
]


@pytest.mark.parametrize("design", STAGED, ids=lambda design: f"{design.id}-{design.shape}")
def test_one_wave_of_any_stages_is_estimated_as_ever(design: Design) -> None:
    """The whole block's weights here, and there those of what it is lumped to."""
    book = make_codebook(design.attributes, design.shape)
    wave = design.disguise(random_records(book, 200, 5), pp.Stream.from_seed(6))
    for over in (*([name] for name in design.attributes), list(design.attributes)):
        found = pp.estimate_waves([wave], over, design=design)
        plain = pp.estimate(wave, over, design=design)
        np.testing.assert_allclose(found.values, plain.values, atol=1e-9)
        unbiased = plain.variance if plain.unbiased is None else plain.unbiased
        np.testing.assert_allclose(found.variance, unbiased, rtol=1e-6, atol=1e-12)


def test_no_overlap_is_the_estimate_of_as_many_people() -> None:
    waves = drawn_waves(400, 3, 2)
    stages = Permanent(pp.Warner("a", 0.75), pp.Warner("a", 0.9))
    together = reports_of(np.concatenate([wave.codes for wave in waves]), waves[0].codebook, stages)
    plain = pp.estimate(together, ["a"], design=stages)
    apart = pp.estimate_waves(waves, "a", design=stages, overlap=0)
    np.testing.assert_allclose(apart.values, plain.values)
    np.testing.assert_allclose(apart.variance, plain.variance)
    errors = [
        pp.estimate_waves(waves, "a", design=stages, overlap=share).variance[1]
        for share in (0, 0.3, 0.6, 1)
    ]
    assert errors == sorted(errors) and errors[-1] > 2 * errors[0]


def test_a_variance_stays_within_what_is_possible() -> None:
    # Two reports that differ in each of two waves: the share of m^2 is estimated below that of p^2.
    found = pooled(BINARY, [[0, 0, 1], [0, 0, 0]], {"a": "1"})
    alone = pooled(BINARY, [[0, 0, 1], [0, 0, 0]], {"a": "1"}, overlap=0)
    assert found.variance is not None and alone.variance is not None
    assert found.variance >= alone.variance * 0.999
    assert math.isnan(pooled(BINARY, [[0], [1]], {"a": "1"}).standard_error)


@pytest.mark.parametrize(
    ("waves", "options", "error", "said"),
    [
        ([], {}, InputError, "waves: got .*; a list with the reports of each"),
        ("x", {}, InputError, "waves: got 'x'; a list with the reports of each"),
        ([[0], []], {}, RecordsError, "wave 2: there are no reports"),
        ([[0]], {"overlap": 1.5}, InputError, "overlap: got 1.5; "),
        ([[0]], {"over": []}, InputError, "over: got none; distinct attributes"),
        ([[0]], {"over": ["a", "a"]}, InputError, "over: got a, a; distinct attributes"),
    ],
)
def test_what_cannot_be_pooled_is_refused(
    waves: Any, options: dict[str, Any], error: type[Exception], said: str
) -> None:
    book = make_codebook(["a"], [2])
    made = waves
    if isinstance(waves, list):
        made = [reports_of(np.array(w, int).reshape(-1, 1), book, BINARY) for w in waves]
    over = options.pop("over", "a")
    with pytest.raises(error, match=f"^{said}"):
        pp.estimate_waves(made, over, design=BINARY, **options)


DESIGN = """
id = "permanent"
first = {id = "warner", attribute = "used", theta = 0.85}
again = {id = "warner", attribute = "used", theta = 0.8}
"""
FILES = ("--codebook", "codebook.toml", "--design", "design.toml")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A codebook, a design, and the reports of one wave in one file, of the other in two."""
    monkeypatch.chdir(tmp_path)
    Path("codebook.toml").write_text(
        'attribute = [{name = "used", categories = ["no", "yes"]}]', encoding="utf-8"
    )
    Path("design.toml").write_text(DESIGN, encoding="utf-8")
    for name, no, yes in (("one", 700, 300), ("two/a", 350, 150), ("two/b", 340, 160)):
        Path(name).parent.mkdir(exist_ok=True)
        rows = ["used", *["no"] * no, *["yes"] * yes]
        Path("answers.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
        assert main(["disguise", "answers.csv", *FILES, "--out", f"{name}.parquet"]) == 0
    return tmp_path


def test_files_of_waves_are_estimated_as_their_reports_are(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sources = ["one.parquet", "two"]
    capsys.readouterr()
    assert main(["estimate", *sources, *FILES, "--over", "used", "--waves", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    book = pp.Codebook.read("codebook.toml")
    design = pp.Design.read("design.toml", book)
    waves = [pp.load_reports(each, book, design) for each in sources]
    assert [len(wave) for wave in waves] == [1_000, 1_000]
    expected = pp.estimate_waves(waves, "used")
    assert found["waves"] == 2 and found["intervals"] == "Wald"
    assert [cell["proportion"] for cell in found["cells"]] == expected.values.tolist()
    errors = [cell["standard_error"] for cell in found["cells"]]
    assert errors == pytest.approx(np.sqrt(expected.variance).tolist())
    assert any(line.startswith("waves: 2 of the same people") for line in found["statements"])
    # Without the option, what is lacking is said.
    assert main(["estimate", *sources, *FILES, "--over", "used"]) == 0
    assert "errors are larger; ask with --waves" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--method", "mle"], "--waves: takes plain reports by inversion, no --method"),
        (["--estimand", "file"], "--waves: takes plain reports by inversion, no --estimand"),
        (["--where", "used=yes,used=no"], "--waves: takes plain reports by inversion, no --where"),
        (["--weights", "w"], "--waves: takes plain reports by inversion, no --weights"),
    ],
)
def test_waves_take_plain_reports(
    folder: Path, capsys: pytest.CaptureFixture[str], options: list[str], said: str
) -> None:
    capsys.readouterr()
    command = ["estimate", "one.parquet", "two", *FILES, "--over", "used", "--waves", *options]
    assert main(command) == 2
    line = capsys.readouterr().err
    assert said in " ".join(line.split()) and "Traceback" not in line


def test_counts_are_no_waves(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["count", "one.parquet", *FILES, "--out", "counts.parquet"]) == 0
    capsys.readouterr()
    command = ["estimate", "counts.parquet", "two", *FILES, "--over", "used", "--waves"]
    assert main(command) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "counts.parquet: holds counts; --waves takes the reports of each wave" in said


def test_an_audit_says_what_waves_give_away_together() -> None:
    own = Permanent(pp.Warner("a", 0.85), pp.Warner("a", 0.8))
    block, *_, whole = pp.audit.audit(pp.Product([own, pp.Warner("b", 0.75)]), {})
    found = {each.measure: each for each in block.findings}
    assert found["epsilon"].value == pytest.approx(math.log(0.71 / 0.29))
    r = 16.0  # odds of the symbol after two reports alike
    two = math.log((0.85 * r + 0.15) / (0.85 + 0.15 * r))
    assert found["epsilon, 2 waves"].value == pytest.approx(two)
    last = found["epsilon, any number of waves"]
    assert last.value == pytest.approx(math.log(0.85 / 0.15))
    assert "at most 5.667 times likelier" in last.sentence
    both = {each.measure: each for each in whole.findings}
    assert both["epsilon, 2 waves"].value == pytest.approx(two + 2 * math.log(3))
    assert math.isinf(both["epsilon, any number of waves"].value or 0)
    assert "disguised again in each" in both["epsilon, any number of waves"].sentence
    sure = Permanent(Mangat("a", 0.7), pp.Warner("a", 0.8))
    (only,) = pp.audit.audit(sure, {})
    said = {each.measure: each for each in only.findings}["epsilon, any number of waves"]
    assert said.value == math.inf and "rule out an answer" in said.sentence
    (plain,) = pp.audit.audit(pp.Warner("a", 0.8), {})
    assert not [each for each in plain.findings if "wave" in each.measure]


def test_reports_of_another_design_are_refused() -> None:
    book = make_codebook(["a"], [2])
    one = reports_of(np.array([[0], [1]]), book, BINARY)
    other = reports_of(np.array([[0], [1]]), book, pp.Warner("a", 0.8))
    with pytest.raises((RecordsError, DesignError)):
        pp.estimate_waves([one, other], "a", design=BINARY)
