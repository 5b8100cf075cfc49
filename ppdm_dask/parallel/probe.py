"""Knocking at an address without a certificate, to see whether it lets a stranger in."""

from __future__ import annotations

import socket
import ssl

from ppdm_dask.parallel.addresses import parts

__all__ = ["accepts_strangers"]

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
