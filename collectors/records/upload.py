"""The body of one upload: many ranks' windows, each decodable alone, compressed together."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Iterator

from argus.collectors.records.errors import NewerError, WireError

CONTENT_TYPE = "application/x-argus-windows"
WIRE_HEADER = "Argus-Wire"
WIRE_VERSION = 2
"""2: the version comes with every upload, and the age of what waited. 1: with windows only, and no age."""

OLDEST_WIRE = 1
"""The version before is read too: hosts and the service are never upgraded in the same second."""

AGE_HEADER = "Argus-Age"
"""Seconds that an upload waited on its host."""

REPLAY_S = 300.0
"""What waited longer is history: it is kept and counted, and nobody is woken up by it."""

MAX_AGE_S = 1e9
MAX_UPLOAD = 256 << 20
"""Bytes of one upload after decompression."""

LEVEL = 1
"""Of zstd: packs a rank window as small as level 3 in two thirds of the time, beside the training process."""

_LENGTH = struct.Struct("<I")


def check_wire(header: str | None) -> int:
    """The version of an upload. Raises WireError, as NewerError where one of both sides must be upgraded first."""
    text = str(OLDEST_WIRE) if header is None else header.strip()
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise WireError(f"{WIRE_HEADER} must be a whole number, got {text!a:.20}")
    version = int(text)
    if version > WIRE_VERSION:
        raise NewerError(f"{WIRE_HEADER} is {version}, this side speaks {WIRE_VERSION}: upgrade this side")
    if version < OLDEST_WIRE:
        raise NewerError(
            f"{WIRE_HEADER} is {version}, this side reads {OLDEST_WIRE} to {WIRE_VERSION}: upgrade the sender"
        )
    return version


def parse_age(header: str | None) -> float:
    """Seconds that an upload waited; 0 where nobody said so.

    >>> parse_age("12.5"), parse_age("soon"), parse_age(None)
    (12.5, 0.0, 0.0)
    """
    try:
        age_s = float(header or 0.0)
    except ValueError:
        return 0.0
    return min(max(age_s, 0.0), MAX_AGE_S) if math.isfinite(age_s) else 0.0


def encode_windows(windows: Iterable[bytes]) -> bytes:
    """Compressed body of `RankWindow.to_bytes()` results."""
    import zstandard

    body = b"".join(_LENGTH.pack(len(window)) + window for window in windows)
    return zstandard.ZstdCompressor(level=LEVEL).compress(body)


def decode_windows(body: bytes, *, max_bytes: int = MAX_UPLOAD) -> Iterator[bytes]:
    """The windows' bytes, not yet parsed. Raises WireError, also when it would expand beyond `max_bytes`."""
    import zstandard

    try:
        announced = zstandard.frame_content_size(body)
        if announced > max_bytes:
            raise WireError(f"upload expands to {announced} bytes, the limit is {max_bytes}")
        raw = zstandard.ZstdDecompressor().decompress(body, max_output_size=max_bytes)
    except zstandard.ZstdError as error:
        raise WireError(f"upload is not zstd: {error}") from None
    offset = 0
    while offset < len(raw):
        if offset + _LENGTH.size > len(raw):
            raise WireError("upload is cut inside a length")
        (length,) = _LENGTH.unpack_from(raw, offset)
        offset += _LENGTH.size
        if offset + length > len(raw):
            raise WireError(f"upload is cut inside a window of {length} bytes")
        yield raw[offset : offset + length]
        offset += length
