"""The kernels of a simulated rank, as its collector records them or as its host packs them."""

from __future__ import annotations

import numpy as np

from argus.collectors.host.compress import compress
from argus.collectors.records.events import Rows
from argus.collectors.records.kernel_blob import encode
from argus.evals.simulator.emit import Emitter
from argus.evals.simulator.kernel_rows import kernel_rows
from argus.evals.simulator.segments import segments_of


def kernels_of(source: Emitter, row: int) -> Rows:
    """KERNEL rows of the `row`-th rank of a stage over the timeline's steps."""
    job, rank = source.job, source.ranks.start + row
    backward = source.spans[: next(n for n, s in enumerate(source.spans) if s.phase == "optimizer")]
    last = sum(len(span.ops) for span in backward) - 1
    ended = np.flatnonzero(np.isfinite(source.end[row, :, last]) & source.seen[row])
    compute = segments_of(job).kind > 0
    work_s = source.costs.wall[source.times.steps][ended][:, compute, rank].sum(axis=1)
    start = source.ns(source.end[..., :1])[row, ended, 0]
    return kernel_rows(
        source.names.of_rank(rank), job.kernels, steps=source.step[ended], start_ns=start, work_s=work_s
    )


def packed_kernels(source: Emitter, row: int) -> bytes:
    """The kernels of one rank and window as a blob with all their names; empty if it has none."""
    if not source.job.kernels or not len(rows := kernels_of(source, row)):
        return b""
    rank = source.ranks.start + row
    return encode([compress(rows, names=source.names.of_rank(rank), rank=rank)])
