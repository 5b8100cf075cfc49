"""Compiled kernels; each stands beside the plain statement that a test holds it to.

Machine code is cached in a folder named after the digest of this package's sources: numba notices a
change in a kernel's own file but not in a file it calls into, and stale code would give other
numbers.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

__all__ = ["kernel"]

F = TypeVar("F", bound=Callable[..., Any])


@cache
def _cache_dir(elsewhere: str) -> str:
    """A folder for the machine code of exactly these sources; '' if none is writable.

    Where the package is read-only it is below `elsewhere`, if that names a folder.
    """
    here = Path(__file__).parent
    digest = hashlib.sha256()
    for source in sorted(here.glob("*.py")):
        digest.update(source.read_bytes())
    name = f"kernels-{digest.hexdigest()[:12]}"
    for parent in [here / "__pycache__", *([Path(elsewhere)] if elsewhere else [])]:
        folder = parent / name
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(folder, os.W_OK):
            return str(folder)
    return ""


def kernel(function: F) -> F:
    """Compile with numba in nopython mode, cached on disk, without the interpreter's lock."""
    import numba

    config: Any = numba.config
    before = config.CACHE_DIR
    config.CACHE_DIR = _cache_dir(before) or before
    try:
        compiled = numba.njit(cache=True, nogil=True, error_model="numpy")(function)
    finally:
        config.CACHE_DIR = before
    return cast(F, compiled)
