"""``ppdm list`` and ``ppdm check``: what can be run, and whether a file is right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

import ppdm_dask as pp
from ppdm_dask.cli.logs import complain
from ppdm_dask.cli.options import Json, read_both
from ppdm_dask.cli.output import print_json, print_rows, say
from ppdm_dask.errors import InputError, RecipeError
from ppdm_dask.resources import profile_path, profiles, recipe_path, recipes
from ppdm_dask.shown import amount


def list_(
    kind: Annotated[
        Literal["recipes", "designs", "datasets"] | None,
        typer.Argument(help="Which of these to list; all by default.", show_default=False),
    ] = None,
    as_json: Json = False,
) -> None:
    """List the recipes, designs and data sets of the package."""
    make = {"recipes": _recipes, "designs": _designs, "datasets": _datasets}
    found = {kind: make[kind]() for kind in ([kind] if kind else make)}
    if as_json:
        print_json(found)
        return
    for i, rows in enumerate(found.values()):
        if i:
            print()
        header = [name for name in rows[0] if name != "licence"]  # long, and not for a table
        right = [k for k, name in enumerate(header) if isinstance(rows[0][name], int)]
        texts = [
            [f"{row[k]:,}" if isinstance(row[k], int) else str(row[k]) for k in header]
            for row in rows
        ]
        print_rows([name.replace("_", " ") for name in header], texts, right)


def _recipes() -> list[dict[str, Any]]:
    rows = []
    for name in recipes():
        found = pp.experiments.outline(name)
        rows.append(
            {
                "recipe": name,
                "cells": found.cells,
                "repeats": found.repeats,
                "title": found.title,
            }
        )
    return rows


def _designs() -> list[dict[str, Any]]:
    return [
        {"design": name, "class": family.__name__, "what": _first_sentence(family)}
        for name, family in pp.designs.families().items()
    ]


def _datasets() -> list[dict[str, Any]]:
    rows = []
    for name in pp.datasets.names():
        info = pp.datasets.describe(name)
        rows.append(
            {
                "dataset": name,
                "records": info.n_records,
                "attributes": info.n_attributes,
                "target": info.target,
                "licence": info.licence,
                "title": info.title,
            }
        )
    return rows


def _first_sentence(family: type) -> str:
    return (family.__doc__ or "").strip().split("\n\n")[0].replace("\n", " ").replace("``", "")


@dataclass
class _Found:
    """What a file is, and what was read from it where other files have to fit it."""

    file: str
    kind: str | None
    ok: bool
    summary: str
    content: Any = None
    told: str = ""

    def refuse(self, error: InputError) -> None:
        self.kind, self.ok, self.summary = None, False, " ".join(str(error).split())
        self.told = str(error.without_data())


def check(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE...",
            help="Files to validate, or names of recipes and profiles.",
            show_default=False,
        ),
    ],
    as_json: Json = False,
) -> None:
    """Validate recipes, codebooks, designs, priors and profiles, and files that recipes name."""
    # All of them, also after a bad one. Designs and priors have to fit a codebook among them,
    # whichever comes first.
    found = []
    for file in files:
        each = _Found(file, None, True, "")
        try:
            each.kind, each.summary, each.content = _check(file)
        except InputError as error:
            each.refuse(error)
        found.append(each)
    books = [each for each in found if each.kind == "codebook"]
    for each in found:
        if each.ok and books and each.kind in ("design", "prior"):
            try:
                _check_fit(each, books)
            except InputError as error:
                each.refuse(error)
    if as_json:
        keys = ("file", "kind", "ok", "summary")
        print_json([{key: getattr(each, key) for key in keys} for each in found])
    else:
        for each in found:
            if each.ok:
                say(f"{each.file}: {each.kind}, {each.summary}")
            else:
                complain(each.summary, each.told)
    raise typer.Exit(0 if all(each.ok for each in found) else 2)


def _check_fit(each: _Found, books: Sequence[_Found]) -> None:
    """Raise InputError unless a design or a prior fits one of the codebooks."""
    first: InputError | None = None
    for book in books:
        try:
            if each.kind == "design":
                read_both(Path(book.file), Path(each.file))
            else:
                pp.survey.check_prior_labels(Path(each.file), each.content, book.content)
            return
        except InputError as error:
            first = first or error  # of the first codebook, which most likely is the one meant
    assert first is not None
    raise first


def _check(file: str) -> tuple[str, str, Any]:
    path = profile_path(file) if file in profiles() else recipe_path(file)
    content = pp.files.read_toml(path)
    # By a key that no other kind of file has at its top.
    if "kind" in content:
        return "cluster profile", pp.cluster.load_profile(path).where, None
    if "id" in content:
        return "design", _check_design(path), None
    if isinstance(content.get("prior"), Mapping):
        return _check_priors(path)
    if "attribute" in content:
        return _check_codebook(path)
    if pp.experiments.is_recipe(content):
        return "recipe", _check_recipe(path), None
    kinds = pp.experiments.telling_tables()
    raise RecipeError(
        f"{path}: neither a recipe, which has [sweep] and {', or '.join(kinds)}, nor a codebook, "
        "which has [[attribute]], nor a design, which has an id, nor proportions, which have "
        "[prior], nor a cluster profile, which has a kind",
        path,
    )


def _counted(n: int) -> str:
    return f"{n} {'attribute' if n == 1 else 'attributes'}"


def _check_codebook(path: Path) -> tuple[str, str, pp.Codebook]:
    book = pp.Codebook.from_toml(path)
    target = "no target" if book.target is None else f"target {book.target}"
    return "codebook", f"{_counted(len(book.names))}, {target}", book


def _check_priors(path: Path) -> tuple[str, str, pp.survey.Priors]:
    priors = pp.survey.read_priors(path)
    sizes = ", ".join(f"{name} ({len(shares)} categories)" for name, shares in priors.items())
    return "prior", f"{_counted(len(priors))}: {sizes}", priors


def _check_design(path: Path) -> str:
    design = pp.designs.read_design(path)
    where = f"{design.id} on {', '.join(design.attributes)}"
    sizes = f"{amount(design.n_reported)} symbols for {amount(design.n_true)} categories"
    reason = f"; nothing can be estimated: {design.undefined}" if design.undefined else ""
    noted = "".join(f"; {note}" for note in design.notes)
    if design.unlabelled:
        noted += f"; states no labels of {', '.join(design.unlabelled)}, which answers need"
    return f"{where}, {sizes}{reason}{noted}"


def _check_recipe(path: Path) -> str:
    recipe = pp.experiments.load_recipe(path)
    pp.experiments.check_recipe(recipe)
    # The data too: most mistakes of a recipe are labels that its codebook does not have.
    prepared = pp.experiments.make_plan(recipe).prepared
    sizes = ", ".join(f"{each.entry.id} ({len(each.records):,} records)" for each in prepared)
    cells = f"{len(recipe.points())} cells of {recipe.sweep.repeats:,} repeats"
    notes = [f"{each.entry.id}: {each.note}" for each in prepared if each.note]
    return "; ".join([cells, *([sizes] if sizes else []), *notes])
