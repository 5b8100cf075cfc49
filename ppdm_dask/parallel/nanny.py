"""Nannies, which start worker processes and start them anew, with an end that takes a second."""

# Dask has annotated few of its functions.
# mypy: allow-untyped-calls

from __future__ import annotations

from contextlib import suppress
from typing import Any, ClassVar, Literal
from weakref import WeakSet

from distributed import Nanny
from distributed.core import Status

from ppdm_dask.parallel.guarded import GuardedWorker, private_folder

__all__ = ["PromptNanny", "halt_all"]


class PromptNanny(Nanny):
    """Nanny that ends its worker in a second: an idle one by itself, a busy or new one by force.

    Its worker serves no HTTP, and keeps what it writes in a folder of this user.
    """

    known: ClassVar[WeakSet[PromptNanny]] = WeakSet()
    halted = False

    def __init__(self, *arguments: Any, **options: Any) -> None:
        guarded: dict[str, Any] = {
            "worker_class": GuardedWorker,
            "local_directory": str(private_folder()),
        }
        super().__init__(*arguments, **(guarded | options))
        self.known.add(self)

    async def instantiate(self) -> Status:
        if self.halted:
            raise RuntimeError("the run is over")
        return await super().instantiate()

    async def halt(self) -> None:
        """Start no worker any more; a worker that is just starting would have to be waited for."""
        self.halted = True
        worker = self.process
        if worker is not None and worker.status == Status.starting and worker.process is not None:
            # Its process may not be there yet, or not any more.
            with suppress(Exception):
                await worker.process.kill()

    async def close(  # type: ignore[override]
        self, timeout: float = 1.0, reason: str = "the run is over"
    ) -> Literal["OK"]:
        return await super().close(timeout=min(timeout, 1.0), reason=reason)


async def halt_all(scheduler: str) -> None:
    """Halt the nannies of this scheduler, also those that their cluster does not know yet."""
    for nanny in list(PromptNanny.known):
        if nanny.scheduler_addr == scheduler:
            await nanny.halt()
