"""Every design family through the battery, and what each family states of itself."""

from __future__ import annotations

import hashlib
import itertools
import math
import tracemalloc

import checks
import numpy as np
import pytest
from strategies import codebook_of, make_codebook, random_records

from ppdm_dask import (
    Identity,
    KaryResponse,
    NotInvertible,
    Product,
    Records,
    Reports,
    RRMatrix,
    Stream,
    UnrelatedQuestion,
    Warner,
    count,
    design_from_config,
    invert,
)
from ppdm_dask.designs import (
    Crosswise,
    Design,
    ForcedResponse,
    InvariantPRAM,
    Kuk,
    Mangat,
    Triangular,
    families,
    register,
    two_stage,
)
from ppdm_dask.designs.draws import thresholds
from ppdm_dask.errors import DesignError, RecordsError
from ppdm_dask.randomness import LOGICAL_BLOCK

ALL = [design for designs in checks.EXAMPLES.values() for design in designs]


def _label(design: Design) -> str:
    place = checks.EXAMPLES[design.id].index(design)
    return f"{design.id}-{place}"


# -- the battery -----------------------------------------------------------------------------------


def test_every_registered_family_has_examples():
    checks.require_examples(families(), checks.EXAMPLES)


@pytest.mark.parametrize("check", checks.BATTERY, ids=lambda check: check.__name__[6:])
@pytest.mark.parametrize("design", ALL, ids=_label)
def test_battery(design, check):
    check(design)


def test_designs_are_equal_where_their_configurations_are():
    """All pairs of the examples, each once more from its configuration, and near misses."""
    once, again = ALL, [design_from_config(design.config()) for design in ALL]
    configs = [design.config() for design in ALL]
    same = [[one == other for other in configs] for one in configs]
    assert [[one == other for other in again] for one in once] == same
    assert sum(map(sum, same)) >= len(ALL)
    for one, other in itertools.product(once, again):
        assert one != other or hash(one) == hash(other)
    P = np.array(checks.SKEWED)
    P[:2, 0] += [2**-53, -(2**-53)]  # the last digit of a double
    assert RRMatrix("a", checks.SKEWED).config() != RRMatrix("a", P).config()
    assert RRMatrix("a", checks.SKEWED) != RRMatrix("a", P)
    laws = [[0.25, 0.75]], [0.75]  # of a binary attribute without labels they say the same
    one, other = (UnrelatedQuestion("a", 0.6, law) for law in laws)
    assert one == other and hash(one) == hash(other)
    labelled = UnrelatedQuestion("a", 0.6, laws[0], categories=["no", "yes"])
    assert one != labelled and one.config() != labelled.config()
    assert Warner("a", 0.8) != "warner" and Warner("a", 0.8) != Warner("b", 0.8)


def test_equality_of_large_matrices_makes_no_lists():
    P = np.random.default_rng(1).dirichlet(np.ones(600), 600).T
    one, other = RRMatrix("a", P), RRMatrix("a", P.copy())
    tracemalloc.start()
    try:
        assert one == other
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < P.nbytes / 2  # a byte an entry; a list has 32 of them


def test_a_family_without_examples_fails_the_battery():
    with pytest.raises(
        pytest.fail.Exception, match=r"'nonesuch' has no example in tests/support/checks.py"
    ):
        checks.require_examples([*checks.EXAMPLES, "nonesuch"], checks.EXAMPLES)
    with pytest.raises(pytest.fail.Exception, match=r"example of 'kary' .* is a 'warner'"):
        checks.require_examples(["kary"], {"kary": (Warner("a", 0.8),)})


def test_a_second_family_of_the_same_id_is_refused():
    with pytest.raises(DesignError, match="two design families are called 'warner'"):
        register(Warner)
    assert families()["warner"] is Warner


class _Faulty(Warner):
    """Reports the truth a little too often: P says 0.79, the sampler does 0.8."""

    def matrix(self):
        return np.array([[0.79, 0.21], [0.21, 0.79]])

    def apply(self, true):
        return self.matrix() @ true


@pytest.mark.parametrize(
    ("check", "says"),
    [
        (checks.check_sampler, "chi-square"),
        (checks.check_real_disguise, "chi-square"),
        (checks.check_left_inverse, "Not equal to tolerance"),
        (checks.check_event_weights, "Not equal to tolerance"),
    ],
)
def test_the_battery_finds_a_sampler_off_by_a_hundredth(check, says):
    with pytest.raises(AssertionError, match=says):
        check(_Faulty("a", 0.8))


