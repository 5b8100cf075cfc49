"""Intervals of surveys cover what they say: 95 %.

Settings, written down before any of them was run.  Each is drawn 2,000 times; shares of intervals
that hold the truth are to be from .93 to .97.  Warner: theta = .8.  Clusters have shares
of their own (beta, or Dirichlet) with intra-class correlation rho.

| setting | clusters | reports | what |
|---|---|---|---|
| clusters | 50 of 20, rho .05 | 1,000 | Warner, p = .3 |
| rare | 50 of 20, rho .05 | 1,000 | Warner, p = .01 |
| few-clusters | 12 of 40, rho .1 | 480 | Warner, p = .3 |
| strata | 48 of 20, rho .05, 4 strata | 960 | Warner, p = .1, .2, .3, .4; weights 1, 2, 1, .5 |
| weights | - | 500 | Warner, p = .3; weights lognormal, sd .7 |
| domain | 50 of 20, rho .05 | 1,000 | Warner, p = .2, within a tenth of the people |
| twenty | 50 of 20, rho .05 | 1,000 | k-ary, k = 20, epsilon 3; all categories, 1 : 2 : ... : 20 |
| nobody | 50 of 20, rho .05 | 1,000 | k-ary, k = 4, epsilon 2: a category that nobody has |
| condition | - | 2,000 | Warner within a condition disguised by Warner, p = .2 of .3 |
| valid | - | 1,000 | k-ary, k = 3, q = .7: yes = .2 of those who answered, 10 % did not |
| difference | 50 of 20, rho .05 | 1,000 | two regions, Warner, p = .2, .35: difference, ratio |
| mle | - | 600 | k-ary, epsilon 2, p = .02, .08, .3, .6, each; weights lognormal, sd .5 |
| jackknife | 50 of 20, rho .05 | 1,000 | Warner, p = .3, replicate weights JK1 |
| half-samples | 32 of 20, 16 strata, rho .05 | 640 | Warner, p = .3, BRR with 16 replicates |
| finite | 60 of 20 of 120, 2 strata, rho .2 | 1,200 | Warner, p = .3 in the population of 2,400 |
| nobody-undisguised | 50 of 20 | 1,000 | not disguised, p = 0 |

The last one cannot: there is a single possible sample, whose interval holds 0, so that all of them
cover; it is held to have a width.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from scipy.linalg import hadamard

from ppdm_dask import Attribute, Codebook, Identity, KaryResponse, Warner
from ppdm_dask.inference import Replicates, WeightSums
from ppdm_dask.inference.cell_laws import CellLaws
from ppdm_dask.inference.clusters import ClusterTotals, ReplicateTotals, deviations
from ppdm_dask.inference.contrasts import Joint, compare
from ppdm_dask.inference.laws import law_of_cells
from ppdm_dask.inference.likelihood import pseudo_mle

pytestmark = pytest.mark.slow

S = 2_000
WARNER = Warner("a", 0.8)
Random = np.random.Generator


def laws_of(design: Any, event: int, cells: int) -> CellLaws:
    """Laws of one category's weight, for many surveys."""
    book = Codebook((Attribute("a", tuple(map(str, range(design.n_true)))),))
    law = law_of_cells(design, book, ("a",))
    assert law is not None
    pairs = ((lo[[event]], hi[[event]]) for lo, hi in (law.inside, law.outside, law.weights))
    one = type(law)(*pairs)
    full = [tuple(np.broadcast_to(x, (cells,)) for x in pair) for pair in vars(one).values()]
    return CellLaws(type(law)(*full), np.zeros(cells, bool))


