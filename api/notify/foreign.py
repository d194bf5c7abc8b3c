"""Alertmanager's silences as ours: its API v2 read with care, since what it sends is text of others."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from argus.analytics.store.patterns import pattern
from argus.analytics.store.silences import ALERTMANAGER, Matcher, Silence
from argus.collectors.records.text import tame

MAX_SILENCES = 1000
MAX_MATCHERS = 32
MAX_VALUE = 256
"""Characters that a label of ours may have to be told by."""

STATES = ("active", "pending")


def foreign_silences(text: str) -> tuple[Silence, ...] | None:
    """The silences that last, of an answer to GET /api/v2/silences; None if it is none."""
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(raw, list):
        return None
    read = (_silence(item) for item in raw[:MAX_SILENCES] if isinstance(item, Mapping))
    return tuple(one for one in read if one is not None)


def _silence(raw: Mapping[str, Any]) -> Silence | None:
    """None where it has ended or where a condition cannot be read: half a silence would hide too much."""
    status, matchers = raw.get("status"), raw.get("matchers")
    if not isinstance(status, Mapping) or status.get("state") not in STATES:
        return None
    if not isinstance(matchers, list) or not 0 < len(matchers) <= MAX_MATCHERS:
        return None
    read = [_matcher(item) for item in matchers if isinstance(item, Mapping)]
    known = tuple(one for one in read if one is not None)
    starts_s, ends_s = _time_s(raw.get("startsAt")), _time_s(raw.get("endsAt"))
    if len(known) != len(matchers) or starts_s is None or ends_s is None:
        return None
    return Silence(
        id=f"am-{tame(raw.get('id', ''), 60)}",
        source=ALERTMANAGER,
        matchers=known,
        starts_s=starts_s,
        ends_s=ends_s,
        by=tame(raw.get("createdBy", ""), 128),
        why=tame(raw.get("comment", ""), 500),
    )


def _matcher(raw: Mapping[str, Any]) -> Matcher | None:
    name, value, is_regex = raw.get("name"), raw.get("value"), bool(raw.get("isRegex"))
    if not isinstance(name, str) or not isinstance(value, str) or len(value) > MAX_VALUE:
        return None
    if is_regex and pattern(value) is None:
        return None
    return Matcher(name=name, value=value, is_regex=is_regex, is_equal=raw.get("isEqual") is not False)


def _time_s(raw: object) -> float | None:
    try:
        return datetime.fromisoformat(str(raw)).timestamp()
    except (ValueError, OverflowError):
        return None
