"""Work on partitions in tasks, of a cluster or in threads, and a tree of sums of its results."""

# Dask has annotated few of its functions.
# mypy: allow-untyped-calls

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any

from dask.base import compute
from dask.delayed import delayed

from ppdm_dask.errors import PPDMError
from ppdm_dask.parallel.telling import guarded, opened
from ppdm_dask.randomness import KeyedStream, SealedStream, Stream

if TYPE_CHECKING:
    from distributed import Client

    from ppdm_dask.parallel.partitions import Partition

__all__ = ["FAN_IN", "reduce_tree"]

FAN_IN = 16
"""Tables that one task of the tree of sums adds up."""

MOST_LOSSES = 4  # of workers with frames that only they had


def reduce_tree(
    work: Callable[[int, Partition, Stream], Any],
    parts: Sequence[Partition],
    stream: Stream,
    add: Callable[[Sequence[Any]], Any],
    names: Collection[str],
    client: Client | None,
) -> Any:
    """Do the work on each partition in a task of its own, and add the results up in a tree.

    Parameters
    ----------
    work : callable
        Of the partition's number, the partition and the stream of its draws.
    parts : sequence of Partition
    stream : Stream
    add : callable
        Adds up a list of results.
    names : collection of str
        Columns that the work reads: a cluster gets no others of a frame.
    client : distributed.Client, optional
        Cluster that does the work; by default the threads of this process.

    Raises
    ------
    PPDMError
        What the work raises; from a cluster without the value at fault.
    """
    keys = _keys(stream, len(parts))
    if client is None:
        (found,) = compute(_tree(work, parts, keys, add, None), scheduler="threads")
        return found
    # Loading these takes half a second, which work in threads need not spend.
    from distributed import KilledWorker
    from distributed.client import FutureCancelledError

    for _ in range(MOST_LOSSES):
        root = _tree(work, _shipped(parts, names, client), keys, add, tuple(names))
        try:
            return opened(client.compute(root).result())
        except FutureCancelledError:
            # A frame was lost with the only worker that had it. The keys are the same again.
            continue
        except KilledWorker as error:
            what = f"a partition ended its worker {error.allowed_failures + 1} times"
            raise PPDMError(f"{what}; smaller partitions need less memory") from None
    raise PPDMError(f"workers were lost {MOST_LOSSES} times with the partitions that they held")


def _tree(
    work: Callable[[int, Partition, Stream], Any],
    inputs: Sequence[Any],
    keys: Sequence[Stream | SealedStream],
    add: Callable[[Sequence[Any]], Any],
    told: tuple[str, ...] | None,
) -> Any:
    do, total = delayed(_do, pure=False), delayed(_total, pure=False)
    level = [
        do(work, i, part, key, told) for i, (part, key) in enumerate(zip(inputs, keys, strict=True))
    ]
    while len(level) > 1:
        level = [total(add, level[i : i + FAN_IN], told) for i in range(0, len(level), FAN_IN)]
    return level[0]


def _do(
    work: Callable[[int, Partition, Stream], Any],
    i: int,
    part: Partition,
    key: Stream | SealedStream,
    told: tuple[str, ...] | None,
) -> Any:
    stream = key.open() if isinstance(key, SealedStream) else key
    return work(i, part, stream) if told is None else guarded(work, told, i, part, stream)


def _total(
    add: Callable[[Sequence[Any]], Any], results: list[Any], told: tuple[str, ...] | None
) -> Any:
    return add(results) if told is None else guarded(add, told, results)


def _shipped(parts: Sequence[Partition], names: Collection[str], client: Client) -> Sequence[Any]:
    """Partitions as arguments of a cluster's tasks.

    Frames travel once, ahead of the graph; row groups are read by the task itself.
    """
    if not any(part.carries_records for part in parts):
        return parts
    # A name made of the content would tell it to whoever sees names of tasks.
    futures: Sequence[Any] = client.scatter([part.narrowed(names) for part in parts], hash=False)
    return futures


def _keys(stream: Stream, n: int) -> list[Stream | SealedStream]:
    """Streams of n tasks: in a real disguise each has draws of its own, the same when it is redone.

    Tasks are run again when a worker dies or is slow; a person whose answer were disguised afresh
    each time would give it away.
    """
    if stream.simulated:
        return [stream] * n
    secret = KeyedStream()
    return [secret.child(i).sealed() for i in range(n)]
