"""A cluster in miniature: batches between one driver, one scheduler and many workers.

A discrete-event simulation of what limits a run: each finished batch takes time of the scheduler
and then of the driver, each of which does one thing at a time, while workers compute. Events:

- a worker finishes a batch, begins the next one that it holds, and reports to the scheduler;
- the scheduler has served the report: it hands the worker a batch that waits, and the driver the
  result;
- the driver has stored the result: it sends a new batch, if there is one, to the scheduler.

Reports and results are served in the order in which they come.
"""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Costs:
    """What a batch costs besides its own computation, in seconds.

    Parameters
    ----------
    scheduler, driver : float
        CPU of the scheduler, and of the driver.
    worker : float
        CPU of the worker around the batch.
    latency : float
        From one process to another.
    shared : bool
        Whether scheduler and driver are one process, which does one thing at a time.
    """

    scheduler: float
    driver: float
    worker: float = 0.0
    latency: float = 0.0
    shared: bool = True

    @property
    def slowest(self) -> float:
        """Seconds a batch of the process that has most to do; 1 over it is the highest rate."""
        if self.shared:
            return self.scheduler + self.driver
        return max(self.scheduler, self.driver)


@dataclass(frozen=True)
class Simulated:
    """What came out.

    Parameters
    ----------
    stored : list of float
        Time at which each batch was stored, increasing.
    """

    stored: list[float]

    @property
    def seconds(self) -> float:
        """Time of the whole run."""
        return self.stored[-1]

    @property
    def rate(self) -> float:
        """Batches a second in the middle half of the run: without its start and its end."""
        first, last = len(self.stored) // 4, 3 * len(self.stored) // 4
        return (last - first) / (self.stored[last] - self.stored[first])


def simulate(
    workers: int,
    batches: int,
    task_seconds: Callable[[], float],
    costs: Costs,
    *,
    window: int = 4,
    held: int = 2,
    service: Callable[[float], float] = float,
) -> Simulated:
    """Follow batches through a cluster.

    Parameters
    ----------
    workers, batches : int
        How many there are.
    task_seconds : callable
        Draws the seconds that the next batch computes.
    costs : Costs
        What else it costs.
    window : int
        Batches in flight a worker, as the driver keeps them.
    held : int
        Batches that a worker holds at most, the one it computes included.
    service : callable
        Draws a time of scheduler or driver from its mean; by default it is always the mean.
    """
    order = itertools.count()
    events: list[tuple[float, int, str, int]] = []
    free = {"scheduler": 0.0, "driver": 0.0}
    at = {"scheduler": "scheduler", "driver": "scheduler" if costs.shared else "driver"}
    unsent = batches
    waiting = 0
    assigned = [0] * workers
    local = [0] * workers
    busy = [False] * workers
    hungry: deque[int] = deque()
    stored: list[float] = []

    def happen(time: float, what: str, worker: int) -> None:
        heapq.heappush(events, (time, next(order), what, worker))

    def serve(who: str, now: float, mean: float) -> float:
        server = at[who]
        free[server] = max(now, free[server]) + service(mean)
        return free[server]

    def assign(worker: int, now: float) -> None:
        assigned[worker] += 1
        happen(now + costs.latency, "arrive", worker)

    def begin(worker: int, now: float) -> None:
        busy[worker] = True
        happen(now + costs.worker + task_seconds(), "done", worker)

    def send(now: float) -> None:
        nonlocal waiting
        while hungry:
            worker = hungry.popleft()
            if assigned[worker] < held:
                assign(worker, now)
                return
        waiting += 1

    # Workers get one batch each before anyone gets a second.
    hungry.extend(worker for _ in range(held) for worker in range(workers))
    for _ in range(min(window * workers, batches)):
        unsent -= 1
        send(0.0)
    while events:
        now, _, what, worker = heapq.heappop(events)
        if what == "arrive":
            if busy[worker]:
                local[worker] += 1
            else:
                begin(worker, now)
        elif what == "done":
            busy[worker] = False
            if local[worker]:
                local[worker] -= 1
                begin(worker, now)
            happen(now + costs.latency, "report", worker)
        elif what == "report":
            happen(serve("scheduler", now, costs.scheduler), "served", worker)
        elif what == "served":
            assigned[worker] -= 1
            if waiting:
                waiting -= 1
                assign(worker, now)
            else:
                hungry.append(worker)
            happen(now + (0.0 if costs.shared else costs.latency), "take", worker)
        elif what == "take":
            end = serve("driver", now, costs.driver)
            stored.append(end)
            if unsent:
                unsent -= 1
                happen(end, "send", worker)
        else:
            send(now)
    return Simulated(stored)
