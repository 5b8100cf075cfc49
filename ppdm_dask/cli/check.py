"""``ppdm check``: say of each file what it is and whether it is right."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from ppdm_dask.cli.output import print_json
from ppdm_dask.errors import InputError, RecipeError

__all__ = ["check_files"]


def check_files(files: Sequence[str], *, as_json: bool) -> int:
    """Check all files, also after a bad one; 0 if all are right, else 2."""
    found = []
    for file in files:
        try:
            kind, summary = _check(file)
            found.append({"file": file, "kind": kind, "ok": True, "summary": summary})
        except InputError as error:
            message = " ".join(str(error).split())
            found.append({"file": file, "kind": None, "ok": False, "summary": message})
    if as_json:
        print_json(found)
    else:
        for each in found:
            if each["ok"]:
                print(f"{each['file']}: {each['kind']}, {each['summary']}")
            else:
                print(f"ppdm: error: {each['summary']}", file=sys.stderr)
    return 0 if all(each["ok"] for each in found) else 2


def _check(file: str) -> tuple[str, str]:
    from ppdm_dask.experiments.fields import read_toml
    from ppdm_dask.resources import profile_path, profiles, recipe_path

    path = profile_path(file) if file in profiles() else recipe_path(file)
    content = read_toml(path)
    if "kind" in content:
        return "cluster profile", _check_profile(path)
    if "attribute" in content:
        return "codebook", _check_codebook(path)
    if content.keys() & {"data", "design", "mine", "perturb", "prior", "search", "sweep"}:
        return "recipe", _check_recipe(path)
    if "id" in content:
        return "design", _check_design(path)
    raise RecipeError(
        f"{path}: neither a recipe, which has [[data]], [sweep] and either [design] and [mine] or "
        "[[perturb]], or [[prior]], [search] and [sweep], nor a codebook, which has [[attribute]], "
        "nor a design, which has an id, nor a cluster profile, which has a kind",
        path,
    )


def _check_profile(path: Path) -> str:
    from ppdm_dask.parallel.profiles import load_profile

    return load_profile(path).where


def _check_codebook(path: Path) -> str:
    from ppdm_dask.codebook import Codebook

    book = Codebook.from_toml(path)
    target = "no target" if book.target is None else f"target {book.target}"
    return f"{len(book.names)} {'attribute' if len(book.names) == 1 else 'attributes'}, {target}"


def _check_design(path: Path) -> str:
    from ppdm_dask.designs.files import read_design

    design = read_design(path)
    where = f"{design.id} on {', '.join(design.attributes)}"
    sizes = f"{design.n_reported:,} symbols for {design.n_true:,} categories"
    reason = f"; nothing can be estimated: {design.undefined}" if design.undefined else ""
    return f"{where}, {sizes}{reason}"


def _check_recipe(path: Path) -> str:
    from ppdm_dask.experiments.kinds import check_recipe, load_recipe, make_plan

    recipe = load_recipe(path)
    check_recipe(recipe)
    prepared = make_plan(recipe).prepared
    sizes = ", ".join(f"{each.entry.id} ({len(each.records):,} records)" for each in prepared)
    cells = f"{len(recipe.points())} cells of {recipe.sweep.repeats:,} repeats"
    return f"{cells}; {sizes}" if sizes else cells
