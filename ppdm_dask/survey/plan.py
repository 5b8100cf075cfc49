"""Before the field: which design, how many reports, and what a report gives away.

One report's weight of a category has variance ``V = E[w^2] - p^2``, so an estimate from n reports
has a half-width of ``z sqrt(V / n)``.  Each family is taken at the strongest disclosure that the
privacy floor allows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ppdm_dask.arrays import Floats
from ppdm_dask.designs import (
    Design,
    KaryResponse,
    RRMatrix,
    SubsetSelection,
    UnaryEncoding,
    UnrelatedQuestion,
    Warner,
)
from ppdm_dask.designs.forced import ForcedResponse
from ppdm_dask.designs.kary import Crosswise
from ppdm_dask.designs.onesided import Mangat, Triangular
from ppdm_dask.errors import InputError
from ppdm_dask.inference.uncertainty import normal_quantile
from ppdm_dask.ranges import real
from ppdm_dask.search.bound import Designer
from ppdm_dask.search.problem import Problem
from ppdm_dask.shown import given, listed
from ppdm_dask.survey.devices import Instruction, devices_of
from ppdm_dask.survey.planned import Goal, Option, Plan, posterior

if TYPE_CHECKING:
    pass

__all__ = ["plan"]

MOST_SETS = 12
"""Categories up to which designs that report sets are planned: their matrix has 2^k rows."""

STEPS = 60
"""Halvings of a parameter's range."""


def plan(
    prior: float | Mapping[str, float] | npt.ArrayLike,
    *,
    half_width: float | None = None,
    difference: float | None = None,
    power: float = 0.8,
    level: float = 0.95,
    max_posterior: float | None = None,
    epsilon: float | None = None,
    sensitive: str | None = None,
    design_effect: float = 1.0,
    response: float = 1.0,
    attribute: str = "answer",
    question: str | None = None,
) -> Plan:
    """Plan a survey: for each family of designs its parameter, how many reports, and its price.

    Parameters
    ----------
    prior : float, or mapping of label to float, or array
        A guess of the prevalence of "yes", in (0, 1); or of all categories, which sum to 1.
    half_width : float, optional
        Wanted for the interval of every category; or
    difference : float, optional
        a difference between two groups of equal size that is to be found with some `power`.
    power, level : float
        In (0, 1).
    max_posterior : float, optional
        The privacy floor: no report makes a category more probable than this; or
    epsilon : float, optional
        no report is ``exp(epsilon)`` times likelier for one answer than for another.
    sensitive : str, optional
        The category whose posterior counts; "yes" where the prior is one number, else every one.
    design_effect : float
        1 or more.
    response : float
        Share of the people asked who report, in (0, 1].
    attribute, question : str
        For the design file and the protocol.

    Returns
    -------
    Plan

    Raises
    ------
    InputError
        One line: parameter, value, and what would be right; also where no design meets the floor.

    Examples
    --------
    >>> found = plan(0.1, half_width=0.03, epsilon=1.3862944)
    >>> found.option("warner").parameters, found.option("warner").reports
    ('theta = 0.8', 2281)
    """
    labels, p = _prior(prior)
    asked = question or f"Is it true of you: {attribute}?"
    if sensitive is None and isinstance(prior, float | int):
        sensitive = "yes"
    if sensitive is not None and sensitive not in labels:
        raise InputError(f"sensitive: got {given(sensitive)}; labels: {listed(labels)}", sensitive)
    goal = Goal(
        half_width=half_width,
        difference=difference,
        power=power,
        level=level,
        design_effect=design_effect,
        response=response,
        max_posterior=max_posterior,
        epsilon=epsilon,
        sensitive=sensitive,
    )
    at = None if sensitive is None else labels.index(sensitive)
    _require_room(goal, p, at, labels)
    survey = _Survey(attribute, labels, p, goal, at, sensitive or labels[-1])
    found, left_out = [], {}
    for family, make in FAMILIES.items():
        try:
            option = survey.computed(family, make)
        except _NotHere as why:
            left_out[family] = str(why)
            continue
        found.append(option)
    best = survey.best()
    if best is not None:
        found.append(survey.option("matrix", best, "as the search found it"))
    found.sort(key=lambda option: option.reports)
    made = [each for option in found if (each := survey.in_the_field(option.family, asked))]
    made.sort(key=lambda option: option.reports)
    named = dict(zip(labels, map(float, p), strict=True))
    return Plan(attribute, asked, named, goal, tuple(found), tuple(made), left_out)


