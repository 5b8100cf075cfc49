"""Second moments of an event's weight, against what defines them: a line, and the nearest point."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from strategies import make_codebook

from ppdm_dask import Product, UnrelatedQuestion
from ppdm_dask.inference.cell_laws import cell_laws, event_laws
from ppdm_dask.inference.laws import EventLaw

WEIGHTS = (np.array(-1.0), np.array(2.0))


def law_of(inside: tuple[float, float], outside: tuple[float, float]) -> EventLaw:
    low, high = (np.array(end) for end in inside)
    least, most = (np.array(end) for end in outside)
    return EventLaw((low, high), (least, most), WEIGHTS)


@pytest.mark.parametrize("p", [0.0, 0.1, 0.5, 0.85, 1.0])
@pytest.mark.parametrize("shift", [-0.15, 0.0, 0.2])
def test_second_moments_are_the_pair_nearest_the_middles_that_the_reports_allow(p, shift) -> None:
    inside, outside = (1.5, 3.5), (0.25, 1.75)
    middle = np.array([2.5, 1.0])
    square = p * middle[0] + (1 - p) * middle[1] + shift
    law = law_of(inside, outside)
    found = np.array(law.second_moments(np.array(p), np.array(square)))
    assert p * found[0] + (1 - p) * found[1] == pytest.approx(square, rel=1e-12)
    # Any other pair on the line is farther from the middles.
    distance = np.hypot(*(found - middle))
    for step in (-0.5, -1e-3, 1e-3, 0.5):
        there = found + step * np.array([1 - p, -p])
        assert np.hypot(*(there - middle)) > distance


@pytest.mark.parametrize(("square", "end"), [(90.0, 1), (-90.0, 0)])
def test_second_moments_stay_within_their_ranges(square: float, end: int) -> None:
    inside, outside = (1.5, 3.5), (0.25, 1.75)
    found = law_of(inside, outside).second_moments(np.array(0.4), np.array(square))
    assert [float(each) for each in found] == [inside[end], outside[end]]


def test_ranges_that_are_points_need_no_reports() -> None:
    law = law_of((2.0, 2.0), (0.5, 0.5))
    for square in (-3.0, 1.1, 7.0, np.nan, np.inf):
        found = law.second_moments(np.array(0.3), np.array(square))
        assert [float(each) for each in found] == [2.0, 0.5]


def test_without_a_mean_square_second_moments_are_the_middles() -> None:
    found = law_of((1.0, 3.0), (0.0, 1.0)).second_moments(np.array(0.3), np.array(np.nan))
    assert [float(each) for each in found] == [2.0, 0.5]
    # An event that no truth is in has a range from inf to -inf.
    none = law_of((np.inf, -np.inf), (0.0, 1.0)).second_moments(np.array(0.0), np.array(0.75))
    assert [float(each) for each in none] == [0.0, 0.75]


PARTITIONS = [("a", "b", "c"), ("ab", "c"), ("a", "bc"), ("ac", "b"), ("abc",)]


@pytest.mark.parametrize("blocks", PARTITIONS)
def test_laws_are_known_unless_a_condition_shares_a_block_with_the_event(blocks) -> None:
    design = Product([UnrelatedQuestion(list(names), 0.6) for names in blocks])
    book = make_codebook(["a", "b", "c"], [2, 2, 2])
    yes = np.array([False, True])
    for names, where in itertools.product(("a", "b", "ab", "ac", "abc"), ("", "a", "b", "c", "bc")):
        shares = any({*names} & {*block} and {*where} & {*block} for block in blocks)
        condition = dict.fromkeys(where, yes)
        single = event_laws(design, book, dict.fromkeys(names, yes), condition)
        cells = cell_laws(design, book, tuple(names), condition)
        assert (single.law is None, cells.law is None) == (shares, shares)
        # A cell is ruled out where it says no to what the condition says yes to.
        every = itertools.product((False, True), repeat=len(names))
        plain = [
            any(name in where and not says for name, says in zip(names, cell, strict=True))
            or {*names} <= {*where}
            for cell in every
        ]
        assert cells.decided.tolist() == plain
        assert single.decided.tolist() == [{*names} <= {*where}]
