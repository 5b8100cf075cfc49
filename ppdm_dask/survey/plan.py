"""A plan before the field: how many reports each design needs at a privacy, and what makes it.

The noise V of a design is the variance of one report's estimate, :meth:`ppdm_dask.Design.variance`.
A half-width h at a level takes ``n = z^2 V / h^2`` complete reports; a difference d between two
groups of equal size ``n = 2 (z + z_power)^2 (V_1 + V_2) / d^2``, z two-sided.  n is rounded to the
nearest whole number.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from ppdm_dask.arrays import Floats
from ppdm_dask.designs import Design, design_from_config
from ppdm_dask.distributions import normal_point
from ppdm_dask.errors import InputError, PPDMError
from ppdm_dask.extras import named
from ppdm_dask.faces.face import Face, html_table
from ppdm_dask.faces.listing import Listing
from ppdm_dask.faces.plots import bars
from ppdm_dask.files.fields import check_shares
from ppdm_dask.ranges import real
from ppdm_dask.search.cheapest import (
    Cheapest,
    cheapest_both,
    cheapest_epsilon,
    cheapest_posterior,
    cheapest_trait,
)
from ppdm_dask.search.robust import arranged_design
from ppdm_dask.shown import given, listed, shown
from ppdm_dask.survey.devices import Candidate, Wording, candidates

if TYPE_CHECKING:
    import pandas as pd
    from markupsafe import Markup
    from matplotlib.axes import Axes

__all__ = ["Made", "Plan", "PlannedDesign", "plan"]

SLACK = 1e-9
"""By how much rounding may leave a privacy above its floor."""

LARGEST_EPSILON = 50.0
MOST_SIZES = 64
"""Categories up to which subsets of every size are tried."""


class Need(NamedTuple):
    """Reports that are needed."""

    n: int
    """Complete reports of a simple random sample."""
    complete: int
    """The same, times the design effect."""
    invited: int
    """People to invite, by the share that does not answer."""


@dataclass(frozen=True, repr=False)
class Made(Face):
    """The most precise design that a device can produce with the required privacy.

    Parameters
    ----------
    devices : tuple of str
    odds : dict of str to str
        Probabilities as ratios, by parameter.
    design : Design
    need : Need
    max_posterior, epsilon : float
    times : float or None
        As of :class:`PlannedDesign`.
    text : str
        For respondents.
    recorded : str
        For interviewers.
    """

    devices: tuple[str, ...]
    odds: dict[str, str]
    design: Design
    need: Need
    max_posterior: float
    epsilon: float
    times: float | None
    text: str
    recorded: str

    def _said(self) -> str:
        odds = ", ".join(f"{name} {ratio}" for name, ratio in self.odds.items())
        return f"Made by {', '.join(self.devices)} ({odds}): {self.need.n:,} reports"


@dataclass(frozen=True, repr=False)
class PlannedDesign(Face):
    """One family at the floor.

    Parameters
    ----------
    family : str
    parameters : dict of str to float
    design : Design or None
        None where the family cannot keep the floor; `reason` says why.
    noise : float
        Largest variance of one report's estimate over the categories.
    need : Need or None
    max_posterior, epsilon : float
    times : float or None
        Reports needed over those that the best possible design of the same floor needs; None where
        that is not known.
    made : Made or None
        By devices.
    reason : str
    text, recorded : str
        For respondents and interviewers, where a program makes the reports.
    """

    family: str
    parameters: dict[str, float] = field(default_factory=dict)
    design: Design | None = None
    noise: float = math.nan
    need: Need | None = None
    max_posterior: float = math.nan
    epsilon: float = math.nan
    times: float | None = None
    made: Made | None = None
    reason: str = ""
    text: str = ""
    recorded: str = ""

    def _said(self) -> str:
        if self.need is None:
            return f"PlannedDesign {self.family}: {self.reason}"
        return (
            f"PlannedDesign {self.family}: {self.need.n:,} reports, largest posterior "
            f"{self.max_posterior:.4g}, epsilon {self.epsilon:.4g}"
        )


@dataclass(frozen=True, repr=False)
class Plan(Face):
    """Designs in the order of the number of reports that they need, smallest first.

    Parameters
    ----------
    attribute : str
    prior : dict of str to float
        By label.
    trait : str or None
        The sensitive one of two labels, where the floor on the posterior is for it only.
    settings : dict
        What was asked for.
    rows : tuple of PlannedDesign
    limit : str
        What is known about the best possible design.
    question : str
    """

    attribute: str
    prior: dict[str, float]
    trait: str | None
    settings: dict[str, Any]
    rows: tuple[PlannedDesign, ...]
    limit: str
    question: str

    def __getitem__(self, family: str) -> PlannedDesign:
        for row in self.rows:
            if row.family == family:
                return row
        known = listed(row.family for row in self.rows)
        raise InputError(f"design: got {given(family)}; the plan has {known}", family)

    def choose(self, family: str | None = None) -> PlannedDesign:
        """A family that keeps the floor: by default the one of fewest reports that devices make.

        Those that rule an answer out, whose epsilon is infinite, come last.

        Raises
        ------
        InputError
            If the plan has no such family, or it cannot give the required privacy.
        """
        if family is not None:
            row = self[family]
            if row.design is None:
                raise InputError(f"design: {family} is not possible: {row.reason}", family)
            return row
        rows = [row for row in self.rows if row.design is not None]
        if not rows:
            raise InputError("plan: no design gives this privacy", self)
        return min(rows, key=_preference)

    def to_frame(self) -> pd.DataFrame:
        """A row for each family."""
        whole = ("n", "complete", "invited", "invited_with_devices")
        kinds = dict.fromkeys(whole, "Int64") | {"times_best": float}
        return self._listing().to_frame().astype(kinds)

    def _listing(self) -> Listing:
        rows = [_flat(row) for row in self.rows]
        for row in rows:
            row["times_best"] = math.nan if row["times_best"] is None else row["times_best"]
        columns = {name: [row[name] for row in rows] for name in rows[0]}
        return Listing.of(columns, ("design", columns.pop("design")))

    def to_dict(self) -> dict[str, Any]:
        """Everything as numbers and texts, for JSON; what is infinite or unknown is None."""
        rows = [_flat(row) | {"reason": row.reason, "made": _made(row.made)} for row in self.rows]
        for row, planned in zip(rows, self.rows, strict=True):
            row["config"] = None if planned.design is None else planned.design.config()
        found = {
            "attribute": self.attribute,
            "prior": self.prior,
            "trait": self.trait,
            "settings": self.settings,
            "limit": self.limit,
            "designs": rows,
        }
        plain: dict[str, Any] = _finite(found)
        return plain

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the reports that each design needs, on axes of matplotlib."""
        rows = [row for row in self.rows if row.need is not None]
        needs = [row.need.n for row in rows if row.need is not None]
        return bars(ax, [row.family for row in rows], needs, x="complete reports")

    def _said(self) -> str:
        kept = [row for row in self.rows if row.need is not None]
        first = "none keeps the floor"
        if kept and kept[0].need is not None:
            first = f"{kept[0].family} needs the fewest reports, {kept[0].need.n:,}"
        return f"Plan for {self.attribute}, {len(self.rows)} designs: {first}"

    def _shown(self) -> Iterator[Markup]:
        yield html_table(self._listing())


