"""Comparing other processes with this one: what is refused, and in which words."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ppdm_dask.cluster.kinds.base import parse_size, show_size
from ppdm_dask.cluster.worker import (
    PACKAGES,
    check_peers,
    difference,
    is_loopback,
    own_versions,
    parts,
)
from ppdm_dask.errors import ClusterError

OURS = own_versions()


class FakeClient:
    """Answers like a client of a scheduler with one worker."""

    def __init__(self, scheduler: dict[str, str], worker: dict[str, str], **about: Any) -> None:
        self.versions = {"scheduler": scheduler, "workers": worker}
        self.address = about.get("address", "tls://10.0.0.5:8786")
        self.worker = about.get("worker_address", "tls://10.0.0.6:4000")
        self.nanny = about.get("nanny", "tls://10.0.0.6:4001")
        self.code = about.get("code", OURS["ppdm_dask"])
        self.besides = about.get("besides", {})

    def get_versions(self, packages: Any) -> Any:
        assert set(packages) == set(PACKAGES)
        return {
            "scheduler": self._about(self.versions["scheduler"]),
            "workers": {self.worker: self._about(self.versions["workers"])},
        }

    def _about(self, changes: dict[str, str]) -> Any:
        versions: dict[str, Any] = {**OURS, **changes}
        python = versions.pop("Python")
        return {"host": {"python": f"{python}.final.0"}, "packages": versions}

    def scheduler_info(self, n_workers: int) -> Any:
        assert n_workers == -1
        return {"address": self.address, "workers": {self.worker: {"nanny": self.nanny}}}

    def run(self, function: Any, on_error: str) -> Any:
        return {self.worker: self.code, **self.besides}

    def run_on_scheduler(self, function: Any) -> Any:
        return OURS["ppdm_dask"]


def refusal(client: Any) -> str:
    with pytest.raises(ClusterError) as caught:
        check_peers(client, "my.toml")
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_own_versions_are_those_of_the_modules() -> None:
    assert OURS["Python"] == platform.python_version()
    assert OURS["numpy"] == np.__version__
    assert difference(OURS, own_versions()) == ""


def test_equals_pass() -> None:
    check_peers(FakeClient({}, {}), "my.toml")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["numpy", "dask", "distributed", "numba", "scipy"])
def test_package(name: str) -> None:
    message = refusal(FakeClient({}, {name: "0.1"}))
    assert message == (
        f"my.toml: worker tls://10.0.0.6:4000: {name} {OURS[name]} here, 0.1 there; "
        "a run needs the same on all machines"
    )
    assert refusal(FakeClient({name: "0.1"}, {})).startswith("my.toml: the scheduler: ")


def test_another_python_is_named_without_running_code_there() -> None:
    client = FakeClient({}, {"Python": "3.9.1", "numpy": "1.0"})
    client.run = None  # type: ignore[assignment,method-assign]
    message = refusal(client)
    assert f"Python {OURS['Python']} here, 3.9.1 there" in message
    assert "numpy" in message


def test_code() -> None:
    message = refusal(FakeClient({}, {}, code="code 000000000000"))
    assert f"ppdm_dask {OURS['ppdm_dask']} here, code 000000000000 there" in message


def test_workers_that_come_and_go_between_the_questions() -> None:
    come = {"tls://10.0.0.9:1": OURS["ppdm_dask"]}
    check_peers(FakeClient({}, {}, besides=come), "my.toml")  # type: ignore[arg-type]
    gone = FakeClient({}, {}, code=OSError("Timed out"))
    check_peers(gone, "my.toml")  # type: ignore[arg-type]
    # What is known of the one that went counts all the same.
    gone = FakeClient({}, {"numpy": "0.1"}, code=OSError("Timed out"))
    assert "0.1 there" in refusal(gone)


def test_package_is_missing_there() -> None:
    broken = FakeClient({}, {}, code=ModuleNotFoundError("No module named 'ppdm_dask'"))
    assert refusal(broken) == (
        "my.toml: worker tls://10.0.0.6:4000: this package is missing or broken there "
        "(ModuleNotFoundError: No module named 'ppdm_dask'); install it, "
        "the same version everywhere"
    )


@pytest.mark.parametrize(
    ("about", "who"),
    [
        ({"address": "tcp://10.0.0.5:8786"}, "the scheduler"),
        ({"worker_address": "tcp://10.0.0.6:4000"}, "worker tcp://10.0.0.6:4000"),
        ({"nanny": "tcp://0.0.0.0:4001"}, "the nanny of worker tls://10.0.0.6:4000"),
    ],
)
def test_nobody_listens_beyond_loopback_without_tls(about: dict[str, str], who: str) -> None:
    message = refusal(FakeClient({}, {}, **about))
    assert message.startswith(f"my.toml: {who} listens at tcp://")
    assert "beyond the loopback interface and without TLS" in message


def test_loopback_without_tls() -> None:
    local = {"address": "tcp://127.0.0.1:1", "worker_address": "tcp://127.0.0.1:2", "nanny": ""}
    check_peers(FakeClient({}, {}, **local), "my.toml")  # type: ignore[arg-type]


def test_parts_of_addresses() -> None:
    assert parts("tls://node1:8786") == ("tls", "node1", 8786)
    assert parts("tcp://[::1]:1") == ("tcp", "::1", 1)
    for wrong in ("node1:8786", "tls://node1", "tls://node1:0", "tls://a b:1", "http://a:1"):
        assert parts(wrong) is None
    assert is_loopback("::1")
    assert not is_loopback("0.0.0.0")
    assert not is_loopback("127.example.org")


def test_sizes() -> None:
    assert parse_size("1.5 GiB") == 1610612736
    assert parse_size("4") is None
    assert show_size(1610612736) == "1.5 GiB"
    assert show_size(600 * 2**20) == "600 MiB"


def test_page_lists_what_is_compared() -> None:
    text = (Path(__file__).parents[1] / "cluster" / "README.md").read_text()
    for name in PACKAGES:
        assert name in text