def sums_of(
    m: Any,
    first: Any,
    second: Any,
    laws: CellLaws | None,
    *,
    d: Any = 1.0,
    inside: Any = None,
    strata: Any = None,
    clusters: bool = True,
    fpc: Any = None,
    factors: Any = None,
) -> WeightSums:
    """Many surveys with the same sample as the cells of one.

    Units are clusters, or single reports: `m` reports each, of which `inside` are within a domain;
    `first` and `second` are their sums of weights and of squared weights, shape (units, cells).
    """
    units, cells = first.shape
    m, d = (np.broadcast_to(np.asarray(x, float), (units,)) for x in (m, d))
    inside = m if inside is None else np.asarray(inside, float)
    strata = np.zeros(units, int) if strata is None else strata
    book = Codebook((Attribute("survey", tuple(map(str, range(cells)))),))
    tables = {
        "n": m, "d": m * d, "dd": m * d**2, "f": inside * d, "ddf": inside * d**2,
        "ddff": inside * d**2, "w": d[:, None] * first, "ddw": d[:, None] ** 2 * first,
        "ddwf": d[:, None] ** 2 * first, "ddww": d[:, None] ** 2 * second,
    }  # fmt: skip
    there = np.unique(strata)
    sums = {
        name: np.array([x[strata == h].sum(axis=0) for h in there]) for name, x in tables.items()
    }
    both = np.concatenate([(inside * d)[:, None], d[:, None] * first], axis=1)
    totals = ClusterTotals(np.stack([strata, np.arange(units)], 1), both) if clusters else None
    under = None
    if factors is not None:
        gram = (factors * (m * d**2)[:, None]).T @ factors
        under = ReplicateTotals(factors.T @ both, gram)
    return WeightSums(
        book, "", there, **sums, laws=laws, fpc=fpc, clusters=totals, replicates=under
    )


def shares(rng: Random, p: Any, rho: float, units: int) -> Any:
    """Shares of yes of clusters, shape (units, S)."""
    p = np.broadcast_to(np.asarray(p, float), (units,))[:, None]
    if rho == 0:
        return np.broadcast_to(p, (units, S))
    strength = (1 - rho) / rho
    return rng.beta(p * strength, (1 - p) * strength, (units, S))


def warner(rng: Random, truth: Any, m: Any) -> tuple[Any, Any]:
    """Sums of weights and squared weights of units with these shares of yes, m reports each."""
    m = np.broadcast_to(np.asarray(m), truth.shape[:1])[:, None]
    yes = rng.binomial(m, 0.2 + 0.6 * truth)
    high, low = 0.8 / 0.6, -0.2 / 0.6
    return yes * high + (m - yes) * low, yes * high**2 + (m - yes) * low**2


def held(sums: WeightSums, truth: Any, **errors: Any) -> float:
    lower, upper = sums.estimate(**errors).ends(0.95)
    assert (lower >= 0).all() and (upper <= 1).all()
    assert (upper > lower).all()
    return float(((lower <= truth) & (truth <= upper)).mean())


def clustered(p: float, units: int, m: int, rho: float, rng: Random) -> float:
    first, second = warner(rng, shares(rng, p, rho, units), m)
    return held(sums_of(m, first, second, laws_of(WARNER, 1, S)), p)


def strata(rng: Random) -> float:
    h = np.arange(48) % 4
    p, d = np.array([0.1, 0.2, 0.3, 0.4]), np.array([1, 2, 1, 0.5])
    first, second = warner(rng, shares(rng, p[h], 0.05, 48), 20)
    sums = sums_of(20, first, second, laws_of(WARNER, 1, S), d=d[h], strata=h)
    return held(sums, p @ d / d.sum())


def weights(rng: Random) -> float:
    d = rng.lognormal(0, 0.7, 500)
    first, second = warner(rng, shares(rng, 0.3, 0, 500), 1)
    return held(sums_of(1, first, second, laws_of(WARNER, 1, S), d=d, clusters=False), 0.3)


def domain(rng: Random) -> float:
    inside = rng.multinomial(100, np.full(50, 1 / 50))
    first, second = warner(rng, shares(rng, 0.2, 0.05, 50), inside)
    return held(sums_of(20, first, second, laws_of(WARNER, 1, S), inside=inside), 0.2)


