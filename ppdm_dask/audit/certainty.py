"""What single reports make certain: answers, and functions of several answers, by label.

All of this is about one block. It uses the share of a category x in a report y, ``P[y, x] / sum
over x of P[y, x]``: the probability of x after y if all joint categories of the block were equally
likely before.

- A report makes a label *certain* if its share is 1 (but for `NEGLIGIBLE`), *nearly certain* above
  `NEARLY`, and *likely* above `LIKELY`.  What is certain is certain for every prior under which the
  report is possible.
- A report *rules out* a label of an attribute with more than two of them if its share is 0.
- The reports *give away* a function of the block's answers if each report is possible for only one
value of the function.  The finest such function has as its values the connected components of a
graph that joins each category to the reports that allow it.
- A single report gives away a *relation* between attributes if it allows at most half of the
  combinations of the labels that it allows.

A report allows all categories but the least likely ones, whose shares sum to `NEGLIGIBLE`, or to
1 - `NEARLY`.  Reports that are less likely than `NEGLIGIBLE` for every answer are ignored.
Families with structure have closed forms; the matrix of others is looked through row by row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ppdm_dask.arrays import Bools, Floats, Ints
from ppdm_dask.designs.flip import Flip
from ppdm_dask.designs.matrix import RRMatrix
from ppdm_dask.designs.mixture import Mixture
from ppdm_dask.designs.sets import SetDesign
from ppdm_dask.designs.subset import SubsetSelection
from ppdm_dask.designs.unary import UnaryEncoding
from ppdm_dask.distributions import binomial_law
from ppdm_dask.shown import shown

if TYPE_CHECKING:
    from ppdm_dask.designs.base import Design

__all__ = ["Certainty", "certainties"]


Labels = Mapping[str, Sequence[str]]
Degree = Literal["certain", "nearly", "likely", "ruled out"]

NEGLIGIBLE = 1e-9
"""Probability that counts as none."""

NEARLY = 0.99
LIKELY = 0.95
"""Shares above which an answer is nearly certain, and likely."""

ROUNDING = 1e-12

SHOWN = 4
"""Reports, labels or classes that a sentence lists."""

LONGEST = 60
"""Characters of a label that a sentence shows."""


@dataclass(frozen=True)
class Certainty:
    """What reports make certain, or rule out.

    Parameters
    ----------
    degree : {"certain", "nearly", "likely", "ruled out"}
        A disguise must not give away the first two without consent.
    attributes : tuple of str
        One, or several where it is a function of several answers.
    labels : tuple of str
        Labels of the one attribute; none for all of them, or for a function.
    sentence : str
    """

    degree: Degree
    attributes: tuple[str, ...]
    labels: tuple[str, ...]
    sentence: str

    @property
    def gives_away(self) -> bool:
        """Whether an answer is certain or nearly so."""
        return self.degree in ("certain", "nearly")

    def accepted(self, names: Iterable[str]) -> bool:
        """Whether names of attributes, labels, or ``attribute=label`` allow all of it."""
        known = set(names)
        if known.issuperset(self.attributes):
            return True
        return bool(self.labels) and all(
            label in known or f"{self.attributes[0]}={label}" in known for label in self.labels
        )

    def names(self) -> set[str]:
        """All that :meth:`accepted` takes."""
        return {*self.attributes, *self.labels, *(f"{self.attributes[0]}={x}" for x in self.labels)}


def degree_of(share: float) -> Degree | None:
    """How certain an answer of a share is; None if it is not even likely."""
    if share >= 1 - NEGLIGIBLE:
        return "certain"
    # 99 to 1 is not yet above it, however the share was rounded.
    if share > NEARLY + ROUNDING:
        return "nearly"
    return "likely" if share > LIKELY + ROUNDING else None


def worst_of(degrees: Iterable[Degree | None]) -> Degree | None:
    """What holds of all reports: the lower of "certain" and "nearly"; None if one has neither."""
    found = set(degrees)
    if not found or found - {"certain", "nearly"}:
        return None
    return "nearly" if "nearly" in found else "certain"


def percent(share: float) -> str:
    """A share, rounded down: 100 % would be certain."""
    return f"{math.floor(1000 * share + 1e-6) / 10:.1f} %"


def listed(texts: Sequence[str], word: str = "or") -> str:
    """Some texts, such as ``a, b or c``; of many the first few and the number of the others."""
    if len(texts) > SHOWN:
        return f"{', '.join(texts[:SHOWN])} {word} {len(texts) - SHOWN:,} more"
    return f" {word} ".join(filter(None, [", ".join(texts[:-1]), texts[-1]]))


def _quoted(text: str) -> str:
    said = repr(text)
    return said if len(said) <= LONGEST else f"{said[: LONGEST - 3]}..."


class Words:
    """How the categories and reports of a block are called.

    Parameters
    ----------
    block : Design
    labels : mapping of attribute to labels
        In the order of the design's categories; of others, those that the design states, else
        numbers.
    """

    def __init__(self, block: Design, labels: Labels) -> None:
        self.block = block
        stated = zip(block.attributes, block.categories, block.shape, strict=True)
        self.labels: dict[str, list[str]] = {
            name: list(labels.get(name) or known or map(str, range(size)))
            for name, known, size in stated
        }

    def names(self) -> str:
        """Attributes of the block."""
        return listed([shown(name) for name in self.block.attributes], "and")

    def label(self, name: str, code: int) -> str:
        """A category of an attribute."""
        return _quoted(self.labels[name][code])

    def answer(self, x: int) -> str:
        """A joint category of the block."""
        codes = np.unravel_index(x, self.block.shape)
        pairs = zip(self.block.attributes, codes, strict=True)
        texts = [self.label(name, int(code)) for name, code in pairs]
        return texts[0] if len(texts) == 1 else f"({', '.join(texts)})"

    def report(self, y: int) -> str:
        """A report of the block: as a category where it has the categories of the truth."""
        return self.answer(y) if self.block.reported_shape == self.block.shape else str(y)

    def one_label(
        self, name: str, code: int, degree: Degree, share: float, reports: Sequence[str]
    ) -> Certainty:
        """Some reports make a label certain, nearly so, or likely."""
        said = "certain" if degree == "certain" else f"{percent(share)} likely"
        text = (
            f"a report {listed(reports)} makes {self.label(name, code)} {said} (on {shown(name)})"
        )
        return Certainty(degree, (name,), (self.labels[name][code],), text)

    def any_label(self, name: str, degree: Degree, share: float, report: str) -> Certainty:
        """Reports of a form make the label that they speak of certain, nearly so, or likely."""
        said = "certain" if degree == "certain" else f"{percent(share)} likely"
        text = f"a report {report} makes that answer {said} (on {shown(name)})"
        return Certainty(degree, (name,), tuple(self.labels[name]), text)

    def whole(self, names: Sequence[str], degree: Degree, share: float) -> Certainty:
        """Every report gives away attributes."""
        sure = "for certain" if degree == "certain" else f"with {percent(share)} or more"
        quoted = listed([shown(name) for name in names], "and")
        return Certainty(
            degree, tuple(names), (), f"every report gives away the answer to {quoted} {sure}"
        )

    def function(self, degree: Degree, what: str) -> Certainty:
        """Every report gives away a function of the block's answers."""
        sure = "for certain" if degree == "certain" else f"with {percent(NEARLY)} or more"
        text = f"every report gives away {sure} {what}"
        return Certainty(degree, self.block.attributes, (), text)

    def ruled_out(self, name: str, codes: Sequence[int], what: str) -> Certainty:
        """A report rules out labels."""
        labels = tuple(self.labels[name][code] for code in codes)
        return Certainty("ruled out", (name,), labels, f"a report {what} (on {shown(name)})")


