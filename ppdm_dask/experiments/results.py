"""The result of an experiment as an xarray dataset: written, read, and its digest."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ppdm_dask.errors import RunFolderError
from ppdm_dask.experiments.grid import grid_axes
from ppdm_dask.experiments.kinds import KINDS, kind_of_result
from ppdm_dask.experiments.variables import GRID
from ppdm_dask.files.fields import show
from ppdm_dask.files.regular import read_bounded
from ppdm_dask.files.writing import replacing
from ppdm_dask.shown import located

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["write_netcdf"]

MOST_BYTES = 4 << 30
"""Of a file of which nothing is known; no result comes near it."""


def write_netcdf(ds: xr.Dataset, path: Path) -> dict[str, Any]:
    """Write a result as netCDF-4 (h5netcdf), atomically.

    Returns
    -------
    dict
        ``bytes`` and ``sha256`` of the file, for :func:`read_netcdf`.

    Raises
    ------
    RunFolderError
        If the file cannot be written.
    """
    encoding: dict[str, dict[str, Any]] = {}
    for name, array in ds.variables.items():
        # Below that, the chunks' own headers take more than compression saves.
        if array.dtype.kind in "iuf" and array.size > 1_000:
            encoding[str(name)] = {"zlib": True, "complevel": 4, "shuffle": True}
    # Into memory first: HDF5 brings the process down when the disk is full.
    content = _as_bytes(ds, encoding)
    with replacing(path) as temporary:
        temporary.write_bytes(content)
    return {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def _as_bytes(ds: xr.Dataset, encoding: dict[str, dict[str, Any]]) -> Any:
    """The file of a dataset, in memory."""
    from xarray.backends import api

    dump: Any = getattr(api, "dump_to_store", None)
    if dump is None:
        return ds.to_netcdf(engine="h5netcdf", encoding=encoding)
    # Older versions of xarray make such files by their store only.
    import h5netcdf
    from xarray.backends.h5netcdf_ import H5NetCDFStore

    content = io.BytesIO()
    with h5netcdf.File(content, "w") as file:
        dump(ds, H5NetCDFStore(file), encoding=encoding)
    return content.getvalue()


def read_netcdf(path: Path, expected: Mapping[str, Any] | None = None) -> xr.Dataset:
    """Read a result into memory.

    Parameters
    ----------
    path : Path
    expected : mapping, optional
        What :func:`write_netcdf` returned.  The file is compared with it before HDF5 sees it, which
        a damaged file can bring down.

    Raises
    ------
    RunFolderError
        If the file is missing, no result, or not the one that is expected.
    """
    import xarray as xr

    try:
        content = read_bounded(path, MOST_BYTES if expected is None else expected["bytes"])
    except FileNotFoundError:
        raise RunFolderError(f"{path}: there is no such file", path) from None
    except OSError as error:
        raise RunFolderError(f"{located(path)}: cannot be read: {error.strerror}", path) from None
    if expected is not None and hashlib.sha256(content).hexdigest() != expected["sha256"]:
        raise RunFolderError(
            f"{path}: damaged or edited: not the file that the run wrote; `ppdm run` with the same "
            "recipe makes it again from the ledger",
            path,
        )
    try:
        ds = xr.load_dataset(io.BytesIO(content), engine="h5netcdf")
    except Exception as error:  # HDF5 and the layers above it have many words for damage
        what = " ".join(str(error).split())[:200]
        raise RunFolderError(f"{path}: cannot be read as netCDF-4: {what}", path) from None
    # Any netCDF file can be read; only ours has these.
    if "grid" not in ds.attrs:
        raise RunFolderError(f"{path}: this is not a result of a sweep", path)
    if (kind := ds.attrs.get("experiment")) is not None and str(kind) not in KINDS:
        raise RunFolderError(
            f"{path}: experiment: got {show(str(kind))}; one of {', '.join(KINDS)} is needed", path
        )
    return ds


def digest(ds: xr.Dataset) -> str:
    """SHA-256 over the result.

    The axes of its kind of experiment that are there, then the variables, both in the kind's order:
    each as a line of JSON ``[name, dims, shape, type]`` and its values in row-major order: integers
    and floats little-endian with one NaN, texts as their length in UTF-8 bytes (eight bytes,
    little-endian) and those bytes.
    """
    sha = hashlib.sha256()
    kind, grid = kind_of_result(ds), grid_axes(ds)
    own = [name for axis in kind.axes for name in (grid if axis == GRID else (axis,))]
    axes = [name for name in own if name in ds.coords]
    for name in [*axes, *(v.name for v in kind.variables_of(ds) if v.name in ds.data_vars)]:
        sha.update(canonical(ds[name]))
    return sha.hexdigest()


def canonical(array: xr.DataArray) -> bytes:
    """Return what the digest takes of a variable: its line of JSON, then its values."""
    kind, payload = _bytes(array.to_numpy())
    head = [array.name, list(array.dims), list(array.shape), kind]
    return json.dumps(head, separators=(",", ":")).encode() + b"\n" + payload


def _bytes(values: npt.NDArray[Any]) -> tuple[str, bytes]:
    """Type and canonical bytes of an array."""
    if values.dtype.kind in "OUT":
        # Each with its length, or "ab", "c" and "a", "bc" would have one digest.
        texts = [str(value).encode() for value in values.ravel()]
        return "str", b"".join(len(text).to_bytes(8, "little") + text for text in texts)
    # The same bytes on every machine: one byte order, one NaN of the many that there are.
    little = values.astype(values.dtype.newbyteorder("<"), order="C")
    if little.dtype.kind == "f":
        little[np.isnan(little)] = np.nan
    return little.dtype.str, little.tobytes()
