"""The Makefile, the environment, the wheel, and what they find."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import stat
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import Specifier
from packaging.utils import canonicalize_name
from packaging.version import Version

import ppdm_dask
from ppdm_dask import resources
from ppdm_dask.errors import RecipeError

EXTRAS = ("cluster", "dev", "peers", "test")
RUNNING = (
    "cluster",
    "dask",
    "fast",
    "formats",
    "formulas",
    "mine",
    "pandas",
    "postgres",
    "report",
    "search",
    "survey",
)


def run(
    *command: str | Path, cwd: Path, path: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command without this process's make and Python settings."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS", "PYTHON"))}
    if path is not None:
        kept["PATH"] = str(path)
    return subprocess.run(
        command, cwd=cwd, env=kept, capture_output=True, text=True, check=False, timeout=120
    )


def script(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


@pytest.fixture
def checkout(root: Path, tmp_path: Path) -> Path:
    """As much of the checkout as building an environment needs."""
    copy = tmp_path / "check out"
    (copy / "tools").mkdir(parents=True)
    for name in ("Makefile", "pyproject.toml", "constraints.txt", "hashes.txt", "hatch_build.py"):
        shutil.copy(root / name, copy)
    for name in ("check_hashes.py", "find_python.sh", "setup.sh"):
        shutil.copy(root / "tools" / name, copy / "tools")
    return copy


@pytest.fixture
def bare_path(tmp_path: Path) -> Path:
    """A PATH with the tools of a bare system and, so far, no Python."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for tool in (
        "awk",
        "cat",
        "cksum",
        "cp",
        "cut",
        "date",
        "head",
        "make",
        "mktemp",
        "mv",
        "rm",
        "sh",
        "sleep",
    ):
        found = shutil.which(tool)
        assert found is not None, tool
        (folder / tool).symlink_to(found)
    return folder


# -- make --------------------------------------------------------------------------------------


def test_make_alone_lists_every_target(root: Path) -> None:
    makefile = (root / "Makefile").read_text()
    phony = re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    assert phony is not None
    listed = re.findall(r"^  make ([a-z-]+) +\S", run("make", cwd=root).stdout, re.MULTILINE)
    assert set(listed) == set(phony[1].split()) - {"again"}


SWEEP = [".venv/bin/ppdm", "run", "electronic-surveys", "multi-group", "--out", "runs"]


def test_sweep_passes_its_variables_on(checkout: Path) -> None:
    plain = run("make", "-n", "sweep", cwd=checkout).stdout
    assert re.search(
        r"^\.venv/bin/ppdm run electronic-surveys multi-group --out runs *$", plain, re.MULTILINE
    )
    said = ("RECIPE=mine.toml", "REPEATS=5", "WORKERS=0", "OUT=there")
    line = run("make", "-n", "sweep", *said, cwd=checkout).stdout.splitlines()[-1]
    words = ".venv/bin/ppdm run mine.toml --out there --repeats 5 --workers 0"
    assert line.split() == words.split()


