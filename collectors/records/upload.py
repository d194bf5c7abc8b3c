"""The body of one upload: many ranks' windows, each compressed and decodable alone."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from argus.collectors.records.errors import NewerError, WireError

if TYPE_CHECKING:
    from zstandard import ZstdDecompressor

CONTENT_TYPE = "application/x-argus-windows"
WIRE_HEADER = "Argus-Wire"
WIRE_VERSION = 3
"""3: each window is a zstd frame of its own, which the service stores as it came. 2: all windows of an upload are one
frame. An upload without a version is read as the oldest: what says which it is, is its first bytes."""

OLDEST_WIRE = 2
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
_MAGIC = b"\x28\xb5\x2f\xfd"
"""How a zstd frame begins (RFC 8878 §3.1.1)."""


def own_key(env: Mapping[str, str]) -> str:
    r"""`ARGUS_KEY`, without the line's end that a file or a secret may have. ValueError, which does not show it.

    >>> own_key({"ARGUS_KEY": "k-1\n"}), own_key({})
    ('k-1', '')
    """
    key = env.get("ARGUS_KEY", "").strip()
    if not (key.isascii() and key.isprintable()):
        raise ValueError("ARGUS_KEY holds characters that no request can carry")
    return key


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
    """Body of `RankWindow.to_bytes()` results."""
    import zstandard

    compressor = zstandard.ZstdCompressor(level=LEVEL)
    frames = [compressor.compress(window) for window in windows]
    return b"".join(_LENGTH.pack(len(frame)) + frame for frame in frames)


def decode_windows(body: bytes, *, max_bytes: int = MAX_UPLOAD) -> Iterator[bytes]:
    """The windows' bytes, not yet parsed. Raises WireError, also when they would expand beyond `max_bytes`."""
    return (window for window, _ in open_windows(body, max_bytes=max_bytes))


def open_windows(body: bytes, *, max_bytes: int = MAX_UPLOAD) -> Iterator[tuple[bytes, bytes]]:
    """The same, each with the zstd frame it came as, empty where it has none that tells its size.

    Raises WireError as `decode_windows`.
    """
    import zstandard

    if not body:
        raise WireError("upload is not zstd: it is empty")
    decompressor = zstandard.ZstdDecompressor()
    if body.startswith(_MAGIC):  # wire 2, or what waited in a spool since then; no length is that large
        raw, _ = _opened(body, decompressor, max_bytes=max_bytes)
        yield from ((window, b"") for window in _parts(raw))
        return
    left = max_bytes
    for frame in _parts(body):
        window, is_sized = _opened(frame, decompressor, max_bytes=left)
        left -= len(window)
        yield window, frame if is_sized else b""


def _opened(frame: bytes, decompressor: ZstdDecompressor, *, max_bytes: int) -> tuple[bytes, bool]:
    """What a frame holds, and whether it says how long that is. Raises WireError."""
    import zstandard

    try:
        announced = zstandard.frame_content_size(frame)
        if announced > max_bytes:
            raise WireError(f"upload expands to {announced} bytes or more, {max_bytes} are left of the limit")
        raw = decompressor.decompress(frame, max_output_size=max_bytes, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise WireError(f"upload is not zstd: {error}") from None
    return raw, announced >= 0


def _parts(raw: bytes) -> Iterator[bytes]:
    """What was joined with its lengths. Raises WireError."""
    offset = 0
    while offset < len(raw):
        if offset + _LENGTH.size > len(raw):
            raise WireError("upload is cut inside a length")
        (length,) = _LENGTH.unpack_from(raw, offset)
        offset += _LENGTH.size
        if offset + length > len(raw):
            raise WireError(f"upload is cut inside a window of {length} bytes, or is not zstd")
        yield raw[offset : offset + length]
        offset += length
