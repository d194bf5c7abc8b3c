"""The kernels that make up a simulated rank's step: compute, copies to the device, and communication."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from argus.analytics.window import Floats, Ints
from argus.collectors.records.events import KERNEL, Rows

KINDS = ("sim_gemm", "sim_flash_attention", "sim_layer_norm", "sim_elementwise", "sim_reduce")
COPIES = "Memcpy HtoD"
COMPUTE, COPY = "compute", "copy"
LAUNCHES = 8
"""Launches of each kernel in a step, half of them on twice the shape."""

SPREAD = 0.01
"""Spread of one launch; it does not depend on who runs it."""

COPY_SHARE = 0.3
"""Part of loading a batch that copies it to the device."""

COMM_NAMES = {
    "all_reduce": "ncclDevKernel_AllReduce_Sum_bf16_RING_LL",
    "reduce_scatter": "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL",
    "all_gather": "ncclDevKernel_AllGather_RING_LL",
    "all_to_all": "ncclDevKernel_SendRecv",
    "recv": "ncclDevKernel_SendRecv",
}


def kernel_texts(num_kernels: int) -> tuple[str, ...]:
    """Names of the compute kernels, of the others and of stream roles; none where kernels are not observed."""
    names = tuple(f"{KINDS[i % len(KINDS)]}_{i}" for i in range(num_kernels))
    return (*names, COPIES, *dict.fromkeys(COMM_NAMES.values()), COMPUTE, COPY) if names else ()


def kernel_rows(
    names: Sequence[str],
    num_kernels: int,
    *,
    steps: Ints,
    start_ns: Ints,
    work_s: Floats,
    extra_s: Mapping[str, Floats] | None = None,
) -> Rows:
    """KERNEL rows of one rank's compute; in each step they last `work_s` (step,) together, from `start_ns` on.

    `extra_s` (step,) is what kernels with a word in their name last beyond their part of the rest.
    """
    if not num_kernels:
        return np.empty(0, KERNEL)
    texts = kernel_texts(num_kernels)[:num_kernels]
    weight = np.outer(1.0 / np.arange(1, num_kernels + 1), np.where(np.arange(LAUNCHES) % 2, 2.0, 1.0))
    extra = {
        word: part for word, part in (extra_s or {}).items() if any(re.search(word, text) for text in texts)
    }
    dur = _shared(work_s - sum(extra.values(), np.zeros(len(steps))), weight)
    for word, part in extra.items():
        mine = np.array([bool(re.search(word, text)) for text in texts])
        dur = dur + _shared(part, weight * mine[:, None])
    dur = dur * np.exp(SPREAD * _noise(start_ns, dur.shape[1]))
    rows = np.zeros(dur.shape, KERNEL)
    rows["step"] = steps[:, None]
    rows["name"] = names.index(texts[0]) + np.repeat(np.arange(num_kernels), LAUNCHES)
    rows["role"] = names.index(COMPUTE)
    rows["phase"] = names.index("forward")
    rows["dur_ns"] = np.rint(dur * 1e9)
    rows["start_ns"] = start_ns[:, None] + np.cumsum(rows["dur_ns"], axis=1) - rows["dur_ns"]
    return rows.reshape(-1)


def copy_rows(names: Sequence[str], *, steps: Ints, start_ns: Ints, copy_s: Floats) -> Rows:
    """KERNEL rows of the copies to the device; in each step they last `copy_s` (step,) together."""
    rows = np.zeros((len(steps), LAUNCHES), KERNEL)
    jitter = np.exp(SPREAD * _noise(start_ns + 1, LAUNCHES))
    rows["step"], rows["name"], rows["role"] = steps[:, None], names.index(COPIES), names.index(COPY)
    rows["phase"] = names.index("data")
    rows["dur_ns"] = np.rint(copy_s[:, None] / LAUNCHES * jitter * 1e9)
    rows["start_ns"] = start_ns[:, None] + np.cumsum(rows["dur_ns"], axis=1) - rows["dur_ns"]
    return rows.reshape(-1)


def _shared(seconds: Floats, weight: NDArray[np.float64]) -> Floats:
    """Seconds (step,) over the launches by their weight. (step, launch)"""
    flat = weight.reshape(-1)
    return np.asarray(seconds[:, None] * flat / flat.sum())


def _noise(start_ns: Ints, num_launches: int) -> NDArray[np.float64]:
    """A function of when each step began, so that a window's rows do not depend on the others'. (step, launch)"""
    draws = [np.random.default_rng(int(start)).normal(size=num_launches) for start in start_ns]
    return np.array(draws).reshape(len(start_ns), num_launches)
