"""Devices of the field: the probabilities of coins, dice, cards and birthdays, and their texts.

A device has outcomes in an order.  Its events are the first k outcomes or the last k, so that one
device makes many probabilities, each as a ratio, and two events that exclude one another.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from importlib.resources import files
from pathlib import Path
from typing import Any

from ppdm_dask.errors import InputError
from ppdm_dask.files.declared import document
from ppdm_dask.files.documents import read_toml
from ppdm_dask.files.values import Schema
from ppdm_dask.shown import given, listed

__all__ = ["DEVICES", "Candidate", "Event", "Wording", "candidates", "wording_schema"]

DAYS = tuple(48 if day <= 28 else {29: 45, 30: 44, 31: 28}[day] for day in range(1, 32))
MONTHS = tuple(4 * n for n in (31, 0, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31))
DEVICES: dict[str, tuple[int, ...]] = {
    "coin": (1, 1),
    "die": (1,) * 6,
    "two-coins": (1, 2, 1),
    "number-cards": (1,) * 10,
    "three-coins": (1, 3, 3, 1),
    "two-dice": (1, 2, 3, 4, 5, 6, 5, 4, 3, 2, 1),
    "playing-cards": (1,) * 13,
    "phone-digit": (1,) * 10,
    "birth-month": (MONTHS[0], 113, *MONTHS[2:]),  # of four years, one of them a leap year
    "birth-day": DAYS,
}
"""Weights of the outcomes of each device, the plainest first; birthdays as if days were even."""

STATEMENTS = ("phone-digit", "birth-month", "birth-day")
"""Devices that are nothing to be thrown or drawn: a fact that the respondent knows."""

MOST_CARDS = 12
"""Categories up to which cards with the answers on them are a device."""

PACKS = (10, 20)
"""Cards in each of Kuk's packs."""


@dataclass(frozen=True)
class Event:
    """Some outcomes of a device.

    Parameters
    ----------
    device : str
    prepare : str
        What the respondent does first: sentences.
    text : str
        When it happens, to stand after *if*.
    probability : Fraction
    """

    device: str
    prepare: str
    text: str
    probability: Fraction


@dataclass(frozen=True)
class Candidate:
    """A design that devices can produce, whose privacy is not computed yet.

    Parameters
    ----------
    devices : tuple of str
    config : dict
        Of the design, as a design file states it.
    values : dict
        Of the wording of its family.
    odds : dict of str to Fraction
        Probabilities that the devices make, by parameter.
    """

    devices: tuple[str, ...]
    config: dict[str, Any]
    values: dict[str, Any]
    odds: dict[str, Fraction]


class Wording:
    """Texts for respondents, from a TOML file; the package's own are English.

    Parameters
    ----------
    path : path, optional
        Translated texts: as the package's ``survey/wording.toml``.

    Raises
    ------
    InputError
        For a text that is absent or names something unknown, or a device with other outcomes.
    """

    def __init__(self, path: str | Path | None = None) -> None:
        own = Path(str(files("ppdm_dask.survey") / "wording.toml"))
        self.path = own if path is None else Path(path)
        content, model = read_toml(self.path, InputError), read_toml(own, InputError)
        for table in model:
            for key, entry in model[table].items():
                there = content.get(table)
                stated = there.get(key) if isinstance(there, Mapping) else None
                self._check(f"{self.path}: {table}.{key}", stated, entry)
        self.content: Mapping[str, Any] = content
        self.devices: Mapping[str, Any] = content["devices"]
        self.texts: Mapping[str, str] = content["texts"]
        self.recorded: Mapping[str, str] = content["recorded"]
        self.words: Mapping[str, Sequence[str]] = content["words"]
        self.tables: Mapping[str, Any] = content["tables"]
        self.instructions: Mapping[str, str] = content["instructions"]

    def _check(self, where: str, stated: Any, model: Any) -> None:
        if isinstance(model, Mapping):
            for key, entry in model.items():
                value = stated.get(key) if isinstance(stated, Mapping) else None
                self._check(f"{where}.{key}", value, entry)
        elif isinstance(model, list):
            texts = isinstance(stated, list) and all(isinstance(each, str) for each in stated)
            if not texts or len(stated) != len(model):
                raise InputError(f"{where}: {len(model)} texts are needed", stated)
        elif not isinstance(stated, str):
            raise InputError(f"{where}: got {given(stated)}; a text is needed", stated)
        else:
            try:
                stated.format_map(dict.fromkeys(_names(model), ""))
            except (KeyError, ValueError, IndexError, AttributeError):
                known = listed(sorted(_names(model))) or "none"
                raise InputError(f"{where}: braces may hold {known}", stated) from None

    def event(self, device: str, first: int, last: int) -> Event:
        """The event that the outcome is one from first to last, by position."""
        weights, entry = DEVICES[device], self.devices[device]
        names = entry["outcomes"]
        text = entry["one" if first == last else "several"]
        return Event(
            device,
            entry["prepare"],
            text.format(first=names[first], last=names[last]),
            Fraction(sum(weights[first : last + 1]), sum(weights)),
        )

    def events(self, *devices: str) -> Iterator[Event]:
        """The first k outcomes of each device, for every k."""
        for device in devices:
            for last in range(len(DEVICES[device]) - 1):
                yield self.event(device, 0, last)

    def for_respondents(self, family: str, values: Mapping[str, Any]) -> str:
        """The text that respondents are given."""
        return self.texts.get(family, self.texts["program"]).format_map(values)

    def for_interviewers(self, family: str, values: Mapping[str, Any], device: bool) -> str:
        """How the interviewer records a report."""
        key = family if family in self.recorded else "other" if device else "program"
        return self.recorded[key].format_map(values)


