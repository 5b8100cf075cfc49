"""Association rules from disguised reports.  [ZhanDu]_, section 4.8, for any design.

Supports are unbiased estimates, so that they are not anti-monotone: a set may be estimated larger
than a part of it.  Sets are therefore pruned by what their supports may at most be.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from ppdm_dask.arrays import Bools, Floats, Ints
from ppdm_dask.data.partitioned import opened
from ppdm_dask.designs.matching import bound_to
from ppdm_dask.errors import InputError, RecordsError
from ppdm_dask.extras import named
from ppdm_dask.faces.dataset import dataset_of
from ppdm_dask.faces.face import Face, html_table, sparks
from ppdm_dask.faces.plots import intervals
from ppdm_dask.inference import Estimate, estimate, invert
from ppdm_dask.inference.laws import CARRIERS
from ppdm_dask.inference.owners import Owners
from ppdm_dask.inference.proportions import design_of
from ppdm_dask.inference.tables import ContingencyTable, along_blocks
from ppdm_dask.inference.uncertainty import normal_quantile
from ppdm_dask.mine.betting import By, independence_p, mean_p
from ppdm_dask.mine.itemsets import tables_of
from ppdm_dask.ranges import real, whole
from ppdm_dask.shown import given, listed

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from markupsafe import Markup
    from matplotlib.axes import Axes

    from ppdm_dask.designs.base import Design

__all__ = ["Rule", "Rules", "association_rules"]

Items = tuple[tuple[str, str], ...]
"""Attributes and their labels, in the order of the codebook."""

Names = tuple[str, ...]

Test = Literal["confidence", "lift"]

MOST_CELLS = 1_024
"""Combinations of categories of one set of attributes."""

ROUNDING = 1e-12
"""By which a share may be below a bound that it meets."""

MOST_WEIGHTS = 1 << 22
"""Event weights of a table, its cells times its reported cells."""

MOST_TABLES = 100_000
"""Sets of attributes that are looked at."""


@dataclass(frozen=True, repr=False)
class Rule(Face):
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
        Of the test that was asked for, one-sided; z is not a number where fewer than ten reports
        carry the error, and p is then as :mod:`ppdm_dask.mine.betting` has it.
    q : float
        p adjusted for all rules that were tested, by Benjamini and Hochberg.
    by : {"normal", "binomial", "hypergeometric", "betting"}
        The law that p is of.
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
    by: By = "normal"

    def __str__(self) -> str:
        return f"{_said(self.antecedent)} -> {_said(self.consequent)}"

    def _said(self) -> str:
        numbers = f"support {self.support:.4f}, confidence {self.confidence:.4f}"
        return f"{self}\n{numbers}, lift {self.lift:.4g}, q {self.q:.4g}"


def _said(items: Items) -> str:
    return ", ".join(f"{name} = {label}" for name, label in items)


@dataclass(frozen=True, eq=False, repr=False)
class Rules(Face):
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
        with named("to_frame"):
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

    def to_dataset(self, level: float = 0.95) -> xr.Dataset:
        """Confidences along ``rule``, with Wald intervals; supports, lifts and q-values too."""
        confidence, error, low, high = self._confidences(level)
        return dataset_of(
            {"rule": [str(rule) for rule in self.rules]},
            (confidence, error, low, high),
            units="proportion",
            level=level,
            interval="Wald",
            further={
                name: np.array([getattr(rule, name) for rule in self.rules], float)
                for name in ("support", "support_error", "lift", "lift_error", "p", "q")
            },
            method="inversion",
            n=self.n,
            tested=self.tested,
        )

    def _confidences(self, level: float) -> tuple[Floats, Floats, Floats, Floats]:
        """Confidences, errors, and the ends of Wald intervals."""
        value = np.array([rule.confidence for rule in self.rules], float)
        error = np.array([rule.confidence_error for rule in self.rules], float)
        half = normal_quantile(level) * error
        return value, error, value - half, value + half

    def plot(self, ax: Axes | None = None, *, level: float = 0.95, most: int = 20) -> Axes:
        """Draw the confidences of the first rules with Wald intervals, on axes of matplotlib."""
        value, _, low, high = (each[:most] for each in self._confidences(level))
        return intervals(
            ax,
            [str(rule) for rule in self.rules[:most]],
            value,
            low,
            high,
            x=f"confidence, {100 * level:.4g} % interval",
            marks=(1,),
            always=(0,),
        )

    def _said(self) -> str:
        head = f"{len(self)} rules of {self.tested} tested, from {self.n:,} reports"
        return head if not self.rules else f"{head}\n{self.rules[0]}"

    def _shown(self) -> Iterator[Markup]:
        value, _, low, high = self._confidences(0.95)
        names = ["antecedent", "consequent", "support", "confidence", "lift", "q"]
        yield html_table(self.to_frame()[names], drawn=sparks(value, low, high, marks=(0, 1)))

    def __str__(self) -> str:
        head = f"{len(self)} rules of {self.tested} tested, from {self.n:,} reports"
        return "\n".join([head, *map(str, self.rules[:20])])


@dataclass(frozen=True, eq=False)
class _Table:
    """Reports of some attributes, and supports of all combinations of their categories."""

    reports: ContingencyTable | None
    """None where several owners have some."""
    estimate: Estimate
    most: Floats
    """What each support may at most be, also by those of its parts."""

    @cached_property
    def error(self) -> Floats:
        variance = np.asarray(self.estimate.variance, float)
        return np.where(np.isfinite(variance), np.sqrt(np.maximum(variance, 0.0)), np.inf)


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
    r"""Find association rules in the truth behind disguised reports.

    A rule is reported if its support and its confidence are at least as large as asked for, by
    their estimates:

    .. math:: \text{support} = P(AB), \qquad \text{confidence} = \frac{P(AB)}{P(A)}, \qquad
        \text{lift} = \frac{P(AB)}{P(A) P(B)}

    Sets of items are left out when their support is below `min_support` with
    simultaneous probability `level`: the least of ``s_T + z SE_T`` over their parts T is.  All
    rules of the other sets are tested, whatever their estimates, so that none is tested for
    having come out large.

    Parameters
    ----------
    reports : Reports, Records, Owners, ContingencyTable, lazy reports, or paths of reports
        Undisguised records give the rules of every textbook.  Partitions are passed once for each
        length of sets, and counts are all that leaves them.  Of several owners p is not a number
        where few reports carry the error.
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
        Where ten reports or more carry the error, their number being ``n Var(u) / max u^2`` of what
        is averaged, p is normal; else it is a p-value that holds for any number of reports.
    fdr : float, optional
        Only rules whose q is at most this are reported: the expected share of false ones.
    level : float
        Of the simultaneous bound.

    Raises
    ------
    InputError
        For numbers out of their range, unknown attributes, more sets than can be looked at, and
        reports that have survey weights or are sets of categories.
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
    reports = opened(reports)
    book = getattr(reports, "codebook", None)
    if book is None:
        raise RecordsError(
            f"reports: got {type(reports).__name__}; Reports or Records are needed, as "
            "Codebook.encode gives them",
            reports,
        )
    asked = (attributes,) if isinstance(attributes, str) else attributes
    names = book.names if asked is None else tuple(dict.fromkeys(asked))
    if not names:
        raise InputError("attributes: got none; at least one is needed", attributes)
    if unknown := [name for name in names if name not in book.names]:
        raise InputError(
            f"attributes: got {listed(unknown)}; there are {listed(book.names)}", unknown
        )
    order = [name for name in book.names if name in names]
    sizes = {name: len(book[name].categories) for name in order}
    z = _simultaneous(level, list(sizes.values()), max_length)
    owners = isinstance(reports, Owners)
    made = None if owners else design_of(reports, design)
    tables: dict[Names, _Table] = {}
    for length in range(1, max_length + 1):
        bounds: dict[Names, Floats] = {}
        for subset in combinations(order, length):
            most = _bound(subset, tables, sizes, least)
            if most is None:
                continue
            if len(tables) + len(bounds) >= MOST_TABLES:
                raise InputError(
                    f"attributes: more than {MOST_TABLES:,} sets of them are frequent; name fewer "
                    "attributes, a shorter max_length or a larger min_support",
                    order,
                )
            bounds[subset] = most
        if not bounds:
            break
        for subset, counted, found in _estimates(reports, made, bounds):
            table = _Table(counted, found, bounds[subset])
            upper = found.values + z * table.error
            tables[subset] = replace(table, most=np.minimum(table.most, upper))
    supports: dict[Items, tuple[float, float]] = {}
    labels = {name: book[name].categories for name in order}
    groups: list[_Found] = []
    first = next(iter(tables.values())).reports
    bound = None if first is None or made is None else bound_to(first, made)
    for subset, table in tables.items():
        cells = np.argwhere(table.most >= least)
        if not len(cells):
            continue
        for cell in map(tuple, cells[table.estimate.values[tuple(cells.T)] >= least - ROUNDING]):
            items = tuple((name, labels[name][v]) for name, v in zip(subset, cell, strict=True))
            supports[items] = float(table.estimate.values[cell]), float(table.error[cell])
        if len(subset) > 1:
            groups += _rules(table, bound, subset, cells, confidence, test)
    adjusted = _adjusted(np.concatenate([[], *(group.numbers["p"] for group in groups)]))
    told: list[Rule] = []
    start = 0
    for group in groups:
        q = adjusted[start : start + len(group.cells)]
        start += len(q)
        large = (group.numbers["support"] >= least - ROUNDING) & (
            group.numbers["confidence"] >= confidence - ROUNDING
        )
        if fdr is not None:
            large &= q <= fdr
        told += [group.rule(i, labels, float(q[i])) for i in np.flatnonzero(large).tolist()]
    told.sort(key=lambda rule: (math.isnan(rule.q), rule.q, -rule.confidence, -rule.support))
    n = next(iter(tables.values())).estimate.n
    return Rules(tuple(told), supports, n, len(adjusted), len(tables))


