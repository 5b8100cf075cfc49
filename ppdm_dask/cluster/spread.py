"""Work on pieces of data, here or in tasks of a cluster, and a tree of sums of what it returns.

A piece says where its data are and does not contain data.  Results are added up in the same tree
wherever the work is done, so that sums of floating-point numbers agree to the last bit.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from ppdm_dask.engine.cells import summarise
from ppdm_dask.engine.interrupt import Interruption
from ppdm_dask.errors import InputError, PPDMError
from ppdm_dask.system import hanging_up

if TYPE_CHECKING:
    from distributed import Client as Client
    from distributed import Future

    from ppdm_dask.cluster.losses import WorkerWatch

__all__ = ["FAN_IN", "HERE", "Place", "Work", "summed"]

FAN_IN = 16
"""Results that are added up at a time."""

POLL_SECONDS = 0.1

MOST_LOSSES = 4  # of all results, with a scheduler that is there again

Work = Callable[[int, Any, Callable[[int], None]], Any]
"""Of the number of a piece, the piece, and a function that is called with the records done."""


@dataclass(frozen=True)
class Place:
    """Where work is done: in this process, by worker processes, or on a cluster.

    Parameters
    ----------
    workers : int
        Worker processes of this machine; 0 stays in this process.
    cluster : str or Path, optional
        Cluster profile, its file or the name of one of the package.
    folder : Path
        A folder that a cluster's machines share, for logs while the work runs.

    Raises
    ------
    InputError
        If both say how many workers there are.
    """

    workers: int = 0
    cluster: str | Path | None = None
    folder: Path = Path()

    def __post_init__(self) -> None:
        if self.cluster is not None and self.workers:
            what = f"{self.cluster}: says how many workers there are; leave --workers out"
            raise InputError(what, self.workers)

    @property
    def elsewhere(self) -> bool:
        """Whether other processes do the work."""
        return bool(self.workers) or self.cluster is not None

    @contextmanager
    def client(self) -> Iterator[Client | None]:
        """Connection to the workers, which end with the context; None if there are no workers.

        SIGINT, SIGTERM and SIGHUP end the context by an exception, so that workers end before what
        they were writing is removed.
        """
        if not self.elsewhere:
            yield None
            return
        # Loading Dask takes half a second, which work in this process need not spend.
        from ppdm_dask.cluster.client import local_pool
        from ppdm_dask.cluster.kinds import load_profile
        from ppdm_dask.cluster.losses import PoolLost, WorkerWatch

        profile = None if self.cluster is None else load_profile(self.cluster)
        with (
            Interruption() as signals,
            hanging_up(),
            tempfile.TemporaryDirectory(
                prefix=".ppdm-workers-", dir=None if profile is None else self.folder.resolve()
            ) as logs,
        ):
            log = Path(logs) / "workers.log"
            pool = local_pool(self.workers, log) if profile is None else profile.pool(Path(logs))
            # Not at once while workers are started or ended, which a signal would leave half done.
            with pool as found, signals.at_once():
                # What is gone at the end is nowhere to be read.
                watch = WorkerWatch(replace(found, log=None))
                try:
                    if found.remote:
                        watch.greet(signals)
                except PoolLost as loss:
                    raise _lost(found.source, loss) from None
                _watches[found.client] = watch
                yield found.client


HERE = Place()

_watches: WeakKeyDictionary[Client, WorkerWatch] = WeakKeyDictionary()
"""Of clients whose workers are ours to replace, and to compare with this process."""


def _lost(source: str, why: object) -> PPDMError:
    return PPDMError(f"{source}: workers were lost: {why}; the same command starts over")


def summed(
    work: Work,
    pieces: Sequence[Any],
    add: Callable[[list[Any]], Any],
    names: Collection[str],
    *,
    client: Client | None = None,
    done: Callable[[int], None] | None = None,
) -> Any:
    """Do the work on each piece, and add up the results in a tree.

    Parameters
    ----------
    work : callable
        Can be pickled.  A lost task is computed again, so it must give the same result each time.
    pieces : sequence
        One or more; each has `records`, how many it holds about.
    add : callable
        Adds up a list of results, in order.
    names : collection of str
        Columns that messages from a cluster may name.
    client : distributed.Client, optional
        Cluster that does the work; by default this process.
    done : callable, optional
        Told of records as they are done: here block by block, from a cluster piece by piece.

    Raises
    ------
    PPDMError
        What the work raises; from a cluster without the wrong value.
    """
    told = _nobody if done is None else done
    if client is None:
        tree = _Tree(add)
        for i, piece in enumerate(pieces):
            tree.put(work(i, piece, told))
        return tree.total()
    from distributed import KilledWorker
    from distributed.client import ClosedClientError, FutureCancelledError
    from distributed.scheduler import NoValidWorkerError, NoWorkerError

    from ppdm_dask.cluster.losses import PoolLost

    watch = _watches.get(client)
    source = "the cluster" if watch is None else watch.pool.source
    notes = _Notes(told, len(pieces))
    for _ in range(MOST_LOSSES):
        try:
            root = _sent(work, pieces, add, tuple(names), client, notes)
            # Not one long wait: signals come between, and workers are replaced.
            while not root.done():
                time.sleep(POLL_SECONDS)
                if watch is not None:
                    watch.check()
            return root.result()
        except KilledWorker as error:
            what = f"a piece of the data ended its worker {error.allowed_failures + 1} times"
            raise PPDMError(f"{what}; give workers more memory") from None
        except (PoolLost, NoWorkerError, NoValidWorkerError) as loss:
            raise _lost(source, loss) from None
        except (FutureCancelledError, ClosedClientError, OSError) as loss:
            # Of a scheduler that is there again nothing is left but its name.
            if client.status != "running":
                raise _lost(source, f"the scheduler is gone ({summarise(loss)})") from None
    raise _lost(source, f"results did not arrive, {MOST_LOSSES} times")


def _nobody(records: int) -> None:
    pass


class _Notes:
    """Tells of the records of each piece once, though it may be done again."""

    def __init__(self, done: Callable[[int], None], pieces: int) -> None:
        self._done, self._waiting = done, set(range(pieces))

    def take(self, i: int, records: int, future: Future[Any]) -> None:
        """Take note of what has become of piece i."""
        if future.status == "finished" and i in self._waiting:
            self._waiting.discard(i)
            self._done(records)


class _Tree:
    """Sums of up to FAN_IN results, of up to FAN_IN such sums, and so on; little is held."""

    def __init__(self, add: Callable[[list[Any]], Any]) -> None:
        self._add = add
        self._levels: list[list[Any]] = []

    def put(self, result: Any, level: int = 0) -> None:
        """Take the next result, or the next sum of a level."""
        if level == len(self._levels):
            self._levels.append([])
        waiting = self._levels[level]
        waiting.append(result)
        if len(waiting) == FAN_IN:
            self._levels[level] = []
            self.put(self._add(waiting), level + 1)

    def total(self) -> Any:
        """The sum of all."""
        level = 0
        while True:
            waiting = self._levels[level]
            if level == len(self._levels) - 1 and len(waiting) == 1:
                return waiting[0]
            self._levels[level] = []
            if waiting:
                self.put(self._add(waiting), level + 1)
            level += 1


def _sent(
    work: Work,
    pieces: Sequence[Any],
    add: Callable[[list[Any]], Any],
    names: tuple[str, ...],
    client: Client,
    notes: _Notes,
) -> Future[Any]:
    """The last sum of the same tree, in tasks of a cluster."""
    # The work is a part of each task, and no data of its own: these are spilled to disk, and it may
    # hold a key.
    watch = _watches.get(client)
    do = partial(_do, work, names, None if watch is None else watch.versions)
    level: list[Any] = client.map(do, range(len(pieces)), pieces, pure=False, key="ppdm-piece")
    for i, (future, piece) in enumerate(zip(level, pieces, strict=True)):
        future.add_done_callback(partial(notes.take, i, piece.records))
    while len(level) > 1:
        parts = [level[i : i + FAN_IN] for i in range(0, len(level), FAN_IN)]
        level = [client.submit(_add, add, part, pure=False) for part in parts]
    found: Future[Any] = level[0]
    return found


def _do(
    work: Work, names: tuple[str, ...], versions: Mapping[str, str] | None, i: int, piece: Any
) -> Any:
    from ppdm_dask.cluster.partitions import guarded, opened
    from ppdm_dask.cluster.worker import require_same

    if versions is not None:
        require_same(versions)
    # What is raised here holds no data, and neither do the arguments, which Dask logs with it.
    return opened(guarded(work, names, i, piece, _nobody))


def _add(add: Callable[[list[Any]], Any], results: list[Any]) -> Any:
    return add(results)
