"""The regret of a design: how many more reports it needs than the best one, if a prior is true."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from ppdm_dask.arrays import Floats
from ppdm_dask.designs import Design
from ppdm_dask.errors import InputError
from ppdm_dask.extras import named
from ppdm_dask.faces.face import Face, html_table
from ppdm_dask.faces.plots import lines
from ppdm_dask.ranges import reals
from ppdm_dask.search.cheapest import cheapest_posterior
from ppdm_dask.search.minimax import limits_of, rays_of_epsilon
from ppdm_dask.search.scenarios import check_scenarios
from ppdm_dask.shown import given

if TYPE_CHECKING:
    import pandas as pd
    from markupsafe import Markup
    from matplotlib.axes import Axes

__all__ = ["Regret", "regret"]

Privacy = Literal["epsilon", "posterior"]

LARGEST_EPSILON = 20.0
"""Beyond it the likelihoods of a report leave a double no digits."""


@dataclass(frozen=True, eq=False, repr=False)
class Regret(Face):
    """A design compared with the best possible one at each prior of a set.

    Parameters
    ----------
    ratios : array, shape (priors,)
        Sum of variances over the certified limit at that prior and the same privacy: reports that
        are needed over those that the best possible design needs.
    noise, limits : array, shape (priors,)
        Both parts of it, for one report.
    posteriors : array, shape (priors,)
        Worst posterior at each prior.
    priors : array, shape (priors, n)
        The first is the guess.
    privacy : {"epsilon", "posterior"}
        The privacy that the limit has in common with the design.
    epsilon : float
        Epsilon of the design, for any prior.
    categories : tuple of str or None
    """

    ratios: Floats
    noise: Floats
    limits: Floats
    posteriors: Floats
    priors: Floats
    privacy: Privacy
    epsilon: float
    categories: tuple[str, ...] | None = None

    @property
    def worst(self) -> float:
        """The largest ratio of the set."""
        return float(self.ratios.max())

    @property
    def mean(self) -> float:
        """Mean ratio over the set."""
        return float(self.ratios.mean())

    @property
    def at_guess(self) -> float:
        """The ratio at the first prior."""
        return float(self.ratios[0])

    @property
    def where(self) -> Floats:
        """The prior at which the ratio is largest, shape (n,)."""
        found: Floats = self.priors[int(self.ratios.argmax())]
        return found

    @property
    def max_posterior(self) -> float:
        """The worst posterior over the whole set."""
        return float(self.posteriors.max())

    def to_frame(self) -> pd.DataFrame:
        """Rows *guess*, *mean*, *worst* and *least private*: ratio, posterior and the prior."""
        with named("to_frame"):
            import pandas as pd

        names = self.categories or tuple(str(i) for i in range(self.priors.shape[1]))
        places = {
            "guess": 0,
            "worst": int(self.ratios.argmax()),
            "least private": int(self.posteriors.argmax()),
        }
        rows: dict[str, list[float]] = {
            name: [self.ratios[at], self.posteriors[at], *self.priors[at]]
            for name, at in places.items()
        }
        rows["mean"] = [self.mean, float(self.posteriors.mean()), *self.priors.mean(axis=0)]
        frame = pd.DataFrame.from_dict(rows, orient="index")
        frame.columns = pd.Index(["ratio", "max_posterior", *names])
        return frame.loc[["guess", "mean", "worst", "least private"]]

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the ratios of all priors, from the least to the largest, on axes of matplotlib."""
        place = np.arange(1, len(self.ratios) + 1)
        ax = lines(
            ax,
            [("ratio", place, np.sort(self.ratios))],
            x="priors, by their ratio",
            y="reports over those of the best design",
        )
        ax.axhline(self.at_guess, color="0.5", linewidth=0.8, zorder=0)
        # Ratios that are equal but for rounding look so.
        low, high = float(self.ratios.min()), self.worst
        ax.set_ylim(0.98 * low, max(1.02 * high, 1.1 * low))
        return ax

    def _said(self) -> str:
        return (
            f"Regret over {len(self.priors)} priors: worst {self.worst:.4g}, mean {self.mean:.4g}, "
            f"at the guess {self.at_guess:.4g}; worst posterior {self.max_posterior:.4g}"
        )

    def _shown(self) -> Iterator[Markup]:
        yield html_table(self.to_frame(), index=True)


