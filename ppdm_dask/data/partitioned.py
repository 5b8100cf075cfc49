"""What a design disguises beside coded records: tables, and collections of them by plug-ins.

Rooms above this one may know kinds of answers that the designs do not: a collection of Dask, or
files in partitions; see :mod:`ppdm_dask.data.plugins`.

Also here: what consumers of partitioned reports may rely on; and which answers this process has
disguised already.
"""

from __future__ import annotations

import os
import warnings
import weakref
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from ppdm_dask.data.plugins import plugin
from ppdm_dask.errors import DisguisedAgain
from ppdm_dask.shown import quoted

if TYPE_CHECKING:
    from ppdm_dask.data.codebook import Codebook, Reports

__all__ = [
    "PartitionedReports",
    "Paths",
    "native",
    "notice",
    "opened",
    "plugin",
    "plugin_for",
]

_DASK = ("dask", "distributed")

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


@runtime_checkable
class PartitionedReports(Protocol):
    """Reports in partitions, which are summed up where they are made.

    ``count``, ``estimate`` and learners take what has these.
    """

    @property
    def codebook(self) -> Codebook:
        """Declares the attributes and categories of the truth."""
        ...  # pragma: no cover

    @property
    def npartitions(self) -> int:
        """How many partitions there are, 1 or more."""
        ...  # pragma: no cover

    def reduce(
        self, part: Callable[[Reports], Any], add: Callable[[list[Any]], Any] | None = None
    ) -> Any:
        """Apply a function to the reports of each partition, and add up what it returns.

        Parameters
        ----------
        part : callable
            Can be pickled; returns what has a ``+``, which is small beside the reports.
        add : callable, optional
            Adds up a list of results, in order; by default their ``+``.

        Raises
        ------
        PPDMError
            What `part` or the disguise raises; from a cluster without the value at fault.
        """
        ...  # pragma: no cover


def native(answers: object) -> object:
    """The frame that a frame of narwhals wraps; all else as it is.

    So a collection of Dask is one, and a frame that was disguised before is known again.
    """
    if type(answers).__module__.partition(".")[0] != "narwhals":
        return answers
    return getattr(answers, "to_native", lambda: answers)()


def plugin_for(answers: object) -> Callable[..., Any] | None:
    """What disguises answers that are no table in memory; None for those that are one.

    These are collections of Dask, lists of its delayed values, paths, and lists of paths.
    """
    several = isinstance(answers, list | tuple) and len(answers) > 0
    for each in answers if several else [answers]:  # type: ignore[attr-defined]
        package = type(each).__module__.partition(".")[0]
        if not (isinstance(each, str | os.PathLike) or package in _DASK):
            return None
    return plugin("dask")


def opened(reports: Any) -> Any:
    """Reports, or in place of paths what reads them: folders of parts, files and patterns."""
    several = isinstance(reports, list | tuple) and len(reports) > 0
    if all(isinstance(each, str | os.PathLike) for each in (reports if several else [reports])):
        return plugin("files")(reports)
    return reports


# -- the same answers again ------------------------------------------------------------------------

_disguised: dict[tuple[Hashable, str], int] = {}


def notice(source: object, attributes: Iterable[str]) -> None:
    """Remember that answers were disguised for real; warn where they were before.

    Parameters
    ----------
    source : object
        A hashable name that says what the answers are, such as Dask's token of a collection; or a
        table, which is known again as long as it exists, and only as the same object.
    attributes : iterable of str
        Attributes that are disguised.
    """
    if isinstance(source, str | tuple):
        key: Hashable = source
    else:
        key = id(source)
        try:
            weakref.finalize(source, partial(_forget, key)).atexit = False
        except TypeError:  # a dict, which could be another one under the same number later
            return
    again = []
    for name in attributes:
        before = _disguised.get((key, name), 0)
        _disguised[key, name] = before + 1
        if before:
            again.append(name)
    if again:
        warnings.warn(
            DisguisedAgain(
                f"the answers to {quoted(again)} were disguised before in this process; several "
                "reports of one answer add up and give it away: use the first reports again, and "
                "delete the others"
            ),
            stacklevel=4,
        )


def _forget(key: Hashable) -> None:
    for each in [each for each in _disguised if each[0] == key]:
        del _disguised[each]
