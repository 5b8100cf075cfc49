"""Addresses of schedulers and workers, and which of them stay on one machine."""

from __future__ import annotations

import ipaddress
import re

__all__ = ["is_loopback", "parts"]


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