def _estimates(
    reports: Any, design: Design | None, sets: Iterable[Names]
) -> Iterator[tuple[Names, ContingencyTable | None, Estimate]]:
    """Estimated shares of all combinations of each set of attributes."""
    if design is None:
        yield from ((subset, None, estimate(reports, subset)) for subset in sets)
        return
    for subset, counted in tables_of(reports, design, sets):
        # A table of just these attributes need not be inverted twice.
        same = counted.attributes == subset
        made = invert(counted, design) if same else estimate(counted, subset, design=design)
        yield subset, counted, made


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
    subset: Names,
    tables: Mapping[Names, _Table],
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


@dataclass(frozen=True, eq=False)
class _Moments:
    """Shares of what holds of some attributes of a table, with covariances and event weights.

    Parameters
    ----------
    values : array, shape of the table
    covariance : array, shape (cells, cells)
    weights : array, shape (cells, reported cells), or None
        Of each cell, for each reported one; None where there are too many of them.
    counts : int array, shape (reported cells,)
    few : bool array, shape of the table, or None
        Where few reports carry the error of a share.
    """

    values: Floats
    covariance: Floats
    weights: Floats | None
    counts: Ints
    few: Bools | None = None

    @classmethod
    def of(cls, table: _Table, design: Design | None, subset: Names) -> _Moments:
        if table.reports is None or design is None:
            made = table.estimate
            none = np.zeros(0, np.int64)
            return cls(made.values, made.covariance, None, none, made.few)
        over, counts = table.reports.attributes, table.reports.counts
        shape = table.reports.codebook.shape
        weights = None
        if math.prod(shape) * counts.size <= MOST_WEIGHTS:
            ones = np.eye(math.prod(shape)).reshape(*shape, -1)
            sums = tuple(i for i, name in enumerate(over) if name not in subset)
            weights = along_blocks(ones, (*over, ""), design, "invert_transposed")
            weights = weights.reshape(counts.size, *shape).sum(axis=tuple(1 + i for i in sums))
            kept = [name for name in over if name in subset]
            order = [1 + kept.index(name) for name in subset]
            weights = weights.transpose(*order, 0).reshape(-1, counts.size)
        made = table.estimate
        return cls(made.values, made.covariance, weights, counts.ravel())

    def part(self, axes: tuple[int, ...]) -> _Part:
        shape, d = self.values.shape, self.values.ndim
        others = tuple(i for i in range(d) if i not in axes)
        sizes = tuple(shape[i] for i in axes)
        with_cells = self.covariance.reshape(-1, *shape).sum(axis=tuple(1 + i for i in others))
        return _Part(
            axes,
            sizes,
            self.values.sum(axis=others).ravel(),
            with_cells.reshape(len(self.covariance), -1),
            None
            if self.weights is None
            else self.weights.reshape(*shape, -1).sum(axis=others).reshape(math.prod(sizes), -1),
        )


