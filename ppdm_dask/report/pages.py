"""Write the page of a run, and that of a reproduction of all recipes.

A run becomes plain values first, which the template then shows: figures for a wide and a narrow
screen, the tables that a terminal shows, claims, errata and provenance.
"""

from __future__ import annotations

import base64
import re
import shlex
import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ppdm_dask.claims.claim import Claim
from ppdm_dask.claims.judge import (
    claims_of,
    judge,
    papers_of,
    published_surveys,
    same_experiment,
)
from ppdm_dask.claims.verdict import STATUSES, Verdict, number
from ppdm_dask.drawing import style
from ppdm_dask.engine.ledger import Ledger
from ppdm_dask.errors import InputError, RunFolderError
from ppdm_dask.experiments.folder import StoredRun, read_run
from ppdm_dask.experiments.kinds import AnyRecipe, kind_of, kind_of_result, load_recipe
from ppdm_dask.files.documents import NUMBER, Form, misfit, read_sealed
from ppdm_dask.files.writing import write_text
from ppdm_dask.report.rendering import render
from ppdm_dask.resources import errata_path
from ppdm_dask.shown import cut

if TYPE_CHECKING:
    import xarray as xr
    from rich.console import RenderableType
    from rich.table import Table


__all__ = ["write_report", "write_reproduction"]


