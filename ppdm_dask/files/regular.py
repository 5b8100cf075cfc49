"""Files as they are opened: ordinary ones, for a device or a pipe might never end."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path

from ppdm_dask.errors import DataError, InputError
from ppdm_dask.shown import located, shown
from ppdm_dask.system import NOT_WAITING

__all__ = ["ending", "read_bounded", "require_file"]

MOST_BYTES = 64 << 20
"""Size beyond which a document is not read: none of ours comes near it."""


def ending(path: Path) -> str:
    """How a name ends, in small letters: ``OK.CSV`` is a CSV file too, ``.csv.gz`` one ending."""
    last = path.suffix.lower()
    return "".join(path.suffixes[-2:]).lower() if last == ".gz" else last


def require_file(path: Path, error: Callable[[str, Path], InputError] = DataError) -> int:
    """Raise unless there is an ordinary file; else its size in bytes.

    Parameters
    ----------
    path : Path
    error : callable
        Makes the exception of a message and the path.
    """
    try:
        found = path.stat()
    except FileNotFoundError:
        raise error(f"{located(path)}: there is no such file", path) from None
    except OSError as fault:
        raise error(f"{located(path)}: cannot be read: {fault.strerror}", path) from None
    except ValueError:  # a name with a NUL
        raise error(f"{shown(str(path))}: there can be no file of this name", path) from None
    if stat.S_ISDIR(found.st_mode):
        raise error(f"{located(path)}: cannot be read: it is a folder, and a file is needed", path)
    if not stat.S_ISREG(found.st_mode):
        raise error(
            f"{located(path)}: cannot be read: it is a device or a pipe, and a file is needed", path
        )
    return found.st_size


def read_bounded(path: Path, most: int = MOST_BYTES) -> bytes:
    """The content of a regular file of at most so many bytes.

    Raises
    ------
    OSError
        With the reason, also for a folder, a device or a pipe, which is not waited for, and for a
        larger file.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | NOT_WAITING)
    except ValueError:  # a name with a NUL
        raise OSError(errno.EINVAL, "there can be no file of this name") from None
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if stat.S_ISDIR(found.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "it is a device or a pipe, no file")
        if found.st_size > most:
            what = f"it has {found.st_size:,} bytes; at most {most:,} are expected"
            raise OSError(errno.EFBIG, what)
        return file.read(found.st_size)
