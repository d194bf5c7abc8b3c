"""Phases and calls are found again by time."""

from __future__ import annotations

import numpy as np

from argus.collectors.rank import timeline as module
from argus.collectors.rank.recorder import Recorder
from argus.collectors.rank.ring import BLOCK_CAPACITY, Ring
from argus.collectors.rank.timeline import CallSpans, Timeline
from argus.collectors.records.events import empty


def test_the_innermost_open_phase_counts() -> None:
    now = [0]
    recorder = Recorder(ring=Ring(), now_ns=lambda: now[0], cpu_ns=lambda: 0)
    line = recorder.timeline = Timeline()
    forward, comm = recorder.names["forward"], recorder.names["tp_comm"]
    now[0] = 10
    outer = recorder.open(forward)
    now[0] = 20
    inner = recorder.open(comm)
    now[0] = 30
    recorder.close(inner)
    now[0] = 40
    recorder.close(outer)
    steps, phases = line.at(np.array([5, 10, 25, 35, 45]))
    assert steps.tolist() == [-1, 0, 0, 0, 0]
    assert phases.tolist() == [0, forward, comm, forward, 0]


def test_what_follows_the_optimizer_belongs_to_the_next_step_also_without_phases() -> None:
    now = [10]
    recorder = Recorder(ring=Ring(), now_ns=lambda: now[0], cpu_ns=lambda: 0)
    line = recorder.timeline = Timeline()
    recorder.close(recorder.open(recorder.names["optimizer"]))
    now[0] = 20
    recorder.end_candidate()
    assert line.at(np.array([15, 25]))[0].tolist() == [0, 1]
    recorder.begin_iteration()
    now[0] = 30
    recorder.user_step(7)
    assert line.at(np.array([15, 25, 35]))[0].tolist() == [0, 1, 2]


def test_a_call_holds_only_while_it_is_issued() -> None:
    spans = CallSpans()
    spans.put(10, end_ns=20, group=3, seq=8)
    spans.put(30, end_ns=40, group=4, seq=0)
    groups, seqs = spans.at(np.array([5, 10, 20, 25, 35, 50]))
    assert groups.tolist() == [0, 3, 3, 0, 4, 0] and seqs.tolist() == [0, 8, 8, 0, 0, 0]


def test_memory_is_bounded_and_the_latest_is_kept() -> None:
    line = Timeline()
    for i in range(3 * module.KEPT):
        line.put(i, step=i, phase=1)
    last = 3 * module.KEPT - 1
    assert line.at(np.array([last, 0]))[0].tolist() == [last, -1]
    for i in range(last + 1, last + 11):
        line.put(i, step=i, phase=1)
    assert line.at(np.array([last + 10, last - module.KEPT]))[0].tolist() == [last + 10, -1]


def test_nothing_known_is_no_step() -> None:
    steps, phases = Timeline().at(np.array([1, 2]))
    assert steps.tolist() == [-1, -1] and phases.tolist() == [0, 0]


def test_blocks_go_through_the_ring_whole_or_not_at_all() -> None:
    ring = Ring()
    rows = np.zeros(BLOCK_CAPACITY - 1, empty("kernels").dtype)
    ring.put_block("kernels", rows)
    ring.put_block("kernels", rows[:2])
    ring.put_block("kernels", rows[:1])
    assert ring.dropped() == {"ring_full": 2}
    first, second = ring.take_block("kernels"), ring.take_block("kernels")
    assert first is rows and second is not None and len(second) == 1
    assert ring.take_block("kernels") is None
