"""A replayed step as a Chrome trace, which Perfetto opens: a process for each worker."""

from __future__ import annotations

from typing import Any

import numpy as np

from argus.analytics.whatif.operations import COMMUNICATION, P2P, Operations
from argus.analytics.whatif.replay import Timeline

COMPUTE, TRANSFER, COLLECTIVE = 0, 1, 2
_LANES = ("compute", "transfers", "collectives")


def trace_of(operations: Operations, timeline: Timeline, *, title: str, max_steps: int = 3) -> dict[str, Any]:
    """The first steps of a timeline, one behind the other; times in microseconds as the format has them."""
    events: list[dict[str, Any]] = []
    for line, stage in np.ndindex(operations.ranks.shape):
        rank = int(operations.ranks[line, stage])
        name = f"rank {rank} (replica {line}, stage {stage})"
        events.append({"ph": "M", "pid": rank, "name": "process_name", "args": {"name": name}})
        events += [
            {"ph": "M", "pid": rank, "tid": lane, "name": "thread_name", "args": {"name": text}}
            for lane, text in enumerate(_LANES)
        ]
    begin = 0.0
    for step in range(min(len(operations.steps), max_steps)):
        for index, node in enumerate(operations.nodes):
            lane = TRANSFER if node.type in P2P else COLLECTIVE if node.type in COMMUNICATION else COMPUTE
            for line, rank in enumerate(operations.ranks[:, node.stage].tolist()):
                start, end = timeline.start_s[index, step, line], timeline.end_s[index, step, line]
                events.append(
                    {
                        "ph": "X",
                        "pid": rank,
                        "tid": lane,
                        "name": node.type,
                        "ts": round((begin + start) * 1e6, 3),
                        "dur": round(max(end - start, 0.0) * 1e6, 3),
                        "args": {
                            "step": int(operations.steps[step]),
                            "number": node.number,
                            "chunk": node.chunk,
                        },
                    }
                )
        begin += float(timeline.step_s[step])
    return {"displayTimeUnit": "ms", "otherData": {"title": title}, "traceEvents": events}
