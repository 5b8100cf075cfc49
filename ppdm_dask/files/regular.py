"""Files as they are opened: ordinary ones, for a device or a pipe might never end."""

from __future__ import annotations

import stat
from collections.abc import Callable
from pathlib import Path

from ppdm_dask.errors import DataError, InputError

__all__ = ["ending", "require_file"]


def ending(path: Path) -> str:
    """How a name ends, in small letters: ``OK.CSV`` is a CSV file too."""
    return path.suffix.lower()


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
        raise error(f"{path}: there is no such file", path) from None
    except OSError as fault:
        raise error(f"{path}: cannot be read: {fault.strerror}", path) from None
    except ValueError:  # a name with a NUL
        raise error(f"{str(path)!r}: there can be no file of this name", path) from None
    if stat.S_ISDIR(found.st_mode):
        raise error(f"{path}: cannot be read: it is a folder, and a file is needed", path)
    if not stat.S_ISREG(found.st_mode):
        raise error(f"{path}: cannot be read: it is a device or a pipe, and a file is needed", path)
    return found.st_size
