"""The codebook: declared attributes and categories, from labels to codes and back.

Also here: records (true answers) and reports (what leaves the respondent's hands), as codes.
"""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from ppdm_dask.data.attribute import LABEL, Attribute
from ppdm_dask.data.binning import binarise_attribute
from ppdm_dask.data.field import field_codes
from ppdm_dask.data.plugins import plugin
from ppdm_dask.data.words import FieldRules, Imported
from ppdm_dask.errors import CodebookError, ColumnsLeftOut, InputError, RecordsError
from ppdm_dask.extras import named
from ppdm_dask.faces.face import Face, html_table, names_of
from ppdm_dask.faces.listing import Listing
from ppdm_dask.faces.plots import bars
from ppdm_dask.files.arrow import as_table
from ppdm_dask.files.column import Column
from ppdm_dask.files.declared import Declared, document
from ppdm_dask.files.documents import read_toml
from ppdm_dask.files.fields import TomlTable
from ppdm_dask.files.table import Table
from ppdm_dask.frozen import settle
from ppdm_dask.ranges import whole
from ppdm_dask.shown import cut, listed, printable, shown

if TYPE_CHECKING:
    import pandas as pd
    from markupsafe import Markup
    from matplotlib.axes import Axes


__all__ = [
    "SURVEY",
    "Attribute",
    "Codebook",
    "Records",
    "Reports",
    "code_dtype",
    "label_codes",
    "require_categories",
    "table_of",
]


def code_dtype(n_categories: int) -> np.dtype[Any]:
    """Smallest unsigned integer type that holds the codes 0 .. n_categories - 1."""
    return np.min_scalar_type(max(n_categories - 1, 0))


