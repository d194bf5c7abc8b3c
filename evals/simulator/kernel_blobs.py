"""Packed kernel summaries of a whole cluster, drawn directly: what 10,000 hosts would upload for a window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from argus.collectors.records.kernel_blob import encode
from argus.collectors.records.kernels import CLUSTER, KernelSummary

RANKS_PER_HOST = 8
CLASSES = ("gemm", "flash_fwd", "elementwise", "layer_norm", "grouped_gemm")

Fault = Mapping[tuple[int, int], float]
"""(rank, kernel) to slowdown; kernel −1 means all of them."""


def blobs(
    rng: np.random.Generator,
    *,
    num_ranks: int,
    num_kernels: int,
    fault: Fault | None = None,
    device_spread: float = 0.005,
    count: int = 640,
    job_seed: int | None = None,
) -> list[bytes]:
    """One blob a host. Kernels have one to four modes; every fifth has ranks with one mode more or fewer.

    Windows of one job share `job_seed`, which fixes its kernels and its devices.
    """
    job = rng if job_seed is None else np.random.default_rng(job_seed)
    medians = [
        np.cumprod(job.uniform(1.6, 4.0, modes)) * job.uniform(5e3, 5e5) for modes in _modes(num_kernels)
    ]
    device = np.exp(device_spread * job.normal(size=num_ranks))
    pairs = tuple((f"{CLASSES[i % len(CLASSES)]}_{i}", "compute") for i in range(num_kernels))
    out = []
    for first in range(0, num_ranks, RANKS_PER_HOST):
        summaries = []
        for rank in range(first, min(first + RANKS_PER_HOST, num_ranks)):
            slow = np.ones(num_kernels)
            for (at, kernel), factor in (fault or {}).items():
                if at == rank:
                    slow[slice(None) if kernel < 0 else kernel] *= factor
            summaries.append(
                _summary(rng, rank, pairs=pairs, medians=medians, slow=slow * device[rank], count=count)
            )
        out.append(encode(summaries))
    return out


def _modes(num_kernels: int) -> list[int]:
    return [1 + (i * 7) % 4 for i in range(num_kernels)]


def _summary(
    rng: np.random.Generator,
    rank: int,
    *,
    pairs: tuple[tuple[str, str], ...],
    medians: Sequence[NDArray[np.floating]],
    slow: np.ndarray[tuple[int], np.dtype[np.float64]],
    count: int,
) -> KernelSummary:
    sigma = 0.02
    sizes = np.array([len(m) for m in medians])
    kernel = np.repeat(np.arange(len(medians)), sizes)
    p50 = np.concatenate(medians) * slow[kernel]
    n = np.repeat(count // sizes, sizes)
    rows = np.zeros(len(kernel), CLUSTER)
    rows["kernel"], rows["count"] = kernel, n
    rows["p50_ns"] = p50 * np.exp(1.25 * sigma / np.sqrt(n) * rng.normal(size=len(n)))
    rows["p99_ns"] = rows["p50_ns"] * np.exp(2.33 * sigma * (1 + 0.08 * rng.normal(size=len(n))))
    rows["max_ns"] = rows["p99_ns"] * np.exp(0.015 * rng.exponential(size=len(n)))
    rows["sum_ns"] = p50 * n * np.exp(sigma * sigma / 2 + sigma / np.sqrt(n) * rng.normal(size=len(n)))
    split = (kernel % 5 == 0) & (rng.random(len(kernel)) < 0.02)
    return KernelSummary(
        rank=rank, events=int(n.sum()), kernels=pairs, clusters=_split(rows, split, sigma=sigma)
    )


def _split(
    rows: np.ndarray[tuple[int], np.dtype[np.void]],
    split: np.ndarray[tuple[int], np.dtype[np.bool_]],
    *,
    sigma: float,
) -> np.ndarray[tuple[int], np.dtype[np.void]]:
    """Some clusters fall in two halves, as a chance valley would have it."""
    again = np.repeat(rows, np.where(split, 2, 1))
    second = np.zeros(len(again), np.bool_)
    second[1:] = (again["p50_ns"][1:] == again["p50_ns"][:-1]) & (again["kernel"][1:] == again["kernel"][:-1])
    first = np.append(second[1:], False)
    half = 0.8 * sigma
    for side, sign in ((first, -1.0), (second, 1.0)):
        total = again["sum_ns"][side] / again["count"][side]
        again["count"][side] = again["count"][side] // 2
        again["p50_ns"][side] *= np.exp(sign * 0.67 * sigma)
        again["sum_ns"][side] = again["count"][side] * total * (1.0 + sign * half)
    again["p99_ns"][first] = again["p50_ns"][first] * np.exp(0.6 * sigma)
    again["max_ns"][first] = again["p99_ns"][first] * 1.001
    return again
