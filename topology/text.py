"""A fleet as a person reads it in a terminal: head, groups, tree of places, hosts, conflicts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from argus.topology.compare import Difference
from argus.topology.derive import natural
from argus.topology.facts import kind_of_id, name_of_id
from argus.topology.fleet import Fleet
from argus.topology.groups import Group
from argus.topology.hostlist import compress
from argus.topology.words import rank_list, spoken_dims

MAX_ROWS = 40
"""Rows of one table or tree in the terminal; --json has them all."""

_TREE_KINDS = ("zone", "pod", "spine", "rack", "nvlink_domain", "leaf")


def render(fleet: Fleet, *, max_rows: int = MAX_ROWS) -> str:
    """Everything at a glance."""
    parts = [
        _head(fleet),
        _groups(fleet, max_rows),
        _tree(fleet, max_rows),
        _hosts(fleet, max_rows),
        _list("conflicts", fleet.conflicts, max_rows),
        _list("warnings", fleet.warnings, max_rows),
    ]
    return "\n\n".join(part for part in parts if part)


def _head(fleet: Fleet) -> str:
    topology = fleet.topology
    hosts = {host for host in topology.hosts.values() if host}
    where = f" on {_count(len(hosts), 'host')}" if hosts else ", hosts unknown"
    lines = [
        f"run {topology.run or '(no name)'} · attempt {topology.attempt} · {_count(topology.world_size, 'rank')}{where}"
    ]
    if topology.dims:
        sizes = topology.dim_sizes
        lines.append("layout: " + " · ".join(f"{name} {sizes[name]}" for name in spoken_dims(topology)))
    missing = [rank for rank in topology.ranks if not topology.host_of(rank)]
    if missing and hosts:
        lines.append(f"no host known of ranks {rank_list(missing)}")
    sources = defaultdict(list)
    for what, source in topology.sources.items():
        if not what.startswith("rank "):
            sources[source].append(what.removeprefix("group:"))
    lines += [f"from {source}: {', '.join(what)}" for source, what in sources.items()]
    if topology.inferred:
        lines.append(f"kinds guessed from the pattern of groups: {', '.join(topology.inferred)}")
    return "\n".join(lines)


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _groups(fleet: Fleet, max_rows: int) -> str:
    first: dict[str, Group] = {}
    for group in fleet.topology.groups:
        first.setdefault(group.kind, group)
    rows = [
        (kind, sizes, f"{first[kind].id}: {rank_list(first[kind].ranks)}")
        for kind, sizes in fleet.group_sizes.items()
    ]
    return table(("groups", "count × size", "such as"), rows, max_rows=max_rows)


def _tree(fleet: Fleet, max_rows: int) -> str:
    """Hosts under their places, hosts of one place in one line."""
    leaves: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for host in fleet.elements_of_kind("host"):
        leaves[_places(fleet, host)].append(name_of_id(host))
    if not any(leaves):
        return ""
    lines = ["places"]
    shown: tuple[str, ...] = ()
    for places in sorted(leaves, key=lambda path: [natural(part) for part in path]):
        depth = 0
        while depth < min(len(shown), len(places)) and shown[depth] == places[depth]:
            depth += 1
        for at in range(depth, len(places)):
            lines.append(f"{'  ' * (at + 1)}{places[at]}")
        shown = places
        lines.append(
            f"{'  ' * (len(places) + 1)}{compress(leaves[places])}  ({_count(len(leaves[places]), 'host')})"
        )
    return "\n".join(_cut(lines, max_rows))


def _places(fleet: Fleet, host: str) -> tuple[str, ...]:
    """What lies above a host, widest first; many of a kind are counted."""
    above: dict[str, set[str]] = defaultdict(set)
    for rank in fleet.ranks.items_of(fleet.ranks.index[host]).tolist():
        for element in fleet.elements_of(rank):
            if kind_of_id(element) in _TREE_KINDS:
                above[kind_of_id(element)].add(name_of_id(element))
    return tuple(
        f"{kind} {', '.join(names)}" if len(names) <= 4 else f"{len(names)} × {kind} {names[0]} … {names[-1]}"
        for kind in _TREE_KINDS
        if (names := sorted(above[kind], key=natural))
    )


def _hosts(fleet: Fleet, max_rows: int) -> str:
    rows = []
    for host in sorted(fleet.elements_of_kind("host"), key=natural):
        ranks = fleet.ranks_of(host)
        near = {element for rank in ranks for element in fleet.elements_of(rank)}
        count = {kind: sum(kind_of_id(element) == kind for element in near) for kind in ("gpu", "nic")}
        gpu = next((element for element in sorted(near) if kind_of_id(element) == "gpu"), "")
        model = fleet.attributes.get(gpu, {}).get("model", "")
        rows.append(
            (name_of_id(host), rank_list(ranks) or "–", f"{count['gpu']} {model}".strip(), str(count["nic"]))
        )
    return table(("host", "ranks", "GPUs", "NICs"), rows, max_rows=max_rows) if rows else ""


def _list(title: str, texts: Sequence[str], max_rows: int) -> str:
    return "\n".join(_cut([title, *(f"  - {text}" for text in texts)], max_rows)) if texts else ""


def render_difference(change: Difference, *, max_rows: int = MAX_ROWS) -> str:
    """What changed, in lines."""
    if change.is_empty:
        return "no difference"
    lines = []
    if change.world[0] != change.world[1]:
        lines.append(f"world size {change.world[0]} → {change.world[1]}")
    lines += [f"rank {m.rank}: host {m.old or '?'} → {m.new or '?'}" for m in change.moved]
    lines += [f"rank {m.rank}: device {m.old or '?'} → {m.new or '?'}" for m in change.devices]
    lines += [f"host {host} is gone" for host in change.hosts_gone]
    lines += [f"host {host} is new" for host in change.hosts_new]
    lines += [f"{kind} groups: {a or 'none'} → {b or 'none'}" for kind, (a, b) in change.group_sizes.items()]
    hosts = {f"host:{host}" for host in (*change.hosts_gone, *change.hosts_new)}
    lines += [f"{element} is gone" for element in change.elements_gone if element not in hosts]
    lines += [f"{element} is new" for element in change.elements_new if element not in hosts]
    return "\n".join(_cut(lines, max_rows))


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, max_rows: int = MAX_ROWS) -> str:
    """Columns in line, the head first.

    >>> print(table(("a", "bb"), [("1", "2"), ("10", "20")]))
    a   bb
    1   2
    10  20
    """
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in (head, *rows)
    ]
    return "\n".join(_cut([line.rstrip() for line in lines], max_rows))


def _cut(lines: Sequence[str], max_rows: int) -> list[str]:
    if len(lines) <= max_rows + 1:
        return list(lines)
    return [*lines[: max_rows + 1], f"… and {len(lines) - max_rows - 1} more"]
