"""Workers on this machine, on the loopback interface, with certificates."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from ppdm_dask.cluster.client import local_pool
from ppdm_dask.cluster.kinds.base import Profile, register
from ppdm_dask.cluster.security import ROLES

if TYPE_CHECKING:
    from ppdm_dask.cluster.client import Pool


@register
@dataclass(frozen=True, kw_only=True)
class LocalProfile(Profile):
    """Worker processes that the run starts beside itself, and that end with it."""

    kind: ClassVar[str] = "local"
    needs_security: ClassVar[bool] = True

    def pool(self, folder: Path) -> AbstractContextManager[Pool]:
        return local_pool(
            self.workers,
            folder / "workers.log",
            self.memory,
            certificates=self.certificates(*ROLES),
            more_memory=f"raise memory in {self.source}",
        )
