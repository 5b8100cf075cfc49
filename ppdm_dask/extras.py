"""What a part of this package needs that the core installation does not bring, and its extra."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType

from ppdm_dask.errors import InputError

__all__ = ["EXTRAS", "MissingExtra", "missing", "named"]

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
    found = EXTRAS.get((error.name or "").partition(".")[0])
    if not isinstance(error, ModuleNotFoundError) or found is None:
        return None
    name, extra = found
    rooms = _rooms(error.__traceback__)
    extra = next((_ROOMS[room] for room in rooms if room in _ROOMS), extra)
    need = f'needs {name}: pip install "ppdm-dask[{extra}]"'
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


def _rooms(traceback: TracebackType | None) -> list[str]:
    """Rooms of this package that a call went through, the outermost first.

    A traceback begins where the error was caught, so the frames above that place come first.
    """
    frames: list[FrameType] = []
    above = None if traceback is None else traceback.tb_frame.f_back
    while above is not None:
        frames.insert(0, above)
        above = above.f_back
    while traceback is not None:
        frames.append(traceback.tb_frame)
        traceback = traceback.tb_next
    names = (frame.f_globals.get("__name__", "") for frame in frames)
    return [name.split(".")[1] for name in names if name.startswith("ppdm_dask.")]
