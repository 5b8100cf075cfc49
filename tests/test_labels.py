"""A design speaks of labels: whatever order a codebook has, the same answers are as protected.

The numbers of a design in one order and in another are compared label by label.  Entries of P are
moved, so they are equal bit for bit, and with them the digest.  Sums and inverses over categories
are taken in another order, and agree to the rounding of that.
"""

from __future__ import annotations

import itertools
import math
import pickle

import numpy as np
import pytest
from checks import EXAMPLES, has_sets, is_dense
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import SEEDS, random_prior, with_labels

import ppdm_dask as pp
from ppdm_dask.designs import (
    Crosswise,
    Design,
    Flip,
    ForcedResponse,
    InvariantPRAM,
    Kuk,
    Mangat,
    Permanent,
    SubsetSelection,
    Triangular,
    UnaryEncoding,
    two_stage,
)
from ppdm_dask.errors import DesignError, InputError, RecordsError

ROUNDING = 1e-13
"""Sums of a few dozen terms in another order, relative to the largest of them."""


def labelled_codebook(design: Design) -> pp.Codebook:
    """Labels that say which category they are, and nothing of the order."""
    words = (
        "pear",
        "Äpfel, rote",
        "yes ",
        "no",
        "часто",
        'quoted "x"',
        "=1",
        "z",
        "0",
        "α",
        "q",
        "r",
    )
    return pp.Codebook(
        tuple(
            pp.Attribute(name, tuple(f"{word} of {name}" for word in words[:size]))
            for name, size in zip(design.attributes, design.shape, strict=True)
        )
    )


def reordered(book: pp.Codebook, rng: np.random.Generator) -> pp.Codebook:
    """The same attributes with categories, and attributes, in random orders."""
    made = [
        pp.Attribute(a.name, tuple(rng.permutation(np.array(a.categories, object))))
        for a in book.attributes
    ]
    return pp.Codebook(tuple(made[i] for i in rng.permutation(len(made))))


def axis_moves(design: Design, old: pp.Codebook, new: pp.Codebook) -> list[np.ndarray]:
    """For each attribute, the old code of each new one."""
    return [
        np.array([old[name].categories.index(label) for label in new[name].categories])
        for name in design.attributes
    ]


def joint_moves(design: Design, moves: list[np.ndarray]) -> np.ndarray:
    shape = np.arange(design.n_true).reshape(design.shape)
    return shape[np.ix_(*moves)].ravel()


def symbol_moves(design: Design, moves: list[np.ndarray]) -> np.ndarray:
    """Old symbol of each new one: sets move by their members, categories by their labels."""
    by_block, first = [], 0
    for block in design.blocks:
        own = moves[first : first + len(block.shape)]
        first += len(block.shape)
        if block.kind == "set":
            subsets = np.arange(block.n_reported)[:, None] >> np.arange(block.n_true) & 1
            by_block.append((subsets * (1 << own[0])).sum(axis=1))
            continue
        along = [
            move if m == k else np.arange(m)
            for move, k, m in zip(own, block.shape, block.reported_shape, strict=True)
        ]
        symbols = np.arange(block.n_reported).reshape(block.reported_shape)
        by_block.append(symbols[np.ix_(*along)].ravel())
    sizes = [block.n_reported for block in design.blocks]
    grid = np.arange(math.prod(sizes)).reshape(sizes)
    return grid[np.ix_(*by_block)].ravel()


def needs_labels_by_force(design: Design) -> bool:
    """Whether some order of the categories of one attribute changes P, tried one by one."""
    P = design.matrix()
    for axis, size in enumerate(design.shape):
        for order in itertools.islice(itertools.permutations(range(size)), 24):
            moves = [np.arange(k) for k in design.shape]
            moves[axis] = np.array(order)
            moved = P[np.ix_(symbol_moves(design, moves), joint_moves(design, moves))]
            if not np.allclose(moved, P, rtol=1e-11, atol=0):
                return True
    return False


SMALL = [
    pytest.param(design, id=f"{family}-{i}")
    for family, examples in EXAMPLES.items()
    for i, design in enumerate(examples)
    if is_dense(design) and design.n_reported <= 300 and max(design.shape) <= 12
]


@pytest.mark.parametrize("design", SMALL)
def test_ordered_says_whether_an_order_changes_the_law(design: Design) -> None:
    assert design.ordered == needs_labels_by_force(design)
    assert bool(design.unlabelled) == design.ordered
    assert not with_labels(design).unlabelled


# -- random designs of every family ----------------------------------------------------------------


