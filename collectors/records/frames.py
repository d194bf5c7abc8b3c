"""The stream from a rank: framed records, the same bytes on the socket and in a recording."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np

from argus.collectors.records.errors import WireError
from argus.collectors.records.events import DTYPES, Rows

VERSION = 1
MAX_PAYLOAD = 16 << 20
_HEAD = struct.Struct("<2sBBI")
_MAGIC = b"Ag"


class Kind(IntEnum):
    """What a frame carries: rows of a record dtype, or a JSON object."""

    LAYOUT = 1  # Layout.to_json(); sent again when a process group appears, the latest counts
    STRINGS = 2  # {"first": index, "names": [...]}: extends the string table
    STEPS = 3
    PHASES = 4
    COLLECTIVES = 5
    KERNELS = 6
    EVENTS = 7
    STATUS = 8  # see heartbeat.Status
    DROPS = 9  # {reason: count since the stream began}
    NOTE = 10  # {"unseen": "what this rank cannot observe"}
    BYE = 11  # {}: the rank ended in order
    CONTROL = 12  # processor to rank: {"level": off, "from_step": when}, {"refused": why}, {"warning": text}
    HOST = 13  # HostLook.to_json(); written by the processor into a recording, no rank may send it
    STACKS = 14  # encode_stacks([StackDump]); likewise


ROW_KINDS = {
    Kind.STEPS: "steps",
    Kind.PHASES: "phases",
    Kind.COLLECTIVES: "collectives",
    Kind.KERNELS: "kernels",
    Kind.EVENTS: "events",
}
KIND_OF = {name: kind for kind, name in ROW_KINDS.items()}


@dataclass(frozen=True, kw_only=True)
class Frame:
    """One decoded frame: `rows` for record kinds, `body` for JSON kinds."""

    kind: Kind
    rows: Rows | None = None
    body: dict[str, Any] | None = None


def encode_rows(name: str, rows: Rows) -> bytes:
    """Frame of record rows; `name` is a key of `events.DTYPES`."""
    payload = np.ascontiguousarray(rows, DTYPES[name]).tobytes()
    return _HEAD.pack(_MAGIC, VERSION, KIND_OF[name], len(payload)) + payload


def encode_json(kind: Kind, body: dict[str, Any]) -> bytes:
    """Frame of a JSON object."""
    payload = json.dumps(body, separators=(",", ":")).encode()
    return _HEAD.pack(_MAGIC, VERSION, kind, len(payload)) + payload


class FrameReader:
    """Cuts a byte stream into frames.

    After a WireError the stream cannot be trusted further: close the connection, count it.
    """

    def __init__(self) -> None:
        self._buffer = bytearray()

    @property
    def pending(self) -> int:
        """Bytes of an unfinished frame; nonzero at the end of a stream means it was cut."""
        return len(self._buffer)

    def feed(self, chunk: bytes) -> Iterator[Frame]:
        """Frames completed by `chunk`. Raises WireError on anything that is not the protocol."""
        self._buffer += chunk
        offset = 0
        try:
            while len(self._buffer) - offset >= _HEAD.size:
                magic, version, kind, length = _HEAD.unpack_from(self._buffer, offset)
                _check(magic, version, kind, length)
                end = offset + _HEAD.size + length
                if end > len(self._buffer):
                    break
                payload = bytes(self._buffer[offset + _HEAD.size : end])
                offset = end
                yield decode(Kind(kind), payload)
        finally:
            del self._buffer[:offset]


def decode(kind: Kind, payload: bytes) -> Frame:
    """One frame's payload as rows or JSON. Raises WireError."""
    if kind in ROW_KINDS:
        dtype = DTYPES[ROW_KINDS[kind]]
        if len(payload) % dtype.itemsize:
            raise WireError(f"{kind.name}: {len(payload)} bytes are not whole rows of {dtype.itemsize}")
        return Frame(kind=kind, rows=np.frombuffer(payload, dtype))
    try:
        body = json.loads(payload)
    except (ValueError, RecursionError) as error:
        raise WireError(f"{kind.name}: not JSON: {error}") from None
    if not isinstance(body, dict):
        raise WireError(f"{kind.name}: expected an object, got {type(body).__name__}")
    return Frame(kind=kind, body=body)


def _check(magic: bytes, version: int, kind: int, length: int) -> None:
    if magic != _MAGIC:
        raise WireError(f"unknown magic {magic!r}, expected {_MAGIC!r}")
    if version != VERSION:
        raise WireError(f"wire version {version}, this side speaks {VERSION}")
    if kind not in Kind.__members__.values():
        raise WireError(f"unknown frame kind {kind}")
    if length > MAX_PAYLOAD:
        raise WireError(f"frame of {length} bytes, the limit is {MAX_PAYLOAD}")
