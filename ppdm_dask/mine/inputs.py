"""Whether records are what a fitted model takes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ppdm_dask.errors import RecordsError
from ppdm_dask.records import Records

__all__ = ["check_inputs"]


def check_inputs(X: Any, names: Iterable[str], categories: Mapping[str, tuple[str, ...]]) -> None:
    """Raise RecordsError unless these are records with the model's categories.

    Parameters
    ----------
    X : Records
    names : iterable of str
        Attributes that are looked at.
    categories : mapping of attribute to tuple of str
        Those that the model was fitted to.
    """
    if not isinstance(X, Records):
        raise RecordsError(
            f"X: got {type(X).__name__}; Records are needed, as Codebook.encode gives them", X
        )
    for name in names:
        if X.codebook[name].categories != categories[name]:
            raise RecordsError(
                f"attribute {name!r} has other categories than the model was fitted to", X
            )
