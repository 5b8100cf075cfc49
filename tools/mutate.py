"""Mutation testing of the numerical core: change an expression, and see that a test fails.

    python tools/mutate.py --mutants 300 --seed 1 --jobs 2
    python tools/mutate.py --mutants 40 --seed 3 --module ppdm_dask.privacy
    python tools/mutate.py --again survivors.json

Mutants are drawn evenly over the modules of the core: an operator, a boundary of a comparison, a
constant, a sign, a term or factor that is missing, arguments in another order, a condition the
other way round. The fast tests run once with traced modules, which tells for each statement what
tests come there; a mutant is tried on these, the quickest first, in a child of a process in which
everything but the package is imported. What none of them notices has survived: a test is missing,
or the mutant is the same function, and then `tools/equivalent_mutants.toml` names it and says why.

Messages, docstrings, types and representations are not changed. A mutant that never ends, or asks
for too much memory, is killed by that.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import os
import resource
import signal
import sys
import tempfile
import time
import tomllib
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from fuzzing.chance import Chance
from mutation.mutants import Mutant, mutants_of
from mutation.patching import Patches
from mutation.reach import Reach, record

__all__ = ["main"]

ROOT = Path(__file__).resolve().parent.parent
EQUIVALENT = ROOT / "tools" / "equivalent_mutants.toml"

CORE = (
    "designs/*.py",
    "inference/*.py",
    "audit/certainty.py",
    "mine/classifier.py",
    "perturb/metrics.py",
    "privacy/*.py",
    "engine/ledger.py",
    "mine/classifier.py",
)

# Each starts processes or a browser, searches for a minute, or looks at files that are no Python.
OUTSIDE = (
    "tests/cluster",
    "tests/test_fuzz.py",
    "tests/test_given_objective.py",
    "tests/test_kubernetes.py",
    "tests/test_products.py",
    "tests/test_quarantine.py",
    "tests/test_report_browser.py",
    "tests/test_report_page.py",
    "tests/test_reproduce.py",
    "tests/test_schedules.py",
    "tests/test_selection.py",
    "tests/test_survey_page.py",
)

TOGETHER = 10.0
"""Seconds of tests that are tried first; most mutants are killed by them."""

ENOUGH = 60.0
"""Seconds of tests after which a mutant has survived."""

PRELOADED = (
    "_pytest.assertion.rewrite",
    "clarabel",
    "cryptography.hazmat.primitives.ciphers",
    "dask",
    "deap",
    "distributed",
    "h5netcdf",
    "hypothesis",
    "hypothesis.extra.numpy",
    "matplotlib.figure",
    "numba",
    "numpy",
    "pandas",
    "pyarrow.parquet",
    "rich.console",
    "scipy.optimize",
    "scipy.special",
    "scipy.stats",
    "sklearn.svm",
    "sklearn.tree",
    "typer",
    "xarray",
)


def modules() -> dict[str, Path]:
    """The modules of the core by dotted name."""
    package = ROOT / "ppdm_dask"
    found = {}
    for pattern in CORE:
        for path in sorted(package.glob(pattern)):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts).removesuffix(".__init__")] = path
    return found


def choose(count: int, seed: int, chosen: Sequence[str]) -> list[Mutant]:
    """Mutants drawn at random, evenly over modules that have any left."""
    files = modules()
    left = {}
    for name in chosen:
        found = mutants_of(name, files[name])
        chance = Chance(seed, name)
        order = sorted(found, key=lambda _, chance=chance: chance.bytes(8))
        if order:
            left[name] = order
    found = []
    names = sorted(left, key=lambda name: hashlib.sha256(f"{seed}/{name}".encode()).digest())
    while len(found) < count and any(left.values()):
        found += [left[name].pop() for name in names if left[name]]
    return found[:count]


def equivalents() -> dict[tuple[str, str, str], str]:
    """Mutants that are the same function, with the reason."""
    content = tomllib.loads(EQUIVALENT.read_text(encoding="utf-8")) if EQUIVALENT.exists() else {}
    return {
        (each["module"], each["function"], each["mutated"]): each["because"]
        for each in content.get("mutant", ())
    }


def _arguments(more: Sequence[str]) -> list[str]:
    # Hypothesis is imported before pytest could rewrite its assertions.
    quiet = ["-W", "ignore::pytest.PytestAssertRewriteWarning", "-p", "no:cacheprovider"]
    common = [*quiet, "-q", "-m", "not slow and not cluster", "--tb=no"]
    return [*common, f"--rootdir={ROOT}", f"--confcutdir={ROOT / 'tests'}", *more]


def _child(work: Any, seconds: float) -> int | None:
    """Exit code of some work in a child; None where it took too long."""
    child = os.fork()
    if child == 0:
        code = 70
        try:
            os.setsid()
            code = work()
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def _digest(paths: Sequence[Path]) -> str:
    sha = hashlib.sha256()
    for path in sorted(paths):
        sha.update(path.read_bytes())
    return sha.hexdigest()[:16]


def _reach(work: Path) -> Reach:
    """Which test reaches which line; kept, so that only tests that changed are run for it."""
    tests = [
        path
        for path in ROOT.glob("tests/**/test_*.py")
        if not any(path.is_relative_to(ROOT / each) for each in OUTSIDE)
    ]
    helpers = [path for path in ROOT.glob("tests/*.py") if not path.name.startswith("test_")]
    path = work / f"reach-{_digest([*ROOT.glob('ppdm_dask/**/*.py'), *helpers])}.json"
    reach = Reach.read(path) if path.exists() else Reach()
    digests = {str(file.relative_to(ROOT)): _digest([file]) for file in tests}
    changed = [name for name in digests if reach.digests.get(name) != digests[name]]
    gone = set(reach.digests) - set(digests)
    if changed:
        log, part = work / "reach.log", work / "reach-part.json"

        def run() -> int:
            files = [str(ROOT / name) for name in sorted(changed)]
            passed, others = record(modules(), _arguments(files), part, log)
            print(f"{passed} tests pass; {others} fail or are skipped", file=sys.__stderr__)
            return 0

        print(f"running {len(changed)} files of tests, to see what they reach: {log}", flush=True)
        if _child(run, 7_200) != 0:
            raise SystemExit(f"the tests could not be run: {log}")
        reach.replace({*changed, *gone}, Reach.read(part))
        reach.digests = digests
        reach.write(path)
    return reach


class _Only:
    """A plugin of pytest that runs some tests in a given order, up to the first failure."""

    def __init__(self, tests: Sequence[str]) -> None:
        self._place = {test: i for i, test in enumerate(tests)}

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        items[:] = sorted(
            (item for item in items if item.nodeid in self._place),
            key=lambda item: self._place[item.nodeid],
        )


def _survives(mutant: Mutant, tests: Sequence[str], reach: Reach, log: Path) -> bool:
    """Whether no test of some notices a mutant."""

    def run() -> int:
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(output, 1)
        os.dup2(output, 2)
        resource.setrlimit(resource.RLIMIT_AS, (12 << 30, 12 << 30))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        Patches({mutant.module: mutant.code}, {mutant.module: mutant.path}).install()
        os.chdir(ROOT)
        files = sorted({test.split("::")[0] for test in tests})
        return int(pytest.main(_arguments(["-x", *files]), plugins=[_Only(tests)]))

    expected = sum(reach.seconds[test] for test in tests)
    return _child(run, 45 + 4 * expected) == 0


def _stages(tests: Sequence[str], reach: Reach) -> list[list[str]]:
    """The tests of a mutant in two parts: a quick one that imports few files, and the rest."""
    by_file: dict[str, list[str]] = defaultdict(list)
    for test in tests:
        by_file[test.split("::")[0]].append(test)
    files = sorted(by_file, key=lambda file: (-len(by_file[file]), file))
    first: list[str] = []
    spent = 0.0
    for test in (test for test in tests if test.split("::")[0] in files[:2]):
        if spent + reach.seconds[test] > TOGETHER:
            break
        first.append(test)
        spent += reach.seconds[test]
    rest: list[str] = []
    spent = 0.0
    seen = set(first)
    for test in (test for test in tests if test not in seen):
        if spent + reach.seconds[test] > ENOUGH:
            break
        rest.append(test)
        spent += reach.seconds[test]
    return [each for each in (first, rest) if each]


def main(arguments: Sequence[str] | None = None) -> int:
    """Try mutants; 1 if fewer than 95 % die or are named as equivalent."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--mutants", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--module", action="append", help="dotted name; the whole core by default")
    parser.add_argument("--again", type=Path, help="survivors of an earlier call, in its --out")
    parser.add_argument("--out", type=Path, help="JSON of the survivors")
    parser.add_argument("--jobs", type=int, default=1, help="mutants that are tried at once")
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "ppdm-mutants")
    options = parser.parse_args(arguments)
    options.work.mkdir(parents=True, exist_ok=True)
    # Hypothesis draws the same examples for each mutant, and numba has nothing of ours to compile.
    os.environ |= {"CI": "1", "MPLBACKEND": "agg"}
    sys.path.insert(0, str(ROOT))  # the sources beside this tool, whatever is installed
    for name in PRELOADED:
        importlib.import_module(name)
    files = modules()
    if options.again:
        keys = {tuple(key) for key in json.loads(options.again.read_text(encoding="utf-8"))}
        every = [m for name in files for m in mutants_of(name, files[name])]
        chosen = [m for m in every if m.key in keys]
    else:
        chosen = choose(options.mutants, options.seed, options.module or list(files))
    reach = _reach(options.work)
    return _try(chosen, reach, options)


