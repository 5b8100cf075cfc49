"""The best design of one report on several attributes.

The future work of [HuangDu]_: categories are the cells of the joint table, what is estimated are
its margins, pairs or cells, and privacy is that of the whole record or of each attribute.

If attributes are correlated, separate reports on each attribute reveal more about an attribute than
its own report does: the other reports say something about it too.  Anyone who sees all of them is
the adversary here. The least noise of the margins is bounded from below by the sum of the
attributes' limits, since an attribute's report is one of its own, and not to know the other
attributes makes nothing easier.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ppdm_dask.arrays import Floats, kron
from ppdm_dask.designs import Design, RRMatrix
from ppdm_dask.errors import InputError
from ppdm_dask.faces.face import Face, names_of
from ppdm_dask.ranges import real, whole
from ppdm_dask.search.cones import LEAST, MOST, Cone, Epsilon, Guess, Posterior
from ppdm_dask.search.joint_cones import MOST_CELLS, EpsilonEach, GuessEach, largest_of_margins
from ppdm_dask.search.joint_law import Aim, JointLaw, joint_law
from ppdm_dask.search.optimum import MOST_WALKED, noise_of, optimum
from ppdm_dask.search.robust import arranged_design
from ppdm_dask.shown import quoted

if TYPE_CHECKING:
    import xarray as xr
    from markupsafe import Markup
    from matplotlib.axes import Axes

__all__ = ["JointDesign", "Told", "joint_design", "joint_front", "joint_level", "told"]

Stated = float | Mapping[str, float]
"""A number for the whole record, or one for each attribute."""


@dataclass(frozen=True, eq=False, repr=False)
class JointDesign(Face):
    """A design of least noise for several attributes, with its certificate.

    Parameters
    ----------
    design : RRMatrix
        Of all attributes, with as many reported symbols as it needs.
    noise : float
        Sum of the variances of what is estimated, of one report.
    bound : float
        Certified: no design within the privacy has less.
    privacy : str
        What it keeps.
    alone : float or None
        Noise of the best designs of each attribute alone at the same privacy, where that is
        known: with an epsilon, and with `like`.
    epsilons : dict of str to float, optional
        How an epsilon of the record is best shared among attributes that are disguised alone.
    """

    design: RRMatrix
    noise: float
    bound: float
    privacy: str
    alone: float | None
    epsilons: dict[str, float] | None = None

    @property
    def gap(self) -> float:
        """Relative distance of the noise from its certificate."""
        return self.noise / self.bound - 1

    @property
    def ratio(self) -> float | None:
        """Reports that attributes disguised alone need over those of this design."""
        return None if self.alone is None else self.alone / self.noise

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the design's matrix on axes of matplotlib."""
        return self.design.plot(ax)

    def _said(self) -> str:
        times = "" if self.ratio is None else f"; attributes alone need {self.ratio:.4g} times"
        return (
            f"JointDesign of {names_of(self.design.attributes, 40)}, {self.privacy}: noise "
            f"{self.noise:.6g}, certified {self.bound:.6g}{times}"
        )

    def _shown(self) -> Iterator[Markup]:
        yield from self.design._shown()


