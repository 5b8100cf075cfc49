"""Compiled kernels; each stands beside the plain statement that a test holds it to.

Machine code is cached in a folder named after the digest of this package's sources: numba notices a
change in a kernel's own file but not in a file it calls into, and stale code would give other
numbers.

Differences that a loop and its plain twin take for none are here too, since machine code is renewed
where a source of this folder changes.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Callable
from functools import cache, wraps
from importlib import metadata
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np

SCORE_TIE = 1e-9
"""Log scores of naive Bayes closer than this tie, and the class that comes first wins."""

FLOOR_ROUNDING = 1e-12
"""An estimate this little below naive Bayes' floor is at it, and not counted as raised."""

ENTROPY_TIE = 1e-10
"""Scores of ID3 (nats a record) this close to the best tie, and the first attribute wins."""


F = TypeVar("F", bound=Callable[..., Any])


@cache
def _cache_dir(elsewhere: str) -> str:
    """A folder for the machine code of exactly these sources and numba; '' if none is writable.

    Where the package is read-only it is below `elsewhere`, if that names a folder, else below the
    user's folder for caches.
    """
    here = Path(__file__).parent
    digest = hashlib.sha256()
    for source in sorted(here.glob("*.py")):
        digest.update(source.read_bytes())
    # numba throws away what another release of it has left, and two would do so by turns.
    digest.update(metadata.version("numba").encode())
    name = f"kernels-{digest.hexdigest()[:12]}"
    for parent in [here / "__pycache__", *([Path(elsewhere)] if elsewhere else _user_cache())]:
        folder = parent / name
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(folder, os.W_OK):
            return str(folder)
    return ""


def _user_cache() -> list[Path]:
    given = os.environ.get("XDG_CACHE_HOME", "")
    try:
        return [Path(given) / "ppdm_dask" if given else Path.home() / ".cache" / "ppdm_dask"]
    except RuntimeError:
        # There is no home.
        return []


@cache
def _say_that_nothing_is_kept() -> None:
    print(
        "ppdm: no folder for compiled code can be written, so that each process compiles for "
        "itself; NUMBA_CACHE_DIR may name one",
        file=sys.stderr,
    )


@cache
def _numba() -> Any:
    """Numba, loaded without SciPy's linear algebra; what is compiled and needs it loads it then.

    Numba loads all of it to see whether it is there, which takes a tenth of a second.
    """
    import numba
    from numba.np import linalg

    look = getattr(linalg, "ensure_blas", None)
    if look is not None:
        linalg.ensure_blas = _is_there
        try:
            importlib.import_module("numba.np.arraymath")
        finally:
            linalg.ensure_blas = look
    return numba


def _is_there() -> None:
    """Stand in for what would raise ImportError: SciPy is installed with this package."""


@cache
def has_numba() -> bool:
    """Whether kernels are compiled here."""
    try:
        return importlib.util.find_spec("numba") is not None
    except ModuleNotFoundError:  # what hides modules may say so at once
        return False


@cache
def _say_that_it_is_slow() -> None:
    print(
        "ppdm: numba is not installed, and plain NumPy takes its place, 20 to 100 times slower "
        '(a million answers in 0.2 s); pip install "ppdm-dask[fast]"',
        file=sys.stderr,
    )


def _plain(function: F) -> F:
    """The plain twin of a kernel where it has one with the same arguments, else the loop itself."""
    wanted = list(inspect.signature(function).parameters)

    @wraps(function)
    def run(*arguments: Any) -> Any:
        _say_that_it_is_slow()
        twin = function.__globals__.get(f"{function.__name__}_plain", function)
        if list(inspect.signature(twin).parameters) != wanted:
            twin = function
        # As in compiled code: words wrap, and a division by 0 is infinite.
        with np.errstate(all="ignore"):
            return twin(*arguments)

    return cast(F, run)


def kernel(function: F) -> F:
    """Compile with numba in nopython mode, cached on disk, without the interpreter's lock.

    Where no folder can be written, nothing is cached, and a line on standard error says so once;
    likewise where numba is not installed and plain twins serve.
    """
    if not has_numba():
        return _plain(function)
    numba = _numba()
    config: Any = numba.config
    before = config.CACHE_DIR
    folder = _cache_dir(before)
    if not folder:
        _say_that_nothing_is_kept()
    # numba has no argument for the folder, and reads this when the function is decorated.
    config.CACHE_DIR = folder or before
    try:
        # NumPy's errors: a division by 0 is infinite, as in the plain twins, and costs no branch.
        compiled = numba.njit(cache=bool(folder), nogil=True, error_model="numpy")(function)
    finally:
        config.CACHE_DIR = before
    return cast(F, compiled)
