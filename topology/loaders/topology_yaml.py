"""Argus' own `topology.yaml`: hosts with their places, switches, ranks and the parallel layout."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from argus.topology.collect import Collector, decode
from argus.topology.facts import MAX_RANKS, Facts
from argus.topology.hostlist import expand
from argus.topology.identity import Declared
from argus.topology.marked import Marked, Path, parse_yaml
from argus.topology.megatron import megatron
from argus.topology.parallel import MEGATRON_ORDER, Parallel, device_mesh

_SECTIONS = ("hosts", "switches", "ranks", "ranks_per_host", "layout")
_PLACES = {
    "rack": "part_of",
    "nvlink_domain": "part_of",
    "leaf": "attached",
    "pod": "part_of",
    "zone": "part_of",
}
_HOST_KEYS = (*_PLACES, "gpus", "nics")
_NIC_KEYS = ("gpus", "leaf", "rail", "gbps")
_SWITCH_KEYS = ("kind", "up", "gbps", "pod", "zone")
MAX_GBPS = 1_000_000
"""A thousand of today's ports together; `.inf` is no number that JSON has."""

_SIZES = ("tp", "pp", "cp", "ep", "etp", "virtual", "optimizer_instances")


def sniff(head: bytes, name: str) -> bool:
    """True for YAML with one of our sections at the left margin."""
    return bool(re.search(rb"^(hosts|switches|ranks_per_host|ranks|layout)\s*:", head, re.MULTILINE))


def load(raw: bytes, *, origin: str, host: str) -> Facts:
    """Everything the file says; a field that is wrong is named and left out."""
    found = Collector("topology_yaml", origin=origin, host=host)
    marked = parse_yaml(decode(raw, origin=origin), origin=origin)
    if not isinstance(marked.value, dict):
        raise found.fail(f"must be a mapping with {', '.join(_SECTIONS)}", line=1)
    _unknown(found, marked, (), marked.value, _SECTIONS)
    hosts = _hosts(found, marked)
    for name, row in _section(found, marked, "switches").items():
        _switch(found, marked, str(name), row)
    ranks_on = _ranks(found, marked, hosts)
    declared = _layout(found, marked)
    if found.is_empty and not ranks_on and not declared:
        raise found.fail("says nothing of hosts, switches, ranks or layout")
    facts = found.facts(ranks_on=ranks_on)
    return Facts(
        loader=facts.loader,
        origin=origin,
        edges=facts.edges,
        attributes=facts.attributes,
        ranks_on=facts.ranks_on,
        declared=declared,
        warnings=facts.warnings,
    )


def _section(found: Collector, marked: Marked, name: str) -> dict[Any, Any]:
    section = marked.value.get(name) or {}
    if not isinstance(section, dict):
        found.warn("must be a mapping; it is left out", line=marked.line(name), field=name)
        return {}
    return section


def _unknown(
    found: Collector, marked: Marked, path: Path, row: Mapping[Any, Any], known: tuple[str, ...]
) -> None:
    for key in row:
        if key not in known:
            place = ".".join(map(str, (*path, key)))
            found.warn(
                f"unknown field; allowed are {', '.join(known)}",
                line=marked.line(*path, str(key)),
                field=place,
            )


def _hosts(found: Collector, marked: Marked) -> list[str]:
    hosts: list[str] = []
    for pattern, row in _section(found, marked, "hosts").items():
        path: Path = ("hosts", str(pattern))
        try:
            names = expand(str(pattern))
        except ValueError as error:
            found.warn(f"{error}; the hosts are left out", line=marked.line(*path), field="hosts")
            continue
        if row is not None and not isinstance(row, dict):
            found.warn(
                "must be a mapping; it is taken as empty", line=marked.line(*path), field=f"hosts.{pattern}"
            )
        row = row if isinstance(row, dict) else {}
        _unknown(found, marked, path, row, _HOST_KEYS)
        for name in names:
            hosts.append(name)
            found.note(f"host:{name}")
            _host(found, marked, path, name, row)
    return hosts


def _host(found: Collector, marked: Marked, path: Path, name: str, row: Mapping[str, Any]) -> None:
    for kind, relation in _PLACES.items():
        for value in _names(found, marked, (*path, kind), row.get(kind)):
            found.edge(f"host:{name}", f"{kind}:{value}", kind=relation, line=marked.line(*path, kind))
    count = row.get("gpus", 0)
    if not isinstance(count, int) or not 0 <= count <= 1024:
        found.warn("must be a number up to 1024", line=marked.line(*path, "gpus"), field=f"{path[1]}.gpus")
        count = 0
    for index in range(count):
        found.edge(f"gpu:{name}/{index}", f"host:{name}", kind="part_of", line=marked.line(*path, "gpus"))
    nics = row.get("nics") or {}
    if not isinstance(nics, dict):
        found.warn("must be a mapping", line=marked.line(*path, "nics"), field=f"{path[1]}.nics")
        return
    for nic, body in nics.items():
        _nic(found, marked, (*path, "nics", str(nic)), name, body if isinstance(body, dict) else {})


