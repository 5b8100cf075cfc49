"""Goldens: what a recipe gave once, in a text file for people and programs.

``SHA256SUMS`` lists them, so that a changed digit in one does not pass for a drift.  Its lines are
those of ``sha256sum``, with names relative to its folder.  A folder without it holds goldens of an
earlier version, which are not checked.

A golden carries a fingerprint of what its bits depend on beyond the sources: libraries, processor,
linear algebra.
"""

from __future__ import annotations

import hashlib
import json
import math
import platform
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self, TypeAlias

from ppdm_dask.engine.environment import environment
from ppdm_dask.errors import DataError
from ppdm_dask.files.documents import Form, misfit, parse_json
from ppdm_dask.files.regular import read_bounded
from ppdm_dask.files.writing import write_text
from ppdm_dask.reproduce.summary import Figure, Summary, Value
from ppdm_dask.shown import cut, given, located, shown

Fingerprint: TypeAlias = dict[str, str | list[str]]

PACKAGES = ("numpy", "scipy", "numba", "llvmlite", "pandas", "scikit-learn", "clarabel", "deap")
"""Whose arithmetic goes into results; the others read, write or carry them."""


def fingerprint(cluster: str | None = None) -> Fingerprint:
    """Return the versions and processor features that results are computed with.

    The package's own version is left out, for it is what a comparison is about.  Of a cluster's
    workers nothing is known but the versions, which are those here: its profile stands for them.
    """
    # Loaded here, since only libraries that are loaded can be asked for their kernels.
    import scipy.linalg  # noqa: F401
    from numba.core.registry import cpu_target

    found = environment()
    # What numba itself takes for the key of its cache.
    _, processor, features = cpu_target.target_context.codegen().magic_tuple()
    # Without the system's release: updates of a kernel change no number.
    own: Fingerprint = {"python": found["versions"]["python"]}
    own |= {name: found["versions"][name] for name in PACKAGES if name in found["versions"]}
    own |= {
        "system": found["system"],
        "machine": found["machine"],
        "C library": " ".join(platform.libc_ver()).strip(),
        "numpy's processor features": [str(name) for name in found["cpu_features"]],
        "numba's processor": str(processor),
        "numba's processor features": sorted(
            name.removeprefix("+") for name in str(features).split(",") if name.startswith("+")
        ),
        "linear algebra": sorted({_kernel(info) for info in found["blas"]}),
    }
    if cluster is not None:
        own["workers"] = cluster
    return own


def _kernel(info: Any) -> str:
    if not isinstance(info, Mapping):
        return str(info)
    return " ".join(str(info[key]) for key in ("internal_api", "version", "architecture"))


def differences(golden: Mapping[str, Any], own: Mapping[str, Any]) -> list[str]:
    """Sentences on where two fingerprints differ; empty where results must agree to the bit.

    Bug-fix releases of Python change no arithmetic: of its version, the first two numbers count.
    """
    return [
        f"{key}: {_contrast(golden.get(key), own.get(key))}"
        for key in dict.fromkeys([*golden, *own])
        if _significant(key, golden.get(key)) != _significant(key, own.get(key))
    ]


def _significant(key: str, value: Any) -> Any:
    if key == "python" and isinstance(value, str):  # such as "3.11.9 CPython"
        number, _, name = value.partition(" ")
        return number.split(".")[:2], name
    return value


def _contrast(golden: Any, own: Any) -> str:
    if isinstance(golden, list) and isinstance(own, list):
        gone = [name for name in golden if name not in own]
        new = [name for name in own if name not in golden]
        parts = [
            f"without {_names(gone)}" if gone else "",
            f"with {_names(new)}" if new else "",
        ]
        return " and ".join(part for part in parts if part) or "in another order"
    return f"{_said(golden)} in the golden, {_said(own)} here"


def _names(values: list[Any]) -> str:
    return ", ".join(cut(str(value)) for value in values)


def _said(value: Any) -> str:
    return (
        "none" if value is None else _names(value) if isinstance(value, list) else cut(str(value))
    )


def short(own: Mapping[str, Any]) -> str:
    """Eight hexadecimal digits of a fingerprint, for the name of a folder."""
    text = json.dumps(own, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:8]


