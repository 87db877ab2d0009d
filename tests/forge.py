"""Forged values: DUMP payloads and the module's own payloads, altered and with their checksums made right again."""

from __future__ import annotations

import random
from typing import Iterator

_POLY = 0x95AC9329AC4BC9B5  # CRC-64/Jones, reflected
_MASK = (1 << 64) - 1
# The key of the module's checksum (engine/src/codec): the ASCII of "presence" and "form v01".
_K0, _K1 = 0x7072_6573_656E_6365, 0x666F_726D_2076_3031
# Of a DUMP: a byte of the value's kind and nine of the module's type id; two of the RDB version and eight of the CRC.
HEAD, VERSION, CRC = 10, 2, 8


def _table() -> list[int]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (_POLY if byte & 1 else 0)
        table.append(byte)
    return table


_TABLE = _table()


def crc64(data: bytes) -> int:
    """As Redis has it: no inversion."""
    crc = 0
    for byte in data:
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 0xFF]
    return crc


def siphash13(data: bytes) -> int:
    """SipHash-1-3 with the module's key."""
    v0, v1 = _K0 ^ 0x736F6D6570736575, _K1 ^ 0x646F72616E646F6D
    v2, v3 = _K0 ^ 0x6C7967656E657261, _K1 ^ 0x7465646279746573

    def rotate(x: int, by: int) -> int:
        return (x << by | x >> 64 - by) & _MASK

    def round() -> None:
        nonlocal v0, v1, v2, v3
        v0 = (v0 + v1) & _MASK
        v1 = rotate(v1, 13) ^ v0
        v0 = rotate(v0, 32)
        v2 = (v2 + v3) & _MASK
        v3 = rotate(v3, 16) ^ v2
        v0 = (v0 + v3) & _MASK
        v3 = rotate(v3, 21) ^ v0
        v2 = (v2 + v1) & _MASK
        v1 = rotate(v1, 17) ^ v2
        v2 = rotate(v2, 32)

    whole = len(data) // 8 * 8
    last = int.from_bytes(data[whole:].ljust(7, b"\0") + bytes([len(data) & 0xFF]), "little")
    for word in (*(int.from_bytes(data[at : at + 8], "little") for at in range(0, whole, 8)), last):
        v3 ^= word
        round()
        v0 ^= word
    v2 ^= 0xFF
    for _ in range(3):
        round()
    return v0 ^ v1 ^ v2 ^ v3


def sealed_payload(covered: bytes) -> bytes:
    """A payload of the module: `covered` and its checksum."""
    return covered + siphash13(covered).to_bytes(8, "little")


def sealed_dump(covered: bytes) -> bytes:
    """A DUMP: `covered` (RDB version included) and its CRC."""
    return covered + crc64(covered).to_bytes(CRC, "little")


def payloads_in(dump: bytes) -> tuple[list[bytes], bytes]:
    """The module's payloads in an uncompressed DUMP of a room, and the two bytes of the RDB version."""
    at, found = HEAD, []
    body = dump[: -VERSION - CRC]
    while body[at] == 5:  # the opcode of a string
        length, at = _length(body, at + 1)
        found.append(body[at : at + length])
        at += length
    assert body[at] == 0 and at == len(body) - 1 and found[-1] == b"", "not a DUMP of a room"
    return found[:-1], dump[-VERSION - CRC : -CRC]


def dump_of(head: bytes, payloads: list[bytes], version: bytes) -> bytes:
    """The other way round."""
    strings = b"".join(b"\x05\x80" + len(p).to_bytes(4, "big") + p for p in [*payloads, b""])
    return sealed_dump(head + strings + b"\0" + version)


def _length(data: bytes, at: int) -> tuple[int, int]:
    kind = data[at] >> 6
    if kind == 0:
        return data[at], at + 1
    if kind == 1:
        return (data[at] & 0x3F) << 8 | data[at + 1], at + 2
    assert data[at] == 0x80, "a compressed or numeric string"
    return int.from_bytes(data[at + 1 : at + 5], "big"), at + 5


def altered(data: bytes, chance: random.Random) -> bytes:
    """`data` with a byte or a few changed, cut, repeated or put in."""
    out = bytearray(data)
    for _ in range(chance.choice([1, 1, 1, 2, 4])):
        at = chance.randrange(len(out) + 1)
        match chance.randrange(6):
            case 0 if at < len(out):
                out[at] ^= 1 << chance.randrange(8)
            case 1 if at < len(out):
                out[at] = chance.choice([0, 1, 0x7F, 0x80, 0xFF])
            case 2:
                del out[at : at + chance.randrange(1, 9)]
            case 3:
                out[at:at] = chance.randbytes(chance.randrange(1, 9))
            case 4:
                out[at:at] = out[at : at + chance.randrange(1, 40)]
            case _:
                out = out[: at + 1]
        if not out:
            out = bytearray(b"\0")
    return bytes(out)


def alterations(data: bytes, chance: random.Random, count: int) -> Iterator[bytes]:
    """`count` of them, and every single truncation."""
    yield from (data[:length] for length in range(len(data)))
    for _ in range(count):
        yield altered(data, chance)
