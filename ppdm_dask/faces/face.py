"""A result in a line, and the same with tables and pictures in a notebook.

Labels are users' data.  All HTML is escaped here, and it loads nothing else.  Tables have the
colours of the notebook, light or dark; pictures are on white.
"""

from __future__ import annotations

import base64
import io
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from markupsafe import Markup, escape

from ppdm_dask.drawing.style import styled
from ppdm_dask.faces.listing import Listing
from ppdm_dask.shown import cut, printable

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

__all__ = [
    "MOST_ROWS",
    "WIDEST",
    "Face",
    "block",
    "brief",
    "html_table",
    "interval_table",
    "names_of",
    "picture",
    "sparks",
]

WIDEST = 160
"""Characters of a ``repr``."""

MOST_ROWS = 60
"""Rows of a table in a notebook; of a longer one the first."""

LONGEST_CELL = 80
"""Characters of a cell of a table."""

NAME = 24
"""Characters of a name or label in a ``repr``."""

# A class of our own, since a style in a notebook is the whole page's.
STYLE = Markup(
    "<style>"
    ".ppdm-face{font-size:13px;line-height:1.4;overflow-x:auto}"
    ".ppdm-face p{margin:.2em 0 .5em}"
    ".ppdm-face table{border-collapse:collapse;border:0;margin:0 0 .6em;color:inherit;"
    "background:none}"
    ".ppdm-face th,.ppdm-face td{padding:.15em .7em;border:0;text-align:left;color:inherit;"
    "background:none;font-variant-numeric:tabular-nums}"
    ".ppdm-face th{font-weight:600;border-bottom:1px solid currentColor}"
    ".ppdm-face tr+tr td{border-top:1px solid rgba(128,128,128,.3)}"
    ".ppdm-face .n{text-align:right}"
    ".ppdm-face img{max-width:100%;background:#fff;border-radius:4px;padding:4px}"
    "</style>"
)


def brief(*lines: str) -> str:
    r"""One or two lines for a ``repr``: at most 160 characters, without control characters.

    Examples
    --------
    >>> brief("Codebook  of 2\nattributes")
    'Codebook of 2 attributes'
    """
    texts = [printable(" ".join(line.split())) for line in lines[:2] if line]
    if len(texts) < 2:
        return cut(texts[0] if texts else "", WIDEST)
    first = cut(texts[0], WIDEST - 40)
    return f"{first}\n{cut(texts[1], WIDEST - 1 - len(first))}"


def names_of(names: Iterable[Any], room: int = 60) -> str:
    """Names for a ``repr``: as many of the first as there is room for, then how many more.

    Examples
    --------
    >>> names_of(["age", "sex", "income"], room=10)
    'age, sex and 1 more'
    """
    texts = [cut(str(name), NAME) for name in names]
    kept: list[str] = []
    for text in texts:
        if kept and len(", ".join([*kept, text])) > room:
            break
        kept.append(text)
    more = len(texts) - len(kept)
    return ", ".join(kept) + (f" and {more:,} more" if more else "")


class Face(ABC):
    """What has a short ``repr`` and, in a notebook, tables and small pictures.

    :meth:`_said` returns a line that describes the result; :meth:`_shown` returns what a notebook
    shows below that line.  Neither may hold the answers of a person.
    """

    @abstractmethod
    def _said(self) -> str: ...

    def _shown(self) -> Iterator[Markup]:
        return iter(())

    def __repr__(self) -> str:
        return brief(*self._said().split("\n", 1))

    def _repr_html_(self) -> str:
        return block(self._said(), *self._shown())


def block(said: str, *parts: Markup) -> str:
    """HTML of one result: a line, and parts that are HTML already."""
    # The classes keep a notebook from reading a dollar sign in a label as a formula.
    head = Markup("<p>{}</p>").format(Markup("<br>").join(map(_clean, said.splitlines())))
    return str(
        Markup('<div class="ppdm-face tex2jax_ignore mathjax_ignore">{}{}{}</div>').format(
            STYLE, head, Markup("").join(parts)
        )
    )


def _clean(text: str) -> Markup:
    return escape(printable(text))


def html_table(
    table: Listing | pd.DataFrame, *, index: bool = False, drawn: Sequence[Markup] | None = None
) -> Markup:
    """HTML of a table, every label escaped; the first 60 rows.

    Parameters
    ----------
    table : Listing, or DataFrame of pandas
    index : bool
        Whether the index of a frame is a column too.
    drawn : sequence of Markup, optional
        A picture for each row shown, in the last column.
    """
    found = table.lists() if isinstance(table, Listing) else _lists_of(table, index)
    more = len(table) - MOST_ROWS
    columns = [(name, values[:MOST_ROWS]) for name, values in found]
    numeric = [all(_is_number(value) for value in values) for _, values in columns]
    kinds = [Markup(' class="n"') if right else Markup("") for right in numeric]
    head = Markup("").join(
        Markup("<th{}>{}</th>").format(kind, _cell(name))
        for kind, (name, _) in zip(kinds, columns, strict=True)
    )
    rows = []
    for i in range(min(len(table), MOST_ROWS)):
        cells = Markup("").join(
            Markup("<td{}>{}</td>").format(kind, _cell(values[i]))
            for kind, (_, values) in zip(kinds, columns, strict=True)
        )
        last = Markup("<td>{}</td>").format(drawn[i]) if drawn is not None else ""
        rows.append(Markup("<tr>{}{}</tr>").format(cells, last))
    if drawn is not None:
        head += Markup("<th></th>")
    left = Markup("<p>{:,} more rows</p>").format(more) if more > 0 else ""
    return Markup("<table><thead><tr>{}</tr></thead><tbody>{}</tbody></table>{}").format(
        head, Markup("").join(rows), left
    )


