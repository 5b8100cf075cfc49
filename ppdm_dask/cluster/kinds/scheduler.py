"""A scheduler that runs already, with its workers."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from ppdm_dask.cluster.client import foreign_pool
from ppdm_dask.cluster.kinds.base import OWN, Profile, register
from ppdm_dask.cluster.worker import is_loopback, parts
from ppdm_dask.files.fields import Table

if TYPE_CHECKING:
    from ppdm_dask.cluster.client import Pool


@register
@dataclass(frozen=True, kw_only=True)
class SchedulerProfile(Profile):
    """A scheduler somebody else started; it and its workers stay when the run ends.

    Parameters
    ----------
    address : str
        ``tls://host:port``, or ``tcp://127.0.0.1:port`` on the loopback interface.
    """

    kind: ClassVar[str] = "scheduler"

    address: str

    @classmethod
    def read(cls, table: Table, common: Mapping[str, Any]) -> Self:
        right = "tls://HOST:PORT is needed"
        address = table.text("address", right)
        found = parts(address)
        if found is None:
            raise table.error("address", address, right)
        scheme, host, _ = found
        security = common["security"]
        if scheme == "tcp" and not is_loopback(host):
            what = "beyond the loopback interface a scheduler needs TLS: tls://HOST:PORT"
            raise table.error("address", address, what)
        if scheme == "tcp" and security is not None:
            raise table.error("address", address, "with certificates it is tls://HOST:PORT")
        if scheme == "tls" and security in (None, OWN):
            what = "the folder of the certificates that the scheduler trusts is needed"
            raise table.error("security", security, what)
        return cls(**common, address=address)

    def pool(self, folder: Path) -> AbstractContextManager[Pool]:
        return foreign_pool(
            self.address,
            self.workers,
            folder / "workers.log",
            certificates=self.certificates("client"),
            source=self.source,
        )