SUMS = "SHA256SUMS"


def check_sum(path: Path, content: bytes) -> None:
    """Raise DataError unless a golden's content is what the list of its folder says."""
    sums = path.parent.parent / SUMS
    known = _read(sums)
    if known is None:
        return
    name = _name(path)
    if name not in known:
        what = f"{path}: not listed in {sums}; remove the golden and renew it"
        raise DataError(what, path)
    if known[name] != _sha256(content):
        raise DataError(f"{path}: damaged or edited: it is not the file that {sums} lists", path)


def write_sum(path: Path, content: bytes) -> None:
    """Put a golden that was written on the list, which begins with all that are there."""
    folder = path.parent.parent
    known = _read(folder / SUMS)
    if known is None:
        there = {_name(each): each for each in folder.glob("*/*.json")}
        known = {name: _sha256(read_bounded(each)) for name, each in there.items()}
    known[_name(path)] = _sha256(content)
    write_text(folder / SUMS, "".join(f"{known[name]}  {name}\n" for name in sorted(known)))


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _name(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"


def _read(sums: Path) -> dict[str, str] | None:
    try:
        lines = read_bounded(sums).decode("utf-8").splitlines()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise DataError(f"{sums}: cannot be read: {error.strerror}", sums) from None
    except UnicodeDecodeError:
        raise DataError(f"{sums}: this is not a list of checksums", sums) from None
    return {name: digest for digest, _, name in (line.partition("  ") for line in lines)}


SCHEMA = "ppdm golden 1"

FORM: dict[str, Form] = {
    "schema": str,
    "recipe": str,
    "grade": str,
    "recipe_digest": str,
    "digest": str,
    "version": str,
    "fingerprint": {...: (str, list)},
    "history": [{"date": str, "digest": str, "reason": str}],
    "variables": {...: {"units": str, "kind": str, "digest": str, "cells": {...: dict}}},
}


@dataclass(frozen=True)
class Golden:
    """The result of a recipe at a grade, and what it was computed with.

    Parameters
    ----------
    recipe, grade : str
    recipe_digest : str
        Digest of the recipe at that grade.
    digest : str
        SHA-256 of the result.
    fingerprint : mapping
        As of :func:`~ppdm_dask.reproduce.golden.fingerprint`.
    version : str
        The package's version.
    summaries : mapping of str to Summary
        By variable.
    history : tuple of mapping
        One entry a renewal, the newest last: ``date``, ``reason`` and ``digest``.
    """

    recipe: str
    grade: str
    recipe_digest: str
    digest: str
    fingerprint: Fingerprint
    version: str
    summaries: Mapping[str, Summary]
    history: tuple[Mapping[str, str], ...]

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a golden.

        Raises
        ------
        DataError
            If there is none, or the file is something else than its folder's ``SHA256SUMS`` says.
        """
        try:
            content = read_bounded(path)
        except FileNotFoundError:
            raise DataError(
                f"{path}: there is no such golden; "
                '`ppdm reproduce --renew "why"` makes those that are missing',
                path,
            ) from None
        except OSError as error:
            raise DataError(f"{located(path)}: cannot be read: {error.strerror}", path) from None
        check_sum(path, content)  # before a damaged file can be taken for a drift
        try:
            found = parse_json(content)
        except ValueError as error:
            what = " ".join(str(error).split())
            raise DataError(f"{path}: this is not a golden: {what}", path) from None
        if not isinstance(found, dict) or found.get("schema") != SCHEMA:
            got = found.get("schema") if isinstance(found, dict) else type(found).__name__
            raise DataError(f"{path}: schema: got {given(got)}; {SCHEMA!r} is needed", path)
        # A key of a later version may change what the others mean, so it is not passed over.
        if wrong := sorted(set(FORM).symmetric_difference(found)):
            what = "is missing" if wrong[0] in FORM else "is not known"
            raise DataError(f"{path}: {cut(wrong[0])}: this key of a golden {what}", path)
        if (at := misfit(found, FORM)) is not None:
            raise DataError(f"{path}: this golden is damaged ({cut(at)})", path)
        try:
            summaries = {name: _summary(name, each) for name, each in found["variables"].items()}
            history = tuple({k: str(entry[k]) for k in HISTORY} for entry in found["history"])
            return cls(
                recipe=str(found["recipe"]),
                grade=str(found["grade"]),
                recipe_digest=str(found["recipe_digest"]),
                digest=str(found["digest"]),
                fingerprint=dict(found["fingerprint"]),
                version=str(found["version"]),
                summaries=summaries,
                history=history,
            )
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            what = cut(f"{type(error).__name__}: {' '.join(str(error).split())}")
            raise DataError(f"{path}: this golden is damaged ({what})", path) from None

    def write(self, path: Path) -> None:
        """Write the golden, one line per row of cells, so that a diff shows which of them moved.

        Its checksum goes into ``SHA256SUMS`` of the folder of goldens.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        # The list last: a kill between the two leaves a golden that is refused, not believed.
        text = "\n".join(self._lines()) + "\n"
        write_text(path, text)
        write_sum(path, text.encode())

    def _lines(self) -> Iterator[str]:
        # Not by json.dumps: a line per row of cells is what a diff of two goldens should show.
        yield "{"
        head = {
            "schema": SCHEMA,
            "recipe": self.recipe,
            "grade": self.grade,
            "recipe_digest": self.recipe_digest,
            "digest": self.digest,
        }
        for key, value in head.items():
            yield f"  {_text(key)}: {_text(value)},"
        yield '  "history": ['
        yield from _list([_text({k: entry[k] for k in HISTORY}) for entry in self.history], 4)
        yield "  ],"
        yield '  "fingerprint": {'
        yield from _list([f"{_text(k)}: {_text(v)}" for k, v in self.fingerprint.items()], 4)
        yield "  },"
        yield f'  "version": {_text(self.version)},'
        yield '  "variables": {'
        for i, summary in enumerate(self.summaries.values()):
            yield f"    {_text(summary.name)}: {{"
            yield f'      "units": {_text(summary.units)}, "kind": {_text(summary.kind)},'
            yield f'      "digest": {_text(summary.digest)},'
            yield '      "cells": {'
            yield from _list([f"{_text(k)}: {_text(v)}" for k, v in _rows(summary).items()], 8)
            yield "      }"
            yield "    }" + ("," if i + 1 < len(self.summaries) else "")
        yield "  }"
        yield "}"


HISTORY = ("date", "digest", "reason")


def golden_path(folder: Path, recipe: str, grade: str) -> Path:
    """Return the file of a golden in a folder of goldens."""
    return folder / recipe / f"{grade}.json"


def as_json(value: Value) -> Value:
    """Return a value as JSON has it: infinities as texts, which are not part of the standard."""
    if isinstance(value, float) and math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return value


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _list(items: list[str], indent: int) -> Iterator[str]:
    for i, item in enumerate(items):
        yield " " * indent + item + ("," if i + 1 < len(items) else "")


def _rows(summary: Summary) -> dict[str, dict[str, Any]]:
    """Cells by the last part of their labels, grouped by the rest of it."""
    rows: dict[str, dict[str, Any]] = {}
    for label, figure in summary.cells.items():
        row, _, last = label.rpartition(" ")
        rows.setdefault(row, {})[last] = _figure(figure)
    return rows


def _figure(figure: Figure) -> Any:
    value = as_json(figure.value)
    return [value, figure.se, figure.n] if figure.n else value


def _summary(name: str, found: Mapping[str, Any]) -> Summary:
    kind: Literal["mean", "value"] = "mean" if found["kind"] == "mean" else "value"
    cells = {
        f"{row} {last}" if row else last: _read_figure(each)
        for row, figures in found["cells"].items()
        for last, each in figures.items()
    }
    return Summary(name, str(found["units"]), kind, str(found["digest"]), cells)


def _read_figure(found: Any) -> Figure:
    if isinstance(found, list):
        value, se, n = found
        return Figure(_read_value(value), None if se is None else float(se), int(n))
    return Figure(_read_value(found))


def _read_value(found: Any) -> Value:
    # Standard JSON has no infinity, see `as_json`.
    if found in ("inf", "-inf"):
        return float(found)
    if found is not None and not isinstance(found, str | int | float):
        raise TypeError(f"{shown(found)} is not a value of a cell")
    return found
