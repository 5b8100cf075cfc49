"""Sums of event weights by stratum: what they add up to, and the estimates and errors they give.

Also here: variances that few reports carry, and what intervals need.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ppdm_dask.arrays import EPS, Bools, Floats, sum_rounding
from ppdm_dask.errors import InputError, RecordsError
from ppdm_dask.faces.face import Face, names_of
from ppdm_dask.inference.cell_laws import CellLaws
from ppdm_dask.inference.clusters import (
    ClusterTotals,
    Lone,
    Replicates,
    ReplicateTotals,
    check_lone,
    deviations,
    fractions,
)
from ppdm_dask.inference.contrasts import Comparison, Joint, compare
from ppdm_dask.inference.fit import fit_of_sums
from ppdm_dask.inference.laws import lift
from ppdm_dask.inference.result import Estimate, labels_of, stacked
from ppdm_dask.inference.tables import DENSE_CELLS
from ppdm_dask.inference.uncertainty import ROUNDING, Estimand, check_estimand

if TYPE_CHECKING:
    from ppdm_dask.data.codebook import Codebook


__all__ = ["FIRST", "MAX_SUMS", "SUMS", "GroupedSums", "WeightSums", "check_size"]

FIRST = ("d", "f", "w")
"""Sums that are linear in the survey weights; all others but n are quadratic."""

SUMS = ("n", "d", "dd", "f", "ddf", "ddff", "w", "ddw", "ddwf", "ddww")

MAX_SUMS = 1 << 24
"""Cells times strata above which no sums are kept: each of four arrays would take 128 MiB."""


@dataclass(frozen=True, eq=False, repr=False)
class WeightSums(Face):
    """Sums over reports by stratum: d survey weights, W weights of cells, F those of a condition.

    W is the weight of "the cell and the condition"; without a condition F is 1.  The sums add;
    as they are of floating-point numbers, their last bits depend on the order.  Survey weights are
    in units of a power of two, so that estimates do not depend on their scale.

    Parameters
    ----------
    codebook : Codebook
        Attributes of the cells; none for a single event.
    design_digest : str
    strata : int array, shape (H,)
        Ascending.
    n, d, dd : arrays, shape (H,)
        Reports, sum d, sum d^2.
    f, ddf, ddff : arrays, shape (H,)
        Sums of d F, d^2 F and d^2 F^2.
    w, ddw, ddwf, ddww : arrays, shape (H, cells)
        Sums of d W, d^2 W, d^2 W F and d^2 W^2.
    exponent : int
        The unit of d is 2 to this power.
    laws : CellLaws, optional
        What the design says of the cells' weights, for the errors of what few reports carry.
    fpc : array, shape (H,), optional
        See :class:`ppdm_dask.Records`.
    clusters : ClusterTotals, optional
        Of d F and d W, where reports were drawn in clusters.
    replicates : ReplicateTotals, optional
        Of the same under replicate weights.
    products : array, shape (H, cells, cells), optional
        Sums of d^2 W W', where cells are to be compared.
    """

    codebook: Codebook | None
    design_digest: str
    strata: npt.NDArray[np.int64]
    n: Floats
    d: Floats
    dd: Floats
    f: Floats
    ddf: Floats
    ddff: Floats
    w: Floats
    ddw: Floats
    ddwf: Floats
    ddww: Floats
    exponent: int = 0
    laws: CellLaws | None = None
    fpc: Floats | None = None
    clusters: ClusterTotals | None = None
    replicates: ReplicateTotals | None = None
    products: Floats | None = None

    def _said(self) -> str:
        of = "an event" if self.codebook is None else names_of(self.codebook.names)
        return f"WeightSums of {of}, {int(self.n.sum()):,} reports in {len(self.n):,} strata"

    def __add__(self, other: WeightSums) -> WeightSums:
        if not isinstance(other, WeightSums):
            return NotImplemented
        if _digest(other.codebook) != _digest(self.codebook):
            raise RecordsError("sums over different attributes or categories do not add", other)
        if other.design_digest != self.design_digest:
            raise RecordsError("sums of reports made by different designs do not add", other)
        # Sums without reports have no unit.
        units = [one.exponent for one in (self, other) if len(one.strata)]
        exponent = max(units, default=0)
        # A partition need not have reports of every stratum.
        strata = np.union1d(self.strata, other.strata)
        check_size(strata.size, self.w.shape[1])
        added: dict[str, Any] = {}
        for name in SUMS:
            # Scaling by powers of two is exact, so units do not touch the digits of a sum.
            total = np.zeros((len(strata), *getattr(self, name).shape[1:]))
            for one in (self, other):
                total[np.searchsorted(strata, one.strata)] += one.in_units(name, exponent)
            added[name] = total
        book, laws = self.codebook, other.laws if self.laws is None else self.laws
        sums = WeightSums(book, self.design_digest, strata, **added, exponent=exponent, laws=laws)
        return replace(sums, **_survey_of((self, other), sums))

    def in_units(self, name: str, exponent: int = 0) -> Floats:
        """One of the sums, with survey weights in units of 2 to the exponent."""
        times = 0 if name == "n" else 1 if name in FIRST else 2
        values: Floats = np.ldexp(getattr(self, name), times * (self.exponent - exponent))
        return values

    def values(self) -> Floats:
        """Hajek's estimates of the cells' proportions within the condition.

        Raises
        ------
        RecordsError
            Without reports.
        InputError
            If the condition has no estimated share, so that nothing can be said within it.
        """
        if not self.n.sum():
            raise RecordsError("there are no reports; at least one is needed", self)
        total, share = self.f.sum(), self.f.sum() / self.d.sum()
        noise = float(sum_rounding(self.ddff.sum(), self.n.sum()))
        if not total > noise:
            share = 0.0 if total >= -noise else share
            raise InputError(
                f"where: its estimated proportion is {share:.4g}; nothing can be said within it",
                self,
            )
        result: Floats = self.w.sum(axis=0) / total
        return result

    def variances(self, estimand: Estimand = "population", lone: Lone = "fail") -> Floats:
        """Variances of :meth:`values`, none of them 0 by chance.

        See :func:`ppdm_dask.inference.laws.lift`.
        """
        return lifted(self, self.unbiased(estimand, lone), estimand)[0]

    def unbiased(
        self,
        estimand: Estimand = "population",
        lone: Lone = "fail",
        replicates: Replicates | None = None,
    ) -> Floats:
        r"""Unbiased variances of :meth:`values`, linearised: z = d (W - r F) / sum d F.

        *Population*: over the totals z of m clusters, or the reports themselves, that are a
        fraction f of their stratum h,

        .. math:: \sum_h (1 - f_h) \frac{m_h}{m_h - 1} \sum_c (z_{hc} - \bar z_h)^2

        or the spread of estimates under replicate weights.  Without a remedy it is not a number
        where a stratum has a single report.  Drawing a larger part of a finite population makes
        nothing of the disguise less random, so f times the next variance is added.

        *This file*: given the records only the disguise is random, and the variance of a report in
        the cell c and the condition d is, for the ratio r,

        .. math:: E[(W - r F)^2 \mid x] - (1 - 2 r) 1_{c \wedge d} - r^2 1_d
        """
        check_estimand(estimand)
        check_lone(lone)
        if estimand == "file" and (self.clusters or self.replicates or self.fpc is not None):
            raise InputError(
                "estimand: errors about these records are only of the disguise, and clusters, fpc "
                "and replicates do not enter them; leave those out",
                estimand,
            )
        r = self.values()
        if replicates is not None:
            if self.replicates is None:
                raise InputError("replicates: the evidence holds no replicate weights", replicates)
            f, w = self.replicates.values[:, :1], self.replicates.values[:, 1:]
            if not (f > 0).all():
                raise InputError("where: under a replicate weight nobody is within it", replicates)
            return replicates.variance(w / f, r)
        total = self._disguise(r).sum(axis=0) if estimand == "file" else self._sampling(r, lone)
        if self.n.sum() < 2:
            total = np.full(total.shape, np.nan)
        return np.asarray(total / self.f.sum() ** 2)

    def _disguise(self, r: Floats) -> Floats:
        """Variance of sum d (W - r F) by the disguise, given the records; shape (H, cells)."""
        square, noise = self._squares(r)
        square = square - (1 - 2 * r) * self.ddw - r**2 * self.ddf[:, None]
        square[:, np.abs(square.sum(axis=0)) <= noise.sum(axis=0)] = 0.0
        return square

    def _squares(self, r: Floats) -> tuple[Floats, Floats]:
        """Sums of d^2 (W - r F)^2, and what rounding may leave of them."""
        square = self.ddww - 2 * r * self.ddwf + r**2 * self.ddff[:, None]
        relative = max(ROUNDING, 4 * EPS * math.sqrt(self.n.sum()))
        return square, relative * (self.ddww + r**2 * self.ddff[:, None])

    def _sampling(self, r: Floats, lone: Lone) -> Floats:
        """Variance of sum d (W - r F) over samples, shape (cells,)."""
        total = self._between(r, lone)
        if self.fpc is not None:
            drawn = self._fractions()
            total = total + np.maximum(drawn @ self._disguise(r), 0)
        return total

    def _fractions(self) -> Floats:
        """Sampled fraction of each stratum."""
        if self.fpc is None:
            return np.zeros(len(self.n))
        units = self.n if self.clusters is None else np.bincount(self.clusters.strata)
        return fractions(self.fpc, units)

    def _between(self, r: Floats, lone: Lone) -> Floats:
        """What of the variance is between clusters, or reports, of a stratum."""
        left = 1 - self._fractions()
        if self.clusters is not None:
            z = self.clusters.values[:, 1:] - r * self.clusters.values[:, :1]
            rows = deviations(z, self.clusters.strata, 1 - left, lone)
            return np.asarray((rows**2).sum(axis=0))
        square, noise = self._squares(r)
        single = (self.n == 1) & (left > 0) & (np.abs(square) > noise).any(axis=1)
        mean = (self.w - r * self.f[:, None]) ** 2 / self.n[:, None]
        spread = np.maximum(square - mean, 0)
        factor = left * np.where(self.n > 1, self.n / np.maximum(self.n - 1, 1), 1.0)
        if lone == "adjust":
            spread[single] = square[single]
        total = factor @ spread
        # The average of strata that vary, for those that cannot be seen to.
        others = len(self.n) - int(single.sum())
        if single.any() and lone in ("fail", "average"):
            total = total * (len(self.n) / others if others and lone == "average" else np.nan)
        return np.where(np.abs(total) <= noise.sum(axis=0), 0.0, total)

    def quadratic(self, lone: Lone = "fail") -> tuple[Floats, Floats, Floats]:
        """Variance of ``sum d (W - p F) / sum d F`` as ``A + B p + C p^2``, as the sample has it.

        At :meth:`values` it is the variance of these.
        """
        at = [self._sampling(np.full(self.w.shape[1], p), lone) for p in (0.0, 0.5, 1.0)]
        A, middle, end = (x / self.f.sum() ** 2 for x in at)
        C = 2 * (A + end - 2 * middle)
        return A, end - A - C, C

    def covariance_of_totals(self, estimand: Estimand, lone: Lone = "fail") -> Floats:
        """Covariance of the sums d W over all strata, shape (cells, cells).

        It is right for combinations of the cells that the estimates themselves make 0.
        """
        assert self.products is not None
        noise = self.products - np.stack([np.diag(x) for x in self.ddw])
        if estimand == "file":
            return np.asarray(noise.sum(axis=0))
        drawn = self._fractions()
        if self.clusters is not None:
            rows = deviations(self.clusters.values[:, 1:], self.clusters.strata, drawn, lone)
            total = rows.T @ rows
        else:
            mean = self.w[:, :, None] * self.w[:, None, :] / self.n[:, None, None]
            spread, single = self.products - mean, (self.n == 1) & (drawn < 1)
            single &= (self.products != 0).any(axis=(1, 2))
            factor = (1 - drawn) * np.where(self.n > 1, self.n / np.maximum(self.n - 1, 1), 1.0)
            if lone == "adjust":
                spread[single] = self.products[single]
            elif lone != "certainty" and single.any():
                others = len(self.n) - int(single.sum())
                factor *= len(self.n) / others if others and lone == "average" else np.nan
            total = np.tensordot(factor, spread, 1)
        return np.asarray(total + np.tensordot(drawn, noise, 1))

    def estimate(
        self,
        estimand: Estimand = "population",
        lone: Lone = "fail",
        replicates: Replicates | None = None,
    ) -> Estimate:
        """Estimated proportions of the cells, or of the single event, with variances.

        Parameters
        ----------
        estimand : {"population", "file"}
        lone : {"fail", "certainty", "adjust", "average"}
            About strata with a single cluster, or a single report where none are given.
        replicates : Replicates, optional
            What variances are made of in place of the linearised sums, if these hold replicates.
        """
        values, moments = self.values(), _moments(self)
        unbiased = self.unbiased(estimand, lone, replicates)
        variance, few = lifted(self, unbiased, estimand)
        noise = sum_rounding(self.ddww.sum(axis=0), int(self.n.sum())) / self.f.sum()
        shape = () if self.codebook is None else self.codebook.shape
        inside, outside = (None, None) if moments is None else (m.reshape(shape) for m in moments)
        size, freedom = effective_size(self), freedom_of(self, replicates)
        of_errors = values.reshape(shape), inside, outside, size, freedom, variance.reshape(shape)
        quadratic = None
        if freedom is not None and moments is None and estimand == "population":
            remedy: Lone = lone if replicates is None else "adjust"
            A, B, C = (x.reshape(shape) for x in self.quadratic(remedy))
            quadratic = A, B, C
        return Estimate(
            {} if self.codebook is None else labels_of(self.codebook),
            values.reshape(shape),
            variance.reshape(shape),
            int(self.n.sum()),
            "inversion",
            estimand,
            float((values < -noise).mean()),
            few=few.reshape(shape),
            unbiased=unbiased.reshape(shape),
            moments=None if inside is None or outside is None else (inside, outside),
            quadratic=quadratic,
            size=size,
            share=float(self.f.sum() / self.d.sum()),
            freedom=freedom,
            tested=partial(fit_of_sums, *of_errors),
            design_digest=self.design_digest,
        )


@dataclass(frozen=True, repr=False)
class GroupedSums(Face):
    """Sums of event weights within each group of people.

    Parameters
    ----------
    groups : Codebook
        The attributes that make the groups.
    sums : tuple of WeightSums
        One for each joint category of these, the last attribute running fastest.
    joint : WeightSums, optional
        Of groups and cells together, with their products, from which groups are compared.
    """

    groups: Codebook
    sums: tuple[WeightSums, ...]
    joint: WeightSums | None = None

    def _said(self) -> str:
        n = sum(int(sums.n.sum()) for sums in self.sums[:1])
        of = names_of(self.groups.names)
        return f"GroupedSums by {of}: {len(self.sums):,} groups, {n:,} reports"

    def __add__(self, other: GroupedSums) -> GroupedSums:
        if not isinstance(other, GroupedSums):
            return NotImplemented
        if other.groups.digest != self.groups.digest:
            raise RecordsError("sums within different groups do not add", other)
        joint = None
        if self.joint is not None and other.joint is not None:
            joint = self.joint + other.joint
        sums = tuple(a + b for a, b in zip(self.sums, other.sums, strict=True))
        return replace(self, sums=sums, joint=joint)

    def estimate(
        self,
        estimand: Estimand = "population",
        lone: Lone = "fail",
        replicates: Replicates | None = None,
    ) -> Estimate:
        """Estimated proportions within each group; groups are the first axes.

        In a group that nobody is estimated to be in, they are not numbers.
        """
        parts = []
        for labels, sums in zip(self.labels(), self.sums, strict=True):
            try:
                parts.append(sums.estimate(estimand, lone, replicates))
            except InputError as error:
                # No reports at all is an error of the whole; an empty group is one of that group.
                if isinstance(error, RecordsError):
                    raise
                parts.append(_nothing(sums, labels, estimand))
        flat = list(parts)
        # The last attribute runs fastest, so its groups stand together.
        for attribute in reversed(self.groups.attributes):
            size = len(attribute.categories)
            parts = [
                stacked(attribute.name, attribute.categories, parts[low : low + size])
                for low in range(0, len(parts), size)
            ]
        if self.joint is None:
            return parts[0]
        return replace(parts[0], compared=partial(self._compare, flat, estimand, lone, replicates))

    def _compare(
        self,
        parts: Sequence[Estimate],
        estimand: Estimand,
        lone: Lone,
        replicates: Replicates | None,
        reference: Sequence[str] | None,
        level: float,
    ) -> Comparison:
        sums = self.joint
        assert sums is not None and sums.codebook is not None
        freedom = freedom_of(sums, replicates)
        own = [part.freedom for part in parts]
        by_reports = sums.clusters is None and replicates is None
        under = None if sums.replicates is None else sums.replicates.values[:, 1:]
        joint = Joint(
            labels_of(sums.codebook),
            len(self.groups.names),
            float(sums.n.sum()),
            sums.w.sum(axis=0),
            sums.covariance_of_totals(estimand, lone if replicates is None else "adjust"),
            under,
            replicates,
            np.stack([_raised(part).ravel() for part in parts]),
            max(effective_size(sums) - len(sums.n), 1.0) if freedom is None else freedom,
            np.array([1.0 if f is None else f for f in own]) if by_reports else None,
        )
        return compare(joint, estimand, reference, level)

    def labels(self) -> Iterator[dict[str, str]]:
        """Categories of each group, in the order of the sums."""
        for labels in product(*(a.categories for a in self.groups.attributes)):
            yield dict(zip(self.groups.names, labels, strict=True))


def _raised(part: Estimate) -> Floats:
    """What was added to variances that few reports carry."""
    if part.variance is None or part.unbiased is None:
        return np.zeros(part.values.shape)
    return np.asarray(part.variance - part.unbiased)


def _nothing(sums: WeightSums, labels: Mapping[str, str], estimand: Estimand) -> Estimate:
    """Of a group that has no estimated share."""
    shape = () if sums.codebook is None else sums.codebook.shape
    blank, who = np.full(shape, np.nan), ", ".join(f"{k} = {v}" for k, v in labels.items())
    return Estimate(
        {} if sums.codebook is None else labels_of(sums.codebook),
        blank,
        blank,
        int(sums.n.sum()),
        estimand=estimand,
        why=f"the estimated proportion of {who} is not above 0",
        few=np.zeros(shape, bool),
        unbiased=blank,
        size=0.0,
        design_digest=sums.design_digest,
    )


def effective_size(sums: WeightSums) -> float:
    """Reports that would say as much: ``(sum d F)^2 / sum d^2 F^2``."""
    squares = float(sums.ddff.sum())
    return float(sums.f.sum()) ** 2 / squares if squares > 0 else 0.0


def freedom_of(sums: WeightSums, replicates: Replicates | None = None) -> float | None:
    """Degrees of freedom of the variances, 1 or more.

    Clusters less strata, of those within the condition; rank of the replicate weights less 1; else
    effective reports less strata.  None where the sums are of plain reports.
    """
    if replicates is not None and sums.replicates is not None:
        return float(max(sums.replicates.freedom(), 1))
    if sums.clusters is not None:
        return float(max(sums.clusters.freedom(), 1))
    unit = (sums.d, sums.dd, sums.f, sums.ddf, sums.ddff)
    if len(sums.n) < 2 and all((x == sums.n).all() for x in unit):
        return None
    return max(effective_size(sums) - len(sums.n), 1.0)


def lifted(sums: WeightSums, unbiased: Floats, estimand: Estimand) -> tuple[Floats, Bools]:
    """Variances none of which is 0 by chance, and where few reports carry them."""
    if sums.laws is None:
        return lift(unbiased, sums.values(), None, effective_size(sums))
    law, exact = sums.laws.law, sums.laws.decided
    if law is not None:
        exact = exact | law.told(estimand)
    return lift(unbiased, sums.values(), law, effective_size(sums), exact)


def _moments(sums: WeightSums) -> tuple[Floats, Floats] | None:
    """Second moments of the weights of the cells, of records inside and outside of each.

    None under a disguised condition, F not 0 or 1: they would miss its noise, and score intervals
    would cover far less than they say.
    """
    if sums.laws is None or sums.laws.law is None:
        return None
    if float(np.abs(sums.ddff - sums.ddf).sum()) > 1e-9 * float(sums.ddff.sum()):
        return None
    square = sums.ddww.sum(axis=0) / sums.ddff.sum()
    return sums.laws.law.second_moments(sums.values(), square)


def _digest(codebook: Codebook | None) -> str:
    return "" if codebook is None else codebook.digest


def check_size(strata: int, cells: int, parts: str = "strata") -> None:
    """Raise RecordsError for more cells, or cells in strata, than sums are kept of."""
    if cells > DENSE_CELLS or strata * cells > MAX_SUMS:
        where = f" in {strata:,} {parts}" if strata > 1 else ""
        raise RecordsError(
            f"{cells:,} cells{where} are too many to sum weights for (at most {DENSE_CELLS:,}, and "
            f"{MAX_SUMS:,} with {parts}); estimate fewer attributes at once, or events",
            cells,
        )


def _survey_of(both: Sequence[WeightSums], total: WeightSums) -> dict[str, Any]:
    """The same of sums that are added; each has what the other has, or no reports."""
    there = [one for one in both if len(one.strata)]
    made: dict[str, Any] = {}
    for name in ("fpc", "clusters", "replicates", "products"):
        given = [getattr(one, name) for one in there]
        if all(each is None for each in given):
            continue
        if any(each is None for each in given):
            raise RecordsError(f"sums with and without {name} do not add", both[1])
        if name == "fpc":
            made[name] = _fpc_of(there, total.strata)
            continue
        shifts = [one.exponent - total.exponent for one in there]
        if name == "products":
            made[name] = np.zeros((len(total.strata), *given[0].shape[1:]))
            for one, each, shift in zip(there, given, shifts, strict=True):
                made[name][np.searchsorted(total.strata, one.strata)] += np.ldexp(each, 2 * shift)
            continue
        scaled = [each.scaled(shift) for each, shift in zip(given, shifts, strict=True)]
        made[name] = scaled[0] if len(scaled) == 1 else scaled[0] + scaled[1]
        if name == "clusters":
            units, columns = made[name].values.shape
            check_size(units, columns, "clusters")
    return made


def _fpc_of(there: Sequence[WeightSums], strata: npt.NDArray[np.int64]) -> Floats:
    levels = np.full(len(strata), np.nan)
    for one in there:
        assert one.fpc is not None
        at = np.searchsorted(strata, one.strata)
        if ((levels[at] != one.fpc) & ~np.isnan(levels[at])).any():
            raise RecordsError("fpc: one number in each stratum is needed", one)
        levels[at] = one.fpc
    return levels
