"""The page in a frame, in headless Chromium: whom it asks for, and what the page around gets."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import chromium
import numpy as np
import pandas as pd
import pytest
from pages import blocks
from respondent import IN_BROWSER, NEEDS_AXE, choose, click, heading, violations, wait
from scipy.stats import chi2
from test_collector import served

import ppdm_dask as pp
from ppdm_dask.cli import main
from ppdm_dask.collect import Survey, build_page, write_embedded
from ppdm_dask.collect.questionnaire import Questionnaire
from ppdm_dask.collect.templates import asset
from ppdm_dask.designs import Design, SubsetSelection, UnaryEncoding
from ppdm_dask.designs.files import write_design
from ppdm_dask.errors import InputError
from ppdm_dask.files.fields import TomlTable

pytest.importorskip("uvicorn")

pytestmark = IN_BROWSER

BOOK = pp.Codebook.from_config(
    {
        "attribute": [
            {"name": "used", "categories": ["abstained", "tookit"]},
            {"name": "often", "categories": ["never", "seldom", "daily"]},
            {"name": "drugs", "categories": ["a", "b", "c"]},
            {"name": "pair", "categories": ["p", "q", "r", "s"]},
            {"name": "region", "categories": ["north", "south"]},
        ]
    }
)


def design(theta: float = 0.8) -> Design:
    return pp.Product(
        [
            pp.Warner("used", theta),
            pp.KaryResponse("often", 3, 0.6),
            UnaryEncoding("drugs", 3, epsilon=1.0),
            SubsetSelection("pair", 4, 2, epsilon=1.0),
        ]
    ).bind(BOOK)


ASKED: dict[str, Any] = {
    "title": {"en": "Health at work", "de": "Gesundheit"},
    "languages": ["en", "de"],
    "question": [
        {"attribute": "used", "text": "Used?"},
        {"attribute": "often", "text": "Often?", "only_if": {"used": ["tookit"]},
         "unanswered": "never"},
        {"attribute": "drugs", "text": "Which?"},
        {"attribute": "pair", "text": "Of which pair?"},
        {"attribute": "region", "text": "Region"},
    ],
}  # fmt: skip
COLUMNS = [*BOOK.names, "ppdmdesign"]


class Frame:
    """The page in the frame, driven as a page of its own."""

    def __init__(self, browser: chromium.Browser, origin: str) -> None:
        self._browser = browser
        ends = time.monotonic() + 20
        while not (found := self._contexts(origin)):
            assert time.monotonic() < ends, "there is no frame"
            browser.evaluate("0")
            time.sleep(0.02)
        self._context = found[-1]

    def _contexts(self, origin: str) -> list[int]:
        made = self._browser.named("Runtime.executionContextCreated")
        return [each["context"]["id"] for each in made if each["context"]["origin"] == origin]

    def evaluate(self, expression: str) -> Any:
        found = self._browser.send(
            "Runtime.evaluate", expression=expression, contextId=self._context,
            returnByValue=True, awaitPromise=True,
        )  # fmt: skip
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")


def host_page(address: str, options: str = "", more: str = "") -> str:
    """A form of a platform that frames the page."""
    inputs = "".join(f'<input type="hidden" name="{name}" id="f_{name}">' for name in COLUMNS)
    fields = json.dumps({name: f"#f_{name}" for name in COLUMNS})
    return f"""<!doctype html><html lang="en"><head><title>Questionnaire</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<script>window.seen = []; addEventListener("message", e => seen.push([e.origin, e.data]));
