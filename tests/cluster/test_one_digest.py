"""One recipe, one digest, wherever it runs; and nobody listens beyond what the profile says."""

from __future__ import annotations

import json
import os
import shutil
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import psutil
import pytest
from machines import (
    ROOT,
    DaskProcesses,
    environment,
    free_port,
    listening,
    needs_namespaces,
    needs_sshd,
    network_namespaces,
    ssh_server,
)
from reproduce_site import Site
from small_recipe import CONFIG, many, write_recipe

from ppdm_dask.cli import main
from ppdm_dask.cluster.kinds import SchedulerProfile, load_profile
from ppdm_dask.cluster.security import make_certificates, write_certificates
from ppdm_dask.cluster.worker import accepts_strangers, parts
from ppdm_dask.engine.cells import Progress
from ppdm_dask.errors import ClusterError, ClusterUnreachable
from ppdm_dask.experiments.run import run
from ppdm_dask.shown import cut

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some seconds of work in a handful of batches."""
    path = tmp_path_factory.mktemp("recipe") / "small.toml"
    return write_recipe(path, many(CONFIG, {"sweep.repeats": 4_000}))


@pytest.fixture(scope="module")
def expected(recipe: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The digest of a run in this process."""
    digest = run(recipe, workers=0, out=tmp_path_factory.mktemp("synchronous")).digest
    assert digest is not None
    return digest


class Watch:
    """Collects the addresses at which processes listen that came during a run."""

    def __init__(self, *besides: int) -> None:
        self.besides = besides
        self.addresses: set[str] = set()
        self.last = 0.0

    def __call__(self, progress: Progress) -> None:
        if progress.mode.startswith("starting") or time.monotonic() < self.last + 0.3:
            return
        self.last = time.monotonic()
        us = {os.getpid(), *(child.pid for child in psutil.Process().children(recursive=True))}
        for pid in self.besides:
            us |= {child.pid for child in psutil.Process(pid).children(recursive=True)}
        self.addresses |= listening(us)


def test_the_tables_show_who_listens() -> None:
    # What the tests below rely on: a socket on every interface is seen as such.
    with socket.create_server(("0.0.0.0", 0)), socket.create_server(("::1", 0), family=10):
        assert {"0.0.0.0", "::1"} <= listening([os.getpid()])


@pytest.mark.parametrize(("workers", "security"), [(1, ""), (2, 'security = "run"\n')])
def test_local(recipe: Path, expected: str, tmp_path: Path, workers: int, security: str) -> None:
    profile = tmp_path / "local.toml"
    profile.write_text(f'kind = "local"\nworkers = {workers}\nmemory = "1 GiB"\n{security}')
    watch = Watch()
    result = run(recipe, cluster=profile, out=tmp_path, progress=watch)
    assert result.digest == expected
    assert result.outcome.mode == ("1 worker" if workers == 1 else "2 workers")
    assert watch.addresses == {"127.0.0.1"}


@needs_sshd
def test_ssh(recipe: Path, expected: str, tmp_path: Path) -> None:
    with ssh_server(tmp_path / "sshd") as server:
        (tmp_path / "ssh.toml").write_text(server.profile())
        watch = Watch(server.process.pid)
        result = run(recipe, cluster=tmp_path / "ssh.toml", out=tmp_path, progress=watch)
        assert result.digest == expected
        assert result.outcome.mode == "2 workers"
        assert watch.addresses == {"127.0.0.1"}
        # What was started over SSH has ended with the run, or does so at once.
        left = psutil.Process(server.process.pid).children(recursive=True)
        assert psutil.wait_procs(left, timeout=20)[1] == []


@contextmanager
def scheduler_with_workers(
    tmp_path: Path, host: str, places: list[tuple[str, list[str]]]
) -> Iterator[tuple[Path, list[int]]]:
    """A scheduler and a worker in each place; the profile, and the processes."""
    write_certificates(make_certificates(), tmp_path / "certificates")
    dask = DaskProcesses(tmp_path, free_port(), host)
    with ExitStack() as stack:
        pids = [stack.enter_context(dask.scheduler()).pid]
        for address, within in places:
            started = stack.enter_context(dask.workers(host=address, within=within))
            pids.append(started.pid)
        yield dask.profile(), pids


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, list[int]]]:
    """A scheduler and two workers that somebody else keeps running."""
    places: list[tuple[str, list[str]]] = [("127.0.0.1", []), ("127.0.0.1", [])]
    folder = tmp_path_factory.mktemp("there")
    with scheduler_with_workers(folder, "127.0.0.1", places) as found:
        yield found


def test_separate_processes_with_tls(
    recipe: Path, expected: str, there: tuple[Path, list[int]], tmp_path: Path
) -> None:
    profile, pids = there
    watch = Watch(*pids)
    result = run(recipe, cluster=profile, out=tmp_path, progress=watch)
    assert result.digest == expected
    assert watch.addresses | listening(pids) == {"127.0.0.1"}
    assert all(psutil.pid_exists(pid) for pid in pids), "others' processes go on"


