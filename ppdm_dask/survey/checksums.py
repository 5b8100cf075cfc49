"""Checksums over files of reports and counts: what is not as it was written is not read.

A Parquet file carries the SHA-256 of itself, taken with the place of the checksum filled with
zeros; so it covers the answers, what the file says of itself, and all that Parquet needs to read
them.  A CSV has its checksum in the file beside it, which has one of its own.  Checksums show
damage, and changes by hand or by another program; they are no signature of who made the file.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from ppdm_dask.errors import DataError

__all__ = ["EMPTY", "PLACE", "checksum_of", "file_checksum", "seal", "sealed"]

PLACE = b"ppdm.checksum"
"""Key under which a Parquet file keeps its checksum."""

EMPTY = b"0" * 64
"""What stands there while the checksum is taken."""

# A key and its value in the footer, in Thrift's compact protocol: a binary field of 64 bytes.
_MARK = PLACE + b"\x18" + bytes([len(EMPTY)])

_CHUNK = 1 << 20
_TAIL = b"PAR1"
_LONGEST_FOOTER = 1 << 27


def checksum_of(config: Mapping[str, Any]) -> str:
    """SHA-256 of JSON values, whatever the order of keys and the spaces between them."""
    text = json.dumps(config, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def file_checksum(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def seal(path: Path) -> None:
    """Write the checksum of a Parquet file into it; it was written with `EMPTY` at `PLACE`."""
    with path.open("r+b") as file:
        place = _place(file)
        assert place is not None, "the file was written without a place for its checksum"
        digest = _digest(file, place)
        file.seek(place)
        file.write(digest.encode())


def sealed(path: Path) -> bool:
    """Whether a Parquet file carries a checksum, which then is right.

    Raises
    ------
    DataError
        If it is another one than that of the file.
    """
    try:
        with path.open("rb") as file:
            place = _place(file)
            if place is None:
                return False
            file.seek(place)
            written = file.read(len(EMPTY))
            found = _digest(file, place)
    except FileNotFoundError:
        raise DataError(f"{path}: there is no such file", path) from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}", path) from None
    if written != found.encode():
        raise DataError(
            f"{path}: is damaged or was changed: its checksum is another one than was written; "
            "ask for the file again",
            path,
        )
    return True


def _place(file: IO[bytes]) -> int | None:
    """Where the checksum is, from the start of the file."""
    size = file.seek(0, 2)
    if size < 12:
        return None
    file.seek(size - 8)
    end = file.read(8)
    length = int.from_bytes(end[:4], "little")
    if end[4:] != _TAIL or not 0 < length <= min(size - 8, _LONGEST_FOOTER):
        return None
    start = size - 8 - length
    file.seek(start)
    found = file.read(length).rfind(_MARK)
    return None if found < 0 else start + found + len(_MARK)


def _digest(file: IO[bytes], place: int) -> str:
    digest = hashlib.sha256()
    file.seek(0)
    left = place
    while left:
        part = file.read(min(left, _CHUNK))
        digest.update(part)
        left -= len(part)
    digest.update(EMPTY)
    file.seek(place + len(EMPTY))
    while part := file.read(_CHUNK):
        digest.update(part)
    return digest.hexdigest()
