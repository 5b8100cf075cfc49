"""Folders of parts of reports: one manifest says which files are the reports of one disguise.

The folder is made aside, hidden and locked, and moved to its place with the manifest in it; so all
parts are there or none.  What a killed program leaves is a hidden folder, which goes when the next
command writes beside it.
"""

from __future__ import annotations

import glob
import hashlib
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ppdm_dask import __version__
from ppdm_dask.errors import DataError, RunFolderError
from ppdm_dask.files.documents import Form, misfit, read_sealed, seal
from ppdm_dask.files.reader import WILD, expand
from ppdm_dask.files.regular import ending, read_bounded
from ppdm_dask.files.writing import (
    PART,
    remove_at_end,
    remove_left_parts,
    stays,
    write_text,
)
from ppdm_dask.shown import located, shown
from ppdm_dask.survey.about import PLACE, About
from ppdm_dask.survey.reports import about_file, beside, parquet_metadata
from ppdm_dask.system import lock, open_folder

__all__ = [
    "MANIFEST",
    "Found",
    "Part",
    "Sources",
    "aside",
    "batch_of",
    "checked",
    "finish",
    "part_name",
    "report_files",
    "require_whole",
    "seal_of",
]

Sources = list[tuple[Path, About]]

Found = tuple[Path, About | None]
"""A file, and what a manifest says of it."""

MANIFEST = "manifest.json"

FORMAT = 1

FORM: Form = {
    "ppdm": str,
    "format": int,
    "about": str,
    "parts": [{"name": str, "reports": int, "checksum": str, "batch": str}],
}


@dataclass(frozen=True)
class Part:
    """A part as the manifest names it.

    Parameters
    ----------
    name : str
    reports : int
    checksum : str
        See :func:`seal_of`.
    batch : str
        The random name that the part has.
    """

    name: str
    reports: int
    checksum: str
    batch: str


def part_name(i: int) -> str:
    """The file of part i."""
    return f"part-{i:06d}.parquet"


def batch_of(disguise: str, i: int) -> str:
    """Name of part i of a disguise: the same when a task writes it again."""
    return hashlib.sha256(f"{disguise} {i}".encode()).hexdigest()[:32]


def seal_of(path: Path) -> str:
    """The checksum that a file of reports carries: a CSV's is that of the file beside it.

    Whether it is right says :func:`ppdm_dask.survey.reports.about_file`.
    """
    if ending(path) == ".csv":
        return hashlib.sha256(read_bounded(beside(path))).hexdigest()
    return parquet_metadata(path).get(PLACE, b"").decode("ascii", "replace")


@contextmanager
def aside(out: Path, say: Callable[[str], None]) -> Iterator[Path]:
    """Give a hidden folder beside a folder of parts; it is removed if it is not moved.

    Parameters
    ----------
    out : Path
        Where the folder will be.
    say : callable
        Called with a sentence about remains of an earlier command that are removed.
    """
    place = out.absolute()
    before = _unfinished(place)
    remove_left_parts(place.parent)
    if len(_unfinished(place)) < len(before):
        say(f"removed what a killed command left of {out}")
    name = f".{place.name[:40]}.{os.getpid()}-{os.urandom(6).hex()}.part"
    folder = place.with_name(name)
    remove_at_end(folder)
    descriptor = None
    try:
        try:
            folder.mkdir(mode=0o700)
        except OSError as error:
            raise RunFolderError(f"{out}: cannot be made: {error.strerror}", out) from None
        descriptor = open_folder(folder)
        if descriptor is not None:
            with suppress(OSError):  # no locks here
                lock(descriptor, shared=True)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        stays(folder)
        if descriptor is not None:
            os.close(descriptor)


def _unfinished(place: Path) -> set[str]:
    begin = f".{place.name[:40]}."
    with suppress(OSError):
        return {n for n in os.listdir(place.parent) if n.startswith(begin) and PART.fullmatch(n)}
    return set()


def finish(
    folder: Path, out: Path, about: About, parts: Sequence[Part], inputs: Sequence[Path]
) -> None:
    """Write the manifest, and move the folder to its place, where it replaces another one.

    Parameters
    ----------
    folder : Path
        As :func:`aside` gives it.
    out : Path
    about : About
        Of all the parts.
    parts : sequence of Part
    inputs : sequence of Path
        People who may not read all of these may not read the manifest.
    """
    content = {
        "ppdm": "parts",
        "format": FORMAT,
        "version": __version__,
        "reports": sum(part.reports for part in parts),
        "about": about.text(),
        "parts": [vars(part) for part in parts],
    }
    write_text(folder / MANIFEST, _json(seal(content)), inputs)
    probe = folder / "probe"
    probe.mkdir()
    mode = probe.stat().st_mode
    probe.rmdir()
    try:
        with _moved_away(out):
            folder.chmod(mode & 0o777)
            os.rename(folder, out)
    except OSError as error:
        raise RunFolderError(f"{out}: cannot be written: {error.strerror}", out) from None


