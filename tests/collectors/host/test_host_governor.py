"""The cost a host measures from shadow steps, and what its governor makes of it."""

from __future__ import annotations

import itertools
import math
import os
from dataclasses import replace

import numpy as np
import pytest

from argus.collectors.host.controls import Controls
from argus.collectors.host.counters import Counters
from argus.collectors.host.governor import Governor
from argus.collectors.host.overhead import Ledger, describe, estimate
from argus.collectors.host.plans import parse_levels
from argus.collectors.host.ranks import Member, Ranks
from argus.collectors.host.stepping import pooled
from argus.collectors.records.channels import ALL, BLOCK_STEPS, CHANNELS, is_profiled, off_at, shadowed
from argus.collectors.records.cost import Cost
from argus.collectors.records.errors import WireError
from argus.collectors.records.events import (
    COLLECTIVE,
    EVENT,
    FLAG_CHECKPOINT,
    FLAG_PROFILED,
    FLAG_SHADOW,
    STEP,
    Rows,
)
from argus.collectors.records.heartbeat import Heartbeat, Status
from argus.collectors.records.layout import Layout
from argus.collectors.records.pack import pack, unpack
from argus.collectors.records.summary import PHASE_CELL, RankWindow

RUN = "run"
SAMPLED = 0.25 / BLOCK_STEPS
"""Share of step time that sampled steps cost in `steps`."""


def steps(first: int, end: int, *, cost: float, noise: float = 0.0, seed: int = 0) -> Rows:
    """Steps of 100 ms without Argus; `cost` of that with it, half of which is the collectives'."""
    rng = np.random.default_rng((seed, first))
    rows = np.zeros(end - first, STEP)
    now_ns = 1_000_000_000_000
    for i, step in enumerate(range(first, end)):
        channel = shadowed(RUN, step)
        share = {ALL: 0.0, "phases": 0.5, "collectives": 0.5}.get(channel, 1.0)
        ratio = (1 + cost * share) * math.exp(noise * rng.standard_normal())
        pays = is_profiled(RUN, step - 1)  # for the profiler's end; it is marked as the profiled step is
        dur_ns = round(1e8 * ratio * (1.2 if is_profiled(RUN, step) else 1.05 if pays else 1.0))
        flags = FLAG_SHADOW if channel else FLAG_PROFILED if is_profiled(RUN, step) or pays else 0
        rows[i] = (step, -1, now_ns, now_ns + dur_ns, 0, flags)
        now_ns += dur_ns
    return rows


def windows(first: int, end: int, *, cost: float, ranks: int = 2, noise: float = 0.0) -> list[RankWindow]:
    return [
        RankWindow(
            run=RUN,
            attempt=0,
            rank=rank,
            window=start // 10,
            first_step=start,
            num_steps=10,
            steps=steps(start, start + 10, cost=cost, noise=noise, seed=rank),
        )
        for start in range(first, end, 10)
        for rank in range(ranks)
    ]


def test_the_planted_cost_is_found_per_channel() -> None:
    ledger = Ledger(RUN)
    for start in range(0, 3000, 10):
        ledger.add(0, steps(start, start + 10, cost=0.03))
    costs = ledger.costs()
    assert costs[ALL].ratio == pytest.approx(1.03 + SAMPLED, abs=1e-4)
    assert costs["phases"].ratio == pytest.approx(1.03 / 1.015, abs=1e-4)
    assert costs["modules"].ratio == pytest.approx(1 + SAMPLED, abs=1e-4)
    assert costs[ALL].n == 3000 // BLOCK_STEPS - 1


def test_the_interval_covers_the_truth_and_narrows() -> None:
    rng = np.random.default_rng(3)
    covered, widths = 0, []
    for n in (20, 200):
        for _ in range(200):
            cost = estimate(list(0.01 + 0.05 * rng.standard_normal(n)))
            assert cost is not None
            covered += cost.low <= math.exp(0.01) <= cost.high
        assert cost is not None
        widths.append(cost.high - cost.low)
    assert covered / 400 > 0.9
    assert widths[1] < widths[0] / 2


