"""The fleet as a networkx graph, and in the formats graph tools read."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from argus.topology.facts import kind_of_id, name_of_id
from argus.topology.fleet import Fleet
from argus.topology.pause import collection_paused

if TYPE_CHECKING:
    import networkx as nx

COLOURS = {
    "rank": "#4c78a8",
    "gpu": "#54a24b",
    "host": "#f58518",
    "nic": "#b279a2",
    "leaf": "#e45756",
    "spine": "#9d755d",
    "group": "#bab0ac",
}
"""Fill of a node in the DOT form; kinds not named are white."""


@collection_paused()
def to_networkx(fleet: Fleet) -> nx.DiGraph[str]:
    """Every element and group as a node, every relation as a typed edge with its provenance.

    The world's members are left out: every rank is one.

    Node attributes: `kind`, what loaders noted, coordinates of ranks. Edge attributes: `kind`,
    `provenance` and, where known, `capacity_gbps`, `since_s`, `until_s`.
    """
    import networkx as nx

    graph: nx.DiGraph[str] = nx.DiGraph(
        run=fleet.topology.run, attempt=fleet.topology.attempt, world_size=fleet.topology.world_size
    )
    graph.add_nodes_from(_nodes(fleet))
    graph.add_edges_from(_edges(fleet))
    return graph


def _nodes(fleet: Fleet) -> Iterator[tuple[str, dict[str, Any]]]:
    for element, kind in zip(fleet.ranks.ids, fleet.ranks.kinds, strict=True):
        extra: dict[str, Any] = dict(fleet.attributes.get(element, {}))
        if kind == "rank":
            extra |= fleet.topology.coordinates_of(int(name_of_id(element)))
        yield element, {"kind": kind, **extra}


def _edges(fleet: Fleet) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for edge in fleet.edges:
        row: dict[str, Any] = {"kind": edge.kind, "provenance": edge.provenance}
        for key, value in (
            ("capacity_gbps", edge.capacity_gbps),
            ("since_s", edge.since_s),
            ("until_s", edge.until_s),
        ):
            if value is not None:
                row[key] = value
        yield edge.source, edge.target, row
    member = {"kind": "member", "provenance": "process groups"}
    for group in fleet.topology.groups:
        for rank in group.ranks if group.kind != "world" else ():
            yield f"rank:{rank}", f"group:{group.id}", member


def graphml(fleet: Fleet) -> str:
    """The graph as GraphML."""
    import networkx as nx

    graph = to_networkx(fleet)
    buffer = io.BytesIO()
    nx.write_graphml_xml(graph, buffer)
    return buffer.getvalue().decode()


def dot(fleet: Fleet) -> str:
    """The hardware as Graphviz DOT, hosts as clusters; groups are left out, they would cover it."""
    lines = [f"digraph {_quote(fleet.topology.run or 'fleet')} {{", "  rankdir=BT; node [style=filled];"]
    for element, kind in zip(fleet.ranks.ids, fleet.ranks.kinds, strict=True):
        if kind not in ("group", "stage", "link"):
            colour = COLOURS.get(kind, "#ffffff")
            lines.append(f"  {_quote(element)} [label={_quote(element)}, fillcolor={_quote(colour)}];")
    for edge in fleet.edges:
        if kind_of_id(edge.target) in ("stage", "link"):
            continue
        label = f", label={_quote(f'{edge.capacity_gbps:g} Gb/s')}" if edge.capacity_gbps else ""
        style = "dashed" if edge.provenance.startswith("derived") else "solid"
        tip = _quote(f"{edge.kind}: {edge.provenance}")
        lines.append(
            f"  {_quote(edge.source)} -> {_quote(edge.target)} [style={style}, tooltip={tip}{label}];"
        )
    return "\n".join([*lines, "}"]) + "\n"


def _quote(text: str) -> str:
    """A DOT string: names come from files and may hold anything."""
    clean = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ").replace("\r", " ")
    return f'"{clean}"'
