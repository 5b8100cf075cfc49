"""Association rules from disguised reports.  [ZhanDu]_, section 4.8, for any design.

Supports are unbiased estimates, so that they are not anti-monotone: a set may be estimated larger
than a part of it.  Sets are therefore pruned by what their supports may at most be.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ppdm_dask.arrays import Bools, Floats
from ppdm_dask.errors import InputError
from ppdm_dask.inference import Estimate, estimate
from ppdm_dask.inference.uncertainty import normal_quantile
from ppdm_dask.ranges import real, whole
from ppdm_dask.shown import given, listed

if TYPE_CHECKING:
    import pandas as pd

    from ppdm_dask.designs.base import Design

__all__ = ["Rule", "Rules", "association_rules"]

Items = tuple[tuple[str, str], ...]
"""Attributes and their labels, in the order of the codebook."""

Test = Literal["confidence", "lift"]

MOST_CELLS = 1_024
"""Combinations of categories of one set of attributes."""

ROUNDING = 1e-12
"""By which a share may be below a bound that it meets."""

MOST_TABLES = 100_000
"""Sets of attributes that are looked at."""


@dataclass(frozen=True)
class Rule:
    """If the first items hold, the others do.

    Parameters
    ----------
    antecedent, consequent : tuple of (attribute, label)
    support, confidence, lift : float
        P(both), P(consequent | antecedent), and that over P(consequent): unbiased, and ratios of
        unbiased estimates; they may leave [0, 1].
    support_error, confidence_error, lift_error : float
        Standard errors; of ratios by the delta method.
    z, p : float
        Of the test that was asked for, one-sided; not a number where fewer than ten reports carry
        the error.
    q : float
        p adjusted for all rules that were tested, by Benjamini and Hochberg.
    """

    antecedent: Items
    consequent: Items
    support: float
    support_error: float
    confidence: float
    confidence_error: float
    lift: float
    lift_error: float
    z: float
    p: float
    q: float = math.nan

    def __str__(self) -> str:
        return f"{_said(self.antecedent)} -> {_said(self.consequent)}"


def _said(items: Items) -> str:
    return ", ".join(f"{name} = {label}" for name, label in items)


@dataclass(frozen=True, eq=False)
class Rules:
    """Rules, the most certain first, and the frequent sets behind them.

    Parameters
    ----------
    rules : tuple of Rule
    supports : mapping of items to (support, standard error)
        Of all sets that are frequent by their estimate.
    n : int
        Reports.
    tested : int
        Rules whose p-values were adjusted together.
    tables : int
        Sets of attributes that were estimated.
    """

    rules: tuple[Rule, ...]
    supports: Mapping[Items, tuple[float, float]]
    n: int
    tested: int
    tables: int

    def __len__(self) -> int:
        return len(self.rules)

    def __iter__(self) -> Iterator[Rule]:
        return iter(self.rules)

    def __getitem__(self, at: Any) -> Any:
        return self.rules[at]

    def to_frame(self) -> pd.DataFrame:
        """A row a rule."""
        import pandas as pd

        numbers = [f for f in Rule.__dataclass_fields__ if f not in ("antecedent", "consequent")]
        rows = [
            {
                "antecedent": _said(rule.antecedent),
                "consequent": _said(rule.consequent),
                **{name: getattr(rule, name) for name in numbers},
            }
            for rule in self.rules
        ]
        return pd.DataFrame(rows, columns=["antecedent", "consequent", *numbers])

    def __repr__(self) -> str:
        head = f"{len(self)} rules of {self.tested} tested, from {self.n:,} reports"
        return "\n".join([head, *map(str, self.rules[:20])])


@dataclass(frozen=True, eq=False)
class _Table:
    """Supports of all combinations of categories of some attributes."""

    estimate: Estimate
    most: Floats
    """What each support may at most be, also by those of its parts."""

    @cached_property
    def error(self) -> Floats:
        found = np.asarray(self.estimate.standard_error.values, float)
        return np.where(np.isfinite(found), found, np.inf)


def association_rules(
    reports: Any,
    design: Design | None = None,
    *,
    min_support: float = 0.05,
    min_confidence: float = 0.6,
    attributes: Iterable[str] | None = None,
    max_length: int = 3,
    test: Test = "confidence",
    fdr: float | None = None,
    level: float = 0.95,
) -> Rules:
    """Find association rules in the truth behind disguised reports.

    A rule is reported if its support and its confidence are at least as large as asked for, by
    their estimates.  Sets of items are left out when their support is below `min_support` with
    simultaneous probability `level`: the least of ``s_T + z SE_T`` over their parts T is.  All
    rules of the other sets are tested, whatever their estimates, so that none is tested for
    having come out large.

    Parameters
    ----------
    reports : Reports, Records, Owners, ContingencyTable, or lazy reports
        Undisguised records give the rules of every textbook.
    design : Design, optional
        By default the one that the reports carry.
    min_support, min_confidence : float
        In (0, 1].
    attributes : iterable of str, optional
        By default all.
    max_length : int
        Items of a rule at the most, 2 or more.
    test : {"confidence", "lift"}
        What p says: that the confidence is no larger than `min_confidence`, by the mean of
        ``w_AB - c w_A``; or that antecedent and consequent are independent, or go together less.
    fdr : float, optional
        Only rules whose q is at most this are reported: the expected share of false ones.
    level : float
        Of the simultaneous bound.

    Raises
    ------
    InputError
        For numbers out of their range, unknown attributes, or more sets than can be looked at.
    NotInvertible

    References
    ----------
    Agrawal and Srikant, Fast algorithms for mining association rules, VLDB 1994; Benjamini and
    Hochberg, Controlling the false discovery rate, JRSS B 57, 1995.
    """
    least, confidence = real("min_support", min_support, 0, 1), min_confidence
    real("min_confidence", confidence, 0, 1)
    if not least > 0:
        raise InputError("min_support: got 0; above 0 is needed", min_support)
    whole("max_length", max_length, 2)
    if test not in ("confidence", "lift"):
        raise InputError(f"test: got {given(test)}; 'confidence' or 'lift' is needed", test)
    if fdr is not None:
        real("fdr", fdr, 0, 1, open_ends=True)
    book = reports.codebook
    names = book.names if attributes is None else tuple(dict.fromkeys(attributes))
    if unknown := [name for name in names if name not in book.names]:
        raise InputError(
            f"attributes: got {listed(unknown)}; there are {listed(book.names)}", unknown
        )
    order = [name for name in book.names if name in names]
    sizes = {name: len(book[name].categories) for name in order}
    z = _simultaneous(level, list(sizes.values()), max_length)
    tables: dict[tuple[str, ...], _Table] = {}
    for length in range(1, max_length + 1):
        found = 0
        for subset in combinations(order, length):
            most = _bound(subset, tables, sizes, least)
            if most is None:
                continue
            if len(tables) >= MOST_TABLES:
                raise InputError(
                    f"attributes: more than {MOST_TABLES:,} sets of them are frequent; name fewer "
                    "attributes, a shorter max_length or a larger min_support",
                    order,
                )
            made = estimate(reports, subset, design=design)
            table = _Table(made, most)
            upper = made.values + np.where(np.isfinite(table.error), z * table.error, np.inf)
            tables[subset] = _Table(made, np.minimum(most, upper))
            found += 1
        if not found:
            break
    supports: dict[Items, tuple[float, float]] = {}
    rules = []
    for subset, table in tables.items():
        for cell in np.argwhere(table.most >= least):
            at = tuple(map(int, cell))
            items = tuple(
                (name, book[name].categories[code]) for name, code in zip(subset, at, strict=True)
            )
            if table.estimate.values[at] >= least - ROUNDING:
                supports[items] = float(table.estimate.values[at]), float(table.error[at])
            if len(subset) > 1:
                rules += list(_rules(table.estimate, items, at, confidence, test))
    adjusted = _adjusted([rule.p for rule in rules])
    told = [
        Rule(**{**rule.__dict__, "q": float(q)})
        for rule, q in zip(rules, adjusted, strict=True)
        if rule.support >= least - ROUNDING
        and rule.confidence >= confidence - ROUNDING
        and (fdr is None or q <= fdr)
    ]
    told.sort(key=lambda rule: (math.isnan(rule.q), rule.q, -rule.confidence, -rule.support))
    n = next(iter(tables.values())).estimate.n
    return Rules(tuple(told), supports, n, len(rules), len(tables))


def _simultaneous(level: float, sizes: list[int], max_length: int) -> float:
    """Standard errors of an upper bound that holds for all sets at once, by Bonferroni."""
    real("level", level, 0, 1, open_ends=True)
    # Sets of each length: the elementary symmetric polynomials of the sizes.
    counts = np.zeros(max_length + 1)
    counts[0] = 1
    for size in sizes:
        counts[1:] = counts[1:] + size * counts[:-1]
    return normal_quantile(1 - 2 * (1 - level) / max(float(counts[1:].sum()), 2.0))


def _bound(
    subset: tuple[str, ...],
    tables: Mapping[tuple[str, ...], _Table],
    sizes: Mapping[str, int],
    least: float,
) -> Floats | None:
    """What the supports may at most be by the sets that lack one item; None if none is frequent."""
    shape = tuple(sizes[name] for name in subset)
    if math.prod(shape) > MOST_CELLS:
        raise InputError(
            f"attributes: {listed(subset)} have {math.prod(shape):,} combinations of categories; "
            f"at most {MOST_CELLS:,} are looked at: group categories, or name fewer attributes",
            subset,
        )
    most = np.full(shape, np.inf)
    if len(subset) == 1:
        return most
    for i in range(len(subset)):
        part = tables.get(subset[:i] + subset[i + 1 :])
        if part is None:
            return None
        most = np.minimum(most, np.expand_dims(part.most, i))
    return most if (most >= least).any() else None


def _rules(
    made: Estimate, items: Items, at: tuple[int, ...], confidence: float, test: Test
) -> Iterator[Rule]:
    """All rules of one set of items."""
    values, shape = made.values, made.values.shape
    covariance = made.covariance
    both = _mask(shape, dict(enumerate(at))).ravel()
    p_both = float(values[at])
    few = bool(made.few is not None and made.few[at])
    for length in range(1, len(at)):
        for chosen in combinations(range(len(at)), length):
            first = _mask(shape, {i: at[i] for i in chosen}).ravel()
            others = [i for i in range(len(at)) if i not in chosen]
            second = _mask(shape, {i: at[i] for i in others}).ravel()
            p_first, p_second = (float(values.ravel()[mask].sum()) for mask in (first, second))
            if not (p_first > 0 and p_second > 0):
                continue
            c, lift = p_both / p_first, p_both / (p_first * p_second)
            of_confidence = (both - c * first) / p_first
            of_lift = both / (p_first * p_second) - lift * (first / p_first + second / p_second)
            if test == "confidence":
                effect, by = p_both - confidence * p_first, both - confidence * first
            else:
                effect = p_both - p_first * p_second
                by = both - p_second * first - p_first * second
            error = _error(by, covariance)
            z = effect / error if error > 0 and not few else math.nan
            yield Rule(
                tuple(items[i] for i in chosen),
                tuple(items[i] for i in others),
                p_both,
                math.sqrt(max(float(covariance[both, :][:, both].sum()), 0.0)),
                c,
                _error(of_confidence, covariance),
                lift,
                _error(of_lift, covariance),
                z,
                0.5 * math.erfc(z / math.sqrt(2)) if not math.isnan(z) else math.nan,
            )


def _mask(shape: tuple[int, ...], fixed: Mapping[int, int]) -> Bools:
    mask = np.zeros(shape, bool)
    mask[tuple(fixed.get(i, slice(None)) for i in range(len(shape)))] = True
    return mask


def _error(gradient: Any, covariance: Floats) -> float:
    g = np.asarray(gradient, float)
    return math.sqrt(max(float(g @ covariance @ g), 0.0))


def _adjusted(p: list[float]) -> Floats:
    """Adjusted p-values by Benjamini and Hochberg; those that are not known count as 1."""
    from scipy.stats import false_discovery_control

    known = np.where(np.isnan(p), 1.0, p)
    return np.asarray(false_discovery_control(known)) if known.size else known