def test_bursts_in_single_steps_do_not_move_it() -> None:
    calm = [0.01 + 0.001 * (i % 5 - 2) for i in range(50)]
    cost, disturbed = estimate(calm), estimate([*calm[:-3], 3.0, 2.0, -4.0])
    assert cost is not None and disturbed is not None
    assert disturbed.ratio == pytest.approx(cost.ratio, abs=1e-3)
    assert estimate([0.0, 0.0]) is None


def test_ranks_of_a_step_make_one_pair_and_marked_neighbours_none() -> None:
    one, two, marked = Ledger(RUN), Ledger(RUN), Ledger(RUN)
    for start in range(0, 1000, 10):
        rows = steps(start, start + 10, cost=0.0)
        one.add(0, rows)
        two.add(0, rows)
        two.add(1, rows)
        rows = rows.copy()
        rows["flags"] |= FLAG_CHECKPOINT
        marked.add(0, rows)
    assert one.num_pairs() == two.num_pairs() == 19
    assert marked.costs() == {}


def test_channels_step_down_in_order_while_too_dear_and_come_back_later() -> None:
    counters = Counters()
    governor = Governor(counters=counters)
    levels, step = [], 0
    changes = []
    for cost in [0.1] * 4 + [0.0] * 20:
        for _ in range(4):
            governor.observe(windows(step, step + 500, cost=cost))
            step += 500
            changes += governor.take_changes()
        levels.append(governor.current(RUN, 0)[0])
    assert [change.level for change in changes][:4] == [1, 2, 3, 4]
    assert levels[-1] < levels[3] == max(levels)
    rises = [b.from_step - a.from_step for a, b in itertools.pairwise(changes) if b.level < a.level]
    falls = [b.from_step - a.from_step for a, b in itertools.pairwise(changes) if b.level > a.level]
    assert min(rises) > max(falls)  # back slower than down
    assert all(change.from_step > 0 and "off from step" in change.text for change in changes)
    assert counters.get("argus_collector_channel_changes_total", "down") == 1 + len(falls)


def test_within_budget_nothing_changes_whatever_the_noise() -> None:
    governor = Governor(counters=Counters())
    governor.observe(windows(0, 10_000, cost=0.005, noise=0.1))
    assert governor.take_changes() == []
    assert governor.current(RUN, 0) == (0, 0)


def test_the_cost_is_in_the_windows_the_heartbeats_and_the_metrics() -> None:
    counters = Counters()
    governor = Governor(counters=counters)
    last = governor.observe(windows(0, 2000, cost=0.01))[-1]
    back = RankWindow.from_bytes(last.to_bytes())
    assert back.overhead == last.overhead and back.overhead[ALL].n == 39
    assert counters.get("argus_collector_overhead_ratio", ALL) == pytest.approx(1.01 + SAMPLED, abs=1e-4)
    beat = Heartbeat(run=RUN, attempt=0, rank=0, host="h", ts_s=1.0, status=Status(ts_ns=1, step=2))
    [told] = governor.tell([beat])
    assert Heartbeat.from_json(told.to_json()) == told
    assert told.overhead == last.overhead
    assert describe(told.overhead)[0].startswith("all: +1.5 % of step time")


def remade(window: RankWindow, **changed: object) -> bytes:
    """The window's bytes with keys of its header replaced, None = left out, and no later arrays."""
    names = {"steps": STEP, "cells": PHASE_CELL, "collectives": COLLECTIVE, "events": EVENT}
    meta, arrays = unpack(window.to_bytes(), {**names, "details": PHASE_CELL})
    meta = {key: value for key, value in {**meta, **changed}.items() if value is not None}
    return pack(meta, {name: (name, arrays[name]) for name in names})


def test_a_window_of_the_first_release_is_read_and_nonsense_is_refused() -> None:
    window = windows(0, 10, cost=0.0)[0]
    old = RankWindow.from_bytes(remade(window, overhead=None, channels_off=None))
    assert old.overhead == {} and old.channels_off == () and len(old.details) == 0
    values: list[object] = [[1, 2], [1, 0.9, 1.1, -4], [1e9, 1, 1, 3], "x", [True, 1, 1, 1]]
    for nonsense in ([], *({"all": value} for value in values)):
        with pytest.raises(WireError):
            RankWindow.from_bytes(remade(window, overhead=nonsense))


