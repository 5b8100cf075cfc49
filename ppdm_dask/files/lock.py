"""One writer at a time: a file lock that the kernel frees when its process ends.

A command that writes a file or a folder holds one beside it until it ends.
"""

from __future__ import annotations

import os
from pathlib import Path

from ppdm_dask.errors import RunFolderError
from ppdm_dask.files.writing import remove_at_end, stays
from ppdm_dask.system import has_locks, lock, process_lives, read_at_start, write_at_start

__all__ = ["RunLock", "own", "release_all"]


NAME_BYTES = 200  # of a lock's name; file systems allow 255

_held: dict[Path, RunLock] = {}


def own(out: Path) -> None:
    """Keep other commands from writing a file or a folder until this one ends.

    Raises
    ------
    RunFolderError
        If another one is writing it, or nothing can be written there.
    """
    path = _lock_of(out)
    if path not in _held:
        _held[path] = RunLock(path, out)
        remove_at_end(path)


def release_all() -> None:
    """Let go of everything; the last thing that a command does."""
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


class RunLock:
    """Exclusive lock beside a ledger or an output; held from construction to :meth:`release`.

    The file holds the process id of the holder. It is not inherited by worker processes, so a
    killed driver frees it at once.

    Parameters
    ----------
    path : Path
        The lock file; made if it is not there, removed on release.
    owner : Path
        What the lock protects; named in the error.

    Raises
    ------
    RunFolderError
        If another process holds the lock, or the file cannot be written.
    """

    def __init__(self, path: Path, owner: Path) -> None:
        self.path = path
        while True:
            try:
                descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            except OSError as error:
                raise RunFolderError(
                    f"{path}: cannot be written ({error.strerror}); a folder that can be "
                    "written to is needed",
                    path,
                ) from None
            if not _locked(descriptor):
                holder = read_at_start(descriptor, 32).decode(errors="replace").strip()
                os.close(descriptor)
                raise RunFolderError(
                    f"{owner}: in use by process {holder or '(just starting)'}; "
                    "wait for it to end, or stop it",
                    path,
                )
            if self._is_current(descriptor):
                break
            # The former holder removed the file between our opening and our locking it.
            os.close(descriptor)
        write_at_start(descriptor, f"{os.getpid()}\n".encode())
        self._descriptor: int | None = descriptor

    def _is_current(self, descriptor: int) -> bool:
        try:
            return os.path.samestat(os.fstat(descriptor), self.path.stat())
        except FileNotFoundError:
            return False

    def release(self) -> None:
        """Remove the file and free the lock; a second call does nothing."""
        if self._descriptor is None:
            return
        descriptor, self._descriptor = self._descriptor, None
        try:
            self.path.unlink(missing_ok=True)
        except PermissionError:  # a system that removes no open file
            os.close(descriptor)
            self.path.unlink(missing_ok=True)
        else:
            os.close(descriptor)


def _locked(descriptor: int) -> bool:
    """Lock a file, or say that somebody else has; without such locks, by the process it names."""
    if has_locks():
        try:
            lock(descriptor, wait=False)
        except OSError:
            return False
        return True
    holder = read_at_start(descriptor, 32).strip()
    return not holder.isdigit() or not process_lives(int(holder))
