"""A Dask user's own cluster: one report for each answer, and a key that nobody finds."""

from __future__ import annotations

import asyncio
import glob
import importlib
import json
import logging
import pickle
import threading
import time
import urllib.error
import urllib.request
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd
import psutil
import pytest
from distributed import Client, LocalCluster, futures_of, wait
from distributed.core import Status

import ppdm_dask as pp
from ppdm_dask.cluster import keys
from ppdm_dask.errors import CodebookError, InputError, PPDMError
from ppdm_dask.survey import stored

pytestmark = pytest.mark.cluster

BOOK = pp.Codebook((pp.Attribute("used", ("no", "yes")), pp.Attribute("region", ("e", "n", "w"))))
DESIGN = pp.Warner("used", 0.8).bind(BOOK)
SECRET = "secret-91be"


def answers(i: int, n: int = 1_000) -> pd.DataFrame:
    generator = np.random.default_rng(i)
    return pd.DataFrame(
        {
            "name": SECRET,
            "used": generator.choice(["no", "yes"], n, p=[0.7, 0.3]),
            "region": generator.choice(["e", "n", "w"], n),
        }
    )


def source(n: int = 1_000, partitions: int = 12, first: int = 0) -> dd.DataFrame:
    numbers = range(first, first + partitions)
    return dd.from_map(partial(answers, n=n), numbers, meta=answers(0, 1))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    folder = tmp_path_factory.mktemp("spill")
    settings = {
        # Everything is spilled at once.
        "distributed.worker.memory.target": 1e-9,
        "distributed.worker.memory.spill": False,
        "distributed.worker.memory.pause": False,
        "distributed.scheduler.allowed-failures": 50,
        "temporary-directory": str(folder),
    }
    with (
        dask.config.set(settings),
        LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            memory_limit="1GiB",
            local_directory=str(folder),
            dashboard_address="127.0.0.1:0",
            silence_logs=logging.CRITICAL,
        ) as found,
    ):
        yield found


@pytest.fixture
def client(cluster: LocalCluster) -> Iterator[Client]:
    with Client(cluster, set_as_default=True) as found:
        found.wait_for_workers(2, timeout=60)
        yield found


def whole(client: Client, cluster: LocalCluster) -> None:
    """Wait until both workers are there, and their nannies have heard so.

    A nanny gives up a worker that dies before; nobody takes its place.
    """
    client.wait_for_workers(2, timeout=60)
    end = time.monotonic() + 60
    while not all(map(settled, cluster.workers.values())):
        assert time.monotonic() < end
        time.sleep(0.01)


def settled(nanny: Any) -> bool:
    process = nanny.process
    return process is not None and {nanny.status, process.status} == {Status.running}


def kill_one(cluster: LocalCluster) -> None:
    for worker in cluster.scheduler.workers.values():
        process = psutil.Process(worker.pid)
        if process.status() != psutil.STATUS_ZOMBIE:  # killed before, and not missed yet
            process.kill()
            return


def forgotten(cluster: LocalCluster) -> None:
    """Wait until no result is left that could be taken again."""
    end = time.monotonic() + 30
    while cluster.scheduler.tasks:
        assert time.monotonic() < end
        time.sleep(0.01)


def test_one_answer_has_one_report_whoever_is_killed(client: Client, cluster: LocalCluster) -> None:
    reports = DESIGN.disguise(source())
    first = reports.compute()
    here = reports.compute(scheduler="threads")
    np.testing.assert_array_equal(here.codes, first.codes)
    table = np.bincount(first.column("used"))
    # Each way with a worker killed, and after that.
    for i in range(8):
        labels = kept = None
        forgotten(cluster)
        if i < 4:
            whole(client, cluster)
            kill_one(cluster)
        match i % 4:
            case 0:
                again = reports.compute()
                np.testing.assert_array_equal(again.codes, first.codes)
            case 1:
                np.testing.assert_array_equal(pp.count(reports, DESIGN, ["used"]).counts, table)
            case 2:
                labels = reports.to_frame()["used"].value_counts().compute()
                assert labels[["no", "yes"]].tolist() == table.tolist()
            case 3:
                kept = reports.persist()
                wait(kept)
                if i == 7:  # with the reports that it had, which are made again
                    whole(client, cluster)
                    kill_one(cluster)
                np.testing.assert_array_equal(kept.compute().codes, first.codes)
    truth = np.concatenate([BOOK.encode(answers(i)).column("used") for i in range(12)])
    # 12,000 answers, told right with probability .8: SE .0037.
    assert abs((first.column("used") == truth).mean() - 0.8) < 0.015


