"""The respondent's page: one file of HTML that asks, disguises, shows and sends.

Its script makes the report by the steps of the design (:meth:`ppdm_dask.Design.steps`), from words
of the browser's own cryptographic generator, and makes no request but the one that sends it.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ppdm_dask.collect.certain import refuse_certain
from ppdm_dask.collect.classify import ModelTest, attributes_of
from ppdm_dask.collect.content import content
from ppdm_dask.collect.embed import embedded
from ppdm_dask.collect.fitting import require_fitting
from ppdm_dask.collect.templates import asset, template
from ppdm_dask.errors import InputError
from ppdm_dask.files.values import Place
from ppdm_dask.files.writing import write_text

if TYPE_CHECKING:
    from ppdm_dask.collect.questionnaire import Questionnaire
    from ppdm_dask.data.codebook import Codebook
    from ppdm_dask.designs.base import Design
    from ppdm_dask.mine.classifier import Classifier

__all__ = ["Page", "build_page"]

LARGEST = 60_000
"""Bytes of a page that a telephone loads at once."""

SCRIPTS = {"series": "series.js", "classifier": "classify.js"}
"""What only pages with these parts hold, beside what all have."""


@dataclass(frozen=True)
class Page:
    """A page, and what a collector must know about it.

    Parameters
    ----------
    html : str
    survey : str
        Identifier that the page sends with each report: a digest of questionnaire, codebook and
        design.
    codebook : Codebook
        Of what is sent; the symbols of a report stand in its order.
    design : Design
        Bound to it.
    test : ModelTest, optional
        The model that the page applies.
    framed : str, optional
        The form of the page that other platforms frame, if it was asked for.
    """

    html: str
    survey: str
    codebook: Codebook
    design: Design
    test: ModelTest | None = None
    framed: str | None = None

    def write(self, folder: str | Path) -> Path:
        """Write ``index.html`` into a folder, which is made if it is absent."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "index.html"
        write_text(path, self.html)
        return path


def build_page(
    questionnaire: Questionnaire,
    codebook: Codebook,
    design: Design,
    *,
    model: Classifier | None = None,
    source: str = "questionnaire",
    accept: Sequence[str] = (),
    embed: Sequence[str] = (),
) -> Page:
    """Make the page of a survey.

    Parameters
    ----------
    questionnaire : Questionnaire
    codebook : Codebook
        Has the attributes that are asked.
    design : Design
        Bound to the codebook.
    model : Classifier, optional
        Fitted; what the table ``[classifier]`` of the questionnaire needs.
    source : str
        File of the questionnaire, for messages.
    accept : sequence of str
        Attributes, labels or ``attribute=label`` that a report may make certain.
    embed : sequence of str
        Origins whose pages may frame a second form of the page, which hands the report to them.

    Returns
    -------
    Page

    Raises
    ------
    InputError
        If questionnaire, codebook, design and model do not fit, the design gives answers away that
        are not accepted, or the page would be larger than 60 kB.
    """
    _require_both(questionnaire, model, source)
    needed = [] if model is None else attributes_of(model)
    require_fitting(questionnaire, codebook, design, needed, source=source, framed=bool(embed))
    asked = codebook.select([name for name in codebook.names if name in questionnaire.sent])
    # Those that are sent come first, as in the report.
    book = codebook.select([*asked.names, *questionnaire.private])
    test = _test_of(questionnaire, book, model, source)
    certain = refuse_certain(questionnaire, asked, design, accept, source)
    about = {
        "codebook": asked.digest,
        "design": design.digest,
        "questionnaire": questionnaire.config(),
        **({} if test is None else {"classifier": test.config()}),
    }
    survey = hashlib.sha256(_json(about).encode()).hexdigest()[:32]
    values = content(questionnaire, asked, design, survey, test, needed, certain)
    html = _html(source, values, questionnaire)
    framed = None
    if embed:
        values = embedded(source, values, questionnaire, asked, design, embed)
        framed = _html(source, values, questionnaire)
    return Page(html, survey, asked, design, test, framed)


def _html(source: str, values: Mapping[str, Any], questionnaire: Questionnaire) -> str:
    """The page as one file, with the scripts that it needs: the last one begins."""
    framed = "embed" in values
    first = questionnaire.languages[0]
    names = ["draw.js", *(SCRIPTS[part] for part in questionnaire.parts), "page.js"]
    names.append("frame.js" if framed else "send.js")
    style, script = asset("page.css"), "".join(map(asset, names))
    html = template("page.html.j2").render(
        language=first,
        title=questionnaire.say(questionnaire.title, first),
        policy=_policy(script, style, "'none'" if framed else questionnaire.collector or "'self'"),
        style=_raw(style),
        script=_raw(script),
        survey=_raw(_json(values).replace("<", "\\u003c")),
        noscript=questionnaire.words_in(first)["script"],
    )
    if (size := len(html.encode())) > LARGEST:
        raise InputError(
            f"{source}: the page would have {size:,} bytes; at most {LARGEST:,} load at once on a "
            "telephone: ask less, or take a design with fewer symbols"
            + (" or a smaller model" if "classifier" in values else ""),
            size,
        )
    return html


def _require_both(questionnaire: Questionnaire, model: Classifier | None, source: str) -> None:
    """Refuse a model that nobody asks for, and a question without its model."""
    if (model is None) != (questionnaire.classifier is None):
        given, lacking = ("table", "--model") if model is None else ("--model", "table")
        raise Place("classifier", source, InputError).told(
            f"there is a {given} and no {lacking}; both are needed, or neither"
        )


def _test_of(
    questionnaire: Questionnaire, codebook: Codebook, model: Classifier | None, source: str
) -> ModelTest | None:
    """What the page applies, if it applies a model."""
    found = questionnaire.classifier
    if model is None or found is None:
        return None
    try:
        return ModelTest.of(model, found.attribute, found.right, codebook)
    except InputError as error:
        raise Place("classifier.model", source, InputError).told(
            str(error), error.subject
        ) from None


def _policy(script: str, style: str, to: str) -> str:
    """What the page may do: run its script, use its style, and send to one address."""

    def digest(text: str) -> str:
        return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()

    return "; ".join(
        [
            "default-src 'none'",
            f"script-src 'sha256-{digest(script)}'",
            f"style-src 'sha256-{digest(style)}'",
            "img-src data:",
            f"connect-src {to}",
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )


def _json(values: Any) -> str:
    return json.dumps(values, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def _raw(text: str) -> Any:
    """Text that the template takes as it is: a script or a style of ours."""
    from markupsafe import Markup

    return Markup(text)
