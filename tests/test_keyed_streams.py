"""Draws of a real disguise that a repeated task repeats, and that nobody else can."""

from __future__ import annotations

import pickle

import dask
import numpy as np
import pandas as pd
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand
from hypothesis import given, settings
from hypothesis import strategies as st

import ppdm_dask as pp
from ppdm_dask.cluster import partitions as tree
from ppdm_dask.cluster.partitions import Partition, disguise_and_count
from ppdm_dask.errors import InputError
from ppdm_dask.randomness import KeyedStream

BOOK = pp.Codebook((pp.Attribute("smokes", ("no", "yes")),))
DESIGN = pp.Warner("smokes", 0.75)
N = 500
PATHS = st.lists(st.integers(0, 2**70), max_size=4).map(tuple)


@settings(max_examples=30, deadline=None)
@given(st.binary(min_size=32, max_size=32), PATHS)
def test_a_source_is_chacha20_under_hkdf(secret: bytes, path: tuple[int, ...]) -> None:
    info = b"ppdm_dask stream " + "/".join(map(str, path)).encode()
    key = HKDFExpand(SHA256(), 32, info).derive(secret)
    cipher = Cipher(algorithms.ChaCha20(key, bytes(16)), mode=None).encryptor()
    expected = np.frombuffer(cipher.update(bytes(64)), "<u8")
    np.testing.assert_array_equal(KeyedStream(secret).source(*path).words(8), expected)
    np.testing.assert_array_equal(KeyedStream(secret, path).source().words(8), expected)
    sealed = pickle.loads(pickle.dumps(KeyedStream(secret).child(*path).sealed()))
    np.testing.assert_array_equal(sealed.open().source().words(8), expected)


@settings(max_examples=50, deadline=None)
@given(PATHS, PATHS)
def test_other_paths_and_other_streams_draw_other_words(
    one: tuple[int, ...], two: tuple[int, ...]
) -> None:
    stream, words = KeyedStream(), 4
    assert (stream.source(*one).words(words) == stream.source(*two).words(words)).all() == (
        one == two
    )
    assert (stream.source(*one).words(words) != KeyedStream().source(*one).words(words)).any()


def test_the_secret_is_not_shown_and_not_written() -> None:
    secret = bytes(range(65, 97))
    stream = KeyedStream(secret)
    shown = repr(stream) + str(stream) + repr(stream.sealed()) + f"{[stream.sealed()]}"
    assert secret.decode() not in shown and "65, 66" not in shown and secret.hex() not in shown
    with pytest.raises(InputError, match="must not be written or copied"):
        pickle.dumps(stream)
    with pytest.raises(InputError, match="has 5 bytes; 32 are needed"):
        KeyedStream(b"short")
    assert not stream.simulated
    # Names of tasks are made of such tokens.
    tokens = {dask.tokenize.tokenize(KeyedStream(secret).sealed()) for _ in range(3)}
    assert len(tokens) == 3


@pytest.mark.parametrize("scheduler", ["sync", "threads"])
def test_nothing_is_disguised_afresh_inside_a_task(scheduler: str) -> None:
    """What a delayed disguise would give away: its majority over 25 computations is the truth."""
    frame = pd.DataFrame({"smokes": np.random.default_rng(1).choice(["no", "yes"], N)})
    stream = pp.Stream.from_entropy()

    def disguise(part: pd.DataFrame) -> pp.Reports:
        return DESIGN.disguise(BOOK.encode(part), stream)

    # Here it works, and what would be lost is real.
    truth = BOOK.encode(frame).codes[:, 0]
    majority = np.mean([disguise(frame).codes[:, 0] for _ in range(25)], axis=0) > 0.5
    assert (majority == truth).mean() > 0.97
    with pytest.raises(InputError, match="would disguise a person twice; use disguise_and_count"):
        dask.delayed(disguise)(frame).compute(scheduler=scheduler)
    with pytest.raises(InputError, match="would disguise a person twice"):
        dask.delayed(DESIGN.disguise, pure=True)(BOOK.encode(frame), stream)


def test_a_task_that_runs_again_gives_the_same_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every task of a real disguise is run 25 times, as retries do; one report each."""
    frame = pd.DataFrame({"smokes": np.random.default_rng(2).choice(["no", "yes"], N)})
    # Two people with one number: their draws must have nothing in common.
    parts = [Partition(0, lambda: frame), Partition(0, lambda: frame)]
    seen: list[list[bytes]] = []
    once = tree._do

    def again(work, i, part, key, told):  # type: ignore[no-untyped-def]
        def disguised(_: int, part: Partition, stream: pp.Stream) -> bytes:
            return DESIGN.disguise(BOOK.encode(part.read(), part.offset), stream).codes.tobytes()

        seen.append([once(disguised, i, part, key, told) for _ in range(25)])
        return once(work, i, part, key, told)

    monkeypatch.setattr(tree, "_do", again)
    stream = pp.Stream.from_entropy()
    (table,) = disguise_and_count(parts, BOOK, DESIGN, stream, [["smokes"]])
    assert table.n == 2 * N and not table.simulated
    assert [len(set(reports)) for reports in seen] == [1, 1]
    one, two = (np.frombuffer(reports[0], np.uint8) for reports in seen)
    assert table.counts[1] == one.sum() + two.sum()
    # Flips of .25 and .25 that are independent agree in .625 of the cases: SE .022.
    assert abs((one == two).mean() - 0.625) < 0.1
    disguise_and_count(parts, BOOK, DESIGN, stream, [["smokes"]])
    assert len({reports[0] for reports in seen}) == 4, "another call draws afresh"