def test_a_reproduction_on_a_cluster(
    there: tuple[Path, list[int]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    site = Site(tmp_path)
    assert site.reproduce("--renew", "to compare a cluster with this process") == 0
    command = ["reproduce", "--against", str(site.golden), "--out", str(site.out), "--no-page"]
    assert main([*command, "--cluster", str(there[0])]) == 0
    # The bits are the same; on a foreign cluster nobody may ask for that.
    assert f"workers: none in the golden, {cut(str(there[0]))} here" in capsys.readouterr().out
    for recipe in site.read("reproduction.json")["recipes"]:
        assert recipe["status"] == "within tolerance"
        assert recipe["reasons"][-1] == "the digest is the same"
        assert not recipe["reused"]
    # Workers of this machine have its processor.
    local = tmp_path / "local.toml"
    local.write_text('kind = "local"\nworkers = 1\nmemory = "1 GiB"\n')
    assert main([*command, "--fresh", "--cluster", str(local)]) == 0
    for recipe in site.read("reproduction.json")["recipes"]:
        assert (recipe["status"], recipe["comparison"]) == ("same", "exact")


class TestStrangers:
    """Who has no certificate of this cluster's authority does not get in, and is told so."""

    def test_plain_tcp(self, there: tuple[Path, list[int]]) -> None:
        profile, _ = there
        text = profile.read_text()
        plain = profile.with_name("plain.toml")
        plain.write_text(
            text.replace("tls://", "tcp://").replace('security = "certificates"\n', "")
        )
        with pytest.raises(ClusterUnreachable, match="no scheduler answers at tcp://127"):
            load_profile(plain).pool(profile.parent).__enter__()

    def test_foreign_authority(self, there: tuple[Path, list[int]], tmp_path: Path) -> None:
        profile, _ = there
        write_certificates(make_certificates(), tmp_path / "foreign")
        foreign = tmp_path / "foreign.toml"
        foreign.write_text(profile.read_text().replace('"certificates"', '"foreign"'))
        with pytest.raises(ClusterUnreachable, match=r"that takes our certificate answers.*SSL"):
            load_profile(foreign).pool(tmp_path).__enter__()

    def test_no_certificate(self, there: tuple[Path, list[int]]) -> None:
        profile, _ = there
        found = load_profile(profile)
        assert isinstance(found, SchedulerProfile)
        # As good as a stranger gets: the right authority, but nothing to show.
        context = ssl.create_default_context(cafile=profile.parent / "certificates" / "ca.pem")
        context.check_hostname = False
        _, host, port = parts(found.address) or ("", "", 0)
        with (
            socket.create_connection((host, port), timeout=10) as plain,
            pytest.raises(ssl.SSLError, match="CERTIFICATE_REQUIRED"),
            context.wrap_socket(plain) as wrapped,
        ):
            wrapped.recv(1)
        assert not accepts_strangers(found.address)


def test_look_over(there: tuple[Path, list[int]], capsys: pytest.CaptureFixture[str]) -> None:
    profile, _ = there
    assert main(["cluster", "check", str(profile), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["findings"]
    about = {each["subject"]: each["found"] for each in found}
    assert about["workers there"] == "2 of 2"
    assert about["encryption"] == "TLS; strangers are refused"
    assert about["memory limit"] == "1 GiB a worker"
    assert about["threads"] == "1 a worker, 1 in numerical libraries"
    assert "the same numbers as here" in about["batch"]
    # Somebody expects more than there is.
    other = profile.with_name("more.toml")
    other.write_text(profile.read_text().replace("1 GiB", "2 GiB").replace("= 2", "= 3"))
    assert main(["cluster", "check", str(other), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)["findings"]
    assert [each["subject"] for each in found if not each["ok"]] == [
        "workers there",
        "memory limit",
    ]


class TestOtherInstallations:
    """A worker that is not what the driver is gets no work; one line says who has what."""

    @pytest.mark.parametrize(
        ("what", "message"),
        [
            ("code", "ppdm_dask code [0-9a-f]{12} here, code [0-9a-f]{12} there"),
            ("numpy", f"numpy {np.__version__} here, 0.0.1 there"),
            (
                "nothing",
                "this package is missing or broken there .ModuleNotFoundError",
            ),
        ],
    )
    def test_refused(
        self, recipe: Path, there: tuple[Path, list[int]], tmp_path: Path, what: str, message: str
    ) -> None:
        profile, _ = there
        shadow = tmp_path / "shadow"
        shadow.mkdir()
        if what == "code":
            shutil.copytree(ROOT / "ppdm_dask", shadow / "ppdm_dask")
            (shadow / "ppdm_dask" / "added.py").touch()
        elif what == "numpy":
            folder = shadow / "numpy-0.0.1.dist-info"
            folder.mkdir()
            (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: numpy\nVersion: 0.0.1\n")
        else:
            (shadow / "ppdm_dask").mkdir()
            (shadow / "ppdm_dask" / "__init__.py").touch()
        found = load_profile(profile)
        assert isinstance(found, SchedulerProfile)
        _, _, port = parts(found.address) or ("", "", 0)
        dask = DaskProcesses(profile.parent, port)
        path = os.pathsep.join([str(shadow), environment()["PYTHONPATH"]])
        with dask.workers(variables={"PYTHONPATH": path}):
            with found.pool(tmp_path) as pool:
                pool.client.wait_for_workers(3, timeout=60)
            with pytest.raises(ClusterError, match=f"worker tls://127.*: {message}") as caught:
                run(recipe, cluster=profile, out=tmp_path / "runs")
        assert "\n" not in str(caught.value)
        with found.pool(tmp_path) as pool:
            while pool.alive() != 2:
                time.sleep(0.1)


@needs_namespaces
def test_workers_in_two_network_namespaces(recipe: Path, expected: str, tmp_path: Path) -> None:
    with network_namespaces(2) as spaces:
        scheduler = spaces[0][2]
        places = [(there, ["ip", "netns", "exec", name]) for name, there, _ in spaces]
        with scheduler_with_workers(tmp_path, scheduler, places) as (profile, pids):
            watch = Watch(*pids)
            result = run(recipe, cluster=profile, out=tmp_path, progress=watch)
            assert result.digest == expected
            # As said on the command lines, and nowhere else.
            hosts = {scheduler, *(there for _, there, _ in spaces)}
            assert watch.addresses | listening(pids) == {"127.0.0.1", *hosts}
