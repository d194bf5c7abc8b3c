"""Reading the arguments of a tool call, however a server or a model wrote them."""

from __future__ import annotations

import ast
import json
import re
from typing import Any

from argus.analytics.store.documents import clean

_FENCE = re.compile(r"^\s*```(?:json)?\s*\n(.*?)\n?\s*```\s*$", re.DOTALL)
_TRAILING_COMMA = re.compile(r",\s*([}\]])")

MAX_BYTES = 1 << 16
"""Arguments beyond this are a runaway model's."""


def read_arguments(raw: object) -> tuple[dict[str, Any], str]:
    """Arguments as an object, and "" or what is wrong with them.

    >>> read_arguments('{"rank": 3,}'), read_arguments("rank 3")[1]
    (({'rank': 3}, ''), 'the arguments are not a JSON object: rank 3')
    """
    if isinstance(raw, dict):
        raw = _bounded(raw)
    if isinstance(raw, dict):
        return {str(key): value for key, value in raw.items()}, ""
    if raw is None or raw == "":
        return {}, ""
    if not isinstance(raw, str) or len(raw) > MAX_BYTES:
        return {}, f"the arguments are not a JSON object: {str(raw)[:80]}"
    value = read_json(raw)
    if isinstance(value, str):  # encoded twice
        value = read_json(value)
    if value is None and raw.strip() == "null":
        return {}, ""
    if not isinstance(value, dict):
        return {}, f"the arguments are not a JSON object: {raw[:80]}"
    return {str(key): item for key, item in value.items()}, ""


def _bounded(raw: dict[object, object]) -> object:
    """The object, or its text where that is too long to be read."""
    text = json.dumps(raw, default=str, skipkeys=True)
    return raw if len(text) <= MAX_BYTES else text


def read_json(text: str) -> object:
    """The JSON value in `text`, forgiving fences, trailing commas and Python's quotes; None if there is none."""
    fenced = _FENCE.match(text)
    bare = (fenced[1] if fenced else text).strip()
    for attempt in (bare, _TRAILING_COMMA.sub(r"\1", bare)):
        try:
            value: object = json.loads(attempt)
        except (ValueError, RecursionError):
            continue
        return value
    if bare[:1] not in ("{", "["):
        return None
    try:
        # Python has more kinds of values than JSON: sets are lists there, and bytes are nothing.
        return json.loads(json.dumps(clean(ast.literal_eval(bare))))
    except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
        return None


MAX_TRIES = 500
"""Brackets at which something is looked for: prose has few that open nothing, a runaway model thousands."""


def objects_in(text: str, *, limit: int = 16) -> list[tuple[str, object]]:
    """Outermost JSON objects and lists in running text, each as it stands there with its value."""
    found: list[tuple[str, object]] = []
    decoder, at = json.JSONDecoder(), 0
    for _ in range(MAX_TRIES):
        if len(found) >= limit:
            break
        starts = [i for i in (text.find("{", at), text.find("[", at)) if i >= 0]
        if not starts:
            return found
        at = min(starts)
        try:
            value, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            at += 1
            continue
        found.append((text[at:end], value))
        at = end
    return found
