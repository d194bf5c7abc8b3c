"""False alarms on healthy data: flags per rank-kernel-window for the published rule and for the default.

Cluster statistics of all ranks are drawn at once, with the sampling error that so many log-normal durations
have, and quantised as on the wire: what is drawn is what the detector would be given, only faster.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import gamma

from argus.analytics.kernels.digest import KernelDigest, digest_effects
from argus.analytics.kernels.effects import Effects
from argus.analytics.kernels.match import compare
from argus.analytics.kernels.paper import paper_flags, paper_scores
from argus.analytics.kernels.peers import Peers, classes
from argus.analytics.kernels.settings import Settings
from argus.analytics.kernels.table import Kernel
from argus.analytics.kernels.votes import vote
from argus.collectors.records.kernel_blob import LOG_STEP, MEAN_STEP
from argus.evals.bench import Size

JOBS: dict[Size, int] = {"smoke": 1, "default": 24, "full": 240}
WINDOWS: dict[Size, int] = {"smoke": 4, "default": 10, "full": 24}
RANKS: dict[Size, int] = {"smoke": 64, "default": 2048, "full": 2048}
KERNELS: dict[Size, int] = {"smoke": 20, "default": 200, "full": 300}
CLASS_SIZES = (0, 8, 12, 16)
"""Ranks of a class of peers in every fourth job, 0 for one class of all: of few it is harder to say what is healthy."""

KEPT = 8
PAPER_KERNELS, PAPER_JOBS = 10, 8
"""Kernels of each of so many jobs that the published rule is counted on: it flags one in twenty, so some hundred
thousand tests say enough."""

PAPER_ALPHAS = (1.5, 3.0)

Reals = NDArray[np.float32]

SETTINGS = Settings(share=0.0)
"""Without the gate on the share of the step all kernels are tested."""

COUNTS = (640, 80)
"""Launches of a kernel in a window, over all its modes: of four jobs, and of the next four."""

SIGMAS = (0.01, 0.02, 0.05, 0.3)
"""Spread of log duration: matrix products, element-wise kernels, what depends on its input, attention over sequences of
all lengths."""

DEVICE_SPREAD = 0.005
NARROW = 0.03
"""Standard deviation of a mode's estimated spread over ranks, as part of it: that of some hundred launches."""


def jobs(size: Size) -> int:
    """How many healthy jobs, each with kernels and devices of its own."""
    return JOBS[size]


