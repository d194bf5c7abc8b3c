"""Slow paths: a single bad link by its two ends, a slow group, what several share; never where a member is at fault."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from argus.analytics.attempt import AttemptState, advance
from argus.analytics.clocks import align
from argus.analytics.cost import REPLAY
from argus.analytics.delays import delays_of, ends_of
from argus.analytics.detectors.l2_transfer import detect
from argus.analytics.digest import digest_of
from argus.analytics.incident import Incident
from argus.analytics.view import View
from argus.analytics.waits import waits_of
from argus.analytics.window import assemble
from argus.collectors.records.heartbeat import Heartbeat, Status
from argus.collectors.records.plan import WindowPlan
from argus.evals.simulator.job import SHARED, Fault, Job
from argus.evals.simulator.simulate import simulate
from argus.topology.layout import build
from tests.analytics.mesh_kit import STEPS, mesh, slow, windows

PIPES = mesh(ranks=48, tp=2, pp=4, micro_batches=4)
"""Stages of 12 ranks on three hosts each: rank 12 of stage 1 sends to rank 24 of stage 2."""
PLANES = mesh(ranks=64, tp=4)
SMALL = mesh(ranks=8, pp=4, micro_batches=8)
HEALTHY, SICK = 7, 3
ONSET = HEALTHY * STEPS


def incidents_of(
    job: Job, *faults: Fault, seed: int = 0, beats: Sequence[Heartbeat] = ()
) -> tuple[Incident, ...]:
    """What is open after some healthy windows and some with the faults."""
    topology, seen = windows(replace(job, steps=(HEALTHY + SICK) * STEPS), faults, seed=seed)
    state = AttemptState.start(job.run, 0)
    for window in seen:
        state = advance(state, topology=topology, now_s=0.0, window=window, beats=beats).state
    return state.incidents


def slow_link(*ranks: int, group: str = "pp", severity: float = 1.6) -> Fault:
    """What the ranks send each other takes so much of a step more."""
    return Fault(kind="link", ranks=ranks, group=group, severity=severity, start_step=ONSET)


@pytest.mark.slow
@pytest.mark.parametrize("pair", [(12, 24), (33, 45), (1, 13)])
def test_a_bad_link_is_named_by_its_two_ends(pair: tuple[int, int]) -> None:
    (incident,) = incidents_of(PIPES, slow_link(*pair))
    cause = incident.cause
    assert (cause.fault_class, set(cause.suspects)) == ("link.slow", set(pair))
    assert set(cause.paths) <= {f"{pair[0]}>{pair[1]}", f"{pair[1]}>{pair[0]}"}
    low, high = sorted(PIPES.host(rank) for rank in pair)
    assert cause.scope == f"edge:host:{low}--host:{high}"
    assert cause.group is not None and cause.group.startswith("pp/")
    assert cause.second_best == "host.cpu_starved" and cause.separation is not None


@pytest.mark.slow
def test_all_links_between_two_hosts_are_one_cause() -> None:
    """Host 3 holds ranks 12 to 15, which send forth to 24 … 27 on host 6."""
    links = [slow_link(rank, rank + 12) for rank in range(12, 16)]
    incidents = incidents_of(PIPES, *links)
    assert [incident.cause.fault_class for incident in incidents] == ["link.slow"]
    assert set(incidents[0].cause.suspects) == {*range(12, 16), *range(24, 28)}
    assert len(incidents[0].cause.paths) >= 4


@pytest.mark.slow
def test_a_slow_group_is_named_as_a_group() -> None:
    (incident,) = incidents_of(PLANES, slow_link(2, group="dp"))
    assert incident.cause.fault_class == "link.slow" and incident.cause.scope == "group:dp/2"
    assert incident.cause.suspects == tuple(range(2, 64, 4))


@pytest.mark.slow
def test_a_slow_link_and_a_slow_rank_elsewhere_stay_two() -> None:
    incidents = incidents_of(PIPES, slow_link(12, 24), slow(40, 1.5, start_step=ONSET))
    assert {(i.cause.fault_class, frozenset(i.cause.suspects)) for i in incidents} == {
        ("link.slow", frozenset({12, 24})),
        ("compute.slow", frozenset({40})),
    }


@pytest.mark.slow
def test_a_member_that_does_not_run_leaves_the_link_undecided() -> None:
    beats = [
        Heartbeat(
            run=PIPES.run,
            attempt=0,
            rank=rank,
            host=PIPES.host(rank),
            ts_s=1.0,
            process_state="D" if rank == 24 else "S",
            status=Status(ts_ns=1, step=1),
        )
        for rank in range(PIPES.ranks)
    ]
    (incident,) = incidents_of(PIPES, slow_link(12, 24), beats=beats)
    assert incident.cause.verdict == "INCONCLUSIVE"
    assert any("rank 24 is in state D" in item.note for item in incident.cause.evidence)


@pytest.mark.slow
def test_healthy_paths_accuse_nobody() -> None:
    for seed in range(3):
        assert incidents_of(PIPES, seed=seed) == ()


def test_the_matrix_has_a_row_per_pair_and_direction_and_one_per_group() -> None:
    topology, seen = windows(PIPES, [Fault(kind="link", ranks=(12, 24), group="pp", severity=1.6)], seed=0)
    window = next(seen)
    delays = delays_of(window, waits_of(window))
    pairs = [ends for path in delays.paths if (ends := ends_of(path)) is not None]
    assert len(pairs) == len(set(pairs)) == 2 * 3 * 12
    assert {path for path in delays.paths if ends_of(path) is None} == {group.id for group in topology.groups}
    per_step = dict(zip(delays.paths, delays.sum_s, strict=True))
    assert max((f"{a}>{b}" for a, b in pairs), key=lambda path: per_step[path]) in ("12>24", "24>12")
    again = delays_of(replace(window, collectives=window.collectives), waits_of(window))
    assert np.array_equal(again.sum_s, delays.sum_s, equal_nan=True)


def test_steps_that_a_member_did_not_record_make_no_group_cheaper() -> None:
    job, sums, num_calls = replace(PLANES, tp=2, steps=STEPS), [], []
    for lost in (0.0, 0.01):
        topology, seen = windows(replace(job, lost_step_probability=lost), [], seed=0)
        window = next(seen)
        waits = waits_of(window)
        delays = delays_of(window, waits)
        mine = [delays.paths.index(group.id) for group in topology.groups if group.kind == "dp"]
        sums.append(delays.sum_s[mine])
        num_calls.append(np.isin(waits.calls.group, mine).sum())
    assert num_calls[1] < 0.9 * num_calls[0] and len(sums[0]) == 2
    assert np.all(np.abs(sums[1] / sums[0] - 1) < 0.1)


@pytest.mark.slow
def test_a_link_that_costs_two_per_cent_of_the_step_is_found_and_priced_by_replay() -> None:
    job = replace(SMALL, steps=(HEALTHY + SICK) * STEPS)
    fault = slow_link(2, 4, severity=1.1)
    sick, well = (simulate(job, faults, rng=np.random.default_rng(0)) for faults in ((fault,), ()))
    took, usual = ((one.end_s - one.start_s)[ONSET:].max(axis=1).mean() for one in (sick, well))
    (incident,) = incidents_of(SMALL, fault)
    assert (incident.cause.fault_class, set(incident.cause.suspects)) == ("link.slow", {2, 4})
    assert incident.cost.method == REPLAY
    assert incident.cost.share_of_step == pytest.approx(1 - usual / took, abs=0.01)
    assert 0.01 < 1 - usual / took < 0.04


@pytest.mark.slow
def test_receivers_that_stand_for_a_slow_stage_make_no_link_slow() -> None:
    """What was hidden behind work on the way from rank 2 to 4 is not any more; its wire is what it was."""
    heavy = replace(SMALL, pp_comm_ratio=0.4, schedule="interleaved", virtual=2)
    late = slow(0, 1.6, start_step=ONSET)
    incidents = incidents_of(heavy, late)
    assert {incident.cause.fault_class for incident in incidents} == {"compute.slow"}
    _, (well, sick) = windows(replace(heavy, steps=2 * STEPS), [replace(late, start_step=STEPS)], seed=0)
    before, after = (delays_of(window, waits_of(window)) for window in (well, sick))
    at = before.paths.index("2>4"), after.paths.index("2>4")
    assert after.sum_s[at[1]] > 2 * before.sum_s[at[0]]
    assert after.call_s[at[1]] == pytest.approx(before.call_s[at[0]], rel=0.1)


@pytest.mark.parametrize(("is_wire_known", "named"), [(False, set()), (True, {(2, 4)})])
def test_a_receiver_that_never_stood_before_says_by_its_wire_alone_whether_that_is_slow(
    is_wire_known: bool, named: set[tuple[int, ...]]
) -> None:
    topology, seen = windows(replace(SMALL, steps=8 * STEPS), seed=0)
    *_, window = seen
    now = digest_of(window)
    is_pair = np.array([ends_of(path) is not None for path in now.paths])
    hidden = replace(
        now,
        transfer_sum_s=np.where(is_pair, 0.0, now.transfer_sum_s),
        transfer_s=now.transfer_s if is_wire_known else np.where(is_pair, np.nan, now.transfer_s),
    )
    past = tuple(replace(hidden, index=n) for n in range(7))
    slower = np.where(np.array(now.paths) == "2>4", 10.0, 1.0) if is_wire_known else 1.0
    stands = np.where(is_pair, 0.1 * now.typical_step_s, now.transfer_sum_s)
    now = replace(now, index=7, transfer_s=slower * now.transfer_s, transfer_sum_s=stands)
    view = View(run="r", attempt=0, topology=topology, now_s=0.0, window=window, past=past, digest=now)
    found = detect(view)
    assert {finding.ranks for finding in found} == named
    assert [finding.ratio for finding in found] == pytest.approx([10.0] * len(named))


def test_a_group_may_be_called_what_its_users_like() -> None:
    """Whoever makes groups for the ways from stage to stage calls them so."""
    done = simulate(replace(SMALL, steps=STEPS), rng=np.random.default_rng(0))
    layouts = [
        replace(one, groups=tuple(replace(group, desc=f"{group.desc} 0->1") for group in one.groups))
        for one in done.layouts
    ]
    topology = build(layouts)
    (closed,) = done.windows(WindowPlan(first=STEPS))
    window = align(assemble(closed.parts, topology))
    assert any(">" in group.id for group in topology.groups)
    assert detect(View(run="r", attempt=0, topology=topology, now_s=0.0, window=window)) == ()


def two_groups(**more: Any) -> Job:
    """Two tensor groups of four, each one host."""
    return replace(mesh(ranks=8, tp=4), steps=4 * STEPS, tp_comm_ratio=0.02, **more)


@pytest.mark.parametrize(("times", "named"), [(8.0, ["group:tp/1"]), (1.5, [])])
def test_of_two_groups_alike_the_one_with_calls_many_times_as_long_is_named(
    times: float, named: list[str]
) -> None:
    fault = Fault(kind="link", group="tp", ranks=(4, 5, 6, 7), times=times)
    topology, seen = windows(two_groups(), [fault], seed=0)
    state = AttemptState.start("train", 0)
    for window in seen:
        state = advance(state, topology=topology, now_s=0.0, window=window).state
    assert [incident.cause.scope for incident in state.incidents] == named


def test_of_two_groups_that_move_different_amounts_none_is_named() -> None:
    topology, seen = windows(
        two_groups(), [Fault(kind="link", group="tp", ranks=(4, 5, 6, 7), times=8.0)], seed=0
    )
    window = next(seen)
    rows = window.collectives
    moved = np.where(rows.group == window.groups.index("tp/1"), 8 * rows.bytes, rows.bytes)
    view = View(run="train", attempt=0, topology=topology, now_s=0.0)
    assert {f.group for f in detect(replace(view, window=window))} == {"tp/1"}
    assert detect(replace(view, window=replace(window, collectives=replace(rows, bytes=moved)))) == ()


@pytest.mark.slow
@pytest.mark.parametrize(("factor", "is_link"), [(1.0, True), (1.2, False), (1.25, False)])
def test_a_rank_that_falls_behind_is_looked_at_before_the_link(factor: float, is_link: bool) -> None:
    """Of a rank that gets too little CPU the transfers are seen sooner: they are steadier than the work of few cores."""
    shared = mesh(ranks=4)
    job = replace(shared, step_s=0.07, noise=SHARED, gpu=False, comm_ratio=0.35, steps=18 * STEPS)
    link = Fault(kind="link", ranks=(0, 1, 2, 3), severity=1.3, start_step=16 * STEPS)
    behind = () if is_link else (slow(2, factor, start_step=16 * STEPS),)
    num_named = 0
    for seed in range(12):
        topology, seen = windows(job, (link, *behind), seed=seed)
        state = AttemptState.start(job.run, 0)
        for window in seen:
            state = advance(state, topology=topology, now_s=0.0, window=window).state
        num_named += any(one.cause.fault_class == "link.slow" for one in state.incidents)
    assert num_named == 12 if is_link else num_named <= 3


def life_of(*faults: Fault, num_windows: int, seed: int = 0) -> tuple[Incident, ...]:
    """All incidents of two groups of four ranks."""
    job = replace(mesh(ranks=8, tp=4), steps=num_windows * STEPS)
    topology, seen = windows(job, faults, seed=seed)
    state = AttemptState.start(job.run, 0)
    for window in seen:
        state = advance(state, topology=topology, now_s=0.0, window=window).state
    return state.incidents


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_a_slow_link_stays_told_when_a_member_becomes_slow_later(seed: int) -> None:
    link = slow_link(0, group="tp", severity=1.3)
    late = slow(2, 1.2, start_step=ONSET + 6 * STEPS)
    incidents = life_of(link, late, num_windows=HEALTHY + 12, seed=seed)
    assert [(one.cause.fault_class, one.ended) for one in incidents] == [
        ("link.slow", ""),
        ("compute.slow", ""),
    ]
    whys = [out.why for out in incidents[0].cause.ruled_out if out.fault_class == "compute.slow"]
    assert whys and not any("no member" in why for why in whys)


@pytest.mark.slow
def test_a_link_that_heals_ends_though_a_member_is_slow() -> None:
    link = replace(slow_link(0, group="tp", severity=1.3), end_step=ONSET + 9 * STEPS)
    late = slow(2, 1.2, start_step=ONSET + 6 * STEPS)
    incidents = life_of(link, late, num_windows=HEALTHY + 14)
    assert [one.cause.fault_class for one in incidents if not one.ended] == ["compute.slow"]


@pytest.mark.slow
def test_a_link_and_a_member_slow_from_the_same_step_on_leave_the_member_alone() -> None:
    incidents = life_of(
        slow_link(0, group="tp", severity=1.3), slow(2, 1.3, start_step=ONSET), num_windows=HEALTHY + 8
    )
    assert [one.cause.fault_class for one in incidents if not one.ended] == ["compute.slow"]
