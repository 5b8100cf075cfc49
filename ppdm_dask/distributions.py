"""Laws of statistics: normal, Student's t, chi-squared, F and binomial, by SciPy where it is there.

SciPy is not part of the core installation, because it is as large as all the rest.  Without it
the plain twins below serve: continued fractions of the incomplete beta and gamma function, with
Loader's expansion of the binomial law in front [Loader]_.  They agree with SciPy to some 13 digits,
and take a value at a time.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from functools import cache
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = [
    "binomial_cdf",
    "binomial_law",
    "binomial_tail",
    "chi2_tail",
    "f_tail",
    "logistic",
    "normal_cdf",
    "normal_point",
    "normal_tail",
    "t_cdf",
    "t_point",
    "t_tail",
    "x_log1p_y",
    "x_log_y",
]

Values = npt.ArrayLike


@cache
def _scipy(module: str) -> Any:
    """A module of SciPy; None where it is not installed."""
    try:
        return importlib.import_module(f"scipy.{module}")
    except ImportError:
        return None


def _each(function: Callable[..., float], *values: Values) -> Any:
    """A function of numbers, of arrays: value by value."""
    return np.vectorize(function, otypes=[np.float64])(*values)[()]


# -- what others ask for ---------------------------------------------------------------------------


def normal_cdf(x: Values) -> Any:
    """P(X <= x) of the standard normal law."""
    if special := _scipy("special"):
        return special.ndtr(x)
    return _each(lambda z: 0.5 * math.erfc(-z / math.sqrt(2)), x)


def normal_tail(x: Values) -> Any:
    """P(X > x) of the standard normal law."""
    return normal_cdf(-np.asarray(x, np.float64))


def normal_point(p: float) -> float:
    """Where the standard normal law reaches p, from 0 to 1."""
    if special := _scipy("special"):
        return float(special.ndtri(p))
    return NormalDist().inv_cdf(p) if 0 < p < 1 else math.inf * (p - 0.5)


def t_cdf(x: Values, freedom: float) -> Any:
    """P(X <= x) of Student's law with so many degrees of freedom, above 0."""
    if special := _scipy("special"):
        return special.stdtr(freedom, x)
    return _each(lambda t: _t_tail(-t, freedom), x)


def t_tail(x: Values, freedom: float) -> Any:
    """P(X > x) of Student's law."""
    return t_cdf(-np.asarray(x, np.float64), freedom)


def t_point(p: float, freedom: float) -> float:
    """Where Student's law reaches p."""
    if special := _scipy("special"):
        return float(special.stdtrit(freedom, p))
    return _t_point(p, freedom)


def chi2_tail(x: Values, freedom: Values) -> Any:
    """P(X > x) of the chi-squared law."""
    if special := _scipy("special"):
        return special.chdtrc(freedom, x)
    return _each(lambda v, n: _gamma_tail(n / 2, v / 2), x, freedom)


def f_tail(x: Values, numerator: float, denominator: float) -> Any:
    """P(X > x) of Fisher's law with degrees of freedom of a numerator and a denominator."""
    if special := _scipy("special"):
        return special.fdtrc(numerator, denominator, x)
    n, d = numerator, denominator
    return _each(lambda v: _beta(d / 2, n / 2, d / (d + n * v), n * v / (d + n * v)), x)


def binomial_law(k: Values, n: Values, p: Values) -> Any:
    """P(X = k) of n draws with probability p; 0 where k is not such a number."""
    if stats := _scipy("stats"):
        return stats.binom.pmf(k, n, p)
    return _each(_binomial, k, n, p)


def binomial_cdf(k: Values, n: Values, p: Values) -> Any:
    """P(X <= k) of n draws with probability p."""
    if special := _scipy("special"):
        return special.bdtr(k, n, p)
    return _each(lambda k, n, p: _binomial_tail(n - 1 - math.floor(k), n, 1 - p, p), k, n, p)


def binomial_tail(k: Values, n: Values, p: Values) -> Any:
    """P(X > k) of n draws with probability p."""
    if special := _scipy("special"):
        return special.bdtrc(k, n, p)
    return _each(lambda k, n, p: _binomial_tail(math.floor(k), n, p, 1 - p), k, n, p)


def x_log_y(x: Values, y: Values) -> Any:
    """X log(y), 0 where x is 0."""
    if special := _scipy("special"):
        return special.xlogy(x, y)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(np.asarray(x) == 0, 0.0, np.multiply(x, np.log(y)))[()]


def x_log1p_y(x: Values, y: Values) -> Any:
    """X log(1 + y), 0 where x is 0."""
    if special := _scipy("special"):
        return special.xlog1py(x, y)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(np.asarray(x) == 0, 0.0, np.multiply(x, np.log1p(y)))[()]


def logistic(x: Values) -> Any:
    """1 / (1 + exp(-x))."""
    if special := _scipy("special"):
        return special.expit(x)
    x = np.asarray(x, np.float64)
    small = np.exp(-np.abs(x))
    return (np.where(x >= 0, 1.0, small) / (1 + small))[()]


