"""Forget the runs of a reproduction, so that a scheduled one computes and not only reads."""

from __future__ import annotations

import shutil
from pathlib import Path

from ppdm_dask.errors import RunFolderError
from ppdm_dask.experiments.reproduce.documents import REPRODUCTION
from ppdm_dask.experiments.sealed import read_sealed

__all__ = ["forget"]


def forget(out: Path) -> None:
    """Remove the runs of a reproduction that came to its end.

    One that was interrupted has left no ``reproduction.json``; its runs stay and are gone on with.

    Raises
    ------
    RunFolderError
        If the folder is not a reproduction's, or a run cannot be removed.
    """
    document = out / REPRODUCTION
    try:
        found = read_sealed(document, "reproduction", RunFolderError, required=False)
        folders = [Path(recipe["folder"]) for recipe in found["recipes"]]
    except FileNotFoundError:
        return
    except RunFolderError as error:
        raise RunFolderError(f"{error}; move it away", out) from None
    except (KeyError, TypeError) as error:
        what = " ".join(str(error).split())
        raise RunFolderError(f"{document}: cannot be read ({what}); move it away", out) from None
    runs = (out / "runs").resolve()
    # The document first: what is removed by halves must not count as finished.
    document.unlink()
    for folder in folders:
        if runs in folder.parents and (folder / "manifest.json").is_file():
            (folder / "manifest.json").unlink()
            shutil.rmtree(folder, ignore_errors=True)
