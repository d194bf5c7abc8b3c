"""One attempt of a run in the facts that two runs can be compared by."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from argus.analytics.kernels.table import Kernel, KernelTable, dense, open_table
from argus.analytics.numbers import WindowNumbers
from argus.analytics.robust import middle
from argus.analytics.waits import waits_of
from argus.analytics.window import Window
from argus.collectors.records.layout import Layout
from argus.topology.layout import Topology

EACH_ITS_OWN = frozenset(
    {
        "CUDA_VISIBLE_DEVICES",
        "GROUP_RANK",
        "SLURM_JOB_ID",
        "SLURM_NODEID",
        "SLURM_RESTART_COUNT",
        "SLURM_TOPOLOGY_ADDR",
        "SLURM_TOPOLOGY_ADDR_PATTERN",
        "TORCHELASTIC_RESTART_COUNT",
    }
)
"""Variables that differ from rank to rank or start to start and change nothing."""

MAX_KERNELS = 400
"""Kernels kept of a run, those with the most time; a training step has 100 to 400."""

NCCL = re.compile(r"nccl(?:Dev)?Kernel_([A-Za-z]+)_?(.*)", re.IGNORECASE)
"""NCCL's kernels are named by operation, type, algorithm and protocol."""

WHOLE = "step boundaries (the whole trace counts as one step)"
"""What a run lacks whose steps nobody marked: nothing of it is by step."""

STEPS_ALIKE, MIN_WINDOWS = 4, 3
"""Steps that say as much as one window, for each resembles the one before; fewer windows tell no spread."""

KERNEL_CHUNK = 64
"""Kernels of a window opened at a time: bounds the memory of ten thousand ranks."""


@dataclass(frozen=True, kw_only=True)
class Level:
    """A time per step in seconds: median over windows, relative spread over them, number of windows."""

    p50_s: float
    spread: float
    num: int


@dataclass(frozen=True, kw_only=True)
class KernelLevel:
    """One (kernel, stream role): calls per step and rank, and the median duration of a call."""

    count: float
    p50_s: float


