"""What a task on raw records may say when it fails: attribute and position, never a value.

Dask logs the exception of a task, with the task's arguments, on the worker and on the scheduler,
and sends it with its traceback.  So these tasks raise nothing: they return a :class:`Refusal`.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from ppdm_dask.errors import PPDMError

__all__ = ["Refusal", "guarded", "opened"]


@dataclass(frozen=True)
class Refusal:
    """Why a task gave no result.

    Parameters
    ----------
    error : PPDMError
        Without any value of the data, and without a traceback.
    """

    error: PPDMError

    @classmethod
    def of(cls, error: Exception, names: Collection[str]) -> Refusal:
        """Keep of an exception what holds no data.

        Parameters
        ----------
        names : collection of str
            Columns and attributes that may be named.
        """
        if isinstance(error, PPDMError) and (
            error.told is not None
            or (error.subject is None and not error.withheld)
            or isinstance(error.subject, PurePath)
            or (isinstance(error.subject, str) and error.subject in names)
        ):
            return cls(error.without_data())
        if isinstance(error, OSError) and error.strerror:
            where = f"{error.filename}: " if error.filename else ""
            return cls(PPDMError(f"{where}{error.strerror}"))
        last = traceback.extract_tb(error.__traceback__)[-1]
        kind = type(error) if isinstance(error, PPDMError) else PPDMError
        return cls(
            kind(
                f"a task on records failed: {type(error).__name__} in {Path(last.filename).name}, "
                f"line {last.lineno}; its message may hold data and stays there, without workers "
                "it is shown"
            )
        )


def guarded(function: Callable[..., Any], names: Collection[str], *arguments: Any) -> Any:
    """What a function returns, or a :class:`Refusal` in place of what it raises.

    An argument that is a refusal itself, or a list that has one, is passed on.
    """
    for argument in arguments:
        for each in argument if isinstance(argument, list) else [argument]:
            if isinstance(each, Refusal):
                return each
    try:
        return function(*arguments)
    except Exception as error:
        return Refusal.of(error, names)


def opened(answer: Any) -> Any:
    """A task's result; raises the error of a refusal."""
    if isinstance(answer, Refusal):
        raise answer.error
    return answer
