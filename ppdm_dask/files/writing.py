"""Atomic writing: a file is complete or does not exist, and leaves no temporary copies.

A file is made in a hidden folder beside its place, ``.<name>.<process>-<token>.part``, which its
owner may enter, and nobody else.  The folder is removed when the file is complete, when writing
fails, and when SIGINT, SIGTERM or SIGHUP ends the program.  After SIGKILL it stays, until a program
writes into the same place again: a lock that the kernel frees with its holder tells what is left
over from what another program is still writing, whatever process has the old number by then.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import signal
import stat
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

from ppdm_dask.errors import RunFolderError
from ppdm_dask.system import ENDINGS, lock, open_folder, process_lives, sync

__all__ = [
    "ending_cleanly",
    "remove_at_end",
    "remove_left_parts",
    "replacing",
    "stays",
    "write_text",
]


PART = re.compile(r"\..+\.(?P<process>\d+)-[0-9a-f]{12}\.part")

LONGEST = 40
"""Characters of a file's name that stand in its part's."""

STALE_SECONDS = 3_600.0
"""Where a file system has no locks, a part is left over if its process is gone and it is so old."""

_open: set[Path] = set()
_cleaned: set[Path] = set()


@contextmanager
def replacing(path: Path, inputs: Iterable[Path] = (), *, mode: int = 0o777) -> Iterator[Path]:
    """Return a temporary name; at the end of the context, sync the file and move it to its place.

    Where anything fails, the temporary file is removed and what stood at `path` still stands.

    Parameters
    ----------
    path : Path
    inputs : iterable of Path
        Files that the new one is made of, if it may hold something of theirs: only those who may
        read all of them, and a file that it replaces, may read it.
    mode : int
        Permissions beyond which the file gets none.

    Yields
    ------
    Path
        Of the same ending; the file is there, empty, with mode 0600.

    Raises
    ------
    RunFolderError
        If the file cannot be written.
    """
    given = tuple(inputs)
    try:
        remove_left_parts(path.parent, once=True)
        with ending_cleanly(), _part(path) as folder:
            aside, usual = folder / path.name, _usual_mode(folder)
            os.close(os.open(aside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            yield aside
            allowed = _narrowest(given if not given else (*given, path), aside)
            os.chmod(aside, usual & mode & allowed | stat.S_IRUSR)
            sync(aside)
            os.replace(aside, path)
            sync(path.parent)
    except OSError as error:
        what = error.strerror or " ".join(str(error).split())
        raise RunFolderError(f"{path}: cannot be written: {what}", path) from None


def write_text(path: Path, text: str, inputs: Iterable[Path] = ()) -> None:
    """Write a UTF-8 file atomically; see :func:`replacing`."""
    with replacing(path, inputs) as temporary:
        temporary.write_text(text, encoding="utf-8")


@contextmanager
def _part(path: Path) -> Iterator[Path]:
    """A folder beside `path` that nobody else may enter, locked while it is in use."""
    while True:
        name = f".{path.stem[:LONGEST]}.{os.getpid()}-{os.urandom(6).hex()}.part"
        folder = path.with_name(name)
        _open.add(folder)
        descriptor = None
        try:
            folder.mkdir(mode=0o700)
            # Someone who cleans up may come between making and locking it; then take another.
            with suppress(FileNotFoundError):
                descriptor = open_folder(folder)
            if descriptor is not None:
                with suppress(OSError):  # no locks here
                    lock(descriptor, shared=True)
            if folder.is_dir():
                yield folder
                return
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            _open.discard(folder)
            if descriptor is not None:
                os.close(descriptor)


def _usual_mode(folder: Path) -> int:
    """The mode that files get here."""
    # The umask cannot be read without changing it for other threads; a folder shows it.
    probe = folder / "probe"
    probe.mkdir()
    mode = stat.S_IMODE(probe.stat().st_mode)
    probe.rmdir()
    return mode & 0o666


def _narrowest(inputs: Iterable[Path], aside: Path) -> int:
    """Permissions that all the files give; those of a group only where it is the new file's."""
    group, allowed = aside.stat().st_gid, 0o777
    for path in inputs:
        with suppress(FileNotFoundError):
            found = path.stat()
            mode = stat.S_IMODE(found.st_mode)
            if found.st_gid != group:
                mode &= ~0o070 | (mode & 0o007) << 3
            allowed &= mode
    return allowed


def remove_left_parts(folder: Path, *, once: bool = False) -> bool:
    """Remove what killed programs were writing into a folder.

    Parameters
    ----------
    folder : Path
    once : bool
        Look only if this process has not yet looked there.

    Returns
    -------
    bool
        Whether other running programs are writing there.
    """
    place = folder.absolute()
    if once and place in _cleaned:
        return False
    _cleaned.add(place)
    try:
        names = os.listdir(place)
    except OSError:
        return False
    others = False
    for name in names:
        match = PART.fullmatch(name)
        if match and place / name not in _open:
            _remove_if_left(place / name, int(match["process"]))
            others = others or (place / name).is_dir()
    return others


def _remove_if_left(part: Path, process: int) -> None:
    try:
        descriptor = open_folder(part, follow=False)
    except OSError:
        return
    if descriptor is None:
        if _is_stale(part, process):
            shutil.rmtree(part, ignore_errors=True)
        return
    try:
        try:
            lock(descriptor, wait=False)
        except OSError as error:
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES) or not _is_stale(part, process):
                return
        shutil.rmtree(part, ignore_errors=True)
    finally:
        os.close(descriptor)


def _is_stale(part: Path, process: int) -> bool:
    if process_lives(process):
        return False
    with suppress(OSError):
        return time.time() - part.stat().st_mtime > STALE_SECONDS
    return False


@contextmanager
def ending_cleanly() -> Iterator[None]:
    """Context in which SIGTERM and SIGHUP remove parts, and then end the program as they would.

    A signal that is ignored, or that has another handler, is not changed.  Python delivers signals
    to the main thread; in other threads this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    ours = [number for number in ENDINGS if signal.getsignal(number) is signal.SIG_DFL]
    for number in ours:
        signal.signal(number, _end)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


def remove_at_end(path: Path) -> None:
    """Also remove a file if a signal ends the program while it writes."""
    _open.add(path)


def stays(path: Path) -> None:
    """Take back :func:`remove_at_end`."""
    _open.discard(path)


def _end(number: int, frame: FrameType | None) -> None:
    # No exception: one that comes up in a finalizer or a callback would be lost.
    for left in list(_open):
        if left.is_dir():
            shutil.rmtree(left, ignore_errors=True)
        else:
            left.unlink(missing_ok=True)
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