def test_the_battery_finds_an_impossible_transition():
    class Leaky(RRMatrix):
        def sample(self, codes, stream, start):
            reports = np.array(super().sample(codes, stream, start))
            reports[start == 0, 0] = 0  # one record in a block
            reports[0] = 1
            return reports

    leaky = Leaky("a", np.eye(2))
    with pytest.raises(AssertionError, match="probability zero"):
        checks.check_sampler(leaky)


# -- what each family's P is, by hand --------------------------------------------------------------


def test_matrices_by_hand():
    np.testing.assert_allclose(Warner("a", 0.8).matrix(), [[0.8, 0.2], [0.2, 0.8]], atol=1e-15)
    np.testing.assert_allclose(
        KaryResponse("a", 3, 0.5).matrix(),
        [[0.5, 0.25, 0.25], [0.25, 0.5, 0.25], [0.25, 0.25, 0.5]],
        atol=1e-15,
    )
    np.testing.assert_array_equal(Identity("a", [3]).matrix(), np.eye(3))
    # q = 0.6, P(Y = 1) = 0.3: a 0 is reported as 0 with .6 + .4 * .7.
    np.testing.assert_allclose(
        UnrelatedQuestion("a", 0.6, 0.3).matrix(), [[0.88, 0.28], [0.12, 0.72]], atol=1e-15
    )


def test_unrelated_question_by_enumeration_of_coin_and_personal_answers():
    q, laws = 0.7, ([0.8, 0.2], [0.5, 0.2, 0.3])
    expected = np.zeros((6, 6))
    for x in range(6):
        expected[x, x] += q
        for first, second in itertools.product(range(2), range(3)):
            expected[3 * first + second, x] += (1 - q) * laws[0][first] * laws[1][second]
    design = UnrelatedQuestion(["a", "b"], q, [0.2, laws[1]])
    np.testing.assert_allclose(design.matrix(), expected, atol=1e-15)


def test_product_is_the_kronecker_product_and_flattens():
    one, two = RRMatrix("a", checks.SKEWED), RRMatrix("b", checks.HOLES)
    inner = Product([one, two])
    outer = Product([Product([inner]), Warner("c", 0.8)])
    assert outer.blocks == (one, two, Warner("c", 0.8))
    P = outer.matrix()
    for (ya, yb, yc), (xa, xb, xc) in itertools.product(
        itertools.product(range(3), range(3), range(2)), repeat=2
    ):
        expected = checks.SKEWED[ya, xa] * checks.HOLES[yb, xb] * (0.8 if yc == xc else 0.2)
        assert math.isclose(P[6 * ya + 2 * yb + yc, 6 * xa + 2 * xb + xc], expected, abs_tol=1e-15)


def test_epsilon_sets_the_likelihood_ratio():
    design = KaryResponse("a", 4, epsilon=math.log(3))
    assert math.isclose(design.p / ((1 - design.p) / 3), 3, rel_tol=1e-14)
    assert math.isclose(design.epsilon(), math.log(3), rel_tol=1e-14)
    assert KaryResponse("a", 4, epsilon=0).undefined
    assert KaryResponse("a", 7, epsilon=0).undefined  # 1/7 is not a double, and still undefined


def test_theorem_2_three_names_of_one_matrix():
    """Warner's p, uniform perturbation's q and FRAPP's lambda, as HuangDu prints them."""
    n = 4
    ones = np.ones((n, n))
    for p in (0.25, 0.4, 0.7, 1.0):
        warner = np.full((n, n), (1 - p) / (n - 1)) + (p - (1 - p) / (n - 1)) * np.eye(n)
        np.testing.assert_allclose(KaryResponse("a", n, p).matrix(), warner, atol=1e-14)
        q = (n * p - 1) / (n - 1)
        perturbed = q * np.eye(n) + (1 - q) / n * ones
        np.testing.assert_allclose(KaryResponse("a", n, q=q).matrix(), perturbed, atol=1e-14)
        np.testing.assert_allclose(perturbed, warner, atol=1e-14)
        if p < 1:
            ratio = p * (n - 1) / (1 - p)
            frapp = (ones + (ratio - 1) * np.eye(n)) / (ratio + n - 1)
            np.testing.assert_allclose(
                KaryResponse("a", n, lambda_=ratio).matrix(), frapp, atol=1e-14
            )
            np.testing.assert_allclose(frapp, warner, atol=1e-14)
    # The correction: with q in [0, 1] p is at least 1 / n, so Warner's .1 has no q.
    assert KaryResponse("a", n, q=0).p == 1 / n
    with pytest.raises(DesignError, match=r"^q: got"):
        KaryResponse("a", n, q=(n * 0.1 - 1) / (n - 1))
    assert design_from_config(
        {"id": "kary", "attribute": "a", "n": 4, "lambda": 3}
    ) == KaryResponse("a", 4, 0.5)


