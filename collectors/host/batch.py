"""How many windows go into one upload."""

from __future__ import annotations

from argus.collectors.records.summary import RankWindow

MAX_BATCH_BYTES = 16 << 20
"""Array bytes of a batch; stays far below the upload limit with the names on top."""


def num_bytes_of(windows: list[RankWindow]) -> int:
    """Array bytes of windows."""
    return sum(
        w.steps.nbytes + w.cells.nbytes + w.collectives.nbytes + w.events.nbytes + len(w.kernels)
        for w in windows
    )


def take_batch(windows: list[RankWindow]) -> list[RankWindow]:
    """Remove and return the first windows, up to the batch limit and at least one."""
    num_bytes = num = 0
    while num < len(windows) and (not num or num_bytes + num_bytes_of([windows[num]]) <= MAX_BATCH_BYTES):
        num_bytes += num_bytes_of([windows[num]])
        num += 1
    batch, windows[:] = windows[:num], windows[num:]
    return batch
