"""Clock alignment: what it corrects, what it leaves alone and when it refuses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from argus.analytics.clocks import ALIGNED, COMMON_CLOCK, DURATIONS, align
from argus.analytics.numbers import window_numbers
from argus.analytics.waits import waits_of
from argus.analytics.window import Ints, Window, assemble
from argus.collectors.records.events import COLLECTIVE, STEP, Rows
from argus.collectors.records.layout import GroupInfo, Layout
from argus.collectors.records.summary import RankWindow
from argus.topology.layout import build

CALLS, NOISE_NS = 12, 3_000


def window(
    groups: Mapping[str, Sequence[int]],
    *,
    offsets_ns: Sequence[int],
    hosts: Sequence[str] | None = None,
    op: str = "all_reduce",
    seed: int = 3,
) -> Window:
    """Ranks whose clocks are ahead by `offsets_ns`; each group makes `CALLS` calls."""
    rng = np.random.default_rng(seed)
    world = len(offsets_ns)
    entries = {name: rng.integers(0, 5_000_000, (CALLS, world)) for name in groups}
    layouts, parts = [], []
    for rank, offset in enumerate(offsets_ns):
        mine = [name for name, ranks in groups.items() if rank in ranks]
        infos = tuple(GroupInfo(name=n, desc=f"mesh_{n}", ranks=tuple(groups[n])) for n in mine)
        host = hosts[rank] if hosts else ""
        layouts.append(Layout(run="r", attempt=0, rank=rank, world_size=world, host=host, groups=infos))
        rows = [
            _calls(
                entries[n][:, list(groups[n])].max(axis=1),
                entries[n][:, rank],
                offset,
                list(groups).index(n),
                rng,
            )
            for n in mine
        ]
        for number, part in enumerate(rows):
            part["op"], part["group"] = 1, 2 + number
        parts.append(_part(rank, host, names=("", op, *mine), rows=np.concatenate(rows)))
    return assemble(parts, build(layouts))


def _part(rank: int, host: str, *, names: tuple[str, ...], rows: Rows) -> RankWindow:
    """One step of a second that holds the calls."""
    step = np.zeros(1, STEP)
    step["end_ns"] = 10**9
    return RankWindow(
        run="r",
        attempt=0,
        rank=rank,
        window=0,
        first_step=0,
        num_steps=1,
        host=host,
        names=names,
        steps=step,
        collectives=rows,
    )


def _calls(last: Ints, entry: Ints, offset: int, place: int, rng: np.random.Generator) -> Rows:
    """The calls of one rank in one group, on its own clock; groups take turns by `place`."""
    rows = np.zeros(CALLS, COLLECTIVE)
    base = np.arange(CALLS) * 500_000_000 + place * 10_000_000 + offset
    rows["seq"], rows["peer"] = np.arange(CALLS), -1
    rows["entry_ns"] = base + entry
    rows["end_ns"] = base + last + 200_000 + rng.integers(-NOISE_NS, NOISE_NS, CALLS)
    return rows


def error_s(got: Window, true: Window) -> float:
    """Largest error of an entry against a window without offsets, but for one common shift."""
    difference = got.collectives.entry_s - true.collectives.entry_s
    return float(np.ptp(difference))


def test_a_common_clock_is_left_alone() -> None:
    before = window({"dp": range(4)}, offsets_ns=[0, 0, 0, 0])
    after = align(before)
    assert after.clock_method == COMMON_CLOCK
    assert np.array_equal(after.collectives.entry_s, before.collectives.entry_s)
    assert after.clock_residual_s <= 2 * NOISE_NS * 1e-9


@pytest.mark.parametrize("ahead_ns", [200_000, 7_000_000, 11_560_000_000])
def test_offsets_of_any_size_are_taken_out(ahead_ns: int) -> None:
    offsets = [0, 0, ahead_ns, -3 * ahead_ns]
    after = align(window({"dp": range(4)}, offsets_ns=offsets))
    true = window({"dp": range(4)}, offsets_ns=[0, 0, 0, 0])
    assert after.clock_method == ALIGNED
    assert error_s(after, true) < 10e-6
    assert after.clock_residual_s < 10e-6


def test_offsets_travel_along_a_chain_of_groups() -> None:
    """No group spans all ranks: 0-1, 1-2, …, 6-7."""
    groups = {f"g{i}": (i, i + 1) for i in range(7)}
    offsets = [int(x) for x in np.random.default_rng(1).integers(-(10**9), 10**9, 8)]
    after = align(window(groups, offsets_ns=offsets))
    assert error_s(after, window(groups, offsets_ns=[0] * 8)) < 30e-6


def test_ranks_of_one_host_share_a_clock() -> None:
    hosts = ["a", "a", "b", "b"]
    before = window({"dp": range(4)}, offsets_ns=[0, 0, 10**6, 10**6], hosts=hosts)
    after = align(before)
    assert after.clock_method == ALIGNED
    moved = before.collectives.entry_s - after.collectives.entry_s
    for pair in ((0, 1), (2, 3)):
        assert np.ptp(moved[np.isin(after.collectives.rank, pair)]) < 1e-12
    one = window({"dp": range(4)}, offsets_ns=[0] * 4, hosts=["a"] * 4)
    assert align(one) is one


def test_a_few_wild_calls_do_not_move_the_clock() -> None:
    before = window({"dp": range(4)}, offsets_ns=[0, 0, 0, 10**6])
    wild = (before.collectives.rank == 3) & (before.collectives.seq < 3)
    before.collectives.end_s[wild] += 5.0
    after = align(before)
    true = window({"dp": range(4)}, offsets_ns=[0] * 4)
    assert error_s(after, true) < 20e-6


@pytest.mark.parametrize("op", ["send", "broadcast"])
def test_without_anchors_it_refuses(op: str) -> None:
    after = align(window({"dp": range(2)}, offsets_ns=[0, 10**6], op=op))
    assert after.clock_method == DURATIONS and after.clock_residual_s == float("inf")


def test_separate_islands_are_aligned_each() -> None:
    groups = {"a": (0, 1), "b": (2, 3)}
    after = align(window(groups, offsets_ns=[0, 10**6, 5 * 10**9, 5 * 10**9 + 10**6]))
    true = window(groups, offsets_ns=[0] * 4)
    for island in ((0, 1), (2, 3)):
        here = np.isin(after.collectives.rank, island)
        assert np.ptp((after.collectives.entry_s - true.collectives.entry_s)[here]) < 10e-6


def test_missing_rank_and_nan_do_not_raise() -> None:
    before = window({"dp": range(4)}, offsets_ns=[0, 0, 10**6, 0])
    before.collectives.end_s[::5] = np.nan
    after = align(before)
    assert np.isfinite(after.clock_residual_s)
    assert np.array_equal(np.isnan(after.collectives.end_s), np.isnan(before.collectives.end_s))


def test_ranks_of_unknown_hosts_on_hopeless_clocks_are_judged_by_durations() -> None:
    """Nothing ties the clocks together: the raw entries would blame whoever's clock is ahead."""
    before = window({"dp": range(4)}, offsets_ns=[0, 0, 10**9, 0])
    lost = replace(before, clock_method=DURATIONS, clock_residual_s=float("inf"))
    true = waits_of(window({"dp": range(4)}, offsets_ns=[0] * 4))
    got = waits_of(lost)
    assert got.calls.by_durations.all()
    assert got.last_rank.tolist() == true.last_rank.tolist()


