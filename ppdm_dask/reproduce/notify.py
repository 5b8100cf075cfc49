"""One notification a drift: a command is called when a drift is new, and once when all are gone."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ppdm_dask.errors import InputError, RunFolderError
from ppdm_dask.experiments.folder import now
from ppdm_dask.files.documents import misfit, read_sealed
from ppdm_dask.reproduce.documents import write_json
from ppdm_dask.shown import given

__all__ = ["Notice", "check_hook", "notify"]


SCHEMA = "ppdm drift state 1"
HOOK_SECONDS = 300.0

DRIFT = {"since": str, "key": str, "told": [str]}
FORM = {"grades": {...: {"told": bool, "open": {...: DRIFT}}}}

Event = Literal["drift", "closed"]


@dataclass(frozen=True)
class Notice:
    """What became of a notification.

    Parameters
    ----------
    event : {"drift", "closed"} or None
        What the hook was called for, if at all.
    since : str
        When the oldest open drift was first seen; empty without one.
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
    """Remember the drifts of a reproduction, and call the hook where there is something to tell.

    Parameters
    ----------
    state : Path
        File that remembers which drifts are open, and of which somebody was told.
    grade : str
    keys : mapping of str to str or None
        Of each recipe that was compared, the key of its drift or None. What is remembered of other
        recipes and grades stays.
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
    if event and not problem:
        after["told"] = event == "drift"
        for entry in entries:
            entry["told"] = list(dict.fromkeys([*entry["told"], entry["key"]]))
    if after != before:
        write_json(state, {"schema": SCHEMA, "grades": {**everything, grade: after}})
    return Notice(event, since, problem)


def _call(hook: str, event: Event, document: Path) -> str:
    """Call the hook; what went wrong, or nothing."""
    command = [*check_hook(hook), event, str(document.resolve())]
    try:
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
        raise RunFolderError(f"{state}: this is no {what}; move it away to begin again", state)
    return {str(name): dict(entry) for name, entry in found["grades"].items()}