class _Part(NamedTuple):
    """The same of some of the attributes: shares, covariances with all cells, weights."""

    axes: tuple[int, ...]
    sizes: tuple[int, ...]
    values: Floats
    with_cells: Floats
    weights: Floats | None

    def at(self, cells: Ints) -> Ints:
        """Where the rows of codes of all attributes are."""
        return np.asarray(np.ravel_multi_index(tuple(cells[:, i] for i in self.axes), self.sizes))

    def covariance(self, shape: tuple[int, ...], other: _Part) -> Floats:
        """Of these shares with those of another part."""
        others = tuple(i for i in range(len(shape)) if i not in self.axes)
        table = other.with_cells.reshape(*shape, -1).sum(axis=others)
        return np.asarray(table.reshape(math.prod(self.sizes), -1))


class _Found(NamedTuple):
    """Rules of one set of attributes and one division of it; arrays have an entry a rule."""

    subset: Names
    chosen: tuple[int, ...]
    cells: Ints
    numbers: dict[str, Floats]
    by: list[By]

    def rule(self, i: int, labels: Mapping[str, Sequence[str]], q: float) -> Rule:
        items = [
            (name, labels[name][code])
            for name, code in zip(self.subset, self.cells[i], strict=True)
        ]
        return Rule(
            tuple(items[j] for j in self.chosen),
            tuple(item for j, item in enumerate(items) if j not in self.chosen),
            **{name: float(values[i]) for name, values in self.numbers.items()},
            q=q,
            by=self.by[i],
        )


