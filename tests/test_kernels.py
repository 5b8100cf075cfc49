"""Compiled kernels against NumPy and plain Python, and the fast engine against the plain path."""

from __future__ import annotations

import itertools
from fractions import Fraction
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit
from scipy.stats import chi2
from strategies import SEEDS, identity_of, make_codebook, random_records

from ppdm_dask import (
    Codebook,
    Identity,
    KaryResponse,
    Product,
    Records,
    UnrelatedQuestion,
    Warner,
    count,
    datasets,
)
from ppdm_dask.experiments.samples import Sample, draw_test
from ppdm_dask.experiments.sweep.engines import BinaryNaiveBayes
from ppdm_dask.experiments.sweep.plan import choose_engine
from ppdm_dask.experiments.sweep.trials import DISGUISE, DTYPES, PlainEngine, Setting
from ppdm_dask.kernels.draws import absorb, choose, extend, seed_words, sfc64_fill, sfc64_start
from ppdm_dask.kernels.planes import bernoulli_plane, bernoulli_plane_plain, pack_plane, popcount
from ppdm_dask.randomness import LOGICAL_BLOCK, SimulationStream, binary_digits, unpack_plane
from ppdm_dask.resources import codebook_path

# -- where machine code is kept --------------------------------------------------------------------


def test_machine_code_is_keyed_by_the_sources_wherever_it_is(tmp_path, monkeypatch):
    import ppdm_dask.kernels as kernels

    beside = Path(kernels._cache_dir.__wrapped__(str(tmp_path)))
    assert beside.parent == Path(kernels.__file__).parent / "__pycache__"
    # A read-only package, as root sees none: no folder can be made beside the sources.
    made = Path.mkdir

    def mkdir(self, *arguments, **options):
        if self == beside:
            raise PermissionError("read-only")
        made(self, *arguments, **options)

    monkeypatch.setattr(Path, "mkdir", mkdir)
    assert Path(kernels._cache_dir.__wrapped__(str(tmp_path))) == tmp_path / beside.name
    # The user's folder for caches is the last resort.
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))
    assert Path(kernels._cache_dir.__wrapped__("")).parent == tmp_path / "user" / "ppdm_dask"
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert kernels._cache_dir.__wrapped__("") == ""


# -- seeding and drawing ---------------------------------------------------------------------------


def drawn(words, n):
    pool, state, out = np.empty(4, np.uint64), np.empty(4, np.uint64), np.empty(n, np.uint64)
    absorb(words, pool)
    sfc64_start(pool, state)
    sfc64_fill(state, out, 0)
    return out.tolist()


@settings(max_examples=200)
@given(st.integers(0, 2**300), st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=5))
def test_words_are_numpys(seed, key):
    expected = np.random.SFC64(np.random.SeedSequence(seed, spawn_key=key)).random_raw(7)
    assert drawn(seed_words(seed, tuple(key)), 7) == expected.tolist()


@settings(max_examples=50)
@given(st.integers(0, 2**64), st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=3), SEEDS)
def test_a_key_can_be_extended_by_a_word(seed, key, role):
    pool, state, out = np.empty(4, np.uint64), np.empty(4, np.uint64), np.empty(3, np.uint64)
    constant = absorb(seed_words(seed, tuple(key)), pool)
    extend(pool, constant, np.uint64(role))
    sfc64_start(pool, state)
    sfc64_fill(state, out, 0)
    assert out.tolist() == drawn(seed_words(seed, (*key, role)), 3)


def test_a_generator_goes_on_where_it_stopped():
    pool, state = np.empty(4, np.uint64), np.empty(4, np.uint64)
    absorb(seed_words(5, (1, 2)), pool)
    sfc64_start(pool, state)
    out = np.zeros(10, np.uint64)
    sfc64_fill(state, out[:4], 0)
    rest = np.zeros(10, np.uint64)
    sfc64_fill(state, rest, 4)
    assert rest[:4].tolist() == [0] * 4
    assert out[:4].tolist() + rest[4:].tolist() == drawn(seed_words(5, (1, 2)), 10)


