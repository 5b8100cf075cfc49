"""Pages of runs: self-contained, escaped, and told in words; without a browser."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from report_runs import ANSWERS, FRONTS, HOSTILE, make_page
from small_recipe import CONFIG, write_recipe

from ppdm_dask import resources
from ppdm_dask.claims.judge import published_surveys
from ppdm_dask.cli import main
from ppdm_dask.errors import InputError, RunFolderError, RunInterrupted
from ppdm_dask.experiments.kinds import recipe_from_config
from ppdm_dask.experiments.results import read_netcdf
from ppdm_dask.experiments.run import run
from ppdm_dask.files.documents import seal
from ppdm_dask.report.pages import errata_of, write_report, write_reproduction

KINDS = ("answers", "groups", "numbers", "fronts", "own", "claims")
VOID = {"meta", "link", "img", "source", "br", "hr", "input", "wbr"}


class Page(HTMLParser):
    """The elements of a page, in order, and that they are closed as they were opened."""

    def __init__(self, path: Path) -> None:
        super().__init__(convert_charrefs=True)
        self.source = path.read_text(encoding="utf-8")
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.open: list[str] = []
        self.words: list[str] = []
        self.feed(self.source)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {key: value or "" for key, value in attrs}))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("style", "title"):
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture(scope="module")
def pages(report_pages: dict[str, Path]) -> dict[str, Page]:
    return {name: Page(path) for name, path in report_pages.items()}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_asked_for_beyond_the_file(pages: dict[str, Page], kind: str) -> None:
    page = pages[kind]
    assert not page.all("script")
    for _, attributes in page.elements:
        for key, value in attributes.items():
            assert not key.startswith("on")
            if key in ("src", "srcset"):
                assert value.startswith("data:image/svg+xml;base64,")
            if key == "href":
                assert value == "data:," or value.startswith("#")
    assert "@import" not in page.source
    assert "url(" not in page.source
    assert "<base" not in page.source


@pytest.mark.parametrize("kind", KINDS)
def test_texts_of_recipes_and_data_are_text(pages: dict[str, Page], kind: str) -> None:
    page = pages[kind]
    assert len(page.all("style")) == 1
    assert "<b>" not in page.source.split("</style>", 1)[1]
    assert "alert(" not in re.sub(r"&lt;script&gt;alert\(", "", page.source)
    if kind != "claims":
        assert " ".join(HOSTILE.split()) in page.text


@pytest.mark.parametrize("kind", KINDS)
def test_every_figure_is_told_in_words_with_numbers(pages: dict[str, Page], kind: str) -> None:
    images = pages[kind].all("img")
    assert images
    for image in images:
        assert len(image["alt"]) > 40
        assert re.search(r"\d\.\d", image["alt"]) or "undefined" in image["alt"]
    narrow = pages[kind].all("source")
    assert len(narrow) == len(images)
    assert all("max-width" in each["media"] for each in narrow)


def test_the_words_are_the_result_s(report_pages: dict[str, Path], pages: dict[str, Page]) -> None:
    ds = read_netcdf(report_pages["answers"].parent / "result.nc")
    alt = pages["answers"].all("img")[0]["alt"]
    for name in ("cancer", "first-300"):
        entry = ds.sel(data=name)
        half, one = (float(entry["accuracy_mean"].sel(q=q)) for q in (0.5, 1))
        assert f"{name}, clean test part: {half:.3f} at q = 0.5, {one:.3f} at 1." in alt
        assert f"undisguised {float(entry['benchmark']):.3f}" in alt
    assert "Undefined at q = 0." in alt


@pytest.mark.parametrize("kind", KINDS)
def test_headings_go_down_one_level_at_a_time_and_ids_are_unique(
    pages: dict[str, Page], kind: str
) -> None:
    page = pages[kind]
    levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    ids = Counter(attributes["id"] for _, attributes in page.elements if "id" in attributes)
    assert max(ids.values()) == 1
    for _, attributes in page.elements:
        if attributes.get("href", "").startswith("#"):
            assert attributes["href"][1:] in ids
        for named in attributes.get("aria-labelledby", "").split():
            assert named in ids
    assert page.all("html")[0]["lang"] == "en"
    assert len(page.all("main")) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_tables_scroll_in_regions_that_keys_reach(pages: dict[str, Page], kind: str) -> None:
    page = pages[kind]
    regions = [a for tag, a in page.elements if tag == "div" and a.get("class") == "scroll"]
    assert len(regions) >= len(page.all("table")) > 0
    for region in regions:
        assert region["role"] == "region"
        assert region["tabindex"] == "0"
        assert region.get("aria-label") or region.get("aria-labelledby")


def test_the_page_says_where_the_numbers_come_from(tmp_path: Path) -> None:
    page = make_page(CONFIG | {"figure": []}, tmp_path, "small")
    manifest = json.loads((page.parent / "manifest.json").read_text())
    text = Page(page).text
    for value in (
        manifest["digest"],
        manifest["run_id"],
        manifest["recipe_digest"],
        manifest["code_version"],
        *(given[key] for given in manifest["inputs"].values() for key in ("data", "codebook")),
    ):
        assert value in text
    assert "Seed 7 " in text
    assert f"numpy {manifest['environment']['versions']['numpy']}" in text
    assert f"ppdm run {tmp_path}/small.toml" in text
    assert "core-seconds" in text
    # Two entries: four repeats at each of two values of q, and one benchmark.
    assert "18 in" in text
    assert "q = 0: at q = 0 every report is the personal answer" in text
    assert "Pr(R = 1 | O = 0)" in text  # errata of the paper that the recipe names
    assert "Symmetry of PSE" in text


def test_claims_stand_beside_the_figures_of_the_package_s_recipes(pages: dict[str, Page]) -> None:
    page = pages["claims"]
    assert "ppdm run electronic-surveys --repeats 40" in page.text
    assert "At q = 1 the accuracy is exactly that of the classifier" in page.text
    assert "tests/papers/test_zhan_matwin.py::test_q_of_one" in page.text
    assert "Two independent fair attributes are both 1 with probability 1/4" in page.text
    # An explanation of a difference stands where there is one, and nowhere else.
    assert page.text.count("Why:") == len(
        re.findall(r'<article class="claim differs"', page.source)
    )
    for kind in KINDS:
        if kind != "claims":
            assert "<article" not in pages[kind].source


def test_a_run_that_was_stopped_has_a_page(tmp_path: Path) -> None:
    config = CONFIG | {"figure": CONFIG["figure"][:1]}
    recipe = recipe_from_config(config, source="small.toml", name="small")

    def stop(progress: Any) -> None:
        if progress.done_repeats >= 4:
            raise RunInterrupted("enough")

    with pytest.raises(RunInterrupted):
        run(recipe, workers=0, out=tmp_path, batch_seconds=1e-9, progress=stop)
    (folder,) = tmp_path.iterdir()
    text = Page(write_report(folder)).text
    assert "Not finished" in text
    assert "none yet" in text
    assert "not yet" in text


def test_a_run_without_its_ledger_or_figures(tmp_path: Path) -> None:
    page = make_page(ANSWERS | {"figure": []}, tmp_path, "bare")
    (page.parent / "ledger.sqlite").unlink()
    text = Page(write_report(page.parent)).text
    assert "unknown: the run's ledger is missing" in text
    assert "Figures" not in text


def test_undefined_cases_of_fronts_have_their_reason(pages: dict[str, Page]) -> None:
    assert "adult/race delta=0.75: " in pages["fronts"].text
    alts = [image["alt"] for image in pages["fronts"].all("img")]
    assert any("adult/race delta=0.75 is undefined: " in alt for alt in alts)
    assert FRONTS["figure"][1]["title"] in alts[1]


def test_the_words_of_a_front_begin_where_its_line_does(report_pages: dict[str, Path]) -> None:
    ds = read_netcdf(report_pages["fronts"].parent / "result.nc")
    alt = Page(report_pages["fronts"]).all("img")[0]["alt"]
    part = ds.isel(case=0)
    for m, method in enumerate(part["method"].to_numpy()):
        least = float(part["privacy_min"][m].mean())
        found = re.search(rf"{method}: \S+ at privacy = ([\d.]+)", alt)
        assert found
        drawn = part["privacy"].to_numpy()
        assert float(found[1]) == pytest.approx(drawn[drawn >= least].min(), abs=6e-4)


def test_errata_are_those_of_the_paper_and_html_in_them_is_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (one,) = errata_of(["ZhanDu"])
    assert "Kronecker power" in one["html"]
    assert "OptRR" not in one["html"]
    assert errata_of(["Nobody"]) == []
    page = tmp_path / "errata.md"
    page.write_text("# E\n\n## Mine\n\n1. <script>alert(1)</script> **x**\n")
    monkeypatch.setattr("ppdm_dask.report.pages.errata_path", lambda: page)
    (mine,) = errata_of(["Mine"])
    assert "<script>" not in mine["html"]
    assert "<strong>x</strong>" in mine["html"]


def test_every_paper_of_the_errata_is_shown_whole() -> None:
    text = resources.errata_path().read_text(encoding="utf-8")
    keys = re.findall(r"^## (\S+)$", text, flags=re.MULTILINE)
    shown = errata_of(keys)
    assert len(shown) == len(keys) == 5
    assert sum(each["html"].count("<li>") for each in shown) == len(
        re.findall(r"^\d+\. ", text, flags=re.MULTILINE)
    )


# -- the command -----------------------------------------------------------------------------------


def test_run_writes_the_page_and_the_command_does_so_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_recipe(tmp_path / "small.toml", CONFIG | {"figure": CONFIG["figure"][:1]})
    assert main(["run", "small.toml", "--workers", "0"]) == 0
    (folder,) = (tmp_path / "runs").iterdir()
    assert (folder / "report.html").is_file()
    assert (folder / "figures" / "means.png").is_file()
    (folder / "report.html").unlink()
    capsys.readouterr()
    assert main(["report", str(folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [f"{folder}/report.html"]
    assert (folder / "report.html").is_file()


def test_the_command_judges_all_claims(
    report_pages: dict[str, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = str(report_pages["claims"].parent)
    assert main(["report", folder, "--claims", "claims.md"]) == 0
    assert capsys.readouterr().out == "claims.md\nclaims.json\n"
    stored = json.loads(Path("claims.json").read_text())
    assert [each["recipe"] for each in stored["runs"]] == ["electronic-surveys"]
    assert stored["claims"]["zm-q1"]["status"] == "reproduced"
    assert stored["claims"]["zd-ends"]["measured"] == "no run of multi-group is at hand"
    text = Path("claims.md").read_text() + Path("claims.json").read_text()
    assert folder not in text
    assert main(["report", folder, folder, "--claims", "twice.md"]) == 2
    assert "a second run of electronic-surveys" in capsys.readouterr().err
    assert not Path("twice.md").exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nowhere"], "nowhere: there is no such folder or file"),
        (["."], "this is not a run's folder, it has no manifest.json"),
        (["bad.json"], "bad.json: this is not a reproduction"),
        (["list.json"], "list.json: this is not a reproduction"),
        (["none.json"], "none.json: recipes: this is not a reproduction, it has no recipes"),
        (["earlier.json"], "or one of an earlier version: it has no checksum"),
        (["edited.json"], "edited.json: damaged or edited: its content does not match its"),
        (["lacks.json"], "lacks.json: recipes[0].folder: got nothing"),
    ],
)
def test_what_is_no_run_is_refused_in_one_line(
    arguments: list[str],
    says: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bad.json").write_text("{")
    Path("list.json").write_text("[]")
    lacks = seal({"recipes": [{"name": "x"}]})
    Path("lacks.json").write_text(json.dumps(lacks))
    Path("none.json").write_text(json.dumps(seal({"recipes": 1})))
    Path("earlier.json").write_text('{"recipes": []}')
    Path("edited.json").write_text(json.dumps(lacks | {"recipes": [{"name": "y"}]}))
    before = sorted(tmp_path.iterdir())
    assert main(["report", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("ppdm: error: ")
    assert says in err
    assert err.count("\n") == 1
    assert sorted(tmp_path.iterdir()) == before


def test_claims_are_judged_on_finished_runs_of_the_package_s_recipes(tmp_path: Path) -> None:
    from ppdm_dask.claims.judge import write_reproduction_page

    page = make_page(CONFIG | {"figure": []}, tmp_path, "small")
    with pytest.raises(InputError, match="small is not the package's recipe of that name"):
        write_reproduction_page([page.parent], tmp_path / "claims.md")
    assert not (tmp_path / "claims.md").exists()


# -- reproductions ---------------------------------------------------------------------------------


def reproduction(folder: Path, pages: dict[str, Path], moved: bool) -> Path:
    """A document as ``ppdm reproduce`` writes it."""
    recipes: list[dict[str, Any]] = [
        {
            "name": name,
            "grade": "small",
            "folder": str(path.parent),
            "status": "same",
            "comparison": "exact",
            "reasons": [],
            "digest": json.loads((path.parent / "manifest.json").read_text())["digest"],
            "seconds": 1.5,
            "work_seconds": 1.25,
            "drifts": [],
        }
        for name, path in pages.items()
    ]
    drift = {
        "recipe": HOSTILE,
        "variable": "accuracy_mean",
        "cell": "cancer q=0.5",
        "expected": 0.95,
        "found": 0.91,
        "z": -7.25,
    }
    recipes.append(
        {
            "name": HOSTILE,
            "folder": str(folder / "gone"),
            "status": "drifted" if moved else "within tolerance",
            "comparison": "tolerance",
            "reasons": [HOSTILE],
            "digest": None,
            "work_seconds": None,
            "drifts": [drift] if moved else [],
        }
    )
    path = folder / "reproduction.json"
    status = "drift" if moved else "green"
    document = {"status": status, "grade": "small", "started": "a", "finished": "b"}
    path.write_text(json.dumps(seal(document | {"recipes": recipes})), encoding="utf-8")
    return path


@pytest.mark.parametrize("moved", [True, False])
def test_a_reproduction_is_one_page(
    tmp_path: Path, report_pages: dict[str, Path], moved: bool
) -> None:
    pages = {"one": report_pages["numbers"], "two": report_pages["own"]}
    page = write_reproduction(reproduction(tmp_path, pages, moved))
    assert page == tmp_path / "report.html"
    found = Page(page)
    assert len(found.all("img")) == 1 + 1
    ids = Counter(attributes["id"] for _, attributes in found.elements if "id" in attributes)
    assert max(ids.values()) == 1
    assert ("something changed" in found.text) is moved
    assert ("cancer q=0.5 0.95 0.91 -7.25" in found.text) is moved
    assert "Runs that could not be read" in found.text
    # Claims on published surveys need no run: each is judged and shown on every such page.
    (surveys,) = published_surveys()
    assert {f"surveys-other-{claim.id}" for claim in surveys.claims} <= ids.keys()
    assert "3664.5 is the estimate from 9,973 answers of yes" in found.text
    assert not found.all("script")
    assert len(found.all("style")) == 1


def test_a_page_that_cannot_be_written(tmp_path: Path, fresh_python: Callable[[str], str]) -> None:
    page = make_page(ANSWERS | {"figure": []}, tmp_path, "bare")
    page.unlink()
    page.mkdir()  # in the way of the file
    with pytest.raises(RunFolderError, match=r"report\.html: cannot be written"):
        write_report(page.parent)
    assert list(page.iterdir()) == []
    assert not list(page.parent.glob(".report*"))


def test_help_needs_no_templates(fresh_python: Callable[[str], str]) -> None:
    code = "import sys, ppdm_dask.cli.app; print('jinja2' in sys.modules)"
    assert fresh_python(code).strip() == "False"
