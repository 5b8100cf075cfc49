"""The compiled ID3 sweep against plain statements: logarithms, orbits, groups, whole trees."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

import ppdm_dask as pp
from ppdm_dask.data.codebook import Records
from ppdm_dask.designs.multigroup import RandomGroups
from ppdm_dask.experiments.samples import Sample
from ppdm_dask.experiments.sweep.engines import BinaryID3
from ppdm_dask.experiments.sweep.trials import DISGUISE, PlainEngine, Setting
from ppdm_dask.kernels.id3 import butterfly, spread, xlogx
from ppdm_dask.mine import ID3

THETAS = (0, 0.1, 0.2, 0.3, 0.4, 0.45, 0.51, 0.55, 0.6, 0.7, 0.8, 0.9, 1)
SETS = {"adult": 10_000, "breast-cancer": 699, "votes": 435}


def test_xlogx_is_the_logarithm_to_the_last_place():
    generator = np.random.default_rng(1)
    values = np.concatenate(
        [
            np.arange(2_000.0),
            np.exp(generator.uniform(0, 45, 20_000)).round(),
            2.0 ** np.arange(60),
            2.0 ** np.arange(2, 53) - 1,
            [-5.0, 0.0, 0.5],
        ]
    )
    out = np.empty_like(values)
    xlogx(values, len(values), np.empty((2, len(values))), out)
    expected = [v * math.log(v) if v > 1 else 0.0 for v in values]
    np.testing.assert_allclose(out, expected, rtol=4e-16, atol=0)


@pytest.mark.parametrize("thetas", [(0.8,), (0.3, 0.7), (0.9, 0.2, 0.55)])
def test_butterfly_is_the_inverse_of_the_kronecker_product(thetas):
    """B = kron of [[t, t-1], [t-1, t]] / (2t-1), group 0 the lowest bit of the index."""
    generator = np.random.default_rng(2)
    ratios = [(round(t * 100), 100) for t in thetas]
    signs = [1 if 2 * T > D else -1 for T, D in ratios]
    heads = np.array([s * T for s, (T, _) in zip(signs, ratios, strict=True)])
    tails = np.array([s * (D - T) for s, (T, D) in zip(signs, ratios, strict=True)])
    scale = math.prod(abs(2 * T - D) for T, D in ratios)
    B = np.ones((1, 1))
    for t in thetas:
        B = np.kron(np.array([[t, t - 1], [t - 1, t]]) / (2 * t - 1), B)
    counts = generator.integers(0, 1_000, 1 << len(thetas))
    expected = scale * B @ counts
    butterfly(counts, heads, tails)
    np.testing.assert_allclose(counts, expected, rtol=1e-12)
    assert counts.sum() == round(expected.sum())


def test_spread_reaches_each_cell_of_the_orbits_once():
    """Signed counts by cell equal inverting the table of reports by hand, cell by cell."""
    generator = np.random.default_rng(3)
    patterns = np.array([0b0000, 0b0110, 0b1010, 0b0011, 0b1001])
    masks, theta = np.array([0b0101, 0b1010]), 0.7
    counts = generator.integers(0, 50, (5, 4))
    counts[1] = 0
    T, D = 7, 10
    heads, tails = np.full(2, T), np.full(2, D - T)
    bits, signed, raw = (np.empty(20, np.int64) for _ in range(3))
    front, back = spread(counts, patterns, masks, heads, tails, bits, signed, raw)
    cells = {}
    for place in [*range(front), *range(back, 20)]:
        cell = int(bits[place] << 1 | (place >= back))
        cells[cell] = cells.get(cell, 0) + int(signed[place])
    reported = np.zeros(16)
    for (p, s), n in np.ndenumerate(counts):
        flip = (masks[0] if s & 1 else 0) ^ (masks[1] if s & 2 else 0)
        reported[patterns[p] ^ flip] += n
    for x in range(16):
        expected = 0.0
        for flips in product((0, 1), repeat=2):
            y = x ^ (masks[0] * flips[0]) ^ (masks[1] * flips[1])
            expected += math.prod((theta, theta - 1)[f] for f in flips) * reported[y]
        assert cells.get(x, 0) == pytest.approx(100 * expected)


def setting_of(records: Records, target: str, design, seed: int, redrawn: bool = False) -> Setting:
    sample = Sample.draw(records, target, 0.8, 1 << 63 | seed, redrawn, seed)
    return Setting(sample, design, {"learner": "id3"}, seed, 1 << 63 | 17 * seed)


def plain_nodes(setting: Setting, repeat: int, scale: int) -> set[tuple[int, ...]]:
    """Nodes of ID3 on the training reports, as rows of the compiled tree."""
    sample = setting.sample
    design = setting.design_for(repeat)
    reports = design.disguise(sample.records, setting.stream(repeat, DISGUISE))
    train, _ = sample.parts(setting.seed, repeat)
    tree = ID3(design, sample.target).fit(reports.take(train)).tree_
    names = tree.codebook.names
    bits = {names.index(n): i for i, n in enumerate(n for n in names if n != sample.target)}
    rows = set()
    for node in range(len(tree)):
        path = tree.conditions(node)
        used = sum(1 << bits[column] for column in path)
        values = sum(code << bits[column] for column, code in path.items())
        split = int(tree.attribute[node])
        counts = [round(float(c) * scale) for c in tree.counts[node]]
        row = (used, values, bits.get(split, -1), int(tree.label[node]), *counts)
        rows.add(row)
    assert len(rows) == len(tree)
    return rows


def assert_same_tree(setting: Setting, repeat: int) -> None:
    assert BinaryID3.serves(setting)
    engine = BinaryID3(setting)
    nodes = engine.tree(repeat)
    rows = {tuple(int(v) for v in row) for row in nodes}
    assert len(rows) == len(nodes)
    assert rows == plain_nodes(setting, repeat, engine._coins[-1])


def random_case(i: int) -> Setting:
    """Random records with structure, a random design, a random split."""
    generator = np.random.default_rng(1_000 + i)
    n, width = int(generator.integers(20, 200)), int(generator.integers(2, 8))
    codes = (generator.random((n, width)) < generator.random(width)).astype(np.uint8)
    codes[:, 0] ^= codes[:, -1] & (generator.random(n) < 0.7)
    names = [f"a{j}" for j in range(width)]
    book = pp.Codebook(tuple(pp.Attribute(name, ("0", "1")) for name in names))
    target = names[int(generator.integers(width))]
    groups = int(generator.integers(1, min(4, width) + 1))
    theta = float(generator.choice(THETAS))
    kind = int(generator.integers(4))
    design: object
    if kind < 2:
        design = RandomGroups(names, groups, theta, ("redrawn", "fixed")[kind])
    elif kind == 2:
        some = [name for name in names if generator.random() < 0.7] or names[:1]
        thetas = [float(generator.choice(THETAS)) for _ in some]
        design = pp.Product([pp.Warner(n, t) for n, t in zip(some, thetas, strict=True)][:4])
        design = pp.MultiGroup([[b.attributes[0]] for b in design.blocks], thetas[:4])
    else:
        design = pp.Identity(names, [2] * width)
    return setting_of(Records(codes, book), target, design, i, bool(generator.integers(2)))


@pytest.mark.parametrize("part", range(10))
def test_trees_are_those_of_the_plain_path_node_for_node(part):
    """1,000 random cases: groups dealt afresh or once, partial disguise, unequal thetas, none."""
    for i in range(100 * part, 100 * part + 100):
        assert_same_tree(random_case(i), i % 5)


@pytest.fixture(scope="module")
def real() -> dict[str, Records]:
    found = {}
    for name, n in SETS.items():
        frame = pp.datasets.load(name).iloc[:n]
        book = pp.Codebook.from_toml(pp.resources.codebook_path(name))
        found[name] = book.binarise(frame, "midrange").encode(frame)
    return found


@pytest.mark.parametrize("name", list(SETS))
@pytest.mark.parametrize("groups", [1, 2, 3])
def test_trees_on_the_real_sets_at_every_theta(real, name, groups):
    records = real[name]
    assert records.codebook.target is not None
    for i, theta in enumerate(THETAS):
        design = RandomGroups(records.codebook.names, groups, theta, "redrawn")
        assert_same_tree(setting_of(records, records.codebook.target, design, 3), i)


@pytest.mark.parametrize("redrawn", [False, True])
@pytest.mark.parametrize(("theta", "groups"), [(0.8, 3), (0.45, 2), (0, 3), (1, 1)])
def test_results_are_those_of_the_plain_path_repeat_by_repeat(real, theta, groups, redrawn):
    for name in ("breast-cancer", "votes"):
        records = real[name]
        design = RandomGroups(records.codebook.names, groups, theta, "redrawn")
        setting = setting_of(records, records.codebook.target, design, 5, redrawn)
        fast, plain = BinaryID3(setting).run(2, 6), PlainEngine(setting).run(2, 6)
        assert set(fast) == set(plain)
        for key in set(plain) - {"accuracy_disguised"}:
            np.testing.assert_array_equal(fast[key], plain[key])
        np.testing.assert_allclose(
            fast["accuracy_disguised"], plain["accuracy_disguised"], rtol=1e-9
        )


def test_records_over_a_border_of_logical_blocks(real):
    """70,000 records: the second block of coins is keyed afresh."""
    records = real["breast-cancer"]
    many = Records(np.tile(records.codes, (101, 1)), records.codebook)
    assert len(many) > 65_536
    design = RandomGroups(many.codebook.names, 2, 0.8, "redrawn")
    assert_same_tree(setting_of(many, "class", design, 8), 0)


@pytest.mark.parametrize("groups", [1, 2, 3])
def test_certain_coins_give_the_undisguised_tree(real, groups):
    """theta = 1 and 0 are exactly ID3 on the truth, repeat by repeat."""
    for name in ("breast-cancer", "votes"):
        records = real[name]
        names, target = records.codebook.names, records.codebook.target
        truth = setting_of(records, target, pp.Identity(names, [2] * len(names)), 9)
        expected = BinaryID3(truth).run(0, 5)
        for theta in (0, 1):
            design = RandomGroups(names, groups, theta, "redrawn")
            found = BinaryID3(setting_of(records, target, design, 9)).run(0, 5)
            np.testing.assert_array_equal(found["correct"], expected["correct"])
            np.testing.assert_array_equal(found["nodes"], expected["nodes"])
            np.testing.assert_allclose(
                found["accuracy_disguised"], expected["accuracy_disguised"], rtol=1e-12
            )


def test_what_the_engine_leaves_to_the_plain_path(real):
    records = real["votes"]
    names = records.codebook.names
    many = pp.MultiGroup.by_attribute(names, 0.8)
    assert not BinaryID3.serves(setting_of(records, "party", many, 1))
    # 0.1234567 in seven groups of ten million each leaves 64 bits.
    wide = RandomGroups(names, 3, 0.1234567891, "redrawn")
    assert not BinaryID3.serves(setting_of(records, "party", wide, 1))
    setting = setting_of(records, "party", RandomGroups(names, 2, 0.8, "redrawn"), 1)
    deep = Setting(
        setting.sample, setting.design, {"learner": "id3", "max_depth": 3}, 1, setting.key
    )
    assert not BinaryID3.serves(deep)
