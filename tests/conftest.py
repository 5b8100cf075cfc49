"""What every test module can ask for."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import chromium
import pytest
from hypothesis import settings
from untracked import Untracked

# One thread in numerical libraries, as in runs: several wait for one another where tests go abreast
# or the machine is shared.  Before anything loads them; what tests start takes it over.
for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

# No deadline: the first example may compile a kernel.  Examples are fixed, so that a run says the
# same of the same code; PPDM_EXAMPLES=random looks for new ones.
settings.register_profile("fixed", deadline=None, derandomize=True)
settings.register_profile("random", deadline=None)
settings.load_profile(os.environ.get("PPDM_EXAMPLES", "fixed"))

# A shell's `&` has SIGINT ignored, also by what is started here; tests interrupt both.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def _state_elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keys that belong to a user go into a folder of the tests, also from processes of theirs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


def pytest_configure(config: pytest.Config) -> None:
    """Watch the checkout, in the process that the others report to."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Untracked(Path(__file__).resolve().parent.parent))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect no garbage among what stays to the end: ten thousand tests, and all their modules."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(scope="session")
def root() -> Path:
    """Folder of the checkout."""
    return Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def browser() -> Iterator[chromium.Browser]:
    """A headless Chromium for all tests of a module."""
    with chromium.browsing() as found:
        yield found


@pytest.fixture(scope="session")
def report_pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Pages of small runs of every kind, by name."""
    from report_runs import make_pages

    return make_pages(tmp_path_factory.mktemp("pages"))


@pytest.fixture(scope="session")
def limit_of() -> Callable[[str, float], Any]:
    """The certified limit at 98 levels of a prior of the paper and a delta; solved once."""
    from search_priors import N_RECORDS, PRIORS

    from ppdm_dask.search.limit import Limit
    from ppdm_dask.search.problem import Problem

    return cache(lambda name, delta: Limit.compute(Problem(PRIORS[name], N_RECORDS, delta)))


@pytest.fixture
def fresh_python(tmp_path: Path) -> Callable[[str], str]:
    """Run code in a new interpreter, outside the checkout; what it printed."""

    def run(code: str) -> str:
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", code],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run
