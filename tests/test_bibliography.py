"""Every work that is cited has one entry, with its year and its DOI."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

CITED = re.compile(r"\[([A-Z][A-Za-z]+\d*)\]_")
ENTRY = re.compile(r"^\*\*\[(\w+)\]\*\* (.*?)(?=\n\n|\Z)", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def entries(root: Path) -> dict[str, str]:
    found = ENTRY.findall((root / "docs" / "bibliography.md").read_text(encoding="utf-8"))
    keys = [key for key, _ in found]
    assert len(keys) == len(set(keys))
    return {key: " ".join(text.split()) for key, text in found}


def test_what_is_cited_has_an_entry(entries: dict[str, str], root: Path) -> None:
    files = [*(root / "ppdm_dask").rglob("*.py"), *(root / "docs").rglob("*.md")]
    files += (root / "pipelines" / "claims").glob("*.toml")
    cited = {key for path in files for key in CITED.findall(path.read_text(encoding="utf-8"))} - {
        "Key"
    }
    assert {"Guo", "HuangDu", "Susko", "ZhanDu", "ZhanMatwin"} <= cited
    assert cited <= entries.keys()
    assert entries.keys() <= cited


def test_an_entry_has_a_year_and_says_its_doi(entries: dict[str, str]) -> None:
    for key, text in entries.items():
        assert re.search(r"\b(19|20)\d\d\b", text), key
        assert re.search(r"DOI 10\.\d{4,5}/\S+\.$|No DOI\.$", text), key
