"""Streams: keyed, order-free, exact probabilities, and real randomness where nothing is seeded."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, chi2

from ppdm_dask import InputError, Stream
from ppdm_dask.kernels.planes import bernoulli_plane_plain
from ppdm_dask.randomness import (
    CryptographicStream,
    SimulationStream,
    Source,
    binary_digits,
    exact,
    unpack_plane,
)

KEYS = st.lists(st.integers(0, 2**64 - 1), max_size=4)


def words_of(stream, *key, n=8):
    return stream.source(*key).words(n).tolist()


# -- keyed streams ---------------------------------------------------------------------------------


@given(st.integers(0, 2**200), KEYS, KEYS)
def test_a_source_is_numpys_generator_at_its_key(seed, key, more):
    sequence = np.random.SeedSequence(seed, spawn_key=(*key, *more))
    expected = np.random.SFC64(sequence).random_raw(5).tolist()
    assert words_of(Stream.from_seed(seed).child(*key), *more, n=5) == expected
    assert words_of(SimulationStream(seed, tuple(key)), *more, n=5) == expected


def test_sources_do_not_depend_on_what_was_drawn_before():
    stream = Stream.from_seed(1)
    fresh = words_of(stream, 3)
    stream.source(2).words(1_000)
    stream.child(3).source(0).words(1_000)
    assert words_of(stream, 3) == fresh
    assert words_of(stream.child(3)) == fresh  # a path is a path, however it is walked
    different = [
        fresh,
        words_of(stream, 2),
        words_of(stream, 3, 0),
        words_of(Stream.from_seed(2), 3),
    ]
    assert len({tuple(words) for words in different}) == 4


def test_sources_have_the_prefix_property():
    for probability in (Fraction(1, 2), Fraction(4, 5), Fraction(1, 1000), Fraction(1)):
        long = Stream.from_seed(4).source(5).bernoulli(probability, 10_000)
        for n in (0, 1, 63, 64, 65, 6_400):
            short = Stream.from_seed(4).source(5).bernoulli(probability, n)
            assert len(short) == -(-n // 64)
            np.testing.assert_array_equal(short, long[: len(short)])
    long = Stream.from_seed(6).source().below(17, 1_000)
    np.testing.assert_array_equal(Stream.from_seed(6).source().below(17, 10), long[:10])


@pytest.mark.parametrize("seed", [-1, -(2**70)])
def test_negative_seeds_are_refused(seed):
    with pytest.raises(InputError, match=f"^seed: got {seed}; a whole number of 0 or more"):
        Stream.from_seed(seed)


# -- probabilities ---------------------------------------------------------------------------------


def test_decimals_mean_what_a_person_means():
    assert exact(0.8) == Fraction(4, 5)
    assert exact(np.float64(0.1)) == Fraction(1, 10)
    assert exact("0.25") == Fraction(1, 4)
    assert exact(1e-05) == Fraction(1, 100_000)
    assert exact(1) == 1
    assert exact(Fraction(1, 3)) == Fraction(1, 3)


@given(st.fractions(0, 1).filter(lambda p: p < 1))
def test_binary_digits_are_the_probability(p):
    digits = binary_digits(p)
    value = sum(Fraction(int(d), 2 ** (i + 1)) for i, d in enumerate(digits))
    assert 0 <= p - value < Fraction(1, 2**256)
    assert len(digits) <= 256
    assert not len(digits) or digits[-1] == 1
    assert not digits.flags.writeable


@pytest.mark.parametrize("p", [Fraction(-1, 2), Fraction(1), Fraction(3, 2)])
def test_binary_digits_need_a_probability_below_one(p):
    with pytest.raises(InputError, match=r"it must be in \[0, 1\)"):
        binary_digits(p)


@given(st.fractions(0, 1, max_denominator=1000), st.integers(0, 130), st.integers(0, 1000))
def test_bernoulli_equals_its_plain_statement(p, n, seed):
    plane = Stream.from_seed(seed).source().bernoulli(p, n)
    n_words = -(-n // 64)
    got = unpack_plane(plane, 0, 64 * n_words).tolist()
    if p == 1:
        assert got == [True] * 64 * n_words
        return
    words = [int(word) for word in Stream.from_seed(seed).source().words(256 * n_words)]
    expected = bernoulli_plane_plain(words, binary_digits(p).tolist(), n_words)
    assert got == list(itertools.chain.from_iterable(expected))


def test_bernoulli_draws_more_words_when_they_run_out():
    """An adversarial source never decides a lane before the last digit."""
    p = Fraction(1, 3)
    digits = binary_digits(p)
    calls = []

    def draw(n):
        calls.append(n)
        done = sum(calls[:-1])
        wanted = [digits[(done + i) % len(digits)] for i in range(n)]
        return np.array([0xFFFFFFFFFFFFFFFF if d else 0 for d in wanted], np.uint64)

    plane = Source(draw).bernoulli(p, 640)
    assert len(calls) > 1
    assert not plane.any()  # each uniform agrees with p in all digits kept: it is not below


def test_probabilities_zero_and_one_are_certain():
    source = Stream.from_seed(0).source
    assert not source().bernoulli(Fraction(0), 1_000).any()
    assert (source().bernoulli(Fraction(1), 1_000) == np.uint64(0xFFFFFFFFFFFFFFFF)).all()
    for p in (Fraction(-1, 9), Fraction(10, 9)):
        with pytest.raises(InputError, match="a Fraction from 0 to 1"):
            source().bernoulli(p, 10)


FREQUENCIES = [Fraction(1, 2), Fraction(4, 5), Fraction(1, 3), Fraction(127, 10_000)]
LEVEL = 1e-6 / (len(FREQUENCIES) + 4)  # one budget for all statistical checks of this file


@pytest.mark.parametrize("p", FREQUENCIES)
def test_bernoulli_frequency(p):
    n = 4_000_000
    ones = int(np.bitwise_count(Stream.from_seed(7).source().bernoulli(p, n)).sum())
    tail = min(binom.cdf(ones, n, float(p)), binom.sf(ones - 1, n, float(p)))
    assert 2 * tail > LEVEL


def test_neighbouring_lanes_and_words_are_independent():
    bits = unpack_plane(Stream.from_seed(8).source().bernoulli(Fraction(4, 5), 1 << 20), 0, 1 << 20)
    for lag in (1, 64):
        pairs = np.bincount(2 * bits[:-lag] + bits[lag:], minlength=4)
        expected = len(bits[lag:]) * np.array([0.04, 0.16, 0.16, 0.64])
        # Overlapping pairs: the statistic is a little wider than chi-square on 3; 9 bounds it.
        assert chi2.sf(((pairs - expected) ** 2 / expected).sum() / 2, 3) > LEVEL


@pytest.mark.parametrize("m", [1, 2, 7, 1_000, 2**32 - 1])
def test_below_is_the_scaled_word(m):
    words = [int(word) for word in Stream.from_seed(9).source().words(500)]
    drawn = Stream.from_seed(9).source().below(m, 500)
    assert drawn.tolist() == [word * m >> 64 for word in words]
    assert drawn.min() >= 0
    assert drawn.max() < m


def test_below_is_uniform():
    counts = np.bincount(Stream.from_seed(10).source().below(7, 700_000), minlength=7)
    assert chi2.sf(((counts - 100_000) ** 2 / 100_000).sum(), 6) > LEVEL


@pytest.mark.parametrize("m", [0, -3, 1 << 32])
def test_below_refuses_what_it_cannot_draw(m):
    with pytest.raises(InputError, match=f"^m: got {m}; a whole number from 1 to {2**32 - 1}"):
        Stream.from_seed(0).source().below(m, 1)


def test_unpack_plane_reads_bit_i_of_word_j():
    plane = np.array([0b1011, 1 << 63], np.uint64)
    assert unpack_plane(plane, 0, 5).tolist() == [True, True, False, True, False]
    assert unpack_plane(plane, 126, 128).tolist() == [False, True]
    assert unpack_plane(plane, 4, 127).sum() == 0


# -- real randomness -------------------------------------------------------------------------------


def test_cryptographic_sources_never_repeat():
    stream = Stream.from_entropy()
    assert isinstance(stream, CryptographicStream)
    assert not stream.simulated
    assert Stream.from_seed(0).simulated
    seen = {
        tuple(words_of(s, *key))
        for s in (stream, Stream.from_entropy())
        for key in ((), (1,), (1,))
    }
    assert len(seen) == 6
    source = stream.child(4).source()
    assert source.words(8).tolist() != source.words(8).tolist()


def test_cryptographic_words_are_uniform():
    words = Stream.from_entropy().source().words(1 << 16)
    assert words.dtype == np.uint64
    ones = np.array([int(((words >> np.uint64(b)) & np.uint64(1)).sum()) for b in range(64)])
    assert chi2.sf(((ones - (1 << 15)) ** 2 / (1 << 14)).sum(), 64) > LEVEL


def test_cryptographic_stream_holds_no_key():
    stream = Stream.from_entropy()
    stream.source().words(4)
    assert not vars(stream)
    assert math.isclose(stream.source().bernoulli(Fraction(1), 64)[0], 2**64)
