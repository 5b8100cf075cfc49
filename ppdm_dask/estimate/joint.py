"""Several proportions at once, with their covariance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ppdm_dask.errors import InputError, RecordsError
from ppdm_dask.events import (
    Estimand,
    Proportion,
    check_estimand,
    combined_masks,
    event_weights,
    mask_weights,
    standard_error_of,
)
from ppdm_dask.ranges import reals
from ppdm_dask.rounding import EPS, to_scale

if TYPE_CHECKING:
    from ppdm_dask.designs.base import Design
    from ppdm_dask.records import Reports

__all__ = ["JointEstimate", "estimate_joint"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class JointEstimate:
    """Estimated proportions of some events.

    Parameters
    ----------
    values : array, shape (events,)
        Unbiased; may lie outside [0, 1].
    covariance : array, shape (events, events)
    n : int
    estimand : {"population", "file"}
    """

    values: Floats
    covariance: Floats
    n: int
    estimand: Estimand

    def combine(self, coefficients: npt.ArrayLike) -> Proportion:
        """A linear combination, a difference say, with its standard error."""
        c = reals("coefficients", coefficients)
        if c.shape != self.values.shape:
            raise InputError(f"coefficients: {c.shape}; {self.values.shape} is needed", c)
        terms = np.outer(c, c) * self.covariance
        # Rounding of the covariances, sums of n terms, and of this sum: a certainty has no error.
        noise = EPS * (self.n + terms.size) * float(np.abs(terms).sum())
        variance = float(terms.sum())
        error = float(standard_error_of(np.array(0.0 if abs(variance) <= noise else variance)))
        return Proportion(float(c @ self.values), error, self.n, self.estimand)


def estimate_joint(
    reports: Reports,
    design: Design,
    events: Sequence[Mapping[str, Any]],
    *,
    estimand: Estimand = "population",
) -> JointEstimate:
    """Estimate the proportions of several events, whose attributes and blocks may be any.

    Survey weights and strata of the reports enter as in :func:`ppdm_dask.proportion`.

    Parameters
    ----------
    reports : Reports
    design : Design
        The design that made them.
    events : sequence of mappings of attribute to label or labels
    estimand : {"population", "file"}
    """
    check_estimand(estimand)
    if not events:
        raise InputError("events: got none; one or more are needed", events)
    n = len(reports)
    if not n:
        raise RecordsError("there are no reports; at least one is needed", reports)
    W = np.stack([event_weights(reports, design, event) for event in events], axis=1)
    d = np.ones(n) if reports.weights is None else to_scale(reports.weights)[0]
    values = d @ W / d.sum()
    if n < 2:
        covariance = np.full((len(events),) * 2, np.nan)
    elif estimand == "file":
        z = d[:, None] * W / d.sum()
        certain = np.empty((len(events),) * 2)
        for i, one in enumerate(events):
            for j, other in enumerate(events):
                masks = combined_masks(reports.codebook, one, other)
                both = mask_weights(reports, design, masks)
                certain[i, j] = (d**2 @ both) / d.sum() ** 2
        covariance = z.T @ z - certain
    else:
        z = d[:, None] * (W - values) / d.sum()
        strata = np.zeros(n, np.int64) if reports.strata is None else reports.strata
        covariance = np.zeros((len(events),) * 2)
        for stratum in np.unique(strata):
            part = z[strata == stratum]
            m = len(part)
            centred = part - part.mean(axis=0)
            covariance += np.nan if m < 2 else m / (m - 1) * centred.T @ centred
    return JointEstimate(values, covariance, n, estimand)
