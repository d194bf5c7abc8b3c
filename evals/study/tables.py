"""Raw durations of all ranks to a table of their summaries, as the hosts pack them and the service opens them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from argus.analytics.kernels.mixture import Mixture, fit
from argus.analytics.kernels.table import KernelTable, dense, open_table
from argus.collectors.host.compress import summarise
from argus.collectors.host.split import Rule
from argus.collectors.records.kernel_blob import encode
from argus.collectors.records.kernels import KernelSummary
from argus.evals.study.families import Samples

STUDIED = "k0"
"""Name of the kernel under study; the others are k1, k2 …"""

PER_BLOB = 64
"""Ranks that share an upload."""

PER_CALL = 1 << 20
"""Durations summarised at once: every group is split on its own, so ranks only share the call's overhead."""


def table_of(kernels: Sequence[Samples], *, mode: str = "default", rule: Rule | None = None) -> KernelTable:
    """Packed and opened summaries of kernels given as (rank, launch) each, all durations positive."""
    num_ranks = len(kernels[0])
    together = max(1, PER_CALL // max(sum(samples.shape[1] for samples in kernels), 1))
    summaries: list[KernelSummary] = []
    for first in range(0, num_ranks, together):
        part = [samples[first : first + together] for samples in kernels]
        summaries += _summaries(part, first_rank=first, mode=mode, rule=rule)
    return open_table(
        [encode(summaries[first : first + PER_BLOB]) for first in range(0, num_ranks, PER_BLOB)]
    )


def _summaries(
    kernels: Sequence[Samples], *, first_rank: int, mode: str, rule: Rule | None
) -> Iterator[KernelSummary]:
    """The ranks' summaries from one call, in which each rank's kernels have names of their own."""
    num, num_ranks = len(kernels), len(kernels[0])
    names = tuple((f"k{i}", "compute") for i in range(num))
    key = np.concatenate(
        [np.repeat(np.arange(num_ranks) * num + i, samples.shape[1]) for i, samples in enumerate(kernels)]
    )
    durations = np.rint(np.concatenate([samples.reshape(-1) for samples in kernels]))
    both = summarise(key, durations, pairs=names * num_ranks, rank=first_rank, mode=mode, rule=rule)
    assert not both.dropped, "durations of the study are positive and finite"
    edges = np.searchsorted(both.clusters["kernel"], np.arange(num_ranks + 1) * num)
    for rank in range(num_ranks):
        clusters = both.clusters[edges[rank] : edges[rank + 1]].copy()
        clusters["kernel"] -= rank * num
        yield KernelSummary(
            rank=first_rank + rank,
            events=int(clusters["count"].sum()),
            mode=mode,
            kernels=names,
            clusters=clusters,
        )


def place_of(table: KernelTable, name: str) -> int:
    """Where a kernel stands in a table, which sorts by hash."""
    return next(i for i, key in enumerate(table.kernels) if table.text(key[0]) == name)


def shape_of(table: KernelTable, *, is_paper: bool = False) -> Mixture:
    """Mixtures of the studied kernel."""
    place = place_of(table, STUDIED)
    one = dense(table, place, last=place + 1)[0]
    unknown: NDArray[np.float64] = np.full(one.count.T.shape, np.nan)
    return fit(
        one.count.T.astype(np.int64),
        one.log_p50.T.astype(np.float64),
        log_p99=one.log_p99.T.astype(np.float64),
        log_max=unknown if is_paper else one.log_max.T.astype(np.float64),
        log_mean=unknown if is_paper else one.log_mean.T.astype(np.float64),
    )
