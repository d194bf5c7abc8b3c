"""Slurm's `topology.conf` and `scontrol show topology`: switches, blocks and their hosts."""

from __future__ import annotations

import re

from argus.topology.collect import Collector, decode
from argus.topology.facts import Facts
from argus.topology.hostlist import expand

_WORDS = re.compile(r"(\w+)\s*=\s*(\S*)")
_KEYS = ("switchname", "nodes", "switches", "linkspeed", "level", "blockname", "blockindex", "blocksize")
TIERS = ("leaf", "spine", "pod", "zone")
"""Kinds of switches by level; a tree with more levels ends in zones."""

Line = tuple[int, dict[str, str]]


def sniff(head: bytes, name: str) -> bool:
    """True if a line names a switch or a block."""
    return bool(re.search(rb"^\s*(SwitchName|BlockName)\s*=", head, re.MULTILINE | re.IGNORECASE))


def load(raw: bytes, *, origin: str, host: str) -> Facts:
    """Hosts under leaf switches (or blocks, which are NVLink domains) and the switches above."""
    found = Collector("slurm_topology", origin=origin, host=host)
    lines = _lines(decode(raw, origin=origin), found)
    switches = {row["switchname"]: (line, row) for line, row in lines if "switchname" in row}
    emit_switches(found, switches)
    for line, row in lines:
        if "blockname" in row:
            for name in _expand(found, row.get("nodes", ""), line=line, field="Nodes"):
                found.edge(f"host:{name}", f"nvlink_domain:{row['blockname']}", kind="part_of", line=line)
    if found.is_empty:
        raise found.fail("names no switch with nodes and no block")
    return found.facts()


def _lines(text: str, found: Collector) -> list[Line]:
    lines: list[Line] = []
    for number, line in enumerate(text.splitlines(), start=1):
        line = line.split("#", 1)[0].strip()
        row = {key.lower(): value for key, value in _WORDS.findall(line)}
        if not line:
            continue
        for key in row.keys() - set(_KEYS):
            found.warn("unknown word; it is left out", line=number, field=key)
        if not row.keys() & {"switchname", "blockname", "blocksizes"} and "blocksize" not in line.lower():
            found.warn("is neither a switch nor a block; it is left out", line=number)
        for key in ("switchname", "blockname"):
            if row.get(key) == "":
                found.warn("has no value; the line is left out", line=number, field=key)
                row.pop(key)
        lines.append((number, row))
    return lines


def emit_switches(found: Collector, switches: dict[str, tuple[int, dict[str, str]]]) -> None:
    """Edges of a switch tree: rows have `nodes` or `switches`, both host lists."""
    children: dict[str, list[str]] = {}
    for name, (line, row) in switches.items():
        below = _expand(found, row.get("switches", ""), line=line, field="Switches")
        for child in below:
            if child not in switches:
                found.warn(
                    f"switch {child!r} is nowhere defined; it is left out", line=line, field="Switches"
                )
        children[name] = [child for child in below if child in switches]
        if not row.get("nodes") and not row.get("switches"):
            found.warn(f"switch {name!r} has neither Nodes nor Switches", line=line)
    level = _levels(found, switches, children)
    for name, (line, row) in switches.items():
        mine = f"{TIERS[min(level[name], len(TIERS) - 1)]}:{name}"
        # `scontrol show topology` lists all hosts below at every level; only the lowest is their switch.
        if not children[name]:
            for host in _expand(found, row.get("nodes", ""), line=line, field="Nodes"):
                found.edge(f"host:{host}", mine, kind="attached", line=line)
        for child in children[name]:
            lower = f"{TIERS[min(level[child], len(TIERS) - 1)]}:{child}"
            found.edge(lower, mine, kind="attached", line=line)


def _levels(
    found: Collector, switches: dict[str, tuple[int, dict[str, str]]], children: dict[str, list[str]]
) -> dict[str, int]:
    """Height of each switch over the hosts; a switch below itself is cut loose, with a warning."""
    level: dict[str, int] = {}
    open_: set[str] = set()

    def height(name: str) -> int:
        if name not in level:
            open_.add(name)
            for child in [child for child in children[name] if child in open_ or len(open_) > 64]:
                children[name].remove(child)
                found.warn(f"switch {name!r} is below itself", line=switches[name][0], field="Switches")
            level[name] = 1 + max((height(child) for child in children[name]), default=-1)
            open_.discard(name)
        return level[name]

    for name in switches:
        height(name)
    return level


def _expand(found: Collector, text: str, *, line: int, field: str) -> tuple[str, ...]:
    try:
        return expand(text)
    except ValueError as error:
        found.warn(f"{error}; the list is left out", line=line, field=field)
        return ()