def test_files_are_written_by_the_workers_that_make_the_reports(
    client: Client, cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each part once, though its worker is killed; none by this process."""
    monkeypatch.setattr(stored, "write_part", None)
    reports = DESIGN.disguise(source(20_000, first=900), keep=["name"])
    forgotten(cluster)
    whole(client, cluster)
    killer = threading.Timer(0.2, kill_one, [cluster])
    killer.start()
    reports.to_parquet(tmp_path / "R")
    killer.join()
    client.wait_for_workers(2, timeout=60)
    assert len(list((tmp_path / "R").iterdir())) == 13
    assert [path.name for path in tmp_path.iterdir()] == ["R"]
    found = pd.concat(map(pd.read_parquet, sorted((tmp_path / "R").glob("part-*"))))
    expected = reports.to_frame().compute(scheduler="threads")
    for name in ("used", "region", "name"):
        assert found[name].astype(str).tolist() == expected[name].astype(str).tolist()
    here = pp.count(tmp_path / "R")  # by the workers of the active client
    np.testing.assert_array_equal(here.counts, pp.count(reports).counts)
    with pytest.raises(InputError, match="R: already exists"):
        reports.to_parquet(tmp_path / "R", client=client)


def test_every_way_to_compute(client: Client) -> None:
    reports = DESIGN.disguise(source(first=100))
    expected = reports.compute(client=client)
    assert len(expected) == 12_000
    (found,) = dask.compute([reports])[0]
    np.testing.assert_array_equal(found.codes, expected.codes)
    np.testing.assert_array_equal(client.compute(reports).result().codes, expected.codes)
    (kept,) = client.persist([reports])
    assert len(futures_of(kept)) == 12
    np.testing.assert_array_equal(kept.compute().codes, expected.codes)
    (optimised,) = dask.optimize(reports)
    np.testing.assert_array_equal(optimised.compute().codes, expected.codes)
    with dask.annotate(priority=7, retries=2):
        assert reports.reduce(len, sum) == 12_000
    table = reports.count(["used"]).persist()
    np.testing.assert_array_equal(table.compute().counts, np.bincount(expected.column("used")))
    inside = client.submit(lambda: pp.count(_other(), DESIGN, ["used"]).n)
    assert inside.result() == 3_000


def _other() -> Any:
    return DESIGN.disguise(source(partitions=3, first=500))


def test_a_client_that_is_not_the_default(cluster: LocalCluster) -> None:
    reports = DESIGN.disguise(source(first=200))
    with Client(cluster, set_as_default=False) as client:
        table = reports.reduce(partial(pp.count, design=DESIGN), client=client)
        assert table.n == 12_000
        assert list(keys._HOLDERS[reports._plan.draws.number]._clients) == [client]
    expected = pp.count(reports.compute(scheduler="sync"), DESIGN)
    np.testing.assert_array_equal(table.counts, expected.counts)


def test_an_asynchronous_client(cluster: LocalCluster) -> None:
    reports = DESIGN.disguise(source(first=300))

    async def counted() -> Any:
        async with Client(cluster.scheduler_address, asynchronous=True) as client:
            return await client.compute(reports.count(["used"]))

    table = asyncio.run(counted())
    expected = pp.count(reports.compute(scheduler="sync"), DESIGN, ["used"])
    np.testing.assert_array_equal(table.counts, expected.counts)


def everything_written(folder: Path) -> Iterator[tuple[str, bytes]]:
    for name in [*folder.rglob("*"), *glob.glob("/tmp/*"), *glob.glob("/tmp/dask*/**")]:
        path = Path(name)
        try:
            if path.is_file() and path.stat().st_size < 1 << 26:
                yield str(path), path.read_bytes()
        except OSError:
            continue


def test_the_key_is_nowhere_to_be_found(
    client: Client, cluster: LocalCluster, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    reports = DESIGN.disguise(source(first=400))
    number = reports._plan.draws.number
    secret = keys._held[number]._secret
    forms = [secret, secret.hex().encode(), repr(secret).encode(), repr(list(secret)).encode()]
    kept = reports.persist()
    wait(kept)
    reports.to_frame().groupby("region").size().compute()
    pp.count(reports, DESIGN)
    folders = client.run(lambda dask_worker: dask_worker.local_directory).values()
    folder = Path(next(iter(folders)))
    assert any(path.is_file() for path in folder.rglob("*")), "nothing was spilled"
    shown: dict[str, Any] = {
        "keys": list(cluster.scheduler.tasks),
        "tasks": [repr(task.run_spec) for task in cluster.scheduler.tasks.values()],
        "stream": client.get_task_stream(),
        "story": client.story(*[f.key for f in futures_of(kept)]),
        "logs": [client.get_scheduler_logs(), client.get_worker_logs()],
        "events": client.get_events(),
        "plugins": list(cluster.scheduler.worker_plugins),
    }
    client.dump_cluster_state(str(tmp_path / "state"), format="yaml")
    shown |= dict(everything_written(folder.parent)) | dict(everything_written(tmp_path))
    shown["output"] = "".join(capfd.readouterr())
    for name, what in shown.items():
        text = what if isinstance(what, bytes) else repr(what).encode()
        assert not [form for form in forms if form in text], name
        # Names are in the source, and in no task of ours; the number is not a secret.
        assert SECRET.encode() not in text or "answers" in name, name
    assert number.encode() in repr(shown["plugins"]).encode()
    # The search finds what is there.
    (tmp_path / "found").write_bytes(b"..." + secret)
    assert any(secret in what for _, what in everything_written(tmp_path))


def test_the_key_leaves_the_cluster_with_its_holder(client: Client, cluster: LocalCluster) -> None:
    reports = DESIGN.disguise(source(first=600))
    number = reports._plan.draws.number
    assert pp.count(reports, DESIGN).n == 12_000
    carried = client.run(lambda: list(keys._carried))
    assert all(number in found for found in carried.values())
    del reports
    end = time.monotonic() + 10
    while any(number in found for found in client.run(lambda: list(keys._carried)).values()):
        assert time.monotonic() < end
        time.sleep(0.05)
    assert not [name for name in cluster.scheduler.worker_plugins if number in name]


def bad(i: int) -> pd.DataFrame:
    return answers(i).replace({"used": {"yes": SECRET}})


def fails(i: int) -> pd.DataFrame:
    raise ValueError(SECRET)


def test_what_goes_wrong_stays_on_its_worker(
    client: Client, capfd: pytest.CaptureFixture[str]
) -> None:
    for make, error, said in (
        (bad, CodebookError, r"partition \d: attribute 'used', row \d+: the value is not declared"),
        (fails, PPDMError, r"ValueError in test_lazy_workers\.py, line \d+; its message may hold"),
    ):
        reports = DESIGN.disguise(dd.from_map(make, range(3), meta=answers(0, 1)))
        for compute in (
            reports.compute,
            reports.count().compute,
            lambda given=reports: pp.count(given, DESIGN),
            reports.to_frame().compute,
        ):
            with pytest.raises(error, match=said) as caught:
                compute()
            assert SECRET not in str(caught.value)
    logs = repr([client.get_worker_logs(), client.get_scheduler_logs(), capfd.readouterr()])
    assert SECRET not in logs
    with pytest.raises(ValueError, match=SECRET):
        pickle.loads(pickle.dumps(client.submit(fails, 1).result()))


def test_millions_of_rows_and_very_many_partitions(client: Client) -> None:
    """2,000,000 rows; 500 partitions of one row. No warning of a large graph, and no hang."""
    # Dask warns at 10 MB, so 5 KB a partition of 2,000; as little is allowed to each of 500.
    threshold = {"distributed.admin.large-graph-warning-threshold": "2.5MB"}
    with dask.config.set(threshold), warnings.catch_warnings():
        warnings.simplefilter("error")
        reports = DESIGN.disguise(source(200_000, 10, first=700))
        table = pp.count(reports, DESIGN, ["used"])
        assert table.n == 2_000_000
        # P(yes) = .3: .8 * .3 + .2 * .7 = .38 are reported, SE .00034.
        assert abs(table.counts[1] / table.n - 0.38) < 0.0019
        tiny = DESIGN.disguise(source(1, 500, first=1_000))
        assert pp.count(tiny, DESIGN, ["used"]).n == 500


def test_runs_take_the_active_client(client: Client, tmp_path: Path) -> None:
    """And one that is passed; numbers are those of this process."""
    here = pp.run("multi-group", repeats=1, workers=0, out=tmp_path / "here")
    active = pp.run("multi-group", repeats=1, out=tmp_path / "active")
    passed = pp.run("multi-group", repeats=1, client=client, out=tmp_path / "passed")
    assert here.digest == active.digest == passed.digest
    modes = [each.outcome.mode for each in (here, active, passed)]
    assert modes == ["synchronous", "2 workers", "2 workers"]


CANARY = "canary-2c7d"


def named(i: int) -> pd.DataFrame:
    return answers(i).assign(name=CANARY)


def unreadable(i: int) -> pd.DataFrame:
    raise ValueError(CANARY)


def page(address: str) -> str:
    try:
        with urllib.request.urlopen(address, timeout=20) as answer:
            text: str = answer.read().decode(errors="replace")
            return text
    except urllib.error.HTTPError as error:
        assert error.code == 404
        return ""


# The last one: sessions of the dashboard are updated for a while after they were left.
def test_no_page_of_the_dashboard_shows_the_key_or_an_answer(
    client: Client, cluster: LocalCluster
) -> None:
    session = pytest.importorskip("bokeh.client").pull_session
    applications = importlib.import_module("distributed.dashboard.scheduler").applications
    reports = DESIGN.disguise(dd.from_map(named, range(12), meta=answers(0, 1)))
    secret = keys._held[reports._plan.draws.number]._secret
    kept = reports.persist()
    wait(kept)
    failed = DESIGN.disguise(dd.from_map(unreadable, range(3), meta=answers(0, 1)))
    with pytest.raises(PPDMError):
        failed.compute()
    main = f"http://127.0.0.1:{cluster.scheduler.http_server.port}"
    shown: dict[str, str] = {}
    # Single plots are parts of these pages.
    for route in (each for each in applications if not each.startswith("/individual-")):
        pulled = session(url=main + route)
        time.sleep(0.05)
        shown[route] = json.dumps(pulled.document.to_json(), default=str)
        pulled.close()
    workers = [quote(address, safe="") for address in cluster.scheduler.workers]
    tasks = [quote(str(task), safe="") for task in list(cluster.scheduler.tasks)[:20]]
    for route in (
        *("info/main/workers.html", "info/main/tasks.html", "info/main/logs.html"),
        *("info/logs.html", "info/main/exceptions.html", "json/counts.json", "json/identity.json"),
        *("metrics", "health", "individual-plots.json"),
        *(f"info/worker/{worker}.html" for worker in workers),
        *(f"info/logs/{worker}.html" for worker in workers),
        *(f"info/call-stacks/{worker}.html" for worker in workers),
        *(f"info/task/{task}.html" for task in tasks),
        *(f"info/call-stack/{task}.html" for task in tasks),
    ):
        shown[route] = page(f"{main}/{route}")
    # The pages were there, and showed our tasks.
    assert len(shown["/status"]) > 10_000 and "disguise" in shown["/status"]
    assert "disguise" in "".join(shown[f"info/task/{task}.html"] for task in tasks)
    for route, text in shown.items():
        for form in (secret.hex(), repr(secret), repr(list(secret)), CANARY):
            assert form not in text, route
