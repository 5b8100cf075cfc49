"""One battery for every registered design family.

A new family needs one entry in ``EXAMPLES``; ``test_designs.py`` puts each example through each
check in ``BATTERY``.  The dense statements of ``Design`` and plain sums are what structured methods
are held to.  Statistical checks share one budget: a correct package fails any of them with
probability below ``FALSE_ALARM`` in all, and seeded ones always give the same answer.
"""

from __future__ import annotations

import itertools
import json
import math
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from scipy.stats import chi2
from strategies import codebook_of, codes_of, joint_of, random_prior, random_records, with_labels

from ppdm_dask import (
    Identity,
    KaryResponse,
    MultiGroup,
    NotInvertible,
    Product,
    Records,
    Reports,
    RRMatrix,
    Stream,
    UnrelatedQuestion,
    Warner,
    design_from_config,
)
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
)
from ppdm_dask.designs.base import MAX_DENSE
from ppdm_dask.designs.sets import pack, unpack
from ppdm_dask.errors import DesignError
from ppdm_dask.randomness import LOGICAL_BLOCK

# P[y, x]; rows do not sum to 1, so that a transposed use shows.
SKEWED = np.array([[0.7, 0.2, 0.05], [0.2, 0.5, 0.25], [0.1, 0.3, 0.7]])
HOLES = np.array([[0.9, 0.0, 0.3], [0.1, 0.6, 0.0], [0.0, 0.4, 0.7]])
JOINT_SKEWED = np.array(
    [
        [0.70, 0.10, 0.05, 0.15],
        [0.10, 0.60, 0.20, 0.05],
        [0.15, 0.05, 0.65, 0.10],
        [0.05, 0.25, 0.10, 0.70],
    ]
)
BOTH_FLIPPED = 0.8 * np.eye(4) + 0.2 * np.eye(4)[::-1]


def second_depends_on_first() -> np.ndarray:
    """P of (a, b): a is disguised by itself, b in a way that depends on the true a.

    It marginalises to a and not to b.
    """
    of_a = np.array([[0.8, 0.3], [0.2, 0.7]])
    of_b = [np.array([[0.9, 0.2], [0.1, 0.8]]), np.array([[0.6, 0.1], [0.4, 0.9]])]
    P = np.zeros((4, 4))
    for (ya, yb), (xa, xb) in itertools.product(itertools.product(range(2), repeat=2), repeat=2):
        P[2 * ya + yb, 2 * xa + xb] = of_a[ya, xa] * of_b[xa][yb, xb]
    return P


# More reported symbols than categories; the last symbol of the second cannot occur.
TALL = np.array([[0.6, 0.1, 0.0], [0.2, 0.5, 0.1], [0.1, 0.3, 0.2], [0.1, 0.0, 0.4], [0, 0.1, 0.3]])
TALL_BINARY = np.array([[0.5, 0.1], [0.3, 0.25], [0.2, 0.65], [0.0, 0.0]])
WIDE = np.array([[0.5, 0.2, 0.1], [0.5, 0.8, 0.9]])