def errata_of(papers: Iterable[str]) -> list[dict[str, Any]]:
    """The errata of those papers that have some, as HTML.

    The page is Markdown; any HTML in it is shown as text.
    """
    # Not at the top, here and below: only pages need them.
    from markdown_it import MarkdownIt
    from markupsafe import Markup

    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    text = errata_path().read_text(encoding="utf-8")
    sections = dict(re.findall(r"^## (\S+)\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL))
    return [
        {"paper": key, "html": Markup(_scrolling(markdown.render(sections[key]), key))}
        for key in papers
        if key in sections
    ]


def _scrolling(html: str, key: str) -> str:
    """Put wide parts into regions that scroll by themselves and are reached by keyboard."""
    what = f"Part of the errata of {key}"
    region = f'<div class="scroll" role="region" tabindex="0" aria-label="{what}">'
    html = re.sub(r"(<table>.*?</table>)", rf"{region}\1</div>", html, flags=re.DOTALL)
    return re.sub(r"(<pre>.*?</pre>)", rf"{region}\1</div>", html, flags=re.DOTALL)


def embed_figures(ds: xr.Dataset, recipe: AnyRecipe, folder: Path) -> list[dict[str, Any]]:
    """Draw the figures of a recipe into a folder, and return them for a page.

    ``alt`` says what a figure shows, with numbers; ``wide`` and ``narrow`` are data URLs, since an
    SVG within a page's ``img`` can run nothing and load nothing.
    """
    kind = kind_of(recipe)
    kind.draw_figures(ds, recipe, folder)
    # The narrow ones are for this page only; the run's folder keeps those of full width.
    with tempfile.TemporaryDirectory() as scratch:
        with style.styled(narrow=True):
            kind.draw_figures(ds, recipe, Path(scratch))
        return [
            {
                "id": figure.id,
                "title": figure.title,
                "alt": kind.describe(ds, recipe, figure),
                "wide": _url(folder / f"{figure.id}.svg"),
                "narrow": _url(Path(scratch) / f"{figure.id}.svg"),
            }
            for figure in recipe.figures
        ]


def _url(path: Path) -> str:
    # Base64, since a URL of plain SVG would have to escape most of its signs.
    return "data:image/svg+xml;base64," + base64.b64encode(path.read_bytes()).decode()


def result_tables(ds: xr.Dataset) -> list[dict[str, Any]]:
    """Caption, header, rows and alignment of every table of a result."""
    return [
        table
        for heading, found in kind_of_result(ds).tables(ds)
        for table in _grouped(heading, found)
    ]


def _grouped(caption: str, group: RenderableType) -> list[dict[str, Any]]:
    """Tables of a group, each below the values of the outer axes that stand before it."""
    from rich.table import Table
    from rich.text import Text

    found, where = [], ""
    for part in getattr(group, "renderables", [group]):
        if isinstance(part, Text):
            where = part.plain.strip()
        elif isinstance(part, Table):
            found.append(_plain(f"{caption}\n{where}" if where else caption, part))
    return found


def _plain(caption: str, table: Table) -> dict[str, Any]:
    columns = [[str(cell) for cell in column.cells] for column in table.columns]
    header = [" ".join(str(column.header).split()) for column in table.columns]
    # In a terminal a heading with a colon stands once above several columns; those after the first
    # have an empty line in its place.
    above = ""
    for i, column in enumerate(table.columns):
        first, _, below = str(column.header).partition("\n")
        above = above if below and not first else first
        if not first and above.endswith(":"):
            header[i] = f"{above} {header[i]}"
    return {
        "caption": caption.split("\n"),
        "header": header,
        "right": [column.justify == "right" for column in table.columns],
        "rows": [list(row) for row in zip(*columns, strict=True)],
    }


def view_run(run: StoredRun, key: str) -> dict[str, Any]:
    """Gather what a page says of a run; its figures are drawn into its folder.

    `key` begins the ids of the run's parts, and is unique on the page.
    """
    recipe, manifest, ds = run.folder.recipe, run.manifest, run.dataset
    kind = kind_of(recipe)
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
        "findings": run.findings,
        "quarantined": manifest.get("quarantined", []),
        "figures": figures,
        "claims": claims,
        "other_claims": [claim for claim in claims if drawn.isdisjoint(claim["figures"])],
        "tables": result_tables(ds),
        "undefined": kind.undefined(ds),
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
        # The status is the verdict's, computed on this very run; the claim's file has none.
        "status": verdict.status,
        "measured": verdict.measured,
        "rule": claim.rule.words if claim.rule else None,
        "basis": claim.recipe or claim.calculation or (claim.survey and claim.survey.words),
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
    # By its file: the name would give the package's recipe.
    if not same_experiment(recipe):
        return shlex.join(["ppdm", "run", str(Path(recipe.base) / f"{recipe.name}.toml")])
    own, words = load_recipe(recipe.name), ["ppdm", "run", recipe.name]
    for option in ("repeats", "seed"):
        value = getattr(recipe.sweep, option)
        if value != getattr(own.sweep, option):
            words += [f"--{option}", str(value)]
    return shlex.join(words)


def _cost(run: StoredRun) -> dict[str, Any]:
    """Time of the run, from its ledger, which has the batches of all sessions."""
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


def write_report(run: str | Path) -> Path:
    """Draw the figures of a run, and write its page: ``report.html`` in its folder.

    Parameters
    ----------
    run : str or Path
        The run's folder; the run may be unfinished.

    Returns
    -------
    Path
        The page, which needs no other file, no network and no script.

    Raises
    ------
    RunFolderError
        If the folder is not that of a run, or cannot be written.
    InputError
        If a run is unfinished, and the recipe's codebooks or data have changed.
    """
    stored = read_run(run)
    path = stored.folder.path / "report.html"
    view = view_run(stored, "run")
    write_text(path, render("report.html.j2", run=view, counts=_counts([view])))
    return path


def write_reproduction(document: str | Path) -> Path:
    """Write the page of a reproduction: ``report.html`` beside its JSON.

    Parameters
    ----------
    document : str or Path
        ``reproduction.json`` as ``ppdm reproduce`` writes it: how each recipe compares with its
        golden, and where its run is.  Runs whose folders were deleted are listed without figures.

    Raises
    ------
    InputError
        If the file cannot be read, or is not a reproduction.
    RunFolderError
        If a run's folder or the page cannot be written.
    """
    path = Path(document)
    found = _read(path)
    views, missing = [], []
    for i, recipe in enumerate(found["recipes"]):
        try:
            stored = read_run(recipe["folder"])
        except RunFolderError as error:
            # A reproduction's runs may have been removed; the comparison is in its own file.
            missing.append({"name": recipe["name"], "reason": str(error)})
            continue
        views.append(view_run(stored, f"run{i}"))
    surveys = _view_surveys()
    page = path.with_name("report.html")
    text = render(
        "reproduction.html.j2",
        found=found,
        runs=views,
        missing=missing,
        surveys=surveys,
        counts=_counts([*views, surveys]),
        drifts=[drift for recipe in found["recipes"] for drift in recipe["drifts"]],
    )
    write_text(page, text)
    return page


def _view_surveys() -> dict[str, Any]:
    """What a page says of the claims on published surveys, which need no run."""
    papers = published_surveys()
    claims = [view_claim(claim, judge(claim, {})) for paper in papers for claim in paper.claims]
    errata = errata_of([paper.key for paper in papers])
    return {
        "key": "surveys",
        "claims": claims,
        "other_claims": claims,
        "figures": [],
        "errata": errata,
    }


VALUE = (str, int, float, type(None))
DRIFT = {"recipe": str, "variable": str, "cell": str, "expected": VALUE, "found": VALUE}
RECIPE: Form = {
    "name": str,
    "folder": str,
    "status": str,
    "comparison": str,
    "reasons": [str],
    "digest": (str, type(None)),
    "work_seconds": (*NUMBER, type(None)),
    "drifts": [{**DRIFT, "z": (*NUMBER, type(None))}],
}
FORM: Form = {
    "grade": str,
    "status": str,
    "started": str,
    "finished": str,
    "left_out": [{"name": str, "reason": str}],
    "recipes": [RECIPE],
}
ABSENT = {"grade": "", "status": "green", "started": "", "finished": "", "left_out": []}
UNTIMED = {"work_seconds": None}
"""Keys that the page can do without."""


def _read(path: Path) -> dict[str, Any]:
    try:
        found = read_sealed(path, "reproduction")
    except FileNotFoundError:
        raise InputError(f"{path}: there is no such file", path) from None
    recipes = found.get("recipes")
    if not isinstance(recipes, list) or not all(isinstance(each, dict) for each in recipes):
        raise InputError(f"{path}: recipes: this is not a reproduction, it has no recipes", path)
    # An earlier version's document may lack what the page can do without.
    filled = {**ABSENT, **found, "recipes": [{**UNTIMED, **each} for each in recipes]}
    if (at := misfit(filled, FORM)) is not None:
        raise InputError(f"{path}: {cut(at)}: got nothing, or no value of a reproduction", path)
    return dict(found)


def _counts(views: list[dict[str, Any]]) -> list[tuple[str, int]]:
    """How many claims have each status, over runs; a claim that two runs show counts once."""
    statuses = {claim["id"]: claim["status"] for view in views for claim in view["claims"]}
    counts = Counter(statuses.values())
    return [(status, counts[status]) for status in STATUSES if counts[status]]
