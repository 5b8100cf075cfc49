"""What a reader of a perturbation's result must know: which settings are of use, and which not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["perturbation_findings"]


def perturbation_findings(ds: xr.Dataset) -> list[str]:
    """Sentences on the choice of each method's parameter.

    Parameters
    ----------
    ds : xarray.Dataset
        A result as ``build_dataset`` makes it.

    Returns
    -------
    list of str
        In the order of the data entries and the recipe's ``[[perturb]]``.
    """
    found: list[str] = []
    for i, name in enumerate(ds["data"].to_numpy()):
        part = ds.isel(data=i)
        entries = [str(entry) for entry in part["entry"].to_numpy() if entry]
        for entry in dict.fromkeys(entries):
            rows = np.flatnonzero(part["entry"].to_numpy() == entry)
            found += _choice(part.isel(setting=rows), str(name), entry)
    return found


def _choice(part: xr.Dataset, name: str, entry: str) -> Iterator[str]:
    chosen = part["chosen"].to_numpy()
    if (chosen < 0).any():
        return
    accept, judges = part.attrs["accept"], json.loads(part.attrs["judges"])
    if (chosen == 1).any():
        label, worst = _worst(part, judges, int(np.argmax(chosen)))
        yield (
            f"{name}, {entry}: {label} is the most private setting with r < {accept:g} for "
            f"{', '.join(judges)}; the largest r is {worst}."
        )
    else:
        label, worst = min((_worst(part, judges, s) for s in range(len(chosen))), key=_r)
        yield (
            f"{name}, {entry}: no setting has r < {accept:g} for {', '.join(judges)}; "
            f"{label} comes closest, with r = {worst}."
        )
    published = part["published"].to_numpy() == 1
    if published.any() and not (published & (chosen == 1)).any():
        label, worst = _worst(part, judges, int(np.argmax(published)))
        yield f"{name}, {entry}: at the published setting, {label}, the largest r is {worst}."


def _worst(part: xr.Dataset, judges: list[str], s: int) -> tuple[str, str]:
    """Label of a setting, and the largest r of any judge in words."""
    row = part.isel(setting=s).sel(classifier=judges)
    c = int(np.argmax(row["r_mean"].to_numpy()))
    r, error = float(row["r_mean"][c]), float(row["r_mean_se"][c])
    return str(row["setting"].item()), f"{r:.4f} ± {error:.4f} ({judges[c]})"


def _r(choice: tuple[str, str]) -> float:
    return float(choice[1].split(" ", 1)[0])
