"""Serve a survey: processes that share one socket, and the team's page beside them.

Each process takes submissions and keeps them in the one database; a process that ends is replaced.
An interrupt or SIGTERM lets what has begun end: nothing that was acknowledged is lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import multiprocessing as mp
import os
import signal
import socket
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ppdm_dask.collect.collector import Counters, Limits, collector
from ppdm_dask.collect.questionnaire import ORIGIN
from ppdm_dask.collect.store import Store
from ppdm_dask.collect.survey import Survey
from ppdm_dask.collect.team import team
from ppdm_dask.errors import InputError, MachineError
from ppdm_dask.extras import named
from ppdm_dask.files.values import Place

__all__ = ["Serving", "serve"]

LOG = logging.getLogger(__name__)

STATUSES = (200, 201, 400, 403, 408, 409, 413, 415, 422, 429, 503)

PATIENCE = 20.0
"""Seconds in which a process has to end once it is asked to."""

EVERY = 0.25
"""Seconds between looks at the processes."""


@dataclass(frozen=True)
class Serving:
    """How a survey is served.

    Parameters
    ----------
    folder : Path
        Of ``ppdm survey build``.
    database : str
        A file of SQLite, or an address of PostgreSQL.
    host : str
    port : int
        0 for one that is free.
    team_port : int
        Of the team's page, on loopback only; 0 for one that is free.
    team_token : str
    workers : int
        Processes that take submissions.
    tokens : bool
        Whether a report needs a single-use token.
    origins : tuple of str
        Other origins whose pages may send.
    certificate, key : Path, optional
        For TLS; without them listen only on loopback, behind a proxy with TLS.
    proxies : tuple of str
        Addresses of proxies that are trusted to name the client.
    limits : Limits
    """

    folder: Path
    database: str
    host: str = "127.0.0.1"
    port: int = 8000
    team_port: int = 8001
    team_token: str = ""
    workers: int = 1
    tokens: bool = False
    origins: tuple[str, ...] = ()
    certificate: Path | None = None
    key: Path | None = None
    proxies: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)


class Shared(Counters):
    """Counters that all processes share."""

    def __init__(self, numbers: Any) -> None:
        self._numbers = numbers

    def add(self, status: int) -> None:
        """Count an answer."""
        with self._numbers.get_lock():
            self._numbers[STATUSES.index(status)] += 1

    def counts(self) -> Mapping[int, int]:
        """Numbers of answers by status."""
        found = self._numbers[:]
        return {status: n for status, n in zip(STATUSES, found, strict=True) if n}


def _bind(host: str, port: int) -> socket.socket:
    made = None
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        made = socket.socket(family, socket.SOCK_STREAM)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host, port))
        made.listen(2048)
    except (OSError, UnicodeError) as error:
        if made is not None:
            made.close()
        why = getattr(error, "strerror", None) or str(error)
        raise InputError(f"{host}:{port}: cannot listen there: {why}", port) from None
    made.set_inheritable(True)
    return made


def _config(app: Any, how: Serving, **more: Any) -> Any:
    import uvicorn

    return uvicorn.Config(
        app,
        # Its log of requests holds addresses; ours has one line for what is refused.
        access_log=False,
        log_config=None,
        server_header=False,
        date_header=False,
        timeout_keep_alive=15,
        timeout_graceful_shutdown=10,
        h11_max_incomplete_event_size=16_384,
        proxy_headers=bool(how.proxies),
        forwarded_allow_ips=list(how.proxies) or None,
        lifespan="on",
        **more,
    )


def _take(how: Serving, listening: socket.socket, numbers: Any) -> None:
    """A process that takes submissions."""
    import uvicorn

    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    survey = Survey.read(how.folder)
    store = Store(how.database, survey.id, survey.text())
    app = collector(
        survey,
        store,
        tokens=how.tokens,
        origins=how.origins,
        limits=how.limits,
        counters=Shared(numbers),
    )
    tls: dict[str, Any] = {}
    if how.certificate is not None:
        tls = {"ssl_certfile": str(how.certificate), "ssl_keyfile": str(how.key)}
    _run(uvicorn.Server(_config(app, how, **tls)), listening)
    store.close()


def _show(how: Serving, listening: socket.socket, numbers: Any) -> None:
    """The process of the team's page."""
    import uvicorn

    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    survey = Survey.read(how.folder)
    store = Store(how.database, survey.id, survey.text())
    app = team(survey, store, how.team_token, Shared(numbers).counts)
    _run(uvicorn.Server(_config(app, how)), listening)
    store.close()


