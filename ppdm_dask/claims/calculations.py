"""Numbers for claims that need no run: formulas, enumerations, sizes of data sets.

A calculation is a function without arguments that returns numbers by name.  A claim's file names
the calculation and the number, and the same rules judge it as judge results.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from functools import cache
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ppdm_dask import datasets, mine, privacy
from ppdm_dask.arrays import Floats
from ppdm_dask.data.codebook import Codebook
from ppdm_dask.designs import MultiGroup, UnrelatedQuestion
from ppdm_dask.designs.flip import Flip
from ppdm_dask.designs.matrix import RRMatrix
from ppdm_dask.designs.multigroup import coefficient_matrix
from ppdm_dask.experiments.grid import ERRORS
from ppdm_dask.privacy import hint_attack
from ppdm_dask.randomness import Stream
from ppdm_dask.resources import codebook_path

if TYPE_CHECKING:
    import xarray as xr

    from ppdm_dask.perturb.aibr import AIBR


def sample_counts() -> dict[str, float]:
    """Records of Breast-Cancer, those complete and distinct, and records of Pima."""
    cancer = datasets.load("breast-cancer")
    return {
        "wbc": float(len(cancer)),
        "wbc_used": float(len(cancer.dropna().drop_duplicates())),
        "pid": float(len(datasets.load("pima"))),
    }


def _pima() -> npt.NDArray[np.float64]:
    return np.asarray(datasets.load("pima").drop(columns="diabetes").to_numpy(dtype=float))


def _aibr(k: int, seed: int) -> AIBR:
    # By name, so that a run's page does not load scikit-learn, which takes half a second.
    method: AIBR = resolve_name("ppdm_dask.perturb.aibr:AIBR")(k, seed=seed)
    return method


def _correlation(one: npt.NDArray[Any], other: npt.NDArray[Any]) -> float:
    return float(np.asarray(np.corrcoef(one, other))[0, 1])


def aibr_reach() -> dict[str, float]:
    """Farthest that a value moves, in widths of its sub-interval, and the least correlation."""
    values = _pima()
    released = _aibr(4, seed=1).fit_transform(values)
    moved = np.abs(values - released) / (np.ptp(values, axis=0) / 4)
    pairs = zip(values.T, released.T, strict=True)
    return {
        "widths": float(moved.max()),
        "correlation": min(_correlation(x, y) for x, y in pairs),
    }


def aibr_histogram() -> dict[str, float]:
    """Counts in AIBR's own sub-intervals that differ between release and original."""
    values = _pima()
    released = _aibr(4, seed=1).fit_transform(values)
    # The sub-intervals are the method's own: a value never leaves the one that it is in.
    wrong = 0
    for x, y in zip(values.T, released.T, strict=True):
        edges = np.linspace(x.min(), x.max(), 5)
        one, two = np.histogram(x, edges)[0], np.histogram(y, edges)[0]
        wrong += int((one != two).sum())
    return {"different": float(wrong)}


def joint_distribution() -> dict[str, float]:
    """Correlation of pregnancies and age in Pima: original, and released with k = 1."""
    values = _pima()
    released = _aibr(1, seed=2).fit_transform(values)
    return {
        "original": _correlation(values[:, 0], values[:, 7]),
        "released": _correlation(released[:, 0], released[:, 7]),
    }


def _warner(n: int, p: float) -> Floats:
    matrix: Floats = p * np.eye(n) + (1 - p) / (n - 1) * (1 - np.eye(n))
    return matrix


def combinations() -> dict[str, float]:
    """Fact 1 for n = 10 and d = 100."""
    return {"count": float(math.comb(109, 100) ** 10)}


