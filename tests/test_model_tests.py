"""A model that a page applies: its steps, what is refused, and a rehearsal by the collector."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_collector import served
from tested import ASKED, BOOK, CLASSES, DESIGN, DOMAIN, LEARNERS, made, model, survey

import ppdm_dask as pp
from ppdm_dask.cli import main
from ppdm_dask.collect import Limits, Store, Survey, collector, rehearse
from ppdm_dask.collect.classify import ModelTest
from ppdm_dask.collect.questionnaire import Questionnaire
from ppdm_dask.collect.team import estimates
from ppdm_dask.errors import DataError, InputError
from ppdm_dask.files.documents import seal
from ppdm_dask.files.fields import TomlTable

Capture = pytest.CaptureFixture[str]


@pytest.mark.parametrize("learner", LEARNERS)
def test_what_is_found_out_is_what_the_model_says_of_all_answers(
    learner: str, tmp_path: Path
) -> None:
    survey(learner).write(tmp_path)
    test = Survey.read(tmp_path).test
    assert test is not None
    found = test.encode(DOMAIN.assign(region="here"))
    labels = np.array(BOOK["ill"].categories)[test.predict(found.codes)]
    predicted = model(learner).predict(DOMAIN)
    assert labels.tolist() == predicted.tolist()
    right = np.array(BOOK["classified"].categories)[found.column("classified")]
    assert (right == np.where(predicted == DOMAIN["ill"], "right", "wrong")).all()
    assert {*predicted} == {*CLASSES}


def test_of_classes_that_tie_the_model_s_first_is_predicted() -> None:
    # By hand: every class is as likely, whatever is answered.
    fitted = pp.NaiveBayes(target="ill").fit(model("id3").codebook_.encode(DOMAIN))
    steps = fitted.client_steps()
    assert steps["classes"] == CLASSES and len({*steps["prior"]}) == 1
    test = ModelTest.of(fitted, "classified", "right", BOOK)
    codes = test.encode(DOMAIN.assign(region="here")).codes
    # "never" is the first of the model, and the second of the survey.
    assert (test.predict(codes) == BOOK["ill"].categories.index("never")).all()


def test_a_tree_asks_only_for_what_its_branches_need() -> None:
    codebook = model("id3").codebook_
    frame = DOMAIN.assign(ill=np.where(DOMAIN["age"] == "old", "often", "never"))
    tree = pp.ID3(target="ill").fit(codebook.encode(frame))
    assert tree.client_steps() == {
        "op": "tree",
        "root": {
            "attribute": "age",
            "below": {"young": "never", "middle": "never", "old": "often"},
        },
    }


QUESTIONS = ASKED["question"]


def changed(name: str, **more: Any) -> list[dict[str, Any]]:
    return [{**q, **more} if q["attribute"] == name else q for q in QUESTIONS]


def finding(**more: Any) -> dict[str, Any]:
    return {**ASKED["classifier"], **more}


BOTH = pp.Product([pp.Warner("classified", 0.8), pp.KaryResponse("ill", 3, 0.6)]).bind(BOOK)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"question": QUESTIONS[:2]},
         "question: the model needs a question on 'smoker', 'town', 'ill'"),
        ({"learner": None}, "classifier: there is a table and no --model; both are needed"),
        ({"classifier": None, "question": QUESTIONS[:1]},
         "classifier: there is a --model and no table; both are needed"),
        ({"question": changed("region", private=True)},
         "question.region.private: no model needs it; leave the question out"),
        ({"question": changed("region", private="yes")},
         'question.region.private: got "yes"; true or false is needed'),
        ({"design": BOTH}, "question.ill.private: the design disguises it, so it is sent"),
        ({"classifier": finding(attribute="guess")},
         'classifier.attribute: got "guess"; it is not in the codebook'),
        ({"classifier": finding(attribute="town")},
         'classifier.attribute: got "town"; the page determines it; leave the question out'),
        ({"classifier": finding(right="yes")},
         "classifier.right: 'yes' is not a category; there are 'right', 'wrong'"),
        ({"classifier": finding(labels={"yes": "x"})},
         "classifier.labels: 'yes' is not a category"),
        ({"classifier": finding(labels={"right": "x", "wrong": "x"})},
         "classifier.labels: 'right', 'wrong' both read 'x'"),
        ({"classifier": finding(text={"fr": "x"})}, "classifier.text: a text in 'en' is needed"),
        ({"hand": [{"attributes": ["classified"], "instruction": "Roll a die."}]},
         "hand[0].attributes: 'classified' is determined by the page, so a device cannot give it"),
        ({"design": pp.Warner("region", 0.8).bind(BOOK)},
         "classifier.attribute: the design does not disguise 'classified'"),
        ({"design": pp.Identity(["classified"], [2]).bind(BOOK)},
         "'classified' in --accept-certain"),
        ({"question": [*QUESTIONS[1:], {"attribute": "region", "text": "?", "unanswered": "here",
                                       "only_if": {"ill": ["often"]}}]},
         "question.region.only_if: what is sent for 'region' can show that it was asked, and so "
         "the answer to 'ill'"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_in_one_line(given: dict[str, Any], said: str) -> None:
    line = refused(**given)
    assert line.startswith("q.toml: ") and said in line and "\n" not in line


def refused(**given: Any) -> str:
    with pytest.raises(InputError) as caught:
        made(**given)
    return str(caught.value)


def test_a_class_in_a_device_s_hand_is_not_known_to_the_page() -> None:
    asked = [{k: v for k, v in q.items() if k != "private"} for q in QUESTIONS]
    hand = [{"attributes": ["ill"], "instruction": "Roll a die."}]
    assert "question.ill: the model needs the true answer" in refused(
        question=asked, hand=hand, design=BOTH
    )


def test_categories_have_to_be_the_model_s() -> None:
    attributes = [
        {"name": "age", "categories": ["old", "young"]} if each["name"] == "age" else each
        for each in BOOK.config()["attribute"]
    ]
    book = pp.Codebook.from_config({"attribute": attributes})
    said = refused(book=book, design=pp.Warner("classified", 0.8).bind(book))
    assert "classifier.model: 'age': the model has the categories 'young', 'middle', 'old'" in said


def test_what_is_private_stands_in_no_report_and_what_is_sent_says_so() -> None:
    page = made()
    assert page.codebook.names == ("region", "classified")
    assert "Never sent: your answers to “How old?”, “Do you smoke?”" in page.html
    assert "What is sent for “" not in page.html
    # An answer that is disguised and sent, and which the model needs too.
    asked = [{**q, "private": q["attribute"] not in ("region", "ill")} for q in QUESTIONS]
    both = made(question=asked, design=BOTH)
    assert both.codebook.names == ("region", "ill", "classified")
    assert "What is sent for “Ill?” also says something about these answers" in both.html
    # What is accepted is not promised.
    bare = made(design=pp.Warner("region", 0.8).bind(BOOK), accept=("classified",))
    assert '"certain":true' in bare.html and '"certain":false' in page.html


def test_another_model_is_another_survey_and_none_leaves_surveys_as_they_were() -> None:
    assert len({made(learner).survey for learner in LEARNERS}) == 3
    table = TomlTable({"title": "t", "question": QUESTIONS[:1]}, "q.toml", error=InputError)
    config = Questionnaire.from_table(table).config()
    assert "classifier" not in config and "private" not in config["question"][0]


def test_a_damaged_description_is_refused(tmp_path: Path) -> None:
    survey().write(tmp_path)
    path = tmp_path / "survey.json"
    about = json.loads(path.read_text())
    del about["classifier"]["step"]["op"]
    path.write_text(json.dumps(seal(about)))
    with pytest.raises(DataError, match=r"survey\.json: classifier\.step\.op: was not written"):
        Survey.read(tmp_path)


def forge(folder: Path, path: str, value: Any) -> None:
    """Change a value of a survey's description, and make the checksum right."""
    file = folder / "survey.json"
    about = json.loads(file.read_text())
    *above, last = [int(key) if key.isdigit() else key for key in path.split(".")]
    table = about
    for key in above:
        table = table[key]
    table[last] = value
    file.write_text(json.dumps(seal(about)))