@settings(max_examples=100)
@given(st.fractions(0, 1, max_denominator=10**6).filter(lambda p: p < 1), SEEDS, st.integers(0, 4))
def test_bernoulli_plane_equals_its_plain_statement(p, seed, n_words):
    digits = binary_digits(p)
    words = np.random.default_rng(seed).integers(2**64, size=300 * n_words, dtype=np.uint64)
    out = np.full(n_words, 7, np.uint64)
    used = bernoulli_plane(words, digits, out)
    plain = bernoulli_plane_plain(words.tolist(), digits.tolist(), n_words)
    bits = list(itertools.chain.from_iterable(plain))
    assert unpack_plane(out, 0, 64 * n_words).tolist() == bits
    # A lane is below p as its own uniform is, read to the digit where they differ.
    if used:
        assert bernoulli_plane(words[: used - 1], digits, out) == -1
    assert bernoulli_plane(words[:used], digits, out) == used


@given(st.lists(st.booleans(), max_size=200))
def test_pack_and_unpack(bits):
    plane = pack_plane(np.array(bits, bool))
    assert len(plane) == -(-len(bits) // 64)
    assert unpack_plane(plane, 0, len(bits)).tolist() == bits
    assert sum(int(word) << (64 * i) for i, word in enumerate(plane)) == sum(
        bit << i for i, bit in enumerate(bits)
    )


@njit
def _popcounts(words):
    return np.array([popcount(word) for word in words])


@given(st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=20))
def test_popcount(words):
    assert _popcounts(np.array(words, np.uint64)).tolist() == [word.bit_count() for word in words]


# -- the test part of a split ----------------------------------------------------------------------


def plain_choose(n, words):
    """Fisher-Yates from the front, in whole numbers of Python."""
    order = list(range(n))
    for i, word in enumerate(words):
        j = i + (word * (n - i) >> 64)
        order[i], order[j] = order[j], order[i]
    return order


@given(st.integers(1, 300), st.data())
def test_choose_equals_a_plain_shuffle(n, data):
    m = data.draw(st.integers(0, n))
    words = data.draw(st.lists(st.integers(0, 2**64 - 1), min_size=m, max_size=m))
    order = np.empty(n, np.int64)
    choose(n, np.array(words, np.uint64), order)
    assert order.tolist() == plain_choose(n, words)
    assert sorted(order.tolist()) == list(range(n))


def test_choose_at_the_ends_of_its_words():
    order = np.empty(5, np.int64)
    choose(5, np.full(5, 2**64 - 1, np.uint64), order)
    assert order.tolist() == plain_choose(5, [2**64 - 1] * 5)
    choose(5, np.zeros(5, np.uint64), order)
    assert order.tolist() == [0, 1, 2, 3, 4]


def test_choose_draws_every_subset_alike():
    """All 15 pairs of 6 records, 30,000 splits; fails by chance with probability 1e-9."""
    n = 30_000
    tally = dict.fromkeys(itertools.combinations(range(6), 2), 0)
    for i in range(n):
        pair = draw_test(6, 2, SimulationStream(1, (i,)))
        tally[tuple(sorted(pair.tolist()))] += 1
    statistic = sum((k - n / 15) ** 2 / (n / 15) for k in tally.values())
    assert chi2.sf(statistic, 14) > 1e-9


# -- the fast engine -------------------------------------------------------------------------------


@cache
def whole(name: str, rule: str) -> Records:
    frame = datasets.load(name)
    book = Codebook.from_toml(codebook_path(name)).binarise(frame, rule)
    return book.encode(frame)


def make_setting(records, design, split="fixed", seed=20_040_101, floor="1/n", train=0.8):
    target = records.codebook.target
    sample = Sample.draw(records, target, train, 2**63 + 11, split == "redrawn", seed)
    mine = {"learner": "naive-bayes", "floor": floor}
    return Setting(sample, design, mine, seed, 2**63 + 12_345)


def assert_engines_agree(setting, start, stop):
    assert BinaryNaiveBayes.serves(setting)
    fast, plain = BinaryNaiveBayes(setting).run(start, stop), PlainEngine(setting).run(start, stop)
    assert set(fast) == set(plain) >= {"correct", "correct_disguised", "accuracy_disguised"}
    for name in fast:
        assert fast[name].dtype == plain[name].dtype == DTYPES[name]
        if DTYPES[name].kind == "i":
            np.testing.assert_array_equal(fast[name], plain[name], err_msg=name)
        else:
            np.testing.assert_allclose(fast[name], plain[name], rtol=0, atol=1e-12)
    return fast


