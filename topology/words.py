"""Ids and coordinates in the words a person uses."""

from __future__ import annotations

from collections.abc import Iterable

from argus.topology.facts import kind_of_id, name_of_id
from argus.topology.fleet import Fleet
from argus.topology.layout import Topology

_SPOKEN = {"gpu": "GPU", "nic": "NIC", "nvlink_domain": "NVLink domain", "pcie": "PCIe switch"}
_SPEECH = ("tp", "cp", "pp", "dp", "dp_shard", "dp_replicate", "ep", "etp")
_NAMED_AFTER_HOST = ("gpu", "nic", "pcie", "half")
_BY_UUID = ("GPU-", "MIG-")  # with slashes of its own where it is a slice: MIG-GPU-4f/1/0
_SHOWN_ABOVE = ("host", "gpu", "nic", "leaf")


def describe_rank(fleet: Fleet, rank: int) -> str:
    """One rank with its coordinates and place.

    Such as "rank 1848 · tp 0 · pp 3 · dp 57 · ep 1 · host h-0231 · GPU 0 · NIC mlx5_3 · leaf-12".
    """
    parts = [f"rank {rank}"]
    at = fleet.topology.coordinates_of(rank)
    parts += [f"{name} {at[name]}" for name in spoken_dims(fleet.topology) if name in at]
    above = fleet.elements_of(rank)
    for kind in _SHOWN_ABOVE:
        names = [element for element in above if kind_of_id(element) == kind]
        if kind == "gpu" and names:
            # Never the local rank: where CUDA_VISIBLE_DEVICES renumbers it is another GPU's number.
            parts.append(_spoken_gpu(fleet, names[0]))
        elif names:
            shown = "/".join(short_name(fleet, name) for name in names[:4])
            parts.append(f"{_prefix(kind)}{shown}" if kind != "leaf" else shown)
    return " · ".join(parts)


def spoken_dims(topology: Topology) -> tuple[str, ...]:
    """Dimensions worth saying: of more than one rank, in the order people say them.

    Expert data parallelism is left out: the other coordinates imply it.
    """
    wanted = [name for name in topology.dims if topology.dim_sizes[name] > 1 and name != "edp"]
    return tuple(sorted(wanted, key=lambda name: _SPEECH.index(name) if name in _SPEECH else len(_SPEECH)))


def _prefix(kind: str) -> str:
    return f"{_SPOKEN.get(kind, kind)} "


def _spoken_gpu(fleet: Fleet, element: str) -> str:
    """A GPU by its index on its host, else by its PCI address or the UUID that says itself what it is of."""
    name = short_name(fleet, element)
    return name if name.startswith(_BY_UUID) else f"{_prefix('gpu')}{name}"


def short_name(fleet: Fleet, element: str) -> str:
    """An element's name without what its host already says; bare numbers get their kind in front."""
    kind, name = kind_of_id(element), name_of_id(element)
    if kind == "gpu":
        index = fleet.attributes.get(element, {}).get("index", "")
        name = index or name
    if kind in _NAMED_AFTER_HOST and "/" in name and not name.startswith(_BY_UUID):
        name = name.rpartition("/")[2]
    return f"{kind}-{name}" if name.isdigit() and kind not in ("gpu", "half", "stage") else name


def describe_element(fleet: Fleet, element: str) -> str:
    """One element in words: "NIC mlx5_3 of host h-0231", "second half of host h-0231", "stage 3"."""
    element = fleet.element(element)
    kind, name = kind_of_id(element), name_of_id(element)
    is_after_host = "/" in name and kind in _NAMED_AFTER_HOST and not name.startswith(_BY_UUID)
    host = name.rpartition("/")[0] if is_after_host else _host(fleet, element)
    if kind == "rank":
        return describe_rank(fleet, int(name))
    if kind == "half":
        which = {"0": "first half", "1": "second half"}.get(name.rpartition("/")[2], f"socket {name[-1:]}")
        return f"{which} of host {host}"
    if kind == "group":
        group = fleet.topology.group(name)
        return f"{group.kind} group {group.id} ({len(group.ranks)} ranks: {rank_list(group.ranks)})"
    if kind == "link" and name.endswith("--up"):
        return f"uplinks of {name.removesuffix('--up')}"
    if kind == "link":
        return f"cable {name.replace('--', ' – ')}"
    if kind == "gpu" and host:
        return f"{_spoken_gpu(fleet, element)} of host {host}"
    if kind in ("nic", "pcie") and host:
        return f"{_SPOKEN[kind]} {short_name(fleet, element)} of host {host}"
    return f"{_SPOKEN.get(kind, kind)} {name}"


def _host(fleet: Fleet, element: str) -> str:
    return next(
        (name_of_id(e.target) for e in fleet.above.get(element, ()) if kind_of_id(e.target) == "host"), ""
    )


def rank_list(ranks: Iterable[int], *, limit: int = 6) -> str:
    """Ranks in short form: runs joined, the rest counted.

    >>> rank_list([0, 1, 2, 3, 8, 16, 17])
    '0–3, 8, 16–17'
    """
    spans: list[list[int]] = []
    for rank in sorted(ranks):
        if spans and rank == spans[-1][1] + 1:
            spans[-1][1] = rank
        else:
            spans.append([rank, rank])
    shown = [str(a) if a == b else f"{a}–{b}" for a, b in spans[:limit]]
    more = sum(b - a + 1 for a, b in spans[limit:])
    return ", ".join([*shown, *([f"and {more} more"] if more else [])])
