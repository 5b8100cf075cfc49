"""``ppdm audit``: what a report gives away, in numbers and words."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from ppdm_dask.cli.output import print_json, print_lines, print_table, say
from ppdm_dask.cli.survey_files import plain, read_both
from ppdm_dask.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

__all__ = ["audit_design"]


def audit_design(design: Path, prior: Path | None, codebook: Path | None, *, as_json: bool) -> None:
    """Print every privacy measure of a design."""
    from ppdm_dask.audit.certainty import certainties
    from ppdm_dask.audit.measures import audit
    from ppdm_dask.designs.files import read_design
    from ppdm_dask.survey.priors import prior_arrays, read_priors

    if codebook is None:
        book, plan = None, read_design(design)
    else:
        book, plan = read_both(codebook, design)
    priors: dict[str, npt.NDArray[np.float64]] = {}
    if prior is not None:
        plan, priors = prior_arrays(prior, read_priors(prior), plan, book)
    try:
        subjects = audit(plan, priors)
    except InputError as error:
        raise InputError(f"{prior}: {error}", error) from None
    labels = {} if book is None else {name: book[name].categories for name in plan.attributes}
    certain = certainties(plan, labels)
    if as_json:
        found = [asdict(subject) for subject in subjects]
        for finding in (each for subject in found for each in subject["findings"]):
            finding["value"] = plain(finding["value"])
        print_json(
            {
                "design": str(design),
                "undefined": plan.undefined,
                "subjects": found,
                "certain": [asdict(each) for each in certain],
            }
        )
        return
    from ppdm_dask.drawing.tables import plain_table

    for subject in subjects:
        rows = [[f.measure, _value(f.value), f.sentence] for f in subject.findings]
        say(f"{subject.name}: {subject.prior}")
        print_table(plain_table(["measure", "value", "in words"], rows, right=(1,)))
        say()
    print_lines(each.sentence for each in certain)
    if any(each.degree in ("nearly", "likely") for each in certain):
        say("what is likely is so where each answer was equally likely before")
    say("epsilon and gamma hold for any prior; the others for the prior that is named")
    if plan.undefined:
        say(f"nothing can be estimated of all of it: {plan.undefined}")


def _value(value: float | None) -> str:
    if value is None:
        return "-"
    return "infinite" if math.isinf(value) else f"{value:.4g}"
