# mypy: allow-untyped-calls
"""Parts of a Dask cluster that talk to nobody without a certificate of the cluster's authority.

Dask opens an HTTP server beside every scheduler and worker, dashboard or not, and puts its folder
for temporary files, below a folder that all users share, at the head of the path of modules.
"""

from __future__ import annotations

import os
import ssl
import stat
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import dask
from distributed import Scheduler, Security, Worker

from ppdm_dask.errors import ClusterError

__all__ = ["GuardedScheduler", "GuardedSecurity", "GuardedWorker", "private_folder"]


# Dask has annotated few of its functions.


class GuardedSecurity(Security):
    """Dask's settings, with TLS 1.3 only, and with keys that never lie in a file.

    Parameters as of :class:`distributed.Security`: texts in PEM form, or paths.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(require_encryption=True, **settings)

    def get_connection_args(self, role: str) -> dict[str, Any]:
        return {
            "ssl_context": self._context(role, ssl.Purpose.SERVER_AUTH),
            "require_encryption": True,
            "extra_conn_args": self.extra_conn_args,
        }

    def get_listen_args(self, role: str) -> dict[str, Any]:
        context = self._context(role, ssl.Purpose.CLIENT_AUTH)
        # Nobody resumes a session, and a ticket costs each connection two messages.
        context.num_tickets = 0
        return {"ssl_context": context, "require_encryption": True}

    def _context(self, role: str, purpose: ssl.Purpose) -> ssl.SSLContext:
        given = self.get_tls_config_for_role(role)
        authority, certificate, key = given["ca_file"], given["cert"], given["key"]
        if not authority or not certificate or not key:
            raise ClusterError(f"there is no certificate of the {role}", role)
        trusted = {"cadata" if "\n" in authority else "cafile": authority}
        context = ssl.create_default_context(purpose, **trusted)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        # The authority is the cluster's own; addresses say nothing.
        context.check_hostname = False
        context.verify_mode = ssl.CERT_REQUIRED
        with ExitStack() as stack:
            paths = [stack.enter_context(_as_file(text)) for text in (certificate, key)]
            context.load_cert_chain(*paths)
        return context


@contextmanager
def _as_file(text: str) -> Iterator[str]:
    """Path at which OpenSSL reads a text: of a file in memory where the system has such."""
    if "\n" not in text:
        yield text
        return
    content = text.encode("ascii")
    if hasattr(os, "memfd_create") and os.path.isdir("/proc/self/fd"):
        descriptor = os.memfd_create("certificate")
        try:
            os.write(descriptor, content)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
    else:
        with tempfile.NamedTemporaryFile(dir=private_folder()) as file:
            file.write(content)
            file.flush()
            yield file.name


class GuardedScheduler(Scheduler):
    """Scheduler without HTTP server."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        options = {**options, "dashboard": False, "dashboard_address": None}
        with dask.config.set({"temporary-directory": str(private_folder())}):
            super().__init__(*arguments, **options)

    def start_http_server(self, *_: object, **__: object) -> None:
        """Listen nowhere: these pages would tell anybody who asks."""


class GuardedWorker(Worker):
    """Worker without HTTP server."""

    def start_http_server(self, *_: object, **__: object) -> None:
        """Listen nowhere: these pages would tell anybody who asks."""


@cache
def private_folder() -> Path:
    """Folder for temporary files that this user only can enter, one for all processes.

    Where somebody else has taken its name, this process has one of another name.
    """
    folder = Path(tempfile.gettempdir()) / f"ppdm-{os.getuid()}"
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        about = folder.lstat()
        ours = stat.S_ISDIR(about.st_mode) and about.st_uid == os.getuid()
        if not ours or about.st_mode & 0o077:
            return Path(tempfile.mkdtemp(prefix="ppdm-"))
    return folder
