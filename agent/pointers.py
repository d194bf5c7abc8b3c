"""Numbers behind pointers, and the unit that the evidence itself gives them."""

from __future__ import annotations

import math
import re

from argus.agent.evidence import EvidenceBook, NoSuchPlace, ToolResult, at_pointer

USABLE = ("ok", "gap")
"""Only what a tool found can be cited; that it found nothing is cited as a page, not as a number."""

_SUFFIXES = (
    (r"_s_per_step$|_s$|^s$|seconds$", "s"),
    (r"^share_|_share$|^share$|coverage|_percent$", "share"),
    (r"ratio$|slowdown$|factor$", "x"),
    (r"gpu_hours|gpu_h\b", "GPU-h"),
    (r"_bytes$", "bytes"),
    (r"_hz$", "Hz"),
    (r"_w$", "W"),
)
_NAMED = {"seconds": "s", "ratio": "x", "x": "x", "s": "s", "share": "share", "count": "", "gpu-h": "GPU-h"}
"""Units as evidence names them in a field of their own."""


class NotCited(ValueError):
    """A pointer that carries no number; the message says why."""


def number_at(book: EvidenceBook, evidence_id: str, path: str) -> tuple[float, str]:
    """The number and its unit. Raises NotCited."""
    page = book.get(evidence_id)
    if page is None:
        raise NotCited(f"there is no evidence {evidence_id[:24]!r}")
    if page.status not in USABLE:
        raise NotCited(f"evidence {page.evidence_id} holds no data: {page.status}")
    try:
        value = at_pointer(page.data, path)
    except NoSuchPlace as error:
        raise NotCited(str(error)) from None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise NotCited(f"at {path[:60]!r} of {page.evidence_id} stands no number")
    return float(value), unit_at(page, path)


def unit_at(page: ToolResult, path: str) -> str:
    """The unit of a number: from a field `unit` beside it, else from its name, else none."""
    parts = path.split("/")
    for at in range(len(parts) - 1, 0, -1):
        key = parts[at]
        if key.isdecimal():
            continue
        parent = at_pointer(page.data, "/".join(parts[:at]))
        given = parent.get("unit") if isinstance(parent, dict) else None
        if isinstance(given, str) and given:
            return _NAMED.get(given.lower(), given)
        return unit_of_name(key)
    return ""


def unit_of_name(name: str) -> str:
    """The unit a name says.

    >>> unit_of_name("effect_s_per_step"), unit_of_name("num_ranks"), unit_of_name("ratio")
    ('s', '', 'x')
    """
    return next((unit for pattern, unit in _SUFFIXES if re.search(pattern, name.lower())), "")


def numbers_in(value: object) -> set[float]:
    """Every finite number in a JSON value."""
    if isinstance(value, bool):
        return set()
    if isinstance(value, int | float):
        return {float(value)} if math.isfinite(value) else set()
    if isinstance(value, dict):
        return set().union(*(numbers_in(item) for item in value.values())) if value else set()
    if isinstance(value, list | tuple):
        return set().union(*(numbers_in(item) for item in value)) if value else set()
    return set()