window.fired = []; for (const k of ["input", "change"])
addEventListener(k, e => fired.push([k, e.target.name]));</script></head>
<body><main><h1>Questionnaire</h1><form id="form">{inputs}<div id="here"></div>
<button id="next" type="button">Next</button></form></main>{more}
<script src="{address}embed.js"></script>
<script>ppdm.embed({{into: "#here", fields: {fields}, next: "#next", {options}}});</script>
</body></html>"""


class Hosts:
    """Servers of pages, each of an origin of its own."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack

    def serve(self, pages: dict[str, str | Callable[[], str]]) -> str:
        from starlette.applications import Starlette
        from starlette.requests import Request
        from starlette.responses import Response
        from starlette.routing import Route

        async def page(request: Request) -> Response:
            found = pages.get(request.path_params["name"])
            if found is None:
                return Response(status_code=404)
            kind = "javascript" if request.path_params["name"].endswith(".js") else "html"
            text = found if isinstance(found, str) else found()
            return Response(text, media_type=f"text/{kind}")

        app = Starlette(routes=[Route("/{name:path}", page)])
        port = self._stack.enter_context(served(app))
        return f"http://127.0.0.1:{port}"


@contextmanager
def hosts() -> Iterator[Hosts]:
    with ExitStack() as stack:
        yield Hosts(stack)


class Framed:
    """A platform of one origin, the page of another one, and a hostile third."""

    def __init__(self, made: Hosts, folder: Path, theta: float = 0.8) -> None:
        self.survey_pages: dict[str, Any] = {}
        self.host_pages: dict[str, Any] = {}
        self.page = made.serve(self.survey_pages)
        self.host = made.serve(self.host_pages)
        self.hostile = made.serve(self.host_pages)
        self.design = design(theta)
        asked = Questionnaire.from_table(TomlTable(ASKED, "q", error=InputError))
        built = build_page(asked, BOOK, self.design, accept=BOOK.names, embed=[self.host])
        assert built.framed is not None
        Survey.of(built, ()).write(folder)
        for path in write_embedded(folder, built.framed):
            self.survey_pages[path.name] = path.read_text()
        self.host_pages["index"] = lambda: host_page(f"{self.page}/")


@pytest.fixture
def framed(tmp_path: Path) -> Iterator[Framed]:
    with hosts() as made:
        yield Framed(made, tmp_path / "page")


def fill(frame: Any, used: int, often: int, drugs: int, pair: int, region: int) -> None:
    """Answer everything, and come to what will be handed over."""
    click(frame, "form button")
    choose(frame, used)
    if used:
        choose(frame, often)
    for code in (drugs, pair, region):
        choose(frame, code)
    click(frame, "form button")


def opened(browser: chromium.Browser, framed: Framed, path: str = "/index") -> Frame:
    browser.open(framed.host + path)
    frame = Frame(browser, framed.page)
    wait(frame, "document.querySelector('main h1') !== null")
    return frame


def values(browser: chromium.Browser) -> dict[str, str]:
    found = (
        "Object.fromEntries([...document.querySelectorAll('input')].map(e => [e.name, e.value]))"
    )
    return dict(browser.evaluate(found))


