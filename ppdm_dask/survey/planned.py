"""What a plan holds: the goal, the designs that meet it, and the protocol that says so."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ppdm_dask.arrays import Floats
from ppdm_dask.designs import Design, write_design
from ppdm_dask.errors import InputError
from ppdm_dask.files.writing import write_text
from ppdm_dask.inference.uncertainty import normal_quantile
from ppdm_dask.ranges import real
from ppdm_dask.shown import given, listed
from ppdm_dask.survey.devices import Instruction

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Goal", "Option", "Plan", "posterior"]

WITHIN = 1e-9
"""How far beyond the floor rounding may lead."""


@dataclass(frozen=True)
class Goal:
    """What the survey is for, and what it meets.

    Parameters
    ----------
    half_width : float, optional
        Of the interval of every category, at `level`.
    difference : float, optional
        In place of it: a difference between two groups of equal size that is to be found.
    power : float
        Probability of finding it.
    level : float
        Of intervals; of a test 1 - level is the size.
    design_effect : float
        By which clusters and weights make a variance larger than that of a random sample.
    response : float
        Share of the people asked who report.
    max_posterior, epsilon : float, optional
        The privacy floor; exactly one of them.
    sensitive : str, optional
        The category whose posterior counts; by default that of every category.
    """

    half_width: float | None = None
    difference: float | None = None
    power: float = 0.8
    level: float = 0.95
    design_effect: float = 1.0
    response: float = 1.0
    max_posterior: float | None = None
    epsilon: float | None = None
    sensitive: str | None = None

    def __post_init__(self) -> None:
        for pair in (("half_width", "difference"), ("max_posterior", "epsilon")):
            if sum(getattr(self, name) is not None for name in pair) != 1:
                raise InputError(f"{' or '.join(pair)}: exactly one of them is needed", self)
        for name in ("half_width", "difference", "power", "level", "max_posterior"):
            if getattr(self, name) is not None:
                real(name, getattr(self, name), 0, 1, open_ends=True)
        real("response", self.response, 0, 1)
        if not self.response:
            raise InputError("response: got 0; a share above 0 is needed", self.response)
        if not 1 <= self.design_effect < math.inf:
            got = given(self.design_effect)
            raise InputError(f"design_effect: got {got}; 1 or more is needed", self.design_effect)
        if self.epsilon is not None and not 0 < self.epsilon < math.inf:
            raise InputError(f"epsilon: got {given(self.epsilon)}; above 0 is needed", self.epsilon)

    def reports(self, variance: float) -> int:
        """Reports that are needed where a report's weight has a variance; in all groups together.

        To the nearest whole number, which changes a half-width by less than 1 in 2 n.
        """
        z = normal_quantile(self.level)
        if self.half_width is not None:
            n = z**2 * variance / self.half_width**2
        else:
            assert self.difference is not None
            sure = 2 * self.power - 1
            both = z + math.copysign(normal_quantile(abs(sure)), sure) if sure else z
            n = 2 * both**2 * 2 * variance / self.difference**2
        return max(2, round(n * self.design_effect))

    def invited(self, reports: int) -> int:
        """People to ask for so many reports."""
        return math.ceil(reports / self.response - 1e-9)

    def met(self, design: Design, prior: Floats, at: int | None) -> bool:
        """Whether a design discloses no more than the floor."""
        if self.epsilon is not None:
            return design.epsilon() <= self.epsilon * (1 + WITHIN)
        assert self.max_posterior is not None
        return posterior(design, prior, at) <= self.max_posterior + WITHIN


def posterior(design: Design, prior: Floats, at: int | None) -> float:
    """Largest posterior of one category, or of any."""
    if at is None:
        return design.worst_posterior(prior)
    joint = design.matrix() * prior
    total = joint.sum(axis=1)
    return float((joint[total > 0, at] / total[total > 0]).max())


@dataclass(frozen=True, eq=False)
class Option:
    """One design that meets the floor.

    Parameters
    ----------
    family : str
    parameters : str
        As the design states them.
    design : Design
    reports, invited : int
        Reports that are needed, and people to ask for them.
    variance : float
        Of one report's weight: the largest over the categories.
    max_posterior, epsilon : float
        What a report gives away; epsilon may be infinite.
    ratio : float or None
        Mean squared error over that of the best design with the same floor: how many times as many
        reports it needs.  None where the best is not known.
    half_width : float
        Of the intervals, with these reports.
    device : Instruction or None
        Nearest device that discloses no more, with its own design.
    """

    family: str
    parameters: str
    design: Design
    reports: int
    invited: int
    variance: float
    max_posterior: float
    epsilon: float
    ratio: float | None
    half_width: float
    device: Instruction | None = None

    def row(self) -> dict[str, Any]:
        """Its figures, as a table and JSON have them."""
        return {
            "design": self.family,
            "parameters": self.parameters,
            "reports": self.reports,
            "invited": self.invited,
            "half_width": self.half_width,
            "max_posterior": self.max_posterior,
            "epsilon": self.epsilon,
            "times_the_best": self.ratio,
            "device": None if self.device is None else self.device.device,
        }


@dataclass(frozen=True, eq=False)
class Plan:
    """Designs that meet a privacy floor, by how few reports they need.

    Parameters
    ----------
    attribute : str
    question : str
    prior : mapping of label to float
        What is guessed before the survey.
    goal : Goal
    options : tuple of Option
        As computed; the fewest reports first.
    made : tuple of Option
        The same families as devices of the field make them, and their designs.
    left_out : mapping of family to str
        Why a family is not among them.
    """

    attribute: str
    question: str
    prior: Mapping[str, float]
    goal: Goal
    options: tuple[Option, ...]
    made: tuple[Option, ...]
    left_out: Mapping[str, str]

    def option(self, family: str, *, device: bool = False) -> Option:
        """The option of a family, or as a device makes it.

        Raises
        ------
        InputError
            If there is none.
        """
        among = self.made if device else self.options
        for option in among:
            if option.family == family:
                return option
        why = self.left_out.get(family, "")
        there = listed([option.family for option in among])
        raise InputError(
            f"choose: got {given(family)}{': ' if why else ''}{why}; there are {there}", family
        )

    def to_frame(self) -> pd.DataFrame:
        """A row an option: those computed, then those of devices."""
        import pandas as pd

        return pd.DataFrame([option.row() for option in (*self.options, *self.made)])

    def as_json(self) -> dict[str, Any]:
        """The plan as JSON values."""
        rows = [
            [
                {k: "infinite" if v == math.inf else v for k, v in option.row().items()}
                for option in options
            ]
            for options in (self.options, self.made)
        ]
        return {
            "attribute": self.attribute,
            "prior": dict(self.prior),
            "options": rows[0],
            "devices": rows[1],
            "left_out": dict(self.left_out),
        }

    def __repr__(self) -> str:
        columns = ["design", "parameters", "reports", "invited", "times_the_best", "device"]
        frame = self.to_frame()[columns].fillna("").to_string(index=False, float_format="%.3g")
        return f"plan for {self.attribute}\n{frame}"

    def protocol(self, option: Option) -> str:
        """One page of text for a preregistration: what is asked, how, of how many people."""
        return text_of(self, option)

    def write(self, folder: str | Path, option: Option) -> tuple[Path, ...]:
        """Write the design and the protocol: ``design.toml``, ``protocol.txt``, ``protocol.html``.

        Parameters
        ----------
        folder : path
            Made if it is not there.
        option : Option
        """
        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        design = option.design
        write_design(design, place / "design.toml", f"{self.attribute}: {option.parameters}")
        write_text(place / "protocol.txt", text_of(self, option))
        write_text(place / "protocol.html", page_of(self, option))
        names = ("design.toml", "protocol.txt", "protocol.html")
        return tuple(place / name for name in names)


WIDTH = 88

Section = tuple[str, list[str]]
"""A heading, and its paragraphs."""


def _sections(plan: Plan, option: Option) -> list[Section]:
    goal, device = plan.goal, option.device
    guess = ", ".join(f"{label} {100 * share:.3g} %" for label, share in plan.prior.items())
    aim = (
        f"a {100 * goal.level:.3g} % interval of ± {100 * goal.half_width:.3g} percentage points "
        "for every category"
        if goal.half_width is not None
        else f"to find a difference of {100 * (goal.difference or 0):.3g} percentage points "
        f"between two groups of equal size with power {100 * goal.power:.3g} % at level "
        f"{100 * (1 - goal.level):.3g} %"
    )
    size = [
        f"Aim: {aim}. Guessed beforehand: {guess}.",
        f"{option.reports:,} reports are needed; {option.invited:,} people are asked "
        f"(response {100 * goal.response:.3g} %, design effect {goal.design_effect:.3g}).",
    ]
    if option.ratio is not None:
        size.append(
            f"That is {option.ratio:.3g} times what the best design of the same privacy needs."
            if option.ratio > 1.005
            else "No design of the same privacy needs fewer reports."
        )
    of = "any answer" if goal.sensitive is None else f"“{goal.sensitive}”"
    ratio = (
        f"A report is at most {math.exp(option.epsilon):.4g} times likelier for one answer than "
        f"for another (epsilon {option.epsilon:.4g})."
        if math.isfinite(option.epsilon)
        else "Some reports rule an answer out (epsilon is infinite)."
    )
    privacy = [
        f"After a report {of} has a probability of at most {100 * option.max_posterior:.3g} %, "
        "where the guess holds.",
        ratio,
    ]
    asked = (
        device.text
        if device is not None
        else f"{plan.question} The answer is disguised on the respondent's own device, before it "
        "is sent."
    )
    rule = ", ".join(f"{name} = {value}" for name, value in _rule(option).items())
    design = [
        f"{option.family}: {rule}" if rule else option.family,
        f"Digest: {option.design.digest}",
        "The file design.toml has this digest; reports of another design are refused by name.",
    ]
    analysis = [
        "Proportions are estimated by the left inverse of the design's matrix: unbiased, with "
        "standard errors for the population, score intervals, and a test of whether the reports "
        "agree with the design. Estimates below 0 or above 1 are reported as they are.",
    ]
    return [
        ("What people are asked", [asked]),
        ("How many", size),
        ("What a report gives away", privacy),
        ("The design", design),
        ("The estimates", analysis),
    ]


def _rule(option: Option) -> dict[str, str]:
    if option.device is not None:
        return {name: str(value) for name, value in option.device.probabilities.items()}
    pairs = (part.partition(" = ") for part in option.parameters.split(", ") if " = " in part)
    return {name: value for name, _, value in pairs}


def text_of(plan: Plan, option: Option) -> str:
    """The protocol as text."""
    lines = [f"Protocol: {plan.attribute}", "=" * (10 + len(plan.attribute)), ""]
    for heading, paragraphs in _sections(plan, option):
        lines += [heading, "-" * len(heading)]
        for paragraph in paragraphs:
            lines += textwrap.wrap(paragraph, WIDTH, break_long_words=False, break_on_hyphens=False)
        lines.append("")
    return "\n".join(lines)


STYLE = """
:root { color-scheme: light dark }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 42rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.5rem; line-height: 1.2 } h2 { font-size: 1.05rem; margin: 1.4rem 0 .2rem }
p { margin: .3rem 0; overflow-wrap: anywhere }
.asked { border-left: .25rem solid #0072B2; padding: .2rem .9rem; font-size: 1.05rem }
@media print { body { margin: 0; font-size: 11pt; max-width: none } }
"""


def page_of(plan: Plan, option: Option) -> str:
    """The protocol as a page of HTML that asks for no other file."""
    title = escape(f"Protocol: {plan.attribute}")
    body = []
    for i, (heading, paragraphs) in enumerate(_sections(plan, option)):
        kind = ' class="asked"' if i == 0 else ""
        body.append(f"<h2>{escape(heading)}</h2>")
        body += [f"<p{kind}>{escape(paragraph)}</p>" for paragraph in paragraphs]
    return "\n".join(
        [
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>",
            *body,
            "</body>\n</html>\n",
        ]
    )
