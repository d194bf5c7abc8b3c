"""What hosts measured confirms or contradicts a cause; it never makes one, and names nobody else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from argus.analytics.attempt import AttemptState, advance
from argus.analytics.fuse.host_evidence import (
    clean_members,
    device_marks,
    host_similarity,
    starvation,
)
from argus.analytics.host_use import CONTINUED, odd_hosts
from argus.analytics.incident import Cause, Incident
from argus.analytics.view import View
from argus.analytics.window import Window, assemble
from argus.collectors.host.window import cut
from argus.collectors.records.heartbeat import Heartbeat, Status
from argus.collectors.records.plan import WindowPlan
from argus.collectors.records.summary import RankWindow
from argus.evals.simulator.job import QUIET, Fault, Job
from argus.evals.simulator.simulate import simulate
from argus.topology.layout import build

JOB = Job(ranks=8, ranks_per_host=2, steps=40, step_s=0.4, noise=QUIET)
CAUSE = Cause(
    fault_class="host.cpu_starved", verdict="LIKELY", suspects=(3,), scope="rank:3", share_of_step=0.4
)


def window(use: Mapping[int, Mapping[str, float]], index: int = 3) -> Window:
    """A healthy window with what the ranks' hosts measured."""
    done = simulate(JOB, rng=np.random.default_rng(0))
    parts = [cut(records, WindowPlan())[index] for records in done.records]
    return assemble([replace(p, use=use.get(p.rank, {})) for p in parts], build(done.layouts))


def delays(value: float, others: float = 0.01) -> dict[int, dict[str, float]]:
    return {r: {"thread_run_delay_ratio": value if r == 3 else others} for r in range(8)}


def view(window: Window | None, **more: object) -> View:
    topology = build(simulate(JOB, rng=np.random.default_rng(0)).layouts)
    return View(run="r", attempt=0, topology=topology, now_s=0.0, window=window, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("value", "before", "after"),
    [
        (0.35, "LIKELY", "CONFIRMED"),
        (0.35, "CONFIRMED", "CONFIRMED"),
        (0.10, "LIKELY", "LIKELY"),
        (0.02, "LIKELY", "LIKELY"),
        (0.02, "CONFIRMED", "LIKELY"),
        (0.35, "INCONCLUSIVE", "INCONCLUSIVE"),
    ],
)
def test_the_run_queue_confirms_or_contradicts_starvation(value: float, before: str, after: str) -> None:
    cause = starvation(replace(CAUSE, verdict=before), view(window(delays(value))))
    assert cause.verdict == after and cause.suspects == (3,)
    [found] = cause.evidence
    assert (found.name, found.value, found.baseline) == ("thread_run_delay_ratio", value, 0.01)


def test_a_used_up_quota_confirms_too() -> None:
    use = delays(0.01) | {3: {"thread_run_delay_ratio": 0.01, "throttled_ratio": 0.3}}
    assert starvation(CAUSE, view(window(use))).verdict == "CONFIRMED"


def test_what_nobody_measured_says_nothing() -> None:
    for at in (view(None), view(window({})), view(window({0: {"thread_run_delay_ratio": 0.5}}))):
        for check in (starvation, clean_members, host_similarity, device_marks):
            assert check(CAUSE, at) == CAUSE
    other = replace(CAUSE, fault_class="compute.slow")
    assert starvation(other, view(window(delays(0.9)))) == other


def link(**changes: object) -> Cause:
    cause = replace(CAUSE, fault_class="link.slow", verdict="CONFIRMED", suspects=(2, 3), scope="group:dp/1")
    return replace(cause, **changes)  # type: ignore[arg-type]


def test_the_network_is_not_named_while_a_member_waits_for_a_cpu() -> None:
    dirty = clean_members(link(), view(window(delays(0.3))))
    assert (dirty.verdict, dirty.second_best) == ("INCONCLUSIVE", "host.cpu_starved")
    assert dirty.suspects == (2, 3) and dirty.evidence[-1].value == 0.3
    clean = clean_members(link(), view(window(delays(0.02))))
    assert clean.verdict == "CONFIRMED" and clean.evidence[-1].value == 0.02


@pytest.mark.parametrize(
    ("state", "verdict"), [("T", "INCONCLUSIVE"), ("D", "INCONCLUSIVE"), ("S", "CONFIRMED")]
)
def test_nor_while_a_member_stands_still(state: str, verdict: str) -> None:
    beat = Heartbeat(
        run="r", attempt=0, rank=3, host="h", ts_s=1.0, process_state=state, status=Status(ts_ns=1, step=2)
    )
    assert clean_members(link(), view(window({}), beats=(beat,))).verdict == verdict


