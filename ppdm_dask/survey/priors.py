"""Files of proportions known before a survey, in the same format for all commands.

TOML: ``attribute = "..."`` and a table ``[prior]`` of label and proportion; or a table
``[prior.ATTRIBUTE]`` for each attribute; or ``attributes = ["...", "..."]`` and a table ``[prior]``
whose labels of the first attribute have tables with those of the second, for a joint law.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ppdm_dask.designs.binding import require_labels
from ppdm_dask.designs.parameters import PROBABILITY, ratio
from ppdm_dask.errors import InputError
from ppdm_dask.files.declared import document
from ppdm_dask.files.fields import TomlTable, check_shares, read_toml
from ppdm_dask.files.values import Many, Schema, Text
from ppdm_dask.shown import given, listed, quoted

if TYPE_CHECKING:
    import xarray as xr

    from ppdm_dask.data.codebook import Codebook
    from ppdm_dask.designs import Design

__all__ = [
    "Priors",
    "check_prior_labels",
    "is_joint_prior",
    "joint_prior",
    "one_prior",
    "prior_arrays",
    "prior_schema",
    "read_priors",
]

Priors = Mapping[str, Mapping[str, float]]
"""Proportions by attribute and label, in the order of the file."""


def read_priors(path: Path) -> Priors:
    """Read proportions by attribute and label.

    A proportion is a number, or a ratio as text such as ``"1/3"``.

    Raises
    ------
    InputError
        One line: file, key, value, and what would be right.
    """
    root = TomlTable(read_toml(path), str(path))
    name = root.optional_text("attribute", "the name of an attribute is needed")
    table = root.table("prior", "a table [prior], or a table [prior.ATTRIBUTE] each, is needed")
    root.done()
    entries: Mapping[str, Any] = {name: table.rest()} if name else table.rest()
    if not entries:
        raise InputError(f"{path}: prior: is empty; categories and proportions are needed", path)
    found = {}
    for attribute, stated in entries.items():
        where = f"{path}: prior" + ("" if name else f".{listed([attribute])}")
        if not isinstance(stated, Mapping):
            raise InputError(
                f"{where}: got {given(stated)}; a table of categories is needed, or the "
                "attribute's name as `attribute` at the top",
                stated,
            )
        numbers = {label: ratio(share) for label, share in stated.items()}
        shares = {
            label: float(share) if isinstance(share, Fraction) else share
            for label, share in numbers.items()
        }
        check_shares(where, shares)
        total = float(sum(shares.values()))
        if not shares or not abs(total - 1) <= 1e-9:
            raise InputError(f"{where}: proportions sum to {total:.12g}; 1 is needed", stated)
        found[attribute] = {label: float(share) for label, share in shares.items()}
    return found


def prior_schema() -> Schema:
    """JSON Schema of a file of proportions, of one attribute, of several, or of a joint law."""
    # A label may also be the name of an attribute, so a table of tables can be either.
    shares = {"$ref": "#/$defs/shares"}
    several: Schema = {"type": "object", "minProperties": 1}
    forms: dict[str, tuple[Schema, Schema]] = {
        "attribute": ({"description": "Its name.", **Text().schema()}, shares),
        "attributes": (
            {
                "description": "Names of the attributes; the first is that of the outermost table.",
                **Many(Text(), least=2, distinct=True).schema(),
            },
            {**several, "additionalProperties": {"$ref": "#/$defs/joint"}},
        ),
    }
    chosen: Schema = {"properties": {"prior": {**several, "additionalProperties": shares}}}
    for key, (_, prior) in forms.items():
        others = {other: False for other in forms if other != key}
        then = {"properties": {"prior": prior, **others}}
        chosen = {"if": {"required": [key]}, "then": then, "else": chosen}
    whole: Schema = {
        "type": "object",
        "properties": {
            **{key: named for key, (named, _) in forms.items()},
            "prior": {"description": "Proportions, which sum to 1, by label."},
        },
        "required": ["prior"],
        "additionalProperties": False,
        **chosen,
        "$defs": {
            "shares": {
                "title": "Proportions by label",
                **several,
                "additionalProperties": PROBABILITY.schema(),
            },
            "joint": {
                "title": "A proportion, or a table of them for the next attribute",
                "anyOf": [
                    *PROBABILITY.schema()["anyOf"],
                    {**several, "additionalProperties": {"$ref": "#/$defs/joint"}},
                ],
            },
        },
    }
    return document("Proportions that are known before a survey, for ppdm_dask", whole)


def one_prior(path: Path) -> tuple[str, list[str], list[float]]:
    """The attribute, its categories and their proportions, from a file that has one."""
    priors = read_priors(path)
    if len(priors) != 1:
        raise InputError(
            f"{path}: prior: has {quoted(priors)}; one attribute is needed, so leave out the "
            "others",
            path,
        )
    ((attribute, shares),) = priors.items()
    return attribute, list(shares), list(shares.values())


def is_joint_prior(path: Path) -> bool:
    """Whether a file states one law of several attributes."""
    return "attributes" in read_toml(path)


def joint_prior(path: Path) -> xr.DataArray:
    """One law of several attributes, a dimension for each, in the order of the file.

    Raises
    ------
    InputError
        One line: file, key, value, and what would be right.
    """
    import xarray as xr

    root = TomlTable(read_toml(path), str(path))
    names = root.texts("attributes")
    if len(names) < 2 or len(set(names)) < len(names):
        raise root.error("attributes", list(names), "names of two or more attributes are needed")
    stated = root.table("prior", "a table [prior] of tables is needed").rest()
    root.done()
    labels: list[tuple[str, ...]] = []
    cells: list[tuple[str, Any]] = [(f"{path}: prior", stated)]
    for name in names:
        inner = []
        for where, table in cells:
            if not isinstance(table, Mapping) or not table:
                raise InputError(
                    f"{where}: got {given(table)}; a table of the categories of {given(name)} is "
                    "needed",
                    table,
                )
            if len(labels) <= names.index(name):
                labels.append(tuple(table))
            if set(table) != set(labels[-1]):
                raise InputError(
                    f"{where}: has {quoted(table)}; everywhere {quoted(labels[-1])} are needed",
                    table,
                )
            inner += [(f"{where}.{listed([each])}", table[each]) for each in labels[-1]]
        cells = inner
    shares = []
    for where, share in cells:
        number = ratio(share)
        above, _, label = where.rpartition(".")
        check_shares(above, {label: float(number) if isinstance(number, Fraction) else number})
        shares.append(float(number))
    table = np.array(shares).reshape([len(each) for each in labels])
    return xr.DataArray(table, dict(zip(names, map(list, labels), strict=True)), dims=names)


def check_prior_labels(path: Path, priors: Priors, codebook: Codebook) -> None:
    """Raise InputError unless the categories are all those of the codebook, and no others."""
    for attribute, shares in priors.items():
        if attribute not in codebook.names:
            there = listed(codebook.names)
            raise InputError(
                f"{path}: prior.{listed([attribute])}: the codebook has no such attribute; "
                f"it has {there}",
                attribute,
            )
        categories = codebook[attribute].categories
        for category in (*shares, *categories):
            if category not in categories or category not in shares:
                what = "absent" if category in categories else "no category of the codebook"
                raise InputError(
                    f"{path}: prior.{listed([attribute])}.{listed([category])}: {what}; all are "
                    "needed, no others",
                    category,
                )


def prior_arrays(
    path: Path, priors: Priors, design: Design, codebook: Codebook | None
) -> tuple[Design, dict[str, npt.NDArray[np.float64]]]:
    """The design and the proportions, with categories in the same order.

    It is the order of the codebook, to which the design is bound; without a codebook it is that of
    the file, and the design is rearranged by label.

    Raises
    ------
    InputError
        Where labels do not match, or the design has to state some: the message has the line.
    """
    if codebook is not None:
        check_prior_labels(path, {n: s for n, s in priors.items() if n in codebook.names}, codebook)
        orders = {n: codebook[n].categories for n in priors if n in codebook.names}
    else:
        orders = {name: tuple(shares) for name, shares in priors.items()}
        try:
            design = design.in_order(orders)
            require_labels(design, {n: o for n, o in orders.items() if n in design.attributes})
        except InputError as error:
            what = str(error).replace("the codebook", "the prior")
            raise InputError(f"{path}: {what}", error.subject) from None
    found = {
        name: np.array([shares[label] for label in orders.get(name, tuple(shares))])
        for name, shares in priors.items()
    }
    return design, found