def wording_schema() -> Schema:
    """JSON Schema of a file of texts for respondents: what the package's own file has is needed."""
    return document("Texts for respondents, for ppdm_dask", _like(Wording().content))


def _like(model: Any) -> Schema:
    """Of values of the same form; other keys are not read."""
    if isinstance(model, Mapping):
        inner = {key: _like(each) for key, each in model.items()}
        return {"type": "object", "properties": inner, "required": list(inner)}
    if isinstance(model, list):
        n = len(model)
        return {"type": "array", "items": {"type": "string"}, "minItems": n, "maxItems": n}
    names = ", ".join(f"{{{name}}}" for name in sorted(_names(model)))
    return {
        "type": "string",
        "description": f"Filled in: {names}." if names else "Used without changes.",
    }


def _names(text: str) -> set[str]:
    from string import Formatter

    return {name for _, name, _, _ in Formatter().parse(text) if name}


def candidates(
    family: str, attribute: str, labels: Sequence[str], trait: str | None, wording: Wording
) -> Iterator[Candidate]:
    """All designs of a family that devices make, the plainest device first; none for some families.

    Parameters
    ----------
    family : str
    attribute : str
    labels : sequence of str
        Its categories.
    trait : str or None
        The sensitive one of two.
    wording : Wording
    """
    things = [name for name in DEVICES if name not in STATEMENTS]
    base: dict[str, Any] = {"id": family, "attribute": attribute}
    if family == "kary" and len(labels) <= MOST_CARDS:
        k = len(labels)
        answers = ", ".join(f"“{label}”" for label in labels)
        for e in wording.events(*things):
            p = e.probability + (1 - e.probability) / k
            words = {"prepare": e.prepare, "event": e.text, "count": k, "answers": answers}
            yield Candidate((e.device,), {**base, "n": k, "p": float(p)}, words, {"p": p})
        return
    if trait is None or len(labels) != 2:
        return
    other = next(label for label in labels if label != trait)
    if family in wording.words:
        # What people say is not a label of an answer; an import understands it.
        base["symbols"] = dict(zip(wording.words[family], (trait, other), strict=True))
    if family == "kuk":
        for cards in PACKS:
            for red in range(cards // 2 + 1, cards):
                p1, p2 = Fraction(red, cards), Fraction(cards - red, cards)
                config = {**base, "p1": str(p1), "p2": str(p2), "trait": trait}
                words = {"cards": cards, "red_first": red, "red_second": cards - red}
                yield Candidate((f"packs-of-{cards}",), config, words, {"p1": p1, "p2": p2})
    elif family == "forced":
        yield from _forced(base, trait, other, things, wording)
    elif family == "unrelated":
        yield from _unrelated(attribute, trait, other, things, wording)
    elif family in ONE:
        name, of_facts, labelled = ONE[family]
        for e in wording.events(*(STATEMENTS if of_facts else things)):
            if 2 * e.probability == 1 and family == "crosswise":
                continue
            # Below a half people would mostly be asked for the opposite of the truth.
            if 2 * e.probability <= 1 and family == "warner":
                continue
            config = {**base, name: str(e.probability), **({"trait": trait} if labelled else {})}
            words = {"prepare": e.prepare, "event": e.text}
            yield Candidate((e.device,), config, words, {name: e.probability})


ONE = {
    "warner": ("theta", False, False),
    "mangat": ("p", False, True),
    "crosswise": ("p", True, False),
    "triangular": ("p", True, True),
}
"""Families of one probability: its name, whether of a statement, whether they name the trait."""


def _forced(
    base: Mapping[str, Any], trait: str, other: str, things: Sequence[str], wording: Wording
) -> Iterator[Candidate]:
    for device in things:
        n = len(DEVICES[device])
        for i in range(1, n - 1):
            for j in range(1, n - i):
                yes, no = wording.event(device, 0, i - 1), wording.event(device, n - j, n - 1)
                law = {trait: str(yes.probability), other: str(no.probability)}
                odds = {trait: yes.probability, other: no.probability}
                words = {"prepare": yes.prepare, "event": yes.text, "second": no.text}
                yield Candidate((device,), {**base, "forced_probability": law}, words, odds)


def _unrelated(
    attribute: str, trait: str, other: str, things: Sequence[str], wording: Wording
) -> Iterator[Candidate]:
    facts = [e for e in wording.events(*STATEMENTS) if Fraction(1, 5) <= e.probability]
    facts = [e for e in facts if e.probability <= Fraction(4, 5)]
    for e in wording.events(*things):
        for fact in facts:
            law = {trait: str(fact.probability), other: str(1 - fact.probability)}
            config = {"id": "unrelated", "attributes": attribute, "q": str(e.probability)}
            words = {"prepare": e.prepare, "event": e.text}
            words |= {"prepare_second": fact.prepare, "second": fact.text}
            odds = {"q": e.probability, "w_y": fact.probability}
            yield Candidate((e.device, fact.device), {**config, "w_y": law}, words, odds)
