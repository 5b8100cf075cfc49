"""A survey in two stages: a pilot, a design by what the pilot estimates, one estimate from both.

Given the pilot, the second stage's estimate is unbiased, whatever its design: its inverse belongs
to the design, and that depends on the pilot's reports only.  So any mean of the two estimates with
weights that are fixed before the pilot is unbiased.  Weights made from the estimated variances are
not fixed: they favour the stage that by chance looks more precise.  Different people answer in the
two stages, so nobody is disguised twice.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from ppdm_dask.arrays import Floats
from ppdm_dask.data.codebook import Records
from ppdm_dask.designs import Design, RRMatrix
from ppdm_dask.errors import InputError
from ppdm_dask.faces.face import Face, interval_table, names_of
from ppdm_dask.faces.listing import Listing
from ppdm_dask.faces.plots import intervals
from ppdm_dask.frozen import settle
from ppdm_dask.inference import Estimate, estimate
from ppdm_dask.inference.stratified import Stratified
from ppdm_dask.inference.uncertainty import normal_quantile
from ppdm_dask.ranges import real, whole
from ppdm_dask.search.cheapest import cheapest_epsilon, cheapest_posterior
from ppdm_dask.search.problem import SMALLEST
from ppdm_dask.search.regret import LARGEST_EPSILON
from ppdm_dask.search.robust import arranged_design, robust_design
from ppdm_dask.search.scenarios import check_scenarios, confidence_priors, plausible_prior
from ppdm_dask.shown import given

if TYPE_CHECKING:
    import pandas as pd
    from markupsafe import Markup
    from matplotlib.axes import Axes

__all__ = ["TwoStage"]

PRIORS = 25
"""Priors on the rim of the pilot's confidence region."""

ROUNDING = 1e-9
"""By how much a given design may exceed the privacy, relative."""


