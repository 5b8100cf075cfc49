"""JSON Schemas: they take what the reader takes, and refuse the keys and types that it refuses."""

from __future__ import annotations

import copy
import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from checks import EXAMPLES
from hypothesis import given, settings
from hypothesis import strategies as st
from small_recipe import CONFIG, TREES

from ppdm_dask.cli import main
from ppdm_dask.cli.schema import SCHEMAS as KINDS_OF_FILES
from ppdm_dask.cluster.kinds import KINDS as PROFILES
from ppdm_dask.cluster.kinds import profile_from_config, profile_schema
from ppdm_dask.data.codebook import Codebook
from ppdm_dask.designs import design_from_config, design_schema, families
from ppdm_dask.errors import InputError
from ppdm_dask.experiments.kinds import KINDS, recipe_from_config, recipe_schema
from ppdm_dask.resources import cluster_dir, pipelines_dir

jsonschema = pytest.importorskip("jsonschema")

ROOT = Path(__file__).parents[1]

SCHEMAS = {
    "recipe": recipe_schema,
    "codebook": Codebook.schema,
    "design": design_schema,
    "profile": profile_schema,
}


@cache
def validator(subject: str) -> Any:
    schema = SCHEMAS[subject]()
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def faults(subject: str, config: Mapping[str, Any]) -> list[str]:
    return [f"{e.json_path}: {e.message}" for e in validator(subject).iter_errors(config)]


FILES = [
    *(("recipe", path) for path in sorted(pipelines_dir().glob("*.toml"))),
    *(("codebook", path) for path in sorted((pipelines_dir() / "codebooks").glob("*.toml"))),
    *(("profile", path) for path in sorted(cluster_dir().glob("*.toml"))),
]


@pytest.mark.parametrize(("subject", "path"), FILES, ids=lambda each: getattr(each, "stem", each))
def test_every_file_of_the_package_is_valid(subject: str, path: Path) -> None:
    assert faults(subject, tomllib.loads(path.read_text())) == []


DESIGNS = [design.config() for examples in EXAMPLES.values() for design in examples]


@pytest.mark.parametrize("config", DESIGNS, ids=lambda config: config["id"])
def test_designs_of_all_families_are_valid(config: dict[str, Any]) -> None:
    assert faults("design", config) == []


REST = {
    "mangat": {"attribute": "a", "p": 0.5},
    "triangular": {"attribute": "a", "p": 0.5},
    "kuk": {"attribute": "a", "p1": 0.7, "p2": 0.2},
    "matrix": {"attributes": "a", "P": [[0.8, 0.1, 0], [0.1, 0.8, 0], [0.1, 0.1, 1]]},
    "forced": {"attribute": "a", "truth": 0.5},
    "unrelated": {"attributes": "a", "q": 0.5},
    "pram": {"attribute": "a", "q": 0.5},
}
"""What the page of designs leaves to the reader beside the line that names the categories."""


def test_the_lines_of_the_page_of_designs_are_valid() -> None:
    page = (ROOT / "docs" / "designs.md").read_text()
    table = page.partition("| id | in the file |")[2].partition("\n\n")[0]
    tried = 0
    for ids, cell in re.findall(r"^\| (`.*?`) \| (.*) \|$", table, re.MULTILINE):
        for family in re.findall(r"`(\w+)`", ids):
            for line in re.findall(r"`(\w+ = [^`]*)`", cell):
                config = {
                    "id": family,
                    **REST[family],
                    **tomllib.loads(line.replace("{...}", "{yes = 1}")),
                }
                if "forced_probability" in config:
                    del config["truth"]
                assert faults("design", config) == [], line
                tried += 1
    assert tried >= 8


def test_keys_and_kinds_have_titles_and_descriptions() -> None:
    for subject, names in (
        ("recipe", KINDS),
        ("design", [*families(), "itemcount", "mixed"]),
        ("profile", PROFILES),
    ):
        schema = SCHEMAS[subject]()
        assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
        assert set(schema["$defs"]) == set(names)
        for each in schema["$defs"].values():
            assert each["title"].strip()
            said = [key for key, value in each["properties"].items() if "description" in value]
            assert len(said) >= len(each["properties"]) - 2


PERTURBATION = tomllib.loads((pipelines_dir() / "aibr.toml").read_text())
FRONT = tomllib.loads((pipelines_dir() / "optrr-adult.toml").read_text())
TRIAL = tomllib.loads((pipelines_dir() / "rules.toml").read_text())
BOOK = tomllib.loads((pipelines_dir() / "codebooks" / "votes.toml").read_text())
NUMERIC = {
    "target": "age",
    "attribute": [
        {
            "name": "age",
            "categories": ["young", "old", "unknown"],
            "cuts": [30],
            "missing": "unknown",
            "missing_codes": [-9, "Refused"],
            "range": [0, 120],
            "rule": "median",
        },
        {"name": "b", "categories": ["l", "h"], "groups": [["1", "2"], ["3"]]},
    ],
}
LOCAL = {"kind": "local", "workers": 2, "memory": "2 GiB"}
PROFILE_FILES = [
    LOCAL,
    {**LOCAL, "kind": "scheduler", "address": "tls://h:1", "security": "keys"},
    {**LOCAL, "kind": "ssh", "hosts": ["a", "b"], "port": 22, "user": "ann", "python": "/p"},
    {
        **LOCAL,
        "kind": "slurm",
        "interface": "eth0",
        "walltime": "1-00:00:00",
        "lifetime": "00:10:00",
        "queue": "long",
        "directives": ["--nice=5"],
    },
]

