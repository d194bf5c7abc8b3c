"""What a Kineto trace (`distributedInfo`) or a JSON flight-recorder dump says of the process groups."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from argus.topology.discovery import layout_from_flight_recorder, layout_from_kineto
from argus.topology.facts import Facts, LoaderError

MAX_READ = 32 << 20
"""Bytes looked at: both kinds name the groups before the events, which may be gigabytes."""

_RANK_IN_NAME = re.compile(r"(?:rank[-_]?|worker|_dump_|_)([0-9]{1,7})(?=\D*$|[._])", re.IGNORECASE)
_FIRST_RANK = re.compile(r"(?:rank[-_]?|worker)([0-9]{1,7})", re.IGNORECASE)


def sniff(head: bytes, name: str) -> bool:
    """True for JSON with distributedInfo or pg_config."""
    is_json = bool(re.match(rb"\s*\{", head))
    return is_json and (b'"distributedInfo"' in head or b'"pg_config"' in head)


def load(raw: bytes, *, origin: str, host: str) -> Facts:
    """The one layout record the file holds."""
    text = raw.decode("utf-8", "replace")  # the cut may fall inside a character
    if '"distributedInfo"' in text:
        info = _object_of(text, "distributedInfo", origin=origin)
        layout, warnings = layout_from_kineto(info, host=host, origin=origin)
    else:
        dump = {"pg_config": _object_of(text, "pg_config", origin=origin)}
        layout, warnings = layout_from_flight_recorder(
            dump, rank=_rank_of_name(origin), host=host, origin=origin
        )
    return Facts(loader="trace_metadata", origin=origin, layouts=(layout,), warnings=warnings)


def _object_of(text: str, key: str, *, origin: str) -> Mapping[str, Any]:
    """The object a key holds: the rest of the file may be cut."""
    at = text.find("{", text.find(f'"{key}"'))
    try:
        value, _ = json.JSONDecoder().raw_decode(text, max(at, 0))
    except ValueError as error:
        raise LoaderError(f"is cut or not JSON: {error}", origin=origin, field=key) from None
    if not isinstance(value, dict):
        raise LoaderError("must be an object", origin=origin, field=key)
    return value


def _rank_of_name(origin: str) -> int:
    match = _FIRST_RANK.search(origin) or _RANK_IN_NAME.search(origin)
    if not match:
        raise LoaderError(
            "a dump does not say its rank; the file name must end in it", origin=origin, field="rank"
        )
    return int(match.group(1))
