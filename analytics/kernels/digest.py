"""What one window's kernels say, kept for the windows that follow."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from argus.analytics.kernels.average import Parts
from argus.analytics.kernels.effects import Effects, effects_of_all
from argus.analytics.kernels.kinds import is_of_experts
from argus.analytics.kernels.own import Change, change, sample
from argus.analytics.kernels.peers import Ints, Peers, classes
from argus.analytics.kernels.running import Running
from argus.analytics.kernels.scan import Candidates, scan
from argus.analytics.kernels.settings import Settings
from argus.analytics.kernels.table import KernelTable, open_table
from argus.analytics.peers import expert_classes, stages_of, work_classes
from argus.analytics.window import Window
from argus.collectors.records.errors import WireError
from argus.collectors.records.kernel_read import bundle, open_blob, read
from argus.collectors.records.kernels import CLUSTER_BYTES, RAW_EVENT_BYTES
from argus.topology.layout import Topology

Reals = NDArray[np.float32]

_T = TypeVar("_T", np.float16, np.float32, np.uint8)

Pair = tuple[tuple[int, int], int]
"""A kernel's key and a rank."""

Engine = Callable[[KernelTable, Peers, Sequence[bytes]], Effects]
"""Computes all effects of a table opened from these blobs; every engine gives the same numbers."""

KEPT = 8
"""Past windows whose means are kept: what a device's own past is made of."""

ACROSS = -1
"""Stands for the stage of a group that reaches over several."""


@dataclass(frozen=True, kw_only=True)
class KernelDigest:
    """Kernels of a window: `keys` (kernel,) sorted as in the table, `mean` (kernel, rank) log duration,
    `parts` the effects that later windows average.

    `ratio` (rank,) is raw bytes over summary bytes, `events` (rank,) how many launches that is of. `shift`, `tail`,
    `device` hold the candidates as sets of (key, rank) and of ranks, `spikes` the number of long launches behind those
    of the first two. `change` is against the windows before, None where these are too few. `table`, `effects` and
    `found` are there for the window itself only.
    """

    ranks: Ints
    keys: tuple[tuple[int, int], ...]
    devices: tuple[str, ...]
    mean: Reals
    parts: Parts
    ratio: Reals
    events: Reals
    shift: frozenset[Pair]
    tail: frozenset[Pair]
    device: frozenset[int]
    spikes: Mapping[Pair, float]
    peers: Peers = field(repr=False)
    running: Running | None = field(default=None, repr=False)
    change: Change | None = field(default=None, repr=False)
    table: KernelTable | None = field(default=None, repr=False)
    effects: Effects | None = field(default=None, repr=False)
    found: Candidates | None = field(default=None, repr=False)

    @property
    def typical(self) -> Reals:
        """Log durations without what the mean has beyond the median: a spike makes no device slower. (kernel, rank)"""
        tail = self.parts.mean.astype(np.float32) - self.parts.p50.astype(np.float32)
        return self.mean - np.fmax(tail, np.float32(0.0))  # unknown: none

    def slim(self) -> KernelDigest:
        """Without what only the window itself needs."""
        change = self.change.slim() if self.change is not None else None
        return replace(self, table=None, effects=None, found=None, change=change)

    def after(self, past: Sequence[KernelDigest], *, settings: Settings | None = None) -> KernelDigest:
        """With the running mean of the window before, if there is one, led on by this window, and the change since."""
        settings, running = settings or Settings(), Running.empty(self.mean.shape)
        if past and past[-1].running is not None:
            running = past[-1].running.rearranged(lambda values: aligned(values, past[-1], now=self, fill=0))
        return replace(
            self,
            running=running.extended(self.parts, settings=settings),
            change=_change(self, past[-KEPT:], settings=settings),
        )


def digest_kernels(
    window: Window, *, engine: Engine | None = None, settings: Settings | None = None
) -> KernelDigest | None:
    """Digest of the window's kernel summaries, None if it has none that can be read.

    A blob that turns out damaged is left out with the reason counted in the table's `refused`.
    """
    blobs = window.kernels
    table = open_table(blobs, texts=window.kernel_names)
    if not table.kernels:
        return None
    peers = kernel_peers(window.topology, table)
    try:
        effects = (engine or _here)(table, peers, blobs)
    except WireError:
        table, blobs = _sound(blobs, texts=window.kernel_names)
        if not table.kernels:
            return None
        peers = kernel_peers(window.topology, table)
        effects = (engine or _here)(table, peers, blobs)
    return digest_table(
        table,
        peers,
        effects=effects,
        devices=tuple(_device(window.topology, int(rank)) for rank in table.ranks),
        step_ns=step_ns(window, effects),
        num_steps=window.num_steps,
        settings=settings or Settings(),
    )


