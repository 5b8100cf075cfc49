"""Questionnaires: what a page asks, in which order and languages, and whose device is used.

A questionnaire speaks of the attributes and categories of a codebook.  Texts are one text, or a
table with one text for each language.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

from ppdm_dask.designs.permanent import Permanent, permanent_blocks
from ppdm_dask.errors import InputError
from ppdm_dask.files.declared import Declared, document
from ppdm_dask.files.documents import read_toml
from ppdm_dask.files.fields import Table
from ppdm_dask.files.values import Many, Named, Place, Text, Value, Whole
from ppdm_dask.shown import quoted, shown

if TYPE_CHECKING:
    from ppdm_dask.data.codebook import Codebook
    from ppdm_dask.designs.base import Design

__all__ = ["Hand", "Question", "Questionnaire", "filled", "symbols_of", "words_of"]

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

WORDS_OF_SERIES = ("once", "held", "changed", "unkept", "lasting", "lasting_no_odds")
"""The page's own words that only a series of waves has."""

FIELD = re.compile(r"\{(\w+)\}")
"""What is filled into one of the page's own words."""

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


@cache
def _own_words() -> Mapping[str, Texts]:
    return read_toml(Path(str(files("ppdm_dask.collect") / "words.toml")), InputError)


def words_of(language: str) -> Texts:
    """Words of the page itself, such as those on its buttons; of English for other languages.

    ``de-AT`` has those of ``de``.
    """
    known = _own_words()
    return known.get(language, known.get(language.partition("-")[0], known["en"]))


