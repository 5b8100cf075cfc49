"""A local record of which answers were disguised before, beside the data.

Several independent reports of one answer say more than one: a majority of them tells the truth.
Reports cannot show it, since each disguise has a random name of its own; so whoever holds the data
keeps a record, a hidden file that only its owner may read.  It has keyed hashes of columns of
answers, how often each was disguised, and with what epsilon in all.  The key is in the user's state
folder, so that the record by itself tells nothing, not even of answers that can be guessed; it is
in the record where that folder cannot be written.  Neither is ever written into reports.

A column is known again under any name, in any file of the folder and beside any other columns, but
not with its rows in another order.  A column that says too little (all "no", say) could be that of
other people; it counts together with the other columns only.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import math
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ppdm_dask.errors import PPDMError
from ppdm_dask.files.columns import coded
from ppdm_dask.files.regular import read_bounded
from ppdm_dask.files.writing import lock, replacing
from ppdm_dask.shown import quoted

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["NAME", "NOTHING", "Again", "Answers", "Remembered", "state_folder"]

NAME = ".ppdm-disguises.json"
"""The record, in the folder of the data."""

KEY_NAME = "disguises.key"
KEY_BYTES = 32
FORMAT = 1

MOST_RECORDED = 1 << 30
"""Bytes of a record; a few of each disguised attribute."""

MIN_BITS = 64
"""Information in a column, records times entropy, from which it stands for itself."""

Columns = tuple[str, ...]


@dataclass(frozen=True)
class Again:
    """Answers that were disguised before.

    Parameters
    ----------
    attributes : tuple of str
    times : int
        With this one.
    epsilon : float or None
        The sum of all; None where one has no bound.
    """

    attributes: Columns
    times: int
    epsilon: float | None

    def sentence(self) -> str:
        """What that means."""
        names = quoted(self.attributes)
        bound = "no bound on epsilon" if self.epsilon is None else f"epsilon {self.epsilon:.4g}"
        return (
            f"again: the answers to {names} have now been disguised {self.times} times, with "
            f"{bound} in all; several reports of one answer give it away, so delete all but one"
        )


@dataclass(frozen=True)
class Remembered:
    """What the record said; `problem` is why there is none, or empty."""

    again: tuple[Again, ...] = ()
    problem: str = ""


NOTHING = Remembered()


def state_folder() -> Path:
    """Where the user's key is: ``$XDG_STATE_HOME/ppdm``, by default ``~/.local/state/ppdm``."""
    given = os.environ.get("XDG_STATE_HOME", "")
    base = Path(given) if os.path.isabs(given) else Path.home() / ".local" / "state"
    return base / "ppdm"