EXAMPLES: dict[str, tuple[Design, ...]] = {
    "identity": (
        Identity("a", [2]),
        Identity(["a", "b", "c"], [3, 1, 2]),
        Identity("a", [100_000]),
    ),
    "warner": (
        Warner("a", 0.8),
        Warner("a", 0.05),
        Warner("a", 0.5),
        Warner("a", 0.0),
        Warner("a", 1.0),
    ),
    "kary": (
        KaryResponse("a", 4, 0.6),
        KaryResponse("a", 5, 0.1),
        KaryResponse("a", 3, 0.0),
        KaryResponse("a", 6, 1.0),
        KaryResponse("a", 3, 1 / 3),
        KaryResponse("a", 4, epsilon=math.log(3)),
        KaryResponse("a", 2, 0.7),
        KaryResponse("a", 2_925, 0.4),
        KaryResponse("a", 100_000, epsilon=8.0),
        KaryResponse("a", 3, q=0.4),
        KaryResponse("a", 3, q=0.0),
        KaryResponse("a", 5, lambda_=6.5),
        KaryResponse("a", 5, lambda_=0.3),
    ),
    "forced": (
        ForcedResponse("a", 0.75, [1 / 3, 2 / 3]),
        ForcedResponse("a", 0.6, [0.1, 0.0, 0.9]),
        ForcedResponse("a", 0.0, [0.5, 0.5]),
        ForcedResponse("a", 1.0, [0.2, 0.3, 0.5]),
        ForcedResponse("a", 0.5, [1.0]),
        ForcedResponse("a", 0.4, np.arange(1, 3_001) / np.arange(1, 3_001).sum()),
    ),
    "mangat": (Mangat("a", 0.7), Mangat("a", 0.0), Mangat("a", 1.0)),
    "triangular": (Triangular("a", 0.3), Triangular("a", 0.0), Triangular("a", 1.0)),
    "crosswise": (Crosswise("a", 0.2), Crosswise("a", 0.5), Crosswise("a", 1.0)),
    "kuk": (
        Kuk("a", 0.7, 0.2),
        Kuk("a", 0.3, 0.6, 5),
        Kuk("a", 0.3, 0.6, 5, inverse="textbook"),
        Kuk("a", 0.8, 0.0, 3),
        Kuk("a", 0.4, 0.4, 2),
        Kuk("a", 1.0, 0.0, 2),
        Kuk("a", 0.7, 0.4, 40),
    ),
    "pram": (
        InvariantPRAM("a", [0.2, 0.5, 0.3], 0.7),
        InvariantPRAM("a", [0.2, 0.0, 0.8], 0.4),
        InvariantPRAM("a", [0.5, 0.5], 0.0),
        InvariantPRAM("a", [1.0], 0.3),
        InvariantPRAM("a", np.arange(100_000) / np.arange(100_000).sum(), 0.5),
    ),
    "flip": (
        Flip("a", 0.8),
        Flip(["a", "b", "c"], 0.3),
        Flip(["a", "b"], 0.5),
        Flip(["a", "b"], 0.0),
        Flip(["a", "b"], 1.0),
        Flip([f"a{i}" for i in range(14)], 0.55),
    ),
    "matrix": (
        RRMatrix("a", SKEWED),
        RRMatrix("a", HOLES),
        RRMatrix("a", np.eye(4)[[2, 0, 3, 1]]),
        RRMatrix("a", [[0.6, 0.6], [0.4, 0.4]]),
        RRMatrix(["a", "b"], JOINT_SKEWED, [2, 2]),
        RRMatrix(["a", "b"], second_depends_on_first(), [2, 2]),
        RRMatrix(["a", "b"], BOTH_FLIPPED, [2, 2]),
        RRMatrix(
            ["a", "b", "c"], np.kron(np.kron(SKEWED, HOLES), [[0.9, 0.3], [0.1, 0.7]]), [3, 3, 2]
        ),
        RRMatrix(["a", "b", "c"], np.kron(JOINT_SKEWED, SKEWED), [2, 2, 3]),
        RRMatrix("a", TALL),
        RRMatrix("a", TALL, p0=[0.7, 0.2, 0.1]),
        RRMatrix("a", TALL_BINARY),
        RRMatrix("a", WIDE),
        RRMatrix("a", [[0.3, 0.3], [0.5, 0.5], [0.2, 0.2]]),
        RRMatrix(["a", "b"], np.kron(TALL, TALL_BINARY), [3, 2], [5, 4]),
        RRMatrix(["a", "b"], np.vstack([0.6 * JOINT_SKEWED, 0.4 * np.eye(4)]), [2, 2]),
        RRMatrix(["a", "b"], np.vstack([0.5 * BOTH_FLIPPED, 0.5 * np.eye(4)]), [2, 2], [4, 2]),
    ),
    "unrelated": (
        UnrelatedQuestion(["a", "b", "c"], 0.6),
        UnrelatedQuestion(["a", "b"], 0.05, [0.2, 0.9]),
        UnrelatedQuestion(["a", "b"], 0.0, 0.3),
        UnrelatedQuestion(["a", "b"], 1.0, 0.3),
        UnrelatedQuestion(["a", "b"], 0.4, [0.0, 1.0]),
        UnrelatedQuestion(["a", "b", "c"], 0.7, [[0.5, 0.2, 0.3], 0.1, [0.4, 0.0, 0.25, 0.35]]),
        UnrelatedQuestion("a", 0.3, [np.arange(3_000) / np.arange(3_000).sum()]),
        UnrelatedQuestion([f"a{i}" for i in range(14)], 0.5, [0.3] * 14),
    ),
    "multigroup": (
        MultiGroup([["a", "b"], ["c"]], [0.8, 0.3]),
        MultiGroup([["a", "b", "c"]], 0.9),
        MultiGroup.by_attribute(list("abcd"), 0.7),
        MultiGroup([["c", "a"], ["b"]], [0.8, 0.5]),
        MultiGroup([["a"], ["b", "c"]], [0.0, 1.0]),
        MultiGroup([[f"a{i}" for i in range(j, 14, 3)] for j in range(3)], 0.6),
    ),
    "unary": (
        UnaryEncoding("a", 4, epsilon=1.0),
        UnaryEncoding("a", 4, epsilon=1.0, inverse="textbook"),
        UnaryEncoding("a", 3, 0.75, 0.25),
        UnaryEncoding("a", 2, 0.2, 0.7),
        UnaryEncoding("a", 5, 0.3, 0.3),
        UnaryEncoding("a", 3, 1.0, 0.0),
        UnaryEncoding("a", 3, 1.0, 0.4),
        UnaryEncoding("a", 3, 0.6, 0.0),
        UnaryEncoding("a", 9, epsilon=2.5),
    ),
    "subset": (
        SubsetSelection("a", 5, epsilon=1.0),
        SubsetSelection("a", 5, 2, 0.1),
        SubsetSelection("a", 6, 4, 0.9),
        SubsetSelection("a", 6, 5, 0.5),
        SubsetSelection("a", 4, 2, 0.5),
        SubsetSelection("a", 4, 1, 1.0),
        SubsetSelection("a", 2, epsilon=0.5),
        SubsetSelection("a", 9, 3, epsilon=2.0),
    ),
    "permanent": (
        Permanent(Warner("a", 0.75), Warner("a", 0.8)),
        Permanent(Warner("a", 0.75), RRMatrix("a", [[0.5, 0.25], [0.5, 0.75]])),
        Permanent(RRMatrix("a", SKEWED), KaryResponse("a", 3, 0.8)),
        Permanent(KaryResponse("a", 3, 0.7), RRMatrix("a", TALL)),
        Permanent(RRMatrix("a", TALL), KaryResponse("a", 5, 0.6)),
        Permanent(RRMatrix("a", TALL_BINARY), RRMatrix("a", JOINT_SKEWED)),
        Permanent(Kuk("a", 0.7, 0.2, 2), RRMatrix("a", SKEWED)),
        Permanent(Warner("a", 0.9), Kuk("a", 0.8, 0.3, 3)),
        Permanent(RRMatrix("a", HOLES), Identity("a", [3])),
        Permanent(Warner("a", 0.8), Warner("a", 0.5)),
        Permanent(Flip(["a", "b"], 0.7), RRMatrix(["a", "b"], JOINT_SKEWED, [2, 2])),
        Permanent(
            RRMatrix(["a", "b"], np.kron(SKEWED, [[0.9, 0.3], [0.1, 0.7]]), [3, 2]),
            UnrelatedQuestion(["a", "b"], 0.5, [[0.2, 0.3, 0.5], [0.5, 0.5]]),
        ),
    ),
    "product": (
        Product([Permanent(Warner("a", 0.8), Warner("a", 0.7)), KaryResponse("b", 3, 0.6)]),
        Product([SubsetSelection("a", 3, epsilon=1.0), Warner("b", 0.8)]),
        Product([Warner("a", 0.8), Warner("b", 0.7), Warner("c", 0.3)]),
        Product([Warner("a", 0.8), KaryResponse("b", 3, 0.5), RRMatrix("c", SKEWED)]),
        Product([UnrelatedQuestion(["a", "b"], 0.5, [0.2, 0.5]), RRMatrix("c", HOLES)]),
        Product([RRMatrix(["a", "b"], JOINT_SKEWED, [2, 2]), Warner("c", 0.9), Identity("d", [3])]),
        Product([Product([Warner("a", 0.6)]), RRMatrix(["b", "c"], BOTH_FLIPPED, [2, 2])]),
        Product([Warner("a", 0.5), Warner("b", 0.8)]),
        Product([Warner("a", 0.7), RRMatrix("b", TALL), RRMatrix("c", SKEWED)]),
        Product([KaryResponse("a", 2_925, 0.5), Warner("b", 0.75)]),
    ),
}
"""Designs of each family, by its id.  The sampler's, the algebra's and the privacy's limits are
among them: no inverse, q = 1, impossible transitions, thousands of categories."""