@dataclass(frozen=True, init=False, eq=False, repr=False)
class TwoStage(Face):
    r"""The plan of a survey in two stages, fixed before the pilot.

    The two estimates are averaged with a share s that depends on no report, so that the mean is as
    unbiased as they are; V are the variances of one report:

    .. math:: \hat p = s \hat p_1 + (1 - s) \hat p_2, \qquad
        \operatorname{Var}(\hat p) = s^2 \frac{V_1}{n_1} + (1 - s)^2 \frac{V_2}{n_2}

    Parameters
    ----------
    guess : mapping of label to proportion
        None below 1e-6; up to 10 categories.
    sizes : pair of int
        Reports of the pilot and of the second stage.
    epsilon, max_posterior : float, optional
        The privacy of both designs, one of them: the largest log likelihood ratio, or the largest
        posterior of any answer, at the guess in the pilot and at the pilot's estimate in the second
        stage.
    attribute : str
    first : Design, optional
        Of the pilot, within the privacy; by default the best one at the guess.
    level : float, optional
        In (0, 1): the second design is the one of least regret over the confidence region of the
        pilot at that level, and keeps a posterior at all of it.  By default it is the best one at
        the estimate.
    weights : {"planned", "sizes"} or pair of float
        Weights of the two estimates: from the inverse variances that the designs have if the guess
        is true; from the numbers of reports; or given, with sum 1.

    Attributes
    ----------
    first : Design
    shares : tuple of float
        Weights of the two estimates; None for those by the reports that there will be.

    Raises
    ------
    InputError
        One line: parameter, value, and what would be right.

    Examples
    --------
    >>> import ppdm_dask as pp
    >>> plan = pp.TwoStage({"never": 0.8, "once": 0.15, "often": 0.05}, (500, 1500), epsilon=1.0)
    >>> [round(share, 3) for share in plan.shares]
    [0.25, 0.75]
    """

    guess: dict[str, float]
    sizes: tuple[int, int]
    epsilon: float | None
    max_posterior: float | None
    attribute: str
    first: Design
    level: float | None
    shares: tuple[float, float] | None

    def __init__(
        self,
        guess: Mapping[str, float],
        sizes: Sequence[int],
        *,
        epsilon: float | None = None,
        max_posterior: float | None = None,
        attribute: str = "answer",
        first: Design | None = None,
        level: float | None = None,
        weights: Literal["planned", "sizes"] | Sequence[float] = "planned",
    ) -> None:
        if not isinstance(guess, Mapping):
            raise InputError(
                f"guess: got {given(guess)}; labels with proportions are needed", guess
            )
        pair: Any = sizes
        if not isinstance(pair, Sequence | np.ndarray) or len(pair) != 2:
            raise InputError(f"sizes: got {given(sizes)}; reports of two stages are needed", sizes)
        counts = whole("sizes[0]", sizes[0], 2), whole("sizes[1]", sizes[1], 2)
        if (epsilon is None) == (max_posterior is None):
            raise InputError("epsilon, max_posterior: give one of them", (epsilon, max_posterior))
        if epsilon is not None:
            real("epsilon", epsilon, 0, LARGEST_EPSILON, open_ends=True)
        if level is not None:
            real("level", level, 0, 1, open_ends=True)
        labels = tuple(map(str, guess))
        shares = check_scenarios([guess])[0][0]
        settle(
            self,
            guess=dict(zip(labels, shares.tolist(), strict=True)),
            sizes=counts,
            epsilon=epsilon,
            max_posterior=max_posterior,
            attribute=attribute,
            level=level,
        )
        best = self._best(shares[None])
        design = best if first is None else self._checked(first, shares)
        settle(self, first=design, shares=self._shares(weights, shares, design, best))

    def _checked(self, first: Any, guess: Floats) -> Design:
        """A pilot's design that was given, if it is one of this attribute and keeps the privacy."""
        k = len(self.guess)
        if not isinstance(first, Design):
            raise InputError(f"first: got {given(first)}; a design is needed", first)
        if tuple(first.attributes) != (self.attribute,) or first.n_true != k:
            raise InputError(
                f"first: got a design of {given(', '.join(first.attributes))} with {first.n_true} "
                f"categories; one of {given(self.attribute)} with {k} is needed",
                first,
            )
        design = first.in_order({self.attribute: tuple(self.guess)})
        design.variance(guess)  # raises where its reports do not depend on the truth
        if self.epsilon is not None:
            what, got, most = "an epsilon", design.epsilon(), self.epsilon
        else:
            assert self.max_posterior is not None
            what, got, most = "a posterior", design.max_posterior(guess), self.max_posterior
        if got > most * (1 + ROUNDING):
            raise InputError(f"first: got {what} of {got:.9g}; {most:.9g} or less is needed", first)
        return design

    def _best(self, priors: Floats) -> RRMatrix:
        """The best design at a prior, or the one of least regret over several."""
        labels = list(self.guess)
        if len(priors) > 1:
            return robust_design(
                priors,
                epsilon=self.epsilon,
                max_posterior=self.max_posterior,
                attribute=self.attribute,
                categories=labels,
            ).design
        p = priors[0]
        if self.epsilon is not None:
            found = cheapest_epsilon(p, self.epsilon)
        else:
            assert self.max_posterior is not None
            found = cheapest_posterior(p, self.max_posterior)
        if found is None or found.P is None:
            raise InputError(f"guess: got {p.size} categories; at most 10 are possible", p.size)
        return arranged_design(found.P, p, self.attribute, labels)

    def _shares(
        self, weights: Any, guess: Floats, first: Design, best: Design
    ) -> tuple[float, float] | None:
        if isinstance(weights, str):
            if weights == "sizes":
                return None
            if weights != "planned":
                raise InputError(
                    f"weights: got {given(weights)}; 'planned', 'sizes' or two numbers are needed",
                    weights,
                )
            # The second design is not known yet: it is expected to be the best one at the guess.
            precision = [
                n / math.fsum(design.variance(guess))
                for n, design in zip(self.sizes, (first, best), strict=True)
            ]
        else:
            several = isinstance(weights, Sequence | np.ndarray)
            precision = [real("weights", each, 0, 1) for each in weights] if several else []
            if len(precision) != 2 or abs(sum(precision) - 1) > 1e-9:
                raise InputError(
                    f"weights: got {given(weights)}; two numbers of sum 1 are needed", weights
                )
        share = precision[0] / sum(precision)
        return share, 1 - share

    def second(self, pilot: Records | Estimate) -> RRMatrix:
        """The design of the second stage; the same pilot gives the same design.

        Parameters
        ----------
        pilot : Reports or Estimate
            Reports of the first design, or an estimate of all categories from them.  It is brought
            to the nearest proportions of half a report or more.
        """
        if not isinstance(pilot, Estimate):
            pilot = estimate(pilot, [self.attribute], design=self.first)
        named = pilot.labels.get(self.attribute)
        if named is None or set(named) != set(self.guess) or len(pilot.labels) > 1:
            raise InputError(
                f"pilot: an estimate of all categories of {given(self.attribute)} is needed", pilot
            )
        order = [named.index(label) for label in self.guess]
        if self.level is None:
            k = len(order)
            least = min(max(0.5 / pilot.n, SMALLEST), 0.5 / k)
            priors = plausible_prior(pilot, least)[None]
        else:
            priors = confidence_priors(pilot, self.level, PRIORS)
        return self._best(priors[:, order])

    def estimate(
        self,
        pilot: Records,
        second: Records,
        over: str | Sequence[str] | Mapping[str, Any] | None = None,
        *,
        design: Design | None = None,
    ) -> Estimate:
        """Proportions from both stages, with the errors of a mean of two independent estimates.

        Given the pilot the second estimate is unbiased, so the two are uncorrelated, and the
        unbiased variances of the stages add.

        Parameters
        ----------
        pilot, second : Reports
            Of the two stages.
        over : attributes or event, optional
            As of :func:`ppdm_dask.estimate`; all categories of the attribute by default.
        design : Design, optional
            Design of the second stage, if it should not be computed again from the pilot.
        """
        made = self.second(pilot) if design is None else design
        asked: Any = [self.attribute] if over is None else over
        both = Stratified([self.first, made])
        return both.estimate([pilot, second], asked, shares=self.shares)

    def to_frame(self, level: float = 0.95) -> pd.DataFrame:
        """Each proportion if the guess is true, with its expected standard error and interval."""
        return self._listing(level).to_frame()

    def _listing(self, level: float = 0.95) -> Listing:
        share = np.array(list(self.guess.values()))
        error = np.sqrt(self.expected_variance(share))
        half = normal_quantile(level) * error
        columns = {
            "guess": share,
            "standard_error": error,
            "lower": share - half,
            "upper": share + half,
        }
        return Listing.of(columns, (self.attribute, list(self.guess)))

    def plot(self, ax: Axes | None = None, *, level: float = 0.95) -> Axes:
        """Draw the guess with the intervals that it makes expect, on axes of matplotlib."""
        found = self._listing(level)
        return intervals(
            ax,
            list(self.guess),
            found["guess"],
            found["lower"],
            found["upper"],
            x=f"proportion guessed, expected {100 * level:.4g} % interval",
            y=self.attribute,
            always=(0,),
        )

    def _said(self) -> str:
        kept = (
            f"epsilon {self.epsilon:g}"
            if self.epsilon is not None
            else f"largest posterior {self.max_posterior:g}"
        )
        first, second = self.sizes
        of = names_of(self.guess, 50)
        return f"TwoStage for {self.attribute} ({of}): {first:,} + {second:,} reports, {kept}"

    def _shown(self) -> Iterator[Markup]:
        yield interval_table(self._listing(), "guess", marks=(0, 1))
        yield from self.first._shown()

    def expected_variance(self, truth: npt.ArrayLike, second: Design | None = None) -> Floats:
        """Variance of each proportion if a prior is true.

        Parameters
        ----------
        truth : array_like, shape (n,)
        second : Design, optional
            Of the second stage; by default the best one at the truth.
        """
        p = np.asarray(truth, dtype=float)
        shares = self.shares
        if shares is None:
            n = sum(self.sizes)
            shares = self.sizes[0] / n, self.sizes[1] / n
        made = self._best(p[None]) if second is None else second
        parts = [self.first.variance(p), made.variance(p)]
        found: Floats = np.sum(
            [share**2 * V / n for share, V, n in zip(shares, parts, self.sizes, strict=True)],
            axis=0,
        )
        return found
