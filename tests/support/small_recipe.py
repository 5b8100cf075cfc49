"""A recipe that runs in a moment, as plain tables and as a file."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

from ppdm_dask.resources import pipelines_dir

CODEBOOK = str(pipelines_dir() / "codebooks" / "breast-cancer.toml")

CONFIG: dict[str, Any] = {
    "about": {"title": "A small recipe", "references": ["ZhanMatwin"]},
    "data": [
        {"id": "cancer", "set": "breast-cancer", "codebook": CODEBOOK, "binarise": "midrange"},
        {
            "id": "first-300",
            "set": "breast-cancer",
            "codebook": CODEBOOK,
            "binarise": "median",
            "records": 300,
            "incomplete": "drop",
        },
    ],
    "design": {"family": "unrelated", "w_y": 0.5},
    "mine": {"learner": "naive-bayes", "floor": "1/n"},
    "sweep": {
        "repeats": 4,
        "seed": 7,
        "train": 0.8,
        "split": "fixed",
        "grid": {"q": [0, 0.5, 1]},
    },
    "figure": [
        {"id": "means", "kind": "mean", "title": "Means"},
        {"id": "variances", "kind": "variance", "title": "Variances", "data": ["cancer"]},
        {"id": "privacy", "kind": "privacy", "title": "Privacy", "w_a": [0.3, 0.5]},
    ],
}

TREES: dict[str, Any] = {
    "about": {"title": "Small trees", "references": ["ZhanDu"]},
    "data": [
        {"id": "cancer", "set": "breast-cancer", "codebook": CODEBOOK, "binarise": "midrange"},
    ],
    "design": {"family": "multigroup", "split": "redrawn"},
    "mine": {"learner": "id3"},
    "sweep": {
        "repeats": 2,
        "seed": 7,
        "train": 0.8,
        "split": "fixed",
        "grid": {"groups": [1, 2], "theta": [0, 0.5, 0.8, 1]},
    },
    "figure": [
        {"id": "means", "kind": "mean", "title": "Means", "x": "theta", "series": "groups"},
        {"id": "privacy", "kind": "privacy", "title": "Privacy", "x": "theta", "w_a": [0.5]},
        {"id": "grid", "kind": "grid", "title": "Grid", "x": "theta"},
        {
            "id": "tradeoff",
            "kind": "tradeoff",
            "title": "Trade-off",
            "x": "theta",
            "series": "groups",
        },
    ],
}
"""A recipe with a grid of two axes and random groups."""


def changed(path: str, value: Any) -> dict[str, Any]:
    """The small recipe with one value changed; ``...`` takes the key out."""
    return many(CONFIG, {path: value})


def many(config: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """A recipe with some values changed; ``...`` takes a key out."""
    config = copy.deepcopy(config)
    for path, value in changes.items():
        *parents, last = path.replace("[", ".").replace("]", "").split(".")
        at: Any = config
        for key in parents:
            at = at[int(key)] if isinstance(at, list) else at[key]
        if value is ...:
            del at[last]
        else:
            at[int(last) if isinstance(at, list) else last] = value
    return config


def write_recipe(path: Path, config: dict[str, Any] = CONFIG) -> Path:
    """Write a recipe as TOML."""
    lines = []
    for key, value in config.items():
        for table in value if isinstance(value, list) else [value]:
            lines.append(f"[[{key}]]" if isinstance(value, list) else f"[{key}]")
            lines += [f"{k} = {_toml(v)}" for k, v in table.items() if not isinstance(v, dict)]
            for k, v in table.items():
                if isinstance(v, dict):
                    lines.append(f"[{key}.{k}]")
                    lines += [f"{axis} = {_toml(values)}" for axis, values in v.items()]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def _toml(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return f'"{value}"' if isinstance(value, str) else str(value).lower()