@dataclass(frozen=True, kw_only=True)
class RunFacts:
    """`env` and `versions` hold the value all ranks share, or how many there are. `groups`: kind to sizes.

    `late` = how long the other ranks waited on average for each rank, where single calls are known.
    """

    run: str
    attempt: int
    world_size: int
    hosts: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    gpu_models: Mapping[str, str] = field(default_factory=dict)
    groups: Mapping[str, str] = field(default_factory=dict)
    step: Level | None = None
    phases: Mapping[str, Level] = field(default_factory=dict)
    waits: Mapping[str, Level] = field(default_factory=dict)
    kernels: Mapping[str, KernelLevel] = field(default_factory=dict)
    late: Mapping[str, Level] = field(default_factory=dict)
    lacks: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As JSON-ready dict."""
        return asdict(self)

    @staticmethod
    def from_json(raw: Mapping[str, Any]) -> RunFacts:
        """Inverse of `to_json`."""
        step = raw["step"]
        return RunFacts(
            **{
                **raw,
                "hosts": tuple(raw["hosts"]),
                "lacks": tuple(raw["lacks"]),
                "step": None if step is None else Level(**step),
                "phases": {name: Level(**level) for name, level in raw["phases"].items()},
                "waits": {name: Level(**level) for name, level in raw["waits"].items()},
                "kernels": {name: KernelLevel(**level) for name, level in raw["kernels"].items()},
                "late": {name: Level(**level) for name, level in raw.get("late", {}).items()},
            }
        )


def facts_of(
    topology: Topology,
    layouts: Sequence[Layout],
    numbers: Sequence[WindowNumbers],
    *,
    kernels: Mapping[str, KernelLevel] | None = None,
    late: Mapping[str, Level] | None = None,
) -> RunFacts:
    """Facts of an attempt from its layouts and the numbers of some of its windows."""
    phases, waits = _phases(numbers)
    steps = _level(one.typical_step_s for one in numbers)
    lacks = [
        what
        for what, is_there in (
            ("step times", steps is not None),
            ("phases", bool(phases)),
            ("kernels", bool(kernels)),
            ("environment and versions", any(one.env or one.versions for one in layouts)),
        )
        if not is_there
    ]
    return RunFacts(
        run=topology.run,
        attempt=topology.attempt,
        world_size=topology.world_size,
        hosts=tuple(sorted(set(topology.hosts.values()) - {""})),
        env=_shared((one.env for one in layouts), but=EACH_ITS_OWN),
        versions=_shared(one.versions for one in layouts),
        gpu_models=_shared({"gpu_model": one.gpu_model} if one.gpu_model else {} for one in layouts),
        groups=_groups(topology),
        step=steps,
        phases=phases,
        waits=waits,
        kernels=kernels or {},
        late=late or {},
        lacks=tuple(lacks),
    )


def step_level(numbers: Sequence[WindowNumbers]) -> Level | None:
    """The step's level by its windows, by single steps where the windows are too few to tell their spread."""
    by_window = _level(one.typical_step_s for one in numbers)
    by_step = _level(step for one in numbers for step in one.job_step_s.tolist())
    if by_window is None or by_step is None or by_window.num >= MIN_WINDOWS:
        return by_window
    return replace(by_window, spread=by_step.spread, num=max(by_step.num // STEPS_ALIKE, by_window.num))


def late_levels(windows: Iterable[Window]) -> dict[str, Level]:
    """How long the other ranks waited on average for each rank, by `rank N`; empty where no call can be compared."""
    late: dict[str, list[float]] = defaultdict(list)
    for window in windows:
        waits = waits_of(window)
        if not len(waits.calls.call):
            continue
        for rank, seconds in zip(window.ranks.tolist(), waits.late_s.tolist(), strict=True):
            late[f"rank {rank}"].append(seconds)
    return _levels(late)


def kernel_levels(
    blobs: Sequence[bytes], *, names: Mapping[int, str], num_steps: int
) -> dict[str, KernelLevel]:
    """Kernels of one window by `name|role`, those with the most time. Raises WireError on a damaged blob."""
    table = open_table(blobs, texts=names)
    found: dict[str, tuple[float, KernelLevel]] = {}
    for first in range(0, len(table.kernels), KERNEL_CHUNK):
        for kernel in dense(table, first, last=min(first + KERNEL_CHUNK, len(table.kernels))):
            level = _kernel_level(kernel, num_steps=num_steps)
            if level is not None:
                found[_kernel_name(table, kernel)] = (level.count * level.p50_s, level)
    order = sorted(found, key=lambda name: (-found[name][0], name))[:MAX_KERNELS]
    return {name: found[name][1] for name in order}


def nccl_variants(kernels: Iterable[str]) -> dict[str, str]:
    """Variants of NCCL's kernels by operation.

    >>> nccl_variants(["ncclDevKernel_AllReduce_Sum_bf16_RING_LL(x)|comm:dp"])
    {'AllReduce': 'Sum_bf16_RING_LL'}
    """
    found: dict[str, set[str]] = defaultdict(set)
    for name in kernels:
        match = NCCL.match(name.partition("|")[0].partition("(")[0])
        if match:
            found[match[1]].add(match[2])
    return {op: ", ".join(sorted(variants)) for op, variants in sorted(found.items())}


def _kernel_name(table: KernelTable, kernel: Kernel) -> str:
    return f"{table.text(kernel.key[0])}|{table.text(kernel.key[1])}"


def _kernel_level(kernel: Kernel, *, num_steps: int) -> KernelLevel | None:
    """Median over the ranks that ran it; a call's median is that of the cluster most calls are in."""
    total = kernel.count.sum(axis=0)
    ran = total > 0
    if not ran.any():
        return None
    largest = kernel.count[:, ran].argmax(axis=0)
    p50 = np.exp(kernel.log_p50[:, ran][largest, np.arange(int(ran.sum()))].astype(np.float64)) * 1e-9
    count = float(np.median(total[ran])) / max(num_steps, 1)
    return KernelLevel(count=round(count, 6), p50_s=float(np.median(p50)))


def _phases(numbers: Sequence[WindowNumbers]) -> tuple[dict[str, Level], dict[str, Level]]:
    """Own time and waiting of the median rank by phase."""
    own: dict[str, list[float]] = defaultdict(list)
    waits: dict[str, list[float]] = defaultdict(list)
    for one in numbers:
        for index, name in enumerate(one.phases):
            own[name].append(middle(np.maximum(one.phase_s[index] - one.wait_s[index], 0.0)))
            waits[name].append(middle(one.wait_s[index]))
    return _levels(own), _levels(waits)


def _levels(values: Mapping[str, Sequence[float]]) -> dict[str, Level]:
    levels = {name: _level(series) for name, series in values.items()}
    return {name: level for name, level in sorted(levels.items()) if level is not None}


def _level(values: Iterable[float | None]) -> Level | None:
    seen = np.array([value for value in values if value is not None and math.isfinite(value)])
    if not seen.size:
        return None
    middle = float(np.median(seen))
    spread = 1.4826 * float(np.median(np.abs(seen - middle))) / middle if middle > 0 else 0.0
    return Level(p50_s=middle, spread=spread, num=len(seen))


def _shared(maps: Iterable[Mapping[str, str]], *, but: frozenset[str] = frozenset()) -> dict[str, str]:
    """The value the ranks agree on, else the most frequent and how many others there are."""
    values: dict[str, Counter[str]] = defaultdict(Counter)
    for each in maps:
        for name, value in each.items():
            if name not in but:
                values[name][value] += 1
    shared = {}
    for name, counted in sorted(values.items()):
        most = min(counted, key=lambda value: (-counted[value], value))
        shared[name] = most if len(counted) == 1 else f"{most} and {len(counted) - 1} other values"
    return shared


def _groups(topology: Topology) -> dict[str, str]:
    sizes: dict[str, Counter[int]] = defaultdict(Counter)
    for group in topology.groups:
        sizes[group.kind][len(group.ranks)] += 1
    return {
        kind: ", ".join(f"{count} × {size}" for size, count in sorted(counted.items()))
        for kind, counted in sorted(sizes.items())
    }