def _run(server: Any, listening: socket.socket) -> None:
    """Serve until SIGTERM, and return: uvicorn raises the signal again, once it has ended."""

    def stop(*_: Any) -> None:
        server.should_exit = True

    signal.signal(signal.SIGTERM, stop)
    asyncio.run(server.serve(sockets=[listening]))


def _require_pair(certificate: Path, key: Path) -> None:
    """Refuse what no process could begin with."""
    for path in (certificate, key):
        if not os.access(path, os.R_OK):
            raise InputError(f"{path}: cannot be read", path)
    try:
        # A key with a passphrase would have each process ask for it.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, lambda: "")
    except (ssl.SSLError, OSError, ValueError) as error:
        why = getattr(error, "reason", None) or str(error)
        raise InputError(
            f"{certificate}, {key}: a certificate and its key are needed, in PEM and without a "
            f"passphrase: {why}",
            certificate,
        ) from None


def serve(how: Serving, ready: Callable[[int, int], None]) -> None:
    """Serve until SIGTERM or an interrupt, which is raised again once all processes have ended.

    Parameters
    ----------
    how : Serving
    ready : callable
        Called with both ports once submissions are taken.

    Raises
    ------
    InputError
        If the folder, the database, an origin, a port or a certificate cannot be used.
    KeyboardInterrupt
        After an interrupt.
    """
    with named("serving"):
        import starlette
        import uvicorn
    del starlette, uvicorn
    # Whatever is wrong with them is said here, once, before any process starts.
    survey = Survey.read(how.folder)
    for i, origin in enumerate(how.origins):
        ORIGIN.read(origin, Place("origin", error=InputError)[i])
    if how.certificate is not None and how.key is not None:
        _require_pair(how.certificate, how.key)
    with contextlib.ExitStack() as bound:
        public = bound.enter_context(_bind(how.host, how.port))
        own = bound.enter_context(_bind("127.0.0.1", how.team_port))
        # After the ports: where one is in use no database is made.
        Store(how.database, survey.id, survey.text()).close()
        bound.pop_all()
    context = mp.get_context("spawn")
    numbers = context.Array("Q", len(STATUSES))
    stopping = 0

    def stop(number: int, _: Any) -> None:
        nonlocal stopping
        stopping = number

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    takers: list[Any] = []
    shower = None
    try:
        takers += [_started(context, _take, how, public, numbers) for _ in range(how.workers)]
        shower = _started(context, _show, how, own, numbers)
        ready(public.getsockname()[1], own.getsockname()[1])
        while not stopping:
            time.sleep(EVERY)
            for i, process in enumerate(takers):
                if not process.is_alive() and not stopping:
                    LOG.warning("a process of the collector ended; a new one is started")
                    takers[i] = _started(context, _take, how, public, numbers)
            if not shower.is_alive() and not stopping:
                shower = _started(context, _show, how, own, numbers)
    finally:
        _end([*takers, *([] if shower is None else [shower])])
        public.close()
        own.close()
        _tidy(how, survey)
        for number, handler in before.items():
            signal.signal(number, handler)
    if stopping == signal.SIGINT:
        raise KeyboardInterrupt


def _tidy(how: Serving, survey: Survey) -> None:
    """Leave no order of arrival in the file; another collector may still be writing to it."""
    try:
        store = Store(how.database, survey.id, survey.text())
        store.tidy()
        store.close()
    except (InputError, MachineError) as error:
        LOG.warning("the database still shows the order of arrival: %s", error)


def _started(context: Any, target: Any, *arguments: Any) -> Any:
    process = context.Process(target=target, args=arguments, daemon=True)
    # Ctrl-C reaches all processes of a terminal; only this one says that it is time to end.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        process.start()
    finally:
        signal.signal(signal.SIGINT, before)
    return process


def _end(processes: Sequence[Any]) -> None:
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            if process.is_alive():
                process.terminate()
    ends = time.monotonic() + PATIENCE
    for process in processes:
        process.join(max(ends - time.monotonic(), 0.1))
        if process.is_alive():
            process.kill()
            process.join()
