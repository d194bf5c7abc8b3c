"""Stops from heartbeats: who is behind, who is gone, when it is nobody's fault."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from argus.analytics.detectors import l1_stop
from argus.analytics.finding import Finding
from argus.analytics.fuse import stop_cause
from argus.analytics.incident import Cause
from argus.analytics.stops import is_over, ranks_behind, was_cancelled
from argus.analytics.view import View
from argus.collectors.records.heartbeat import COMPILING, Heartbeat, Status
from argus.collectors.records.layout import GroupInfo, Layout
from argus.topology.layout import Topology, build

NOW_S = 10_000.0
WORLD = 4

TP_DP = {
    rank: (
        GroupInfo(name="tp", desc="mesh_tp", ranks=(0, 1) if rank < 2 else (2, 3)),
        GroupInfo(name="dp", desc="mesh_dp", ranks=(rank % 2, rank % 2 + 2)),
    )
    for rank in range(WORLD)
}
DP = {rank: (GroupInfo(name="dp", desc="mesh_dp", ranks=(0, 1, 2, 3)),) for rank in range(WORLD)}


def topology(groups: Mapping[int, Sequence[GroupInfo]] = DP) -> Topology:
    return build(
        Layout(
            run="r", attempt=0, rank=rank, world_size=WORLD, host=f"h{rank // 2}", groups=tuple(groups[rank])
        )
        for rank in range(WORLD)
    )


def beat(
    rank: int,
    groups: Mapping[str, tuple[int, int]],
    *,
    stalled_s: float = 100.0,
    state: str = "running",
    reason: str = "",
    mark: str = "",
    phase: str = "backward",
    p50_s: float = 0.5,
    age_s: float = 0.0,
    process: str = "S",
) -> Heartbeat:
    ts_s = NOW_S - age_s
    return Heartbeat(
        run="r",
        attempt=0,
        rank=rank,
        host=f"h{rank // 2}",
        ts_s=ts_s,
        state=state,
        exit_reason=reason,
        process_state=process,
        status=Status(
            ts_ns=int(ts_s * 1e9),
            step=7,
            phase=phase,
            step_since_ns=int((ts_s - stalled_s) * 1e9),
            step_p50_ns=int(p50_s * 1e9),
            in_mark=mark,
            groups=groups,
        ),
    )


def detect(
    beats: Sequence[Heartbeat], layout: Topology | None = None, *, moved_s: Mapping[int, float] | None = None
) -> tuple[Finding, ...]:
    """What is found where each rank last got on `moved_s` ago, unknown if None."""
    moves = {rank: NOW_S - ago for rank, ago in (moved_s or {}).items()}
    view = View(
        run="r", attempt=0, topology=layout or topology(), now_s=NOW_S, beats=tuple(beats), moves=moves
    )
    return l1_stop.detect(view)


def test_the_rank_that_entered_fewer_calls_is_behind() -> None:
    found = detect([beat(r, {"dp": (9, 9) if r == 2 else (10, 9)}) for r in range(WORLD)])
    assert [(f.kind, f.role, f.ranks, f.group) for f in found] == [("stop", "culprit", (2,), "dp/0")]
    assert found[0].measure("entered") == 9 and (found[0].measure("stalled_s") or 0) >= 100


def test_a_rank_that_entered_but_never_completes_alone_is_behind() -> None:
    assert detect([beat(r, {"dp": (10, 8) if r == 1 else (10, 9)}) for r in range(WORLD)])[0].ranks == (1,)


def test_blame_goes_past_a_rank_that_is_itself_held_up() -> None:
    """Rank 0 hangs; 1 waits for it in TP; 2 and 3 wait in DP for 0 and 1."""
    counts = {
        0: {"tp": (4, 4), "dp": (1, 1)},
        1: {"tp": (5, 4), "dp": (1, 1)},
        2: {"tp": (5, 5), "dp": (2, 1)},
        3: {"tp": (5, 5), "dp": (2, 1)},
    }
    beats = [beat(rank, groups) for rank, groups in counts.items()]
    assert [item.rank for item in ranks_behind(beats, topology(TP_DP))] == [0]


def test_two_ranks_behind_are_both_named() -> None:
    found = detect([beat(r, {"dp": (9, 9) if r in (1, 3) else (10, 9)}) for r in range(WORLD)])
    assert found[0].ranks == (1, 3)


def test_of_many_ranks_behind_all_are_named_and_the_furthest_tell_their_counters() -> None:
    """One line for each of ten thousand is read by nobody, and is kept anew with every look."""
    one = (GroupInfo(name="dp", desc="mesh_dp", ranks=tuple(range(64))),)
    many = build(Layout(run="r", attempt=0, rank=rank, world_size=64, groups=one) for rank in range(64))
    counts = {0: (10, 9), 7: (3, 3), 40: (5, 5)}
    (found,) = detect([beat(rank, {"dp": counts.get(rank, (9, 9))}) for rank in range(64)], many)
    assert found.ranks == tuple(range(1, 64))
    told = [item.note.split(",")[0] for item in found.evidence if item.name == "entered"]
    assert told == [f"rank {rank} in dp/0" for rank in (1, 2, 7, 40)]


@pytest.mark.parametrize(("stalled_s", "p50_s"), [(50.0, 0.5), (100.0, 30.0)])
def test_a_pause_shorter_than_the_limit_is_no_stop(stalled_s: float, p50_s: float) -> None:
    beats = [beat(r, {"dp": (10 - (r == 2), 9)}, stalled_s=stalled_s, p50_s=p50_s) for r in range(WORLD)]
    assert detect(beats) == ()


def test_inside_a_mark_time_alone_is_no_stop_but_a_rank_behind_is() -> None:
    together = [beat(r, {"dp": (10, 10)}, mark="checkpoint", stalled_s=900) for r in range(WORLD)]
    assert detect(together) == ()
    torn = [beat(r, {"dp": (10 - (r == 2), 9)}, mark="checkpoint", stalled_s=900) for r in range(WORLD)]
    assert detect(torn)[0].ranks == (2,)


def waiting_for(late: int, **own: object) -> list[Heartbeat]:
    """All wait in a call for rank `late`, whose heartbeat has `own`, 900 s after the last step ended."""
    more = {rank: own if rank == late else {} for rank in range(WORLD)}
    first = {"p50_s": 0.0} if own.get("p50_s") == 0.0 else {}
    return [
        beat(rank, {"dp": (10 - (rank == late), 9)}, stalled_s=900.0, **{**first, **more[rank]})  # type: ignore[arg-type]
        for rank in range(WORLD)
    ]


BUSY = ({"p50_s": 0.0}, {"mark": "checkpoint"}, {"phase": "eval"}, {"mark": COMPILING})


@pytest.mark.parametrize("own", BUSY)
@pytest.mark.parametrize(("quiet_s", "told"), [(100.0, ()), (470.0, ()), (490.0, (2,))])
def test_a_rank_behind_may_compile_or_save_for_eight_minutes_since_anybody_got_on(
    own: Mapping[str, object], quiet_s: float, told: tuple[int, ...]
) -> None:
    """However long the first step or the save is: what tells is that nobody gets on any more."""
    moved = {rank: 800.0 if rank else quiet_s for rank in range(WORLD)}
    found = detect(waiting_for(2, **own), moved_s=moved)
    assert tuple(rank for finding in found for rank in finding.ranks) == told
    assert all((f.evidence[0].name, f.evidence[0].baseline) == ("stalled_s", 480.0) for f in found)


@pytest.mark.parametrize("own", BUSY)
def test_a_stopped_process_neither_compiles_nor_saves(own: Mapping[str, object]) -> None:
    beats = waiting_for(2, **own, process="T")
    assert detect(beats, moved_s=dict.fromkeys(range(WORLD), 100.0))[0].ranks == (2,)


def test_a_rank_that_hangs_outside_a_mark_is_told_beside_one_that_saves() -> None:
    beats = waiting_for(2, mark="checkpoint")
    beats[1] = beat(1, {"dp": (9, 9)}, stalled_s=900.0)
    assert detect(beats, moved_s=dict.fromkeys(range(WORLD), 100.0))[0].ranks == (1,)


def test_a_stop_with_nobody_behind_names_the_stuck_group() -> None:
    found = detect([beat(r, {"dp": (10, 9)}) for r in range(WORLD)])
    assert found[0].ranks == () and found[0].role == "notice" and found[0].nodes == ("group:dp/0",)


def test_a_vanished_rank_is_named_at_once_and_not_those_killed_after_it() -> None:
    beats = [
        beat(r, {"dp": (10, 9)}, stalled_s=2.0, state="exited", reason="signal 9" if r == 1 else "signal 15")
        for r in range(WORLD)
    ]
    found = detect(beats)
    assert found[0].ranks == (1,) and found[0].measure("lost") == 1.0


def test_a_host_that_went_silent_is_lost_if_the_job_stands_still() -> None:
    def silent(stalled_s: float) -> list[Heartbeat]:
        age = {3: 58.0}
        return [beat(r, {"dp": (10, 9)}, stalled_s=stalled_s, age_s=age.get(r, 0.0)) for r in range(WORLD)]

    assert detect(silent(55.0))[0].ranks == (3,)
    assert detect(silent(2.0)) == ()


def test_evaluating_or_finishing_alone_is_no_stop() -> None:
    evaluating = [beat(r, {"dp": (10, 10)}, phase="eval", stalled_s=900) for r in range(WORLD)]
    finishing = [
        beat(r, {"dp": (10, 10)}, state="ended" if r else "running", stalled_s=900) for r in range(WORLD)
    ]
    assert detect(evaluating) == () and detect(finishing) == ()


def test_our_own_outage_makes_nobody_lost() -> None:
    beats = [beat(r, {"dp": (10, 9)}, stalled_s=5.0, age_s=900.0) for r in range(WORLD)]
    assert detect(beats) == ()


def test_an_orderly_end_and_a_cancelled_job_are_no_stop() -> None:
    ended = [beat(r, {}, stalled_s=900, state="ended") for r in range(WORLD)]
    cancelled = [beat(r, {}, stalled_s=900, state="exited", reason="signal 15") for r in range(WORLD)]
    assert is_over(ended) and detect(ended) == ()
    assert was_cancelled(cancelled) and detect(cancelled) == ()


@pytest.mark.parametrize(("state", "is_end"), [("ended", True), ("running", False)])
def test_an_exit_without_a_goodbye_is_the_end_if_its_peers_ended_in_order(state: str, is_end: bool) -> None:
    """`os._exit`, or a goodbye that came too late for the processor."""
    beats = [beat(0, {}, state="exited"), *(beat(rank, {}, state=state) for rank in (1, 2, 3))]
    assert is_over(beats) == is_end
    assert bool(detect(beats)) != is_end
    killed = [beat(0, {}, state="exited", reason="signal 9"), *beats[1:]]
    assert not is_over(killed) and detect(killed)


def cause_of(beats: Sequence[Heartbeat], layout: Topology | None = None) -> Cause:
    (found,) = detect(beats, layout)
    view = View(run="r", attempt=0, topology=layout or topology(), now_s=NOW_S, beats=tuple(beats))
    return stop_cause(view, found)


def left_early(
    *, reason: str = "code 1", state: str = "exited", age_s: float = 2.0, calls: int = 9
) -> list[Heartbeat]:
    """Rank 1 ended in order `age_s` ago, the others a second ago in the call after its last."""
    last = replace(beat(1, {"dp": (calls, calls)}, state="ended"), status_age_s=age_s)
    others = [
        beat(rank, {"dp": (10, 10 if state == "exited" else 9)}, state=state, reason=reason)
        for rank in (0, 2, 3)
    ]
    return [replace(others[0], status_age_s=1.0), last, *(replace(b, status_age_s=1.0) for b in others[1:])]


@pytest.mark.parametrize("reason", ["code 1", "code 3", "signal 6"])
def test_a_rank_that_left_before_its_group_is_the_cause_and_who_failed_for_it_a_victim(reason: str) -> None:
    cause = cause_of(left_early(reason=reason))
    assert (cause.fault_class, cause.verdict) == ("stop.lost", "LIKELY")
    assert (cause.suspects, cause.victims, cause.group) == ((1,), (0, 2, 3), "dp/0")
    assert cause.evidence[0].name == "left" and "step 7" in cause.evidence[0].note


def test_a_rank_that_left_after_the_failure_or_level_or_beside_a_kill_is_not() -> None:
    for beats in (left_early(age_s=0.5), left_early(calls=10), left_early(reason="signal 9")):
        assert set(detect(beats)[0].ranks) == {0, 2, 3} and detect(beats)[0].measure("lost") == 0.0
    assert detect(left_early(reason="signal 15")) == ()  # cancelled


def test_ranks_that_end_one_after_the_other_in_order_are_no_stop() -> None:
    beats = left_early(state="ended", reason="")
    assert detect(beats) == () and detect([*beats[:2], *(replace(b, state="running") for b in beats[2:])])[0]


def test_stages_that_count_their_calls_differently_have_not_left_early() -> None:
    groups = {r: (GroupInfo(name="dp", desc="mesh_pp", ranks=(0, 1, 2, 3)),) for r in range(WORLD)}
    assert set(detect(left_early(), topology(groups))[0].ranks) == {0, 2, 3}


def test_who_has_ended_does_not_hang() -> None:
    cause = cause_of(left_early(state="running", reason=""))
    assert (cause.fault_class, cause.verdict, cause.suspects) == ("stop.lost", "LIKELY", (1,))
    assert cause.victims == (0, 2, 3) and all("still there" not in one.why for one in cause.ruled_out)
    hangs = cause_of([beat(r, {"dp": (9, 9) if r == 2 else (10, 9)}) for r in range(WORLD)])
    assert hangs.ruled_out[0].why == "every process is still there"


def test_nobody_is_said_to_be_still_there_who_was_not_heard_of() -> None:
    waits = {"dp": (10, 9)}
    stuck = cause_of([beat(rank, waits) for rank in range(WORLD)])
    unheard = cause_of([beat(rank, waits) for rank in range(WORLD - 1)])
    behind = cause_of([beat(rank, {"dp": (9, 9)} if rank == 2 else waits) for rank in range(WORLD - 1)])
    assert [len(one.ruled_out) for one in (stuck, unheard, behind)] == [1, 0, 0]
    assert {one.second_best for one in (stuck, unheard, behind)} == {"stop.lost"}


def test_who_is_in_no_call_does_not_wait_for_a_rank_that_ended() -> None:
    """Its last status may be older than its last calls: `os._exit(0)` sends none."""
    ended = beat(0, {"dp": (7, 7)}, state="exited", reason="code 0")
    assert detect([ended, *(beat(rank, {"dp": (10, 10)}) for rank in (1, 2, 3))]) == ()
    assert detect([ended, *(beat(rank, {"dp": (10, 9)}) for rank in (1, 2, 3))])[0].ranks == (0,)


def test_an_exit_for_an_unknown_reason_is_not_sure() -> None:
    def lost(reason: str) -> Cause:
        return cause_of(
            [beat(r, {}, state="running" if r else "exited", reason=reason) for r in range(WORLD)]
        )

    assert [lost(reason).verdict for reason in ("", "signal 9", "code 3")] == [
        "LIKELY",
        "CONFIRMED",
        "CONFIRMED",
    ]


def test_that_a_job_was_cancelled_is_seen_without_comparing_each_rank_with_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(one: Heartbeat, other: object) -> bool:
        raise AssertionError(f"{one.rank} was compared")

    beats = [beat(rank, {}, state="exited", reason="signal 15") for rank in range(WORLD)]
    monkeypatch.setattr(Heartbeat, "__eq__", refuse)
    assert was_cancelled(beats) and detect(beats) == ()


def test_ranks_told_to_stop_that_leave_with_a_code_are_cancelled() -> None:
    reasons = ("code 143", "signal 15", "code 143", "code 130")
    beats = [beat(r, {}, state="exited", reason=reason) for r, reason in enumerate(reasons)]
    assert was_cancelled(beats) and detect(beats) == ()
    limit = [replace(one, exit_reason="signal 24") for one in beats]  # CPU time used up
    assert not was_cancelled(limit) and detect(limit)


def test_a_rank_told_to_stop_is_lost_only_if_its_peers_live_on() -> None:
    """All are told at once, but one is the first to end, and a heartbeat may come between."""
    for reason in ("signal 15", "signal 2", "code 143"):
        first = replace(beat(1, {"dp": (9, 9)}, state="exited", reason=reason), status_age_s=1.0)
        others = [beat(rank, {"dp": (10, 9)}, stalled_s=2.0) for rank in (0, 2, 3)]
        assert detect([first, *others]) == ()
        assert detect([replace(first, ts_s=NOW_S - 40.0), *others])[0].ranks == (1,)


@pytest.mark.parametrize(
    ("reason", "num_own"),
    [("code 1", 1.0), ("code 137", None), ("signal 9", None), ("oom", None), ("", None)],
)
def test_a_program_that_ended_itself_is_told_apart_from_one_that_was_ended(
    reason: str, num_own: float | None
) -> None:
    beats = [
        beat(r, {}, state="running" if r else "exited", reason="" if r else reason) for r in range(WORLD)
    ]
    raised = replace(beats[0].status, raised="ValueError in train.py:17")
    (found,) = detect([replace(beats[0], status=raised), *beats[1:]])
    assert found.ranks == (0,) and found.measure("own_errors") == num_own
    assert "raised ValueError in train.py:17" in found.evidence[0].note
