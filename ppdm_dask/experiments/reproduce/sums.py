"""``SHA256SUMS`` beside goldens: a changed digit in one of them must not pass for a drift.

Its lines are those of ``sha256sum``, with names relative to its folder.  A folder without it holds
goldens of an earlier version, which are believed.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from ppdm_dask.errors import DataError
from ppdm_dask.experiments.files import write_text
from ppdm_dask.experiments.sealed import read_bounded

__all__ = ["SUMS", "check_sum", "write_sum"]

SUMS = "SHA256SUMS"


def check_sum(path: Path, content: bytes) -> None:
    """Raise DataError unless a golden's content is what the list of its folder says."""
    sums = path.parent.parent / SUMS
    known = _read(sums)
    if known is None:
        return
    name = _name(path)
    if name not in known:
        what = f"{path}: not listed in {sums}; remove the golden and renew it"
        raise DataError(what, path)
    if known[name] != _sha256(content):
        raise DataError(f"{path}: damaged or edited: it is not the file that {sums} lists", path)


def write_sum(path: Path, content: bytes) -> None:
    """Put a golden that was written on the list, which begins with all that are there."""
    folder = path.parent.parent
    known = _read(folder / SUMS)
    if known is None:
        there = {_name(each): each for each in folder.glob("*/*.json")}
        known = {
            name: hashlib.sha256(each.read_bytes()).hexdigest() for name, each in there.items()
        }
    known[_name(path)] = hashlib.sha256(content).hexdigest()
    write_text(folder / SUMS, "".join(f"{known[name]}  {name}\n" for name in sorted(known)))


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _name(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"


def _read(sums: Path) -> dict[str, str] | None:
    try:
        lines = read_bounded(sums).decode("utf-8").splitlines()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise DataError(f"{sums}: cannot be read: {error.strerror}", sums) from None
    except UnicodeDecodeError:
        raise DataError(f"{sums}: this is no list of checksums", sums) from None
    return {name: digest for digest, _, name in (line.partition("  ") for line in lines)}