def _sound(blobs: Sequence[bytes], *, texts: Mapping[int, str]) -> tuple[KernelTable, tuple[bytes, ...]]:
    """The table of the blobs that can be read to their end."""
    kept: list[bytes] = []
    refused: Counter[str] = Counter()
    for blob in blobs:
        try:
            read(bundle([open_blob(blob)]))
        except WireError as error:
            refused[str(error)[:60]] += 1
        else:
            kept.append(blob)
    table = open_table(kept, texts=texts)
    return replace(table, refused={**table.refused, **refused}), tuple(kept)


def digest_table(
    table: KernelTable,
    peers: Peers,
    *,
    step_ns: float,
    num_steps: int,
    settings: Settings,
    effects: Effects | None = None,
    devices: tuple[str, ...] | None = None,
) -> KernelDigest:
    """Digest of an opened table; effects are computed here if not given, a rank is its own device if unnamed."""
    digest = digest_effects(
        effects or effects_of_all(table, peers),
        peers,
        keys=table.kernels,
        is_compute=is_compute(table),
        ratio=_ratio(table),
        events=table.events.astype(np.float32),
        step_ns=step_ns,
        num_steps=num_steps,
        settings=settings,
        devices=devices,
    )
    return replace(digest, table=table)


def digest_effects(
    effects: Effects,
    peers: Peers,
    *,
    keys: tuple[tuple[int, int], ...],
    is_compute: NDArray[np.bool_],
    ratio: Reals,
    events: Reals,
    step_ns: float,
    num_steps: int,
    settings: Settings,
    devices: tuple[str, ...] | None = None,
) -> KernelDigest:
    """Digest of the effects of kernels `keys` on the peers' ranks; `is_compute` (kernel,), `ratio`, `events` (rank,)."""
    found = scan(
        effects,
        peers,
        is_compute=is_compute,
        window_s=step_ns * num_steps * 1e-9,
        settings=settings,
    )
    return KernelDigest(
        ranks=peers.ranks,
        keys=keys,
        devices=devices or tuple(str(rank) for rank in peers.ranks),
        mean=effects.mean,
        parts=Parts.of(effects, found.factor),
        ratio=ratio,
        events=events,
        shift=_pairs(found.shift, keys, peers.ranks),
        tail=_pairs(found.tail, keys, peers.ranks),
        device=frozenset(peers.ranks[found.device].tolist()),
        spikes=_spikes(effects, found.shift | found.tail, keys, peers.ranks),
        peers=peers,
        effects=effects,
        found=found,
    )


def _here(table: KernelTable, peers: Peers, blobs: Sequence[bytes]) -> Effects:
    return effects_of_all(table, peers)


def kernel_peers(topology: Topology, table: KernelTable) -> Peers:
    """Classes of ranks that do the same work in the kernels of a table, and the communication groups."""
    ranks = table.ranks
    place = {int(rank): i for i, rank in enumerate(ranks)}
    stage = stages_of(topology)
    groups: dict[tuple[str, int], list[tuple[str, Ints]]] = {}
    for group in topology.groups:
        members = [place.get(rank, -1) for rank in group.ranks]
        if group.kind != "world" and len(members) - members.count(-1) > 1:
            stages = {stage.get(rank, 0) for rank in group.ranks}
            key = (group.kind, stages.pop() if len(stages) == 1 else ACROSS)
            groups.setdefault(key, []).append((group.id, np.array(members, np.int64)))
    holders = expert_classes(topology, ranks)
    # A kernel whose name has not arrived may be of experts.
    of_experts = [
        name not in table.texts or is_of_experts(table.text(name), table.text(role))
        for name, role in table.kernels
    ]
    return replace(
        classes(
            ranks,
            work_classes(topology, ranks),
            groups={kind: tuple(some) for kind, some in groups.items()},
            roles=topology.roles,
        ),
        experts=classes(ranks, holders) if holders is not None and any(of_experts) else None,
        of_experts=np.array(of_experts, np.bool_),
    )


def is_compute(table: KernelTable) -> NDArray[np.bool_]:
    """Kernels that run on a compute stream; communication waits for others and accuses nobody. (kernel,)

    A role whose definition has not arrived may be communication.
    """
    roles = [table.texts.get(role, "comm") for _, role in table.kernels]
    return np.array([not role.startswith("comm") for role in roles], np.bool_)