class Answers:
    """Columns of answers, hashed as they are read.

    Parameters
    ----------
    folder : Path
        The folder of the data.
    names : sequence of str
        Attributes that are disguised.
    """

    def __init__(self, folder: Path, names: Sequence[str]) -> None:
        self._path = folder / NAME
        self._key, self._shared = _key_of(_read_record(self._path))
        self._hashes = {name: hmac.new(self._key, digestmod=hashlib.sha256) for name in names}
        self._counts: dict[str, Counter[str]] = {name: Counter() for name in names}

    def add(self, frame: pd.DataFrame) -> None:
        """Take the next records."""
        for name, digest in self._hashes.items():
            positions, texts = coded(frame[name])
            # The last one, position -1, stands for missing values.
            keyed = [_short(self._key, text) for text in (*texts, None)]
            digest.update(np.array(keyed, "S16")[positions].tobytes())
            counted = np.bincount(positions.astype(np.intp) + 1, minlength=len(texts) + 1).tolist()
            self._counts[name].update(dict(zip(["", *texts], counted, strict=True)))

    def remember(self, epsilons: Mapping[str, float | None]) -> Remembered:
        """Enter a disguise into the record.

        Parameters
        ----------
        epsilons : mapping of attribute to float or None
            Of each attribute's block; None where there is no bound.

        Returns
        -------
        Remembered
            What was disguised before, and how often.
        """
        try:
            with _locked(self._path.parent):
                return self._enter(epsilons)
        except (OSError, PPDMError) as error:
            what = getattr(error, "strerror", None) or str(error)
            return Remembered(
                problem=f"no record could be kept beside the data ({what}); another disguise of "
                "the same answers will not be noticed"
            )

    def _enter(self, epsilons: Mapping[str, float | None]) -> Remembered:
        record = _read_record(self._path)
        known = record["answers"]
        found: dict[tuple[int, float | None], list[str]] = {}
        for names, digest in self._entries():
            before = known.get(digest, {"times": 0, "epsilon": 0.0})
            parts = [before["epsilon"], *(epsilons[name] for name in names)]
            total = None if None in parts else float(sum(parts))
            known[digest] = {"times": before["times"] + 1, "epsilon": total}
            if before["times"]:
                found.setdefault((before["times"] + 1, total), []).extend(names)
        content = {
            "ppdm": "disguises",
            "format": FORMAT,
            "note": "Local record of what was disguised, by keyed hashes. Do not pass it on.",
            "key": None if self._shared else self._key.hex(),
            "answers": known,
        }
        with replacing(self._path, mode=0o600) as aside:
            aside.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        again = (Again(tuple(names), *key) for key, names in found.items())
        return Remembered(tuple(again))

    def _entries(self) -> Iterator[tuple[Columns, str]]:
        """What stands for itself: each column that says enough; and the others together."""
        poor = []
        for name, digest in self._hashes.items():
            if _bits(self._counts[name]) >= MIN_BITS:
                yield (name,), digest.hexdigest()
            else:
                poor.append(name)
        if poor:
            together = "".join(sorted(digest.hexdigest() for digest in self._hashes.values()))
            yield tuple(poor), hmac.new(self._key, together.encode(), "sha256").hexdigest()


def _short(key: bytes, text: str | None) -> bytes:
    # Hexadecimal: an array of bytes would drop zeros at the end.
    given = b"\0" if text is None else b"\1" + text.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(given, key=key, digest_size=8).hexdigest().encode()


def _bits(counts: Counter[str]) -> float:
    n = counts.total()
    return -sum(c * math.log2(c / n) for c in counts.values() if c)


def _read_record(path: Path) -> dict[str, Any]:
    """The record; an empty one where there is none, or it is damaged."""
    with suppress(OSError, ValueError, TypeError, KeyError, AttributeError):
        content = json.loads(read_bounded(path, MOST_RECORDED).decode())
        answers = {
            str(digest): {"times": int(entry["times"]), "epsilon": _bound(entry["epsilon"])}
            for digest, entry in content["answers"].items()
        }
        key = content["key"]
        if content["ppdm"] == "disguises" and (key is None or len(bytes.fromhex(key)) == KEY_BYTES):
            return {"key": key, "answers": answers}
    return {"key": None, "answers": {}}


def _bound(value: Any) -> float | None:
    return None if value is None else float(value)


def _key_of(record: dict[str, Any]) -> tuple[bytes, bool]:
    """The key of a record, and whether it is the user's, which does not stand in the record."""
    if record["key"] is not None:
        return bytes.fromhex(record["key"]), False
    folder = state_folder()
    place = folder / KEY_NAME
    try:
        with suppress(FileNotFoundError):
            return _checked(read_bounded(place)), True
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(FileExistsError):
            descriptor = os.open(place, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(os.urandom(KEY_BYTES))
        return _checked(read_bounded(place)), True
    except (OSError, RuntimeError):
        return os.urandom(KEY_BYTES), False


def _checked(key: bytes) -> bytes:
    if len(key) != KEY_BYTES:
        raise OSError("the key is damaged")
    return key


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """One writer of the record at a time, where the file system has locks."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with suppress(OSError):
            lock(descriptor)
        yield
    finally:
        os.close(descriptor)
