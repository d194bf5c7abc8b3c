"""Kernels of a rank beside those who do the same work in them."""

from __future__ import annotations

import numpy as np

from argus.agent.tools.compare_kernels import _Beside
from argus.analytics.kernel_table import open_table
from argus.collectors.host.compress import summarise
from argus.collectors.records.kernel_blob import encode

NAMES = ("moe_grouped_gemm", "layer_norm")
TOOK_NS = {"moe_grouped_gemm": (100e3, 300e3, 100e3), "layer_norm": (50e3, 50e3, 90e3)}


def test_kernels_of_experts_stand_beside_the_holders_of_the_same_ones() -> None:
    summaries = [
        summarise(
            np.repeat(np.arange(2), 20),
            np.repeat([TOOK_NS[name][rank] for name in NAMES], 20),
            pairs=tuple((name, "compute") for name in NAMES),
            rank=rank,
        )
        for rank in range(3)
    ]
    beside = _Beside(
        table=open_table([encode(summaries)]), peers=(1,), experts=(2,), places=(0, 1), num_steps=10
    )
    ratio = {row["kernel"]: round(row["ratio"], 2) for row in beside.rows([0])}
    assert ratio == {"moe_grouped_gemm": 1.0, "layer_norm": 1.0}
    alone = _Beside(table=beside.table, peers=(1,), experts=(), places=(0, 1), num_steps=10)
    assert {row["kernel"]: row["peers_mean_s"] is None for row in alone.rows([0])} == {
        "moe_grouped_gemm": True,
        "layer_norm": False,
    }