def test_the_fields_get_the_report_and_nobody_the_answer(
    browser: chromium.Browser, tmp_path: Path
) -> None:
    with hosts() as made:
        # With theta 0 the report is the opposite of the answer, whose name is seen nowhere then.
        framed = Framed(made, tmp_path / "page", theta=0.0)
        before = []
        for used in (1, 0):
            frame = opened(browser, framed)
            assert browser.evaluate("document.getElementById('next').disabled")
            fill(frame, used=used, often=2, drugs=1, pair=3, region=1)
            assert heading(frame) == "This is all that the questionnaire receives"
            assert not any(values(browser).values())
            wait(browser, "seen.length > 2")
            before.append(browser.evaluate("seen"))
        # Whether the second question was put cannot be told from what comes before the report.
        assert before[0][:2] == before[1][:2]
        assert [[data["ppdm"] for _, data in seen] for seen in before] == [
            ["ready", "height", "height"]
        ] * 2
        frame = opened(browser, framed)
        fill(frame, used=1, often=2, drugs=1, pair=3, region=1)
        shown = frame.evaluate(
            "[...document.querySelectorAll('dd strong')].map(e => e.textContent)"
        )
        assert "tookit" not in frame.evaluate("document.body.innerText")
        click(frame, "form button")
        wait(frame, "document.body.innerText.includes('Please continue there')")
        # The fields hold what was shown, in the words that `ppdm import` reads.
        found = values(browser)
        digest = found.pop("ppdmdesign")
        assert digest == framed.design.digest
        said = [found[name].replace(";", ", ") for name in BOOK.names]
        assert said == [each if each != "none of the answers" else ", " for each in shown]
        assert (found["used"], found["region"]) == ("abstained", "south")
        assert not browser.evaluate("document.getElementById('next').disabled")
        assert browser.evaluate("fired") == [[k, n] for n in COLUMNS for k in ("input", "change")]
        # Nothing of the answer is in a message, a request, a storage, or a page.
        seen = browser.evaluate("seen")
        assert {origin for origin, _ in seen} == {framed.page}
        stored = "JSON.stringify([localStorage, sessionStorage, document.cookie])"
        requests = json.dumps(browser.named("Network.requestWillBeSent"))
        for text in (
            json.dumps(seen),
            browser.evaluate("document.documentElement.outerHTML"),
            browser.evaluate(stored),
            frame.evaluate(stored),
            frame.evaluate("document.getElementById('main').outerHTML"),
            requests,
        ):
            assert "tookit" not in text
        asked = {each["request"]["url"] for each in browser.named("Network.requestWillBeSent")}
        ours = {f"{framed.host}/index", f"{framed.page}/embed.js", f"{framed.page}/embed.html"}
        assert {url for url in asked if not url.startswith("data:")} - {
            f"{framed.host}/favicon.ico"
        } == ours
        assert "; connect-src &#39;none&#39;; " in framed.survey_pages["embed.html"]
        # What one page reads, the other may not: that is the browser's to hold.
        assert browser.evaluate(
            "(() => { try { return frames[0].document.body.innerHTML; } catch { return 'no'; } })()"
        ) == "no"  # fmt: skip


def test_only_a_page_that_was_named_is_asked_by(browser: chromium.Browser, framed: Framed) -> None:
    refused = "document.body.innerText.includes('Nothing is asked')"
    # Another origin frames it, and greets it as the platform would.
    browser.open(framed.hostile + "/index")
    frame = Frame(browser, framed.page)
    wait(frame, refused)
    survey = frame.evaluate("JSON.parse(document.getElementById('survey').textContent).id")
    greet = json.dumps({"ppdm": "hello", "survey": survey, "respondent": "x", "filled": False})
    browser.evaluate(f"frames[0].postMessage({greet}, '*')")
    browser.evaluate("new Promise(r => setTimeout(r, 200))")
    assert frame.evaluate(refused)
    assert frame.evaluate("document.querySelectorAll('form, input').length") == 0
    assert browser.evaluate("seen") == []
    # Nobody frames it.
    browser.open(framed.page + "/embed.html")
    wait(browser, refused)
    assert browser.evaluate("document.querySelectorAll('form, input').length") == 0
    # A named page that is itself framed by another one.
    framed.host_pages["outer"] = f'<iframe src="{framed.host}/index"></iframe>'
    browser.open(framed.hostile + "/outer")
    wait(Frame(browser, framed.page), refused)


def test_browsers_that_do_not_tell_who_is_around_wait_for_the_greeting(
    browser: chromium.Browser, framed: Framed
) -> None:
    # The same page without that question, and without the policy that allows its own script alone.
    html, told = framed.survey_pages["embed.html"], "[...(location.ancestorOrigins ?? [])]"
    assert html.count(told) == 1
    html = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]+>', "", html)
    framed.survey_pages["embed.html"] = html.replace(told, "[]")
    browser.open(framed.hostile + "/index")
    frame = Frame(browser, framed.page)
    browser.evaluate("new Promise(r => setTimeout(r, 300))")
    assert frame.evaluate("document.querySelectorAll('form, input').length") == 0
    assert browser.evaluate("seen") == []
    frame = opened(browser, framed)
    fill(frame, used=0, often=0, drugs=0, pair=0, region=1)
    click(frame, "form button")
    wait(browser, "document.getElementById('f_region').value === 'south'")