def test_matrices_of_survey_designs_by_hand():
    """P[report, truth] for the truths no (0) and yes (1)."""
    for design, expected in (
        (Mangat("a", 0.7), [[0.7, 0], [0.3, 1]]),
        (Triangular("a", 0.25), [[0.75, 0], [0.25, 1]]),
        (Crosswise("a", 0.2), [[0.2, 0.8], [0.8, 0.2]]),
        (ForcedResponse("a", 0.75, [1 / 3, 2 / 3]), [[10 / 12, 1 / 12], [2 / 12, 11 / 12]]),
        (Kuk("a", 0.8, 0.3), [[0.7, 0.2], [0.3, 0.8]]),
        (Kuk("a", 0.5, 0.1, 2), [[0.81, 0.25], [0.18, 0.5], [0.01, 0.25]]),
    ):
        np.testing.assert_allclose(design.matrix(), expected, atol=1e-14)


def test_textbook_estimators_of_survey_designs():
    """Published closed forms for the share pi of yes from the share of reports."""
    n, share = 1000, 0.42
    yes = round(n * share)
    book = make_codebook("a", [2])

    def estimate(design, counts=(n - yes, yes)):
        codes = np.repeat(np.arange(len(counts)), counts)[:, None]
        reports = Reports(codes, book, 0, design.digest, True, design.reported_shape)
        return invert(count(reports, design), design).values[1]

    assert math.isclose(estimate(Mangat("a", 0.7)), (share - 0.3) / 0.7)
    assert math.isclose(estimate(Triangular("a", 0.25)), (share - 0.25) / 0.75)
    assert math.isclose(estimate(Crosswise("a", 0.2)), (share + 0.2 - 1) / (2 * 0.2 - 1))
    forced = ForcedResponse("a", 0.75, [1 / 3, 2 / 3])
    assert math.isclose(estimate(forced), (share - 1 / 6) / 0.75)
    assert math.isclose(estimate(Kuk("a", 0.8, 0.3)), (share - 0.3) / 0.5)
    # Five cards: the mean count over five, by name; the weighted inverse differs.
    counts = (100, 300, 250, 200, 100, 50)
    mean = np.dot(counts, np.arange(6)) / 1000 / 5
    five = Kuk("a", 0.6, 0.3, 5, inverse="textbook")
    assert math.isclose(estimate(five, counts), (mean - 0.3) / 0.3)
    weighted = Kuk("a", 0.6, 0.3, 5)
    assert abs(estimate(weighted, counts) - estimate(five, counts)) > 1e-4
    # The name of the inverse does not touch what is reported.
    assert weighted.digest == five.digest
    assert weighted != five


def test_invariant_matrices_leave_the_prior_unchanged():
    prior = np.array([0.2, 0.5, 0.3])
    np.testing.assert_allclose(InvariantPRAM("a", prior, 0.6).apply(prior), prior, atol=1e-15)
    for start in (RRMatrix("a", checks.SKEWED), RRMatrix("a", checks.TALL)):
        both = two_stage(start, prior)
        np.testing.assert_allclose(both.apply(prior), prior, atol=1e-14)
        assert not both.undefined
    assert np.abs(RRMatrix("a", checks.SKEWED).apply(prior) - prior).max() > 0.01


def test_marginals_that_are_and_are_not():
    assert RRMatrix(["a", "b"], checks.JOINT_SKEWED, [2, 2]).marginal(["a"]) is None
    assert RRMatrix(["a", "b"], checks.JOINT_SKEWED, [2, 2]).marginal(["b"]) is None
    half = RRMatrix(["a", "b"], checks.second_depends_on_first(), [2, 2])
    assert half.marginal(["b"]) is None
    np.testing.assert_allclose(half.marginal(["a"]).matrix(), [[0.8, 0.3], [0.2, 0.7]], atol=1e-15)
    both = RRMatrix(["a", "b"], checks.BOTH_FLIPPED, [2, 2])
    np.testing.assert_allclose(both.marginal(["b"]).matrix(), Warner("b", 0.8).matrix(), atol=1e-15)