def _try(chosen: Sequence[Mutant], reach: Reach, options: argparse.Namespace) -> int:
    named = equivalents()
    tally = {"killed": 0, "equivalent": 0, "survived": 0}
    survivors = []

    def fate(number: int) -> tuple[str, str]:
        return _fate(chosen[number], reach, named, options.work / f"mutant-{os.getpid()}.log")

    for count, (number, found, how) in enumerate(_each(len(chosen), options.jobs, fate), 1):
        mutant = chosen[number]
        tally[found] += 1
        print(
            f"{count:4} {found:10} {mutant.path.relative_to(ROOT)}:{mutant.line} {mutant.function}"
        )
        print(f"       - {mutant.original}\n       + {mutant.mutated}\n       {how}", flush=True)
        if found == "survived":
            survivors.append(mutant.key)
        if options.out:
            options.out.write_text(json.dumps(survivors, indent=1), encoding="utf-8")
    caught = tally["killed"] + tally["equivalent"]
    print(f"{tally}: {caught / max(len(chosen), 1):.1%} of {len(chosen)}")
    return 0 if caught >= 0.95 * len(chosen) else 1


def _each(
    count: int, jobs: int, work: Callable[[int], tuple[str, str]]
) -> Iterator[tuple[int, str, str]]:
    """What work says of each number below a count, as some children that share them find it.

    They are plain children: those of `multiprocessing` must not start processes, as tests do.
    """
    numbers, given = os.pipe()
    results, found = os.pipe()
    children = []
    for _ in range(jobs):
        if (child := os.fork()) == 0:
            os.close(given)
            try:
                while number := os.read(numbers, 4):
                    n = int.from_bytes(number)
                    line = json.dumps([n, *work(n)]) + "\n"
                    os.write(found, line.encode())  # short enough to be written at once
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(0)
        children.append(child)
    os.close(numbers)
    os.close(found)
    with os.fdopen(given, "wb") as all_numbers:
        all_numbers.write(b"".join(n.to_bytes(4) for n in range(count)))
    with os.fdopen(results, encoding="utf-8") as lines:
        for line in lines:
            number, fate, how = json.loads(line)
            yield number, fate, how
    for child in children:
        os.waitpid(child, 0)


def _fate(
    mutant: Mutant, reach: Reach, named: Mapping[tuple[str, str, str], str], log: Path
) -> tuple[str, str]:
    """What became of a mutant; after how long, or why, or by which test."""
    if mutant.key in named:
        return "equivalent", named[mutant.key]
    began = time.monotonic()
    tests = reach.of(mutant.module, mutant.line, not _in_function(mutant))
    alive = all(_survives(mutant, stage, reach, log) for stage in _stages(tests, reach))
    said = log.read_text(errors="replace").splitlines() if tests else []
    failed = [line.split(" - ")[0] for line in said if line.startswith(("FAILED ", "ERROR "))]
    took = f"{time.monotonic() - began:.1f} s, {len(tests)} tests"
    if alive:
        return "survived", took
    return "killed", f"{took}: {failed[0][:200] if failed else 'no end, or no report of it'}"


def _in_function(mutant: Mutant) -> bool:
    """Whether a mutant changes what runs when a function is called."""
    return mutant.original.split(" ")[0] not in ("def", "class") and mutant.inside


if __name__ == "__main__":
    sys.exit(main())
