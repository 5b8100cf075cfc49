"""The command ``ppdm``: parse, call, print.

Exit codes: 0 done; 1 done, but something is wrong; 2 bad input or usage; 3 a fault of the machine,
such as a full disk; 130 interrupted; 141 the reader of the output has gone.
"""

from __future__ import annotations

import atexit
import errno
import gc
import os
import shlex
import sys
from collections.abc import Sequence
from contextlib import suppress
from itertools import dropwhile

from ppdm_dask.cli import logs
from ppdm_dask.errors import InputError, MachineError, PPDMError, RunInterrupted
from ppdm_dask.extras import MissingExtra, missing
from ppdm_dask.files.lock import release_all

__all__ = ["main"]

NEW_OBJECTS = 100_000
"""Objects more than before at which Python looks for garbage.

Modules are many objects that stay; looking through them again and again was a sixth of the start.
"""

WRONG, BAD_INPUT, MACHINE, INTERRUPTED, BROKEN_PIPE = 1, 2, 3, 130, 141


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Parameters
    ----------
    arguments : sequence of str, optional
        Those after the program's name; by default the process's own.

    Returns
    -------
    int
        The exit code.
    """
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    threshold = gc.get_threshold()
    gc.set_threshold(NEW_OBJECTS, *threshold[1:])
    # At its end Python would look through all modules for garbage, which takes as long again.
    atexit.unregister(gc.freeze)
    atexit.register(gc.freeze)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a terminal that cannot show a sign gets a "?"
            stream.reconfigure(errors="replace")
    with logs.shown_here(arguments):
        return _ended(arguments, threshold)


def _ended(arguments: list[str], threshold: tuple[int, int, int]) -> int:
    try:
        code = _call(arguments)
        if sys.stdout is not None:  # which it is where the shell closed it
            sys.stdout.flush()
    except BrokenPipeError:
        _forget_output()
        return BROKEN_PIPE
    except (OSError, ImportError, MemoryError) as error:
        # Problems of the user's files raise an InputError; this is a full disk, or a limit: that on
        # open files may show itself as a module that cannot be loaded.
        if isinstance(error, ImportError):
            told = missing(error, _named(arguments))
            if told is not None:
                _forget_output()
                logs.complain(str(told))
                return BAD_INPUT
        if isinstance(error, ImportError) and os.strerror(errno.EMFILE) not in str(error):
            raise
        _forget_output()
        logs.complain(f"a fault of this machine: {_reason(error)}")
        return MACHINE
    finally:
        gc.set_threshold(*threshold)
        release_all()  # tests and notebooks call this function in a process that lives on
    return code


def _command(arguments: Sequence[str]) -> list[str]:
    """The command and what follows it; before it there may be options such as ``-v``."""
    return list(dropwhile(logs.is_option, arguments))


def _named(arguments: Sequence[str]) -> str:
    """The command, with that of its group."""
    words = _command(arguments)
    groups = ("cluster", "mine", "survey")
    return " ".join(["ppdm", *words[: 2 if words and words[0] in groups else 1]])


def _forget_output() -> None:
    """Drop what is not written yet, or the interpreter complains at its end."""
    with suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _reason(error: Exception) -> str:
    if isinstance(error, MemoryError):
        return "out of memory"
    reason = (isinstance(error, OSError) and error.strerror) or str(error) or type(error).__name__
    file = getattr(error, "filename", None)
    return f"{file}: {reason}" if isinstance(file, str) else reason


def _call(arguments: list[str]) -> int:
    # Worker processes of a cluster import this module too, and need no parser.
    from ppdm_dask.cli.app import UsageProblem, parser

    try:
        code = parser(args=arguments, prog_name="ppdm", standalone_mode=False)
    except UsageProblem as error:
        logs.complain(error.format_message())
        return BAD_INPUT
    except RunInterrupted as error:
        _interrupted(arguments, str(error))
        return INTERRUPTED
    except (InputError, PPDMError) as error:
        if isinstance(error, MissingExtra):
            logs.complain(f"{_named(arguments)} {error.need}")
        else:
            logs.complain(str(error), str(error.without_data()))
        if isinstance(error, MachineError):
            return MACHINE
        return BAD_INPUT if isinstance(error, InputError) else WRONG
    except KeyboardInterrupt:
        code = INTERRUPTED
    except SystemExit as error:
        if isinstance(error.__context__, BrokenPipeError):  # the parser's answer to one
            return BROKEN_PIPE
        if isinstance(error.__context__, OSError):
            raise error.__context__ from None
        raise
    if code == INTERRUPTED:  # the parser's answer to Ctrl-C outside a run
        _interrupted(arguments, "interrupted")
    return int(code or 0)


def _interrupted(arguments: list[str], message: str) -> None:
    # Where Ctrl-C came while a text was compiled and run, as dataclasses do, Python ends by that
    # signal although the exception was caught, until another text is run.
    eval("None")
    command = shlex.join(["ppdm", *arguments])
    logs.tell(" ".join(message.split()))
    # Other commands leave nothing behind that could be resumed.
    if _command(arguments)[:1] in (["run"], ["reproduce"]):
        logs.tell(f"resume with the same command: {command}", bare=True)
