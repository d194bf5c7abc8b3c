"""What the traffic between two ranks crosses."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from argus.topology.facts import Edge, kind_of_id, name_of_id
from argus.topology.fleet import Fleet

MAX_TIERS = 8
"""Switch tiers climbed; real fabrics have at most four."""


@dataclass(frozen=True, kw_only=True)
class Path:
    """Hops from one rank to the other; each holds the elements of which traffic may take any.

    `kind` is `same`, `nvlink`, `host`, `leaf`, `fabric` or `unknown`; `capacity_gbps` is that of the
    narrowest edge known.
    """

    source: int
    target: int
    kind: str
    hops: tuple[tuple[str, ...], ...]
    capacity_gbps: float | None
    note: str = ""

    @property
    def crosses(self) -> tuple[str, ...]:
        """Every element the traffic may cross, without the two ranks, once."""
        inner = (element for hop in self.hops[1:-1] for element in hop)
        return tuple(dict.fromkeys(inner))


def path_between(fleet: Fleet, *, source: int, target: int) -> Path:
    """Way between two ranks, over NVLink if they share it, else within the host, else the fabric."""
    fleet.topology.check_rank(source), fleet.topology.check_rank(target)
    ends = (f"rank:{source}",), (f"rank:{target}",)
    if source == target:
        return Path(source=source, target=target, kind="same", hops=ends[:1], capacity_gbps=None)
    kind, inner, note = _inner(fleet, source, target)
    hops = tuple(hop for hop in (ends[0], *inner, ends[1]) if hop)
    return Path(
        source=source, target=target, kind=kind, hops=hops, capacity_gbps=_narrowest(fleet, hops), note=note
    )


Hops = list[tuple[str, ...]]


def _inner(fleet: Fleet, source: int, target: int) -> tuple[str, Hops, str]:
    gpus = _of_kind(fleet, source, "gpu"), _of_kind(fleet, target, "gpu")
    domain = _both(fleet, source, target, "nvlink_domain")
    if domain or _bridged(fleet, *gpus):
        return "nvlink", [gpus[0], domain, gpus[1]], ""
    host = _both(fleet, source, target, "host")
    if host:
        switch = _both(fleet, source, target, "pcie")
        return "host", [gpus[0], switch or host, gpus[1]], ""
    nics = _of_kind(fleet, source, "nic"), _of_kind(fleet, target, "nic")
    hosts = _of_kind(fleet, source, "host"), _of_kind(fleet, target, "host")
    sides = (nics[0] or hosts[0]), (nics[1] or hosts[1])
    tiers = _climb(fleet, sides)
    if not tiers:
        note = f"no switch is known between {_names(hosts[0])} and {_names(hosts[1])}"
        return "unknown", [gpus[0], sides[0], sides[1], gpus[1]], note
    kind = "leaf" if len(tiers) == 1 else "fabric"
    return kind, [gpus[0], sides[0], *tiers, sides[1], gpus[1]], ""


def _names(elements: Iterable[str]) -> str:
    return ", ".join(name_of_id(element) for element in elements) or "an unknown host"


def _of_kind(fleet: Fleet, rank: int, kind: str) -> tuple[str, ...]:
    return tuple(element for element in fleet.elements_of(rank) if kind_of_id(element) == kind)


def _both(fleet: Fleet, source: int, target: int, kind: str) -> tuple[str, ...]:
    other = set(_of_kind(fleet, target, kind))
    return tuple(element for element in _of_kind(fleet, source, kind) if element in other)


def _bridged(fleet: Fleet, first: tuple[str, ...], second: tuple[str, ...]) -> bool:
    between = [*first, *second]
    return any(
        edge.kind == "nvlink" and edge.target in between
        for gpu in between
        for edge in fleet.above.get(gpu, ())
    )


def _climb(fleet: Fleet, sides: tuple[tuple[str, ...], tuple[str, ...]]) -> Hops:
    """Switches up from both sides until they meet, then the way down: leaf, spines, leaf."""
    up, down = [_attached(fleet, sides[0])], [_attached(fleet, sides[1])]
    for _ in range(MAX_TIERS):
        if not up[-1] or not down[-1]:
            return []
        meeting = tuple(element for element in up[-1] if element in set(down[-1]))
        if meeting:
            return [*up[:-1], meeting, *reversed(down[:-1])]
        up.append(_attached(fleet, up[-1]))
        down.append(_attached(fleet, down[-1]))
    return []


def _attached(fleet: Fleet, elements: Iterable[str]) -> tuple[str, ...]:
    targets = (e.target for element in elements for e in fleet.above.get(element, ()) if e.kind == "attached")
    return tuple(dict.fromkeys(targets))


def _narrowest(fleet: Fleet, hops: tuple[tuple[str, ...], ...]) -> float | None:
    """The smallest capacity along the hops, where parallel ways between two hops add up."""
    found: list[float] = []
    for here, there in pairwise(hops):
        edges = [*_edges(fleet, here, there), *_edges(fleet, there, here)]
        known = [edge.capacity_gbps for edge in edges if edge.capacity_gbps is not None]
        if known:
            found.append(sum(known))
    return min(found) if found else None


def _edges(fleet: Fleet, sources: tuple[str, ...], targets: tuple[str, ...]) -> list[Edge]:
    wanted = set(targets)
    return [edge for source in sources for edge in fleet.above.get(source, ()) if edge.target in wanted]
