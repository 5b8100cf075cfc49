"""Damage to bytes, for any format: flips, cuts, copies, insertions, and other files altogether."""

from __future__ import annotations

import gzip
import struct
import zlib

from fuzzing.chance import Chance

__all__ = ["damage_bytes"]

STRANGERS = (
    b"",
    b"\x00",
    b"\xff" * 64,
    b"\n" * 1_000,
    b"\xef\xbb\xbf",
    b"\xff\xfe" + "a,b\n1,2\n".encode("utf-16-le"),
    b"PAR1PAR1",
    b"PAR1" + b"\xff" * 8 + b"PAR1",
    b"PK\x05\x06" + b"\x00" * 18,
    b"PK\x03\x04",
    b"SQLite format 3\x00",
    b"\x89HDF\r\n\x1a\n",
    b"\x89PNG\r\n\x1a\n",
    b"\x93NUMPY\x01\x00\x10\x00{'descr': '<f8'}",
    b"%PDF-1.7",
    b"[" * 50_000,
    b"a = " + b"[" * 20_000,
    b"a" * 200_000,
    b'"' + b"a\n" * 10_000,
    b"," * 100_000 + b"\n",
    gzip.compress(b"a,b\n1,2\n", mtime=0),
)
EDGES = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 0x7FFFFFFFFFFFFFFF)


def damage_bytes(content: bytes, chance: Chance) -> bytes:
    """Change some bytes, or all of them."""
    data = bytearray(content)
    size = len(data)
    act = chance.below(20)
    if act == 0:
        return chance.pick(STRANGERS)
    if act <= 5:
        for _ in range(chance.pick((1, 1, 1, 2, 8, 64))):
            if size:
                data[_where(size, chance)] ^= 1 << chance.below(8)
    elif act <= 8:
        return bytes(data[: chance.below(size + 1)])
    elif act == 9:
        return bytes(data[chance.below(size + 1) :])
    elif act <= 11:
        start, length = _where(size, chance), chance.pick((1, 4, 16, 256, 4096))
        data[start:start] = data[start : start + length] * chance.pick((1, 1, 3, 50))
    elif act <= 13:
        at = _where(size, chance)
        data[at:at] = chance.bytes(chance.pick((1, 2, 8, 100)))
    elif act == 14:
        at, length = _where(size, chance), chance.pick((1, 4, 64, 512))
        data[at : at + length] = bytes(len(data[at : at + length]))
    elif act == 15:
        at, length = _where(size, chance), chance.pick((1, 2, 16, 512))
        del data[at : at + length]
    elif act <= 17:
        at = _where(size, chance)
        number, width = chance.pick(EDGES), chance.pick(("<B", "<H", "<I", "<Q", ">I"))
        packed = struct.pack(width, number & (256 ** struct.calcsize(width) - 1))
        data[at : at + len(packed)] = packed
    elif act == 18:
        a, b = sorted((_where(size, chance), _where(size, chance)))
        data[a : b + 1] = data[a : b + 1][::-1] if b - a < 4096 else data[a : b + 1]
    else:
        data += chance.pick((b"\x00", b"\xff" * 100, bytes(data[:4096]), zlib.compress(bytes(64))))
    return bytes(data)


def _where(size: int, chance: Chance) -> int:
    """A place: anywhere, or near an end, where binary formats keep what they say of themselves."""
    where = chance.below(4)
    if where == 0:
        return min(size - 1, chance.below(512)) if size else 0
    if where == 1:
        return max(0, size - 1 - chance.below(1024))
    return chance.below(size)
