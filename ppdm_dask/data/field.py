"""Answers that people randomised themselves, with dice, cards or a question: columns to codes.

A report is written by a word: the label of a category, a number where a design has other symbols,
or whatever the design's ``symbols`` says that it is called (*same*, *red*).  A word that is none of
them is refused with the nearest one beside it; nothing is repaired.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from ppdm_dask.data.words import (
    FieldRules,
    Imported,
    amount_of,
    by_label,
    near,
    word_codes,
)
from ppdm_dask.errors import CodebookError, InputError, RecordsError
from ppdm_dask.files.columns import MissingCodes, look_up, read_numbers
from ppdm_dask.shown import quoted, shown

if TYPE_CHECKING:
    from ppdm_dask.data.attribute import Attribute
    from ppdm_dask.files.column import Column
    from ppdm_dask.files.table import Table

__all__ = ["FieldCodes", "field_codes"]

MOST_LISTED = 512
"""Symbols up to which reports that a design cannot give are looked for."""


class Randomised(Protocol):
    """A design, bound to the codebook."""

    @property
    def attributes(self) -> tuple[str, ...]: ...  # pragma: no cover
    @property
    def blocks(self) -> tuple[Any, ...]: ...  # pragma: no cover
    @property
    def symbols(self) -> Mapping[str, Mapping[str, Any]]: ...  # pragma: no cover


class FieldCodes(NamedTuple):
    """Codes of a table, of the rows that are kept."""

    codes: npt.NDArray[Any]
    sizes: tuple[int, ...]
    sets: dict[str, npt.NDArray[np.uint8]]
    rows: npt.NDArray[np.bool_]
    weights: npt.NDArray[np.float64] | None
    imported: Imported


def field_codes(
    columns: Mapping[str, Column] | Table,
    attributes: Sequence[Attribute],
    design: Randomised,
    rules: FieldRules,
    weights: str | None = None,
    offset: int = 0,
) -> FieldCodes:
    """Codes of reported symbols, and of attributes that are not in the design.

    Parameters
    ----------
    columns : Table, or mapping of columns
        Has a column for each attribute, and the one of weights.
    attributes : sequence of Attribute
        Those of the design, in any order, and others, which are read as true answers.
    design : Design
        Bound to the codebook of the attributes.
    rules : FieldRules
    weights : str, optional
        Column of survey weights.
    offset : int
        Position of the first row in the whole data set.

    Raises
    ------
    RecordsError, CodebookError
        One line with the attribute, the row and the value that is not a report of the design.
    """
    n = len(columns[attributes[0].name])
    rows, given_weights = np.ones(n, bool), None
    if weights is not None:
        given_weights = _weights(weights, columns[weights], offset, rules)
        rows = ~np.isnan(given_weights)
    unweighted = n - int(rows.sum())
    reported = _reported(columns, attributes, design, rules, rows, offset)
    codes = np.zeros((n, len(attributes)), np.int64, order="F")
    sizes, sets, missing = [], {}, {}
    for j, attribute in enumerate(attributes):
        name = attribute.name
        if name not in reported:
            codes[:, j] = attribute.small_codes(columns[name], offset)
            sizes.append(len(attribute))
            continue
        size, found, missing[name] = reported[name]
        if found.ndim > 1:
            sets[name] = found
        else:
            codes[:, j] = found
        sizes.append(size)
    counts = {name: int(gone.sum()) for name, gone in missing.items()}
    dropped = 0
    if rules.nonresponse == "drop":
        whole = rows & ~np.logical_or.reduce([*missing.values(), np.zeros(n, bool)])
        dropped = int(rows.sum() - whole.sum())
        rows = whole
    _require_possible(design, attributes, codes, rows, offset)
    return FieldCodes(
        codes[rows],
        tuple(sizes),
        {name: bits[rows] for name, bits in sets.items()},
        rows,
        None if given_weights is None else given_weights[rows],
        Imported(n, counts, rules.nonresponse, dropped, unweighted, dict(design.symbols)),
    )


def _reported(
    columns: Mapping[str, Column] | Table,
    attributes: Sequence[Attribute],
    design: Randomised,
    rules: FieldRules,
    rows: npt.NDArray[np.bool_],
    offset: int,
) -> dict[str, tuple[int, npt.NDArray[Any], npt.NDArray[np.bool_]]]:
    """Of each attribute of the design its symbols, codes or bits, and where no answer is."""
    there = {attribute.name: attribute for attribute in attributes}
    found: dict[str, tuple[int, npt.NDArray[Any], npt.NDArray[np.bool_]]] = {}
    for block in design.blocks:
        for axis, name in enumerate(block.attributes):
            values, words = columns[name], design.symbols.get(name)
            if words is None or not by_label(words):
                column = _Column(there[name], block, axis, words, rules)
                found[name] = column.size, *column.read(values, rows, offset)
                continue
            # The words of a row are those of the device that the block's first attribute names.
            first = there[block.attributes[0]]
            _, devices, unknown = found[first.name]
            if rules.nonresponse == "category":  # which then is a device with words of its own
                unknown = np.zeros_like(unknown)
            codes, gone = np.zeros(len(rows), np.int64), unknown.copy()
            for label, table in words.items():
                where = f" with {first.name} {shown(label)}"
                column = _Column(there[name], block, axis, table, rules, where)
                these = rows & ~unknown & (devices == first.categories.index(label))
                read, silent = column.read(values, these, offset)
                codes = np.where(these, read, codes)
                gone |= silent
            found[name] = column.size, codes, gone
    return found


def _weights(name: str, values: Column, offset: int, rules: FieldRules) -> npt.NDArray[np.float64]:
    """Survey weights, NaN for those of 0 and missing ones."""
    numbers, wrong = read_numbers(values)
    numbers = np.array(numbers)
    if (wrong | (numbers < 0)).any():
        row = int(np.argmax(wrong | (numbers < 0)))
        where = f"column {shown(name)}, row {row + offset}"
        value = values.value(row)
        need = "survey weights are positive numbers"
        raise RecordsError.at(
            row + offset, f"{where}: {shown(value)}; {need}", value, told=f"{where}: {need}"
        )
    numbers[numbers == 0] = math.nan
    if rules.unweighted == "refuse" and np.isnan(numbers).any():
        row = int(np.argmax(np.isnan(numbers))) + offset
        what = (
            f"column {shown(name)}, row {row}: the weight is 0 or missing; such rows are left out "
            "with unweighted drop"
        )
        raise RecordsError.at(row, what, told=what)
    return numbers


class _Column:
    """How the reports of one attribute are written."""

    def __init__(
        self,
        attribute: Attribute,
        block: Any,
        axis: int,
        words: Mapping[str, str] | None,
        rules: FieldRules,
        where: str = "",
    ) -> None:
        self.attribute, self.rules, self.block = attribute, rules, block
        self.name, self.where = attribute.name, where
        self.is_set = block.kind == "set"
        known = len(attribute)
        self.size = 1 if self.is_set else int(block.reported_shape[axis])
        self.labelled = self.is_set or self.size == known
        size = known if self.labelled else self.size
        labels = attribute.categories if self.labelled else None
        self.words = word_codes(self.name, labels, size, words, empty=self.is_set)
        own = attribute.missing_codes or ()
        self.silent = MissingCodes.of([*own, *rules.no_answer])
        for word in rules.no_answer:
            if word in self.words:
                raise InputError(
                    f"no answer: {shown(word)} is a report on {shown(self.name)}; name others", word
                )

    def read(
        self, values: Column, rows: npt.NDArray[np.bool_], offset: int
    ) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
        """Codes, or bits of sets, and where no answer is; rows of no weight need none."""
        positions, texts = values.coded()
        silent = [text not in self.words and self._is_silent(text) for text in texts]
        gone = np.array([*silent, True])[positions] & rows
        if gone.any() and self.rules.nonresponse != "drop":
            self._require_category(int(np.argmax(gone)) + offset)
        make = self._bits if self.is_set else self._codes
        return make(positions, texts, silent, rows, offset), gone

    def _is_silent(self, text: str) -> bool:
        return not text or self.silent.holds(text)

    def _require_category(self, row: int) -> None:
        where = f"attribute {shown(self.name)}, row {row}: no answer is given"
        missing = self.attribute.missing
        offered = self.labelled and not self.is_set and missing is not None
        category = f"category takes them for a report {shown(missing)}"
        if self.rules.nonresponse == "refuse":
            choices = f"drop leaves such rows out{f', {category}' if offered else ''}"
            what = f"{where}; nonresponse says what becomes of it: {choices}"
        elif offered:
            return
        else:
            what = (
                f"{where}, and the device offers no category for that; with nonresponse drop such "
                "rows are left out"
            )
        raise RecordsError.at(row, what, told=what)

    def _of_missing(self) -> int:
        missing = self.attribute.missing
        known = self.rules.nonresponse == "category" and missing is not None and self.labelled
        return self.attribute.code_of[missing or ""] if known else 0

    def _codes(
        self,
        positions: npt.NDArray[Any],
        texts: list[str],
        silent: list[bool],
        rows: npt.NDArray[np.bool_],
        offset: int,
    ) -> npt.NDArray[Any]:
        absent = self._of_missing()
        known = {
            t: absent if s else self.words.get(t, -1) for t, s in zip(texts, silent, strict=True)
        }
        codes = look_up(positions, texts, known, absent)
        if ((codes < 0) & rows).any():
            row = int(np.argmax((codes < 0) & rows))
            raise self._unknown(texts[positions[row]], row + offset)
        read: npt.NDArray[Any] = np.where(codes < 0, 0, codes)
        return read

    def _bits(
        self,
        positions: npt.NDArray[Any],
        texts: list[str],
        silent: list[bool],
        rows: npt.NDArray[np.bool_],
        offset: int,
    ) -> npt.NDArray[Any]:
        """Packed sets, shape (n, bytes)."""
        k = len(self.attribute)
        inside = np.zeros((len(texts) + 1, k), bool)
        used = set(np.unique(positions[rows]).tolist())
        for i, (text, none) in enumerate(zip(texts, silent, strict=True)):
            if none or i not in used:
                continue
            at = _First(positions, i, rows, offset)
            if text == self.rules.separator and text not in self.words:
                words = []  # the empty set, where no word was given to it
            else:
                words = [text] if text in self.words else text.split(self.rules.separator)
            for word in words:
                if word not in self.words:
                    raise self._unknown(word, at)
                code = self.words[word]
                if code < 0 and len(words) > 1:
                    raise self._wrong(text, "is the empty set and something else", at)
                if code >= 0 and inside[i, code]:
                    raise self._wrong(text, "names a category twice", at)
                if code >= 0:
                    inside[i, code] = True
            self._require_size(text, int(inside[i].sum()), at)
        packed: npt.NDArray[Any] = np.packbits(inside, axis=1, bitorder="little")[positions]
        return packed

    def _require_size(self, text: str, size: int, row: _First) -> None:
        try:
            self.block.pair_weights(np.array([size]))
        except RecordsError:
            raise self._wrong(
                text, f"has {amount_of(size, 'label')}; the design gives no report of so many", row
            ) from None

    def _unknown(self, word: str, row: int | _First) -> CodebookError:
        need = f"is not a report of the design{self.where}; there are {quoted(self.words)}"
        if likely := near(word, self.words):
            need += f"; {likely}: correct the cell, or give the word in symbols"
        return self._wrong(word, need, row)

    def _wrong(self, value: str, need: str, at: int | _First) -> CodebookError:
        row = at if isinstance(at, int) else at.row()
        where = f"attribute {shown(self.name)}, row {row}"
        return CodebookError.at(
            row, f"{where}: {shown(value)} {need}", value, told=f"{where}: the value {need}"
        )


class _First(NamedTuple):
    """The first row of a distinct value, which only a complaint has to look for."""

    positions: npt.NDArray[Any]
    value: int
    rows: npt.NDArray[np.bool_]
    offset: int

    def row(self) -> int:
        """Its position in the whole data set."""
        return int(np.argmax((self.positions == self.value) & self.rows)) + self.offset


def _require_possible(
    design: Randomised,
    attributes: Sequence[Attribute],
    codes: npt.NDArray[Any],
    rows: npt.NDArray[np.bool_],
    offset: int,
) -> None:
    """Raise RecordsError for a report that the device never gives."""
    names = [attribute.name for attribute in attributes]
    for block in design.blocks:
        if block.kind == "set" or max(block.n_reported, block.n_true) > MOST_LISTED:
            continue
        never = ~block.matrix().any(axis=1)
        columns = [names.index(name) for name in block.attributes]
        wrong = never[block.joint(codes[:, columns])] & rows
        if wrong.any():
            row = int(np.argmax(wrong)) + offset
            where = f"attribute {quoted(block.attributes)}, row {row}"
            what = f"{where}: the design never gives this report"
            raise RecordsError.at(row, what, told=what)
