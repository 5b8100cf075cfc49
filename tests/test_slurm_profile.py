"""Profiles of SLURM: what they say and refuse, and when a worker leaves."""

from __future__ import annotations

import math
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from ppdm_dask.cluster.job import leave_after
from ppdm_dask.cluster.jobs import squeue_command
from ppdm_dask.cluster.kinds import SLURMProfile, load_profile
from ppdm_dask.errors import ClusterError, ProfileError

PLAIN = (
    'kind = "slurm"\nworkers = 2\nmemory = "1 GiB"\ninterface = "ib0"\nwalltime = "1-00:30:00"\n'
)


def write(folder: Path, text: str) -> Path:
    path = folder / "mine.toml"
    path.write_text(text)
    return path


def test_what_a_profile_says(tmp_path: Path) -> None:
    path = write(tmp_path, PLAIN)
    profile = load_profile(path)
    assert profile == SLURMProfile(
        source=str(path),
        workers=2,
        memory=2**30,
        security="run",
        interface="ib0",
        scheduler_interface="ib0",
        walltime=88_200,
        lifetime=74_970,
    )
    assert profile.where == "slurm, 2 workers of 1 GiB, jobs of 24:30:00"
    more = (
        f'{PLAIN}queue = "long"\naccount = "survey"\nlifetime = "20:00:00"\npython = "/opt/p"\n'
        'scheduler_interface = "eth0"\ndirectives = ["--nice=5", "-C avx2"]\nshared = "."\n'
    )
    profile = load_profile(write(tmp_path, more))
    assert isinstance(profile, SLURMProfile)
    assert (profile.queue, profile.account, profile.python) == ("long", "survey", "/opt/p")
    assert profile.directives == ("--nice=5", "-C avx2")
    assert (profile.lifetime, profile.scheduler_interface) == (72_000, "eth0")
    assert profile.shared == str(tmp_path)
    assert profile.where == "slurm, 2 workers of 1 GiB in long, jobs of 24:30:00"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (PLAIN.replace('interface = "ib0"\n', ""), "interface: got nothing; the nodes' network"),
        (PLAIN.replace("1-00:30:00", "30"), 'walltime: got "30"; a time is needed, "HH:MM:SS" or'),
        (PLAIN.replace("1-00:30:00", "00:61:00"), 'walltime: got "00:61:00"; a time is needed'),
        (PLAIN.replace("1-00:30:00", "00:00:59"), 'walltime: got "00:00:59"; a minute or more'),
        (PLAIN.replace('"1-00:30:00"', "30"), "walltime: got 30; a time is needed"),
        (PLAIN.replace('walltime = "1-00:30:00"', ""), "walltime: got nothing; a time is needed"),
        (
            PLAIN + 'lifetime = "24:29:59"\n',
            'lifetime: got "24:29:59"; at most 20:49:30 with this walltime',
        ),
        (PLAIN + 'lifetime = "00:00:00"\n', 'lifetime: got "00:00:00"; a time above 0 is needed'),
        (
            PLAIN + 'directives = ["nice=5"]\n',
            'directives[0]: got "nice=5"; options of sbatch begin',
        ),
        (PLAIN + 'directives = ["-a\\nrm"]\n', "directives[0]: got "),
        (PLAIN + 'shared = "elsewhere"\n', 'shared: got "elsewhere"; there is no folder '),
        (PLAIN + 'partition = "long"\n', 'partition: got "long"; there is no such key'),
        (PLAIN + 'account = "a b"\n', 'account: got "a b"; one word is needed'),
    ],
)
def test_what_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(ProfileError) as caught:
        load_profile(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("walltime", [60, 100, 3_600, 604_800])
def test_workers_leave_well_before_the_walltime(tmp_path: Path, walltime: int) -> None:
    clock = f"{walltime // 3600}:{walltime // 60 % 60:02d}:{walltime % 60:02d}"
    profile = load_profile(write(tmp_path, PLAIN.replace("1-00:30:00", clock)))
    assert isinstance(profile, SLURMProfile)
    assert 0 < profile.lifetime <= walltime - 20
    times = [leave_after(profile.lifetime, number) for number in range(100)]
    assert all(0.8 * profile.lifetime < each <= profile.lifetime for each in times)


@pytest.mark.parametrize("first", [0, 1, 77])
@pytest.mark.parametrize("workers", [2, 16, 100, 1_000])
def test_workers_leave_one_after_the_other(first: int, workers: int) -> None:
    # Multiples of the golden ratio come no closer to each other on the circle than
    # 1 / (phi^2 n), n the number of them, and leave no gap of more than phi^2 / n or so.
    times = sorted(leave_after(1.0, number) for number in range(first, first + workers))
    gaps = [(after - before) / 0.2 for before, after in pairwise(times)]
    phi = (1 + math.sqrt(5)) / 2
    assert min(gaps) > 1 / (phi**2 * workers)
    assert max(gaps) < phi**2 / workers


def test_missing_commands_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("dask_jobqueue", reason="needs dask-jobqueue, of the extra cluster")
    monkeypatch.setenv("PATH", str(tmp_path))
    profile = load_profile(write(tmp_path, PLAIN))
    with pytest.raises(ClusterError, match="there is no command sbatch on this machine"):
        profile.pool(tmp_path).__enter__()
    assert [entry.name for entry in tmp_path.iterdir()] == ["mine.toml"]


def test_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ppdm_dask.cluster.jobqueue", None)
    monkeypatch.setitem(sys.modules, "dask_jobqueue", None)
    monkeypatch.setitem(sys.modules, "dask_jobqueue.slurm", None)
    monkeypatch.delitem(sys.modules, "ppdm_dask.cluster.jobqueue")
    profile = load_profile(write(tmp_path, PLAIN))
    with pytest.raises(ClusterError) as caught:
        profile.pool(tmp_path).__enter__()
    assert str(caught.value).endswith(
        "dask-jobqueue is not installed; pip install 'ppdm-dask[cluster]'"
    )


FAKE = """#!/bin/sh
echo "$(basename "$0") $*" >> {log}
[ "$(basename "$0")" = scancel ] && rm -f {job}
[ "$(basename "$0")" = squeue ] && [ -e {job} ] && echo 7
exit 0
"""


@pytest.mark.slow
def test_the_watcher_ends_jobs_when_its_input_ends(tmp_path: Path) -> None:
    """Only commands are pretended here; tests/cluster/test_slurm.py has real ones."""
    log, job, keys = (tmp_path / name for name in ("log", "job", "keys"))
    job.touch()
    keys.mkdir()
    for name in ("squeue", "scancel"):
        (tmp_path / name).write_text(FAKE.format(log=log, job=job))
        (tmp_path / name).chmod(0o755)
    command = [sys.executable, "-m", "ppdm_dask.cluster.jobs", "ppdm-x", str(keys)]
    root = Path(__file__).resolve().parents[1]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        cwd=tmp_path,
        env={"PATH": f"{tmp_path}:/usr/bin:/bin", "PYTHONPATH": str(root)},
    ) as watcher:
        assert watcher.stdin is not None
        with pytest.raises(subprocess.TimeoutExpired):
            watcher.wait(0.5)
        assert job.exists()
        assert keys.exists()
        watcher.stdin.close()
        assert watcher.wait(20) == 0
    assert not job.exists()
    assert not keys.exists()
    said = log.read_text().splitlines()
    assert said[0].startswith("scancel ")
    assert all("--name=ppdm-x" in line and "--user=" in line for line in said)
    assert " ".join(squeue_command("ppdm-x")) == said[-1]