def _prior(prior: Any) -> tuple[tuple[str, ...], Floats]:
    """Labels and proportions."""
    if isinstance(prior, float | int) and not isinstance(prior, bool):
        share = real("prior", prior, 0, 1, open_ends=True)
        return ("no", "yes"), np.array([1 - share, share])
    if isinstance(prior, Mapping):
        labels, shares = tuple(map(str, prior)), list(prior.values())
    else:
        shares = list(np.ravel(prior))
        labels = tuple(map(str, range(len(shares))))
    try:
        p = np.array(shares, float)
    except (TypeError, ValueError):
        p = np.zeros(0)
    if len(p) < 2 or not (p > 0).all() or abs(p.sum() - 1) > 1e-9:
        raise InputError(
            "prior: two or more proportions above 0 that sum to 1 are needed, or one prevalence",
            prior,
        )
    return labels, p


def _require_room(goal: Goal, p: Floats, at: int | None, labels: tuple[str, ...]) -> None:
    """Raise InputError where reports that say nothing are beyond the floor already."""
    if goal.max_posterior is None:
        return
    most = int(np.argmax(p)) if at is None else at
    if goal.max_posterior <= p[most] + 1e-4:
        raise InputError(
            f"max_posterior: got {goal.max_posterior:g}; without any report {labels[most]!r} has "
            f"{p[most]:.4g}: a larger one is needed, or `sensitive`, a category that is rarer",
            goal.max_posterior,
        )


class _NotHere(Exception):
    """Why a family does not serve."""


@dataclass(frozen=True)
class _Survey:
    """What all families are asked for."""

    attribute: str
    labels: tuple[str, ...]
    p: Floats
    goal: Goal
    at: int | None
    trait: str

    def computed(self, family: str, make: Maker) -> Option:
        """The family at the parameter where it just meets the floor."""
        build = make(self)
        if isinstance(build, str):
            raise _NotHere(build)
        low, high = 0.0, 1.0
        if not self._meets(build, 1e-6):
            raise _NotHere("discloses more than the floor at every parameter")
        if self._meets(build, 1.0):
            low = high
        for _ in range(STEPS):
            middle = (low + high) / 2
            if middle > 0 and self._meets(build, middle):
                low = middle
            else:
                high = middle
        # Downwards to what a person would write.
        for digits in range(3, 17):
            shorter = math.floor(low * 10**digits + 1e-6) / 10**digits
            if low - shorter <= 1e-4 * max(1 - low, low) and self._meets(build, shorter):
                low = shorter
                break
        design = build(low)
        return self.option(family, design, _stated(design))

    def _meets(self, build: Callable[[float], Design], x: float) -> bool:
        design = build(x)
        return not design.undefined and self.goal.met(design, self.p, self.at)

    def option(
        self, family: str, design: Design, parameters: str, device: Instruction | None = None
    ) -> Option:
        variances = design.variance(self.p)
        worst = float(variances.max())
        reports = self.goal.reports(worst)
        least = self._least
        ratio = None if least is None else max(1.0, float(variances.sum()) / least)
        z, n = normal_quantile(self.goal.level), reports / self.goal.design_effect
        return Option(
            family,
            parameters,
            design,
            reports,
            self.goal.invited(reports),
            worst,
            posterior(design, self.p, self.at),
            design.epsilon(),
            ratio,
            z * math.sqrt(worst / n),
            device,
        )

    @cached_property
    def _least(self) -> float | None:
        """Sum of the variances of the best design; None where it is not known."""
        return _least(self)

    def best(self) -> Design | None:
        """The optimal matrix of the search, where there is one beyond the families."""
        goal = self.goal
        if goal.max_posterior is None or self.at is not None or len(self.p) > 18:
            return None
        level = _designer(self).solve(goal.max_posterior)
        return RRMatrix(self.attribute, level.matrix(self.p), p0=self.p, categories=self.labels)

    def in_the_field(self, family: str, question: str) -> Option | None:
        """The device that needs fewest reports among those that meet the floor."""
        found: list[Option] = []
        for each in devices_of(family, self.attribute, self.labels, self.trait, question):
            design = each.design
            if design.undefined or not self.goal.met(design, self.p, self.at):
                continue
            stated = ", ".join(f"{name} = {value}" for name, value in each.probabilities.items())
            found.append(self.option(family, design, stated, each))

        # Of a device and its opposite the one whose event is the likelier reads more naturally.
        def order(option: Option) -> tuple[int, float]:
            assert option.device is not None
            return option.reports, -float(max(option.device.probabilities.values()))

        return min(found, key=order, default=None)


