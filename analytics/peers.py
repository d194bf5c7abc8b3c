"""Which ranks do the same work and may therefore be compared."""

from __future__ import annotations

import numpy as np

from argus.analytics.kernel_kinds import GROUPED
from argus.analytics.robust import leave_one_out_median
from argus.analytics.window import Floats, Ints
from argus.topology.layout import Topology

SMALL_CLASS = 2
"""A data-parallel group this small cannot tell fast from slow: its stage is compared as a whole."""


def work_classes(topology: Topology, ranks: Ints) -> Ints:
    """Class number per rank: same pipeline stage, same shard where replicas allow it, same GPU model.

    The data-parallel group is the class; where it has two members or less, all ranks of the stage are.
    """
    # Kept beside the topology it belongs to, so that it goes when the topology goes.
    cache: dict[bytes, Ints] = topology.__dict__.setdefault("_work_classes", {})
    key = ranks.tobytes()
    if key not in cache:
        cache[key] = _work_classes(topology, ranks)
    return cache[key]


def _work_classes(topology: Topology, ranks: Ints) -> Ints:
    stage = stages_of(topology)
    replica: dict[int, str] = {}
    for group in topology.groups:
        if group.kind in ("dp", "dp_cp") and len(group.ranks) > SMALL_CLASS:
            for rank in group.ranks:
                if group.kind == "dp_cp" or rank not in replica:
                    replica[rank] = group.id
    keys = [
        (stage.get(int(rank), 0), replica.get(int(rank), ""), topology.gpu_models.get(int(rank), ""))
        for rank in ranks
    ]
    numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    return np.array([numbers[key] for key in keys], np.int64)


def expert_classes(topology: Topology, ranks: Ints) -> Ints | None:
    """Class number per rank for work on experts: same stage, same experts, same GPU model; None without experts.

    How many tokens an expert gets differs from expert to expert, for as long as the router likes. So a class may have
    one member, who is compared with nobody.
    """
    holders = _holders(topology)
    if not holders:
        return None
    stage = stages_of(topology)
    keys = [
        (stage.get(rank, 0), holders.get(rank, f"rank {rank}"), topology.gpu_models.get(rank, ""))
        for rank in ranks.tolist()
    ]
    numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    return np.array([numbers[key] for key in keys], np.int64)


def _holders(topology: Topology) -> dict[int, str]:
    """What tells the experts of each rank: its expert-data-parallel group, else its place in its expert group.

    Megatron-LM makes the groups of dense models too: then they are the data-parallel ones, or have one member.
    """
    by_place = {
        rank: f"place {place}"
        for group in topology.groups
        if group.kind == "ep" and len(group.ranks) > 1
        for place, rank in enumerate(group.ranks)
    }
    by_group = [group for group in topology.groups if group.kind == "edp"]
    data = [set(group.ranks) for group in topology.groups if group.kind in ("dp", "dp_cp")]
    if not by_place and not any(set(group.ranks) < whole for group in by_group for whole in data):
        return {}
    return by_place | {rank: group.id for group in by_group for rank in group.ranks}


def classes_of_kind(topology: Topology, ranks: Ints, *, kind: str) -> Ints:
    """Class number per rank for one kind of kernels."""
    holders = expert_classes(topology, ranks) if kind == GROUPED else None
    return work_classes(topology, ranks) if holders is None else holders


def stages_of(topology: Topology) -> dict[int, int]:
    """Pipeline stage of each rank: its place in its pipeline group, 0 without one."""
    known: dict[int, int] | None = topology.__dict__.get("_stages_of")
    if known is None:
        known = topology.__dict__["_stages_of"] = {
            rank: place
            for group in topology.groups
            if group.kind == "pp"
            for place, rank in enumerate(group.ranks)
        }
    return known


def peer_medians(values: Floats, classes: Ints) -> Floats:
    """Median of the other members of each rank's class, last axis = rank; NaN values are not members.

    A rank counts as absent if any of its values is NaN.
    """
    result = np.full(values.shape, np.nan)
    present = np.isfinite(values).reshape(-1, values.shape[-1]).all(axis=0)
    for number in np.unique(classes):
        members = np.flatnonzero((classes == number) & present)
        if len(members) > 1:
            result[..., members] = leave_one_out_median(values[..., members])
    return result


def class_sizes(classes: Ints, present: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> Ints:
    """Number of present members of each rank's class."""
    counts = np.bincount(classes, weights=present.astype(np.float64))
    return counts[classes].astype(np.int64)
