"""Joint categories of several attributes as one number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["row_major"]


def row_major(codes: npt.NDArray[Any], shape: Sequence[int]) -> npt.NDArray[np.int64]:
    """Row-major index of each row of codes, shape (n,)."""
    index = np.zeros(len(codes), dtype=np.int64)
    for axis, size in enumerate(shape):
        index *= size
        index += codes[:, axis]
    return index
