"""What the bits of a result may depend on apart from the recipe: versions, processor, libraries."""

from __future__ import annotations

import hashlib
import platform
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = (
    "clarabel",
    "dask",
    "deap",
    "distributed",
    "h5netcdf",
    "h5py",
    "llvmlite",
    "matplotlib",
    "numba",
    "numpy",
    "pandas",
    "pyarrow",
    "scikit-learn",
    "scipy",
    "xarray",
)


def environment() -> dict[str, Any]:
    """Versions, processor features and linear algebra: what floating-point bits may depend on."""
    import numpy as np
    from threadpoolctl import threadpool_info

    build: Any = np.show_config(mode="dicts")
    simd = build.get("SIMD Extensions", {})
    blas = [
        {key: info[key] for key in ("internal_api", "version", "architecture") if key in info}
        for info in threadpool_info()
        if info.get("user_api") == "blas"
    ]
    return {
        "versions": dict(_versions()),
        "machine": platform.machine(),
        "system": platform.system(),
        "cpu_features": [*simd.get("baseline", []), *simd.get("found", [])],
        "blas": blas or [build.get("Build Dependencies", {}).get("blas", {}).get("name")],
    }


# Each is looked up in files, for every run and golden.
@cache
def _versions() -> dict[str, str]:
    found = {"python": f"{platform.python_version()} {platform.python_implementation()}"}
    for package in PACKAGES:
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


# The sources rather than a version: a checkout changes between releases, and so may numbers.
@cache
def code_version() -> str:
    """SHA-256 of the package's Python sources: relative names, sorted, each with its bytes."""
    package = Path(__file__).resolve().parent.parent
    sha = hashlib.sha256()
    sources = {path.relative_to(package).as_posix(): path for path in package.rglob("*.py")}
    for name in sorted(sources):
        content = sources[name].read_bytes()
        sha.update(f"{name}\n{len(content)}\n".encode() + content)
    return sha.hexdigest()