DENSE = 600
"""Categories up to which an example is compared with dense matrices."""

FALSE_ALARM = 1e-6
"""Probability that any statistical check of the whole battery fails by chance."""

_STATISTICAL = 3  # chi-square checks an example: simulated and real disguise, sampled inverse
N_TESTS = _STATISTICAL * sum(map(len, EXAMPLES.values()))
LEVEL = FALSE_ALARM / N_TESTS
"""Significance level of one check (Bonferroni)."""

TOLERANCE = 1e-12


def require_examples(families: Iterable[str], examples: Mapping[str, tuple[Design, ...]]) -> None:
    """Fail unless each registered family has examples, and all of them are of that family."""
    for family in families:
        if not examples.get(family):
            pytest.fail(f"design family {family!r} has no example in tests/support/checks.py")
        for design in examples[family]:
            if design.id != family:
                pytest.fail(
                    f"an example of {family!r} in tests/support/checks.py is a {design.id!r}"
                )


def is_dense(design: Design) -> bool:
    return max(design.n_true, design.n_reported) <= DENSE


def some_categories(design: Design, at_most: int = 12) -> np.ndarray:
    """True joint categories to try: all, or the ends and some between."""
    if design.n_true <= at_most:
        return np.arange(design.n_true)
    between = np.random.default_rng(1).choice(design.n_true, at_most - 2, replace=False)
    return np.unique([0, design.n_true - 1, *between])