def of_mixture(words: Words, block: Mixture) -> Iterator[Certainty]:
    """Of ``q I + (1 - q) r 1^T``: a report speaks for its own labels, or against them if q < 0.

    Of all reports with a label, the one least likely to be drawn otherwise tells most.  With
    ``w = (1 - q) n r`` for it, the label's share is ``(q + w / k) / (q + w)``.
    """
    q = block.mixing
    if q < 0:  # one attribute with r uniform; no other family has a negative q
        yield from _against_itself(words, block)
        return
    told = False
    for axis, (name, law) in enumerate(zip(block.attributes, block.factors, strict=True)):
        others = [r for i, r in enumerate(block.factors) if i != axis]
        if law.size == 1:
            continue
        most, least = (_shares(q, law, others, end) for end in (np.min, np.max))
        if (worst := worst_of(degree_of(float(s)) for s in least)) is not None:
            told = True
            yield words.whole([name], worst, float(least.min()))
            continue
        for code, share in enumerate(most.tolist()):
            if (degree := degree_of(share)) is not None:
                told = True
                yield words.one_label(name, code, degree, share, [words.label(name, code)])
    if len(block.attributes) > 1 and not told:
        w = (1 - q) * math.prod(float(r.min()) * r.size for r in block.factors)
        if q + w / 2 > NEARLY * (q + w):
            yield words.function("nearly", f"which half of all combinations {words.names()} are in")


