"""The best design for a device with equally likely outcomes, as a table for respondents.

A column of P says for a true answer how many of the m outcomes lead to each report.  The outcomes
have an order, so each report takes the next ones in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import ascii_uppercase
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ppdm_dask.designs import RRMatrix
from ppdm_dask.errors import InputError
from ppdm_dask.faces.face import Face, html_table
from ppdm_dask.faces.listing import Listing
from ppdm_dask.ranges import reals
from ppdm_dask.search.lattice import Lattice, lattice_design
from ppdm_dask.shown import given, listed
from ppdm_dask.survey.devices import Wording

if TYPE_CHECKING:
    import pandas as pd
    from markupsafe import Markup
    from matplotlib.axes import Axes

__all__ = ["DeviceDesign", "device_design"]


@dataclass(frozen=True, eq=False, repr=False)
class DeviceDesign(Face):
    """A design that a device makes.

    Parameters
    ----------
    device : str
    design : RRMatrix
    lattice : Lattice
        P in units of the device's outcomes, the certified limit, and whether all such matrices were
        looked at.
    prior : array, shape (n,)
    answers, symbols : tuple of str
        True answers, and what people say.
    cases : tuple of tuple of str
        By true answer, by symbol: when to say it; empty for never.
    text : str
        For respondents: a paragraph, a line for each answer, a sentence.
    """

    device: str
    design: RRMatrix
    lattice: Lattice
    prior: npt.NDArray[np.float64]
    answers: tuple[str, ...]
    symbols: tuple[str, ...]
    cases: tuple[tuple[str, ...], ...]
    text: str

    @property
    def ratio(self) -> float | None:
        """Reports needed over those that the best possible design needs; None if not known."""
        return self.lattice.ratio

    @property
    def max_posterior(self) -> float:
        """Worst posterior at the prior."""
        return self.design.max_posterior(self.prior)

    @property
    def epsilon(self) -> float:
        """Log of the largest likelihood ratio; infinite where a report rules an answer out."""
        return self.design.epsilon()

    def to_frame(self) -> pd.DataFrame:
        """A row for each true answer, a column for each report: when to say it."""
        return self._listing().to_frame()

    def _listing(self) -> Listing:
        columns = zip(self.symbols, zip(*self.cases, strict=True), strict=True)
        return Listing(tuple(columns), ("answer", self.answers))

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the design's matrix on axes of matplotlib."""
        return self.design.plot(ax)

    def _said(self) -> str:
        times = "" if self.ratio is None else f"; {self.ratio:.4g} times the reports of the best"
        return (
            f"DeviceDesign by {self.device}: {len(self.answers)} answers, {len(self.symbols)} "
            f"reports, largest posterior {self.max_posterior:.4g}{times}"
        )

    def _shown(self) -> Iterator[Markup]:
        yield html_table(self._listing())
        yield from self.design._shown()


def device_design(
    prior: npt.ArrayLike | Mapping[str, float],
    device: str,
    *,
    epsilon: float | None = None,
    max_posterior: float | None = None,
    symbols: int | None = None,
    attribute: str = "answer",
    categories: Sequence[str] | None = None,
    question: str | None = None,
    wording: str | Path | None = None,
) -> DeviceDesign:
    """The least-variance design that a device can produce at a privacy, with its instructions.

    Parameters
    ----------
    prior : mapping of label to proportion, or array_like of shape (n,)
        Guessed proportions, none below 1e-6; 2 to 10 categories.
    device : str
        ``coin``, ``two-coins``, ``three-coins``, ``die``, ``number-cards``, ``phone-digit``,
        ``two-dice`` or ``playing-cards``; spaces do as well as hyphens.
    epsilon, max_posterior : float, optional
        Largest log likelihood ratio and largest posterior of any answer; one of them or both.
    symbols : int, optional
        What people may say: as many as answers by default.  More are letters.
    attribute : str
    categories : sequence of str, optional
        Labels of an array's categories; ``0``, ``1``, ... by default.
    question : str, optional
        As people are asked.
    wording : path, optional
        Translated texts: as the package's ``survey/wording.toml``.

    Returns
    -------
    DeviceDesign

    Raises
    ------
    InputError
        One line: parameter, value, and what would be right; also if the device cannot produce a
        design with that privacy.

    Examples
    --------
    >>> import ppdm_dask as pp
    >>> made = pp.device_design({"yes": 0.1, "no": 0.9}, "die", epsilon=1.0)
    >>> made.to_frame().loc["yes"].tolist()
    ['it shows 1 to 4', 'it shows 5 to 6']
    """
    words = Wording(wording)
    name = "-".join(str(device).split())
    if name not in words.tables:
        raise InputError(
            f"device: got {given(device)}; one of {listed(words.tables)} is needed", device
        )
    if isinstance(prior, Mapping):
        answers, p = [str(label) for label in prior], reals("prior", [*prior.values()], 0, 1)
    else:
        p = reals("prior", prior, 0, 1, ndim=1)
        answers = [str(i) for i in range(p.size)] if categories is None else list(categories)
    if len(answers) != p.size:
        raise InputError(f"categories: got {len(answers)} labels; {p.size} are needed", categories)
    outcomes = words.tables[name]["outcomes"]
    lattice = lattice_design(
        p,
        len(outcomes),
        epsilon=epsilon,
        max_posterior=max_posterior,
        symbols=symbols,
    )
    K, n = lattice.counts.shape
    labelled = categories is not None or isinstance(prior, Mapping)
    design = RRMatrix(
        attribute, lattice.P, p0=p if n < K else None, categories=answers if labelled else None
    )
    said = answers if n == K else _letters(K)
    cases = tuple(tuple(_cases(lattice.counts[:, x], name, words)) for x in range(n))
    text = _text(name, words, answers, said, cases, question or f"{attribute}?")
    return DeviceDesign(name, design, lattice, p, tuple(answers), tuple(said), cases, text)


def _letters(K: int) -> list[str]:
    return [ascii_uppercase[i % 26] * (1 + i // 26) for i in range(K)]


def _cases(counts: npt.NDArray[np.int64], device: str, words: Wording) -> Iterator[str]:
    """When to say each symbol; an empty text for never."""
    entry = words.tables[device]
    names, first = entry["outcomes"], 0
    for count in counts.tolist():
        if not count:
            yield ""
        elif count == len(names):
            yield words.instructions["always"]
        else:
            form = entry["one" if count == 1 else "several"]
            yield form.format(first=names[first], last=names[first + count - 1])
        first += count


def _text(
    device: str,
    words: Wording,
    answers: Sequence[str],
    symbols: Sequence[str],
    cases: Sequence[Sequence[str]],
    question: str,
) -> str:
    texts: Any = words.instructions
    lines = [texts["head"].format(prepare=words.tables[device]["prepare"], question=question)]
    for answer, whens in zip(answers, cases, strict=True):
        said = [
            texts["always"].format(symbol=symbol)
            if when == texts["always"]
            else texts["case"].format(symbol=symbol, event=when)
            for symbol, when in zip(symbols, whens, strict=True)
            if when
        ]
        lines.append(texts["answer"].format(answer=answer, cases=texts["between"].join(said)))
    return "\n".join([*lines, texts["end"]])