def drifting(rates: Sequence[float]) -> Window:
    """Clocks of the ranks run fast by these rates; calls every half second for six seconds."""
    before = window({"dp": range(len(rates))}, offsets_ns=[0] * len(rates))
    rows = before.collectives
    rate = np.array(rates)[rows.rank]
    since = rows.entry_s.min()
    return replace(
        before,
        collectives=replace(
            rows,
            entry_s=rows.entry_s + rate * (rows.entry_s - since),
            end_s=rows.end_s + rate * (rows.end_s - since),
        ),
    )


def test_drift_inside_the_window_is_taken_out() -> None:
    after = align(drifting([0.0, 0.0, 0.0, 2e-3]))
    true = window({"dp": range(4)}, offsets_ns=[0] * 4)
    assert error_s(after, true) < 50e-6 and after.clock_residual_s < 20e-6
    assert after.clocks is not None and after.clocks.drift[3] == pytest.approx(2e-3, rel=0.02)
    assert not align(window({"dp": range(4)}, offsets_ns=[0] * 4)).clocks.drift.any()  # type: ignore[union-attr]


def test_a_clock_that_jumped_is_not_compared_and_the_others_are() -> None:
    before = window({"dp": range(4)}, offsets_ns=[0, 0, 10**6, 0])
    late = (before.collectives.rank == 3) & (before.collectives.seq >= 8)
    before.collectives.entry_s[late] += 5.0
    before.collectives.end_s[late] += 5.0
    after = align(before)
    assert after.clocks is not None
    assert np.isinf(after.clocks.error_s[3]) and np.isfinite(after.clocks.error_s[:3]).all()
    true = waits_of(window({"dp": range(4)}, offsets_ns=[0] * 4))
    assert waits_of(after).last_rank.tolist() == true.last_rank.tolist()


def test_islands_that_no_call_ties_are_told_apart() -> None:
    after = align(window({"a": (0, 1), "b": (2, 3)}, offsets_ns=[0, 10**6, 5 * 10**9, 5 * 10**9 + 10**6]))
    assert after.clocks is not None
    island = after.clocks.island
    assert island[0] == island[1] != island[2] == island[3]


def test_what_was_found_out_about_the_clocks_is_kept_with_the_window() -> None:
    before = window({"dp": range(4)}, offsets_ns=[0, 0, 3 * 10**6, 0])
    told = window_numbers(align(before)).told
    assert told["clock_offset_s"] == pytest.approx(3e-3, rel=0.01) and told["clocks_unusable"] == 0
    assert 0 <= told["clock_residual_s"] < 20e-6
    one = window({"dp": range(4)}, offsets_ns=[0] * 4, hosts=["a"] * 4)
    assert "clock_residual_s" not in window_numbers(align(one)).told


@pytest.mark.parametrize(
    ("hosts", "method"),
    [(("a", "a", "a"), "one host"), (("a", "b", "a"), DURATIONS), (("a", "", "a"), DURATIONS)],
)
def test_a_rank_that_never_reported_reads_no_clock(hosts: Sequence[str], method: str) -> None:
    layouts = [Layout(run="r", attempt=0, rank=r, world_size=4, host=host) for r, host in enumerate(hosts)]
    calls = np.zeros(1, COLLECTIVE)
    parts = [_part(rank, host, names=("", "barrier", "g"), rows=calls) for rank, host in enumerate(hosts)]
    one = align(assemble(parts, build(layouts)))
    assert one.clock_method == method and np.isfinite(one.clock_residual_s) == (method == "one host")
