"""x log x of many counts at once, without a call to the C library, so that loops run on vectors."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ppdm_dask.kernels import kernel

__all__ = ["xlogx"]

Floats = npt.NDArray[np.float64]

# Tang's reduction as in FDLIBM's log: x = 2^k m with m in [sqrt(1/2), sqrt(2)), log m by a
# polynomial in s = (m - 1) / (m + 1); the error stays below one unit in the last place.
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
_L1, _L2, _L3 = 6.666666666666735130e-01, 3.999999999940941908e-01, 2.857142874366239149e-01
_L4, _L5, _L6 = 2.222219843214978396e-01, 1.818357216161805012e-01, 1.531383769920937332e-01
_L7 = 1.479819860511658591e-01
_ROOT_HALF = np.int64(0x3FE6A09E667F3BCD)
_EXPONENT = np.int64(52)


@kernel
def xlogx(values: Floats, size: int, work: Floats, out: Floats) -> None:
    """``out[i] = x log x`` for the first ``size`` counts x; 0 for x below 1.

    Parameters
    ----------
    values, out : float64, shape (at least size,)
    work : float64, shape (2, at least size), overwritten
    """
    mantissa, exponent = work[0], work[1]
    bits = mantissa.view(np.int64)
    for i in range(size):
        mantissa[i] = max(values[i], 1.0)
    for i in range(size):
        k = (bits[i] - _ROOT_HALF) >> _EXPONENT
        bits[i] -= k << _EXPONENT
        exponent[i] = np.float64(k)
    for i in range(size):
        f = mantissa[i] - 1.0
        s = f / (2.0 + f)
        z = s * s
        tail = z * (_L1 + z * (_L2 + z * (_L3 + z * (_L4 + z * (_L5 + z * (_L6 + z * _L7))))))
        half = 0.5 * f * f
        k = exponent[i]
        log = k * _LN2_HIGH - ((half - (s * (half + tail) + k * _LN2_LOW)) - f)
        out[i] = max(values[i], 1.0) * log
