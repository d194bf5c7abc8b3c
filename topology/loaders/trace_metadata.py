"""What a Kineto trace (`distributedInfo`) or a JSON flight-recorder dump says of the process groups."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from argus.topology.collect import decode
from argus.topology.discovery import layout_from_flight_recorder, layout_from_kineto
from argus.topology.facts import Facts, LoaderError

_RANK_IN_NAME = re.compile(r"(?:rank[-_]?|worker|_dump_|_)(\d+)(?=\D*$|[._])", re.IGNORECASE)
_FIRST_RANK = re.compile(r"(?:rank[-_]?|worker)(\d+)", re.IGNORECASE)


def sniff(head: bytes, name: str) -> bool:
    """True for JSON with distributedInfo or pg_config."""
    is_json = bool(re.match(rb"\s*\{", head))
    return is_json and (b'"distributedInfo"' in head or b'"pg_config"' in head)


def load(raw: bytes, *, origin: str, host: str) -> Facts:
    """The one layout record the file holds."""
    text = decode(raw, origin=origin)
    at = text.find('"distributedInfo"')
    if at >= 0:
        info = _object_at(text, at + len('"distributedInfo"'), origin=origin)
        layout, warnings = layout_from_kineto(info, host=host, origin=origin)
    else:
        try:
            dump = json.loads(text)
        except ValueError as error:
            raise LoaderError(
                f"is not JSON: {error}", origin=origin, line=getattr(error, "lineno", 0)
            ) from None
        layout, warnings = layout_from_flight_recorder(
            dump, rank=_rank_of_name(origin), host=host, origin=origin
        )
    return Facts(loader="trace_metadata", origin=origin, layouts=(layout,), warnings=warnings)


def _object_at(text: str, at: int, *, origin: str) -> Mapping[str, Any]:
    """The object after a key: the rest of a trace may be gigabytes, or cut."""
    at = text.find("{", at)
    try:
        value, _ = json.JSONDecoder().raw_decode(text, max(at, 0))
    except ValueError as error:
        raise LoaderError(f"is cut or not JSON: {error}", origin=origin, field="distributedInfo") from None
    if not isinstance(value, dict):
        raise LoaderError("must be an object", origin=origin, field="distributedInfo")
    return value


def _rank_of_name(origin: str) -> int:
    match = _FIRST_RANK.search(origin) or _RANK_IN_NAME.search(origin)
    if not match:
        raise LoaderError(
            "a dump does not say its rank; the file name must end in it", origin=origin, field="rank"
        )
    return int(match.group(1))
