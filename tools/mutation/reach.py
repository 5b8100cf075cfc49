"""Which test reaches which line: found by running all tests once with traced modules."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from mutation.patching import Patches, traced

__all__ = ["Reach", "record"]

Line = tuple[str, int]


@dataclass
class Reach:
    """Tests by the lines that they reach.

    Attributes
    ----------
    seconds : dict
        Time of each test that passes.
    tests : dict
        By module and line of a statement: tests that come there themselves or by a fixture.
    files : dict
        The same for test files whose import comes there; all their tests may depend on it.
    digests : dict
        Digest of each test file that was run.
    """

    seconds: dict[str, float] = field(default_factory=dict)
    tests: dict[Line, set[str]] = field(default_factory=lambda: defaultdict(set))
    files: dict[Line, set[str]] = field(default_factory=lambda: defaultdict(set))
    digests: dict[str, str] = field(default_factory=dict)

    def replace(self, names: set[str], other: Reach) -> None:
        """Put what another one says of some test files in the place of what this one says."""
        self.seconds = {
            test: seconds
            for test, seconds in self.seconds.items()
            if test.split("::")[0] not in names
        } | other.seconds
        for mine, theirs in ((self.tests, other.tests), (self.files, other.files)):
            for at in mine:
                mine[at] = {test for test in mine[at] if test.split("::")[0] not in names}
            for at in theirs:
                mine[at] |= theirs[at]

    def of(self, module: str, line: int, whole: bool) -> list[str]:
        """Tests that reach a line, the quickest first.

        Parameters
        ----------
        module : str
        line : int
            Where the statement begins.
        whole : bool
            For what runs when the module is imported: tests that reach any line of it.
        """
        lines = [at for at in self.tests if at[0] == module] if whole else [(module, line)]
        found = {test for at in lines for test in self.tests.get(at, ())}
        files = {file for at in lines for file in self.files.get(at, ())}
        found |= {test for test in self.seconds if test.split("::")[0] in files}
        return sorted(found & set(self.seconds), key=lambda test: (self.seconds[test], test))

    def write(self, path: Path) -> None:
        """Keep it as JSON."""

        def listed(table: Mapping[Line, set[str]]) -> list[Any]:
            return [[*at, sorted(names)] for at, names in sorted(table.items())]

        content = {
            "seconds": self.seconds,
            "tests": listed(self.tests),
            "files": listed(self.files),
            "digests": self.digests,
        }
        path.write_text(json.dumps(content), encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> Reach:
        """What was kept."""
        content = json.loads(path.read_text(encoding="utf-8"))
        found = cls(content["seconds"], digests=content["digests"])
        for name in ("tests", "files"):
            for module, line, names in content[name]:
                getattr(found, name)[module, line] = set(names)
        return found


class _Recorder:
    """A plugin of pytest that tells apart what imports, fixtures and tests reach."""

    def __init__(self) -> None:
        self.reach = Reach()
        self._now: set[Line] = set()
        self._fixtures: dict[tuple[str, str], set[Line]] = defaultdict(set)
        self._failed: set[str] = set()

    def reached(self, module: str, line: int) -> None:
        self._now.add((module, line))

    @contextlib.contextmanager
    def _apart(self) -> Iterator[set[Line]]:
        """Context whose lines are kept apart from those around it."""
        around, self._now = self._now, set()
        found = self._now
        try:
            yield found
        finally:
            self._now = around

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self, collector: Any) -> Any:
        with self._apart() as found:
            report = yield
        for at in found:
            self.reach.files[at].add(collector.nodeid.split("::")[0])
        return report

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any, request: Any) -> Any:
        with self._apart() as found:
            result = yield
        self._fixtures[fixturedef.baseid, fixturedef.argname] |= found
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: Any) -> Any:
        began = time.perf_counter()
        with self._apart() as found:
            result = yield
        self.reach.seconds[item.nodeid] = round(time.perf_counter() - began, 4)
        for definitions in item._fixtureinfo.name2fixturedefs.values():
            for each in definitions:
                found |= self._fixtures[each.baseid, each.argname]
        for at in found:
            self.reach.tests[at].add(item.nodeid)
        return result

    def pytest_runtest_logreport(self, report: Any) -> None:
        if not report.passed:
            self._failed.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        for test in self._failed:
            self.reach.seconds.pop(test, None)


def record(
    modules: Mapping[str, Path], arguments: list[str], to: Path, log: Path
) -> tuple[int, int]:
    """Run the tests with traced modules in this process, which has to be a fresh child.

    Returns
    -------
    tuple of int
        Tests that passed, and tests that failed or were skipped and are left out.
    """
    recorder = _Recorder()
    codes = {
        name: (lambda name=name, path=path: traced(name, path, recorder.reached))
        for name, path in modules.items()
    }
    Patches(codes, modules).install()
    with open(log, "w", encoding="utf-8") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    pytest.main(arguments, plugins=[recorder])
    sys.stdout.flush()
    recorder.reach.write(to)
    return len(recorder.reach.seconds), len(recorder._failed)
