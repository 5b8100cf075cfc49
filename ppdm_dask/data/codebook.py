"""The codebook: declared attributes and categories, from labels to codes and back."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from ppdm_dask.data.attribute import Attribute
from ppdm_dask.data.records import Records, code_dtype, require_categories
from ppdm_dask.errors import CodebookError
from ppdm_dask.files.parquet import as_frame
from ppdm_dask.files.toml import read_toml
from ppdm_dask.shown import cut, listed, printable, shown

if TYPE_CHECKING:
    import pandas as pd


__all__ = ["Attribute", "Codebook"]


@dataclass(frozen=True)
class Codebook:
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

    attributes: tuple[Attribute, ...]
    target: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "attributes", tuple(self.attributes))
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

    def encode(self, frame: pd.DataFrame, offset: int = 0) -> Records:
        """Codes of the records of a frame.

        Parameters
        ----------
        frame : DataFrame
            Of pandas, polars or Arrow. Has a column, of any dtype, for each attribute; others are
            passed over.
        offset : int
            Position of the frame's first row in the whole data set.

        Raises
        ------
        CodebookError
            If a column is absent, or a value is not declared; the message names the attribute,
            the row (counted over the whole data set, from 0), the value and what is declared.
        """
        frame = as_frame(frame, self.names)
        dtype = code_dtype(max(self.shape))
        codes = np.empty((len(frame), len(self.attributes)), dtype=dtype, order="F")
        for position, attribute in enumerate(self.attributes):
            codes[:, position] = attribute.encode(_column(frame, attribute.name), offset)
        return Records(codes, self, offset)

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

    def binarise(self, frame: pd.DataFrame, rule: str) -> Self:
        """Give each attribute two categories, split by a rule fitted on the frame.

        Parameters
        ----------
        frame : DataFrame
            The data, with original labels and numbers.
        rule : {"midrange", "median"}
            See :func:`ppdm_dask.data.binning.binarise_attribute`.
        """
        from ppdm_dask.data.binning import binarise_attribute

        frame = as_frame(frame, self.names)
        attributes = tuple(
            binarise_attribute(attribute, _column(frame, attribute.name), rule)
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
        try:
            for key in config:
                if key not in ("target", "attribute"):
                    raise CodebookError(
                        f"{printable(cut(key))}: unknown key; known are target, attribute", key
                    )
            entries = config.get("attribute", [])
            if not isinstance(entries, list) or not all(isinstance(e, Mapping) for e in entries):
                raise CodebookError("attribute: must be an array of tables, [[attribute]]")
            return cls(tuple(map(Attribute.from_config, entries)), config.get("target"))
        except CodebookError as error:
            raise CodebookError(f"{source}: {error}", error.subject) from None

    @classmethod
    def from_toml(cls, path: str | os.PathLike[str]) -> Self:
        """Read a codebook file.

        Raises
        ------
        CodebookError
            If the file cannot be read, is no TOML, or describes no codebook; names the file.
        """
        return cls.from_config(read_toml(Path(path), CodebookError), str(path))

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


def _column(frame: pd.DataFrame, name: str) -> pd.Series:
    found = [position for position, column in enumerate(frame.columns) if column == name]
    if len(found) != 1:
        how = "is absent" if not found else f"occurs {len(found)} times"
        there = listed(frame.columns) or "none"
        raise CodebookError(f"column {shown(name)} {how}; the columns are {there}", name)
    return frame.iloc[:, found[0]]


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