def test_what_others_send_changes_no_field(browser: chromium.Browser, framed: Framed) -> None:
    evil = {"ppdm": "report", "survey": "x", "texts": dict.fromkeys(COLUMNS, "evil")}
    # From another frame, of another origin; from another frame of the page's own origin; from here.
    script = f"<script>parent.postMessage({json.dumps(evil)}, '*')</script>"
    framed.host_pages["evil"] = framed.survey_pages["evil"] = script
    framed.host_pages["index"] = lambda: host_page(
        f"{framed.page}/",
        more="".join(f'<iframe src="{o}/evil"></iframe>' for o in (framed.hostile, framed.page)),
    )
    browser.open(framed.host + "/index")
    wait(browser, "seen.filter(([o, d]) => d.ppdm === 'report').length === 2")
    browser.evaluate(f"postMessage({json.dumps(evil)}, '*')")
    wait(browser, "seen.filter(([o, d]) => d.ppdm === 'report').length === 3")
    assert not any(values(browser).values())
    assert browser.evaluate("document.getElementById('next').disabled")


def test_one_answer_gives_one_report_whatever_the_browser_keeps(
    browser: chromium.Browser, framed: Framed
) -> None:
    framed.host_pages["anna"] = lambda: host_page(f"{framed.page}/", 'respondent: "anna"')
    framed.host_pages["ben"] = lambda: host_page(f"{framed.page}/", 'respondent: "ben"')
    framed.host_pages["full"] = lambda: host_page(f"{framed.page}/").replace(
        'type="hidden"', 'type="hidden" value="x"'
    )
    frame = opened(browser, framed, "/anna")
    frame.evaluate("localStorage.clear()")
    fill(frame, used=1, often=2, drugs=1, pair=3, region=1)
    shown = frame.evaluate("document.querySelector('dl').innerText")
    # Loaded again before it is handed over, and after it, when the page around has lost it.
    for _ in range(2):
        frame = opened(browser, framed, "/anna")
        assert frame.evaluate("document.querySelector('dl').innerText") == shown
        assert not any(values(browser).values())
        click(frame, "form button")
        wait(frame, "document.body.innerText.includes('Please continue there')")
        found = values(browser)
        assert found["region"] == "south"
    # Somebody else with the same device is asked.
    frame = opened(browser, framed, "/ben")
    assert heading(frame) == "Health at work"
    # Where the fields are full nobody is asked, and they stay as they are.
    frame = opened(browser, framed, "/full")
    assert frame.evaluate("document.querySelectorAll('form, button').length") == 0
    assert "has received your report" in frame.evaluate("document.body.innerText")
    assert set(values(browser).values()) == {"x"}
    assert not browser.evaluate("document.getElementById('next').disabled")
    # Without a name nothing is kept, and a lost page asks again.
    frame = opened(browser, framed)
    count = frame.evaluate("localStorage.length")
    fill(frame, used=1, often=2, drugs=1, pair=3, region=1)
    assert frame.evaluate("localStorage.length") == count
    assert heading(opened(browser, framed)) == "Health at work"


