"""One command at a time writes a file: a lock beside it, which is gone when the command ends."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ppdm_dask.files.lock import RunLock

__all__ = ["own", "release_all"]

NAME_BYTES = 200  # of a lock's name; file systems allow 255

_held: dict[Path, RunLock] = {}


def own(out: Path) -> None:
    """Keep other commands from writing a file or a folder until this one ends.

    Raises
    ------
    RunFolderError
        If another one is writing it, or nothing can be written there.
    """
    from ppdm_dask.files.lock import RunLock
    from ppdm_dask.files.writing import remove_at_end

    path = _lock_of(out)
    if path not in _held:
        _held[path] = RunLock(path, out)
        remove_at_end(path)


def release_all() -> None:
    """Let go of everything; the last thing that a command does."""
    if not _held:
        return
    from ppdm_dask.files.writing import stays

    while _held:
        path, held = _held.popitem()
        held.release()
        stays(path)


def _lock_of(out: Path) -> Path:
    """The hidden file beside what is written, in the first folder that is there."""
    real = Path(os.path.realpath(out))
    folder = next((each for each in real.parents if each.is_dir()), real)
    if real.is_dir() and not os.access(folder, os.W_OK):
        return real / ".ppdm.lock"
    name = "-".join(real.relative_to(folder).parts)
    return folder / f".{name.encode()[:NAME_BYTES].decode(errors='ignore')}.lock"
