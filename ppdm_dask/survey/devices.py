"""What coins, dice, cards and birthdays can make, and what people are told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from ppdm_dask.designs.base import Design, design_from_config

__all__ = ["DEVICES", "Device", "Instruction", "devices_of"]


@dataclass(frozen=True)
class Device:
    """An event of known probability that only the respondent sees.

    Parameters
    ----------
    kind : str
        ``coins``, ``die``, ``dice``, ``cards``, ``digit`` or ``birthday``.
    probability : Fraction
        Of a birthday as if months were equally likely.
    prepare : str
        What the respondent does first: a sentence.
    event : str
        When it happens, to stand after *if*.
    """

    kind: str
    probability: Fraction
    prepare: str
    event: str


def _dice(total: int) -> Fraction:
    ways = sum(1 for a in range(1, 7) for b in range(1, 7) if a + b <= total)
    return Fraction(ways, 36)


MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July", "August"),
    *("September", "October", "November", "December"),
)


def _made() -> tuple[Device, ...]:
    found = []
    for n, ways, event in (
        (1, Fraction(1, 2), "the coin shows heads"),
        (2, Fraction(1, 4), "both coins show heads"),
        (2, Fraction(3, 4), "at least one coin shows heads"),
        (3, Fraction(1, 8), "all three coins show heads"),
        (3, Fraction(7, 8), "at least one coin shows heads"),
    ):
        coins = {1: "a coin", 2: "two coins", 3: "three coins"}[n]
        found.append(Device("coins", ways, f"Toss {coins} where nobody else sees.", event))
    roll = "Roll a die where nobody else sees it."
    for k in range(1, 6):
        event = {1: "it shows 1", 2: "it shows 1 or 2"}.get(k, f"it shows 1 to {k}")
        found.append(Device("die", Fraction(k, 6), roll, event))
    both = "Roll two dice where nobody else sees them, and add them up."
    for k in range(2, 12):
        event = "the sum is 2" if k == 2 else f"the sum is {k} or less"
        found.append(Device("dice", _dice(k), both, event))
    draw = "Draw one of ten cards numbered 1 to 10, look at it alone, and put it back."
    for k in range(1, 10):
        event = "its number is 1" if k == 1 else f"its number is {k} or less"
        found.append(Device("cards", Fraction(k, 10), draw, event))
    think = "Think of somebody whose telephone number you know, and of its last digit. Tell nobody."
    for k in range(1, 10):
        event = "the digit is 0" if k == 1 else f"the digit is 0 to {k - 1}"
        found.append(Device("digit", Fraction(k, 10), think, event))
    person = "Think of a person whose birthday you know and nobody here does. Do not say who it is."
    for k in range(1, 12):
        months = MONTHS[0] if k == 1 else f"{MONTHS[0]} to {MONTHS[k - 1]}"
        event = f"that birthday is in {months}"
        found.append(Device("birthday", Fraction(k, 12), person, event))
    return tuple(found)


DEVICES = _made()
"""All of them, in the order of their kinds."""

KINDS = tuple(dict.fromkeys(device.kind for device in DEVICES))


@dataclass(frozen=True)
class Instruction:
    """A design that a device makes, with what the respondent is told.

    Parameters
    ----------
    family : str
    device : str
        Kinds of the devices in use.
    probabilities : mapping of parameter to Fraction
    design : Design
        With the words that people report, where they are no labels.
    text : str
        For the respondent, with the question in it.
    """

    family: str
    device: str
    probabilities: Mapping[str, Fraction]
    design: Design
    text: str


def devices_of(
    family: str, attribute: str, labels: tuple[str, ...], trait: str, question: str
) -> list[Instruction]:
    """All devices that make a design of a family, each with its text.

    Parameters
    ----------
    family : str
        ``warner``, ``crosswise``, ``unrelated``, ``forced``, ``triangular`` or ``kary``; there are
        none for other families.
    attribute : str
    labels : tuple of str
        Its categories; two of them but for ``kary``.
    trait : str
        The sensitive one of two.
    question : str
        As people are asked, ending in a question mark.
    """
    made = {
        "warner": _warner,
        "crosswise": _crosswise,
        "unrelated": _unrelated,
        "forced": _forced,
        "triangular": _triangular,
        "kary": _kary,
    }.get(family)
    if made is None or (len(labels) != 2 and family not in ("kary",)):
        return []
    other = next((label for label in labels if label != trait), trait)
    return [
        each
        for device in DEVICES
        if (each := made(device, attribute, labels, trait, other, question)) is not None
    ]


def _build(
    family: str, config: Mapping[str, Any], device: Device, text: str, **p: Fraction
) -> Instruction:
    design = design_from_config({"id": family, **config})
    return Instruction(family, device.kind, p, design, text)


def _asked(d: Device) -> str:
    """The event as a question."""
    what, _, rest = d.event.partition(" is ")
    return f"is {what} {rest}?"


Made = Instruction | None
Labels = tuple[str, ...]


def _warner(d: Device, name: str, labels: Labels, trait: str, other: str, asked: str) -> Made:
    if d.probability == Fraction(1, 2) or d.kind in ("digit", "birthday"):
        return None
    text = (
        f"{d.prepare} If {d.event}, answer this question truthfully: {asked} Otherwise give the "
        f"opposite answer: say “{other}” where “{trait}” would be true, and “{trait}” where "
        f"“{other}” would be."
    )
    config = {"attribute": name, "theta": str(d.probability)}
    return _build("warner", config, d, text, theta=d.probability)


def _crosswise(d: Device, name: str, labels: Labels, trait: str, other: str, asked: str) -> Made:
    if d.probability == Fraction(1, 2) or d.kind not in ("digit", "birthday"):
        return None
    text = (
        f"{d.prepare} Here are two questions; do not answer either of them alone. First: {asked} "
        f"Second: {_asked(d)} Say “same” if your answers to both are “{trait}” or both "
        f"are “{other}”, and “different” if they differ."
    )
    symbols = {"same": trait, "different": other}
    config = {"attribute": name, "p": str(d.probability), "symbols": symbols}
    return _build("crosswise", config, d, text, p=d.probability)


def _triangular(d: Device, name: str, labels: Labels, trait: str, other: str, asked: str) -> Made:
    if d.kind not in ("digit", "birthday"):
        return None
    text = (
        f"{d.prepare} Here are two questions; do not answer either of them alone. First: {asked} "
        f"Second: {_asked(d)} Say “at least one” if the answer to one of them, or to "
        f"both, is “{trait}”; else say “none”."
    )
    config = {
        "attribute": name,
        "p": str(d.probability),
        "trait": trait,
        "symbols": {"at least one": trait, "none": other},
    }
    return _build("triangular", config, d, text, p=d.probability)


def _unrelated(d: Device, name: str, labels: Labels, trait: str, other: str, asked: str) -> Made:
    if d.kind in ("digit", "birthday"):
        return None
    text = (
        f"{d.prepare} If {d.event}, answer this question truthfully: {asked} Otherwise answer "
        f"another one truthfully: is the birthday of your mother on an odd day of the month? Say "
        f"“{trait}” for yes and “{other}” for no."
    )
    # 186 of the 366 dates are on odd days: a half is near enough for a plan, not for an estimate.
    odd = Fraction(186, 366)
    law = {trait: str(odd), other: str(1 - odd)}
    config = {"attributes": name, "q": str(d.probability), "w_y": {x: law[x] for x in labels}}
    return _build("unrelated", config, d, text, q=d.probability)


def _forced(d: Device, name: str, labels: Labels, trait: str, other: str, asked: str) -> Made:
    """With a die or two: the lowest results force one answer, the highest the other."""
    if d.kind not in ("die", "dice"):
        return None
    forced = d.probability
    if 2 * forced >= 1:
        return None
    highest = {"die": 7, "dice": 14}[d.kind]
    numbers = [int(word) for word in d.event.split() if word.isdigit()]
    high = highest - max(numbers)
    most = highest - (1 if d.kind == "die" else 2)
    above = f"{high}" if high == most else f"{high} or more"
    what = "it shows" if d.kind == "die" else "the sum is"
    text = (
        f"{d.prepare} If {d.event}, say “{trait}” whatever is true. If {what} {above}, say "
        f"“{other}” whatever is true. Otherwise answer truthfully: {asked}"
    )
    config = {
        "attribute": name,
        "forced_probability": {label: str(forced) for label in labels},
    }
    return _build("forced", config, d, text, forced=forced)


def _kary(d: Device, name: str, labels: Labels, trait: str, other: str, asked: str) -> Made:
    """The truth, or a card with one of the answers."""
    if d.kind not in ("coins", "die", "dice", "cards"):
        return None
    answers = ", ".join(f"“{label}”" for label in labels)
    text = (
        f"{d.prepare} If {d.event}, answer truthfully: {asked} Otherwise draw one of the "
        f"{len(labels)} cards that have the answers {answers} on them, look at it alone, and say "
        "what is on it."
    )
    config = {"attribute": name, "n": len(labels), "q": str(d.probability)}
    return _build("kary", config, d, text, q=d.probability)
