"""Records of several owners, each disguised in its own way, in one estimate.  [ZhanDu]_, 4.8."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ppdm_dask.arrays import Floats
from ppdm_dask.data.codebook import Records
from ppdm_dask.designs.base import Design
from ppdm_dask.designs.binding import check_fit
from ppdm_dask.designs.matching import bound_to, covering, require_design, require_unweighted
from ppdm_dask.errors import DesignError, InputError, RecordsError
from ppdm_dask.frozen import settle
from ppdm_dask.inference.fit import Fit, fit_of_parts
from ppdm_dask.inference.inversion import unbiased
from ppdm_dask.inference.laws import law_of_cells, law_of_event, raised, undefined
from ppdm_dask.inference.result import Estimate
from ppdm_dask.inference.uncertainty import check_estimand
from ppdm_dask.ranges import reals
from ppdm_dask.shown import given

if TYPE_CHECKING:
    from ppdm_dask.inference.laws import EventLaw
    from ppdm_dask.inference.uncertainty import Estimand


Strata = tuple[tuple[Records, Design], ...]


@dataclass(frozen=True, init=False)
class Stratified:
    """Designs of several strata; the event weights of all their reports add.

    An owner that does not disguise is a stratum with the design ``Identity``.

    Parameters
    ----------
    designs : iterable of Design
        One a stratum.

    Examples
    --------
    >>> import ppdm_dask as pp
    >>> book = pp.Codebook((pp.Attribute("sick", ("no", "yes")),))
    >>> own = pp.Records(np.array([[0], [1], [1], [1]]), book)
    >>> warner = pp.Warner("sick", theta=0.75)
    >>> theirs = pp.Reports(np.array([[1], [0]]), book, 0, warner.digest)
    >>> both = Stratified([pp.Identity("sick", [2]), warner])
    >>> round(pp.estimate([own, theirs], {"sick": "yes"}, design=both).value, 6)
    0.666667
    """

    designs: tuple[Design, ...]

    def __init__(self, designs: Iterable[Design]) -> None:
        found = tuple(designs)
        for design in found:
            if not isinstance(design, Design):
                raise DesignError(f"designs: got {given(design)}; designs are needed", design)
        if not found:
            raise DesignError("designs: got none; one a stratum is needed", designs)
        settle(self, designs=found)

    def pair(self, strata: Sequence[Records]) -> Strata:
        """Each stratum's records with their design, bound to their codebook.

        Raises
        ------
        RecordsError
            If there is not one stratum a design, their codebooks differ, one is empty, or one was
            made by another design.
        """
        if isinstance(strata, Records) or len(strata) != len(self.designs):
            got = 1 if isinstance(strata, Records) else len(strata)
            raise RecordsError(
                f"strata: got {got}; reports for each of {len(self.designs)} designs are needed",
                strata,
            )
        paired = []
        for h, (records, design) in enumerate(zip(strata, self.designs, strict=True), 1):
            if not isinstance(records, Records):
                raise RecordsError(
                    f"stratum {h}: got {type(records).__name__}; Reports are needed", records
                )
            if records.codebook.digest != strata[0].codebook.digest:
                raise RecordsError(f"stratum {h} has another codebook than stratum 1", records)
            if not len(records):
                raise RecordsError(f"stratum {h} has no records; leave it out", records)
            check_fit(design, records.codebook)
            bound = bound_to(records, design)
            require_design(records, bound)
            require_unweighted(records)
            paired.append((records, bound))
        return tuple(paired)

    def _weights(self, shares: Sequence[float]) -> list[float]:
        found = reals("shares", shares, 0, 1, ndim=1)
        if len(found) != len(self.designs) or abs(found.sum() - 1) > 1e-9:
            raise InputError(
                f"shares: got {given(shares)}; {len(self.designs)} weights of sum 1 are needed",
                shares,
            )
        return [float(each) for each in found]

    def estimate(
        self,
        strata: Sequence[Records],
        over: str | Iterable[str] | Mapping[str, Any],
        *,
        estimand: Estimand = "population",
        shares: Sequence[float] | None = None,
    ) -> Estimate:
        """Estimate proportions over all strata together: those of each, added.

        ``p = sum_h n_h p_h / n`` with ``SE^2 = sum_h n_h^2 s_h^2 / n^2``, s_h the standard error
        within stratum h; where few reports carry it, at least what the designs make it.

        Parameters
        ----------
        strata : sequence of Records or Reports
            In the order of the designs.
        over : iterable of str, or mapping of attribute to label or labels
            Attributes, or a single event.
        estimand : {"population", "file"}
        shares : sequence of float, optional
            Weights of the strata in place of ``n_h / n``, of sum 1, for strata of one population.
            They have to be fixed before there are reports: weights that depend on them bias.
        """
        check_estimand(estimand)
        weights = None if shares is None else self._weights(shares)
        single = isinstance(over, Mapping)
        asked: Any = over if single else (over,) if isinstance(over, str) else tuple(over)
        found, parts, n = [], [], sum(map(len, strata))
        for h, (records, design) in enumerate(self.pair(strata)):
            reports: Any = records
            part = unbiased(reports, design, asked, estimand=estimand)
            book = records.codebook
            if single:
                law = law_of_event(design, book.masks(asked), book.names)
            else:
                law = law_of_cells(design, book.select(asked), covering(design, asked))
            assert part.unbiased is not None
            share = part.n / n if weights is None else weights[h]
            parts.append(_Part(share, part.n, part.values, part.unbiased, law, part.moments))
            found.append(part)
        # Variances within strata only: a pooled variance would add how far their means differ.
        whole = _pooled(parts, estimand)
        return Estimate(
            found[0].labels,
            whole.value,
            whole.variance,
            n,
            "inversion",
            estimand,
            float((whole.value < 0).mean()),
            few=np.asarray(whole.few),
            unbiased=whole.unbiased,
            moments=whole.moments,
            size=whole.size,
            freedom=float(max(n - len(parts), 1)),
            tested=None if single else partial(_worst_fit, found),
        )


def _worst_fit(parts: Sequence[Estimate]) -> Fit:
    return fit_of_parts([part.fit for part in parts])


class _Part(NamedTuple):
    """Estimates of one stratum."""

    share: float
    n: int
    value: Floats
    variance: Floats
    law: EventLaw | None
    moments: tuple[Floats, Floats] | None


class _Pooled(NamedTuple):
    value: Floats
    variance: Floats
    unbiased: Floats
    few: Any
    moments: tuple[Floats, Floats] | None
    size: float


def _pooled(parts: Sequence[_Part], estimand: Estimand) -> _Pooled:
    """Estimates over all strata: shares add, and so do the least variances of the designs."""
    n = sum(part.n for part in parts)
    size, shares = float(n), [part.share for part in parts]
    if any(part.share != part.n / n for part in parts):
        # Reports of equal weight that say as much, and what each stratum is of their variance.
        added = [part.share**2 / part.n for part in parts]
        size = 1 / sum(added)
        shares = [each * size for each in added]
    value = np.asarray(sum(part.share * part.value for part in parts))
    unbiased = np.asarray(sum(part.share**2 * part.variance for part in parts))
    laws = [part.law for part in parts]
    moments = [part.moments for part in parts]
    if any(law is None for law in laws) or any(pair is None for pair in moments):
        variance, few = undefined(unbiased, n, np.maximum(np.abs(value), 1) ** 2)
        return _Pooled(value, variance, unbiased, few, None, size)
    known = [(part, part.law, part.moments) for part in parts if part.law and part.moments]
    floor = sum(part.share**2 * law.least / part.n for part, law, _ in known)
    farthest = np.maximum.reduce([law.farthest(part.value) for part, law, _ in known])
    exact = np.logical_and.reduce([law.certain | law.told(estimand) for _, law, _ in known])
    variance, few = raised(unbiased, np.asarray(floor), farthest, n, exact)
    inside, outside = (
        np.asarray(sum(share * pair[i] for share, (_, _, pair) in zip(shares, known, strict=True)))
        for i in (0, 1)
    )
    return _Pooled(value, variance, unbiased, few, (inside, outside), size)


def pair_strata(design: Design | Stratified, reports: Records | Sequence[Records]) -> Strata:
    """Strata of a miner's reports: one under a design, several under a stratified one."""
    if isinstance(design, Stratified):
        return design.pair(reports)  # type: ignore[arg-type]
    if not isinstance(reports, Records):
        raise RecordsError(f"got {type(reports).__name__}; Reports are needed", reports)
    return Stratified([design]).pair([reports])
