"""Association rules of undisguised data against mlxtend, which finds them by Apriori."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from mlxtend.frequent_patterns import apriori
from mlxtend.frequent_patterns import association_rules as mlxtend_rules

import ppdm_dask as pp

Data = tuple[pp.Records, pp.Codebook]


HOME = ("marital-status", "relationship", "race", "sex", "income")


def of_dataset(name: str, *attributes: str) -> Data:
    book = pp.Codebook.from_toml(pp.resources.codebook_path(name))
    book = book.select(attributes or book.names[:8])
    frame = pp.datasets.load(name)[list(book.names)]
    return book.encode(frame), book


def of_chance() -> Data:
    rng = np.random.default_rng(6)
    hidden = rng.random(1_500)
    shape = (2, 3, 4, 5, 2)
    codes = np.stack(
        [(k * (0.9 * hidden + 0.1 * rng.random(1_500))).astype(np.uint8) for k in shape], 1
    )
    names = zip("vwxyz", shape, strict=True)
    book = pp.Codebook(tuple(pp.Attribute(n, tuple(map(str, range(k)))) for n, k in names))
    return pp.Records(codes, book), book


MADE = {
    "votes": lambda: of_dataset("votes"),
    "adult": lambda: of_dataset("adult", *HOME),
    "random": of_chance,
}


@pytest.fixture(scope="module", params=sorted(MADE))
def data(request: pytest.FixtureRequest) -> Data:
    return MADE[request.param]()


Key = tuple[frozenset[str], frozenset[str]]


def theirs(data: Data, least: float, confidence: float, longest: int) -> dict[Key, list[float]]:
    records, book = data
    columns = {
        f"{a.name}={label}": records.codes[:, i] == code
        for i, a in enumerate(book.attributes)
        for code, label in enumerate(a.categories)
    }
    sets = apriori(pd.DataFrame(columns), least, use_colnames=True, max_len=longest)
    rules = mlxtend_rules(sets, metric="confidence", min_threshold=confidence)
    figures = rules[["support", "confidence", "lift"]].to_numpy()
    keys = zip(rules["antecedents"], rules["consequents"], strict=True)
    return {(frozenset(a), frozenset(b)): list(f) for (a, b), f in zip(keys, figures, strict=True)}


@pytest.mark.parametrize(
    ("least", "confidence", "longest"), [(0.05, 0.6, 2), (0.2, 0.8, 3), (0.1, 0.35, 4)]
)
def test_rules_and_figures_are_mlxtends(
    data: Data, least: float, confidence: float, longest: int
) -> None:
    found = pp.association_rules(
        data[0], min_support=least, min_confidence=confidence, max_length=longest
    )
    mine = {
        tuple(
            frozenset(f"{name}={label}" for name, label in part)
            for part in (rule.antecedent, rule.consequent)
        ): [rule.support, rule.confidence, rule.lift]
        for rule in found
    }
    expected = theirs(data, least, confidence, longest)
    assert len(expected) > 3
    assert mine.keys() == expected.keys()
    for key, figures in expected.items():
        np.testing.assert_allclose(mine[key], figures, rtol=1e-12)
