"""``ppdm optimize`` with a joint prior: the best design of one report on several attributes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import ppdm_dask as pp
from ppdm_dask.cli.options import in_options
from ppdm_dask.cli.output import print_json, say
from ppdm_dask.errors import InputError

if TYPE_CHECKING:
    from ppdm_dask.search import JointDesign


OPTIONS = {"epsilon": "--epsilon", "max_posterior": "--delta", "privacy": "--choose: privacy"}
"""Parameters of :func:`ppdm_dask.joint_design` as the command line calls them."""


def optimize_joint(
    file: Path,
    n_records: int,
    folder: Path,
    *,
    epsilon: float | None,
    delta: float,
    privacy: float | None,
    each: bool,
    aim: str,
    as_json: bool,
) -> None:
    """Write the design that is found, and print what is known of it."""
    prior = pp.survey.joint_prior(file)
    names = [str(name) for name in prior.dims]
    stated: dict[str, Any] = {
        "epsilon": epsilon,
        "max_posterior": None if delta == 1 and (epsilon, privacy) != (None, None) else delta,
        "privacy": privacy,
    }
    if each:
        stated = {k: v if v is None else dict.fromkeys(names, v) for k, v in stated.items()}
    try:
        found = pp.joint_design(prior, aim=aim, **stated)
    except InputError as error:
        if str(error).startswith("epsilon, "):
            message = "--epsilon: give it, or --delta and --choose privacy=X"
            raise InputError(message, error.subject) from None
        raise in_options(error, OPTIONS, file) from None
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "design.toml"
    facts = _facts(found, n_records)
    comment = (
        f"{', '.join(names)}: {found.privacy},\n"
        f"variances of the {aim} of {facts['variance']:.6g} together from {n_records} reports."
    )
    pp.designs.write_design(found.design, path, comment)
    facts["design"] = str(path)
    if as_json:
        print_json(facts)
        return
    say(f"privacy: {found.privacy}")
    say(f"variances of the {aim} together from {n_records:,} reports: {facts['variance']:.4g}")
    say(f"certified limit: {facts['bound']:.4g} ({found.gap:.1e} below)")
    if found.ratio is not None:
        say(f"reports that each attribute alone would need: {found.ratio:.3f} times as many")
    say(f"design: {path} ({facts['symbols']} reported symbols)")


def _facts(found: JointDesign, n_records: int) -> dict[str, Any]:
    return {
        "privacy": found.privacy,
        "variance": found.noise / n_records,
        "bound": found.bound / n_records,
        "ratio": found.ratio,
        "epsilons": found.epsilons,
        "symbols": len(found.design.matrix()),
    }
