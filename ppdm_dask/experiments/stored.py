"""The result of a run that is kept in a folder: a finished one's file, else what its ledger has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ppdm_dask.errors import RunFolderError
from ppdm_dask.experiments.folder import RunFolder, read_manifest
from ppdm_dask.experiments.results import digest, read_netcdf

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["StoredRun", "read_result", "read_run"]


@dataclass(frozen=True, eq=False)
class StoredRun:
    """A run in its folder.

    Parameters
    ----------
    folder : RunFolder
    manifest : dict
        What the run says of itself.
    dataset : xarray.Dataset
        The result variables, as far as the run has come.
    """

    folder: RunFolder
    manifest: dict[str, Any]
    dataset: xr.Dataset

    @property
    def finished(self) -> bool:
        """Whether every repeat is there."""
        return bool(self.manifest["status"] == "finished")


def read_run(path: str | Path) -> StoredRun:
    """Read a run, which may be unfinished or going on at this moment.

    Raises
    ------
    RunFolderError
        If the folder is no run's, or its ledger or result cannot be read.
    InputError
        If a run is unfinished, and the recipe's codebooks or data are no longer what they were.
    """
    path = Path(path)
    manifest = read_manifest(path)
    folder = RunFolder.open(path)
    if manifest["status"] == "finished":
        return StoredRun(folder, manifest, read_result(folder.result, manifest))
    return StoredRun(folder, manifest, _collect(folder, manifest))


def read_result(path: Path, manifest: Mapping[str, Any]) -> xr.Dataset:
    """Read the result of a finished run, if it is the one that its manifest says.

    The file is compared with the manifest's checksum, and what is in it with the run's digest.

    Raises
    ------
    RunFolderError
        If it is missing, or is not that result.
    """
    ds = read_netcdf(path, manifest["result"])
    if digest(ds) != manifest["digest"]:
        raise RunFolderError(f"{path}: its numbers do not have the digest of the manifest", path)
    return ds


def _collect(folder: RunFolder, manifest: dict[str, Any]) -> xr.Dataset:
    from ppdm_dask.engine.ledger import Ledger
    from ppdm_dask.experiments.kinds import make_plan

    plan = make_plan(folder.recipe)
    if plan.inputs != manifest["inputs"]:
        raise RunFolderError(
            f"{folder.path}: the data or codebooks have changed since the run began", folder.path
        )
    with Ledger(folder.ledger, readonly=True) as ledger:
        return plan.collect(ledger)
