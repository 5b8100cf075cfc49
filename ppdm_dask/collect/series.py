"""A series of waves: what a device keeps of a permanent first stage, and reports drawn from it.

Between waves a device keeps, for each block with a permanent first stage, the symbols of that stage
and never an answer.  Where a symbol is a category it is written as the number that the category has
among all of them in alphabetical order, so that a codebook in another order reads it alike.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ppdm_dask.designs.permanent import Permanent, permanent_blocks
from ppdm_dask.errors import DataError, InputError
from ppdm_dask.files.documents import Form, misfit, read_sealed, seal
from ppdm_dask.files.writing import write_text
from ppdm_dask.shown import quoted

if TYPE_CHECKING:
    from ppdm_dask.data.codebook import Codebook, Records, Reports
    from ppdm_dask.designs.base import Design
    from ppdm_dask.randomness import Stream

__all__ = ["Devices", "disguise_wave", "keeps_of"]

Symbols = npt.NDArray[np.int64]

FORMAT = 1
FORM: Form = {
    "ppdm": str,
    "format": int,
    "blocks": {...: {"stage": str, "symbols": [[int]]}},
}


def keeps_of(block: Permanent, codebook: Codebook) -> dict[str, Any]:
    """What tells a device whether the symbols that it keeps are those of a block.

    Parameters
    ----------
    block : Permanent
        Bound to the codebook.
    codebook : Codebook

    Returns
    -------
    dict
        ``name`` of its attributes; ``stage``, a digest of the first stage and its categories,
        whatever their order; ``order``, for each attribute the number that is kept for each symbol.
    """
    categories = {name: sorted(codebook[name].categories) for name in block.attributes}
    about = json.dumps([block.first.digest, categories], sort_keys=True, ensure_ascii=False)
    order = []
    for name, size in zip(block.attributes, block.first.reported_shape, strict=True):
        own = codebook[name].categories
        labelled = size == len(own)
        order.append([categories[name].index(c) for c in own] if labelled else list(range(size)))
    stage = hashlib.sha256(about.encode()).hexdigest()[:32]
    return {"name": json.dumps(list(block.attributes)), "stage": stage, "order": order}


class Devices:
    """Symbols that invented respondents' devices keep between the waves of a rehearsal.

    Parameters
    ----------
    blocks : mapping
        By the name of a block: ``stage``, and ``symbols`` with a list for each device.
    source : str
        For messages.
    """

    def __init__(self, blocks: Mapping[str, Any] | None = None, source: str = "devices") -> None:
        self.blocks: dict[str, Any] = dict(blocks or {})
        self.source = source

    @classmethod
    def read(cls, path: Path) -> Devices:
        """Read what :meth:`write` wrote; new devices where there is no file.

        Raises
        ------
        DataError
            If it is not such a file.
        """
        if not path.exists():
            return cls(source=str(path))
        found = read_sealed(path, "file of devices of ppdm survey rehearse", DataError)
        if (where := misfit(found, FORM)) is not None or found["format"] != FORMAT:
            raise DataError(f"{path}: {where or 'format'}: was not written by this version", path)
        return cls(found["blocks"], str(path))

    def write(self, path: Path) -> None:
        """Write the symbols: JSON, with a checksum."""
        about = {"ppdm": "devices", "format": FORMAT, "blocks": self.blocks}
        write_text(path, json.dumps(seal(about)) + "\n")

    def symbols(self, block: Permanent, codebook: Codebook, n: int) -> Symbols | None:
        """What n devices keep of a block, shape (n, attributes); None where they keep nothing yet.

        Raises
        ------
        InputError
            If they keep symbols of another first stage, which no page would draw again either;
            there are not as many devices as respondents; or what is kept is not a symbol.
        """
        keeps = keeps_of(block, codebook)
        kept = self.blocks.get(keeps["name"])
        if kept is None:
            return None
        named = f"{self.source}: symbols of {quoted(block.attributes)}"
        if kept["stage"] != keeps["stage"]:
            raise InputError(
                f"{named} are of another first stage; a series keeps the one that it began with",
                block,
            )
        rows = kept["symbols"]
        if len(rows) != n:
            raise InputError(f"{named} are of {len(rows):,} devices; there are {n:,} records", n)
        back = [np.argsort(order) for order in keeps["order"]]
        for i, row in enumerate(rows):
            pairs = zip(row, back, strict=False)
            if len(row) != len(back) or not all(0 <= v < len(turn) for v, turn in pairs):
                raise DataError(f"{named}: device {i}: was not written by this version", row)
        codes = np.array(rows, np.int64).reshape(n, len(back))
        return np.stack([turn[codes[:, i]] for i, turn in enumerate(back)], axis=1)

    def keep(self, block: Permanent, codebook: Codebook, symbols: Symbols) -> None:
        """Keep the symbols of a block, a row for each device."""
        keeps = keeps_of(block, codebook)
        numbered = [np.array(order)[symbols[:, i]] for i, order in enumerate(keeps["order"])]
        rows = np.stack(numbered, axis=1).tolist()
        self.blocks[keeps["name"]] = {"stage": keeps["stage"], "symbols": rows}


def disguise_wave(design: Design, records: Records, stream: Stream, devices: Devices) -> Reports:
    """Reports of one wave, from the permanent symbols that devices keep.

    Devices that keep none draw them now, and keep them; the true answer to a block whose symbols
    are kept is not looked at.

    Parameters
    ----------
    design : Design
        Bound to the codebook of the records.
    records : Records
        One for each device, in the same order at each wave.
    stream : Stream
    devices : Devices

    Raises
    ------
    InputError
        If the devices keep symbols of another first stage, or of another number of respondents.
    """
    made = design.disguise(records, stream.child(0))
    codes, drawing = made.codes.copy(order="F"), stream.child(1)
    for j, block in enumerate(permanent_blocks(design)):
        columns = [records.codebook.index(name) for name in block.attributes]
        kept = devices.symbols(block, records.codebook, len(records))
        if kept is None:
            own = records.codes[:, columns]
            kept = block.first.sample(own, drawing.child(j, 0), 0).astype(np.int64)
            devices.keep(block, records.codebook, kept)
        codes[:, columns] = block.again.sample(kept, drawing.child(j, 1), 0)
    return replace(made, codes=codes)
