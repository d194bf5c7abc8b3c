"""False alarms on healthy data: flags per rank-kernel-window for the published rule and for the default."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from argus.analytics.kernel_digest import KernelDigest, digest_table
from argus.analytics.kernel_paper import paper_flags, paper_scores
from argus.analytics.kernel_peers import classes
from argus.analytics.kernel_scan import Settings
from argus.analytics.kernel_table import dense, open_table
from argus.analytics.kernel_votes import vote
from argus.evals.bench import Size
from argus.evals.simulator.kernel_blobs import blobs

RANKS: dict[Size, int] = {"smoke": 64, "default": 512, "full": 2048}
KERNELS: dict[Size, int] = {"smoke": 20, "default": 100, "full": 200}
BUDGET_S: dict[Size, float] = {"smoke": 5.0, "default": 60.0, "full": 1800.0}
PAPER_KERNELS = 10
PAPER_ALPHAS = (1.5, 3.0)
RULE_OF_THREE = 3.0
"""No event in n trials: with 95 % confidence the rate is below 3/n."""


def healthy(size: Size) -> dict[str, Any]:
    """Windows of one healthy job until the time is up; the same devices in all of them."""
    num_ranks, num_kernels = RANKS[size], KERNELS[size]
    past: list[KernelDigest] = []
    flags, tests, candidates = 0, 0, 0
    paper = dict.fromkeys(PAPER_ALPHAS, 0)
    paper_tests = 0
    deadline_s = time.monotonic() + BUDGET_S[size]
    window = 0
    while time.monotonic() < deadline_s or window < 4:
        packed = blobs(
            np.random.default_rng([1, window]), num_ranks=num_ranks, num_kernels=num_kernels, job_seed=1
        )
        table = open_table(packed)
        peers = classes(table.ranks, np.zeros(num_ranks, np.int64))
        now = digest_table(table, peers, step_ns=2e9, num_steps=10, settings=Settings(share=0.0))
        votes = vote(now, past, settings=Settings(share=0.0))
        assert now.found is not None
        candidates += int(now.found.shift.sum() + now.found.tail.sum() + now.found.device.sum())
        flags += int(votes.shift.sum() + votes.tail.sum() + votes.device.sum())
        tests += num_ranks * num_kernels
        for kernel in dense(table, 0, last=min(PAPER_KERNELS, num_kernels)) if window < 3 else ():
            scores = paper_scores(kernel, peers)
            paper_tests += num_ranks
            for alpha in PAPER_ALPHAS:
                paper[alpha] += int(paper_flags(scores, peers, alpha=alpha).sum())
        past = [*past, now.slim()][-8:]
        window += 1
    return {
        "windows": window,
        "rank_kernel_windows": tests,
        "flags": flags,
        "candidates_in_one_window": candidates,
        "upper_95": (RULE_OF_THREE if not flags else flags + 2.0 * np.sqrt(flags) + 3.0) / tests,
        "paper": {str(alpha): count / paper_tests for alpha, count in paper.items()},
        "paper_rank_kernel_windows": paper_tests,
    }
