"""Protobuf's wire format, written by hand (protobuf.dev, Encoding): numbers, text, messages in messages."""

from __future__ import annotations

import struct

_64_BITS = (1 << 64) - 1


def varint(value: int) -> bytes:
    r"""Base-128, least significant group first; negative numbers as 64-bit two's complement.

    >>> varint(300)
    b'\xac\x02'
    """
    value &= _64_BITS
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def varint_field(number: int, value: int) -> bytes:
    """An integer or enum."""
    return _key(number, 0) + varint(value)


def fixed64_field(number: int, value: int) -> bytes:
    """A fixed64."""
    return _key(number, 1) + struct.pack("<Q", value & _64_BITS)


def double_field(number: int, value: float) -> bytes:
    """A double."""
    return _key(number, 1) + struct.pack("<d", value)


def bytes_field(number: int, value: bytes) -> bytes:
    """Bytes, or a message inside this one."""
    return _key(number, 2) + varint(len(value)) + value


def text_field(number: int, value: str) -> bytes:
    """A string."""
    return bytes_field(number, value.encode("utf-8", "replace"))


def _key(number: int, wire: int) -> bytes:
    return varint(number << 3 | wire)