def _nic(found: Collector, marked: Marked, path: Path, host: str, row: Mapping[str, Any]) -> None:
    mine, line = f"nic:{host}/{path[-1]}", marked.line(*path)
    _unknown(found, marked, path, row, _NIC_KEYS)
    found.edge(mine, f"host:{host}", kind="part_of", line=line)
    gbps = _number(found, marked, (*path, "gbps"), row.get("gbps"))
    gpus = row.get("gpus", [])
    if not isinstance(gpus, list) or not all(isinstance(index, int) for index in gpus):
        found.warn("must be a list of GPU indices", line=marked.line(*path, "gpus"), field="gpus")
        gpus = []
    for index in gpus:
        found.edge(f"gpu:{host}/{index}", mine, kind="uses", line=marked.line(*path, "gpus"))
    for leaf in _names(found, marked, (*path, "leaf"), row.get("leaf")):
        found.edge(mine, f"leaf:{leaf}", kind="attached", line=marked.line(*path, "leaf"), gbps=gbps)
    for rail in _names(found, marked, (*path, "rail"), row.get("rail")):
        found.edge(mine, f"rail:{rail}", kind="part_of", line=marked.line(*path, "rail"))


def _switch(found: Collector, marked: Marked, name: str, row: object) -> None:
    path: Path = ("switches", name)
    if not isinstance(row, dict):
        found.warn(
            "must be a mapping; it is left out", line=marked.line(*path), field=".".join(map(str, path))
        )
        return
    _unknown(found, marked, path, row, _SWITCH_KEYS)
    kind = row.get("kind", "leaf")
    above = {"leaf": "spine", "spine": "pod", "pod": "zone"}.get(str(kind))
    if above is None:
        found.warn(
            f"must be leaf, spine or pod, got {kind!r:.40}", line=marked.line(*path, "kind"), field="kind"
        )
        return
    gbps = _number(found, marked, (*path, "gbps"), row.get("gbps"))
    found.note(f"{kind}:{name}")
    for up in _names(found, marked, (*path, "up"), row.get("up")):
        found.edge(
            f"{kind}:{name}", f"{above}:{up}", kind="attached", line=marked.line(*path, "up"), gbps=gbps
        )
    for place in ("pod", "zone"):
        for value in _names(found, marked, (*path, place), row.get(place)):
            found.edge(f"{kind}:{name}", f"{place}:{value}", kind="part_of", line=marked.line(*path, place))


def _names(found: Collector, marked: Marked, path: Path, value: object) -> list[str]:
    values = value if isinstance(value, list) else [] if value is None else [value]
    names: list[str] = []
    for item in values:
        if isinstance(item, bool) or not isinstance(item, str | int):
            found.warn("must be a name or a list of names", line=marked.line(*path), field=str(path[-1]))
            continue
        try:
            names += expand(str(item))
        except ValueError as error:
            found.warn(f"{error}; it is left out", line=marked.line(*path), field=str(path[-1]))
    return names


def _number(found: Collector, marked: Marked, path: Path, value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= MAX_GBPS:
        found.warn(
            f"must be a number above 0, {MAX_GBPS:,} at most; it is left out",
            line=marked.line(*path),
            field=str(path[-1]),
        )
        return None
    return float(value)


def _ranks(found: Collector, marked: Marked, hosts: list[str]) -> dict[int, str]:
    ranks_on: dict[int, str] = {}
    per_host = marked.value.get("ranks_per_host", 0)
    if not isinstance(per_host, int) or not 0 <= per_host <= 1024:
        found.warn("must be a number up to 1024", line=marked.line("ranks_per_host"), field="ranks_per_host")
        per_host = 0
    if len(hosts) * per_host > MAX_RANKS:
        found.warn(
            f"makes more than {MAX_RANKS} ranks", line=marked.line("ranks_per_host"), field="ranks_per_host"
        )
        per_host = 0
    for at, host in enumerate(hosts):
        ranks_on |= {at * per_host + local: host for local in range(per_host)}
    for rank, host in _section(found, marked, "ranks").items():
        line = marked.line("ranks", str(rank))
        if not isinstance(rank, int) or not 0 <= rank < 1 << 20 or not isinstance(host, str):
            found.warn("must map a rank to a host name; it is left out", line=line, field=f"ranks.{rank}")
            continue
        ranks_on[rank] = host
    return ranks_on


def _layout(found: Collector, marked: Marked) -> tuple[Declared, ...]:
    row = _section(found, marked, "layout")
    if not row:
        return ()
    try:
        parallel = _parallel(row)
    except ValueError as error:
        found.warn(f"{error}; the layout is left out", line=marked.line("layout"), field="layout")
        return ()
    return (Declared(parallel=parallel, source="file", origin=found.origin),)


def _parallel(row: Mapping[str, Any]) -> Parallel:
    mesh = row.get("mesh")
    if mesh is not None:
        if not isinstance(mesh, dict) or not all(isinstance(size, int) for size in mesh.values()):
            raise ValueError("mesh must map dimension names, slow to fast, to sizes")
        flatten = row.get("flatten") or {}
        if not isinstance(flatten, dict) or not all(isinstance(parts, list) for parts in flatten.values()):
            raise ValueError("flatten must map a name to the list of dimensions it joins")
        dims = tuple((str(name), size) for name, size in mesh.items())
        return device_mesh(dims, flatten={str(k): tuple(map(str, parts)) for k, parts in flatten.items()})
    allowed = ("world_size", "order", *_SIZES)
    for key, value in row.items():
        if key not in allowed:
            raise ValueError(f"unknown field {key!r}; allowed are mesh, flatten, {', '.join(allowed)}")
        if key != "order" and not isinstance(value, int):
            raise ValueError(f"{key} must be a number, got {value!r:.40}")
    if "world_size" not in row:
        raise ValueError("world_size is missing")
    sizes = {key: int(row[key]) for key in _SIZES if key in row}
    return megatron(int(row["world_size"]), order=str(row.get("order", MEGATRON_ORDER)), **sizes)
