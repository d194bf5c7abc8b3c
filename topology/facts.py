"""What a loader hands on: elements, edges and groups, each with where it was read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from argus.collectors.records.layout import Layout
from argus.topology.identity import Declared

ELEMENT_KINDS = (
    "rank",
    "gpu",
    "pcie",
    "half",
    "host",
    "nic",
    "link",
    "nvlink_domain",
    "rail",
    "leaf",
    "spine",
    "rack",
    "pod",
    "zone",
    "stage",
    "group",
)
"""Kinds of elements, by name in `kind:name`. `half` is one socket's GPUs of a host, `link` a set of
cables that fail together, `stage` all ranks of one pipeline stage."""

EDGE_KINDS = ("runs_on", "part_of", "uses", "attached", "nvlink", "same", "member")
"""runs_on: rank → gpu or host · part_of: smaller → larger · uses: gpu → nic it sends over · attached:
nic, host or switch → switch above · nvlink: gpu ↔ gpu · same: two names of one element · member: rank →
group."""

ANY_HOST = "*"
"""Host of facts that describe every host of the fleet, as one `nvidia-smi topo -m` of a model does."""


MAX_RANKS = 1 << 20
"""Ranks taken of a file; the wire has the same limit."""

_NUMBER = re.compile(r"[0-9]{1,9}")


class LoaderError(ValueError):
    """A file that cannot be used: one sentence naming file, line and field."""

    def __init__(self, reason: str, *, origin: str = "", line: int = 0, field: str = "") -> None:
        super().__init__(sentence(reason, origin=origin, line=line, field=field))


def sentence(reason: str, *, origin: str = "", line: int = 0, field: str = "") -> str:
    """File, line, field and what is wrong there, in one sentence.

    >>> sentence("must be a number, got 'x'", origin="topology.conf", line=3, field="LinkSpeed")
    "topology.conf, line 3, LinkSpeed: must be a number, got 'x'"
    """
    place = [origin or "input", *([f"line {line}"] if line else []), *([field] if field else [])]
    return f"{', '.join(place)}: {' '.join(reason.split())}"


@dataclass(frozen=True, kw_only=True)
class Edge:
    """One typed relation, from the smaller or lower element to the larger or upper.

    `capacity_gbps` is None where unknown; `provenance` names loader, file and line. The edge holds from
    `since_s` until `until_s` (Unix time, None = open).
    """

    source: str
    target: str
    kind: str
    provenance: str
    capacity_gbps: float | None = None
    since_s: float | None = None
    until_s: float | None = None

    def holds_at(self, time_s: float) -> bool:
        """True if the relation was in force at the time."""
        return (self.since_s is None or self.since_s <= time_s) and (
            self.until_s is None or time_s < self.until_s
        )


def moved(edge: Edge, *, source: str, target: str) -> Edge:
    """The same relation between other elements; much faster than `dataclasses.replace`."""
    return Edge(
        source=source,
        target=target,
        kind=edge.kind,
        provenance=edge.provenance,
        capacity_gbps=edge.capacity_gbps,
        since_s=edge.since_s,
        until_s=edge.until_s,
    )


@dataclass(frozen=True, kw_only=True)
class Facts:
    """Everything one file says. `attributes` are per element id; `warnings` name what was left out."""

    loader: str
    origin: str
    edges: tuple[Edge, ...] = ()
    attributes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    layouts: tuple[Layout, ...] = ()
    declared: tuple[Declared, ...] = ()
    ranks_on: Mapping[int, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


def whole_number(text: str) -> int | None:
    """A plain number of at most nine digits, None for anything else.

    >>> whole_number("42"), whole_number("²"), whole_number("-1")
    (42, None, None)
    """
    return int(text) if _NUMBER.fullmatch(text) else None


def kind_of_id(element: str) -> str:
    """The kind in an element's id.

    >>> kind_of_id("nic:h-0231/mlx5_3")
    'nic'
    """
    return element.partition(":")[0]


def name_of_id(element: str) -> str:
    """The name in an element's id."""
    return element.partition(":")[2]
