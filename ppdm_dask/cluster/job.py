"""A worker as the one program of a batch job: it ends before the job does, and with the scheduler.

Started as ``python -m ppdm_dask.cluster.job SCHEDULER --name NAME ...`` by the job's script.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

# For an orderly end; what is left then is ended by force.
END_SECONDS = 3.0
LEAVE_SECONDS = 1.0
LOOK_SECONDS = 0.2
# Part of its lifetime by which a worker may leave early.
STAGGER = 0.2
GOLDEN = 0.6180339887498949


def leave_after(lifetime: float, number: int) -> float:
    """Seconds after which worker ``number`` leaves: up to a fifth before its lifetime is over.

    Multiples of the golden ratio spread any run of consecutive numbers evenly, so that jobs which
    began together do not end together.
    """
    return lifetime * (1.0 - STAGGER * (number * GOLDEN % 1.0))


def main(arguments: Sequence[str] | None = None) -> None:
    """Be a worker until its time is over, its job is cancelled or its scheduler is gone."""
    given = _parse(arguments)
    from ppdm_dask.cluster.client import ENVIRONMENT

    # Numerical libraries read these when they are loaded; what is said about Dask is for workers.
    os.environ.update({k: v for k, v in ENVIRONMENT.items() if not k.startswith("DASK_")})
    logging.basicConfig(stream=sys.stderr, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    logging.getLogger("distributed.nanny").setLevel(logging.INFO)
    asyncio.run(_serve(given))


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("scheduler")
    for name in ("name", "interface", "protocol", "tls-ca-file", "tls-cert", "tls-key"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--nthreads", type=int, required=True)
    parser.add_argument("--death-timeout", type=float, required=True, help="seconds")
    parser.add_argument("--memory", type=int, required=True, help="bytes")
    parser.add_argument("--memory-limit", help="the same, rounded; not used")
    parser.add_argument("--lifetime", type=float, required=True, help="seconds")
    return parser.parse_args(arguments)


async def _serve(given: argparse.Namespace) -> None:
    import dask

    from ppdm_dask.cluster.client import NETWORK, SETTINGS

    dask.config.set(SETTINGS | NETWORK)
    over = asyncio.Event()
    loop = asyncio.get_running_loop()
    with suppress(NotImplementedError):  # a system whose loops take no signals
        loop.add_signal_handler(signal.SIGTERM, over.set)
    number = int(given.name.rpartition("-")[2])
    loop.call_later(leave_after(given.lifetime, number), over.set)
    nanny = _nanny(given)
    async with nanny:
        await _wait(nanny, over)
        # A busy worker would be waited for, though nobody takes its result any more.
        threading.Timer(END_SECONDS, os._exit, (0,)).start()
        if over.is_set():
            await _retire(nanny)
    # A worker process ends with this one.
    os._exit(0)


def _nanny(given: argparse.Namespace) -> Any:
    from ppdm_dask.cluster.client import ENVIRONMENT
    from ppdm_dask.cluster.nanny import PromptNanny
    from ppdm_dask.cluster.security import GuardedSecurity

    return PromptNanny(
        given.scheduler,
        nthreads=given.nthreads,
        memory_limit=given.memory,
        name=given.name,
        env=ENVIRONMENT,
        death_timeout=given.death_timeout,
        interface=given.interface,
        protocol=given.protocol,
        security=GuardedSecurity(
            tls_ca_file=given.tls_ca_file,
            tls_worker_cert=given.tls_cert,
            tls_worker_key=given.tls_key,
        ),
    )


async def _wait(nanny: Any, over: asyncio.Event) -> None:
    """Return when the worker's time is over, or when it leaves because its scheduler has gone."""
    from distributed.core import Status

    while not over.is_set() and nanny.status in (Status.init, Status.starting, Status.running):
        with suppress(TimeoutError):
            await asyncio.wait_for(over.wait(), LOOK_SECONDS)


async def _retire(nanny: Any) -> None:
    """Have the scheduler give the worker's batches to others; it is not to blame for that."""
    with suppress(Exception):
        leave = nanny.scheduler.retire_workers(
            workers=[nanny.worker_address], close_workers=False, remove=True
        )
        await asyncio.wait_for(leave, LEAVE_SECONDS)


if __name__ == "__main__":
    main()
