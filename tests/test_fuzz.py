"""Damaged files of every kind: one line, no traceback, no hang; and damage that once did worse."""

from __future__ import annotations

import contextlib
import hashlib
import io
import itertools
import json
import sqlite3
import struct
import sys
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

CASES = 4
"""Cases of each target; ``tools/fuzz.py`` has no end of them."""


@pytest.fixture(scope="module")
def fuzzing(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, ...]]:
    """The tool, a folder of valid files, and the scenes on them by target."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(root / "tools"))
        import fuzz

        seeds = tmp_path_factory.mktemp("seeds")
        yield fuzz, seeds, fuzz.prepare(seeds, brief=True)
    for name in [name for name in sys.modules if name.split(".")[0] in ("fuzz", "fuzzing")]:
        del sys.modules[name]


def said(failure: Any) -> str:
    command = " ".join(failure.case.scene.command)
    return f"case {failure.case.index}: ppdm {command}: {failure.what}: {failure.detail}"


@pytest.mark.slow
def test_damaged_files_are_refused_in_one_line_or_read(fuzzing: tuple[Any, ...]) -> None:
    fuzz, seeds, scenes = fuzzing
    cases = itertools.chain.from_iterable(
        itertools.islice(fuzz.cases_of(target, each, 0), CASES) for target, each in scenes.items()
    )
    found = list(fuzz.run_cases(cases, seeds))
    assert len(found) == CASES * len(scenes)
    assert [said(failure) for _, failure in found if failure] == []


NUMBER = "1" * 5_000
LISTS = "[" * 3_000 + "]" * 3_000
TABLES = "{a=" * 2_000 + "1" + "}" * 2_000
MANY = "[" + "0.5, " * 2_000 + "0.5]"
LONG = '"' + "a" * 20_000 + '"'

# A file, a piece of its text, and what stood there when a command ended with a traceback or worse.
TEXTS: dict[str, tuple[str, str, str]] = {
    "digits of a recipe": ("answers.toml", '"repeats" = 2', f'"repeats" = {NUMBER}'),
    "lists of a recipe": ("fronts.toml", "[0.8]", LISTS),
    "a long key of a recipe": ("numbers.toml", '"title"', LONG),
    "lists of a codebook": ("book.toml", '["no", "yes"]', LISTS),
    "long categories": ("classes.toml", '["no", "yes"]', MANY),
    "a long name": ("book.toml", '"smokes"', LONG),
    "a long key of digits": ("scheduler.toml", '"workers" = 4', f'"{"a" * 20_000}" = {2**64}'),
    "digits of cuts": ("book.toml", "50.5", NUMBER),
    "lists of a design": ("design.toml", "0.8", LISTS),
    "tables of a design": ("design.toml", "1.5", TABLES),
    "a long parameter": ("design.toml", "0.8", MANY),
    "a long id": ("design.toml", '"product"', LONG),
    "a long attribute": ("design.toml", '"attribute"', LONG),
    "digits of a design": ("product.toml", "1.5", NUMBER),
    "an infinite parameter": ("crosswise.toml", "0.2", "inf"),
    "lists of a prior": ("one-prior.toml", "0.6", LISTS),
    "a long proportion": ("one-prior.toml", "0.6", MANY),
    "proportions over 1": ("one-prior.toml", "0.6", "1.6"),
    "one category": ("one-prior.toml", '"once" = 0.3, "often" = 0.1', ""),
    "an unknown attribute": ("prior.toml", '"smokes"', '"\\u001b[31m"'),
    "lists of a profile": ("local.toml", "2", LISTS),
    "digits of a profile": ("slurm.toml", "16", NUMBER),
    "lists of what reports say": ("r.csv.about.json", '"simulated": true', f'"simulated": {LISTS}'),
    "a long report": ("r.csv", "no", "9" * 5_000),
    "a long column": ("s.csv", "smokes", "a" * 20_000),
    "a long answer": ("s.csv", "never", "a" * 20_000),
    "no records": ("n.csv", "\n21,", "\n\n21,"),
    "a manifest without digest": ("manifest.json", '"digest"', '"other"'),
    "a manifest of lists": ("manifest.json", '"inputs": {', f'"x": {LISTS}, "inputs": {{'),
    "metrics of a list": ("manifest.json", '"metrics": {', '"metrics": ["naive-bayes"], "x": {'),
    "a search's table": ("manifest.json", '"rate": ', '"rate": {}, "x": '),
    "finished, but nothing there": ("manifest.json", '"result": {', '"result": null, "x": {'),
    "a repeated attribute": ("design.toml", '"smokes"', "[" + '"a", ' * 1_000 + '"a"]'),
    "a tiny proportion": ("one-prior.toml", '"once" = 0.3', '"once" = 0.3, "rare" = 1e-17'),
    "a golden's lists": ("small.json", '"fingerprint": {', f'"fingerprint": {{"x": [{LISTS}],'),
    "half a sign": ("small.json", '"fingerprint": {', '"fingerprint": {"x": "\\ud800", '),
    "no number of a state": ("state.json", '"small": {', '"full": NaN, "small": {'),
    "an endless number of a state": ("state.json", '"since": ', '"x": -1e999, "since": '),
    "half a sign of a state": ("state.json", '"since": "', '"since": "\\udfff'),
    "half a sign of a manifest": ("manifest.json", '"findings": [', '"findings": ["\\ud800", '),
    "a golden's fingerprint": ("small.json", '"system": "Linux"', '"system": [["Linux"]]'),
    "a state without drifts": ("state.json", '"open"', '"other"'),
    "a state of truths": ("state.json", '"small": {', '"full": true, "small": {'),
    "a reproduction of truths": ("reproduction.json", '"reasons": [', '"reasons": true, "x": ['),
    "a reproduction of nothing": ("reproduction.json", '"drifts": []', '"drifts": null'),
    "a long name of a recipe": ("grades.toml", '"answers"', LONG),
    "a long file of a recipe": ("grades.toml", '"a.toml"', LONG),
    "a recipe without a file": ("grades.toml", '"file"', '"other"'),
}


def replaced(content: bytes, old: bytes, new: bytes) -> bytes:
    return content.replace(old, new, 1)


def half(content: bytes) -> bytes:
    return content[: len(content) // 2]


def flipped(content: bytes) -> bytes:
    at = len(content) // 3
    return content[:at] + bytes([content[at] ^ 16]) + content[at + 1 :]


def nothing(content: bytes) -> bytes:
    return b""


def promising(name: str, shape: list[int]) -> Callable[[bytes], bytes]:
    """Let the header of a checkpoint promise so many numbers, under a checksum that fits."""

    def damage(content: bytes) -> bytes:
        magic, _, rest = content.split(b"\n", 2)
        end = 8 + int.from_bytes(rest[:8], "little")
        header = json.loads(rest[8:end])
        (described,) = (each for each in header["arrays"] if each[0] == name)
        described[2] = shape
        text = json.dumps(header).encode()
        rest = len(text).to_bytes(8, "little") + text + rest[end:]
        return b"\n".join([magic, hashlib.sha256(rest).hexdigest().encode(), rest])

    return damage


def earlier(content: bytes) -> bytes:
    """A checkpoint as NumPy's archive, whose header promises 64 GiB."""
    header = "{'descr': '<f8', 'fortran_order': False, 'shape': (8589934592,), }".ljust(117)
    made = b"\x93NUMPY\x01\x00" + struct.pack("<H", 118) + header.encode() + b"\n" + bytes(64)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("entropy.npy", made)
    return out.getvalue()


