"""What operating systems differ in: locks, signals, folders that are opened, cores, processes.

Each call that some system lacks stands here once, with what serves in its place.  Linux has all of
them; macOS has no ``sched_getaffinity``; Windows has no ``fcntl``, no SIGHUP, no folders that can
be opened or synced, no mask of signals, and no positions in reads.
"""

from __future__ import annotations

import _thread
import ctypes
import errno
import getpass
import importlib
import os
import signal
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

__all__ = [
    "ENDINGS",
    "HANGUP",
    "NOT_WAITING",
    "blocked",
    "hanging_up",
    "has_locks",
    "has_owners",
    "lock",
    "open_folder",
    "process_lives",
    "read_at_start",
    "send_to_thread",
    "sync",
    "usable_cores",
    "user",
    "write_at_start",
]

fcntl: Any
try:
    fcntl = importlib.import_module("fcntl")
except ImportError:  # a system without such locks
    fcntl = None

HANGUP: signal.Signals | None = getattr(signal, "SIGHUP", None)
"""The signal of a terminal that goes away, where there is one."""

ENDINGS = tuple(number for number in (signal.SIGTERM, HANGUP) if number is not None)
"""Signals that end a program without its leaving any context.  SIGINT raises an exception."""

NOT_WAITING: int = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
"""Flags with which a pipe that is opened is not waited for, and no child inherits what is open."""

# Windows: a process that has not ended yet has this exit code, and these rights ask for it.
_STILL_ACTIVE = 259
_QUERY_LIMITED_INFORMATION = 0x1000


def usable_cores() -> int:
    """Cores that this process may use; all of them where the system does not say which."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


# -- locks -----------------------------------------------------------------------------------------


def has_locks() -> bool:
    """Whether the system has locks that it frees when their holder ends."""
    return fcntl is not None


def lock(descriptor: int, *, shared: bool = False, wait: bool = True) -> None:
    """Lock an open file or folder; it is unlocked when it is closed, or its holder ends.

    Raises
    ------
    OSError
        If another holds it and `wait` is false, or there are no locks here.
    """
    if fcntl is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    how = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    fcntl.flock(descriptor, how if wait else how | fcntl.LOCK_NB)


def process_lives(process: int) -> bool:
    """Whether a process of this number exists, of any user."""
    if os.name == "nt":
        return _lives_on_windows(process)
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        pass
    return True


def _lives_on_windows(process: int) -> bool:
    # There os.kill would send Ctrl-C, whose number is 0, or end the process.
    kernel: Any = ctypes.windll.kernel32  # type: ignore[attr-defined]
    handle = kernel.OpenProcess(_QUERY_LIMITED_INFORMATION, False, process)
    if not handle:
        # Access denied: it is there, and somebody else's.
        return bool(kernel.GetLastError() == errno.EIO)
    code = ctypes.c_ulong()
    found = kernel.GetExitCodeProcess(handle, ctypes.byref(code))
    kernel.CloseHandle(handle)
    return not found or code.value == _STILL_ACTIVE


def read_at_start(descriptor: int, n: int) -> bytes:
    """The first bytes of an open file."""
    os.lseek(descriptor, 0, os.SEEK_SET)
    return os.read(descriptor, n)


def write_at_start(descriptor: int, content: bytes) -> None:
    """Make some bytes all that an open file holds."""
    os.ftruncate(descriptor, 0)
    os.lseek(descriptor, 0, os.SEEK_SET)
    os.write(descriptor, content)


# -- folders ---------------------------------------------------------------------------------------


def open_folder(path: Path, *, follow: bool = True) -> int | None:
    """A folder, opened to be locked; None where folders cannot be.

    Raises
    ------
    OSError
        If there is no such folder, or it is a link and `follow` is false.
    """
    flags = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0)
    if not follow:
        flags |= getattr(os, "O_NOFOLLOW", 0)
        if path.is_symlink():
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    try:
        return os.open(path, flags)
    except PermissionError:
        if not hasattr(os, "O_DIRECTORY") and path.is_dir():
            return None
        raise


def sync(path: Path) -> None:
    """Have a file, or what a folder lists, reach the disk.

    Folders that the system does not sync are left to it.
    """
    if path.is_dir():
        with suppress(OSError):
            descriptor = open_folder(path)
            if descriptor is not None:
                _sync(descriptor)
        return
    # Windows syncs only what may be written.
    _sync(os.open(path, os.O_RDWR if os.name == "nt" else os.O_RDONLY))


def _sync(descriptor: int) -> None:
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def has_owners() -> bool:
    """Whether files have an owner, and a mode that says what others may do with them."""
    return hasattr(os, "getuid")


def user() -> int:
    """A number of the user, by which folders of several are told apart."""
    if has_owners():
        return os.getuid()
    try:
        name = getpass.getuser()
    except (ImportError, KeyError, OSError):  # no variable of the environment says it
        name = ""
    return zlib.crc32(name.encode())


# -- signals ---------------------------------------------------------------------------------------


def send_to_thread(thread: int, number: int) -> None:
    """Send the main thread a signal; it also ends a call that blocks, where the system can."""
    if hasattr(signal, "pthread_kill"):
        signal.pthread_kill(thread, number)
    else:
        _thread.interrupt_main(signal.Signals(number))


@contextmanager
def blocked(number: int) -> Iterator[None]:
    """Context whose new threads, and the processes they start, never see a signal.

    Where signals cannot be masked, they see it.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {number})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def hanging_up() -> Iterator[None]:
    """Context in which SIGHUP, unless it is ignored, stops the work as SIGTERM does."""
    main = threading.current_thread() is threading.main_thread()
    if HANGUP is None or not main or signal.getsignal(HANGUP) is not signal.SIG_DFL:
        yield
        return
    signal.signal(HANGUP, lambda *_: signal.raise_signal(signal.SIGTERM))
    try:
        yield
    finally:
        signal.signal(HANGUP, signal.SIG_DFL)
