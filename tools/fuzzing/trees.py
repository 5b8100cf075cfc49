"""Damage to what TOML and JSON hold: values, keys and nesting, but the syntax stays right."""

from __future__ import annotations

import copy
import json
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fuzzing.chance import Chance

__all__ = ["Raw", "damage_json", "damage_toml", "damage_tree", "dump_toml"]


@dataclass(frozen=True)
class Raw:
    """A token that is written as it stands."""

    text: str


TEXTS = (
    "",
    " ",
    "a" * 100_000,
    "a\nb",
    "tab\there",
    "\x1b[31mred\x1b[0m",
    "\x00",
    "e\u0301",
    "\u202eabc",
    "\ud800",
    "日本語",
    "a,b",
    'a "quoted" b',
    "=1+1",
    "nan",
    "1e5",
    "1/2",
    ".",
    "..",
    "/",
    "/dev/null",
    "/dev/zero",
    "no-such-file",
    "x" * 300 + ".csv",
    "id",
    "target",
    "yes",
    "local",
    "tls://host:1",
    "tcp://[::1]:99999",
)
INTEGERS = (0, 1, -1, 2, 3, 17, 255, 10**5, 10**9)
LARGE = (2**31 - 1, 2**31, 2**32, 2**53 + 1, 2**63 - 1, 2**63, 2**64, -(2**63), 10**30, 10**400)
FLOATS = (
    0.0,
    -0.0,
    0.5,
    1.0,
    1.5,
    -0.25,
    1e-17,
    1 - 1e-16,
    1.0000000001,
    5e-324,
    1e-160,
    1e160,
    1.7e308,
    float("nan"),
    float("inf"),
    float("-inf"),
)


def nasty(chance: Chance) -> Any:
    """A value of any type that a careless reader may stumble over."""
    kind = chance.below(9)
    if kind == 0:
        return chance.pick(TEXTS)
    if kind == 1:
        return chance.pick(INTEGERS)
    if kind == 2:
        return chance.pick(LARGE)
    if kind == 3:
        return chance.pick(FLOATS)
    if kind == 4:
        return chance.coin(0.5)
    if kind == 5:
        return [nasty(chance) for _ in range(chance.pick((0, 1, 2, 3)))]
    if kind == 6:
        return {"id": nasty(chance)} if chance.coin(0.5) else {}
    if kind == 7:
        return [chance.pick((0, "a", 0.5, [], {}))] * chance.pick((1, 2, 50, 2_000))
    deep: Any = chance.pick((0, "a"))
    for _ in range(chance.pick((2, 5, 60))):
        deep = [deep] if chance.coin(0.5) else {"a": deep}
    return deep


def _places(tree: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) of a tree."""
    found = []
    stack = [tree]
    while stack:
        at = stack.pop()
        keys = list(at) if isinstance(at, dict) else range(len(at))
        for key in keys:
            found.append((at, key))
            if isinstance(at[key], dict | list):
                stack.append(at[key])
    return found


def damage_tree(tree: Any, chance: Chance, special: Callable[[Chance], Any] = nasty) -> Any:
    """A copy of a tree with one to three places changed."""
    tree = copy.deepcopy(tree)
    for _ in range(chance.pick((1, 1, 1, 2, 3))):
        places = _places(tree)
        if not places:
            return special(chance)
        at, key = chance.pick(places)
        act = chance.below(12)
        if act < 4:
            at[key] = special(chance)
        elif act == 4:
            del at[key]
        elif act == 5:
            other, elsewhere = chance.pick(places)
            if elsewhere in other if isinstance(other, dict) else elsewhere < len(other):
                at[key] = copy.deepcopy(other[elsewhere])
        elif act == 6 and isinstance(at, dict):
            at[chance.pick((*TEXTS[:12], f"{key}s", f" {key}"))] = at.pop(key)
        elif act == 7 and isinstance(at, dict):
            at[chance.pick(("unknown", "id", "", "a.b", "name", "file"))] = special(chance)
        elif act == 8:
            value = at[key]
            if isinstance(value, list) and value:
                value.insert(chance.below(len(value) + 1), copy.deepcopy(chance.pick(value)))
            elif isinstance(value, list):
                value.append(special(chance))
            else:
                at[key] = [value]
        elif act == 9:
            value = at[key]
            if isinstance(value, list):
                value.reverse()
            elif isinstance(value, bool | str):
                at[key] = str(value).swapcase()
            elif isinstance(value, int | float):
                at[key] = chance.pick((-value, value + 1, value * 1_000, str(value), 0.5))
        elif act == 10 and isinstance(at[key], str):
            text = at[key]
            cut = chance.below(len(text) + 1)
            at[key] = text[:cut] + chance.pick(TEXTS[:14]) + text[cut:]
        else:
            at[key] = {"a": at[key]} if chance.coin(0.5) else str(at[key])
    return tree


def dump_toml(tree: Any) -> str:
    """TOML of a tree, one line a key."""
    if not isinstance(tree, dict):
        return f"value = {_value(tree)}\n"
    return "".join(f"{_text(key)} = {_value(value)}\n" for key, value in tree.items())


def _value(value: Any) -> str:
    if isinstance(value, Raw):
        return value.text
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_text(k)} = {_value(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return _text(value)
    return repr(value)  # also inf, nan, dates and times, which TOML writes so


def _text(text: Any) -> str:
    return json.dumps(str(text), ensure_ascii=False).replace("\x7f", "\\u007f")


RAW = (
    Raw("1979-05-27T07:32:00Z"),
    Raw("1979-05-27"),
    Raw("07:32:00"),
    Raw("1" * 5_000),
    Raw("1e400"),
    Raw("0x" + "f" * 40),
    Raw("[" * 2_000 + "]" * 2_000),
    Raw("{a=" * 2_000 + "1" + "}" * 2_000),
    Raw("'''\nlines\n'''"),
)


def damage_toml(content: bytes, chance: Chance) -> bytes:
    """Change values, keys and nesting of a TOML file."""

    def special(chance: Chance) -> Any:
        return chance.pick(RAW) if chance.coin(0.1) else nasty(chance)

    tree = damage_tree(tomllib.loads(content.decode()), chance, special)
    return dump_toml(tree).encode("utf-8", "surrogatepass")


def damage_json(content: bytes, chance: Chance) -> bytes:
    """Change values, keys and nesting of a JSON file."""
    if chance.coin(0.04):
        return chance.pick((b"[" * 100_000, b"{}", b"null", b"[]", b'""', b"1" * 5_000, b"NaN"))

    def special(chance: Chance) -> Any:
        return None if chance.coin(0.1) else nasty(chance)

    tree = damage_tree(json.loads(content), chance, special)
    # Ten thousand digits are no JSON that this Python reads or writes.
    return json.dumps(tree, ensure_ascii=chance.coin(0.5)).encode("utf-8", "surrogatepass")
