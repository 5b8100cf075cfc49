"""Generalized linear models of disguised answers: outcome, predictors, or both.

The idea is the same as for proportions: an estimating function of the true data is estimated from
reports by its sum over the true cells, each multiplied by its unbiased weight given the report.
Where only a categorical outcome is disguised there is a likelihood, and it is maximised.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self, get_args

import numpy as np
import numpy.typing as npt

from ppdm_dask.arrays import Floats
from ppdm_dask.data.codebook import Records, Reports
from ppdm_dask.designs.base import Design
from ppdm_dask.designs.matching import bound_to, require_design
from ppdm_dask.errors import InputError, RecordsError
from ppdm_dask.inference.cells import Columns, Sample, disguises, opened
from ppdm_dask.inference.clusters import Lone, check_lone
from ppdm_dask.inference.families import (
    Corrected,
    Gaussian,
    Likelihood,
    Logit,
    Poisson,
    climb,
    require_rank,
)
from ppdm_dask.inference.fitted import Fitted
from ppdm_dask.inference.formulas import (
    as_categories,
    combined,
    make_terms,
    numbers_of,
    read_formula,
    statistic_of,
    variable_of,
)
from ppdm_dask.ranges import whole
from ppdm_dask.shown import given, listed, shown

__all__ = ["GLM"]

FamilyName = Literal["binomial", "multinomial", "gaussian", "poisson"]
Method = Literal["auto", "mle", "corrected"]
Errors = Literal["auto", "model", "sandwich"]
Missing = Literal["fail", "drop"]
CHOICES = {"family": FamilyName, "method": Method, "errors": Errors, "missing": Missing}

MAX_ENTRIES = 1 << 27
"""Entries of the largest array that a fit makes: a gigabyte."""


class GLM(Fitted):
    r"""A generalized linear model, fitted to disguised reports or undisguised data.

    Parameters
    ----------
    design : Design or None
        The design of the reports; None for undisguised records and data frames, and for reports
        that know their design.
    formula : str, optional
        ``"used ~ age + C(region)"``, as formulaic reads it; its names are attributes of the
        codebook and columns that were kept.  By default `outcome` and `predictors`.
    family : {"binomial", "multinomial", "gaussian", "poisson"}
        With the canonical link: logit, logits against the first category, identity, log.
    outcome : str, optional
    predictors : sequence of str, optional
        Main effects, in addition to an intercept.
    success : str or sequence of str, optional
        Categories of the outcome whose probability a binomial model describes; by default the last
        of two.
    values : mapping of str to numbers, optional
        What the categories of an attribute count as: a sequence in their order, or a mapping of
        label to number.  Categories whose labels all are numbers need none.
    method : {"auto", "mle", "corrected"}
        Maximum likelihood, which needs undisguised predictors and, where the outcome is disguised,
        one with categories; or the corrected score.  By default the first where it can be.
    errors : {"auto", "model", "sandwich"}
        By the inverse information, which only maximum likelihood of a simple random sample has; or
        by the sandwich over respondents or clusters.  By default the first where it can be.
    missing : {"fail", "drop"}
        About rows that lack a variable.
    lone : {"fail", "certainty", "adjust", "average"}
        About a stratum with a single cluster.
    max_iter : int

    Attributes
    ----------
    coef_ : array, shape (p,), or (p, classes - 1) for several classes
    covariance_ : array
        Of the raveled coefficients.
    terms_ : tuple of str
        Names of the p columns.
    method_, errors_ : str
        What was done.
    loglikelihood_ : float
        Not a number by the corrected score.
    dispersion_ : float
        Residual variance, of a Gaussian model; else 1.
    classes_ : array of str
        Of a binomial or multinomial outcome; the first is the reference.
    n_reports_, n_dropped_, n_features_in_ : int
    feature_names_in_ : array of str

    Notes
    -----
    With outcomes and predictors of a true cell x, the score :math:`\psi` of the model is
    :math:`(t(x) - \mu(x; \beta))` times the predictors; d are survey weights.

    *Corrected score*, [Nakamura]_.  Each report stands for all true cells, by its weights:

    .. math:: \sum_i d_i \sum_x B_{x y_i} \psi(x; \beta) = 0

    *Likelihood*, [Maddala]_ and, with any design, [ScheersDayton]_:

    .. math:: \ell(\beta) = \sum_i d_i \log \sum_j P_{y_i j} \, \mu_j(x_i; \beta)

    *Sandwich*, [Binder]_, with V the covariance of the summed scores and A their derivative:

    .. math:: \operatorname{Cov}(\hat \beta) = A^{-1} V A^{-T}

    The corrected score assumes nothing about the law of disguised predictors, and is consistent
    wherever the moments exist; it may have no solution for few reports, which is said.

    References
    ----------
    [Maddala]_; [Nakamura]_; [ScheersDayton]_; [Binder]_ for the sandwich over clusters.

    Examples
    --------
    >>> import ppdm_dask as pp
    >>> book = pp.Codebook((pp.Attribute("used", ("no", "yes")), pp.Attribute("man", ("0", "1"))))
    >>> design = pp.Warner("used", theta=0.75).bind(book)
    >>> codes = np.repeat([[0, 0], [1, 0], [0, 1], [1, 1]], [60, 40, 50, 50], axis=0)
    >>> reports = pp.Reports(codes, book, 0, design.digest)
    >>> fit = pp.GLM(design, outcome="used", predictors=["man"]).fit(reports)
    >>> fit.to_frame()["estimate"].round(3).to_dict()  # shares of .3 and .5 of the truth
    {'Intercept': -0.847, 'man': 0.847}
    """

    def __init__(
        self,
        design: Design | None = None,
        formula: str | None = None,
        *,
        family: FamilyName = "binomial",
        outcome: str | None = None,
        predictors: Sequence[str] | None = None,
        success: str | Sequence[str] | None = None,
        values: Mapping[str, Any] | None = None,
        method: Method = "auto",
        errors: Errors = "auto",
        missing: Missing = "fail",
        lone: Lone = "fail",
        max_iter: int = 100,
    ) -> None:
        self.design = design
        self.formula = formula
        self.family = family
        self.outcome = outcome
        self.predictors = predictors
        self.success = success
        self.values = values
        self.method = method
        self.errors = errors
        self.missing = missing
        self.lone = lone
        self.max_iter = max_iter

    # -- fitting -----------------------------------------------------------------------------------

    def variables(self) -> tuple[str, ...]:
        """Names of the outcome and the predictors, which reports must have.

        Raises
        ------
        InputError
            For a formula that cannot be read, or no outcome.
        """
        outcome, _, predictors = self._read()
        return (outcome, *predictors)

    def _read(self) -> tuple[str, Any, tuple[str, ...]]:
        if self.formula is not None:
            if self.outcome is not None or self.predictors is not None:
                raise InputError("formula: give either a formula, or outcome and predictors", self)
            return read_formula(self.formula)
        if not isinstance(self.outcome, str):
            raise InputError("outcome: none is given; a formula, or a name is needed", self.outcome)
        predictors = self.predictors or ()
        if isinstance(predictors, str):
            predictors = (predictors,)
        return self.outcome, None, tuple(predictors)

    def _checked(self) -> None:
        for name, kinds in CHOICES.items():
            if getattr(self, name) not in get_args(kinds):
                raise InputError(
                    f"{name}: got {given(getattr(self, name))}; {listed(get_args(kinds))} are "
                    "known",
                    getattr(self, name),
                )
        check_lone(self.lone)
        whole("max_iter", self.max_iter, 1)

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        weights: str | npt.ArrayLike | None = None,
        strata: str | npt.ArrayLike | None = None,
        clusters: str | npt.ArrayLike | None = None,
        fpc: str | npt.ArrayLike | None = None,
    ) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : Reports, Records or table
            With the outcome.  A table (a frame, or a mapping of columns) is undisguised.
        y : None
            Only for the sake of scikit-learn's signature.
        weights, strata, clusters, fpc : str or array of shape (n,), optional
            Of the survey, as :func:`ppdm_dask.estimate` takes them: arrays, or names of columns
            that were kept.

        Returns
        -------
        GLM
            Itself.

        Raises
        ------
        InputError
            For parameters that contradict each other.
        RecordsError
            For reports of another design, a variable that is absent, or a missing value.
        NotIdentified
            Where the reports do not determine the coefficients.
        """
        self._checked()
        if y is not None:
            raise InputError("y: the formula names the outcome in X; leave y out", None)
        if hasattr(X, "compute"):  # a collection of Dask
            X = X.compute()
        outcome, right, predictors = self._read()
        survey = {"weights": weights, "strata": strata, "clusters": clusters, "fpc": fpc}
        records, kept, survey, self.n_dropped_ = opened(
            X, (outcome, *predictors), survey, self.missing
        )
        design = self._design(X)
        if records is not None and design is not None:
            design = bound_to(records, design)
            require_design(records, design)
        book = None if records is None else records.codebook
        found = {
            name: variable_of(name, book, kept, disguises(design, name), self.values or {})
            for name in dict.fromkeys((outcome, *predictors))
        }
        if outcome in predictors:
            raise InputError(f"formula: the outcome {shown(outcome)} is a predictor too", outcome)
        if self.success is not None and self.family != "binomial":
            raise InputError("success: only a binomial model has one", self.success)
        if self.family in ("binomial", "multinomial"):
            found[outcome] = as_categories(found[outcome], kept.get(outcome))
            wanted = (self.success or None) if self.family == "binomial" else ()
            statistic, classes = statistic_of(found[outcome], wanted)
            self._statistic: Floats | None = statistic
            self.classes_ = np.array(classes, dtype=object)
            self._model = Logit(self.family == "multinomial")
        else:
            self._statistic = numbers_of(found[outcome], counts=self.family == "poisson")
            self._model = Gaussian() if self.family == "gaussian" else Poisson()
        self._variables = found
        self._codebook = book
        data = Columns(records, design, kept, found)
        self._terms = make_terms(
            right, [found[name] for name in predictors], data.respondents(predictors)
        )
        sample = self._sampled(data, outcome, predictors, survey)
        self._fitted(sample)
        self.n_reports_ = sample.n
        self.n_features_in_ = len(predictors)
        self.feature_names_in_ = np.array(predictors, dtype=object)
        return self

    def _design(self, X: Any) -> Design | None:
        if self.design is not None:
            if not isinstance(self.design, Design):
                raise InputError(
                    f"design: got {type(self.design).__name__}; a regression takes one design of "
                    "all reports",
                    self.design,
                )
            if not isinstance(X, Records):
                raise RecordsError(
                    f"fit: got {type(X).__name__}; Reports are needed, as the design makes them",
                    None,
                )
            return self.design
        design: Design | None = getattr(X, "design", None)
        if design is None and isinstance(X, Reports):
            raise RecordsError("design: the reports do not carry theirs; give it", None)
        return design

    def _sampled(
        self, data: Columns, outcome: str, predictors: Sequence[str], survey: dict[str, Any]
    ) -> Sample:
        """Patterns of reports, with weights of the cells of disguised predictors."""
        hidden = [name for name in predictors if self._variables[name].disguised]
        seen = [name for name in predictors if not self._variables[name].disguised]
        target = self._variables[outcome]
        n = data.n
        over = (outcome, *hidden) if target.disguised else tuple(hidden)
        open_ = [data.codes(name) for name in seen]
        told = [] if target.disguised else [data.codes(outcome)]
        first, which = combined([*data.reported(over), *told, *open_], n)
        starts, at = combined(open_, n)
        shape = tuple(len(self._variables[name].labels) for name in hidden)
        cells, p = math.prod(shape), len(self._terms.names)
        outcomes = len(target.labels) if target.disguised else 1
        largest = max(len(starts) * cells * p, len(first) * cells * outcomes)
        if largest > MAX_ENTRIES:
            raise InputError(
                f"{len(first):,} patterns by {cells:,} true cells of {listed(hidden) or 'nothing'}"
                " are too many; leave predictors out, or round columns of numbers",
                hidden,
            )
        frame = data.crossed(starts, seen, hidden, shape)
        X = self._terms.matrix(frame)
        if not np.isfinite(X).all():
            raise InputError("formula: it makes values that are not finite", self.formula)
        W = data.weights(first, over).reshape(len(first), outcomes, cells)
        statistic = self._statistic
        if target.disguised:
            assert statistic is not None
            T = np.einsum("gja,jq->gaq", W, statistic)
            squares = np.einsum("gja,jq->ga", W, statistic**2)
            V = W.sum(axis=1)
        else:
            V = W[:, 0]
            codes = data.codes(outcome)[first]
            t = codes.astype(float)[:, None] if statistic is None else statistic[codes]
            if self.family == "poisson" and (t < 0).any():
                raise InputError(f"{shown(outcome)}: counts of 0 or more are needed", outcome)
            T, squares = V[:, :, None] * t[:, None, :], V * (t**2).sum(axis=1)[:, None]
        d = survey.get("weights")
        # In units of their mean, so that tolerances do not depend on the scale of weights.
        units = np.ones(n) if d is None else np.asarray(d, float) / np.mean(d)
        if d is not None:
            survey = survey | {"weights": units}
        P = None
        if not hidden and isinstance(self._model, Logit):
            assert statistic is not None
            P = data.chances(outcome, first, statistic)
        return Sample(
            frame,
            X,
            which,
            at[first],
            np.asarray(np.bincount(which, units, len(first)), float),
            V,
            T,
            squares,
            P,
            survey,
            n,
        )

    def _fitted(self, sample: Sample) -> None:
        names = self._terms.names
        q = sample.T.shape[2]
        plain = sample.cells == 1 and (sample.V == 1).all() and not self._hidden_outcome
        likelihood = plain or sample.P is not None
        if self.method == "mle" and not likelihood:
            raise InputError(
                "method: there is no likelihood where predictors are disguised, or an outcome that "
                "is not each of its categories by itself; use 'corrected'",
                self.method,
            )
        use = likelihood and self.method != "corrected"
        weighted = bool(sample.survey)
        if self.errors == "model" and (weighted or not use):
            raise InputError(
                "errors: only maximum likelihood of a simple random sample has those of a model; "
                "use 'sandwich'",
                self.errors,
            )
        V, T = sample.totals(sample.V), sample.totals(sample.T)
        X, model = sample.X, self._model
        present = np.abs(V) > 0
        require_rank(X[present], names)
        problem: Corrected | Likelihood = Corrected(model, X, V, T)
        if use and sample.P is not None and isinstance(model, Logit):
            problem = Likelihood(model, X, sample.row, sample.P, sample.d)
        start = np.zeros((X.shape[1], q))
        if self.family == "poisson":
            level = np.full(len(X), math.log(max(float(T.sum() / V.sum()), 1e-3)))
            start[:, 0] = np.linalg.lstsq(X, level, rcond=None)[0]
        labels = [f"{name}" for name in names for _ in range(q)]
        found = climb(problem, start, labels, self.max_iter)
        theta = X @ found.beta
        if isinstance(problem, Likelihood):
            residuals = problem.residuals(theta)[:, None, :]
        else:
            residuals = sample.T - sample.V[:, :, None] * sample.by_pattern(model.mean(theta))
        scores = np.einsum("gaq,gap->gpq", residuals, sample.by_pattern(X))
        scores = scores.reshape(len(scores), -1)
        inverse: Floats = np.asarray(np.linalg.inv(found.information))
        total = float(sample.d.sum())
        self.dispersion_ = 1.0
        self.loglikelihood_ = math.nan
        if self.family == "gaussian":
            mu = sample.by_pattern(theta)[:, :, 0]
            left = sample.squares - 2 * sample.T[:, :, 0] * mu + sample.V * mu**2
            rss = float(sample.d @ left.sum(axis=1))
            self.dispersion_ = rss / (total - X.shape[1]) if total > X.shape[1] else math.nan
        self.method_ = "maximum likelihood" if use else "corrected score"
        model_errors = self.errors != "sandwich" and use and not weighted
        self.errors_ = "model" if model_errors else "sandwich"
        if use and not weighted:
            self.loglikelihood_ = self._loglikelihood(sample, found.value)
        if model_errors:
            self.covariance_ = inverse * self.dispersion_
        else:
            self.covariance_ = inverse @ sample.covariance(scores, self.lone) @ inverse
        self.coef_ = np.asarray(found.beta[:, 0] if q == 1 else found.beta)
        self.terms_ = names
        self.n_iter_ = found.steps
        self._sample, self._influence = sample, scores @ inverse

    def _loglikelihood(self, sample: Sample, value: float) -> float:
        """With what does not depend on the coefficients."""
        from scipy.special import gammaln

        n = sample.n
        if self.family == "gaussian":
            rss = self.dispersion_ * (n - len(sample.X[0]))
            return -n / 2 * (math.log(2 * math.pi * rss / n) + 1)
        if self.family == "poisson":
            return value - float(sample.d @ gammaln(sample.T[:, 0, 0] + 1))
        return value

    @property
    def _hidden_outcome(self) -> bool:
        return next(iter(self._variables.values())).disguised
