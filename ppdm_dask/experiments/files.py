"""Files that are there whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ppdm_dask.errors import RunFolderError

__all__ = ["replacing", "write_text"]


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a temporary name in the same folder; on leaving, sync the file and rename it.

    Where anything fails, the temporary file is removed and what stood at `path` still stands.

    Raises
    ------
    RunFolderError
        If the file cannot be written.
    """
    # The process id keeps apart two programs that draw the same figure at one time.
    temporary = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
    try:
        yield temporary
        _sync(temporary)
        os.replace(temporary, path)
        # Some systems and file systems sync no folders.
        with suppress(OSError):
            _sync(path.parent)
    except OSError as error:
        what = error.strerror or " ".join(str(error).split())
        raise RunFolderError(f"{path}: cannot be written: {what}", path) from None
    finally:
        with suppress(OSError):
            temporary.unlink()


def write_text(path: Path, text: str) -> None:
    """Write a UTF-8 file, whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
