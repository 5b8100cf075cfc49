"""The folder of a run: its manifest, whose it is, and its result.

The result of a finished run is its file; that of another is collected from its ledger.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

from ppdm_dask.engine.environment import code_version, environment
from ppdm_dask.engine.ledger import Ledger
from ppdm_dask.errors import RunFolderError
from ppdm_dask.experiments.facing import RunFace
from ppdm_dask.experiments.kinds import (
    AnyRecipe,
    kind_of_result,
    make_plan,
    recipe_from_config,
)
from ppdm_dask.experiments.results import digest, read_netcdf
from ppdm_dask.faces.face import Face
from ppdm_dask.files.documents import Form, misfit, read_sealed, seal
from ppdm_dask.files.writing import write_text
from ppdm_dask.shown import cut, listed, located

if TYPE_CHECKING:
    import xarray as xr


__all__ = ["RunFolder", "StoredRun", "now", "read_run"]


TEXT = (str, type(None))
# What commands and pages read of a manifest; the rest is for people.
FORM: Form = {
    "name": str,
    "run_id": str,
    "recipe": dict,
    "recipe_digest": str,
    "base": str,
    "inputs": {...: dict},
    "environment": {"versions": dict, "cpu_features": [str], "blas": list},
    "status": str,
    "digest": TEXT,
    "result": (dict, type(None)),
    "findings": [str],
    "quarantined": [str],
    "started": str,
}
FORM_OF_RESULT: Form = {"bytes": int, "sha256": str}

Status = Literal["running", "partial", "finished"]


def run_id(recipe: AnyRecipe) -> str:
    """Twelve hexadecimal digits from the recipe, its seed and the code version."""
    # Other sources may give other numbers: a run never mixes batches of two versions.
    text = "\n".join([recipe.digest, str(recipe.sweep.seed), code_version()])
    return hashlib.sha256(text.encode()).hexdigest()[:12]


@dataclass(frozen=True, repr=False)
class RunFolder(Face):
    """The folder of one run, which may not exist yet.

    Parameters
    ----------
    path : Path
        The folder.
    recipe : Recipe or PerturbationRecipe
        What is run.
    id : str
        The run id.
    """

    path: Path
    recipe: AnyRecipe
    id: str

    def _said(self) -> str:
        return f"RunFolder of {self.recipe.name}, run {self.id}: {self.path}"

    @classmethod
    def plan(cls, recipe: AnyRecipe, out: str | Path = "runs") -> Self:
        """The folder for the run of a recipe; nothing is written.

        Parameters
        ----------
        recipe : Recipe
        out : str or Path
            The parent folder, or the run's own folder if it holds a manifest.

        Raises
        ------
        RunFolderError
            If the folder belongs to another run, or its manifest cannot be read.
        """
        own, out = run_id(recipe), Path(out)
        # With a manifest `out` is a run's own folder, which may have been given any name.
        path = out if (out / "manifest.json").is_file() else out / f"{recipe.name}-{own}"
        folder = cls(path, recipe, own)
        if folder.manifest.is_file():
            found = read_manifest(path)
            if found["run_id"] != own:
                raise RunFolderError(
                    f"{path} is a run of {found['name']} ({found['run_id']}), "
                    f"not of {recipe.name} ({own})",
                    path,
                )
        return folder

    @classmethod
    def open(cls, path: str | Path) -> Self:
        """Return the folder of a run that exists, with the recipe that its manifest holds.

        Raises
        ------
        RunFolderError
            If it is not a run's folder.
        """
        path = Path(path)
        found = read_manifest(path)
        source = str(path / "manifest.json")
        recipe = recipe_from_config(found["recipe"], source=source, name=found["name"])
        if recipe.digest != found["recipe_digest"]:
            what = "damaged or edited: its recipe does not have the digest that it says"
            raise RunFolderError(f"{source}: {what}", path)
        # The id is the manifest's: one that is computed now has the sources of now.
        return cls(path, replace(recipe, base=Path(found["base"])), found["run_id"])

    @property
    def manifest(self) -> Path:
        """The file that describes the run and its state."""
        return self.path / "manifest.json"

    @property
    def ledger(self) -> Path:
        """The finished batches."""
        return self.path / "ledger.sqlite"

    @property
    def result(self) -> Path:
        """The result as netCDF."""
        return self.path / "result.nc"

    @property
    def figures(self) -> Path:
        """The folder of the figures."""
        return self.path / "figures"

    @property
    def checkpoints(self) -> Path:
        """The folder with checkpoints of unfinished repeats; removed when the run is finished."""
        return self.path / "checkpoints"

    def read(self) -> dict[str, Any] | None:
        """Return the manifest, or None if there is none yet."""
        return read_manifest(self.path) if self.manifest.is_file() else None

    def start(self, inputs: Mapping[str, Any]) -> None:
        """Make the folder and write its manifest; a run that was there before is resumed.

        Parameters
        ----------
        inputs : mapping
            Digests of each data entry's data and fitted codebook, as JSON values.

        Raises
        ------
        RunFolderError
            If the folder cannot be made or written (nothing is left behind then), or if the inputs
            have changed since the run began.
        """
        before = self.read()
        if before is not None and before["inputs"] != dict(inputs):
            changed = [key for key in inputs if before["inputs"].get(key) != inputs[key]]
            raise RunFolderError(
                f"{self.path}: the run began with other data or another codebook for "
                f"{listed(changed) or 'an entry'}; take another --out",
                self.path,
            )
        made = _make(self.path)
        try:
            self._write(
                {
                    "name": self.recipe.name,
                    "run_id": self.id,
                    "title": self.recipe.about.title,
                    "recipe": self.recipe.config(),
                    "recipe_digest": self.recipe.digest,
                    # Where the recipe's codebooks are: an unfinished run is read with their help.
                    "base": str(self.recipe.base.resolve()),
                    "code_version": code_version(),
                    "seed": self.recipe.sweep.seed,
                    "simulated": True,
                    "inputs": dict(inputs),
                    "environment": environment(),
                    "status": "running",
                    # A run that is taken up again is not finished, whatever it was.
                    "digest": None,
                    "result": None,
                    "findings": [],
                    "quarantined": [],
                    "started": before["started"] if before else now(),
                    "finished": None,
                }
            )
        except RunFolderError:
            _remove(made)  # an empty folder would look like a run that lost its manifest
            raise

    def finish(
        self,
        status: Status,
        *,
        digest: str | None = None,
        result: Mapping[str, Any] | None = None,
        findings: Iterable[str] = (),
        quarantined: Iterable[str] = (),
        **facts: Any,
    ) -> None:
        """Say in the manifest how the run ended.

        Parameters
        ----------
        status : {"finished", "partial", "running"}
        digest : str, optional
            Digest of the result, only of a finished run.
        result : mapping, optional
            Size and SHA-256 of its file.
        findings : iterable of str
            What a reader of the result must know.
        quarantined : iterable of str
            Trials that could not be computed.
        **facts : JSON values
            Anything else worth keeping, such as seconds of work; no number of the result.
        """
        found = read_manifest(self.path)
        found |= {
            "status": status,
            "digest": digest,
            "result": result,
            "findings": list(findings),
            "quarantined": list(quarantined),
            "finished": now() if status == "finished" else None,
            **facts,
        }
        self._write(found)

    def _write(self, content: Mapping[str, Any]) -> None:
        text = json.dumps(seal(content), indent=2, ensure_ascii=False)
        write_text(self.manifest, text + "\n")


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return the manifest of a run's folder; RunFolderError where it is missing or damaged."""
    path = folder / "manifest.json"
    try:
        found = read_sealed(path, "manifest of a run", RunFolderError)
    except FileNotFoundError:
        what = f"{folder}: this is not a run's folder, it has no manifest.json"
        raise RunFolderError(what, folder) from None
    if (at := misfit(found, FORM)) is None and found["result"] is not None:
        at = misfit(found["result"], FORM_OF_RESULT, "result")
    if at is None and found["status"] not in get_args(Status):
        at = "status"
    if at is not None:
        raise RunFolderError(f"{path}: this is not a manifest of a run: {cut(at)}", path)
    return found


