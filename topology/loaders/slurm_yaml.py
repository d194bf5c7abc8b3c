"""Slurm's `topology.yaml`: a list of topologies, each a switch tree, blocks, or flat."""

from __future__ import annotations

import re
from typing import Any

from argus.topology.collect import Collector, decode
from argus.topology.facts import Facts
from argus.topology.hostlist import expand
from argus.topology.loaders.slurm_topology import emit_switches
from argus.topology.marked import Marked, parse_yaml


def sniff(head: bytes, name: str) -> bool:
    """True for a YAML list whose entries have `topology:`."""
    return bool(re.search(rb"^\s*-\s+topology\s*:", head, re.MULTILINE))


def load(raw: bytes, *, origin: str, host: str) -> Facts:
    """Switch tree of the cluster's default topology and blocks of any."""
    found = Collector("slurm_yaml", origin=origin, host=host)
    marked = parse_yaml(decode(raw, origin=origin), origin=origin)
    if not isinstance(marked.value, list):
        raise found.fail("must be a list of topologies", line=1)
    trees = [i for i, item in enumerate(marked.value) if isinstance(item, dict) and "tree" in item]
    default = [i for i in trees if marked.value[i].get("cluster_default")]
    for i, item in enumerate(marked.value):
        if not isinstance(item, dict):
            found.warn("must be a mapping; it is left out", line=marked.line(i), field=f"[{i}]")
        elif "tree" in item and i in (default or trees)[:1]:
            _tree(found, marked, i)
        elif "tree" in item:
            found.warn("is not the cluster's default and is left out", line=marked.line(i), field="topology")
        elif "block" in item:
            _blocks(found, marked, i)
        elif "flat" not in item:
            found.warn("has none of tree, block, flat; it is left out", line=marked.line(i), field="topology")
    if found.is_empty:
        raise found.fail("names no switch and no block with nodes")
    return found.facts()


def _rows(found: Collector, marked: Marked, at: tuple[int, str, str]) -> list[tuple[int, dict[str, Any]]]:
    """The entries of a list of mappings with their lines; what is not one is named and left out."""
    i, first, second = at
    parent = marked.value[i][first]
    items = parent.get(second) if isinstance(parent, dict) else None
    if not isinstance(items, list):
        found.warn("must be a list", line=marked.line(*at), field=f"{first}.{second}")
        return []
    rows = []
    for n, item in enumerate(items):
        line = marked.line(i, first, second, n)
        if isinstance(item, dict):
            rows.append((line, item))
        else:
            found.warn("must be a mapping; it is left out", line=line, field=f"{second}[{n}]")
    return rows


def _tree(found: Collector, marked: Marked, i: int) -> None:
    switches: dict[str, tuple[int, dict[str, str]]] = {}
    for line, row in _rows(found, marked, (i, "tree", "switches")):
        name, nodes, below = row.get("switch"), row.get("nodes", ""), row.get("children", "")
        if not isinstance(name, str) or not isinstance(nodes, str) or not isinstance(below, str):
            found.warn("switch, nodes and children must be text; it is left out", line=line, field="switch")
            continue
        switches[name] = (line, {"nodes": nodes, "switches": below})
    emit_switches(found, switches)


def _blocks(found: Collector, marked: Marked, i: int) -> None:
    for line, row in _rows(found, marked, (i, "block", "blocks")):
        name, nodes = row.get("block"), row.get("nodes", "")
        try:
            hosts = expand(nodes) if isinstance(nodes, str) else ()
        except ValueError as error:
            found.warn(f"{error}; the list is left out", line=line, field="nodes")
            continue
        if not isinstance(name, str) or not hosts:
            found.warn("needs a name and nodes; it is left out", line=line, field="block")
        for host in hosts:
            found.edge(f"host:{host}", f"nvlink_domain:{name}", kind="part_of", line=line)