def test_costs_keep_their_numbers() -> None:
    assert Cost(ratio=1.0, low=0.9, high=1.1, n=3).to_json() == [1.0, 0.9, 1.1, 3]


def test_once_a_service_decides_the_host_follows_and_measures_anew() -> None:
    governor = Governor(counters=Counters())
    governor.observe(windows(0, 1000, cost=0.1))
    governor.follow({(RUN, 0): (2, 1500), (RUN, 1): (1, 0)})
    [change, other] = governor.take_changes()
    assert (change.level, change.from_step, other.attempt) == (2, 1500, 1)
    [early] = governor.observe(windows(1490, 1500, cost=0.1, ranks=1))
    assert early.channels_off == () and early.overhead == {}
    assert not governor.is_off("stacks", RUN, 0, step=1499) and governor.is_off("stacks", RUN, 0, step=1500)
    seen = governor.observe(windows(1500, 6000, cost=0.1))
    assert seen[0].channels_off == CHANNELS[:2] and seen[-1].overhead[ALL].n > 20
    governor.follow({(RUN, 0): (2, 1500)})
    assert governor.take_changes() == []  # dear as it is: the service decides
    assert governor.current(RUN, 0) == (2, 1500)


def beats(costs: dict[str, Cost | None], *, level: int = 0) -> list[Heartbeat]:
    return [
        Heartbeat(
            run=RUN,
            attempt=0,
            rank=rank,
            host=host,
            ts_s=1.0,
            status=Status(ts_ns=1, step=2),
            overhead={} if cost is None else {ALL: cost},
            channels_off=off_at(level),
        )
        for rank, (host, cost) in enumerate(costs.items())
    ]


def test_the_cost_of_all_hosts_is_pooled_once_half_of_them_measured_it() -> None:
    dear, cheap = (Cost(ratio=r, low=r - 0.01, high=r + 0.01, n=30) for r in (1.06, 1.02))
    both = pooled(beats({"a": dear, "b": cheap, "c": None}), level=0)
    assert both is not None and both.n == 30
    assert [both.ratio, both.low, both.high] == pytest.approx([1.04, 1.03, 1.05])
    assert pooled(beats({"a": dear, "b": None, "c": None}), level=0) is None
    assert pooled(beats({"a": dear, "b": cheap}), level=1) is None  # they measured another level
    assert pooled(beats({"a": replace(dear, n=3)}), level=0) is None


def test_levels_of_an_answer_are_checked() -> None:
    good = {"run": RUN, "attempt": 0, "level": 2, "from_step": 90}
    bad: list[object] = [
        "plan",
        {**good, "level": 99},
        {**good, "attempt": True},
        {**good, "run": 3},
        {"run": RUN, "attempt": 0},
    ]
    assert parse_levels([good, *bad]) == {(RUN, 0): (2, 90)}
    assert parse_levels(None) == parse_levels("x") == {}


def test_an_attempt_launched_anew_is_measured_anew() -> None:
    counters = Counters()
    governor = Governor(counters=counters)
    controls, ranks = (
        Controls(governor, counters=counters),
        Ranks(host="h", first_steps=10, counters=counters),
    )
    governor.observe(windows(0, 20_000, cost=0.1))
    assert governor.current(RUN, 0)[0] > 0

    def connect(rank: int, began_ns: int) -> Member:
        layout = Layout(run=RUN, attempt=0, rank=rank, world_size=2, began_ns=began_ns)
        member = ranks.connect(layout, pid=os.getpid(), now_s=0.0)
        controls.begin(member, ranks)
        return member

    first = [connect(rank, 1) for rank in range(2)]
    governor.observe(windows(0, 4_000, cost=0.1))
    told = governor.current(RUN, 0)
    assert told[0] > 0 and told[1] < 4_100
    ranks.disconnect(first[1], now_s=1.0)
    connect(1, 2)  # one rank alone is no launch
    assert governor.current(RUN, 0) == told
    for member in ranks:
        member.letter = ""
        ranks.disconnect(member, now_s=2.0)
    connect(0, 3)
    assert governor.current(RUN, 0) == (0, 0)
