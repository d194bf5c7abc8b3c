"""A mesh-parallel job at any size: TP, PP, DP and EP groups that really wait for one another.

Numpy over whole stages, so that a window of 10,000 ranks takes seconds. All micro-batches go forward, then all
back (GPipe order); a tensor-parallel call follows each half of a piece, experts exchange tokens between the
halves, stages send to the next without waiting, and the replicas meet at the end of the step.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from argus.analytics.window import Floats, Ints
from argus.collectors.records.layout import GroupInfo, Layout
from argus.collectors.records.summary import RankWindow
from argus.evals.simulator.mesh_rows import Log, Place, rank_windows

BACKWARD_RATIO = 2.0
"""Backward work over forward work."""

DATA_SHARE, OPTIMIZER_SHARE = 0.02, 0.06

TRANSFER_NOISE = 0.05
"""Relative jitter of a transfer."""


@dataclass(frozen=True, kw_only=True)
class Mesh:
    """A job of pp · dp · tp ranks, rank = (stage · dp + replica) · tp + shard; experts span `ep` replicas.

    `step_s` is a rank's own work in one step, `noise` the relative jitter of one piece of it, `spread` a rank's
    lasting difference, `transfer_share` what a transfer lasts against a forward piece. `clock_s` (host,) is
    added to what each host's clock says, `drift` (host,) in seconds per second.
    """

    pp: int = 1
    dp: int = 2
    tp: int = 1
    ep: int = 1
    micro_batches: int = 4
    step_s: float = 1.0
    noise: float = 0.02
    spread: float = 0.005
    transfer_share: float = 0.02
    ranks_per_host: int = 8
    clock_s: Floats | None = None
    drift: Floats | None = None
    start_s: float = 1_700_000_000.0
    run: str = "mesh"
    attempt: int = 0

    def __post_init__(self) -> None:
        if min(self.pp, self.dp, self.tp, self.ep, self.micro_batches) < 1 or self.dp % self.ep:
            raise ValueError(f"a mesh needs sizes of at least 1 and dp a multiple of ep, got {self}")

    @property
    def ranks(self) -> int:
        """World size."""
        return self.pp * self.dp * self.tp

    def host(self, rank: int) -> str:
        """Name of the host a rank runs on."""
        return f"h-{rank // self.ranks_per_host:04d}"


@dataclass(frozen=True, kw_only=True)
class Harm:
    """What is wrong in a window: how many times longer the work of ranks takes (`slow`), the transfers of a
    group (`groups`, by kind and number) or those between two ranks (`pairs`, sender first)."""

    slow: Mapping[int, float] = field(default_factory=dict)
    groups: Mapping[tuple[str, int], float] = field(default_factory=dict)
    pairs: Mapping[tuple[int, int], float] = field(default_factory=dict)


def members_of(mesh: Mesh) -> dict[str, Ints]:
    """Ranks of every group of two or more, by kind. (group, member)"""
    grid = np.arange(mesh.ranks, dtype=np.int64).reshape(mesh.pp, mesh.dp, mesh.tp)
    experts = grid.reshape(mesh.pp, mesh.dp // mesh.ep, mesh.ep, mesh.tp)
    every = {
        "tp": grid.reshape(-1, mesh.tp),
        "pp": grid.transpose(1, 2, 0).reshape(-1, mesh.pp),
        "dp": grid.transpose(0, 2, 1).reshape(-1, mesh.dp),
        "ep": experts.transpose(0, 1, 3, 2).reshape(-1, mesh.ep),
        "edp": experts.transpose(0, 2, 3, 1).reshape(-1, mesh.dp // mesh.ep if mesh.ep > 1 else 1),
    }
    return {kind: members for kind, members in every.items() if members.shape[1] > 1}


def mesh_layouts(mesh: Mesh) -> tuple[Layout, ...]:
    """What each rank says of itself at the start."""
    mine: list[list[GroupInfo]] = [[] for _ in range(mesh.ranks)]
    for kind, members in members_of(mesh).items():
        for number, ranks in enumerate(members.tolist()):
            info = GroupInfo(name=f"{kind}{number}", desc=f"mesh_{kind}", ranks=tuple(ranks))
            for rank in ranks:
                mine[rank].append(info)
    return tuple(
        Layout(
            run=mesh.run,
            attempt=mesh.attempt,
            rank=rank,
            world_size=mesh.ranks,
            local_rank=rank % mesh.ranks_per_host,
            host=mesh.host(rank),
            pid=1000 + rank,
            device=f"GPU-{rank:08x}",
            gpu_model="H100",
            groups=tuple(groups),
            source="simulator",
        )
        for rank, groups in enumerate(mine)
    )


def mesh_windows(
    mesh: Mesh, harms: Iterable[Harm], *, rng: np.random.Generator, num_steps: int = 10
) -> Iterator[tuple[RankWindow, ...]]:
    """One window of all ranks per item of `harms`, played one after the other."""
    members = members_of(mesh)
    host = np.arange(mesh.ranks) // mesh.ranks_per_host
    none = np.zeros(int(host.max()) + 1)
    place = Place(
        run=mesh.run,
        attempt=mesh.attempt,
        hosts=tuple(mesh.host(rank) for rank in range(mesh.ranks)),
        members=members,
        start_s=mesh.start_s,
        clock_s=(none if mesh.clock_s is None else mesh.clock_s)[host],
        drift=(none if mesh.drift is None else mesh.drift)[host],
    )
    player = _Player(mesh, members, rng=rng)
    for index, harm in enumerate(harms):
        log = player.play(harm, num_steps)
        yield rank_windows(log, place, index=index)


class _Player:
    """Plays steps; `now` (stage, replica, shard) is where each rank is, in seconds since the start."""

    def __init__(self, mesh: Mesh, members: Mapping[str, Ints], *, rng: np.random.Generator) -> None:
        self.mesh, self.rng = mesh, rng
        self.shape = (mesh.pp, mesh.dp, mesh.tp)
        self.now = np.zeros(self.shape)
        self.lasting = np.exp(rng.normal(0, mesh.spread, self.shape))
        body = mesh.step_s * (1 - DATA_SHARE - OPTIMIZER_SHARE)
        self.piece_s = body / (1 + BACKWARD_RATIO) / mesh.micro_batches
        self.num_groups = {kind: len(rows) for kind, rows in members.items()}
        self.group: dict[str, Ints] = {}
        for kind, rows in members.items():
            of_rank = np.zeros(mesh.ranks, np.int64)
            of_rank[rows] = np.arange(len(rows))[:, None]
            self.group[kind] = of_rank.reshape(self.shape)
        self.ids = np.arange(mesh.ranks, dtype=np.int64).reshape(self.shape)
        self.seq: dict[tuple[str, int, str], int] = {}
        self.sent: dict[int, list[tuple[int, Floats]]] = {}

    def play(self, harm: Harm, num_steps: int) -> Log:
        """The next steps of all ranks."""
        self.harm, self.log = harm, Log(num_steps, self.mesh.ranks)
        self.factor = self.lasting.copy()
        for rank, factor in harm.slow.items():
            self.factor.reshape(-1)[rank] *= factor
        self.seq.clear()
        for step in range(num_steps):
            self._step(step)
        return self.log

    def _step(self, step: int) -> None:
        mesh, stages = self.mesh, range(self.mesh.pp)
        self.log.begin(step, self.now)
        for stage in stages:
            self._work(stage, mesh.step_s * DATA_SHARE)
        self.log.close("data", self.now)
        for way, order in (("forward", stages), ("backward", stages[::-1])):
            for micro_batch in range(mesh.micro_batches):
                for stage in order:
                    self._piece(way, micro_batch, stage)
            self.log.close(way, self.now)
        for stage in stages:
            self._meet(stage, "edp", "reduce_scatter", axis=0, parts=(mesh.dp // mesh.ep, mesh.ep))
            self._meet(stage, "dp", "reduce_scatter", axis=0, parts=(mesh.dp, 1))
        self.log.close("grad_sync", self.now)
        for stage in stages:
            self._work(stage, mesh.step_s * OPTIMIZER_SHARE)
        self.log.close("optimizer", self.now)
        self.log.end(self.now)

    def _work(self, stage: int, seconds: float) -> None:
        jitter = np.exp(self.rng.normal(0, self.mesh.noise, self.now[stage].shape))
        self.now[stage] += seconds * jitter * self.factor[stage]

    def _piece(self, way: str, micro_batch: int, stage: int) -> None:
        mesh, ahead = self.mesh, 1 if way == "forward" else -1
        if 0 <= stage - ahead < mesh.pp:
            self._receive(way, stage, stage - ahead)
        seconds = self.piece_s * (1.0 if way == "forward" else BACKWARD_RATIO)
        for half in range(2):
            if half:
                self._meet(stage, "ep", "all_to_all", axis=1, parts=(mesh.dp // mesh.ep, mesh.ep))
            self._work(stage, seconds / 2)
            self._meet(stage, "tp", "all_reduce", axis=2, parts=(mesh.dp, 1))
        if 0 <= stage + ahead < mesh.pp:
            self._send(way, stage, stage + ahead)

    def _meet(self, stage: int, kind: str, op: str, *, axis: int, parts: tuple[int, int]) -> None:
        """A call of every group of the kind in a stage; `parts` splits the replicas, members along `axis`."""
        if kind not in self.group:
            return
        entry, group = self.now[stage].copy(), self.group[kind][stage]
        last = entry.reshape(*parts, self.mesh.tp).max(axis=axis, keepdims=True)
        together = np.broadcast_to(last, (*parts, self.mesh.tp)).reshape(entry.shape)
        self.now[stage] = together + self._transfers(kind)[group]
        seq = self._next(kind, stage)
        self.log.call(kind, op, seq, rank=self.ids[stage], group=group, entry=entry, end=self.now[stage])

    def _transfers(self, kind: str) -> Floats:
        """How long this call lasts in each group of the kind. (group,)"""
        usual = self.piece_s * self.mesh.transfer_share
        lasts = usual * np.exp(self.rng.normal(0, TRANSFER_NOISE, self.num_groups[kind]))
        for (at, number), factor in self.harm.groups.items():
            if at == kind:
                lasts[number] *= factor
        return np.asarray(lasts)

    def _send(self, way: str, stage: int, to: int) -> None:
        entry, rank, peer = self.now[stage].copy(), self.ids[stage], self.ids[to]
        usual = self.piece_s * self.mesh.transfer_share
        lasts = usual * np.exp(self.rng.normal(0, TRANSFER_NOISE, entry.shape))
        for pair, factor in self.harm.pairs.items():
            lasts[(rank == pair[0]) & (peer == pair[1])] *= factor
        seq = self._next("pp", stage, way)
        arrives = entry + lasts
        self.sent.setdefault(stage, []).append((seq, arrives))
        group = self.group["pp"][stage]
        self.log.call(
            "pp", "send", seq, rank=rank, group=group, entry=entry, end=arrives, peer=peer, blocks=False
        )

    def _receive(self, way: str, stage: int, source: int) -> None:
        seq, arrives = self.sent[source].pop(0)
        entry = self.now[stage].copy()
        self.now[stage] = np.maximum(entry, arrives)
        peer, group = self.ids[source], self.group["pp"][stage]
        end = self.now[stage]
        self.log.call("pp", "recv", seq, rank=self.ids[stage], group=group, entry=entry, end=end, peer=peer)

    def _next(self, kind: str, stage: int, way: str = "") -> int:
        key = (kind, stage, way)
        self.seq[key] = self.seq.get(key, -1) + 1
        return self.seq[key]