def regret(
    design: Design,
    priors: Any,
    *,
    privacy: Privacy | None = None,
    categories: Sequence[str] | None = None,
    limits: npt.ArrayLike | None = None,
) -> Regret:
    r"""How much a design loses if another prior is true than the one that it was made for.

    At a prior p it is the factor by which the sum of the variances exceeds the certified limit L of
    the same privacy:

    .. math:: \rho(p) = \frac{\sum_x V_x(p)}{L(p)}

    The variance is that of the design's own left inverse, which is fixed before the data are seen.

    Parameters
    ----------
    design : Design
        Of one attribute.
    priors : array_like, shape (priors, n), or sequence of mappings of label to proportion
        The first is the guess.  No proportion below 1e-6.
    privacy : {"epsilon", "posterior"}, optional
        What the best possible design has in common with this one at each prior: its epsilon, or its
        worst posterior there.  By default epsilon where it is finite.
    categories : sequence of str, optional
        Labels in the order of the priors, for a design that states labels.
    limits : array_like, shape (priors,), optional
        Certified limits that are known already, above 0.

    Returns
    -------
    Regret

    Raises
    ------
    InputError
        If a limit is not known, or the design tells nothing.

    Examples
    --------
    >>> import ppdm_dask as pp
    >>> found = pp.regret(pp.KaryResponse("a", 4, p=0.5), [[0.25] * 4, [0.7, 0.1, 0.1, 0.1]])
    >>> f"{found.at_guess:.3f} {found.worst:.3f}"
    '1.000 1.005'
    """
    if not isinstance(design, Design):
        raise InputError(f"design: got {given(design)}; a design is needed", design)
    p, labels = check_scenarios(priors, categories)
    if labels is not None:
        design = design.in_order({design.attributes[0]: labels})
    if p.shape[1] != design.n_true:
        raise InputError(
            f"priors: got {p.shape[1]} categories; {design.n_true} are needed for the design",
            priors,
        )
    epsilon = design.epsilon()
    if privacy is None:
        privacy = "epsilon" if math.isfinite(epsilon) else "posterior"
    if privacy not in ("epsilon", "posterior"):
        raise InputError(
            f"privacy: got {given(privacy)}; 'epsilon' or 'posterior' is needed", privacy
        )
    noise = np.array([math.fsum(design.variance(row)) for row in p])
    posteriors = np.array([design.max_posterior(row) for row in p])
    if limits is None:
        least = _limits(p, privacy, epsilon, posteriors)
    else:
        least = reals("limits", limits, 0, ndim=1)
        if len(least) != len(p):
            raise InputError(f"limits: got {len(least)}; {len(p)} are needed", limits)
        if not least.all():
            raise InputError("limits: got 0; numbers above 0 are needed", limits)
    return Regret(noise / least, noise, least, posteriors, p, privacy, epsilon, labels)


def _limits(p: Floats, privacy: str, epsilon: float, posteriors: Floats) -> Floats:
    if privacy == "posterior":
        # By what rounding may have lowered a posterior.
        most = np.minimum(posteriors * (1 + 1e-12), 1.0)
        return np.array(
            [cheapest_posterior(row, at).noise for row, at in zip(p, most.tolist(), strict=True)]
        )
    if not 0 < epsilon <= LARGEST_EPSILON:
        raise InputError(
            f"privacy: the design's epsilon is {epsilon:g}; up to {LARGEST_EPSILON:g} a limit is "
            "known, so 'posterior' is needed",
            privacy,
        )
    return limits_of(rays_of_epsilon(p.shape[1], epsilon), p)
