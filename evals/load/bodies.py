"""Upload bodies of every host of a simulated cluster, window after window, as large as they are told to be."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from argus.collectors.records.events import Rows
from argus.collectors.records.heartbeat import Heartbeat, Status
from argus.collectors.records.kernel_blob import HEAD, RANK
from argus.collectors.records.layout import Layout
from argus.collectors.records.plan import WindowPlan
from argus.collectors.records.report import Report
from argus.collectors.records.summary import PHASE_CELL, RankWindow
from argus.collectors.records.upload import encode_windows
from argus.evals.simulator.job import Job
from argus.evals.simulator.kernel_blobs import RANKS_PER_HOST, blobs
from argus.evals.simulator.simulate import simulate

TP, PP = 8, 4
STEP_S = 4.0
"""15 steps a minute."""

NUM_KERNELS = 300
BASE_WINDOWS = 2
"""Windows that are simulated; later ones repeat them in turn, at later steps and times."""

POOL = 16
"""Different sets of inner phases the ranks share."""

POOL_HOSTS = 64
"""Different kernel summaries the hosts share: to draw those of all takes longer than a short load lasts."""

LAYERS, PARTS = 80, ("input_norm", "attention", "post_norm", "mlp")
SEED = 8


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """What its hosts send. `bases` are the simulated windows, rank by rank; `inner` what fills each up."""

    job: Job
    plan: WindowPlan
    layouts: tuple[Layout, ...]
    bases: tuple[tuple[RankWindow, ...], ...]
    inner: tuple[Rows, ...]
    kernels: tuple[bytes, ...]

    @property
    def num_hosts(self) -> int:
        """Hosts of eight ranks."""
        return self.job.ranks // RANKS_PER_HOST

    @property
    def window_s(self) -> float:
        """How long a window lasts."""
        return self.plan.first * STEP_S

    def windows(self, host: int, window: int, *, start_s: float) -> list[bytes]:
        """The windows of a host's ranks, as bytes each; the first bears the kernels of all."""
        ranks = range(host * RANKS_PER_HOST, (host + 1) * RANKS_PER_HOST)
        parts = [self._part(rank, window, start_s=start_s) for rank in ranks]
        parts[0] = replace(parts[0], kernels=self.kernels[host])
        return [part.to_bytes() for part in parts]

    def upload(self, host: int, window: int, *, start_s: float) -> tuple[bytes, int]:
        """The body of a host's upload, and how many bytes it holds before compression."""
        parts = self.windows(host, window, start_s=start_s)
        return encode_windows(parts), sum(map(len, parts))

    def _part(self, rank: int, window: int, *, start_s: float) -> RankWindow:
        base = self.bases[window % BASE_WINDOWS][rank]
        steps = window * self.plan.first - base.first_step
        shift_ns = round((start_s + window * self.window_s) * 1e9) - int(base.steps["start_ns"].min())
        inner = self.inner[rank % POOL].copy()
        inner["step"] += window * self.plan.first
        inner["native"] += len(base.names)
        return replace(
            base,
            window=window,
            first_step=window * self.plan.first,
            names=(*base.names, *inner_names()),
            steps=_moved(base.steps, steps, shift_ns, times=("start_ns", "end_ns")),
            cells=_moved(base.cells, steps, shift_ns, times=()),
            details=np.concatenate([_moved(base.details, steps, shift_ns, times=()), inner]),
            collectives=_moved(base.collectives, steps, shift_ns, times=("entry_ns", "end_ns")),
            events=_moved(base.events, steps, shift_ns, times=("start_ns",)),
        )

    def beats(self, host: int, *, now_s: float, step: int) -> bytes:
        """The body of a host's heartbeats at `now_s`, all ranks in `step`."""
        name = self.job.host(host * RANKS_PER_HOST)
        beats = [
            self._beat(host * RANKS_PER_HOST + i, name, now_s=now_s, step=step) for i in range(RANKS_PER_HOST)
        ]
        report = Report(host=name, num_ranks=RANKS_PER_HOST, parts={"stacks": "ok"}).to_json()
        return _json({"host": name, "heartbeats": beats, "processor": report})

    def _beat(self, rank: int, host: str, *, now_s: float, step: int) -> dict[str, Any]:
        now_ns = round(now_s * 1e9)
        status = Status(
            ts_ns=now_ns,
            step=step,
            phase="forward",
            phase_since_ns=now_ns - 10**8,
            step_since_ns=now_ns - 10**9,
            step_p50_ns=round(STEP_S * 1e9),
            groups={group.name: (40 * step, 40 * step) for group in self.layouts[rank].groups},
        )
        beat = Heartbeat(
            run=self.job.run, attempt=self.job.attempt, rank=rank, host=host, ts_s=now_s, status=status
        )
        return beat.to_json() | {"process_state": "S", "status_age_s": 0.5}


