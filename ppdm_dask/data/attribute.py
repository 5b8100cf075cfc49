"""One attribute of a codebook: its declared categories, and values to codes and back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import isnan
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import numpy.typing as npt

from ppdm_dask.errors import CodebookError
from ppdm_dask.faces.face import Face, html_table, names_of
from ppdm_dask.faces.listing import Listing
from ppdm_dask.files.any_column import as_column
from ppdm_dask.files.columns import (
    MissingCodes,
    at_least,
    at_most,
    coded,
    float_kind,
    look_up,
    plain_number,
    read_numbers,
)
from ppdm_dask.files.declared import Declared, fields_of
from ppdm_dask.files.texts import canonical_text
from ppdm_dask.files.values import Either, Many, Number, Place, Text
from ppdm_dask.frozen import settle
from ppdm_dask.shown import cut, given, quoted, shown

if TYPE_CHECKING:
    from markupsafe import Markup


__all__ = ["Attribute"]


LABEL = Text("a text that is not empty is needed", r"[\s\S]+")
LABELS = Many(LABEL, "a list of at least one label is needed", 1, distinct=True)
NUMBER = Number("a finite number is needed")
LIMITS = Many(NUMBER, "[smallest, largest] is needed", 2)
CODE = Either("a text or a finite number is needed", (Text(pattern=r"[\s\S]*"), NUMBER))
CODES = Many(CODE, 'a list of texts and numbers, such as [-99, "Refused"], is needed', 1)
KINDS = Many(
    Many(CODE, "a list of a category and the values that it stands for is needed", 2),
    'lists of a category and its values, such as [["Refused", -99, "R"]], are needed',
    1,
)


@dataclass(frozen=True, repr=False)
class Attribute(Face, Declared):
    """A question with its declared categories.

    A *nominal* attribute has no `cuts`: the code of a label is its position in `categories` or,
    with `groups`, the position of the group that holds it. A *numeric* attribute has `cuts`: a
    value's bin is the number of cut points strictly below it, and `categories` label the bins.

    Parameters
    ----------
    name : str
        Column of the data.
    categories : tuple of str
        Labels, distinct; the code of a category is its position. For a numeric attribute there is
        one label per bin, in order, and one more, at any place, if missing values have a category.
    cuts : tuple of float, optional
        Cut points, finite and strictly rising.
    groups : tuple of tuple of str, optional
        For a nominal attribute: the original labels in each category. A group may be empty.
    missing : str, optional
        Category of a missing value: an original label if nominal, a category if numeric. Without
        it a missing value is an error.
    range : tuple of float, optional
        Smallest and largest value allowed to a numeric attribute, both inclusive.
    rule : str, optional
        How cuts or groups were found, such as ``"median"``. Provenance only.
    missing_codes : tuple of str or float, optional
        Values that mean a missing value. They go to the category `missing` before numbers are cut
        or compared with the range: ``(-99, 999, "Refused")``. 999, 999.0 and ``"999"`` are the
        same. If `missing` names a category that spells a number, such as ``"999"``, that number is
        a code even if it is not listed.
    missing_kinds : tuple of tuple, optional
        For a numeric attribute: kinds of missing values that are distinguished, each with its
        category and its values: ``(("Refused", -99, "R"), ("Don't know", -98))``. The categories
        are among `categories`, anywhere. An empty cell is none of them.

    Raises
    ------
    CodebookError
        If the fields contradict each other; the message gives the dotted path.
    """

    named_by = "name"

    name: Annotated[str, LABEL]
    categories: Annotated[tuple[str, ...], LABELS]
    cuts: Annotated[tuple[float, ...], Many(NUMBER, "a list of numbers is needed", 1)] | None = None
    groups: (
        Annotated[
            tuple[tuple[str, ...], ...],
            Many(Many(LABEL, "a list of labels is needed"), "a list of lists of labels is needed"),
        ]
        | None
    ) = None
    missing: Annotated[str, LABEL] | None = None
    range: (
        Annotated[tuple[float, float], Many(NUMBER, "[smallest, largest] is needed", 2)] | None
    ) = None
    rule: str | None = None
    missing_codes: Annotated[tuple[str | float, ...], CODES] | None = None
    missing_kinds: Annotated[tuple[tuple[str | float, ...], ...], KINDS] | None = None

    def __post_init__(self) -> None:
        at = Place("attribute", error=CodebookError, show=given)
        name: Any = self.name
        at = at[name if isinstance(name, str) else "name"]
        for field in fields_of(type(self)):
            value: Any = getattr(self, field.name)
            if value is not None or field.needed:
                settle(self, **{field.name: field.value.read(value, at[field.key])})
        if self.missing_codes is not None and self.missing is None:
            need = "`missing`, which says where these values go, is needed"
            raise at["missing_codes"].wrong(self.missing_codes, need)
        (self._check_nominal if self.cuts is None else self._check_numeric)(at)

    def _check_nominal(self, at: Place) -> None:
        if self.range is not None:
            raise at["range"].wrong(self.range, "it is for numeric attributes, which have `cuts`")
        if self.missing_kinds is not None:
            need = "it is for numeric attributes; others have each kind in `categories`"
            raise at["missing_kinds"].wrong(self.missing_kinds, need)
        if self.groups is not None:
            LABELS.read(self.labels, at["groups"])
            if len(self.groups) != len(self.categories):
                need = f"one group for each of the {len(self.categories)} categories is needed"
                raise at["groups"].wrong(self.groups, need)
        if self.missing is not None and self.missing not in self.labels:
            raise at["missing"].wrong(self.missing, "one of the declared labels is needed")
        declared = frozenset(self.labels)
        for code in self.missing_codes or ():
            if (text := canonical_text(code)) != self.missing and text in declared:
                raise at["missing_codes"].wrong(code, "it is a declared label too")

    def _check_numeric(self, at: Place) -> None:
        cuts = self.cuts or ()
        if self.groups is not None:
            raise at["groups"].wrong(self.groups, "it is for nominal attributes, without `cuts`")
        if any(low >= high for low, high in pairwise(cuts)):
            raise at["cuts"].wrong(cuts, "numbers that rise strictly are needed")
        kinds = self._check_kinds(at)
        extra = len(self.categories) - len(cuts) - 1 - len(kinds)
        if extra not in (0, 1):
            least = len(cuts) + 1 + len(kinds)
            beside = " and a category for each of the `missing_kinds`" if kinds else ""
            raise at["categories"].wrong(
                self.categories,
                f"{len(self.categories)} labels; {len(cuts)} cuts{beside} need {least}, "
                f"or {least + 1} with one for missing values",
            )
        allowed = [each for each in self.categories if each not in kinds]
        if self.missing not in allowed and (extra or self.missing is not None):
            raise at["missing"].wrong(self.missing, "one of the categories is needed")
        limits: tuple[float, ...] = self.range or (0, 0)
        if len(limits) != 2 or limits[0] > limits[1]:
            raise at["range"].wrong(self.range, LIMITS.right)

    def _check_kinds(self, at: Place) -> list[str]:
        """Categories of the kinds of missing values."""
        kinds = [str(kind[0]) for kind in self.missing_kinds or ()]
        for i, kind in enumerate(kinds):
            if kind not in self.categories or kinds.index(kind) < i:
                need = "one of the categories is needed, each once"
                raise at["missing_kinds"][i].wrong(kind, need)
        seen = MissingCodes.of(self.missing_codes or ())
        for i, (_, *codes) in enumerate(self.missing_kinds or ()):
            for code in codes:
                text = canonical_text(code)
                if not text or seen.holds(text):
                    what = "it is a missing code already" if text else "an empty cell is not a kind"
                    raise at["missing_kinds"][i].wrong(code, what)
            seen = seen.united(MissingCodes.of(codes))
        return kinds

    def __len__(self) -> int:
        """Return the number of categories."""
        return len(self.categories)

    def _said(self) -> str:
        kind = f"cut at {names_of(self.cuts, 30)}" if self.cuts is not None else "nominal"
        n = len(self.categories)
        name, labels = cut(self.name, 30), names_of(self.categories)
        return f"Attribute {name}, {kind}: {n:,} categor{'y' if n == 1 else 'ies'}, {labels}"

    def _shown(self) -> Iterator[Markup]:
        columns = {"code": range(len(self.categories)), "category": self.categories}
        yield html_table(Listing.of(columns))

    @property
    def numeric(self) -> bool:
        """Whether values are numbers that fall into bins."""
        return self.cuts is not None

    @property
    def own_missing(self) -> bool:
        """Whether a category of a numeric attribute holds missing values and nothing else."""
        if self.cuts is None:
            return False
        return len(self.categories) == len(self.cuts) + 2 + len(self.missing_kinds or ())

    @cached_property
    def kinds(self) -> Mapping[str, MissingCodes]:
        """Values of each kind of missing values, by its category."""
        return {str(kind): MissingCodes.of(codes) for kind, *codes in self.missing_kinds or ()}

    @cached_property
    def bins(self) -> tuple[int, ...]:
        """Codes of the bins of a numeric attribute, in the order of its cuts."""
        apart = {*self.kinds, *((self.missing,) if self.own_missing else ())}
        return tuple(code for code, each in enumerate(self.categories) if each not in apart)

    @cached_property
    def codes_of_missing(self) -> MissingCodes:
        """Values that stand for a missing one: those listed, and the name of their category."""
        codes = [*(self.missing_codes or ())]
        # The name of a bin that missing values share may well spell a number that is none.
        if self.missing is not None and (self.own_missing or isnan(plain_number(self.missing))):
            codes.append(self.missing)
        return MissingCodes.of(codes)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """Original labels of a nominal attribute, group by group; none of a numeric one."""
        if self.numeric:
            return ()
        groups = self.groups or tuple((label,) for label in self.categories)
        return tuple(label for group in groups for label in group)

    @cached_property
    def code_of(self) -> Mapping[str, int]:
        """Code of each original label (nominal) or of each category (numeric)."""
        groups = self.groups or tuple((label,) for label in self.categories)
        return {label: code for code, group in enumerate(groups) for label in group}

    def encode(self, values: Any, offset: int = 0) -> npt.NDArray[np.intp]:
        """Codes of a column, shape (n,).

        Parameters
        ----------
        values : Series, or array
            Labels or numbers, of any dtype.
        offset : int
            Position of the first value in the whole data set, for messages.

        Raises
        ------
        CodebookError
            On a value that is not declared; names the attribute, the row and the value.
        """
        return self.small_codes(values, offset).astype(np.intp)

    def small_codes(self, values: Any, offset: int = 0) -> npt.NDArray[Any]:
        """As :meth:`encode`, in whatever integers are at hand, and perhaps not to be written to."""
        values = as_column(values)
        if self.cuts is not None:
            numbers = self.read_numbers(values, offset)
            kind = float_kind(values)
            cuts = self.cuts if kind == np.float64 else [at_most(cut, kind) for cut in self.cuts]
            codes = np.searchsorted(np.asarray(cuts), numbers, side="left")
            for skipped in sorted({*range(len(self.categories))}.difference(self.bins)):
                codes += codes >= skipped  # step over a category of missing values
            if self.missing is not None:
                codes[np.isnan(numbers)] = self.categories.index(self.missing)
            for label, listed in self.kinds.items():
                codes[listed.among(values)] = self.categories.index(label)
            return codes
        positions, texts = coded(values)
        missing = -1 if self.missing is None else self.code_of[self.missing]
        known = self.code_of
        if self.missing_codes:
            held = self.codes_of_missing.holds
            known = {**{text: missing for text in texts if held(text)}, **known}
        codes = look_up(positions, texts, known, missing)
        if codes.size and codes.min() < 0:
            row = int(np.argmax(codes < 0))
            if positions[row] < 0:
                raise self._missing(row + offset)
            text = texts[positions[row]]
            raise self._undeclared(
                row + offset, text, f"is not declared; there are {quoted(self.labels)}"
            )
        return codes

    def read_numbers(self, values: Any, offset: int = 0) -> npt.NDArray[np.float64]:
        """Values of a numeric attribute, NaN where missing, shape (n,).

        Raises
        ------
        CodebookError
            If a value is not a finite number, is out of range, or is missing without a category for
            missing values.
        """
        values, codes = as_column(values), self.codes_of_missing
        apart = np.zeros(len(values), bool)
        for held in self.kinds.values():
            codes, apart = codes.united(held), apart | held.among(values)
        numbers, wrong = read_numbers(values, codes)
        if wrong.any():
            row = int(np.argmax(wrong))
            raise self._undeclared(row + offset, values.value(row), "is not a finite number")
        if self.missing is None and (bare := np.isnan(numbers) & ~apart).any():
            raise self._missing(int(np.argmax(bare)) + offset)
        if self.range is not None:
            (low, high), kind = self.range, float_kind(values)
            outside = (numbers < at_least(low, kind)) | (numbers > at_most(high, kind))
            if outside.any():
                row = int(np.argmax(outside))
                allowed = f"is outside the range {canonical_text(low)} to {canonical_text(high)}"
                raise self._undeclared(row + offset, canonical_text(float(numbers[row])), allowed)
        return numbers

    def _undeclared(self, row: int, value: object, need: str) -> CodebookError:
        text = canonical_text(value)
        where = f"attribute {shown(self.name)}, row {row}"
        what = f"{where}: value {shown(text)} {need}"
        return CodebookError.at(row, what, value, told=f"{where}: the value {need}")

    def _missing(self, row: int) -> CodebookError:
        what = (
            f"attribute {shown(self.name)}, row {row}: the value is missing, and the codebook "
            "declares no category for that (`missing`)"
        )
        return CodebookError.at(row, what, told=what)

    def decode(self, codes: npt.NDArray[Any]) -> npt.NDArray[np.object_]:
        """Labels of codes, shape (n,); NaN for the category that stands only for missing values.

        Numbers are not recovered, only the label of their bin.
        """
        table = np.array(self.categories, dtype=object)
        own = self.cuts is None or self.own_missing
        if own and self.missing is not None and self.groups is None:
            table[self.categories.index(self.missing)] = np.nan
        labels: npt.NDArray[np.object_] = table[codes]
        return labels

    def mask(self, labels: object) -> npt.NDArray[np.bool_]:
        """Which categories an event names: one label or several; shape (n_categories,)."""
        if isinstance(labels, (str, bytes)) or not isinstance(labels, Iterable):
            labels = (labels,)
        chosen = [canonical_text(label) for label in labels]
        if not chosen:
            raise CodebookError(f"attribute {shown(self.name)}: an event names no category")
        for label in chosen:
            if label not in self.categories:
                raise CodebookError(
                    f"attribute {shown(self.name)}: {shown(label)} is not a category; there are "
                    f"{quoted(self.categories)}",
                    label,
                )
        return np.array([label in chosen for label in self.categories])
