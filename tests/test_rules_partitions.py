"""Rules of reports in partitions: those of the same reports in memory, however they are cut."""

from __future__ import annotations

import math
from pathlib import Path

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

import ppdm_dask as pp
from ppdm_dask.kernels.itemsets import count_joint, count_joint_plain
from ppdm_dask.mine import itemsets
from ppdm_dask.mine.rules import Rules

SHAPE = {"a": 2, "b": 2, "c": 3, "d": 9, "e": 12}
BOOK = pp.Codebook(tuple(pp.Attribute(n, tuple(map(str, range(k)))) for n, k in SHAPE.items()))
OPTIONS = {"min_support": 0.02, "min_confidence": 0.2, "max_length": 3}


def design_of(kind: str) -> pp.Design:
    if kind == "one each":
        return pp.Product([pp.KaryResponse(n, k, p=0.85) for n, k in SHAPE.items()])
    rng = np.random.default_rng(3)
    labels = [[str(i) for i in range(SHAPE[n])] for n in "bc"]
    P = 0.8 * np.eye(6) + 0.2 * rng.dirichlet(np.ones(6), 6).T
    return pp.Product(
        [
            pp.Warner("a", 0.9),
            # Not lumpable: rules on b read c too.
            pp.RRMatrix(["b", "c"], P, shape=(2, 3), categories=labels),
            pp.KaryResponse("d", 9, p=0.8),
        ]
    )


@pytest.fixture(scope="module")
def answers() -> pd.DataFrame:
    rng = np.random.default_rng(1)
    hidden = rng.random(3_000)
    codes = {n: (k * (hidden + rng.random(3_000)) / 2).astype(int) for n, k in SHAPE.items()}
    return pd.DataFrame(codes).astype(str)


def equal(one: Rules, other: Rules) -> None:
    assert len(one) > 20
    assert (one.n, one.tested, one.tables) == (other.n, other.tested, other.tables)
    assert [str(rule) for rule in one] == [str(rule) for rule in other]
    np.testing.assert_allclose(
        one.to_frame().select_dtypes("number"), other.to_frame().select_dtypes("number"), rtol=1e-12
    )


@pytest.mark.parametrize("kind", ["one each", "blocks"])
@pytest.mark.parametrize("parts", [1, 7])
def test_lazy_reports_give_the_rules_of_reports_in_memory(
    answers: pd.DataFrame, kind: str, parts: int
) -> None:
    design = design_of(kind).bind(BOOK)
    stream = pp.Stream.from_seed(2)
    whole = design.disguise(BOOK.encode(answers), stream)
    lazy = design.disguise(dd.from_pandas(answers, npartitions=parts), stream)
    equal(pp.association_rules(whole, design, **OPTIONS), pp.association_rules(lazy, **OPTIONS))


def test_files_give_them_too_in_as_many_passes_as_it_takes(
    answers: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    design = design_of("blocks").bind(BOOK)
    stream = pp.Stream.from_seed(2)
    lazy = design.disguise(dd.from_pandas(answers, npartitions=3), stream)
    lazy.to_parquet(tmp_path / "reports")
    whole = pp.association_rules(lazy.compute(), design, **OPTIONS)
    equal(whole, pp.association_rules(tmp_path / "reports", **OPTIONS))
    # Tables of a few cells a pass, and blocks of few rows, change nothing.
    monkeypatch.setattr(itemsets, "AT_ONCE", 40)
    monkeypatch.setattr(itemsets, "ROWS", 640)
    equal(whole, pp.association_rules(tmp_path / "reports", **OPTIONS))


def test_a_partition_gives_counts_and_nothing_else(answers: pd.DataFrame) -> None:
    design = design_of("one each").bind(BOOK)
    reports = design.disguise(BOOK.encode(answers), pp.Stream.from_seed(2))
    left: list[object] = []

    class Watched:
        codebook, simulated, npartitions = BOOK, True, 2

        def __init__(self) -> None:
            self.design = design

        def reduce(self, part: object, add: object = None) -> object:
            sums = [part(reports[:1_000]), part(reports[1_000:])]  # type: ignore[operator]
            left.extend(sums)
            return sums[0] + sums[1]

    found = pp.association_rules(Watched(), **OPTIONS)
    equal(pp.association_rules(reports, design, **OPTIONS), found)
    assert len(left) == 2 * 3
    cells = sum(math.prod(s) for s in [[k] for k in SHAPE.values()])
    assert all(isinstance(each, np.ndarray) and each.dtype == np.int64 for each in left)
    assert len(left[0]) == cells  # type: ignore[arg-type]


@pytest.mark.parametrize("n", [1, 64, 1_000, 40_000])
def test_the_kernel_counts_as_its_plain_twin(n: int) -> None:
    rng = np.random.default_rng(n)
    sizes = {0: 2, 1: 3, 2: 5}
    codes = np.stack([rng.integers(0, k, n) for k in sizes.values()], axis=1).astype(np.uint8)
    planes, first = itemsets._planes(codes, sizes)
    sets = [[0], [1, 0], [0, 1, 2], [2]]
    of = np.array([first[c] for s in sets for c in s])
    k = np.array([sizes[c] for s in sets for c in s])
    bounds = np.cumsum([0, *map(len, sets)])
    out, plain = np.zeros((2, 2 + 6 + 30 + 5), np.int64)
    count_joint(planes, of, k, bounds, out)
    count_joint_plain(planes, of, k, bounds, plain)
    np.testing.assert_array_equal(out, plain)
    table = np.zeros((2, 3, 5), np.int64)
    np.add.at(table, tuple(codes.T.astype(int)), 1)
    np.testing.assert_array_equal(out[8:38].reshape(2, 3, 5), table)


def test_reports_that_are_not_counted_are_refused_by_name(answers: pd.DataFrame) -> None:
    sets = pp.Product([pp.designs.UnaryEncoding("c", 3, epsilon=2.0), pp.Warner("a", 0.9)])
    reports = sets.bind(BOOK).disguise(BOOK.encode(answers), pp.Stream.from_seed(2))
    with pytest.raises(pp.InputError, match="reports of 'c' are sets of categories"):
        pp.association_rules(reports)
    assert len(pp.association_rules(reports, attributes=["a", "b"], min_support=0.01)) > 0
    weighted = BOOK.encode(answers).surveyed_by(weights=np.arange(1.0, 3_001.0))
    with pytest.raises(pp.InputError, match="reports with survey weights"):
        pp.association_rules(weighted)
