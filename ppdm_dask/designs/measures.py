"""Privacy measures as methods of a design; the formulas are in :mod:`ppdm_dask.privacy`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, cast

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from ppdm_dask.designs.base import Design
    from ppdm_dask.privacy import Prior

__all__ = ["Measures"]


class Measures:
    """What a report tells about the truth; mixed into every design.

    A prior is an array in the order of the categories; for one attribute also a mapping of label
    and proportion.
    """

    def _design(self) -> Design:
        return cast("Design", self)

    def privacy(self, prior: Prior) -> float:
        """MAP privacy, in [0, 1 - max p]: see :func:`ppdm_dask.privacy.map_privacy`."""
        from ppdm_dask import privacy

        return privacy.map_privacy(self._design(), prior)

    def max_posterior(self, prior: Prior) -> float:
        """Worst posterior: max over x, y of P(x | y), in [max p, 1]. Eq. (9) of [HuangDu]_."""
        from ppdm_dask import privacy

        return privacy.max_posterior(self._design(), prior)

    def pse(self, prior: Prior) -> float:
        """Expected Gini impurity of the posterior, which is the PSE of [ZhanMatwin]_, Eq. (2)."""
        from ppdm_dask import privacy

        return privacy.pse(self._design(), prior)

    def epsilon(self) -> float:
        """Log of the largest likelihood ratio (local differential privacy); may be infinite."""
        from ppdm_dask import privacy

        return privacy.epsilon(self._design())

    def gamma(self) -> float:
        """Amplification, the largest likelihood ratio: see :func:`ppdm_dask.privacy.gamma`."""
        from ppdm_dask import privacy

        return privacy.gamma(self._design())

    def log_ratio(self) -> float:
        """Log of the largest P[y, x] / P[y, x'] over y, x and x'; infinite where y rules x' out."""
        blocks = self._design().blocks
        if len(blocks) > 1:
            return sum(block.log_ratio() for block in blocks)
        low, high = self._design().likelihood_range()
        possible = high > 0
        if (low[possible] <= 0).any():
            return math.inf
        return float(np.log(high[possible] / low[possible]).max())

    def worst_posterior(self, prior: npt.NDArray[np.float64]) -> float:
        """Largest P(x | y) over x and possible y, for a checked prior."""
        summary = self._design().posterior_summary(prior)
        possible = summary.total > 0
        return float((summary.largest[possible] / summary.total[possible]).max())
