"""Claims and papers, read from TOML into frozen dataclasses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ppdm_dask.claims.calculations import CALCULATIONS
from ppdm_dask.claims.rules import RULES
from ppdm_dask.claims.survey import Survey
from ppdm_dask.errors import RecipeError
from ppdm_dask.files.fields import TomlTable, read_toml
from ppdm_dask.resources import pipelines_dir
from ppdm_dask.shown import shown

if TYPE_CHECKING:
    from ppdm_dask.claims.rules import Rule


@dataclass(frozen=True)
class Claim:
    """A sentence of a paper that can be held against results, or why it cannot.

    Parameters
    ----------
    id : str
        Unique over all papers.
    paper : str
        Key of the paper.
    where : str
        Page, section, figure, table or equation.
    says : str
        The claim, rephrased.
    printed : str, optional
        The number that the paper gives.
    figures : tuple of str
        Ids of the recipe's figures that show it.
    recipe, calculation : str, optional
        The recipe on whose result it is judged, or the calculation (see
        :mod:`ppdm_dask.claims.calculations`); one of them, or a survey, unless it cannot be tested.
    rule : Rule, optional
        How it is judged.
    test : str, optional
        Path and name of the test that checks it.
    differs : str, optional
        Why the results differ from the claim, if they do.
    untestable : str, optional
        Why it cannot be tested here.
    survey : Survey, optional
        The published counts on which it is judged.
    """

    id: str
    paper: str
    where: str
    says: str
    printed: str | None = None
    figures: tuple[str, ...] = ()
    recipe: str | None = None
    calculation: str | None = None
    rule: Rule | None = None
    test: str | None = None
    differs: str | None = None
    untestable: str | None = None
    survey: Survey | None = None


@dataclass(frozen=True)
class Paper:
    """A paper with its claims.

    Parameters
    ----------
    key : str
        The key by which recipes and docstrings cite it.
    title, authors : str
    claims : tuple of Claim
    """

    key: str
    title: str
    authors: str
    claims: tuple[Claim, ...]


def read_paper(path: Path) -> Paper:
    """Read the claims of a paper.

    Raises
    ------
    RecipeError
        One line: file, dotted path, value, and what would be right.
    """
    return paper_from_config(read_toml(path), str(path))


def paper_from_config(config: Mapping[str, Any], source: str) -> Paper:
    """Build a paper's claims from plain tables, as :func:`read_paper` does from a file."""
    root = TomlTable(config, source)
    key, title, authors = (root.text(name) for name in ("paper", "title", "authors"))
    claims: dict[str, Claim] = {}
    for table in root.tables("claim", "claims are tables [[claim]]"):
        claim = _read_claim(table, key)
        if claim.id in claims:
            raise table.error("id", claim.id, "another claim has this id; ids must differ")
        claims[claim.id] = claim
    root.done()
    return Paper(key, title, authors, tuple(claims.values()))


def _read_claim(table: TomlTable, paper: str) -> Claim:
    own, where, says = (table.text(name) for name in ("id", "where", "says"))
    printed = table.optional_text("printed")
    untestable = table.optional_text("untestable")
    if untestable is not None:  # with a reason in place of a rule
        table.done()
        return Claim(own, paper, where, says, printed, untestable=untestable)
    recipe = table.optional_text("recipe")
    calculation = table.optional_choice("calculation", CALCULATIONS, "a calculation")
    asked = "survey" in table.remaining()
    if (recipe is not None) + (calculation is not None) + asked != 1:
        right = (
            "either a recipe or a calculation or a survey is needed, "
            "or else untestable with the reason"
        )
        raise table.error("recipe", recipe, right)
    survey = Survey.read(table.table("survey", "a table is needed")) if asked else None
    figures, test = table.texts("figures"), table.text("test")
    differs = table.optional_text("differs")
    rule = RULES[table.choice("rule", RULES, "a rule")].read(table)
    table.done()
    return Claim(
        own,
        paper,
        where,
        says,
        printed,
        figures,
        recipe,
        calculation,
        rule,
        test,
        differs,
        survey=survey,
    )


# Each page of a reproduction asks for them again, and the files are the package's own.
@cache
def load_papers() -> tuple[Paper, ...]:
    """The claims that come with the package, paper by paper.

    Raises
    ------
    RecipeError
        If two claims have the same id, or a file is wrong.
    """
    papers = tuple(map(read_paper, sorted((pipelines_dir() / "claims").glob("*.toml"))))
    seen: set[str] = set()
    for claim in (claim for paper in papers for claim in paper.claims):
        if claim.id in seen:
            raise RecipeError(
                f"two claims have the id {shown(claim.id)}; ids must differ", claim.id
            )
        seen.add(claim.id)
    return papers
