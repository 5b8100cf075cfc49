"""One tree of exceptions; each carries the object at fault in ``subject``, in its own process."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any, Self

__all__ = [
    "ClusterError",
    "ClusterUnreachable",
    "CodebookError",
    "ColumnsLeftOut",
    "DataError",
    "DesignError",
    "DisguisedAgain",
    "InputError",
    "MachineError",
    "NotIdentified",
    "NotInvertible",
    "NotLumpable",
    "PPDMError",
    "ProfileError",
    "RecipeError",
    "RecordsError",
    "RunFolderError",
    "RunInterrupted",
]


class PPDMError(Exception):
    """Base class of all exceptions that this package raises itself.

    Parameters
    ----------
    message : str
        One line: what is wrong, where, and what would be right.
    subject : object, optional
        The object at fault (a matrix, a value, a path).
    """

    def __init__(self, message: str, subject: object = None) -> None:
        super().__init__(message)
        self.subject = subject

    row: int | None = None
    """Record of a value at fault, counted over the whole data set from 0."""

    withheld: bool = False
    """Whether the object at fault holds data of records, and so was not kept."""

    told: str | None = None
    """The message without the value at fault; None where the message holds none."""

    @classmethod
    def at(cls, row: int, message: str, subject: object = None, *, told: str) -> Self:
        """Return the error of a value in a record.

        Parameters
        ----------
        row : int
            Position of the record in the whole data set.
        message : str
            One line, with the value.
        subject : object, optional
            The value.
        told : str
            The same line without the value. Only this line leaves the process that read the record.
        """
        error = cls(message, subject)
        error.row, error.told = row, told
        return error

    def without_data(self) -> Self:
        """The same error for other processes, logs and files: without the value."""
        error = type(self)(
            str(self) if self.told is None else self.told,
            self.subject if isinstance(self.subject, PurePath) else None,
        )
        error.row = self.row
        return error

    def __reduce__(self) -> tuple[Any, ...]:
        # What is pickled goes to another process, over a network, or into a log.
        plain = self.without_data()
        return type(plain), (str(plain), plain.subject), {"row": plain.row}


class InputError(PPDMError, ValueError):
    """Invalid user input; the command line exits with 2."""


class _OfData(InputError):
    """About data: carries the one value at fault, or nothing, and never the records around it."""

    def __init__(self, message: str, subject: object = None) -> None:
        single = _is_single(subject)
        super().__init__(message, subject if single else None)
        self.withheld = not single


def _is_single(subject: object) -> bool:
    if isinstance(subject, str | bytes | PurePath):
        return True
    return not any(hasattr(subject, name) for name in ("__len__", "codes", "counts", "frame"))


class CodebookError(_OfData):
    """A codebook that contradicts itself, or a value it does not declare."""


class DataError(_OfData):
    """A data file that is missing, damaged or not what it claims to be."""


class RecordsError(_OfData):
    """Codes that do not fit their codebook or design."""


class DesignError(InputError):
    """A randomization design with impossible parameters."""


class NotInvertible(DesignError):
    """The channel matrix P has no left inverse, so nothing can be estimated."""


class NotLumpable(DesignError):
    """A table cuts through a block whose design does not marginalise."""


class NotIdentified(InputError):
    """A model whose coefficients the data do not determine."""


class RecipeError(InputError):
    """A recipe with an unknown key or an impossible value."""


class ProfileError(InputError):
    """A cluster profile with an unknown key or an impossible value."""


class ClusterError(InputError):
    """A cluster that cannot be reached, or that must not be used as it is."""


class ClusterUnreachable(ClusterError):
    """A cluster that does not answer; in the middle of a run it is tried again."""


class RunFolderError(InputError):
    """A run folder that cannot be written or belongs to another run."""


class MachineError(PPDMError):
    """A fault of the machine, such as a full disk; the command line exits with 3."""


class RunInterrupted(PPDMError):
    """A run that was stopped; the same command resumes it."""


class DisguisedAgain(UserWarning):
    """Answers that were disguised before: several reports of one answer add up."""


class ColumnsLeftOut(UserWarning):
    """Columns of a table that a proposed codebook has no attribute for."""