# Designs are drawn again and again below: checking a hundred thousand numbers, all alike, each time
# would take most of it.
SMALL = [config for config in DESIGNS if len(json.dumps(config)) < 10_000]

DOCUMENTS = [
    *(("recipe", config) for config in (CONFIG, TREES, PERTURBATION, FRONT, TRIAL)),
    *(("codebook", config) for config in (BOOK, NUMERIC)),
    *(("design", config) for config in SMALL),
    *(("profile", config) for config in PROFILE_FILES),
]

READERS = {
    "recipe": lambda config: recipe_from_config(config, "my.toml"),
    "codebook": lambda config: Codebook.from_config(config, "my.toml"),
    "design": design_from_config,
    "profile": lambda config: profile_from_config(config, "my.toml"),
}


def refused(subject: str, config: dict[str, Any]) -> str:
    """What the reader says; empty if it takes the file."""
    try:
        READERS[subject](copy.deepcopy(config))
    except InputError as error:
        assert "\n" not in str(error)
        return str(error)
    return ""


@pytest.mark.parametrize(("subject", "config"), DOCUMENTS)
def test_the_documents_that_are_damaged_below_are_whole(subject: str, config: Any) -> None:
    assert refused(subject, config) == ""
    assert faults(subject, config) == []


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths of all tables, lists and values below a table."""
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    for key, each in inner:
        yield (*path, key)
        if isinstance(each, dict | list):
            yield from places(each, (*path, key))


def at(config: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        config = config[key]
    return config


FREE = ("design", "grid", "parameters")
"""Tables whose keys a recipe's reader leaves to the design; `ppdm check` refuses them."""


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_an_unknown_key_is_refused_by_both(data: st.DataObject) -> None:
    subject, whole = data.draw(st.sampled_from(DOCUMENTS))
    config = json.loads(json.dumps(whole))
    tables = [(), *(path for path in places(config) if isinstance(at(config, path), dict))]
    open_tables = {"w_y", "prior", "forced", "forced_probability", "grid", "sweep"}
    path = data.draw(
        st.sampled_from([p for p in tables if subject == "recipe" or not open_tables & {*p[-1:]}])
    )
    key = data.draw(st.sampled_from(["colour", "Kind", "titel", "a b", ""]))
    at(config, path)[key] = data.draw(st.sampled_from([1, "x", [1], [0.5, 0.25]]))
    says = refused(subject, config)
    free = subject == "recipe" and path and path[-1] in FREE
    assert faults(subject, config), (path, key)
    assert says or free
    if says and not free:
        assert key in says


KINDS_OF_VALUES: list[Any] = ["zz", 3.5, True, [], {}, [{}], {"zz": True}]


def json_type(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    return "number" if isinstance(value, int | float) else type(value).__name__


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_a_value_of_another_type_is_refused_by_both(data: st.DataObject) -> None:
    subject, whole = data.draw(st.sampled_from(DOCUMENTS))
    config = json.loads(json.dumps(whole))
    path = data.draw(st.sampled_from(list(places(config))))
    others = [v for v in KINDS_OF_VALUES if json_type(v) != json_type(at(config, path))]
    at(config, path[:-1])[path[-1]] = data.draw(st.sampled_from(others))
    says, wrong = refused(subject, config), faults(subject, config)
    key = next(part for part in reversed(path) if isinstance(part, str))
    if says and key in says.partition(": got ")[0] and "must differ" not in says:
        # Else the value is of a type that may stand there, but does not go with another.
        assert wrong, (path, at(config, path), says)
    elif not says and not (subject == "recipe" and {*FREE} & {*path}):
        assert not wrong, (path, at(config, path), wrong)


@pytest.mark.parametrize("subject", SCHEMAS)
def test_the_command_prints_and_writes_the_schema(
    subject: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["schema", subject]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == {"$id": f"{subject}.json", **SCHEMAS[subject]()}
    assert main(["schema", subject, "--out", str(tmp_path / "s.json")]) == 0
    assert capsys.readouterr().out == ""
    assert json.loads((tmp_path / "s.json").read_text()) == printed


def test_the_command_wants_a_known_subject(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", "codebok"]) == 2
    said = capsys.readouterr().err
    assert 'did you mean "codebook"?' in said
    assert '"recipe", "profile", "codebook", "design"' in said


def test_without_a_kind_the_command_lists_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema"]) == 0
    printed = capsys.readouterr().out
    assert [line.split()[0] for line in printed.splitlines()[2:]] == [*KINDS_OF_FILES]


def test_the_published_schemas_are_those_of_the_command(tmp_path: Path) -> None:
    """Written by ``ppdm schema --out docs/schemas``."""
    published = ROOT / "docs" / "schemas"
    assert main(["schema", "--out", str(tmp_path / "new")]) == 0
    names = [f"{kind}.json" for kind in sorted(KINDS_OF_FILES)]
    for folder in (tmp_path / "new", published):
        assert sorted(path.name for path in folder.iterdir()) == names
    for name in names:
        assert (published / name).read_bytes() == (tmp_path / "new" / name).read_bytes(), name


def test_a_file_is_no_folder_for_schemas(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "notes"
    file.write_text("mine")
    assert main(["schema", "--out", str(file)]) == 2
    assert f"--out: {file} is not a folder" in capsys.readouterr().err
    assert file.read_text() == "mine"
