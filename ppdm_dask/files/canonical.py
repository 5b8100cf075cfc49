"""Canonical JSON in pieces: digests of large arrays without all of their text in memory."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ppdm_dask.arrays import Floats

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["canonical_json"]

Change = Callable[["pa.Array", npt.NDArray[np.bool_]], "pa.Array"]
"""Makes other texts of some, and of which they are."""

MANY = 256
"""Numbers of a row from which on Arrow writes them; fewer do not repay its start."""

SPAN = 1 << 16
"""Numbers that are written at a time."""


def canonical_json(value: Any) -> Iterator[bytes]:
    """JSON with sorted keys, in ASCII and without spaces, whose pieces joined ``json`` gives too.

    Parameters
    ----------
    value : what JSON can hold, or an array of numbers in a place of it
        Keys are texts. An array is written as the list of its items.

    Examples
    --------
    >>> b"".join(canonical_json({"b": np.array([[0.5, 1.0]]), "a": "x"}))
    b'{"a":"x","b":[[0.5,1.0]]}'
    """
    if isinstance(value, dict):
        yield b"{"
        for i, key in enumerate(sorted(value)):
            yield b"," * (i > 0) + json.dumps(key).encode() + b":"
            yield from canonical_json(value[key])
        yield b"}"
    elif isinstance(value, list | tuple) or (isinstance(value, np.ndarray) and value.ndim > 1):
        yield b"["
        for i, item in enumerate(value):
            if i:
                yield b","
            yield from canonical_json(item)
        yield b"]"
    elif isinstance(value, np.ndarray) and value.ndim:
        yield b"["
        for low in range(0, len(value), SPAN):
            yield b"," * (low > 0) + _items(value[low : low + SPAN])
        yield b"]"
    else:
        plain = value.item() if isinstance(value, np.ndarray) else value
        yield json.dumps(plain).encode()


def _items(values: npt.NDArray[Any]) -> bytes:
    """Numbers with commas between them."""
    if len(values) >= MANY and values.dtype == np.float64 and _arrow_serves():
        found = _written_by_arrow(values)
        if found is not None:
            return found
    return _written_by_python(values)


def _written_by_python(values: npt.NDArray[Any]) -> bytes:
    return json.dumps(values.tolist(), separators=(",", ":"))[1:-1].encode()


def _written_by_arrow(values: Floats) -> bytes | None:
    """The same of numbers in [0, 1e9), five times as fast; None if there are others.

    Both write the shortest decimals that read back as the number. Python's whole numbers have a
    point, below 1e-4 it has an exponent, and that has two digits at least.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if not (values < 1e9).all() or np.signbit(values).any():
        return None
    texts = _changed(
        pa.array(values).cast(pa.string()),
        (values < 1e-4) | (values == np.floor(values)),
        lambda others, where: _as_python_does(others, values[where]),
    )
    row = pa.ListArray.from_arrays(pa.array([0, len(texts)], pa.int32()), texts)
    joined: bytes = pc.binary_join(row, ",")[0].as_buffer().to_pybytes()
    return joined


def _changed(texts: pa.Array, where: npt.NDArray[np.bool_], change: Change) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    if where.all():
        return change(texts, where)
    if not where.any():
        return texts
    mask = pa.array(where)
    return pc.replace_with_mask(texts, mask, change(texts.filter(mask), where))


def _as_python_does(texts: pa.Array, values: Floats) -> pa.Array:
    """Texts of whole numbers, and of those below 1e-4."""
    import pyarrow.compute as pc

    whole, tiny = values == np.floor(values), values < 1e-6
    texts = _changed(texts, whole, lambda t, _: pc.binary_join_element_wise(t, ".0", ""))
    texts = _changed(texts, ~whole & ~tiny, lambda t, where: _scientific(t, values[where] >= 1e-5))
    one_digit = ~whole & tiny & (values >= 1e-9)
    return _changed(texts, one_digit, lambda t, _: pc.replace_substring(t, "e-", "e-0"))


def _scientific(texts: pa.Array, larger: npt.NDArray[np.bool_]) -> pa.Array:
    """Texts such as 0.0000123, or 0.00000123 where they are not larger, as 1.23e-05."""
    import pyarrow as pa
    import pyarrow.compute as pc

    digits = pc.ascii_ltrim(texts, characters="0.")
    first, rest = pc.utf8_slice_codeunits(digits, 0, 1), pc.utf8_slice_codeunits(digits, 1)
    point = pc.if_else(pc.equal(rest, ""), "", ".")
    exponent = pc.if_else(pa.array(larger), "e-05", "e-06")
    return pc.binary_join_element_wise(first, point, rest, exponent, "")


@cache
def _arrow_serves() -> bool:
    """Whether this release of Arrow writes numbers of each size as it is known to do."""
    digits = (1, 1.5, 1.2345678901234567, 9.999999999999999)
    values = np.array([0, *(d * 10.0**e for d in digits for e in range(-320, 9))])
    return _written_by_arrow(values) == _written_by_python(values)
