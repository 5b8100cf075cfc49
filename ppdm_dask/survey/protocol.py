"""The protocol of a planned survey: one page, as text and as a self-contained HTML file."""

from __future__ import annotations

import math
import textwrap
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ppdm_dask.survey.plan import Option, Plan

__all__ = ["page_of", "text_of"]

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