def joint_design(
    prior: Any,
    *,
    aim: Aim | npt.ArrayLike = "margins",
    epsilon: Stated | None = None,
    max_posterior: Stated | None = None,
    privacy: Stated | None = None,
    like: Sequence[Design] | None = None,
) -> JointDesign:
    r"""The best design of one report on several attributes.

    For figures ``L p`` of the joint proportions p, such as margins, it has the least sum of
    variances

    .. math:: \operatorname{tr} L J^{-1} L^T - |L p|^2, \qquad
        J = P^T \operatorname{diag}(P p)^{-1} P

    A privacy is a number for the whole record, whose categories are the joint ones, or a mapping
    with a number for each attribute, whatever the adversary learns of the others.

    Parameters
    ----------
    prior : xarray.DataArray or pandas.Series
        Joint proportions, none below 1e-6: a dimension, or a level of the index, for each
        attribute, with its categories.
    aim : {"margins", "pairs", "cells"} or array_like, shape (figures, cells)
        What is estimated: each attribute's proportions, every table of two, the joint table, or
        sums of cells in row-major order.  The sum of their variances is least.
    epsilon : float or mapping of attribute to float, optional
        Largest log likelihood ratio of a report for two records; for two that differ in the
        attribute.  From 1e-3 to 30.
    max_posterior : float or mapping, optional
        Largest posterior of a joint category; of a category of the attribute.
    privacy : float or mapping, optional
        How often the best guess from a report is wrong, at least: of the joint category; of the
        attribute.
    like : sequence of Design, optional
        A design for each attribute alone, in place of numbers: reports of this design tell as
        little of each attribute, by its largest posterior and the best guess, as all of those
        together do.

    Returns
    -------
    JointDesign

    Raises
    ------
    InputError
        One line: parameter, value, and what would be right.  An epsilon or a posterior of the
        record is known for up to 22 cells, guesses of attributes for up to 18, an epsilon for each
        attribute for up to 64 pairs of cells that differ in one, different epsilons for up to 60.

    Examples
    --------
    >>> import ppdm_dask as pp, xarray as xr
    >>> prior = xr.DataArray(
    ...     [[0.35, 0.15], [0.1, 0.4]],
    ...     {"smokes": ["no", "yes"], "drinks": ["no", "yes"]},
    ... )
    >>> found = pp.joint_design(prior, epsilon=1.0)
    >>> f"{found.noise:.2f} {found.alone:.2f}"
    '9.36 16.67'
    """
    law = joint_law(prior)
    L = law.contrasts(aim)
    alone: float | None = None
    epsilons = None
    if like is not None:
        if any(each is not None for each in (epsilon, max_posterior, privacy)):
            raise InputError("like: give it, or epsilon, max_posterior and privacy", like)
        P = _product(law, like)
        cone: Cone = GuessEach(law.shape, *told(law, P))
        alone = noise_of(law.cells, P, L)
    else:
        cone = _cone(law, epsilon, max_posterior, privacy)
        if isinstance(cone, Epsilon):
            if law.cells.size > MOST_WALKED:
                raise InputError(
                    f"prior: has {law.cells.size} joint categories; an epsilon of the record is "
                    f"computed for up to {MOST_WALKED}",
                    prior,
                )
            epsilons, alone = _shared(law, L, cone.epsilon)
        elif isinstance(cone, EpsilonEach):
            alone = _noise_alone(law, L, cone.epsilons)
    found = optimum(law.cells, cone, contrasts=L)
    assert found.P is not None  # contrasts leave no parts of equal proportion
    design = arranged_design(found.P, law.cells, law.attributes, law.categories, law.shape)
    return JointDesign(design, found.noise, found.bound, cone.text, alone, epsilons)


def _cone(
    law: JointLaw, epsilon: Stated | None, max_posterior: Stated | None, privacy: Stated | None
) -> Cone:
    """What the privacies ask for together."""
    if (epsilon is None) == (max_posterior is None and privacy is None):
        raise InputError(
            "epsilon, max_posterior, privacy: give an epsilon, or one or both of the others",
            (epsilon, max_posterior, privacy),
        )
    if isinstance(epsilon, Mapping):
        return EpsilonEach(law.shape, law.each("epsilon", epsilon, None, LEAST, MOST))
    if epsilon is not None:
        return Epsilon(epsilon)
    both = [each for each in (max_posterior, privacy) if each is not None]
    if all(isinstance(each, Mapping) for each in both):
        deltas = _deltas(law, max_posterior)  # type: ignore[arg-type]
        successes: tuple[float, ...] = ()
        if privacy is not None:
            stated = law.each("privacy", privacy, 0.0)  # type: ignore[arg-type]
            for name, value, p in zip(law.attributes, stated, law.margins, strict=True):
                if value >= 1 - p.max():
                    raise InputError(
                        f"privacy[{name}]: got {value:g}; a number below {1 - p.max():.6g}, as "
                        "without any report, is needed",
                        value,
                    )
            successes = tuple(1 - each for each in stated)
        return GuessEach(law.shape, deltas, successes)
    if any(isinstance(each, Mapping) for each in both):
        raise InputError(
            "max_posterior, privacy: give two numbers, for the record, or two mappings, for each "
            "attribute",
            both,
        )
    delta = 1.0 if max_posterior is None else real("max_posterior", max_posterior, 0, 1)
    if delta <= law.cells.max():
        raise InputError(
            f"max_posterior: got {delta:g}; a number above the most frequent joint category's "
            f"proportion, {law.cells.max():.6g}, is needed",
            max_posterior,
        )
    if privacy is None:
        return Posterior(delta)
    return Guess(delta, success=1 - real("privacy", privacy, 0, 1))


