"""The kernels that make up a simulated rank's forward and backward."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from argus.analytics.window import Floats, Ints
from argus.collectors.records.events import KERNEL, Rows

KINDS = ("sim_gemm", "sim_flash_attention", "sim_layer_norm", "sim_elementwise", "sim_reduce")
LAUNCHES = 8
"""Launches of each kernel in a step, half of them on twice the shape."""

SPREAD = 0.01
"""Spread of one launch; it does not depend on who runs it."""


def kernel_texts(num_kernels: int) -> tuple[str, ...]:
    """Names of the kernels and of their stream role."""
    names = tuple(f"{KINDS[i % len(KINDS)]}_{i}" for i in range(num_kernels))
    return (*names, "compute") if names else ()


def kernel_rows(
    names: Sequence[str], num_kernels: int, *, steps: Ints, start_ns: Ints, work_s: Floats
) -> Rows:
    """KERNEL rows of one rank; in each step they last `work_s` (step,) together, from `start_ns` on."""
    if not num_kernels:
        return np.empty(0, KERNEL)
    first = names.index(kernel_texts(num_kernels)[0])
    weight = 1.0 / np.arange(1, num_kernels + 1)
    per_launch = np.outer(weight, np.where(np.arange(LAUNCHES) % 2, 2.0, 1.0)).reshape(-1)
    jitter = np.exp(SPREAD * _noise(start_ns, len(per_launch)))
    dur = work_s[:, None] * per_launch / per_launch.sum() * jitter
    rows = np.zeros(dur.shape, KERNEL)
    rows["step"] = steps[:, None]
    rows["name"] = first + np.repeat(np.arange(num_kernels), LAUNCHES)
    rows["role"] = names.index("compute")
    rows["phase"] = names.index("forward")
    rows["dur_ns"] = np.rint(dur * 1e9)
    rows["start_ns"] = start_ns[:, None] + np.cumsum(rows["dur_ns"], axis=1) - rows["dur_ns"]
    return rows.reshape(-1)


def _noise(start_ns: Ints, num_launches: int) -> NDArray[np.float64]:
    """A function of when each step began, so that a window's rows do not depend on the others'. (step, launch)"""
    draws = [np.random.default_rng(int(start)).normal(size=num_launches) for start in start_ns]
    return np.array(draws).reshape(len(start_ns), num_launches)
