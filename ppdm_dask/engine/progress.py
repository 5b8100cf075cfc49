"""What a run tells about itself while it goes on."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Progress"]


@dataclass(frozen=True)
class Progress:
    """State of a run after a batch was stored or the mode changed.

    Parameters
    ----------
    done_repeats : int
        Repeats in the ledger, those of earlier runs included.
    total_repeats : int
        Repeats that the cells ask for.
    resumed_repeats : int
        Repeats that were in the ledger when this run began.
    elapsed_seconds : float
        Wall time since this run began.
    mode : str
        How the work is done, in words: ``"synchronous"``, ``"starting 2 workers"`` or
        ``"2 workers"``.
    cell : str
        Id of the cell last worked on; empty before the first.
    """

    done_repeats: int
    total_repeats: int
    resumed_repeats: int
    elapsed_seconds: float
    mode: str
    cell: str
