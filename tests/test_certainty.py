"""What a report makes certain: known designs by hand, and any matrix by enumeration."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ppdm_dask as pp
from ppdm_dask.audit.certainty import Words, _is_small, bare_attributes, certainties, of_matrix
from ppdm_dask.designs import Flip, ForcedResponse, Identity, Kuk
from ppdm_dask.designs.onesided import Mangat, Triangular
from ppdm_dask.designs.subset import SubsetSelection
from ppdm_dask.designs.unary import UnaryEncoding

LABELS = {"a": ["nein", "ja"], "b": ["nein", "ja"], "c": ["never", "once", "often"]}
PERMUTATION = np.eye(4)[[2, 0, 3, 1]]
XOR = np.array([[1, 0, 0, 1], [0, 1, 1, 0], [0, 1, 1, 0], [1, 0, 0, 1]]) / 2


def said(design: pp.Design) -> list[str]:
    return [f"{each.degree}: {each.sentence}" for each in certainties(design, LABELS)]


@pytest.mark.parametrize(
    "design",
    [
        UnaryEncoding("c", 3, 1.0, 0.0),
        UnaryEncoding("c", 3, 0.0, 1.0),
        SubsetSelection("c", 3, 1, 1.0),
        SubsetSelection("c", 3, 2, 0.0),
        pp.RRMatrix(["c"], np.eye(3)[[1, 2, 0]]),
        pp.KaryResponse("c", 3, 1.0),
        Identity("c", [3]),
        UnaryEncoding("c", 5_000, 1.0, 0.0),
        pp.KaryResponse("c", 5_000, 1.0),
    ],
    ids=lambda design: f"{design.id}-{design.n_true}",
)
def test_whatever_tells_the_truth_is_seen(design: pp.Design) -> None:
    if design.n_true == 3:
        assert said(design) == ["certain: every report gives away the answer to 'c' for certain"]
    else:
        assert [each.degree for each in certainties(design)] == ["certain"]


def test_functions_of_two_answers() -> None:
    assert said(pp.RRMatrix(["a", "b"], PERMUTATION, [2, 2])) == [
        "certain: every report gives away the answer to 'a' for certain",
        "certain: every report gives away the answer to 'b' for certain",
    ]
    equal = ["certain: every report gives away for certain whether 'a' and 'b' are equal"]
    assert said(pp.RRMatrix(["a", "b"], XOR, [2, 2])) == equal
    assert said(Flip(["a", "b"], 0.8)) == equal  # an answer and its opposite agree alike
    mostly = 0.994 * XOR + 0.006 * (0.5 - XOR)
    assert said(pp.RRMatrix(["a", "b"], mostly, [2, 2])) == [
        "nearly: every report gives away with 99.0 % or more whether 'a' and 'b' are equal"
    ]
    # One kind of report only, of the two that the other answers give too.
    one_sided = np.array([[0.5, 0, 0, 0.5], [0.5, 1, 1, 0.5]])
    assert said(pp.RRMatrix(["a", "b"], one_sided, [2, 2])) == [
        "certain: a report 0 makes it certain that 'a' and 'b' are ('nein', 'nein') or ('ja', 'ja')"
    ]
    blocks = np.kron(np.eye(2), [[0.7, 0.3], [0.3, 0.7]])
    labels = {"d": ["north", "east", "south", "west"]}
    (found,) = [x for x in certainties(pp.RRMatrix(["d"], blocks), labels) if x.gives_away]
    assert found.sentence == (
        "every report gives away for certain which of these holds of 'd': "
        "'north' or 'east' | 'south' or 'west'"
    )


def test_one_sided_designs_name_the_answer_and_the_report() -> None:
    no = "certain: a report 'nein' makes 'nein' certain (on 'a')"
    assert said(Mangat("a", 0.7)) == [no]
    assert said(Triangular("a", 0.3)) == [no]
    assert said(ForcedResponse("a", 0.7, [0, 1])) == [no]
    assert said(ForcedResponse("a", 0.7, [1, 0])) == [
        "certain: a report 'ja' makes 'ja' certain (on 'a')"
    ]
    assert said(Kuk("a", 0.98, 0.02)) == [  # 49 to 1
        "likely: a report 'nein' makes 'nein' 98.0 % likely (on 'a')",
        "likely: a report 'ja' makes 'ja' 98.0 % likely (on 'a')",
    ]
    # Five red cards: .8^5 against .2^5, 1024 to 1.
    assert said(Kuk("a", 0.8, 0.2, 5))[:2] == [
        "nearly: a report 0 makes 'nein' 99.9 % likely (on 'a')",
        "nearly: a report 5 makes 'ja' 99.9 % likely (on 'a')",
    ]


def test_what_is_ruled_out_is_said_and_is_no_certainty() -> None:
    P = [[0.5, 0.5, 0], [0.5, 0.25, 0.5], [0, 0.25, 0.5]]
    assert said(pp.RRMatrix(["c"], P)) == [
        "ruled out: a report 'never' rules out 'often' (on 'c')",
        "ruled out: a report 'often' rules out 'never' (on 'c')",
    ]
    assert said(SubsetSelection("c", 3, 2, 1.0)) == [
        "ruled out: a report rules out the answers that it does not hold (on 'c')"
    ]
    assert said(pp.KaryResponse("c", 3, 0.0)) == [
        "ruled out: a report rules out the answer that it names (on 'c')"
    ]


def test_where_nothing_is_certain_nothing_is_said() -> None:
    many = [f"x{i}" for i in range(40)]
    for design in (
        pp.Warner("a", 0.8),
        pp.Warner("a", 0.1),
        pp.KaryResponse("c", 3, epsilon=2.0),
        UnaryEncoding("c", 3, epsilon=2.0),
        SubsetSelection("c", 50, epsilon=3.0),
        UnaryEncoding("c", 2_000, epsilon=3.0),
        pp.UnrelatedQuestion(["a", "b"], q=0.6),
        pp.UnrelatedQuestion(many, q=0.6),  # its ratios are huge, its answers are not certain
    ):
        assert said(design) == []


def test_the_limits_of_nearly_and_likely() -> None:
    assert {x.degree for x in certainties(pp.Warner("a", 0.99))} == {"likely"}
    assert {x.degree for x in certainties(pp.Warner("a", 0.991))} == {"nearly"}
    assert {x.degree for x in certainties(pp.Warner("a", 0.009))} == {"nearly"}
    assert certainties(pp.Warner("a", 0.95)) == []
    # A report that holds one answer alone: e^epsilon to 1 against each of the k - 1 others.
    for k in (2, 3, 12):
        at = math.log(99 * (k - 1))
        for epsilon, nearly in ((at - 0.01, False), (at + 0.01, True)):
            found = certainties(UnaryEncoding("c", k, epsilon=epsilon))
            assert any(each.gives_away for each in found) == nearly


def test_only_columns_that_are_the_truth_are_bare() -> None:
    kept = np.kron(np.eye(2), [[0.8, 0.2], [0.2, 0.8]])
    assert bare_attributes(pp.RRMatrix(["a", "b"], kept, [2, 2])) == ("a",)
    for design in (pp.RRMatrix(["a", "b"], PERMUTATION, [2, 2]), pp.Warner("a", 0.0)):
        assert bare_attributes(design) == ()
    assert bare_attributes(pp.Product([Identity(["a", "b"], [2, 2]), Flip(["d"], 1.0)])) == (
        "a",
        "b",
        "d",
    )
    assert bare_attributes(pp.KaryResponse("c", 9_999, 1.0)) == ("c",)


def test_acceptance_names_attributes_or_labels() -> None:
    (one,) = certainties(Mangat("a", 0.7), LABELS)
    assert one.accepted(["a"])
    assert one.accepted(["nein"])
    assert one.accepted(["a=nein"])
    assert not one.accepted(["ja", "b", "a=ja"])
    (both,) = certainties(Flip(["a", "b"], 0.8), LABELS)
    assert both.accepted(["b", "a"])
    assert not both.accepted(["a"])


@st.composite
def channels(draw: st.DrawFn) -> tuple[np.ndarray, tuple[int, ...]]:
    """Matrices with many zeros over one or two attributes."""
    shape = draw(st.sampled_from([(2,), (3,), (4,), (2, 2), (2, 3), (3, 2)]))
    n, m = math.prod(shape), draw(st.integers(2, 6))
    entry = st.sampled_from([0, 0, 0, 1, 1, 2, 5])
    rows = draw(st.lists(st.lists(entry, min_size=n, max_size=n), min_size=m, max_size=m))
    P = np.array(rows, float)
    P[draw(st.integers(0, m - 1)), P.sum(axis=0) == 0] = 1
    return P / P.sum(axis=0), shape


@settings(max_examples=60)
@given(channels())
def test_any_matrix_agrees_with_enumeration(channel: tuple[np.ndarray, tuple[int, ...]]) -> None:
    """Certain labels by hand; given-away functions by all ways to part the categories in two."""
    P, shape = channel
    names = ["a", "b"][: len(shape)]
    design = pp.RRMatrix(names, P, shape)
    codes = list(np.ndindex(*shape))
    found = certainties(design)
    certain = set()
    for y, (axis, name) in itertools.product(range(len(P)), enumerate(names)):
        left = {codes[x][axis] for x in np.flatnonzero(P[y])}
        if len(left) == 1:
            certain.add((name, str(left.pop())))
    told = {
        (name, label)
        for each in found
        if each.degree == "certain" and len(each.attributes) == 1
        for name in each.attributes
        for label in (each.labels or map(str, range(shape[names.index(name)])))
        if "which of these" not in each.sentence
    }
    assert told == certain
    n = len(codes)
    functions = [
        side
        for size in range(1, n)
        for side in map(set, itertools.combinations(range(n), size))
        if all(set(np.flatnonzero(row)) <= side or not set(np.flatnonzero(row)) & side for row in P)
    ]
    # Some function is given away by all reports if and only if something says so of all reports.
    assert bool(functions) == any(
        each.degree == "certain" and each.sentence.startswith("every report") for each in found
    )


@settings(max_examples=30)
@given(st.floats(0, 1), st.integers(2, 4), st.integers(0, 3))
def test_closed_forms_agree_with_a_look_through_the_matrix(p: float, k: int, kind: int) -> None:
    design: pp.Design = [
        lambda: pp.KaryResponse("a", k, p),
        lambda: UnaryEncoding("a", k, p, 0.3),
        lambda: SubsetSelection("a", k, max(k - 2, 1), p),
        lambda: ForcedResponse("a", p, np.arange(k) / (k * (k - 1) / 2)),
    ][kind]()
    assert _is_small(design)
    dense = {each.degree for each in of_matrix(Words(design, {}), design.matrix())}
    closed = {each.degree for each in certainties(design)}
    assert closed & {"certain", "nearly"} == dense & {"certain", "nearly"}
