"""One tree of exceptions; each carries the object at fault in ``subject``."""

from __future__ import annotations

from typing import Self

__all__ = [
    "ClusterError",
    "ClusterUnreachable",
    "CodebookError",
    "DataError",
    "DesignError",
    "InputError",
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
    """Base of every exception raised on purpose by this package.

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

    def __reduce__(self) -> tuple[type[PPDMError], tuple[str, object]]:
        # Errors cross process boundaries; the subject must come along.
        return type(self), (str(self), self.subject)


class InputError(PPDMError, ValueError):
    """Something the user gave and can mend; the command line exits with 2."""


class CodebookError(InputError):
    """A codebook that contradicts itself, or a value it does not declare.

    Attributes
    ----------
    row : int or None
        Where a value is at fault: its record, counted over the whole data set from 0.
    """

    row: int | None = None

    @classmethod
    def at(cls, row: int, message: str, subject: object = None) -> Self:
        """Return the error of a value in a record."""
        error = cls(message, subject)
        error.row = row
        return error


class DataError(InputError):
    """A data file that is missing, damaged or not what it claims to be."""


class RecordsError(InputError):
    """Codes that do not fit their codebook or design."""


class DesignError(InputError):
    """A randomization design with impossible parameters."""


class NotInvertible(DesignError):
    """The channel matrix P has no left inverse, so nothing can be estimated."""


class NotLumpable(DesignError):
    """A table cuts through a block whose design does not marginalise."""


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


class RunInterrupted(PPDMError):
    """A run that was stopped; the same command resumes it."""
