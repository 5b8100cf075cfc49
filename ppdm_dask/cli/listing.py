"""``ppdm list``: the recipes, designs and data sets there are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ppdm_dask.cli.output import print_json, print_table

__all__ = ["print_lists"]


def print_lists(kinds: Sequence[str], *, as_json: bool) -> None:
    """Print one table a kind, or one JSON object with a list a kind."""
    make = {"recipes": _recipes, "designs": _designs, "datasets": _datasets}
    found = {kind: make[kind]() for kind in kinds}
    if as_json:
        print_json(found)
        return
    from ppdm_dask.drawing.tables import plain_table

    for i, rows in enumerate(found.values()):
        if i:
            print()
        header = [name for name in rows[0] if name != "licence"]  # long, and not for a table
        right = [k for k, name in enumerate(header) if isinstance(rows[0][name], int)]
        texts = [[_text(row[name]) for name in header] for row in rows]
        print_table(plain_table([name.replace("_", " ") for name in header], texts, right))


def _text(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def _recipes() -> list[dict[str, Any]]:
    from ppdm_dask.experiments.kinds import load_recipe
    from ppdm_dask.resources import recipes

    rows = []
    for name in recipes():
        recipe = load_recipe(name)
        rows.append(
            {
                "recipe": name,
                "cells": len(recipe.points()),
                "repeats": recipe.sweep.repeats,
                "title": recipe.about.title,
            }
        )
    return rows


def _designs() -> list[dict[str, Any]]:
    from ppdm_dask.designs import families

    return [
        {"design": name, "class": family.__name__, "what": _first_sentence(family)}
        for name, family in families().items()
    ]


def _datasets() -> list[dict[str, Any]]:
    from ppdm_dask import datasets

    rows = []
    for name in datasets.names():
        info = datasets.describe(name)
        rows.append(
            {
                "dataset": name,
                "records": info.n_records,
                "attributes": info.n_attributes,
                "target": info.target,
                "licence": info.licence,
                "title": info.title,
            }
        )
    return rows


def _first_sentence(family: type) -> str:
    return (family.__doc__ or "").strip().split("\n\n")[0].replace("\n", " ").replace("``", "")
