"""All that the page of a run shows, as plain values for the template."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ppdm_dask.claims.claim import Claim
from ppdm_dask.claims.judge import claims_of, judge, papers_of
from ppdm_dask.claims.verdict import Verdict, number

if TYPE_CHECKING:
    from ppdm_dask.experiments.kinds import AnyRecipe
    from ppdm_dask.experiments.stored import StoredRun

__all__ = ["view_claim", "view_run"]


def view_run(run: StoredRun, key: str) -> dict[str, Any]:
    """Gather what a page says of a run; its figures are drawn into its folder.

    Parameters
    ----------
    run : StoredRun
    key : str
        Prefix of the ids of its parts, unique on the page.
    """
    from ppdm_dask.experiments.kinds import findings
    from ppdm_dask.report.html.errata import errata_of
    from ppdm_dask.report.html.figures import embed_figures
    from ppdm_dask.report.html.numbers import result_tables, undefined_cells

    recipe, manifest, ds = run.folder.recipe, run.manifest, run.dataset
    claims = [view_claim(claim, judge(claim, {recipe.name: ds})) for claim in claims_of(recipe)]
    figures: list[dict[str, Any]] = embed_figures(ds, recipe, run.folder.figures)
    shown: dict[str, str] = {}
    for figure in figures:
        own = [claim for claim in claims if figure["id"] in claim["figures"]]
        # A claim on several figures stands at the first of them; the others point there.
        figure["claims"] = [claim for claim in own if claim["id"] not in shown]
        figure["pointers"] = [
            {**claim, "place": shown[claim["id"]]} for claim in own if claim["id"] in shown
        ]
        shown |= {claim["id"]: f"{key}-{figure['id']}" for claim in figure["claims"]}
    drawn = {figure["id"] for figure in figures}
    papers = papers_of(recipe)
    return {
        "key": key,
        "name": recipe.name,
        "title": recipe.about.title,
        "notes": " ".join((recipe.about.notes or "").split()),
        "references": list(recipe.about.references),
        "papers": [{"key": p.key, "title": p.title, "authors": p.authors} for p in papers],
        "finished": run.finished,
        "status": manifest["status"],
        "repeats": recipe.sweep.repeats,
        "findings": manifest["findings"] if run.finished else findings(ds),
        "quarantined": manifest.get("quarantined", []),
        "figures": figures,
        "claims": claims,
        "other_claims": [claim for claim in claims if drawn.isdisjoint(claim["figures"])],
        "tables": result_tables(ds),
        "undefined": undefined_cells(ds),
        "errata": errata_of([paper.key for paper in papers]),
        "provenance": _provenance(run),
        "cost": _cost(run),
    }


def view_claim(claim: Claim, verdict: Verdict) -> dict[str, Any]:
    """What a page says of a claim; the explanation of a difference only where there is one."""
    return {
        "id": claim.id,
        "paper": claim.paper,
        "where": claim.where,
        "says": claim.says,
        "printed": claim.printed,
        "figures": claim.figures,
        "status": verdict.status,
        "measured": verdict.measured,
        "rule": claim.rule.words if claim.rule else None,
        "basis": claim.recipe or claim.calculation,
        "why": claim.differs if verdict.status == "differs" else None,
        "test": claim.test,
        "rows": [
            {
                "label": row.label,
                "printed": f"{row.printed:g}",
                "ours": number(row.ours, row.error),
                "tolerance": f"{row.tolerance:g}",
            }
            for row in (verdict.rows if len(verdict.rows) > 1 else ())
        ],
    }


def _provenance(run: StoredRun) -> dict[str, Any]:
    manifest = run.manifest
    environment = manifest.get("environment", {})
    return {
        "command": _command(run.folder.recipe),
        "digest": manifest.get("digest"),
        "run_id": manifest["run_id"],
        "seed": manifest.get("seed"),
        "recipe_digest": manifest.get("recipe_digest"),
        "code_version": manifest.get("code_version"),
        "inputs": [
            {"entry": entry, **{key: given.get(key) for key in ("data", "codebook")}}
            for entry, given in manifest["inputs"].items()
        ],
        "versions": list(environment.get("versions", {}).items()),
        "machine": " ".join(
            str(environment[key]) for key in ("system", "machine") if key in environment
        ),
        "cpu_features": ", ".join(environment.get("cpu_features", [])),
        "blas": "; ".join(map(_blas, environment.get("blas", []))),
    }


def _blas(found: object) -> str:
    return " ".join(map(str, found.values())) if isinstance(found, dict) else str(found)


def _command(recipe: AnyRecipe) -> str:
    """The command line that makes the run again."""
    from ppdm_dask.claims.judge import same_experiment
    from ppdm_dask.experiments.kinds import load_recipe

    if not same_experiment(recipe):
        return shlex.join(["ppdm", "run", str(Path(recipe.base) / f"{recipe.name}.toml")])
    own, words = load_recipe(recipe.name), ["ppdm", "run", recipe.name]
    for option in ("repeats", "seed"):
        value = getattr(recipe.sweep, option)
        if value != getattr(own.sweep, option):
            words += [f"--{option}", str(value)]
    return shlex.join(words)


def _cost(run: StoredRun) -> dict[str, Any]:
    """Time of the run, from its ledger, which knows of all sessions that worked on it."""
    from ppdm_dask.errors import RunFolderError
    from ppdm_dask.parallel.ledger import Ledger

    found: dict[str, Any] = {
        "started": run.manifest["started"],
        "finished": run.manifest.get("finished"),
        "seconds": None,
    }
    try:
        with Ledger(run.folder.ledger, readonly=True) as ledger:
            seconds, repeats, batches = ledger.work()
    except RunFolderError:
        return found  # a result that was copied without its ledger
    each = f"{1e3 * seconds / repeats:.3g} ms" if repeats else None
    return found | {
        "seconds": f"{seconds:,.1f}",
        "repeats": f"{repeats:,}",
        "batches": f"{batches:,}",
        "each": each,
    }
