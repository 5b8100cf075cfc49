"""Another user of this machine, who tries to get at a run; started by root, which it gives up.

Called with a user id and JSON of ``pids``, ``folders`` and ``marker``. Reads a port of 127.0.0.1 a
line, tries every way in at once, and writes a JSON line for each: the port, and by the name of the
way what came of it. At the end of the input it writes what it could read of files and processes.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import ssl
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from distributed.comm import connect

from ppdm_dask.cluster.security import make_certificates

HOST = "127.0.0.1"
SECONDS = 2.0
REQUEST = b"GET /info/main/workers.html HTTP/1.0\r\n\r\n"
# An alert of TLS, which a server may send in answer to what is not TLS.
ALERT = b"\x15\x03"


def without_certificate() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def with_foreign_certificate() -> ssl.SSLContext:
    context: Any = make_certificates().security().get_connection_args("client")["ssl_context"]
    context.verify_mode = ssl.CERT_NONE
    assert isinstance(context, ssl.SSLContext)
    return context


NOBODY, FOREIGN = without_certificate(), with_foreign_certificate()


def bare(port: int, context: ssl.SSLContext | None = None, request: bytes = b"") -> str:
    """Connect, send a request, and say what came back."""
    with socket.create_connection((HOST, port), timeout=SECONDS) as plain:
        found: socket.socket = plain if context is None else context.wrap_socket(plain)
        with found:
            found.settimeout(SECONDS)
            if request:
                found.sendall(request)
            answer = found.recv(4096)
    return "refused" if not answer or answer.startswith(ALERT) else f"answered {answer[:60]!r}"


def as_dask(port: int, context: ssl.SSLContext | None = None) -> str:
    """Ask as a part of Dask who is there."""

    async def ask() -> object:
        scheme, options = ("tcp", {}) if context is None else ("tls", {"ssl_context": context})
        comm = await connect(f"{scheme}://{HOST}:{port}", timeout=SECONDS, **options)
        try:
            await comm.write({"op": "identity", "reply": True})
            return await asyncio.wait_for(comm.read(), SECONDS)
        finally:
            comm.abort()

    async def ask_in_time() -> object:
        # Dask waits for the first message of the other side without end.
        return await asyncio.wait_for(ask(), 2 * SECONDS)

    return f"answered {str(asyncio.run(ask_in_time()))[:60]}"


WAYS: dict[str, Callable[[int], str]] = {
    "plain": bare,
    "http": lambda port: bare(port, request=REQUEST),
    "https": lambda port: bare(port, NOBODY, REQUEST),
    "dask": as_dask,
    "dask, TLS without certificate": lambda port: as_dask(port, NOBODY),
    "dask, certificate of another authority": lambda port: as_dask(port, FOREIGN),
}


def attempt(way: str, port: int, found: dict[str, str]) -> None:
    try:
        found[way] = WAYS[way](port)
    except ConnectionRefusedError:
        found[way] = "gone"
    except (OSError, TimeoutError):
        found[way] = "refused"
    except Exception as error:
        found[way] = f"broke down: {error!r}"


def attack(port: int, say: Callable[[object], None]) -> None:
    found: dict[str, str] = {}
    threads = [threading.Thread(target=attempt, args=(way, port, found)) for way in WAYS]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    say({"port": port, "found": found})


def read_all(pids: list[int], folders: list[str], marker: str, since: float) -> list[str]:
    """Files and parts of processes that can be read though they should not be.

    Files that were there before are not looked at: a checkout holds the marker too.
    """
    telling = (b"PRIVATE KEY", marker.encode())
    found = []
    for pid in pids:
        for name in ("environ", "mem", "maps", "fd", "cmdline"):
            path = Path(f"/proc/{pid}/{name}")
            try:
                content = b" ".join(map(os.fsencode, os.listdir(path))) if name == "fd" else b""
                content = content or path.read_bytes()
            except OSError:
                continue
            # A process that has just ended opens to anybody, and is empty.
            if content and (name != "cmdline" or any(each in content for each in telling)):
                found.append(str(path))
    for folder in folders:
        for parent, _, names in os.walk(folder):
            for name in names:
                path = Path(parent, name)
                try:
                    new = path.is_file() and path.stat().st_ctime >= since
                    content = path.read_bytes() if new else b""
                except OSError:
                    continue
                if any(each in content for each in telling):
                    found.append(str(path))
    return found


def main() -> None:
    uid, given = int(sys.argv[1]), json.loads(sys.argv[2])
    os.setgroups([])
    os.setgid(uid)
    os.setuid(uid)
    lock = threading.Lock()

    def say(what: object) -> None:
        with lock:
            print(json.dumps(what), flush=True)

    threads = []
    for line in sys.stdin:
        threads.append(threading.Thread(target=attack, args=(int(line), say)))
        threads[-1].start()
    for thread in threads:
        thread.join()
    say({"uid": os.getuid(), "read": read_all(**given)})


if __name__ == "__main__":
    main()
