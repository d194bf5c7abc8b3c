"""The wait graph: the last to enter is blamed unless somebody else held it up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from argus.analytics.blame import airport_shares
from argus.analytics.waits import waits_of
from argus.analytics.window import Window, assemble
from argus.collectors.records.events import COLLECTIVE, FLAG_CHECKPOINT, STEP, Rows
from argus.collectors.records.layout import GroupInfo, Layout
from argus.collectors.records.summary import RankWindow
from argus.topology.layout import build

MS = 1_000_000
NAMES = ("", "all_reduce", "send", "recv", "tp", "dp", "broadcast", "reduce")

Call = tuple[str, str, int, int, int]
"""Operation, group name, sequence number, entry and end in milliseconds."""


def window(
    calls: Mapping[int, Sequence[Call]],
    groups: Mapping[int, Sequence[GroupInfo]],
    *,
    blocked: bool = True,
    hosts: Sequence[str] = (),
    peers: Mapping[int, int] | None = None,
    flags: int = 0,
) -> Window:
    """One step of a second per rank, with these calls."""
    layouts = [
        Layout(
            run="r",
            attempt=0,
            rank=rank,
            world_size=len(calls),
            host=hosts[rank] if hosts else "h",
            groups=tuple(groups[rank]),
        )
        for rank in calls
    ]
    steps = np.zeros(1, STEP)
    steps["end_ns"], steps["flags"] = 1000 * MS, flags
    parts = [
        RankWindow(
            run="r",
            attempt=0,
            rank=rank,
            window=0,
            first_step=0,
            num_steps=1,
            names=NAMES,
            steps=steps,
            collectives=_rows(mine, blocked=blocked, peer=(peers or {}).get(rank, -1)),
        )
        for rank, mine in calls.items()
    ]
    return assemble(parts, build(layouts))


def _rows(calls: Sequence[Call], *, blocked: bool, peer: int) -> Rows:
    rows = np.zeros(len(calls), COLLECTIVE)
    for row, (op, group_name, seq, entry, end) in zip(rows, calls, strict=True):
        row["op"], row["group"], row["seq"] = NAMES.index(op), NAMES.index(group_name), seq
        row["entry_ns"], row["end_ns"] = entry * MS, end * MS
        row["blocked_ns"] = (end - entry) * MS if blocked else 0
        row["peer"] = peer
    return rows


def group(name: str, desc: str, *ranks: int) -> GroupInfo:
    return GroupInfo(name=name, desc=desc, ranks=ranks)


def one_group(num: int, name: str = "dp", desc: str = "mesh_dp") -> dict[int, list[GroupInfo]]:
    return {rank: [group(name, desc, *range(num))] for rank in range(num)}


def test_the_last_to_enter_is_blamed_and_the_rest_waited() -> None:
    entries = (10, 12, 50, 11)
    waits = waits_of(
        window({r: [("all_reduce", "dp", 0, e, 55)] for r, e in enumerate(entries)}, one_group(4))
    )
    assert waits.late_s.argmax() == 2
    assert waits.last_rank.tolist() == [2]
    assert waits.max_wait_s == pytest.approx([0.040])
    assert waits.calls.transfer_s == pytest.approx([0.005])
    assert set(waits.victims(2)[0].tolist()) == {0, 1, 3} and waits.guilty.tolist() == [2]
    assert waits.late_s[2] == pytest.approx((0.040 + 0.038 + 0.039) / 3, rel=0.1)


def test_nobody_is_blamed_when_all_enter_together_and_the_transfer_is_long() -> None:
    waits = waits_of(window({r: [("all_reduce", "dp", 0, 10, 500)] for r in range(4)}, one_group(4)))
    assert waits.late_s.max() == 0 and waits.calls.transfer_s == pytest.approx([0.49])


def test_a_victim_that_comes_late_to_its_other_group_hands_the_blame_on() -> None:
    """TP pairs (0, 1) and (2, 3), DP pairs (0, 2) and (1, 3); rank 0 is slow, rank 1 waited for it."""
    groups = {
        r: [group("tp", "mesh_tp", *((0, 1) if r < 2 else (2, 3))), group("dp", "mesh_dp", r % 2, r % 2 + 2)]
        for r in range(4)
    }
    calls = {
        0: [("all_reduce", "tp", 0, 100, 102), ("all_reduce", "dp", 0, 110, 115)],
        1: [("all_reduce", "tp", 0, 60, 102), ("all_reduce", "dp", 0, 111, 115)],
        2: [("all_reduce", "tp", 0, 61, 63), ("all_reduce", "dp", 0, 71, 115)],
        3: [("all_reduce", "tp", 0, 60, 63), ("all_reduce", "dp", 0, 72, 115)],
    }
    waits = waits_of(window(calls, groups))
    assert waits.late_s.argmax() == 0
    assert waits.late_s[0] > 0.9 * waits.late_s.sum()
    assert set(waits.victims(0)[0].tolist()) == {1, 2, 3}


def test_lateness_out_of_another_groups_slow_transfer_accuses_nobody() -> None:
    groups = {
        r: [group("dp", "mesh_dp", r % 2, r % 2 + 2), group("tp", "mesh_tp", *((0, 1) if r < 2 else (2, 3)))]
        for r in range(4)
    }
    calls = {
        r: [
            ("all_reduce", "dp", 0, 10, 100 if r % 2 else 20),
            ("all_reduce", "tp", 0, 110 if r % 2 else 30, 112),
        ]
        for r in range(4)
    }
    waits = waits_of(window(calls, groups))
    assert waits.waited_s.max() == pytest.approx(0.08)
    assert waits.late_s.max() < 0.01 * waits.waited_s.max()


def test_hidden_waiting_of_buckets_is_counted_once() -> None:
    """Buckets are launched without blocking: only what is left at the last one stands still."""
    lateness = (0, 0, 0, 30)
    calls = {
        r: [("all_reduce", "dp", k, 10 + 20 * k + late * (k + 1) // 3, 20 + 20 * k + 30) for k in range(3)]
        for r, late in enumerate(lateness)
    }
    waits = waits_of(window(calls, one_group(4), blocked=False))
    assert waits.late_s.argmax() == 3
    assert waits.waited_s[:3] == pytest.approx([0.03] * 3)


def test_unaligned_clocks_fall_back_to_durations() -> None:
    entries, shift = (10, 12, 50, 11), (0, 0, 7000, 7000)
    calls = {r: [("all_reduce", "dp", 0, e + shift[r], 55 + shift[r])] for r, e in enumerate(entries)}
    waits = waits_of(window(calls, one_group(4), hosts=("a", "a", "b", "b")))
    assert waits.calls.by_durations.tolist() == [True]
    assert waits.late_s.argmax() == 2 and waits.calls.transfer_s == pytest.approx([0.005])
    assert waits.max_wait_s == pytest.approx([0.040])


def test_a_receiver_waits_for_its_sender_and_never_the_other_way_round() -> None:
    def pair(send: int, receive: int) -> Window:
        calls: dict[int, list[Call]] = {0: [("send", "dp", 0, send, 60)], 1: [("recv", "dp", 0, receive, 60)]}
        return window(calls, one_group(2, desc="mesh_pp"), peers={0: 1, 1: 0})

    late_sender, late_receiver = waits_of(pair(50, 10)), waits_of(pair(10, 50))
    assert late_sender.late_s.tolist() == pytest.approx([0.04, 0.0], abs=2e-3)
    assert late_receiver.late_s.max() == 0


def test_incomplete_and_impossible_calls_are_skipped_and_counted() -> None:
    calls: dict[int, list[Call]] = {
        r: [
            ("all_reduce", "dp", 0, 10 + r, 20),
            ("all_reduce", "dp", 1, 30, 20),  # ends before it starts
            ("all_reduce", "dp", 2, 40, 45)
            if r
            else ("all_reduce", "dp", 2, 60, 70),  # left before rank 0 came
            ("reduce", "dp", 4, 80, 85),
        ]
        for r in range(3)
    }
    calls[2].append(("all_reduce", "dp", 3, 75, 78))
    waits = waits_of(window(calls, one_group(3)))
    assert len(waits.calls.first) == 1
    assert waits.skipped == {
        "time missing": 1,
        "operation without a wait": 1,
        "member missing": 1,
        "sequence mismatch": 1,
    }


def test_steps_of_a_mark_are_not_charged() -> None:
    calls = {r: [("all_reduce", "dp", 0, 10 + 40 * (r == 1), 55)] for r in range(3)}
    waits = waits_of(window(calls, one_group(3), flags=FLAG_CHECKPOINT))
    assert waits.late_s.max() == 0 and waits.last_rank.tolist() == [1]


def test_a_window_without_calls_blames_nobody() -> None:
    waits = waits_of(window({0: [], 1: []}, one_group(2)))
    assert waits.late_s.tolist() == [0, 0] and not len(waits.victims(0)[0]) and not waits.skipped


def test_the_order_of_the_rows_does_not_matter() -> None:
    rng = np.random.default_rng(5)
    calls = {
        r: [("all_reduce", "dp", k, int(10 + 50 * k + rng.integers(20)), 45 + 50 * k) for k in range(4)]
        for r in range(5)
    }
    plain = window(calls, one_group(5))
    order = rng.permutation(len(plain.collectives.rank))
    shuffled = replace(
        plain,
        collectives=replace(
            plain.collectives,
            **{k: v[order] for k, v in vars(plain.collectives).items() if isinstance(v, np.ndarray)},  # type: ignore[arg-type]
        ),
    )
    assert waits_of(shuffled).late_s == pytest.approx(waits_of(plain).late_s)


def test_airport_shares_add_up_and_split_evenly_between_equals() -> None:
    entry = np.random.default_rng(1).random((50, 6))
    shares = airport_shares(entry)
    assert shares.sum(axis=1) == pytest.approx((entry.max(axis=1, keepdims=True) - entry).sum(axis=1))
    assert (shares >= 0).all()
    tied = airport_shares(np.array([[0.0, 0.0, 5.0, 5.0]]))
    assert tied.tolist() == [[0.0, 0.0, 5.0, 5.0]]
