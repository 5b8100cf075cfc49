"""What leaves a task on raw records, on the wire and in logs; and one report for one answer."""

from __future__ import annotations

import os
import signal
import uuid
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from distributed.comm import tcp

import ppdm_dask as pp
from ppdm_dask.cluster import partitions as tree
from ppdm_dask.cluster.client import Pool, local_pool
from ppdm_dask.cluster.partitions import (
    Partition,
    disguise_and_count,
    frame_partitions,
    parquet_partitions,
    reduce_tree,
)
from ppdm_dask.cluster.perturbing import perturb_partitions
from ppdm_dask.errors import CodebookError, DataError
from ppdm_dask.perturb import AIBR

pytestmark = pytest.mark.cluster

SECRET = "secret-5f0e"
BOOK = pp.Codebook((pp.Attribute("smokes", ("no", "yes")), pp.Attribute("region", ("n", "s"))))
DESIGN = pp.Warner("smokes", 0.75)


class Wire:
    """All frames that come to this process or leave it, decrypted."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen: list[bytes] = []
        to_frames, from_frames = tcp.to_frames, tcp.from_frames

        async def sent(*arguments: Any, **options: Any) -> Any:
            frames = await to_frames(*arguments, **options)
            self.seen += map(bytes, frames)
            return frames

        async def received(frames: Any, *arguments: Any, **options: Any) -> Any:
            self.seen += [bytes(frame) for frame in frames]
            return await from_frames(frames, *arguments, **options)

        monkeypatch.setattr(tcp, "to_frames", sent)
        monkeypatch.setattr(tcp, "from_frames", received)

    def __contains__(self, text: str) -> bool:
        return any(text.encode() in frame for frame in self.seen)


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    with local_pool(2, tmp_path_factory.mktemp("pool") / "workers.log") as found:
        found.client.wait_for_workers(2, timeout=60)
        yield found


def logs(pool: Pool, capfd: pytest.CaptureFixture[str]) -> str:
    """What was written here and by workers, and what Dask's parts keep to be asked for."""
    assert pool.log is not None
    kept = [pool.client.get_scheduler_logs(), pool.client.get_worker_logs()]
    return "".join([pool.log.read_text(), *capfd.readouterr(), *map(str, kept)])


def fails() -> None:
    raise ValueError(SECRET)


def test_an_undeclared_value_stays_on_its_worker(
    pool: Pool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    frame = pd.DataFrame({"smokes": ["no", "yes"] * 50, "region": "n", "name": f"{SECRET}-name"})
    frame.loc[77, "smokes"] = SECRET
    frame["x"] = frame["smokes"].where(frame["smokes"] == SECRET, "1.5")
    frame.to_parquet(tmp_path / "data.parquet", row_group_size=10, index=False)
    stream = pp.Stream.from_entropy()
    wire = Wire(monkeypatch)
    with pytest.raises(CodebookError) as caught:
        parts = parquet_partitions(tmp_path / "data.parquet", BOOK)
        disguise_and_count(parts, BOOK, DESIGN, stream, [["smokes"]], client=pool.client)
    assert str(caught.value) == (
        "attribute 'smokes', row 77: the value is not declared; there are 'no', 'yes'"
    )
    assert (caught.value.row, caught.value.subject) == (77, None)
    with pytest.raises(DataError, match="column 'x', row 77: the value is not a finite number"):
        parts = parquet_partitions(tmp_path / "data.parquet", ["x"])
        perturb_partitions(AIBR(3), parts, ["x"], stream, tmp_path / "out", client=pool.client)
    assert SECRET not in wire
    written = logs(pool, capfd)
    assert "Register worker" in written
    assert SECRET not in written
    # Of a frame that is sent, the columns of the codebook only.
    frame.loc[77, "smokes"] = "no"
    parts = frame_partitions(frame.set_index("name"), 3)
    (table,) = disguise_and_count(parts, BOOK, DESIGN, stream, [["region"]], client=pool.client)
    assert table.counts.tolist() == [100, 0]
    assert SECRET not in wire
    # That all of this could have been seen.
    with pytest.raises(ValueError, match=SECRET):
        pool.client.submit(fails).result()
    assert SECRET in wire


def disguise(_: int, partition: Partition, stream: pp.Stream, *, folder: str) -> list[bytes]:
    """Reports of a partition; the process ends after some of the times that they were drawn."""
    reports = DESIGN.disguise(BOOK.encode(partition.read(), partition.offset), stream)
    found = [reports.codes[:, 0].tobytes()]
    (Path(folder) / uuid.uuid4().hex).write_bytes(found[0])
    for kill in Path(folder).glob("kill-*"):
        kill.unlink()
        os.kill(os.getpid(), signal.SIGKILL)
    return found


def _first(results: list[list[bytes]]) -> list[bytes]:
    return results[0]


def test_one_answer_has_one_report_however_often_its_task_runs(pool: Pool, tmp_path: Path) -> None:
    n = 600
    frame = pd.DataFrame({"smokes": np.random.default_rng(3).choice(["no", "yes"], n)})
    truth = BOOK.select(["smokes"]).encode(frame).codes[:, 0]
    frame["region"] = "s"
    (part,) = frame_partitions(frame, 1)
    work = partial(disguise, folder=str(tmp_path))
    for number in range(2):
        (tmp_path / f"kill-{number}").touch()
    # Two attempts end their worker, and the third is taken.
    taken = reduce_tree(work, [part], pp.Stream.from_entropy(), _first, BOOK.names, pool.client)
    attempts = [file.read_bytes() for file in tmp_path.iterdir()]
    assert len(attempts) == 3
    assert set(attempts) == set(taken)
    # One task 25 times, on two workers.
    (key,) = tree._keys(pp.Stream.from_entropy(), 1)
    do = partial(tree._do, work, 0, part, key, BOOK.names)
    futures = [pool.client.submit(do, key=f"again-{number}", pure=False) for number in range(25)]
    reports = np.array([np.frombuffer(found[0], np.uint8) for found in pool.client.gather(futures)])
    assert len(np.unique(reports, axis=0)) == 1
    # Their majority knows no more than one report, which is right in .75 of the cases: SE .018.
    majority = reports.mean(axis=0) > 0.5
    assert abs((majority == truth).mean() - 0.75) < 0.09
