"""Compiled disguises of blocks equal their plain statements; any part gets what the whole gets."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

import ppdm_dask as pp
from ppdm_dask.designs import SubsetSelection, UnaryEncoding
from ppdm_dask.designs.draws import all_thresholds, thresholds
from ppdm_dask.designs.sets import CHUNK, unpack
from ppdm_dask.errors import InputError
from ppdm_dask.kernels.disguise import (
    draw_reports,
    draw_reports_plain,
    keep_or_draw,
    keep_or_draw_plain,
    keep_or_step,
    keep_or_step_plain,
    put_truth,
    put_truth_plain,
    sum_by_code,
    sum_by_code_plain,
)
from ppdm_dask.kernels.planes import bernoulli_plane_plain
from ppdm_dask.randomness import LOGICAL_BLOCK, KeyedStream, binary_digits, unpack_plane

EDGES = [0, 1, 3, 4, (1 << 63) - 1, 1 << 63, (1 << 64) - 4, (1 << 64) - 1]


def words_and_laws(seed: int, k: int, n: int = 200) -> tuple[np.ndarray, np.ndarray]:
    """Words with extreme ones among them, and laws with symbols that never occur."""
    rng = np.random.default_rng(seed)
    words = rng.integers(0, 1 << 64, n, np.uint64, endpoint=False) if n else np.zeros(0, np.uint64)
    words[: len(EDGES)] = EDGES
    laws = rng.random((k, 5)) * (rng.random((k, 5)) < 0.7)
    laws[rng.integers(k, size=5), np.arange(5)] += 0.1
    return words, laws / laws.sum(axis=0)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([2, 3, 16, 17, 18, 40, 301]))
def test_laws_are_drawn_as_the_plain_statement_does(seed: int, k: int) -> None:
    words, laws = words_and_laws(seed, k)
    rng = np.random.default_rng(seed + 1)
    cuts, last = all_thresholds(laws)
    # A word at a cut, and the one before it, decide differently.
    words[50:55] = cuts[:, 0] << np.uint64(2)
    words[55:60] = (cuts[:, 0] << np.uint64(2)) - np.uint64(1)
    true = rng.integers(5, size=len(words))
    out, plain = np.empty((2, len(words)), np.int64)
    draw_reports(true, words, cuts, last, out)
    draw_reports_plain(true, words, cuts, last, plain)
    np.testing.assert_array_equal(out, plain)
    assert (laws[out, true] > 0).all()

    plane = rng.integers(0, 1 << 63, 8, np.uint64)
    codes = rng.integers(k, size=len(words)).astype(np.uint16)
    cut, most = thresholds(laws[:, 0])
    kept, same = np.empty_like(codes), np.empty_like(codes)
    keep_or_draw(codes, plane, 77, words, cut, most, kept)
    keep_or_draw_plain(codes, plane, 77, words, cut, most, same)
    np.testing.assert_array_equal(kept, same)
    keep_or_step(codes, plane, 77, words, k, kept)
    keep_or_step_plain(codes, plane, 77, words, k, same)
    np.testing.assert_array_equal(kept, same)
    stays = unpack_plane(plane, 77, 77 + len(codes))
    np.testing.assert_array_equal(kept == codes, stays)


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 2**32),
    st.sampled_from([2, 7, 8, 9, 16, 57, 63, 64, 65, 100, 130]),
    st.booleans(),
    st.sampled_from([0, 1, 63, 64, 77]),
)
def test_truths_are_put_into_sets_as_the_plain_statement_does(
    seed: int, k: int, tight: bool, start: int
) -> None:
    rng, n = np.random.default_rng(seed), 50
    stride = k if tight else -(-k // 64) * 64
    plane = rng.integers(0, 1 << 64, -(-(start + n) * stride // 64), np.uint64, endpoint=False)
    coin = rng.integers(0, 1 << 63, 3, np.uint64)
    true = rng.integers(k, size=n)
    found, plain = np.full((2, n, -(-k // 8)), 255, np.uint8)
    put_truth(plane, coin, start, stride, true, k, found)
    put_truth_plain(plane, coin, start, stride, true, k, plain)
    np.testing.assert_array_equal(found, plain)
    # Bit by bit, as the docstring says it; nothing is set beyond the last category.
    bits = [int(word) for word in plane]
    for i in (0, 1, n - 1):
        at = (start + i) * stride
        said = [bits[(at + v) >> 6] >> ((at + v) & 63) & 1 for v in range(k)]
        said[true[i]] = int(coin[(start + i) >> 6]) >> ((start + i) & 63) & 1
        whole = np.unpackbits(found[i], bitorder="little").tolist()
        assert whole == said + [0] * (len(whole) - k)


@pytest.mark.parametrize("kind", [np.int8, np.int16, np.int64])
def test_words_are_summed_by_code_as_the_plain_statement_does(kind: type) -> None:
    words, _ = words_and_laws(3, 2)
    codes = np.random.default_rng(4).integers(-1, 5, len(words)).astype(kind)
    found = [(np.zeros(6, np.uint64), np.zeros(6, np.int64)) for _ in range(2)]
    sum_by_code(codes, words, *found[0])
    sum_by_code_plain(codes, words, *found[1])
    np.testing.assert_array_equal(found[0][0], found[1][0])
    np.testing.assert_array_equal(found[0][1], np.bincount(codes.astype(int) + 1, minlength=6))
    np.testing.assert_array_equal(found[0][1], found[1][1])


@pytest.mark.parametrize("start", [0, 1, 7, 8, 9, 640, 65_535])
def test_a_keyed_source_passes_over_words_without_drawing_them(start: int) -> None:
    stream = KeyedStream(bytes(32), (3,))
    whole = stream.source(1).words(start + 100)
    np.testing.assert_array_equal(stream.source(1).words(100, start), whole[start:])
    source = stream.source(1)
    np.testing.assert_array_equal(source.words(100, start), whole[start:])
    simulated = pp.Stream.from_seed(5)
    drawn = simulated.source(2).words(start + 100)
    np.testing.assert_array_equal(simulated.source(2).words(100, start), drawn[start:])


def test_words_are_the_key_stream_of_chacha20() -> None:
    """RFC 8439, appendix A.1, vectors 1 and 2: key 0, nonce 0, blocks 0 and 1."""
    from ppdm_dask.randomness import _chacha20

    block_0 = "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"
    block_1 = "9f07e7be5551387a98ba977c732d080dcb0f29a048e3656912c6533e32ee7aed"
    words = _chacha20(bytes(32)).words(12)
    assert words.astype("<u8").tobytes()[:32].hex() == block_0
    assert words.astype("<u8").tobytes()[64:96].hex() == block_1
    assert _chacha20(bytes(32)).words(4, 8).astype("<u8").tobytes().hex() == block_1
    long = _chacha20(bytes(32)).words(300_000)  # more than is encrypted at once
    np.testing.assert_array_equal(_chacha20(bytes(32)).words(5, 299_990), long[299_990:299_995])


DESIGN = pp.Product(
    [
        pp.Warner("a", 0.8),
        pp.KaryResponse("b", 5, epsilon=1.0),
        pp.UnrelatedQuestion(
            ["c", "d"], 0.5, [{"c0": 0.5, "c1": 0.5}, {"d0": 0.2, "d1": 0.3, "d2": 0.5}]
        ),
        pp.RRMatrix(["e", "f"], np.full((6, 6), 0.06) + 0.64 * np.eye(6), [2, 3]),
        SubsetSelection("g", 9, epsilon=1.0),
    ]
)


def records(n: int, offset: int) -> pp.Records:
    book = pp.Codebook(
        tuple(
            pp.Attribute(name, tuple(f"{name}{v}" for v in range(k)))
            for name, k in zip(DESIGN.attributes, DESIGN.shape, strict=True)
        )
    )
    rng = np.random.default_rng(1)
    codes = np.stack([rng.integers(k, size=150_000) for k in DESIGN.shape], axis=1)
    return pp.Records(codes[offset : offset + n], book, offset)


@pytest.mark.parametrize("stream", [pp.Stream.from_seed(2), KeyedStream(bytes(32))])
def test_any_part_gets_the_reports_of_the_whole(stream: pp.Stream) -> None:
    """A real disguise in tasks too: what is computed again gives the same reports."""
    whole = DESIGN.disguise(records(150_000, 0), stream)
    assert (whole.codes != records(150_000, 0).codes).any(axis=0).all()
    for low, n in ((0, 10), (63, 200), (LOGICAL_BLOCK - 5, 70_000), (149_999, 1)):
        part = DESIGN.disguise(records(n, low), stream)
        np.testing.assert_array_equal(part.codes, whole.codes[low : low + n])
        np.testing.assert_array_equal(part.sets["g"], whole.sets["g"][low : low + n])


def test_a_real_disguise_follows_its_law_wherever_a_block_begins() -> None:
    """Draws of records before are not made: each part has its own, and they keep their law."""
    design, n = pp.KaryResponse("b", 5, p=0.6), 40_000
    found = []
    for low in (0, 20_000, LOGICAL_BLOCK + 11):
        part = records(n, low).select(["b"])
        reports = design.disguise(part, pp.Stream.from_entropy())
        steps = (reports.codes[:, 0].astype(int) - part.codes[:, 0]) % 5
        found.append(np.bincount(steps, minlength=5))
    assert chisquare(np.sum(found, 0), 3 * n * np.array([0.6, 0.1, 0.1, 0.1, 0.1])).pvalue > 1e-9
    once = design.disguise(part, pp.Stream.from_entropy())
    assert (once.codes != reports.codes).any()


@pytest.mark.parametrize("k", [4, 70])
def test_unary_reports_of_a_real_disguise_follow_their_law_in_each_category(k: int) -> None:
    """Their draws are packed closely, unlike those of a simulation, and have the same law."""
    design = UnaryEncoding("a", k, 0.7, 0.2)
    book = pp.Codebook((pp.Attribute("a", tuple(map(str, range(k)))),))
    n = 20 * CHUNK + 5
    truth = np.random.default_rng(1).integers(k, size=n)
    made = [
        unpack(design.disguise(pp.Records(truth[:, None], book), stream).sets["a"], k)
        for stream in (pp.Stream.from_entropy(), pp.Stream.from_entropy(), pp.Stream.from_seed(1))
    ]
    assert (made[0] != made[1]).any()
    own = np.arange(k) == truth[:, None]
    for bits in made:
        for p, some in ((0.7, bits[own]), (0.2, bits[~own])):
            assert abs(some.mean() - p) < 6 * np.sqrt(p * (1 - p) / some.size)
        # Categories, and neighbours, are independent.
        expected = 0.7 * own.sum(0) + 0.2 * (~own).sum(0)
        spread = np.sqrt(0.21 * own.sum(0) + 0.16 * (~own).sum(0))
        assert (abs(bits.sum(0) - expected) < 6 * spread).all()
        both = (bits[:, 1:] & bits[:, :-1])[~(own[:, 1:] | own[:, :-1])]
        assert abs(both.mean() - 0.04) < 6 * np.sqrt(0.04 / both.size)


def test_a_source_of_a_simulation_serves_one_list() -> None:
    source = pp.Stream.from_seed(1).source(3)
    plane = source.bernoulli(Fraction(1, 3), 128)
    with pytest.raises(InputError, match="serves one list"):
        source.bernoulli(Fraction(1, 3), 128)
    with pytest.raises(InputError, match="serves one list"):
        source.words(1)
    # The same plane from NumPy's words, bit by bit.
    words = pp.Stream.from_seed(1).source(3).words(80).tolist()
    plain = bernoulli_plane_plain(words, binary_digits(Fraction(1, 3)).tolist(), 2)
    assert unpack_plane(plane, 0, 128).tolist() == plain[0] + plain[1]
