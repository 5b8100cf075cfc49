"""Clusters behind disguised reports: latent classes, fitted by expectation-maximisation through P.

[Goodman]_ has the model and its steps for undisguised answers; a disguise puts P of each block
between a class's law and its reports.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp
from sklearn.base import ClusterMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from ppdm_dask.arrays import Floats, Ints
from ppdm_dask.data.codebook import Records, Reports, require_categories
from ppdm_dask.data.partitioned import PartitionedReports, opened
from ppdm_dask.designs.base import Design, row_major
from ppdm_dask.designs.identity import Identity
from ppdm_dask.designs.matching import (
    bound_to,
    require_countable,
    require_design,
    require_unweighted,
    require_whole,
)
from ppdm_dask.errors import InputError, RecordsError
from ppdm_dask.faces.face import MOST_ROWS, html_table, picture
from ppdm_dask.faces.plots import height, shares
from ppdm_dask.inference.tables import ContingencyTable, count, require_table
from ppdm_dask.mine.arrays import Columns
from ppdm_dask.mine.classifier import Designed, check_inputs
from ppdm_dask.mine.evidence import merge_rows
from ppdm_dask.mine.naive_bayes import draw_bars, first_largest
from ppdm_dask.randomness import Stream
from ppdm_dask.ranges import real, whole
from ppdm_dask.shown import given, listed

if TYPE_CHECKING:
    from markupsafe import Markup
    from matplotlib.axes import Axes

__all__ = ["LatentClasses"]

MAX_BLOCK = 1 << 20
"""Joint categories, or symbols, of a block times clusters up to which a law is written out."""


@dataclass(frozen=True)
class _Channel:
    """What lies between some attributes of a cluster and their reports.

    Parameters
    ----------
    design : Design or None
        None where the truth is seen.
    columns : tuple of int
        Places of its attributes among those of the model; a single one without a design.
    """

    design: Design | None
    columns: tuple[int, ...]

    def true(self, laws: Sequence[Floats]) -> Floats:
        """Joint law of the attributes in each cluster, shape (joint categories, clusters)."""
        joint = laws[self.columns[0]]
        for column in self.columns[1:]:
            joint = (joint[:, None] * laws[column]).reshape(-1, joint.shape[1])
        return joint

    def reported(self, true: Floats) -> Floats:
        """The law of their reports, shape (symbols, clusters)."""
        # An inverse of rounding can leave -1e-17 of a symbol that cannot occur.
        return true if self.design is None else np.maximum(self.design.apply(true), 0.0)

    def back(self, ratio: Floats) -> Floats:
        """What a function of the report is expected to be, by the truth."""
        return ratio if self.design is None else self.design.apply_transposed(ratio)

    def symbols(self, codes: npt.NDArray[Any]) -> Ints:
        """The joint symbol of each row of reported codes."""
        if self.design is None:
            return codes[:, self.columns[0]].astype(np.int64)
        return row_major(codes[:, list(self.columns)], self.design.reported_shape)


class _Evidence(NamedTuple):
    """Distinct rows of reports, or of the truth, with their numbers."""

    codes: npt.NDArray[Any]
    counts: Ints
    channels: list[_Channel]


class _Likelihood:
    """The likelihood of a mixture given some rows, and a step of expectation-maximisation.

    Its parameters are one vector: the weights of the clusters, then the laws of each attribute,
    shape (categories, clusters), row by row.
    """

    def __init__(self, evidence: _Evidence, shape: Sequence[int], clusters: int) -> None:
        self.shape, self.k = tuple(shape), clusters
        self.counts = evidence.counts.astype(np.float64)
        self.n = self.counts.sum()
        self.channels = [(c, c.symbols(evidence.codes)) for c in evidence.channels]

    def parts(self, vector: Floats) -> tuple[Floats, list[Floats]]:
        """Weights and laws in a vector."""
        ends = np.cumsum([self.k, *(size * self.k for size in self.shape)])
        weights, *laws = np.split(vector, ends[:-1])
        return weights, [law.reshape(-1, self.k) for law in laws]

    def normal(self, vector: Floats) -> Floats:
        """The vector with sums of 1, which long steps leave by rounding."""
        weights, laws = self.parts(vector)
        return _vector(weights / weights.sum(), [law / law.sum(axis=0) for law in laws])

    def logs(self, vector: Floats) -> Floats:
        """Log of weight times likelihood, shape (rows, clusters)."""
        weights, laws = self.parts(vector)
        with np.errstate(divide="ignore"):
            total = np.tile(np.log(weights), (len(self.counts), 1))
            for channel, symbols in self.channels:
                total += np.log(channel.reported(channel.true(laws)))[symbols]
        return total

    def step(self, vector: Floats) -> tuple[float, Floats]:
        """Mean log likelihood at a vector, and the next vector, where it is no lower."""
        _, laws = self.parts(vector)
        logs = self.logs(vector)
        each = logsumexp(logs, axis=1)
        if np.isneginf(each).any():
            return -math.inf, vector
        shares = np.exp(logs - each[:, None]) * (self.counts / self.n)[:, None]
        weights = shares.sum(axis=0)
        after = [np.empty_like(law) for law in laws]
        for channel, symbols in self.channels:
            true = channel.true(laws)
            law = channel.reported(true)
            seen = np.stack(
                [np.bincount(symbols, column, minlength=len(law)) for column in shares.T], axis=1
            )
            ratio = np.divide(seen, law, out=np.zeros_like(law), where=seen > 0)
            cells = true * channel.back(ratio)
            sizes = [self.shape[c] for c in channel.columns]
            cells = cells.reshape(*sizes, self.k)
            for axis, column in enumerate(channel.columns):
                others = tuple(i for i in range(len(sizes)) if i != axis)
                margin = cells.sum(axis=others)
                total = margin.sum(axis=0)
                # A cluster that no report is in keeps its law.
                after[column] = np.divide(margin, total, out=laws[column].copy(), where=total > 0)
        return float(each @ self.counts / self.n), _vector(weights / weights.sum(), after)


def _vector(weights: Floats, laws: Iterable[Floats]) -> Floats:
    return np.concatenate([weights, *(law.ravel() for law in laws)])


class _Path(NamedTuple):
    """A maximum, mean log likelihoods on the way, steps, and whether the last one was small."""

    vector: Floats
    likelihoods: list[float]
    steps: int
    converged: bool


def _maximise(likelihood: _Likelihood, vector: Floats, tolerance: float, most: int) -> _Path:
    """Steps until none moves a proportion by more than the tolerance; every third one is longer.

    The longer one is the squared extrapolation of [VaradhanRoland]_ (S3), shortened until all
    proportions are positive and taken only if the likelihood does not fall.
    """
    found: list[float] = []
    steps, step = 0, likelihood.step
    value, one = step(vector)
    while True:
        found.append(value)
        steps += 1
        if float(np.abs(one - vector).max()) <= tolerance:
            return _Path(one, found, steps, True)
        if steps >= most:
            return _Path(one, found, steps, False)
        value, two = step(one)
        found.append(value)
        steps += 1
        longer = _extrapolated(vector, one, two)
        vector = two if longer is None else likelihood.normal(longer)
        value, one = step(vector)
        if longer is not None and not value >= found[-1]:
            vector = two
            value, one = step(two)


def _extrapolated(zero: Floats, one: Floats, two: Floats) -> Floats | None:
    first = one - zero
    second = two - one - first
    length = float(np.linalg.norm(second))
    if not length:
        return None
    alpha = -float(np.linalg.norm(first)) / length
    while alpha < -1.01:
        longer: Floats = zero - 2 * alpha * first + alpha**2 * second
        if (longer >= 0).all() and (longer > 0)[two > 0].all():
            return longer
        alpha = (alpha - 1) / 2
    return None


class LatentClasses(ClusterMixin, Designed):  # type: ignore[misc]
    r"""Clusters of people by their answers, found in disguised reports.

    Within a cluster the attributes are independent, so a report of a block has the law P_b times
    the product of the cluster's laws.  With weights pi and laws p of the clusters k, n_y reports of
    y have the log likelihood

    .. math:: \sum_y n_y \log \sum_k \pi_k \prod_b
        \left( P_b \bigotimes_{a \in b} p_{ak} \right)_{y_b}

    Weights and laws are the most likely ones, by
    expectation-maximisation over the distinct reports; the likelihood never falls.  It has many
    maxima: the best of several starts is kept.

    Parameters
    ----------
    design : Design, optional
        The design that made the reports; by default the one that they carry, and ``Identity`` for
        undisguised records, arrays and frames.
    n_clusters : int, default 2
    over : sequence of str, optional
        Attributes; by default all that the reports have.
    n_init : int, default 10
        Starts, each from random laws.
    tolerance : float, default 1e-6
        Largest change of a proportion in the last step.
    max_steps : int, default 5000
        Of each start.
    seed : int, default 0
        Of the starts: each attribute of each start has a keyed source of draws.

    Attributes
    ----------
    weights_ : array, shape (n_clusters,)
        Share of each cluster, the largest first.
    probabilities_ : dict of str to array, shape (n_categories, n_clusters)
        Law of each attribute in each cluster.
    labels_ : array, shape (n_records,)
        The likeliest cluster of each record or report; of those in memory only.
    features_ : tuple of str
    feature_names_in_ : array of str
        The same, but for arrays without names.
    log_likelihood_ : float
        Of all reports, in nats.
    log_likelihoods_ : array
        Mean log likelihood of a report, on the way from the best start.
    n_parameters_, aic_, bic_ : int, float, float
        Free proportions; Akaike's and Schwarz's criteria, the lower the better.
    n_steps_, converged_ : int, bool
        Of the best start.
    n_reports_ : int

    Notes
    -----
    There are no standard errors: they fail where a proportion is at 0 or clusters coincide, and
    :func:`ppdm_dask.inference.bootstrap` would have to match clusters by hand.  Disguised reports
    determine weak clusters slowly; compare several seeds.

    Examples
    --------
    >>> import ppdm_dask as pp
    >>> names = ["a", "b", "c"]
    >>> book = pp.Codebook(tuple(pp.Attribute(n, ("no", "yes")) for n in names))
    >>> answers = np.repeat([[0, 0, 0], [1, 1, 1]], [1_000, 3_000], axis=0)
    >>> design = pp.Product([pp.Warner(n, 0.8) for n in names])
    >>> reports = design.disguise(pp.Records(answers, book), pp.Stream.from_seed(1))
    >>> model = pp.LatentClasses(design, n_clusters=2).fit(reports)
    >>> model.weights_.round(1).tolist(), model.predict(pp.Records(answers[[0, -1]], book)).tolist()
    ([0.7, 0.3], [1, 0])
    """

    def __init__(
        self,
        design: Design | None = None,
        n_clusters: int = 2,
        over: Sequence[str] | None = None,
        n_init: int = 10,
        tolerance: float = 1e-6,
        max_steps: int = 5_000,
        seed: int = 0,
    ) -> None:
        self.design = design
        self.n_clusters = n_clusters
        self.over = over
        self.n_init = n_init
        self.tolerance = tolerance
        self.max_steps = max_steps
        self.seed = seed

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit to reports, to what was counted of them, or to undisguised columns.

        Parameters
        ----------
        X : Reports, Records, ContingencyTable, lazy reports, or array or frame
            Or paths of files and folders of reports.
        y
            Not looked at.

        Raises
        ------
        NotInvertible
            Where the reports of a block say too little of it.
        NotLumpable
            If the attributes cut a block that does not marginalise.
        RecordsError
            If there are no reports, they have survey weights, or another design made them.
        InputError
            For parameters out of range, or a block of too many joint categories.

        Warns
        -----
        ConvergenceWarning
            If the best start ended at `max_steps`.
        """
        k, starts = whole("n_clusters", self.n_clusters, 1), whole("n_init", self.n_init, 1)
        tolerance = real("tolerance", self.tolerance, 0)
        most, stream = whole("max_steps", self.max_steps, 1), Stream.from_seed(self.seed)
        X = self._settled(opened(X))
        evidence = self._evidence(X, self.design_)
        if not len(evidence.counts):
            raise RecordsError("there are no reports to fit; at least one is needed", X)
        self.n_reports_ = int(evidence.counts.sum())
        shape = [len(self.codebook_[name]) for name in self.features_]
        likelihood = _Likelihood(evidence, shape, k)
        best: _Path | None = None
        for start in range(starts if k > 1 else 1):
            laws = [
                _random_laws(size, k, stream.child(start, column))
                for column, size in enumerate(shape)
            ]
            path = _maximise(likelihood, _vector(np.full(k, 1 / k), laws), tolerance, most)
            if best is None or path.likelihoods[-1] > best.likelihoods[-1]:
                best = path
        assert best is not None
        if math.isinf(best.likelihoods[-1]):
            raise RecordsError("there are reports that the design cannot make", X)
        if not best.converged:
            warnings.warn(
                f"the best start did not converge in {most} steps; more max_steps, fewer clusters "
                "or a larger tolerance may help",
                ConvergenceWarning,
                stacklevel=2,
            )
        weights, laws = likelihood.parts(best.vector)
        order = np.argsort(-weights, kind="stable")
        self.weights_ = weights[order]
        self.probabilities_ = {
            name: law[:, order] for name, law in zip(self.features_, laws, strict=True)
        }
        self.n_steps_, self.converged_ = best.steps, best.converged
        self.log_likelihoods_ = np.array(best.likelihoods)
        self.log_likelihood_ = self.n_reports_ * likelihood.step(best.vector)[0]
        self.n_parameters_ = k - 1 + k * sum(size - 1 for size in shape)
        self.aic_ = 2 * self.n_parameters_ - 2 * self.log_likelihood_
        self.bic_ = math.log(self.n_reports_) * self.n_parameters_ - 2 * self.log_likelihood_
        if isinstance(X, Records):
            self.labels_ = self.predict(X)
        return self

    def _settled(self, X: Any) -> Any:
        """Settle the design and the attributes; records in place of columns."""
        self._columns = None
        if not isinstance(X, Records | ContingencyTable | PartitionedReports):
            several = isinstance(X, Sequence) and any(isinstance(each, Records) for each in X)
            if several or self.design is not None:
                raise RecordsError(
                    f"fit: got {type(X).__name__}; Reports are needed, as the design makes them, "
                    "or design=None for undisguised columns",
                    X,
                )
            self._columns = Columns(self, X)
            X = self._columns.records(self, X)
        design = getattr(X, "design", None) if self.design is None else self.design
        if design is None:
            if isinstance(X, Reports) or getattr(X, "design_digest", None):
                raise RecordsError("design: the reports do not carry theirs; give it", X)
            design = Identity(X.codebook.names, X.codebook.shape)
        if not isinstance(design, Design):
            raise InputError(f"design: got {given(design)}; one design is needed", design)
        over = (self.over,) if isinstance(self.over, str) else self.over
        names = X.codebook.names if over is None else tuple(over)
        if not names or len({*names}) < len(names):
            raise InputError(
                f"over: got {listed(names) or 'none'}; different attributes are needed", names
            )
        self.codebook_ = X.codebook.select(names)
        self.design_ = design
        self._fitted_to(names)
        return X

    def _evidence(self, X: Any, design: Design | None) -> _Evidence:
        """Distinct rows over the model's attributes; without a design they are the truth."""
        names = self.features_
        if isinstance(X, PartitionedReports):
            X = count(X, design, names)
        if design is None:
            channels = [_Channel(None, (column,)) for column in range(len(names))]
        else:
            design = bound_to(X, design)
            require_whole(design, names)
            channels = _channels(design, names, self.n_clusters)
        if isinstance(X, ContingencyTable):
            if design is not None:
                require_table(X, design)
            table = X.marginal(names)
            return _Evidence(table.symbols(), table.sparse().counts, channels)
        chosen = X.select(names)
        if design is None:
            require_unweighted(X)
        else:
            require_countable(chosen, design)
            require_design(X, design)
        codes, counts = merge_rows(chosen.codes, np.ones(len(X), np.int64), chosen.sizes)
        return _Evidence(codes, counts, channels)

    def _asked_rows(self, X: Any) -> tuple[npt.NDArray[Any], list[_Channel]]:
        """Codes of records or reports over the model's attributes, and what lies before them."""
        X = self._asked(X)
        check_inputs(X, self.features_, {a.name: a.categories for a in self.codebook_.attributes})
        design = self.design_ if isinstance(X, Reports) else None
        if design is None:
            require_categories(X, self.features_, "predict from")
        return X.select(self.features_).codes, self._evidence(X[:0], design).channels

    def _logs(self, codes: npt.NDArray[Any], channels: list[_Channel]) -> Floats:
        rows = _Evidence(codes, np.ones(len(codes), np.int64), channels)
        shape = [len(law) for law in self.probabilities_.values()]
        found = _Likelihood(rows, shape, len(self.weights_))
        return found.logs(_vector(self.weights_, self.probabilities_.values()))

    def predict_proba(self, X: Any) -> Floats:
        """Posterior probabilities of the clusters, shape (n, n_clusters).

        Parameters
        ----------
        X : Records, Reports, or array or frame
            Of reports it is the posterior given what was reported, through the design; of true
            answers it is that given these.  Where no cluster allows them it is the weights.

        Raises
        ------
        RecordsError
            For reports that the model's design did not make, or other categories.
        """
        logs = self._logs(*self._asked_rows(X))
        logs[np.isneginf(logs).all(axis=1)] = np.log(np.maximum(self.weights_, 1e-300))
        found: Floats = np.exp(logs - logsumexp(logs, axis=1, keepdims=True))
        return found

    def predict(self, X: Any) -> npt.NDArray[np.int64]:
        """The likeliest cluster, shape (n,); the larger one of two that tie."""
        with np.errstate(divide="ignore"):
            return first_largest(np.log(self.predict_proba(X)))

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log likelihood of records or reports, in nats; minus infinity of impossible ones.

        Parameters
        ----------
        X
            As for :meth:`fit`.  Only the likelihoods of reports, or those of true answers, compare.
        """
        check_is_fitted(self)
        X = opened(X)
        if isinstance(X, ContingencyTable | PartitionedReports):
            disguised = not isinstance(X, ContingencyTable) or bool(X.design_digest)
            evidence = self._evidence(X, self.design_ if disguised else None)
            codes, counts, channels = evidence
        else:
            codes, channels = self._asked_rows(X)
            counts = np.ones(len(codes), np.int64)
        if not len(codes):
            raise RecordsError("there are no records to score; at least one is needed", X)
        each = logsumexp(self._logs(codes, channels), axis=1)
        return float(each @ counts / counts.sum())

    def draw(self, path: str | Path) -> None:
        """Draw the laws to a file: a panel an attribute, a bar a category and cluster.

        The file's ending says the kind (svg, png, pdf).

        Raises
        ------
        InputError
            For more than 40 attributes, or more than 400 bars of one.
        """
        check_is_fitted(self)
        clusters = [f"cluster {k} ({share:.0%})" for k, share in enumerate(self.weights_)]
        book = self.codebook_
        laws = self.probabilities_.items()
        draw_bars(Path(path), clusters, [(name, book[name].categories, law) for name, law in laws])

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the laws on axes of matplotlib: a row a category, a marker a cluster.

        Raises
        ------
        InputError
            For more than 200 categories.
        """
        check_is_fitted(self)
        clusters = [f"cluster {k} ({share:.0%})" for k, share in enumerate(self.weights_)]
        book = self.codebook_
        laws = self.probabilities_.items()
        panels = [(name, book[name].categories, law) for name, law in laws]
        return shares(ax, panels, clusters, x="P(category | cluster)")

    def _shown(self) -> Iterator[Markup]:
        import pandas as pd

        found = pd.DataFrame({"weight": self.weights_})
        yield html_table(found.rename_axis("cluster"), index=True)
        rows = sum(len(law) for law in self.probabilities_.values())
        if rows <= MOST_ROWS:
            yield picture(self.plot, 6, height(rows), "Proportions of categories by cluster")


