"""The wheel and the source archive hold what they should, and nothing stray."""

from __future__ import annotations

import email
import email.policy
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from packaging.metadata import Metadata
from packaging.requirements import Requirement

import ppdm_dask

DATA = "ppdm_dask/_data/"
INFO = f"ppdm_dask-{ppdm_dask.__version__}.dist-info/"

APART = (".ci/", ".github/", ".gitattributes", ".pre-commit-config.yaml")
"""What serves the repository and not its sources."""

STRAYS = (
    ".hypothesis/examples/x",
    ".mypy_cache/x.json",
    ".venv/bin/python",
    "build/lib/x.py",
    "dist/old.whl",
    "ppdm_dask/__pycache__/x.cpython-311.pyc",
    "ppdm_dask/kernels/__pycache__/x.nbi",
    "runs/mine/result.nc",
    "tests/__pycache__/x.pyc",
)
"""What a checkout gathers as it is used."""


def build(checkout: Path, out: Path, *options: str) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(out), *options]
    done = subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


class Built(NamedTuple):
    tracked: set[str]
    wheel: dict[str, bytes]
    sdist: dict[str, bytes]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Built]:
    """Built of what git tracks, in a folder that was used."""
    root = Path(__file__).resolve().parents[1]
    git = shutil.which("git")
    listed = (
        subprocess.run(
            [git or "git", "ls-files", "-z"], cwd=root, capture_output=True, text=True, check=False
        )
        if git
        else None
    )
    if listed is None or listed.returncode:
        pytest.skip("no checkout of git")
    tracked = {name for name in listed.stdout.split("\0") if name and (root / name).is_file()}
    copy = tmp_path_factory.mktemp("checkout")
    for name in (*tracked, *STRAYS):
        path = copy / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if name in STRAYS:
            path.write_text("stray")
        else:
            shutil.copy(root / name, path)
    out = tmp_path_factory.mktemp("dist")
    build(copy, out)
    (wheel,) = out.glob("*.whl")
    assert wheel.name == f"ppdm_dask-{ppdm_dask.__version__}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as archive:
        in_wheel = {name: archive.read(name) for name in archive.namelist()}
    (sdist,) = out.glob("*.tar.gz")
    in_sdist = {}
    with tarfile.open(sdist) as tar:
        for member in tar:
            assert member.isfile() and member.uid == 0, member.name
            top, _, name = member.name.partition("/")
            assert top == f"ppdm_dask-{ppdm_dask.__version__}"
            content = tar.extractfile(member)
            assert content is not None
            in_sdist[name] = content.read()
    yield Built(tracked, in_wheel, in_sdist)


def test_the_source_archive_is_what_git_tracks(built: Built) -> None:
    kept = {name for name in built.tracked if not name.startswith(APART)}
    assert set(built.sdist) == {*kept, "PKG-INFO"}
    # Who packages it can run its tests: goldens are part of them.
    assert "tests/golden/grades.toml" in kept


def test_the_wheel_is_the_package_and_its_data(built: Built) -> None:
    code = {name for name in built.wheel if not name.startswith((DATA, INFO))}
    assert code == {name for name in built.tracked if name.startswith("ppdm_dask/")}
    data = {name.removeprefix(DATA) for name in built.wheel if name.startswith(DATA)}
    assert data <= built.tracked
    assert {name for name in built.tracked if name.startswith(("pipelines/", "cluster/"))} <= data
    others = {name for name in data if not name.startswith(("pipelines/", "cluster/", "docs/"))}
    assert others == set()
    info = {name.removeprefix(INFO) for name in built.wheel if name.startswith(INFO)}
    assert info == {"METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE"}
    assert not [name for name in built.wheel if "test" in name.split("/")[0]]


def test_the_source_archive_builds_the_same_wheel(built: Built, tmp_path: Path) -> None:
    for name, content in built.sdist.items():
        path = tmp_path / "source" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    build(tmp_path / "source", tmp_path, "-t", "wheel")
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        assert {name: archive.read(name) for name in archive.namelist()} == built.wheel


def test_both_are_of_a_size_to_be_downloaded(built: Built) -> None:
    assert sum(map(len, built.wheel.values())) < 8 << 20
    assert sum(map(len, built.sdist.values())) < 20 << 20


def test_metadata_is_complete_and_the_same_in_both(built: Built) -> None:
    texts = built.wheel[INFO + "METADATA"], built.sdist["PKG-INFO"]
    assert texts[0] == texts[1]
    found = Metadata.from_email(texts[0], validate=True)
    root = Path(__file__).resolve().parents[1]
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    assert str(found.version) == ppdm_dask.__version__
    assert found.summary == project["description"]
    assert found.license_expression == "BSD-3-Clause"
    assert found.license_files == ["LICENSE"]
    assert found.description_content_type == "text/markdown"
    assert found.description == (root / "README.md").read_text()
    assert set(found.classifiers or ()) == set(project["classifiers"])
    assert "Typing :: Typed" in project["classifiers"]
    assert "ppdm_dask/py.typed" in built.wheel
    assert set(found.keywords or ()) == set(project["keywords"])
    assert not found.project_urls and found.home_page is None
    assert len(found.requires_dist or ()) >= len(project["dependencies"])


def test_python_versions_are_those_that_are_declared() -> None:
    root = Path(__file__).resolve().parents[1]
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    of = "Programming Language :: Python :: 3."
    named = {int(each.removeprefix(of)) for each in project["classifiers"] if each.startswith(of)}
    allowed = Requirement(f"python{project['requires-python']}").specifier
    assert min(named) == min(n for n in range(30) if allowed.contains(f"3.{n}.0"))
    assert named == set(range(min(named), max(named) + 1))
    assert all(allowed.contains(f"3.{n}.0") for n in named)


def test_the_wheel_names_its_command(built: Built) -> None:
    text = built.wheel[INFO + "entry_points.txt"].decode()
    assert text.split() == ["[console_scripts]", "ppdm", "=", "ppdm_dask.cli:main"]
    wheel = email.message_from_bytes(built.wheel[INFO + "WHEEL"], policy=email.policy.default)
    assert wheel["Root-Is-Purelib"] == "true" and wheel["Tag"] == "py3-none-any"
