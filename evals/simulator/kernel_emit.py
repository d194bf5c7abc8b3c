"""The kernels of a simulated rank, as its collector records them or as its host packs them."""

from __future__ import annotations

import numpy as np

from argus.collectors.host.compress import compress
from argus.collectors.records.events import KERNEL, Rows
from argus.collectors.records.kernel_blob import encode
from argus.evals.simulator.emit import Emitter, Table, collective_rows
from argus.evals.simulator.kernel_rows import COMM_NAMES, COPIES, COPY_SHARE, copy_rows, kernel_rows
from argus.evals.simulator.segments import segments_of


def kernels_of(source: Emitter, row: int, *, calls: Table | None = None) -> Rows:
    """KERNEL rows of the `row`-th rank of a stage over the timeline's steps, in order of their start.

    What the host loses, to collections, compilations, the run queue or the loader, lengthens no kernel.
    `calls` are the stage's collectives, if they are at hand.
    """
    job, rank = source.job, source.ranks.start + row
    if not job.kernels:
        return np.empty(0, KERNEL)
    before = source.spans[: next(n for n, s in enumerate(source.spans) if s.phase == "optimizer")]
    last = sum(len(span.ops) for span in before) - 1
    ended = np.flatnonzero(np.isfinite(source.end[row, :, last]) & source.seen[row])
    wall = source.costs.wall[source.times.steps][ended][:, :, rank]
    extra = {word: part[source.times.steps][ended, rank] for word, part in source.costs.kernels_s.items()}
    copied = extra.pop(COPIES, np.zeros(len(ended)))
    costs = source.costs
    stood_s = sum(costs.starved_s.values(), costs.gc_s + costs.compile_s)[source.times.steps][ended, rank]
    loaded_s = np.median(costs.wall[source.times.steps][ended, 0], axis=1)  # who waits longer copies no more
    texts, steps = source.names.of_rank(rank), source.step[ended]
    compute = kernel_rows(
        texts,
        job.kernels,
        steps=steps,
        start_ns=source.ns(source.end[..., :1])[row, ended, 0],
        work_s=np.maximum(wall[:, segments_of(job).kind > 0].sum(axis=1) - stood_s, 0.0),
        extra_s=extra,
    )
    copies = copy_rows(
        texts,
        steps=steps,
        start_ns=source.ns(source.entry[..., :1])[row, ended, 0],
        copy_s=COPY_SHARE * np.minimum(wall[:, 0] - copied, loaded_s) + copied,
    )
    rows = np.concatenate([compute, copies, _communication(source, row, calls or collective_rows(source))])
    return rows[np.argsort(rows["start_ns"], kind="stable")]


def _communication(source: Emitter, row: int, calls: Table) -> Rows:
    """One kernel per call: it runs from the rank's entry to the common end, waiting included."""
    part = calls[0][row][calls[1][row]]
    kinds = {source.names[op]: name for op, name in COMM_NAMES.items()}
    part = part[np.isin(part["op"], list(kinds))]
    rows = np.zeros(len(part), KERNEL)
    for column in ("step", "group", "seq", "phase"):
        rows[column] = part[column]
    rows["start_ns"], rows["dur_ns"] = part["entry_ns"], part["end_ns"] - part["entry_ns"]
    rows["name"] = [source.names[kinds[int(op)]] for op in part["op"]]
    rows["role"] = [source.names.role(int(group)) for group in part["group"]]
    return rows


def packed_kernels(source: Emitter, row: int, *, calls: Table | None = None) -> bytes:
    """The kernels of one rank and window as a blob with all their names; empty if it has none."""
    if not source.job.kernels or not len(rows := kernels_of(source, row, calls=calls)):
        return b""
    rank = source.ranks.start + row
    return encode([compress(rows, names=source.names.of_rank(rank), rank=rank)])