def _designer(survey: _Survey) -> Designer:
    assert survey.goal.max_posterior is not None
    return Designer(Problem(survey.p, 1, survey.goal.max_posterior))


def _least(survey: _Survey) -> float | None:
    """Least sum of variances that the floor allows.

    With a bound on every posterior it is the certified limit of the search.  For two categories the
    designs of the two extremal kinds of reports are the only candidates: Warner's under epsilon,
    Mangat's where the posterior of one category alone is bounded.
    """
    goal, p = survey.goal, survey.p
    if goal.max_posterior is not None and survey.at is None:
        if len(p) > 18:
            return None
        level = _designer(survey).solve(goal.max_posterior)
        certificate = level.certificate
        beyond = certificate.beyond(np.array([goal.max_posterior]))[0] + certificate.known
        return float(beyond) - math.fsum(p**2)
    if len(p) != 2:
        return None
    if goal.epsilon is not None:
        theta = 1 / (1 + math.exp(-goal.epsilon))
        return float(Warner(survey.attribute, theta).variance(p).sum())
    assert goal.max_posterior is not None and survey.at is not None
    own = p[survey.at]
    ratio = goal.max_posterior * (1 - own) / ((1 - goal.max_posterior) * own)
    one_sided = np.array([[1 - 1 / ratio, 0.0], [1 / ratio, 1.0]])
    order = [1, 0] if survey.at == 0 else [0, 1]
    best = RRMatrix(survey.attribute, one_sided[:, order])
    return float(best.variance(p).sum())


def _stated(design: Design) -> str:
    """Parameters that say how much is disclosed, in a few words."""
    config = design.config()
    shown = {
        key: value
        for key, value in config.items()
        if key in ("theta", "p", "q", "truth", "size", "epsilon")
    }
    return ", ".join(f"{key} = {value:.6g}" for key, value in shown.items())


Maker = Callable[[_Survey], Callable[[float], Design] | str]
"""Design of a survey at a share in [0, 1] of what can be disclosed, or why there is none."""


def _binary(make: Callable[[_Survey, float], Design]) -> Maker:
    def maker(survey: _Survey) -> Callable[[float], Design] | str:
        if len(survey.labels) != 2:
            return "is for two categories"
        return lambda x: make(survey, x)

    return maker


def _sets(make: Callable[[_Survey, float], Design]) -> Maker:
    def maker(survey: _Survey) -> Callable[[float], Design] | str:
        k = len(survey.labels)
        if not 2 < k <= MOST_SETS:
            return f"is planned for 3 to {MOST_SETS} categories"
        return lambda x: make(survey, x)

    return maker


FAMILIES: dict[str, Maker] = {
    "warner": _binary(lambda s, x: Warner(s.attribute, (1 + x) / 2)),
    "crosswise": _binary(lambda s, x: Crosswise(s.attribute, (1 - x) / 2)),
    "unrelated": _binary(lambda s, x: UnrelatedQuestion(s.attribute, x)),
    "forced": _binary(lambda s, x: ForcedResponse(s.attribute, x, [0.5, 0.5])),
    "triangular": _binary(lambda s, x: Triangular(s.attribute, 1 - x, s.trait, s.labels)),
    "mangat": _binary(lambda s, x: Mangat(s.attribute, x, s.trait, s.labels)),
    "kary": lambda s: (
        "is Warner's design where there are two categories"
        if len(s.labels) == 2
        else lambda x: KaryResponse(s.attribute, len(s.labels), q=x)
    ),
    "subset": _sets(lambda s, x: SubsetSelection(s.attribute, len(s.labels), epsilon=20 * x)),
    "unary": _sets(lambda s, x: UnaryEncoding(s.attribute, len(s.labels), epsilon=20 * x)),
}
"""By family; a further one is a line here."""
