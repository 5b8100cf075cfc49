"""Ctrl-C and SIGTERM during a run: noted at once, obeyed where no finished batch can be lost."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any, Self

__all__ = ["Interruption", "Stopped"]

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stopped(KeyboardInterrupt):
    """The run was told to stop; ``args[0]`` is the signal."""


class Interruption:
    """Context in which SIGINT and SIGTERM stop a run in an orderly way.

    Off the main thread Python delivers no signals, and this does nothing.
    """

    def __init__(self) -> None:
        self._signal: signal.Signals | None = None
        self._at_once = False
        self._previous: dict[signal.Signals, Callable[..., Any] | int | None] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            # SIGINT is taken even where a shell's `&` has it ignored: to stop loses nothing.
            for number in SIGNALS:
                self._previous[number] = signal.signal(number, self._receive)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for number, handler in self._previous.items():
            # None stands for a handler that was not installed from Python.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        self._previous.clear()

    def _receive(self, number: int, frame: FrameType | None) -> None:
        self._signal = signal.Signals(number)
        if self._at_once:
            self._at_once = False
            raise Stopped(self._signal)

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
