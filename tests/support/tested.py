"""A survey whose page finds out whether a model is right, and models for it."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pandas as pd

import ppdm_dask as pp
from ppdm_dask.collect import Page, Survey, build_page
from ppdm_dask.collect.questionnaire import Questionnaire
from ppdm_dask.errors import InputError
from ppdm_dask.files.fields import TomlTable

__all__ = ["ASKED", "BOOK", "DESIGN", "DOMAIN", "LEARNERS", "made", "model", "survey"]

FEATURES = {
    "age": ["young", "middle", "old"],
    "smoker": ["no", "yes"],
    "town": ["north", "south", "east", "west"],
}
CLASSES = ["never", "once", "often"]
TRAINED = pp.Codebook.from_config(
    {
        "attribute": [
            *({"name": n, "categories": c} for n, c in FEATURES.items()),
            {"name": "ill", "categories": CLASSES},
        ],
        "target": "ill",
    }
)
# The survey's own order of attributes and categories is another one.
BOOK = pp.Codebook.from_config(
    {
        "attribute": [
            {"name": "region", "categories": ["here", "there"]},
            {"name": "ill", "categories": ["often", "never", "once"]},
            {"name": "classified", "categories": ["right", "wrong"]},
            {"name": "town", "categories": ["west", "north", "south", "east"]},
            {"name": "smoker", "categories": ["yes", "no"]},
            {"name": "age", "categories": ["old", "young", "middle"]},
        ]
    }
)
DESIGN = pp.Warner("classified", 0.8).bind(BOOK)
LEARNERS = {"naive-bayes": pp.NaiveBayes, "tan": pp.TAN, "id3": pp.ID3}

DOMAIN = pd.DataFrame(list(product(*FEATURES.values(), CLASSES)), columns=[*FEATURES, "ill"])
"""All answers that there can be, each once."""

ASKED: dict[str, Any] = {
    "title": "Guesses",
    "welcome": "Four questions.",
    "thanks": "Goodbye.",
    "question": [
        {"attribute": "region", "text": "Where?"},
        {"attribute": "age", "text": "How old?", "private": True},
        {"attribute": "smoker", "text": "Do you smoke?", "private": True},
        {"attribute": "town", "text": "Which town?", "private": True},
        {"attribute": "ill", "text": "Ill?", "private": True},
    ],
    "classifier": {
        "attribute": "classified",
        "text": "Does the model guess right?",
        "labels": {"right": "It does", "wrong": "It does not"},
    },
}


def model(learner: str) -> Any:
    """A model with ties: no data speak for one class or another in half of the towns."""
    rng = np.random.default_rng(4)
    frame = DOMAIN.sample(120, replace=True, random_state=5).reset_index(drop=True)
    known = frame["town"].isin(["north", "south"])
    told = frame["age"].map({"young": "never", "middle": "once", "old": "often"})
    frame["ill"] = np.where(known & (rng.random(len(frame)) < 0.7), told, frame["ill"])
    return LEARNERS[learner]().fit(TRAINED.encode(pd.concat([frame, DOMAIN])))


def made(
    learner: str | None = "naive-bayes",
    *,
    design: pp.Design = DESIGN,
    book: pp.Codebook = BOOK,
    accept: tuple[str, ...] = (),
    embed: tuple[str, ...] = (),
    **more: Any,
) -> Page:
    """The page of a survey that is right but for what is given; None leaves a key out."""
    asked = {key: value for key, value in {**ASKED, **more}.items() if value is not None}
    table = TomlTable(asked, "q.toml", error=InputError)
    return build_page(
        Questionnaire.from_table(table),
        book,
        design,
        model=None if learner is None else model(learner),
        source="q.toml",
        accept=accept,
        embed=embed,
    )


def survey(learner: str = "naive-bayes", **more: Any) -> Survey:
    return Survey.of(made(learner, **more), ())
