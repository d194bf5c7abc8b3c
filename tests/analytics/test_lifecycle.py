"""Incidents from heartbeats and their severities, costs and ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from argus.analytics.attempt import Advance, AttemptState, advance
from argus.analytics.incident import Cause
from argus.analytics.lifecycle import open_incident, resolve_incident, update_incident
from argus.analytics.stops import all_gone_s
from argus.collectors.records.heartbeat import Heartbeat
from argus.evals.simulator.job import Fault, Job
from argus.evals.simulator.simulate import Simulation, simulate
from argus.topology.layout import build

JOB = Job(ranks=4, steps=60, step_s=0.5)


def listen(done: Simulation, times_s: Sequence[float]) -> list[Advance]:
    topology = build(done.layouts)
    state = AttemptState.start(done.job.run, done.job.attempt)
    steps = []
    for time_s in times_s:
        now_s = done.job.start_s + time_s
        steps.append(advance(state, topology=topology, now_s=now_s, beats=done.beats(now_s)))
        state = steps[-1].state
    return steps


def stopped(kind: str) -> Simulation:
    return simulate(JOB, (Fault(kind=kind, ranks=(2,), start_step=20),), rng=np.random.default_rng(0))


def test_a_job_that_stands_still_twice_in_a_window_has_two_incidents_each_with_its_cost() -> None:
    done = stopped("hang")
    topology, seen = build(done.layouts), done.beats(done.job.start_s + 5.0)
    state = AttemptState.start(done.job.run, done.job.attempt)

    def look(now_s: float, step: int, since_s: float) -> None:
        nonlocal state
        beats = []
        for one in seen:
            groups = {"0": (step + (one.rank != 2), step)}
            status = replace(one.status, step=step, step_since_ns=int(since_s * 1e9), groups=groups)
            beats.append(
                replace(one, ts_s=now_s, status=replace(status, step_p50_ns=500_000_000, in_mark=""))
            )
        state = advance(state, topology=topology, now_s=now_s, beats=beats).state

    for step, stall_s in ((20, 900.0), (22, 90.0)):
        since_s = done.job.start_s + 1000.0 * step
        look(since_s, step, since_s)
        look(since_s + stall_s, step, since_s)
        look(since_s + stall_s + 1.0, step + 1, since_s + stall_s)
    costs = [one.cost.gpu_hours_so_far for one in state.incidents]
    assert costs == pytest.approx([900.0 * 4 / 3600, 90.0 * 4 / 3600])
    assert [(one.status, one.onset_step, one.opened_window) for one in state.incidents] == [
        ("resolved", 20, 0),
        ("resolved", 22, 0),
    ]
    assert len({one.id for one in state.incidents}) == 2


def test_a_hang_is_an_incident_after_a_minute_and_only_one() -> None:
    steps = listen(stopped("hang"), (5.0, 40.0, 120.0, 180.0))
    assert [len(step.state.incidents) for step in steps] == [0, 0, 1, 1]
    incident = steps[-1].state.incidents[0]
    assert (incident.cause.fault_class, incident.cause.suspects) == ("stop.hang", (2,))
    assert incident.severity == "critical" and incident.status == "open" and incident.onset_step == 20
    assert incident.cause.victims == (0, 1, 3)


def test_a_hang_in_the_first_step_which_compiles_is_told_after_eight_minutes() -> None:
    hang = Fault(kind="hang", ranks=(2,), start_step=0)
    steps = listen(simulate(JOB, (hang,), rng=np.random.default_rng(0)), tuple(range(5, 600, 5)))
    told = [5 * n for n, step in enumerate(steps, 1) if step.state.incidents]
    assert 480 <= told[0] <= 500
    assert [(i.cause.fault_class, i.cause.suspects) for i in steps[-1].state.incidents] == [
        ("stop.hang", (2,))
    ]


def test_a_hang_in_the_first_step_stays_open_when_the_service_is_started_again() -> None:
    """What was remembered of who got on when is gone then, and no step has ended."""
    done = simulate(JOB, (Fault(kind="hang", ranks=(2,), start_step=0),), rng=np.random.default_rng(0))
    last = listen(done, tuple(range(5, 600, 5)))[-1].state
    restored = replace(AttemptState.start(last.run, last.attempt), incidents=last.incidents)
    now_s = done.job.start_s + 605.0
    after = advance(restored, topology=build(done.layouts), now_s=now_s, beats=done.beats(now_s))
    assert [incident.status for incident in after.state.incidents] == ["open"]


@pytest.mark.parametrize("step_s", [90.0, 300.0])
def test_first_steps_that_take_minutes_are_no_stop(step_s: float) -> None:
    done = simulate(replace(JOB, steps=4, step_s=step_s), rng=np.random.default_rng(0))
    steps = listen(done, tuple(np.arange(5.0, done.last_end_s - done.job.start_s, 5.0)))
    assert steps[-1].state.beats[0].status.step == 3 and not steps[-1].state.incidents


def test_a_lost_rank_is_an_incident_at_once() -> None:
    steps = listen(stopped("lost"), (5.0, 16.0, 20.0))
    incidents = steps[-1].state.incidents
    assert [(i.cause.fault_class, i.cause.suspects) for i in incidents] == [("stop.lost", (2,))]
    assert incidents[0].cause.ruled_out[0].fault_class == "stop.hang"


@pytest.mark.parametrize(("lost", "verdict"), [((2,), "CONFIRMED"), ((0, 1, 2, 3), "INCONCLUSIVE")])
def test_silence_of_everybody_decides_nothing(lost: tuple[int, ...], verdict: str) -> None:
    """A killed processor leaves a job running of which nothing is heard."""
    done = simulate(JOB, (), rng=np.random.default_rng(0))
    now_s = done.job.start_s + 5.0
    heard = done.beats(now_s)
    beats = tuple(replace(beat, state="lost") if beat.rank in lost else beat for beat in heard)
    state = AttemptState.start(done.job.run, done.job.attempt)
    step = advance(state, topology=build(done.layouts), now_s=now_s + 20, beats=beats)
    (incident,) = step.state.incidents
    assert (incident.cause.fault_class, incident.cause.suspects) == ("stop.lost", lost)
    assert incident.cause.verdict == verdict
    assert bool(incident.cause.ruled_out) == (verdict == "CONFIRMED")


@pytest.mark.parametrize(
    ("named", "severity"), [("compute.slow", "critical"), ("pipeline.imbalance", "warning")]
)
def test_what_was_so_from_the_first_step_is_never_critical(named: str, severity: str) -> None:
    cause = Cause(
        fault_class=named, verdict="LIKELY", suspects=(), scope="stage:1", share_of_step=0.3, s_per_step=0.1
    )
    incident = open_incident(cause, run="r", attempt=0, window=4, steps_done=50, world=8)
    for window in (5, 6, 7):
        incident = update_incident(incident, cause, window=window, steps_done=80, world=8)
    assert incident.severity == severity


def _moved(beats: Sequence[Heartbeat], now_s: float, *, state: str) -> tuple[Heartbeat, ...]:
    raw = [beat.to_json() for beat in beats]
    for item in raw:
        item["ts_s"], item["state"] = now_s, state
        item["status"]["step"] += 5
        item["status"]["step_since_ns"] = int((now_s - 1) * 1e9)
    return tuple(Heartbeat.from_json(item) for item in raw)


@pytest.mark.parametrize("state", ["running", "ended"])
def test_a_stop_resolves_when_steps_go_on_or_the_job_ends(state: str) -> None:
    done = stopped("hang")
    last = listen(done, (5.0, 120.0))[-1].state
    now_s = done.job.start_s + 130.0
    beats = _moved(done.beats(now_s), now_s, state=state)
    after = advance(last, topology=build(done.layouts), now_s=now_s, beats=beats)
    assert [(i.status, i.end_step) for i in after.incidents] == [("resolved", 25)]


def test_a_host_that_is_no_longer_known_to_be_silent_resolves_nothing() -> None:
    """A service that was started again has heard nobody yet, and counts no silence from before."""
    done = simulate(JOB, (), rng=np.random.default_rng(0))
    topology, now_s = build(done.layouts), done.job.start_s + 5.0
    heard = done.beats(now_s)
    lost = tuple(replace(beat, state="lost") if beat.rank == 2 else beat for beat in heard)
    state = AttemptState.start(done.job.run, done.job.attempt)
    state = advance(state, topology=topology, now_s=now_s + 20, beats=lost).state
    seen = []
    for beats in (heard, lost, heard, _moved(heard, now_s + 40, state="running")):
        state = advance(state, topology=topology, now_s=now_s + 41, beats=beats).state
        seen.append([(i.cause.fault_class, i.status) for i in state.incidents])
    assert seen == [[("stop.lost", "open")]] * 3 + [[("stop.lost", "resolved")]]


def test_a_crashed_run_keeps_its_incident_for_two_minutes_and_no_longer() -> None:
    """Rank 2 dies, the launcher kills the others; nobody is left that could ever make the signal go away."""
    done = stopped("lost")
    topology, state = build(done.layouts), AttemptState.start(done.job.run, 0)
    died_s = done.job.start_s + 20.0
    beats = tuple(
        replace(beat, state="exited", exit_reason="signal 9" if beat.rank == 2 else "signal 15")
        for beat in done.beats(died_s)
    )
    state = advance(state, topology=topology, now_s=died_s, beats=beats).state
    seen = []
    for later_s in (10.0, 100.0, 200.0, 400.0):
        state = advance(state, topology=topology, now_s=died_s + later_s, beats=()).state
        seen.append([(i.status, i.cause.suspects, i.ended) for i in state.incidents])
    assert seen[0] == seen[1] == [("open", (2,), "")]
    assert seen[2] == seen[3] == [("resolved", (2,), "every rank has exited")]


def test_a_rank_never_heard_of_may_still_run() -> None:
    done = stopped("lost")
    died_s = done.job.start_s + 20.0
    beats = tuple(
        replace(beat, state="exited", exit_reason="signal 9") for beat in done.beats(died_s) if beat.rank
    )
    assert all_gone_s(beats, world_size=4, now_s=died_s + 900.0) is None
    assert all_gone_s(beats, world_size=3, now_s=died_s + 900.0) is not None


def test_beats_of_another_attempt_are_not_ours() -> None:
    done = stopped("lost")
    topology = build(done.layouts)
    state = AttemptState.start(done.job.run, 1)
    now_s = done.job.start_s + 100.0
    assert advance(state, topology=topology, now_s=now_s, beats=done.beats(now_s)).incidents == ()


def cause(share: float, *, verdict: str = "LIKELY") -> Cause:
    return Cause(
        fault_class="compute.slow",
        verdict=verdict,
        suspects=(1,),
        scope="rank:1",
        share_of_step=share,
        s_per_step=share * 2.0,
        onset_step=100,
        findings=("f-1",),
    )


@pytest.mark.parametrize(
    ("scope", "grows"), [("host:h-0", True), ("half:h-0/1", True), ("rank:1", False), ("run:r", False)]
)
def test_more_ranks_of_the_same_place_join_its_incident(scope: str, grows: bool) -> None:
    first = replace(cause(0.1), scope=scope)
    known = open_incident(first, run="r", attempt=0, window=10, steps_done=110, world=8)
    also = replace(first, suspects=(1, 2))
    later = update_incident(known, also, window=11, steps_done=120, world=8)
    assert later.cause.suspects == ((1, 2) if grows else (1,))
    other = replace(also, fault_class="host.gc")
    assert update_incident(known, other, window=11, steps_done=120, world=8).cause.suspects == (1,)


def test_severity_needs_size_now_or_persistence() -> None:
    def severity(share: float, windows: int) -> str:
        incident = open_incident(cause(share), run="r", attempt=0, window=10, steps_done=110, world=8)
        for window in range(11, 10 + windows):
            incident = update_incident(incident, cause(share), window=window, steps_done=200, world=8)
        return incident.severity

    assert [severity(0.2, 1), severity(0.05, 1), severity(0.05, 3), severity(0.01, 5)] == [
        "critical",
        "info",
        "warning",
        "info",
    ]


def test_cost_counts_every_rank_since_the_onset() -> None:
    incident = open_incident(cause(0.1), run="r", attempt=0, window=10, steps_done=199, world=8)
    assert incident.cost.gpu_hours_so_far == pytest.approx(0.2 * 100 * 8 / 3600)
    assert incident.cost.gpu_hours_per_day == pytest.approx(0.1 * 24 * 8)


def test_identity_and_verdict_last_through_updates() -> None:
    first = open_incident(
        cause(0.1, verdict="CONFIRMED"), run="r", attempt=0, window=10, steps_done=110, world=8
    )
    later = update_incident(first, cause(0.05), window=12, steps_done=130, world=8)
    assert (later.id, later.fingerprint) == (first.id, first.fingerprint)
    assert later.cause.verdict == "CONFIRMED" and later.last_window == 12
    closed = resolve_incident(later, end_step=125)
    assert (closed.status, closed.end_step, closed.id) == ("resolved", 125, first.id)