# -- the plain twins -------------------------------------------------------------------------------

_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)
_TINY = 1e-300
_STEPS = 100_000


def _stirling_error(n: float) -> float:
    """log n! less Stirling's formula [Loader]_."""
    if n <= 15:
        return math.lgamma(n + 1) - (n + 0.5) * math.log(n) + n - _HALF_LOG_2PI if n else 0.0
    s = 1 / (n * n)
    return (1 / 12 - (1 / 360 - (1 / 1260 - (1 / 1680 - s / 1188) * s) * s) * s) / n


def _deviance(x: float, mean: float) -> float:
    """x log(x / mean) + mean - x, without cancellation near the mean [Loader]_."""
    if x == 0:
        return mean
    if abs(x - mean) >= 0.1 * (x + mean):
        return x * math.log(x / mean) + mean - x
    v = (x - mean) / (x + mean)
    total, power, j = (x - mean) * v, 2 * x * v, 1
    while True:
        power *= v * v
        longer = total + power / (2 * j + 1)
        if longer == total:
            return total
        total, j = longer, j + 1


def _binomial_raw(x: float, n: float, p: float, q: float) -> float:
    """C(n, x) p^x q^(n - x), also for broken x and n; q is 1 - p."""
    if p == 0 or q == 0:
        return float(x == n * p)
    if x == 0:
        return math.exp(n * math.log1p(-p) if p < 0.5 else n * math.log(q))
    if x == n:
        return math.exp(n * math.log1p(-q) if q < 0.5 else n * math.log(p))
    error = _stirling_error(n) - _stirling_error(x) - _stirling_error(n - x)
    error -= _deviance(x, n * p) + _deviance(n - x, n * q)
    return math.exp(error) * math.sqrt(n / (2 * math.pi * x * (n - x)))


def _binomial(k: float, n: float, p: float) -> float:
    if k < 0 or k > n or k != math.floor(k):
        return 0.0
    return _binomial_raw(k, n, p, 1 - p)


def _binomial_tail(k: float, n: float, p: float, q: float) -> float:
    if k < 0:
        return 1.0
    return 0.0 if k >= n else _beta(k + 1, n - k, p, q)


def _beta(a: float, b: float, x: float, y: float) -> float:
    """Regularised incomplete beta function I_x(a, b), by its continued fraction; y is 1 - x."""
    if x <= 0 or y <= 0:
        return float(y <= 0)
    front = _binomial_raw(a, a + b, x, y) * b / (a + b)
    if x * (a + b + 2) > a + 1:
        # x^a y^b / (b B(a, b)), of which the other side is made.
        return 1 - front * a / b * _beta_fraction(b, a, y)
    return front * _beta_fraction(a, b, x)


def _beta_fraction(a: float, b: float, x: float) -> float:
    def term(j: int) -> tuple[float, float]:
        m = j // 2
        if j % 2:
            return -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)), 1.0
        return m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)), 1.0

    return 1 / _fraction(1.0, term)


def _fraction(first: float, term: Callable[[int], tuple[float, float]]) -> float:
    """first + c1 / (d1 + c2 / (d2 + ...)), by Lentz's method; ``term(j)`` is (c, d)."""
    value = up = first or _TINY
    down = 0.0
    for j in range(1, _STEPS):
        c, d = term(j)
        down = 1 / (d + c * down or _TINY)
        up = d + c / up or _TINY
        value *= up * down
        if abs(up * down - 1) < 1e-16:
            break
    return value


def _gamma_tail(a: float, x: float) -> float:
    """Regularised upper incomplete gamma function Q(a, x)."""
    if x <= 0:
        return 1.0
    if math.isinf(x):
        return 0.0
    # x^a e^-x / Gamma(a + 1), as a law of Poisson.
    front = math.exp(-_stirling_error(a) - _deviance(a, x)) / math.sqrt(2 * math.pi * a)
    if x < a + 1:
        total = power = 1.0
        step = a
        while power > total * 1e-17:
            step += 1
            power *= x / step
            total += power
        return 1 - front * total
    return front * a / _fraction(x + 1 - a, lambda j: (j * (a - j), x + 2 * j + 1 - a))


def _t_tail(t: float, freedom: float) -> float:
    if math.isinf(t):
        return float(t < 0)
    square = t * t
    half = 0.5 * _beta(freedom / 2, 0.5, freedom / (freedom + square), square / (freedom + square))
    return half if t >= 0 else 1 - half


def _t_point(p: float, freedom: float) -> float:
    if not 0 < p < 1:
        return math.inf * (p - 0.5)
    if p < 0.5:
        return -_t_point(1 - p, freedom)
    low, high = 0.0, 1.0
    while _t_tail(high, freedom) > 1 - p:
        low, high = high, 2 * high
    while True:
        middle = (low + high) / 2
        if middle in (low, high):
            return middle
        if _t_tail(middle, freedom) > 1 - p:
            low = middle
        else:
            high = middle
