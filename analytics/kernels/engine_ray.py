"""L3 effects on an existing Ray cluster: the same functions as in the local engine, over shards of kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module

from argus.analytics.kernels.effects import Effects
from argus.analytics.kernels.engine_local import effects_of_part
from argus.analytics.kernels.peers import Peers
from argus.analytics.kernels.table import KernelTable

MAX_RETRIES = 5
"""A shard is pure, so a node that dies costs its shards' time, not their results."""


@dataclass(kw_only=True)
class RayEngine:
    """Callable as `digest.Engine`; `address` is that of the cluster's head, `num_shards` the parts."""

    address: str
    num_shards: int = 16

    def __post_init__(self) -> None:
        ray = import_module("ray")
        if not ray.is_initialized():
            ray.init(address=self.address, log_to_driver=False, logging_level="warning")
        self._remote = ray.remote(effects_of_part).options(
            max_retries=MAX_RETRIES, scheduling_strategy="SPREAD"
        )

    def __call__(self, table: KernelTable, peers: Peers, blobs: Sequence[bytes]) -> Effects:
        """All effects of the table opened from `blobs`, which are put into the object store once."""
        ray = import_module("ray")
        num_kernels = len(table.kernels)
        parts = min(self.num_shards, num_kernels)
        cuts = [round(i * num_kernels / parts) for i in range(parts + 1)]
        stored, shared = ray.put(list(blobs)), ray.put(peers)
        futures = [self._remote.remote(stored, shared, cuts[i], cuts[i + 1]) for i in range(parts)]
        return Effects.join(ray.get(futures), num_ranks=len(table.ranks))

    def close(self) -> None:
        """Leave the cluster."""
        import_module("ray").shutdown()
