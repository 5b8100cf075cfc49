"""Do respondents follow the instructions?  Estimates and tests that take two random samples.

Where some do not, an estimate that trusts them is biased however many there are.  Two samples with
different devices give a second equation, for one more share; what it means is an assumption, which
each model states.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from ppdm_dask.arrays import Floats
from ppdm_dask.data.codebook import Records
from ppdm_dask.distributions import chi2_tail, x_log1p_y, x_log_y
from ppdm_dask.errors import InputError
from ppdm_dask.faces.dataset import dataset_of
from ppdm_dask.faces.face import Face, interval_table
from ppdm_dask.faces.listing import Listing
from ppdm_dask.faces.plots import intervals
from ppdm_dask.inference.uncertainty import normal_quantile
from ppdm_dask.ranges import real, whole
from ppdm_dask.shown import given, listed, shown

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from markupsafe import Markup
    from matplotlib.axes import Axes

__all__ = ["NonCompliance", "noncompliance"]

Model = Literal["cheating", "crosswise", "lie-detector"]

NAMES = {
    "cheating": ("trait", "honest no", "cheating"),
    "crosswise": ("trait",),
    "lie-detector": ("trait", "truthful"),
}


@dataclass(frozen=True, eq=False, repr=False)
class NonCompliance(Face):
    """Shares of the population, and a test that everybody follows the instructions.

    Parameters
    ----------
    model : str
    names : tuple of str
        Of the shares.
    values : array, shape (m,)
        Estimates without bounds, which may leave [0, 1].
    covariance : array, shape (m, m)
    most_likely : array, shape (m,)
        The same within their bounds, by maximum likelihood.
    statistic, p_value : float
        Likelihood ratio of the test.
    reference : str
        Distribution of the statistic if everybody complies.
    counts : tuple of pairs of int
        Number of counted answers, and number of respondents, of each sample.
    """

    model: Model
    names: tuple[str, ...]
    values: Floats
    covariance: Floats
    most_likely: Floats
    statistic: float
    p_value: float
    reference: str
    counts: tuple[tuple[int, int], tuple[int, int]]

    @property
    def standard_errors(self) -> Floats:
        """Shape (m,)."""
        return np.sqrt(np.diag(self.covariance))

    def to_frame(self, level: float = 0.95) -> pd.DataFrame:
        """Shares with standard errors and Wald intervals, indexed by name."""
        return self._listing(level).to_frame()

    def _listing(self, level: float = 0.95) -> Listing:
        half = normal_quantile(real("level", level, 0, 1, open_ends=True)) * self.standard_errors
        columns = {
            "estimate": self.values,
            "standard_error": self.standard_errors,
            "lower": self.values - half,
            "upper": self.values + half,
            "most_likely": self.most_likely,
        }
        return Listing.of(columns, ("share", self.names))

    def to_dataset(self, level: float = 0.95) -> xr.Dataset:
        """Shares with standard errors and Wald intervals, along ``share``.

        ``most_likely`` has the shares within their bounds.
        """
        found = self._listing(level)
        return dataset_of(
            {"share": self.names},
            [found[name] for name in ("estimate", "standard_error", "lower", "upper")],
            units="proportion",
            level=level,
            interval="Wald",
            further={"most_likely": found["most_likely"]},
            method=self.model,
            p_value=self.p_value,
        )

    def plot(self, ax: Axes | None = None, *, level: float = 0.95) -> Axes:
        """Draw each share with its Wald interval, on axes of matplotlib."""
        found = self._listing(level)
        return intervals(
            ax,
            self.names,
            found["estimate"],
            found["lower"],
            found["upper"],
            x=f"proportion, {100 * level:.4g} % interval",
            marks=(1,),
            always=(0,),
        )

    def __str__(self) -> str:
        rows = self._listing().to_string("{:.4f}".format)
        test = f"everybody complies: G2 = {self.statistic:.3f}, p = {self.p_value:.4f}"
        return f"{rows}\n{test} ({self.reference})"

    def _said(self) -> str:
        found = ", ".join(
            f"{name} {value:.4f}" for name, value in zip(self.names, self.values, strict=True)
        )
        test = f"everybody complies: G2 = {self.statistic:.3f}, p = {self.p_value:.4f}"
        return f"NonCompliance: {found}\n{test}"

    def _shown(self) -> Iterator[Markup]:
        yield interval_table(self._listing(), "estimate", marks=(0, 1))


def noncompliance(
    samples: Sequence[Any],
    p: float | Sequence[float],
    model: Model = "cheating",
    *,
    label: str | None = None,
) -> NonCompliance:
    r"""Estimate a trait from two random samples of which some may not follow the instructions.

    Parameters
    ----------
    samples : pair of (int, int), or of Records of one attribute
        Of each sample how many gave the answer that is counted, and how many there are.  That is
        "yes" for *cheating* and *lie-detector*, "same" (both or neither) for *crosswise*.
    p : float or pair of float
        Probability of each sample's device; see the models.  The crosswise model takes one number.
    model : {"cheating", "crosswise", "lie-detector"}
    label : str, optional
        Category of the records that is counted; by default the last.

    Returns
    -------
    NonCompliance

    Raises
    ------
    InputError
        For counts or probabilities that are impossible, or devices that do not differ.

    Notes
    -----
    *cheating*, [ClarkDesharnais]_: p is the probability of being told to say "yes"; the others
    answer the question.

    .. math:: \lambda_i = \pi + \beta p_i, \qquad
        \beta = \frac{\lambda_2 - \lambda_1}{p_2 - p_1}, \qquad \pi = \lambda_1 - \beta p_1

    is the share of "yes" in sample i: pi have the trait and say so, beta do not and follow the
    device, and ``gamma = 1 - pi - beta`` say "no" whatever it says.  The trait of the
    gamma is not known: its share lies between pi and pi + gamma.  It assumes that nobody says "yes"
    against the instructions, and that the two devices are cheated alike.

    *lie-detector*, [Moshagen]_: who has the trait is asked to say "yes" and does so with
    probability t (truthful); who does not says "no" with probability p, else "yes", and nobody of
    them lies.

    .. math:: \lambda_i = \pi t + (1 - \pi)(1 - p_i)

    These are the equations of *cheating* with all cheaters among those who have the trait.

    *crosswise*, [Heck]_: p and 1 - p are the prevalences of the innocuous trait in the two
    samples.

    .. math:: \lambda_1 = \pi p + (1 - \pi)(1 - p), \qquad \lambda_2 = 1 - \lambda_1

    So the second sample is the first with its answers turned round and costs no precision.  The
    test detects a preference for one of the answers.  It does not detect answers by a fair coin,
    which move the estimates of both samples equally towards 1/2.

    The tests of the first two are at the boundary, where the statistic is 0 half of the time
    (a half chi-square); they are valid for shares that are well inside their bounds.

    References
    ----------
    [ClarkDesharnais]_; [Moshagen]_; [Heck]_

    Examples
    --------
    >>> found = noncompliance([(350, 1000), (550, 1000)], (0.25, 0.75))
    >>> found.values.round(3).tolist()
    [0.25, 0.4, 0.35]
    """
    if model not in get_args(Model):
        raise InputError(f"model: got {given(model)}; {listed(get_args(Model))} are known", model)
    if isinstance(samples, Records) or len(samples) != 2:
        raise InputError("samples: two are needed", None)
    counts = (_counted(samples[0], label), _counted(samples[1], label))
    yes, n = (np.array(x, float) for x in zip(*counts, strict=True))
    devices = [p] if isinstance(p, int | float) else list(p)
    if len(devices) != (1 if model == "crosswise" else 2):
        need = "one probability is" if model == "crosswise" else "two probabilities are"
        raise InputError(f"p: got {given(p)}; {need} needed", p)
    P = np.array([real("p", x, 0, 1) for x in devices])
    if model == "crosswise":
        if P[0] == 0.5:
            raise InputError("p: got 0.5, which tells nothing", p)
        return _crosswise(counts, yes, n, float(P[0]))
    if P[0] == P[1]:
        raise InputError(f"p: got {given(p)}; two devices that differ are needed", p)
    return _forced(model, counts, yes, n, P if model == "cheating" else 1 - P)


def _counted(sample: Any, label: str | None) -> tuple[int, int]:
    if isinstance(sample, Records):
        if len(sample.codebook.names) != 1:
            raise InputError("samples: records of one attribute are needed; select it", None)
        labels = sample.codebook.attributes[0].categories
        wanted = labels[-1] if label is None else label
        if wanted not in labels:
            raise InputError(f"label: got {shown(wanted)}; there are {listed(labels)}", wanted)
        sample = (int((sample.codes[:, 0] == labels.index(wanted)).sum()), len(sample))
    if len(sample) != 2:
        raise InputError(f"samples: got {given(sample)}; (answers, respondents) is needed", None)
    n = whole("respondents", sample[1], 1)
    return whole("answers", sample[0], 0, n), n


def _log_likelihood(yes: Floats, n: Floats, share: Floats) -> float:
    share = np.clip(share, 0, 1)
    return float((x_log_y(yes, share) + x_log1p_y(n - yes, -share)).sum())


def _crosswise(
    counts: tuple[tuple[int, int], tuple[int, int]], yes: Floats, n: Floats, p: float
) -> NonCompliance:

    total = n.sum()
    same = (yes[0] + n[1] - yes[1]) / total
    pi = (same + p - 1) / (2 * p - 1)
    variance = same * (1 - same) / (total - 1) / (2 * p - 1) ** 2
    inside = min(max(pi, 0.0), 1.0)
    apart = _log_likelihood(yes, n, yes / n)
    statistic = max(2 * (apart - _log_likelihood(yes, n, np.array([same, 1 - same]))), 0.0)
    return NonCompliance(
        "crosswise",
        NAMES["crosswise"],
        np.array([pi]),
        np.array([[variance]]),
        np.array([inside]),
        statistic,
        float(chi2_tail(statistic, 1)),
        "chi-square, 1 degree of freedom",
        counts,
    )


def _forced(
    model: Model,
    counts: tuple[tuple[int, int], tuple[int, int]],
    yes: Floats,
    n: Floats,
    P: Floats,
) -> NonCompliance:
    """P(yes) = pi + beta P of two samples, pi those who say "yes" themselves."""
    share = yes / n
    noise = np.diag(share * (1 - share) / np.maximum(n - 1, 1))
    gap = P[0] - P[1]
    # Rows: pi, beta, gamma as linear in the two shares of "yes".
    L = np.array([[-P[1], P[0]], [1, -1], [P[1] - 1, 1 - P[0]]]) / gap
    values = L @ share + np.array([0, 0, 1.0])
    best = _most_likely(yes, n, P, values)
    _, null = _edge(yes, n, P, np.array([0.0, 1.0, 0.0]), np.array([1.0, 0.0, 0.0]))
    top = _log_likelihood(yes, n, best[0] + best[1] * P)
    statistic = max(2 * (top - null), 0.0)
    # Rounding of sums of thousands of logarithms is not evidence.
    statistic = statistic if statistic > 1e-9 else 0.0
    p_value = 0.5 * float(chi2_tail(statistic, 1)) if statistic else 1.0
    covariance = L @ noise @ L.T
    if model == "lie-detector":
        trait = 1 - values[1]
        slope = np.array([[0, -1.0, 0], [1 / trait, values[0] / trait**2, 0]])
        covariance = slope @ covariance @ slope.T
        values = np.array([trait, values[0] / trait])
        best = np.array([1 - best[1], best[0] / (1 - best[1]) if best[1] < 1 else math.nan])
    return NonCompliance(
        model,
        NAMES[model],
        values,
        covariance,
        best,
        statistic,
        p_value,
        "half chi-square, 1 degree of freedom",
        counts,
    )


def _most_likely(yes: Floats, n: Floats, P: Floats, values: Floats) -> Floats:
    """Shares of 0 or more that add up to 1; the log likelihood is concave in them."""
    if (values >= 0).all():
        return values
    corners = np.eye(3)
    edges = [_edge(yes, n, P, corners[i], corners[j]) for i, j in ((0, 1), (0, 2), (1, 2))]
    return max(edges, key=lambda edge: edge[1])[0]


def _edge(yes: Floats, n: Floats, P: Floats, start: Floats, end: Floats) -> tuple[Floats, float]:
    """Most likely shares between two corners, and their log likelihood."""
    from scipy.optimize import minimize_scalar

    def at(s: float) -> Floats:
        return np.asarray(start + s * (end - start))

    def loss(s: float) -> float:
        shares = at(s)
        return -_log_likelihood(yes, n, shares[0] + shares[1] * P)

    found = minimize_scalar(loss, bounds=(0, 1), method="bounded", options={"xatol": 1e-12})
    best = min((0.0, 1.0, float(found.x)), key=loss)
    return at(best), -loss(best)
