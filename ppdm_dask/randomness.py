"""Keyed, order-free random draws for simulations, and a cryptographic source for real disguises.

A draw is never taken from a shared, advancing generator.  A :class:`Stream` is a key; each use
derives a single-use :class:`Source` from it, so that the numbers do not depend on who drew before.
Sources serve one list of draws each, in the order of records, and every list has the prefix
property: the draws of the first records are the same however many follow.
"""

from __future__ import annotations

import hmac
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, lru_cache
from numbers import Rational
from typing import Any

import numpy as np
import numpy.typing as npt

from ppdm_dask.arrays import Words
from ppdm_dask.errors import InputError
from ppdm_dask.ranges import whole
from ppdm_dask.shown import given

__all__ = [
    "LOGICAL_BLOCK",
    "CryptographicStream",
    "KeyedStream",
    "SealedStream",
    "SimulationStream",
    "Source",
    "Stream",
    "binary_digits",
    "exact",
    "unpack_plane",
]

LOGICAL_BLOCK = 65_536
"""Records a keyed block, by global position: draws depend on it, never on partitions."""

_MAX_DIGITS = 256


def exact(probability: float | str | Fraction) -> Fraction:
    """The rational number that a decimal stands for: ``0.8`` is 4/5, not the nearest double.

    Raises
    ------
    InputError
        For what is not a finite number.
    """
    if isinstance(probability, Fraction):
        return probability
    try:
        text = probability if isinstance(probability, str) else repr(float(probability))
        return Fraction(text)
    except (TypeError, ValueError, ZeroDivisionError):
        raise InputError(
            f"probability: got {given(probability)}; a number is needed", probability
        ) from None


@lru_cache(maxsize=1024)
def binary_digits(probability: Fraction) -> npt.NDArray[np.uint8]:
    """Binary digits of a probability in [0, 1), most significant first, trailing zeros dropped.

    Expansions are cut after 256 digits; a Bernoulli draw looks that far with probability 2**-256.
    """
    if not 0 <= probability < 1:
        raise InputError(f"probability is {probability}; it must be in [0, 1)", probability)
    digit = (probability.numerator << _MAX_DIGITS) // probability.denominator
    text = f"{digit:0{_MAX_DIGITS}b}".rstrip("0")
    digits = np.frombuffer(text.encode(), dtype=np.uint8) - np.uint8(ord("0"))
    digits.flags.writeable = False
    return digits


@lru_cache(maxsize=1024)
def _plane_digits(probability: Fraction) -> npt.NDArray[np.uint8] | None:
    """Binary digits of a probability in [0, 1); None for any other."""
    return binary_digits(probability) if 0 <= probability < 1 else None


def unpack_plane(plane: Words, start: int, stop: int) -> npt.NDArray[np.bool_]:
    """Bits start .. stop - 1 of a plane: bit ``i % 64`` of word ``i // 64`` is record i's."""
    bits = np.unpackbits(plane.astype("<u8", copy=False).view(np.uint8), bitorder="little")
    return bits[start:stop].view(np.bool_)


