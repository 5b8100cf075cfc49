"""The page for a frame: how it is built, and that what it hands over is what ``import`` reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from checks import EXAMPLES
from strategies import codebook_of, random_records, with_labels

import ppdm_dask as pp
from ppdm_dask.cli import main
from ppdm_dask.collect import Page, build_page
from ppdm_dask.collect.questionnaire import Questionnaire
from ppdm_dask.collect.rehearsal import report_of
from ppdm_dask.collect.templates import asset
from ppdm_dask.collect.words import needed_words, words_of
from ppdm_dask.designs import (
    Crosswise,
    Design,
    ForcedResponse,
    Kuk,
    SubsetSelection,
    UnaryEncoding,
    mixed,
)
from ppdm_dask.designs.files import write_design
from ppdm_dask.designs.permanent import Permanent, permanent_blocks
from ppdm_dask.errors import InputError
from ppdm_dask.files.fields import TomlTable

ORIGIN = "https://survey.example.org"
BOOK = pp.Codebook.from_config(
    {
        "attribute": [
            {"name": "used", "categories": ["no", "yes"]},
            {"name": "drugs", "categories": ["a", "b", "c"]},
        ]
    }
)
DESIGN = pp.Product([pp.Warner("used", 0.8), UnaryEncoding("drugs", 3, epsilon=1.0)])


def built(
    book: pp.Codebook = BOOK,
    design: Design = DESIGN,
    embed: tuple[str, ...] = (ORIGIN,),
    **more: Any,
) -> Page:
    asked = {"title": "t", "question": [{"attribute": n, "text": n} for n in book.names], **more}
    questionnaire = Questionnaire.from_table(TomlTable(asked, "q.toml", error=InputError))
    names = [*book.names, *(c for a in book.attributes for c in a.categories)]
    return build_page(
        questionnaire, book, design.bind(book), source="q.toml", accept=names, embed=embed
    )


def values(page: Page) -> dict[str, Any]:
    """What the script of the framed page reads."""
    assert page.framed is not None
    text = page.framed.split('id="survey">')[1].split("</script>")[0]
    found: dict[str, Any] = json.loads(text)
    return found


def handed(given: dict[str, Any], report: list[int | list[int]]) -> dict[str, str]:
    """The texts of a report, as frame.js makes them."""
    found = {given["embed"]["column"]: given["design"]}
    for name, symbol, place in zip(given["places"], report, given["embed"]["places"], strict=True):
        words = place["words"]
        if isinstance(symbol, list):
            found[name] = ";".join(words[each] for each in symbol) or place["none"]
        else:
            found[name] = words[symbol]
    return found


def in_a_frame(design: Design) -> bool:
    """Whether a page of it is small, and keeps nothing from wave to wave."""
    small = design.n_true < 200 and design.n_reported < 200
    return small and not design.undefined and not permanent_blocks(design)


FAMILIES = {
    name: next(filter(in_a_frame, examples))
    for name, examples in EXAMPLES.items()
    if any(map(in_a_frame, examples))
}
OTHERS = {
    "cards": Kuk("a", 0.3, 0.6, 5),
    "card": Kuk("a", 0.8, 0.2, trait="0").with_symbols({"red": "0", "black": "1"}),
    "tall": next(d for d in EXAMPLES["matrix"] if d.n_reported > d.n_true and not d.undefined),
    "sets": pp.Product([UnaryEncoding("a", 3, epsilon=0.1), pp.Warner("b", 0.8)]),
    "subsets": SubsetSelection("a", 5, 2, epsilon=1.0),
    "worded sets": UnaryEncoding("a", 2, epsilon=0.1).with_symbols(
        {"x": "0", "y": "1", "neither": ""}
    ),
    "identity": pp.Product([pp.Identity(["a"], [2]), pp.Warner("b", 0.8)]),
}


@pytest.mark.parametrize("name", [*FAMILIES, *OTHERS])
def test_what_is_handed_over_is_read_as_the_report_that_it_is(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    design = {**FAMILIES, **OTHERS}[name]
    book = codebook_of(design)
    design = with_labels(design, book).bind(book)
    made = design.disguise(random_records(book, 40, 3), pp.Stream.from_seed(5))
    given = values(built(book, design))
    table = pd.DataFrame([handed(given, report_of(made, row)) for row in range(len(made))])
    assert list(given["embed"]["columns"]) == [*book.names, "ppdmdesign"]
    table.to_csv("platform.csv", index=False)
    about, left_out = pp.survey.import_files(
        [Path("platform.csv")], book, design, Path("r.parquet")
    )
    assert (about.n, left_out) == (40, ())
    over = [book.names[-1]]
    found = pp.estimate("r.parquet", over, design=design).values
    np.testing.assert_allclose(found, pp.estimate(made, over, design=design).values, atol=1e-12)


def test_the_framed_page_has_the_draws_of_the_other_and_no_address() -> None:
    page, plain = built(), built(embed=())
    assert page.framed is not None
    assert (page.html, page.survey) == (plain.html, plain.survey)
    assert plain.framed is None
    for script in ("draw.js", "page.js"):
        assert asset(script) in page.framed and asset(script) in page.html
    given = values(page)
    assert given["collector"] == ""
    assert "connect-src &#39;none&#39;" in page.framed
    assert len(page.framed.encode()) < 60_000 and len(page.html.encode()) < 60_000
    assert "postMessage" in page.framed and "postMessage" not in page.html
    assert "fetch(" in page.html and "fetch(" not in page.framed
    assert given["words"]["en"]["send"] == "Pass on"
    own = values(built(words={"en": {"send": "Go"}}))
    assert own["words"]["en"]["send"] == "Go"
    austrian = values(built(languages=["de-AT"]))
    assert austrian["words"]["de-AT"]["send"] == "Übergeben"


def test_a_page_in_another_language_states_what_it_says_and_no_more() -> None:
    assert built(embed=(), languages=["fr"], words={"fr": FRENCH}).framed is None
    stated = {**FRENCH, "elsewhere": "Ailleurs", "send": "Envoyer"}
    page = built(languages=["fr"], words={"fr": stated})
    own = values(page)["words"]["fr"]
    assert (own["elsewhere"], own["send"]) == ("Ailleurs", "Envoyer")
    assert "Ailleurs" not in page.html


FRENCH = {key: words_of("en")[key] for key in needed_words("fr")}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"design": pp.Product([Permanent(pp.Warner("used", 0.8), pp.Warner("used", 0.9)),
                                UnaryEncoding("drugs", 3, epsilon=1.0)]),
          "series": "health", "wave": 1},
         "q.toml: series: a browser may not keep a permanent first stage for a page in a frame"),
        ({"languages": ["fr"], "words": {"fr": FRENCH}},
         "q.toml: words.fr: the page's own words are not known in 'fr'; state 'elsewhere'"),
        ({"embed": ("https://a.example/b",)}, '--embed: got "https://a.example/b"; an origin'),
        ({"embed": ("http://a.example",)}, '--embed: got "http://a.example"; an origin such as'),
        ({"embed": ("*",)}, '--embed: got "*"; an origin such as'),
        ({"book": pp.Codebook((pp.Attribute("ppdmdesign", ("a", "b")),)),
          "design": pp.Warner("ppdmdesign", 0.8)},
         "q.toml: question.ppdmdesign: the design's digest is passed on under this name"),
        ({"book": pp.Codebook((pp.Attribute("a", ("x;y", "z", "w")),)),
          "design": UnaryEncoding("a", 3, epsilon=1.0)},
         "q.toml: question.a: 'x;y' has a ';', which separates the categories"),
    ],
)  # fmt: skip
def test_what_cannot_be_handed_over_is_refused_in_one_line(
    given: dict[str, Any], said: str
) -> None:
    with pytest.raises(InputError) as caught:
        built(**given)
    assert str(caught.value).startswith(said) and "\n" not in str(caught.value)


def test_words_by_device_are_refused() -> None:
    words = {"same": "yes", "different": "no"}
    devices = {
        "A": Crosswise("used", 0.25).with_symbols(words),
        "B": ForcedResponse("used", 0.75, [0.5, 0.5], categories=["no", "yes"]),
    }
    book = pp.Codebook((pp.Attribute("form", ("A", "B")), pp.Attribute("used", ("no", "yes"))))
    with pytest.raises(
        InputError, match=r"question\.used: the design has different words for each device"
    ):
        built(book, mixed("form", devices, ("no", "yes")))


def test_origins_are_those_that_browsers_name() -> None:
    given = (
        "https://A.example:443",
        "https://a.example",
        "http://127.0.0.1:80",
        "https://b.org:8443",
    )
    found = ["https://a.example", "http://127.0.0.1", "https://b.org:8443"]
    assert values(built(embed=given))["embed"]["origins"] == found


CODEBOOK = """attribute = [
    {name = "region", categories = ["north", "south"]},
    {name = "used", categories = ["no", "yes"]},
]
"""
QUESTIONS = 'title = "t"\n[[question]]\nattribute = "used"\ntext = "Used?"\n'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The digest of the design in the folder."""
    monkeypatch.chdir(tmp_path)
    Path("c.toml").write_text(CODEBOOK)
    Path("q.toml").write_text(QUESTIONS)
    write_design(pp.Warner("used", 0.8), "d.toml")
    return str(Design.read("d.toml", pp.Codebook.read("c.toml")).digest)


