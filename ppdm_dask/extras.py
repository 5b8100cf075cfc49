"""What a part of this package needs that the core installation does not bring, and its extra.

An import that fails says so wherever in this package it stands: a finder behind all others knows
the extras.  Who knows better what was asked for says it with :func:`named`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType, ModuleType, TracebackType

from ppdm_dask.errors import InputError

__all__ = ["EXTRAS", "MissingExtra", "install", "missing", "named"]

EXTRAS = {
    "asyncssh": ("AsyncSSH", "cluster"),
    "clarabel": ("Clarabel", "search"),
    "dask": ("Dask", "dask"),
    "dask_jobqueue": ("dask-jobqueue", "cluster"),
    "deap": ("DEAP", "search"),
    "distributed": ("Dask's distributed", "dask"),
    "formulaic": ("formulaic", "formulas"),
    "h5netcdf": ("h5netcdf", "report"),
    "h5py": ("h5py", "report"),
    "httptools": ("httptools", "survey"),
    "llvmlite": ("numba", "fast"),
    "matplotlib": ("matplotlib", "report"),
    "numba": ("numba", "fast"),
    "openpyxl": ("openpyxl", "formats"),
    "pandas": ("pandas", "pandas"),
    "psycopg": ("psycopg", "postgres"),
    "pyreadstat": ("pyreadstat", "formats"),
    "scipy": ("SciPy", "mine"),
    "sklearn": ("scikit-learn", "mine"),
    "starlette": ("Starlette", "survey"),
    "tornado": ("Tornado", "dask"),
    "uvicorn": ("uvicorn", "survey"),
    "xarray": ("xarray", "report"),
}
"""Packages by the name under which they are imported: their own name, and the extra to ask for."""

PACKAGE = "ppdm_dask"

_ROOMS = {"experiments": "all", "reproduce": "all", "claims": "all", "search": "search"}
"""Rooms that need more than one extra, or whose extra brings what others bring too."""


class MissingExtra(InputError, ImportError):
    """A part of the package was used whose extra is not installed."""

    need: str = ""
    """The message without what was asked for."""


def missing(error: ImportError, what: str) -> MissingExtra | None:
    """Say what is missing and how to get it; None where that is none of ours.

    Parameters
    ----------
    error : ImportError
    what : str
        What was asked for: a command, a name.
    """
    if not isinstance(error, ModuleNotFoundError):
        return None
    need = _need((error.name or "").partition(".")[0], _frames(error.__traceback__))
    if need is None:
        return None
    told = MissingExtra(f"{what} {need}", error.name)
    told.need = need
    return told


@contextmanager
def named(what: str) -> Iterator[None]:
    """Say which extra is missing, where an import below fails for want of it.

    Parameters
    ----------
    what : str
        What was asked for.
    """
    try:
        yield
    except ImportError as error:
        if (told := missing(error, what)) is not None:
            raise told from None
        raise


def _need(package: str, frames: Sequence[FrameType]) -> str | None:
    """What the calls of some frames need; None where no extra brings the package."""
    if package not in EXTRAS:
        return None
    name, extra = EXTRAS[package]
    rooms = (own.split(".")[1] for frame in frames if "." in (own := _own(frame)))
    extra = next((_ROOMS[room] for room in rooms if room in _ROOMS), extra)
    return f'needs {name}: pip install "ppdm-dask[{extra}]"'


def _own(frame: FrameType) -> str:
    """Module of this package whose code a frame runs; empty for other code."""
    name = str(frame.f_globals.get("__name__", ""))
    return name if name.partition(".")[0] == PACKAGE else ""


def _frames(traceback: TracebackType | None) -> list[FrameType]:
    """Frames that a call went through, the outermost first.

    A traceback begins where the error was caught, so the frames above that place come first.
    """
    if traceback is None:
        return []
    frames = _above(traceback.tb_frame)
    while traceback is not None:
        frames.append(traceback.tb_frame)
        traceback = traceback.tb_next
    return frames


def _above(frame: FrameType) -> list[FrameType]:
    """Frames above one, the outermost first."""
    frames = []
    above = frame.f_back
    while above is not None:
        frames.append(above)
        above = above.f_back
    return frames[::-1]


class _Finder:
    """Finds no module, and says which extra has a package that a module of ours imports."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> None:
        if name not in EXTRAS:
            return
        frames = _above(sys._getframe())
        while frames and frames[-1].f_globals.get("__name__") in _IMPORT_SYSTEM:
            frames.pop()
        # Other packages may do without, and whoever asks whether it is there is told.
        if not frames or not _own(frames[-1]):
            return
        # No error of ours: what tries another way where one fails would take it for one of these.
        raise ModuleNotFoundError(f"{_asked_for(frames)} {_need(name, frames)}", name=name)


_IMPORT_SYSTEM = {"importlib", "importlib._bootstrap", "_frozen_importlib"}


def _asked_for(frames: Sequence[FrameType]) -> str:
    """Public function of this package that was called first, or its module that was imported."""
    own = [frame for frame in frames if _own(frame)]
    called = (frame.f_code.co_name for frame in own)
    return next((name for name in called if name[0] not in "_<"), _own(own[0]))


def install() -> None:
    """Make extras known to the import system, after everything that is there."""
    if not any(finder is _Finder for finder in sys.meta_path):
        sys.meta_path.append(_Finder)
