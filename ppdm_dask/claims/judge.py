"""Judge claims on results: the status is computed, whatever anybody expects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from ppdm_dask.claims.claim import Claim, Paper, load_papers
from ppdm_dask.claims.quantity import Unjudged
from ppdm_dask.claims.verdict import Verdict

if TYPE_CHECKING:
    import xarray as xr

    from ppdm_dask.experiments.kinds import AnyRecipe

__all__ = ["claims_of", "judge", "judge_all", "papers_of", "same_experiment"]


def judge(claim: Claim, results: Mapping[str, xr.Dataset]) -> Verdict:
    """Judge a claim.

    Parameters
    ----------
    claim : Claim
    results : mapping of str to xarray.Dataset
        Results of runs by the name of their recipe, whole or partial.
    """
    from ppdm_dask.claims.calculations import calculate

    if claim.untestable is not None:
        return Verdict("not testable", claim.untestable)
    assert claim.rule is not None
    if claim.calculation is not None:
        return claim.rule.judge(calculate(claim.calculation))
    assert claim.recipe is not None
    if claim.recipe not in results:
        return Verdict("not judged", f"no run of {claim.recipe} is at hand")
    try:
        return claim.rule.judge(results[claim.recipe])
    except Unjudged as error:
        return Verdict("not judged", str(error))


def judge_all(papers: Iterable[Paper], results: Mapping[str, xr.Dataset]) -> dict[str, Verdict]:
    """Verdicts on all claims of papers, by the claims' ids."""
    return {claim.id: judge(claim, results) for paper in papers for claim in paper.claims}


def same_experiment(recipe: AnyRecipe) -> bool:
    """Whether a recipe is the package's of that name, but for repeats and seed."""
    from ppdm_dask import resources
    from ppdm_dask.experiments.kinds import load_recipe

    if recipe.name not in resources.recipes():
        return False
    own = load_recipe(recipe.name)
    changed = recipe.with_changes(repeats=own.sweep.repeats, seed=own.sweep.seed)
    return changed.digest == own.digest


def papers_of(recipe: AnyRecipe) -> tuple[Paper, ...]:
    """The papers that a recipe refers to."""
    return tuple(paper for paper in load_papers() if paper.key in recipe.about.references)


def claims_of(recipe: AnyRecipe) -> tuple[Claim, ...]:
    """Claims to be shown with a run of a recipe, in the papers' order; none for a user's own.

    They are those judged on its results and, with a recipe on which some are, all others of its
    papers that need no results.
    """
    papers = papers_of(recipe)
    own = [c for paper in papers for c in paper.claims if c.recipe == recipe.name]
    if not own or not same_experiment(recipe):
        return ()
    return tuple(
        claim for paper in papers for claim in paper.claims if claim.recipe in (recipe.name, None)
    )