def test_marginals_in_another_order():
    block = UnrelatedQuestion(["a", "b"], 0.5, [0.2, [0.1, 0.3, 0.6]])
    turned = UnrelatedQuestion(["b", "a"], 0.5, [[0.1, 0.3, 0.6], 0.2])
    assert block.marginal(["b", "a"]) == turned
    matrix = RRMatrix(["a", "b"], checks.JOINT_SKEWED, [2, 2]).marginal(["b", "a"])
    order = [0, 2, 1, 3]  # (b, a) = 00, 01, 10, 11 from (a, b)
    np.testing.assert_array_equal(matrix.matrix(), checks.JOINT_SKEWED[np.ix_(order, order)])
    whole = Product([block, Warner("c", 0.8)])
    assert whole.marginal(["c", "b", "a"]) == Product([Warner("c", 0.8), turned])
    assert whole.marginal(["a", "c", "b"]) is None  # no product of blocks has this order


def test_singular_matrix_carries_its_condition_number():
    P = np.array([[0.5, 0.5], [0.5, 0.5]])
    with pytest.raises(
        NotInvertible, match=r"matrix on a is not invertible.*condition number"
    ) as e:
        RRMatrix("a", P).left_inverse()
    np.testing.assert_array_equal(e.value.subject, P)


@pytest.mark.parametrize("n", [3, 7, 10, 49])
def test_a_truth_told_as_often_as_any_lie_has_no_inverse(n):
    design = KaryResponse("a", n, 1 / n)
    with pytest.raises(NotInvertible, match="reports do not depend on the truth"):
        design.invert(np.ones(n) / n)


# -- the disguise ----------------------------------------------------------------------------------


def test_disguise_over_several_logical_blocks_in_pieces():
    n = 2 * LOGICAL_BLOCK + 1_000
    design = Product([UnrelatedQuestion(["a", "b"], 0.4, [0.3, [0.2, 0.5, 0.3]]), Warner("c", 0.8)])
    records = random_records(codebook_of(design), n, seed=1)
    stream = Stream.from_seed(2)
    whole = design.disguise(records, stream)
    cuts = [0, 10, 65_535, 65_536, 65_537, 100_000, 131_072, 131_100, n]
    parts = [
        design.disguise(records.slice(low, high), stream).codes
        for low, high in itertools.pairwise(cuts)
    ]
    np.testing.assert_array_equal(np.concatenate(parts), whole.codes)
    # Each logical block has draws of its own.
    coins = whole.codes[:, 2] == records.codes[:, 2]
    assert (coins[:1_000] != coins[LOGICAL_BLOCK : LOGICAL_BLOCK + 1_000]).any()


def test_the_same_coins_whatever_the_answers():
    codebook = make_codebook("abc", [2, 2, 2])
    records = random_records(codebook, 5_000, seed=3)
    opposite = Records(1 - records.codes.astype(int), codebook)
    stream = Stream.from_seed(4)

    unrelated = UnrelatedQuestion(["a", "b", "c"], 0.4, [0.2, 0.5, 0.9])
    one, two = (unrelated.disguise(r, stream).codes for r in (records, opposite))
    told = (one != two).all(axis=1)
    assert ((one != two) == told[:, None]).all()  # one coin for the whole record
    np.testing.assert_array_equal(one[told], records.codes[told])
    assert 0.35 < told.mean() < 0.45

    flips = Product([Warner(name, 0.7) for name in "abc"])
    one, two = (flips.disguise(r, stream).codes for r in (records, opposite))
    np.testing.assert_array_equal(one, 1 - two)
    agreement = (one == records.codes).mean(axis=0)
    np.testing.assert_allclose(agreement, 0.7, atol=0.04)
    assert ((one == records.codes).all(axis=1)).mean() < 0.5  # a coin an attribute


def test_uncovered_attributes_pass_through():
    codebook = make_codebook("uav", [3, 2, 2])
    records = random_records(codebook, 1_000, seed=5)
    reports = Warner("a", 0.6).disguise(records, Stream.from_seed(6))
    np.testing.assert_array_equal(reports.column("u"), records.column("u"))
    np.testing.assert_array_equal(reports.column("v"), records.column("v"))
    assert 300 < (reports.column("a") != records.column("a")).sum() < 500


