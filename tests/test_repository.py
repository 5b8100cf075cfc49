"""Citation, policies, templates, releases and the conda recipe of the repository."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from jinja2 import Environment, StrictUndefined
from packaging.requirements import Requirement

import ppdm_dask

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


# -- citation ----------------------------------------------------------------------------------

TYPES = {"article", "conference-paper", "report"}


def test_the_citation_is_of_this_version() -> None:
    found = yaml.safe_load(text("CITATION.cff"))
    # Required by version 1.2.0 of the format.
    assert {"cff-version", "message", "title", "authors"} <= set(found)
    assert found["cff-version"] == "1.2.0"
    assert found["type"] == "software"
    assert str(found["version"]) == ppdm_dask.__version__
    assert found["license"] == PROJECT["license"]
    assert found["authors"] == PROJECT["authors"]
    assert found["keywords"] == PROJECT["keywords"]


def test_the_cited_papers_are_those_of_the_bibliography() -> None:
    page = " ".join(text("docs/bibliography.md").split())
    references = yaml.safe_load(text("CITATION.cff"))["references"]
    assert len(references) == 4
    for each in references:
        assert each["type"] in TYPES
        names = ", ".join(f"{a['given-names']} {a['family-names']}" for a in each["authors"])
        entry = re.search(rf"{re.escape(names)}: {re.escape(each['title'])}\. (.*?)\*\*", page)
        assert entry is not None, each["title"]
        for key in ("doi", "year", "volume"):
            if key in each:
                assert str(each[key]) in entry[1], each["title"]
        assert ("doi" in each) == ("No DOI" not in entry[1])
        if "start" in each:
            assert f"pages {each['start']}-{each['end']}" in entry[1]


# -- changelog ---------------------------------------------------------------------------------

HEADINGS = ("Added", "Changed", "Deprecated", "Removed", "Fixed", "Security")


def test_the_changelog_keeps_its_form() -> None:
    lines = text("CHANGELOG.md").splitlines()
    assert lines[0] == "# Changelog"
    versions = [line for line in lines if line.startswith("## ")]
    assert versions[0] == "## [Unreleased]"
    dated = [re.fullmatch(r"## \[(\d+\.\d+\.\d+)\] - (\d{4}-\d\d-\d\d)", v) for v in versions[1:]]
    assert all(dated), versions
    assert ppdm_dask.__version__ in [each[1] for each in dated if each]
    assert [each[2] for each in dated if each] == sorted(each[2] for each in dated if each)[::-1]
    seen: list[str] = []
    for line in lines:
        if line.startswith("## "):
            seen = []
        elif line.startswith("### "):
            name = line.removeprefix("### ")
            assert name in HEADINGS and name not in seen, line
            seen.append(name)
        assert not line.startswith("####"), line


# -- policies and templates --------------------------------------------------------------------


def test_the_security_policy_says_how_to_report() -> None:
    page = text("SECURITY.md")
    for heading in ("## Supported versions", "## Report a vulnerability", "## What is promised"):
        assert heading in page
    assert "privately" in page
    for file in re.findall(r"\]\(([^)#]+)", page):
        assert (ROOT / file).is_file(), file
    # What it says in short is what the long page promises.
    full = " ".join(text("docs/security.md").split()) + " ".join(text("docs/web.md").split())
    for fact in ("cut at 60 characters", "cryptographic", "--accept-certain", "checksum", "TLS"):
        assert fact in full


FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))


def test_the_templates_are_forms() -> None:
    if not FORMS:
        pytest.skip("a source archive has no templates")
    names = {path.stem for path in FORMS}
    assert names == {"bug", "config", "design", "wrong-number"}
    for path in FORMS:
        if path.stem == "config":
            continue
        form = yaml.safe_load(path.read_text())
        assert (
            {"name", "description", "body"}
            <= set(form)
            <= {*("name", "description", "body", "labels", "title", "assignees")}
        )
        ids = [each["id"] for each in form["body"] if each["type"] != "markdown"]
        assert len(set(ids)) == len(ids)
        assert all(re.fullmatch(r"[a-z-]+", each) for each in ids)
        required = 0
        for each in form["body"]:
            assert each["type"] in ("markdown", "textarea", "input", "dropdown", "checkboxes")
            assert "value" in each["attributes"] or each["attributes"]["label"].strip()
            required += each.get("validations", {}).get("required", False)
        assert required >= 2
        assert "real people" in path.read_text() or path.stem == "design"


REPOSITORY = [
    path
    for path in (
        *(ROOT / ".github").rglob("*.*"),
        ROOT / ".pre-commit-config.yaml",
        ROOT / "SECURITY.md",
        ROOT / "CITATION.cff",
        ROOT / "conda" / "meta.yaml",
    )
    if path.is_file()
]


@pytest.mark.parametrize("path", REPOSITORY, ids=lambda path: path.name)
def test_no_host_is_named(path: Path) -> None:
    assert "://" not in path.read_text()


def test_hooks_are_local_and_run_what_make_runs() -> None:
    if not (ROOT / ".pre-commit-config.yaml").exists():
        pytest.skip("a source archive has no hooks")
    found = yaml.safe_load(text(".pre-commit-config.yaml"))
    targets = re.findall(r"^([a-z-]+):.*##", text("Makefile"), re.MULTILINE)
    assert [repo["repo"] for repo in found["repos"]] == ["local"]
    for hook in found["repos"][0]["hooks"]:
        make, target = hook["entry"].split()
        assert make == "make" and target in targets
        assert hook["language"] == "system" and hook["pass_filenames"] is False


# -- release -----------------------------------------------------------------------------------


def test_a_tag_builds_checks_and_keeps_both_distributions() -> None:
    path = ROOT / ".github" / "workflows" / "release.yml"
    if not path.exists():
        pytest.skip("a source archive has no workflows")
    found = yaml.safe_load(path.read_text())
    assert found[True] == {"push": {"tags": ["v*"]}}  # YAML's `on` is true
    assert found["permissions"] == {"contents": "read"}
    build, publish = found["jobs"]["build"], found["jobs"]["publish"]
    steps = [step.get("run", step.get("uses", "")) for step in build["steps"]]
    order = [
        next(i for i, step in enumerate(steps) if step.startswith(start))
        for start in (
            "version=",
            "python -m build",
            "python -m twine check --strict dist/*",
            "python -m venv elsewhere",
            "actions/upload-artifact@",
        )
    ]
    assert order == sorted(order)
    assert publish["needs"] == "build"
    assert publish["permissions"] == {"id-token": "write"}  # no token is kept anywhere
    assert "secrets" not in path.read_text()


def test_the_release_finds_version_changelog_and_citation() -> None:
    """The patterns that the workflow's first step looks for."""
    version = re.search(r'^__version__ = "(.*)"$', text("ppdm_dask/__init__.py"), re.MULTILINE)
    assert version is not None and version[1] == ppdm_dask.__version__
    assert f"## [{version[1]}]" in text("CHANGELOG.md")
    assert f"version: {version[1]}" in text("CITATION.cff").splitlines()