def _preference(row: PlannedDesign) -> tuple[bool, bool, int]:
    assert row.need is not None
    best = row.need.n if row.made is None else row.made.need.n
    return math.isinf(row.epsilon), row.made is None, best


def _flat(row: PlannedDesign) -> dict[str, Any]:
    need, made = row.need, row.made
    return {
        "design": row.family,
        "parameters": ", ".join(f"{key} = {value:.6g}" for key, value in row.parameters.items()),
        "n": None if need is None else need.n,
        "complete": None if need is None else need.complete,
        "invited": None if need is None else need.invited,
        "max_posterior": row.max_posterior,
        "epsilon": row.epsilon,
        "times_best": row.times,
        "devices": "" if made is None else ", ".join(made.devices),
        "invited_with_devices": None if made is None else made.need.invited,
    }


def _made(made: Made | None) -> dict[str, Any] | None:
    if made is None:
        return None
    found = {key: value for key, value in vars(made).items() if key not in ("design", "need")}
    return found | made.need._asdict() | {"config": made.design.config()}


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


# -- the floor -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Floor:
    """The least privacy: bounds on the posterior and on epsilon, for each of some priors.

    Parameters
    ----------
    priors : tuple of array
    max_posterior : float
        1 for no bound.
    epsilon : float
        Infinite for no bound.
    guarded : int or None
        Place of the category whose posterior is bounded; None for all.
    """

    priors: tuple[Floats, ...]
    max_posterior: float
    epsilon: float
    guarded: int | None

    def posterior(self, design: Design) -> float:
        """Worst posterior of what is guarded."""
        if self.guarded is None:
            return max(design.max_posterior(prior) for prior in self.priors)
        P, worst = design.matrix(), 0.0
        for prior in self.priors:
            law = P @ prior
            possible = law > 0
            joint = P[possible, self.guarded] * prior[self.guarded]
            worst = max(worst, float((joint / law[possible]).max()))
        return worst

    def kept(self, design: Design) -> bool:
        """Whether a design keeps it, to rounding."""
        return bool(
            design.epsilon() <= self.epsilon * (1 + SLACK)
            and self.posterior(design) <= self.max_posterior * (1 + SLACK)
        )


