"""What the electronic-surveys paper states, corrected where it is misprinted.  [ZhanMatwin]_."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import SEEDS, identity_of, make_codebook, random_records, reports_of

from ppdm_dask import (
    NotInvertible,
    Stream,
    UnrelatedQuestion,
    count,
    event_weights,
    privacy,
)
from ppdm_dask.experiments.samples import Sample
from ppdm_dask.experiments.sweep.engines import BinaryNaiveBayes
from ppdm_dask.experiments.sweep.plan import choose_engine
from ppdm_dask.experiments.sweep.trials import PlainEngine, Setting
from ppdm_dask.mine import NaiveBayes

# -- section 2.2: the scheme -----------------------------------------------------------------------


@given(SEEDS, st.sampled_from([0.1, 0.3, 0.5, 0.9, 1.0]))
def test_reported_proportions_are_a_mixture(seed, q):
    """P* = q P + (1 - q) P_Y for any event, Eq. (1), on random tables."""
    rng = np.random.default_rng(seed)
    shape = (2, 2, 2)
    w_y = rng.random(3)
    design = UnrelatedQuestion(["a", "b", "c"], q, w_y.tolist())
    p = rng.dirichlet(np.ones(8)).reshape(shape)
    personal = np.zeros(shape)
    for bits in itertools.product(range(2), repeat=3):
        personal[bits] = np.prod([w if bit else 1 - w for w, bit in zip(w_y, bits, strict=True)])
    reported = design.apply(p.ravel()).reshape(shape)
    event = rng.random(shape) < 0.5  # any logical expression over the attributes
    expected = q * p[event].sum() + (1 - q) * personal[event].sum()
    assert reported[event].sum() == pytest.approx(expected, abs=1e-12)


def test_a_pair_of_personal_attributes_has_cells_of_a_quarter():
    """Not every expression can have probability 1/2, as section 3.1 asks."""
    design = UnrelatedQuestion(["a", "b"], 0, 0.5)
    np.testing.assert_allclose(design.apply(np.array([1.0, 0, 0, 0])), 0.25)


def test_the_worked_example():
    """Private 11 and personal 01: 11 with probability q, else 01."""
    q = 0.7
    personal_is_01 = UnrelatedQuestion(["a", "b"], q, [0.0, 1.0])
    assert personal_is_01.apply(np.array([0, 0, 0, 1.0])).tolist() == pytest.approx(
        [0, 0.3, 0, 0.7]
    )


@given(SEEDS)
def test_estimates_solve_equation_1(seed):
    """P(A) = (P*(A) - (1 - q) P(Y)) / q for a conjunction, on the reports at hand."""
    q, w_y = 0.4, [0.3, 0.6]
    design = UnrelatedQuestion(["a", "b"], q, w_y)
    book = make_codebook(["a", "b"], [2, 2])
    reports = reports_of(random_records(book, 50, seed).codes, book, design)
    event = {"a": "1", "b": "0"}
    observed = ((reports.column("a") == 1) & (reports.column("b") == 0)).mean()
    solved = (observed - (1 - q) * 0.3 * 0.4) / q
    assert event_weights(reports, design, event).mean() == pytest.approx(solved, abs=1e-12)


# -- section 4: privacy of a single entry ----------------------------------------------------------


def enumerated_pse(w_a, w_y, q):
    """Probability of a wrong guess drawn from the posterior, from the joint law of everything."""
    joint = {}
    for original, own_question, personal in itertools.product((0, 1), repeat=3):
        report = original if own_question else personal
        mass = (w_a if original else 1 - w_a) * (q if own_question else 1 - q)
        mass *= w_y if personal else 1 - w_y
        joint[original, report] = joint.get((original, report), 0.0) + mass
    wrong = 0.0
    for report in (0, 1):
        total = joint[0, report] + joint[1, report]
        for original in (0, 1):
            if total > 0:
                wrong += joint[original, report] * joint[1 - original, report] / total
    return wrong


def test_pse_by_enumeration_for_a_thousand_parameters():
    rng = np.random.default_rng(2004)
    for w_a, w_y, q in rng.random((1000, 3)):
        expected = enumerated_pse(w_a, w_y, q)
        assert float(privacy.pse_unrelated(w_a, w_y, q)) == pytest.approx(expected, abs=1e-12)
        design = UnrelatedQuestion("a", q, w_y)
        assert design.pse([1 - w_a, w_a]) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("w_a", "w_y", "q", "value"),
    [(0.3, 0.2, 0.6, 0.254969), (0.3, 0.5, 0.6, 0.2852), (0.3, 0.5, 0.4, 0.3621)],
)
def test_pse_values(w_a, w_y, q, value):
    got = float(privacy.pse_unrelated(w_a, w_y, q))
    assert got == pytest.approx(value, abs=0.5 * 10 ** -len(str(value)[2:]))
    assert got == pytest.approx(enumerated_pse(w_a, w_y, q), abs=1e-6)


@given(st.floats(0, 1))
def test_pse_at_one_half(q):
    assert float(privacy.pse_unrelated(0.5, 0.5, q)) == pytest.approx((1 - q**2) / 2, abs=1e-12)


@given(st.floats(0, 1), st.floats(0, 1))
def test_pse_is_symmetric_in_the_private_proportion(w_a, q):
    one, two = privacy.pse_unrelated(w_a, 0.5, q), privacy.pse_unrelated(1 - w_a, 0.5, q)
    assert float(one) == pytest.approx(float(two), abs=1e-12)


def test_pse_is_not_symmetric_in_q_nor_at_other_personal_proportions():
    """The text says that PSE at q equals PSE at 1 - q; it falls in q."""
    q = np.linspace(0, 1, 21)
    for w_a in (0.1, 0.2, 0.3, 0.4, 0.5):
        curve = privacy.pse_unrelated(w_a, 0.5, q)
        assert (np.diff(curve) < 0).all()
        assert curve[0] == pytest.approx(2 * w_a * (1 - w_a))  # highest at q = 0
        assert curve[-1] == 0
    assert (
        abs(float(privacy.pse_unrelated(0.3, 0.2, 0.6) - privacy.pse_unrelated(0.7, 0.2, 0.6)))
        > 0.01
    )


def test_pse_rises_towards_a_uniform_private_attribute():
    curves = privacy.pse_unrelated(
        np.array([0.1, 0.2, 0.3, 0.4, 0.5])[:, None], 0.5, [0.1, 0.5, 0.9]
    )
    assert (np.diff(curves, axis=0) > 0).all()


def test_the_printed_equation_2_is_wrong():
    """Its Pr(R = 1 | O = 0) is (1 - q)(1 - W_y), which is not a probability of a report of 1."""
    w_a, w_y, q = 0.3, 0.2, 0.6
    r11, misprint = q + (1 - q) * w_y, (1 - q) * (1 - w_y)
    first = w_a * r11 * misprint * (1 - w_a) / (r11 * w_a + misprint * (1 - w_a))
    r10 = (1 - q) * w_y
    right = w_a * r11 * r10 * (1 - w_a) / (r11 * w_a + r10 * (1 - w_a))
    joint = {
        (o, r): (w_a if o else 1 - w_a) * (q * (o == r) + (1 - q) * (w_y if r else 1 - w_y))
        for o, r in itertools.product((0, 1), repeat=2)
    }
    first_component = joint[1, 1] * joint[0, 1] / (joint[0, 1] + joint[1, 1])
    assert right == pytest.approx(first_component, abs=1e-12)
    assert abs(first - first_component) > 0.05


# -- section 3: q = 1 and q = 0 --------------------------------------------------------------------

BOOK = make_codebook(["class", "a", "b", "c"], [2, 2, 2, 2], target="class")


def setting(q, split, seed=1, key=2**63 + 5):
    records = random_records(BOOK, 400, seed=3)
    # The class says something about the attributes.
    codes = np.array(records.codes)
    told = np.random.default_rng(4).random(400) < 0.6
    codes[told, 1] = codes[told, 0]
    sample = Sample.draw(
        type(records)(codes, BOOK), "class", 0.8, 2**63 + 9, split == "redrawn", seed
    )
    design = identity_of(BOOK) if q is None else UnrelatedQuestion(BOOK.names, q)
    return Setting(sample, design, {"learner": "naive-bayes"}, seed, key)


@pytest.mark.parametrize("split", ["fixed", "redrawn"])
@pytest.mark.parametrize("engine", [PlainEngine, BinaryNaiveBayes])
def test_q_of_one_is_the_undisguised_experiment_repeat_by_repeat(engine, split):
    disguised = engine(setting(1.0, split)).run(0, 20)
    plain = engine(setting(None, split, key=2**63 + 77)).run(0, 20)  # a cell of its own
    for name in ("correct", "correct_disguised", "accuracy_disguised", "floored"):
        np.testing.assert_array_equal(disguised[name], plain[name])
    assert (len(set(disguised["correct"])) > 1) == (split == "redrawn")


def test_q_of_zero_is_undefined_with_its_reason():
    nothing = UnrelatedQuestion(BOOK.names, 0)
    assert nothing.undefined == "at q = 0 every report is the personal answer"
    reports = nothing.disguise(random_records(BOOK, 100, seed=5), Stream.from_seed(6))
    assert count(reports, nothing).n == 100  # disguised and counted, but never estimated
    with pytest.raises(NotInvertible, match="at q = 0 every report is the personal answer"):
        NaiveBayes(nothing, "class").fit(reports)


def test_the_sweep_takes_the_fast_engine():
    assert isinstance(choose_engine(setting(0.5, "fixed")), BinaryNaiveBayes)


# -- section 2.4: the accuracy on a disguised test part --------------------------------------------


@pytest.mark.parametrize(("q", "w_y"), [(0.4, 0.5), (0.7, 0.3), (1.0, 0.5)])
def test_accuracy_on_disguised_reports(q, w_y):
    """P(cc) = (P*(cc) - (1 - q) P_Y(cc)) / q, with P_Y(cc) by going through personal records."""
    design = UnrelatedQuestion(BOOK.names, q, w_y)
    records = setting(q, "fixed").sample.records
    reports = design.disguise(records, Stream.from_seed(7))
    model = NaiveBayes(design, "class").fit(reports.slice(0, 300))
    test = reports.slice(300, 400)
    personal = 0.0
    for bits in itertools.product(range(2), repeat=4):
        record = type(records)(np.array([bits]), BOOK)
        mass = np.prod([w_y if bit else 1 - w_y for bit in bits])
        personal += mass * (model.predict(record)[0] == str(bits[0]))
    observed = np.mean(model.predict(test) == test.column("class").astype(str))
    expected = (observed - (1 - q) * personal) / q
    assert model.score_disguised(test).value == pytest.approx(expected, abs=1e-12)
