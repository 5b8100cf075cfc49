"""Comparing scheduler and workers with this process before they are given work.

Beside it: addresses of schedulers and workers, and which of them stay on one machine; knocking at
an address without a certificate, to see whether it lets a stranger in.
"""

from __future__ import annotations

import ipaddress
import platform
import re
import socket
import ssl
from collections.abc import Mapping
from typing import Any

from distributed import Client
from distributed.versions import get_versions

from ppdm_dask.engine.batches import summarise
from ppdm_dask.engine.environment import code_version
from ppdm_dask.errors import ClusterError

__all__ = [
    "accepts_strangers",
    "check_peers",
    "difference",
    "is_loopback",
    "own_versions",
    "parts",
    "seen_versions",
]


def parts(address: str) -> tuple[str, str, int] | None:
    """Protocol (``tls`` or ``tcp``), host and port of an address; None where it is none."""
    match = re.fullmatch(r"(tls|tcp)://(\[[0-9a-fA-F:.]+\]|[^/\[\]:\s]+):(\d{1,5})", address)
    if match is None or not 0 < int(match[3]) < 65536:
        return None
    return match[1], match[2].strip("[]"), int(match[3])


def is_loopback(host: str) -> bool:
    """Whether a host is this machine's loopback interface; of names, ``localhost`` alone is."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


SECONDS = 5.0
# A server that wants TLS says nothing, so that this is waited for in full.
GREETING_SECONDS = 1.0


def accepts_strangers(address: str) -> bool:
    """Whether a Dask server talks to somebody without certificate, with or without TLS.

    A Dask server greets whoever connects; one that asks for certificates ends the connection.
    """
    found = parts(address)
    if found is None:
        return False
    _, host, port = found
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return _greets(host, port, None) or _greets(host, port, context)


def _greets(host: str, port: int, context: ssl.SSLContext | None) -> bool:
    try:
        with socket.create_connection((host, port), timeout=SECONDS) as plain:
            if context is None:
                plain.settimeout(GREETING_SECONDS)
                return bool(plain.recv(1))
            with context.wrap_socket(plain) as wrapped:
                # In TLS 1.3 the refusal comes after the handshake.
                return bool(wrapped.recv(1))
    except OSError:
        return False


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
