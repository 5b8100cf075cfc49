"""What is certain of an answer, in one plain sentence."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    from ppdm_dask.designs.base import Design

__all__ = [
    "LIKELY",
    "NEARLY",
    "NEGLIGIBLE",
    "ROUNDING",
    "Certainty",
    "Degree",
    "Labels",
    "Words",
    "degree_of",
    "listed",
    "percent",
    "worst_of",
]

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
        The first two are what a disguise must not give away unasked.
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
    shown = repr(text)
    return shown if len(shown) <= LONGEST else f"{shown[: LONGEST - 3]}..."


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
        return listed([repr(name) for name in self.block.attributes], "and")

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
        text = f"a report {listed(reports)} makes {self.label(name, code)} {said} (on {name!r})"
        return Certainty(degree, (name,), (self.labels[name][code],), text)

    def any_label(self, name: str, degree: Degree, share: float, report: str) -> Certainty:
        """Reports of a form make the label that they speak of certain, nearly so, or likely."""
        said = "certain" if degree == "certain" else f"{percent(share)} likely"
        text = f"a report {report} makes that answer {said} (on {name!r})"
        return Certainty(degree, (name,), tuple(self.labels[name]), text)

    def whole(self, names: Sequence[str], degree: Degree, share: float) -> Certainty:
        """Every report gives away attributes."""
        sure = "for certain" if degree == "certain" else f"with {percent(share)} or more"
        quoted = listed([repr(name) for name in names], "and")
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
        return Certainty("ruled out", (name,), labels, f"a report {what} (on {name!r})")
