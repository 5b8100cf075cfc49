"""Jobs of SLURM by their common name: which there are, and their end, also after the driver's.

Run as ``python -m ppdm_dask.cluster.jobs NAME FOLDER`` this waits for the end of its standard
input, which comes with the end of the driver by any signal, then cancels the jobs and removes the
folder of their certificates. It stays in a session of its own, so that what ends the driver does
not end it too. Nothing but the standard library is loaded: it lies idle for as long as a run takes.
"""

from __future__ import annotations

import getpass
import shutil
import signal
import subprocess
import sys
import time

COMMAND_SECONDS = 20.0
# Answers of sbatch that the driver did not live to see arrive within this.
LATE_SECONDS = 3.0
# SLURM's controller may be away for a while.
END_SECONDS = 600.0
PAUSE_SECONDS = 0.3
# A job that is completing has its signal to end.
STATES = ("PENDING", "CONFIGURING", "RUNNING", "SUSPENDED")


def squeue_command(name: str) -> list[str]:
    """Command that prints the number of each job of that name that waits or runs."""
    mine = [f"--user={getpass.getuser()}", f"--name={name}"]
    return ["squeue", "--noheader", "--format=%i", f"--states={','.join(STATES)}", *mine]


def cancel_jobs(name: str) -> None:
    """Cancel the jobs of that name. A worker's job ends within seconds of SLURM's first signal."""
    _call(["scancel", "--quiet", f"--user={getpass.getuser()}", f"--name={name}"])


def end_jobs(name: str, *, within_seconds: float, late_seconds: float = 0.0) -> bool:
    """Cancel jobs until there is none; whether that has been reached.

    Parameters
    ----------
    name : str
        The jobs' common name.
    within_seconds : float
        Time after which to leave off.
    late_seconds : float
        Time in which further jobs may turn up.
    """
    began = time.monotonic()
    while (passed := time.monotonic() - began) < within_seconds:
        cancel_jobs(name)
        found = _call(squeue_command(name))
        if found == "" and passed >= late_seconds:
            return True
        time.sleep(PAUSE_SECONDS)
    return False


def _call(command: list[str]) -> str | None:
    """Output of a command; None if it fails, as it does while SLURM's controller is away."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def main() -> None:
    """Wait for the end of standard input, then for that of the jobs."""
    name, folder = sys.argv[1:]
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.stdin.buffer.read()
    shutil.rmtree(folder, ignore_errors=True)
    end_jobs(name, within_seconds=END_SECONDS, late_seconds=LATE_SECONDS)


if __name__ == "__main__":
    main()
