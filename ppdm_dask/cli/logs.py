"""What commands tell beside their results: one logger, as lines or as JSON, on standard error.

The package logs to ``ppdm_dask`` and below, and shows nothing by itself.  A command shows warnings,
errors and notes; ``-v`` and ``-vv`` more, ``-q`` errors only.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from itertools import takewhile
from typing import Any

from ppdm_dask.shown import printable

__all__ = ["NOTE", "as_json", "choose", "complain", "is_option", "quiet", "shown_here", "tell"]

NOTE = 25
"""Level of what a command found out, which is not a result: between information and a warning."""

LOG = logging.getLogger("ppdm_dask.cli")
_PACKAGE = logging.getLogger("ppdm_dask")


class _Lines(logging.Handler):
    """Writes records to standard error as it is then: one line each."""

    json = False

    def emit(self, record: logging.LogRecord) -> None:
        with suppress(OSError, ValueError):  # there may be nowhere to complain to
            text = _object(record) if self.json else _line(record)
            print(text, file=sys.stderr, flush=True)


_HANDLER = _Lines()


def _line(record: logging.LogRecord) -> str:
    text = printable(record.getMessage(), keep="\n" if record.levelno == NOTE else "")
    if getattr(record, "bare", False):
        return text
    if record.levelno >= logging.ERROR:
        return f"ppdm: error: {text}"
    if record.levelno >= logging.WARNING:
        return f"ppdm: warning: {text}"
    return f"ppdm: {text}"


def _object(record: logging.LogRecord) -> str:
    """JSON of a record; of an error about data it has the message without the value at fault."""
    said: dict[str, Any] = {
        "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
        "level": "note" if record.levelno == NOTE else record.levelname.lower(),
        "logger": record.name,
        "message": getattr(record, "told", None) or record.getMessage(),
    }
    fields = getattr(record, "fields", {})
    # In ASCII: nothing in a log may drive a terminal.
    return json.dumps({**fields, **said}, default=str)


@contextmanager
def shown_here(arguments: Sequence[str]) -> Iterator[None]:
    """Show the package's log while a command runs."""
    before = _PACKAGE.level, _PACKAGE.propagate
    # The parser reads it too, but complains of an unknown command first.
    choose(json="--log-json" in takewhile(is_option, arguments))
    _PACKAGE.addHandler(_HANDLER)
    # A server's own set-up of the root would say everything twice.
    _PACKAGE.propagate = False
    try:
        yield
    finally:
        _PACKAGE.removeHandler(_HANDLER)
        _PACKAGE.propagate = before[1]
        _PACKAGE.setLevel(before[0])
        _HANDLER.json = False


def is_option(argument: str) -> bool:
    """Whether an argument is an option; those before a command take no values."""
    return argument.startswith("-")


def choose(more: int = 0, *, only_errors: bool = False, json: bool = False) -> None:
    """Set what is shown: `more` is how often ``-v`` was given."""
    level = (NOTE, logging.INFO, logging.DEBUG)[min(more, 2)]
    _PACKAGE.setLevel(logging.ERROR if only_errors else level)
    _HANDLER.json = json


def quiet() -> bool:
    """Whether only errors are shown."""
    return _PACKAGE.level >= logging.ERROR


def as_json() -> bool:
    """Whether standard error holds JSON."""
    return _HANDLER in _PACKAGE.handlers and _HANDLER.json


def tell(text: str, *, level: int = NOTE, bare: bool = False, **fields: Any) -> None:
    """Tell what is not a result; `bare` text has no ``ppdm:`` before it."""
    LOG.log(level, "%s", text, extra={"bare": bare, "fields": fields})


def complain(text: str, told: str | None = None) -> None:
    """Tell of an error; `told` is the same without data, for logs that others keep."""
    LOG.error("%s", " ".join(text.split()), extra={"told": told and " ".join(told.split())})