def test_a_design_over_other_attributes_or_categories_is_refused():
    records = random_records(make_codebook("ab", [2, 3]), 10, seed=7)
    with pytest.raises(RecordsError, match="covers attribute 'z'; there are only: a, b"):
        Warner("z", 0.8).disguise(records, Stream.from_seed(0))
    with pytest.raises(RecordsError, match="'b' has 3 categories; the design expects 2"):
        Warner("b", 0.8).disguise(records, Stream.from_seed(0))


def test_thresholds_add_up_and_skip_impossible_symbols():
    law = np.array([0.0, 1 / 3, 0.0, 2 / 3, 0.0])
    cuts, last = thresholds(law)
    assert last == 3
    assert [int(c) for c in cuts][2:] == [int(cuts[1]), 1 << 62, 1 << 62]
    assert abs(int(cuts[1]) - (1 << 62) / 3) <= 512  # a third, as the double has it
    first = np.searchsorted(cuts, np.array([0, int(cuts[1]) - 1, int(cuts[1])], np.uint64), "right")
    assert first.tolist() == [1, 1, 3]


# -- configurations --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("design", "text"),
    [
        (Warner("a", 0.8), '{"attribute":"a","id":"warner","theta":0.8}'),
        (KaryResponse("a", 5, 1), '{"attribute":"a","id":"kary","n":5,"p":1.0}'),
        (Identity(["b", "a"], [2, 3]), '{"attributes":["b","a"],"id":"identity","shape":[2,3]}'),
        (
            UnrelatedQuestion(["a", "b"], 0.5, [0.3, [0.2, 0.2, 0.6]]),
            '{"attributes":["a","b"],"id":"unrelated","q":0.5,"w_y":[0.3,[0.2,0.2,0.6]]}',
        ),
        (
            RRMatrix("a", [[1, 0.25], [0, 0.75]]),
            '{"P":[[1.0,0.25],[0.0,0.75]],"attributes":["a"],"id":"matrix","shape":[2]}',
        ),
        (
            Product([Warner("a", 0.25)]),
            '{"blocks":[{"attribute":"a","id":"warner","theta":0.25}],"id":"product"}',
        ),
    ],
    ids=lambda value: value.id if isinstance(value, Design) else "",
)
def test_digest_is_that_of_the_canonical_text(design, text):
    assert design.digest == hashlib.sha256(text.encode()).hexdigest()


def test_ways_to_say_the_same_are_equal():
    assert UnrelatedQuestion(["a", "b"], 1) == UnrelatedQuestion(("a", "b"), 1.0, [0.5, [0.5, 0.5]])
    assert UnrelatedQuestion("a", 0.5, np.float32(0.25)) == UnrelatedQuestion("a", 0.5, [0.25])
    # Only P(Y = 1) of a binary attribute is kept, and the law comes back to the last bit.
    laid = UnrelatedQuestion("a", 0.5, [[0.1 + 0.2, 0.7]])
    np.testing.assert_array_equal(design_from_config(laid.config()).w_y, laid.w_y)
    assert Warner("a", 0.8) != Warner("a", 0.7)
    assert Warner("a", 0.8) != KaryResponse("a", 2, 0.8)


def test_given_arrays_are_copied():
    P = np.array(checks.SKEWED)
    law = np.array([0.2, 0.3, 0.5])
    matrix, unrelated = RRMatrix("a", P), UnrelatedQuestion("a", 0.5, [law])
    P[:], law[:] = 0, 0
    np.testing.assert_array_equal(matrix.matrix(), checks.SKEWED)
    np.testing.assert_array_equal(unrelated.w_y[0], [0.2, 0.3, 0.5])


