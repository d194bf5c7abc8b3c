"""Launch latency and host gap of a step, from its kernels."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from argus.collectors.rank.cupti.series import Series
from argus.collectors.rank.ring import Ring
from argus.collectors.records.events import KERNEL, Rows
from argus.collectors.records.kernel_names import group_kind, is_comm, short_name
from argus.collectors.records.launch_series import HOST_GAP, LATENCY, busy_ns, step_events, step_launches


def kernels(*rows: tuple[int, int, int, int]) -> Rows:
    """Rows of (step, launch, start, duration)."""
    out = np.zeros(len(rows), KERNEL)
    for i, column in enumerate(("step", "launch_ns", "start_ns", "dur_ns")):
        out[column] = [row[i] for row in rows]
    return out


SPANS = st.lists(st.tuples(st.integers(0, 200), st.integers(1, 50)), min_size=1, max_size=20)


@given(spans=SPANS)
def test_busy_time_is_the_union_of_the_intervals(spans: list[tuple[int, int]]) -> None:
    start, dur = np.array(sorted(spans)).T
    covered = {t for s, d in spans for t in range(s, s + d)}
    assert busy_ns(start, start + dur) == len(covered)


@given(spans=SPANS, seed=st.integers(0, 9))
def test_order_and_shift_of_the_kernels_do_not_matter(spans: list[tuple[int, int]], seed: int) -> None:
    rows = kernels(*((1, 0, start, dur) for start, dur in spans))
    mixed = np.random.default_rng(seed).permutation(rows)
    mixed["start_ns"] += 12345
    (one,), (other,) = list(step_launches(rows)), list(step_launches(mixed))
    assert (one.gap_ns, one.gap_ratio) == (other.gap_ns, other.gap_ratio)
    assert 0 <= one.gap_ratio < 1 and one.latency_p50_ns == -1


def test_a_host_that_launches_late_leaves_gaps() -> None:
    fast = kernels(*((1, 10 * i + 1, 100 + 50 * i, 50) for i in range(10)))
    slow = kernels(*((1, 100 * i + 1, 100 * i + 6, 50) for i in range(10)))
    (one,), (other,) = list(step_launches(fast)), list(step_launches(slow))
    assert one.gap_ratio == 0 and one.latency_p50_ns > 100
    assert other.gap_ratio > 0.4 and other.latency_p50_ns == 5


def test_a_graphs_launch_counts_once() -> None:
    rows = kernels((1, 10, 20, 5), *((1, 10, 30 + 10 * i, 5) for i in range(50)), (1, 600, 700, 5))
    (one,) = step_launches(rows)
    assert one.latency_p50_ns == (10 + 100) // 2


def test_events_carry_the_series() -> None:
    names: list[str] = []

    def intern(text: str) -> int:
        names.append(text)
        return len(names) - 1

    rows = step_events(kernels((3, 10, 20, 10), (3, 25, 40, 10), (4, 0, 90, 10)), intern=intern)
    found = [(int(row["step"]), names[row["kind"]], int(row["dur_ns"])) for row in rows]
    assert found == [(3, HOST_GAP, 10), (3, LATENCY, 12), (4, HOST_GAP, 0)]
    assert rows["value"][0] == 10 / 30
    assert len(step_events(kernels(), intern=intern)) == 0


def test_a_step_is_put_out_once_when_it_is_over() -> None:
    ring = Ring()
    series = Series(ring)
    for step in range(4):
        series.add(kernels((step, 100 * step + 1, 100 * step + 5, 10)))
    series.add(kernels((0, 1, 5, 10)))  # too late to count
    series.add(kernels(), is_last=True)
    rows = []
    while (block := ring.take_block("events")) is not None:
        rows += block["step"].tolist()
    assert sorted(rows) == sorted([0, 1, 2, 3] * 2)


def test_names_are_cut_the_same_for_a_trace_and_a_live_run() -> None:
    assert short_name("Memcpy HtoD (Pageable -> Device)") == "Memcpy HtoD"
    assert short_name("Memset (Device)") == "Memset"
    assert is_comm("deep_ep::internode::dispatch") and not is_comm("flash_fwd_kernel")
    assert (group_kind("mesh_tp"), group_kind("default_pg"), group_kind("")) == ("tp", "world", "world")
