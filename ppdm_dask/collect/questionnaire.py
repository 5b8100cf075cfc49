"""Questionnaires: what a page asks, in which order and languages, and whose device is used.

A questionnaire speaks of the attributes and categories of a codebook.  Texts are one text, or a
table with one text for each language.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Self

from ppdm_dask.collect.words import FIELD, PARTS, words_of
from ppdm_dask.errors import InputError
from ppdm_dask.files.declared import Declared, document
from ppdm_dask.files.documents import read_toml
from ppdm_dask.files.fields import TomlTable
from ppdm_dask.files.values import Many, Named, Place, Text, Value, Whole
from ppdm_dask.shown import quoted

__all__ = ["Hand", "Question", "Questionnaire", "Tested", "Texts"]

LANGUAGE = Text('a language such as "en" or "pt-BR" is needed', r"[a-z]{2,3}(-[A-Za-z0-9]{2,8})*")
ANY = Text("a name is needed", r"[\s\S]*\S[\s\S]*")
ORIGIN = Text(
    'an origin such as "https://survey.example.org" is needed, without a path',
    r"https://[A-Za-z0-9.-]+(:\d{1,5})?|http://(localhost|127\.0\.0\.1|\[::1\])(:\d{1,5})?",
)

SERIES = Text(
    "a name of up to 64 letters, digits, points, dashes and underscores is needed",
    r"[A-Za-z0-9._-]{1,64}",
)

Texts = Mapping[str, str]
"""By language; under the empty text one that is the same in all."""


class Worded(Value):
    """One text, or a table with one for each language."""

    right = "a text is needed, or a table with one for each language"

    def read(self, value: Any, at: Place) -> Texts:
        if isinstance(value, Mapping):
            return Named(Text(), LANGUAGE, self.right).read(value, at)
        return {"": Text(self.right).read(value, at)}

    def schema(self) -> dict[str, Any]:
        each = Named(Text(), LANGUAGE, self.right).schema()
        return {"anyOf": [Text().schema(), each]}


WORDED = Worded()
LABELS = Named(WORDED, ANY, "a table with a text for each category is needed")
CONDITION = Named(
    Many(ANY, "a list of categories is needed", 1, distinct=True),
    ANY,
    "a table is needed: an attribute that was asked before, and a list of its categories",
)


@dataclass(frozen=True)
class Question(Declared):
    """A question on one attribute.

    Parameters
    ----------
    attribute : str
        Of the codebook.
    text : text or table by language
        The question itself.
    help : text or table by language, optional
        A line below it.
    labels : table by category, optional
        The text that is shown instead of a category's name.
    optional : bool
        Whether it can be left out; then `unanswered` is needed.
    unanswered : str, optional
        The category of those who leave the question out, or to whom it is not put; it is not
        offered as an answer.  It is disguised like any other category, so nobody can know who
        skipped the question.
    only_if : table, optional
        Attributes that were asked before, each with a list of categories: only respondents who
        chose one of them for each attribute are asked.
    private : bool
        Whether the answer is never sent: a model needs it, which the page applies.
    """

    attribute: Annotated[str, ANY]
    text: Annotated[Texts, WORDED]
    help: Annotated[Texts | None, WORDED] = None
    labels: Annotated[Mapping[str, Texts], LABELS] = field(default_factory=dict)
    optional: bool = False
    unanswered: Annotated[str | None, ANY] = None
    only_if: Annotated[Mapping[str, tuple[str, ...]], CONDITION] = field(default_factory=dict)
    private: bool = False

    named_by = "attribute"

    def checked(self, at: Place) -> Self:
        for key in ("optional", "private"):
            if not isinstance(value := getattr(self, key), bool):
                raise at[key].wrong(value, "true or false is needed")
        if (self.optional or self.only_if) and self.unanswered is None:
            raise at["unanswered"].wrong(
                None, "the category of those who do not answer is needed, to be disguised as well"
            )
        return self

    def config(self) -> dict[str, Any]:
        # A survey's name is a digest of this: it stays where nothing is private.
        return {key: v for key, v in super().config().items() if key != "private" or v}

    @classmethod
    def schema(cls) -> dict[str, Any]:
        asked = {"properties": {"optional": {"const": True}}, "required": ["optional"]}
        due = {"required": ["unanswered"]}
        left_out = {"anyOf": [asked, {"required": ["only_if"]}]}
        return {**super().schema(), "if": left_out, "then": due}


@dataclass(frozen=True)
class Tested(Declared):
    """What a page finds out by a model: whether it predicts the respondent's own class.

    Of the answers that the model needs, one bit is sent, disguised as the design says.
    [ZhanMatwin]_, section 2.4.

    Parameters
    ----------
    attribute : str
        Attribute of the codebook with two categories: the model is right, or it is wrong.
    text : text or table by language
        Text for the respondent about what the page determines.
    right : str
        The category for a right prediction.
    labels : table by category, optional
        The text that is shown instead of a category's name.
    """

    attribute: Annotated[str, ANY]
    text: Annotated[Texts, WORDED]
    right: Annotated[str, ANY] = "right"
    labels: Annotated[Mapping[str, Texts], LABELS] = field(default_factory=dict)


@dataclass(frozen=True)
class Hand(Declared):
    """Answers that respondents randomise themselves, by dice, coins, cards or a birthday.

    The page explains the device and asks only for the disguised answer, never for the truth.

    Parameters
    ----------
    attributes : list of str
        Those of one block of the design.
    instruction : text or table by language
        What the respondent does.
    symbols : table by attribute, optional
        Words of the reports, by the symbols of the design.
    """

    attributes: Annotated[tuple[str, ...], Many(ANY, "a list of attributes is needed", 1, True)]
    instruction: Annotated[Texts, WORDED]
    symbols: Annotated[
        Mapping[str, Mapping[str, Texts]],
        Named(LABELS, ANY, "a table with a table of words for each attribute is needed"),
    ] = field(default_factory=dict)


@dataclass(frozen=True)
class Questionnaire(Declared):
    """What a page asks.

    Parameters
    ----------
    title : text or table by language
        Of the survey.
    question : list of tables
        One for each attribute that is asked, in the order in which they are put.
    languages : list of str
        Languages that respondents can choose; the first is the default of the page.
    welcome : text or table by language, optional
        Paragraphs before the first question, apart by an empty line.
    thanks : text or table by language, optional
        Paragraphs after the report is sent.
    hand : list of tables, optional
        Blocks of the design that respondents disguise themselves with a device.
    collector : str, optional
        Origin of the collector, if another server serves the page.
    words : table of tables, optional
        By language, words of the page itself; those of English and German are known.
    classifier : table, optional
        Instead of a question: whether a model is right about the respondent.
    series : str, optional
        Name of the waves that share a permanent first stage: devices store its symbols under this
        name.
    wave : int, optional
        Which wave of the series this is, from 1.
    """

    title: Annotated[Texts, WORDED]
    question: tuple[Question, ...]
    languages: Annotated[
        tuple[str, ...], Many(LANGUAGE, "a list of languages is needed", 1, True)
    ] = ("en",)
    welcome: Annotated[Texts | None, WORDED] = None
    thanks: Annotated[Texts | None, WORDED] = None
    hand: tuple[Hand, ...] = ()
    collector: Annotated[str | None, ORIGIN] = None
    words: Annotated[
        Mapping[str, Mapping[str, str]],
        Named(
            Named(Text(), ANY, "a table of words is needed"),
            LANGUAGE,
            "a table with a table of words for each language is needed",
        ),
    ] = field(default_factory=dict)
    classifier: Tested | None = None
    series: Annotated[str | None, SERIES] = None
    wave: Annotated[int | None, Whole(1, 9_999)] = None

    def checked(self, at: Place) -> Self:
        known = words_of("en", PARTS)
        if (self.series is None) != (self.wave is None):
            absent = "series" if self.series is None else "wave"
            raise at[absent].wrong(None, "both series and wave are needed, or neither")
        for language, own in self.words.items():
            if language not in self.languages:
                raise at["words"][language].told(
                    f"the page does not have this language; languages are {quoted(self.languages)}"
                )
            for key, text in own.items():
                if key not in known:
                    raise at["words"][language][key].wrong(
                        text, f"there is no such word; known: {quoted(known)}"
                    )
                fields = FIELD.findall(known[key])
                if not {*FIELD.findall(text)} <= {*fields}:
                    there = ", ".join(f"{{{field}}}" for field in fields) or "nothing"
                    raise at["words"][language][key].wrong(text, f"{there} is filled in here")
        for where, texts in self._texts(at):
            lacking = [name for name in self.languages if name not in texts]
            if lacking and "" not in texts:
                raise where.told(f"a text in {quoted(lacking)} is needed")
        return self

    def _texts(self, at: Place) -> Iterator[tuple[Place, Texts]]:
        for key in ("title", "welcome", "thanks"):
            if (texts := getattr(self, key)) is not None:
                yield at[key], texts
        for asked in self.question:
            place = at["question"][asked.attribute]
            yield place["text"], asked.text
            if asked.help is not None:
                yield place["help"], asked.help
            for label, texts in asked.labels.items():
                yield place["labels"][label], texts
        if (found := self.classifier) is not None:
            yield at["classifier"]["text"], found.text
            for label, texts in found.labels.items():
                yield at["classifier"]["labels"][label], texts
        for i, hand in enumerate(self.hand):
            yield at["hand"][i]["instruction"], hand.instruction
            for name, symbols in hand.symbols.items():
                for symbol, texts in symbols.items():
                    yield at["hand"][i]["symbols"][name][symbol], texts

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Read a questionnaire from a TOML file.

        Raises
        ------
        InputError
            One line: file, dotted path, value, and what would be right.
        """
        path = Path(path)
        return cls.from_table(TomlTable(read_toml(path, InputError), str(path), error=InputError))

    @classmethod
    def schema(cls) -> dict[str, Any]:
        both = {"series": ["wave"], "wave": ["series"]}
        return {**super().schema(), "dependentRequired": both}

    @classmethod
    def document(cls) -> dict[str, Any]:
        """JSON Schema of the file."""
        return document("A questionnaire of ppdm_dask", cls.schema())

    @property
    def asked(self) -> tuple[str, ...]:
        """Attributes in the order of the questions."""
        return tuple(each.attribute for each in self.question)

    @property
    def private(self) -> tuple[str, ...]:
        """Attributes that are asked and never sent."""
        return tuple(each.attribute for each in self.question if each.private)

    @property
    def sent(self) -> tuple[str, ...]:
        """Attributes of a report, in the order in which respondents meet them."""
        asked = tuple(each.attribute for each in self.question if not each.private)
        return asked if self.classifier is None else (*asked, self.classifier.attribute)

    @property
    def hands(self) -> dict[str, Hand]:
        """Devices in the respondent's hand, by the attributes whose reports they make."""
        return {name: hand for hand in self.hand for name in hand.attributes}

    @property
    def parts(self) -> tuple[str, ...]:
        """Those of :data:`ppdm_dask.collect.words.PARTS` that are asked for here."""
        there = {"series": self.series is not None, "classifier": self.classifier is not None}
        return tuple(part for part, is_there in there.items() if is_there)

    def words_in(self, language: str, *parts: str) -> dict[str, str]:
        """Texts of the page in a language: texts in the questionnaire replace the built-in ones.

        `parts` are what the page has beyond what the questionnaire asks for.
        """
        own = self.words.get(language, {})
        known = words_of(language, (*self.parts, *parts))
        return {key: own.get(key, text) for key, text in known.items()}

    def say(self, texts: Texts | None, language: str) -> str:
        """A text in a language, empty where there is none."""
        return "" if texts is None else texts.get(language, texts.get("", ""))