def biased(codebook):
    """A probability of its own for each attribute, one of them fair, in any order."""
    return [(0.1, 0.5, 0.25, 0.7, 0.9)[i % 5] for i in range(len(codebook.names))]


@pytest.mark.parametrize("split", ["fixed", "redrawn"])
@pytest.mark.parametrize("personal", ["fair", "biased"])
@pytest.mark.parametrize("q", [0.05, 0.3, 1])
def test_engines_agree_on_breast_cancer(q, personal, split):
    records = whole("breast-cancer", "midrange")
    book = records.codebook
    design = UnrelatedQuestion(book.names, q, 0.5 if personal == "fair" else biased(book))
    results = assert_engines_agree(make_setting(records, design, split), 3, 15)
    assert q < 1 or split == "redrawn" or set(results["correct"]) == {results["correct"][0]}


@pytest.mark.parametrize("split", ["fixed", "redrawn"])
@pytest.mark.parametrize(("q", "personal"), [(0.05, 0.5), (0.3, None), (1, 0.5)])
def test_engines_agree_on_adult(q, personal, split):
    records = whole("adult", "median").slice(0, 3_000)
    book = records.codebook
    design = UnrelatedQuestion(book.names, q, biased(book) if personal is None else personal)
    assert_engines_agree(make_setting(records, design, split), 0, 2)


@pytest.mark.parametrize("floor", [1e-6, 1e-3, 0.2, "1/n"])
def test_engines_agree_on_floors(floor):
    records = whole("breast-cancer", "midrange")
    design = UnrelatedQuestion(records.codebook.names, 0.1)
    results = assert_engines_agree(make_setting(records, design, floor=floor), 0, 8)
    assert results["floored"].any()


def test_engines_agree_on_undisguised_records():
    records = whole("breast-cancer", "midrange")
    assert_engines_agree(make_setting(records, identity_of(records.codebook), "redrawn"), 0, 6)


@pytest.mark.parametrize("split", ["fixed", "redrawn"])
def test_engines_agree_across_a_logical_block(split):
    """Over 65,536 records, so that two keyed blocks are drawn."""
    records = whole("breast-cancer", "midrange")
    rows = np.arange(LOGICAL_BLOCK + 700) % len(records)
    tiled = records.take(np.random.default_rng(1).permutation(rows))
    book = records.codebook
    design = UnrelatedQuestion(book.names, 0.3, [0.5, 0.2, *[0.5] * (len(book.names) - 2)])
    assert_engines_agree(make_setting(tiled, design, split), 0, 1)


@settings(max_examples=40)
@given(
    n=st.integers(4, 140),
    d=st.integers(2, 18),
    q=st.sampled_from([0.05, 0.1, 0.2, 0.5, 0.9, 1.0]),
    personal=st.sampled_from([0.5, 0.2, None]),
    floor=st.sampled_from(["1/n", 0.01]),
    split=st.sampled_from(["fixed", "redrawn"]),
    seed=SEEDS,
)
def test_engines_agree_on_random_records(n, d, q, personal, floor, split, seed):
    """Small parts meet empty cells, ties, and estimates that equal the floor but for rounding."""
    names = [f"a{i}" for i in range(d)]
    book = make_codebook(names, [2] * d, target=names[seed % d])
    records = random_records(book, n, seed)
    law = [0.5 if i == seed % d and d > 12 else w for i, w in enumerate(biased(book))]
    design = UnrelatedQuestion(names, q, law if personal is None and d <= 12 else 0.5)
    assert_engines_agree(make_setting(records, design, split, seed, floor), 1, 4)


def test_attributes_of_the_design_in_another_order():
    records = whole("breast-cancer", "midrange")
    names = sorted(records.codebook.names)
    assert names != list(records.codebook.names)
    design = UnrelatedQuestion(names, 0.4, biased(records.codebook))
    assert_engines_agree(make_setting(records, design), 0, 4)


def test_batches_do_not_matter():
    records = whole("breast-cancer", "midrange")
    setting = make_setting(records, UnrelatedQuestion(records.codebook.names, 0.3), "redrawn")
    all_at_once = BinaryNaiveBayes(setting).run(0, 20)
    one_by_one = [BinaryNaiveBayes(setting).run(i, i + 1) for i in reversed(range(20))][::-1]
    for name in all_at_once:
        together = np.concatenate([row[name] for row in one_by_one])
        np.testing.assert_array_equal(all_at_once[name], together)


