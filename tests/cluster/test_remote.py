"""What runs on another machine ends when its driver does, or falls silent; no workers, no hang."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import psutil
import pytest
from distributed import LocalCluster
from machines import environment, listening
from runs import check_gone
from toy_works import Draws, make_cells

from ppdm_dask.cluster import client as foreign
from ppdm_dask.cluster import session as dispatch
from ppdm_dask.cluster.client import ENVIRONMENT, SETTINGS, Pool
from ppdm_dask.cluster.kinds import load_profile
from ppdm_dask.cluster.runner import execute
from ppdm_dask.cluster.security import Certificates, make_certificates
from ppdm_dask.engine.ledger import Ledger
from ppdm_dask.errors import PPDMError

pytestmark = pytest.mark.cluster

SILENCE = 3.0
CODE = f"from ppdm_dask.cluster import remote; remote.SILENCE_SECONDS = {SILENCE}; remote.main()"


class Started:
    """A remote process, without SSH in between."""

    def __init__(self, certificates: Certificates, role: str, scheduler: str = "") -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", CODE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**environment(), "SSH_CONNECTION": "127.0.0.1 1000 127.0.0.1 22"},
        )
        spec = {
            "role": role,
            "security": certificates.texts(role),
            "environment": ENVIRONMENT,
            "settings": SETTINGS,
            "interface": None,
            "memory": 10**9,
            "scheduler": scheduler,
            "name": "there-0",
        }
        self.silent = threading.Event()
        self.beats = threading.Thread(target=self.beat, args=(json.dumps(spec),))
        self.beats.start()
        assert self.process.stdout is not None
        self.answer = json.loads(self.process.stdout.readline())

    def beat(self, line: str) -> None:
        """Write the specification, then empty lines."""
        assert self.process.stdin is not None
        with suppress(OSError):
            while True:
                self.process.stdin.write(f"{line}\n")
                self.process.stdin.flush()
                line = ""
                if self.silent.wait(0.2):
                    break

    def fall_silent(self) -> None:
        self.silent.set()
        self.beats.join()

    def family(self) -> list[psutil.Process]:
        ours = psutil.Process(self.process.pid)
        return [ours, *ours.children(recursive=True)]

    def close(self) -> None:
        self.fall_silent()
        self.process.kill()
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            with suppress(OSError):
                stream.close()
        self.process.wait()


@pytest.fixture
def pair() -> Iterator[tuple[Started, Started]]:
    """A scheduler and a worker's nanny."""
    certificates = make_certificates()
    scheduler = Started(certificates, "scheduler")
    worker = Started(certificates, "worker", scheduler.answer["address"])
    yield scheduler, worker
    worker.close()
    scheduler.close()


def test_they_end_with_their_input_and_in_silence(pair: tuple[Started, Started]) -> None:
    scheduler, worker = pair
    # They live on as long as something is said to them.
    time.sleep(1.2 * SILENCE)
    assert [each.process.poll() for each in pair] == [None, None]
    processes = [*scheduler.family(), *worker.family()]
    assert len(worker.family()) >= 2
    assert listening(each.pid for each in processes) == {"127.0.0.1"}
    secret = "PRIVATE KEY"
    for each in processes:
        assert secret not in " ".join(each.cmdline())
        assert secret not in " ".join(each.environ().values())
    # The one's input ends, the other hears nothing any more.
    for each in pair:
        each.fall_silent()
    assert worker.process.stdin is not None
    worker.process.stdin.close()
    check_gone(processes, SILENCE + 8.0)


def test_what_cannot_be_started_says_why() -> None:
    started = Started(make_certificates(), "worker", "tls://")
    assert "error" in started.answer
    assert started.process.wait(20) == 1
    started.close()


def test_scheduler_without_workers_does_not_hang(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(foreign, "Pool", partial(Pool, patience=1.0))
    monkeypatch.setattr(dispatch, "MOST_REBUILDS", 1)
    monkeypatch.setattr(dispatch, "PATIENCE_SECONDS", 0.0)
    with LocalCluster(
        n_workers=0, host="127.0.0.1", dashboard_address="127.0.0.1:0", silence_logs=False
    ) as cluster:
        profile = tmp_path / "empty.toml"
        profile.write_text(
            'kind = "scheduler"\nworkers = 1\nmemory = "1 GiB"\n'
            f'address = "{cluster.scheduler_address}"\n'
        )
        with Ledger(tmp_path / "ledger.sqlite") as ledger, pytest.raises(PPDMError) as caught:
            execute(Draws(), make_cells(1, 10), ledger, profile=load_profile(profile))
    assert str(caught.value) == (
        "workers were lost 2 times in a row without finishing a batch: there has been no worker "
        f"for 1 s; see {tmp_path / 'workers.log'}; what is stored is kept"
    )
