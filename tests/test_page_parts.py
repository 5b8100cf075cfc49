"""Parts that a page may have, alone and together: a series, a model, a frame, German."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_collector import served
from tested import ASKED, BOOK, DOMAIN, made, model

import ppdm_dask as pp
from ppdm_dask.collect import Limits, Page, Store, Survey, build_page, collector, rehearse
from ppdm_dask.collect.questionnaire import Questionnaire
from ppdm_dask.collect.templates import asset
from ppdm_dask.designs import Permanent
from ppdm_dask.errors import InputError
from ppdm_dask.files.fields import TomlTable

STAGES = Permanent(pp.Warner("region", 0.75), pp.Warner("region", 0.8))
SERIES = {"series": "health", "wave": 1}
PLATFORM = ("https://survey.example.org",)


def together(
    *parts: str,
    theta: float = 0.8,
    stages: pp.Design = STAGES,
    embed: tuple[str, ...] = (),
    **more: Any,
) -> Page:
    """The page of the parts that are named."""
    region = stages if "series" in parts else pp.Warner("region", 0.8)
    if "classifier" not in parts:
        learner, asked = None, {"question": ASKED["question"][:1], "classifier": None}
        design: pp.Design = region
    else:
        learner, asked = "naive-bayes", {}
        design = pp.Product([region, pp.Warner("classified", theta)])
    given = {**asked, **(SERIES if "series" in parts else {}), **more}
    accept = ("classified", "region") if theta == 1 else ()
    return made(learner, design=design.bind(BOOK), accept=accept, embed=embed, **given)


@pytest.mark.parametrize("parts", list(product([False, True], repeat=2)))
def test_a_page_holds_the_scripts_and_words_of_its_parts_only(parts: tuple[bool, bool]) -> None:
    names = [name for name, there in zip(("series", "classifier"), parts, strict=True) if there]
    page = together(*names)
    scripts, words = (
        page.html.split("<script>")[1],
        json.loads(page.html.split('id="survey">')[1].split("</script>")[0])["words"]["en"],
    )
    own = {"series.js": "series", "classify.js": "classifier"}
    for name in ("draw.js", "page.js", "send.js"):
        assert asset(name) in scripts
    assert asset("frame.js") not in scripts
    for name, part in own.items():
        assert (asset(name) in scripts) == (part in names)
    assert ("held" in words, "model_note" in words) == parts
    assert "elsewhere" not in words


def test_all_that_goes_together_is_small() -> None:
    page = together("classifier", embed=PLATFORM)
    assert page.framed is not None and asset("classify.js") in page.framed
    values = json.loads(page.framed.split('id="survey">')[1].split("</script>")[0])
    # Answers that are private have no column with the platform.
    assert values["embed"]["columns"] == ["region", "classified", "ppdmdesign"]
    assert len(page.framed.encode()) < 60_000
    assert len(together("series", "classifier").html.encode()) < 60_000


@pytest.mark.parametrize(
    ("attribute", "said"),
    [
        ("ill", "question.ill: the model needs the answer in each wave, and one with a permanent "
         "first stage is asked for once"),
        ("classified", 'classifier.attribute: got "classified"; it is determined in each wave'),
    ],
)  # fmt: skip
def test_a_model_and_permanent_stages_that_do_not_go_together_are_refused(
    attribute: str, said: str
) -> None:
    questions = [
        {**q, "private": q["attribute"] not in ("region", "ill")} for q in ASKED["question"]
    ]
    other = "classified" if attribute == "ill" else "ill"
    n = len(BOOK[attribute].categories)
    stage = pp.KaryResponse(attribute, n, 0.7)
    plain = pp.KaryResponse(other, len(BOOK[other].categories), 0.7)
    design = pp.Product([Permanent(stage, stage), plain]).bind(BOOK)
    with pytest.raises(InputError) as caught:
        made(design=design, question=questions, **SERIES)
    assert str(caught.value).startswith(f"q.toml: {said}") and "\n" not in str(caught.value)


def test_waves_are_rehearsed_with_the_model_that_the_page_applies(tmp_path: Path) -> None:
    """The first stage stays from wave to wave; each wave finds out what the model says."""
    opposite = Permanent(pp.Warner("region", 0.75), pp.Warner("region", 0.0))
    people = DOMAIN.assign(region="here")
    people.to_csv(tmp_path / "people.csv", index=False)
    right = int((model("naive-bayes").predict(DOMAIN) == DOMAIN["ill"]).sum())
    seen = []
    for wave in (1, 2):
        page = together("series", "classifier", theta=1, stages=opposite, wave=wave)
        survey = Survey.of(page, ())
        survey.write(tmp_path / "page")
        survey = Survey.read(tmp_path / "page")
        store = Store(tmp_path / f"{wave}.db", survey.id, survey.text())
        with served(collector(survey, store, limits=Limits(rate=0))) as port:
            devices = tmp_path / "devices.json"
            address = f"http://127.0.0.1:{port}/"
            assert rehearse(survey, tmp_path / "people.csv", address, devices=devices) == 72
        counts = {tuple(json.loads(text)): n for text, n in store.counts().items()}
        store.close()
        seen.append(counts)
        place = BOOK["classified"].categories.index("right")
        assert sum(n for (_, found), n in counts.items() if found == place) == right
        kept = json.loads(devices.read_text())["blocks"]['["region"]']["symbols"]
        # Each report is the opposite of the symbol.
        assert sum(n for (region, _), n in counts.items() if region == 1) == kept.count([0])
    # Of the same symbols and the same findings reports are the same.
    assert seen[0] == seen[1]
    assert 0 < kept.count([0]) < 72  # by chance in 1e-9


def open_page(languages: list[str], design: pp.Design, **more: Any) -> Page:
    book = pp.Codebook.from_config(
        {"attribute": [{"name": n, "categories": ["no", "yes"]} for n in ("used", "well")]}
    )
    asked = [{"attribute": n, "text": f"{n}?"} for n in book.names]
    given = {"title": "t", "question": asked, "languages": languages, **more}
    questions = Questionnaire.from_table(TomlTable(given, "q.toml", error=InputError))
    return build_page(questions, book, design.bind(book), accept=book.names)


def test_a_plain_questionnaire_keeps_the_name_of_its_survey() -> None:
    """Devices keep reports by this name: the one that it had before pages had parts."""
    design = pp.Product([pp.Warner("used", 0.8), pp.Warner("well", 0.7)])
    words = {"en": {"send": "Go"}}
    plain = open_page(["en", "de"], design, words=words, hand=[{"attributes": ["well"], **HAND}])
    assert plain.survey == "da32ce8693acfbc93fc662a284090f5a"


HAND = {"instruction": "Roll a die."}


def test_questions_and_numbers_are_written_as_their_language_does() -> None:
    both = pp.RRMatrix(["used", "well"], np.full((4, 4), 0.1) + 0.6 * np.eye(4), shape=(2, 2))
    page = open_page(["de", "en"], both)
    privacy = json.loads(page.html.split('id="survey">')[1].split("</script>")[0])["privacy"]
    assert any("„used?“, „well?“: Durch das Gesendete" in each for each in privacy["de"])
    assert not any("”" in each for each in privacy["de"])
    half = open_page(["de"], pp.Warner("used", 0.825)).html
    assert "von 82,5 % gesendet" in half and "höchstens 4,71-mal so wahrscheinlich" in half
    assert any("“used?”, “well?”: what is sent can make" in each for each in privacy["en"])


@pytest.mark.parametrize(
    ("used", "hands", "erased"),
    [
        (pp.Warner("used", 0.8), [], "forgotten"),
        # All of it is sent as it is given: nothing is erased, and the page has asked for it.
        (pp.Identity(["used"], [2]), [], ""),
        (pp.Warner("used", 0.8), [{"attributes": ["used"], **HAND}], ""),
        (pp.Product([pp.Warner("used", 0.8), pp.Warner("well", 0.8)]),
         [{"attributes": ["used"], **HAND}, {"attributes": ["well"], **HAND}], "erased_hand"),
    ],
)  # fmt: skip
def test_what_is_said_of_own_answers_is_true(
    used: pp.Design, hands: list[dict[str, Any]], erased: str
) -> None:
    page = open_page(["en"], used, hand=hands)
    values = json.loads(page.html.split('id="survey">')[1].split("</script>")[0])
    assert values["erased"] == erased
    assert values["drawn"] == (erased == "forgotten")
