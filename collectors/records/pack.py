"""One container for JSON plus numpy arrays, decodable alone, that never trusts its sender.

Layout: magic `AGP1`, u32 header length, header JSON `{"meta": …, "arrays": [[name, dtype, rows], …]}`,
then the arrays' bytes in that order. The dtype is a name known to both sides, never a description.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np

from argus.collectors.records.errors import WireError
from argus.collectors.records.events import Rows

MAGIC = b"AGP1"
MAX_HEADER = 8 << 20
_HEAD = struct.Struct("<4sI")


def pack(meta: Mapping[str, Any], arrays: Mapping[str, tuple[str, Rows]]) -> bytes:
    """Bytes of `meta` and of `arrays`, which maps a name to (dtype name, one-dimensional rows)."""
    rows = [[name, dtype, len(values)] for name, (dtype, values) in arrays.items()]
    header = json.dumps({"meta": meta, "arrays": rows}, separators=(",", ":")).encode()
    body = b"".join(np.ascontiguousarray(values).tobytes() for _, values in arrays.values())
    return _HEAD.pack(MAGIC, len(header)) + header + body


def unpack(payload: bytes, dtypes: Mapping[str, np.dtype[Any]]) -> tuple[dict[str, Any], dict[str, Rows]]:
    """Inverse of `pack`; only dtypes named in `dtypes` are accepted. Raises WireError."""
    header, offset = _header(payload)
    arrays: dict[str, Rows] = {}
    for item in header["arrays"]:
        name, dtype, count = _entry(item, dtypes)
        end = offset + count * dtype.itemsize
        if end > len(payload):
            raise WireError(f"array {name!r} is cut short: {count} rows announced")
        arrays[name] = np.frombuffer(payload, dtype, count, offset)
        offset = end
    if offset != len(payload):
        raise WireError(f"{len(payload) - offset} bytes after the last array")
    return header["meta"], arrays


def _header(payload: bytes) -> tuple[dict[str, Any], int]:
    if len(payload) < _HEAD.size:
        raise WireError("shorter than a header")
    magic, length = _HEAD.unpack_from(payload)
    if magic != MAGIC:
        raise WireError(f"unknown magic {magic!r}, expected {MAGIC!r}")
    if length > MAX_HEADER or _HEAD.size + length > len(payload):
        raise WireError(f"header of {length} bytes does not fit")
    try:
        header = json.loads(payload[_HEAD.size : _HEAD.size + length])
    except (ValueError, RecursionError) as error:
        raise WireError(f"header is not JSON: {error}") from None
    if not isinstance(header, dict) or not isinstance(header.get("meta"), dict):
        raise WireError("header lacks the object 'meta'")
    if not isinstance(header.get("arrays"), list) or len(header["arrays"]) > 4096:
        raise WireError("header lacks the list 'arrays'")
    return header, _HEAD.size + length


def _entry(item: object, dtypes: Mapping[str, np.dtype[Any]]) -> tuple[str, np.dtype[Any], int]:
    if not isinstance(item, list) or len(item) != 3:
        raise WireError("an array entry must be [name, dtype, rows]")
    name, dtype, count = item
    if not isinstance(name, str) or not isinstance(dtype, str) or dtype not in dtypes:
        raise WireError(f"unknown dtype {dtype!r:.40}; known: {', '.join(dtypes)}")
    if not isinstance(count, int) or isinstance(count, bool) or count < 0:
        raise WireError(f"array {name!r:.40}: rows must be a count, got {count!r:.40}")
    return name, dtypes[dtype], count