@dataclass(frozen=True)
class Family:
    """Designs along one parameter, less private towards `high`."""

    id: str
    parameter: str
    low: float
    high: float
    fixed: Mapping[str, Any]
    orders: Mapping[str, tuple[str, ...]]
    """Labels of the attribute: a design that names its trait is put into their order."""
    complement: str = ""
    """A second parameter, which is what the first lacks of 1."""

    def at(self, value: float) -> Design:
        """The design with that parameter."""
        config = {"id": self.id, **self.fixed, self.parameter: value}
        if self.complement:
            config[self.complement] = 1 - value
        return design_from_config(config).in_order(self.orders)


def _families(
    attribute: str, labels: Sequence[str], trait: str | None
) -> Iterator[tuple[str, list[Family]]]:
    """Families by id; several of one id differ by a whole number, and the best of them counts."""
    k, base = len(labels), {"attribute": attribute}
    orders = {attribute: tuple(labels)}
    even = dict.fromkeys(labels, f"1/{k}")
    if trait is not None:
        named = {**base, "trait": trait}
        yield "warner", [Family("warner", "theta", 0.5, 1.0, base, orders)]
        yield "crosswise", [Family("crosswise", "p", 0.5, 1.0, base, orders)]
        yield "kuk", [Family("kuk", "p1", 0.5, 1.0, named, orders, "p2")]
        yield "mangat", [Family("mangat", "p", 0.0, 1.0, named, orders)]
        yield "triangular", [Family("triangular", "p", 1.0, 0.0, named, orders)]
    else:
        sized = {**base, "n": k}
        yield "kary", [Family("kary", "p", 1 / k, 1.0, sized, orders)]
        yield "unary", [Family("unary", "epsilon", 0.0, LARGEST_EPSILON, sized, orders)]
        some = (1, *(k // part for part in (20, 10, 5, 3, 2)))
        sizes = range(1, k // 2 + 1) if k <= MOST_SIZES else some
        subsets = [Family("subset", "p", s / k, 1.0, {**sized, "size": s}, orders) for s in sizes]
        yield "subset", subsets
    yield "forced", [Family("forced", "truth", 0.0, 1.0, {**base, "forced": even}, orders)]
    mixed = {"attributes": attribute, "w_y": even}
    yield "unrelated", [Family("unrelated", "q", 0.0, 1.0, mixed, orders)]


def _at_floor(family: Family, floor: Floor) -> tuple[float, Design] | None:
    """The least private member that keeps the floor; None where only useless ones do."""
    if floor.kept(family.at(family.high)):
        return family.high, family.at(family.high)
    low, high = family.low, family.high
    for _ in range(50):
        middle = (low + high) / 2
        if floor.kept(family.at(middle)):
            low = middle
        else:
            high = middle
    # Six digits are what a file should say, and what a device could make.
    tidy = round(low, 6)
    if not floor.kept(family.at(tidy)):
        tidy = round(low - math.copysign(5e-7, family.high - family.low), 6)
    if abs(tidy - family.low) < 1e-5:
        return None
    found = family.at(tidy)
    return None if found.undefined else (tidy, found)


# -- numbers ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Wanted:
    """Turns noise into reports."""

    prior: Floats
    other: Floats | None
    z: float
    size: float
    design_effect: float
    nonresponse: float

    def noise(self, design: Design) -> float:
        """Largest variance over the categories."""
        return float(design.variance(self.prior).max())

    def need(self, design: Design) -> Need:
        """Reports for a design."""
        V = self.noise(design)
        if self.other is not None:
            V = 2 * (V + float(design.variance(self.other).max()))
        n = self.z**2 * V / self.size**2
        complete = n * self.design_effect
        # A little less than half a report too few widens an interval by 1 in 4 n.
        counts = (n, complete, complete / (1 - self.nonresponse))
        return Need(*(max(1, math.floor(count + 0.5)) for count in counts))


def plan(
    prior: float | Mapping[str, float],
    *,
    half_width: float | None = None,
    difference: float | None = None,
    level: float = 0.95,
    power: float = 0.8,
    max_posterior: float | None = None,
    epsilon: float | None = None,
    guard: Literal["trait", "all"] | None = None,
    trait: str | None = None,
    design_effect: float = 1.0,
    nonresponse: float = 0.0,
    attribute: str = "answer",
    question: str | None = None,
    wording: str | Path | None = None,
) -> Plan:
    r"""Compare designs before the field: reports needed, privacy, devices, and the best possible.

    With V the largest variance of one report's estimate of a category, a half-width h, or else a
    difference d between two groups of equal size with z' for the power, takes

    .. math:: n = \frac{z^2 V}{h^2}, \qquad n = \frac{2 (z + z')^2 (V_1 + V_2)}{d^2}

    Parameters
    ----------
    prior : float or mapping of label to float
        Guessed proportions: of the sensitive answer ``yes``, the other being ``no``; or of each
        category.
    half_width : float, optional
        Wanted half-width of the interval of every proportion, in (0, 1).
    difference : float, optional
        In place of it, of two categories: the difference of the sensitive answer between two groups
        of equal size that a two-sided test is to find.
    level, power : float
        Of the interval or test, and of the test.
    max_posterior, epsilon : float, optional
        The privacy floor, one of them or both: no report makes a guarded answer likelier than the
        first; none is more than ``e^epsilon`` times likelier for one answer than for another.
    guard : {"trait", "all"}, optional
        Which answers ``max_posterior`` guards: the sensitive one of two by default, else all.
    trait : str, optional
        The sensitive one of two labels; ``yes`` by default, if there is one.
    design_effect : float
        Of clusters and weights, above 0.
    nonresponse : float
        Share of the invited who give no report, in [0, 1).
    attribute : str
    question : str, optional
        As people are asked, for the texts; of two answers, one to which the trait is *yes*.
    wording : path, optional
        TOML with texts in another language.

    Returns
    -------
    Plan

    Raises
    ------
    InputError
        One line: parameter, value, and what would be right.

    Examples
    --------
    >>> import math
    >>> import ppdm_dask as pp
    >>> found = pp.plan(0.1, half_width=0.03, epsilon=math.log(4))
    >>> found["warner"].parameters, found["warner"].need.n
    ({'theta': 0.8}, 2281)
    """
    labels, p, trait = _prior(prior, trait)
    two = trait is not None
    if (half_width is None) == (difference is None):
        raise InputError("half_width, difference: exactly one of the two is needed", half_width)
    if max_posterior is None and epsilon is None:
        raise InputError("max_posterior, epsilon: a privacy floor is needed, one or both", None)
    level = real("level", level, 0, 1, open_ends=True)
    power = real("power", power, 0, 1, open_ends=True)
    design_effect = real("design_effect", design_effect, 0, open_ends=True)
    nonresponse = real("nonresponse", nonresponse, 0, 1)
    if nonresponse == 1:
        raise InputError("nonresponse: got 1; a share below 1 is needed", nonresponse)
    if guard not in (None, "trait", "all") or (guard == "trait" and not two):
        right = "trait or all" if two else "all, as there are more than two categories,"
        raise InputError(f"guard: got {given(guard)}; {right} is needed", guard)
    z, size, other = _wanted(half_width, difference, level, power, labels, p, trait)
    priors = (p,) if other is None else (p, other)
    guarded = labels.index(trait) if trait is not None and guard != "all" else None
    most = 1.0
    if max_posterior is not None:
        most = real("max_posterior", max_posterior, 0, 1)
        least = max(float(q.max() if guarded is None else q[guarded]) for q in priors)
        if not most > least:
            hint = "" if guarded is not None or not two else "; or guard the trait only"
            raise InputError(
                f"max_posterior: got {most:g}; a number above {least:g}, which is known without "
                f"any report, is needed{hint}",
                max_posterior,
            )
    bound = math.inf if epsilon is None else real("epsilon", epsilon, 0, open_ends=True)
    floor = Floor(priors, most, bound, guarded)
    wanted = Wanted(p, other, z, size, design_effect, nonresponse)
    words = Wording(wording)
    asked = f"({attribute}?)" if question is None else question
    values = {"question": asked, "trait": trait, "other": _other(labels, trait)}
    with named("plan"):
        limit, best, known = _best(floor, attribute, labels)
    rows = []
    for name, members in _families(attribute, labels, trait):
        made = _devices(name, attribute, labels, trait, floor, wanted, words, values, limit)
        rows.append(replace(_planned(name, members, floor, wanted, limit), made=made))
    if best is not None:
        rows.append(_row("matrix", {}, best, floor, wanted, limit))
    text = words.for_respondents("program", values)
    recorded = words.for_interviewers("program", values, device=False)
    rows = [replace(row, text=text, recorded=recorded) for row in rows]
    rows.sort(key=lambda row: math.inf if row.need is None else row.need.n)
    settings = {
        "half_width": half_width,
        "difference": difference,
        "level": level,
        "power": power if difference is not None else None,
        "max_posterior": max_posterior,
        "epsilon": epsilon,
        "guard": "all" if guarded is None else "trait",
        "design_effect": design_effect,
        "nonresponse": nonresponse,
    }
    shares = dict(zip(labels, p.tolist(), strict=True))
    return Plan(attribute, shares, trait, settings, tuple(rows), known, asked)


def _prior(
    prior: float | Mapping[str, float], trait: str | None
) -> tuple[list[str], Floats, str | None]:
    """Labels, proportions and the sensitive one of two labels."""
    if isinstance(prior, Mapping):
        check_shares("prior", prior)
        total = math.fsum(prior.values())
        if len(prior) < 2 or abs(total - 1) > 1e-9:
            raise InputError(
                f"prior: {len(prior)} proportions with sum {total:.6g}; two or more with sum 1 are "
                "needed",
                prior,
            )
        labels, shares = list(map(str, prior)), [float(share) for share in prior.values()]
    else:
        share = real("prior", prior, 0, 1, open_ends=True)
        named = "yes" if trait is None else trait
        other = "no" if named == "yes" else f"not {named}"
        labels, shares, trait = [other, named], [1 - share, share], named
    p = np.array(shares)
    if p.min() < 1e-6:
        label = labels[int(p.argmin())]
        raise InputError(
            f"prior: {shown(label)} has {p.min():g}; 1e-06 or more is needed, so leave it out or "
            "merge it",
            prior,
        )
    if len(labels) > 2:
        if trait is not None:
            raise InputError(f"trait: got {given(trait)}; only one of two labels can be it", trait)
        return labels, p, None
    chosen = "yes" if trait is None and "yes" in labels else trait
    if chosen not in labels:
        raise InputError(
            f"trait: got {given(trait) if trait is not None else 'none'}; the sensitive answer is "
            f"needed, one of {listed(labels)}",
            trait,
        )
    return labels, p, chosen


def _other(labels: Sequence[str], trait: str | None) -> str:
    return next((label for label in labels if label != trait), "")


def _wanted(
    half_width: float | None,
    difference: float | None,
    level: float,
    power: float,
    labels: Sequence[str],
    p: Floats,
    trait: str | None,
) -> tuple[float, float, Floats | None]:
    """z, the width that it is for, and the proportions of the second group."""
    z = normal_point((1 + level) / 2)
    if difference is None:
        return z, real("half_width", half_width, 0, 1, open_ends=True), None
    if trait is None:
        raise InputError("difference: planned for two categories; merge them", difference)
    at = labels.index(trait)
    room = (-float(p[at]), 1 - float(p[at]))
    d = real("difference", difference, *room, open_ends=True)
    if not d:
        raise InputError("difference: got 0; a difference to be found is needed", difference)
    other = np.empty(2)
    other[at] = p[at] + d
    other[1 - at] = 1 - other[at]
    return z + normal_point(power), d, other


def _best(
    floor: Floor, attribute: str, labels: list[str]
) -> tuple[float | None, Design | None, str]:
    """Noise of the best possible design, the design, and what is known, in a sentence."""
    p, found, known = floor.priors[0], [], []
    n_floors = (floor.max_posterior < 1) + math.isfinite(floor.epsilon)
    try:
        if n_floors > 1 and floor.guarded is None:
            both = cheapest_both(p, floor.epsilon, floor.max_posterior)
            if both is not None:
                found.append(both)
                known.append("both bounds")
        if not found and floor.max_posterior < 1:
            found.append(_best_posterior(p, floor))
            known.append("that bound on the posterior")
        if known != ["both bounds"] and math.isfinite(floor.epsilon):
            cheapest = cheapest_epsilon(p, floor.epsilon)
            if cheapest is not None:
                found.append(cheapest)
                known.append("that epsilon")
    except (PPDMError, OverflowError):
        found = found[: len(known)]
    if not found:
        return None, None, "the best possible design is not known at this floor"
    noise = max(each.noise for each in found)
    designs = []
    for each in found:
        if each.P is None:
            continue
        design = arranged_design(each.P, p, attribute, labels)
        if floor.kept(design):
            designs.append(design)
    best = min(designs, key=lambda d: float(d.variance(p).sum()), default=None)
    text = f"it is certified that no design with {' or with '.join(known)} needs fewer reports"
    if n_floors > 1 and known != ["both bounds"]:
        text += "; with both bounds the least possible may be more"
    return noise, best, text


def _best_posterior(p: Floats, floor: Floor) -> Cheapest:
    if floor.guarded is None:
        return cheapest_posterior(p, floor.max_posterior)
    found = cheapest_trait(float(p[floor.guarded]), floor.max_posterior)
    assert found.P is not None
    return found if floor.guarded == 1 else Cheapest(found.noise, found.P[::-1, ::-1])


def _row(
    name: str,
    parameters: dict[str, float],
    design: Design,
    floor: Floor,
    wanted: Wanted,
    limit: float | None,
) -> PlannedDesign:
    return PlannedDesign(
        name,
        parameters,
        design,
        wanted.noise(design),
        wanted.need(design),
        floor.posterior(design),
        design.epsilon(),
        _times(design, wanted.prior, limit),
    )


def _times(design: Design, prior: Floats, limit: float | None) -> float | None:
    """Reports over those of the best possible design, for equal mean squared errors."""
    return None if limit is None else math.fsum(design.variance(prior)) / limit


def _planned(
    name: str, members: Sequence[Family], floor: Floor, wanted: Wanted, limit: float | None
) -> PlannedDesign:
    found = []
    for family in members:
        at = _at_floor(family, floor)
        if at is not None:
            value, design = at
            parameters = {family.parameter: value}
            if name == "subset":
                parameters["size"] = design.config()["size"]
            found.append(_row(name, parameters, design, floor, wanted, limit))
    if not found:
        sided = math.isfinite(floor.epsilon) and name in ("mangat", "triangular")
        reason = "epsilon is infinite" if sided else "no parameter keeps the floor"
        return PlannedDesign(name, reason=reason)
    return min(found, key=lambda row: row.noise)


def _devices(
    name: str,
    attribute: str,
    labels: Sequence[str],
    trait: str | None,
    floor: Floor,
    wanted: Wanted,
    words: Wording,
    values: Mapping[str, Any],
    limit: float | None,
) -> Made | None:
    """The most precise design that devices make and that keeps the floor."""
    best: tuple[float, Candidate, Design] | None = None
    for candidate in candidates(name, attribute, labels, trait, words):
        design = design_from_config(candidate.config).in_order({attribute: tuple(labels)})
        if design.undefined or not floor.kept(design):
            continue
        noise = wanted.noise(design)
        # Of equal ones the first: it has the plainest device.
        if best is None or noise < best[0] * (1 - SLACK):
            best = noise, candidate, design
    if best is None:
        return None
    _, candidate, design = best
    filled = {**values, **candidate.values}
    return Made(
        candidate.devices,
        {key: str(value) for key, value in candidate.odds.items()},
        design,
        wanted.need(design),
        floor.posterior(design),
        design.epsilon(),
        _times(design, wanted.prior, limit),
        words.for_respondents(name, filled),
        words.for_interviewers(name, filled, device=True),
    )
