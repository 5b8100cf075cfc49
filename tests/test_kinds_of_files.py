"""Each TOML file of the repository has a kind, whose schema takes what the reader takes."""

from __future__ import annotations

import copy
import json
import re
import subprocess
import tomllib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pages import blocks, every

from ppdm_dask.claims.claim import paper_from_config
from ppdm_dask.cli.schema import SCHEMAS, schema_document
from ppdm_dask.collect import Questionnaire
from ppdm_dask.errors import InputError
from ppdm_dask.reproduce import read_grade
from ppdm_dask.search.joint_law import joint_law
from ppdm_dask.survey import joint_prior, read_priors
from ppdm_dask.survey.devices import Wording

jsonschema = pytest.importorskip("jsonschema")

ROOT = Path(__file__).resolve().parents[1]

with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(str(ROOT / "tools"))

KINDS = {
    "cluster/*.toml": "profile",
    "pipelines/*.toml": "recipe",
    "pipelines/claims/*.toml": "claims",
    "pipelines/codebooks/*.toml": "codebook",
    "tests/golden/grades.toml": "grades",
    "ppdm_dask/survey/wording.toml": "wording",
}
"""Kinds of the repository's files."""

OWN = {
    "pyproject.toml",
    "ppdm_dask/collect/words.toml",
    "ppdm_dask/datasets/sources.toml",
    "tests/statistical/coverage.toml",
    "tests/statistical/defaults.toml",
    "tests/statistical/regression.toml",
    "tools/equivalent_mutants.toml",
}
"""Files that no command reads for a user: those of the package, of tests and of tools."""

TELLS = (
    ("prior", "prior"),
    ("kind", "profile"),
    ("id", "design"),
    ("question", "questionnaire"),
    ("attribute", "codebook"),
    ("sweep", "recipe"),
    ("small", "grades"),
)
"""Keys by which an example on a page shows its kind; the first one counts."""

SCHEMA = re.compile(r"#:schema \./(\w+)\.schema\.json\n")
"""All of an example that leads editors to a schema."""

WHOLE: dict[tuple[str, str], Callable[[dict[str, Any]], dict[str, Any]]] = {
    ("docs/survey.md", "categories"): lambda part: {
        "attribute": [{"name": "age", "cuts": [30], "missing": "(missing)", **part}]
    },
    ("docs/web.md", "hand"): lambda part: {
        "title": "Health at work",
        "question": [{"attribute": "used", "text": "Have you ever taken it at work?"}],
        **part,
    },
}
"""Examples that show a part of a file, by page and first key, and the file around them."""


@cache
def validator(kind: str) -> Any:
    schema = schema_document(kind)
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def faults(kind: str, config: Any) -> list[str]:
    return [f"{e.json_path}: {e.message}" for e in validator(kind).iter_errors(config)]


def files() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "*.toml"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode:
        pytest.skip("no checkout of git")
    return [ROOT / line for line in listed.stdout.splitlines()]


def test_every_file_has_a_kind_and_is_valid() -> None:
    seen = set()
    for path in files():
        name = path.relative_to(ROOT).as_posix()
        kinds = [kind for glob, kind in KINDS.items() if path in ROOT.glob(glob)]
        assert (name in OWN) + len(kinds) == 1, f"{name}: of what kind is it?"
        for kind in kinds:
            assert faults(kind, tomllib.loads(path.read_text())) == [], name
            seen.add(kind)
    assert seen == set(KINDS.values())


