"""``ppdm optimize`` with a joint prior: the best design of one report on several attributes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import ppdm_dask as pp
from ppdm_dask.cli.output import print_json, say
from ppdm_dask.errors import InputError

if TYPE_CHECKING:
    from ppdm_dask.search import JointDesign


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
        raise _renamed(error, file) from None
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


def _renamed(error: InputError, file: Path) -> InputError:
    """The function names its parameter; the user typed an option, or wrote a file."""
    key, _, what = str(error).partition(": ")
    options = {"epsilon": "--epsilon", "max_posterior": "--delta", "privacy": "--choose: privacy"}
    option = options.get(key.partition("[")[0])
    if option:
        attribute = key.partition("[")[2].rstrip("]")
        return InputError(f"{option}: {attribute + ': ' if attribute else ''}{what}", error.subject)
    if key.startswith("epsilon, "):
        return InputError("--epsilon: give it, or --delta and --choose privacy=X", error.subject)
    if key == "prior":
        return InputError(f"{file}: {key}: {what}", error.subject)
    return error
