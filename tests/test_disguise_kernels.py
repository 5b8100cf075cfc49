"""Compiled disguises of blocks equal their plain statements; any part gets what the whole gets."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

import ppdm_dask as pp
from ppdm_dask.designs import SubsetSelection
from ppdm_dask.designs.base import all_thresholds, thresholds
from ppdm_dask.kernels.disguise import (
    draw_reports,
    draw_reports_plain,
    keep_or_draw,
    keep_or_draw_plain,
    keep_or_step,
    keep_or_step_plain,
    sum_by_code,
    sum_by_code_plain,
)
from ppdm_dask.randomness import LOGICAL_BLOCK, KeyedStream, unpack_plane

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