def test_environment_variables_do_not_configure_a_run(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REPEATS", "3")
    monkeypatch.setenv("RECIPE", "other")
    line = run("make", "-n", "sweep", cwd=checkout).stdout.splitlines()[-1]
    assert line.split() == SWEEP


def test_setup_with_a_python_that_fails(checkout: Path) -> None:
    (checkout / ".venv").mkdir()
    (checkout / ".venv" / "kept").touch()
    done = run("make", "setup", "PYTHON=/bin/false", cwd=checkout)
    assert done.returncode == 2
    said = [line for line in done.stderr.splitlines() if not line.startswith("make")]
    assert len(said) == 1, done.stderr
    assert said[0].startswith("No working Python 3.11 or newer (tried: /bin/false): install one")
    assert (checkout / ".venv" / "kept").exists(), "an environment was thrown away for nothing"


def test_setup_with_broken_shims_alone(checkout: Path, bare_path: Path) -> None:
    script(bare_path / "python3", "echo 'python3: command not found' >&2; exit 127")
    script(bare_path / "python3.13", "exit 0")  # says that all is well and makes nothing
    done = run("make", "setup", cwd=checkout, path=bare_path)
    assert done.returncode == 2
    assert "tried: python3 python3.14 python3.13 python3.12 python3.11" in done.stderr
    assert not (checkout / ".venv").exists()


def test_a_broken_shim_is_passed_over(checkout: Path, bare_path: Path) -> None:
    script(bare_path / "python3", "exit 127")
    script(bare_path / "python3.12", f'exec "{sys.executable}" "$@"')
    done = run("sh", "tools/find_python.sh", cwd=checkout, path=bare_path)
    assert (done.returncode, done.stdout) == (0, "python3.12\n"), done.stderr


def test_a_python_of_another_version_is_no_candidate(checkout: Path, bare_path: Path) -> None:
    # It makes a real environment, whose interpreter then says, as an old one does, exit 1.
    script(checkout / "old", "exit 1")
    script(
        bare_path / "python3",
        f'"{sys.executable}" "$@" || exit 1\n'
        "for folder; do :; done\n"
        'rm "$folder/bin/python"\n'
        f'cp "{checkout}/old" "$folder/bin/python"',
    )
    done = run("sh", "tools/find_python.sh", "python3", cwd=checkout, path=bare_path)
    assert (done.returncode, done.stdout) == (2, "")


@pytest.mark.slow
def test_a_failed_install_leaves_no_stamp(
    checkout: Path, bare_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(checkout))
    script(bare_path / "python3.11", f'exec "{sys.executable}" "$@"')
    done = run("make", "setup", cwd=checkout, path=bare_path)
    assert done.returncode == 2
    assert "setup: the environment is not complete, see above" in done.stderr
    assert (checkout / ".venv" / "bin" / "python").exists()
    assert list((checkout / ".venv").glob(".ready*")) == []


# -- packages ----------------------------------------------------------------------------------


def requirements(name: str, extras: Iterable[str]) -> set[str]:
    """Names of all that a distribution needs here, and that this needs in turn."""
    found: set[str] = set()
    waiting = [(name, tuple(extras))]
    seen = set()
    while waiting:
        item = waiting.pop()
        if item in seen:
            continue
        seen.add(item)
        try:
            needs = metadata.requires(item[0]) or []
        except metadata.PackageNotFoundError:
            continue  # of an extra that is not installed here
        for text in needs:
            need = Requirement(text)
            marks = [{"extra": extra} for extra in ("", *item[1])]
            if need.marker is None or any(need.marker.evaluate(mark) for mark in marks):
                found.add(canonicalize_name(need.name))
                waiting.append((canonicalize_name(need.name), tuple(sorted(need.extras))))
    return found - {"ppdm-dask"}


def test_constraints_pin_all_that_is_needed(root: Path) -> None:
    lines = (root / "constraints.txt").read_text().splitlines()
    pins = [line for line in lines if not line.startswith("#")]
    assert all(re.fullmatch(r"[a-z0-9-]+==[0-9a-z.]+", pin) for pin in pins)
    names = [pin.partition("==")[0] for pin in pins]
    assert names == sorted(set(names))
    lowest = pinned(root / "constraints-lowest.txt")
    if metadata.version("numpy") == lowest["numpy"]:
        assert requirements("ppdm-dask", ("cluster", "test")) <= set(lowest)
        return
    needed = requirements("ppdm-dask", EXTRAS)
    assert {"numpy", "dask", "pytest", "tornado", "pymoo"} <= needed
    assert needed <= set(names)


def pinned(path: Path) -> dict[str, str]:
    return dict(line.split("==") for line in path.read_text().splitlines() if "==" in line)


def declared(root: Path, *extras: str) -> list[Requirement]:
    """What the project needs by itself and with some extras; with all where none is named."""
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    lists = project["optional-dependencies"]
    chosen = itertools.chain(*(lists[name] for name in extras or lists))
    found = map(Requirement, [*project["dependencies"], *chosen])
    return [need for need in found if canonicalize_name(need.name) != "ppdm-dask"]


def test_pins_meet_the_declared_bounds(root: Path) -> None:
    pins = pinned(root / "constraints.txt")
    for need in declared(root):
        assert need.specifier.contains(pins[canonicalize_name(need.name)]), str(need)


def test_the_lowest_pins_are_the_bounds_themselves(root: Path) -> None:
    pins = pinned(root / "constraints-lowest.txt")
    assert list(pins) == sorted(pins)
    for need in declared(root, *RUNNING):
        (bound,) = need.specifier
        assert bound.operator == ">=", str(need)
        assert Version(pins[canonicalize_name(need.name)]) == Version(bound.version), str(need)
    assert {pins[name] for name in ("numpy", "pandas")} == {"2.2.0", "2.3.0"}


def test_version_is_one(root: Path) -> None:
    assert metadata.version("ppdm-dask") == ppdm_dask.__version__
    assert f"## [{ppdm_dask.__version__}]" in (root / "CHANGELOG.md").read_text()


# -- recipes and the wheel ---------------------------------------------------------------------


def test_recipes_of_the_checkout(root: Path) -> None:
    assert resources.pipelines_dir() == root / "pipelines"
    assert "electronic-surveys" in resources.recipes()
    assert resources.recipe_path("electronic-surveys").is_file()


def test_recipe_path_takes_paths_as_they_are(tmp_path: Path) -> None:
    for path in ("mine.toml", "some/where", "./electronic-surveys", "../x.toml"):
        assert resources.recipe_path(path) == Path(path)
    assert resources.recipe_path(tmp_path / "any") == tmp_path / "any"


@pytest.mark.parametrize("name", ["electronic-survey", "nothing-like-it", ""])
def test_unknown_recipe_lists_the_names(name: str) -> None:
    with pytest.raises(RecipeError) as caught:
        resources.recipe_path(name)
    said = str(caught.value)
    assert "\n" not in said
    assert said.startswith(f"no recipe is called {name!r}")
    assert "electronic-surveys" in said
    assert ("did you mean 'electronic-surveys'?" in said) == (name == "electronic-survey")
    assert caught.value.subject == name


def test_wheel_carries_recipes_and_data(root: Path, tmp_path: Path) -> None:
    command = (sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path))
    built = run(*command, cwd=root)
    assert built.returncode == 0, built.stderr
    (wheel,) = tmp_path.glob("*.whl")
    site = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    carried = {path.relative_to(site).as_posix() for path in site.rglob("*") if path.is_file()}
    tops = {name.partition("/")[0] for name in carried}
    assert tops == {"ppdm_dask", f"ppdm_dask-{ppdm_dask.__version__}.dist-info"}
    data = "ppdm_dask/_data/"
    for folder, inside in (("ppdm_dask", ""), ("pipelines", data), ("cluster", data)):
        for path in (root / folder).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                assert inside + path.relative_to(root).as_posix() in carried

    code = (
        f"import sys; sys.path.insert(0, {str(site)!r})\n"
        "from ppdm_dask import resources\n"
        "print(*resources.recipes())\nprint(resources.recipe_path('electronic-surveys'))\n"
        "from ppdm_dask.claims.claim import load_papers\n"
        "from ppdm_dask.report.pages import errata_of\n"
        "print(len(errata_of([paper.key for paper in load_papers()])))"
    )
    done = run(sys.executable, "-c", code, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    names, found, papers = done.stdout.splitlines()
    assert papers == "5"
    assert names.split() == resources.recipes()
    assert Path(found) == site / "ppdm_dask/_data/pipelines/electronic-surveys.toml"
    text = (root / "pipelines/electronic-surveys.toml").read_text()
    assert Path(found).read_text() == text


@pytest.mark.parametrize("name", ["macos", "windows"])
def test_workflows_run_what_is_there(root: Path, name: str) -> None:
    text = (root / ".github" / "workflows" / f"{name}.yml").read_text()
    ((_, job),) = yaml.safe_load(text)["jobs"].items()
    assert job["runs-on"] == f"{name}-latest"
    pythons = job["strategy"]["matrix"]["python"]
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    for python in pythons:
        assert f"Programming Language :: Python :: {python}" in project["classifiers"]
        assert Specifier(project["requires-python"]).contains(python)
    commands = " ".join(step.get("run", "") for step in job["steps"])
    assert "ppdm run electronic-surveys --repeats 20" in commands
    for path, _, test in (each.partition("::") for each in re.findall(r"tests/\S+", commands)):
        assert (root / path).is_file(), path
        assert f"def {test}" in (root / path).read_text()
