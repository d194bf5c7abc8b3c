"""Turn one worker's timed operations into record rows."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from argus.collectors.readers._timer_table import Ints, Span, Table
from argus.collectors.records.events import CLOCK_GPU, COLLECTIVE, PHASE, STEP, Rows
from argus.collectors.records.layout import GroupInfo

TYPES: Mapping[str, str] = {
    "forward-compute": "forward",
    "backward-compute": "backward",
    "forward-recv": "pp_recv",
    "forward-send": "pp_send",
    "backward-recv": "pp_recv",
    "backward-send": "pp_send",
    "params-all-gather": "param_gather",
    "grads-reduce-scatter": "grad_sync",
    "separate-grads-all-reduce": "grad_sync",
    "layernorm-grads-all-reduce": "tp_comm",
    "embedding-grads-all-reduce": "grad_sync",
    "optimizer-clip-main-grad": "grad_sync",
    "optimizer": "optimizer",
    "gc": "other",
}
"""Canonical phase of each timer (Megatron's names); all but compute, optimizer and gc wait for others."""

WORK = ("forward-compute", "backward-compute", "optimizer", "gc")

_CALLS: Mapping[str, tuple[str, str]] = {
    "forward-send": ("send", "pp"),
    "backward-send": ("send", "pp"),
    "forward-recv": ("recv", "pp"),
    "backward-recv": ("recv", "pp"),
    "params-all-gather": ("all_gather", "dp"),
    "grads-reduce-scatter": ("reduce_scatter", "dp"),
    "separate-grads-all-reduce": ("all_reduce", "dp"),
    "embedding-grads-all-reduce": ("all_reduce", "embd"),
    "optimizer-clip-main-grad": ("all_reduce", "all"),
}
"""Operation and kind of group of the timers that are calls."""

_TOWARDS: Mapping[str, int] = {
    "forward-send": 1,
    "forward-recv": -1,
    "backward-send": -1,
    "backward-recv": 1,
}
"""Which way along the pipeline the other end of a transfer lies."""

UNOBSERVED_NS = -1

STEP_BITS = 24
"""Calls of one type in a step that can be told apart: more than any pipeline has micro-batches."""

SLACK_NS = 200_000
"""Timers overlap by rounding and by the time an event takes; that is no nesting."""


class _Names:
    def __init__(self) -> None:
        self.numbers: dict[str, int] = {"": 0}

    def __call__(self, text: str) -> int:
        return self.numbers.setdefault(text, len(self.numbers))


def rank_rows(
    table: Table, *, rank: int, rows: Ints, spans: Mapping[int, Span], groups: Mapping[str, GroupInfo]
) -> tuple[tuple[str, ...], dict[str, Rows]]:
    """String table and rows by kind of one rank; `rows` are its operations in order of step and start."""
    name = _Names()
    shift = np.array([spans[step].begin_s - spans[step].origin_s for step in table.step[rows].tolist()])
    start_ns = np.rint((table.start_s[rows] + shift) * 1e9).astype(np.int64)
    dur_ns = np.rint(table.dur_s[rows] * 1e9).astype(np.int64)
    step = np.array([spans[number].index for number in table.step[rows].tolist()], np.int64)
    ops = [table.ops[i] for i in table.op[rows].tolist()]
    phases = np.zeros(len(rows), PHASE)
    phases["step"], phases["start_ns"], phases["dur_ns"] = step, start_ns, dur_ns
    phases["name"] = [name(TYPES.get(op, "other")) for op in ops]
    phases["native"] = [name(op) for op in ops]
    phases["wait_ns"] = np.where([op in TYPES and op not in WORK for op in ops], dur_ns, 0)
    phases["cpu_ns"], phases["clock"] = UNOBSERVED_NS, CLOCK_GPU
    works = np.array([op in WORK or op not in TYPES for op in ops])
    phases["depth"] = _depths(step, start_ns, start_ns + dur_ns, works)
    phases["chunk"], phases["micro_batch"] = table.chunk[rows], table.micro_batch[rows]
    made = {
        "steps": _steps(spans, np.unique(table.step[rows])),
        "phases": phases,
        "collectives": _calls(phases, ops, name, rank=rank, groups=groups),
    }
    return tuple(name.numbers), made


def _steps(spans: Mapping[int, Span], numbers: Ints) -> Rows:
    """Every step lasts for a worker as long as for the job: they all end together."""
    out = np.zeros(len(numbers), STEP)
    mine = [spans[number] for number in numbers.tolist()]
    out["step"] = [span.index for span in mine]
    out["user_step"] = [span.number for span in mine]
    out["start_ns"] = [round(span.begin_s * 1e9) for span in mine]
    out["end_ns"] = [round(span.end_s * 1e9) for span in mine]
    out["cpu_ns"] = UNOBSERVED_NS
    return out


def _depths(step: Ints, start: Ints, end: Ints, works: NDArray[np.bool_]) -> NDArray[np.uint8]:
    """1 for an operation beside an outer one: only outer ones add up to the step.

    Transfers are posted ahead and run on streams of their own, so work is never beside one of them: a transfer
    that runs while the rank works is the inner one, whichever began first.
    """
    depth = [0] * len(step)
    spans = list(zip(step.tolist(), start.tolist(), end.tolist(), strict=True))
    mine, others = np.flatnonzero(works).tolist(), np.flatnonzero(~works).tolist()
    for rows, outer in ((mine, []), (others, mine)):
        until, at = -1, -1
        for i in rows:
            number, begun, ended = spans[i]
            if (number == at and begun < until - SLACK_NS) or _overlaps(outer, i, spans):
                depth[i] = 1
            else:
                until, at = ended, number
    return np.array(depth, np.uint8)


def _overlaps(works: Sequence[int], row: int, spans: Sequence[tuple[int, int, int]]) -> bool:
    """Whether some work of the row's step runs for more than the slack while the row does; `works` in order.

    `spans` are (step, start, end) of all rows.
    """
    number, begun, ended = spans[row]
    for place in range(max(bisect_left(works, row) - 1, 0), len(works)):
        step, start, end = spans[works[place]]
        if step > number or (step == number and start >= ended - SLACK_NS):
            return False
        if step == number and end > begun + SLACK_NS:
            return True
    return False


def _calls(
    phases: Rows, ops: Sequence[str], name: _Names, *, rank: int, groups: Mapping[str, GroupInfo]
) -> Rows:
    """The operations that are calls; each step numbers those of a type anew, so a lost row shifts no other."""
    kinds = {group.rstrip("0123456789"): info for group, info in groups.items()}
    picked = [i for i, op in enumerate(ops) if op in _CALLS and len(kinds[_CALLS[op][1]].ranks) > 1]
    line = kinds["pp"].ranks
    source = phases[picked]
    count: dict[tuple[str, int], int] = {}
    calls: list[tuple[int, int, int, int]] = []
    for i, step in zip(picked, source["step"].tolist(), strict=True):
        op, (call, kind) = ops[i], _CALLS[ops[i]]
        number = count.get((op, step), 0)
        count[op, step] = number + 1
        way = _TOWARDS.get(op, 0)
        peer = line[(line.index(rank) + way) % len(line)] if way else -1
        seq = (step << STEP_BITS) + 2 * number + (op.startswith("backward"))
        calls.append((name(call), name(kinds[kind].name), peer, seq))
    out = np.zeros(len(picked), COLLECTIVE)
    for at, column in enumerate(("op", "group", "peer", "seq")):
        out[column] = [one[at] for one in calls]
    out["step"], out["entry_ns"] = source["step"], source["start_ns"]
    out["end_ns"] = source["start_ns"] + source["dur_ns"]
    out["blocked_ns"], out["cpu_ns"], out["phase"] = source["dur_ns"], UNOBSERVED_NS, source["name"]
    return out
