"""Windows of a healthy job as L1 and L2 see it, with the kernels a test gives its ranks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from argus.analytics.attempt import Advance, AttemptState, advance
from argus.analytics.incident import Incident
from argus.analytics.window import Window
from argus.collectors.host.compress import summarise
from argus.collectors.records.kernel_blob import encode
from argus.evals.simulator.job import Job
from argus.topology.layout import Topology
from tests.analytics.kernels.test_incidents import KERNELS, played

PER_STEP = 4

Durations = NDArray[np.float64]
Trouble = Callable[[np.random.Generator, int, str, Window, Durations], Durations]
"""(rng, rank, kernel, window, healthy durations) to the durations there."""


@cache
def flat(ranks: int, steps: int, *, ep: int = 1) -> tuple[Topology, tuple[Window, ...]]:
    """A job of single-GPU replicas, eight to a host, in which nothing is slow."""
    return played(Job(ranks=ranks, tp=1, ep=ep, ranks_per_host=8, steps=steps, step_s=1.0), ())


def advances(
    trouble: Trouble,
    *,
    ranks: int,
    steps: int,
    seed: int = 7,
    known: Mapping[int, Incident] | None = None,
    ep: int = 1,
    kernels: Sequence[tuple[str, str, float]] = KERNELS,
) -> Iterator[Advance]:
    """What each window led to; `known` incidents are there from before a window."""
    topology, windows = flat(ranks, steps, ep=ep)
    state = AttemptState.start("train", 0)
    for window in windows:
        if known and window.index in known:
            state = replace(state, incidents=(*state.incidents, known[window.index]))
        packed = tuple(
            _packed(window, range(at, at + 8), trouble, seed=seed, kernels=kernels)
            for at in range(0, ranks, 8)
        )
        step = advance(state, topology=topology, now_s=0.0, window=replace(window, kernels=packed))
        state = step.state
        yield step


def _packed(
    window: Window,
    ranks: Sequence[int],
    trouble: Trouble,
    *,
    seed: int,
    kernels: Sequence[tuple[str, str, float]],
) -> bytes:
    """What one host uploads; chips differ by half a per cent, the same in every window."""
    key = np.repeat(np.arange(len(kernels)), window.num_steps * PER_STEP)
    pairs = tuple((name, role) for name, role, _ in kernels)
    summaries = []
    for rank in ranks:
        rng = np.random.default_rng([window.index, rank, seed])
        chip = np.exp(0.005 * np.random.default_rng([99, rank, seed]).normal())
        parts = []
        for name, _, ms in kernels:
            scatter = np.exp(0.02 * rng.normal(size=window.num_steps * PER_STEP))
            parts.append(trouble(rng, rank, name, window, ms * 1e6 / PER_STEP * chip * scatter))
        summaries.append(summarise(key, np.rint(np.concatenate(parts)), pairs=pairs, rank=rank))
    return encode(summaries)