def schemes() -> dict[str, float]:
    """Least diagonal entries of the three schemes for n = 10, and where they agree."""
    n, q = 10, 0.35
    uniform = q * np.eye(n) + (1 - q) / n
    # FRAPP has the ratio of its entries as parameter, the others a probability.
    lam = uniform[0, 0] / uniform[0, 1]
    frapp = (lam * np.eye(n) + (1 - np.eye(n))) / (lam + n - 1)
    apart = max(
        float(np.abs(matrix - _warner(n, float(matrix[0, 0]))).max()) for matrix in (uniform, frapp)
    )
    return {"apart": apart, "warner_least": 0.0, "uniform_least": 1 / n}


def extreme_matrices() -> dict[str, float]:
    """Privacy of the identity and of the uniform matrix, and the rank of the latter."""
    prior = [0.5, 0.3, 0.2]
    uniform = np.full((3, 3), 1 / 3)
    return {
        "identity": float(RRMatrix("a", np.eye(3)).privacy(prior)),
        "uniform": float(RRMatrix("a", uniform).privacy(prior)),
        "largest_possible": 0.5,
        "rank": float(np.linalg.matrix_rank(uniform)),
    }


def _problems(count: int) -> list[tuple[Floats, Floats]]:
    rng = np.random.default_rng(2)
    return [(rng.dirichlet(np.ones(4), size=4).T, rng.dirichlet(np.ones(4))) for _ in range(count)]


def best_estimate() -> dict[str, float]:
    """By how much any estimate, a value for each report, is right more often than the MAP's."""
    best = -1.0
    for P, p in _problems(20):
        joint = P * p
        # All 4^4 rules that name a category for each report.
        every = max(
            sum(joint[y, x] for y, x in enumerate(guess))
            for guess in itertools.product(range(4), repeat=4)
        )
        best = max(best, float(every - joint.max(axis=1).sum()))
    # Guesses that differ between records of one report are averages of these.
    return {"excess": best}


def least_posterior() -> dict[str, float]:
    """Least excess of the largest posterior over the largest prior, in 1,000 random matrices."""
    excess = []
    for P, p in _problems(1_000):
        joint = P * p
        excess.append(float((joint / joint.sum(axis=1, keepdims=True)).max() - p.max()))
    return {"excess": min(excess)}


def inverse_as_mle() -> dict[str, float]:
    """Least proportion that inversion gives where one category is reported less than by chance."""
    estimate = np.linalg.solve(_warner(3, 0.6), np.array([0.6, 0.3, 0.1]))
    return {"least": float(estimate.min())}


def theorem_6() -> dict[str, float]:
    """MSE of a category for Warner .8, p = (.3, .7), N = 1000: exact, and by the printed sum."""
    P, p, n = _warner(2, 0.8), np.array([0.3, 0.7]), 1_000
    B, reported = np.linalg.inv(P), P @ p
    # Enumerated: the variance of one record's weight for the first category.
    exact = float(reported @ B[0] ** 2 - p[0] ** 2) / n
    covariance = -np.outer(reported, reported) / n
    variance = reported * (1 - reported) / n
    printed = float(B[0] ** 2 @ variance)
    printed += sum(
        2 * B[0, i] * B[0, j] * covariance[i, j] for i in (0, 1) for j in (0, 1) if i != j
    )
    return {"exact": exact, "printed": printed}


PRINTED_M3 = (
    (3, 2, 2, 1, 2, 1, 1, 0),
    (2, 3, 1, 2, 1, 1, 0, 1),
    (2, 1, 3, 2, 1, 0, 2, 1),
    (1, 2, 2, 3, 0, 1, 1, 2),
    (2, 1, 1, 0, 3, 2, 2, 1),
    (1, 2, 0, 1, 2, 3, 1, 2),
    (1, 0, 2, 1, 2, 1, 3, 2),
    (0, 1, 1, 2, 1, 2, 2, 3),
)
"""Eq. (8) as printed: the power of theta in each entry; the rest of the 3 is that of 1 - theta."""


