"""One estimate from records of several owners, each with another design.  [ZhanDu]_, 4.8."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ppdm_dask.arrays import Floats
from ppdm_dask.data.codebook import Records, Reports
from ppdm_dask.designs.base import Design, design_from_config
from ppdm_dask.designs.binding import check_fit
from ppdm_dask.designs.matching import bound_to, covering, require_design, require_unweighted
from ppdm_dask.errors import DesignError, InputError, RecordsError
from ppdm_dask.faces.face import Face, html_table, names_of
from ppdm_dask.faces.listing import Listing
from ppdm_dask.frozen import settle
from ppdm_dask.inference.fit import Fit, fit_of_parts
from ppdm_dask.inference.inversion import unbiased
from ppdm_dask.inference.laws import law_of_cells, law_of_event, raised, undefined
from ppdm_dask.inference.result import Estimate
from ppdm_dask.inference.uncertainty import check_estimand
from ppdm_dask.ranges import real, reals
from ppdm_dask.shown import given

if TYPE_CHECKING:
    from markupsafe import Markup

    from ppdm_dask.inference.laws import EventLaw
    from ppdm_dask.inference.uncertainty import Estimand


Strata = tuple[tuple[Records, Design], ...]


@dataclass(frozen=True, init=False, repr=False)
class Stratified(Face):
    """Designs of several strata; the event weights of all their reports are added.

    An owner that does not disguise is a stratum with the design ``Identity``.

    Parameters
    ----------
    designs : iterable of Design
        One a stratum.
    weights : sequence of float, optional
        Weight of a report in each stratum, positive; only their ratios matter.  By default all
        weights are equal, which gives the plain sum.

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
    weights: tuple[float, ...] | None

    def _said(self) -> str:
        kinds = (", ".join(dict.fromkeys(block.id for block in d.blocks)) for d in self.designs)
        weights = "" if self.weights is None else f"; weights {names_of(self.weights, 30)}"
        return f"Stratified({'; '.join(kinds)}{weights})"

    def _shown(self) -> Iterator[Markup]:
        found: dict[str, Sequence[Any]] = {
            "stratum": range(len(self.designs)),
            "design": self.designs,
        }
        if self.weights is not None:
            found["weight"] = self.weights
        yield html_table(Listing.of(found))

    def __init__(self, designs: Iterable[Design], weights: Sequence[float] | None = None) -> None:
        found = tuple(designs)
        for design in found:
            if not isinstance(design, Design):
                raise DesignError(f"designs: got {given(design)}; designs are needed", design)
        if not found:
            raise DesignError("designs: got none; one a stratum is needed", designs)
        if weights is not None:
            weights = tuple(real("weights", weight, 0) for weight in weights)
            if len(weights) != len(found) or not all(weights):
                raise InputError(
                    f"weights: {len(found)} positive numbers are needed, one a stratum", weights
                )
        settle(self, designs=found, weights=weights)

    def config(self) -> dict[str, Any]:
        """Designs and weights as JSON values; :meth:`from_config` reads them back."""
        config: dict[str, Any] = {"strata": [design.config() for design in self.designs]}
        return config if self.weights is None else {**config, "weights": list(self.weights)}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Stratified:
        """Inverse of :meth:`config`."""
        return cls(map(design_from_config, config["strata"]), config.get("weights"))

    @cached_property
    def digest(self) -> str:
        """SHA-256 (hex) of the digests of the designs, and the weights."""
        said = json.dumps([[design.digest for design in self.designs], self.weights])
        return hashlib.sha256(said.encode()).hexdigest()

    def shares(self, sizes: Sequence[int]) -> list[float]:
        """Share of each stratum in the sum, from the reports in each; they add to 1."""
        if self.weights is None:
            return [size / sum(sizes) for size in sizes]
        parts = [weight * size for weight, size in zip(self.weights, sizes, strict=True)]
        total = math.fsum(parts)
        return [part / total for part in parts]

    def _given(self, shares: Sequence[float]) -> list[float]:
        found = reals("shares", shares, 0, 1, ndim=1)
        if len(found) != len(self.designs) or abs(found.sum() - 1) > 1e-9:
            raise InputError(
                f"shares: got {given(shares)}; {len(self.designs)} weights of sum 1 are needed",
                shares,
            )
        return [float(each) for each in found]

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

    def estimate(
        self,
        strata: Sequence[Records],
        over: str | Iterable[str] | Mapping[str, Any],
        *,
        estimand: Estimand = "population",
        shares: Sequence[float] | None = None,
    ) -> Estimate:
        """Estimate proportions over all strata together: those of each, added.

        ``p = sum_h s_h p_h`` with ``SE^2 = sum_h s_h^2 SE_h^2``: SE_h is the standard error within
        stratum h; with few reports it is at least what the design allows. s_h is the stratum's
        share, ``n_h / n`` unless there are weights.  Strata with the same design are added first,
        so the result equals the estimate from their reports together to the last digit. The order
        of the strata changes no digit.

        Parameters
        ----------
        strata : sequence of Records or Reports, or Owners
            In the order of the designs.
        over : iterable of str, or mapping of attribute to label or labels
            Attributes, or a single event.
        estimand : {"population", "file"}
        shares : sequence of float, optional
            Shares of the strata in place of those, of sum 1, for strata of one population.  They
            have to be fixed before there are reports: shares that depend on them bias.
        """
        check_estimand(estimand)
        asked_for = None if shares is None else self._given(shares)
        single = isinstance(over, Mapping)
        asked: Any = over if single else (over,) if isinstance(over, str) else tuple(over)
        paired = self.pair(strata)
        sizes = [len(records) for records, _ in paired]
        n, found, parts = sum(sizes), [], []
        alike: dict[Any, list[int]] = {}
        # Reports of strata that count alike can be put together before they are inverted.
        plain = self.weights is None and asked_for is None
        weight: Any = None
        of_strata = self.shares(sizes) if asked_for is None else asked_for
        for h, (share, (records, design)) in enumerate(zip(of_strata, paired, strict=True)):
            part = unbiased(_any(records), design, asked, estimand=estimand)
            book = records.codebook
            if single:
                law = law_of_event(design, book.masks(asked), book.names)
            else:
                law = law_of_cells(design, book.select(asked), covering(design, asked))
            assert part.unbiased is not None
            parts.append(_Part(share, part.n, part.values, part.unbiased, law, part.moments))
            found.append(part)
            if not plain:
                weight = h if asked_for is not None else self.weights[h]  # type: ignore[index]
            alike.setdefault((type(records), design.digest, weight), []).append(h)
        values = []
        for group in alike.values():
            together = found[group[0]]
            if len(group) > 1:
                records = _together([paired[h][0] for h in group])
                together = unbiased(_any(records), paired[group[0]][1], asked, estimand=estimand)
            share = sum(sizes[h] for h in group) / n
            if not plain:
                share = math.fsum(parts[h].share for h in group)
            values.append(share * together.values)
        size = n if plain else 1 / math.fsum(p.share**2 / p.n for p in parts)
        # Variances within strata only: a pooled variance would add how far their means differ.
        whole = _pooled(_sum(values), parts, size, estimand)
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
            size=size,
            freedom=float(max(n - len(parts), 1)),
            design_digest=self.digest,
            tested=None if single else partial(_worst_fit, found),
            covariances=None if single else partial(_covariance, parts, found),
        )


