"""BSVD and SSVD: release a truncated, and sparsified, singular value decomposition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from ppdm_dask.arrays import Floats
from ppdm_dask.errors import InputError
from ppdm_dask.perturb.base import ColumnSummary, Perturbation, register
from ppdm_dask.randomness import Stream
from ppdm_dask.ranges import whole
from ppdm_dask.shown import given


class _Truncated(Perturbation):
    """What the two have in common: the k largest singular values of the data as they are.

    Attributes
    ----------
    singular_values_ : array of float, shape (k,)
    components_ : array of float, shape (k, m)
        Right singular vectors, one per row, the entry of largest absolute value positive.
    """

    k: int

    def _learn(self, values: Floats, stream: Stream) -> None:
        _, s, vt = np.linalg.svd(values, full_matrices=False)
        rank = int((s > s[0] * max(values.shape) * np.finfo(float).eps).sum())
        if self.k > rank:
            raise InputError(
                f"k: got {self.k}; the data have rank {rank}, no more singular values can be kept",
                self.k,
            )
        vt = vt[: self.k]
        rows = np.arange(self.k)
        # The decomposition leaves signs open, and libraries differ in what they choose.
        signs = np.sign(vt[rows, np.abs(vt).argmax(axis=1)])
        self.singular_values_ = s[: self.k]
        self.components_ = vt * signs[:, None]

    def _scores(self, values: Floats) -> Floats:
        """Left singular vectors of the fitted data, shape (n, k); of others their like."""
        scores: Floats = values @ self.components_.T / self.singular_values_
        return scores


@register
class BSVD(_Truncated):
    r"""Basic singular value decomposition: the best approximation of rank k.

    Nothing is drawn and nothing centred or scaled.  The fitted data A come back by their largest k
    singular values, other records x as their projection on the same k directions:

    .. math:: A = U S V^T, \qquad A_k = U_k S_k V_k^T = A V_k V_k^T, \qquad x \mapsto x V_k V_k^T

    Parameters
    ----------
    k : int
        Singular values that are kept, 1 or more, and fewer than columns.
    seed : int, optional
        Not used; all methods have it.

    Attributes
    ----------
    singular_values_ : array of float, shape (k,)
    components_ : array of float, shape (k, m)
    """

    id = "bsvd"
    required = ("k",)
    private_end: ClassVar[Mapping[str, str]] = {"k": "small"}

    def __init__(self, k: int, seed: int | None = None) -> None:
        self.k = k
        self.seed = seed

    @property
    def caveat(self) -> str:
        """One plain sentence on what BSVD does not protect."""
        return (
            "BSVD draws nothing at random: the release differs from the original only in the "
            "directions that are dropped, so that values in columns that dominate the kept "
            f"{self.k} directions come out almost unchanged, and anyone who knows a few originals "
            "can match them to their released records."
        )

    def check_parameters(self) -> None:
        """Refuse an impossible parameter."""
        whole("k", self.k, 1)

    def check_summary(self, summary: ColumnSummary) -> None:
        """Refuse data that the method cannot perturb."""
        super().check_summary(summary)
        most = min(summary.n, len(summary.names)) - 1
        if self.k > most:
            raise InputError(
                f"k: got {self.k}; of {summary.n} records of {len(summary.names)} columns, "
                f"{most} or fewer singular values leave anything out "
                f"(n_features={len(summary.names)})",
                self.k,
            )

    def _draw(self, values: Floats, stream: Stream, offset: int) -> Floats:
        released: Floats = values @ self.components_.T @ self.components_
        return released


@register
class SSVD(_Truncated):
    r"""Sparsified singular value decomposition: rank k, with small entries of U and V set to 0.

    With the bound d that a share e of the entries of both lies below, [Guo]_,

    .. math:: \bar A_k = \bar U_k S_k \bar V_k^T, \qquad
        \bar u_{ij} = u_{ij} \, 1[|u_{ij}| \ge d], \qquad \bar v_{ij} = v_{ij} \, 1[|v_{ij}| \ge d]

    Parameters
    ----------
    k : int
        Singular values that are kept, 1 or more, and no more than columns.
    e : float
        Share of the entries of ``U_k`` and ``V_k``, both taken together, that are set to 0, in
        (0, 1): those with an absolute value below the e-quantile.
    seed : int, optional
        Not used; all methods have it.

    Attributes
    ----------
    singular_values_ : array of float, shape (k,)
    components_ : array of float, shape (k, m)
        Before sparsifying.
    threshold_ : float
        Absolute value below which an entry is set to 0; ``d`` in [Guo]_.
    """

    id = "ssvd"
    required = ("k", "e")
    private_end: ClassVar[Mapping[str, str]] = {"k": "small", "e": "large"}

    def __init__(self, k: int, e: float, seed: int | None = None) -> None:
        self.k = k
        self.e = e
        self.seed = seed

    @property
    def caveat(self) -> str:
        """One plain sentence on what SSVD does not protect."""
        return (
            "SSVD draws nothing at random: what was set to 0 blurs records near the middle, while "
            "outlying records keep their large entries and stay recognisable, and anyone who knows "
            "a few originals can match them to their released records."
        )

    def check_parameters(self) -> None:
        """Refuse an impossible parameter."""
        whole("k", self.k, 1)
        e: Any = self.e
        if not isinstance(e, float | np.floating) or not 0 < e < 1:
            right = "a share between 0 and 1, both excluded, is needed"
            raise InputError(f"e: got {given(e)}; {right}", e)

    def check_summary(self, summary: ColumnSummary) -> None:
        """Refuse data that the method cannot perturb."""
        super().check_summary(summary)
        most = min(summary.n, len(summary.names))
        if self.k > most:
            raise InputError(
                f"k: got {self.k}; {summary.n} records of {len(summary.names)} columns have "
                f"{most} singular values",
                self.k,
            )

    def _learn(self, values: Floats, stream: Stream) -> None:
        super()._learn(values, stream)
        both = np.concatenate([self._scores(values).ravel(), self.components_.ravel()])
        self.threshold_ = float(np.quantile(np.abs(both), self.e))

    def _draw(self, values: Floats, stream: Stream, offset: int) -> Floats:
        scores, components = self._scores(values), self.components_.copy()
        scores[np.abs(scores) < self.threshold_] = 0
        components[np.abs(components) < self.threshold_] = 0
        released: Floats = (scores * self.singular_values_) @ components
        return released