def _shares(q: float, law: Floats, others: Sequence[Floats], end: Callable[..., Any]) -> Floats:
    """Share of each label in the report of it with the others' labels at one end of their laws."""
    k = law.size
    w = (1 - q) * law * k * math.prod(float(end(r)) * r.size for r in others)
    occurs = q + (1 - q) * law * math.prod(float(end(r)) for r in others) > NEGLIGIBLE
    shares: Floats = np.divide(q + w / k, q + w, out=np.full(k, 1 / k), where=occurs)
    return shares


def _against_itself(words: Words, block: Mixture) -> Iterator[Certainty]:
    name, k, q = block.attributes[0], block.n_true, block.mixing
    own, other = q + (1 - q) / k, (1 - q) / k
    share = other / (own + (k - 1) * other)
    degree = degree_of(share) if k == 2 else None
    if (worst := worst_of([degree])) is not None:
        yield words.whole([name], worst, share)
    elif degree is not None:
        for code in range(2):
            yield words.one_label(name, code, degree, share, [words.label(name, 1 - code)])
    elif k > 2 and own <= NEGLIGIBLE * other * k:
        yield words.ruled_out(name, range(k), "rules out the answer that it names")


def of_flip(words: Words, block: Flip) -> Iterator[Certainty]:
    """Of several attributes: a report is the whole truth or its opposite, and tells which agree."""
    share = max(block.theta, 1 - block.theta)
    worst = worst_of([degree_of(share)])
    if worst is not None:
        yield words.whole(block.attributes, worst, share)
    if worst != "certain":
        yield words.function(
            "certain", f"which answers to {words.names()} agree: all are as reported, or none is"
        )


def of_sets(words: Words, block: SetDesign) -> Iterator[Certainty]:
    """Within a report all answers inside are alike, and so are all outside."""
    name, k = block.attributes[0], block.shape[0]
    often, inside, outside = _odds(block)
    sizes = np.flatnonzero(often > NEGLIGIBLE)
    told = []
    for m, odds, form in ((1, inside, "that holds one answer"), (k - 1, outside, "of all but one")):
        share = odds / (m * inside + (k - m) * outside) if odds else 0.0
        degree = degree_of(share)
        if m in sizes and degree is not None:
            told.append((m, words.any_label(name, degree, share, form), share))
    worst = worst_of(found.degree for _, found, _ in told)
    if worst is not None and {m for m, _, _ in told} == set(sizes.tolist()):
        yield words.whole([name], worst, min(share for _, _, share in told))
        return
    yield from (found for _, found, _ in told)
    partly = bool(((sizes > 0) & (sizes < k)).any())
    if k > 2 and partly and outside <= NEGLIGIBLE * inside:
        yield words.ruled_out(name, range(k), "rules out the answers that it does not hold")
    elif k > 2 and partly and inside <= NEGLIGIBLE * outside:
        yield words.ruled_out(name, range(k), "rules out the answers that it holds")