def test_a_page_around_that_cannot_take_it_says_so_before_anything_is_asked(
    browser: chromium.Browser, framed: Framed
) -> None:
    plain = host_page(f"{framed.page}/")
    wrong = {
        plain.replace('id="here"', ""): "there is no element #here",
        plain.replace('"used": "#f_used", ', ""): "there is no field for used",
        plain.replace('"#f_often"', '"#absent"'): "there is no element #absent for often",
        plain.replace('"#next"', '"#absent"'): "there is no element #absent to wait",
    }
    for i, (page, said) in enumerate(wrong.items()):
        framed.host_pages[f"wrong{i}"] = page
        browser.open(f"{framed.host}/wrong{i}")
        ends = time.monotonic() + 20
        while said not in json.dumps(browser.named("Runtime.exceptionThrown")):
            assert time.monotonic() < ends, said
            browser.evaluate("0")
        # Where there is a place for it, anyone who opens the page sees it too.
        assert (said in browser.evaluate("document.body.innerText")) == ("#here" not in said)
    # One origin for both would let the platform's scripts read the answers.
    framed.survey_pages["index"] = plain
    browser.open(framed.page + "/index")
    wait(browser, "document.body.innerText.includes('an origin other than this one')")
    assert browser.evaluate("document.querySelectorAll('iframe').length") == 0
    # A field that does not take the text: the respondent sees that, and can try again.
    framed.host_pages["index"] = plain.replace(
        'type="hidden" name="used"', 'type="number" name="used"'
    )
    frame = opened(browser, framed)
    fill(frame, used=1, often=2, drugs=1, pair=3, region=1)
    click(frame, "form button")
    wait(frame, "document.querySelector('.error').textContent.includes('did not accept')")
    assert browser.evaluate("document.getElementById('next').disabled")


