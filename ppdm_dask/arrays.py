"""Types of arrays, by what is in them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["Bools", "Floats", "Ints", "Words"]

Floats = npt.NDArray[np.float64]

Bools = npt.NDArray[np.bool_]

Ints = npt.NDArray[np.int64]

Words = npt.NDArray[np.uint64]
