"""Damage every file that the commands read, and see that they say so in one line.

    python tools/fuzz.py --seconds 60
    python tools/fuzz.py --target counts --seconds 600 --seed 7 --save failing
    python tools/fuzz.py --target counts --seed 7 --case 1234

A target is a kind of file; its scenes are valid files of that kind, which the package makes at the
start, and commands that read them. A case damages one file, either within the syntax of its format
(values of a TOML file, fields of a CSV, types of a Parquet column, rows of a ledger) or byte by
byte, and runs the command. It fails with a traceback, a warning of a library, an exit code other
than 0, 1, 2, 3 and 130, more than 10 s, more than 1 GiB, or where exit code 2 comes with anything
but one line that names the file, or leaves something behind.

The generator is our own: targets are whole commands, whose paths through pandas, Arrow, HDF5 and
SQLite no coverage-guided fuzzer sees, and damage that keeps a format's syntax gets further
than what such a fuzzer finds out about it. A case follows from seed, target and number alone, so it
can be repeated. Children are forked from a process in which everything is imported and compiled, so
that a case costs what its command does.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import chdir
from pathlib import Path

from fuzzing.cases import Case, Failure, call, damaged, run_cases
from fuzzing.chance import Chance
from fuzzing.scenes import RUNS, Scene, make_scenes

__all__ = ["main", "prepare"]

DRAWING = ("figures", "report")
BRIEF_RUNS = ("answers", "numbers", "fronts")

ALIKE = 3
"""Failures of one signature that are saved."""


def prepare(folder: Path, *, brief: bool = False) -> dict[str, list[Scene]]:
    """Seeds and scenes in a folder; whatever a command imports or compiles is then loaded.

    Parameters
    ----------
    folder : Path
        An empty folder.
    brief : bool
        Without the commands that draw figures, which take longer than reading what they draw, with
        one run of each kind of experiment, and one look alone at each kind of command on undamaged
        files.
    """
    os.environ.setdefault("MPLBACKEND", "agg")
    scenes = {
        target: [
            scene
            for scene in each
            if not brief or target != "results" or scene.command[0] not in DRAWING
        ]
        for target, each in make_scenes(folder, call, BRIEF_RUNS if brief else RUNS).items()
    }
    # Scenes that damage another file of the same command need no second look.
    looks = {scene.command: (target, scene) for target in scenes for scene in scenes[target]}
    if brief:
        kinds = {(look[0], command[0]): command for command, look in looks.items()}
        looks = {command: looks[command] for command in kinds.values()}
    odd = {command for command, look in looks.items() if not _warm(folder, *look)}
    return {
        target: [scene for scene in each if scene.command not in odd]
        for target, each in scenes.items()
    }


def _warm(seeds: Path, target: str, scene: Scene) -> bool:
    """Run a scene on undamaged files; whether it is done well."""
    from fuzzing.cases import _copy

    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        for need in (scene.file, *scene.needs):
            _copy(seeds / need, Path(folder) / need)
        code, complaint = call(scene.command)
    if code != 0:
        what = f"{target}: `ppdm {' '.join(scene.command)}` ends with {code} on undamaged files"
        print(f"left out: {what}: {complaint}", file=sys.stderr)
    return code == 0


def cases_of(target: str, scenes: Sequence[Scene], seed: int, start: int = 0) -> Iterator[Case]:
    """The cases of a target, without end."""
    for index in itertools.count(start):
        scene = Chance(seed, target, index, "scene").pick(scenes)
        yield Case(target, seed, index, scene)


def _until(cases: Iterator[Case], end: float) -> Iterator[Case]:
    for case in cases:
        if time.monotonic() > end:
            return
        yield case


def _save(folder: Path, failure: Failure, seeds: Path) -> Path:
    case = failure.case
    key = hashlib.sha256("/".join(failure.signature).encode()).hexdigest()[:8]
    path = folder / case.target / f"{key}-{case.index}{Path(case.scene.file).suffix}"
    path.parent.mkdir(parents=True, exist_ok=True)
    content = damaged(case, seeds)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    said = f"ppdm {' '.join(case.scene.command)}\n{failure.what}: {failure.detail}\n"
    path.with_suffix(path.suffix + ".txt").write_text(said, encoding="utf-8", errors="replace")
    return path


def main(arguments: Sequence[str] | None = None) -> int:
    """Fuzz; 1 if a case failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--target", action="append", help="a kind of file; all by default")
    parser.add_argument("--seconds", type=float, default=60.0, help="per target")
    parser.add_argument("--cases", type=int, help="per target, in place of --seconds")
    parser.add_argument("--case", type=int, help="one case alone, by its number")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--save", type=Path, help="folder of failing inputs")
    options = parser.parse_args(arguments)
    failures: dict[tuple[str, ...], list[Failure]] = {}
    with tempfile.TemporaryDirectory(prefix="fuzz-seeds-") as folder:
        seeds = Path(folder)
        scenes = prepare(seeds)
        unknown = set(options.target or ()) - set(scenes)
        if unknown:
            parser.error(f"--target: {', '.join(unknown)}; there are {', '.join(scenes)}")
        print(f"{'target':16} {'cases':>7} {'a second':>8} {'failures':>8} {'kinds':>6}")
        for target in options.target or scenes:
            began, ran, wrong = time.monotonic(), 0, 0
            cases = cases_of(target, scenes[target], options.seed, options.case or 0)
            if options.case is not None or options.cases is not None:
                cases = itertools.islice(cases, options.cases or 1)
            else:
                cases = _until(cases, began + options.seconds)
            seen = len(failures)
            for _, failure in run_cases(cases, seeds):
                ran += 1
                if failure is None:
                    continue
                wrong += 1
                alike = failures.setdefault(failure.signature, [])
                alike.append(failure)
                if options.save and len(alike) <= ALIKE:
                    _save(options.save, failure, seeds)
            rate = ran / (time.monotonic() - began)
            print(f"{target:16} {ran:7} {rate:8.1f} {wrong:8} {len(failures) - seen:6}", flush=True)
    for signature, alike in failures.items():
        case = alike[0].case
        print(f"\n{' '.join(signature[:3])}: {len(alike)} cases, first {case.index}")
        print(f"  ppdm {' '.join(case.scene.command)}\n  {alike[0].detail}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
