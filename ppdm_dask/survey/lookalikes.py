"""Labels that look alike or hide signs, which a person should see before they are declared."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator

from ppdm_dask.shown import shown

__all__ = ["alike", "oddities"]

# Small Cyrillic and Greek letters, and capitals, that are drawn as a Latin one is.
_DRAWN_AS = str.maketrans(
    "асеорхуіјѕԁһԛԝьАВСЕНІЈКМОРЅТХУΑΒΕΖΗΙΚΜΝΟΡΤΥΧοανρυкмт",
    "aceopxyijsdhqwbABCEHIJKMOPSTXYABEZHIKMNOPTYXoavpukmt",
)

_SCRIPTS = frozenset({"LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC"})


def skeleton(label: str) -> str:
    """What a label looks like: the same for those that a reader would take for one answer."""
    plain = unicodedata.normalize("NFKC", label)
    visible = "".join(sign for sign in plain if unicodedata.category(sign) not in ("Cf", "Cc"))
    return " ".join(visible.translate(_DRAWN_AS).casefold().split())


def alike(labels: Iterable[str]) -> list[list[str]]:
    """Groups of labels that differ by case, spaces, hidden signs or letters of another script."""
    groups: dict[str, list[str]] = {}
    for label in labels:
        groups.setdefault(skeleton(label), []).append(label)
    return [group for group in groups.values() if len(group) > 1]


def oddities(label: str) -> Iterator[str]:
    """What cannot be seen of a label: hidden signs, and letters of several scripts in a word."""
    hidden = dict.fromkeys(
        f"U+{ord(sign):04X}" for sign in label if unicodedata.category(sign) in ("Cf", "Cc", "Co")
    )
    if hidden:
        yield f"{shown(label)} holds signs that cannot be seen: {', '.join(hidden)}"
    for word in label.split():
        scripts = {unicodedata.name(letter, "").partition(" ")[0] for letter in word}
        if len(found := sorted(scripts & _SCRIPTS)) > 1:
            mixed = " and ".join(script.capitalize() for script in found)
            yield f"{shown(label)} mixes {mixed} letters in one word"
            return
