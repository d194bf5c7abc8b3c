"""Kernels of a rank beside those who do the same work in them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from argus.agent.tools.compare_kernels import _Beside
from argus.analytics.kernels.table import open_table
from argus.collectors.host.compress import summarise
from argus.collectors.records.kernel_blob import encode

NAMES = ("moe_grouped_gemm", "layer_norm")
TOOK_NS = {"moe_grouped_gemm": (100e3, 360e3, 100e3, 300e3), "layer_norm": (50e3, 50e3, 50e3, 90e3)}


def test_kernels_of_experts_stand_beside_the_holders_of_the_same_ones_each_rank_beside_its_own() -> None:
    summaries = [
        summarise(
            np.repeat(np.arange(2), 20),
            np.repeat([TOOK_NS[name][rank] for name in NAMES], 20),
            pairs=tuple((name, "compute") for name in NAMES),
            rank=rank,
        )
        for rank in range(4)
    ]
    beside = _Beside(
        table=open_table([encode(summaries)]),
        peers=(2, 3),
        experts={0: (2,), 1: (3, 7)},  # nothing was seen of rank 7
        places=(0, 1),
        num_steps=10,
    )
    rows = {(row["rank"], row["kernel"]): row for row in beside.rows([0, 1])}
    assert {key: (round(row["ratio"], 2), row["num_peers"]) for key, row in rows.items()} == {
        (0, "moe_grouped_gemm"): (1.0, 1),
        (1, "moe_grouped_gemm"): (1.2, 1),
        (0, "layer_norm"): (0.71, 2),
        (1, "layer_norm"): (0.71, 2),
    }
    alone = replace(beside, experts={0: ()})
    assert {row["kernel"]: row["peers_mean_s"] is None for row in alone.rows([0])} == {
        "moe_grouped_gemm": True,
        "layer_norm": False,
    }
