"""The figure of docs/scaling.md: speed that is kept, by number of workers and length of batches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ppdm_dask.drawing.style import COLOURS, GREY, MARKERS, new_panels, styled

HEADS = {"in the driver": "Scheduler in the driver's process", "apart": "Scheduler on its own"}
TITLE = "How much of their speed workers keep"
DPI = 120


def draw(facts: dict[str, Any], path: Path) -> None:
    """Draw one panel for a scheduler in the driver's process, one for a scheduler of its own."""
    costs = facts["costs of a batch"]
    spent = ", ".join(f"{key} {1e3 * costs[key]:.1f}" for key in ("scheduler", "driver"))
    below = f"Simulated from the CPU that a batch costs, in ms: {spent}"
    with styled():
        figure, ((left, right),) = new_panels(
            TITLE, below, 1, 2, height=2.9, gap=(0.35, 0.0), left=0.75, right=0.25, head=1.0
        )
        for axes, (where, head) in zip((left, right), HEADS.items(), strict=True):
            rows = [name for name in facts["efficiency"] if name.startswith(where)]
            for name, colour, marker in zip(rows, COLOURS, MARKERS, strict=False):
                sizes = [int(size) for size in facts["efficiency"][name]]
                values = list(facts["efficiency"][name].values())
                label = f"batches of {name.rpartition(', ')[2]}"
                axes.plot(sizes, values, color=colour, marker=marker, label=label)
            axes.set_xscale("log")
            axes.set_xticks([10, 100, 1_000], ["10", "100", "1,000"])
            axes.set_ylim(0, 1.05)
            axes.set_title(head, fontsize=10, color=GREY, loc="left")
            axes.set_xlabel("workers")
        left.set_ylabel("speed, of that without costs")
        right.tick_params(labelleft=False)
        left.legend(loc="lower left")
        figure.savefig(path, dpi=DPI)