def test_the_platform_s_file_becomes_reports_and_estimates(
    browser: chromium.Browser, framed: Framed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """Three hundred reports of one answer: the law is that of the design."""
    frame = opened(browser, framed)
    # The page's own functions, on the answer (tookit, daily, b, s, south).
    texts = frame.evaluate(
        "(() => { const s = JSON.parse(document.getElementById('survey').textContent);"
        "const w = draw.secret(); return [...Array(300)].map(() => "
        "draw.report(s.blocks, [1, 2, 1, 3, 1], () => w)); })()"
    )
    places = json.loads(
        frame.evaluate("JSON.stringify(JSON.parse(survey.textContent).embed.places)")
    )

    def text(symbol: Any, place: dict[str, Any]) -> str:
        if isinstance(symbol, list):
            return ";".join(place["words"][each] for each in symbol) or str(place["none"])
        return str(place["words"][symbol])

    rows = [[text(*pair) for pair in zip(row, places, strict=True)] for row in texts]
    table = pd.DataFrame(rows, columns=list(BOOK.names))
    table["ppdmdesign"] = framed.design.digest
    table.insert(0, "ip", "10.0.0.1")
    monkeypatch.chdir(tmp_path)
    table.to_csv("platform.csv", index=False)
    Path("c.toml").write_text(
        "attribute = [" + ", ".join(
            f'{{name = "{a.name}", categories = {json.dumps(list(a.categories))}}}'
            for a in BOOK.attributes
        ) + "]\n"
    )  # fmt: skip
    write_design(framed.design, "d.toml")
    both = ("--codebook", "c.toml", "--design", "d.toml")
    given = ("import", "platform.csv", *both, "--keep", "region", "--out", "r.parquet")
    assert main(list(given)) == 0
    assert "left out: ip\n" in capsys.readouterr().out
    reports = pp.Reports.from_field(table, framed.design, BOOK)
    assert (reports.codes[:, BOOK.index("region")] == 1).all()
    chances = {"used": [0.2, 0.8], "often": [0.2, 0.2, 0.6]}
    for name, law in chances.items():
        observed = np.bincount(reports.codes[:, BOOK.index(name)], minlength=len(law))
        expected = 300 * np.array(law)
        statistic = float(((observed - expected) ** 2 / expected).sum())
        assert statistic < chi2.isf(1e-7, len(law) - 1)
    for name, truth in (("used", "tookit"), ("often", "daily"), ("drugs", "b"), ("pair", "s")):
        assert main(["estimate", "r.parquet", *both, "--over", name, "--out", f"{name}.csv"]) == 0
        found = pd.read_csv(f"{name}.csv", index_col=name).loc[truth]
        # The truth is 1; six standard errors.
        assert abs(found["proportion"] - 1) < 6 * found["standard_error"]


def test_it_works_by_keyboard_from_the_page_around(
    browser: chromium.Browser, framed: Framed, tmp_path: Path
) -> None:
    browser.look(390, mobile=True)
    frame = opened(browser, framed)

    def press(*keys: str) -> None:
        codes = {"Tab": 9, "Enter": 13, " ": 32}
        for key in keys:
            text = {"text": "\r"} if key == "Enter" else {"text": " "} if key == " " else {}
            browser.send("Input.dispatchKeyEvent", type="keyDown", key=key,
                         windowsVirtualKeyCode=codes[key], **text)  # fmt: skip
            browser.send("Input.dispatchKeyEvent", type="keyUp", key=key,
                         windowsVirtualKeyCode=codes[key])  # fmt: skip

    press("Tab", "Tab", "Enter")  # into the frame, past the language, to Begin
    assert heading(frame) == "Used?"
    for said in ("Which?", "Of which pair?", "Region", "Health at work"):
        press("Tab", " ", "Tab", "Enter")
        assert heading(frame) == said
    press("Tab", "Enter")
    assert heading(frame) == "This is all that the questionnaire receives"
    wait(browser, "seen.length > 2")
    inside = frame.evaluate("document.documentElement.scrollHeight")
    assert browser.evaluate("document.querySelector('iframe').clientHeight") >= inside
    assert browser.evaluate("document.documentElement.scrollWidth") <= 390
    browser.screenshot(tmp_path / "review.png")
    press("Tab", "Enter")
    wait(browser, "document.getElementById('f_used').value !== ''")
    browser.look(1280)


@NEEDS_AXE
@pytest.mark.parametrize("dark", [False, True])
def test_axe_finds_no_violation_inside_and_around(
    browser: chromium.Browser, framed: Framed, dark: bool
) -> None:
    browser.look(390, dark=dark, mobile=True)
    browser.send("Page.setBypassCSP", enabled=True)
    frame = opened(browser, framed)
    assert violations(browser) == []
    click(frame, "form button")
    for code in (1, 2, 1, 3, 1):
        assert violations(frame) == []
        choose(frame, code)
    assert violations(frame) == []
    click(frame, "form button")
    assert violations(frame) == []
    click(frame, "form button")
    wait(frame, "document.body.innerText.includes('Please continue there')")
    assert violations(frame) == []
    browser.open(framed.page + "/embed.html")
    assert violations(browser) == []
    browser.send("Page.setBypassCSP", enabled=False)
    browser.look(1280)


# -- the lines of docs/embed.md ------------------------------------------------------------------

NAMES = ("region", "used", "often", "ppdmdesign")


def pasted(platform: str) -> str:
    """The lines of a platform's section."""
    (found,) = (x for x in blocks("docs/embed.md", "html", "js") if x.section == platform)
    return found.text


def inputs(kind: str, of: Callable[[str], str]) -> str:
    return "".join(f'<input type="{kind}" {of(name)}>' for name in NAMES)


def limesurvey(lines: str) -> str:
    """Question text with its expressions filled in, the questions after it, then the button."""
    ids = {name: f"731X5X{i}" for i, name in enumerate(NAMES)}
    text = re.sub(r"\{(\w+)\.sgqa\}", lambda found: ids[found[1]], lines).replace("{TOKEN}", "t1")
    assert not re.search(r"\{\S", text)  # an expression, for LimeSurvey
    fields = inputs("text", lambda n: f'id="answer{ids[n]}" name="{ids[n]}" data-name="{n}"')
    return f'<form>{text}<div class="d-none hidden">{fields}</div><button id="ls-button-submit">'


def redcap(lines: str) -> str:
    rows = "".join(
        f'<tr id="{n}-tr" class="@HIDDEN-SURVEY"><td><input type="text" name="{n}" data-name="{n}">'
        for n in NAMES
    )
    return (
        f'<form><table><tr id="ask-tr"><td>Text</td></tr>{rows}</table>'
        f'<button name="submit-btn-saverecord">Submit</button></form><script>{lines}</script>'
    )


def formr(lines: str) -> str:
    fields = inputs("hidden", lambda n: f'name="{n}" data-name="{n}"')
    return (
        f'<form>{fields}<div id="ppdm"></div><button type="submit">Go</button></form>'
        f"<script>{lines}</script>"
    )


def otree(lines: str) -> str:
    """Blocks of the template in the order of oTree's own page."""
    button = '<button class="otree-btn-next">Next</button>'
    text = lines.replace("{{ next_button }}", button).replace("{{ block scripts }}", "</form>")
    text = re.sub(r"\{\{ (block content|endblock) \}\}", "", text)
    assert "{{" not in text
    text = re.sub(r'name="(\w+)"', r'name="\1" data-name="\1"', text)
    return f"<script>const js_vars = {{respondent: 'p1'}};</script><form>{text}"


def qualtrics(call: str, lines: str) -> str:
    """A survey engine that writes what it is given into fields, where it has them."""
    piped = re.sub(r"\$\{e://Field/(\w+)\}", lambda f: "R_1" if f[1] == "ResponseID" else "", lines)
    fields = inputs("hidden", lambda n: f'data-name="{n}"')
    return f"""<form><div id="q"></div>{fields}<button id="NextButton">Next</button></form><script>
const button = document.getElementById("NextButton");
const question = {{ getQuestionContainer: () => document.getElementById("q"),
  disableNextButton: () => {{ button.disabled = true; }},
  enableNextButton: () => {{ button.disabled = false; }} }};
const Qualtrics = {{ SurveyEngine: {{
  addOnReady: (f) => addEventListener("load", () => f.call(question)),
  {call}: (name, text) => {{ document.querySelector(`[data-name=${{name}}]`).value = text; }} }} }};
{piped}</script>"""


@pytest.mark.parametrize(
    ("platform", "stand_in"),
    [
        ("LimeSurvey", limesurvey),
        ("REDCap", redcap),
        ("formr", formr),
        ("oTree", otree),
        ("Qualtrics", lambda lines: qualtrics("setEmbeddedData", lines)),
        ("Qualtrics", lambda lines: qualtrics("setJSEmbeddedData", lines)),
    ],
)
def test_the_lines_to_paste_fill_a_form_with_the_platform_s_names(
    browser: chromium.Browser, platform: str, stand_in: Callable[[str], str]
) -> None:
    asked: dict[str, Any] = {"title": "t", "question": [
        {"attribute": n, "text": n} for n in NAMES if n != "ppdmdesign"]}  # fmt: skip
    book = pp.Codebook(tuple(BOOK[name] for name in ("region", "used", "often")))
    laws = pp.Product([pp.Warner("used", 0.85), pp.KaryResponse("often", 3, 0.7)]).bind(book)
    with hosts() as made:
        survey: dict[str, Any] = {}
        host: dict[str, Any] = {}
        page, around = made.serve(survey), made.serve(host)
        questionnaire = Questionnaire.from_table(TomlTable(asked, "q", error=InputError))
        survey["embed.html"] = build_page(questionnaire, book, laws, embed=[around]).framed
        survey["embed.js"] = asset("embed.js")
        lines = pasted(platform).replace("https://ask.example.org", page)
        host["page"] = "<!doctype html><title>t</title>" + stand_in(lines)
        browser.open(around + "/page?s=link1")
        frame = Frame(browser, page)
        wait(frame, "document.querySelector('main h1') !== null")
        waits = "[...document.querySelectorAll('button')].map(e => e.disabled)"
        assert browser.evaluate(waits) == [True]
        click(frame, "form button")
        for code in (1, 1, 2):
            choose(frame, code)
        click(frame, "form button")
        shown = frame.evaluate(
            "[...document.querySelectorAll('dd strong')].map(e => e.textContent)"
        )
        click(frame, "form button")
        wait(browser, f"!({waits})[0]")
        found = "[...document.querySelectorAll('[data-name]')].map(e => [e.dataset.name, e.value])"
        assert dict(browser.evaluate(found)) == dict(zip(NAMES, [*shown, laws.digest], strict=True))
