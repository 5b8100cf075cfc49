"""Ctrl-C and SIGTERM during a run: noted at once, obeyed where no finished batch can be lost."""

from __future__ import annotations

import _thread
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any, Self

from ppdm_dask.system import send_to_thread

SIGNALS = (signal.SIGINT, signal.SIGTERM)
GRACE_SECONDS = 0.25


class Stopped(KeyboardInterrupt):
    """The run was told to stop; ``args[0]`` is the signal."""


class Interruption:
    """Context in which SIGINT and SIGTERM stop a run in an orderly way.

    Off the main thread Python delivers no signals, and this does nothing.

    An exception that a signal raises can be lost: Python drops what comes up in a finalizer or in
    a weak reference's callback, and so may a library. Work that is to stop at once is therefore
    sent the signal again until it has stopped.
    """

    def __init__(self) -> None:
        self._signal: signal.Signals | None = None
        self._at_once = False
        self._insisting = False
        self._previous: dict[signal.Signals, Callable[..., Any] | int | None] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            # SIGINT is taken even where a shell's `&` has it ignored: to stop loses nothing.
            for number in SIGNALS:
                self._previous[number] = signal.signal(number, self._receive)
            self._report_lost = sys.unraisablehook
            sys.unraisablehook = self._pass_over
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # The other thread must be gone first: its signal would meet the program's own handler.
        self._at_once = False
        while self._insisting:
            time.sleep(0.01)
        if self._previous:
            sys.unraisablehook = self._report_lost
        for number, handler in self._previous.items():
            # None stands for a handler that was not installed from Python.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        self._previous.clear()

    def _receive(self, number: int, frame: FrameType | None) -> None:
        self._signal = signal.Signals(number)
        if self._at_once:
            if not self._insisting:
                self._insisting = True
                # Not threading's: its locks may be held by the code that the signal came to.
                _thread.start_new_thread(self._insist, (number,))
            raise Stopped(self._signal)

    def _insist(self, number: int) -> None:
        main = threading.main_thread().ident
        assert main is not None
        again = time.monotonic() + GRACE_SECONDS
        while self._at_once:
            if time.monotonic() >= again:
                # Handlers run in the main thread; there a signal also ends a call that blocks.
                send_to_thread(main, number)
                again += GRACE_SECONDS
            time.sleep(0.01)
        self._insisting = False

    def _pass_over(self, lost: sys.UnraisableHookArgs) -> None:
        # A lost Stopped is sent again, so that nobody need hear of it.
        if not isinstance(lost.exc_value, Stopped):
            self._report_lost(lost)

    def check(self) -> None:
        """Raise :class:`Stopped` if a signal has come."""
        if self._signal is not None:
            raise Stopped(self._signal)

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Context in which a signal raises :class:`Stopped` wherever the program is."""
        try:
            self._at_once = True
            self.check()
            yield
        finally:
            self._at_once = False
