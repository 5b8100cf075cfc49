"""Designs against arithmetic that cannot round, and against enumeration of every report."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from types import ModuleType
from typing import Any

import checks
import numpy as np
import pytest
from strategies import codebook_of, random_records

from ppdm_dask import (
    KaryResponse,
    NotInvertible,
    Product,
    RRMatrix,
    Stream,
    UnrelatedQuestion,
    Warner,
)
from ppdm_dask.audit.certainty import _is_small, certainties
from ppdm_dask.designs import (
    Design,
    Flip,
    ForcedResponse,
    Kuk,
    SubsetSelection,
    UnaryEncoding,
    base,
    flip,
    subset,
    unary,
)
from ppdm_dask.designs.inverses import condition, left_inverse
from ppdm_dask.designs.mixture import Mixture
from ppdm_dask.designs.parameters import shape_of
from ppdm_dask.designs.pram import two_stage
from ppdm_dask.errors import DesignError
from ppdm_dask.inference.weights import answers_of


def solved(A: list[list[Fraction]], right: list[list[Fraction]]) -> list[list[Fraction]]:
    """A^-1 right, by Gauss and Jordan in rational numbers."""
    rows = [[*a, *b] for a, b in zip(A, right, strict=True)]
    n = len(A)
    for j in range(n):
        pivot = next(i for i in range(j, n) if rows[i][j])
        rows[j], rows[pivot] = rows[pivot], rows[j]
        rows[j] = [value / rows[j][j] for value in rows[j]]
        for i in range(n):
            if i != j:
                rows[i] = [a - rows[i][j] * b for a, b in zip(rows[i], rows[j], strict=True)]
    return [row[n:] for row in rows]


def exact_left_inverse(P: np.ndarray, p0: list[Fraction]) -> np.ndarray:
    """(P' D^-1 P)^-1 P' D^-1 with D = diag(P p0), of the very numbers that P holds."""
    m, k = P.shape
    exact = [[Fraction(float(value)) for value in row] for row in P]
    law = [sum(a * b for a, b in zip(row, p0, strict=True)) for row in exact]
    weighted = [[exact[y][x] / law[y] for y in range(m)] for x in range(k)]
    gram = [
        [sum(weighted[i][y] * exact[y][j] for y in range(m)) for j in range(k)] for i in range(k)
    ]
    return np.array([[float(value) for value in row] for row in solved(gram, weighted)])


@pytest.mark.parametrize("distance", [0.3, 1e-3, 1e-6])
def test_the_left_inverse_of_an_almost_singular_tall_matrix(distance: float) -> None:
    first = np.array([0.375, 0.25, 0.125, 0.25])
    apart = distance * np.array([0.5, -0.25, -0.375, 0.125])
    P = np.column_stack([first, first + apart, [0.125, 0.125, 0.25, 0.5]])
    for p0 in (None, np.array([0.5, 0.125, 0.375])):
        prior = [Fraction(1, 3)] * 3 if p0 is None else [Fraction(float(value)) for value in p0]
        exact = exact_left_inverse(P, prior)
        # Rounding P's entries moves the answer by the condition number, once and not squared.
        allowed = 20 * 2.0**-52 * condition(P, p0) * np.abs(exact).max()
        found = left_inverse(P, p0)
        assert np.abs(found - exact).max() < allowed
        assert np.abs(found @ P - np.eye(3)).max() < 20 * 2.0**-52 * condition(P, p0)


@pytest.mark.parametrize("p0", [None, (0.25, 0.75), (0.875, 0.125)])
def test_the_column_of_a_symbol_that_cannot_occur_is_the_prior(p0) -> None:
    P = np.array([[0.5, 0.1], [0.0, 0.0], [0.3, 0.2], [0.2, 0.7]])
    prior = [0.5, 0.5] if p0 is None else p0
    B = left_inverse(P, None if p0 is None else np.array(p0))
    occurring = exact_left_inverse(P[[0, 2, 3]], [Fraction(value) for value in prior])
    assert B[:, 1] == pytest.approx(np.array(prior), abs=1e-14)
    assert B[:, [0, 2, 3]] == pytest.approx(occurring, abs=1e-13)


def test_a_condition_number_is_told_up_to_the_largest_dense_matrix(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    flat = RRMatrix("a", [[0.3, 0.3], [0.5, 0.5], [0.2, 0.2]])
    monkeypatch.setattr(base, "MAX_DENSE", 3)
    with pytest.raises(NotInvertible) as told:
        flat.require_inverse()
    assert np.shape(told.value.subject) == (3, 2)


def test_a_condition_number_is_told_up_to_512_categories() -> None:
    with pytest.raises(NotInvertible) as told:
        KaryResponse("a", 512, 1 / 512).require_inverse()
    assert np.shape(told.value.subject) == (512, 512)


@pytest.mark.parametrize(
    "design",
    [UnaryEncoding("a", 60, 0.3, 0.3), KaryResponse("a", 513, 1 / 513)],
)
def test_of_more_symbols_than_a_matrix_may_have_no_condition_number_is_told(design) -> None:
    with pytest.raises(NotInvertible, match=r"not invertible: .*\(condition number inf\)") as told:
        design.require_inverse()
    assert told.value.subject is design


@pytest.mark.parametrize(
    ("design", "small"),
    [
        (UnrelatedQuestion(["a", "b"], 0.5, [[0.04] * 25, [0.5, 0.5]]), True),
        (UnrelatedQuestion(list("abcdefghijk"), 0.5), True),  # 2,048 by 2,048 entries
        (UnrelatedQuestion(list("abcdefghijkl"), 0.5), False),
        (SubsetSelection("a", 17, 2, 0.5), True),  # 17 by 2^17
        (SubsetSelection("a", 18, 2, 0.5), False),
        (SubsetSelection("a", 400, 2, 0.5), False),
    ],
)
def test_a_block_is_small_up_to_four_million_entries(design: Design, small: bool) -> None:
    assert _is_small(design) is small


@pytest.mark.parametrize(
    ("module", "design"),
    [
        # 5/8 for the truth and 3/8 for the other one.
        (subset, SubsetSelection("a", 2, 1, p=0.625)),
        (unary, UnaryEncoding("a", 2, 0.625, 0.375)),
        (flip, Flip("a", 0.625)),
    ],
)
def test_the_smallest_difference_that_can_be_inverted(
    module: ModuleType, design: Design, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MIN_DIFFERENCE", 0.25)
    assert not design.undefined
    monkeypatch.setattr(module, "MIN_DIFFERENCE", np.nextafter(0.25, 1))
    assert design.undefined


@pytest.mark.parametrize("reversed_answer", [True, False])
def test_a_report_of_two_answers_that_mostly_means_the_other(reversed_answer: bool) -> None:
    p = 0.04 if reversed_answer else 0.96
    found = certainties(KaryResponse("a", 2, p), {"a": ["no", "yes"]})
    reports = {"yes": "no", "no": "yes"} if reversed_answer else {"no": "no", "yes": "yes"}
    assert {each.sentence for each in found} == {
        f"a report '{report}' makes '{truth}' 96.0 % likely (on 'a')"
        for report, truth in reports.items()
    }
    assert {each.labels for each in found} == {("no",), ("yes",)}
    assert {each.degree for each in found} == {"likely"}


@pytest.mark.parametrize("p", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("q", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("k", [2, 3, 4])
def test_sets_of_sure_bits_say_something_where_a_report_excludes_an_answer(k, p, q) -> None:
    def chance(bits: tuple[int, ...], truth: int) -> float:
        said = [p if x == truth else q for x in range(k)]
        return math.prod(s if bit else 1 - s for bit, s in zip(bits, said, strict=True))

    reports = [
        [chance(bits, truth) for truth in range(k)] for bits in itertools.product((0, 1), repeat=k)
    ]
    excludes = any(max(law) > 0 and min(law) == 0 for law in reports)
    certain = any(sorted(law)[-2] == 0 < max(law) for law in reports)
    found = certainties(UnaryEncoding("a", k, p, q), {"a": [f"l{x}" for x in range(k)]})
    assert bool(found) is excludes
    assert any(each.degree == "certain" for each in found) is certain


@pytest.mark.parametrize("classes", [3, 4, 5, 6])
def test_of_many_classes_the_first_are_listed_and_the_others_counted(classes: int) -> None:
    # Of nine combinations the first are kept apart, and the rest is disguised among itself.
    P, rest = np.eye(9), slice(classes - 1, None)
    P[rest, rest] = 0.5 * P[rest, rest] + 0.5 / (10 - classes)
    labels = {"a": ["x", "y", "z"], "b": ["u", "v", "w"]}
    found = certainties(RRMatrix(["a", "b"], P, [3, 3]), labels)
    (sentence,) = (each.sentence for each in found if each.attributes == ("a", "b"))
    listed = sentence.split(": ")[1].split(" | ")
    apart = [f"({first!r}, {second!r})" for first, second in itertools.product("xyz", "uvw")]
    assert listed[: classes - 1][:4] == apart[: classes - 1][:4]
    assert len(listed) == min(classes, 5)
    assert listed[4:] == ([f"{classes - 4} more"] if classes > 4 else [])


@pytest.mark.parametrize("repeats", [1, 254, 255, 256, 257])
def test_cards_are_counted_in_as_few_bytes_as_hold_them(repeats: int) -> None:
    drawn = Kuk("a", 0.8, 0.3, repeats).sample(np.zeros((3, 1), np.uint8), Stream.from_seed(1), 0)
    assert drawn.dtype == np.min_scalar_type(repeats)


Key = tuple[int, ...]


class Watched:
    """A stream that notes which of its sources are asked for."""

    simulated = True
    fresh = False

    def __init__(
        self, stream: Any, keys: list[tuple[int, ...]], path: tuple[int, ...] = ()
    ) -> None:
        self._stream, self._keys, self._path = stream, keys, path

    def child(self, *key: int) -> Watched:
        return Watched(self._stream.child(*key), self._keys, (*self._path, *key))

    def source(self, *key: int) -> Any:
        self._keys.append((*self._path, *key))
        return self._stream.source(*key)


def is_sampled_whole(design: Design) -> bool:
    """Whether a design has a sampler of its own; sets within a product are drawn block by block."""
    sets = [block.kind == "set" for block in design.blocks]
    return design.n_true <= 64 and (len(sets) == 1 or not any(sets))


SAMPLED = [
    each for examples in checks.EXAMPLES.values() for each in examples if is_sampled_whole(each)
]


@pytest.mark.parametrize("design", SAMPLED, ids=lambda design: design.id)
def test_no_two_draws_of_a_design_share_their_randomness(design: Design) -> None:
    keys: list[Key] = []
    stream = Watched(Stream.from_seed(1), keys)
    records = random_records(codebook_of(design), 70, 0)
    design.sample(records.codes, stream, 0)
    assert len(set(keys)) == len(keys)
    if not design.undefined:
        keys.clear()
        reports = design.disguise(records, Stream.from_seed(0))
        design.sample_inverse(answers_of(reports, design.attributes, design), stream)
        assert len(set(keys)) == len(keys)


MIXTURES = [
    each
    for examples in checks.EXAMPLES.values()
    for design in examples
    for each in design.blocks
    if isinstance(each, Mixture) and each.n_true <= 64
]


@pytest.mark.parametrize("design", MIXTURES, ids=lambda design: design.id)
def test_what_a_mixture_reports_in_place_of_the_truth_has_a_law(design: Mixture) -> None:
    assert [law.shape for law in design.factors] == [(k,) for k in design.shape]
    for law in design.factors:
        assert (law >= 0).all()
        assert law.sum() == pytest.approx(1, abs=1e-12)
    joint = [
        math.prod(each) for each in itertools.product(*(law.tolist() for law in design.factors))
    ]
    plain = [
        [design.mixing * (x == y) + (1 - design.mixing) * joint[y] for x in range(design.n_true)]
        for y in range(design.n_true)
    ]
    assert np.asarray(design.unrelated) == pytest.approx(np.array(joint), abs=1e-15)
    assert design.matrix() == pytest.approx(np.array(plain), abs=1e-15)


def test_the_most_categories_and_combinations_that_are_possible() -> None:
    for sizes in ([2] * 62, [2**20, 2**20, 2**20, 4], [2**20]):
        assert shape_of(sizes, len(sizes)) == tuple(sizes)
    for sizes in ([2] * 61 + [3], [2] * 63, [2**20 + 1]):
        with pytest.raises(DesignError, match="at most 1,048,576 categories and 2\\^62"):
            shape_of(sizes, len(sizes))


@pytest.mark.parametrize("given", ["01", "1/6", 5, 0.5])
def test_forced_answers_have_a_probability_each(given: Any) -> None:
    with pytest.raises(DesignError, match=r"^forced_probability: got .*; one for each category$"):
        ForcedResponse("a", forced_probability=given)


def test_forced_answers_are_stated_in_just_one_way() -> None:
    ways = {"truth": 0.75, "forced": [0.4, 0.6], "forced_probability": [0.1, 0.15]}
    said = {
        (): "exactly one of the two is needed",
        ("truth",): "^forced: missing;",
        ("forced",): "^truth: missing;",
        ("truth", "forced_probability"): "exactly one of the two is needed",
        ("forced", "forced_probability"): "exactly one of the two is needed",
        ("truth", "forced", "forced_probability"): "exactly one of the two is needed",
    }
    for names, message in said.items():
        with pytest.raises(DesignError, match=message):
            ForcedResponse("a", **{name: ways[name] for name in names})
    one = ForcedResponse("a", 0.75, [0.4, 0.6])
    assert ForcedResponse("a", forced_probability=[0.1, 0.15]) == one


@pytest.mark.parametrize("first", [[[0.5, 0.5], [0.3, 0.3], [0.2, 0.2]], np.full((2, 2), 0.5)])
def test_margins_of_a_matrix_that_has_no_inverse(first: Any) -> None:
    other, m = np.array([[0.9, 0.2], [0.1, 0.8]]), len(first)
    whole = RRMatrix(["a", "b"], np.kron(first, other), [2, 2], [m, 2])
    assert whole.undefined
    told = whole.marginal(["b"])
    assert told is not None
    assert told.matrix() == pytest.approx(other, abs=1e-15)
    assert not told.undefined
    silent = whole.marginal(["a"])
    assert silent is not None
    assert silent.matrix() == pytest.approx(np.array(first), abs=1e-15)
    assert silent.undefined


@pytest.mark.parametrize("repeats", [1, 2, 3])
@pytest.mark.parametrize("packs", [(0.7, 0.3), (0.3, 0.7), (0.7, 0.4), (0.5, 0.5), (1.0, 0.0)])
def test_an_order_matters_where_exchanging_the_answers_changes_the_law(packs, repeats) -> None:
    design = Kuk("a", *packs, repeats)
    turned = design.matrix()[:, ::-1]
    # The symbols of one card are the answers themselves, and change with them.
    changed = turned[::-1] if repeats == 1 else turned
    assert design.ordered is not np.allclose(changed, design.matrix(), atol=1e-12)


def test_a_product_by_position_is_of_parts_by_position() -> None:
    plain, labels = KaryResponse("a", 3, 0.6), ["x", "y", "z"]
    named, silent = (RRMatrix("b", checks.SKEWED, categories=c) for c in (labels, None))
    for parts in ([plain, named], [named, plain], [named]):
        found = Product(parts).by_position()
        expected = [silent if part is named else part for part in parts]
        assert found is not None
        assert found.config() == Product(expected).config()
    unlabelled = Product([plain, Warner("c", 0.8)])
    assert unlabelled.by_position() is unlabelled


def test_labels_are_texts() -> None:
    for labels in ([0, 1], ["no", 1], [None, "yes"], 5, {"no": "yes"}):
        with pytest.raises(DesignError, match="list of labels is needed"):
            RRMatrix("a", [[0.8, 0.3], [0.2, 0.7]], categories=labels)
        with pytest.raises(DesignError, match=r"categories of 'b': .* list of labels is needed"):
            RRMatrix(["a", "b"], checks.JOINT_SKEWED, [2, 2], categories=[["no", "yes"], labels])


def test_two_stages_where_a_symbol_never_occurs() -> None:
    P = np.array([[0.5, 0.1], [0.3, 0.25], [0.2, 0.65], [0.0, 0.0]])
    prior = np.array([0.3, 0.7])
    both = two_stage(RRMatrix("a", P), prior)
    law = P @ prior
    plain = np.zeros((2, 2))
    for y in range(3):
        plain += np.outer(P[y] * prior / law[y], P[y])
    assert both.matrix() == pytest.approx(plain, abs=1e-12)
    assert both.matrix() @ prior == pytest.approx(prior, abs=1e-12)