def examples() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Page, kind and content of every TOML example: blocks, and files that commands write."""
    shown = [(block.page, block.text) for block in every("toml")]
    shown += [
        (block.page, text)
        for block in every("sh")
        for text in re.findall(
            r"^cat > \S+\.toml <<'?END'?\n(.*?)^END$", block.text, re.MULTILINE | re.DOTALL
        )
    ]
    for page, text in shown:
        if found := SCHEMA.fullmatch(text):
            assert found[1] in SCHEMAS
            continue
        content = tomllib.loads(text.replace("$wave", "1"))
        if "trial" in content:  # of a class that the reader adds; tests/test_trials.py runs it
            assert text in [block.text for block in blocks("CONTRIBUTING.md", "toml")]
            continue
        content = WHOLE.get((page, next(iter(content))), dict)(content)
        yield page, next(kind for key, kind in TELLS if key in content), content


def test_examples_on_pages_are_valid() -> None:
    kinds = set()
    for page, kind, content in examples():
        assert faults(kind, content) == [], page
        kinds.add(kind)
    assert kinds == {kind for _, kind in TELLS} - {"recipe"}


QUESTIONNAIRE = {
    "title": {"en": "Work", "de": "Arbeit"},
    "languages": ["en", "de"],
    "welcome": "Hello.",
    "series": "s",
    "wave": 2,
    "question": [
        {"attribute": "used", "text": "Have you?", "labels": {"yes": "I have"}},
        {
            "attribute": "often",
            "text": {"en": "How often?", "de": "Wie oft?"},
            "optional": True,
            "unanswered": "never",
            "only_if": {"used": ["yes"]},
        },
    ],
    "hand": [{"attributes": ["used"], "instruction": "Roll.", "symbols": {"used": {"yes": "A"}}}],
    "words": {"de": {"next": "Weiter"}},
}

BASE = {"id": "c", "where": "p. 3", "says": "so", "recipe": "aibr", "test": "t.py::t"}
VARIABLE = {"variable": "x", "at": {"k": [1, 2]}, "times": 2, "plus": 0.5, "each": True}
RULES_OF_CLAIMS: list[dict[str, Any]] = [
    {"rule": "within", "expected": 0.5, "tolerance": 0.1, **VARIABLE},
    {"rule": "within", "expected": {"x": 1, "y": 2}, "tolerance": {"x": 0.1, "y": 1}, "each": True},
    {"rule": "printed", "expected": {"x": "0.250"}},
    {"rule": "equal", "than": {"minus": {"variable": "y"}}, "tolerance": 0.1, **VARIABLE},
    {"rule": "compare", "relation": "above", "than": 3, "share": 0.9, "ties": True, **VARIABLE},
    {"rule": "defined", "over": {"at": {"q": [0.5]}}, **VARIABLE},
    {
        "rule": "monotone",
        "along": "q",
        "direction": "rises",
        "paths": [[0, 0.5, 1]],
        "mean": True,
        **VARIABLE,
    },
    {"rule": "extreme", "along": "q", "which": "largest", "place": [0, 0.5], **VARIABLE},
]
SURVEY = {
    "design": {"id": "warner", "attribute": "a", "theta": 0.8},
    "categories": ["no", "yes"],
    "of": "yes",
    "counts": {"no": 3, "yes": 4},
    "method": "mle",
    "divisor": "n",
}
TWICE = {
    "id": "permanent",
    "first": {"id": "warner", "attribute": "a", "theta": 0.9},
    "again": {"id": "warner", "attribute": "a", "theta": 0.8},
}
LAW = {**SURVEY, "law": {"no": 0.25, "yes": 0.75}, "n": 20}
del LAW["counts"]
CLAIMS = [
    *({**BASE, "figures": ["f"], "differs": "why", **rule} for rule in RULES_OF_CLAIMS),
    {**BASE, "untestable": "why", "printed": "3"},
    *(
        {**BASE, "rule": "printed", "expected": {"estimate": "0.5"}, "survey": survey}
        for survey in (SURVEY, LAW, {**SURVEY, "design": TWICE})
    ),
]
for each in CLAIMS:
    if "survey" in each or "untestable" in each:
        del each["recipe"]
    if "untestable" in each:
        del each["test"]

DOCUMENTS: list[tuple[str, dict[str, Any]]] = [
    *(
        ("claims", {"paper": "P", "title": "t", "authors": "a", "claim": [claim]})
        for claim in CLAIMS
    ),
    ("questionnaire", QUESTIONNAIRE),
    ("prior", {"attribute": "a", "prior": {"no": 0.75, "yes": "1/4"}}),
    ("prior", {"prior": {"a": {"no": 0.75, "yes": "1 / 4"}, "b": {"x": 1}}}),
    (
        "prior",
        {
            "attributes": ["a", "b"],
            "prior": {"no": {"x": 0.25, "y": 0.25}, "yes": {"x": "1/4", "y": 0.25}},
        },
    ),
    ("grades", {"small": {"rules": {"sweep": {"repeats": 4}}, "aibr": {"left_out": "long"}}}),
    ("wording", {**Wording().content}),
]


def read_prior(path: Path) -> Any:
    if "attributes" not in tomllib.loads(path.read_text()):
        return read_priors(path)
    return joint_law(joint_prior(path))


READERS: dict[str, Callable[[Path], Any]] = {
    "claims": lambda path: paper_from_config(tomllib.loads(path.read_text()), "my.toml"),
    "questionnaire": Questionnaire.read,
    "prior": read_prior,
    "grades": lambda path: [read_grade(path.parent, n) for n in tomllib.loads(path.read_text())],
    "wording": Wording,
}
FILE = {"grades": "grades.toml"}


def value(of: Any) -> str:
    """TOML of a value, tables in line."""
    if isinstance(of, dict):
        return "{" + ", ".join(f"{json.dumps(k)} = {value(v)}" for k, v in of.items()) + "}"
    return f"[{', '.join(map(value, of))}]" if isinstance(of, list) else json.dumps(of)


def refused(kind: str, config: Any) -> str:
    """What the reader says; empty if it takes the file."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / FILE.get(kind, "my.toml")
        path.write_text("".join(f"{json.dumps(k)} = {value(v)}\n" for k, v in config.items()))
        try:
            READERS[kind](path)
        except InputError as error:
            assert "\n" not in str(error)
            return str(error)
    return ""