BOTH = ("--codebook", "c.toml", "--design", "d.toml")


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    before = sorted(Path().rglob("*"))
    assert main(list(arguments)) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and sorted(Path().rglob("*")) == before
    return err.removeprefix("ppdm: error: ").rstrip("\n")


def test_the_command_writes_what_belongs_together(
    folder: str, capsys: pytest.CaptureFixture[str]
) -> None:
    build = ("survey", "build", *BOTH, "-q", "q.toml", "--out", "page")
    assert main([*build, "--embed", ORIGIN]) == 0
    assert (
        "page/embed.html and page/embed.js: for pages of https://survey" in capsys.readouterr().out
    )
    assert Path("page/embed.js").read_text() == asset("embed.js")
    assert refused(capsys, *build, "--force", "--embed", "x").startswith("--embed: got")
    assert main([*build, "--force"]) == 0
    assert sorted(path.name for path in Path("page").iterdir()) == ["index.html", "survey.json"]
    capsys.readouterr()
    assert main([*build, "--force", "--embed", ORIGIN, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["embed"] == ["page/embed.html", "page/embed.js"]


def test_reports_of_another_design_are_refused(
    folder: str, capsys: pytest.CaptureFixture[str]
) -> None:
    give = ("import", "p.csv", *BOTH, "--out", "r.csv")

    def platform(*rows: str) -> None:
        Path("p.csv").write_text("id,used,region,ppdmdesign\n" + "\n".join(rows) + "\n")

    platform(f"1,yes,north,{folder}", f"2,no,south,{folder}", "3,,north,")
    # Who broke off has neither; the rows that are left name the design.
    assert main([*give, "--keep", "region", "--nonresponse", "drop"]) == 0
    said = capsys.readouterr().out
    assert "ppdmdesign: all reports are of this design\n" in said and "left out: id\n" in said
    assert list(pd.read_csv("r.csv").columns) == ["used", "region"]
    platform(f"1,yes,north,{folder}", "2,no,south,0123")
    line = refused(capsys, *give, "--force")
    assert line.startswith("p.csv: column 'ppdmdesign', row 1: the report is of the design '0123';")
    assert line.endswith("(line 3 of the file)")
    platform(f"1,yes,north,{folder}", "2,no,south,")
    assert "row 1: no design is named; the one that is" in refused(capsys, *give, "--force")
    # A codebook that asks about it has an ordinary attribute there.
    Path("c.toml").write_text(CODEBOOK.replace("region", "ppdmdesign"))
    Path("p.csv").write_text("used,ppdmdesign\nyes,north\nno,south\n")
    assert main([*give, "--keep", "ppdmdesign", "--force"]) == 0
