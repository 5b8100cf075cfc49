"""What the commands of a survey have in common: their files, read and not to be replaced."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from pathlib import Path

import ppdm_dask as pp
from ppdm_dask.errors import InputError
from ppdm_dask.files.lock import own
from ppdm_dask.files.regular import ending

__all__ = ["plain", "read_both", "require_new"]


def read_both(codebook: Path, design: Path) -> tuple[pp.Codebook, pp.Design]:
    """Read a codebook, and a design that is bound to it.

    Raises
    ------
    InputError
        With both names, where they do not fit; with the line to add, where the design has to state
        labels.
    """
    book, plan = pp.Codebook.from_toml(codebook), pp.designs.read_design(design)
    try:
        plan = plan.bind(book, positions=True)
    except InputError as error:
        raise InputError(f"{design}: does not fit {codebook}: {error}", error.subject) from None
    try:
        return book, plan.bind(book)
    except InputError as error:
        raise InputError(f"{design}: {error}", error.subject) from None


def require_new(
    out: Path | None, force: bool, inputs: Iterable[Path] = (), endings: Collection[str] = ()
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
    """
    if out is None:
        return
    if out.is_dir():
        raise InputError(f"--out: got {str(out)!r}, which is a folder; a file is needed", out)
    for path in inputs:
        if out.exists() and path.exists() and out.samefile(path):
            raise InputError(f"--out: {out} is read by this command, and would be lost", out)
    if out.exists() and not force:
        raise InputError(f"--out: {out} is there already; --force replaces it", out)
    if not out.absolute().parent.is_dir():
        raise InputError(f"--out: there is no folder {str(out.parent)!r}", out)
    if endings and ending(out) not in endings:
        ends = " or ".join(endings)
        raise InputError(f"--out: got {str(out)!r}; a name that ends in {ends} is needed", out)
    own(out)
    if out.exists() and not force:  # another command has just written it
        raise InputError(f"--out: {out} is there already; --force replaces it", out)


def plain(value: float | None) -> float | str | None:
    """A number for JSON, which knows no infinity."""
    return "infinite" if value is not None and math.isinf(value) else value
