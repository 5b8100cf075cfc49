"""Canonical JSON in pieces is what the standard library writes, and digests are made of it."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import checks
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ppdm_dask as pp
from ppdm_dask.files import canonical
from ppdm_dask.files.canonical import canonical_json


def by_json(value: Any) -> bytes:
    text = json.dumps(
        value, sort_keys=True, separators=(",", ":"), default=lambda array: array.tolist()
    )
    return text.encode()


def written(value: Any) -> bytes:
    return b"".join(canonical_json(value))


SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text())
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner), st.dictionaries(st.text(), inner)),
    max_leaves=20,
)


@settings(max_examples=100, deadline=None)
@given(VALUES)
def test_any_value_is_written_as_json_writes_it(value: Any) -> None:
    assert written(value) == by_json(value)


@pytest.mark.parametrize("scale", [1.0, 2.5e-4, 1e-4, 1e-5, 1e-6, 1e-9, 1e-12, 1e-300, 5e8])
def test_numbers_of_every_size_are_written_as_json_writes_them(scale: float) -> None:
    rng = np.random.default_rng(1)
    values = scale * rng.random(20_000)
    values[::7] = np.round(values[::7] / scale, 2) * scale
    values[::11], values[1::1000] = 0.0, 1.0
    # Just beside each power of ten, where a form ends.
    powers = np.array([10.0**e for e in range(-12, 9)])
    values[:63] = [*powers, *np.nextafter(powers, 0), *np.nextafter(powers, 1)]
    assert written(values) == by_json(values)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(), min_size=canonical.MANY, max_size=canonical.MANY + 5))
def test_whatever_doubles_there_are(values: list[float]) -> None:
    assert written(np.array(values)) == by_json(values)
    some = np.abs(np.array(values))
    some[~(some < 1e9)] = 0.25
    assert canonical._written_by_arrow(some) == by_json(some)[1:-1]


def test_arrays_of_any_shape_and_kind() -> None:
    rng = np.random.default_rng(2)
    arrays = {
        "wide": rng.random((3, 1000)),
        "tall": rng.random((1000, 3)),
        "deep": rng.random((2, 2, 300)),
        "single": rng.random(500).astype(np.float32),
        "whole": rng.integers(0, 9, 500),
        "truth": rng.random(300) < 0.5,
        "none": np.zeros(0),
        "hollow": np.zeros((2, 0)),
        "one": np.array(0.5),
        "list": [rng.random(3), [rng.random(300)]],
    }
    assert written(arrays) == by_json(arrays)


def test_another_form_of_arrow_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """A release that wrote numbers in another way would change every digest."""
    monkeypatch.setattr(canonical, "_as_python_does", lambda texts, values: texts)
    canonical._arrow_serves.cache_clear()
    try:
        assert not canonical._arrow_serves()
        values = np.random.default_rng(3).random(1000) / 1000
        assert written(values) == by_json(values)
    finally:
        canonical._arrow_serves.cache_clear()


def test_pieces_are_small_however_large_an_array_is() -> None:
    values = np.random.default_rng(4).random(300_000)
    pieces = list(canonical_json({"P": values}))
    assert max(map(len, pieces)) < 26 * canonical.SPAN
    assert b"".join(pieces) == by_json({"P": values})


@pytest.mark.parametrize("family", sorted(checks.EXAMPLES))
def test_digests_are_those_of_the_json_of_a_channel(family: str) -> None:
    for design in checks.EXAMPLES[family]:
        if any(labels is not None for labels in design.categories):
            continue  # which are first put in the order of their labels
        assert design.digest == hashlib.sha256(by_json(design.channel())).hexdigest()


def test_the_digest_of_a_large_matrix_in_any_order_of_its_labels() -> None:
    k = 400
    P = np.random.default_rng(5).random((k, k)) ** 3 + 1e-9
    P /= P.sum(axis=0)
    labels = [f"c{v:03d}" for v in range(k)]
    order = np.random.default_rng(6).permutation(k)
    config = {"id": "matrix", "attributes": ["a"], "P": P, "shape": [k], "categories": labels}
    expected = hashlib.sha256(by_json(pp.RRMatrix("a", P, categories=labels).config())).hexdigest()
    assert expected == hashlib.sha256(by_json(config)).hexdigest()
    for places in (np.arange(k), order):
        moved = pp.RRMatrix("a", P[np.ix_(places, places)], categories=[labels[v] for v in places])
        assert moved.digest == expected
        assert moved.ordered
    assert not pp.RRMatrix("a", np.full((k, k), 0.5 / k) + 0.5 * np.eye(k)).ordered
