"""What is certain under any matrix: its rows are looked through."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from ppdm_dask.certainty.sentences import (
    NEARLY,
    NEGLIGIBLE,
    ROUNDING,
    SHOWN,
    Certainty,
    Degree,
    Words,
    degree_of,
    listed,
    percent,
    worst_of,
)

__all__ = ["of_matrix"]

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Booleans = npt.NDArray[np.bool_]

DEGREES: tuple[tuple[Degree, float], ...] = (
    ("certain", NEGLIGIBLE),
    ("nearly", 1 - NEARLY - ROUNDING),
)
"""What a report leaves to the categories that it hardly allows."""


def of_matrix(words: Words, P: Floats) -> Iterator[Certainty]:
    """What the reports of a block make certain, P given."""
    names, shape = words.block.attributes, words.block.shape
    rows = np.flatnonzero(P.max(axis=1) > NEGLIGIBLE)
    share = P[rows] / P[rows].sum(axis=1, keepdims=True)
    revealed: dict[str, Degree] = {}
    for axis, name in enumerate(names):
        others = tuple(1 + i for i in range(len(names)) if i != axis)
        for found in _of_attribute(words, name, rows, share.reshape(-1, *shape).sum(axis=others)):
            if found.gives_away and not found.labels:
                revealed[name] = found.degree
            yield found
    told = np.zeros(len(rows), bool)
    for degree, negligible in DEGREES:
        allowed = _allowed(share, negligible)
        classes = _components(allowed)
        # Attributes that are given away are a function of the answers, which has been said.
        said = [n for n, how in revealed.items() if how == "certain" or degree == "nearly"]
        if classes.max() + 1 > math.prod(shape[names.index(name)] for name in said):
            yield words.function(degree, _which(words, classes))
            return
        for i in np.flatnonzero(~told).tolist():
            if len(names) > 1 and _is_relation(allowed[i], shape):
                told[i] = True
                yield _relation(words, int(rows[i]), allowed[i], degree)


def _of_attribute(words: Words, name: str, rows: Integers, share: Floats) -> Iterator[Certainty]:
    if share.shape[1] == 1:
        return
    best, value = share.argmax(axis=1), share.max(axis=1)
    degrees = [degree_of(float(v)) for v in value]
    if (worst := worst_of(degrees)) is not None:
        yield words.whole([name], worst, float(value.min()))
        return
    for degree in ("certain", "nearly", "likely"):
        for code in range(share.shape[1]):
            told = [i for i, d in enumerate(degrees) if d == degree and best[i] == code]
            if told:
                reports = [words.report(int(rows[i])) for i in told]
                yield words.one_label(name, code, degree, float(value[told].min()), reports)
    if share.shape[1] > 2:
        yield from _ruled_out(words, name, rows, share <= NEGLIGIBLE, degrees)


def _ruled_out(
    words: Words, name: str, rows: Integers, out: Booleans, degrees: Sequence[Degree | None]
) -> Iterator[Certainty]:
    told = [i for i, degree in enumerate(degrees) if degree != "certain" and out[i].any()]
    for i in told[:SHOWN]:
        codes = np.flatnonzero(out[i]).tolist()
        labels = listed([words.label(name, code) for code in codes], "and")
        yield words.ruled_out(name, codes, f"{words.report(int(rows[i]))} rules out {labels}")
    if len(told) > SHOWN:
        codes = np.flatnonzero(out[told[SHOWN:]].any(axis=0)).tolist()
        more = len(told) - SHOWN
        yield words.ruled_out(name, codes, f"of {more:,} other kinds rules out answers too")


def _which(words: Words, classes: Integers) -> str:
    """The function whose values are some classes of joint categories."""
    names, shape = words.block.attributes, words.block.shape
    if len(names) == 2 and words.labels[names[0]] == words.labels[names[1]]:
        equal = np.eye(shape[0], dtype=np.int64).ravel()
        if (equal == classes).all() or (1 - equal == classes).all():
            return f"whether {names[0]!r} and {names[1]!r} are equal"
    groups = [
        listed([words.answer(int(x)) for x in np.flatnonzero(classes == c)])
        for c in range(min(int(classes.max()) + 1, SHOWN))
    ]
    if (more := int(classes.max()) + 1 - SHOWN) > 0:
        groups.append(f"{more:,} more")
    return f"which of these holds of {words.names()}: {' | '.join(groups)}"


def _is_relation(allowed: Booleans, shape: Sequence[int]) -> bool:
    """Whether few of the combinations of the labels that are allowed are allowed themselves."""
    codes = np.unravel_index(np.flatnonzero(allowed), shape)
    return 2 * int(allowed.sum()) <= math.prod(len(np.unique(code)) for code in codes)


def _relation(words: Words, y: int, allowed: Booleans, degree: Degree) -> Certainty:
    answers = listed([words.answer(int(x)) for x in np.flatnonzero(allowed)])
    sure = "certain" if degree == "certain" else f"{percent(NEARLY)} likely"
    text = f"a report {words.report(y)} makes it {sure} that {words.names()} are {answers}"
    return Certainty(degree, words.block.attributes, (), text)


def _allowed(share: Floats, negligible: float) -> Booleans:
    """Categories of each report but the least likely ones, whose shares sum to `negligible`."""
    ascending = np.sort(share, axis=1)
    left_out = np.cumsum(ascending, axis=1) <= negligible
    least = np.take_along_axis(ascending, left_out.sum(axis=1)[:, None], axis=1)
    # Categories that are equally likely are allowed together.
    allowed: Booleans = share >= least * (1 - ROUNDING)
    return allowed


def _components(allowed: Booleans) -> Integers:
    """Component of each category in the graph of reports and the categories that they allow.

    A category that no report allows joins the largest: it hardly ever comes up.
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    m, n = allowed.shape
    y, x = np.nonzero(allowed)
    graph = csr_array((np.ones(len(y)), (y, m + x)), shape=(m + n, m + n))
    found = connected_components(graph, directed=False)[1]
    classes = found[m:].astype(np.int64)
    alone = ~np.isin(classes, found[:m])
    if alone.any():
        classes[alone] = np.bincount(classes[~alone]).argmax()
    result: Integers = np.unique(classes, return_inverse=True)[1].astype(np.int64)
    return result