@st.composite
def any_design(draw: st.DrawFn) -> Design:
    """Of any family, with random parameters; blocks of several attributes, tall ones, products."""
    rng = np.random.default_rng(draw(SEEDS))

    def share() -> float:
        return round(float(rng.uniform(0.05, 0.95)), 3)

    def law(k: int) -> np.ndarray:
        return random_prior(k, rng)

    def matrix(m: int, k: int) -> np.ndarray:
        spread = rng.dirichlet(np.ones(m), k).T
        return 0.5 * np.eye(m, k) + spread * (1 - 0.5 * np.eye(m, k).sum(axis=0))

    def block(names: list[str]) -> Design:
        a, k = names[0], int(rng.integers(2, 5))
        if len(names) == 2:
            shape = rng.integers(2, 4, size=2).tolist()
            both = math.prod(shape)
            kinds = [
                lambda: pp.RRMatrix(names, matrix(both, both), shape),
                lambda: pp.RRMatrix(names, matrix(both + 2, both), shape, p0=law(both)),
                lambda: pp.RRMatrix(
                    names, matrix(shape[0] * (shape[1] + 1), both), shape, [shape[0], shape[1] + 1]
                ),
                lambda: pp.UnrelatedQuestion(names, share(), [law(size) for size in shape]),
                lambda: pp.UnrelatedQuestion(names, share(), [share(), [0.25] * 4]),
                lambda: Flip(names, 0.8),
                lambda: pp.Identity(names, shape),
                lambda: two_stage(pp.RRMatrix(names, matrix(both, both), shape), law(both)),
            ]
        else:
            kinds = [
                lambda: Mangat(a, share()),
                lambda: Triangular(a, share()),
                lambda: Kuk(a, 0.8, share() / 2, repeats=int(rng.integers(1, 5))),
                lambda: Kuk(a, 0.8, share() / 2, 3, inverse="textbook"),
                lambda: ForcedResponse(a, share(), law(k)),
                lambda: InvariantPRAM(a, law(k), share()),
                lambda: pp.UnrelatedQuestion(a, share(), [law(k)]),
                lambda: pp.RRMatrix(a, matrix(k, k)),
                lambda: pp.RRMatrix(a, matrix(k + 2, k), p0=law(k)),
                lambda: pp.Warner(a, 0.7),
                lambda: Permanent(pp.RRMatrix(a, matrix(k, k)), pp.KaryResponse(a, k, share())),
                lambda: Permanent(pp.KaryResponse(a, k, 0.7), pp.RRMatrix(a, matrix(k + 1, k))),
                lambda: Permanent(
                    pp.RRMatrix(a, matrix(k + 2, k)), pp.RRMatrix(a, matrix(k + 3, k + 2))
                ),
                lambda: Crosswise(a, 0.3),
                lambda: pp.KaryResponse(a, k, share()),
                lambda: UnaryEncoding(a, k, epsilon=1.0),
                lambda: SubsetSelection(a, k + 1, epsilon=1.0),
            ]
        return kinds[int(rng.integers(len(kinds)))]()

    sizes = draw(st.lists(st.integers(1, 2), min_size=1, max_size=2))
    names = iter("abcd")
    parts = [block([next(names) for _ in range(size)]) for size in sizes]
    made = parts[0] if len(parts) == 1 else pp.Product(parts)
    if made.n_reported > 2_000:
        return parts[0]
    return made


