"""What the bits of a result depend on beyond the sources: libraries, processor, linear algebra."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Mapping
from typing import Any, TypeAlias

from ppdm_dask.engine.environment import environment
from ppdm_dask.shown import cut

Fingerprint: TypeAlias = dict[str, str | list[str]]

PACKAGES = ("numpy", "scipy", "numba", "llvmlite", "pandas", "scikit-learn", "clarabel", "deap")
"""Whose arithmetic goes into results; the others read, write or carry them."""


def fingerprint(cluster: str | None = None) -> Fingerprint:
    """Return the versions and processor features that results are computed with.

    The package's own version is left out, for it is what a comparison is about.  Of a cluster's
    workers nothing is known but the versions, which are those here: its profile stands for them.
    """
    # Loaded here, since only libraries that are loaded can be asked for their kernels.
    import scipy.linalg  # noqa: F401
    from numba.core.registry import cpu_target

    found = environment()
    # What numba itself takes for the key of its cache.
    _, processor, features = cpu_target.target_context.codegen().magic_tuple()
    # Without the system's release: updates of a kernel change no number.
    own: Fingerprint = {"python": found["versions"]["python"]}
    own |= {name: found["versions"][name] for name in PACKAGES if name in found["versions"]}
    own |= {
        "system": found["system"],
        "machine": found["machine"],
        "C library": " ".join(platform.libc_ver()).strip(),
        "numpy's processor features": [str(name) for name in found["cpu_features"]],
        "numba's processor": str(processor),
        "numba's processor features": sorted(
            name.removeprefix("+") for name in str(features).split(",") if name.startswith("+")
        ),
        "linear algebra": sorted({_kernel(info) for info in found["blas"]}),
    }
    if cluster is not None:
        own["workers"] = cluster
    return own


def _kernel(info: Any) -> str:
    if not isinstance(info, Mapping):
        return str(info)
    return " ".join(str(info[key]) for key in ("internal_api", "version", "architecture"))


def differences(golden: Mapping[str, Any], own: Mapping[str, Any]) -> list[str]:
    """Sentences on where two fingerprints differ; empty where results must agree to the bit.

    Bug-fix releases of Python change no arithmetic: of its version, the first two numbers count.
    """
    return [
        f"{key}: {_contrast(golden.get(key), own.get(key))}"
        for key in dict.fromkeys([*golden, *own])
        if _significant(key, golden.get(key)) != _significant(key, own.get(key))
    ]


def _significant(key: str, value: Any) -> Any:
    if key == "python" and isinstance(value, str):  # such as "3.11.9 CPython"
        number, _, name = value.partition(" ")
        return number.split(".")[:2], name
    return value


def _contrast(golden: Any, own: Any) -> str:
    if isinstance(golden, list) and isinstance(own, list):
        gone = [name for name in golden if name not in own]
        new = [name for name in own if name not in golden]
        parts = [
            f"without {_names(gone)}" if gone else "",
            f"with {_names(new)}" if new else "",
        ]
        return " and ".join(part for part in parts if part) or "in another order"
    return f"{_said(golden)} in the golden, {_said(own)} here"


def _names(values: list[Any]) -> str:
    return ", ".join(cut(str(value)) for value in values)


def _said(value: Any) -> str:
    return (
        "none" if value is None else _names(value) if isinstance(value, list) else cut(str(value))
    )


def short(own: Mapping[str, Any]) -> str:
    """Eight hexadecimal digits of a fingerprint, for the name of a folder."""
    text = json.dumps(own, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:8]
