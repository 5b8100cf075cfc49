"""What happens in a worker process: the work arrives as a plugin, batches as three numbers.

Before they are given work, scheduler and workers are compared with this process, and their
addresses are checked: those beyond this machine must use TLS.
"""

from __future__ import annotations

import ipaddress
import logging
import os
import pickle
import platform
import re
import socket
import ssl
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, cast

from distributed import Client, WorkerPlugin, get_worker
from distributed.protocol import pickle as by_value
from distributed.versions import get_versions

from ppdm_dask.engine.cells import Cell, Performer, Result, Work, summarise
from ppdm_dask.engine.environment import code_version
from ppdm_dask.errors import ClusterError, InputError, PPDMError


def parts(address: str) -> tuple[str, str, int] | None:
    """Protocol (``tls`` or ``tcp``), host and port of an address; None where it is none."""
    match = re.fullmatch(r"(tls|tcp)://(\[[0-9a-fA-F:.]+\]|[^/\[\]:\s]+):(\d{1,5})", address)
    if match is None or not 0 < int(match[3]) < 65536:
        return None
    return match[1], match[2].strip("[]"), int(match[3])


def is_loopback(host: str) -> bool:
    """Whether a host is this machine's loopback interface; of names, only ``localhost`` is."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


SECONDS = 5.0
# A server that wants TLS says nothing, so that this is waited for in full.
GREETING_SECONDS = 1.0


def accepts_strangers(address: str) -> bool:
    """Whether a Dask server talks to somebody without certificate, with or without TLS.

    A Dask server greets anyone who connects; one that asks for certificates ends the connection.
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


@cache
def _own_versions() -> Versions:
    return own_versions()


def require_same(versions: Mapping[str, str]) -> None:
    """Raise ClusterError in a worker that is not what the driver is, which came late."""
    if what := difference(versions, _own_versions()):
        raise ClusterError(
            f"worker {get_worker().address}: {what}; a run needs the same on all machines"
        )


def check_peers(client: Client, source: str) -> Versions:
    """Refuse a scheduler and workers that are not what this process is, or that others can reach.

    Parameters
    ----------
    client : distributed.Client
        Connected, with a worker or more.
    source : str
        Named in messages.

    Returns
    -------
    dict
        What they all are.

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
            raise ClusterError(
                f"{source}: {who}: {what}; a run needs the same on all machines", who
            )
    return ours


def seen_versions(client: Client, source: str) -> dict[str, Versions]:
    """Versions of the scheduler and of each worker.

    Packages are asked for only by name, since pickled code does not survive another Python; the
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


@dataclass(frozen=True)
class Failure:
    """An exception of the work, told as a value: what a future raises is Dask's own trouble.

    Parameters
    ----------
    summary : str
        Type and message, one line.
    traceback : str
        As Python prints it.
    pickled : bytes or None
        The exception, if it can be pickled.
    """

    summary: str
    traceback: str
    pickled: bytes | None

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        """Describe an exception; one of ours without the value it is about."""
        if isinstance(error, PPDMError):
            error = error.without_data().with_traceback(error.__traceback__)
        try:
            pickled = pickle.dumps(error)
            pickle.loads(pickled)
        except Exception:
            pickled = None
        return cls(summarise(error), "".join(traceback.format_exception(error)), pickled)

    def restore(self) -> BaseException | None:
        """Bring the exception back, with the worker's traceback as a note; None if it cannot be."""
        if self.pickled is None:
            return None
        try:
            error = pickle.loads(self.pickled)
        except Exception:
            return None
        if not isinstance(error, BaseException):
            return None
        error.add_note(f"In a worker process:\n{self.traceback}")
        return error


@dataclass(frozen=True)
class Unfit:
    """A worker that came late and is not what the driver is.

    Parameters
    ----------
    reason : str
        Which worker, and what differs.
    """

    reason: str


class Carrier(WorkerPlugin):
    """Carries an object to each worker once, and to a worker that was started in place of another.

    Parameters
    ----------
    content : object
        Pickled here (by value what a script defines), unpickled by a worker's first task.
    what : str
        What it is, for messages.
    name : str
        Under which a worker keeps the plugin.
    log : str or None
        File of this machine that takes what the worker process writes to its standard error.
    compare : bool
        Whether each worker has to compare its versions with this process before its first task.

    Raises
    ------
    InputError
        If the object cannot be pickled.
    """

    def __init__(
        self, content: object, what: str, name: str, log: str | None, *, compare: bool = False
    ) -> None:
        self.name = name
        self.log = log
        try:
            self._pickled: bytes = by_value.dumps(content)
        except Exception as error:
            raise InputError(
                f"this {what} cannot be sent to other processes ({summarise(error)}); "
                "make it picklable, or use workers=0",
                content,
            ) from error
        self._versions = own_versions() if compare else None
        self._content: Any = None
        self._opened = False

    def setup(self, worker: Any) -> None:
        """Send standard error to the log; a crash then tells its story there, not on a terminal."""
        if self.log is not None:
            descriptor = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            os.dup2(descriptor, 2)
            os.close(descriptor)
        package = logging.getLogger("ppdm_dask")
        if not logging.getLogger().handlers and len(package.handlers) == 1:
            # Beside the one that shows nothing: warnings of the work belong with what it printed.
            package.addHandler(logging.StreamHandler())

    def content(self) -> Any:
        """The object, in a worker; an :class:`Unfit` where the worker is not what the driver is."""
        if not self._opened:
            if self._versions is not None:
                what = difference(self._versions, own_versions())
                if what:
                    return Unfit(f"worker {get_worker().address}: {what}")
            self._content = by_value.loads(self._pickled)
            self._opened = True
        return self._content


class WorkPlugin(Carrier):
    """Carries the work and its cells.

    Parameters
    ----------
    work : Work
        The computation.
    cells : sequence of Cell
        Batches name a cell by its position.
    name, log, compare
        As of :class:`Carrier`.
    """

    def __init__(
        self,
        work: Work,
        cells: Sequence[Cell],
        name: str,
        log: str | None,
        *,
        compare: bool = False,
    ) -> None:
        super().__init__(work, "work", name, log, compare=compare)
        self.cells = tuple(cells)
        self._performer: Performer | None = None

    def perform(self, index: int, start: int, stop: int) -> Result | Unfit:
        """Do repeats of the cell at position ``index``."""
        if self._performer is None:
            work = self.content()
            if isinstance(work, Unfit):
                return work
            self._performer = Performer(work)
        return self._performer.perform(self.cells[index], start, stop)


def perform_batch(name: str, index: int, start: int, stop: int) -> Result | Failure | Unfit:
    """Task of one batch.

    Raises
    ------
    KeyError
        If the worker lacks the plugin, so that the batch has to be sent again.
    """
    plugin = cast(WorkPlugin, get_worker().plugins[name])
    try:
        return plugin.perform(index, start, stop)
    except BaseException as error:
        return Failure.of(error)
