"""Workers on machines that SSH reaches: Dask's SSHCluster with other processes.

Dask's put the configuration on the command line, where everybody can read it, listen on all
interfaces and outlive a driver that was killed; see :mod:`ppdm_dask.cluster.remote`.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import logging
import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import dask
from distributed import SpecCluster
from distributed.core import Status
from distributed.deploy.ssh import Process

from ppdm_dask.cluster.client import (
    CONNECT_SECONDS,
    ENVIRONMENT,
    NETWORK,
    SETTINGS,
    Pool,
    WorkerCount,
    connected,
)
from ppdm_dask.cluster.kinds.base import Beside, Profile, register
from ppdm_dask.cluster.nanny import close_cluster, mend_cluster
from ppdm_dask.cluster.security import ROLES
from ppdm_dask.cluster.surroundings import interrupts_blocked, logging_to
from ppdm_dask.engine.cells import summarise
from ppdm_dask.errors import ClusterError, ClusterUnreachable
from ppdm_dask.files.values import Many, Text, Whole
from ppdm_dask.frozen import settle

FILE = Beside("the path of a file is needed", there="file")


@register
@dataclass(frozen=True, kw_only=True)
class SSHProfile(Profile):
    """A scheduler and workers that the run starts over SSH, and that end with it.

    Parameters
    ----------
    hosts : tuple of str
        Machines; workers are distributed in turn, and a machine may be named twice.
    scheduler : str
        Machine of the scheduler, by default the first; this process and all workers have to reach
        it.
    python : str
        Path of the Python with this package, on all machines.
    user, port, key, known_hosts : optional
        For the SSH connections; None means the value of the SSH configuration.
    interface : str or None
        Network interface on which scheduler and workers listen; by default the address at which
        SSH reached the machine.
    """

    kind: ClassVar[str] = "ssh"
    needs_security: ClassVar[bool] = True

    hosts: Annotated[tuple[str, ...], Many(Text(), "a list of one machine or more is needed", 1)]
    scheduler: str = ""
    python: str = sys.executable
    user: str | None = None
    port: Annotated[int, Whole(1, 65535)] | None = None
    key: Annotated[str, FILE] | None = None
    known_hosts: Annotated[str, FILE] | None = None
    interface: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        settle(self, scheduler=self.scheduler or self.hosts[0])

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
        return ssh_pool(self, folder / "workers.log")


BEAT_SECONDS = 5.0
START_SECONDS = 60.0

logger = logging.getLogger("distributed.ssh")


class Remote(Process):
    """One process on one machine; told what to be through its standard input.

    Parameters
    ----------
    host : str
        The machine.
    command : str
        What to run there.
    options : mapping
        For the SSH connection.
    spec : mapping
        What to be; see :mod:`ppdm_dask.cluster.remote`.
    told : list of str
        Takes what is said of the end of worker processes, and why a machine cannot be used.
    """

    def __init__(
        self,
        host: str,
        command: str,
        options: Mapping[str, Any],
        spec: Mapping[str, Any],
        told: list[str],
    ) -> None:
        super().__init__()
        self.host = host
        self.command = command
        self.options = options
        self.spec = spec
        self.told = told
        self.tasks: list[asyncio.Task[None]] = []
        self.proc: Any = None

    async def start(self) -> None:
        """Connect, start the process, and wait for its address."""
        try:
            self.address = await asyncio.wait_for(self._start(), START_SECONDS)
        except Exception as error:
            self.status = Status.failed
            await self.end()
            why = "no answer in time" if isinstance(error, TimeoutError) else summarise(error)
            self.told.append(f"{self.host}: {why}")
            raise ClusterError(f"{self.host}: {why}", self.host) from error
        self.status = Status.running

    async def _start(self) -> str:
        import asyncssh

        self.connection = await asyncssh.connect(
            self.host,
            connect_timeout=CONNECT_SECONDS,
            keepalive_interval=5,
            keepalive_count_max=3,
            **self.options,
        )
        self.proc = await self.connection.create_process(self.command)
        self.proc.stdin.write(json.dumps(self.spec) + "\n")
        self.tasks += [asyncio.create_task(self._listen()), asyncio.create_task(self._beat())]
        line = await self.proc.stdout.readline()
        try:
            answer = json.loads(line)
        except ValueError:
            heard = self.told[-1] if self.told else "no reason given"
            raise ClusterError(f"{self.command} did not start ({heard})", self.command) from None
        if "error" in answer:
            raise ClusterError(answer["error"], self.command)
        return str(answer["address"])

    async def _listen(self) -> None:
        """Write what the process says on its standard error to our log."""
        # A lost connection raises what kind of loss it was; any kind is the end.
        with suppress(Exception):
            async for line in self.proc.stderr:
                text = line.strip()
                logger.info("%s: %s", self.host, text)
                if "Worker process" in text:
                    self.told.append(text[text.index("Worker process") :])
                elif self.address is None and text:
                    self.told.append(text)
        if self.status == Status.running:
            self.status = Status.failed
            self.told.append(f"{self.host}: the process there has ended")

    async def _beat(self) -> None:
        """Show that this process is there; silence ends the other."""
        while self.status != Status.failed:
            await asyncio.sleep(BEAT_SECONDS)
            with suppress(OSError):
                self.proc.stdin.write("\n")

    async def end(self) -> None:
        """End the process by the end of its input, and leave the connection."""
        for task in self.tasks:
            task.cancel()
        with suppress(Exception):
            if self.proc is not None:
                self.proc.stdin.write_eof()
        with suppress(Exception):
            if self.connection is not None:
                await asyncio.sleep(0)
                self.connection.close()

    async def close(self) -> None:
        """End the process; a second call does nothing."""
        if self.status != Status.closed:
            await self.end()
            self.status = Status.closed
            self._event_finished.set()


class WorkerThere(Remote):
    """A worker with its nanny; told the scheduler's address by the cluster that makes it."""

    def __init__(self, scheduler: str, name: object, spec: Mapping[str, Any], **rest: Any) -> None:
        super().__init__(spec={**spec, "scheduler": scheduler, "name": f"ssh-{name}"}, **rest)