class Source:
    """One list of draws, in the order of records; use it once.

    Parameters
    ----------
    draw : callable
        ``draw(n)`` returns the next n uniform 64-bit words.
    skip : callable, optional
        ``skip(n)`` passes over n words, faster than they are drawn.
    """

    def __init__(
        self, draw: Callable[[int], Words], skip: Callable[[int], object] | None = None
    ) -> None:
        self._draw = draw
        self._skip = draw if skip is None else skip

    def words(self, n: int, start: int = 0) -> Words:
        """Uniform 64-bit words start .. start + n - 1, shape (n,)."""
        if whole("start", start, 0):
            self._skip(start)
        return self._draw(whole("n", n, 0))

    def bernoulli(self, probability: Fraction, n: int) -> Words:
        """Plane of n Bernoulli bits, 64 a word; the last word is drawn whole.

        The bits of the uniform are compared with the digits of the probability until every lane of
        a word is decided, so the probability is met to 2**-256.
        """
        digits = _plane_digits(probability) if type(probability) is Fraction else None
        if digits is None:
            value: Any = probability
            rational = isinstance(value, Rational) and not isinstance(value, bool)
            if not rational or not 0 <= value <= 1:
                raise InputError(
                    f"probability: got {given(probability)}; a Fraction from 0 to 1 is needed",
                    probability,
                )
            digits = _plane_digits(Fraction(value))
        n_words = -(-whole("n", n, 0) // 64)
        if digits is None:
            return np.full(n_words, np.uint64(0xFFFFFFFFFFFFFFFF))
        plane = np.zeros(n_words, dtype=np.uint64)
        self._fill(plane, digits)
        return plane

    def _fill(self, plane: Words, digits: npt.NDArray[np.uint8]) -> None:
        """Fill a plane with bits that are one with a probability of these binary digits."""
        from ppdm_dask.kernels.planes import bernoulli_plane

        words = self._draw(8 * len(plane) + 64)
        while bernoulli_plane(words, digits, plane) < 0:
            words = np.concatenate([words, self._draw(len(plane) + 64)])

    def below(self, m: int, n: int) -> npt.NDArray[np.int64]:
        """Integers uniform on ``0 .. m - 1``, shape (n,), one word each (bias under m / 2**64)."""
        whole("m", m, 1, (1 << 32) - 1)
        words = self.words(n)
        high, low = words >> np.uint64(32), words & np.uint64(0xFFFFFFFF)
        factor = np.uint64(m)
        product = high * factor + ((low * factor) >> np.uint64(32))
        return (product >> np.uint64(32)).astype(np.int64)


class Stream(ABC):
    """Where random draws come from; see :meth:`from_entropy` and :meth:`from_seed`."""

    simulated: bool

    fresh: bool = False
    """Whether every source has draws of its own, under whatever key it is asked for."""

    @staticmethod
    def from_entropy() -> CryptographicStream:
        """Cryptographic draws for a real disguise; nothing can repeat or undo them."""
        return CryptographicStream()

    @staticmethod
    def from_seed(seed: int) -> SimulationStream:
        """Repeatable draws for a simulation; anyone who knows the seed can undo the disguise."""
        return SimulationStream(seed)

    @abstractmethod
    def child(self, *key: int) -> Stream:
        """The stream below this one under a key of non-negative integers."""

    @abstractmethod
    def source(self, *key: int) -> Source:
        """A single-use source of draws under a key of non-negative integers."""


class CryptographicStream(Stream):
    """ChaCha20 with a new key from the operating system for each source; the key is deleted.

    There is no seed: the keys of children and sources make no difference.  So it
    neither draws inside a task of Dask, which may be computed again, nor goes to another process:
    anyone who sees several disguises of one answer learns the answer.
    """

    simulated = False
    fresh = True

    def child(self, *key: int) -> CryptographicStream:
        return self

    def source(self, *key: int) -> Source:
        if _in_a_task():
            raise _disguised_twice(self)
        return _chacha20(os.urandom(32))

    def __reduce__(self) -> tuple[Any, ...]:
        raise _disguised_twice(self)

    def __dask_tokenize__(self) -> object:
        raise _disguised_twice(self)


class KeyedStream(Stream):
    """Cryptographic draws that those can repeat who hold a secret, such as the tasks of one call.

    The source under a key is ChaCha20, keyed by one block of HKDF-Expand with SHA-256 (RFC 5869,
    section 2.3) from the secret, with the key in ``info``.  The secret is in memory only: it is not
    shown, and pickling the stream is refused; :meth:`sealed` is for those who send it on purpose.

    Parameters
    ----------
    secret : bytes, optional
        32 bytes; by default new ones of the operating system.
    key : tuple of int
        Path of non-negative integers below the secret.
    """

    simulated = False

    def __init__(self, secret: bytes | None = None, key: tuple[int, ...] = ()) -> None:
        secret = os.urandom(32) if secret is None else secret
        if len(secret) != 32:
            raise InputError(f"the secret of a stream has {len(secret)} bytes; 32 are needed")
        self._secret = secret
        self.key = key

    def child(self, *key: int) -> KeyedStream:
        return KeyedStream(self._secret, self.key + key)

    def source(self, *key: int) -> Source:
        # The path as text is unambiguous, and ends before the counter of HKDF.
        path = "/".join(map(str, self.key + key))
        info = f"ppdm_dask stream {path}".encode()
        return _chacha20(hmac.digest(self._secret, info + b"\x01", "sha256"))

    def sealed(self) -> SealedStream:
        """The stream as an argument of a task, for connections that nobody else can read."""
        return SealedStream(self._secret, self.key)

    def __reduce__(self) -> tuple[Any, ...]:
        raise InputError(
            "this stream holds the secret of a disguise, which must not be written or copied"
        )


@dataclass(frozen=True)
class SealedStream:
    """A :class:`KeyedStream` on its way to a worker; it shows nothing of itself."""

    _secret: bytes = field(repr=False)
    _key: tuple[int, ...] = field(repr=False)

    def open(self) -> KeyedStream:
        """The stream."""
        return KeyedStream(self._secret, self._key)

    def __dask_tokenize__(self) -> object:
        # Names of tasks are seen by many, and stay in logs.
        return os.urandom(16).hex()


_ZEROS = memoryview(bytes(1 << 20))
"""What is encrypted: the words are the key stream itself."""


def _chacha20(key: bytes) -> Source:
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms

    def begun(block: int) -> Any:
        # The nonce begins with the number of the first block of 64 bytes, 32 bits of it.
        nonce = block.to_bytes(4, "little") + bytes(12)
        return Cipher(algorithms.ChaCha20(key, nonce), mode=None).encryptor()

    encryptor = begun(0)

    def draw(n: int) -> Words:
        words = np.empty(n, "<u8")
        stream = words.view(np.uint8)
        for low in range(0, stream.size, len(_ZEROS)):
            part = stream[low : low + len(_ZEROS)]
            encryptor.update_into(_ZEROS[: part.size], part.data)
        return words.astype(np.uint64, copy=False)

    def skip(n: int) -> None:
        nonlocal encryptor
        blocks, rest = divmod(n, 8)
        encryptor = begun(blocks)
        draw(rest)

    return Source(draw, skip)


# Modules of Dask whose functions call those of tasks.
_CALLERS = ("dask.local", "distributed.worker")


def _in_a_task() -> bool:
    """Whether a scheduler of Dask has called us."""
    frame = sys._getframe(1)
    while frame.f_back is not None:
        frame = frame.f_back
        if frame.f_globals.get("__name__") in _CALLERS:
            return True
    return False


def _disguised_twice(stream: CryptographicStream) -> InputError:
    return InputError(
        "Stream.from_entropy() draws in the process that holds the records: a task that is "
        "computed again would disguise a person twice; use disguise_and_count or disguise_and_sum",
        stream,
    )


class SimulationStream(Stream):
    """SFC64 seeded by ``SeedSequence(entropy, spawn_key=key)``: the same key, the same draws.

    Parameters
    ----------
    entropy : int
        Seed of the run, 0 or more.
    key : tuple of int
        Path of non-negative integers below the seed.
    """

    simulated = True

    def __init__(self, entropy: int, key: tuple[int, ...] = ()) -> None:
        self.entropy = whole("seed", entropy, 0)
        self.key = key

    def child(self, *key: int) -> SimulationStream:
        return SimulationStream(self.entropy, self.key + key)

    def source(self, *key: int) -> Source:
        return _Simulated(self, key)

    def generator(self, *key: int) -> np.random.Generator:
        """NumPy's generator under a key, for distributions that a source does not draw.

        Its words are those of the source under the same key.  What it makes of them may change with
        NumPy's version.
        """
        sequence = np.random.SeedSequence(self.entropy, spawn_key=self.key + key)
        return np.random.Generator(np.random.SFC64(sequence))


class _Simulated(Source):
    """A source of a simulation; seeding it in Python would take longer than filling a plane."""

    def __init__(self, stream: SimulationStream, key: tuple[int, ...]) -> None:
        super().__init__(self._raw)
        self._stream, self._key = stream, key
        self._filled = False

    @cached_property
    def _bits(self) -> np.random.BitGenerator:
        if self._filled:
            raise InputError("a source of draws serves one list of them", self._key)
        return self._stream.generator(*self._key).bit_generator

    def _raw(self, n: int) -> Words:
        return self._bits.random_raw(n)

    def _fill(self, plane: Words, digits: npt.NDArray[np.uint8]) -> None:
        from ppdm_dask.kernels.planes import fill_by_key

        key = self._stream.key + self._key
        untouched = not self._filled and "_bits" not in vars(self)
        if untouched and fill_by_key(self._stream.entropy, key, digits, plane):
            self._filled = True
        else:
            super()._fill(plane, digits)
