"""Workers on machines that SSH reaches."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from ppdm_dask.cluster.kinds.base import Profile, register
from ppdm_dask.files.fields import Table

if TYPE_CHECKING:
    from ppdm_dask.cluster.client import Pool

__all__ = ["SSHProfile"]


@register
@dataclass(frozen=True, kw_only=True)
class SSHProfile(Profile):
    """A scheduler and workers that the run starts over SSH, and that end with it.

    Parameters
    ----------
    hosts : tuple of str
        Machines; workers are dealt out in turn, and a machine may be named twice.
    scheduler : str
        Machine of the scheduler; this process and all workers have to reach it.
    python : str
        Path of the Python with this package, on all machines.
    user, port, key, known_hosts : optional
        For the SSH connections; what is None comes from the configuration of SSH.
    interface : str or None
        Network interface on which scheduler and workers listen; by default the address at which
        SSH reached the machine.
    """

    kind: ClassVar[str] = "ssh"
    needs_security: ClassVar[bool] = True

    hosts: tuple[str, ...]
    scheduler: str
    python: str = sys.executable
    user: str | None = None
    port: int | None = None
    key: str | None = None
    known_hosts: str | None = None
    interface: str | None = None

    @classmethod
    def read(cls, table: Table, common: Mapping[str, Any]) -> Self:
        right = "a list of one machine or more is needed"
        hosts = table.texts("hosts")
        if not hosts or not all(host.strip() for host in hosts):
            raise table.error("hosts", list(hosts) or None, right)
        base = Path(table.source).parent
        files: dict[str, str | None] = {}
        for name in ("key", "known_hosts"):
            text = table.optional_text(name, "the path of a file is needed")
            path = None if text is None else base / Path(text).expanduser()
            if path is not None and not path.is_file():
                raise table.error(name, text, f"there is no file {path}")
            files[name] = None if path is None else str(path)
        port = table.optional_integer("port", 1)
        if port is not None and port > 65535:
            raise table.error("port", port, "a port is 65535 at most")
        return cls(
            **common,
            key=files["key"],
            known_hosts=files["known_hosts"],
            hosts=hosts,
            scheduler=table.optional_text("scheduler") or hosts[0],
            python=table.optional_text("python") or sys.executable,
            user=table.optional_text("user"),
            port=port,
            interface=table.optional_text("interface"),
        )

    @property
    def where(self) -> str:
        return f"{super().where} on {', '.join(dict.fromkeys(self.hosts))}"

    @property
    def options(self) -> dict[str, Any]:
        """What the SSH connections are opened with."""
        given = {
            "username": self.user,
            "port": self.port,
            "client_keys": None if self.key is None else [self.key],
            "known_hosts": self.known_hosts,
        }
        return {name: value for name, value in given.items() if value is not None}

    def pool(self, folder: Path) -> AbstractContextManager[Pool]:
        from ppdm_dask.cluster.ssh import ssh_pool

        return ssh_pool(self, folder / "workers.log")