@dataclass(frozen=True, eq=False, repr=False)
class Records(Face):
    """Coded answers, one row a record and one column an attribute of the codebook.

    Parameters
    ----------
    codes : array of unsigned integers, shape (n_records, n_attributes)
        ``codes[i, a]`` in ``0 .. codebook.shape[a] - 1``. Kept read-only, columns contiguous.
    codebook : Codebook
        Declares the attributes and categories.
    offset : int
        Position of the first record in the whole data set; random draws are keyed by it.
    weights : array of float, shape (n_records,), optional
        Survey weights, positive: how many of the population a record stands for.
    strata : array of int, shape (n_records,), optional
        Stratum of each record, 0 or more; within a stratum clusters are a random sample.
    clusters : array of int, shape (n_records,), optional
        Cluster (primary sampling unit) of each record, 0 or more, within its stratum: equal numbers
        in two strata are two clusters.  By default each record is one.
    fpc : array of float, shape (n_records,), optional
        One positive number a stratum: the fraction of its clusters that was sampled, up to 1; above
        1, how many of them the population has.
    replicates : array of float, shape (n_records, replicates), optional
        Replicate weights, 0 or more, each of which holds the survey weight.
    kept : mapping of str to array, shape (n_records,), optional
        Columns beside the attributes that stay as they are: weights, strata, identifiers.

    Raises
    ------
    RecordsError
        If the codes have the wrong shape or type, or lie outside the declared categories or
        symbols.
    """

    codes: npt.NDArray[Any]
    codebook: Codebook
    offset: int = 0
    weights: npt.NDArray[np.float64] | None = field(default=None, kw_only=True)
    strata: npt.NDArray[np.int64] | None = field(default=None, kw_only=True)
    clusters: npt.NDArray[np.int64] | None = field(default=None, kw_only=True)
    fpc: npt.NDArray[np.float64] | None = field(default=None, kw_only=True)
    replicates: npt.NDArray[np.float64] | None = field(default=None, kw_only=True)
    kept: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict, kw_only=True)

    def __post_init__(self) -> None:
        codes = np.asarray(self.codes)
        shape = self.sizes
        if codes.ndim != 2 or codes.shape[1] != len(shape):
            raise RecordsError(
                f"codes have shape {codes.shape}; the codebook needs (n, {len(shape)})", codes
            )
        if codes.dtype.kind not in "iu":
            raise RecordsError(f"codes have type {codes.dtype}; integers are needed", codes)
        try:
            whole("offset", self.offset, 0)
        except InputError as error:
            raise RecordsError(str(error), self.offset) from None
        for name, size, column in zip(self.codebook.names, shape, codes.T, strict=True):
            if column.size and (int(column.min()) < 0 or int(column.max()) >= size):
                bad = int(column.min()) if int(column.min()) < 0 else int(column.max())
                what = f"is not in 0 .. {size - 1}"
                raise RecordsError.at(
                    int(np.argmax(column == bad)) + self.offset,
                    f"attribute {shown(name)}: code {bad} {what}",
                    bad,
                    told=f"attribute {shown(name)}: a code {what}",
                )
        codes = np.asfortranarray(codes, dtype=code_dtype(max(shape, default=1)))
        if codes is self.codes:
            codes = codes.view()
        codes.flags.writeable = False
        settle(self, codes=codes, kept=dict(self.kept))
        for name, column in self.kept.items():
            if np.shape(column)[:1] != (len(codes),):
                raise RecordsError(
                    f"kept column {shown(name)}: {len(codes)} values are needed", name
                )
        _check_survey(self, len(codes))

    @property
    def sizes(self) -> tuple[int, ...]:
        """Codes that each column can hold: the categories of its attribute."""
        return self.codebook.shape

    def __len__(self) -> int:
        return int(self.codes.shape[0])

    def _said(self) -> str:
        # What nobody may read off a screen: codes, weights, and what was kept beside them.
        kept = f"; kept {names_of(self.kept, 30)}" if self.kept else ""
        survey = f"; {', '.join(self.survey)}" if self.survey else ""
        names = names_of(self.codebook.names)
        return f"{type(self).__name__}: {len(self):,} {self._what()} of {names}{survey}{kept}"

    def _what(self) -> str:
        return "records"

    def _shown(self) -> Iterator[Markup]:
        yield html_table(self.codebook._listing())

    @property
    def survey(self) -> dict[str, Any]:
        """Weights, strata, clusters, fpc and replicates, as far as there are some."""
        given = {name: getattr(self, name) for name in SURVEY}
        return {name: array for name, array in given.items() if array is not None}

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of records and of attributes."""
        return len(self), len(self.sizes)

    def __getitem__(self, rows: Any) -> Self:
        """Some records by position: a slice, positions, a mask of all, or one position.

        A slice without steps keeps their offset, so that a seeded disguise of a part is that part
        of the disguise; any other choice is renumbered from 0.

        Raises
        ------
        RecordsError
            For names: columns are chosen by ``select``.
        IndexError
            For positions that are not there, or a mask of another length.
        """
        if isinstance(rows, tuple) and rows[1:] in ((), (...,), (slice(None),)):
            rows = rows[0]  # scikit-learn asks for records[rows, ...]
        if isinstance(rows, slice) and rows.step in (None, 1):
            return self.slice(*rows.indices(len(self))[:2])
        if not isinstance(rows, slice):
            rows = np.atleast_1d(np.asarray(rows))
            if not rows.size:
                rows = rows.astype(np.intp)
            if rows.ndim != 1 or rows.dtype.kind not in "iub":
                raise RecordsError(
                    "records are chosen by position or by a mask; attributes by select()", rows
                )
        return replace(self, offset=0, **self._rows(rows))

    def column(self, name: str) -> npt.NDArray[Any]:
        """Codes of one attribute, shape (n_records,)."""
        return self.codes[:, self.codebook.index(name)]

    def _columns(self, names: tuple[str, ...]) -> dict[str, Any]:
        columns = [self.codebook.index(name) for name in names]
        return {"codes": self.codes[:, columns], "codebook": self.codebook.select(names)}

    def _rows(self, rows: Any) -> dict[str, Any]:
        """What changes where only some rows are kept."""
        fields: dict[str, Any] = {"codes": self.codes[rows]}
        fields |= {name: values[rows] for name, values in self.survey.items()}
        fields["kept"] = {name: column[rows] for name, column in self.kept.items()}
        return fields

    def select(self, names: Iterable[str]) -> Self:
        """The same records over fewer attributes, in the order given."""
        return replace(self, **self._columns(tuple(names)))

    def take(self, rows: npt.ArrayLike) -> Self:
        """The records at some positions, in that order, renumbered from 0."""
        return replace(self, offset=0, **self._rows(np.asarray(rows)))

    def slice(self, start: int, stop: int) -> Self:
        """Records start .. stop - 1, counted as in a list; their offset moves along."""
        rows = range(len(self))[start:stop]
        return replace(self, offset=self.offset + rows.start, **self._rows(slice(start, stop)))

    def surveyed(
        self,
        weights: npt.ArrayLike | None = None,
        strata: npt.ArrayLike | None = None,
        clusters: npt.ArrayLike | None = None,
        fpc: npt.ArrayLike | None = None,
        replicates: npt.ArrayLike | None = None,
    ) -> Self:
        """The same records with what is given of a survey, and nothing else of one."""
        # What is given is checked and made an array of floats or integers there.
        values = (weights, strata, clusters, fpc, replicates)
        given: dict[str, Any] = dict(zip(SURVEY, values, strict=True))
        return replace(self, **given)

    def surveyed_by(
        self,
        weights: str | npt.ArrayLike | None = None,
        strata: str | npt.ArrayLike | None = None,
        clusters: str | npt.ArrayLike | None = None,
        fpc: str | npt.ArrayLike | None = None,
        replicates: Iterable[str] | npt.ArrayLike | None = None,
    ) -> Self:
        """The same records with columns of a survey, given or by the names of kept columns.

        What is not given stays as it is.  Strata and clusters may be labels of any kind; they are
        told apart as texts.

        Parameters
        ----------
        weights, strata, clusters, fpc
            Each a name, or an array of shape (n_records,).
        replicates : iterable of str, or array of shape (n_records, replicates)

        Raises
        ------
        RecordsError
            If no column of that name was kept, or a column is not what is needed.
        """
        values = {"weights": weights, "strata": strata, "clusters": clusters, "fpc": fpc}
        given: dict[str, Any] = dict(self.survey)
        for name, value in values.items():
            if value is None:
                continue
            labels = name in ("strata", "clusters")
            column = self._kept(value) if isinstance(value, str) else value
            coded = labels and (isinstance(value, str) or np.asarray(value).dtype.kind in "OSU")
            given[name] = label_codes(np.asarray(column)) if coded else column
        if replicates is not None:
            columns: list[Any] = list(replicates)  # type: ignore[arg-type]
            by_name = all(isinstance(name, str) for name in columns)
            named = np.array([self._kept(name) for name in columns]).T if by_name else replicates
            given["replicates"] = named
        return replace(self, **given)

    def _kept(self, name: str) -> npt.NDArray[Any]:
        if name not in self.kept:
            there = listed(self.kept) or "none"
            raise RecordsError(
                f"column {shown(name)} was not kept; columns that were: {there}", name
            )
        return self.kept[name]


@dataclass(frozen=True, eq=False, repr=False)
class Reports(Records):
    """Disguised answers: codes of reported symbols, and which design made them.

    Parameters
    ----------
    design_digest : str
        Digest of the design that disguised the records; estimates check it.
    simulated : bool
        True if a seeded generator drew the disguise, so that the seed would undo it.
    reported_sizes : tuple of int, optional
        Reported symbols of each column, where a design has more of them than categories; the
        attributes and labels of the codebook are those of the truth.
    sets : mapping of attribute to array of uint8, shape (n_records, ceil(categories / 8))
        Reports that are subsets of the categories: v is in one if bit ``v % 8`` of byte ``v // 8``
        is 1.  Their column of codes holds zeros.
    design : Design, optional
        The design that made them, where it is at hand.
    imported : Imported, optional
        Of answers that people randomised themselves: what was read, and what was left out.
    """

    design_digest: str = ""
    simulated: bool = True
    reported_sizes: tuple[int, ...] | None = None
    sets: Mapping[str, npt.NDArray[np.uint8]] = field(default_factory=dict)
    # Typed loosely: designs are made of codebooks, and not the other way round.
    design: Any = field(default=None, kw_only=True, repr=False)
    imported: Imported | None = field(default=None, kw_only=True, repr=False)

    def _what(self) -> str:
        made = f" by {self.design.id}" if self.design is not None else ""
        return f"{'simulated ' if self.simulated else ''}reports{made}"

    @property
    def sizes(self) -> tuple[int, ...]:
        """Reported symbols that each column can hold."""
        return self.codebook.shape if self.reported_sizes is None else self.reported_sizes

    def __post_init__(self) -> None:
        super().__post_init__()
        kept = {}
        for name, given in self.sets.items():
            bits, n_bytes = np.asarray(given), -(-len(self.codebook[name].categories) // 8)
            if bits.dtype != np.uint8 or bits.shape != (len(self), n_bytes):
                raise RecordsError(
                    f"sets of {shown(name)} are {bits.dtype} {bits.shape}; "
                    f"uint8 {(len(self), n_bytes)} is needed",
                    bits,
                )
            kept[name] = bits.view()
            kept[name].flags.writeable = False
        settle(self, sets=MappingProxyType(kept))

    @classmethod
    def from_field(
        cls,
        answers: Any,
        design: Any,
        codebook: Codebook | None = None,
        *,
        symbols: Mapping[str, Any] | None = None,
        nonresponse: str = "refuse",
        no_answer: Iterable[str] = (),
        keep: Iterable[str] = (),
        weights: str | None = None,
        unweighted: str = "refuse",
        separator: str = ";",
        offset: int = 0,
    ) -> Self:
        """Reports from answers that people randomised themselves, with dice, cards or a question.

        Nothing is drawn: a column of the design holds what was reported, by the labels of the
        codebook, by numbers where the design has other symbols (Kuk's cards), or by the words of
        `symbols`.  Attributes of the codebook that the design does not cover are true answers.

        Parameters
        ----------
        answers : DataFrame of pandas or polars, Arrow table, or mapping of columns
        design : Design
            By which people were asked to answer.
        codebook : Codebook, optional
            By default the one that the design is bound to.
        symbols : mapping, optional
            Words of reports as in :meth:`Design.with_symbols`, in place of the design's own.
        nonresponse : {"refuse", "drop", "category"}
            For a row with a missing answer: an error; left out; or a report of the category that
            the codebook's ``missing`` names, if the device offers it.
        no_answer : iterable of str
            Words that stand for a missing answer, beside missing values, empty texts, and the
            codebook's ``missing_codes``.
        keep : iterable of str
            Further columns to keep as they are, such as clusters.
        weights : str, optional
            Column of survey weights, which is kept too.
        unweighted : {"refuse", "drop"}
            Of a row whose weight is 0 or missing.
        separator : str
            Between the categories of a report that is a set of them.
        offset : int
            Position of the first row in the whole data set, for messages.

        Returns
        -------
        Reports
            Neither simulated nor drawn here; ``imported`` counts what was left out.

        Raises
        ------
        RecordsError, CodebookError
            One line with the attribute, the row, and the value that is not a report of the design.
        DesignError
            If the design does not fit the codebook, or words are no reports of it.
        InputError
            For a choice that is none.

        Examples
        --------
        Crosswise: *same* where both statements or neither hold, the other one of probability 1/4.

        >>> import ppdm_dask as pp
        >>> book = pp.Codebook((pp.Attribute("used", ("no", "yes")),))
        >>> device = pp.Warner("used", theta=0.25).with_symbols({"same": "yes", "different": "no"})
        >>> said = {"used": ["same"] * 35 + ["different"] * 65 + [None] * 4}
        >>> reports = pp.Reports.from_field(said, device, book, nonresponse="drop")
        >>> len(reports), reports.imported.dropped
        (100, 4)
        >>> round(pp.estimate(reports, {"used": "yes"}, design=device).value, 6)
        0.8
        """
        book = codebook if codebook is not None else design.codebook
        if book is None:
            raise InputError(
                "from_field: a codebook is needed to read a table; bind the design to one "
                "(design.bind(book)), or give codebook=",
                design,
            )
        design = design if symbols is None else design.with_symbols(symbols)
        bound = design.bind(book)
        beside = dict.fromkeys([*keep, *([weights] if weights is not None else [])])
        names = dict.fromkeys([*book.names, *beside])
        given = as_table(table_of(answers), tuple(names))
        columns = {name: _column(given, name) for name in names}
        rules = FieldRules(nonresponse, tuple(no_answer), unweighted, separator)
        found = field_codes(columns, book.attributes, bound, rules, weights=weights, offset=offset)
        return cls(
            found.codes,
            book,
            0,
            bound.digest,
            False,
            found.sizes,
            found.sets,
            weights=found.weights,
            kept={name: columns[name].to_numpy()[found.rows] for name in beside},
            design=bound,
            imported=found.imported,
        )

    def _columns(self, names: tuple[str, ...]) -> dict[str, Any]:
        sizes = tuple(self.sizes[self.codebook.index(name)] for name in names)
        sets = {name: bits for name, bits in self.sets.items() if name in names}
        return {**super()._columns(names), "reported_sizes": sizes, "sets": sets}

    def _rows(self, rows: Any) -> dict[str, Any]:
        sets = {name: bits[rows] for name, bits in self.sets.items()}
        return {**super()._rows(rows), "sets": sets}

    def __reduce__(self) -> tuple[Any, ...]:
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return _rebuild, (type(self), {**values, "sets": dict(self.sets)})


def _rebuild(kind: type[Reports], values: dict[str, Any]) -> Reports:
    return kind(**values)


def label_codes(column: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Codes of strata or clusters that depend on labels only: parts of a data set are coded alone.

    Raises
    ------
    RecordsError
        If a label is missing.
    """
    if column.dtype.kind in "Of":
        # What is missing differs from itself, or is None.
        missing = np.array([x is None or x != x for x in column.tolist()], bool)
        if missing.any():
            what = "a stratum or cluster is missing"
            raise RecordsError.at(int(np.argmax(missing)), what, None, told=what)
    labels, which = np.unique(column.astype(str), return_inverse=True)
    texts = (label.encode("utf-8", "surrogatepass") for label in labels.tolist())
    codes = [int.from_bytes(hashlib.blake2b(x, digest_size=8).digest()) >> 1 for x in texts]
    return np.array(codes, np.int64)[which]


SURVEY = ("weights", "strata", "clusters", "fpc", "replicates")
"""What records may hold of a survey."""


def _check_survey(records: Records, n: int) -> None:
    """What is there of a survey as read-only arrays of the right shape, or a complaint."""
    for name, given in records.survey.items():
        what = f"{n} whole numbers of 0 or more" if name in ("strata", "clusters") else ""
        if what:
            array = np.array(given)
            right = array.shape == (n,) and array.dtype.kind in "iu" and not (array < 0).any()
            array = array.astype(np.int64) if right else array
        else:
            many = name == "replicates"
            what = f"{n} rows of numbers of 0 or more" if many else f"{n} positive numbers"
            array = _floats(given)
            right = array.shape[:1] == (n,) and array.ndim == 1 + many
            low = array >= 0 if many else array > 0
            right = right and bool((np.isfinite(array) & low).all())
        if not right:
            raise RecordsError(f"{name}: {what} are needed", given)
        array.flags.writeable = False
        settle(records, **{name: array})


def _floats(given: Any) -> npt.NDArray[np.float64]:
    try:
        return np.array(given, dtype=float)
    except (TypeError, ValueError):
        return np.zeros(0)


def require_categories(records: Records, names: Iterable[str], what: str) -> None:
    """Raise RecordsError for reports whose symbols are not the categories of their attribute.

    Sets have no label, nor have symbols of designs with more symbols than categories.
    """
    sets = getattr(records, "sets", {})
    for name in names:
        symbols = records.sizes[records.codebook.index(name)]
        known = len(records.codebook[name].categories)
        if name in sets or symbols != known:
            are = "sets" if name in sets else f"{symbols} symbols for {known} categories"
            raise RecordsError(
                f"reports of {shown(name)} are {are}, which are no answers to {what}; "
                "estimate from "
                "them instead",
                records,
            )


@dataclass(frozen=True, repr=False)
class Codebook(Face, Declared):
    """Attributes with all their categories, declared once and never inferred from a partition.

    Parameters
    ----------
    attributes : tuple of Attribute
        In the order of the columns of the codes; names are distinct.
    target : str, optional
        The attribute to predict.

    Raises
    ------
    CodebookError
        If there is no attribute, a name occurs twice, or the target is not among them.

    Examples
    --------
    >>> import pandas as pd
    >>> book = Codebook((Attribute("age", ("<= 30", "> 30"), cuts=(30,)),
    ...                  Attribute("vote", ("?", "n", "y"), missing="?")))
    >>> frame = pd.DataFrame({"vote": ["y", None], "age": [30, 31]})
    >>> book.encode(frame).codes.tolist()
    [[0, 2], [1, 0]]
    """

    keys: ClassVar[Mapping[str, str]] = {"attributes": "attribute"}

    attributes: tuple[Attribute, ...]
    target: Annotated[str, LABEL] | None = None

    def __post_init__(self) -> None:
        settle(self, attributes=tuple(self.attributes))
        if not self.attributes:
            raise CodebookError("a codebook needs at least one attribute")
        if len(self._positions) < len(self.attributes):
            twice = next(name for name in self.names if self.names.count(name) > 1)
            raise CodebookError(
                f"attribute.{printable(cut(twice))}: the name is declared twice", twice
            )
        if self.target is not None and self.target not in self.names:
            raise CodebookError(
                f"target: {cut(repr(self.target))} is not an attribute; there are "
                f"{listed(self.names)}",
                self.target,
            )

    def to_frame(self) -> pd.DataFrame:
        """A row for each attribute: name, kind, number of categories, and their labels."""
        return self._listing().to_frame()

    def _listing(self) -> Listing:
        return Listing.of(
            {
                "attribute": self.names,
                "kind": ["numeric" if each.numeric else "nominal" for each in self.attributes],
                "categories": self.shape,
                "labels": [each.categories for each in self.attributes],
            }
        )

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw how many categories each attribute has, on axes of matplotlib."""
        return bars(ax, self.names, self.shape, x="categories")

    def _said(self) -> str:
        attributes = [f"{cut(each.name, 20)} ({len(each)})" for each in self.attributes]
        n = len(attributes)
        target = "" if self.target is None else f"; target {cut(self.target, 20)}"
        return f"Codebook of {n:,} attribute{'s' * (n != 1)}: {names_of(attributes, 80)}{target}"

    def _shown(self) -> Iterator[Markup]:
        yield html_table(self._listing())

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the attributes, in order."""
        return tuple(attribute.name for attribute in self.attributes)

    @cached_property
    def _positions(self) -> Mapping[str, int]:
        return {name: position for position, name in enumerate(self.names)}

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of categories of each attribute."""
        return tuple(len(attribute) for attribute in self.attributes)

    @cached_property
    def digest(self) -> str:
        """SHA-256 (hex) of the canonical JSON of `config`, provenance (`rule`) left out."""
        config = self.config()
        for attribute in config["attribute"]:
            attribute.pop("rule", None)
        text = json.dumps(config, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def __getitem__(self, name: str) -> Attribute:
        """Return the attribute of that name."""
        return self.attributes[self.index(name)]

    def index(self, name: str) -> int:
        """Position of an attribute.

        Raises
        ------
        CodebookError
            If there is none of that name.
        """
        try:
            return self._positions[name]
        except KeyError:
            raise CodebookError(
                f"there is no attribute {shown(name)}; there are {listed(self.names)}", name
            ) from None

    def select(self, names: Iterable[str]) -> Self:
        """Keep some attributes, in the order given, and the target if it is among them."""
        names = tuple(names)
        target = self.target if self.target in names else None
        return type(self)(tuple(self[name] for name in names), target)

    def encode(self, frame: Any, offset: int = 0, keep: Iterable[str] = ()) -> Records:
        """Codes of the records of a frame.

        Parameters
        ----------
        frame : DataFrame or Table
            Of pandas, polars or Arrow, or a block of a file. Has a column, of any dtype, for each
            attribute; others are passed over.
        offset : int
            Position of the frame's first row in the whole data set.
        keep : iterable of str
            Further columns to keep as they are, such as survey weights and strata.

        Raises
        ------
        CodebookError
            If a column is absent, or a value is not declared; the message names the attribute,
            the row (counted over the whole data set, from 0), the value and what is declared.
        """
        beside = tuple(keep)
        table = as_table(frame, (*self.names, *beside))
        dtype = code_dtype(max(self.shape))
        codes = np.empty((len(table), len(self.attributes)), dtype=dtype, order="F")
        for position, attribute in enumerate(self.attributes):
            codes[:, position] = attribute.small_codes(_column(table, attribute.name), offset)
        kept = {name: _column(table, name).to_numpy() for name in beside}
        return Records(codes, self, offset, kept=kept)

    def decode(self, records: Records) -> pd.DataFrame:
        """Labels of records; of a numeric attribute the label of the bin.

        Missing values come back as missing where they have a category of their own. The frame's
        index counts from the records' offset.

        Raises
        ------
        CodebookError
            If the records were encoded with another codebook.
        RecordsError
            For reports that are sets, or symbols that are not the categories.
        """
        with named("decode"):
            import pandas as pd
        if records.codebook is not self and records.codebook.digest != self.digest:
            raise CodebookError("the records were encoded with another codebook")
        require_categories(records, self.names, "decode")
        columns = {
            attribute.name: attribute.decode(codes)
            for attribute, codes in zip(self.attributes, records.codes.T, strict=True)
        }
        index = pd.RangeIndex(records.offset, records.offset + len(records))
        return pd.DataFrame(columns, index=index)

    def masks(self, event: Mapping[str, object]) -> dict[str, npt.NDArray[np.bool_]]:
        """Which categories an event names, per attribute that it names.

        Parameters
        ----------
        event : mapping of str to label or iterable of labels
            A conjunction over attributes, such as ``{"sex": "Male", "race": ["Black", "White"]}``.

        Returns
        -------
        dict of str to array of bool, shape (n_categories,)
        """
        return {name: self[name].mask(labels) for name, labels in event.items()}

    def binarise(self, frame: Any, rule: str) -> Self:
        """Give each attribute two categories, split by a rule fitted on the frame.

        Parameters
        ----------
        frame : DataFrame
            The data, with original labels and numbers.
        rule : {"midrange", "median"}
            See :func:`ppdm_dask.data.binning.binarise_attribute`.
        """
        table = as_table(frame, self.names)
        attributes = tuple(
            binarise_attribute(attribute, _column(table, attribute.name), rule)
            for attribute in self.attributes
        )
        return type(self)(attributes, self.target)

    def config(self) -> dict[str, Any]:
        """Return the codebook as lists, texts and numbers; `from_config` reads it back."""
        config: dict[str, Any] = {} if self.target is None else {"target": self.target}
        config["attribute"] = [attribute.config() for attribute in self.attributes]
        return config

    @classmethod
    def from_config(cls, config: Mapping[str, Any], source: str = "codebook") -> Self:
        """Build the codebook that `config` describes.

        Raises
        ------
        CodebookError
            On an unknown key or an impossible value; names `source` and the dotted path.
        """
        return cls.from_table(TomlTable(config, source, error=CodebookError))

    @classmethod
    def schema(cls) -> dict[str, Any]:
        return document("A codebook of ppdm_dask", super().schema())

    @classmethod
    def from_toml(cls, path: str | os.PathLike[str]) -> Self:
        """Read a codebook file.

        Raises
        ------
        CodebookError
            If the file cannot be read, is not TOML, or describes no codebook; names the file.
        """
        return cls.from_config(read_toml(Path(path), CodebookError), str(path))

    read = from_toml

    @classmethod
    def propose(cls, frame: Any, **how: Any) -> Codebook:
        """Propose a codebook for a table of true answers, to be looked over by a person.

        Parameters
        ----------
        frame : DataFrame of pandas or polars, table of Arrow, or mapping of columns
        **how
            ``most`` labels of an attribute, ``bins`` of numbers, ``order`` of labels,
            ``missing_codes`` and ``apart``, as ``ppdm codebook`` has them.

        Raises
        ------
        DataError
            If there are no records, or nothing can be proposed for any column.

        Warns
        -----
        ColumnsLeftOut
            Where nothing is proposed for a column, with the reason for each.
        """
        found = plugin("proposal")(frame, **how)
        left = [f"{shown(c.name)}: {c.left_out}" for c in found.columns if c.left_out]
        if left:
            warnings.warn(ColumnsLeftOut("; ".join(left)), stacklevel=2)
        made: Codebook = found.codebook
        return made

    def as_toml(self) -> str:
        """Text of a codebook file; `from_toml` reads it back."""
        return _toml(self.config())

    def to_toml(self, path: str | os.PathLike[str]) -> None:
        """Write a codebook file, which replaces an older one only when it is complete."""
        path = Path(path)
        aside = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            with aside.open("w", encoding="utf-8") as file:
                file.write(self.as_toml())
                file.flush()
                os.fsync(file.fileno())
            aside.replace(path)
        finally:
            aside.unlink(missing_ok=True)


def table_of(answers: object) -> Any:
    """A table that :meth:`Codebook.encode` takes, which a mapping of columns becomes."""
    return Table.of_mapping(answers) if isinstance(answers, Mapping) else answers


def _column(table: Table, name: str) -> Column:
    found = [position for position, column in enumerate(table.columns) if column == name]
    if len(found) != 1:
        how = "is absent" if not found else f"occurs {len(found)} times"
        there = listed(table.columns) or "none"
        raise CodebookError(f"column {shown(name)} {how}; the columns are {there}", name)
    return table.values[found[0]]


def _toml(config: Mapping[str, Any]) -> str:
    lines = [f"target = {_value(config['target'])}"] if "target" in config else []
    for attribute in config["attribute"]:
        lines += ["", "[[attribute]]"]
        lines += [f"{key} = {_value(value, len(key) + 3)}" for key, value in attribute.items()]
    return "\n".join(lines).lstrip() + "\n"


def _escaped(sign: str) -> str:
    if sign.isprintable():
        return sign
    return f"\\u{ord(sign):04x}" if ord(sign) < 0x10000 else f"\\U{ord(sign):08x}"


def _value(value: Any, indent: int = 0, width: int = 100) -> str:
    """Write a text, number or list in TOML, a long list over several lines."""
    if isinstance(value, str):
        # JSON's escapes are TOML's. What cannot be seen is escaped too: a terminal might obey it.
        text = json.dumps(value, ensure_ascii=False)
        return text if text.isprintable() else "".join(map(_escaped, text))
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(value)
    items = [_value(item, 4) for item in value]
    line = f"[{', '.join(items)}]"
    if indent + len(line) <= width:
        return line
    lines = [""]
    for item in items:
        joined = f"{lines[-1]} {item}," if lines[-1] else f"    {item},"
        if lines[-1] and len(joined) > width:
            lines.append(f"    {item},")
        else:
            lines[-1] = joined
    return "[\n" + "\n".join(lines) + "\n]"