def pressed(host: int, value: float = 0.6) -> dict[int, dict[str, float]]:
    return {r: {"host_cpu_some_ratio": value if r // 2 == host else 0.02} for r in range(8)}


def test_a_host_that_goes_on_standing_out_confirms_and_one_that_only_now_does_not() -> None:
    now = window(pressed(1))
    [name] = odd_hosts(now)
    assert name == now.topology.host_of(3) and odd_hosts(window({})) == ()
    digests = _digests([pressed(1)] * 3)
    told = host_similarity(CAUSE, view(now, past=digests))
    assert told.verdict == "CONFIRMED" and told.evidence[-1].note == "host_cpu_some_ratio"
    broken = _digests([pressed(1), pressed(2), pressed(1)])
    assert host_similarity(CAUSE, view(now, past=broken)) == CAUSE
    assert host_similarity(CAUSE, view(now, past=digests[: CONTINUED - 2])) == CAUSE
    slow = replace(CAUSE, fault_class="compute.slow")
    assert host_similarity(slow, view(now, past=digests)).verdict == "LIKELY"  # shown, not decided by it
    both = replace(CAUSE, suspects=(1, 3))
    assert host_similarity(both, view(now, past=digests)) == both


def _digests(uses: Sequence[Mapping[int, Mapping[str, float]]]) -> tuple[object, ...]:
    from argus.analytics.digest import digest_of

    return tuple(digest_of(window(use, index)) for index, use in enumerate(uses))


def test_of_two_hosts_neither_is_odd() -> None:
    use = {r: {"host_cpu_some_ratio": 0.9 if r < 4 else 0.0} for r in range(4)} | {r: {} for r in range(4, 8)}
    assert odd_hosts(window(use)) == ()


def marked(marks: Mapping[int, tuple[str, ...]]) -> Window:
    return replace(window({}), marks=marks)


@pytest.mark.parametrize(
    ("fault_class", "marks", "verdict"),
    [
        ("compute.slow", {3: ("gpu hw_thermal",)}, "CONFIRMED"),
        ("compute.slow", {3: ("gpu sw_power_cap",)}, "LIKELY"),
        ("compute.slow", {6: ("gpu hw_thermal",)}, "LIKELY"),
        ("compute.slow", dict.fromkeys(range(8), ("gpu hw_thermal",)), "LIKELY"),
        ("link.slow", {3: ("port mlx5_0/1 symbol_error",)}, "CONFIRMED"),
        ("link.slow", {3: ("port mlx5_0/1 down",)}, "CONFIRMED"),
        ("data.slow_loader", {3: ("gpu hw_thermal", "nonsense", "port x")}, "LIKELY"),
    ],
)
def test_what_devices_state_confirms_a_cause_of_their_own_kind_and_place(
    fault_class: str, marks: Mapping[int, tuple[str, ...]], verdict: str
) -> None:
    told = device_marks(replace(CAUSE, fault_class=fault_class), view(marked(marks)))
    assert (told.verdict, told.suspects) == (verdict, (3,))


def attempt(use: Mapping[int, Mapping[str, float]], *, severity: float = 1.5) -> tuple[Incident, ...]:
    """A whole course with rank 3 starved from step 60 on, and hosts that measure `use` all the time."""
    job = replace(JOB, steps=140, gpu=False)
    fault = Fault(kind="starved", ranks=(3,), start_step=60, end_step=None, severity=severity)
    done = simulate(job, (fault,), rng=np.random.default_rng(1))
    topology, state = build(done.layouts), AttemptState.start(job.run, job.attempt)
    parts = [cut(records, WindowPlan()) for records in done.records]
    for members in zip(*parts, strict=True):
        made = assemble([replace(p, use=use.get(p.rank, {})) for p in members], topology)
        state = advance(state, topology=topology, now_s=0.0, window=made).state
    return state.incidents


@pytest.mark.slow
def test_alone_no_metric_makes_an_incident_and_a_loud_neighbour_changes_no_name() -> None:
    loud = delays(0.01) | {6: {"thread_run_delay_ratio": 0.9, "host_cpu_some_ratio": 0.9}}
    assert attempt(loud, severity=1.0) == ()
    plain, told = (attempt(use) for use in ({}, loud))
    assert [(i.cause.fault_class, i.cause.suspects) for i in plain] == [("host.cpu_starved", (3,))]
    assert [(i.cause.fault_class, i.cause.suspects) for i in told] == [("host.cpu_starved", (3,))]
    assert "thread_run_delay_ratio" in {e.name for e in told[0].cause.evidence}


def test_a_window_carries_what_its_host_measured_and_refuses_nonsense() -> None:
    part = RankWindow(
        run="r",
        attempt=0,
        rank=0,
        window=0,
        first_step=0,
        num_steps=10,
        use={"run_delay_ratio": 0.25},
        marks=("xid 79 0000:10:1c",),
    )
    back = RankWindow.from_bytes(part.to_bytes())
    assert (back.use, back.marks) == (part.use, part.marks)