@contextmanager
def ssh_pool(profile: SSHProfile, log: Path) -> Iterator[Pool]:
    """Start scheduler and workers over SSH, and end them at the end of the context.

    The context is entered before the workers are up.

    Parameters
    ----------
    profile : SSHProfile
        Machines, number of workers and the rest.
    log : Path
        File that takes the log of Dask's parts, here and there.

    Raises
    ------
    ClusterError
        If the scheduler cannot be started or reached, or a package is missing.
    """
    if importlib.util.find_spec("asyncssh") is None:
        what = "needs the package asyncssh, of the extra cluster of ppdm_dask"
        raise ClusterError(f"{profile.source}: kind ssh {what}", profile)
    certificates = profile.certificates(*ROLES)
    assert certificates is not None
    told: list[str] = []
    there = {
        "command": f"{shlex.quote(profile.python)} -m ppdm_dask.cluster.remote",
        "options": profile.options,
        "told": told,
    }
    common = {
        "environment": ENVIRONMENT,
        "settings": SETTINGS | NETWORK,
        "interface": profile.interface,
        "memory": profile.memory,
    }
    specs = {
        role: {**common, "role": role, "security": certificates.texts(role)}
        for role in ("scheduler", "worker")
    }
    scheduler = {"host": profile.scheduler, "spec": specs["scheduler"], **there}
    with ExitStack() as stack:
        stack.enter_context(logging_to(log))
        stack.enter_context(dask.config.set(NETWORK))
        try:
            with interrupts_blocked():
                cluster = SpecCluster(
                    scheduler={"cls": Remote, "options": scheduler},
                    security=certificates.security("client"),
                    name="SSHCluster",
                )
        except Exception as error:
            why = told[-1] if told else summarise(error)
            what = f"{profile.source}: the scheduler cannot be started: {why}"
            raise ClusterUnreachable(what, profile.scheduler) from error
        stack.callback(close_cluster, cluster, _end_all, cluster, within_seconds=2)
        client = stack.enter_context(
            connected(cluster.scheduler_address, certificates, profile.source)
        )
        for i in range(profile.workers):
            host = profile.hosts[i % len(profile.hosts)]
            options = {"host": host, "spec": specs["worker"], **there}
            cluster.worker_spec[i] = {"cls": WorkerThere, "options": options}
        cluster.scale(profile.workers)
        count = stack.enter_context(WorkerCount(client))
        yield Pool(
            client=client,
            workers=profile.workers,
            alive=lambda: count.value,
            mend=lambda: mend_cluster(cluster, profile.workers),
            last_death=lambda: told[-1] if told else "",
            log=log,
            remote=True,
            source=profile.source,
            more_memory=f"raise memory in {profile.source}",
        )


async def _end_all(cluster: SpecCluster) -> None:
    cluster.worker_spec.clear()
    for process in [*cluster.workers.values(), *cluster._created, cluster.scheduler]:
        await process.close()
