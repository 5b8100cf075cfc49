"""Comparing scheduler and workers with this process before they are given work."""

# Dask has annotated few of its functions.
# mypy: allow-untyped-calls

from __future__ import annotations

import platform
from collections.abc import Mapping
from typing import Any

from distributed import Client
from distributed.versions import get_versions

from ppdm_dask.errors import ClusterError
from ppdm_dask.experiments.rundir import code_version
from ppdm_dask.parallel.addresses import is_loopback, parts
from ppdm_dask.parallel.batches import summarise

__all__ = ["check_peers", "difference", "own_versions", "seen_versions"]

# What the numbers, or the way they are sent, depend on.
PACKAGES = ("dask", "distributed", "llvmlite", "numba", "numpy", "pandas", "scikit-learn", "scipy")
CODE = "ppdm_dask"

Versions = dict[str, str]


def own_versions() -> Versions:
    """Versions of Python, packages and this package's code in this process."""
    return _pick(get_versions(packages=PACKAGES)) | {CODE: own_code()}


def own_code() -> str:
    """Digest of this package's sources, which says more than a version does; called in a worker."""
    return f"code {code_version()[:12]}"


def difference(ours: Mapping[str, str], theirs: Mapping[str, str]) -> str:
    """What differs, as ``numpy 2.4.6 here, 2.3.0 there``; empty where nothing does."""
    return "; ".join(
        f"{name} {version} here, {theirs.get(name, 'missing')} there"
        for name, version in ours.items()
        if theirs.get(name) != version
    )


def check_peers(client: Client, source: str) -> None:
    """Refuse a scheduler and workers that are not what this process is, or that others can reach.

    Parameters
    ----------
    client : distributed.Client
        Connected, with a worker or more.
    source : str
        Named in messages.

    Raises
    ------
    ClusterError
        One line: who has which other version, or who listens beyond loopback without encryption.
    OSError
        If the scheduler is lost meanwhile.
    """
    _check_addresses(client, source)
    ours = own_versions()
    for who, versions in seen_versions(client, source).items():
        # Without its code the difference is another one.
        asked = {name: ours[name] for name in ours if name != CODE or CODE in versions}
        if what := difference(asked, versions):
            raise ClusterError(f"{source}: {who}: {what}; one run needs the same everywhere", who)


def seen_versions(client: Client, source: str) -> dict[str, Versions]:
    """Versions of the scheduler and of each worker.

    Packages are asked for by name alone, since pickled code does not survive another Python; the
    code's digest only where Python is the same.

    Raises
    ------
    ClusterError
        If this package is not installed there.
    """
    found: Any = client.get_versions(packages=PACKAGES)
    workers = {name: about for name, about in found["workers"].items() if isinstance(about, dict)}
    seen = {"the scheduler": _pick(found["scheduler"])}
    seen |= {f"worker {address}": _pick(about) for address, about in workers.items()}
    python = platform.python_version()
    if any(versions["Python"] != python for versions in seen.values()):
        return seen
    code: dict[str, Any] = {"the scheduler": _code_of_scheduler(client)}
    answers = client.run(own_code, on_error="return")
    code |= {f"worker {address}": answer for address, answer in answers.items()}
    for who, answer in code.items():
        if who not in seen or isinstance(answer, OSError):
            # Came between the questions, and compares itself before its first batch; or was lost.
            continue
        if isinstance(answer, BaseException):
            # Dask wraps what it cannot send into a plain exception.
            why = str(answer) if type(answer) is Exception else summarise(answer)
            what = f"{source}: {who}: this package is missing or broken there ({why})"
            raise ClusterError(f"{what}; install it, the same version everywhere", who)
        seen[who][CODE] = answer
    return seen


def _code_of_scheduler(client: Client) -> object:
    try:
        return client.run_on_scheduler(own_code)
    except OSError:
        raise
    except Exception as error:
        return error


def _pick(about: Mapping[str, Any]) -> Versions:
    python = ".".join(about["host"]["python"].split(".")[:3])
    packages = about["packages"]
    return {"Python": python} | {name: packages.get(name) or "missing" for name in PACKAGES}


def _check_addresses(client: Client, source: str) -> None:
    info: Mapping[str, Any] = client.scheduler_info(n_workers=-1)
    named = {"the scheduler": info["address"]}
    for address, about in info["workers"].items():
        named[f"worker {address}"] = address
        if about.get("nanny"):
            named[f"the nanny of worker {address}"] = about["nanny"]
    for who, address in named.items():
        found = parts(address)
        if found is not None and found[0] == "tcp" and not is_loopback(found[1]):
            what = f"{source}: {who} listens at {address}, beyond the loopback interface"
            raise ClusterError(f"{what} and without TLS; start it with certificates", address)