def _json(content: dict[str, Any]) -> str:
    import json

    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


@contextmanager
def _moved_away(out: Path) -> Iterator[None]:
    """Context in which a folder that is there stands aside; it comes back if anything fails."""
    if not out.is_dir() or not any(out.iterdir()):
        yield
        return
    away = out.absolute().with_name(f".{out.name[:40]}.{os.getpid()}-{os.urandom(6).hex()}.part")
    os.rename(out, away)
    try:
        yield
    except BaseException:
        os.rename(away, out)
        raise
    shutil.rmtree(away, ignore_errors=True)


def report_files(paths: Sequence[Path]) -> list[Found]:
    """Files of reports and counts behind paths: files, folders, patterns, folders of parts.

    Returns
    -------
    list of (Path, About or None)
        Parts with what their manifest says of them; None if the file must be opened to know.

    Raises
    ------
    DataError
        If a manifest is damaged, or the folder lacks a part or has another file.
    """
    found: list[Found] = []
    for path in paths:
        if path.is_dir() and (path / MANIFEST).exists():
            found += _parts(path)
            continue
        folders = _folders(path)
        for folder in folders:
            found += _parts(folder)
        if not folders or _has_files(path):
            # Reports and counts may be Parquet and CSV side by side.
            found += [(file, None) for file in _files(path)]
    return found


def _folders(path: Path) -> list[Path]:
    """Folders of parts that a pattern names."""
    if path.exists() or not any(sign in str(path) for sign in WILD):
        return []
    return sorted(
        Path(each)
        for each in glob.glob(str(path), recursive=True)
        if (Path(each) / MANIFEST).is_file()
    )


def _has_files(path: Path) -> bool:
    return any(Path(each).is_file() for each in glob.glob(str(path), recursive=True))


def _files(path: Path) -> list[Path]:
    if not path.is_dir() and not any(sign in str(path) for sign in WILD):
        return [path]
    return expand(path)


def _parts(folder: Path) -> Sources:
    path = folder / MANIFEST
    content = read_sealed(path, "manifest of parts of reports", DataError)
    if misfit(content, FORM) is not None or content["ppdm"] != "parts":
        raise DataError(f"{path}: this is not a manifest of parts of reports", path)
    if content["format"] != FORMAT:
        raise DataError(f"{path}: was written by another version of this program", path)
    about = About.read(path, content["about"])
    named = {
        part["name"]: Part(**{k: part[k] for k in Part.__annotations__})
        for part in content["parts"]
    }
    if len(named) != len(content["parts"]) or any(Path(name).name != name for name in named):
        raise DataError(f"{path}: this is not a manifest of parts of reports", path)
    there = {each.name for each in folder.iterdir() if not each.name.startswith(".")} - {MANIFEST}
    for name in sorted(named.keys() - there):
        raise DataError(
            f"{folder / name}: is missing, and the manifest names it; ask for the folder again",
            folder / name,
        )
    for name in sorted(there - named.keys()):
        raise DataError(
            f"{located(folder / name)}: the manifest does not name it; take it out of the folder",
            folder / name,
        )
    return [
        (
            folder / part.name,
            replace(about, batches=(part.batch,), n=part.reports, kept={}, seal=part.checksum),
        )
        for part in named.values()
    ]


def require_whole(path: Path, about: About, known: dict[Path, frozenset[str]]) -> None:
    """Raise DataError for a part of reports without the manifest that names it.

    Parameters
    ----------
    path : Path
    about : About
    known : dict
        Names in manifests that were read, by folder; what is read is added.
    """
    if not about.disguise or about.seal:
        return
    manifest = path.parent / MANIFEST
    if not manifest.is_file():
        raise DataError(
            f"{path}: is a part of reports, and {manifest} is missing, which says that they are "
            "complete; ask for the whole folder",
            path,
        )
    if path.parent not in known:
        known[path.parent] = frozenset(file.name for file, _ in _parts(path.parent))
    if path.name not in known[path.parent]:
        raise DataError(f"{path}: {manifest} does not name {shown(path.name)}", path)


def checked(path: Path, about: About) -> About:
    """The description in a file; DataError if it differs from its manifest."""
    if not about.seal:
        return about
    said = about_file(path)
    if (said.batches, said.n, seal_of(path)) != (about.batches, about.n, about.seal):
        raise DataError(
            f"{path}: is not the part that {path.parent / MANIFEST} names: its checksum is "
            "another one; ask for the folder again",
            path,
        )
    return replace(about, seal="")