# -- conda -------------------------------------------------------------------------------------

NAMES = {"dask": "dask", "matplotlib": "matplotlib-base", "psycopg": "psycopg"}
NOT_OF_USERS = {"dev", "peers", "test"}


def rendered() -> dict[str, Any]:
    """The recipe as conda-build renders it: its two functions read files beside the recipe."""
    folder = ROOT / "conda"

    def load_file_data(name: str, from_recipe_dir: bool) -> dict[str, Any]:
        assert from_recipe_dir
        return tomllib.loads((folder / name).read_text())

    def load_file_regex(load_file: str, regex_pattern: str, from_recipe_dir: bool) -> Any:
        assert from_recipe_dir
        return re.search(regex_pattern, (folder / load_file).read_text())

    # Not a page: values of a YAML file are not escaped.
    environment = Environment(undefined=StrictUndefined, autoescape=False)
    template = environment.from_string(text("conda/meta.yaml"))
    page = template.render(load_file_data=load_file_data, load_file_regex=load_file_regex)
    found: dict[str, Any] = yaml.safe_load(page)
    return found


def as_conda(requirement: Requirement) -> str:
    return f"{NAMES.get(requirement.name, requirement.name)} {requirement.specifier}"


def test_the_conda_recipe_needs_what_the_project_needs() -> None:
    recipe = rendered()
    assert recipe["package"] == {"name": "ppdm-dask", "version": ppdm_dask.__version__}
    assert recipe["about"]["license"] == PROJECT["license"]
    assert recipe["about"]["summary"] == PROJECT["description"]
    python = f"python {PROJECT['requires-python']}"
    needs = {as_conda(Requirement(each)) for each in PROJECT["dependencies"]}
    assert recipe["requirements"]["run"][0] == python
    assert set(recipe["requirements"]["run"][1:]) == needs
    extras = {
        as_conda(each)
        for name, group in PROJECT["optional-dependencies"].items()
        for each in map(Requirement, group)
        if name not in NOT_OF_USERS and each.name != PROJECT["name"]
    }
    assert set(recipe["requirements"]["run_constrained"]) == extras
    built = tomllib.loads(text("pyproject.toml"))["build-system"]["requires"]
    assert set(recipe["requirements"]["host"]) == {
        python,
        "pip",
        *(as_conda(Requirement(each)) for each in built),
    }


def test_the_conda_recipe_tests_commands_that_there_are() -> None:
    from ppdm_dask.cli import main

    recipe = rendered()
    for command in recipe["test"]["commands"]:
        program, *arguments = command.split()
        assert program == "ppdm"
        assert main(arguments) == 0
    (entry,) = recipe["build"]["entry_points"]
    assert dict([entry.split(" = ")]) == PROJECT["scripts"]