def _odds(block: SetDesign) -> tuple[Floats, float, float]:
    """How often a report has each size, 0 to k; and the odds of an answer inside and outside."""
    k = block.shape[0]
    m = np.arange(k + 1)
    if isinstance(block, SubsetSelection):
        s = block.size
        return (m == s).astype(float), block.p * (k - s), (1 - block.p) * s
    if isinstance(block, UnaryEncoding):
        p, q = block.p, block.q
        often = p * binomial_law(m - 1, k - 1, q) + (1 - p) * binomial_law(m, k - 1, q)
        return often, p * (1 - q), (1 - p) * q
    raise NotImplementedError(type(block).__name__)


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


def _of_attribute(words: Words, name: str, rows: Ints, share: Floats) -> Iterator[Certainty]:
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
    words: Words, name: str, rows: Ints, out: Bools, degrees: Sequence[Degree | None]
) -> Iterator[Certainty]:
    told = [i for i, degree in enumerate(degrees) if degree != "certain" and out[i].any()]
    for i in told[:SHOWN]:
        codes = np.flatnonzero(out[i]).tolist()
        labels = listed([words.label(name, code) for code in codes], "and")
        yield words.ruled_out(name, codes, f"{words.report(int(rows[i]))} rules out {labels}")
    if len(told) > SHOWN:
        codes = np.flatnonzero(out[told[SHOWN:]].any(axis=0)).tolist()
        more = len(told) - SHOWN
        kinds = "kind" if more == 1 else "kinds"
        yield words.ruled_out(name, codes, f"of {more:,} other {kinds} rules out answers too")


def _which(words: Words, classes: Ints) -> str:
    """The function whose values are some classes of joint categories."""
    names, shape = words.block.attributes, words.block.shape
    if len(names) == 2 and words.labels[names[0]] == words.labels[names[1]]:
        equal = np.eye(shape[0], dtype=np.int64).ravel()
        if (equal == classes).all() or (1 - equal == classes).all():
            return f"whether {shown(names[0])} and {shown(names[1])} are equal"
    groups = [
        listed([words.answer(int(x)) for x in np.flatnonzero(classes == c)])
        for c in range(min(int(classes.max()) + 1, SHOWN))
    ]
    if (more := int(classes.max()) + 1 - SHOWN) > 0:
        groups.append(f"{more:,} more")
    return f"which of these holds of {words.names()}: {' | '.join(groups)}"


def _is_relation(allowed: Bools, shape: Sequence[int]) -> bool:
    """Whether few of the combinations of the labels that are allowed are allowed themselves."""
    codes = np.unravel_index(np.flatnonzero(allowed), shape)
    return 2 * int(allowed.sum()) <= math.prod(len(np.unique(code)) for code in codes)


def _relation(words: Words, y: int, allowed: Bools, degree: Degree) -> Certainty:
    answers = listed([words.answer(int(x)) for x in np.flatnonzero(allowed)])
    sure = "certain" if degree == "certain" else f"{percent(NEARLY)} likely"
    text = f"a report {words.report(y)} makes it {sure} that {words.names()} are {answers}"
    return Certainty(degree, words.block.attributes, (), text)


def _allowed(share: Floats, negligible: float) -> Bools:
    """Categories of each report but the least likely ones, whose shares sum to `negligible`."""
    # The sum counts, not single shares: many small ones together may be an answer that occurs.
    ascending = np.sort(share, axis=1)
    left_out = np.cumsum(ascending, axis=1) <= negligible
    least = np.take_along_axis(ascending, left_out.sum(axis=1)[:, None], axis=1)
    # Categories that are equally likely are allowed together.
    allowed: Bools = share >= least * (1 - ROUNDING)
    return allowed


