"""Small clusters of kernel durations for the tests of L3, through the codec as in production."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from argus.analytics.kernels.digest import KernelDigest, digest_table
from argus.analytics.kernels.peers import Peers, classes
from argus.analytics.kernels.scan import Candidates
from argus.analytics.kernels.settings import Settings
from argus.analytics.kernels.table import KernelTable, open_table
from argus.analytics.kernels.tail import Reals, Tail
from argus.analytics.kernels.votes import Votes, vote
from argus.collectors.host.compress import summarise
from argus.collectors.records.kernel_blob import encode
from argus.collectors.records.kernel_read import open_blob, summaries_of

Durations = NDArray[np.float64]
Draw = Callable[[np.random.Generator, int, int], Durations]
"""(rng, rank, kernel) to the durations of one window."""

NUM_KERNELS = 8


def modes(rng: np.random.Generator, *medians_us: float, n: int = 200, sigma: float = 0.02) -> Durations:
    """`n` durations of each mode, in nanoseconds."""
    return np.concatenate([1e3 * m * np.exp(sigma * rng.normal(size=n)) for m in medians_us])


def healthy(rng: np.random.Generator, rank: int, kernel: int) -> Durations:
    """Two modes, the second twice the first."""
    return modes(rng, 10.0 + kernel, 20.0 + 2 * kernel)


def table_of(draw: Draw, *, ranks: int, seed: int, mode: str = "default") -> KernelTable:
    """One window of all ranks; chips differ by half a per cent, the same in every window."""
    device = np.exp(0.005 * np.random.default_rng(99).normal(size=ranks))
    rng = np.random.default_rng(seed)
    pairs = tuple((f"gemm_{k}" if k % 2 else f"norm_{k}", "compute") for k in range(NUM_KERNELS))
    summaries = []
    for rank in range(ranks):
        parts = [draw(rng, rank, kernel) * device[rank] for kernel in range(NUM_KERNELS)]
        key = np.repeat(np.arange(NUM_KERNELS), [len(part) for part in parts])
        summaries.append(summarise(key, np.rint(np.concatenate(parts)), pairs=pairs, rank=rank, mode=mode))
    return open_table([encode(summaries[i : i + 32]) for i in range(0, ranks, 32)])


def peers_of(num_ranks: int) -> Peers:
    """One class of all ranks."""
    return classes(np.arange(num_ranks), np.zeros(num_ranks, np.int64))


def candidates(zero: Reals, *, factor: Reals, is_compute: bool = True) -> Candidates:
    """A window in which nothing stands out and all kernels are heavy; `zero` (kernel, rank), `factor` (rank,)."""
    none = np.zeros(zero.shape, np.bool_)
    return Candidates(
        shift=none,
        tail=none,
        device=none[0],
        gross=none,
        score=zero,
        tail_score=zero,
        device_score=zero[0],
        factor=factor,
        beyond=zero,
        share=np.full(len(zero), 0.1, np.float32),
        is_compute=np.full(len(zero), is_compute, np.bool_),
        spread_tail=Tail(far=1.0, rate=0.0),
        device_tail=Tail(far=1.0, rate=0.0),
        probability=3e-11,
    )


def digests(
    draw: Draw, *, ranks: int = 32, windows: int = 3, peers: Peers | None = None
) -> list[KernelDigest]:
    """Windows of one job."""
    return [
        digest_table(
            table_of(draw, ranks=ranks, seed=window),
            peers or peers_of(ranks),
            step_ns=1e6,
            num_steps=10,
            settings=Settings(),
        )
        for window in range(windows)
    ]


def in_turn(seen: Sequence[KernelDigest]) -> list[KernelDigest]:
    """Each window with what it takes over from those before."""
    out: list[KernelDigest] = []
    for one in seen:
        out.append(one.after(out))
    return out


def votes_of(draw: Draw, *, ranks: int = 32, windows: int = 3) -> tuple[KernelDigest, Votes]:
    """The last of some windows and what lasted in it."""
    seen = digests(draw, ranks=ranks, windows=windows)
    return seen[-1], vote(seen[-1], seen[:-1], settings=Settings())


def named(digest: KernelDigest, flags: NDArray[np.bool_]) -> set[tuple[str, int]]:
    """(kernel, rank) of the flags."""
    assert digest.table is not None
    return {(digest.table.text(digest.keys[k][0]), int(digest.ranks[r])) for k, r in np.argwhere(flags)}


def renamed(blob: bytes, ranks: Sequence[int]) -> bytes:
    """The blob with rank r called `ranks[r]`; empty stays empty."""
    if not blob:
        return b""
    opened = open_blob(blob)
    summaries = summaries_of(opened, texts=opened.texts())
    return encode([replace(summary, rank=ranks[summary.rank]) for summary in summaries])
