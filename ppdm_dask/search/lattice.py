"""The best design whose probabilities are multiples of 1/m, as dice, coins and cards make them.

Where the matrices are few all of them are looked at.  Of many, a local search moves one or two
units of 1/m at a time, from roundings of the certified optimum with its reports merged to the
wanted number, and of random matrices; then again from random moves away from the best.  What it
finds keeps the privacy, and the limit says how good it is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

from ppdm_dask.arrays import Floats, Ints
from ppdm_dask.errors import InputError, PPDMError
from ppdm_dask.faces.face import Face
from ppdm_dask.kernels import channels
from ppdm_dask.kernels.lattice import best_on_lattice
from ppdm_dask.ranges import real, whole
from ppdm_dask.search.cheapest import Cheapest, cheapest_epsilon, cheapest_posterior
from ppdm_dask.search.problem import Problem

__all__ = ["Lattice", "lattice_design"]

LOOKED_AT = 60_000_000
"""Matrices that are all looked at, times the square of the number of categories."""

COMPOSITIONS = 200_000
"""Columns that are listed at most."""

STARTS, KICKS = 16, 40
PAIRS = 20_000  # moves of two units that are tried at once
MIXES = 40  # mixtures with a constant matrix, of which the first that can be rounded is taken
SLACK = 1e-9
LARGEST_EPSILON = 20.0


@dataclass(frozen=True, eq=False, repr=False)
class Lattice(Face):
    """A design whose entries are multiples of 1/m.

    Parameters
    ----------
    counts : int array, shape (symbols, n)
        P times m.
    outcomes : int
        m.
    noise : float
        Sum of the variances of one report's estimate at the prior.
    limit : float or None
        Certified: no design of the privacy, whatever its entries, has less; None where that is not
        known.
    exact : bool
        Whether all such matrices were looked at, so that none of them is better.
    """

    counts: Ints
    outcomes: int
    noise: float
    limit: float | None
    exact: bool

    @property
    def P(self) -> Floats:
        """The matrix, shape (symbols, n); columns sum to 1."""
        P: Floats = self.counts / self.outcomes
        return P

    @property
    def ratio(self) -> float | None:
        """Reports needed over those that the best possible design needs; None if not known."""
        return None if self.limit is None else self.noise / self.limit

    def _said(self) -> str:
        symbols, n = self.counts.shape
        return f"Lattice of {symbols} by {n} in 1/{self.outcomes}, noise {self.noise:.6g}"


def lattice_design(
    prior: npt.ArrayLike,
    outcomes: int,
    *,
    epsilon: float | None = None,
    max_posterior: float | None = None,
    symbols: int | None = None,
    seed: int = 0,
) -> Lattice:
    """The matrix of least variance with entries that are multiples of 1 / outcomes.

    Parameters
    ----------
    prior : array_like, shape (n,)
        None below 1e-6; up to 10 categories.
    outcomes : int
        m, 2 or more: equally likely outcomes of a device.
    epsilon, max_posterior : float, optional
        Largest log likelihood ratio and largest posterior; one of them or both.
    symbols : int, optional
        Reported symbols, n or more; n by default.
    seed : int
        Of the starts of the search.

    Returns
    -------
    Lattice

    Raises
    ------
    InputError
        One line: parameter, value, and what would be right; also where no such matrix was found.

    Examples
    --------
    >>> from ppdm_dask.search.lattice import lattice_design
    >>> lattice_design([0.9, 0.1], 6, epsilon=1.0).counts.tolist()
    [[4, 2], [2, 4]]
    """
    m = whole("outcomes", outcomes, 2, 1000)
    if epsilon is None and max_posterior is None:
        raise InputError("epsilon, max_posterior: give one of them, or both", None)
    if epsilon is not None:
        epsilon = real("epsilon", epsilon, 0, LARGEST_EPSILON, open_ends=True)
    try:
        p = Problem(prior, 1, 1.0 if max_posterior is None else max_posterior).prior
    except InputError as error:
        raise InputError(str(error).replace("delta:", "max_posterior:"), error.subject) from None
    n = p.size
    if n > 10:
        raise InputError(f"prior: got {n} categories; at most 10 are possible", prior)
    K = n if symbols is None else whole("symbols", symbols, n, 4 * n)
    ratio = math.inf if epsilon is None else math.exp(epsilon) * (1 + SLACK)
    delta = 1.0 if max_posterior is None else max_posterior
    delta *= 1 + SLACK
    known = _cheapest(p, epsilon, max_posterior)
    limit = max((each.noise for each in known), default=None)
    counts, trace, exact = _all(p, m, K, ratio, delta)
    if not exact:
        search = _Search(p, m, ratio, delta)
        rounded = [search.start(start) for start in _starts(p, m, K, known, seed)]
        for found in [counts if math.isfinite(trace) else None, *rounded]:
            if found is not None:
                better, its = search.climb(found)
                if its < trace * (1 - 1e-12):
                    counts, trace = better, its
        if math.isfinite(trace):
            counts, trace = search.kicked(counts, trace, np.random.default_rng((seed, 1)))
    if not math.isfinite(trace):
        raise InputError(
            f"outcomes: got {m}; no matrix of multiples of 1/{m} with {K} reports and this privacy "
            f"that tells {n} categories apart {'exists' if exact else 'was found'}; more outcomes "
            "or less privacy are needed",
            m,
        )
    noise = trace - math.fsum(p**2)
    return Lattice(_ordered(counts), m, noise, limit, exact)


def _cheapest(p: Floats, epsilon: float | None, most: float | None) -> list[Cheapest]:
    """What is known of the best possible designs, each for one of the bounds."""
    found = []
    try:
        if epsilon is not None:
            found.append(cheapest_epsilon(p, epsilon))
        if most is not None and most < 1:
            found.append(cheapest_posterior(p, most))
    except PPDMError:
        pass
    return [each for each in found if each is not None]


def _all(p: Floats, m: int, K: int, ratio: float, delta: float) -> tuple[Ints, float, bool]:
    """The best of all matrices, and whether all were looked at."""
    best = np.zeros((K, p.size), np.int64)
    if math.comb(m + K - 1, K - 1) > COMPOSITIONS:
        return best, math.inf, False
    most = LOOKED_AT // p.size**2
    trace, seen = best_on_lattice(_compositions(m, K), p, ratio, delta, most, best)
    return best, float(trace), bool(seen <= most)


def _compositions(m: int, K: int) -> Ints:
    """All ways to write m as a sum of K whole numbers of 0 or more, shape (ways, K)."""
    cuts = np.array([*combinations(range(m + K - 1), K - 1)], dtype=np.int64).reshape(-1, K - 1)
    ends = np.full((len(cuts), 1), m + K - 1)
    parts: Ints = np.diff(np.concatenate([ends * 0 - 1, cuts, ends], axis=1), axis=1) - 1
    return parts


def _starts(p: Floats, m: int, K: int, known: list[Cheapest], seed: int) -> list[Floats]:
    """Matrices to be rounded."""
    n = p.size
    found = [np.concatenate([np.eye(n), np.zeros((K - n, n))])]
    found += [_merged(each.P, p, K) for each in known if each.P is not None and len(each.P) >= K]
    rng = np.random.default_rng(seed)
    found += [rng.dirichlet(np.full(K, 0.3), n).T for _ in range(STARTS - len(found))]
    if len(found[0]) > n:
        # One more report that tells nothing, or little.
        found.append(np.concatenate([np.eye(n) * 0.7, np.full((K - n, n), 0.3 / (K - n))]))
    return found


def _merged(P: Floats, p: Floats, K: int) -> Floats:
    """The same design with fewer reports: pairs are added up, those first that lose least."""
    while len(P) > K:
        pairs = [*combinations(range(len(P)), 2)]
        stack = np.zeros((len(pairs), len(P) - 1, P.shape[1]))
        for i, (first, second) in enumerate(pairs):
            stack[i] = np.delete(P, second, axis=0)
            stack[i, first] += P[second]
        P = stack[int(_traces(stack, p).argmin())]
    return P


def _traces(stack: Floats, p: Floats) -> Floats:
    loss, worst, trace = (np.empty(len(stack)) for _ in range(3))
    channels.measure(np.ascontiguousarray(stack), p, loss, worst, trace)
    return trace


class _Search:
    """Local search among the matrices of one lattice that keep a privacy."""

    def __init__(self, p: Floats, m: int, ratio: float, delta: float) -> None:
        self.p, self.m, self.ratio, self.delta = p, m, ratio, delta

    def kept(self, stack: Ints) -> npt.NDArray[np.bool_]:
        """Which matrices of a stack keep the privacy."""
        most, r = stack.max(axis=2), stack * self.p
        fine = r.max(axis=2) <= self.delta * r.sum(axis=2)
        if math.isfinite(self.ratio):
            fine &= most <= self.ratio * stack.min(axis=2)
        result: npt.NDArray[np.bool_] = (fine | (most == 0)).all(axis=1)
        return result

    def start(self, P: Floats) -> Ints | None:
        """A matrix mixed with a constant one as little as needed, and rounded to the lattice."""
        even = np.repeat(P.mean(axis=1, keepdims=True), P.shape[1], axis=1)
        equal = np.full_like(P, 1 / len(P))
        mixes = [
            _rounded(share * P + (1 - share) * rest, self.m)
            for rest in (even, equal)
            for share in np.arange(MIXES, 0, -1) / MIXES
        ]
        stack = np.array(mixes)
        stack = stack[self.kept(stack)]
        if not len(stack):
            return None
        traces = _traces(stack / self.m, self.p)
        best = int(traces.argmin())
        return stack[best] if math.isfinite(traces[best]) else None

    def climb(self, N: Ints) -> tuple[Ints, float]:
        """Move one unit of 1/m, else two, while that makes the matrix better."""
        trace = float(_traces(N[None] / self.m, self.p)[0])
        while True:
            moves = _moves(N)
            found = self._best(N + moves)
            if not found[1] < trace * (1 - 1e-12):
                found = self._best(N + self._pairs(moves))
            if not found[1] < trace * (1 - 1e-12):
                return N, trace
            N, trace = found

    def kicked(self, N: Ints, trace: float, rng: np.random.Generator) -> tuple[Ints, float]:
        """Climb again from some random moves away from the best, wherever that is."""
        for _ in range(KICKS):
            moved = N
            for _ in range(int(rng.integers(3, 7))):
                moves = moved + _moves(moved)
                moves = moves[self.kept(moves)]
                if len(moves):
                    moved = moves[rng.integers(len(moves))]
            if math.isfinite(_traces(moved[None] / self.m, self.p)[0]):
                found = self.climb(moved)
                if found[1] < trace * (1 - 1e-12):
                    N, trace = found
        return N, trace

    def _pairs(self, moves: Ints) -> Ints:
        first, second = np.triu_indices(len(moves))
        if len(first) > PAIRS:
            # Evenly spread over all of them, and the same ones every time.
            some = np.linspace(0, len(first) - 1, PAIRS).astype(np.int64)
            first, second = first[some], second[some]
        pairs: Ints = moves[first] + moves[second]
        return pairs

    def _best(self, stack: Ints) -> tuple[Ints, float]:
        stack = stack[(stack >= 0).all(axis=(1, 2))]
        stack = stack[self.kept(stack)]
        if not len(stack):
            return stack, math.inf
        traces = _traces(stack / self.m, self.p)
        best = int(traces.argmin())
        return stack[best], float(traces[best])


def _moves(N: Ints) -> Ints:
    """Changes by one unit from one report to another within a column, shape (moves, K, n)."""
    K, n = N.shape
    triples = [
        (a, b, x) for x in range(n) for a in range(K) for b in range(K) if a != b and N[a, x]
    ]
    moves = np.zeros((len(triples), K, n), np.int64)
    for i, (a, b, x) in enumerate(triples):
        moves[i, a, x], moves[i, b, x] = -1, 1
    return moves


def _rounded(P: Floats, m: int) -> Ints:
    """Multiples of 1/m near to each column, with its sum: the largest remainders are rounded up."""
    scaled = P / P.sum(axis=0) * m
    whole_parts = np.floor(scaled + 1e-9).astype(np.int64)
    order = np.argsort(-(scaled - whole_parts), axis=0, kind="stable").argsort(axis=0)
    result: Ints = whole_parts + (order < m - whole_parts.sum(axis=0))
    return result


def _ordered(N: Ints) -> Ints:
    """Rows in the order of the categories that they favour; a square matrix's in their place."""
    from scipy.optimize import linear_sum_assignment

    N = N[N.any(axis=1)]
    n = N.shape[1]
    share = N / N.sum(axis=1, keepdims=True)
    _, rows = linear_sum_assignment(-(N + share / 10).T)
    rest = [y for y in range(len(N)) if y not in rows[:n]]
    ordered: Ints = N[[*rows, *rest]]
    return ordered
