"""The layout record of this rank, made anew whenever its process groups change."""

from __future__ import annotations

import os
import platform
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from argus.collectors.rank.identity import Place, allowed_env, attempt_of
from argus.collectors.records.layout import GroupInfo, Layout

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

NVIDIA_VERSION = Path("/proc/driver/nvidia/version")
MAX_GROUPS = 4096
PIPELINE = "pipeline"
"""Name and description of a group that only the pipeline's own code calls so."""


@dataclass(frozen=True, kw_only=True)
class Device:
    """The GPU of this rank; empty on a CPU job."""

    id: str = ""
    model: str = ""


class LayoutWatch:
    """Called each tick: the layout if it changed since the last call, else None."""

    def __init__(
        self,
        *,
        run: str,
        place: Place,
        env: Mapping[str, str],
        on_change: Callable[[], None],
        pipelines: Sequence[tuple[int, ...]] = (),
        began_ns: int = 0,
        gpu_index: Callable[[], int | None] = lambda: None,
    ) -> None:
        self._run = run
        self._place = place
        self._env = env
        self._on_change = on_change
        self._pipelines = pipelines
        self._began_ns = began_ns
        self._gpu_index = gpu_index
        self._seen: tuple[tuple[GroupInfo, ...], Device] | None = None

    def __call__(self) -> Layout | None:
        groups, device = process_groups(), gpu_device(self._gpu_index())
        if groups:
            groups = (*groups, *map(pipeline_group, tuple(self._pipelines)))
        key = (groups, device)
        # Groups that were all destroyed at the end say nothing new of who worked with whom.
        if key == self._seen or (self._seen is not None and self._seen[0] and not groups):
            return None
        self._on_change()
        ranks = [rank for group in groups for rank in group.ranks]
        layout = Layout(
            run=self._run,
            attempt=attempt_of(self._env),
            rank=self._place.rank,
            world_size=max([self._place.world_size, *(rank + 1 for rank in ranks)]),
            local_rank=self._place.local_rank,
            host=socket.gethostname(),
            pid=os.getpid(),
            began_ns=self._began_ns,
            device=device.id,
            gpu_model=device.model,
            groups=groups,
            env=allowed_env(self._env),
            versions=versions(),
        )
        self._seen = key  # once it is made: what failed is tried again
        return layout


def process_groups() -> tuple[GroupInfo, ...]:
    """Every process group this rank is a member of."""
    c10d = sys.modules.get("torch.distributed.distributed_c10d")
    if c10d is None:
        return ()
    groups: list[ProcessGroup] = list(c10d._world.pg_map)
    found = []
    for group in groups[:MAX_GROUPS]:
        ranks = c10d._world.pg_group_ranks.get(group)
        if not ranks:
            continue
        by_group_rank = sorted(ranks, key=ranks.__getitem__)
        name = c10d._world.pg_names.get(group, group.group_name)
        found.append(
            GroupInfo(name=str(name)[:256], desc=str(group.group_desc)[:256], ranks=tuple(by_group_rank))
        )
    return tuple(found)


def pipeline_group(ranks: tuple[int, ...]) -> GroupInfo:
    """The ranks of a pipeline in the order of their stages, where no process group says so."""
    return GroupInfo(name=PIPELINE, desc=PIPELINE, ranks=ranks)


def place_in_group() -> Place | None:
    """Rank and world size as the default process group has them; None without one."""
    c10d = sys.modules.get("torch.distributed.distributed_c10d")
    if c10d is None or not c10d.is_initialized():
        return None
    local = os.environ.get("LOCAL_RANK", "") or os.environ.get("SLURM_LOCALID", "")
    return Place(
        rank=c10d.get_rank(),
        world_size=c10d.get_world_size(),
        local_rank=int(local) if local.isdigit() else 0,
    )


def gpu_device(index: int | None) -> Device:
    """The GPU of that index once the job has initialised CUDA; never initialises it."""
    torch = sys.modules.get("torch")
    if torch is None or index is None or not torch.cuda.is_initialized():
        return Device()
    properties = torch.cuda.get_device_properties(index)
    uuid = getattr(properties, "uuid", None)
    bus = getattr(properties, "pci_bus_id", None)
    return Device(id=f"GPU-{uuid}" if uuid else f"pci:{bus}" if bus else "", model=str(properties.name)[:128])


def versions() -> dict[str, str]:
    """Versions of what the rank runs on, as far as they cost nothing to know."""
    torch = sys.modules.get("torch")
    found = {"python": platform.python_version()}
    if torch is not None:
        found["torch"] = str(torch.__version__)
        found["cuda"] = str(torch.version.cuda or "")
        if torch.cuda.is_initialized() and hasattr(torch.cuda, "nccl"):
            found["nccl"] = ".".join(map(str, torch.cuda.nccl.version()))
    if NVIDIA_VERSION.exists():
        found["driver"] = NVIDIA_VERSION.read_text().split("\n", 1)[0][:200]
    return {name: text for name, text in found.items() if text}
