"""Several devices in one file: a column, told in truth, says by which one a person answered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ppdm_dask.designs.base import Design, design_from_config, made_by
from ppdm_dask.designs.binding import require_labels
from ppdm_dask.designs.labels import read_categories
from ppdm_dask.designs.matrix import RRMatrix
from ppdm_dask.designs.parameters import LABELS, one_attribute
from ppdm_dask.errors import DesignError
from ppdm_dask.shown import given, quoted

__all__ = ["mixed"]


def mixed(by: str, devices: Mapping[str, Design], categories: Sequence[Any]) -> RRMatrix:
    """The matrix over a column and the answers, with a block of each device on its diagonal.

    Its inverse has the devices' inverses on its diagonal, so an estimate over all is the sum of
    those within the devices, by their shares: that of strata.

    Parameters
    ----------
    by : str
        Attribute whose category says which device a person used; reported in truth.
    devices : mapping of label to Design
        Over the same attributes, with reports of the same kind.
    categories : sequence of str, or one for each attribute
        Labels of what the devices are about, in whose order the codes are.

    Raises
    ------
    DesignError
        If devices disagree on attributes or symbols.

    Examples
    --------
    >>> from ppdm_dask.designs import Crosswise, Mangat
    >>> form = {"A": Crosswise("used", 0.25), "B": Mangat("used", 0.7, trait="yes")}
    >>> mixed("form", form, ["no", "yes"]).matrix().round(2).tolist()
    [[0.25, 0.75, 0.0, 0.0], [0.75, 0.25, 0.0, 0.0], [0.0, 0.0, 0.7, 0.0], [0.0, 0.0, 0.3, 1.0]]
    """
    (name,) = one_attribute(by)
    if len(devices) < 2:
        raise DesignError("devices: a table of two or more designs by label is needed", devices)
    first = next(iter(devices.values()))
    labels = read_categories(categories, first.attributes, first.shape)
    orders = {n: each for n, each in zip(first.attributes, labels, strict=True) if each}
    if len(orders) < len(first.attributes):
        lacking = [n for n in first.attributes if n not in orders]
        raise DesignError(f"categories: no labels of {quoted(lacking)}", categories)
    parts: dict[str, Design] = {}
    for label, device in devices.items():
        same = (device.attributes, device.shape, device.reported_shape)
        if same != (first.attributes, first.shape, first.reported_shape):
            raise DesignError(
                f"devices: {given(label)} is about {quoted(device.attributes)} in "
                f"{list(device.shape)} categories and {list(device.reported_shape)} symbols; the "
                f"first is about {quoted(first.attributes)} in {list(first.shape)} and "
                f"{list(first.reported_shape)}",
                device,
            )
        if any(block.kind == "set" for block in device.blocks):
            raise DesignError(f"devices: reports of {given(label)} are sets; use symbols", device)
        require_labels(device, orders)
        parts[label] = device.in_order(orders)
    m, k = first.n_reported, first.n_true
    P = np.zeros((len(parts) * m, len(parts) * k))
    for i, device in enumerate(parts.values()):
        P[i * m : (i + 1) * m, i * k : (i + 1) * k] = device.matrix()
    made = RRMatrix(
        (name, *first.attributes),
        P,
        (len(parts), *first.shape),
        (len(parts), *first.reported_shape),
        categories=[list(parts), *(list(orders[n]) for n in first.attributes)],
    )
    words = _words(parts, orders)
    return made.with_symbols(words) if words else made


def _words(
    devices: Mapping[str, Design], orders: Mapping[str, Sequence[str]]
) -> dict[str, dict[str, dict[str, str]]]:
    """Words of each device; of one that has none the labels themselves."""
    found: dict[str, dict[str, dict[str, str]]] = {}
    for axis, (name, labels) in enumerate(orders.items()):
        stated = {label: device.symbols.get(name) for label, device in devices.items()}
        if any(stated.values()):
            size = next(iter(devices.values())).reported_shape[axis]
            texts = labels if size == len(labels) else [str(i) for i in range(size)]
            own = {text: text for text in texts}
            found[name] = {label: dict(words or own) for label, words in stated.items()}
    return found


@made_by(
    "mixed",
    "Several devices in one file: a column says by which one a person answered.",
    {
        "by": {
            "type": "string",
            "minLength": 1,
            "description": "The column that names the device; it is not disguised.",
        },
        "devices": {
            "type": "object",
            "minProperties": 2,
            "additionalProperties": {"$ref": "#"},
            "description": "A design for each category of it, over the same attributes.",
        },
        "categories": {
            **LABELS.schema(),
            "description": "Labels of the attribute that the devices ask about.",
        },
    },
)
def _from_config(by: Any, devices: Any, categories: Any) -> Design:
    if not isinstance(devices, Mapping):
        raise DesignError(f"devices: got {given(devices)}; a table of designs is needed", devices)
    return mixed(by, {k: design_from_config(v) for k, v in devices.items()}, categories)
