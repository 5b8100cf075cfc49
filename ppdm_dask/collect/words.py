"""Words of the page itself, such as those on its buttons, from ``words.toml``.

A page has the words of the parts that it is made of, and a questionnaire in a language that is not
known here states these and no others.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from ppdm_dask.errors import InputError
from ppdm_dask.files.documents import read_toml

__all__ = ["FIELD", "PARTS", "filled", "is_known", "needed_words", "words_of"]

PARTS = ("series", "classifier", "frame")
"""What not every page has; each has words of its own."""

FIELD = re.compile(r"\{(\w+)\}")
"""What is filled into one of the words."""

SIGNS = frozenset({"quoted", "decimal"})
"""Signs, no sentences: those of English stand in for them."""


@cache
def _known() -> Mapping[str, Mapping[str, Any]]:
    return read_toml(Path(str(files("ppdm_dask.collect") / "words.toml")), InputError)


def _nearest(language: str) -> str:
    return next((each for each in (language, language.partition("-")[0]) if each in _known()), "")


def is_known(language: str) -> bool:
    """Whether the page speaks a language: ``de-AT`` as ``de``."""
    return _nearest(language) != ""


def words_of(language: str, parts: Collection[str] = ()) -> dict[str, str]:
    """Words of a page with these of the `PARTS`; of English for languages that are not known.

    Those of a part go before those of the page itself.
    """
    own = _known()[_nearest(language) or "en"]
    found = {key: text for key, text in own.items() if key not in PARTS}
    for part in parts:
        found |= own[part]
    return found


def needed_words(language: str, parts: Collection[str] = ()) -> list[str]:
    """Words that a questionnaire states for its page to speak a language."""
    if is_known(language):
        return []
    return [key for key in words_of("en", parts) if key not in SIGNS]


def filled(text: str, **values: str) -> str:
    """A text with values in place of their names in braces, as the page's script fills it in."""
    return FIELD.sub(lambda found: values.get(found[1], found[0]), text)
