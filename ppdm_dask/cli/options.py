"""Options that several commands have, and how their values are read.

A name may hold commas, quotes and spaces, so a list is not only cut at its commas: a text that is
a known name as a whole is that name; else pieces between commas are names, several of them joined
where that makes a known one; and a piece in double quotes is one name, written as in a CSV file.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

import ppdm_dask as pp
from ppdm_dask.cli.completing import profile_names
from ppdm_dask.errors import InputError
from ppdm_dask.files.lock import own
from ppdm_dask.files.regular import ending
from ppdm_dask.shown import listed, shown

_PIECE = re.compile(r'\s*"((?:[^"]|"")*)"\s*(?:,|$)|([^,]*)(?:,|$)')

LONGEST_NAME = 64
"""Pieces between commas that are tried as one name; bounds the work for a list of thousands."""


def named(given: Sequence[str] | None, known: Collection[str]) -> list[str]:
    """Names that an option gives, which may be given several times.

    Parameters
    ----------
    given : sequence of str or None
        Each a name, or names between commas.
    known : collection of str
        The known names.

    Returns
    -------
    list of str
        In the order given; unknown names stay, for the caller to refuse.

    Examples
    --------
    >>> named(["age,Have you, ever?", '"old, name", sex'], ["age", "Have you, ever?", "sex"])
    ['age', 'Have you, ever?', 'old, name', 'sex']
    """
    there = frozenset(known)
    return [name for text in given or () for name in _split(text, there)]


def _split(text: str, known: frozenset[str]) -> Iterator[str]:
    if text in known:
        yield text
        return
    pieces = list(_pieces(text))
    at = 0
    while at < len(pieces):
        length, name = _longest(pieces[at : at + LONGEST_NAME], known)
        at += length
        if name:
            yield name


def _longest(pieces: list[tuple[str, bool]], known: frozenset[str]) -> tuple[int, str]:
    """How many of the first pieces make the longest known name, and the name."""
    first, quoted = pieces[0]
    if quoted:
        return 1, first
    # A piece in quotes is a name of its own, so joining stops before it. The longest name wins.
    plain = next((i for i, (_, quotes) in enumerate(pieces) if quotes), len(pieces))
    for length in range(plain, 0, -1):
        joined = ",".join(piece for piece, _ in pieces[:length])
        for name in (joined, joined.strip()):
            if name in known:
                return length, name
    return 1, first.strip()


def _pieces(text: str) -> Iterator[tuple[str, bool]]:
    """Texts between commas, and whether they stood in quotes."""
    at = 0
    while at <= len(text):
        found = _PIECE.match(text, at)
        assert found is not None  # the second alternative matches anything
        quoted = found[1] is not None
        yield (found[1].replace('""', '"') if quoted else found[2]), quoted
        if not found[0].endswith(","):
            return
        at = found.end()


def conditions(
    given: Sequence[str], known: Mapping[str, Collection[str]], option: str = "--where"
) -> dict[str, list[str]]:
    """Labels by attribute of conditions such as ``sex=Male,race=Black``.

    Parameters
    ----------
    given : sequence of str
        Each ``attribute=label``, or several between commas; one of them may stand in quotes.
    known : mapping of attribute to labels
        The known ones.
    option : str
        For messages.

    Returns
    -------
    dict of str to list of str
        An attribute that is named twice may have either label. Unknown labels stay, for the caller
        to refuse.

    Raises
    ------
    InputError
        If a condition names no attribute.
    """
    pairs = {f"{name}={label}": (name, label) for name in known for label in known[name]}
    found: dict[str, list[str]] = {}
    for text in given:
        for piece in _split(text, frozenset(pairs)):
            for name, label in _parsed(piece, text, pairs, known, option):
                labels = found.setdefault(name, [])
                if label not in labels:
                    labels.append(label)
    return found


def _parsed(
    piece: str,
    text: str,
    pairs: Mapping[str, tuple[str, str]],
    known: Mapping[str, Collection[str]],
    option: str,
) -> Iterator[tuple[str, str]]:
    if piece in pairs:
        yield pairs[piece]
        return
    # The longest name first: a name may hold an equals sign.
    for name in sorted(known, key=len, reverse=True):
        key = next((k for k in (f"{name}=", f"{name} =") if piece.startswith(k)), "")
        if key:
            label = piece[len(key) :]
            yield name, label if label in known[name] else label.strip()
            return
    raise InputError(
        f"{option}: got {shown(text)}; attribute=label is needed, with one of {listed(known)}", text
    )


def refuse_given(options: Mapping[str, Any], why: str) -> None:
    """Raise InputError for the first of some options that is given."""
    for option, value in options.items():
        if value is not None:
            raise InputError(f"{option}: {why}", value)


def in_options(
    error: InputError, options: Mapping[str, str], prior: Path | None = None
) -> InputError:
    """A refusal by a function's parameter, with the option that the user typed in its place.

    Parameters
    ----------
    error : InputError
        ``PARAMETER: what is wrong``, or ``PARAMETER[ATTRIBUTE]: what is wrong``.
    options : mapping of str to str
        Options by parameter; an error of another one stays as it is.
    prior : Path, optional
        The file that the parameter `prior` was read from.
    """
    key, _, what = str(error).partition(": ")
    if key == "prior" and prior is not None:
        return InputError(f"{prior}: {key}: {what}", error.subject)
    parameter, _, attribute = key.partition("[")
    if parameter not in options:
        return error
    of = f"{attribute.rstrip(']')}: " if attribute else ""
    return InputError(f"{options[parameter]}: {of}{what}", error.subject)


def read_both(codebook: Path, design: Path) -> tuple[pp.Codebook, pp.Design]:
    """Read a codebook, and a design that is bound to it.

    Raises
    ------
    InputError
        With both names, where they do not fit; with the line to add, where the design has to state
        labels.
    """
    book, plan = pp.Codebook.from_toml(codebook), pp.designs.read_design(design)
    # By position first, for messages on attributes and sizes; then by label, which answers need.
    try:
        plan = plan.bind(book, positions=True)
    except InputError as error:
        raise InputError(f"{design}: does not fit {codebook}: {error}", error.subject) from None
    try:
        return book, plan.bind(book)
    except InputError as error:
        raise InputError(f"{design}: {error}", error.subject) from None


def require_new(
    out: Path | None,
    force: bool,
    inputs: Iterable[Path] = (),
    endings: Collection[str] = (),
    option: str = "--out",
) -> None:
    """Raise InputError where a file would be replaced that nobody asked to replace.

    Until the command ends no other one can write that file.

    Parameters
    ----------
    out : Path or None
    force : bool
        Whether a file that is there may be replaced.
    inputs : iterable of Path
        What the command reads, which is never replaced.
    endings : collection of str
        What the name may end in; anything if there are none.
    option : str
        The option that names the file, for messages.
    """
    if out is None:
        return
    if out.is_dir():
        raise InputError(f"{option}: got {str(out)!r}, which is a folder; a file is needed", out)
    for path in inputs:
        if out.exists() and path.exists() and out.samefile(path):
            raise InputError(f"{option}: {out} is read by this command, and would be lost", out)
    if out.exists() and not force:
        raise InputError(f"{option}: {out} already exists; --force replaces it", out)
    if not out.absolute().parent.is_dir():
        raise InputError(f"{option}: there is no folder {str(out.parent)!r}", out)
    if endings and ending(out) not in endings:
        ends = " or ".join(endings)
        raise InputError(f"{option}: got {str(out)!r}; a name that ends in {ends} is needed", out)
    own(out)
    # Asked again under the lock: another command may just have written it.
    if out.exists() and not force:
        raise InputError(f"{option}: {out} already exists; --force replaces it", out)


def require_new_folder(
    out: Path, force: bool, inputs: Iterable[Path] = (), mark: str | None = None
) -> None:
    """As :func:`require_new`, of a folder that is written whole.

    One that is there is replaced only if it is empty, or holds what such a command wrote: the file
    `mark`, by default the manifest of reports.
    """
    own(out)
    if out.exists() and not out.is_dir():
        raise InputError(f"--out: got {str(out)!r}, which is a file; a folder is needed", out)
    if not out.absolute().parent.is_dir():
        raise InputError(f"--out: there is no folder {str(out.parent)!r}", out)
    if not out.is_dir() or not any(out.iterdir()):
        return
    if not (out / (mark or pp.survey.MANIFEST)).is_file():
        raise InputError(
            f"--out: folder {out} holds other files; name an empty one, or one that is not there",
            out,
        )
    if not force:
        raise InputError(f"--out: {out} already exists; --force replaces it", out)
    for path in inputs:
        if path.resolve().is_relative_to(out.resolve()):
            raise InputError(f"--out: {path} in it is read by this command, and would be lost", out)


def plain(value: float | None) -> float | str | None:
    """A number for JSON, which has no infinity."""
    return "infinite" if value is not None and math.isinf(value) else value


Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]
SpreadsheetSafe = Annotated[
    bool,
    typer.Option(
        "--spreadsheet-safe",
        help="In a .csv, put an apostrophe before texts that a spreadsheet would run as formulas.",
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Replace an existing file.")]
Workers = Annotated[
    int | None,
    typer.Option(
        min=0,
        metavar="N",
        help="Worker processes; 0 computes in one thread.",
        show_default="threads or as many as help",
    ),
]
Cluster = Annotated[
    str | None,
    typer.Option(
        metavar="PROFILE",
        autocompletion=profile_names,
        help="Cluster profile: compute there instead of with --workers.",
        show_default="this machine",
    ),
]
PartWorkers = Annotated[
    int,
    typer.Option(
        "--workers", min=0, metavar="N", help="Worker processes; 0 computes in this process."
    ),
]
Run = Annotated[Path, typer.Argument(metavar="RUN", help="A run's folder.", show_default=False)]
Data = Annotated[
    Path,
    typer.Argument(
        metavar="DATA",
        help="A data file: .csv, .parquet, .arrow, .xlsx, .sav, .dta and others.",
        show_default=False,
    ),
]
FOUND = "detected and reported"
Delimiter = Annotated[
    str | None,
    typer.Option(
        metavar="SIGN",
        help="Separator of the fields of a text file: ';', tab, ...",
        show_default=FOUND,
    ),
]
Encoding = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="Encoding of a text file: utf-8, cp1252, ...", show_default=FOUND
    ),
]
Decimal = Annotated[
    str | None,
    typer.Option(
        metavar="SIGN", help="Decimal mark of a text file: . or a comma.", show_default=FOUND
    ),
]
Sheet = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Sheet of an Excel file.", show_default="the only one"),
]
Split = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COL",
        help="Column with several answers, such as 'a;c', to read as yes or no for each answer.",
        show_default="none",
    ),
]
SplitAt = Annotated[
    str, typer.Option("--split-at", metavar="SIGN", help="Separator of such answers.")
]
Sources = Annotated[
    list[Path],
    typer.Argument(
        metavar="SOURCE...",
        help="Files of reports or counts, folders of parts, or patterns.",
        show_default=False,
    ),
]
CodebookFile = Annotated[
    Path,
    typer.Option(
        "--codebook", metavar="C", help="Codebook: the declared answers.", show_default=False
    ),
]
DesignFile = Annotated[
    Path,
    typer.Option(
        "--design", metavar="D", help="Design: how answers are disguised.", show_default=False
    ),
]
Level = Annotated[float, typer.Option(metavar="P", help="Confidence level of the intervals.")]
Weights = Annotated[
    str | None,
    typer.Option(metavar="COL", help="Column of undisguised survey weights.", show_default=False),
]
Strata = Annotated[
    str | None,
    typer.Option(metavar="COL", help="Column of undisguised strata.", show_default=False),
]
Clusters = Annotated[
    str | None,
    typer.Option(
        metavar="COL", help="Column of undisguised clusters, such as schools.", show_default=False
    ),
]
Fpc = Annotated[
    str | None,
    typer.Option(
        metavar="COL",
        help="Column with each stratum's sampled fraction, or its number of clusters in the "
        "population.",
        show_default=False,
    ),
]
Remedy = Annotated[
    Literal["fail", "certainty", "adjust", "average"],
    typer.Option(
        help="What to do with a stratum that has a single cluster: refuse it, or use a remedy."
    ),
]
