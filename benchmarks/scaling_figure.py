"""The figure of docs/scaling.md: how busy workers are, by their number and the length of batches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ppdm_dask.report.style import COLOURS, GREY, MARKERS, new_panels, save, styled

HEADS = {"in the driver": "scheduler in the driver's process", "apart": "scheduler on its own"}


def draw(facts: dict[str, Any], path: Path) -> None:
    """Draw one panel for a scheduler in the driver, one for a scheduler of its own."""
    with styled():
        figure, axes = new_panels(1, 2)