def kary(rng: Random, prior: Any, epsilon: float, repeats: int) -> list[tuple[Any, Any, Any]]:
    """Sums of weights of each category, and its laws, of 50 clusters of 20, rho .05."""
    k = len(prior)
    design = KaryResponse("a", k, epsilon=epsilon)
    P = design.matrix()
    p, q = P[0, 0], P[0, 1]
    law = rng.dirichlet(np.maximum(prior, 1e-9) * 19, (50, repeats))
    counts = rng.multinomial(20, q + (p - q) * law)
    high, low = (1 - q) / (p - q), -q / (p - q)
    made = []
    for c in range(k):
        yes = counts[..., c]
        first, second = (yes * high**i + (20 - yes) * low**i for i in (1, 2))
        made.append((first, second, laws_of(design, c, repeats)))
    return made


def twenty(rng: Random) -> float:
    prior = np.arange(1, 21) / 210
    parts = kary(rng, prior, 3.0, S)
    return float(np.mean([held(sums_of(20, *x), p) for x, p in zip(parts, prior, strict=True)]))


def nobody(rng: Random) -> float:
    parts = kary(rng, np.array([0.6, 0.3, 0.1, 0.0]), 2.0, S)
    return held(sums_of(20, *parts[3]), 0.0)


def single_sums(counts: Any, W: Any, F: Any) -> list[WeightSums]:
    """Sums of one event within a condition, from counts of symbols, shape (S, symbols)."""
    made = []
    for row in counts.astype(float):
        n = row.sum()
        terms = [[n], [n], [n], [row @ F], [row @ F], [row @ F**2]]
        cells = [[[row @ W]], [[row @ W]], [[row @ (W * F)]], [[row @ W**2]]]
        made.append(WeightSums(None, "", np.zeros(1, int), *map(np.array, terms + cells)))
    return made


def of_each(sums: list[WeightSums], truth: float) -> float:
    ends = np.array([one.estimate().ends(0.95) for one in sums])
    assert (ends[:, 0] >= 0).all() and (ends[:, 1] <= 1).all() and (ends[:, 0] < ends[:, 1]).all()
    return float(((ends[:, 0] <= truth) & (truth <= ends[:, 1])).mean())


def condition(rng: Random) -> float:
    joint = np.array([[0.6, 0.1], [0.24, 0.06]])  # condition by event
    P = np.array([[0.8, 0.2], [0.2, 0.8]])
    counts = rng.multinomial(2_000, (P @ joint @ P.T).ravel(), S)
    w = np.linalg.inv(P)[1]
    return of_each(
        single_sums(counts, np.outer(w, w).ravel(), np.outer(w, np.ones(2)).ravel()), 0.2
    )


def valid(rng: Random) -> float:
    P = 0.7 * np.eye(3) + 0.1
    counts = rng.multinomial(1_000, P @ [0.72, 0.18, 0.1], S)
    B = np.linalg.inv(P)
    return of_each(single_sums(counts, B[1], B[0] + B[1]), 0.2)


def difference(rng: Random) -> float:
    """Half of the clusters are in each region."""
    region, p = np.arange(50) % 2, np.array([0.2, 0.35])
    first, _ = warner(rng, shares(rng, p[region], 0.05, 50), 20)
    labels = {"region": ("N", "S"), "a": ("no", "yes")}
    truth, count = (p[1] - p[0], p[1] / p[0]), np.zeros(2)
    for yes in first.T:
        z = np.zeros((50, 4))
        z[np.arange(50), 2 * region], z[np.arange(50), 2 * region + 1] = 20 - yes, yes
        rows = deviations(z, np.zeros(50, int))
        joint = Joint(
            labels, 1, 1_000, z.sum(axis=0), rows.T @ rows, None, None, np.zeros((2, 2)), 49, None
        )
        _, _, _, _, low, high, _, least, most = compare(joint, "population", None, 0.95).rows[1]
        count += [low <= truth[0] <= high, least <= truth[1] <= most]
    return float((count / S).mean())


