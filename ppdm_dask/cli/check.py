"""``ppdm check``: say of each file what it is and whether it is right."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ppdm_dask.cli.output import print_json, say
from ppdm_dask.errors import InputError, RecipeError
from ppdm_dask.shown import printable

if TYPE_CHECKING:
    from ppdm_dask.data.codebook import Codebook
    from ppdm_dask.survey.priors import Priors

__all__ = ["check_files"]


@dataclass
class _Found:
    """What a file is, and what was read from it where other files have to fit it."""

    file: str
    kind: str | None
    ok: bool
    summary: str
    content: Any = None

    def refuse(self, error: InputError) -> None:
        self.kind, self.ok, self.summary = None, False, " ".join(str(error).split())


def check_files(files: Sequence[str], *, as_json: bool) -> int:
    """Check all files, also after a bad one; 0 if all are right, else 2.

    Designs and priors have to fit a codebook that is checked along with them.
    """
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
                print(printable(f"ppdm: error: {each.summary}"), file=sys.stderr)
    return 0 if all(each.ok for each in found) else 2


def _check_fit(each: _Found, books: Sequence[_Found]) -> None:
    """Raise InputError unless a design or a prior fits one of the codebooks."""
    from ppdm_dask.cli.survey_files import read_both
    from ppdm_dask.survey.priors import check_prior_labels

    first: InputError | None = None
    for book in books:
        try:
            if each.kind == "design":
                read_both(Path(book.file), Path(each.file))
            else:
                check_prior_labels(Path(each.file), each.content, book.content)
            return
        except InputError as error:
            first = first or error
    assert first is not None
    raise first


def _check(file: str) -> tuple[str, str, Any]:
    from ppdm_dask.experiments.kinds import is_recipe
    from ppdm_dask.files.fields import read_toml
    from ppdm_dask.resources import profile_path, profiles, recipe_path

    path = profile_path(file) if file in profiles() else recipe_path(file)
    content = read_toml(path)
    if "kind" in content:
        return "cluster profile", _check_profile(path), None
    if "id" in content:
        return "design", _check_design(path), None
    if isinstance(content.get("prior"), Mapping):
        return _check_priors(path)
    if "attribute" in content:
        return _check_codebook(path)
    if is_recipe(content):
        return "recipe", _check_recipe(path), None
    raise RecipeError(
        f"{path}: neither a recipe, which has [[data]], [sweep] and either [design] and [mine] or "
        "[[perturb]], or [[prior]], [search] and [sweep], nor a codebook, which has [[attribute]], "
        "nor a design, which has an id, nor proportions, which have [prior], nor a cluster "
        "profile, which has a kind",
        path,
    )


def _check_profile(path: Path) -> str:
    from ppdm_dask.cluster.kinds import load_profile

    return load_profile(path).where


def _counted(n: int) -> str:
    return f"{n} {'attribute' if n == 1 else 'attributes'}"


def _check_codebook(path: Path) -> tuple[str, str, Codebook]:
    from ppdm_dask.data.codebook import Codebook

    book = Codebook.from_toml(path)
    target = "no target" if book.target is None else f"target {book.target}"
    return "codebook", f"{_counted(len(book.names))}, {target}", book


def _check_priors(path: Path) -> tuple[str, str, Priors]:
    from ppdm_dask.survey.priors import read_priors

    priors = read_priors(path)
    sizes = ", ".join(f"{name} ({len(shares)} categories)" for name, shares in priors.items())
    return "prior", f"{_counted(len(priors))}: {sizes}", priors


def _check_design(path: Path) -> str:
    from ppdm_dask.designs.files import read_design

    design = read_design(path)
    where = f"{design.id} on {', '.join(design.attributes)}"
    sizes = f"{design.n_reported:,} symbols for {design.n_true:,} categories"
    reason = f"; nothing can be estimated: {design.undefined}" if design.undefined else ""
    noted = "".join(f"; {note}" for note in design.notes)
    if design.unlabelled:
        noted += f"; states no labels of {', '.join(design.unlabelled)}, which answers need"
    return f"{where}, {sizes}{reason}{noted}"


def _check_recipe(path: Path) -> str:
    from ppdm_dask.experiments.kinds import check_recipe, load_recipe, make_plan

    recipe = load_recipe(path)
    check_recipe(recipe)
    prepared = make_plan(recipe).prepared
    sizes = ", ".join(f"{each.entry.id} ({len(each.records):,} records)" for each in prepared)
    cells = f"{len(recipe.points())} cells of {recipe.sweep.repeats:,} repeats"
    return f"{cells}; {sizes}" if sizes else cells