@settings(max_examples=100, deadline=None)
@given(design=any_design(), seed=SEEDS)
def test_any_order_of_a_codebook_gives_the_same_law_privacy_and_estimates(
    design: Design, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    own = labelled_codebook(design)
    stated = with_labels(design, own)
    book = reordered(own, rng)
    bound = stated.bind(book)

    # Bound it is in the codebook's order, is the same by label, and stays as it is.
    for name, labels in zip(bound.attributes, bound.categories, strict=True):
        assert labels in (None, book[name].categories)
    assert bound.digest == stated.digest
    assert bound.bind(book) is bound
    assert stated.bind(own).bind(book) == bound
    for again in (pickle.loads(pickle.dumps(bound)), pp.design_from_config(bound.config())):
        assert again == bound
        np.testing.assert_array_equal(again.matrix(), bound.matrix())

    # The law, bit for bit.
    moves = axis_moves(design, own, book)
    true, symbols = joint_moves(design, moves), symbol_moves(design, moves)
    np.testing.assert_array_equal(bound.matrix(), design.matrix()[np.ix_(symbols, true)])

    # Privacy, under a prior by label.
    prior = random_prior(design.n_true, rng)
    for measure in ("privacy", "max_posterior", "pse"):
        there, here = getattr(design, measure)(prior), getattr(bound, measure)(prior[true])
        assert here == pytest.approx(there, rel=ROUNDING, abs=ROUNDING)
        if len(design.attributes) == 1:
            by_label = dict(zip(own[design.attributes[0]].categories, prior, strict=True))
            assert getattr(bound, measure)(by_label) == pytest.approx(here, rel=ROUNDING)
    assert bound.epsilon() == pytest.approx(design.epsilon(), rel=ROUNDING)

    # Estimates: the left inverse, by label.
    if not design.undefined and design.kind == "symbol" and not has_sets(design):
        B = design.left_inverse()
        scale = np.abs(B).max() * np.linalg.cond(design.matrix())
        np.testing.assert_allclose(
            bound.left_inverse(), B[np.ix_(true, symbols)], rtol=0, atol=ROUNDING * scale
        )


@settings(max_examples=40, deadline=None)
@given(design=any_design(), seed=SEEDS)
def test_another_label_or_number_of_labels_is_refused(design: Design, seed: int) -> None:
    rng = np.random.default_rng(seed)
    own = labelled_codebook(design)
    stated = with_labels(design, own)
    at = int(rng.integers(len(design.attributes)))
    name = design.attributes[at]
    renamed, lacking, longer = [], [], []
    for attribute in own.attributes:
        labels = attribute.categories
        mine = attribute.name == name
        changed = tuple("other" if mine and label == labels[-1] else label for label in labels)
        renamed.append(pp.Attribute(attribute.name, changed))
        longer.append(pp.Attribute(attribute.name, (*labels, "more") if mine else labels))
        lacking += [] if mine else [attribute]
    if stated.categories[at] is not None or name in _traits(stated):
        with pytest.raises(DesignError, match=f"design on '{name}': .*codebook has no category"):
            stated.bind(pp.Codebook(tuple(renamed)))
    else:
        assert stated.bind(pp.Codebook(tuple(renamed))) is not None
    with pytest.raises(InputError, match=f"'{name}'"):
        stated.bind(pp.Codebook(tuple(longer)))
    if lacking:
        with pytest.raises(RecordsError, match=f"attribute '{name}'; there are only"):
            stated.bind(pp.Codebook(tuple(lacking)))


def _traits(design: Design) -> list[str]:
    return [b.attributes[0] for b in design.blocks if getattr(b, "trait", None) is not None]


# -- estimates by label ----------------------------------------------------------------------------


def _relabelled(array: np.ndarray, names, old: pp.Codebook, new: pp.Codebook) -> np.ndarray:
    """An array with an axis for each attribute, from one codebook's order to another's."""
    moves = [
        [old[name].categories.index(label) for label in new[name].categories] for name in names
    ]
    return array[np.ix_(*moves)]


@settings(max_examples=40, deadline=None)
@given(design=any_design(), seed=SEEDS)
def test_reports_in_any_order_are_estimated_alike_by_an_unbound_design(
    design: Design, seed: int
) -> None:
    """The same reports by label, coded by two codebooks: a table, its likelihood, event weights."""
    if design.undefined:
        return
    rng = np.random.default_rng(seed)
    own = labelled_codebook(design)
    stated = with_labels(design, own)
    book = reordered(own, rng)
    moves = axis_moves(design, own, book)
    codes = np.stack([rng.integers(k, size=60) for k in design.shape], axis=1)
    here = stated.disguise(pp.Records(codes, own), pp.Stream.from_entropy())
    there = _recoded(here, stated, own, book, moves)
    assert here.design_digest == there.design_digest == stated.digest
    name = design.attributes[0]
    for label in own[name].categories:
        one, two = (pp.estimate(r, {name: label}, design=stated) for r in (here, there))
        assert two.value == pytest.approx(one.value, rel=1e-9, abs=1e-9)
        assert two.standard_error == pytest.approx(one.standard_error, rel=1e-6, abs=1e-9)
    if has_sets(design):
        return
    order = list(design.attributes)
    tables = [pp.count(r, stated, order) for r in (here, there)]
    for estimate in (pp.invert, lambda t, d: pp.em(t, d, max_steps=20)):
        one, two = (estimate(table, stated).values for table in tables)
        np.testing.assert_allclose(two, _relabelled(one, order, own, book), rtol=1e-8, atol=1e-9)


def _recoded(
    reports: pp.Reports,
    stated: Design,
    own: pp.Codebook,
    book: pp.Codebook,
    moves: list[np.ndarray],
) -> pp.Reports:
    """The same reports coded by a codebook with its categories in another order."""
    bound = stated.bind(book)
    codes = np.zeros((len(reports), len(book.names)), np.int64)
    sets = {}
    sizes = [1] * len(book.names)
    first = 0
    for block in bound.blocks:
        for axis, name in enumerate(block.attributes):
            move = moves[first + axis]
            column = np.asarray(reports.column(name), np.int64)
            size = 1 if block.kind == "set" else block.reported_shape[axis]
            at = book.index(name)
            sizes[at] = size
            if block.kind == "set":
                inside = np.unpackbits(
                    reports.sets[name], axis=1, count=block.n_true, bitorder="little"
                )
                sets[name] = np.packbits(inside[:, move], axis=1, bitorder="little")
            elif size == block.shape[axis]:
                codes[:, at] = np.argsort(move)[column]
            else:
                codes[:, at] = column
        first += len(block.shape)
    return pp.Reports(codes, book, 0, bound.digest, False, tuple(sizes), sets)