BAD = [
    (lambda: Warner("a", 1.5), r"^theta: got 1.5; a probability in \[0, 1\]"),
    (lambda: Warner("a", float("nan")), "^theta: got nan"),
    (lambda: Warner("a", True), "^theta: got True"),
    (lambda: Warner("a", "0.8"), "^theta: got '0.8'"),
    (lambda: Warner("", 0.8), "^attributes: got ''"),
    (lambda: Warner(["a", "b"], 0.8), "^attribute: got .*exactly one"),
    (lambda: KaryResponse("a", 1, 0.5), "^n: got 1; a whole number from 2 to 1,048,576"),
    (lambda: KaryResponse("a", 2.5, 0.5), "^n: got 2.5"),
    (lambda: KaryResponse("a", "3", 0.5), "^n: got '3'"),
    (lambda: KaryResponse("a", 3, -0.1), "^p: got -0.1"),
    (lambda: KaryResponse("a", 3), "^p, q, lambda, epsilon: exactly one"),
    (lambda: KaryResponse("a", 3, 0.5, epsilon=1), "^p, q, lambda, epsilon: exactly one"),
    (lambda: KaryResponse("a", 3, q=1.2), "^q: got 1.2"),
    (lambda: KaryResponse("a", 3, lambda_=-1), "^lambda: got -1"),
    (lambda: KaryResponse(["a", "b"], 3, q=0.5), "^attribute: got .*exactly one"),
    (lambda: ForcedResponse("a", 0.5, [0.5, 0.6]), "^forced: got .*sum to 1"),
    (lambda: ForcedResponse("a", 2, [0.5, 0.5]), "^truth: got 2"),
    (lambda: Mangat("a", -0.1), "^p: got -0.1"),
    (lambda: Kuk("a", 0.5, 0.2, 0), "^repeats: got 0; a whole number from 1 to 1,000"),
    (
        lambda: Kuk("a", 0.5, 0.2, 2, "plain"),
        "^inverse: got 'plain'; the name of a left inverse is needed",
    ),
    (lambda: InvariantPRAM("a", [0.5, 0.4], 0.5), "^prior: got .*sum to 1"),
    (lambda: KaryResponse("a", 3, epsilon=-1), "^epsilon: got -1"),
    (lambda: KaryResponse("a", 3, epsilon=math.inf), "^epsilon: got inf"),
    (lambda: KaryResponse("a", 3, epsilon="1"), "^epsilon: got '1'"),
    (lambda: Identity([], []), "^attributes: got"),
    (lambda: Identity(5, [2]), "^attributes: got 5"),
    (lambda: Identity(["a", "a"], [2, 2]), r"^attributes: got \[.a., .a.\]; distinct"),
    (lambda: Identity(["a", "b"], [2]), "^shape: got .*2 whole numbers"),
    (lambda: Identity("a", [0]), "^shape: got"),
    (lambda: Identity("a", 2), "^shape: got 2"),
    (lambda: RRMatrix("a", [1, 0]), r"^P: shape \(2,\); a matrix is needed"),
    (lambda: RRMatrix("a", np.eye(2), p0=[0.5, 0.5]), "^p0: .*only a tall P has one"),
    (lambda: RRMatrix("a", checks.TALL, p0=[0.5, 0.5, 0]), "^p0: .*positive"),
    (lambda: RRMatrix("a", checks.TALL, p0=[0.5, 0.5]), "^p0: shape .*length 3"),
    (lambda: RRMatrix("a", checks.TALL, [3], [4]), "^reported_shape: .*4 joint .* P has 5"),
    (lambda: RRMatrix("a", checks.TALL, [3], [5, 1]), "^reported_shape: got"),
    (lambda: RRMatrix("a", [[0.9, 0.1], [0.2, 0.8]]), "^P: column 0 sums to 1.1.*the rows do"),
    (
        lambda: RRMatrix("a", [[0.9, 0.3], [0.2, 0.8]]),
        "^P: column 0 sums to 1.1, 0.1 off",
    ),
    (lambda: RRMatrix("a", [[1.2, 0], [-0.2, 1]]), r"^P\[0, 0\]: got 1.2"),
    (lambda: RRMatrix("a", [[float("nan"), 0], [1, 1]]), r"^P\[0, 0\]: got nan"),
    (lambda: RRMatrix("a", [["x", 0], [1, 1]]), "^P: got .*numbers are needed"),
    (lambda: RRMatrix("a", [[1, 0], [1]]), "^P: got .*numbers are needed"),
    (lambda: RRMatrix(["a", "b"], np.eye(4)), "^shape: missing"),
    (lambda: RRMatrix(["a", "b"], np.eye(4), [2, 3]), "^shape: .*6 joint categories; P has 4"),
    (lambda: UnrelatedQuestion("a", 1.5), "^q: got 1.5"),
    (lambda: UnrelatedQuestion("a", None), "^q: got nothing"),
    (lambda: UnrelatedQuestion("a", 0.5, 2), "^w_y: got 2"),
    (lambda: UnrelatedQuestion("a", 0.5, None), "^w_y: got nothing"),
    (lambda: UnrelatedQuestion("a", 0.5, "half"), "^w_y: got 'half'"),
    (lambda: UnrelatedQuestion(["a", "b"], 0.5, [0.5]), "^w_y: got 1 entries"),
    (lambda: UnrelatedQuestion(["a", "b"], 0.5, [0.5, 1.5]), "^w_y of 'b': got 1.5"),
    (lambda: UnrelatedQuestion(["a", "b"], 0.5, [0.5, "x"]), "^w_y of 'b': got 'x'"),
    (lambda: UnrelatedQuestion("a", 0.5, [[0.5, 0.6]]), "^w_y of 'a': got .*sum to 1"),
    (lambda: UnrelatedQuestion("a", 0.5, [[0.5, 0.5, 0.1, -0.1]]), "^w_y of 'a': got"),
    (lambda: UnrelatedQuestion("a", 0.5, [["x", 0.5]]), "^w_y of 'a': got .*numbers"),
    (lambda: UnrelatedQuestion("a", 0.5, 0.5, [3]), r"^w_y: gives \[2\] categories; shape says"),
    (lambda: Product([]), "^attributes: got"),
    (
        lambda: Product([Warner("a", 0.8), Warner("a", 0.8)]),
        r"^attributes: got \[.a., .a.\]; distinct",
    ),
    (lambda: Product(["warner"]), "^designs: got 'warner'"),
    (
        lambda: design_from_config({"id": "wanrer"}),
        "^id: got 'wanrer'; a design family is needed: .*warner",
    ),
    (lambda: design_from_config({"id": ["warner"]}), "^id: got"),
    (lambda: design_from_config({}), "^id: got None"),
    (lambda: design_from_config("warner"), "^design: got 'warner'"),
    (lambda: design_from_config({"id": "product", "blocks": []}), "^blocks: got"),
    (lambda: design_from_config({"id": "product", "blocks": "ab"}), "^blocks: got 'ab'"),
    (lambda: design_from_config({"id": "warner", "attribute": "a"}), "^theta: missing"),
    (
        lambda: design_from_config({"id": "warner", "attribute": "a", "p": 0.8, "theta": 0.8}),
        "^p: not a parameter of 'warner'; it has: attribute, theta",
    ),
]


