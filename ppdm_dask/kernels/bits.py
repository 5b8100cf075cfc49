"""Counting bits: the processor's population count, which numba does not offer by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from numba import types
from numba.extending import intrinsic

__all__ = ["popcount"]


@intrinsic
def _popcount(typingctx: Any, word: Any) -> Any:
    """Number of ones of an unsigned 64-bit word, as an unsigned 64-bit integer."""
    signature = types.uint64(types.uint64)

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return signature, build


# Typed as compiled code calls it: numba passes the typing context by itself.
popcount = cast(Callable[[Any], Any], _popcount)
