"""The published rules with the thresholds of their one public re-implementation (argus-paper.md §6.1, §6.2).

L1: the slowest of eight steps takes twice the fastest. L2: the coefficient of variation of a phase over peers is
at least 0.15, and a rank two deviations up. L3: mean W₁ of a kernel above Q3 + 1.5 · IQR and twice the median.
No votes over windows, no waiting graph, no merging of what one fault causes at several places.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from argus.analytics.kernels.kinds import COMM, kind_of
from argus.analytics.kernels.paper import paper_flags, paper_scores
from argus.analytics.kernels.peers import classes
from argus.analytics.kernels.table import dense, open_table
from argus.analytics.peers import work_classes
from argus.analytics.window import Window
from argus.evals.systems._seen import CLASS_OF_PHASE, Seen, Suspicion, job_steps, over_steps

READS = ("steps", "cells", "kernels")
"""Which of the uploaded records it looks at."""

JITTER_STEPS, JITTER_RATIO = 8, 2.0
LEAST_CV, LEAST_Z = 0.15, 2.0
TIMES_MEDIAN = 2.0


def accuse(seen: Sequence[Seen], *, rng: np.random.Generator) -> Iterator[Suspicion]:
    """What each level says of each window."""
    for at, one in enumerate(seen):
        if _jitters(one.window):
            yield Suspicion(at=at, fault_class="step.slower", scope=f"run:{one.window.run}")
        yield from _phases(one.window, at)
        yield from _kernels(one.window, at)


def _jitters(window: Window) -> bool:
    job = job_steps(window)[-JITTER_STEPS:]
    return len(job) > 1 and bool(job.max() / job.min() >= JITTER_RATIO)


def _phases(window: Window, at: int) -> Iterator[Suspicion]:
    phases, of = over_steps(window.dur_s, window), work_classes(window.topology, window.ranks)
    for name, values in zip(window.phases, phases, strict=True):
        for number in np.unique(of):
            rows = np.flatnonzero((of == number) & np.isfinite(values))
            if len(rows) < 3 or not (mean := values[rows].mean()):
                continue
            spread = values[rows].std(ddof=1)
            if spread / mean < LEAST_CV:
                continue
            for row in rows[(values[rows] - mean) / spread >= LEAST_Z]:
                yield Suspicion(
                    at=at,
                    fault_class=CLASS_OF_PHASE.get(name, "unknown"),
                    ranks=(int(window.ranks[row]),),
                    share=float(values[row] / mean),
                )


def _kernels(window: Window, at: int) -> Iterator[Suspicion]:
    if not window.kernels:
        return
    table = open_table(window.kernels, texts=window.kernel_names)
    peers = classes(table.ranks, work_classes(window.topology, table.ranks))
    for kernel in dense(table, 0, last=len(table.kernels)):
        scores = paper_scores(kernel, peers)
        is_far = scores >= TIMES_MEDIAN * np.nanmedian(scores)
        kind = kind_of(table.text(kernel.key[0]), table.text(kernel.key[1]))
        fault_class = "link.slow" if kind == COMM else "compute.slow"
        for row in np.flatnonzero(paper_flags(scores, peers) & is_far):
            yield Suspicion(at=at, fault_class=fault_class, ranks=(int(table.ranks[row]),))