def _channels(design: Design, names: tuple[str, ...], clusters: int) -> list[_Channel]:
    """What lies before each attribute, or before several that are disguised together."""
    found, covered = [], set()
    for block in design.blocks:
        kept = [name for name in block.attributes if name in names]
        # Nothing is mixed by an identity, so its attributes are independent like undisguised ones.
        if not kept or isinstance(block, Identity):
            continue
        part = block.marginal(kept)
        assert part is not None
        part.require_inverse()
        if max(part.n_true, part.n_reported) * clusters > MAX_BLOCK:
            raise InputError(
                f"design: the block of {listed(kept)} has {part.n_true} joint categories; times "
                f"{clusters} clusters at most {MAX_BLOCK} can be summed over",
                design,
            )
        found.append(_Channel(part, tuple(names.index(name) for name in kept)))
        covered.update(kept)
    bare = [_Channel(None, (i,)) for i, name in enumerate(names) if name not in covered]
    return [*found, *bare]


def _random_laws(size: int, clusters: int, stream: Stream) -> Floats:
    """Laws that are uniform on the simplex, shape (size, clusters)."""
    words = stream.source(0).words(size * clusters)
    uniform = ((words >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
    draws = -np.log(uniform).reshape(size, clusters)
    found: Floats = draws / draws.sum(axis=0)
    return found
