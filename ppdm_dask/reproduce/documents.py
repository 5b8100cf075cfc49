"""What a reproduction leaves for machines: ``reproduction.json`` and ``drift.json``.

Beside it: forget the runs of a reproduction, so that a scheduled one computes and not only reads.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ppdm_dask import __version__
from ppdm_dask.engine.environment import code_version
from ppdm_dask.errors import RunFolderError
from ppdm_dask.experiments.folder import now
from ppdm_dask.files.documents import read_sealed, seal
from ppdm_dask.files.writing import write_text
from ppdm_dask.reproduce.fingerprint import fingerprint
from ppdm_dask.reproduce.reproduce import Grade, Reproduced

__all__ = [
    "DRIFT",
    "REPRODUCTION",
    "drift_keys",
    "forget",
    "make_drift",
    "make_reproduction",
    "write_json",
]


REPRODUCTION, DRIFT = "reproduction.json", "drift.json"
WRONG = ("drifted", "failed")


def make_reproduction(grade: Grade, results: Sequence[Reproduced], started: str) -> dict[str, Any]:
    """Return all that was run and compared, as JSON values.

    Parameters
    ----------
    grade : Grade
    results : sequence of Reproduced
    started : str
        As of :func:`~ppdm_dask.experiments.folder.now`.
    """
    return {
        "schema": "ppdm reproduction 1",
        **_head(grade, results),
        "started": started,
        "finished": now(),
        "left_out": [{"name": name, "reason": why} for name, why in grade.left_out.items()],
        "recipes": [{**result.config(), "grade": grade.name} for result in results],
    }


def make_drift(grade: Grade, results: Sequence[Reproduced]) -> dict[str, Any]:
    """Return what drifted, as JSON values; where nothing did, its lists are empty."""
    return {
        "schema": "ppdm drift 1",
        **_head(grade, results),
        "made": now(),
        "recipes": [
            {
                "name": result.recipe,
                "status": result.comparison.status,
                "comparison": result.comparison.kind,
                "reasons": list(result.comparison.reasons),
                "expected_digest": result.expected,
                "found_digest": result.finished.digest if result.finished else None,
            }
            for result in results
            if result.comparison.status in WRONG
        ],
        "drifts": [drift.config() for result in results for drift in result.comparison.drifts],
    }


def _head(grade: Grade, results: Sequence[Reproduced]) -> dict[str, Any]:
    wrong = any(result.comparison.status in WRONG for result in results)
    return {
        "grade": grade.name,
        "against": str(grade.folder),
        "status": "drift" if wrong else "green",
        "version": __version__,
        "code_version": code_version(),
        "fingerprint": fingerprint(),
    }


def drift_keys(results: Sequence[Reproduced]) -> dict[str, str | None]:
    """Return a key of each recipe's drift, None where it has none.

    It is the same for the same variables and cells, whatever their figures: with other draws on
    another machine the figures of one and the same drift are others.
    """
    return {result.recipe: _key(result) for result in results}


def _key(result: Reproduced) -> str | None:
    found = result.comparison
    if found.status not in WRONG:
        return None
    cells = sorted([drift.variable, drift.cell] for drift in found.drifts)
    text = json.dumps([result.recipe, found.status, cells], separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write a document with a checksum of its content, whole or not at all."""
    text = json.dumps(seal(value), indent=2, ensure_ascii=False, allow_nan=False)
    write_text(path, text + "\n")


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
