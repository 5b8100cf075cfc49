"""The file of a checkpoint: facts as JSON and arrays of plain numbers, under a checksum.

A first line says what the file is, a second one has the SHA-256 of all that follows: the length of
a JSON header (8 bytes, little-endian), the header, and the arrays' values, little-endian and in
row-major order.  Nothing in it is unpacked or executed. A file that is larger than the search
allows is not read, so no file takes more memory than that.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ppdm_dask.errors import InputError
from ppdm_dask.files.writing import replacing
from ppdm_dask.system import NOT_WAITING

Arrays = Mapping[str, npt.NDArray[Any]]

MAGIC = b"ppdm search checkpoint 2\n"
EARLIER = b"PK\x03\x04"
"""How the files of earlier versions began."""

TYPES = {"<f8": np.dtype("<f8"), "<i8": np.dtype("<i8")}
DIGEST = 65  # hexadecimal digits and the end of their line


class DamagedCheckpoint(InputError):
    """A file that is not a checkpoint of this search, or not a whole one."""


def write_checkpoint(path: Path, facts: Mapping[str, Any], arrays: Arrays) -> None:
    """Write a checkpoint atomically.

    Parameters
    ----------
    path : Path
    facts : mapping
        JSON values.
    arrays : mapping of str to array
        Of floats or integers.
    """
    described, values = [], []
    for name, array in arrays.items():
        kind = "<i8" if array.dtype.kind in "iub" else "<f8"
        described.append([name, kind, list(array.shape)])
        values.append(array.astype(TYPES[kind]).tobytes())
    header = json.dumps({"facts": dict(facts), "arrays": described}, sort_keys=True).encode()
    content = b"".join([len(header).to_bytes(8, "little"), header, *values])
    digest = hashlib.sha256(content).hexdigest().encode() + b"\n"
    # A kill while it is written leaves the earlier checkpoint.
    with replacing(path) as temporary:
        temporary.write_bytes(MAGIC + digest + content)


def require_file(path: Path) -> bool:
    """Whether there is a file; if there is none, it must be possible to write one.

    Raises
    ------
    InputError
        If the path is a folder, a device or a pipe, or its folder does not exist.
    """
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        if path.is_symlink() or not path.absolute().parent.is_dir():
            what = f"{path}: a checkpoint cannot be written there: there is no folder"
            raise InputError(f"{what} {str(path.parent)!r}", path) from None
        return False
    except (OSError, ValueError) as error:
        what = getattr(error, "strerror", None) or str(error)
        raise InputError(f"{path}: this checkpoint cannot be read: {what}", path) from None
    if not stat.S_ISREG(mode):
        what = "a folder" if stat.S_ISDIR(mode) else "a device or a pipe"
        raise InputError(f"{path}: this is {what}; the file of a checkpoint is needed", path)
    return True


def read_checkpoint(path: Path, most: int) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """Facts and arrays of a checkpoint, as :func:`write_checkpoint` was given them.

    Parameters
    ----------
    path : Path
    most : int
        Bytes that a checkpoint of this search can have; a larger file is not read.

    Raises
    ------
    DamagedCheckpoint
        One line, if the file is not a complete checkpoint.
    """
    require_file(path)
    try:
        # A pipe that took the file's place meanwhile must not be waited for.
        with os.fdopen(os.open(path, os.O_RDONLY | NOT_WAITING), "rb") as file:
            size = os.fstat(file.fileno()).st_size
            start = file.read(len(MAGIC))
            if start.startswith(EARLIER):
                raise _damaged(path, "an earlier version of this program wrote it")
            if start != MAGIC:
                raise _damaged(path, "it is empty" if not size else "it begins otherwise")
            if size > most + len(MAGIC) + DIGEST:
                raise _damaged(path, f"it has {size:,} bytes, this search needs at most {most:,}")
            # One byte more than allowed, as the file may have grown since it was measured.
            digest, content = file.read(DIGEST), file.read(most + 1)
    except OSError as error:
        what = f"{path}: this checkpoint cannot be read: {error.strerror}"
        raise InputError(what, path) from None
    if hashlib.sha256(content).hexdigest().encode() + b"\n" != digest:
        raise _damaged(path, "its content does not match its checksum")
    try:
        return _unpack(content)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise _damaged(path, " ".join(str(error).split())[:60]) from None


def _unpack(content: bytes) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    end = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:end])
    arrays = {}
    for name, kind, shape in header["arrays"]:
        if not all(isinstance(length, int) and length >= 0 for length in shape):
            raise ValueError(f"shape {shape}")
        # As Python's integers, which do not overflow.
        stop = end + math.prod(shape) * TYPES[kind].itemsize
        if stop > len(content):
            raise ValueError(f"{name}: values are missing")
        arrays[str(name)] = np.frombuffer(content[end:stop], TYPES[kind]).reshape(shape).copy()
        end = stop
    if end != len(content):
        raise ValueError("more values than it says")
    return dict(header["facts"]), arrays


def _damaged(path: Path, what: str) -> DamagedCheckpoint:
    return DamagedCheckpoint(
        f"{path}: no checkpoint of this search: {what}; remove it to begin again", path
    )
