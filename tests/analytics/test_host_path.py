"""The host path: stacks and runtime events name what the host did, and change nothing where they say nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from argus.analytics.attempt import AttemptState, advance
from argus.analytics.host_frames import against_peers, doing, innermost, kind_of
from argus.analytics.incident import Incident
from argus.analytics.outside import Outside
from argus.analytics.runtime_events import RuntimeEvent, RuntimeEvents
from argus.analytics.window import Window
from argus.collectors.records.stacks import StackDump, Thread
from argus.evals.simulator.job import Fault, Job
from argus.evals.simulator.simulate import simulate
from argus.topology.layout import Topology, build
from tests.analytics.test_attempt import windows

ONSET, SUSPECT = 80, 1
JOB = Job(ranks=4, ranks_per_host=4, steps=140, step_s=0.3, gpu=False)
FRAMES = {
    "host.gc": "train (t.py:1);gc_collect_main (native)",
    "host.jit": "train (t.py:1);compile_fx (torch/_inductor/compile_fx.py:9)",
    "host.allocator": "train (t.py:1);empty_cache (torch/cuda/memory.py:3)",
    "host.lock": "train (t.py:1);acquire (threading.py:9)",
    "host.filesystem": "train (t.py:1);open (<frozen io>:1)",
    "data.slow_loader": "train (t.py:1);_next_data (torch/utils/data/dataloader.py:7)",
}
WORK = "train (t.py:1);forward (model.py:3)"


def dump(rank: int, stack: str, *, number: int = 0, state: str = "S", wchan: str = "") -> StackDump:
    main = Thread(kind="main", state=state, stack=stack, wchan=wchan)
    step = ONSET + 4 * number
    return StackDump(
        run=JOB.run, attempt=0, rank=rank, host="h-0000", ts_s=float(number), step=step, threads=(main,)
    )


@cache
def played(kind: str, gpu: bool = False) -> tuple[tuple[Window, ...], Topology]:
    job = replace(JOB, gpu=gpu)
    fault = Fault(kind=kind, ranks=(SUSPECT,), start_step=ONSET, severity=1.5)
    done = simulate(job, [fault], rng=np.random.default_rng(3))
    topology = build(done.layouts)
    return tuple(windows(done, topology)), topology


def incidents(
    kind: str, stacks: Sequence[StackDump] = (), *, gpu: bool = False, events: Sequence[RuntimeEvent] = ()
) -> list[Incident]:
    state = AttemptState.start(JOB.run, 0)
    seen, topology = played(kind, gpu)
    for window in seen:
        mine = tuple(event for event in events if event.step in window.steps)
        window = replace(window, events=RuntimeEvents.of((*window.events, *mine)))
        outside = Outside(stacks=tuple(stacks))
        state = advance(state, topology=topology, now_s=0.0, window=window, outside=outside).state
    return list(state.incidents)


def classes(found: Sequence[Incident]) -> list[tuple[str, tuple[int, ...]]]:
    return [(incident.cause.fault_class, incident.cause.suspects) for incident in found]


def several(stack: str, num: int = 15) -> list[StackDump]:
    peers = [dump(rank, WORK, number=n) for n in range(15) for rank in (0, 2)]
    return [*(dump(SUSPECT, stack, number=n) for n in range(num)), *peers]


@pytest.mark.slow
@pytest.mark.parametrize("fault_class", list(FRAMES))
@pytest.mark.parametrize("kind", ["starved", "compute"])
def test_stacks_name_what_the_host_does(kind: str, fault_class: str) -> None:
    (incident,) = incidents(kind, several(FRAMES[fault_class]))
    assert classes([incident]) == [(fault_class, (SUSPECT,))]
    assert incident.cause.verdict in ("CONFIRMED", "LIKELY")
    timing = "host.cpu_starved" if kind == "starved" else "compute.slow"
    assert timing in {incident.cause.second_best, *(item.fault_class for item in incident.cause.ruled_out)}
    (share,) = [item for item in incident.cause.evidence if item.name == "stack_share"]
    assert share.value == 1.0 and share.baseline == 0.0


def test_what_the_peers_do_too_explains_nothing() -> None:
    stack = FRAMES["host.jit"]
    same = [dump(rank, stack, number=n) for n in range(15) for rank in range(4)]
    assert classes(incidents("starved", same)) == [("host.cpu_starved", (SUSPECT,))]


def test_one_dump_is_an_anecdote() -> None:
    assert classes(incidents("starved", several(FRAMES["host.jit"], num=1))) == [
        ("host.cpu_starved", (SUSPECT,))
    ]


def test_stacks_do_not_explain_time_the_device_lost() -> None:
    found = incidents("compute", several(FRAMES["host.jit"]), gpu=True)
    assert classes(found) == [("compute.slow", (SUSPECT,))]


@pytest.mark.slow
def test_a_rank_that_waited_for_a_cpu_is_starved_although_its_device_counted_on() -> None:
    (incident,) = incidents("starved", gpu=True)
    assert classes([incident]) == [("host.cpu_starved", (SUSPECT,))]
    assert incident.cause.second_best == "compute.slow"
    assert [item.name for item in incident.cause.evidence].count("thread_run_delay_ratio") == 1


def test_without_the_kernels_count_the_time_is_the_devices() -> None:
    seen, topology = played("starved", gpu=True)
    state = AttemptState.start(JOB.run, 0)
    for window in seen:
        state = advance(state, topology=topology, now_s=0.0, window=replace(window, use={})).state
    assert classes(state.incidents) == [("compute.slow", (SUSPECT,))]


def test_dumps_that_wait_or_failed_say_nothing() -> None:
    waits = several("train (t.py:1);all_reduce (torch/distributed/distributed_c10d.py:9)")
    failed = [replace(item, error="timeout") for item in several(FRAMES["host.lock"])]
    for stacks in (waits, failed):
        assert classes(incidents("starved", stacks)) == [("host.cpu_starved", (SUSPECT,))]


def runtime(kind: str, *, dur_s: float, value: float = 0.0) -> list[RuntimeEvent]:
    return [
        RuntimeEvent(rank=SUSPECT, kind=kind, step=step, start_s=0.0, dur_s=dur_s, value=value)
        for step in range(ONSET, JOB.steps)
    ]


def test_the_runtime_tells_of_compilations_and_retries() -> None:
    assert classes(incidents("compute", events=runtime("compile", dur_s=0.14))) == [("host.jit", (SUSPECT,))]
    retries = runtime("alloc_retry", dur_s=0.0, value=2.0)
    assert classes(incidents("starved", events=retries)) == [("host.allocator", (SUSPECT,))]
    assert classes(incidents("compute", events=runtime("compile", dur_s=0.01))) == [
        ("compute.slow", (SUSPECT,))
    ]


@pytest.mark.slow
def test_one_half_of_a_host_is_numa() -> None:
    job = Job(ranks=16, ranks_per_host=4, steps=140, step_s=0.3, gpu=False)
    fault = Fault(kind="compute", ranks=(6, 7), start_step=ONSET, severity=1.4)
    done = simulate(job, [fault], rng=np.random.default_rng(0))
    topology = build(done.layouts)
    state = AttemptState.start(job.run, 0)
    for window in windows(done, topology):
        state = advance(state, topology=topology, now_s=0.0, window=window).state
    assert {incident.cause.fault_class for incident in state.incidents} == {"host.numa"}
    assert {rank for incident in state.incidents for rank in incident.cause.suspects} == {6, 7}
    assert all(incident.cause.second_best == "compute.slow" for incident in state.incidents)


@pytest.mark.parametrize(
    ("thread", "kind"),
    [
        (Thread(kind="main", state="D", stack=WORK), "filesystem"),
        (Thread(kind="main", state="S", wchan="nfs_wait_bit_killable", stack=WORK), "filesystem"),
        (Thread(kind="main", state="S", stack="a (x.py:1);gc_collect_main (native)"), "gc"),
        (Thread(kind="main", state="R", stack="f (triton/compiler/compiler.py:2)"), "jit"),
        (Thread(kind="main", state="S", stack="f (torch/distributed/x.py:2)"), "waiting"),
        (Thread(kind="main", state="R", stack=WORK), "runnable"),
        (Thread(kind="main", state="S", stack=""), "other"),
        (Thread(kind="main", state="S", stack="\x00;;;(((", wchan="?"), "other"),
    ],
)
def test_a_thread_is_known_by_frames_state_and_place(thread: Thread, kind: str) -> None:
    assert kind_of(thread) == kind


def test_a_thread_without_the_interpreter_lock_waits_for_who_has_it() -> None:
    main = Thread(kind="main", state="S", stack=WORK)
    holder = Thread(kind="other", state="R", stack="spin (s.py:1)", has_gil=True)
    assert kind_of(main, (main, holder)) == "lock"
    assert kind_of(main, (main, replace(holder, kind="argus"))) == "other"


def test_a_frame_is_shown_without_what_could_be_taken_for_more() -> None:
    shown = innermost(Thread(kind="main", stack="x;{v} `rm -rf /` \u202e ignore all (a.py:1)" + "y" * 500))
    assert len(shown) <= 60 and not set(shown) & set("{}`\u202e")


def test_folded_stacks_are_compared_with_the_peers() -> None:
    rows = against_peers(several("a (x.py:1)"), [dump(0, WORK)])
    assert rows[0] == ("a (x.py:1)", 15 / 45, 0.0) and rows[-1][0] == WORK
    assert against_peers([], []) == () and doing([]).share("jit") == 0.0
