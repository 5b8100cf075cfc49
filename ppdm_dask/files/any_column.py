"""Columns of whatever is given: arrays, lists, those of frames, or several as one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from ppdm_dask.files.arrow_column import ArrowValues
from ppdm_dask.files.column import Column, Numbers, Objects, Texts, small
from ppdm_dask.files.frame_column import FrameColumn

__all__ = ["as_column", "column_of", "joined"]


def as_column(values: Any) -> Column:
    """A column as such: one of a frame, an array or a list becomes one."""
    if isinstance(values, Column):
        return values
    if isinstance(values, np.ndarray | list | tuple):
        return column_of(values)
    return FrameColumn(values)


def column_of(values: npt.NDArray[Any] | Sequence[Any]) -> Column:
    """Column of an array or a list, with the types that a frame of it would have."""
    if isinstance(values, np.ndarray):
        kind = values.dtype.kind
        if kind in "iufb" and values.dtype.itemsize <= 8:
            return Numbers(values)
        if kind in "mM":
            import pyarrow as pa

            return ArrowValues(pa.chunked_array([pa.array(values)]))
        held: list[Any] = values.tolist()
        return _texts_or_objects(held)
    values = list(values)
    kinds = set(map(type, values))
    if kinds == {bool}:
        return Numbers(np.array(values))
    kinds.discard(type(None))
    number = (int, float, np.integer, np.floating)
    if kinds and bool not in kinds and all(issubclass(each, number) for each in kinds):
        return _numbers(values)
    return _texts_or_objects(values)


def _numbers(values: list[Any]) -> Column:
    try:
        found = np.array([np.nan if value is None else value for value in values])
    except (OverflowError, ValueError):
        return Objects(values)
    return Numbers(found) if found.dtype.kind in "iuf" else Objects(values)


def _texts_or_objects(values: list[Any]) -> Column:
    """Column of a list of texts, None where one is missing, or of whatever else is among them."""
    import pyarrow as pa

    if not values or not set(map(type, values)) <= {str, type(None)}:
        return Objects(values)
    try:
        found = pa.array(values, pa.string()).dictionary_encode()
    except UnicodeEncodeError:  # half a sign, which only Python takes for a text
        return Texts.of(values)
    codes = found.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    texts = found.dictionary.to_pylist()
    return Texts(small(codes, len(texts)), texts, categories=False)


def joined(columns: Sequence[Column]) -> Column:
    """The values of several columns, one behind the other."""
    import pyarrow as pa

    first = columns[0]
    if len(columns) == 1:
        return first
    if all(isinstance(each, Texts) for each in columns):
        return _joined_texts([each for each in columns if isinstance(each, Texts)])
    if isinstance(first, Numbers):
        numbers = [each for each in columns if isinstance(each, Numbers)]
        same = {(each.values.dtype, each.gaps) for each in numbers}
        if len(numbers) == len(columns) and len(same) == 1:
            gaps = any(each.gone is not None for each in numbers)
            gone = np.concatenate([each.missing() for each in numbers]) if gaps else None
            return Numbers(np.concatenate([each.values for each in numbers]), gone, first.gaps)
    if isinstance(first, ArrowValues):
        arrows = [each for each in columns if isinstance(each, ArrowValues)]
        if len(arrows) == len(columns) and len({each.column.type for each in arrows}) == 1:
            pieces = [pa.chunked_array(each.column).chunks for each in arrows]
            whole = pa.chunked_array(list(chain.from_iterable(pieces)), first.column.type)
            return ArrowValues(whole, first.kept)
    return Objects(list(chain.from_iterable(each.to_numpy().tolist() for each in columns)))


def _joined_texts(columns: Sequence[Texts]) -> Texts:
    first = columns[0]
    if all(each.texts == first.texts and each.categories for each in columns):
        return replace(first, codes=np.concatenate([each.codes for each in columns]))
    places: dict[str, int] = {}
    codes = []
    for each in columns:
        table = [places.setdefault(text, len(places)) for text in each.texts]
        codes.append(np.array([*table, -1])[each.codes])
    return Texts(small(np.concatenate(codes), len(places)), list(places), categories=False)
