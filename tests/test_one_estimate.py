"""One function estimates: attributes, events and groups, from reports or from evidence added up."""

from __future__ import annotations

import math
import subprocess
import sys
from itertools import pairwise
from typing import Any

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from strategies import make_codebook, random_records

import ppdm_dask as pp
from ppdm_dask import inference
from ppdm_dask.designs import Design, UnaryEncoding
from ppdm_dask.errors import InputError, RecordsError
from ppdm_dask.inference import GroupedSums, WeightSums, evidence_of
from ppdm_dask.inference.tables import ContingencyTable

BOOK = make_codebook(["a", "b", "g"], [2, 3, 2])
RECORDS = random_records(BOOK, 4_000, 7)
EACH = pp.Product([pp.Warner("a", 0.8), pp.KaryResponse("b", 3, 0.7)])
MATRIX = np.array([[0.7, 0.1, 0.05], [0.2, 0.6, 0.15], [0.1, 0.3, 0.8]])
JOINT = 0.6 * np.eye(6) + 0.4 * np.random.default_rng(1).dirichlet(np.ones(6), 6).T
TOGETHER = pp.Product([pp.RRMatrix(["a", "b"], JOINT, [2, 3]), pp.Warner("g", 0.9)])
DESIGNS = [EACH, TOGETHER, pp.Product([pp.RRMatrix("b", MATRIX), pp.Warner("g", 0.7)])]


def reports_of(design: Design, seed: int = 3) -> pp.Reports:
    return design.disguise(RECORDS, pp.Stream.from_seed(seed))


