"""What a reproduction leaves for machines: ``reproduction.json``, ``drift.json``, a notification.

A command is called once when a drift is new, and once when all drifts are gone.
"""

from __future__ import annotations

import hashlib
import json
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ppdm_dask import __version__
from ppdm_dask.engine.environment import code_version
from ppdm_dask.errors import InputError, RunFolderError
from ppdm_dask.experiments.folder import now
from ppdm_dask.files.documents import misfit, read_sealed, seal
from ppdm_dask.files.writing import write_text
from ppdm_dask.reproduce.golden import fingerprint
from ppdm_dask.reproduce.reproduce import Grade, Reproduced
from ppdm_dask.shown import given

__all__ = ["Notice", "check_hook", "notify"]


REPRODUCTION, DRIFT = "reproduction.json", "drift.json"
WRONG = ("drifted", "failed")


def make_reproduction(grade: Grade, results: Sequence[Reproduced], started: str) -> dict[str, Any]:
    """All that was run and compared, as JSON values."""
    return {
        "schema": "ppdm reproduction 1",
        **_head(grade, results),
        "started": started,
        "finished": now(),
        "left_out": [{"name": name, "reason": why} for name, why in grade.left_out.items()],
        "recipes": [{**result.config(), "grade": grade.name} for result in results],
    }


def make_drift(grade: Grade, results: Sequence[Reproduced]) -> dict[str, Any]:
    """What drifted, as JSON values; where nothing did, its lists are empty."""
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

    It is the same for the same variables and cells, whatever their figures: on another machine the
    same drift has other figures.
    """
    return {result.recipe: _key(result) for result in results}


def _key(result: Reproduced) -> str | None:
    found = result.comparison
    if found.status not in WRONG:
        return None
    # Without figures, or a drift would be reported again every night.
    cells = sorted([drift.variable, drift.cell] for drift in found.drifts)
    text = json.dumps([result.recipe, found.status, cells], separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write a document with a checksum of its content, atomically."""
    text = json.dumps(seal(value), indent=2, ensure_ascii=False, allow_nan=False)
    write_text(path, text + "\n")


def forget(out: Path) -> None:
    """Remove the runs of a reproduction that came to its end, so that the next one computes.

    One that was interrupted has left no ``reproduction.json``; its runs stay and are resumed.

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
        # Only what lies below this folder: the document may have been copied, or edited.
        if runs in folder.parents and (folder / "manifest.json").is_file():
            (folder / "manifest.json").unlink()
            shutil.rmtree(folder, ignore_errors=True)


SCHEMA = "ppdm drift state 1"
HOOK_SECONDS = 300.0

OPEN = {"since": str, "key": str, "told": [str]}
FORM = {"grades": {...: {"told": bool, "open": {...: OPEN}}}}

Event = Literal["drift", "closed"]


@dataclass(frozen=True)
class Notice:
    """The result of a notification.

    Parameters
    ----------
    event : {"drift", "closed"} or None
        What the hook was called for, if at all.
    since : str
        When the oldest open drift was first seen; empty if none is open.
    problem : str
        Why the hook failed; empty if it did not.
    """

    event: Event | None
    since: str = ""
    problem: str = ""


def check_hook(hook: str) -> list[str]:
    """Split a hook as a shell would.

    Raises
    ------
    InputError
        If it is empty or its quotes do not match.
    """
    try:
        command = shlex.split(hook)
    except ValueError as error:
        raise InputError(f"--hook: got {given(hook)}; {error}", hook) from None
    if not command:
        raise InputError("--hook: got nothing; a command is needed", hook)
    return command


def notify(
    state: Path, grade: str, keys: Mapping[str, str | None], document: Path, hook: str | None = None
) -> Notice:
    """Record the drifts of a reproduction, and call the hook if something is new.

    Parameters
    ----------
    state : Path
        File that records which drifts are open, and which of them were notified.
    grade : str
    keys : mapping of str to str or None
        For each recipe that was compared, the key of its drift, or None. The records of other
        recipes and grades are kept.
    document : Path
        ``drift.json``.
    hook : str, optional
        A command; it is given two more arguments, ``drift`` or ``closed`` and the document. If it
        fails, it is called again the next time.

    Raises
    ------
    InputError
        If the state is something else, or cannot be written.
    """
    # Recipes that were not compared this time keep what is remembered of them.
    everything = _read(state)
    before = everything.get(grade, {"told": False, "open": {}})
    after = deepcopy(before)
    for recipe, key in keys.items():
        known = after["open"].pop(recipe, None) or {"since": now(), "told": []}
        if key is not None:
            after["open"][recipe] = {**known, "key": key}
    entries = after["open"].values()
    since = min((entry["since"] for entry in entries), default="")
    event: Event | None = None
    if hook and any(entry["key"] not in entry["told"] for entry in entries):
        event = "drift"
    elif hook and after["told"] and not entries:
        event = "closed"
    problem = _call(hook, event, document) if hook and event else ""
    # Only what the hook took in counts as told; after a failure it is called again.
    if event and not problem:
        after["told"] = event == "drift"
        for entry in entries:
            entry["told"] = list(dict.fromkeys([*entry["told"], entry["key"]]))
    if after != before:
        write_json(state, {"schema": SCHEMA, "grades": {**everything, grade: after}})
    return Notice(event, since, problem)


def _call(hook: str, event: Event, document: Path) -> str:
    """Call the hook; return what went wrong, or nothing."""
    command = [*check_hook(hook), event, str(document.resolve())]
    try:
        # Without a shell, so that the path of the document needs no quoting.
        done = subprocess.run(command, stdin=subprocess.DEVNULL, check=False, timeout=HOOK_SECONDS)
    except OSError as error:
        return f"the hook {command[0]} cannot be run: {error.strerror}"
    except subprocess.TimeoutExpired:
        return f"the hook {command[0]} took more than {HOOK_SECONDS:g} s"
    return f"the hook {command[0]} ended with {done.returncode}" if done.returncode else ""


def _read(state: Path) -> dict[str, dict[str, Any]]:
    """Return what is remembered, by grade: whether somebody was told, and the open drifts."""
    what = "state of notifications"
    try:
        found = read_sealed(state, what, RunFolderError, required=False)
    except FileNotFoundError:
        return {}
    except RunFolderError as error:
        raise RunFolderError(f"{error}; move it away to begin again", state) from None
    if found.get("schema") != SCHEMA or misfit(found, FORM) is not None:
        raise RunFolderError(f"{state}: this is not a {what}; move it away to begin again", state)
    return {str(name): dict(entry) for name, entry in found["grades"].items()}
