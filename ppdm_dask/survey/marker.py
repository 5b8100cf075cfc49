"""A local record of which answers were disguised before, beside the data.

Several independent reports of one answer say more than one: a majority of them tells the truth.
Reports cannot show it, since each disguise has a random name of its own; so the data
holder keeps a hidden file that only its owner may read.  It has keyed hashes of columns of
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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ppdm_dask.errors import PPDMError
from ppdm_dask.files.regular import read_bounded
from ppdm_dask.files.writing import replacing
from ppdm_dask.randomness import KeyedStream
from ppdm_dask.shown import quoted
from ppdm_dask.system import lock, open_folder

if TYPE_CHECKING:
    from ppdm_dask.files.table import Table

__all__ = [
    "NAME",
    "NOTHING",
    "Again",
    "Answers",
    "Remembered",
    "Sketch",
    "Sketcher",
    "state_folder",
]

NAME = ".ppdm-disguises.json"
"""The record, in the folder of the data."""

KEY_NAME = "disguises.key"
KEY_BYTES = 32
FORMAT = 2

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


@dataclass(frozen=True)
class Sketch:
    """What is kept of columns of answers; those of parts of a file add up.

    Parameters
    ----------
    rows : int
    sums : dict of str to (int, int)
        Of each column, sums modulo 2^64 of a keyed word for the row times a keyed hash of the
        answer: equal for equal answers in the same order, in whatever parts they were read.
    counts : dict of str to Counter or None
        Rows by hash of the answer; None once they say at least `MIN_BITS`.
    """

    rows: int
    sums: dict[str, tuple[int, int]]
    counts: dict[str, Counter[bytes] | None]

    def __add__(self, other: Sketch) -> Sketch:
        sums, counts = {}, {}
        for name, (a, b) in self.sums.items():
            c, d = other.sums[name]
            sums[name] = (a + c) & WORD, (b + d) & WORD
            mine, theirs = self.counts[name], other.counts[name]
            # A mixture says no less than its parts do one by one: entropy is concave.
            both = None if mine is None or theirs is None else mine + theirs
            counts[name] = _unless_rich(both)
        return Sketch(self.rows + other.rows, sums, counts)


WORD = (1 << 64) - 1


def _unless_rich(counts: Counter[bytes] | None) -> Counter[bytes] | None:
    return None if counts is None or _bits(counts) >= MIN_BITS else counts


@dataclass(frozen=True)
class Sketcher:
    """Makes sketches of answers where they are read; it shows nothing of its key."""

    names: tuple[str, ...]
    _key: bytes = field(repr=False)

    def __dask_tokenize__(self) -> object:
        # Names of tasks are seen by many.
        return os.urandom(16).hex()

    def sketch(self, table: Table, row: int) -> Sketch:
        """Sketch of the records from a row of a file on."""
        # Loading compiled code takes a while.
        from ppdm_dask.kernels.disguise import sum_by_code

        n = len(table)
        words = KeyedStream(self._key).source().words(n, row)
        sums: dict[str, tuple[int, int]] = {}
        counts: dict[str, Counter[bytes] | None] = {}
        for name in self.names:
            positions, texts = table[name].coded()
            # The first one, position -1, stands for missing values.
            keyed = [_hash(self._key, text) for text in (None, *texts)]
            hashes = np.frombuffer(b"".join(keyed), "<u8").reshape(-1, 2)
            # One sum of words for each answer: its hash is multiplied with that.
            by_answer = np.zeros(len(keyed), np.uint64)
            found = np.zeros(len(keyed), np.int64)
            sum_by_code(positions, words, by_answer, found)
            first, second = (int(np.dot(by_answer, hashes[:, j])) for j in (0, 1))
            sums[name] = first, second
            by_hash = dict(zip(keyed, found.tolist(), strict=True))
            counts[name] = _unless_rich(Counter({key: c for key, c in by_hash.items() if c}))
        return Sketch(n, sums, counts)


class Answers:
    """The record in the folder of some data.

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
        self.sketcher = Sketcher(tuple(names), self._key)

    def remember(
        self, sketches: Iterable[Sketch], epsilons: Mapping[str, float | None]
    ) -> Remembered:
        """Enter the disguise of some files into the record.

        Parameters
        ----------
        sketches : iterable of Sketch
            One for each file.
        epsilons : mapping of attribute to float or None
            Of each attribute's block; None where there is no bound.

        Returns
        -------
        Remembered
            What was disguised before, and how often.
        """
        try:
            with _locked(self._path.parent):
                return self._enter(sketches, epsilons)
        except (OSError, PPDMError) as error:
            what = getattr(error, "strerror", None) or str(error)
            return Remembered(
                problem=f"no record could be kept beside the data ({what}); another disguise of "
                "the same answers will not be noticed"
            )

    def _enter(
        self, sketches: Iterable[Sketch], epsilons: Mapping[str, float | None]
    ) -> Remembered:
        record = _read_record(self._path)
        known = record["answers"]
        found: dict[tuple[int, float | None], list[str]] = {}
        for names, digest in (entry for each in sketches for entry in self._entries(each)):
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
        # Several files have the same columns.
        again = (Again(tuple(dict.fromkeys(names)), *key) for key, names in found.items())
        return Remembered(tuple(again))

    def _entries(self, sketch: Sketch) -> Iterator[tuple[Columns, str]]:
        """What stands for itself: each column that says enough; and the others together."""
        digests = {
            name: self._digest(f"column {sketch.rows} {a:016x}{b:016x}")
            for name, (a, b) in sketch.sums.items()
        }
        poor = [name for name in digests if sketch.counts[name] is not None]
        yield from (((name,), digests[name]) for name in digests if name not in poor)
        if poor:
            yield tuple(poor), self._digest("".join(sorted(digests.values())))

    def _digest(self, text: str) -> str:
        return hmac.new(self._key, text.encode(), hashlib.sha256).hexdigest()


def _hash(key: bytes, text: str | None) -> bytes:
    given = b"\0" if text is None else b"\1" + text.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(given, key=key, digest_size=16).digest()


def _bits(counts: Counter[bytes]) -> float:
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
    descriptor = open_folder(folder)
    if descriptor is None:
        yield
        return
    try:
        with suppress(OSError):
            lock(descriptor)
        yield
    finally:
        os.close(descriptor)