def unit(design: Design, x: int) -> np.ndarray:
    vector = np.zeros(design.n_true)
    vector[x] = 1
    return vector


def masks_of(design: Design, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """A random event over a random part of the attributes."""
    chosen = [name for name in design.attributes if rng.random() < 0.7] or design.attributes[:1]
    sizes = dict(zip(design.attributes, design.shape, strict=True))
    return {name: rng.random(sizes[name]) < 0.5 for name in chosen}


def indicator(design: Design, masks: Mapping[str, np.ndarray]) -> np.ndarray:
    """1_E over the joint categories."""
    codes = codes_of(np.arange(design.n_true), design.shape)
    inside = np.ones(design.n_true)
    for axis, name in enumerate(design.attributes):
        if name in masks:
            inside *= masks[name][codes[:, axis]]
    return inside


def true_codes(design: Design) -> np.ndarray:
    return codes_of(np.arange(design.n_true), design.shape)


def reported_codes(design: Design, symbols: np.ndarray | None = None) -> np.ndarray:
    """What weights are taken of, for all joint symbols or some: codes, or packed sets."""
    if symbols is None:
        symbols = np.arange(design.n_reported)
    if design.kind == "set":
        return pack((np.asarray(symbols)[:, None] >> np.arange(design.n_true) & 1).astype(bool))
    return codes_of(symbols, design.reported_shape)


def symbols_of(reports: Reports, design: Design) -> np.ndarray:
    """Joint symbol of each report."""
    joint = np.zeros(len(reports), np.int64)
    for block in design.blocks:
        if block.kind == "set":
            inside = unpack(reports.sets[block.attributes[0]], block.n_true)
            own = inside @ (1 << np.arange(block.n_true))
        else:
            own = joint_of(reports.select(block.attributes).codes, block.reported_shape)
        joint = joint * block.n_reported + own
    return joint


def content(reports: Reports) -> np.ndarray:
    """All that reports say, a row each."""
    return np.hstack([reports.codes, *reports.sets.values()])


def has_sets(design: Design) -> bool:
    return any(block.kind == "set" for block in design.blocks)


def possible_symbols(design: Design) -> np.ndarray:
    """Joint symbols that occur; of symbol designs all, for these have weights for any."""
    if design.kind == "set":
        return np.flatnonzero(design.matrix().any(axis=1))
    return np.arange(design.n_reported)


def plain_inverse(P: np.ndarray, p0: np.ndarray | None) -> np.ndarray:
    """The left inverse by its formula; the column of a symbol that cannot occur is p0."""
    m, k = P.shape
    if m == k:
        return np.linalg.inv(P)
    p0 = np.full(k, 1 / k) if p0 is None else p0
    occurs = P.any(axis=1)
    weighted = P[occurs].T / (P[occurs] @ p0)
    B = np.tile(p0[:, None], (1, m))
    B[:, occurs] = np.linalg.inv(weighted @ P[occurs]) @ weighted
    return B


# -- algebra ---------------------------------------------------------------------------------------


def check_columns_sum_to_one(design: Design) -> None:
    if is_dense(design):
        P = design.matrix()
        assert P.shape == (design.n_reported, design.n_true)
        assert P.min() >= 0
        np.testing.assert_allclose(P.sum(axis=0), 1, atol=TOLERANCE)
    for x in some_categories(design):
        column = design.apply(unit(design, x))
        assert column.shape == (design.n_reported,)
        assert column.min() >= 0
        assert abs(math.fsum(column) - 1) < TOLERANCE


def check_left_inverse(design: Design) -> None:
    if design.undefined:
        with pytest.raises(NotInvertible, match=r"not invertible.*condition number") as caught:
            design.invert(design.apply(unit(design, 0)))
        culprit = next(block for block in design.blocks if block.undefined)
        np.testing.assert_array_equal(caught.value.subject, culprit.matrix())
        return
    rng = np.random.default_rng(2)
    sums_to_one = not (design.kind == "set" and design.inverse == "textbook")
    if is_dense(design):
        B, P = design.left_inverse(), design.matrix()
        np.testing.assert_allclose(B @ P, np.eye(design.n_true), atol=TOLERANCE)
        if sums_to_one:
            np.testing.assert_allclose(B.sum(axis=0), 1, atol=TOLERANCE)
    p = random_prior(design.n_true, rng)
    np.testing.assert_allclose(design.invert(design.apply(p)), p, atol=TOLERANCE)
    reported = random_prior(design.n_reported, rng)
    if sums_to_one:
        assert abs(math.fsum(design.invert(reported)) - 1) < TOLERANCE
    # <B y, f> = <y, B^T f>
    f = rng.random(design.n_true)
    direct = design.invert(reported) @ f
    assert abs(direct - reported @ design.invert_transposed(f)) < TOLERANCE


def check_dense_twins(design: Design) -> None:
    """Structured methods equal the dense statements of the base class."""
    if design.n_true > MAX_DENSE:
        with pytest.raises(DesignError, match=r"too large for a dense matrix"):
            design.matrix()
    if not is_dense(design):
        return
    rng = np.random.default_rng(3)
    same = _same
    for shape in ((design.n_true,), (design.n_true, 3), (design.n_true, 2, 2)):
        same(design.apply(v := rng.random(shape)), Design.apply(design, v))
        u = rng.random((design.n_reported, *shape[1:]))
        same(design.apply_transposed(u), Design.apply_transposed(design, u))
    ends = unit(design, 0), unit(design, design.n_true - 1)
    for prior in (random_prior(design.n_true, rng), *ends):
        for got, dense in zip(
            design.posterior_summary(prior), Design.posterior_summary(design, prior), strict=True
        ):
            same(got, dense)
    for got, dense in zip(design.likelihood_range(), Design.likelihood_range(design), strict=True):
        same(got, dense)
    if design.undefined:
        return
    if len(design.blocks) == 1 and design.inverse == "weighted":
        same(design.left_inverse(), plain_inverse(design.matrix(), design.p0))
    for shape in ((design.n_reported,), (design.n_reported, 3), (design.n_reported, 2, 2)):
        vector, f = rng.random(shape), rng.random((design.n_true, *shape[1:]))
        same(design.invert(vector), Design.invert(design, vector))
        same(design.invert_squared(vector), Design.invert_squared(design, vector))
        same(design.invert_transposed(f), Design.invert_transposed(design, f))
    if has_sets(design) and design.kind == "symbol":
        return
    codes = reported_codes(design, symbols := possible_symbols(design))
    for _ in range(5):
        masks = masks_of(design, rng)
        dense = design.invert_transposed(indicator(design, masks))[symbols]
        same(design.weights(masks, codes), dense)
        if design.kind == "symbol":
            same(design.weights(masks, codes), Design.weights(design, masks, codes))


def _same(got: np.ndarray, dense: np.ndarray) -> None:
    assert got.shape == dense.shape
    scale = max(1.0, float(np.abs(dense).max()))
    np.testing.assert_allclose(got, dense, rtol=0, atol=TOLERANCE * scale)


def check_event_weights(design: Design) -> None:
    """sum_y P[y, x] w(E, y) = 1_E(x), and w(anything, y) = 1."""
    if design.undefined:
        with pytest.raises(NotInvertible):
            culprit = next(block for block in design.blocks if block.undefined)
            name, size = culprit.attributes[0], culprit.shape[0]
            design.weights({name: np.ones(size, bool)}, np.zeros((1, len(design.shape)), int))
        return
    if has_sets(design) and design.kind == "symbol":
        with pytest.raises(DesignError, match="handled block by block"):
            design.weights({}, np.zeros((1, 2), int))
        return
    rng = np.random.default_rng(4)
    codes = reported_codes(design, symbols := possible_symbols(design))
    textbook = design.kind == "set" and design.inverse == "textbook"
    certain = {n: np.ones(k, bool) for n, k in zip(design.attributes, design.shape, strict=True)}
    for masks in (certain, {design.attributes[-1]: certain[design.attributes[-1]]}, {}):
        if textbook and masks:
            continue
        np.testing.assert_allclose(design.weights(masks, codes), 1, atol=TOLERANCE)
    for _ in range(8 if is_dense(design) else 2):
        masks = masks_of(design, rng)
        weights, truth = design.weights(masks, codes), indicator(design, masks)
        if is_dense(design):
            scale = max(1.0, float(np.abs(weights).max()))
            expected = design.matrix()[symbols].T @ weights
            np.testing.assert_allclose(expected, truth, rtol=0, atol=TOLERANCE * scale)
        for x in some_categories(design, 6):
            law = design.apply(unit(design, x))[symbols]
            assert abs(math.fsum(law * weights) - truth[x]) < TOLERANCE


def lumped(design: Design, names: tuple[str, ...]) -> np.ndarray | None:
    """P seen by some attributes, by plain sums; None where it depends on the other attributes."""
    places = [design.attributes.index(name) for name in names]
    sizes = [design.shape[i] for i in places]
    reported = [design.reported_shape[i] for i in places]
    group = joint_of(true_codes(design)[:, places], sizes)
    heard = joint_of(reported_codes(design)[:, places], reported)
    P, n = design.matrix(), math.prod(sizes)
    rows = np.stack([P[heard == h].sum(axis=0) for h in range(math.prod(reported))])
    columns = [rows[:, group == g] for g in range(n)]
    if any(np.ptp(part, axis=1).max() > 1e-9 for part in columns):
        return None
    lump = np.stack([part[:, 0] for part in columns], axis=1)
    if design.n_reported > design.n_true and not design.undefined:
        # The margin of the inverse is the inverse of the margin, for reports that occur.
        if len(lump) < n:
            return None
        p0 = None
        if design.p0 is not None:
            p0 = np.array([design.p0[group == g].sum() for g in range(n)])
        B, small = design.left_inverse(), plain_inverse(lump, p0)
        for y in np.flatnonzero(P.any(axis=1)):
            sums = [B[group == g, y].sum() for g in range(n)]
            if np.abs(sums - small[:, heard[y]]).max() > 1e-8:
                return None
    return lump


def check_marginals(design: Design) -> None:
    """A marginal is the lumped P, and None exactly where there is none."""
    assert design.marginal(design.attributes) == design
    if not is_dense(design):
        return
    for size in range(1, len(design.attributes)):
        for names in itertools.combinations(design.attributes, size):
            expected, marginal = lumped(design, names), design.marginal(names)
            assert (marginal is None) == (expected is None), names
            if marginal is None or expected is None:
                continue
            assert marginal.attributes == names
            np.testing.assert_allclose(marginal.matrix(), expected, atol=TOLERANCE)


# -- sampling --------------------------------------------------------------------------------------


def chi_square(observed: np.ndarray, expected: np.ndarray) -> tuple[float, int]:
    """Statistic and degrees of freedom; cells of small expectation are pooled.

    Cells that cannot occur must be empty, exactly.
    """
    impossible = expected == 0
    assert not observed[impossible].any(), "a report that P gives probability zero was drawn"
    order = np.argsort(expected[~impossible], kind="stable")
    counts, means = observed[~impossible][order], expected[~impossible][order]
    n_groups = min(200, max(int(means.sum() // 50), 1))
    group = ((np.cumsum(means) - means / 2) * (n_groups / means.sum())).astype(int)
    _, group = np.unique(group, return_inverse=True)
    counts, means = np.bincount(group, counts), np.bincount(group, means)
    return float(((counts - means) ** 2 / means).sum()), len(means) - 1


def assert_plausible(parts: Iterator[tuple[float, int]], level: float = LEVEL) -> None:
    """Independent chi-square statistics, summed, are not beyond the level."""
    statistic, freedom = (sum(values) for values in zip(*parts, strict=True))
    if freedom:
        assert chi2.sf(statistic, freedom) > level, f"chi-square {statistic:.1f} on {freedom}"
    else:
        assert statistic < 1e-9


def _sampled(design: Design, stream: Stream) -> Iterator[tuple[float, int]]:
    tried = some_categories(design, 12 if is_dense(design) else 3)
    n = 200_000 // len(tried)
    order = np.random.default_rng(5).permutation(np.repeat(tried, n))
    records = Records(codes_of(order, design.shape), codebook_of(design))
    reports = design.disguise(records, stream)
    assert reports.simulated == stream.simulated
    assert reports.design_digest == design.digest
    symbols = symbols_of(reports, design)
    for x in tried:
        expected = n * design.apply(unit(design, x))
        yield chi_square(np.bincount(symbols[order == x], minlength=len(expected)), expected)


def check_sampler(design: Design) -> None:
    """Simulated reports follow P."""
    assert_plausible(_sampled(design, Stream.from_seed(20_040_101)))


def check_real_disguise(design: Design) -> None:
    """Cryptographic reports follow P, and no two disguises are the same."""
    design = with_labels(design)
    assert_plausible(_sampled(design, Stream.from_entropy()))
    records = random_records(codebook_of(design), 2_000, seed=6)
    first, second = (design.disguise(records, Stream.from_entropy()) for _ in range(2))
    seen = np.unique(joint_of(records.codes[:20], design.shape))
    chances = np.array([design.apply(unit(design, x)) for x in seen])
    assert (content(first) != content(second)).any() == bool(((chances > 0) & (chances < 1)).any())


def check_partitions(design: Design) -> None:
    """The disguise of a part is the part of the disguise, over a border of logical blocks."""
    n = 3_000
    records = random_records(codebook_of(design), n, seed=7, offset=LOGICAL_BLOCK - 1_234)
    stream = Stream.from_seed(8)
    whole = content(design.disguise(records, stream))
    cuts = [0, 1, 63, 64, 700, 1_233, 1_234, 1_300, 2_999, n]
    for low, high in itertools.pairwise(cuts):
        part = design.disguise(records.slice(low, high), stream)
        assert part.offset == records.offset + low
        np.testing.assert_array_equal(content(part), whole[low:high])
    assert len(design.disguise(records.slice(5, 5), stream)) == 0


def check_draws_ignore_data(design: Design) -> None:
    """A report depends on the coins and its own record, not on other people's answers."""
    n, stream = 4_000, Stream.from_seed(9)
    records = random_records(codebook_of(design), n, seed=10)
    others = random_records(codebook_of(design), n, seed=11)
    kept = np.random.default_rng(12).random(n) < 0.5
    mixed = Records(np.where(kept[:, None], records.codes, others.codes), records.codebook)
    one, two = (content(design.disguise(r, stream)) for r in (records, mixed))
    np.testing.assert_array_equal(one[kept], two[kept])


def check_sampled_inverse(design: Design) -> None:
    """E[factor f(x)] = <f, B e_y>."""
    if design.undefined:
        with pytest.raises(NotInvertible):
            design.sample_inverse(np.zeros((1, len(design.shape)), int), Stream.from_seed(0))
        return
    rng = np.random.default_rng(13)
    if has_sets(design) and design.kind == "symbol":
        with pytest.raises(DesignError, match="handled block by block"):
            design.sample_inverse(np.zeros((1, 2), int), Stream.from_seed(0))
        return
    f = rng.normal(size=design.n_true)
    expected = design.invert_transposed(f)
    n = 40_000
    parts = []
    possible = possible_symbols(design) if design.kind == "set" else some_categories(design, 5)
    for i, y in enumerate(possible[:5]):
        codes = np.repeat(reported_codes(design, np.array([y])), n, axis=0)
        if design.kind == "symbol":
            codes = codes.astype(np.uint32)
        truth, factors = design.sample_inverse(codes, Stream.from_seed(14).child(i))
        assert truth.dtype == codes.dtype or design.kind == "set"
        values = factors * f[joint_of(truth, design.shape)]
        spread = values.var(ddof=1) / n
        error = float(values.mean() - expected[y])
        if spread < 1e-24:
            assert abs(error) < TOLERANCE * max(1, abs(expected[y]))
            continue
        parts.append((error**2 / spread, 1))
    if parts:
        assert_plausible(iter(parts))


# -- objects ---------------------------------------------------------------------------------------


def check_config(design: Design) -> None:
    config = json.loads(json.dumps(design.config()))
    again = design_from_config(config)
    assert type(again) is type(design)
    assert again == design
    assert hash(again) == hash(design)
    assert again.digest == design.digest
    assert (again.attributes, again.shape) == (design.attributes, design.shape)
    p = random_prior(design.n_true, np.random.default_rng(15))
    np.testing.assert_array_equal(again.apply(p), design.apply(p))
    with pytest.raises(DesignError, match="nonsense"):
        design_from_config({**config, "nonsense": 1})
    for key in config:
        rest = {k: v for k, v in config.items() if k != key}
        try:
            design_from_config(rest)
        except DesignError as error:
            assert key in str(error)


def _arrays(value: object) -> Iterator[np.ndarray]:
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _arrays(item)
    elif isinstance(value, Design):
        yield from _arrays(list(vars(value).values()))


def check_frozen(design: Design) -> None:
    for name in [*vars(design), "unheard_of"]:
        with pytest.raises(FrozenInstanceError, match=f"cannot assign to field '{name}'"):
            setattr(design, name, getattr(design, name, None))
        with pytest.raises(FrozenInstanceError, match=f"cannot delete field '{name}'"):
            delattr(design, name)
    # What is kept, caches included, is read-only.
    for one in (design, pickle.loads(pickle.dumps(design))):
        one.apply(unit(one, 0))
        if not one.undefined:
            one.invert(one.apply(unit(one, 0)))
        assert not any(array.flags.writeable for array in _arrays(one))


def check_pickle(design: Design) -> None:
    again = pickle.loads(pickle.dumps(design))
    assert again == design
    p = random_prior(design.n_true, np.random.default_rng(16))
    np.testing.assert_array_equal(again.apply(p), design.apply(p))
    if not design.undefined:
        reported = design.apply(p)
        np.testing.assert_array_equal(again.invert(reported), design.invert(reported))


def check_undefined_names_reason(design: Design) -> None:
    """Undefined says why exactly where P is singular."""
    if is_dense(design):
        rank = np.linalg.matrix_rank(design.matrix(), tol=1e-9)
        assert bool(design.undefined) == (rank < design.n_true)


def check_reports(design: Design) -> None:
    """Reports keep the codebook, the offset and the digest of what made them, which is once."""
    codebook = codebook_of(design)
    records = random_records(codebook, 10, seed=17, offset=3)
    reports = design.disguise(records, Stream.from_seed(18))
    assert reports.codebook is codebook
    assert (reports.offset, reports.design_digest, len(reports)) == (3, design.digest, 10)
    with pytest.raises(ValueError, match="already disguised"):
        design.disguise(reports, Stream.from_seed(18))


BATTERY: tuple[Callable[[Design], None], ...] = (
    check_columns_sum_to_one,
    check_left_inverse,
    check_dense_twins,
    check_event_weights,
    check_marginals,
    check_undefined_names_reason,
    check_sampler,
    check_real_disguise,
    check_partitions,
    check_draws_ignore_data,
    check_sampled_inverse,
    check_config,
    check_frozen,
    check_pickle,
    check_reports,
)