def coefficient_matrices() -> dict[str, float]:
    """Entries of the printed M_1, M_2 and M_3 that differ from the truths and lies they count."""
    t = 0.7
    found = {}
    powers = {
        "m1": np.array([[1, 0], [0, 1]]),
        "m2": np.array([[2, 1, 1, 0], [1, 2, 0, 1], [1, 0, 2, 1], [0, 1, 1, 2]]),
        "m3": np.array(PRINTED_M3),
    }
    for g, (name, power) in enumerate(powers.items(), 1):
        events = list(itertools.product([0, 1], repeat=g))
        built = [
            [
                math.prod(t if a == b else 1 - t for a, b in zip(one, two, strict=True))
                for two in events
            ]
            for one in events
        ]
        # The claim is on the printed matrix; if ours were wrong, the verdict would mean nothing.
        if not np.allclose(built, coefficient_matrix([t] * g), rtol=1e-12):
            raise AssertionError("the package's coefficient matrix is wrong")
        printed = t**power * (1 - t) ** (g - power)
        found[name] = float((~np.isclose(printed, built, rtol=1e-12)).sum())
    return found


def solved_equations() -> dict[str, float]:
    """Eq. (7): largest error of P from P* through M_3, over 100 random joint distributions."""
    rng = np.random.default_rng(1)
    design = MultiGroup([["a"], ["b"], ["c"]], 0.8)
    worst = 0.0
    for p in rng.dirichlet(np.ones(8), size=100):
        worst = max(worst, float(np.abs(design.invert(design.apply(p)) - p).max()))
    return {"error": worst}


def half() -> dict[str, float]:
    """At theta = 1/2: reports of two opposite distributions, and how many directions are lost."""
    flip = Flip("a", 0.5)
    one, other = flip.apply(np.array([0.1, 0.9])), flip.apply(np.array([0.9, 0.1]))
    rank = int(np.linalg.matrix_rank(flip.matrix()))
    return {
        "difference": float(np.abs(one - other).max()),
        "ones": float(one[1]),
        "lost": float(2 - rank),
    }


def adversary_s_guess() -> dict[str, float]:
    """Posterior of a value with prior .9 after a report of it, at theta = .7."""
    return {"posterior": float(Flip("a", 0.7).max_posterior([0.1, 0.9])), "theta": 0.7}


def whole_record() -> dict[str, float]:
    """How often all of five attributes are guessed, each with prior .9 and its own coin of .7."""
    right = 1 - float(Flip("a", 0.7).privacy([0.1, 0.9]))
    return {"guessed": right**5, "theta_to_the_n": 0.7**5}


def hint() -> dict[str, float]:
    """Privacy left of an attribute once another is known: one coin for both, and one each."""
    prior = np.full((2, 2), 0.25)
    one = hint_attack(Flip(["a", "b"], 0.8), prior, "a", ["b"])
    # With a coin each, the other attribute's truth says nothing of this one's coin.
    return {"one_group": one.privacy, "two_groups": float(Flip("a", 0.8).privacy([0.5, 0.5]))}


def record_counts() -> dict[str, float]:
    """Records of the data sets as their original files have them."""
    return {
        name.replace("-", "_"): float(len(datasets.load(name)))
        for name in ("adult", "breast-cancer", "votes")
    }


GRID = np.arange(1, 10) / 10


def mixture() -> dict[str, float]:
    """Eq. (1) for the example: largest deviation of reports from q P + (1 - q) P_Y."""
    rng = np.random.default_rng(0)
    worst = 0.0
    for q in GRID:
        p, w = rng.dirichlet(np.ones(4)), rng.random(2)
        personal = np.outer([1 - w[0], w[0]], [1 - w[1], w[1]]).ravel()
        reported = UnrelatedQuestion(["a", "b"], float(q), w.tolist()).apply(p)
        worst = max(worst, float(np.abs(reported - q * p - (1 - q) * personal).max()))
    return {"deviation": worst}


def conjunction() -> dict[str, float]:
    """Probability that two fair personal attributes are 1 at once."""
    alone = UnrelatedQuestion(["a", "b"], 0, 0.5).apply(np.array([1.0, 0.0, 0.0, 0.0]))
    return {"probability": float(alone[3])}


