"""What a reader of fronts must know: where a search falls behind Warner's matrices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from ppdm_dask.search.limit import SHARES

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["front_findings"]

WORSE = 1e-9
"""Relative excess over Warner's MSE that is no rounding."""


def front_findings(ds: xr.Dataset) -> list[str]:
    """Sentences on levels at which Warner's best matrix beats a search, and on missing priors."""
    return [*_behind_warner(ds), *_dropped(ds)]


def _behind_warner(ds: xr.Dataset) -> Iterator[str]:
    methods = [str(name) for name in ds["method"].to_numpy()]
    warner = ds["mse"].isel(method=methods.index("warner"))
    for i, case in enumerate(ds["case"].to_numpy()):
        for m, method in enumerate(methods):
            if method == "warner":
                continue
            for repeat in range(ds.sizes["repeat"]):
                own = ds["mse"].to_numpy()[i, m, repeat]
                other = warner.to_numpy()[i, repeat]
                both = np.isfinite(own) & np.isfinite(other)
                worse = both & (own > other * (1 + WORSE))
                if worse.any():
                    most = float((own[worse] / other[worse]).max())
                    at = ", ".join(f"{f:g}" for f in SHARES[worse])
                    yield (
                        f"{case}: in repeat {repeat} {method} is behind Warner's matrices at "
                        f"f = {at}, by a factor of up to {most:.4f}."
                    )


def _dropped(ds: xr.Dataset) -> Iterator[str]:
    for case, count in zip(ds["case"].to_numpy(), ds["dropped"].to_numpy(), strict=True):
        if count > 0:
            yield f"{case}: {count} bins in which no value lies were left out."
