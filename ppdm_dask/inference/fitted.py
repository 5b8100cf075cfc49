"""A fitted model: its table, tests, margins and predictions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from ppdm_dask.arrays import Floats
from ppdm_dask.data.codebook import Codebook, Records, table_of
from ppdm_dask.errors import InputError, RecordsError
from ppdm_dask.extras import named
from ppdm_dask.faces.dataset import dataset_of
from ppdm_dask.faces.face import Face, block, interval_table, names_of
from ppdm_dask.faces.learner import LearnerFace
from ppdm_dask.faces.plots import intervals
from ppdm_dask.inference.cells import disguises
from ppdm_dask.inference.families import Logit
from ppdm_dask.inference.uncertainty import normal_quantile
from ppdm_dask.ranges import real
from ppdm_dask.shown import given, listed, shown

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from markupsafe import Markup
    from matplotlib.axes import Axes

    from ppdm_dask.inference.cells import Sample
    from ppdm_dask.inference.clusters import Lone
    from ppdm_dask.inference.families import Family
    from ppdm_dask.inference.formulas import Terms, Variable

__all__ = ["Fitted", "Margins", "WaldTest"]


@dataclass(frozen=True)
class WaldTest:
    """A test that some coefficients are 0.

    Parameters
    ----------
    statistic : float
        Chi-square.
    freedom : int
    p_value : float
    method : str
        ``Wald`` or ``likelihood ratio``.
    """

    statistic: float
    freedom: int
    p_value: float
    method: str

    @classmethod
    def of(cls, statistic: float, freedom: int, method: str) -> Self:
        """The test of a chi-square statistic."""
        from scipy.stats import chi2

        return cls(float(statistic), freedom, float(chi2.sf(statistic, freedom)), method)


@dataclass(frozen=True, eq=False, repr=False)
class Margins(Face):
    """Expected outcomes in the population, or differences of them, with errors.

    Parameters
    ----------
    labels : list of tuple of str
        What each is of, in the order of `columns`.
    columns : tuple of str
    values : array, shape (m,)
    covariance : array, shape (m, m)
        That of the population behind the reports: predictors are drawn too.
    """

    labels: list[tuple[str, ...]]
    columns: tuple[str, ...]
    values: Floats
    covariance: Floats

    @property
    def standard_errors(self) -> Floats:
        """Shape (m,)."""
        return np.sqrt(np.diag(self.covariance))

    def to_frame(self, level: float = 0.95) -> pd.DataFrame:
        """Values, standard errors and Wald intervals, a row each."""
        with named("to_frame"):
            import pandas as pd

        half = normal_quantile(level) * self.standard_errors
        table = pd.DataFrame(self.labels, columns=list(self.columns))
        return table.assign(
            value=self.values,
            standard_error=self.standard_errors,
            lower=self.values - half,
            upper=self.values + half,
        )

    def _texts(self) -> list[str]:
        return [", ".join(map(str, row)) for row in self.labels]

    def to_dataset(self, level: float = 0.95) -> xr.Dataset:
        """Values, standard errors and Wald intervals along ``row``."""
        found = self.to_frame(level)
        return dataset_of(
            {"row": self._texts()},
            [found[name] for name in ("value", "standard_error", "lower", "upper")],
            units="expected outcome",
            level=level,
            interval="Wald",
        )

    def plot(self, ax: Axes | None = None, *, level: float = 0.95) -> Axes:
        """Draw each with its Wald interval, on axes of matplotlib."""
        found = self.to_frame(level)
        return intervals(
            ax,
            self._texts(),
            found["value"],
            found["lower"],
            found["upper"],
            x=f"expected outcome, {100 * level:.4g} % interval",
            y=", ".join(self.columns),
            marks=(0,),
        )

    def __str__(self) -> str:
        return self.to_frame().to_string(index=False, float_format=lambda x: f"{x:.4f}")

    def _said(self) -> str:
        of = names_of(self.columns) or "the population"
        first = self.values[:4].tolist()
        more = ", ..." if len(self.values) > 4 else ""
        return f"Margins of {of}: {', '.join(f'{x:.4f}' for x in first)}{more}"

    def _shown(self) -> Iterator[Markup]:
        yield interval_table(self.to_frame(), "value", marks=(0,))


Parts = list[tuple[float, Any]]
"""Factors and frames of predictors whose expected outcomes add up to one margin."""


def contrasts_of(
    variable: Variable, frame: pd.DataFrame, *, effects: bool
) -> tuple[list[Parts], list[tuple[str, ...]]]:
    """What a variable is set to, and the labels of each.

    Parameters
    ----------
    variable : Variable
    frame : DataFrame
        Of all predictors, which keep what they are.
    effects : bool
        Whether differences from the first category, or slopes, are wanted.
    """
    name = variable.name
    if variable.plain or (variable.numeric and effects and len(variable.labels) > 2):
        if not effects:
            return [[(1.0, frame)]], [("as it is",)]
        # Central differences: their error is of third order, far below any standard error.
        numbers = frame[name].to_numpy(float)
        h = 1e-4 * max(float(numbers.std()), 1e-8 * float(np.abs(numbers).max(initial=0.0)), 1e-8)
        up, down = frame.assign(**{name: numbers + h}), frame.assign(**{name: numbers - h})
        return [[(0.5 / h, up), (-0.5 / h, down)]], [("slope",)]
    codes = np.arange(len(variable.labels))
    at = [frame.assign(**{name: variable.column(np.full(len(frame), code))}) for code in codes]
    if not effects:
        return [[(1.0, each)] for each in at], [(label,) for label in variable.labels]
    first = variable.labels[0]
    heads: list[tuple[str, ...]] = [(f"{label} - {first}",) for label in variable.labels[1:]]
    return [[(1.0, each), (-1.0, at[0])] for each in at[1:]], heads


def margins_of(
    sample: Sample,
    model: Family,
    matrix: Callable[[Any], Floats],
    beta: Floats,
    influence: Floats,
    contrasts: Sequence[Parts],
    lone: Lone,
) -> tuple[Floats, Floats]:
    """Margins and their covariance.

    Parameters
    ----------
    sample : Sample
    model : Family
    matrix : callable
        Gives the model matrix of a frame of predictors.
    beta : array, shape (p, q)
    influence : array, shape (patterns, p q)
        What each pattern of reports adds to the coefficients.
    contrasts : sequence of Parts
    lone : str
        About a stratum with a single cluster.

    Returns
    -------
    values, covariance : arrays
        A contrast's outputs come together.
    """
    total = sample.d.sum()
    V = sample.totals(sample.V)
    values, scores = [], []
    for parts in contrasts:
        h: Any = 0.0
        slope: Any = 0.0
        for factor, frame in parts:
            X = matrix(frame)
            theta = X @ beta
            mean = sample.by_pattern(model.expected(theta))
            h = h + factor * np.einsum("ga,gac->gc", sample.V, mean)
            change = np.einsum("r,rcq,rp->cpq", V, model.slopes(theta), X)
            slope = slope + factor * change.reshape(len(change), -1) / total
        value = sample.d @ h / total
        values.append(value)
        # Of the predictors that were drawn, and of the coefficients.
        scores.append((h - value) / total + influence @ slope.T)
    return np.concatenate(values), sample.covariance(np.concatenate(scores, axis=1), lone)


class Fitted(LearnerFace):
    """What a generalized linear model can be asked once it is fitted."""

    family: str
    lone: Lone
    coef_: Floats
    covariance_: Floats
    terms_: tuple[str, ...]
    classes_: npt.NDArray[Any]
    feature_names_in_: npt.NDArray[Any]
    loglikelihood_: float
    method_: str
    errors_: str
    n_reports_: int
    _variables: Mapping[str, Variable]
    _codebook: Codebook | None
    _terms: Terms
    _model: Family
    _sample: Sample
    _influence: Floats

    @property
    def standard_errors_(self) -> Floats:
        """Standard errors of the coefficients, in their shape."""
        check_is_fitted(self, "coef_")
        return np.sqrt(np.diag(self.covariance_)).reshape(self.coef_.shape)

    def to_frame(self, level: float = 0.95) -> pd.DataFrame:
        """Coefficients with errors and Wald intervals, a row each.

        Parameters
        ----------
        level : float in (0, 1)

        Returns
        -------
        DataFrame
            Indexed by term, or by class and term.
        """
        with named("to_frame"):
            import pandas as pd
        from scipy.stats import norm

        check_is_fitted(self, "coef_")
        estimate, error = self.coef_.T.ravel(), self.standard_errors_.T.ravel()
        half = normal_quantile(real("level", level, 0, 1, open_ends=True)) * error
        z = estimate / error
        index = pd.Index(self.terms_, name="term")
        if self.family == "multinomial":
            pairs = [(c, term) for c in self.classes_[1:] for term in self.terms_]
            index = pd.MultiIndex.from_tuples(pairs, names=["class", "term"])
        columns = {
            "estimate": estimate,
            "standard_error": error,
            "z": z,
            "p_value": 2 * norm.sf(np.abs(z)),
            "lower": estimate - half,
            "upper": estimate + half,
        }
        return pd.DataFrame(columns, index=index)

    def test(self, terms: str | Sequence[str]) -> WaldTest:
        """Wald's test that all coefficients of some terms, or single ones, are 0.

        Raises
        ------
        InputError
            For a term that there is not.
        """
        check_is_fitted(self, "coef_")
        wanted = [terms] if isinstance(terms, str) else list(terms)
        at: set[int] = set()
        for term in wanted:
            if term in self._terms.slices:
                place = self._terms.slices[term]
                at.update(range(place.start, place.stop))
            elif term in self.terms_:
                at.add(self.terms_.index(term))
            else:
                raise InputError(
                    f"test: got {given(term)}; the terms are {listed(self._terms.slices)}", term
                )
        q = self.coef_.size // len(self.terms_)
        places = [i * q + j for i in sorted(at) for j in range(q)]
        b = self.coef_.ravel()[places]
        V = self.covariance_[np.ix_(places, places)]
        return WaldTest.of(float(b @ np.linalg.solve(V, b)), len(places), "Wald")

    def compare(self, smaller: Fitted) -> WaldTest:
        """Likelihood-ratio test of a model of fewer columns, fitted to the same reports.

        Raises
        ------
        InputError
            Without likelihoods of simple random samples, or if it is not part of this model.
        """
        check_is_fitted(self, "coef_")
        check_is_fitted(smaller, "coef_")
        if math.isnan(self.loglikelihood_) or math.isnan(smaller.loglikelihood_):
            raise InputError(
                "compare: corrected scores and weighted samples have no likelihood; use test()",
                None,
            )
        less = len(self.terms_) - len(smaller.terms_)
        same = self.family == smaller.family and self.n_reports_ == smaller.n_reports_
        if not same or less <= 0 or not set(smaller.terms_) <= set(self.terms_):
            raise InputError(
                "compare: a model of some of these terms, of the same reports, is needed",
                smaller.terms_,
            )
        statistic = 2 * (self.loglikelihood_ - smaller.loglikelihood_)
        q = self.coef_.size // len(self.terms_)
        return WaldTest.of(max(statistic, 0.0), less * q, "likelihood ratio")

    def margins(self, variable: str | None = None) -> Margins:
        """Expected outcome in the population, if all had one category of a variable after another.

        The other predictors keep their (estimated) law.  Of a number, as of no variable, it is the
        expected outcome as it is.
        """
        return self._margins(variable, effects=False)

    def effects(self, variable: str) -> Margins:
        """Average effect of a predictor on the expected outcome.

        Of categories the differences from the first; of a number the average slope.
        """
        return self._margins(variable, effects=True)

    def _margins(self, variable: str | None, *, effects: bool) -> Margins:
        check_is_fitted(self, "coef_")
        sample, outputs = self._sample, self._outputs()
        contrasts: list[Parts] = [[(1.0, sample.frame)]]
        heads: list[tuple[str, ...]] = [()]
        if variable is not None:
            if variable not in self.feature_names_in_.tolist():
                raise InputError(
                    f"margins: got {given(variable)}; the predictors are "
                    f"{listed(self.feature_names_in_)}",
                    variable,
                )
            contrasts, heads = contrasts_of(
                self._variables[variable], sample.frame, effects=effects
            )
        values, covariance = margins_of(
            sample,
            self._model,
            self._terms.matrix,
            self.coef_.reshape(len(self.terms_), -1),
            self._influence,
            contrasts,
            self.lone,
        )
        columns = (*(() if variable is None else (variable,)), *(("class",) if outputs[0] else ()))
        labels = [(*head, *out) for head in heads for out in outputs]
        return Margins(labels, columns, values, covariance)

    def _outputs(self) -> list[tuple[str, ...]]:
        if self.family == "multinomial":
            return [(str(label),) for label in self.classes_]
        return [(str(self.classes_[1]),)] if self.family == "binomial" else [()]

    # -- predictions -------------------------------------------------------------------------------

    def _linear(self, X: Any) -> Floats:
        check_is_fitted(self, "coef_")
        names = [str(name) for name in self.feature_names_in_]
        columns: dict[str, Any] = {}
        if isinstance(X, Records):
            if any(disguises(getattr(X, "design", None), name) for name in names):
                raise RecordsError("predict: true answers are needed, not reports", None)
            for name in names:
                inside = name in X.codebook.names
                codes = X.column(name) if inside else self._variables[name].coded(X.kept[name])
                columns[name] = self._variables[name].column(codes)
            n = len(X)
        else:
            table = table_of(X)
            for name in names:
                if name not in table:
                    raise RecordsError(f"predict: there is no column {shown(name)}", name)
                columns[name] = self._told(name, table)
            n = len(table)
        import pandas as pd

        matrix = self._terms.matrix(pd.DataFrame(columns, index=range(n)))
        return np.asarray(matrix @ self.coef_.reshape(matrix.shape[1], -1))

    def _told(self, name: str, table: Any) -> Any:
        """A column of a table of true answers, as the codebook reads it."""
        variable, book = self._variables[name], self._codebook
        if book is not None and name in book.names:
            return variable.column(book.select([name]).encode(table).codes[:, 0])
        return variable.column(variable.coded(np.asarray(table[name])))

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Most probable class, or expected number, shape (n,), for true answers."""
        theta = self._linear(X)
        if isinstance(self._model, Logit):
            labels: npt.NDArray[Any] = self.classes_[self._model.classes(theta).argmax(axis=1)]
            return labels
        return self._model.mean(theta)[:, 0]

    def predict_proba(self, X: Any) -> Floats:
        """Probabilities of the classes, shape (n, classes), for true answers.

        Raises
        ------
        InputError
            For a Gaussian or Poisson model.
        """
        theta = self._linear(X)
        if not isinstance(self._model, Logit):
            raise InputError(f"predict_proba: a {self.family} model has no classes", self.family)
        return self._model.classes(theta)

    def _texts(self) -> list[str]:
        index = self.to_frame().index.tolist()
        return [", ".join(map(str, row)) if isinstance(row, tuple) else str(row) for row in index]

    def to_dataset(self, level: float = 0.95) -> xr.Dataset:
        """Coefficients along ``term``, of classes along ``class`` too.

        Returns
        -------
        Dataset
            ``value``, ``error``, ``low``, ``high`` and ``p_value``; its attributes say units,
            level, method, the family, n and the digest of the design.
        """
        found = self.to_frame(level)
        axes: dict[str, Sequence[str]] = {"term": [str(term) for term in self.terms_]}
        if self.family == "multinomial":
            axes = {"class": [str(c) for c in self.classes_[1:]], **axes}
        return dataset_of(
            axes,
            [found[name] for name in ("estimate", "standard_error", "lower", "upper")],
            units="coefficient",
            level=level,
            interval="Wald",
            further={"p_value": found["p_value"]},
            method=self.method_,
            errors=self.errors_,
            family=self.family,
            n=self.n_reports_,
            design_digest=getattr(getattr(self, "design_", None), "digest", ""),
        )

    def plot(self, ax: Axes | None = None, *, level: float = 0.95) -> Axes:
        """Draw each coefficient with its Wald interval, on axes of matplotlib."""
        found = self.to_frame(level)
        return intervals(
            ax,
            self._texts(),
            found["estimate"],
            found["lower"],
            found["upper"],
            x=f"coefficient, {100 * level:.4g} % interval",
            always=(0,),
        )

    def __str__(self) -> str:
        if not hasattr(self, "coef_"):
            return repr(self)
        what = str(next(iter(self._variables)))
        if self.family == "binomial":
            what = f"P({what} = {self.classes_[1]})"
        lines = [
            f"{self.family} model of {what}, {self.n_reports_:,} reports",
            f"{self.method_}; errors: {self.errors_}",
            self.to_frame().to_string(float_format=lambda x: f"{x:.4f}"),
        ]
        return "\n".join(lines)

    def _fitted_html(self) -> str | None:
        if not hasattr(self, "coef_"):
            return None
        said = f"{self.family} model, {self.n_reports_:,} reports\n{self.method_}; {self.errors_}"
        return block(said, interval_table(self.to_frame(), "estimate", index=True, marks=(0,)))