def _rules(
    table: _Table,
    design: Design | None,
    subset: Names,
    cells: Ints,
    confidence: float,
    test: Test,
) -> Iterator[_Found]:
    """All rules of some combinations of categories, shape (combinations, attributes)."""
    known = _Moments.of(table, design, subset)
    shape, positions = known.values.shape, range(len(subset))
    parts = {
        chosen: known.part(chosen)
        for length in range(1, len(subset))
        for chosen in combinations(positions, length)
    }
    for chosen, first in parts.items():
        second = parts[tuple(i for i in positions if i not in chosen)]
        kept = (first.values[first.at(cells)] > 0) & (second.values[second.at(cells)] > 0)
        if kept.any():
            some = cells[kept]
            yield _Found(
                subset, chosen, some, *_tested(known, shape, first, second, some, confidence, test)
            )


def _tested(
    known: _Moments,
    shape: tuple[int, ...],
    first: _Part,
    second: _Part,
    cells: Ints,
    confidence: float,
    test: Test,
) -> tuple[dict[str, Floats], list[By]]:
    at = np.ravel_multi_index(tuple(cells.T), shape)
    a, b = first.at(cells), second.at(cells)
    both, p_first, p_second = known.values.ravel()[at], first.values[a], second.values[b]
    squares = (
        known.covariance[at, at],
        first.covariance(shape, first)[a, a],
        second.covariance(shape, second)[b, b],
    )
    cross = (
        first.with_cells[at, a],
        second.with_cells[at, b],
        first.covariance(shape, second)[a, b],
    )

    def error(x: Floats | float, y: Floats | float, z: Floats | float) -> Floats:
        """Of x both + y first + z second."""
        total = x * x * squares[0] + y * y * squares[1] + z * z * squares[2]
        total = total + 2 * (x * y * cross[0] + x * z * cross[1] + y * z * cross[2])
        return np.asarray(np.sqrt(np.maximum(total, 0.0)))

    c, lift = both / p_first, both / (p_first * p_second)
    by: tuple[Floats | float, Floats | float, Floats | float]
    if test == "confidence":
        effect, by = both - confidence * p_first, (1.0, -confidence, 0.0)
    else:
        effect, by = both - p_first * p_second, (1.0, -p_second, -p_first)
    of_effect = error(*by)
    p, z, how = _p_values(known, (at, a, b), (first, second), by, effect, of_effect, test)
    numbers = {
        "support": both,
        "support_error": error(1.0, 0.0, 0.0),
        "confidence": c,
        "confidence_error": error(1 / p_first, -c / p_first, 0.0),
        "lift": lift,
        "lift_error": error(1 / (p_first * p_second), -lift / p_first, -lift / p_second),
        "z": z,
        "p": p,
    }
    return numbers, how


