"""Cluster profiles: what they say, what they refuse, and that no file is read twice."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ppdm_dask.cli import main
from ppdm_dask.cluster.kinds import KINDS, LocalProfile, SchedulerProfile, SSHProfile, load_profile
from ppdm_dask.cluster.security import ROLES
from ppdm_dask.errors import ProfileError
from ppdm_dask.resources import cluster_dir, profiles

LOCAL = 'kind = "local"\nworkers = 2\nmemory = "2 GiB"\n'
SCHEDULER = 'kind = "scheduler"\nworkers = 2\nmemory = "2 GiB"\n'


SSH = 'kind = "ssh"\nworkers = 2\nmemory = "2 GiB"\nhosts = ["node1", "node2"]\n'


def write(folder: Path, text: str) -> Path:
    path = folder / "mine.toml"
    path.write_text(text)
    return path


def test_every_profile_of_the_package_is_read_by_name_and_has_a_page() -> None:
    for name in profiles():
        profile = load_profile(name)
        assert profile.source == str(cluster_dir() / f"{name}.toml")
        assert (cluster_dir() / f"{name}.md").read_text().startswith("# ")
        assert f"[{name}.md]({name}.md)" in (cluster_dir() / "README.md").read_text()
    assert {load_profile(name).kind for name in profiles()} == set(KINDS)


def test_local_profile(tmp_path: Path) -> None:
    path = write(tmp_path, LOCAL)
    profile = load_profile(path)
    assert profile == LocalProfile(source=str(path), workers=2, memory=2 * 2**30, security="run")
    assert profile.where == "local, 2 workers of 2 GiB"
    assert profile.with_workers(1).where == "local, 1 worker of 2 GiB"
    # Nobody has to ask for certificates, and no two runs have the same.
    one, two = profile.certificates(), profile.certificates()
    assert one is not None and two is not None and one.authority != two.authority


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("2 GiB", 2 * 2**30),
        ("2GB", 2 * 10**9),
        ("1.5 GiB", 3 * 2**29),
        ("700 MB", 7 * 10**8),
        ("600 MiB", 600 * 2**20),
        ("1 TiB", 2**40),
    ],
)
def test_memory(tmp_path: Path, text: str, size: int) -> None:
    assert load_profile(write(tmp_path, LOCAL.replace("2 GiB", text))).memory == size


def test_certificates_are_looked_for_beside_the_profile(tmp_path: Path) -> None:
    text = SCHEDULER + 'address = "tls://10.0.0.7:8786"\nsecurity = "keys"\n'
    profile = load_profile(write(tmp_path, text))
    assert isinstance(profile, SchedulerProfile)
    assert profile.address == "tls://10.0.0.7:8786"
    assert profile.security == str(tmp_path / "keys")


def test_ssh_profile(tmp_path: Path) -> None:
    (tmp_path / "id").touch()
    profile = load_profile(write(tmp_path, SSH + 'port = 2222\nkey = "id"\nuser = "ann"\n'))
    assert isinstance(profile, SSHProfile)
    assert profile.hosts == ("node1", "node2")
    assert profile.scheduler == "node1"
    assert profile.python == sys.executable
    assert profile.options == {
        "username": "ann",
        "port": 2222,
        "client_keys": [str(tmp_path / "id")],
    }
    # Others can reach these machines: TLS without being asked for.
    certificates = profile.certificates(*ROLES)
    assert certificates is not None
    assert set(certificates.pairs) == set(ROLES)
    assert profile.where == "ssh, 2 workers of 2 GiB on node1, node2"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (SSH.replace('["node1", "node2"]', "[]"), "hosts: got []; a list of one machine or"),
        (SSH.replace('"node2"', '""'), 'hosts[1]: got ""; a text is needed'),
        (SSH + 'key = "none"\n', 'key: got "none"; there is no file '),
        (SSH + "port = 70000\n", "port: got 70000; a whole number from 1 to 65,535 is needed"),
        (SSH + 'pyhton = "/usr/bin/python3"\n', 'no such key, did you mean "python"?'),
        (LOCAL.replace("local", "lokal"), 'kind: got "lokal"; did you mean "local"?'),
        ("workers = 2\n", "kind: got nothing; a kind of cluster is needed: "),
        (LOCAL + "worker = 3\n", 'worker: got 3; there is no such key, did you mean "workers"?'),
        (LOCAL.replace("2\n", "0\n"), "workers: got 0; a whole number of 1 or more is needed"),
        (LOCAL.replace("2 GiB", "lots"), 'memory: got "lots"; the memory that one worker may use'),
        (LOCAL.replace("2 GiB", "2 gb"), 'memory: got "2 gb"; the memory that one worker may use'),
        (LOCAL.replace("2 GiB", "2 MB"), 'memory: got "2 MB"; a worker needs 64 MiB at the very'),
        (LOCAL.replace('"2 GiB"', "4"), "memory: got 4; the memory that one worker may use"),
        (LOCAL + "security = true\n", 'security: got true; a folder of certificates, or "run"'),
        (SCHEDULER, "address: got nothing; tls://HOST:PORT is needed"),
        (SCHEDULER + 'address = "10.0.0.7:8786"\n', "tls://HOST:PORT is needed"),
        (SCHEDULER + 'address = "tls://10.0.0.7:99999"\n', "tls://HOST:PORT is needed"),
        (
            SCHEDULER + 'address = "tcp://10.0.0.7:8786"\n',
            'address: got "tcp://10.0.0.7:8786"; beyond the loopback interface a scheduler needs',
        ),
        (SCHEDULER + 'address = "tcp://node1:8786"\n', "beyond the loopback interface"),
        (SCHEDULER + 'address = "tcp://0.0.0.0:8786"\n', "beyond the loopback interface"),
        (SCHEDULER + 'address = "tcp://[2001:db8::1]:8786"\n', "beyond the loopback interface"),
        (
            SCHEDULER + 'address = "tls://10.0.0.7:8786"\n',
            "security: got nothing; the folder of the certificates that the scheduler trusts is",
        ),
        (
            SCHEDULER + 'address = "tls://10.0.0.7:8786"\nsecurity = "run"\n',
            'security: got "run"; the folder of the certificates',
        ),
        (
            SCHEDULER + 'address = "tcp://127.0.0.1:8786"\nsecurity = "keys"\n',
            'address: got "tcp://127.0.0.1:8786"; with certificates it is tls://HOST:PORT',
        ),
    ],
)
def test_what_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(ProfileError) as caught:
        load_profile(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.1", "localhost", "[::1]"])
def test_loopback_needs_no_certificates(tmp_path: Path, host: str) -> None:
    path = write(tmp_path, f'{SCHEDULER}address = "tcp://{host}:8786"\n')
    assert load_profile(path).security is None


def test_unknown_name() -> None:
    with pytest.raises(ProfileError, match=r"no cluster profile is called 'locl'; did you mean"):
        load_profile("locl")


def test_run_takes_a_profile_or_workers_but_not_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = ["run", "electronic-surveys", "--cluster", "local", "--workers", "2"]
    assert main(arguments) == 2
    assert capsys.readouterr().err == (
        "ppdm: error: local: says how many workers there are; leave the number of workers out\n"
    )
    assert not (tmp_path / "runs").exists()


def test_check_knows_profiles(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, LOCAL)
    assert main(["check", str(path), "local"]) == 0
    assert capsys.readouterr().out == (
        f"{path}: cluster profile, local, 2 workers of 2 GiB\n"
        "local: cluster profile, local, 2 workers of 2 GiB\n"
    )
    path.write_text(LOCAL + "adress = 1\n")
    assert main(["check", str(path)]) == 2
    assert capsys.readouterr().err.startswith(f"ppdm: error: {path}: adress: got 1; there is no")
