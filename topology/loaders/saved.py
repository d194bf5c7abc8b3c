"""What `argus topology show --json` printed, or the service's topology of a run."""

from __future__ import annotations

import json
import re
from typing import Any

from argus.collectors.records.errors import WireError
from argus.topology.collect import decode
from argus.topology.export import FORMAT, layouts_from_json
from argus.topology.facts import EDGE_KINDS, Edge, Facts, LoaderError, sentence

MAX_NUMBER = 1e15
"""Of a capacity, or a time in seconds. JSON has numbers of four thousand digits, and NaN as Python writes it."""


def sniff(head: bytes, name: str) -> bool:
    """True for JSON of our format, or the HTTP form of a topology."""
    if FORMAT.encode() in head[:200]:
        return True
    start = head[:4096]
    return bool(re.match(rb"\s*\{", head)) and all(
        key in start for key in (b'"run"', b'"attempt"', b'"world_size"', b'"hosts"')
    )


def load(raw: bytes, *, origin: str, host: str) -> Facts:
    """Ranks, groups and relations as they were saved."""
    try:
        document = json.loads(decode(raw, origin=origin))
    except ValueError as error:
        raise LoaderError(f"is not JSON: {error}", origin=origin, line=getattr(error, "lineno", 0)) from None
    document = document if isinstance(document, dict) else {"topology": document}
    body = document.get("topology", document)
    if not isinstance(body, dict):
        raise LoaderError("must be an object", origin=origin, field="topology")
    try:
        layouts = layouts_from_json(body)
    except WireError as error:
        raise LoaderError(str(error), origin=origin) from None
    warnings: list[str] = []
    rows = document.get("edges")
    edges = [
        edge
        for at, row in enumerate(rows if isinstance(rows, list) else ())
        if (edge := _edge(row, f"edges[{at}]", origin=origin, warnings=warnings))
    ]
    attributes = document.get("attributes") or {}
    return Facts(
        loader="saved",
        origin=origin,
        layouts=layouts,
        edges=tuple(edges),
        attributes={
            str(element): {str(k): str(v) for k, v in values.items()}
            for element, values in (attributes.items() if isinstance(attributes, dict) else ())
            if isinstance(values, dict)
        },
        warnings=tuple(warnings[:50]),
    )


def _edge(row: Any, place: str, *, origin: str, warnings: list[str]) -> Edge | None:
    row = row if isinstance(row, dict) else {}
    source, target, kind = (str(row.get(key) or "") for key in ("source", "target", "kind"))
    if not (":" in source and ":" in target and kind in EDGE_KINDS):
        warnings.append(
            sentence("needs source, target and a known kind; it is left out", origin=origin, field=place)
        )
        return None
    numbers = {}
    for key in ("capacity_gbps", "since_s", "until_s"):
        value = row.get(key)
        if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= MAX_NUMBER:
            numbers[key] = float(value)
    return Edge(
        source=source,
        target=target,
        kind=kind,
        provenance=str(row.get("provenance", f"saved {origin}"))[:200],
        **numbers,
    )
