"""Draws that a case repeats from its key, whatever was drawn before it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TypeVar

import numpy as np

__all__ = ["Chance"]

Item = TypeVar("Item")


class Chance:
    """A stream of draws for one case.

    Parameters
    ----------
    *key : object
        What names the case; equal keys give equal draws on every machine.
    """

    def __init__(self, *key: object) -> None:
        digest = hashlib.sha256("/".join(map(str, key)).encode()).digest()
        words = np.frombuffer(digest, dtype="<u4")
        self._generator = np.random.Generator(np.random.SFC64(np.random.SeedSequence(words)))

    def below(self, n: int) -> int:
        """An integer from 0 to n - 1; 0 where n is below 1."""
        return int(self._generator.integers(n)) if n > 1 else 0

    def coin(self, p: float) -> bool:
        """True with probability p."""
        return bool(self._generator.random() < p)

    def pick(self, items: Sequence[Item]) -> Item:
        """One of some items."""
        return items[self.below(len(items))]

    def bytes(self, n: int) -> bytes:
        """Random bytes."""
        return self._generator.bytes(n)