def close(one: pp.Estimate, two: pp.Estimate) -> None:
    """Two estimates that say the same."""
    assert one.labels == two.labels
    assert one.n == two.n
    np.testing.assert_allclose(one.values, two.values, rtol=1e-9, atol=1e-12)
    assert one.variance is not None and two.variance is not None
    np.testing.assert_allclose(one.variance, two.variance, rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(one.ends(), two.ends(), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("by", ["g", "b", ["g", "b"]])
def test_groups_are_ratios_of_the_joint_proportions(design: Design, by: Any) -> None:
    groups = [by] if isinstance(by, str) else by
    reports = reports_of(design)
    found = pp.estimate(reports, ["a"], by)
    assert tuple(found.labels) == (*groups, "a")
    joint = pp.estimate(reports, [*groups, "a"]).values
    expected = joint / joint.sum(axis=-1, keepdims=True)
    np.testing.assert_allclose(found.values, expected, atol=1e-12)
    # A group is the condition of the same name.
    labels = [found.labels[name][1] for name in groups]
    within = pp.estimate(reports, ["a"], where=dict(zip(groups, labels, strict=True)))
    close(found[(1,) * len(groups)], within)


def test_groups_of_undisguised_records_are_cross_tabulated() -> None:
    frame = BOOK.decode(RECORDS)
    table = pd.crosstab(frame["g"], frame["a"], normalize="index")
    found = pp.estimate(RECORDS, ["a"], "g")
    np.testing.assert_allclose(found.values, table.to_numpy(), atol=1e-12)
    # The error of a mean of 0 and 1 within a group, with n / (n - 1) over all of the file.
    n, n_g = len(frame), frame["g"].value_counts().sort_index().to_numpy()
    p = table["1"].to_numpy()
    expected = np.sqrt(p * (1 - p) / n_g * n / (n - 1))
    np.testing.assert_allclose(found.standard_error.values[:, 1], expected, rtol=1e-12)


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize(
    ("over", "by", "where"),
    [
        (["a"], (), {}),
        (["b", "a"], (), {}),
        (["a"], "g", {}),
        (["a"], (), {"b": ["0", "2"]}),
        (["a", "b"], "g", {}),
        (["b"], ["g"], {"a": "1"}),
        ({"a": "1", "b": ["1", "2"]}, (), {}),
        ({"a": "1"}, "g", {"b": "0"}),
    ],
)
def test_counts_say_what_their_reports_say(design: Design, over: Any, by: Any, where: Any) -> None:
    reports = reports_of(design)
    table = pp.count(reports)
    close(pp.estimate(table, over, by, where), pp.estimate(reports, over, by, where))


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize(
    ("by", "where", "kind"),
    [
        ((), {}, ContingencyTable),
        ((), {"g": "1"}, WeightSums),
        (["g"], {}, GroupedSums),
    ],
)
def test_evidence_of_parts_adds_up(design: Design, by: Any, where: Any, kind: type) -> None:
    reports = reports_of(design)
    cuts = [0, 1, 1_300, 1_300, 4_000]
    parts = [reports.slice(low, high) for low, high in pairwise(cuts)]
    first, *rest = [evidence_of(part, design, ["a", "b"], by, where) for part in parts]
    assert isinstance(first, kind)
    total: Any = first
    for part in rest:
        total = total + part
    whole = pp.estimate(reports, ["a", "b"], by, where)
    asked = {"over": ["a", "b"]} if kind is ContingencyTable else {}
    close(pp.estimate(total, **asked), whole)
    # Counts of one part and reports of the others too.
    counted = evidence_of(pp.count(parts[2]), design, ["a", "b"], by, where)
    mixed = first + parts_sum(rest[:1] + rest[2:]) + counted
    close(pp.estimate(mixed, **asked), whole)


def parts_sum(parts: list[Any]) -> Any:
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def test_sets_weights_and_strata_take_groups() -> None:
    design = pp.Product([UnaryEncoding("b", 3, epsilon=1.5), pp.Warner("a", 0.8)])
    rng = np.random.default_rng(4)
    weights, strata = rng.uniform(0.5, 3, len(RECORDS)), rng.integers(0, 3, len(RECORDS))
    kept = {"w": weights, "h": np.array(["north", "south", "west"])[strata]}
    records = pp.Records(RECORDS.codes, BOOK, kept=kept)
    reports = design.disguise(records, pp.Stream.from_seed(2))
    by_name = pp.estimate(reports, ["b"], "g", weights="w", strata="h")
    by_array = pp.estimate(reports, ["b"], "g", weights=weights, strata=strata)
    np.testing.assert_allclose(by_name.values, by_array.values, rtol=1e-12)
    np.testing.assert_allclose(by_name.ends(), by_array.ends(), rtol=1e-9)
    surveyed = reports.surveyed(weights, strata)
    close(by_array, pp.estimate(surveyed, ["b"], "g"))
    # Rows keep their columns.
    half = reports.take(np.arange(0, len(reports), 2))
    thin = reports.surveyed(weights, strata).take(np.arange(0, len(reports), 2))
    np.testing.assert_allclose(
        pp.estimate(half, ["b"], weights="w").values,
        pp.estimate(thin, ["b"]).values,
        rtol=1e-12,
    )


def test_several_events_are_one_estimate_with_a_covariance() -> None:
    reports = reports_of(EACH)
    events = [{"a": "1"}, {"a": "1", "b": "2"}, {"b": ["0", "2"]}]
    found = pp.estimate(reports, events)
    assert found.labels == {"event": ("a = 1", "a = 1, b = 2", "b = 0 or 2")}
    for one, event in zip(found, events, strict=True):
        close(one, pp.estimate(reports, event))
    # Of cells that are the whole of a table, it is the table's.
    cells = [{"a": a, "b": b} for a in "01" for b in "012"]
    table = pp.invert(pp.count(reports, EACH, ["a", "b"]), EACH)
    each = pp.estimate(reports, cells)
    np.testing.assert_allclose(each.covariance, table.covariance, rtol=1e-9, atol=1e-12)
    # A contrast of the table is that of the events.
    c = np.array([[1, 0, -1], [0, 2, 0]])
    one, two = table.combine(c), each.combine(c.ravel())
    assert one.value == pytest.approx(two.value, abs=1e-12)
    assert one.standard_error == pytest.approx(two.standard_error, rel=1e-9)


def test_likelihood_takes_counts_of_whole_blocks() -> None:
    table = pp.count(reports_of(EACH), over=["b"])
    for method, function in (("mle", pp.mle), ("em", pp.em)):
        found, expected = pp.estimate(table, ["b"], method=method), function(table, EACH)
        np.testing.assert_array_equal(found.values, expected.values)
        assert found.method == expected.method


@pytest.mark.parametrize(
    ("question", "told"),
    [
        ({"over": ["a"], "by": "a"}, "by: 'a' is in over or where too"),
        ({"over": ["a"], "by": "g", "where": {"g": "1"}}, "by: 'g' is in over or where too"),
        ({"over": None}, "over: got none"),
        ({"over": ["a"], "method": "best"}, "method: got 'best'"),
        ({"over": ["a"], "estimand": "all"}, "estimand: got 'all'"),
        ({"over": ["a"], "by": "g", "method": "mle"}, "method: mle takes attributes"),
        ({"over": {"a": "1"}, "method": "em"}, "method: em takes attributes"),
        ({"over": [{"a": "1"}], "by": "g"}, "several events take reports in memory"),
        ({"over": [{"a": "1"}, "b"]}, "got 'b' among events"),
        ({"over": ["a"], "weights": "w"}, "column 'w' was not kept; columns that were: none"),
        ({"over": ["z"]}, "no attribute 'z'"),
    ],
)
def test_questions_that_have_no_answer(question: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError, match=told):
        pp.estimate(reports_of(EACH), **question)


def test_evidence_that_has_no_answer() -> None:
    reports = reports_of(EACH)
    with pytest.raises(InputError, match="counts keep none"):
        pp.estimate(pp.count(reports), ["a"], weights=np.ones(4_000))
    with pytest.raises(InputError, match="sums know"):
        pp.estimate(evidence_of(reports, EACH, ["a"], where={"g": "1"}), ["a"])
    with pytest.raises(InputError, match="design: got none"):
        pp.estimate(pp.Reports(reports.codes, BOOK, 0, EACH.digest), ["a"])
    with pytest.raises(RecordsError, match="got int"):
        pp.estimate(3, ["a"], design=EACH)
    with pytest.raises(RecordsError, match="within different groups"):
        evidence_of(reports, EACH, ["a"], "g") + evidence_of(reports, EACH, ["a"], "b")


def test_a_group_that_nobody_is_in_is_undefined_and_the_others_are_not() -> None:
    codes = RECORDS.codes.copy()
    codes[:, 2] = 0
    found = pp.estimate(pp.Records(codes, BOOK), ["a"], "g")
    assert np.isnan(found.values).tolist() == [[False, False], [True, True]]
    assert "g = 1 is not above 0" in found[1].reason
    assert not np.isnan(found.ends()[0][0]).any()


def test_a_table_of_results() -> None:
    found = pp.estimate(reports_of(EACH), ["a"], "g")
    frame = found.to_frame(0.9)
    assert list(frame.columns) == ["g", "a", "proportion", "standard_error", "lower", "upper"]
    assert frame["g"].tolist() == ["0", "0", "1", "1"]
    lower, upper = found.ends(0.9)
    np.testing.assert_array_equal(frame["lower"], lower.ravel())
    np.testing.assert_array_equal(frame["upper"], upper.ravel())
    assert "4,000 reports" in repr(found)
    assert "<table" in found._repr_html_()
    # An attribute may have the name of a column.
    book = make_codebook(["lower"], [2])
    own = pp.estimate(pp.Records(np.array([[0], [1]]), book), ["lower"])
    assert list(own.to_frame().columns)[:1] == ["lower"]
    assert "lower_" in own.to_frame().columns


def test_a_picture_of_results() -> None:
    found = pp.estimate(reports_of(EACH), ["b"], "g")
    ax = found.plot(level=0.8)
    (lines,) = ax.collections
    drawn = np.array([segment[:, 0] for segment in lines.get_segments()])
    np.testing.assert_allclose(drawn.T, [end.ravel() for end in found.ends(0.8)])
    np.testing.assert_allclose(ax.lines[0].get_xdata(), found.values.ravel())
    assert [t.get_text() for t in ax.get_yticklabels()][:2] == ["0, 0", "0, 1"]
    assert found.plot(ax) is ax
    ax.figure.clear()


def test_one_event_has_numbers() -> None:
    found = pp.estimate(reports_of(EACH), {"a": "1"})
    low, high = found.interval()
    assert isinstance(found.standard_error, float)
    assert low < found.value < high
    with pytest.raises(InputError, match="there are 2 proportions"):
        pp.estimate(reports_of(EACH), ["a"]).value  # noqa: B018


def test_an_earlier_module_of_this_name_leaves_the_function_as_it_was() -> None:
    code = (
        "import warnings; warnings.simplefilter('ignore')\n"
        "import numpy as np, ppdm_dask as pp, ppdm_dask.estimate\n"
        "book = pp.Codebook((pp.Attribute('a', ('n', 'y')),))\n"
        "print(pp.estimate(pp.Records(np.array([[0], [1]]), book), {'a': 'y'}).value)\n"
        "print(ppdm_dask.estimate.invert is pp.invert)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0.5", "True"]


def test_earlier_names_still_work_and_say_the_new_one() -> None:
    reports = reports_of(EACH)
    with pytest.warns(DeprecationWarning, match="inference.earlier.proportion"):
        proportion = pp.proportion
    with pytest.warns(DeprecationWarning, match="estimate_joint"):
        joint = inference.estimate_joint
    with pytest.warns(DeprecationWarning, match="estimate_proportions"):
        cells = pp.estimate_proportions
    assert proportion(reports, EACH, {"a": "1"}).value == pp.estimate(reports, {"a": "1"}).value
    values = pp.estimate(reports, ["a"]).values
    np.testing.assert_array_equal(cells(reports, EACH, ["a"]).values, values)
    assert math.isclose(joint(reports, EACH, [{"a": "1"}]).values[0], values[1])


@pytest.mark.parametrize(
    ("over", "by", "where"),
    [(["a"], (), {}), (["b"], "g", {"a": "1"}), ({"a": "1", "b": "2"}, (), {})],
)
def test_reports_in_partitions_are_estimated_where_they_are(over: Any, by: Any, where: Any) -> None:
    frame = dd.from_pandas(BOOK.decode(RECORDS), npartitions=5)
    lazy = EACH.disguise(frame, pp.Stream.from_seed(3), codebook=BOOK)
    close(pp.estimate(lazy, over, by, where), pp.estimate(reports_of(EACH), over, by, where))
    likely = pp.estimate(lazy, ["b"], method="mle")
    expected = pp.estimate(reports_of(EACH), ["b"], method="mle")
    np.testing.assert_allclose(likely.values, expected.values, rtol=1e-12)


def test_kept_columns_of_partitions_are_weights_and_strata() -> None:
    frame, rng = BOOK.decode(RECORDS), np.random.default_rng(9)
    frame["w"] = rng.uniform(0.5, 3, len(frame))
    frame["h"] = rng.choice(["north", "south"], len(frame))
    seed = pp.Stream.from_seed(3)
    lazy = EACH.disguise(dd.from_pandas(frame, npartitions=5), seed, codebook=BOOK, keep=["w", "h"])
    whole = EACH.disguise(frame, seed, codebook=BOOK, keep=["w", "h"])
    for over in (["a"], {"b": "1"}):
        one = pp.estimate(lazy, over, "g", weights="w", strata="h")
        close(one, pp.estimate(whole, over, "g", weights="w", strata="h"))


def test_what_reports_in_partitions_do_not_answer() -> None:
    frame = dd.from_pandas(BOOK.decode(RECORDS), npartitions=2)
    lazy = EACH.disguise(frame, pp.Stream.from_seed(3), codebook=BOOK)
    with pytest.raises(InputError, match="reports in memory"):
        pp.estimate(lazy, [{"a": "1"}])
    with pytest.raises(InputError, match="name columns"):
        pp.estimate(lazy, ["a"], weights=np.ones(4_000))
