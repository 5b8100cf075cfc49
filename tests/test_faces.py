"""Every public result: a short repr, escaped HTML, a plot on given axes, a data set."""

from __future__ import annotations

import re
import shutil
import warnings
from collections.abc import Callable
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from small_recipe import write_recipe

import ppdm_dask as pp
from ppdm_dask.faces.face import WIDEST, brief, html_table, names_of
from ppdm_dask.faces.notebook import Follower
from ppdm_dask.inference import Replicates

mpl.use("agg")
from matplotlib.figure import Figure

EVIL = '<script>alert("$x$")</script>'
"""A label that is a script for a page, and a formula for a plot."""

CANARY = "kept-canary-4711"


@cache
def book() -> pp.Codebook:
    return pp.Codebook(
        (
            pp.Attribute("used", ("no", EVIL)),
            pp.Attribute("region & <b>", ("$north", "south", "\x1b[2Jwest")),
            pp.Attribute("age", ("young", "old"), cuts=(40,)),
        ),
        target="used",
    )


@cache
def design() -> pp.Product:
    return pp.Product([pp.Warner("used", 0.8), pp.KaryResponse("region & <b>", 3, p=0.7)]).bind(
        book()
    )


@cache
def answers() -> pp.Records:
    rng = np.random.default_rng(1)
    codes = np.stack([rng.integers(0, n, 600) for n in (2, 3, 2)], axis=1)
    codes[:, 0] |= codes[:, 2] & (rng.random(600) < 0.5)
    return pp.Records(codes, book(), kept={"id": np.full(600, CANARY)})


@cache
def reports() -> pp.Reports:
    return design().disguise(answers(), pp.Stream.from_seed(1))


def glm() -> Any:
    return pp.GLM(design(), "used ~ age").fit(reports())


def two_stage() -> Any:
    return pp.TwoStage({"no": 0.8, EVIL: 0.15, "often": 0.05}, (500, 1500), epsilon=1.0)


def joint() -> Any:
    law = pd.Series([0.1, 0.2, 0.3, 0.4], pd.MultiIndex.from_product([["no", EVIL], ["x", "y"]]))
    law.index.names = ["a", "b"]
    return pp.joint_design(law, epsilon=1.0)


def lazily() -> Any:
    dd = pytest.importorskip("dask.dataframe")
    labels = {
        attribute.name: [attribute.categories[code] for code in answers().codes[:, i]]
        for i, attribute in enumerate(book().attributes[:2])
    }
    frame = pd.DataFrame({**labels, "age": answers().codes[:, 2] * 40 + 20})
    return design().disguise(dd.from_pandas(frame, npartitions=2), stream=pp.Stream.from_seed(1))


def clusters() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it may not have converged
        return pp.LatentClasses(design(), n_init=1).fit(reports())


PLOTTED: dict[str, Callable[[], Any]] = {
    "codebook": book,
    "design": lambda: pp.Warner("used", 0.8).bind(book()),
    "product": design,
    "estimate": lambda: pp.estimate(reports(), "region & <b>"),
    "event": lambda: pp.estimate(reports(), {"used": EVIL}),
    "groups": lambda: pp.estimate(reports(), "used", by="age"),
    "mle": lambda: pp.estimate(reports(), "used", method="mle"),
    "comparison": lambda: pp.estimate(reports(), "used", by="age").compare(),
    "table": lambda: pp.count(reports(), over=["used", "region & <b>"]),
    "margins": lambda: glm().margins("age"),
    "regression": glm,
    "noncompliance": lambda: pp.noncompliance([(60, 200), (110, 200)], (0.2, 0.6)),
    "naive Bayes": lambda: pp.NaiveBayes(design(), "used").fit(reports()),
    "tan": lambda: pp.TAN(design(), "used").fit(reports()),
    "tree": lambda: pp.ID3(design(), "used", max_depth=2).fit(reports()),
    "nodes": lambda: pp.ID3(design(), "used", max_depth=2).fit(reports()).tree_,
    "clusters": clusters,
    "rules": lambda: pp.association_rules(
        reports(), design(), min_support=0.01, min_confidence=0.1
    ),
    "evaluation": lambda: pp.evaluate(
        pp.NaiveBayes(design(), "used").fit(reports()[:300]), reports()[300:]
    ),
    "regret": lambda: pp.regret(
        pp.KaryResponse("a", 3, p=0.5),
        [[0.3, 0.3, 0.4], [0.7, 0.1, 0.2]],
        categories=["a", "b", EVIL],
    ),
    "robust": lambda: pp.robust_design(
        [{"no": 0.7, EVIL: 0.3}, {"no": 0.6, EVIL: 0.4}], epsilon=1.0
    ),
    "joint": joint,
    "device": lambda: pp.device_design({"no": 0.8, EVIL: 0.2}, "die", epsilon=1.5),
    "plan": lambda: pp.plan({"no": 0.9, EVIL: 0.1}, trait=EVIL, half_width=0.05, max_posterior=0.6),
    "two stages": two_stage,
}