def _any(records: Any) -> Any:
    return records


def _together(parts: Sequence[Records]) -> Records:
    """Records or reports of one design, one after the other."""
    first = parts[0]
    made: dict[str, Any] = {"codes": np.concatenate([part.codes for part in parts])}
    if isinstance(first, Reports):
        sets = [part.sets for part in parts]  # type: ignore[attr-defined]
        made["sets"] = {name: np.concatenate([each[name] for each in sets]) for name in first.sets}
    return replace(first, offset=0, kept={}, **made)


def _sum(terms: Sequence[Any]) -> Floats:
    """A sum that does not depend on the order of its terms."""
    total: Floats = np.sort(np.array(terms, float), axis=0).sum(axis=0)
    return np.asarray(total)


def _worst_fit(parts: Sequence[Estimate]) -> Fit:
    return fit_of_parts([part.fit for part in parts])


def _covariance(parts: Sequence[_Part], found: Sequence[Estimate]) -> Floats:
    return _sum([p.share**2 * each.covariance for p, each in zip(parts, found, strict=True)])


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


def _pooled(value: Floats, parts: Sequence[_Part], size: float, estimand: Estimand) -> _Pooled:
    """Estimates over all strata: shares add, and so do the least variances of the designs."""
    n = sum(part.n for part in parts)
    unbiased = _sum([part.share**2 * part.variance for part in parts])
    laws = [part.law for part in parts]
    moments = [part.moments for part in parts]
    if any(law is None for law in laws) or any(pair is None for pair in moments):
        variance, few = undefined(unbiased, n, np.maximum(np.abs(value), 1) ** 2)
        return _Pooled(value, variance, unbiased, few, None)
    known = [(part, part.law, part.moments) for part in parts if part.law and part.moments]
    floor = _sum([part.share**2 * law.least / part.n for part, law, _ in known])
    farthest = np.maximum.reduce([law.farthest(part.value) for part, law, _ in known])
    exact = np.logical_and.reduce([law.certain | law.told(estimand) for _, law, _ in known])
    variance, few = raised(unbiased, floor, farthest, n, exact)
    # The variance of the sum is that of `size` reports whose second moments are these means.
    inside, outside = (
        _sum([part.share**2 / part.n * size * pair[i] for part, _, pair in known]) for i in (0, 1)
    )
    return _Pooled(value, variance, unbiased, few, (inside, outside))