def _make(path: Path) -> list[Path]:
    """Make a folder and its parents; the folders that were made, the deepest first."""
    # One by one, to know which to remove again if the run cannot begin.
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    made: list[Path] = []
    for folder in reversed(missing):
        try:
            folder.mkdir()
        except OSError as error:
            _remove(made)
            what = f"{located(path)}: the run's folder cannot be made: {error.strerror}"
            raise RunFolderError(what, path) from None
        made.insert(0, folder)
    return made


def _remove(folders: Iterable[Path]) -> None:
    for folder in folders:
        with suppress(OSError):
            folder.rmdir()


def now() -> str:
    """Return the time, to the second, in UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")


@dataclass(frozen=True, eq=False, repr=False)
class StoredRun(RunFace):
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
    def recipe(self) -> AnyRecipe:
        """What is computed."""
        return self.folder.recipe

    def _state(self) -> str:
        digest = self.manifest.get("digest")
        return f"{self.manifest['status']}{f', digest {digest[:12]}' if digest else ''}"

    @property
    def finished(self) -> bool:
        """Whether every repeat is there."""
        return bool(self.manifest["status"] == "finished")

    @property
    def findings(self) -> list[str]:
        """What a reader of the numbers must know."""
        if not self.finished:  # the manifest has none yet
            return kind_of_result(self.dataset).findings(self.dataset)
        return list(self.manifest["findings"])


def read_run(path: str | Path) -> StoredRun:
    """Read a run, which may be unfinished or still running.

    Raises
    ------
    RunFolderError
        If the folder is not a run's, or its ledger or result cannot be read.
    InputError
        If a run is unfinished, and the recipe's codebooks or data have changed.
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
    if manifest["result"] is None:  # what HDF5 then saw would be anybody's file
        what = f"{path.with_name('manifest.json')}: result: says nothing of a run that is finished"
        raise RunFolderError(what, path)
    ds = read_netcdf(path, manifest["result"])
    if digest(ds) != manifest["digest"]:
        raise RunFolderError(f"{path}: its numbers do not have the digest of the manifest", path)
    return ds


def _collect(folder: RunFolder, manifest: dict[str, Any]) -> xr.Dataset:
    plan = make_plan(folder.recipe)
    if plan.inputs != manifest["inputs"]:
        raise RunFolderError(
            f"{folder.path}: the data or codebooks have changed since the run began", folder.path
        )
    # Read only: the run may still be working in another process.
    with Ledger(folder.ledger, readonly=True) as ledger:
        return plan.collect(ledger)
