"""The result of a sweep as an xarray dataset: assembled, written, read, and its digest."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ppdm_dask.errors import RunFolderError
from ppdm_dask.experiments.grid import moments
from ppdm_dask.experiments.sweep.findings import findings
from ppdm_dask.experiments.variables import DIMENSIONS, REGISTRY, Variable, variable
from ppdm_dask.files.regular import read_bounded
from ppdm_dask.files.writing import replacing
from ppdm_dask.shown import located

if TYPE_CHECKING:
    import xarray as xr

__all__ = [
    "build_dataset",
    "canonical",
    "digest",
    "empty_arrays",
    "findings",
    "grid_axes",
    "read_netcdf",
    "registry",
    "write_netcdf",
]

Arrays = Mapping[str, npt.ArrayLike]

MOST_BYTES = 4 << 30
"""Of a file of which nothing is known; no result comes near it."""

Coordinates = Mapping[str, Sequence[Any]]


def grid_axes(ds: xr.Dataset) -> tuple[str, ...]:
    """Return the axes of the recipe's grid in a result, in their order."""
    return tuple(json.loads(ds.attrs["grid"]))


def empty_arrays(
    coordinates: Coordinates, repeats: int, splits: int = 1, optional: Collection[str] = ()
) -> dict[str, npt.NDArray[Any]]:
    """Arrays of measured variables that say everywhere that there is no number.

    Parameters
    ----------
    coordinates : mapping of str to sequence
        Axis ``data``, the grid's axes in order and, for the variables on them, ``column`` (texts
        ``data/attribute``) and ``w_a``.
    repeats : int
        Length of the axis ``repeat``.
    splits : int
        1 for one split of the data, or as many as repeats.
    optional : collection of str
        Which optional variables are wanted besides those on ``column`` and ``w_a``, which are
        there where their axis is.

    Returns
    -------
    dict of str to array
        To be filled, and given to :func:`build_dataset`.
    """
    sizes = {name: len(values) for name, values in coordinates.items()}
    sizes |= {"repeat": repeats, "split": splits}
    arrays = {}
    for declared in REGISTRY:
        dims = declared.dimensions(_grid(coordinates))
        wanted = declared.kind == "measured" or declared.name in optional
        if declared.kind == "optional" and not {"column", "w_a"}.isdisjoint(dims):
            wanted = set(dims) <= set(sizes)
        if wanted:
            arrays[declared.name] = declared.empty(tuple(sizes[dim] for dim in dims))
    return arrays


def build_dataset(
    measured: Arrays, coordinates: Coordinates, attributes: Mapping[str, str | int] | None = None
) -> xr.Dataset:
    """Assemble a sweep's result, and derive its statistics.

    Parameters
    ----------
    measured : mapping of str to array
        The measured variables of the registry, shaped as it declares them.
    coordinates : mapping of str to sequence
        As for :func:`empty_arrays`; the grid's axes are those that the registry does not know.
    attributes : mapping, optional
        Further attributes of the dataset (title, recipe).

    Returns
    -------
    xarray.Dataset
        All variables in registry order, each with its units and a description.

    Raises
    ------
    ValueError
        For an unknown or missing variable, a wrong shape, or values that its type cannot hold.
    """
    import xarray as xr

    grid = _grid(coordinates)
    names = {v.name for v in REGISTRY if v.kind != "derived"}
    needed = {v.name for v in REGISTRY if v.kind == "measured"}
    if unknown := sorted(set(measured) - names):
        raise ValueError(f"no measured variable is called {unknown[0]!r}")
    if missing := sorted(needed - set(measured)):
        raise ValueError(f"the measured variable {missing[0]!r} is missing")
    arrays = {name: _cast(variable(name), values) for name, values in measured.items()}
    arrays |= _derive(arrays, coordinates)
    variables = {}
    for declared in REGISTRY:
        if declared.name in arrays:
            labels = {"long_name": declared.doc, "units": declared.units}
            dims = declared.dimensions(grid)
            variables[declared.name] = (dims, arrays[declared.name], labels)
    axes = {name: _coordinate(name, values) for name, values in coordinates.items()}
    return xr.Dataset(variables, axes, {**(attributes or {}), "grid": json.dumps(grid)})