def few(content: bytes) -> bytes:
    """The first two records of a file."""
    if not content.startswith(b"PAR1"):
        return b"".join(content.splitlines(keepends=True)[:3])
    out = io.BytesIO()
    pq.write_table(pq.read_table(io.BytesIO(content)).slice(0, 2), out)
    return out.getvalue()


def says(key: bytes, value: bytes) -> Callable[[bytes], bytes]:
    """Put something in the place of what a Parquet file says of itself."""

    def damage(content: bytes) -> bytes:
        table = pq.read_table(io.BytesIO(content))
        out = io.BytesIO()
        pq.write_table(
            table.replace_schema_metadata({**(table.schema.metadata or {}), key: value}), out
        )
        return out.getvalue()

    return damage


def changed(statement: str) -> Callable[[bytes], bytes]:
    """Change a store by SQL."""

    def damage(content: bytes) -> bytes:
        with contextlib.closing(sqlite3.connect(":memory:")) as store:
            store.deserialize(content)
            store.execute(statement)
            store.commit()
            return store.serialize()

    return damage


BYTES: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "half a checkpoint": ("spea2.npz", half),
    "a flipped checkpoint": ("memetic.npz", flipped),
    "an empty checkpoint": ("spea2.npz", nothing),
    "64 GiB of an earlier checkpoint": ("spea2.npz", earlier),
    "64 GiB of a checkpoint": ("spea2.npz", promising("omega_P", [1 << 33])),
    "no slots": ("memetic.npz", promising("omega_at", [0])),
    "half a result": ("result.nc", half),
    "a flipped result": ("result.nc", flipped),
    "half a ledger": ("ledger.sqlite", half),
    "an endless batch": ("ledger.sqlite", changed("UPDATE batches SET stop = 9e999")),
    "a batch of nothing": ("ledger.sqlite", changed("UPDATE batches SET stop = x''")),
    "reports that say no UTF-8": ("r.parquet", says(b"ppdm", b"\xff\xfe")),
    "reports that say lists": ("r.parquet", says(b"ppdm", LISTS.encode())),
    "counts that say no UTF-8": ("c.parquet", says(b"ppdm", b"\xff\xfe")),
    "counts that say nothing": ("c.parquet", says(b"ppdm", b"")),
    "pandas of no UTF-8": ("r.parquet", says(b"pandas", b"\xff\xfe")),
    "pandas of lists": ("c.parquet", says(b"pandas", LISTS.encode())),
    "pandas without columns": ("n.parquet", says(b"pandas", b"{}")),
    "two lines": ("n.csv", few),
    "no lines": ("s.csv", lambda content: content.splitlines(keepends=True)[0]),
    "two rows": ("n.parquet", few),
    "pandas that is a list": ("n.parquet", says(b"pandas", b"[1]")),
}


