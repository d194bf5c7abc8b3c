"""What is kept of one rank's kernels over a window: a few clusters of durations per (kernel, stream role)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from argus.collectors.records.events import Rows

RAW_EVENT_BYTES = 24
"""One kernel event as packed binary (start, duration, name, stream): what compression is measured against."""

CLUSTER_BYTES = 20
"""A cluster as packed binary: what a rank's summary weighs, whoever shares its upload."""

MAX_NAME = 512
"""Characters of a kernel name that are kept; C++ templates grow without bound."""

MODES = ("default", "paper")
"""`paper` keeps (count, p50, p99); `default` also max and sum."""

CLUSTER = np.dtype(
    [
        ("kernel", "<u4"),  # index into KernelSummary.kernels
        ("ident", "u1"),  # the cluster's identity over windows, see host.identity
        ("count", "<u4"),
        ("p50_ns", "<f8"),
        ("p99_ns", "<f8"),
        ("max_ns", "<f8"),  # NaN in paper mode
        ("sum_ns", "<f8"),  # NaN in paper mode
    ]
)
"""One mode of a kernel's durations. Rows are sorted by kernel, then by duration."""


@dataclass(frozen=True, kw_only=True)
class KernelSummary:
    """One rank, one window. `events` counts what was summarised, `dropped` what was not, by reason."""

    rank: int
    events: int = 0
    mode: str = "default"
    kernels: tuple[tuple[str, str], ...] = ()  # (name, stream role)
    clusters: Rows = field(default_factory=lambda: np.empty(0, CLUSTER))
    dropped: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise ValueError(f"mode must be one of {', '.join(MODES)}, got {self.mode!r}")

    @property
    def compression_ratio(self) -> float:
        """Bytes of the events over bytes of their clusters; a fall says that something stopped repeating."""
        return self.events * RAW_EVENT_BYTES / max(len(self.clusters) * CLUSTER_BYTES, 1)


@lru_cache(maxsize=1 << 16)
def cut_name(name: str) -> str:
    """`name` within `MAX_NAME` characters; what is cut is replaced by a hash, so that names stay distinct."""
    if len(name) <= MAX_NAME:
        return name
    return f"{name[: MAX_NAME - 20]}…#{name_hash(name):016x}"


@lru_cache(maxsize=1 << 16)
def name_hash(name: str) -> int:
    """Content hash of a kernel's name, the same on every host and in every run.

    >>> name_hash("ampere_sgemm_128x64_nn") == name_hash("ampere_sgemm_128x64_nn")
    True
    """
    return int.from_bytes(hashlib.blake2b(name.encode(errors="replace"), digest_size=8).digest(), "little")