def write_netcdf(ds: xr.Dataset, path: Path) -> dict[str, Any]:
    """Write a result as netCDF-4 (h5netcdf), whole or not at all.

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
        if array.dtype.kind in "iuf" and array.size > 1_000:
            encoding[str(name)] = {"zlib": True, "complevel": 4, "shuffle": True}
    # Into memory first: HDF5 brings the process down when the disk is full.
    content = ds.to_netcdf(engine="h5netcdf", encoding=encoding)
    with replacing(path) as temporary:
        temporary.write_bytes(content)
    return {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


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
    if "grid" not in ds.attrs:
        raise RunFolderError(f"{path}: this is no result of a sweep", path)
    return ds


def digest(ds: xr.Dataset) -> str:
    """SHA-256 over the result.

    Those of the axes ``data``, ``case``, the grid's, ``column``, ``w_a``, ``classifier`` and
    ``level`` that are there, then the variables in the order of the experiment's registry, each as
    a line of JSON ``[name, dims, shape, type]`` and its values in row-major order: integers and
    floats little-endian with one NaN, texts as their length
    in UTF-8 bytes (eight bytes, little-endian) and those bytes.
    """
    sha = hashlib.sha256()
    own = ("data", "case", *grid_axes(ds), "column", "w_a", "classifier", "level")
    axes = [name for name in own if name in ds.coords]
    for name in [*axes, *(v.name for v in registry(ds) if v.name in ds.data_vars)]:
        sha.update(canonical(ds[name]))
    return sha.hexdigest()


def canonical(array: xr.DataArray) -> bytes:
    """Return what the digest takes of a variable: its line of JSON, then its values."""
    kind, payload = _bytes(array.to_numpy())
    head = [array.name, list(array.dims), list(array.shape), kind]
    return json.dumps(head, separators=(",", ":")).encode() + b"\n" + payload


def registry(ds: xr.Dataset) -> tuple[Variable, ...]:
    """Return the variables that results of this kind of experiment may have, in their order."""
    if ds.attrs.get("experiment") == "front":
        from ppdm_dask.experiments.fronts.variables import FRONT_REGISTRY

        return FRONT_REGISTRY
    if ds.attrs.get("experiment") != "perturbation":
        return REGISTRY
    from ppdm_dask.experiments.perturbation.variables import PERTURBATION_REGISTRY

    return PERTURBATION_REGISTRY


def _bytes(values: npt.NDArray[Any]) -> tuple[str, bytes]:
    """Type and canonical bytes of an array."""
    if values.dtype.kind in "OUT":
        texts = [str(value).encode() for value in values.ravel()]
        return "str", b"".join(len(text).to_bytes(8, "little") + text for text in texts)
    little = values.astype(values.dtype.newbyteorder("<"), order="C")
    if little.dtype.kind == "f":
        little[np.isnan(little)] = np.nan
    return little.dtype.str, little.tobytes()


def _grid(coordinates: Coordinates) -> tuple[str, ...]:
    return tuple(name for name in coordinates if name not in DIMENSIONS)


def _coordinate(name: str, values: Sequence[Any]) -> tuple[str, npt.NDArray[Any]]:
    array = np.asarray(values)
    return name, array.astype(object) if array.dtype.kind == "U" else array


def _cast(declared: Variable, values: npt.ArrayLike) -> npt.NDArray[Any]:
    """Return the values in the declared type, unchanged."""
    array = np.asarray(values)
    cast = array.astype(object if declared.dtype == "str" else declared.dtype)
    if declared.dtype == "int32" and not np.array_equal(cast, array):
        raise ValueError(f"{declared.name} does not fit into {declared.dtype}")
    return cast


def _derive(arrays: Mapping[str, npt.NDArray[Any]], axes: Coordinates) -> dict[str, Any]:
    """Return the statistics of the measured variables."""
    shape = arrays["correct"].shape[:-1]
    names = {v.name for v in REGISTRY if v.kind == "derived"} - {"pse"}
    if "nodes" not in arrays:
        names.remove("negative_share")
    found = {name: variable(name).empty(shape) for name in names}
    for name in ("benchmark", "majority"):
        counts = arrays[f"{name}_correct"]
        found[name] = np.array(
            [moments(row[row >= 0], n).mean for row, n in zip(counts, _sizes(arrays), strict=True)]
        )
    for index in np.ndindex(shape):
        there = arrays["correct"][index] >= 0
        found["completed"][index] = np.count_nonzero(there)
        clean = moments(arrays["correct"][index][there], _sizes(arrays)[index[0]])
        disguised = moments(arrays["accuracy_disguised"][index][there])
        for key, value in clean._asdict().items():
            found[f"accuracy_{key}"][index] = value
        for key, value in disguised._asdict().items():
            found[f"disguised_{key}"][index] = value
        floored = arrays["floored"][index][there]
        found["floored_mean"][index] = moments(floored).mean
        if "nodes" in arrays:
            share = moments(floored / arrays["nodes"][index][there]).mean
            found["negative_share"][index] = share
    if "pse_attribute" in arrays:
        found["pse"] = _least(arrays["pse_attribute"], axes)
    return found


def _sizes(arrays: Mapping[str, npt.NDArray[Any]]) -> list[int]:
    return [int(n) for n in arrays["n_test"]]


def _least(pse: npt.NDArray[np.float64], axes: Coordinates) -> npt.NDArray[np.float64]:
    """Minimum over the columns of each data entry."""
    owner = np.array([str(column).partition("/")[0] for column in axes["column"]])
    return np.stack([pse[owner == entry].min(axis=0) for entry in axes["data"]])
