"""A scheduler or a worker's nanny on another machine; it lives as long as its standard input does.

Started over SSH as ``python -m ppdm_dask.cluster.remote``.  The first line of its standard input
says what to be, certificates included: a command line would show them to everybody.  The driver
then writes a line every few seconds; when they stop, or the input ends, so does this process, so
that nothing is left of a driver that was killed or cut off.
"""

from __future__ import annotations

import asyncio
import json
import os
import select
import sys
import threading
from typing import Any

SILENCE_SECONDS = 60.0
# In which a worker has to find the scheduler.
START_SECONDS = 60.0
# For an orderly end; what is left then is ended by force.
END_SECONDS = 3.0


def main() -> None:
    """Read what to be, be it until the input ends."""
    spec = json.loads(sys.stdin.buffer.readline())
    # Numerical libraries read these when they are loaded. What is said about Dask is for workers.
    given: dict[str, str] = spec["environment"]
    os.environ.update({name: given[name] for name in given if not name.startswith("DASK_")})
    try:
        asyncio.run(_serve(spec))
    except Exception as error:
        text = " ".join(f"{type(error).__name__}: {error}".split())
        print(json.dumps({"error": text}), flush=True)
        sys.exit(1)


async def _serve(spec: dict[str, Any]) -> None:
    import dask

    dask.config.set(spec["settings"])
    loop = asyncio.get_running_loop()
    over = asyncio.Event()
    threading.Thread(target=_wait_for_end, args=(loop, over), daemon=True).start()
    server = _make(spec)
    async with server:
        print(json.dumps({"address": server.address}), flush=True)
        finished = asyncio.ensure_future(server.finished())
        ended = asyncio.ensure_future(over.wait())
        await asyncio.wait([finished, ended], return_when=asyncio.FIRST_COMPLETED)
        ended.cancel()


def _make(spec: dict[str, Any]) -> Any:
    from ppdm_dask.cluster.nanny import PromptNanny
    from ppdm_dask.cluster.security import GuardedScheduler, GuardedSecurity

    where = {"interface": spec["interface"]} if spec["interface"] else {"host": _own_address()}
    common = {
        **where,
        "protocol": "tls://",
        "security": GuardedSecurity(**spec["security"]),
    }
    if spec["role"] == "scheduler":
        return GuardedScheduler(port=0, **common)
    return PromptNanny(
        spec["scheduler"],
        nthreads=1,
        memory_limit=spec["memory"],
        name=spec["name"],
        env=spec["environment"],
        death_timeout=START_SECONDS,
        **common,
    )


def _own_address() -> str:
    """Address of this machine at which SSH was reached: nothing listens where SSH does not."""
    address = os.environ["SSH_CONNECTION"].split()[2]
    return f"[{address}]" if ":" in address else address


def _wait_for_end(loop: asyncio.AbstractEventLoop, over: asyncio.Event) -> None:
    """Return when the input ends or falls silent; then end, in an orderly way or by force."""
    while select.select([0], [], [], SILENCE_SECONDS)[0] and os.read(0, 65536):
        pass
    threading.Timer(END_SECONDS, os._exit, (1,)).start()
    loop.call_soon_threadsafe(over.set)


if __name__ == "__main__":
    main()
