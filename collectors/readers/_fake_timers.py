"""Make small tables of phase timers, for tests: a 1F1B or interleaved job with known durations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

Row = dict[str, object]
Compute = tuple[str, int, int]
"""Direction, model chunk, micro-batch."""


@dataclass(frozen=True, kw_only=True)
class FakeJob:
    """Shape and durations of a job; `slow` multiplies the compute of single (replica, stage)."""

    replicas: int = 2
    stages: int = 4
    chunks: int = 1
    micro_batches: int = 8
    steps: int = 3
    forward_s: float = 0.1
    backward_s: float = 0.2
    transfer_s: float = 0.001
    sync_s: float = 0.05
    slow: Mapping[tuple[int, int], float] = field(default_factory=dict)
    noise: Callable[[], float] = lambda: 1.0


def fake_rows(job: FakeJob, *, stride: int = 1) -> list[Row]:
    """One row an operation, as the timers of such a job would record it."""
    rows: list[Row] = []
    for step in range(job.steps):
        lines = [_pipeline(job, replica) for replica in range(job.replicas)]
        last = [
            [max(end for name, _, end, _ in ops if name.endswith("compute")) for ops in line]
            for line in lines
        ]
        begun = [max(line[stage] for line in last) for stage in range(job.stages)]
        synced = [t + job.sync_s for t in begun]
        clipped = max(synced) + 0.001
        for replica, line in enumerate(lines):
            for stage, ops in enumerate(line):
                own = last[replica][stage]
                tail = [
                    ("grads-reduce-scatter", own, synced[stage], 0),
                    ("optimizer-clip-main-grad", synced[stage], clipped, -1),
                    ("optimizer", clipped, clipped + 0.01, -1),
                ]
                place = {"dp_rank": replica, "stage": stage, "step": step + 10}
                place["rank"] = (stage * job.replicas + replica) * stride
                rows += _numbered([*ops, *tail], place)
    return rows


def _numbered(ops: list[tuple[str, float, float, int]], place: Mapping[str, int]) -> list[Row]:
    count: dict[str, int] = {}
    out: list[Row] = []
    for name, start, end, chunk in sorted(ops, key=lambda op: op[1:3]):
        seq = count.setdefault(name, 0)
        count[name] += 1
        out.append(
            {**place, "optype": name, "start_ts": start, "duration": end - start, "seq_id": seq, "mc": chunk}
            | {"mb_id": seq if name.endswith("compute") else -1}
        )
    return out


def schedule(job: FakeJob, stage: int) -> list[Compute]:
    """The order of compute on a stage, Megatron's 1F1B or interleaved schedule."""
    stages, chunks, count = job.stages, job.chunks, job.micro_batches
    total, block = count * chunks, stages * chunks

    def nth(k: int, way: str) -> Compute:
        chunk = (k % block) // stages
        return way, chunk if way == "forward" else chunks - 1 - chunk, k // block * stages + k % stages

    warm = stages - stage - 1
    if chunks > 1:
        warm = warm * 2 + (chunks - 1) * stages
    else:
        block = stages = 1  # micro-batches in their order
    warm = min(warm, total)
    order = [nth(k, "forward") for k in range(warm)]
    for k in range(total - warm):
        order += [nth(warm + k, "forward"), nth(k, "backward")]
    return order + [nth(k, "backward") for k in range(total - warm, total)]


def _pipeline(job: FakeJob, replica: int) -> list[list[tuple[str, float, float, int]]]:
    """(type, start, end, chunk) of one replica by stage, each as early as what it needs."""
    orders = [schedule(job, stage) for stage in range(job.stages)]
    ended: dict[tuple[int, Compute], float] = {}
    free = [0.0] * job.stages
    posted: dict[tuple[int, str], float] = {}  # end of the last transfer of a type on a stage
    ops: list[list[tuple[str, float, float, int]]] = [[] for _ in range(job.stages)]
    at = [0] * job.stages
    while any(at[s] < len(orders[s]) for s in range(job.stages)):
        before = list(at)
        for stage in range(job.stages):
            if at[stage] < len(orders[stage]):
                at[stage] += _advance(job, replica, stage, orders, at, ended, free, posted, ops)
        assert at != before, "the schedule waits for itself"
    return ops


def _advance(
    job: FakeJob,
    replica: int,
    stage: int,
    orders: list[list[Compute]],
    at: list[int],
    ended: dict[tuple[int, Compute], float],
    free: list[float],
    posted: dict[tuple[int, str], float],
    ops: list[list[tuple[str, float, float, int]]],
) -> int:
    """Run the next compute of a stage if what it needs is there; how many were run."""
    way, chunk, batch = work = orders[stage][at[stage]]
    forth = 1 if way == "forward" else -1
    place = chunk * job.stages + stage - forth
    start = free[stage]
    if 0 <= place < job.stages * job.chunks:
        source = (place % job.stages, (way, place // job.stages, batch))
        if source not in ended:
            return 0
        sent = max(ended[source], posted.get((source[0], f"{way}-send"), 0.0))
        asked = max(_asked(orders[stage], at[stage], stage, ended), posted.get((stage, f"{way}-recv"), 0.0))
        done = max(sent, asked) + job.transfer_s
        ops[source[0]].append((f"{way}-send", sent, done, -1))
        ops[stage].append((f"{way}-recv", asked, done, -1))
        posted[source[0], f"{way}-send"] = posted[stage, f"{way}-recv"] = done
        start = max(start, done)
    took = (job.forward_s if way == "forward" else job.backward_s) / job.chunks
    took *= job.slow.get((replica, stage), 1.0) * job.noise()
    ended[stage, work] = free[stage] = start + took
    ops[stage].append((f"{way}-compute", start, start + took, chunk))
    return 1


def _asked(order: list[Compute], at: int, stage: int, ended: Mapping[tuple[int, Compute], float]) -> float:
    """A receive is posted after the previous compute of its direction, the first backward one two before it."""
    way = order[at][0]
    earlier = [work for work in order[:at] if work[0] == way]
    if earlier:
        return ended[stage, earlier[-1]]
    return ended[stage, order[at - 2]] if way == "backward" and at >= 2 else 0.0


def write_table(path: Path, rows: Sequence[Row], **columns: Sequence[object] | None) -> Path:
    """The rows as parquet; `columns` replaces whole columns, None takes them out."""
    table = {key: [row[key] for row in rows] for key in rows[0]} | columns
    arrow = import_module("pyarrow")
    made = arrow.table({key: values for key, values in table.items() if values is not None})
    import_module("pyarrow.parquet").write_table(made, path)
    return path
