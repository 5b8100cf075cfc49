"""What the driver process lends to its worker processes, and takes back when they are gone."""

from __future__ import annotations

import logging
import multiprocessing
import multiprocessing.spawn
import os
import signal
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from ppdm_dask.errors import MachineError
from ppdm_dask.system import blocked

# How Dask names the processes of its workers.
PROCESS_NAME = "Dask Worker"

# Loggers that would write to the terminal of their own accord.
ROOTS = ("distributed", "tornado", "asyncio", "asyncssh", "bokeh")


def check_semaphores() -> None:
    """See that processes can be started: Python gives each some semaphores.

    Raises
    ------
    MachineError
        If the system gives none, as where /dev/shm is full or missing.
    """
    try:
        multiprocessing.get_context("spawn").Lock()
    except (OSError, ImportError) as error:
        why = getattr(error, "strerror", None) or str(error)
        what = f"no worker can be started: the system has no semaphores for it ({why})"
        raise MachineError(f"{what}; make room in /dev/shm, or stay in one process") from None


@contextmanager
def logging_to(path: Path) -> Iterator[None]:
    """Context in which the log of Dask's parts in this process goes to a file, not the terminal."""
    handler = _QuietHandler(path, delay=True, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(name)s %(levelname)s %(message)s"))
    children = [name for name in logging.root.manager.loggerDict if name.startswith(ROOTS)]
    with ExitStack() as stack:
        stack.callback(handler.close)
        for name in {*ROOTS, *children}:
            logger = logging.getLogger(name)
            loud = [entry for entry in logger.handlers if _is_terminal(entry)]
            if name not in ROOTS and not loud:
                continue
            stack.callback(_restore, logger, handler, loud, logger.propagate, logger.level)
            for entry in loud:
                logger.removeHandler(entry)
            logger.addHandler(handler)
            logger.propagate = False
            logger.setLevel(logging.INFO if name == "distributed" else logging.WARNING)
        yield


class _QuietHandler(logging.FileHandler):
    """Writes to a file while it can; a full disk is reported by the code that stores results."""

    def handleError(self, record: logging.LogRecord) -> None:
        """Say nothing: the base class writes a traceback to the terminal."""

    def close(self) -> None:
        # What is still to be written need not fit either.
        with suppress(OSError):
            super().close()


def _is_terminal(handler: logging.Handler) -> bool:
    return isinstance(handler, logging.StreamHandler) and not isinstance(
        handler, logging.FileHandler
    )


def _restore(
    logger: logging.Logger,
    ours: logging.Handler,
    theirs: list[logging.Handler],
    propagate: bool,
    level: int,
) -> None:
    logger.removeHandler(ours)
    for handler in theirs:
        logger.addHandler(handler)
    logger.propagate = propagate
    logger.setLevel(level)


@contextmanager
def environment_kept(names: Iterable[str]) -> Iterator[None]:
    """Context after which these variables are as they were; Dask's nanny sets them in this process.

    They have to be set before a worker process is started, so they cannot be kept out.
    """
    before = {name: os.environ.get(name) for name in names}
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def main_hidden() -> Iterator[None]:
    """Context in which worker processes do not import the driver's main module.

    Python's spawn method imports it in each child, which runs a script without a ``__main__``
    guard again. Work that was defined there is pickled by value, so nothing needs the import.
    """
    original = multiprocessing.spawn.get_preparation_data

    def without_main(name: str) -> dict[str, Any]:
        data: dict[str, Any] = original(name)
        if name.startswith(PROCESS_NAME):
            data.pop("init_main_from_name", None)
            data.pop("init_main_from_path", None)
        return data

    multiprocessing.spawn.get_preparation_data = without_main
    try:
        yield
    finally:
        multiprocessing.spawn.get_preparation_data = original


def interrupts_blocked() -> AbstractContextManager[None]:
    """Context whose new threads, and the processes they start, never see SIGINT.

    A terminal's Ctrl-C goes to the whole process group; only the driver has to answer it.
    """
    return blocked(signal.SIGINT)