def _deltas(law: JointLaw, max_posterior: Mapping[str, float] | None) -> tuple[float, ...]:
    deltas = law.each("max_posterior", max_posterior or {}, 1.0)
    for name, delta, p in zip(law.attributes, deltas, law.margins, strict=True):
        if delta <= p.max():
            raise InputError(
                f"max_posterior[{name}]: got {delta:g}; a number above {p.max():.6g}, the largest "
                "proportion, is needed",
                delta,
            )
    return deltas


def _product(law: JointLaw, like: Any) -> Floats:
    """P of reports on each attribute by its own design, categories in the prior's order."""
    by_name = {}
    if not isinstance(like, Sequence) or not all(isinstance(each, Design) for each in like):
        raise InputError("like: a list of designs, one for each attribute, is needed", like)
    for design in like:
        if len(design.attributes) != 1 or design.attributes[0] not in law.attributes:
            raise InputError(
                f"like: got a design of {quoted(design.attributes)}; one for each of "
                f"{quoted(law.attributes)} is needed",
                design,
            )
        by_name[design.attributes[0]] = design
    matrices = []
    for attribute, own in zip(law.attributes, law.categories, strict=True):
        if attribute not in by_name:
            raise InputError(f"like: no design for {attribute!r}; each attribute needs one", like)
        P = by_name[attribute].in_order({attribute: own}).matrix()
        if P.shape[1] != len(own):
            raise InputError(
                f"like: the design of {attribute!r} has {P.shape[1]} categories; the prior's are "
                f"{len(own)}",
                by_name[attribute],
            )
        if np.linalg.matrix_rank(P) < len(own):
            raise InputError(
                f"like: reports of the design of {attribute!r} do not tell its categories apart; "
                "one whose matrix has full rank is needed",
                by_name[attribute],
            )
        matrices.append(P)
    return kron(matrices)


class Told(NamedTuple):
    """What a report tells of each attribute: a rounding error more, so that its design keeps it."""

    deltas: tuple[float, ...]
    """Largest posteriors."""
    successes: tuple[float, ...]
    """Of the best guesses."""


def told(law: JointLaw, P: Floats) -> Told:
    """What reports of P, shape (symbols, cells), reveal about each attribute."""
    joint = P * law.cells
    joint = joint[joint.sum(axis=1) > 0]
    most = largest_of_margins(joint, law.shape)
    worst = (most / joint.sum(axis=1, keepdims=True)).max(axis=0)
    figures = np.minimum(np.array([worst, most.sum(axis=0)]) * (1 + ROUNDING), 1.0)
    return Told(*map(tuple, figures.tolist()))


ROUNDING = 1e-12


def _best_alone(law: JointLaw, cones: Sequence[Cone]) -> Floats:
    """P of the best designs of each attribute alone, together."""
    matrices = []
    for p, cone in zip(law.margins, cones, strict=True):
        # Without contrasts the design of many even categories is not written out.
        found = optimum(p, cone, contrasts=np.eye(p.size))
        assert found.P is not None
        matrices.append(found.P)
    return kron(matrices)


def _noise_alone(law: JointLaw, L: Floats, epsilons: Sequence[float]) -> float:
    """Of the best designs of each attribute alone, together."""
    return noise_of(law.cells, _best_alone(law, [Epsilon(each) for each in epsilons]), L)


def _shared(law: JointLaw, L: Floats, epsilon: float) -> tuple[dict[str, float], float]:
    """The best shares of an epsilon among attributes that are disguised alone, and their noise."""
    from scipy.optimize import minimize_scalar

    d = len(law.shape)
    shares = [epsilon / d] * d
    best = _noise_alone(law, L, shares)
    for _ in range(1 if d == 2 else SWEEPS):
        for i, j in combinations(range(d), 2):
            both = shares[i] + shares[j]

            def noise(first: float, i: int = i, j: int = j, both: float = both) -> float:
                tried = shares.copy()
                tried[i], tried[j] = first, both - first
                return _noise_alone(law, L, tried)

            ends = (both * LEAST_SHARE, both * (1 - LEAST_SHARE))
            found = minimize_scalar(noise, bounds=ends, method="bounded", options={"xatol": 1e-4})
            if found.fun < best:
                shares[i], shares[j] = float(found.x), both - float(found.x)
                best = float(found.fun)
    return dict(zip(law.attributes, shares, strict=True)), best


