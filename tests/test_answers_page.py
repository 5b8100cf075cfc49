"""The page of ``ppdm estimate --page``: the command's numbers, drawn to scale, in one file."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import ppdm_dask as pp
from ppdm_dask.cli import main
from ppdm_dask.designs.files import write_design

BOTH = ("--codebook", "c.toml", "--design", "d.toml")
LABELS = ("<b>no</b>", "yes & more")


class Rows(HTMLParser):
    """Texts of the cells of each row, and the places of its lines."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[tuple[list[str], list[dict[str, str | None]]]] = []
        self._cell = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "tr":
            self.rows.append(([], []))
        elif tag == "td":
            self._cell = True
            self.rows[-1][0].append("")
        elif tag == "line":
            self.rows[-1][1].append(dict(attrs))

    def handle_endtag(self, tag: str) -> None:
        if tag == "td":
            self._cell = False

    def handle_data(self, data: str) -> None:
        if self._cell:
            self.rows[-1][0][-1] += data.strip()


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    book = pp.Codebook((pp.Attribute("used", LABELS), pp.Attribute("region", ("N", "S"))))
    book.to_toml("c.toml")
    write_design(pp.Warner("used", 0.8), Path("d.toml"))
    rng = np.random.default_rng(3)
    rows = [f"{LABELS[int(rng.random() < 0.3)]},{'NS'[i % 2]}" for i in range(400)]
    Path("a.csv").write_text("used,region\n" + "\n".join(rows) + "\n")
    keep = ("--keep-undisguised", "region", "--simulate", "1", "--out", "r.parquet")
    assert main(["disguise", "a.csv", *BOTH, *keep]) == 0


def test_the_page_has_the_numbers_of_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    asked = ("--over", "used", "--by", "region", "--page", "e.html", "--json")
    assert main(["estimate", "r.parquet", *BOTH, *asked]) == 0
    told = json.loads(capsys.readouterr().out)
    text = Path("e.html").read_text()
    assert "<b>no</b>" not in text
    assert re.search(r"(src|href)=\"(?!data:|#)", text) is None
    page = Rows()
    page.feed(text)
    drawn = [(cells, lines) for cells, lines in page.rows if lines]
    assert len(drawn) == len(told["cells"]) == 4
    ends = [0.0, 1.0, *(cell[k] for cell in told["cells"] for k in ("lower", "upper"))]
    low, high = min(ends), max(ends)
    for (cells, lines), cell in zip(drawn, told["cells"], strict=True):
        assert cells[:2] == list(cell["labels"].values())
        assert cells[2:4] == [f"{cell[k]:.4f}" for k in ("proportion", "standard_error")]
        assert cells[4] == f"{cell['lower']:.4f} to {cell['upper']:.4f}"
        for line, first, last in ((lines[1], "lower", "upper"), (lines[2], *["proportion"] * 2)):
            for end, key in (("x1", first), ("x2", last)):
                place = 100 * (cell[key] - low) / (high - low)
                assert float(line[end] or "nan") == pytest.approx(place, abs=0.006)
    for sentence in told["statements"]:
        assert sentence.replace("'", "&#39;").replace("<", "&lt;") in text or "<b>" in sentence


def test_a_page_is_not_replaced_unasked(capsys: pytest.CaptureFixture[str]) -> None:
    Path("e.html").write_text("mine")
    asked = ("estimate", "r.parquet", *BOTH, "--over", "used", "--page")
    assert main([*asked, "e.html"]) == 2
    assert main([*asked, "e.txt"]) == 2
    assert "ends in .html" in capsys.readouterr().err
    assert Path("e.html").read_text() == "mine"
