"""An out-of-band event: what somebody else saw of the hardware, as time, node, source and text."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from argus.collectors.records.errors import WireError
from argus.collectors.records.host_sample import HostSample
from argus.collectors.records.number import finite
from argus.collectors.records.text import tame

MAX_EVENTS = 10_000
"""Events of one request: a switch that resets tells of every port, a fleet in one go does not."""

MAX_TEXT = 500
MAX_NODE = 256
MAX_SOURCE = 64

NODE_KINDS = (
    "host",
    "gpu",
    "nic",
    "leaf",
    "spine",
    "switch",
    "rack",
    "pcie",
    "nvlink_domain",
    "rail",
    "half",
    "rank",
    "group",
    "run",
    "service",
)
"""What an event may be about; a bare name is a host's."""

_NAME = re.compile(r"[\w.:/@+-]+")
_SOURCE = re.compile(r"[\w .:/@+-]+")
"""Node and source stand in sentences of ours: no quotes, no markup, no line of its own."""

_KIND = re.compile(r"[a-z][a-z0-9_]{0,31}")


@dataclass(frozen=True, kw_only=True)
class OutsideEvent:
    """`node` is `kind:name`; `kind` a word of the rules (`xid`, `port_down`, …) or "" for a mere note.

    `value` is a counter's reading where the event tells one: only a counter that grows says something.
    """

    time_s: float
    node: str
    source: str
    text: str
    kind: str = ""
    value: float | None = None

    @property
    def id(self) -> str:
        """The same event told twice has the same id."""
        parts = (self.time_s, self.node, self.source, self.kind, self.text, self.value)
        return "e-" + hashlib.sha256(repr(parts).encode()).hexdigest()[:24]

    @property
    def host(self) -> str:
        """Host in the node's name, "" where it names none."""
        kind, _, name = self.node.partition(":")
        if kind == "host":
            return name
        return name.rpartition("/")[0] if kind in ("gpu", "nic", "pcie", "half") and "/" in name else ""

    def to_json(self) -> dict[str, Any]:
        """The event as JSON-ready dict, with its id."""
        return {"id": self.id, **asdict(self)}

    @staticmethod
    def from_json(raw: object) -> OutsideEvent:
        """Parse and check what came over the wire. Raises WireError.

        >>> OutsideEvent.from_json({"time": 5, "node": "h-1", "source": "dcgm", "text": "x"}).node
        'host:h-1'
        """
        if not isinstance(raw, Mapping):
            raise WireError(f"event must be an object, got {type(raw).__name__}")
        kind, value = raw.get("kind") or "", raw.get("value")
        if not isinstance(kind, str) or (kind and not _KIND.fullmatch(kind)):
            raise WireError(f"event.kind must be a word in lower case, got {kind!r:.60}")
        source = _text(raw, "source", MAX_SOURCE)
        if not _SOURCE.fullmatch(source):
            raise WireError(f"event.source must say who saw it in plain words, got {source!r:.60}")
        return OutsideEvent(
            time_s=_number(raw.get("time", raw.get("time_s")), "time"),
            node=_node(_text(raw, "node", MAX_NODE)),
            source=source,
            text=_text(raw, "text", MAX_TEXT),
            kind=kind,
            value=None if value is None else _number(value, "value"),
        )


def events_of_sample(sample: HostSample) -> tuple[OutsideEvent, ...]:
    """What the kernel log of a host said about its hardware, as events of that host."""
    return tuple(
        OutsideEvent(
            time_s=event.ts_s,
            node=f"host:{sample.host}",
            source="kernel log",
            kind=event.kind,
            text=tame(f"{event.kind} {event.code} {event.device} {event.text}".strip(), MAX_TEXT),
        )
        for event in sample.events
    )


def _node(text: str) -> str:
    kind, colon, name = text.partition(":")
    if not colon:
        kind, name = "host", text
    if kind not in NODE_KINDS or not _NAME.fullmatch(name) or len(kind) + len(name) >= MAX_NODE:
        raise WireError(f"event.node must be a host or KIND:NAME with a kind of {', '.join(NODE_KINDS)}")
    return f"{kind}:{name}"


def _text(raw: Mapping[Any, Any], key: str, limit: int) -> str:
    value = raw.get(key, "")
    if not isinstance(value, str):
        raise WireError(f"event.{key} must be a string")
    return tame(value.strip(), limit)


def _number(value: object, key: str) -> float:
    number = finite(value)
    if number is None:
        raise WireError(f"event.{key} must be a finite number, got {value!r:.40}")
    if abs(number) > 1e18:
        raise WireError(f"event.{key} is beyond 1e18")
    return number