def _components(allowed: Bools) -> Ints:
    """Component of each category in the graph of reports and the categories that they allow.

    A category that no report allows joins the largest: it hardly ever comes up.
    """
    m, n = allowed.shape
    y, x = np.nonzero(allowed)
    # Each category and report takes the smallest number that it is joined to, until none changes.
    classes, rows = np.arange(n), np.full(m, n)
    while True:
        np.minimum.at(rows, y, classes[x])
        before = classes.copy()
        np.minimum.at(classes, x, rows[y])
        classes = classes[classes]  # numbers of categories: halves the way to the smallest
        if (classes == before).all():
            break
    alone = ~allowed.any(axis=0)
    if alone.any():
        classes[alone] = np.bincount(classes[~alone]).argmax()
    result: Ints = np.unique(classes, return_inverse=True)[1].astype(np.int64)
    return result


MAX_ENTRIES = 1 << 22
"""Entries of a matrix that is made to be looked through."""

ORDER = ("certain", "nearly", "likely", "ruled out")


def certainties(design: Design, labels: Labels | None = None) -> list[Certainty]:
    """What reports make certain of the answers behind them.

    Parameters
    ----------
    design : Design
    labels : mapping of attribute to labels, optional
        In the order of the design's categories; those that the design states by default, else
        numbers.

    Returns
    -------
    list of Certainty
        Block by block: what is certain, nearly so, likely, and ruled out.  If a block has no closed
        form and is too large to enumerate, it counts as nearly certain.
    """
    found: list[Certainty] = []
    for block in design.blocks:
        if block.n_true > 1:
            each = _of_block(Words(block, labels or {}), block)
            found += sorted(each, key=lambda one: ORDER.index(one.degree))
    return found


def _of_block(words: Words, block: Design) -> Iterator[Certainty]:
    several = len(block.attributes) > 1
    if isinstance(block, SubsetSelection | UnaryEncoding):
        return of_sets(words, block)
    if isinstance(block, Mixture) and not (several and _is_small(block)):
        return of_mixture(words, block)
    if isinstance(block, Flip) and len(block.attributes) > 2:
        return of_flip(words, block)
    if _is_small(block):
        return of_matrix(words, block.matrix())
    why = f"{words.names()}: the block is too large to tell what is certain"
    return iter([Certainty("nearly", block.attributes, (), why)])


def _is_small(block: Design) -> bool:
    if isinstance(block, RRMatrix):  # it is there already
        return True
    if isinstance(block, SetDesign) and block.n_true > 20:
        return False
    return block.n_true * block.n_reported <= MAX_ENTRIES


def bare_attributes(design: Design) -> tuple[str, ...]:
    """Attributes whose reported column is the truth, but for a probability of `NEGLIGIBLE`.

    The design hides nothing of them.  A column that tells the truth in another code is none of
    them, as it may not be passed on for the truth.
    """
    return tuple(
        name
        for block in design.blocks
        for axis, name in enumerate(block.attributes)
        if block.shape[axis] > 1 and _is_bare(block, axis)
    )


def undisguised_attributes(design: Design, names: Iterable[str]) -> tuple[str, ...]:
    """Those of some attributes that stand in reports as they are: bare, or none of the design's."""
    bare = bare_attributes(design)
    return tuple(name for name in names if name in bare or name not in design.attributes)


def _is_bare(block: Design, axis: int) -> bool:
    size = block.shape[axis]
    if block.kind == "set" or block.reported_shape[axis] != size:
        return False
    if isinstance(block, Mixture):
        return 1 - block.mixing <= NEGLIGIBLE
    if isinstance(block, Flip):
        return 1 - block.theta <= NEGLIGIBLE
    if not _is_small(block):
        return False
    P = block.matrix()
    reported, true = (
        np.arange(math.prod(shape)) // math.prod(shape[axis + 1 :]) % size
        for shape in (block.reported_shape, block.shape)
    )
    wrong = np.where(reported[:, None] == true, 0.0, P).sum(axis=0)
    return bool(wrong.max() <= NEGLIGIBLE)