def odd_places(value: Any, path: str = "classifier") -> list[str]:
    """Paths of all values under one, of long lists those of the first two."""
    keys = value if isinstance(value, dict) else range(min(len(value), 2))
    below = {f"{path}.{key}": value[key] for key in keys}
    deeper = [p for at, v in below.items() if isinstance(v, dict | list) for p in odd_places(v, at)]
    return [*below, *deeper]


@pytest.mark.parametrize("learner", ["tan", "id3"])
@pytest.mark.parametrize("value", [None, -1, 10**400, 1.5, "x", [], [[0]], {"op": "x"}])
def test_a_forged_description_is_refused_or_can_be_followed(
    learner: str, value: Any, tmp_path: Path
) -> None:
    people = DOMAIN.assign(region="here")
    survey(learner).write(tmp_path)
    text = (tmp_path / "survey.json").read_text()
    for path in odd_places(json.loads(text)["classifier"]):
        (tmp_path / "survey.json").write_text(text)
        forge(tmp_path, path, value)
        try:
            test = Survey.read(tmp_path).test
            assert test is not None
            test.encode(people)
        except InputError as error:
            assert "\n" not in str(error)


@pytest.mark.parametrize(
    ("learner", "path", "value"),
    [
        ("id3", "classifier.outcomes", [1, 1]),
        ("id3", "classifier.outcomes", [0, 1, 0]),
        ("id3", "classifier.attribute", "town"),
        ("id3", "classifier.target", 6),
        ("id3", "classifier.step.op", "scores"),
        ("id3", "classifier.step.root", {"place": 1, "below": [0, 0]}),
        ("id3", "classifier.step.root", 3),
        ("tan", "classifier.step.tables.0.places", [17]),
        ("tan", "classifier.step.tables.0.gains.0", [0.0]),
        ("tan", "classifier.step.classes", [0, 1, 1]),
        ("tan", "classifier.step.prior", [0.0, 0.0]),
        ("tan", "classifier.step.tie", -1.0),
        ("tan", "classifier.step.op", "tree"),
    ],
)
def test_the_command_refuses_a_forged_description_in_one_line(
    learner: str, path: str, value: Any, tmp_path: Path, capsys: Capture
) -> None:
    survey(learner).write(tmp_path)
    forge(tmp_path, path, value)
    people = tmp_path / "people.csv"
    DOMAIN.assign(region="here").to_csv(people, index=False)
    to = ("--to", "http://127.0.0.1:1/")
    assert main(["survey", "rehearse", str(tmp_path), str(people), *to]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and "survey.json: classifier." in err
    assert err.endswith(": was not written by this version\n")


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What `ppdm survey build` reads."""
    monkeypatch.chdir(tmp_path)
    BOOK.to_toml("codebook.toml")
    pp.designs.write_design(DESIGN, "design.toml")
    quoted = json.dumps
    lines = [f"title = {quoted(ASKED['title'])}", "[classifier]"]
    lines += [f"{key} = {quoted(ASKED['classifier'][key])}" for key in ("attribute", "text")]
    for question in QUESTIONS:
        lines.append("[[question]]")
        lines += [f"{key} = {quoted(value)}" for key, value in question.items()]
    Path("q.toml").write_text("\n".join(lines))
    pp.write_model("model.json", model("id3"))
    return tmp_path


def build(*more: str) -> int:
    asked = ["--codebook", "codebook.toml", "--design", "design.toml", "-q", "q.toml"]
    return main(["survey", "build", *asked, "--out", "page", *more])


def test_the_command_takes_a_model_and_refuses_what_is_none(files: Path, capsys: Capture) -> None:
    text = Path("model.json").read_text()
    Path("damaged.json").write_text(text.replace('"negative"', '"negativ"', 1))
    Path("foreign.json").write_text('{"a": 1}')
    for given, said in (
        (("--model", "damaged.json"), "damaged.json: "),
        (("--model", "foreign.json"), "foreign.json: "),
        (("--model", "none.json"), "none.json: there is no such file"),
        ((), "q.toml: classifier: there is a table and no --model"),
    ):
        assert build(*given) == 2
        err = capsys.readouterr().err
        assert said in err and err.count("\n") == 1, err
        assert not Path("page").exists()
    assert build("--model", "model.json") == 0
    test = Survey.read("page").test
    assert test is not None and test.asked[0] == "region"


def test_a_rehearsal_finds_out_what_the_page_would(tmp_path: Path, files: Path) -> None:
    """With theta 1 each report is what was found: the share is the model's accuracy."""
    people = DOMAIN.assign(region="here")
    people.to_csv("people.csv", index=False)
    made = survey("tan", design=pp.Warner("classified", 1.0).bind(BOOK), accept=("classified",))
    store = Store(tmp_path / "reports.db", made.id, made.text())
    with served(collector(made, store, limits=Limits(rate=0))) as port:
        assert rehearse(made, Path("people.csv"), f"http://127.0.0.1:{port}/") == len(people)
    counts = {tuple(json.loads(text)): n for text, n in store.counts().items()}
    shown = dict(estimates(made, store.counts()))["classified"]
    store.close()
    right = int((model("tan").predict(DOMAIN) == DOMAIN["ill"]).sum())
    assert counts == {(0, 0): right, (0, 1): len(people) - right}
    assert [row.label for row in shown] == ["right", "wrong"]
    assert float(shown[0].value.rstrip(" %")) == pytest.approx(100 * right / len(people), abs=0.06)
    people.drop(columns="ill").to_csv("people.csv", index=False)
    with pytest.raises(InputError, match="ill"):
        rehearse(made, Path("people.csv"), "http://127.0.0.1:1/")