def _lists_of(frame: pd.DataFrame, index: bool) -> list[tuple[str, list[Any]]]:
    """Columns of a frame; names of its index may be those of columns, or None."""
    levels = range(frame.index.nlevels) if index else ()
    named = [
        (frame.index.get_level_values(i).name, frame.index.get_level_values(i)) for i in levels
    ]
    columns = [("" if name is None else str(name), level.tolist()) for name, level in named]
    return columns + [
        (str(name), frame.iloc[:, i].tolist()) for i, name in enumerate(frame.columns)
    ]


def _is_absent(value: Any) -> bool:
    return value is None or type(value).__name__ == "NAType"  # pandas' own


def _is_number(value: Any) -> bool:
    return _is_absent(value) or isinstance(value, int | float)


def _cell(value: Any) -> Markup:
    if _is_absent(value):
        return Markup("")
    if isinstance(value, bool):
        return Markup("yes" if value else "no")
    if isinstance(value, int):
        return Markup(f"{value:,}")
    if isinstance(value, float):
        return Markup("undefined" if math.isnan(value) else f"{value:.4g}")
    if isinstance(value, tuple | list):
        return _clean(cut(", ".join(map(str, value)), LONGEST_CELL))
    return _clean(cut(str(value), LONGEST_CELL))


SPARK = 150, 14
"""Width and height of the picture of an interval, in pixels."""


def sparks(
    values: npt.ArrayLike,
    low: npt.ArrayLike,
    high: npt.ArrayLike,
    *,
    marks: Sequence[float] = (),
) -> list[Markup]:
    """A small picture for each interval that a table shows, on one scale for all intervals.

    Lines have the colour of the text around them; `marks` are places that are marked.
    """
    wide, tall = SPARK
    numbers = np.array([values, low, high], float)
    shown = numbers[:, :MOST_ROWS].T.tolist()
    known = numbers[np.isfinite(numbers)]
    if not known.size:
        return [Markup("") for _ in shown]
    # What a mark is for should be seen, but not squeeze the intervals.
    seen = [float(known.min()), float(known.max()), *(x for x in marks if abs(x) <= 1)]
    least, most = min(seen), max(seen)
    scale = (wide - 8) / (most - least or 1.0)

    def at(x: float) -> str:
        return f"{4 + (min(max(x, least), most) - least) * scale:.1f}"

    lines = "".join(
        f'<line x1="{at(x)}" x2="{at(x)}" y1="0" y2="{tall}" stroke="currentColor" '
        'stroke-opacity=".35"/>'
        for x in marks
        if least <= x <= most
    )
    found = []
    for value, start, stop in shown:
        inner = lines
        if math.isfinite(start) or math.isfinite(stop):
            first = start if math.isfinite(start) else least
            last = stop if math.isfinite(stop) else most
            inner += (
                f'<line x1="{at(first)}" x2="{at(last)}" y1="{tall / 2}" y2="{tall / 2}" '
                'stroke="currentColor" stroke-width="1.5"/>'
            )
        if math.isfinite(value):
            inner += f'<circle cx="{at(value)}" cy="{tall / 2}" r="3" fill="currentColor"/>'
        found.append(
            Markup(f'<svg width="{wide}" height="{tall}" aria-hidden="true">{inner}</svg>')
        )
    return found


def interval_table(
    table: Listing | pd.DataFrame,
    value: str,
    *,
    index: bool = False,
    marks: Sequence[float] = (),
) -> Markup:
    """HTML of a table with a picture of each interval: a column's values, ``lower``, ``upper``."""
    drawn = sparks(table[value], table["lower"], table["upper"], marks=marks)
    return html_table(table, index=index, drawn=drawn)


def picture(
    draw: Callable[[Axes], Any], wide: float, high: float, words: str = "picture"
) -> Markup:
    """HTML of a plot, as an SVG within the page; nothing where matplotlib is not installed.

    Parameters
    ----------
    draw : callable
        Draws on the axes that it is given.
    wide, high : float
        Inches.
    words : str
        Text for readers who cannot see the picture.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:  # an extra brings it; the table is there without
        return Markup("")

    with styled():
        # Not by pyplot, which would show it a second time.
        figure = Figure(figsize=(wide, high), layout="constrained")
        FigureCanvasAgg(figure)
        draw(figure.add_subplot())
        written = io.BytesIO()
        figure.savefig(written, format="svg", metadata={"Date": None})
    # Within an image an SVG runs nothing and loads nothing.
    data = base64.b64encode(written.getvalue()).decode("ascii")
    return Markup('<img alt="{}" src="data:image/svg+xml;base64,{}">').format(_clean(words), data)
