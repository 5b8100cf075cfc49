"""Arrays as bytes that describe themselves: a JSON header, then raw little-endian values."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["layout", "pack", "unpack"]

# Booleans, integers, floats and complex numbers; objects would need pickle.
KINDS = "biufc"


def _little(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return dtype.newbyteorder("<")


def layout(arrays: Mapping[str, npt.NDArray[Any]]) -> str:
    """Describe what all batches of a cell share: names, types, shapes behind the first axis.

    Raises
    ------
    TypeError
        If an array holds anything but plain numbers.
    """
    described = {}
    for name, array in arrays.items():
        if array.dtype.kind not in KINDS:
            raise TypeError(f"array {name!r} has type {array.dtype}; numbers are needed")
        described[name] = [_little(array.dtype).str, list(array.shape[1:])]
    return json.dumps(described, sort_keys=True, separators=(",", ":"))


def pack(arrays: Mapping[str, npt.NDArray[Any]]) -> bytes:
    """Arrays of plain numbers as bytes: header length (8 bytes, little-endian), header, values."""
    header = []
    chunks = []
    for name in sorted(arrays):
        array = arrays[name]
        dtype = _little(array.dtype)
        header.append({"name": name, "dtype": dtype.str, "shape": list(array.shape)})
        chunks.append(array.astype(dtype, copy=False).tobytes())
    text = json.dumps(header, separators=(",", ":")).encode()
    return b"".join([len(text).to_bytes(8, "little"), text, *chunks])


def unpack(payload: bytes) -> dict[str, npt.NDArray[Any]]:
    """Restore the arrays that :func:`pack` was given, as read-only views of ``payload``.

    Raises
    ------
    ValueError
        If the bytes do not hold what their header says.
    """
    end = 8 + int.from_bytes(payload[:8], "little")
    arrays = {}
    for entry in json.loads(payload[8:end]):
        dtype = np.dtype(entry["dtype"])
        shape = tuple(entry["shape"])
        count = int(np.prod(shape, dtype=np.int64))
        arrays[entry["name"]] = np.frombuffer(payload, dtype, count, offset=end).reshape(shape)
        end += count * dtype.itemsize
    if end != len(payload):
        raise ValueError(f"{len(payload)} bytes stored, {end} described")
    return arrays
