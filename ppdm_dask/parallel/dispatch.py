"""Having workers do what is missing, through the loss of any of them or of all."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from time import monotonic, sleep

from ppdm_dask.errors import ClusterUnreachable, PPDMError
from ppdm_dask.experiments.plan import Work
from ppdm_dask.parallel.client import Pool
from ppdm_dask.parallel.interrupt import Interruption
from ppdm_dask.parallel.losses import PoolLost
from ppdm_dask.parallel.session import Session
from ppdm_dask.parallel.suspects import Suspects
from ppdm_dask.parallel.tally import Tally

__all__ = ["dispatch"]

MOST_REBUILDS = 3  # of pools lost in a row without a finished batch
# A scheduler that others keep running may take a while to be there again.
PATIENCE_SECONDS = 300.0
MOST_WAIT_SECONDS = 30.0


def dispatch(
    tally: Tally,
    work: Work,
    stop: Interruption,
    connect: Callable[[], AbstractContextManager[Pool]],
    stall_seconds: float,
) -> None:
    """Go on until nothing is missing but what was quarantined.

    Parameters
    ----------
    tally : Tally
        Hands out batches and takes results.
    work : Work
        The computation.
    stop : Interruption
        Says when to leave off.
    connect : callable
        Returns a context that yields a :class:`Pool`; called again when a pool was lost.
    stall_seconds : float
        Time without a finished batch after which a pool counts as stuck; batches that should take
        long get 20 times what they should, and the first batch of a pool at least a minute.

    Raises
    ------
    Stopped
        If a signal said so; the workers have ended.
    TrialError
        If the work raised an exception.
    ClusterError
        If the cluster does not answer the first time, or must not be used.
    PPDMError
        If pools are lost one after the other.
    """
    suspects = Suspects(tally)
    fruitless, connected, fruitful = 0, False, monotonic()
    while tally.planner.unfinished:
        before = tally.computed + len(tally.quarantined)
        patient = False
        try:
            with connect() as pool:
                connected = True
                patient = pool.shared
                Session(tally, suspects, work, stop, pool, stall_seconds).drive()
        except (PoolLost, ClusterUnreachable) as loss:
            if not connected:
                raise
            if tally.computed + len(tally.quarantined) > before:
                fruitless, fruitful = 0, monotonic()
                continue
            fruitless += 1
            patient = patient or isinstance(loss, ClusterUnreachable)
            waited = monotonic() - fruitful
            if fruitless > MOST_REBUILDS and not (patient and waited < PATIENCE_SECONDS):
                raise PPDMError(
                    f"workers were lost {fruitless} times in a row without finishing a batch: "
                    f"{loss}; what is stored is kept"
                ) from loss
            _wait(min(2.0 ** (fruitless - 1), MOST_WAIT_SECONDS), stop)


def _wait(seconds: float, stop: Interruption) -> None:
    end = monotonic() + seconds
    while monotonic() < end:
        stop.check()
        sleep(0.05)