def step_ns(window: Window, effects: Effects) -> float:
    """Typical step; without step times the ranks' kernel time."""
    seen = window.step_s[:, window.usable]
    seen = seen[np.isfinite(seen)]
    if len(seen):
        return float(np.median(seen)) * 1e9
    return float(effects.total_ns.sum(axis=0).mean()) / max(window.num_steps, 1)


def _change(now: KernelDigest, past: Sequence[KernelDigest], *, settings: Settings) -> Change | None:
    """Change against the past windows, None if these are too few."""
    if len(past) < settings.history_windows:
        return None
    assert now.effects is not None and now.found is not None
    usual = np.array([aligned(one.typical, one, now=now, fill=np.nan) for one in past])
    seen, held = sample(usual), None
    for window, one in zip(usual, past, strict=True):
        excess = one.change.excess if one.change is not None else None
        held = aligned(excess, one, now=now, fill=0.0).astype(np.float32) if excess is not None else None
        if held is not None:
            window -= held
    return change(
        now.typical,
        usual,
        seen=seen,
        held=held,
        asked=now.found.is_compute,
        peers=now.peers,
        noise=now.effects.noise,
        settings=settings,
    )


def aligned(values: NDArray[_T], past: KernelDigest, *, now: KernelDigest, fill: float) -> NDArray[_T]:
    """Values (…, kernel, rank) of a past window in the order of the present kernels and devices, `fill` of new ones."""
    if past.keys == now.keys and past.devices == now.devices:
        return values
    out = np.full((*values.shape[:-2], *now.mean.shape), fill, values.dtype)
    (k, from_k), (r, from_r) = _places(past.keys, now.keys), _places(past.devices, now.devices)
    out[..., k[:, None], r] = values[..., from_k[:, None], from_r]
    return out


def parts_for(one: KernelDigest, *, now: KernelDigest) -> Parts:
    """Effects of a past window in the order of the present kernels and devices, NaN of new ones."""
    if one.keys == now.keys and one.devices == now.devices:
        return one.parts
    factor = np.full(len(now.devices), np.nan, np.float32)
    r, from_r = _places(one.devices, now.devices)
    factor[r] = one.parts.factor[from_r]
    return one.parts.rearranged(lambda values: aligned(values, one, now=now, fill=np.nan), factor=factor)


def _places(past: Sequence[Hashable], now: Sequence[Hashable]) -> tuple[Ints, Ints]:
    """Where in `now`, and where in `past`, those stand that are in both."""
    place = {one: i for i, one in enumerate(past)}
    both = np.array([(i, place[one]) for i, one in enumerate(now) if one in place], np.int64).reshape(-1, 2)
    return both[:, 0], both[:, 1]


def _device(topology: Topology, rank: int) -> str:
    return f"{topology.host_of(rank)}/{topology.devices.get(rank) or rank}"


def _ratio(table: KernelTable) -> Reals:
    summary = np.maximum(table.clusters * CLUSTER_BYTES, 1)
    return np.asarray(table.events * RAW_EVENT_BYTES / summary, np.float32)


def _pairs(flags: NDArray[np.bool_], keys: Sequence[tuple[int, int]], ranks: Ints) -> frozenset[Pair]:
    return frozenset((keys[k], int(ranks[r])) for k, r in np.argwhere(flags))


def _spikes(
    effects: Effects, flags: NDArray[np.bool_], keys: Sequence[tuple[int, int]], ranks: Ints
) -> dict[Pair, float]:
    """How many launches as long as the longest make up what each flagged kernel lost; one where that is not known."""
    k, r = np.nonzero(flags)
    tail, shift = effects.tail[k, r], effects.shift[k, r]
    lost = 1.0 - np.exp(-np.maximum(np.where(tail == 0.0, shift, tail), 0.0))
    # One launch as long as the longest takes so much more than a launch does on average.
    more = np.expm1(np.maximum(effects.peak[k, r] - effects.mean[k, r], 1e-3))
    launches = effects.total_ns[k, r] * np.exp(-effects.mean[k, r])
    number = np.maximum(np.nan_to_num(launches * lost / more), 1.0)
    return {
        (keys[int(kernel)], int(ranks[rank])): float(one)
        for kernel, rank, one in zip(k, r, number, strict=True)
    }


def expected_per_day(log10_probability: float, *, num_tests: int, window_s: float) -> float:
    """Significance: −log10 of the number of such findings per healthy day."""
    tests = max(num_tests, 1) * 86_400.0 / max(window_s, 1.0)
    return -(log10_probability + math.log10(tests))