@pytest.mark.parametrize(("make", "says"), BAD, ids=range(len(BAD)))
def test_bad_parameters_are_named(make, says):
    with pytest.raises(DesignError, match=says) as caught:
        make()
    assert "\n" not in str(caught.value)


# -- thousands of categories -----------------------------------------------------------------------


@pytest.mark.parametrize("k", [2_925, 100_000])
def test_thousands_of_categories_take_memory_of_the_order_of_k(k):
    design = KaryResponse("a", k, 0.5)
    n = 50_000
    truth = np.minimum(np.random.default_rng(1).geometric(0.3, n), k) - 1
    records = Records(truth[:, None], codebook_of(design))
    prior = np.full(k, 1 / k)
    design.disguise(records, Stream.from_seed(0))  # kernels compiled and modules loaded
    tracemalloc.start()
    try:
        reports = design.disguise(records, Stream.from_seed(1))
        estimate = invert(count(reports, design), design)
        measures = design.privacy(prior), design.max_posterior(prior), design.pse(prior)
        epsilon = design.epsilon()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 200 * (k + n) + 2_000_000  # a dense matrix of 2,925 takes 68 MB
    # Category 0 has probability .3; its weights are 2 and -1 / k.
    assert abs(estimate.values[0] - (truth == 0).mean()) < 5 * math.sqrt(estimate.variance[0])
    assert abs(math.fsum(estimate.values) - 1) < 1e-9
    off = 0.5 / (k - 1)
    np.testing.assert_allclose(measures, [0.5, 0.5, 1 - 0.25 - (k - 1) * off**2], rtol=1e-9)
    assert math.isclose(epsilon, math.log(0.5 / off), rel_tol=1e-12)


def test_epsilon_of_a_product_needs_no_joint_domain():
    design = Product([KaryResponse(name, 100_000, epsilon=2.0) for name in "abc"])
    assert math.isclose(design.epsilon(), 6.0, rel_tol=1e-9)