OTHERS: dict[str, Callable[[], Any]] = {
    "attribute": lambda: book()["region & <b>"],
    "records": answers,
    "reports": reports,
    "lazy": lazily,
    "owners": lambda: pp.Owners(answers(), reports()[:100]),
    "stratified": lambda: pp.Stratified([design(), design()], [1, 2]),
    "sums": lambda: pp.inference.evidence_of(reports(), design(), {"used": EVIL}),
    "grouped": lambda: pp.inference.evidence_of(reports(), design(), ["used"], ["age"]),
    "row": lambda: PLOTTED["plan"]()["warner"],
    "lattice": lambda: PLOTTED["device"]().lattice,
    "cheapest": lambda: pp.search.cheapest_posterior([0.5, 0.3, 0.2], 0.7),
    "recipe": lambda: pp.experiments.load_recipe("electronic-surveys"),
    "front recipe": lambda: pp.experiments.load_recipe("optrr"),
}

PLAIN: dict[str, Callable[[], Any]] = {
    "association": lambda: pp.inference.association_test(
        pp.count(reports(), over=["used", "region & <b>"]), design(), "used", "region & <b>"
    ),
    "fit": lambda: pp.estimate(reports(), "used").fit,
    "group test": lambda: PLOTTED["comparison"]().test,
    "wald": lambda: glm().test("age"),
    "interval": lambda: pp.estimate(reports(), "used").rows()[0],
    "replicates": lambda: Replicates(np.ones((600, 3)), "JK1"),
    "two sample": lambda: pp.inference.TwoSample("used", "age", (0.2, 0.7)),
    "unfitted": lambda: pp.ID3(
        pp.RRMatrix("used", np.full((9, 9), 0.05) + 0.55 * np.eye(9)), "used"
    ),
    "unfitted regression": lambda: pp.GLM(design(), "used ~ age"),
    "large": lambda: pp.RRMatrix("a", np.full((40, 40), 0.01) + 0.6 * np.eye(40)),
    "stream": lambda: pp.Stream.from_seed(1),
}

MADE: dict[str, Any] = {}


def made(name: str) -> Any:
    """Each result once: they are never changed."""
    if name not in MADE:
        MADE[name] = {**PLOTTED, **OTHERS, **PLAIN}[name]()
    return MADE[name]


@pytest.mark.parametrize("name", [*PLOTTED, *OTHERS, *PLAIN])
def test_a_repr_is_two_short_lines_and_shows_no_answer(name: str) -> None:
    text = repr(made(name))
    assert len(text) <= WIDEST == 160
    assert len(text.splitlines()) <= 2
    assert "\x1b" not in text and "array(" not in text
    assert CANARY not in text


