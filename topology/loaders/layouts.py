"""The collectors' layout records: JSON, JSON lines, or an Argus recording; no configuration needed."""

from __future__ import annotations

import json
import re
from typing import Any

from argus.collectors.records.errors import WireError
from argus.collectors.records.frames import FrameReader, Kind
from argus.collectors.records.layout import Layout
from argus.topology.collect import Collector, decode
from argus.topology.facts import Facts
from argus.topology.identity import newer

MAX_READ = 64 << 20
"""Bytes of a recording looked through: ranks report their groups when they make them, at the start."""

_MAGIC = b"Ag"


def sniff(head: bytes, name: str) -> bool:
    """True for frames, or JSON that holds layout records."""
    if head.startswith(_MAGIC):
        return True
    is_json = bool(re.match(rb"\s*[\[{]", head))
    return is_json and b'"world_size"' in head and b'"local_rank"' in head and b'"elements"' not in head


def load(raw: bytes, *, origin: str, host: str) -> Facts:
    """Every record that can be read; the latest of a rank counts."""
    found = Collector("layouts", origin=origin, host=host)
    bodies = _frames(raw, found) if raw.startswith(_MAGIC) else _json(decode(raw, origin=origin), found)
    layouts: dict[tuple[int, str], Layout] = {}
    for line, place, body in bodies:
        try:
            layout = Layout.from_json(body)
        except WireError as error:
            found.warn(f"{error}; the record is left out", line=line, field=place)
            continue
        key = (layout.rank, layout.source)
        layouts[key] = newer(layouts.get(key), layout)
    if not layouts:
        raise found.fail("holds no layout record")
    facts = found.facts()
    return Facts(loader=facts.loader, origin=origin, layouts=tuple(layouts.values()), warnings=facts.warnings)


Body = tuple[int, str, Any]


def _frames(raw: bytes, found: Collector) -> list[Body]:
    bodies: list[Body] = []
    try:
        for frame in FrameReader().feed(raw):
            if frame.kind is Kind.LAYOUT:
                bodies.append((0, f"frame {len(bodies)}", frame.body))
    except WireError as error:
        found.warn(f"{error}; what precedes is used", field="frames")
    return bodies


def _json(text: str, found: Collector) -> list[Body]:
    try:
        document = json.loads(text)
    except ValueError as error:
        return _lines(text, found, error)
    if isinstance(document, dict):
        document = document.get("layouts", [document])
    if not isinstance(document, list):
        found.warn("must be a list", field="layouts")
        return []
    return [(0, f"layouts[{i}]", body) for i, body in enumerate(document)]


def _lines(text: str, found: Collector, whole: ValueError) -> list[Body]:
    """One record a line; a cut last line is named, the rest is used."""
    bodies: list[Body] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            bodies.append((number, "", json.loads(line)))
        except ValueError as error:
            found.warn(f"is not JSON: {error}; the line is left out", line=number)
    if not bodies:
        raise found.fail(f"is not JSON: {whole}", line=getattr(whole, "lineno", 0))
    return bodies