def printed_pse() -> dict[str, float]:
    """PSE by enumeration and by the printed Eq. (2), at W_a = .3, W_y = .2, q = .6."""
    a, y, q = 0.3, 0.2, 0.6
    joint = {
        (o, r): (a if o else 1 - a) * (q * (o == r) + (1 - q) * (y if r else 1 - y))
        for o, r in itertools.product((0, 1), repeat=2)
    }
    true = sum(2 * joint[0, r] * joint[1, r] / (joint[0, r] + joint[1, r]) for r in (0, 1))
    r11, r00, wrong = q + (1 - q) * y, q + (1 - q) * (1 - y), (1 - q) * (1 - y)
    # The printed factor 2 stands only before the second fraction.
    first = (1 - a) * a * (1 - q) * r11 / (r11 * a + wrong * (1 - a))
    second = 2 * a * (1 - a) * wrong * r00 / (r00 * (1 - a) + wrong * a)
    return {"enumerated": true, "printed": first + second}


def pse_symmetry() -> dict[str, float]:
    """Largest differences of PSE between W_a and 1 - W_a, and between q and 1 - q, at W_y = 1/2."""
    w, q = np.meshgrid(GRID, GRID)
    pse = privacy.pse_unrelated(w, 0.5, q)
    other_w, other_q = privacy.pse_unrelated(1 - w, 0.5, q), privacy.pse_unrelated(w, 0.5, 1 - q)
    return {"w_a": float(np.abs(pse - other_w).max()), "q": float(np.abs(pse - other_q).max())}


def losses_of_trees(q: float, repeats: int = 30) -> Floats:
    """Accuracy of ID3 on Breast-Cancer less that of ID3 from unrelated-question reports.

    Each repeat splits the records again, four fifths to learn from, and scores clean ones.
    """
    frame = datasets.load("breast-cancer")
    book = Codebook.from_toml(codebook_path("breast-cancer")).binarise(frame, "midrange")
    records, target = book.encode(frame), str(book.target)
    design = UnrelatedQuestion(book.names, q, 0.5)
    losses = []
    for repeat in range(repeats):
        order = np.random.default_rng(repeat).permutation(len(records))
        first = round(0.8 * len(records))
        train, test = records.take(order[:first]), records.take(order[first:])
        reports = design.disguise(train, Stream.from_seed(repeat))
        plain = mine.ID3(None, target).fit(train)
        disguised = mine.ID3(design, target).fit(reports)
        losses.append(plain.score(test) - disguised.score(test))
    return np.array(losses)


def electronic_trees() -> dict[str, float]:
    """Mean loss of accuracy of ID3 at q = 0.7, and the largest that its error leaves possible."""
    losses = losses_of_trees(0.7)
    mean, error = losses.mean(), losses.std(ddof=1) / math.sqrt(losses.size)
    return {"loss": float(mean), "most": float(mean + ERRORS * error)}


CALCULATIONS: Mapping[str, Callable[[], dict[str, float]]] = {
    function.__name__.replace("_", "-"): function
    for function in (
        # [ZhanMatwin]_
        conjunction,
        electronic_trees,
        mixture,
        printed_pse,
        pse_symmetry,
        # [ZhanDu]_
        adversary_s_guess,
        coefficient_matrices,
        half,
        hint,
        record_counts,
        solved_equations,
        whole_record,
        # [Guo]_
        aibr_histogram,
        aibr_reach,
        joint_distribution,
        sample_counts,
        # [HuangDu]_
        best_estimate,
        combinations,
        extreme_matrices,
        inverse_as_mle,
        least_posterior,
        schemes,
        theorem_6,
    )
}
"""Calculations by name."""


# Several claims rest on one calculation, and a page judges all of them.
@cache
def calculate(name: str) -> xr.Dataset:
    """The numbers of a calculation, as a result without axes."""
    import xarray as xr

    return xr.Dataset({key: ((), value) for key, value in CALCULATIONS[name]().items()})