WHAT = ("a folder", "a pipe", "endless zeros", "a link to itself")
FILES = (
    "answers.toml",
    "book.toml",
    "warner.toml",
    "s.csv",
    "n.parquet",
    "r.csv.about.json",
    "c.parquet",
    "spea2.npz",
)


def damages() -> Iterator[tuple[str, str, Callable[[bytes], bytes | str]]]:
    """A name of each damage, the file, and what is done to it."""
    for name, (file, old, new) in TEXTS.items():
        yield name, file, partial(replaced, old=old.encode(), new=new.encode())
    for name, (file, damage) in BYTES.items():
        yield name, file, damage
    for what, file in itertools.product(WHAT, FILES):
        yield f"{file}: {what}", file, lambda content, what=what: what


@pytest.fixture(scope="module")
def wrong(fuzzing: tuple[Any, ...]) -> dict[str, list[str]]:
    """By name of a damage, what is wrong with the answers of the commands that read the file."""
    fuzz, seeds, scenes = fuzzing
    cases, names = [], []
    for name, file, damage in damages():
        before = len(cases)
        for target, each in scenes.items():
            for scene in dict.fromkeys(each):
                if Path(scene.file).name == file:
                    content = (seeds / scene.file).read_bytes()
                    damaged = damage(content)
                    if damaged == content:  # which has no such text
                        continue
                    cases.append(fuzz.Case(target, 0, len(cases), scene, damaged))
                    names.append(name)
        assert len(cases) > before
    found: dict[str, list[str]] = {name: [] for name in names}
    answers = list(fuzz.run_cases(iter(cases), seeds))
    for name, (_, failure) in zip(names, answers, strict=True):
        found[name] += [said(failure)] if failure else []
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, _, _ in damages()])
def test_damage_that_once_did_worse(wrong: dict[str, list[str]], name: str) -> None:
    assert wrong[name] == []
