"""One page on a planned survey, for preregistration: ``protocol.html`` and ``protocol.txt``."""

from __future__ import annotations

import math
import textwrap
from pathlib import Path

from ppdm_dask.designs import Design, write_design
from ppdm_dask.errors import InputError
from ppdm_dask.files.writing import write_text
from ppdm_dask.report.rendering import render
from ppdm_dask.survey.plan import Plan, PlannedDesign

__all__ = ["write_protocol"]

WIDTH = 78
Section = tuple[str, list[str], list[tuple[str, str]]]
"""Heading, paragraphs, and facts as pairs."""


def write_protocol(plan: Plan, folder: str | Path, family: str | None = None) -> dict[str, Path]:
    """Write the design of a plan and its protocol: three files.

    Parameters
    ----------
    plan : Plan
    folder : path
        Made if it is absent; files of these names in it are replaced.
    family : str, optional
        By default :meth:`ppdm_dask.Plan.choose` decides.

    Returns
    -------
    dict of str to Path
        ``design``, ``html``, ``text``.

    Raises
    ------
    InputError
        If the plan has no such design, or `folder` is a file.
    """
    row, folder = plan.choose(family), Path(folder)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: is a file; a folder is needed", folder)
    design = planned_design(row)
    found = sections(plan, row, design)
    title = f"Protocol: {plan.attribute}"
    page = render("protocol.html.j2", title=title, sections=found, digest=design.digest)
    folder.mkdir(parents=True, exist_ok=True)
    names = {"design": "design.toml", "html": "protocol.html", "text": "protocol.txt"}
    paths = {key: folder / name for key, name in names.items()}
    comment = f"{plan.attribute}: {row.family}, planned for {_wanted(plan)}."
    write_design(design, paths["design"], comment)
    write_text(paths["html"], page)
    write_text(paths["text"], _text(title, found))
    return paths


def planned_design(row: PlannedDesign) -> Design:
    """What goes to the field: by devices where there are some."""
    design = row.design if row.made is None else row.made.design
    assert design is not None
    return design


def _wanted(plan: Plan) -> str:
    found = plan.settings
    level = f"{found['level']:.6g}"
    if found["difference"] is None:
        return f"a half-width of {found['half_width']:.6g} at level {level}"
    return (
        f"a difference of {found['difference']:.6g} between two groups of equal size, found with "
        f"probability {found['power']:.6g} at level {level}"
    )


def sections(plan: Plan, row: PlannedDesign, design: Design) -> list[Section]:
    """What the protocol says."""
    made, asked = row.made, plan.settings
    need = row.need if made is None else made.need
    assert need is not None
    worst = row.max_posterior if made is None else made.max_posterior
    epsilon = row.epsilon if made is None else made.epsilon
    how = (
        "a program makes the reports" if made is None else ", ".join(made.devices).replace("-", " ")
    )
    who = "any answer" if plan.trait is None or asked["guard"] == "all" else f"“{plan.trait}”"
    facts = [("Family", row.family), ("Device", how)]
    if made is None:
        facts += [(key, f"{value:.6g}") for key, value in row.parameters.items()]
    else:
        facts += [(f"Probability {key}", _odds(ratio)) for key, ratio in made.odds.items()]
    facts += [("Digest", design.digest), ("File", "design.toml")]
    bounds = []
    if asked["max_posterior"] is not None:
        bounds.append(f"no report makes {who} likelier than {asked['max_posterior']:.6g}")
    if asked["epsilon"] is not None:
        bounds.append(f"epsilon at most {asked['epsilon']:.6g}")
    privacy = [
        ("Floor", "; ".join(bounds)),
        (f"Worst posterior of {who}", f"{worst:.4f}"),
        ("Epsilon", "infinite: some report rules an answer out" if math.isinf(epsilon)
         else f"{epsilon:.4f}"),
    ]  # fmt: skip
    guess = ", ".join(f"{label} {share:.6g}" for label, share in plan.prior.items())
    sample = [
        ("Wanted", _wanted(plan)),
        (
            "Guessed proportions",
            guess if len(plan.prior) <= 12 else f"{len(plan.prior)} categories",
        ),
        ("Complete reports, simple random sample", f"{need.n:,}"),
    ]
    if asked["design_effect"] != 1:
        label = f"Complete reports, design effect {asked['design_effect']:.6g}"
        sample.append((label, f"{need.complete:,}"))
    label = f"People to invite, {100 * asked['nonresponse']:.4g} % without a report"
    sample.append((label, f"{need.invited:,}"))
    times = row.times if made is None else made.times
    best = "not known" if times is None else f"{times:.3f}"
    sample.append(("Reports over those of the best possible design", best))
    return [
        ("What respondents are told", [row.text if made is None else made.text], []),
        ("What is recorded", [row.recorded if made is None else made.recorded], []),
        ("Design", [], facts),
        ("Privacy", [], privacy),
        ("Sample", [], sample),
        (
            "Analysis",
            [
                "Proportions are estimated without bias from the reports by the inverse of the "
                "design. Their errors include the noise of the design.",
                f"{plan.limit[0].upper()}{plan.limit[1:]}.",
            ],
            [],
        ),
    ]


def _odds(ratio: str) -> str:
    top, _, below = ratio.partition("/")
    return f"{ratio} = {float(top) / float(below or 1):.4f}"


def _text(title: str, found: list[Section]) -> str:
    lines = [title, "=" * len(title)]
    for heading, paragraphs, facts in found:
        lines += ["", heading, "-" * len(heading)]
        for paragraph in paragraphs:
            lines += textwrap.wrap(paragraph, WIDTH, break_long_words=False)
        for key, value in facts:
            whole = f"{key}: {value}"
            lines += textwrap.wrap(whole, WIDTH, subsequent_indent="    ", break_long_words=False)
    return "\n".join(lines) + "\n"