def likeliest(rng: Random) -> float:
    prior, n = np.array([0.02, 0.08, 0.3, 0.6]), 600
    design = KaryResponse("a", 4, epsilon=2.0)
    d, P = rng.lognormal(0, 0.5, n), design.matrix()
    B, book = np.linalg.inv(P), Codebook((Attribute("a", tuple("0123")),))
    law, count = law_of_cells(design, book, ("a",)), 0.0
    for _ in range(S):
        y = np.minimum((rng.random(n)[:, None] > np.cumsum(P @ prior)).sum(axis=1), 3)
        one, two = (np.bincount(y, x, 4) for x in (d, d**2))
        terms = [[n], [d.sum()], [(d**2).sum()], [d.sum()], [(d**2).sum()], [(d**2).sum()]]
        cells = [[B @ one], [B @ two], [B @ two], [B**2 @ two]]
        sums = WeightSums(
            book, "", np.zeros(1, int), *map(np.array, terms + cells),
            laws=CellLaws(law, np.zeros(4, bool)),
        )  # fmt: skip
        found = pseudo_mle(sums.estimate(), design)
        assert (found.values >= 0).all()
        lower, upper = found.ends(0.95)
        assert (lower >= 0).all() and (upper <= 1).all() and (upper > lower).all()
        count += ((lower <= prior) & (prior <= upper)).mean()
    return float(count / S)


def jackknife(rng: Random) -> float:
    factors = np.where(np.eye(50, dtype=bool), 0, 50 / 49)
    first, second = warner(rng, shares(rng, 0.3, 0.05, 50), 20)
    sums = sums_of(20, first, second, laws_of(WARNER, 1, S), clusters=False, factors=factors)
    return held(sums, 0.3, replicates=Replicates(range(50), "JK1"))


def half_samples(rng: Random) -> float:
    H = hadamard(16)
    factors = np.where(np.repeat([[1], [-1]], 16, axis=0) * np.tile(H, (2, 1)) > 0, 2.0, 0.0)
    first, second = warner(rng, shares(rng, 0.3, 0.05, 32), 20)
    sums = sums_of(20, first, second, laws_of(WARNER, 1, S), clusters=False, factors=factors)
    return held(sums, 0.3, replicates=Replicates(range(16), "BRR"))


def finite(rng: Random) -> float:
    """Of each stratum 30 of 60 clusters, each of 20 people."""
    people = rng.binomial(20, shares(rng, 0.3, 0.2, 120))
    h = np.arange(120) % 2
    taken = np.arange(120) < 60
    yes = rng.binomial(people, 0.8) + rng.binomial(20 - people, 0.2)
    high, low = 0.8 / 0.6, -0.2 / 0.6
    first, second = (yes * high**i + (20 - yes) * low**i for i in (1, 2))
    laws = laws_of(WARNER, 1, S)
    sums = sums_of(
        20, first[taken], second[taken], laws, strata=h[taken], fpc=np.array([60.0, 60.0])
    )
    return held(sums, people.sum(axis=0) / 2_400)


SETTINGS: dict[str, Callable[[Random], float]] = {
    "clusters": partial(clustered, 0.3, 50, 20, 0.05),
    "rare": partial(clustered, 0.01, 50, 20, 0.05),
    "few-clusters": partial(clustered, 0.3, 12, 40, 0.1),
    "strata": strata,
    "weights": weights,
    "domain": domain,
    "twenty": twenty,
    "nobody": nobody,
    "condition": condition,
    "valid": valid,
    "difference": difference,
    "mle": likeliest,
    "jackknife": jackknife,
    "half-samples": half_samples,
    "finite": finite,
}


@pytest.mark.parametrize("name", SETTINGS)
def test_intervals_cover(name: str) -> None:
    assert 0.93 <= SETTINGS[name](np.random.default_rng([20040101, *map(ord, name)])) <= 0.97


def test_where_only_one_sample_is_possible_an_interval_has_a_width() -> None:
    laws = laws_of(Identity("a", [2]), 1, 1)
    zero = np.zeros((50, 1))
    lower, upper = sums_of(20, zero, zero, laws).estimate().ends(0.95)
    assert lower == 0
    assert 0 < upper < 0.01
