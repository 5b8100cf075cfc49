"""The end of a cluster whose parts hang: it is left behind, and not waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from distributed import LocalCluster
from distributed.core import Status

from ppdm_dask.cluster import nanny as spec
from ppdm_dask.cluster.nanny import close_cluster

pytestmark = pytest.mark.cluster


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    cluster = LocalCluster(n_workers=0, host="127.0.0.1", dashboard_address="127.0.0.1:0")
    yield cluster
    if cluster.scheduler.status != Status.closed:
        cluster.sync(cluster.scheduler.close)


async def hang() -> None:
    await asyncio.sleep(3600)


def test_what_comes_first_may_hang(cluster: LocalCluster) -> None:
    close_cluster(cluster, hang, within_seconds=0.2)
    assert cluster.scheduler.status == Status.closed, "the cluster was closed nevertheless"
    assert cluster.status == Status.closed


def test_closing_may_hang(cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(spec, "CLOSE_SECONDS", 0.2)
        patch.setattr(cluster, "_close", hang)
        close_cluster(cluster)
    assert cluster.scheduler.status != Status.closed
    # Else Python's end waits for it once more, and its collection warns.
    assert cluster.status == Status.closed
