"""Errors with clusters, strata, finite populations and replicate weights."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chi2_contingency
from strategies import make_codebook, random_records

from ppdm_dask import (
    Identity,
    KaryResponse,
    Product,
    Records,
    Reports,
    Stream,
    Warner,
    estimate,
    event_weights,
)
from ppdm_dask.errors import InputError
from ppdm_dask.inference import evidence_of
from ppdm_dask.inference.clusters import LONE, linearised

RANDOM = np.random.default_rng(3)


def plain(
    scores: Any, weights: Any, strata: Any, clusters: Any, fraction: dict[Any, float], lone: str
) -> Any:
    """The linearised definition, in loops over strata and clusters."""
    p = scores.shape[1]
    total, known = np.zeros((p, p)), 0
    names = sorted(set(strata))
    for h in names:
        inside = [i for i in range(len(scores)) if strata[i] == h]
        units = sorted({clusters[i] for i in inside})
        z = [sum(weights[i] * scores[i] for i in inside if clusters[i] == c) for c in units]
        m, left = len(z), 1 - fraction.get(h, 0.0)
        if m == 1 and left > 0:
            if lone == "average":
                continue
            if lone == "adjust":
                total += left * np.outer(z[0], z[0])
        elif m > 1:
            mean = sum(z) / m
            for each in z:
                total += left * m / (m - 1) * np.outer(each - mean, each - mean)
        known += 1
    return total * len(names) / known if lone == "average" else total


@pytest.mark.parametrize("lone", LONE[1:])
@pytest.mark.parametrize("how", ["all", "fpc", "no strata", "no clusters"])
def test_the_linearised_definition(lone: Any, how: str) -> None:
    n = 120
    strata = RANDOM.choice(["a", "b", "c"], n) if how != "no strata" else np.full(n, "x")
    clusters = RANDOM.integers(0, 7, n) if how != "no clusters" else np.arange(n)
    lonely = strata == "c"
    clusters = np.where(lonely, clusters.min(), clusters) if how != "no clusters" else clusters
    d = RANDOM.uniform(0.5, 3, n)
    z = RANDOM.normal(size=(n, 3))
    z -= d @ z / d.sum()
    fraction = {"a": 0.25, "b": 7 / 40, "c": 0.5} if how == "fpc" else {}
    stated = {"a": 0.25, "b": 40, "c": 0.5}
    fpc = np.array([stated[h] for h in strata]) if how == "fpc" else None
    found = linearised(
        z,
        d,
        None if how == "no strata" else strata,
        None if how == "no clusters" else clusters,
        fpc,
        lone=lone,
    )
    np.testing.assert_allclose(found, plain(z, d, strata, clusters, fraction, lone), rtol=1e-12)


def test_a_lone_cluster_is_refused_unless_it_does_not_matter() -> None:
    z, strata, clusters = np.array([1.0, -2, 0.5, 0.5]), [0, 0, 1, 1], [0, 1, 2, 2]
    with pytest.raises(InputError, match=r"1 stratum has a single cluster.*certainty, adjust or"):
        linearised(z, strata=strata, clusters=clusters)
    # All of its clusters were sampled, or nobody of it is in the domain.
    whole = linearised(z, strata=strata, clusters=clusters, fpc=[0.5, 0.5, 1, 1])
    assert whole.item() == pytest.approx(0.5 * 2 * 2 * 1.5**2)
    outside = linearised(z * [1, 1, 0, 0], strata=strata, clusters=clusters)
    assert outside.item() == pytest.approx(2 * 2 * 1.5**2)
    with pytest.raises(InputError, match=r"fpc: one number in each stratum"):
        linearised(z, strata=strata, clusters=clusters, fpc=[0.5, 0.4, 1, 1])
    with pytest.raises(InputError, match=r"fpc: got 1.5 for a stratum with 2 sampled"):
        linearised(z, strata=strata, clusters=clusters, fpc=[1.5, 1.5, 1, 1])


# -- estimates -------------------------------------------------------------------------------------

BOOK = make_codebook(["a", "b", "u"], [2, 3, 2])
DESIGN = Product([Warner("a", 0.8), KaryResponse("b", 3, q=0.6), Identity("u", [2])])
N = 400


def made() -> Reports:
    rng = np.random.default_rng(5)
    columns = {
        "d": rng.uniform(0.5, 3, N),
        "h": rng.choice(["x", "y"], N),
        "c": rng.integers(0, 9, N).astype(str).astype(object),
    }
    columns["N"] = np.where(columns["h"] == "x", 0.25, 40)
    records = replace(random_records(BOOK, N, 4), kept=columns)
    return DESIGN.disguise(records, Stream.from_seed(6))


FULL: dict[str, Any] = {"weights": "d", "strata": "h", "clusters": "c"}


@pytest.mark.parametrize("where", [{}, {"u": "1"}, {"b": ["0", "2"]}, {"a": ["0", "1"]}])
@pytest.mark.parametrize("parts", [1, 3])
def test_estimates_have_the_linearised_error(where: Any, parts: int) -> None:
    reports = made()
    d, h, c = (reports.kept[name] for name in "dhc")
    event = {"a": "1"}
    W = event_weights(reports, DESIGN, {**where, **event})
    F = event_weights(reports, DESIGN, where) if where else np.ones(N)
    r = d @ W / (d @ F)
    z = ((W - r * F) / (d @ F))[:, None]
    expected = plain(z, d, h, c, {}, "fail").item()
    rows = np.arange(N) % parts
    sums = [
        evidence_of(reports.take(rows == i).surveyed_by(**FULL), DESIGN, event, where=where)
        for i in range(parts)
    ]
    found = estimate(sum(sums[1:], sums[0]))
    assert found.value == pytest.approx(r, rel=1e-12)
    assert found.unbiased == pytest.approx(expected, rel=1e-12)
    assert found.freedom == 9 + 9 - 2
    cells = estimate(reports, ["a"], where=where, **FULL)
    assert cells.unbiased[1] == pytest.approx(expected, rel=1e-9)
    assert 0 <= found.interval()[0] < found.interval()[1] <= 1


def test_the_disguise_is_as_random_however_much_of_a_population_is_drawn() -> None:
    reports = made()
    given = {"weights": "d", "clusters": "c"}
    whole = estimate(reports, ["b"], fpc=np.ones(N), **given)
    of_file = estimate(reports, ["b"], weights="d", estimand="file")
    np.testing.assert_allclose(whole.unbiased, of_file.unbiased, rtol=1e-9)
    half, none = (estimate(reports, ["b"], fpc=f, **given) for f in (np.full(N, 0.5), None))
    middle = (whole.unbiased + none.unbiased) / 2
    np.testing.assert_allclose(half.unbiased, middle, rtol=1e-9)
    # Nothing is random where all are drawn and nobody is disguised.
    sure = estimate(reports, ["u"], fpc=np.ones(N), **given)
    assert np.abs(sure.unbiased).max() < 1e-18


@pytest.mark.parametrize("by", ["u", "b"])
@pytest.mark.parametrize("names", [(), ("weights", "strata"), ("weights", "strata", "clusters")])
def test_differences_of_groups(by: str, names: tuple[str, ...]) -> None:
    """Groups, disguised or not, by the linearised difference report by report."""
    reports = made()
    given = {name: FULL[name] for name in names}
    d = reports.kept["d"] if names else np.ones(N)
    h = reports.kept["h"] if names else np.zeros(N)
    c = reports.kept["c"] if "clusters" in names else np.arange(N)
    found = estimate(reports, ["a"], by=by, **given).compare("1")
    z, shares = {}, {}
    for g in ("0", "1"):
        W, F = (event_weights(reports, DESIGN, e) for e in ({"a": "1", by: g}, {by: g}))
        shares[g] = d @ W / (d @ F)
        z[g] = (W - shares[g] * F) / (d @ F)
    variance = plain((z["0"] - z["1"])[:, None], d, h, c, {}, "fail").item()
    row = next(row for row in found.rows if row[:2] == ("0", "1"))
    expected = shares["0"] - shares["1"], np.sqrt(variance), shares["0"] / shares["1"]
    assert (row[2], row[3], row[6]) == pytest.approx(expected, rel=1e-9)


def test_undisguised_groups_are_compared_as_pearson_does() -> None:
    counts = np.array([[60, 40, 30], [45, 75, 50]])
    codes = np.repeat(np.stack(np.unravel_index(np.arange(6), (2, 3)), 1), counts.ravel(), axis=0)
    book = make_codebook(["u", "b"], [2, 3])
    test = estimate(Records(codes, book), ["b"], by="u").compare().test
    # Within the groups shares vary by their own proportions, not the pooled ones.
    expected = chi2_contingency(counts, correction=False)
    assert test.statistic == pytest.approx(expected.statistic / 2, rel=0.03)
    assert test.freedom[0] == pytest.approx(2, rel=0.02)
    assert test.p_value == pytest.approx(expected.pvalue, rel=0.15)


def test_weighted_maximum_likelihood() -> None:
    """Where all weights are equal it is that of the counts; else within [0, 1] all the same."""
    book = make_codebook(["b"], [3])
    design = KaryResponse("b", 3, q=0.6)
    codes = np.repeat([0, 1, 2], [60, 35, 5])[:, None]
    reports = Reports(codes, book, 0, design.digest, design=design)
    plain_counts = estimate(reports, ["b"], method="mle")
    equal = estimate(reports, ["b"], method="mle", weights=np.full(100, 2.5))
    np.testing.assert_allclose(equal.values, plain_counts.values, atol=1e-9)
    weights = np.where(codes[:, 0] == 2, 0.1, 1.0)
    for found in (plain_counts, estimate(reports, ["b"], method="mle", weights=weights)):
        lower, upper = found.ends()
        assert found.values[2] == 0
        assert (lower >= 0).all() and (upper <= 1).all() and (lower < upper).all()
        assert (lower <= found.values).all() and (found.values <= upper).all()
        with pytest.raises(InputError, match=r"on the boundary"):
            found.standard_error  # noqa: B018


def test_clusters_may_be_in_several_partitions_of_dask() -> None:
    frame_of = pytest.importorskip("dask.dataframe").from_pandas
    rng = np.random.default_rng(1)
    columns = {"a": rng.choice(["0", "1"], 300), "c": rng.integers(0, 20, 300)}
    frame = pd.DataFrame({**columns, "w": rng.uniform(1, 2, 300)})
    book = make_codebook(["a"], [2])
    design, kept = Warner("a", 0.8).bind(book), ["c", "w"]
    whole = design.disguise(book.encode(frame, keep=kept), Stream.from_seed(3))
    parts = design.disguise(frame_of(frame, npartitions=4), Stream.from_seed(3), keep=kept)
    one, two = (estimate(r, ["a"], weights="w", clusters="c") for r in (whole, parts))
    assert one.freedom == two.freedom == 19
    np.testing.assert_allclose(two.values, one.values, rtol=1e-12)
    np.testing.assert_allclose(two.unbiased, one.unbiased, rtol=1e-11)
