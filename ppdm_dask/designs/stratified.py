"""Records of several owners, each disguised in its own way, in one estimate.  [ZhanDu]_, 4.8."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ppdm_dask.designs.base import Design
from ppdm_dask.designs.labels import check_fit
from ppdm_dask.errors import DesignError, RecordsError
from ppdm_dask.records import Records

if TYPE_CHECKING:
    from ppdm_dask.estimate import Estimate
    from ppdm_dask.events import Estimand, Proportion

__all__ = ["Stratified", "pair_strata"]

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
    >>> round(both.proportion([own, theirs], {"sick": "yes"}).value, 6)
    0.666667
    """

    designs: tuple[Design, ...]

    def __init__(self, designs: Iterable[Design]) -> None:
        found = tuple(designs)
        for design in found:
            if not isinstance(design, Design):
                raise DesignError(f"designs: got {design!r}; designs are needed", design)
        if not found:
            raise DesignError("designs: got none; one a stratum is needed", designs)
        object.__setattr__(self, "designs", found)

    def pair(self, strata: Sequence[Records]) -> Strata:
        """Each stratum's records with their design, bound to their codebook.

        Raises
        ------
        RecordsError
            If there is not one stratum a design, their codebooks differ, one is empty, or one was
            made by another design.
        """
        from ppdm_dask.matching import bound_to, require_design, require_unweighted

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

    def proportion(
        self,
        strata: Sequence[Records],
        event: Mapping[str, Any],
        *,
        estimand: Estimand = "population",
    ) -> Proportion:
        """Estimate the proportion of an event over all strata together.

        ``p = sum_h n_h p_h / n`` with ``SE^2 = sum_h n_h s_h^2 / n^2``, s_h^2 the variance of the
        weights within stratum h.

        Parameters
        ----------
        strata : sequence of Records or Reports
            In the order of the designs.
        event : mapping of attribute to label or iterable of labels
        estimand : {"population", "file"}
        """
        from ppdm_dask.events import (
            Proportion,
            check_estimand,
            event_weights,
            mean_variance,
            standard_error_of,
        )

        check_estimand(estimand)
        totals, variances = [], []
        for records, design in self.pair(strata):
            weights = event_weights(records, design, event)  # type: ignore[arg-type]
            n_h, total = len(weights), math.fsum(weights)
            mean, square = np.array(total / n_h), np.array(math.fsum(weights**2) / n_h)
            totals.append(total)
            variances.append(n_h**2 * float(mean_variance(mean, square, n_h, estimand)))
        n = sum(map(len, strata))
        error = float(standard_error_of(np.array(math.fsum(variances)))) / n
        return Proportion(math.fsum(totals) / n, error, n, estimand)

    def estimate_proportions(
        self,
        strata: Sequence[Records],
        over: Iterable[str],
        *,
        estimand: Estimand = "population",
    ) -> Estimate:
        """Estimate the joint proportions of some attributes: inverted by stratum, then added.

        Parameters
        ----------
        strata : sequence of Records or Reports
            In the order of the designs.
        over : iterable of str
            Attributes.
        estimand : {"population", "file"}
        """
        from ppdm_dask.estimate import Estimate, estimate_proportions

        names = tuple(over)
        parts = [
            estimate_proportions(records, design, names, estimand=estimand)  # type: ignore[arg-type]
            for records, design in self.pair(strata)
        ]
        n = sum(part.n for part in parts)
        values = sum((part.n / n * part.values for part in parts), np.zeros(()))
        variance = np.zeros(())
        for part in parts:
            assert part.variance is not None
            variance = variance + (part.n / n) ** 2 * part.variance
        return Estimate(
            parts[0].codebook,
            np.asarray(values),
            np.asarray(variance),
            n,
            "inversion",
            estimand,
            float((values < 0).mean()),
        )


def pair_strata(design: Design | Stratified, reports: Records | Sequence[Records]) -> Strata:
    """Strata of a miner's reports: one under a design, several under a stratified one."""
    if isinstance(design, Stratified):
        return design.pair(reports)  # type: ignore[arg-type]
    if not isinstance(reports, Records):
        raise RecordsError(f"got {type(reports).__name__}; Reports are needed", reports)
    return Stratified([design]).pair([reports])