def _p_values(
    known: _Moments,
    at: tuple[Ints, Ints, Ints],
    parts: tuple[_Part, _Part],
    by: tuple[Any, Any, Any],
    effect: Floats,
    error: Floats,
    test: Test,
) -> tuple[Floats, Floats, list[By]]:
    """p-values, z, and the law of each p."""
    n = int(known.counts.sum())
    how: list[By] = ["normal"] * len(effect)
    first, second = parts
    if known.weights is None or first.weights is None or second.weights is None:
        with np.errstate(invalid="ignore", divide="ignore"):
            z = np.where(error > 0, effect / error, np.nan)
        if known.few is not None:
            z[known.few.ravel()[at[0]]] = np.nan
        return _upper(z), z, how
    x, y, w = (np.broadcast_to(part, effect.shape)[:, None] for part in by)
    three = known.weights[at[0]], first.weights[at[1]], second.weights[at[2]]
    u = x * three[0] + y * three[1] + w * three[2]
    farthest = ((u - (u @ known.counts)[:, None] / n) ** 2).max(axis=1)
    enough = n**2 * error**2 >= CARRIERS * np.maximum(farthest, np.finfo(float).tiny)
    z = np.full(len(effect), np.nan)
    z[enough] = effect[enough] / error[enough]
    p = _upper(z)
    if (few := np.flatnonzero(~enough)).size:
        if test == "confidence":
            p[few], laws = mean_p(u[few], known.counts)
        else:
            exact = [
                independence_p(three[0][i], three[1][i], three[2][i], known.counts) for i in few
            ]
            p[few], laws = [each for each, _ in exact], [law for _, law in exact]
        for i, law in zip(few, laws, strict=True):
            how[i] = law
    return p, z, how


def _upper(z: Floats) -> Floats:
    from scipy.special import ndtr

    return np.asarray(ndtr(-z))


def _adjusted(p: Floats) -> Floats:
    """Adjusted p-values by Benjamini and Hochberg; those that are not known count as 1."""
    from scipy.stats import false_discovery_control

    known = np.where(np.isnan(p), 1.0, p)
    return np.asarray(false_discovery_control(known)) if known.size else known