@pytest.mark.parametrize(("kind", "config"), DOCUMENTS)
def test_the_documents_that_are_changed_below_are_whole(kind: str, config: Any) -> None:
    assert refused(kind, config) == ""
    assert faults(kind, config) == []


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths of all tables, lists and values below a table."""
    for key, each in value.items() if isinstance(value, dict) else enumerate(value):
        yield (*path, key)
        if isinstance(each, dict | list):
            yield from places(each, (*path, key))


def at(config: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        config = config[key]
    return config


VALUES: list[Any] = ["zz", " ", "0.5", "1/3", 3.5, -1, 0, 7, True, [], {}, ["zz"], [{}], {"zz": 1}]


def mutants(kind: str, whole: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Each key left out, each value another one, and an unknown key in each table."""
    for path in [(), *places(whole)]:
        found = copy.deepcopy(whole)
        if path:
            key = path[-1]
            del at(found, path[:-1])[key]
            yield found
            for value in VALUES:
                found = copy.deepcopy(whole)
                at(found, path[:-1])[key] = value
                yield found
        if isinstance(at(whole, path), dict):
            found = copy.deepcopy(whole)
            at(found, path)["colour"] = "red"
            yield found


BEYOND = {
    "claims": (
        r"got true; the values of a list must differ",  # JSON tells true from 1
        r"a table with the keys of expected is needed",
        r"is not a report of the design",
        r"\.of: got .* a category is needed",
        r"the proportion of each category is needed",
        r"proportions that sum to 1",
        r"a proportion above 0 and below 1",
        r"the same attributes are needed",
    ),
    "questionnaire": (
        r"a text in '\w+' is needed",
        r"the page does not have this language",
        r"the page's own words are not known in",
        r"there is no such word",
    ),
    "prior": (
        r"sum to .*; 1 is needed",
        r"has proportion .*; 1e-06 or more is needed",
        r"a table of the categories of 'b' is needed",  # by the number of attributes
        r"prior\.\w+\.\w+: got {.*}; a proportion is needed",
        r"everywhere .* are needed",
        r"has 1 categories; 2 or more are needed",  # of a joint law
    ),
    "grades": (r"grades.toml: small\.\w+ of .*/pipelines/\w+\.toml: ",),  # the recipe's own
    "wording": (),
}
"""What a schema cannot say, by what the reader says of it."""


def agree(kind: str, config: Any) -> None:
    says, wrong = refused(kind, config), faults(kind, config)
    if says and not any(re.search(each, says) for each in BEYOND[kind]):
        assert wrong, says
    if wrong:
        assert says, wrong


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_schema_and_reader_agree_on_changed_files(data: st.DataObject) -> None:
    kind, whole = data.draw(st.sampled_from(DOCUMENTS))
    found = copy.deepcopy(whole)
    path = data.draw(st.sampled_from([*places(whole)]))
    match data.draw(st.sampled_from(["value", "value", "none", "new"])):
        case "value":
            at(found, path[:-1])[path[-1]] = data.draw(st.sampled_from(VALUES))
        case "none":
            del at(found, path[:-1])[path[-1]]
        case "new":
            tables = [(), *(p for p in places(whole) if isinstance(at(whole, p), dict))]
            at(found, data.draw(st.sampled_from(tables)))["colour"] = "red"
    agree(kind, found)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "whole"), [each for each in DOCUMENTS if each[0] != "wording"])
def test_schema_and_reader_agree_on_every_change(kind: str, whole: dict[str, Any]) -> None:
    for found in mutants(kind, whole):
        agree(kind, found)


def test_ids_are_relative_and_schemas_stand_alone() -> None:
    for kind in SCHEMAS:
        schema = schema_document(kind)
        assert schema["$id"] == f"{kind}.json"
        assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
        assert schema["title"]
        text = json.dumps(schema)
        for name in re.findall(r'"\$ref": "([^"]*)"', text):
            if (kind, name) != ("design", "#"):  # the design of a block or a stage
                assert name.removeprefix("#/$defs/") in schema["$defs"]