def make_cluster(*, run: str, num_ranks: int, window_steps: int, bytes_per_rank_step: int) -> Cluster:
    """A healthy job of TP 8 · PP 4 whose ranks send `bytes_per_rank_step` on average, kernels counted."""
    job = Job(
        run=run,
        ranks=num_ranks,
        tp=TP,
        pp=PP,
        micro_batches=PP,
        steps=BASE_WINDOWS * window_steps,
        step_s=0.8 * STEP_S,
        warmup_steps=0,
    )
    plan = WindowPlan(first=window_steps)
    done = simulate(job, rng=np.random.default_rng(SEED))
    bases = tuple(closed.parts for closed in done.windows(plan))
    pool = min(POOL_HOSTS * RANKS_PER_HOST, num_ranks)
    drawn = blobs(np.random.default_rng(SEED), num_ranks=pool, num_kernels=NUM_KERNELS)
    kernels = tuple(_of_host(drawn[host % len(drawn)], host) for host in range(num_ranks // RANKS_PER_HOST))
    bare = Cluster(
        job=job, plan=plan, layouts=done.layouts, bases=bases, inner=(_NONE,) * POOL, kernels=kernels
    )
    here = [sum(map(len, bare.windows(host, 0, start_s=0.0))) for host in range(0, bare.num_hosts, 37)]
    missing = bytes_per_rank_step * window_steps - float(np.mean(here)) / RANKS_PER_HOST
    return replace(bare, inner=_inner(max(round(missing / PHASE_CELL.itemsize), 0), num_steps=window_steps))


def _of_host(blob: bytes, host: int) -> bytes:
    """The blob of another host with `host`'s ranks in it."""
    ranks = np.frombuffer(blob, RANK, RANKS_PER_HOST, HEAD.size).copy()
    ranks["rank"] = np.arange(RANKS_PER_HOST) + host * RANKS_PER_HOST
    return blob[: HEAD.size] + ranks.tobytes() + blob[HEAD.size + ranks.nbytes :]


_NONE: Rows = np.empty(0, PHASE_CELL)


@cache
def inner_names() -> tuple[str, ...]:
    """What the modules of a large model are called."""
    return tuple(f"decoder.layers.{layer}.{part}" for layer in range(LAYERS) for part in PARTS)


def _inner(num: int, *, num_steps: int) -> tuple[Rows, ...]:
    """Module phases inside forward and backward: what most of an upload consists of."""
    rng = np.random.default_rng(SEED)
    pool = []
    for _ in range(POOL):
        rows = np.zeros(num, PHASE_CELL)
        rows["phase"] = rng.integers(3, 5, num)
        rows["native"] = np.arange(num) % (LAYERS * len(PARTS))
        rows["step"] = np.arange(num) * num_steps // max(num, 1)
        rows["count"] = PP
        rows["sum_ns"] = rng.lognormal(14.0, 1.0, num)
        rows["max_ns"] = rows["sum_ns"] // PP + rng.integers(0, 50_000, num)
        rows["wait_ns"] = rng.integers(0, 10_000, num)
        rows["cpu_ns"] = rows["sum_ns"] * rng.uniform(0.01, 0.2, num)
        pool.append(rows)
    return tuple(pool)


def _moved(rows: Rows, steps: int, shift_ns: int, *, times: Sequence[str]) -> Rows:
    moved = rows.copy()
    moved["step"] += steps
    for column in times:
        moved[column] += shift_ns
    return moved


def layouts_body(layouts: Sequence[Layout]) -> bytes:
    """The body that announces ranks."""
    return _json({"layouts": [layout.to_json() for layout in layouts]})


def _json(body: dict[str, object]) -> bytes:
    return json.dumps(body, separators=(",", ":")).encode()
