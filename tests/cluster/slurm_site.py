"""A SLURM of one node with its own configuration, ports, keys and folders, for the tests alone."""

from __future__ import annotations

import getpass
import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel", "sinfo")

# The node counts more processors than the machine may have: jobs are small.
CONFIGURATION = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmdPort={node_port}
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
SlurmUser={user}
SlurmdUser={user}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
MailProg=/bin/true
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=1,sched_interval=1
ReturnToService=2
MinJobAge=2
NodeName={host} NodeAddr=127.0.0.1 CPUs=8 RealMemory=8000
PartitionName=main Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""

# Version 1's plugin needs nothing of the machine as long as no other plugin asks it for anything.
CGROUPS = "CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n"


def reason_to_skip() -> str | None:
    """What this machine lacks; None where a SLURM can be started."""
    path = _search_path()
    lacking = [name for name in PROGRAMS if shutil.which(name, path=path) is None]
    if lacking:
        return f"needs {', '.join(lacking)}: apt-get install slurmctld slurmd slurm-client munge"
    if os.geteuid() != 0:
        return "needs root, which SLURM's daemons run as"
    return None


def _search_path() -> str:
    return os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])


@dataclass
class Job:
    """What ``squeue`` says of a job."""

    id: str
    state: str
    name: str


class Site:
    """The daemons, and a way to ask them; ``start`` and ``stop`` are called once each.

    Parameters
    ----------
    folder : Path
        Empty folder that takes everything the daemons write.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.configuration = folder / "slurm.conf"
        self._daemons: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        """Start the three daemons and wait for the node to be idle."""
        host = socket.gethostname().partition(".")[0]
        controller_port, node_port = _free_ports(2)
        for name in ("munge", "state", "spool"):
            (self.folder / name).mkdir(mode=0o755)
        self.configuration.write_text(
            CONFIGURATION.format(
                host=host,
                folder=self.folder,
                user=getpass.getuser(),
                controller_port=controller_port,
                node_port=node_port,
            )
        )
        (self.folder / "cgroup.conf").write_text(CGROUPS)
        key = self.folder / "munge" / "key"
        key.touch(mode=0o600)
        key.write_bytes(secrets.token_bytes(128))
        munge = self.folder / "munge"
        self._daemon(
            "munged",
            "--foreground",
            "--force",
            f"--key-file={key}",
            f"--socket={munge / 'socket'}",
            f"--pid-file={munge / 'pid'}",
            f"--log-file={munge / 'log'}",
            f"--seed-file={munge / 'seed'}",
        )
        self._wait_for(lambda: (munge / "socket").exists(), "munged listens")
        self._daemon("slurmctld", "-D", "-f", str(self.configuration))
        self._daemon("slurmd", "-D", "-f", str(self.configuration))
        self._wait_for(lambda: self.ask("sinfo", "-h", "-o", "%t") == "idle", "the node is idle")

    def stop(self) -> None:
        """End jobs, then the daemons, in the order opposite to their start."""
        if self.jobs():
            self.ask("scancel", f"--user={getpass.getuser()}")
            self._wait_for(lambda: not self.jobs(), "jobs are gone")
        for daemon in reversed(self._daemons):
            daemon.send_signal(signal.SIGTERM)
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()

    def jobs(self) -> list[Job]:
        """Jobs that wait, run or are just ending."""
        lines = self.ask("squeue", "-h", "-o", "%i %T %j").splitlines()
        return [Job(*line.split(maxsplit=2)) for line in lines]

    def names(self) -> set[str]:
        """Names of the jobs that wait or run."""
        return {job.name for job in self.jobs() if job.state != "COMPLETING"}

    def ask(self, *command: str) -> str:
        """Output of one of SLURM's commands; empty if it fails."""
        environment = {**os.environ, "SLURM_CONF": str(self.configuration)}
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=20, check=False
        )
        return done.stdout.strip()

    def _daemon(self, program: str, *arguments: str) -> None:
        path = shutil.which(program, path=_search_path())
        assert path is not None
        with (self.folder / f"{program}.out").open("wb") as output:
            self._daemons.append(subprocess.Popen([path, *arguments], stdout=output, stderr=output))

    def _wait_for(self, condition: Callable[[], bool], what: str, seconds: float = 30.0) -> None:
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                logs = [*self.folder.glob("*.out"), self.folder / "munge" / "log"]
                told = "\n".join(f"{log.name}: {log.read_text()[-1500:]}" for log in logs)
                raise AssertionError(f"not in {seconds:.0f} s: {what}\n{told}")
            time.sleep(0.1)


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [int(one.getsockname()[1]) for one in sockets]
    for one in sockets:
        one.close()
    return ports
