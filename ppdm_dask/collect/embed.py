"""The page in a frame of another platform: it passes the report to that platform's form.

The frame checks which pages are around it, asks, disguises, shows the report, and sends it only to
the origin that greeted it.  A script for the platform's page, ``embed.js``, writes it into fields
in the words that ``ppdm import`` reads.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ppdm_dask.collect.blocks import block_of, symbols_of
from ppdm_dask.collect.questionnaire import ORIGIN, Questionnaire
from ppdm_dask.collect.templates import asset
from ppdm_dask.data.words import FieldRules, by_label
from ppdm_dask.errors import InputError
from ppdm_dask.files.values import Place
from ppdm_dask.files.writing import write_text
from ppdm_dask.shown import shown
from ppdm_dask.survey.field import DESIGN_COLUMN

if TYPE_CHECKING:
    from ppdm_dask.data.codebook import Codebook
    from ppdm_dask.designs.base import Design

__all__ = ["embedded", "remove_embedded", "require_origins", "write_embedded"]

PAGE, SCRIPT = "embed.html", "embed.js"
PORT = re.compile(r"^(https(?=.*:443$)|http(?=.*:80$))(.*):\d+$")
SEPARATOR = FieldRules().separator


def require_origins(origins: Sequence[str]) -> tuple[str, ...]:
    """Origins whose pages may frame the page, each once.

    Raises
    ------
    InputError
        If one is not an origin.
    """
    for origin in origins:
        ORIGIN.read(origin, Place("--embed", "", InputError))
    # As browsers write them: in small letters, without the port that is understood.
    written = [PORT.sub(r"\1\2", origin.lower()) for origin in origins]
    return tuple(dict.fromkeys(written))


def embedded(
    source: str,
    values: Mapping[str, Any],
    questionnaire: Questionnaire,
    asked: Codebook,
    design: Design,
    origins: Sequence[str],
) -> dict[str, Any]:
    """What the script of the framed page reads.

    Parameters
    ----------
    source : str
        File of the questionnaire, for messages.
    values : mapping
        What the script of the page itself reads.
    questionnaire : Questionnaire
    asked : Codebook
        Of what is asked.
    design : Design
        Bound to it.
    origins : sequence of str
        Whose pages may frame it.

    Raises
    ------
    InputError
        If a report cannot be written as a text that ``ppdm import`` reads back.
    """
    if DESIGN_COLUMN in asked.names:
        raise InputError(
            f"{source}: question.{DESIGN_COLUMN}: the design's digest is passed on under this "
            "name; call the attribute otherwise",
            DESIGN_COLUMN,
        )
    return {
        **values,
        "collector": "",
        "words": {each: questionnaire.words_in(each, "frame") for each in values["words"]},
        "embed": {
            "origins": require_origins(origins),
            "column": DESIGN_COLUMN,
            "columns": [*asked.names, DESIGN_COLUMN],
            "separator": SEPARATOR,
            "places": [_symbols(source, name, asked, design) for name in asked.names],
        },
    }


def _symbols(source: str, name: str, asked: Codebook, design: Design) -> dict[str, Any]:
    """Texts of an attribute's reports, by code, and of the set that is empty."""
    block = block_of(design, name)
    if block is None:
        return {"words": list(asked[name].categories), "none": ""}
    is_set = block.kind == "set"
    symbols = asked[name].categories if is_set else symbols_of(block, name, asked)
    given = design.symbols.get(name)
    if given is None:
        texts, none = list(symbols), SEPARATOR
    elif by_label(given):
        raise InputError(
            f"{source}: question.{name}: the design has different words for each device, but a "
            "page in a frame passes labels on: leave symbols out of the design",
            name,
        )
    else:
        first = {meant: word for word, meant in reversed(list(given.items()))}
        texts, none = [first[symbol] for symbol in symbols], first.get("", SEPARATOR)
    if is_set and (bad := [text for text in texts if SEPARATOR in text]):
        raise InputError(
            f"{source}: question.{name}: {shown(bad[0])} has a {shown(SEPARATOR)}, which "
            "separates the categories of a set report; choose a name without it",
            bad[0],
        )
    return {"words": texts, "none": none}


def write_embedded(folder: Path, html: str) -> tuple[Path, Path]:
    """Write the page for a frame, and the script for the page around; the folder is there."""
    page, script = folder / PAGE, folder / SCRIPT
    write_text(page, html)
    write_text(script, asset(SCRIPT))
    return page, script


def remove_embedded(folder: Path) -> None:
    """Remove what an earlier build of another survey has left."""
    for name in (PAGE, SCRIPT):
        (folder / name).unlink(missing_ok=True)