SWEEPS = 3
"""Over all pairs of attributes, to share an epsilon among three or more."""

LEAST_SHARE = 0.02


def joint_front(
    prior: Any,
    n_records: int,
    *,
    max_posterior: Mapping[str, float] | None = None,
    levels: int = 9,
) -> xr.Dataset:
    """Margins from reports on all attributes against reports on each alone, at equal privacy.

    At each level the attributes alone have their optimal designs, whose guesses are right with
    probabilities between that of no report and the largest posterior, at the same share of the way
    for all.  What all of their reports together reveal about each attribute is the privacy of the
    level, which the joint design keeps.

    Parameters
    ----------
    prior : xarray.DataArray or pandas.Series
        As of :func:`joint_design`.  Beyond 18 cells the joint design is not computed, and the
        limit is the sum of the attributes' own.
    n_records : int
        Reports N.
    max_posterior : mapping of attribute to float, optional
        Largest posteriors by its own report, 1 by default.
    levels : int
        1 or more.

    Returns
    -------
    xarray.Dataset
        Along ``level``: ``mse_alone``, ``mse`` (NaN beyond 18 cells) and ``bound``, which no joint
        design of the same privacy is below: mean variances of the attributes' proportions from N
        reports; and ``gain``, their ratio ``mse_alone / mse``.  Along ``level`` and ``attribute``:
        ``privacy``, how often the best guess from all reports is wrong, ``worst``, their largest
        posterior, and ``privacy_own``, by the attribute's own report alone.

    Raises
    ------
    InputError
        One line: parameter, value, and what would be right.
    """
    import xarray as xr

    law = joint_law(prior)
    n_records = whole("n_records", n_records, 1)
    levels = whole("levels", levels, 1)
    deltas = _deltas(law, max_posterior)
    figures = sum(law.shape)
    rows = []
    for share in np.arange(1, levels + 1) / (levels + 1):
        rows.append(joint_level(law, float(share), deltas))
    scale = {"mse_alone", "mse", "bound"}
    variables: dict[str, Any] = {}
    for name in rows[0]:
        values = np.array([row[name] for row in rows])
        dims = ("level",) if values.ndim == 1 else ("level", "attribute")
        variables[name] = (dims, values / (figures * n_records) if name in scale else values)
    ds = xr.Dataset(variables, {"attribute": list(law.attributes)})
    ds["gain"] = ds["mse_alone"] / ds["mse"]
    return ds.assign_attrs(n_records=n_records, attained=int(law.cells.size <= MOST_CELLS))


def joint_level(law: JointLaw, share: float, deltas: Sequence[float]) -> dict[str, Any]:
    """One level of a front.

    Parameters
    ----------
    law : JointLaw
    share : float
        How far the guesses of the designs alone are on the way from no report to `deltas`.
    deltas : sequence of float
        Largest posteriors by an attribute's own report.

    Returns
    -------
    dict
        The variables of :func:`joint_front`; noise of one report in place of means from N.
    """
    own = [
        Guess(delta, success=float(p.max() + share * (delta - p.max())))
        for p, delta in zip(law.margins, deltas, strict=True)
    ]
    P, L = _best_alone(law, own), law.contrasts("margins")
    private = told(law, P)
    # An attribute's share of any joint report is a report on it alone, as private.
    bound = sum(
        optimum(p, Guess(delta, success=success)).bound
        for p, delta, success in zip(law.margins, private.deltas, private.successes, strict=True)
    )
    noise = math.nan
    if law.cells.size <= MOST_CELLS:
        found = optimum(law.cells, GuessEach(law.shape, *private), contrasts=L)
        noise, bound = found.noise, max(bound, found.bound)
    return {
        "mse_alone": noise_of(law.cells, P, L),
        "mse": noise,
        "bound": bound,
        "privacy": [1 - s for s in private.successes],
        "worst": list(private.deltas),
        "privacy_own": [1 - cone.success for cone in own],
    }
