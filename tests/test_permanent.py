"""A permanent first stage: RAPPOR's formulas, the law of several waves, labels, refusals."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import ppdm_dask as pp
from ppdm_dask.designs import Design, Kuk, Mangat, Permanent, SubsetSelection
from ppdm_dask.designs.permanent import epsilon_of_waves, lasting
from ppdm_dask.errors import DesignError

SKEWED = np.array([[0.6, 0.2, 0.1], [0.3, 0.7, 0.2], [0.1, 0.1, 0.7]])
TALL = np.array([[0.6, 0.1], [0.3, 0.2], [0.1, 0.7]])


@pytest.mark.parametrize(("f", "p", "q"), [(0.5, 0.5, 0.75), (0.25, 0.3, 0.6), (0.75, 0.2, 0.9)])
def test_one_bit_of_rappor(f: float, p: float, q: float) -> None:
    """q* and p*, and both epsilons, as [Rappor]_ states them for a bit."""
    again = pp.RRMatrix("bit", [[1 - p, 1 - q], [p, q]])
    design = Permanent(pp.Warner("bit", 1 - f / 2), again)
    q_star = f / 2 * (p + q) + (1 - f) * q
    p_star = f / 2 * (p + q) + (1 - f) * p
    assert design.matrix()[1] == pytest.approx([p_star, q_star], abs=1e-15)
    ratios = (q_star / p_star, (1 - p_star) / (1 - q_star))
    assert design.epsilon() == pytest.approx(math.log(max(ratios)), rel=1e-12)
    assert design.epsilon_of_waves(1).value == pytest.approx(design.epsilon(), rel=1e-12)
    lasts = design.epsilon_of_waves(None)
    assert lasts.value == pytest.approx(math.log((1 - f / 2) / (f / 2)), rel=1e-12)
    assert lasts.exact


def by_brute_force(design: Permanent, waves: int) -> float:
    """Log of the largest ratio, report by report and answer by answer."""
    P1, P2 = design.first.matrix(), design.again.matrix()
    worst = 0.0
    for reports in itertools.product(range(len(P2)), repeat=waves):
        law = [
            sum(P1[z, x] * math.prod(P2[y, z] for y in reports) for z in range(len(P1)))
            for x in range(P1.shape[1])
        ]
        if max(law) > 0:
            worst = max(worst, math.inf if min(law) <= 0 else math.log(max(law) / min(law)))
    return worst


CASES = [
    Permanent(pp.Warner("a", 0.75), pp.Warner("a", 0.8)),
    Permanent(pp.RRMatrix("a", SKEWED), pp.KaryResponse("a", 3, 0.6)),
    Permanent(pp.RRMatrix("a", TALL), pp.RRMatrix("a", SKEWED)),
    Permanent(pp.KaryResponse("a", 3, 0.7), pp.RRMatrix("a", np.eye(3)[[1, 2, 0]])),
    Permanent(
        pp.RRMatrix("a", SKEWED), pp.RRMatrix("a", [[0.5, 0.5, 0], [0.5, 0, 1], [0, 0.5, 0]])
    ),
]


@pytest.mark.parametrize("design", CASES, ids=lambda d: f"{d.first.id}-{d.again.id}")
def test_epsilon_of_some_waves_is_that_of_all_their_reports(design: Permanent) -> None:
    found = [design.epsilon_of_waves(t) for t in (1, 2, 3, 4, 40)]
    for waves, each in enumerate(found[:4], 1):
        assert each.exact
        assert each.value == pytest.approx(by_brute_force(design, waves), rel=1e-9)
        # Neither more than the symbol says, nor than the waves one by one, given the symbol.
        bound = min(design.first.epsilon(), waves * design.again.epsilon())
        assert each.value <= bound * (1 + 1e-12)
    values = [each.value for each in found]
    assert values == sorted(values)
    assert values[-1] <= design.epsilon_of_waves(None).value == design.first.epsilon()


def test_two_binary_stages_have_a_closed_form() -> None:
    """All reports alike are the worst: odds r^t of the symbol, and theta of the first stage."""
    design = Permanent(pp.Warner("a", 0.75), pp.Warner("a", 0.8))
    for t in (1, 2, 7, 30):
        r = 4.0**t
        expected = math.log((0.75 * r + 0.25) / (0.75 + 0.25 * r))
        assert design.epsilon_of_waves(t).value == pytest.approx(expected, rel=1e-12)


def test_too_many_ways_are_bounded() -> None:
    k = 60
    design = Permanent(pp.KaryResponse("a", k, epsilon=2.0), pp.KaryResponse("a", k, epsilon=0.3))
    assert design.epsilon_of_waves(2).exact
    four, many = design.epsilon_of_waves(5), design.epsilon_of_waves(50)
    assert not four.exact
    assert four.value == pytest.approx(1.5, rel=1e-9)
    assert many.value == pytest.approx(2.0, rel=1e-9)


def test_symbols_that_are_reported_alike_leave_a_bound() -> None:
    blind = Permanent(pp.Warner("a", 0.75), pp.Warner("a", 0.5)).epsilon_of_waves(None)
    assert not blind.exact


def test_blocks_without_a_permanent_stage_add_up() -> None:
    own = CASES[0]
    design = pp.Product([own, pp.Warner("b", 0.8)])
    found = epsilon_of_waves(design, 3)
    assert found.value == pytest.approx(own.epsilon_of_waves(3).value + 3 * math.log(4))
    assert math.isinf(epsilon_of_waves(design, None).value)
    both = pp.Product([own, Permanent(pp.Warner("b", 0.6), pp.Warner("b", 0.9))])
    assert epsilon_of_waves(both, None).value == pytest.approx(math.log(3) + math.log(1.5))
    assert lasting(both) == pp.Product([pp.Warner("a", 0.75), pp.Warner("b", 0.6)])
    plain = pp.Warner("a", 0.8)
    assert lasting(plain) is plain


def test_reports_of_two_waves_share_the_permanent_symbol() -> None:
    """The symbol of the same draws is kept, and disguised afresh."""
    design = CASES[0]
    n, stream = 40_000, pp.Stream.from_seed(3)
    codes = np.zeros((n, 1), np.int64)
    kept = design.first.sample(codes, stream.child(0), 0)
    waves = [design.again.sample(kept, pp.Stream.from_seed(seed), 0)[:, 0] for seed in (4, 5)]
    assert (design.sample(codes, stream, 0)[:, 0] != waves[0]).any()
    both = np.bincount(2 * waves[0].astype(int) + waves[1], minlength=4) / n
    P1, P2 = design.first.matrix()[:, 0], design.again.matrix()
    expected = np.einsum("z,az,bz->ab", P1, P2, P2).ravel()
    # Five standard errors of each share.
    assert (abs(both - expected) < 5 * np.sqrt(expected * (1 - expected) / n)).all()


def test_stages_are_put_into_one_order_by_label() -> None:
    first = pp.RRMatrix("a", SKEWED, categories=["x", "y", "z"])
    turned = [2, 0, 1]
    again = pp.RRMatrix("a", SKEWED[np.ix_(turned, turned)], categories=["z", "x", "y"])
    design = Permanent(first, again)
    np.testing.assert_array_equal(design.matrix(), Permanent(first, first).matrix())
    assert design == Permanent(first, first)
    assert design.categories == (("x", "y", "z"),)
    with pytest.raises(DesignError, match=r"design on 'a': the codebook has no category"):
        Permanent(first, pp.RRMatrix("a", SKEWED, categories=["z", "x", "w"]))


def test_labels_that_lack_are_asked_for_by_stage() -> None:
    book = pp.Codebook((pp.Attribute("a", ("x", "y", "z")),))
    for design, line in (
        (Permanent(pp.RRMatrix("a", SKEWED), pp.KaryResponse("a", 3, 0.6)), "add in first: cat"),
        (Permanent(pp.KaryResponse("a", 3, 0.6), pp.RRMatrix("a", SKEWED)), "add in again: cat"),
    ):
        with pytest.raises(DesignError, match=line):
            design.bind(book)
        assert design.bind(book, positions=True) == design


STAGE = pp.Warner("a", 0.8)


@pytest.mark.parametrize(
    ("first", "again", "said"),
    [
        (STAGE, "warner", "again: got 'warner'; a design is needed"),
        (pp.Product([STAGE]), STAGE, "first: got 'product'; a design of one block is needed"),
        (STAGE, CASES[0], "again: got 'permanent'; a design of one block is needed"),
        (SubsetSelection("a", 3, epsilon=1.0), STAGE, "first: reports of 'subset' are sets"),
        (pp.Identity("a", [2]), STAGE, "first: 'identity' keeps the answer itself"),
        (STAGE, pp.Warner("b", 0.8), "again: is on 'b'; first is on 'a'"),
        (STAGE, pp.KaryResponse("a", 3, 0.6), r"again: has \[3\] categories; .* has \[2\] symbols"),
        (
            pp.RRMatrix("a", TALL),
            pp.RRMatrix("a", SKEWED, categories=["x", "y", "z"]),
            "again: states labels; the permanent symbols of 'a' are no categories",
        ),
        (
            pp.RRMatrix("a", TALL),
            pp.RRMatrix("a", TALL.T / TALL.T.sum(axis=0)),
            "again: reports of 'a' have as many symbols as there are categories, but are not",
        ),
        (
            Mangat("a", 0.7, trait="yes"),
            Mangat("a", 0.7, trait="no"),
            "categories: missing; two stages with two traits need them",
        ),
        (
            pp.KaryResponse("a", 5_000, 0.5),
            pp.KaryResponse("a", 5_000, 0.5),
            r"first, again: too large for a dense matrix \(at most 4096",
        ),
    ],
)
def test_stages_that_do_not_fit_are_refused(first: Any, again: Any, said: str) -> None:
    with pytest.raises(DesignError, match=f"^{said}"):
        Permanent(first, again)


def test_a_stage_of_a_file_is_named() -> None:
    good: Design = pp.design_from_config(
        {
            "id": "permanent",
            "first": {"id": "warner", "attribute": "a", "theta": "3/4"},
            "again": {"id": "kuk", "attribute": "a", "p1": 0.8, "p2": 0.3, "repeats": 2},
        }
    )
    assert good == Permanent(pp.Warner("a", 0.75), Kuk("a", 0.8, 0.3, 2))
    with pytest.raises(DesignError, match=r"^first: theta: got 3; a probability"):
        pp.design_from_config(
            {
                "id": "permanent",
                "first": {"id": "warner", "attribute": "a", "theta": 3},
                "again": {"id": "warner", "attribute": "a", "theta": 0.5},
            }
        )
