"""A scheduler that runs already, with its workers."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Self

from ppdm_dask.cluster.client import foreign_pool
from ppdm_dask.cluster.kinds.base import OWN, Profile, register
from ppdm_dask.cluster.worker import is_loopback, parts
from ppdm_dask.files.values import Place, Text

if TYPE_CHECKING:
    from ppdm_dask.cluster.client import Pool


ADDRESS = Text("tls://HOST:PORT is needed", r"(?:tls|tcp)://.+:\d{1,5}")


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

    address: Annotated[str, ADDRESS]

    def checked(self, at: Place) -> Self:
        scheme, host, _ = parts(self.address) or ("", "", 0)
        if not scheme:
            raise at["address"].wrong(self.address, ADDRESS.right)
        if scheme == "tcp" and not is_loopback(host):
            what = "beyond the loopback interface a scheduler needs TLS: tls://HOST:PORT"
            raise at["address"].wrong(self.address, what)
        if scheme == "tcp" and self.security is not None:
            raise at["address"].wrong(self.address, "with certificates it is tls://HOST:PORT")
        if scheme == "tls" and self.security in (None, OWN):
            what = "the folder of the certificates that the scheduler trusts is needed"
            raise at["security"].wrong(self.security, what)
        return self

    def pool(self, folder: Path) -> AbstractContextManager[Pool]:
        return foreign_pool(
            self.address,
            self.workers,
            folder / "workers.log",
            certificates=self.certificates("client"),
            source=self.source,
        )
