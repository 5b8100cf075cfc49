"""A Python on a system that has no more than all have; the folder comes first in PYTHONPATH.

What Windows and macOS lack is taken from this process and those that it starts: modules, calls and
flags of the operating system, signals, and folders that can be opened.
"""

import contextlib
import importlib
import importlib.abc
import os
import shutil
import signal
import sys

if hasattr(os, "process_cpu_count"):
    # From 3.13 on; without sched_getaffinity Python has this.
    os.process_cpu_count = os.cpu_count

MODULES = ("fcntl", "grp", "pwd")
CALLS = {
    os: (
        *("fork", "forkpty", "memfd_create", "pread", "pwrite", "register_at_fork"),
        *("sched_getaffinity", "O_DIRECTORY", "O_NOFOLLOW", "O_NONBLOCK"),
    ),
    signal: ("SIGHUP", "pthread_kill", "pthread_sigmask"),
}


class Lacking(importlib.abc.MetaPathFinder):
    """Finds that a module is not there."""

    def find_spec(self, name, path=None, target=None):
        if name in MODULES:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


# Dask's locks: they have a way of their own for each system.
with contextlib.suppress(ImportError):
    importlib.import_module("locket")
for name in MODULES:
    sys.modules.pop(name, None)
sys.meta_path.insert(0, Lacking())
for module, names in CALLS.items():
    for name in names:
        if hasattr(module, name):
            delattr(module, name)
# Python's own removal of folders opens them where it once found that it can.
shutil._use_fd_functions = False
opened = os.open


def no_folder(path, flags, *more, **named):
    """Open a file, and no folder."""
    if not isinstance(path, int) and os.path.isdir(path):
        raise PermissionError(13, "Permission denied", str(path))
    return opened(path, flags, *more, **named)


os.open = no_folder