def healthy_job(size: Size, *, seed: int, is_paper: bool = True) -> dict[str, Any]:
    """Some windows of one healthy job; the same kernels and devices in all of them.

    Four seeds in a row have classes of all sizes, the next four another number of launches. With `is_paper` the published rule is counted on the first window.
    """
    job = np.random.default_rng([seed, 41])
    num_ranks, num_kernels = RANKS[size], KERNELS[size]
    turn, place = divmod(seed, len(CLASS_SIZES))
    class_size, count = CLASS_SIZES[place], COUNTS[turn % len(COUNTS)]
    peers = classes(np.arange(num_ranks), np.arange(num_ranks) // (class_size or num_ranks))
    device = DEVICE_SPREAD * job.normal(size=num_ranks)
    medians = [
        np.cumsum(job.uniform(0.5, 1.4, 1 + k % 4)) + job.uniform(8.5, 13.0) for k in range(num_kernels)
    ]
    sigma = job.choice(SIGMAS, num_kernels)
    counts = {"flags": 0, "candidates": 0, "tests": 0, "paper_tests": 0}
    paper = dict.fromkeys(map(str, PAPER_ALPHAS), 0)
    past: list[KernelDigest] = []
    for window in range(WINDOWS[size]):
        rng = np.random.default_rng([seed, 43, window])
        kernels = [
            _draw(rng, k, median=medians[k], sigma=float(sigma[k]), device=device, count=count)
            for k in range(num_kernels)
        ]
        now = _digest(kernels, peers).after(past, settings=SETTINGS)
        votes = vote(now, past, settings=SETTINGS)
        assert now.found is not None
        counts["candidates"] += int(now.found.shift.sum() + now.found.tail.sum() + now.found.device.sum())
        counts["flags"] += int(votes.shift.sum() + votes.tail.sum() + votes.device.sum())
        counts["tests"] += num_ranks * num_kernels
        past = [*past, now.slim()][-KEPT:]
        if window == 0 and is_paper:
            counts["paper_tests"] += num_ranks * PAPER_KERNELS
            for kernel in kernels[:PAPER_KERNELS]:
                scores = paper_scores(kernel, peers)
                for alpha in PAPER_ALPHAS:
                    paper[str(alpha)] += int(paper_flags(scores, peers, alpha=alpha).sum())
    return {**counts, "windows": WINDOWS[size], "paper": paper, "class_size": class_size}


def total(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """All jobs together, with the rate that 95 % confidence leaves possible (exact Poisson)."""
    flags = sum(part["flags"] for part in parts)
    tests = sum(part["tests"] for part in parts)
    paper_tests = sum(part["paper_tests"] for part in parts)
    return {
        "jobs": len(parts),
        "windows": sum(part["windows"] for part in parts),
        "rank_kernel_windows": tests,
        "in_small_classes": sum(part["tests"] for part in parts if part["class_size"]),
        "flags": flags,
        "candidates_in_one_window": sum(part["candidates"] for part in parts),
        "upper_95": upper_95(flags) / tests,
        "paper": {
            str(alpha): sum(part["paper"][str(alpha)] for part in parts) / paper_tests
            for alpha in PAPER_ALPHAS
        },
        "paper_rank_kernel_windows": paper_tests,
    }


def upper_95(count: int) -> float:
    """The mean number of events that 95 % confidence leaves possible when `count` were seen (exact Poisson)."""
    return float(gamma.ppf(0.95, count + 1))


def _draw(
    rng: np.random.Generator,
    key: int,
    *,
    median: NDArray[np.float64],
    sigma: float,
    device: NDArray[np.float64],
    count: int,
) -> Kernel:
    """One kernel of all ranks: what `count` log-normal durations leave as clusters."""
    modes, num_ranks = len(median), len(device)
    shape = (modes, num_ranks)
    n = count // modes

    def normal() -> Reals:
        return rng.standard_normal(shape, np.float32)

    wide = np.float32(sigma) * (1.0 + np.float32(NARROW) * normal())
    error = np.float32(sigma / np.sqrt(n))
    mean = error * normal()
    # The median of a normal sample follows its mean and has the rest of its own error beside it.
    p50 = mean + error * np.float32(np.sqrt(np.pi / 2.0 - 1.0)) * normal()
    gumbel = -np.log(np.maximum(rng.standard_exponential(shape, np.float32), np.float32(1e-7)))  # may be 0
    top = wide * (np.float32(np.sqrt(2.0 * np.log(n)) - 0.35) + np.float32(0.3) * gumbel)
    place = (median[:, None] + device).astype(np.float32)
    p50 = _rounded(place + p50, LOG_STEP)
    p99 = p50 + _rounded(np.maximum(np.float32(2.3263) * wide, 0.0), LOG_STEP)
    return Kernel(
        key=(key, 0),
        count=np.full(shape, n, np.float32),
        log_p50=p50,
        log_p99=p99,
        log_max=np.maximum(p99, p50 + _rounded(top, LOG_STEP)),
        log_mean=p50 + _rounded(place + mean + np.float32(sigma * sigma / 2.0) - p50, MEAN_STEP),
    )


def _rounded(values: Reals, step: float) -> Reals:
    return np.asarray(np.rint(values / np.float32(step)) * np.float32(step))


def _digest(kernels: Sequence[Kernel], peers: Peers) -> KernelDigest:
    """One window as the service digests it; the gate on the share of the step is off, so all are tested."""
    effects = Effects.of([compare(kernel, peers) for kernel in kernels], num_ranks=len(peers.ranks))
    return digest_effects(
        effects,
        peers,
        keys=tuple(kernel.key for kernel in kernels),
        is_compute=np.ones(len(kernels), np.bool_),
        ratio=np.ones(len(peers.ranks), np.float32),
        events=np.ones(len(peers.ranks), np.float32),
        step_ns=2e9,
        num_steps=10,
        settings=SETTINGS,
    )
