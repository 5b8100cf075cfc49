"""Progress in a notebook: one line of the cell's output, which is written over."""

from __future__ import annotations

import sys
import time
from importlib import import_module
from typing import Any

from ppdm_dask.faces.face import block

__all__ = ["Follower", "follower"]

EVERY = 0.2
"""Seconds between two pictures of a bar."""


def follower(title: str) -> Follower | None:
    """A bar in the notebook that this code runs in; None elsewhere.

    IPython is never imported for this check: a notebook has already imported it.
    """
    module = sys.modules.get("IPython")
    shell: Any = module.get_ipython() if module is not None else None
    # A terminal's IPython has no kernel, and shows no HTML.
    if shell is None or not hasattr(shell, "kernel"):
        return None
    return Follower(title)


class Follower:
    """A bar by IPython's own display, for which no widgets are needed.

    Parameters
    ----------
    title : str
    """

    def __init__(self, title: str) -> None:
        self.title = title
        self._handle: Any = None
        self._shown = 0.0
        self._begun = time.monotonic()

    def __call__(self, done: int, total: int, words: str = "") -> None:
        """Show how much is done; at most five times a second, and at the end."""
        now = time.monotonic()
        if self._handle is not None and now - self._shown < EVERY and done < total:
            return
        self._shown = now
        text = f"{done:,} of {total:,}"
        if words:
            text += f", {words}"
        bar = _Bar(self.title, done, total, f"{text}, {now - self._begun:,.0f} s")
        if self._handle is None:
            display: Any = import_module("IPython.display")
            self._handle = display.display(bar, display_id=True)
        else:
            self._handle.update(bar)


class _Bar:
    """A state of a bar, as HTML and as text."""

    def __init__(self, title: str, done: int, total: int, words: str) -> None:
        self.title, self.done, self.total, self.words = title, done, total, words

    def __repr__(self) -> str:
        return f"{self.title}: {self.words}"

    def _repr_html_(self) -> str:
        from markupsafe import Markup

        share = self.done / self.total if self.total else 1.0
        return block(
            repr(self), Markup(f'<progress value="{share:.4f}" style="width:20em"></progress>')
        )