class Tags(HTMLParser):
    """What a browser would see: tags that are open, and what they point to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.stack: list[str] = []
        self.seen: set[str] = set()
        self.links: list[str] = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.seen.add(tag)
        self.links += [value for key, value in attrs if key in ("src", "href", "style") and value]
        assert not any(key.startswith("on") for key, _ in attrs)
        if tag not in ("img", "br", "line", "circle", "input", "path"):
            self.stack.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if self.stack and self.stack[-1] == tag:
            self.stack.pop()

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.parametrize("name", [*PLOTTED, *OTHERS])
def test_html_is_escaped_whole_and_loads_nothing(name: str) -> None:
    html = made(name)._repr_html_()
    seen = Tags(html)
    assert seen.stack == []
    assert "script" not in seen.seen and "b" not in seen.seen
    assert "\x1b" not in html and CANARY not in html
    for link in seen.links:
        assert link.startswith(("data:image/svg+xml;base64,", "width:")), link
    assert not re.search(r"url\(|@import|https?:", html.replace("data:image/svg+xml", ""))


@pytest.mark.parametrize("name", ["estimate", "event", "regret", "plan", "comparison", "codebook"])
def test_html_has_the_labels(name: str) -> None:
    text = Tags(made(name)._repr_html_()).text
    label = {"estimate": "$north", "plan": "warner"}.get(name, EVIL)
    assert label in text or name == "event"


@pytest.mark.parametrize("name", PLOTTED)
def test_a_plot_is_drawn_on_the_axes_that_are_given(name: str) -> None:
    figure = Figure()
    left, right = figure.subplots(1, 2)
    assert made(name).plot(ax=left) is left
    drawn = (left.lines, left.patches, left.collections, left.images, left.texts)
    assert any(len(each) for each in drawn)
    assert not (right.lines or right.patches or right.collections or right.images)
    figure.canvas.draw()  # whatever the labels are: a dollar sign is not a formula


@pytest.mark.parametrize("name", ["estimate", "design", "tree", "tan", "naive Bayes", "regret"])
def test_a_plot_without_axes_makes_a_figure(name: str) -> None:
    import matplotlib.pyplot as plt

    before = plt.get_fignums()
    ax = made(name).plot()
    assert [n for n in plt.get_fignums() if n not in before] == [ax.figure.number]
    plt.close(ax.figure)


DATASETS = {
    "estimate": "proportion",
    "event": "proportion",
    "groups": "proportion",
    "comparison": "difference",
    "margins": "value",
    "regression": "estimate",
    "noncompliance": "estimate",
    "rules": "confidence",
    "evaluation": "value",
}


@pytest.mark.parametrize("name", DATASETS)
def test_a_data_set_has_the_numbers_of_the_frame(name: str) -> None:
    found, frame = made(name), made(name).to_frame()
    ds = found.to_dataset()
    assert {"value", "error", "low", "high"} <= set(ds)
    assert ds.attrs["units"] and ds.attrs["level"] == 0.95 and ds.attrs["interval"]
    error = "confidence_error" if name == "rules" else "standard_error"
    pairs = {"value": DATASETS[name], "error": error, "low": "lower", "high": "upper"}
    for variable, column in pairs.items():
        if column in frame:
            np.testing.assert_array_equal(ds[variable].to_numpy().ravel(), frame[column])
    # What netCDF can hold.
    assert all(isinstance(value, str | int | float) for value in ds.attrs.values())


def test_the_data_set_of_an_estimate_says_where_it_comes_from() -> None:
    ds = made("groups").to_dataset(level=0.9)
    assert ds.attrs["design_digest"] == reports().design_digest
    assert (ds.attrs["level"], ds.attrs["n"], ds.attrs["method"]) == (0.9, 600, "inversion")
    assert ds["value"].dims == ("age", "used")
    one = made("groups").to_frame(0.9)
    picked = one[(one["age"] == "old") & (one["used"] == EVIL)].iloc[0]
    assert ds["low"].sel(age="old", used=EVIL).item() == picked["lower"]


def test_an_axis_may_have_the_name_of_a_number() -> None:
    names = pp.Codebook((pp.Attribute("value", ("a", "b")),))
    records = pp.Records(np.array([[0], [1], [1], [0]]), names)
    ds = pp.estimate(records, "value").to_dataset()
    assert ds["value"].dims == ("value_",)


def test_scikit_learn_shows_notebooks_what_we_show() -> None:
    for name in ("regression", "tree"):
        bundle = made(name)._repr_mimebundle_()
        assert bundle["text/html"] == made(name)._repr_html_()
        assert "ppdm-face" in bundle["text/html"]
    unfitted = made("unfitted")._repr_mimebundle_()["text/html"]
    assert "ppdm-face" not in unfitted and "<script>alert" not in unfitted


def test_counts_of_people_are_not_shown() -> None:
    clean = pp.count(answers(), pp.Identity("used", [2]), over=["used"])
    assert "<table" not in clean._repr_html_()
    assert "<table" in made("table")._repr_html_()
    # Many attributes: a cell may be one respondent.
    wide = pp.count(reports(), over=list(book().names))
    assert "<table" not in wide._repr_html_()


def test_printing_still_shows_the_table() -> None:
    for name in ("estimate", "margins", "noncompliance", "regression"):
        assert len(str(made(name)).splitlines()) >= 2
    assert "$north" in str(made("estimate"))


def test_a_long_table_says_how_much_is_left() -> None:
    html = html_table(pd.DataFrame({"a": range(100)}))
    assert html.count("<tr>") == 61
    assert "40 more rows" in html


def test_short_texts() -> None:
    assert names_of(["a" * 100]) == "a" * 21 + "..."
    assert names_of([], 5) == ""
    two = brief("x" * 300, "y" * 300)
    assert len(two) == 160 and two.count("\n") == 1


def test_a_bar_in_a_notebook_is_written_over(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []

    class Handle:
        def update(self, bar: Any) -> None:
            shown.append(bar._repr_html_())

    class Display:
        @staticmethod
        def display(bar: Any, display_id: bool) -> Handle:
            assert display_id
            shown.append(bar._repr_html_())
            return Handle()

    class Kernel:
        kernel = object()

    class IPython:
        @staticmethod
        def get_ipython() -> Kernel:
            return Kernel()

    monkeypatch.setitem(__import__("sys").modules, "IPython", IPython)  # type: ignore[misc]
    monkeypatch.setitem(__import__("sys").modules, "IPython.display", Display)  # type: ignore[misc]
    from ppdm_dask.faces.notebook import follower

    bar = follower(EVIL)
    assert isinstance(bar, Follower)
    for done in range(0, 1001, 10):
        bar(done, 1000, "in this process")
    assert 2 <= len(shown) < 20  # not one for each batch
    assert "1,000 of 1,000" in shown[-1] and 'value="1.0000"' in shown[-1]
    assert "<script>" not in "".join(shown)


def test_there_is_no_bar_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    from ppdm_dask.faces.notebook import follower

    monkeypatch.delitem(__import__("sys").modules, "IPython", raising=False)
    assert follower("a") is None


def test_fronts_are_drawn() -> None:
    figure = Figure()
    ax = figure.subplots()
    front = pp.optimize([0.5, 0.3, 0.2], 1000, epsilon=[0.5, 1.0, 2.0], method="bound")
    assert pp.search.plot_front(front, ax) is ax
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), front["mse"])
    with pytest.raises(pp.InputError, match="front: a result of optimize"):
        pp.search.plot_front(front.drop_vars("privacy"))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("run")
    recipe = write_recipe(folder / "small.toml")
    return pp.run(recipe, workers=0, out=folder, progress=False)


def test_a_run_shows_its_figure(run: Any) -> None:
    stored = pp.experiments.read_run(run.folder)
    for one in (run, stored, stored.folder):
        text = repr(one)
        assert len(text) <= WIDEST and len(text.splitlines()) <= 2
        assert "small" in text
    figure = Figure()
    ax = figure.subplots()
    assert run.plot(ax=ax) is ax
    assert stored.plot(ax=ax, figure="privacy") is ax
    assert len(ax.images) == 2
    for one in (run, stored):
        seen = Tags(one._repr_html_())
        assert [link[:26] for link in seen.links] == ["data:image/svg+xml;base64,"]
    with pytest.raises(pp.InputError, match="figure: got 'nothing'; the recipe has means"):
        run.plot(figure="nothing")


def test_a_run_still_says_what_it_was_without_its_folder(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path / "small.toml")
    done = pp.run(recipe, repeats=1, workers=0, out=tmp_path, progress=False)
    before = repr(done)
    shutil.rmtree(done.folder)
    assert repr(done) == before
    assert "data:image/svg+xml" in done._repr_html_()


def test_a_run_has_a_bar_in_a_notebook_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[int, int]] = []

    def follower(name: str) -> Callable[..., None]:
        assert name == "small"
        return lambda done, total, words: told.append((done, total))

    monkeypatch.setattr("ppdm_dask.experiments.run.follower", follower)
    recipe = write_recipe(tmp_path / "small.toml")
    pp.run(recipe, repeats=1, workers=0, out=tmp_path / "a", progress=False)
    assert told == []
    pp.run(recipe, repeats=1, workers=0, out=tmp_path / "b")
    assert told[-1][0] == told[-1][1] > 0


def test_results_of_files_are_short_too(tmp_path: Path) -> None:
    path = tmp_path / "answers.csv"
    rows = "".join(f"{'yes' if i % 3 else 'no'},{CANARY}{i}\n" for i in range(90))
    path.write_text("used,name\n" + rows)
    proposal = pp.survey.propose_codebook(path)
    found = pp.survey.Disguised(90, ("used",), ("name",), (), False)
    mined = pp.survey.Mined(made("tree"), pp.estimate(reports(), {"used": "no"}), True, (600,))
    for one in (proposal, found, mined):
        text = repr(one)
        assert len(text) <= WIDEST and len(text.splitlines()) <= 2
        assert CANARY not in text + one._repr_html_()
