"""Several proportions at once, with their covariance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ppdm_dask.arrays import EPS, Floats, to_scale
from ppdm_dask.designs.matching import bound_to
from ppdm_dask.errors import InputError, RecordsError
from ppdm_dask.inference.events import combined_masks, event_weights, mask_weights
from ppdm_dask.inference.laws import law_of_event, lift
from ppdm_dask.inference.moments import Estimand, check_estimand, standard_error_of
from ppdm_dask.inference.uncertainty import Proportion
from ppdm_dask.ranges import reals

if TYPE_CHECKING:
    from ppdm_dask.data.codebook import Reports
    from ppdm_dask.designs.base import Design

__all__ = ["JointEstimate", "estimate_joint"]


@dataclass(frozen=True, eq=False)
class JointEstimate:
    """Estimated proportions of some events.

    Parameters
    ----------
    values : array, shape (events,)
        Unbiased; may lie outside [0, 1].
    covariance : array, shape (events, events)
        Unbiased.
    n : int
    estimand : {"population", "file"}
    lifted : array, shape (events,), optional
        What the variances of single events are raised by where few reports carry them, as in
        `Proportion`; not a number where they do not say it.
    """

    values: Floats
    covariance: Floats
    n: int
    estimand: Estimand
    lifted: Floats | None = None

    def combine(self, coefficients: npt.ArrayLike) -> Proportion:
        """A linear combination, a difference say, with its standard error."""
        c = reals("coefficients", coefficients)
        if c.shape != self.values.shape:
            raise InputError(f"coefficients: {c.shape}; {self.values.shape} is needed", c)
        terms = np.outer(c, c) * self.covariance
        # Rounding of the covariances, sums of n terms, and of this sum: a certainty has no error.
        noise = EPS * (self.n + terms.size) * float(np.abs(terms).sum())
        variance = float(terms.sum())
        if abs(variance) <= noise:
            variance = 0.0
        if self.lifted is not None:
            # What does not enter may have no variance.
            used = np.flatnonzero(c)
            variance += float(c[used] ** 2 @ self.lifted[used])
        error = float(standard_error_of(np.array(variance)))
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
    design = bound_to(reports, design)
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
    variances, size = np.diag(covariance), float(d.sum() ** 2 / (d @ d))
    raised = np.empty(len(events))
    for i, event in enumerate(events):
        law = law_of_event(design, reports.codebook.masks(event), reports.codebook.names)
        exact = law is not None and law.told(estimand)
        raised[i] = lift(variances[i], values[i], law, size, exact)[0]
    return JointEstimate(values, covariance, n, estimand, raised - variances)