@pytest.mark.parametrize("split", ["fixed", "redrawn"])
@pytest.mark.parametrize("q", [0.2, 1])
def test_pair_tables_are_the_counts_of_the_reports(q, split):
    records = whole("breast-cancer", "midrange")
    book = records.codebook
    setting = make_setting(records, UnrelatedQuestion(book.names, q, biased(book)), split)
    engine = BinaryNaiveBayes(setting)
    for repeat in (0, 7):
        train, _ = setting.sample.parts(setting.seed, repeat)
        stream = setting.stream(repeat, DISGUISE)
        reports = setting.design.disguise(setting.sample.records, stream).take(train)
        tables = engine.pair_tables(repeat)
        features = [name for name in book.names if name != book.target]
        assert [table.attributes for table in tables] == [(book.target, f) for f in features]
        for table, feature in zip(tables, features, strict=True):
            expected = count(reports, setting.design, (book.target, feature))
            np.testing.assert_array_equal(table.counts, expected.counts)
            assert table.codebook == expected.codebook
            assert (table.design_digest, table.simulated) == (setting.design.digest, True)


def test_which_cells_the_fast_engine_serves():
    names = [f"a{i}" for i in range(4)]
    book = make_codebook(names, [2] * 4, target="a0")
    records = random_records(book, 50, seed=1)

    def engine(design, of=records):
        return type(choose_engine(make_setting(of, design)))

    assert engine(UnrelatedQuestion(names, 0.5)) is BinaryNaiveBayes
    assert engine(UnrelatedQuestion(names, 0.5, [0.5, 0.2, 0.3, 0.9])) is BinaryNaiveBayes
    assert engine(identity_of(book)) is BinaryNaiveBayes
    plain = [
        UnrelatedQuestion(names[:3], 0.5),  # an attribute is undisguised
        UnrelatedQuestion(names, 0.5, [0.5, 0.2, 0.3, 0.0]),  # an impossible personal answer
        Product([Warner(name, 0.8) for name in names]),  # a coin an attribute
        Identity(names[:3], [2] * 3),
    ]
    for design in plain:
        assert engine(design) is PlainEngine
    three = random_records(make_codebook(names, [2, 2, 2, 3], target="a0"), 50, seed=2)
    assert engine(KaryResponse("a3", 3, 0.5), three) is PlainEngine
    many = [f"a{i}" for i in range(20)]
    wide = random_records(make_codebook(many, [2] * 20, target="a0"), 50, seed=3)
    assert engine(UnrelatedQuestion(many, 0.5), wide) is BinaryNaiveBayes
    # With a biased class the personal records' accuracy would have 2**19 patterns.
    assert engine(UnrelatedQuestion(many, 0.5, [0.4] * 20), wide) is PlainEngine


def test_an_impossible_personal_answer_on_the_plain_path():
    names = ["a", "b", "c"]
    book = make_codebook(names, [2, 2, 2], target="a")
    design = UnrelatedQuestion(names, 0.5, [0.5, 0.0, 1.0])
    results = choose_engine(make_setting(random_records(book, 60, seed=4), design)).run(0, 3)
    assert np.isfinite(results["accuracy_disguised"]).all()


def test_digits_of_a_probability_reach_the_engine():
    """.8 is not .797: seven fixed bits would show in the share of true answers."""
    names = ["a", "b"]
    book = make_codebook(names, [2, 2], target="a")
    records = Records(np.ones((LOGICAL_BLOCK, 2), int), book)
    design = UnrelatedQuestion(names, 0.8, [0.001, 0.001])
    setting = make_setting(records, design, train=0.99)
    tables = [BinaryNaiveBayes(setting).pair_tables(repeat)[0] for repeat in range(60)]
    n = sum(table.n for table in tables)
    share = Fraction(int(sum(table.counts[1, 1] for table in tables)), n)
    # Five standard errors are .001; the truncated probability is .003 away.
    assert abs(float(share) - 0.8) < 5 * (0.8 * 0.2 / n) ** 0.5 + 1e-6
