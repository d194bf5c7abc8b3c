"""Make small files of NCCL Inspector, for tests: a data-parallel job with three all-reduces a step."""

from __future__ import annotations

import json
from typing import Any

EPOCH_US = 1_748_030_000_000_000
STEP_US = 100_000
SIZES = (4 << 20, 4 << 20, 1 << 20)


def fake_inspector(
    *,
    rank: int,
    world_size: int,
    num_steps: int = 24,
    late_us: int = 0,
    latest_us: int = 0,
    is_verbose: bool = True,
    clock_us: int = 0,
    pair: bool = False,
) -> str:
    """Lines of one process; it enters each collective `late_us` late, the latest rank `latest_us`."""
    lines = []
    for step in range(num_steps):
        begin = EPOCH_US + clock_us + step * (STEP_US + len(SIZES) * latest_us)
        for number, size in enumerate(SIZES):
            base = begin + number * (30_000 + latest_us)
            entry, end = base + 20_000 + late_us, base + 25_000 + latest_us
            header = {"id": "0xabc", "rank": rank, "n_ranks": world_size, "nnodes": 1}
            sn = step * len(SIZES) + number
            lines.append(_line(header, sn, size, entry, end, is_verbose=is_verbose, rank=rank))
        if pair:
            header = {"id": f"0xd{rank // 2}", "rank": rank % 2, "n_ranks": 2, "nnodes": 1}
            entry = begin + 95_000
            lines.append(_line(header, step, 1 << 10, entry, entry + 100, is_verbose=is_verbose, rank=rank))
    return "".join(json.dumps(line) + "\n" for line in lines)


def _line(
    header: dict[str, Any], sn: int, size: int, entry: int, end: int, *, is_verbose: bool, rank: int
) -> dict[str, Any]:
    perf: dict[str, Any] = {
        "coll": "AllReduce",
        "coll_sn": sn,
        "coll_msg_size_bytes": size,
        "coll_exec_time_us": end - entry,
        "coll_timing_source": "kernel_gpu",
        "coll_algobw_gbs": 1.0,
        "coll_busbw_gbs": 1.5,
    }
    if is_verbose:
        kernel = {"channel_id": 0, "kernel_start_ts": entry, "kernel_stop_ts": end, "kernel_record_ts": end}
        perf["event_trace_ts"] = {
            "coll_start_ts": entry - 50,
            "coll_stop_ts": entry - 40,
            "kernel_events": [kernel],
        }
    meta = {
        "inspector_output_format_version": "v4.0",
        "git_rev": "",
        "rec_mechanism": "nccl_profiler_interface",
        "dump_timestamp_us": end + 100,
        "hostname": f"h-{rank // 4}",
        "pid": 1000 + rank,
    }
    return {"header": header, "metadata": meta, "coll_perf": perf}
