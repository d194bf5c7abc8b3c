"""Which ranks do the same work and may therefore be compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from argus.analytics.kernels.kinds import GROUPED
from argus.analytics.robust import leave_one_out_median
from argus.analytics.window import Floats, Ints
from argus.topology.layout import Topology

SMALL_CLASS = 2
"""A data-parallel group this small cannot tell fast from slow: its stage is compared as a whole."""


def work_classes(topology: Topology, ranks: Ints) -> Ints:
    """Class number per rank: same pipeline stage, same shard where replicas allow it, same GPU model.

    The data-parallel group is the class; where it has two members or less, all ranks of the stage are. Who is the only
    one of its GPU model there is compared with the ranks of another, see `_as_if`.
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
    places = {
        rank: (stage.get(rank, 0), replica.get(rank, ""))
        for rank in dict.fromkeys((*ranks.tolist(), *topology.gpu_models))
    }
    models: dict[tuple[int, str], Counter[str]] = {}
    for rank, place in places.items():
        models.setdefault(place, Counter())[topology.gpu_models.get(rank, "")] += 1
    as_if = {place: _as_if(count) for place, count in models.items()}
    keys = []
    for rank in ranks.tolist():
        place, model = places[rank], topology.gpu_models.get(rank, "")
        keys.append((place, as_if[place].get(model, model)))
    numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    return np.array([numbers[key] for key in keys], np.int64)


def _as_if(num_ranks: Mapping[str, int]) -> dict[str, str]:
    """Models with one rank in a place -> the model it is compared with; `num_ranks` = ranks of each model there.

    It is compared with the most frequent model, or with all others if no model is there twice: what it does beyond them
    the job waits for, be it the model's doing. Nowhere does it join so few that it would shift what they are compared
    with: two healthy ranks would both look slow beside one of a faster model. Ranks that tell no model, as missing ones
    do, are no model to compare with.
    """
    alone = [model for model, num in num_ranks.items() if num == 1]
    most = min(num_ranks, key=lambda model: (model == "", -num_ranks[model], model))
    if 1 < num_ranks[most] < len(alone) + 2:
        return {}
    return dict.fromkeys(alone, most)


def across_models(topology: Topology) -> dict[int, tuple[str, ...]]:
    """Ranks that are compared with other GPU models alone -> those models."""
    known: dict[int, tuple[str, ...]] | None = topology.__dict__.get("_across_models")
    if known is None:
        models = {rank: model for rank, model in topology.gpu_models.items() if model}
        ranks = np.array(sorted(models), np.int64)
        members: dict[int, Counter[str]] = {}
        classes = dict(zip(ranks.tolist(), work_classes(topology, ranks).tolist(), strict=True))
        for rank, number in classes.items():
            members.setdefault(number, Counter())[models[rank]] += 1
        known = topology.__dict__["_across_models"] = {
            rank: tuple(sorted(set(members[number]) - {models[rank]}))
            for rank, number in classes.items()
            if len(members[number]) > 1 and members[number][models[rank]] == 1
        }
    return known


def without_peers(topology: Topology) -> tuple[int, ...]:
    """Ranks whose own work is compared with nobody's only because no other rank at their place has their GPU model."""
    ranks = np.array(sorted(rank for rank, model in topology.gpu_models.items() if model), np.int64)
    if len(set(topology.gpu_models.values()) - {""}) < 2:
        return ()
    everyone = np.ones(len(ranks), np.bool_)
    here = class_sizes(work_classes(topology, ranks), everyone)
    of_any = class_sizes(work_classes(replace(topology, gpu_models={}), ranks), everyone)
    return tuple(ranks[(here == 1) & (of_any > 1)].tolist())


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