def filled(text: str, **values: str) -> str:
    """A text with values in place of their names in braces, as the page's script fills it in."""
    return FIELD.sub(lambda found: values.get(found[1], found[0]), text)


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
        What is read in place of a category's name.
    optional : bool
        Whether it can be left out; then `unanswered` is needed.
    unanswered : str, optional
        The category of those who leave the question out, or to whom it is not put; it is not
        offered as an answer.  It is disguised as any other, so that nobody can tell who did.
    only_if : table, optional
        Attributes that were asked before, each with a list of categories: the question is put to
        those who chose one of them in each.
    """

    attribute: Annotated[str, ANY]
    text: Annotated[Texts, WORDED]
    help: Annotated[Texts | None, WORDED] = None
    labels: Annotated[Mapping[str, Texts], LABELS] = field(default_factory=dict)
    optional: bool = False
    unanswered: Annotated[str | None, ANY] = None
    only_if: Annotated[Mapping[str, tuple[str, ...]], CONDITION] = field(default_factory=dict)

    named_by = "attribute"

    def checked(self, at: Place) -> Self:
        if not isinstance(self.optional, bool):
            raise at["optional"].wrong(self.optional, "true or false is needed")
        if (self.optional or self.only_if) and self.unanswered is None:
            raise at["unanswered"].wrong(
                None, "the category of those who do not answer is needed, to be disguised as well"
            )
        return self

    @classmethod
    def schema(cls) -> dict[str, Any]:
        asked = {"properties": {"optional": {"const": True}}, "required": ["optional"]}
        due = {"required": ["unanswered"]}
        left_out = {"anyOf": [asked, {"required": ["only_if"]}]}
        return {**super().schema(), "if": left_out, "then": due}


@dataclass(frozen=True)
class Hand(Declared):
    """Answers that respondents randomise themselves, by dice, coins, cards or a birthday.

    The page explains the device and asks only for what it gives, never for the truth.

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
        That respondents choose from; the first one is the page's own.
    welcome : text or table by language, optional
        Paragraphs before the first question, apart by an empty line.
    thanks : text or table by language, optional
        Paragraphs after the report is sent.
    hand : list of tables, optional
        Blocks of the design whose device is in the respondent's hand.
    collector : str, optional
        Origin of the collector, where the page is not served by it.
    words : table of tables, optional
        By language, words of the page itself; those of English and German are known.
    series : str, optional
        Of the waves that share a permanent first stage: devices keep its symbols by this name.
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
    series: Annotated[str | None, SERIES] = None
    wave: Annotated[int | None, Whole(1, 9_999)] = None

    def checked(self, at: Place) -> Self:
        known = words_of("en")
        if (self.series is None) != (self.wave is None):
            absent = "series" if self.series is None else "wave"
            raise at[absent].wrong(None, "series and wave are needed both, or neither")
        for language, own in self.words.items():
            if language not in self.languages:
                raise at["words"][language].told(
                    f"the page is not shown in it; languages are {quoted(self.languages)}"
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
        for language in self.languages:
            own = self.words.get(language, {})
            due = [key for key in known if self.series or key not in WORDS_OF_SERIES]
            missing = [key for key in due if key not in own]
            if language.partition("-")[0] not in _own_words() and missing:
                raise at["words"][language].told(
                    f"the page's own words are not known in {shown(language)}; state "
                    f"{quoted(missing)}"
                )
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
        return cls.from_table(Table(read_toml(path, InputError), str(path), error=InputError))

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

    def say(self, texts: Texts | None, language: str) -> str:
        """A text in a language, empty where there is none."""
        return "" if texts is None else texts.get(language, texts.get("", ""))

    def require(self, source: str, codebook: Codebook, design: Design) -> None:
        """Check that it fits a codebook, and a design that is bound to it.

        Parameters
        ----------
        source : str
            The file, for messages.
        codebook : Codebook
        design : Design

        Raises
        ------
        InputError
            One line: file, dotted path, value, and what would be right.
        """
        at = Place("", source, InputError)
        before: dict[str, tuple[str, ...]] = {}
        for asked in self.question:
            name, place = asked.attribute, at["question"][asked.attribute]
            if name in before:
                raise place.told("the attribute is asked twice", name)
            if name not in codebook.names:
                raise place["attribute"].wrong(
                    name, f"it is not in the codebook, which has {quoted(codebook.names)}"
                )
            categories = codebook[name].categories
            wrong = [label for label in asked.labels if label not in categories]
            if asked.unanswered is not None and asked.unanswered not in categories:
                wrong = [asked.unanswered]
            if wrong:
                raise place.told(
                    f"{shown(wrong[0])} is not a category; there are {quoted(categories)}"
                )
            for other, labels in asked.only_if.items():
                if other not in before:
                    raise place["only_if"].told(f"{shown(other)} is not asked before")
                if bad := [label for label in labels if label not in before[other]]:
                    raise place["only_if"][other].told(
                        f"{shown(bad[0])} is not a category; there are {quoted(before[other])}"
                    )
            offered = [c for c in categories if c != asked.unanswered]
            self._require_distinct(
                place["labels"], {c: asked.labels.get(c, {"": c}) for c in offered}
            )
            before[name] = categories
        if lacking := [name for name in design.attributes if name not in before]:
            raise at["question"].told(f"the design needs a question on {quoted(lacking)}")
        self._require_hands(at, codebook, design)
        self._require_series(at, design)

    def _require_series(self, at: Place, design: Design) -> None:
        """Check what a permanent first stage asks of a questionnaire: answers that never change."""
        kept = {name for block in permanent_blocks(design) for name in block.attributes}
        if kept and self.series is None:
            raise at["series"].wrong(
                None, "devices keep the permanent first stage of the design by this name"
            )
        if self.series is not None and not kept:
            raise at["series"].told(
                "no block of the design has a permanent first stage, so nothing is kept"
            )
        for asked in self.question:
            place = at["question"][asked.attribute]["only_if"]
            if asked.only_if and asked.attribute in kept:
                raise place.told(
                    "its disguise is kept for later waves, so it is put to everybody, once"
                )
            if hidden := {*asked.only_if} & kept:
                raise place.told(
                    f"the answer to {shown(min(hidden))} is not asked for in later waves"
                )

    def _require_distinct(self, place: Place, words: Mapping[str, Texts]) -> None:
        """Refuse answers that nobody can tell apart."""
        for language in self.languages:
            first: dict[str, str] = {}
            for name, texts in words.items():
                text = " ".join(self.say(texts, language).split())
                if text in first:
                    raise place.told(
                        f"{quoted([first[text], name])} both read {shown(text)} in "
                        f"{shown(language)}; a text for each is needed"
                    )
                first[text] = name

    def _require_hands(self, at: Place, codebook: Codebook, design: Design) -> None:
        blocks = {frozenset(block.attributes): block for block in design.blocks}
        for i, hand in enumerate(self.hand):
            place, block = at["hand"][i], blocks.get(frozenset(hand.attributes))
            if any({*hand.attributes} & {*other.attributes} for other in self.hand[:i]):
                raise place["attributes"].told(
                    f"{quoted(hand.attributes)} has a device already, in another table [[hand]]"
                )
            if block is None:
                there = "; ".join(quoted(each.attributes) for each in design.blocks)
                raise place["attributes"].told(
                    f"{quoted(hand.attributes)} is not a block of the design; its blocks are "
                    f"{there}"
                )
            if isinstance(block, Permanent):
                raise place["attributes"].told(
                    f"the page itself draws the permanent first stage of {quoted(hand.attributes)}"
                )
            if block.kind == "set":
                raise place["attributes"].told(
                    f"reports of {quoted(hand.attributes)} are sets, which no device gives"
                )
            for name, words in hand.symbols.items():
                if name not in block.attributes:
                    raise place["symbols"][name].told(
                        f"it is none of this table's attributes, {quoted(hand.attributes)}"
                    )
                if words.keys() != {*(needed := symbols_of(block, name, codebook))}:
                    raise place["symbols"][name].told(
                        f"words for {quoted(needed)} are needed, one for each"
                    )
                self._require_distinct(place["symbols"][name], words)
            for asked in self.question:
                if asked.attribute in hand.attributes and (asked.only_if or asked.optional):
                    raise at["question"][asked.attribute].told(
                        "it is answered by a device in the hand, so it is put to everybody"
                    )
                if hidden := {*asked.only_if} & {*hand.attributes}:
                    raise at["question"][asked.attribute]["only_if"].told(
                        f"the true answer to {shown(min(hidden))} is not known to the page"
                    )


def symbols_of(block: Design, name: str, codebook: Codebook) -> tuple[str, ...]:
    """Names of an attribute's reports: its categories, or numbers where reports are no answers."""
    size, categories = block.reported_shape[block.attributes.index(name)], codebook[name].categories
    return categories if size == len(categories) else tuple(map(str, range(size)))
