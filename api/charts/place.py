"""Where the ranks of an attempt are: along the dimensions of its layout, on hosts, under switches."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from typing import Any

import numpy as np
from sqlalchemy import Connection

from argus.analytics.heat import beside_peers, codes
from argus.analytics.numbers import WindowNumbers
from argus.analytics.peers import work_classes
from argus.analytics.store import asked
from argus.analytics.store.queries import Which
from argus.api.charts.heat import OWN, measured
from argus.topology.layout import Topology

Json = dict[str, Any]

MAX_RANKS = 1 << 16
"""Ranks on one map; of a larger run the first ones."""


def map_chart(
    connection: Connection,
    which: Which,
    topology: Topology,
    *,
    leaves: Mapping[str, str],
    window: int | None,
) -> Json:
    """Each rank's coordinates, host and device, and how its own work stands beside its peers' in one window."""
    world = min(topology.world_size, MAX_RANKS)
    hosts = list(dict.fromkeys(topology.host_of(rank) for rank in range(world)))
    place = {host: at for at, host in enumerate(hosts)}
    sizes = topology.dim_sizes if topology.coords else {}
    nowhere = (-1,) * len(topology.dims)
    coords = [topology.coords.get(rank, nowhere) for rank in range(world)]
    row = next(asked.numbers_bodies(connection, which.id, limit=1, upto=window), None)
    return {
        "run": which.run,
        "attempt": which.attempt,
        "world_size": topology.world_size,
        "window": None if row is None else row.window,
        "sizes": sizes,
        "coords": {dim: [at[i] for at in coords] for i, dim in enumerate(topology.dims)},
        "hosts": hosts,
        "leaf": [leaves.get(host, "") for host in hosts],
        "host": [place[topology.host_of(rank)] for rank in range(world)],
        "device": [topology.devices.get(rank, "") for rank in range(world)],
        "gpu_models": sorted(set(topology.gpu_models.values())),
        "inferred": list(topology.inferred),
        "conflicts": list(topology.conflicts)[:20],
        "codes": _codes(topology, None if row is None else row.numbers, world),
    }


def _codes(topology: Topology, numbers: bytes | None, world: int) -> str:
    values = np.full((1, topology.world_size), np.nan)
    if numbers is not None:
        one = WindowNumbers.from_bytes(numbers)
        inside = one.ranks < topology.world_size
        values[0, one.ranks[inside]] = measured(one, OWN)[inside]
    everyone = np.arange(topology.world_size, dtype=np.int64)
    logs = beside_peers(values, work_classes(topology, everyone))[0, :world]
    return b64encode(codes(logs).tobytes()).decode()
