"""The body of one upload: many ranks' windows, each decodable alone, compressed together."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

from argus.collectors.records.errors import WireError

CONTENT_TYPE = "application/x-argus-windows"
WIRE_HEADER = "Argus-Wire"
WIRE_VERSION = "1"
MAX_UPLOAD = 256 << 20
"""Bytes of one upload after decompression."""

_LENGTH = struct.Struct("<I")


def encode_windows(windows: Iterable[bytes]) -> bytes:
    """Compressed body of `RankWindow.to_bytes()` results."""
    import zstandard

    body = b"".join(_LENGTH.pack(len(window)) + window for window in windows)
    return zstandard.ZstdCompressor(level=3).compress(body)


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
