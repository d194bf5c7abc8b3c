"""Two runs compared: every difference beyond noise is told, and none that is noise."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from argus.analytics.attempt import AttemptState, advance
from argus.analytics.incident import Incident
from argus.analytics.numbers import window_numbers
from argus.analytics.outside import Outside
from argus.analytics.run_diff import RunDiff, change_finding, diff, diff_since_restart, is_gross
from argus.analytics.run_facts import KernelLevel, Level, RunFacts, facts_of, nccl_variants
from argus.evals.simulator.job import Fault, Job
from argus.evals.simulator.simulate import simulate
from argus.topology.layout import build
from tests.analytics.test_attempt import windows

LL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(x)|comm:dp"
SIMPLE = "ncclDevKernel_AllReduce_Sum_bf16_RING_SIMPLE(x)|comm:dp"
OLD = RunFacts(
    run="night",
    attempt=0,
    world_size=8,
    hosts=("h-0", "h-1"),
    env={"NCCL_ALGO": "Ring", "NCCL_DEBUG": "WARN"},
    versions={"torch": "2.12"},
    groups={"dp": "1 × 8"},
    step=Level(p50_s=1.0, spread=0.01, num=30),
    phases={"forward": Level(p50_s=0.3, spread=0.01, num=30), "h2d": Level(p50_s=0.001, spread=0.0, num=30)},
    kernels={"gemm|compute": KernelLevel(count=100.0, p50_s=0.002), LL: KernelLevel(count=10.0, p50_s=0.01)},
)
NEW = replace(
    OLD,
    attempt=1,
    hosts=("h-0", "h-2"),
    env={"NCCL_ALGO": "Tree", "NCCL_DEBUG": "WARN"},
    versions={"torch": "2.13"},
    step=Level(p50_s=1.2, spread=0.01, num=30),
    kernels={
        "gemm|compute": KernelLevel(count=100.0, p50_s=0.0025),
        SIMPLE: KernelLevel(count=10.0, p50_s=0.02),
    },
)


def test_a_run_differs_in_nothing_from_itself() -> None:
    assert diff(OLD, OLD).changes == () and diff(NEW, NEW).same_shape


@pytest.mark.parametrize(
    ("is_set", "ratio", "spread", "is_told"),
    [
        (True, 1.02, 0.002, True),
        (False, 1.02, 0.002, False),  # other machines differ by so much
        (False, 1.04, 0.002, True),
        (True, 1.01, 0.002, False),
        (True, 1.016, 0.002, False),  # 1.2 % would look so now and then
        (True, 1.02, 0.005, False),  # within the noise
    ],
)
def test_a_small_change_of_the_step_is_told_where_settings_differ(
    is_set: bool, ratio: float, spread: float, is_told: bool
) -> None:
    before = replace(OLD, step=Level(p50_s=1.0, spread=spread, num=30))
    step = Level(p50_s=ratio, spread=0.0, num=4)  # four windows may agree by chance
    after = replace(before, step=step, env=NEW.env if is_set else before.env)
    assert bool(diff(before, after).of("step")) == is_told


@pytest.mark.parametrize(
    ("step_s", "wait_s", "is_told"),
    [
        (1.016, 0.12, True),
        (1.011, 0.12, False),  # the step hides most of it: no longer than many a start
        (1.016, 0.108, False),  # half of it comes from nowhere
        (1.016, 0.1, False),
        (0.984, 0.12, False),  # what is faster for another reason is no change of this one
    ],
)
def test_a_step_is_longer_by_little_where_one_part_has_surely_grown_by_as_much(
    step_s: float, wait_s: float, is_told: bool
) -> None:
    before = replace(
        OLD,
        step=Level(p50_s=1.0, spread=0.004, num=10),
        waits={"backward": Level(p50_s=0.1, spread=0.03, num=10)},
    )
    after = replace(
        NEW,
        step=Level(p50_s=step_s, spread=0.004, num=4),
        waits={"backward": Level(p50_s=wait_s, spread=0.03, num=4)},
    )
    assert bool(diff(before, after).of("step")) == is_told
    noisy = replace(before, waits={"backward": Level(p50_s=0.1, spread=0.3, num=10)})
    assert not diff(noisy, after).of("step")


def test_few_windows_that_agree_by_luck_tell_no_change() -> None:
    """A drifting job's windows resemble each other: seen as independent, these would be far apart."""
    before = replace(OLD, step=Level(p50_s=1.0, spread=0.003, num=10))
    after = replace(NEW, step=Level(p50_s=1.02, spread=0.001, num=4))
    assert not diff(before, after).of("step")
    longer = [replace(one, step=replace(one.step, num=60)) for one in (before, after) if one.step is not None]
    assert diff(longer[0], longer[1]).of("step")


@pytest.mark.parametrize(
    ("steps_s", "is_told"), [([1.2, 1.1], True), ([1.2], False), ([1.2, 1.04], False), ([1.2, None], False)]
)
def test_two_windows_are_enough_for_what_is_gross(steps_s: list[float | None], is_told: bool) -> None:
    done = simulate(Job(ranks=4, steps=10), rng=np.random.default_rng(0))
    base = window_numbers(next(windows(done, build(done.layouts))))
    first = [
        replace(base, job_step_s=np.full(10, np.nan if step_s is None else step_s)) for step_s in steps_s
    ]
    assert is_gross(OLD, first) == is_told
    assert not is_gross(replace(OLD, step=None), first)
    seen = [one.typical_step_s for one in first if one.typical_step_s is not None]
    new = replace(NEW, step=Level(p50_s=float(np.mean(seen)), spread=0.0, num=len(seen)))
    told = diff_since_restart(OLD, new, first, enough=4)
    assert (told is not None) == is_told and diff_since_restart(OLD, new, [*first, *first], enough=4)
    noisy = replace(OLD, step=Level(p50_s=1.0, spread=0.2, num=30))
    assert diff_since_restart(noisy, new, first, enough=4) is None


def test_every_section_tells_its_changes() -> None:
    found = diff(OLD, NEW)
    told = {(c.section, c.name): (c.before, c.after) for c in found.changes}
    assert told["environment", "NCCL_ALGO"] == ("Ring", "Tree")
    assert told["versions", "torch"] == ("2.12", "2.13")
    assert told["hosts", "h-1"] == ("used", None) and told["hosts", "h-2"] == (None, "used")
    assert told["step", "step"] == (1.0, 1.2)
    assert told["kernels", "gemm|compute"] == (0.002, 0.0025)
    assert told["nccl", "AllReduce"] == ("Sum_bf16_RING_LL", "Sum_bf16_RING_SIMPLE")
    assert ("environment", "NCCL_DEBUG") not in told and found.lacks == ()


def test_the_way_back_is_the_inverse() -> None:
    there, back = diff(OLD, NEW), diff(NEW, OLD)
    assert {(c.section, c.name, c.before, c.after) for c in there.changes} == {
        (c.section, c.name, c.after, c.before) for c in back.changes
    }


@pytest.mark.parametrize(
    ("spread", "num", "ratio", "is_told"),
    [(0.01, 30, 1.02, False), (0.01, 30, 1.05, True), (0.2, 30, 1.05, False), (0.0, 1, 1.2, False)],
)
def test_a_time_differs_only_beyond_its_noise(spread: float, num: int, ratio: float, is_told: bool) -> None:
    old = replace(OLD, step=Level(p50_s=1.0, spread=spread, num=num))
    new = replace(OLD, step=Level(p50_s=ratio, spread=spread, num=num))
    assert bool(diff(old, new).of("step")) == is_told


def test_small_phases_and_what_is_lacking_are_said() -> None:
    small = {**OLD.phases, "h2d": Level(p50_s=0.005, spread=0.0, num=30)}
    assert not diff(OLD, replace(OLD, phases=small)).of("phases")
    bare = replace(OLD, step=None, kernels={}, lacks=("step times", "kernels"))
    found = diff(OLD, bare)
    assert found.lacks == ("step times of night#0", "kernels of night#0") and not found.of("kernels")
    assert found.of("step")[0].after is None


def test_another_shape_is_another_job() -> None:
    assert not diff(OLD, replace(OLD, world_size=4)).same_shape


def late(**seconds: float) -> dict[str, Level]:
    return {f"rank {name[1:]}": Level(p50_s=value, spread=0.0, num=3) for name, value in seconds.items()}


def test_the_rank_that_all_others_wait_for_is_named_and_no_transfer_that_holds_the_waiting() -> None:
    """One call of 0.01 s became one of 0.04 s, ten times a step."""
    before = replace(OLD, late=late(r0=0.001, r1=0.001, r2=0.002))
    after = replace(before, late=late(r0=0.001, r1=0.001, r2=0.3))
    after = replace(after, kernels={**OLD.kernels, LL: KernelLevel(count=10.0, p50_s=0.04)})
    for change, sign in ((diff(before, after), 1), (diff(after, before), -1)):
        (rank,) = change.of("ranks")
        assert rank.name == "waiting for rank 2" and (rank.effect_s or 0.0) * sign > 0.2
        assert not change.of("kernels")
    slower = replace(after, kernels={**OLD.kernels, LL: KernelLevel(count=10.0, p50_s=0.06)})
    change = diff(before, slower)
    assert change.of("ranks") and change.of("kernels"), "the waiting does not explain it"
    faster = replace(after, kernels={**OLD.kernels, LL: KernelLevel(count=10.0, p50_s=0.005)})
    assert diff(before, faster).of("kernels")


def test_waiting_for_everybody_or_for_nobody_much_names_no_rank() -> None:
    before = replace(OLD, late=late(r0=0.001, r1=0.001, r2=0.001))
    after = replace(OLD, kernels={**OLD.kernels, LL: KernelLevel(count=10.0, p50_s=0.04)})
    for levels in (late(r0=0.1, r1=0.1, r2=0.1), late(r0=0.001, r1=0.001, r2=0.02), {}):
        change = diff(before, replace(after, late=levels))
        assert not change.of("ranks") and change.of("kernels")


def test_facts_come_back_from_json() -> None:
    assert RunFacts.from_json(NEW.to_json()) == NEW
    told = replace(NEW, late=late(r0=0.001))
    assert RunFacts.from_json(told.to_json()) == told
    old = {key: value for key, value in NEW.to_json().items() if key != "late"}
    assert RunFacts.from_json(old) == NEW, "of a service that does not tell it"


def test_variants_of_nccl_by_operation() -> None:
    assert nccl_variants([LL, SIMPLE, "gemm|compute"]) == {
        "AllReduce": "Sum_bf16_RING_LL, Sum_bf16_RING_SIMPLE"
    }


def test_facts_of_a_simulated_run() -> None:
    done = simulate(Job(ranks=4, steps=60), rng=np.random.default_rng(0))
    topology = build(done.layouts)
    numbers = [window_numbers(window) for window in windows(done, topology)]
    facts = facts_of(topology, done.layouts, numbers)
    assert facts.world_size == 4 and facts.groups and "kernels" in facts.lacks
    assert facts.step is not None and 0.3 < facts.step.p50_s < 0.8 and "forward" in facts.phases
    assert facts_of(topology, done.layouts, []).lacks[:2] == ("step times", "phases")


def test_only_a_slower_run_is_a_finding() -> None:
    def finding(change: RunDiff) -> object:
        return change_finding(change, run="night", attempt=1, window=7, first_step=0)

    assert finding(diff(NEW, OLD)) is None and finding(diff(OLD, OLD)) is None
    found = change_finding(diff(OLD, NEW), run="night", attempt=1, window=7, first_step=0)
    assert found is not None and found.kind == "run_change" and found.ratio == pytest.approx(1.2)
    assert any("NCCL_ALGO: Ring → Tree" in item.note for item in found.evidence)


def course(change: RunDiff, *, step_s: float = 0.5, fault: Fault | None = None) -> list[Incident]:
    done = simulate(
        Job(ranks=8, steps=120, step_s=step_s), [fault] if fault else [], rng=np.random.default_rng(0)
    )
    topology = build(done.layouts)
    state = AttemptState.start("train", 0)
    for window in windows(done, topology):
        outside = Outside(change=change if window.index >= 6 else None)
        state = advance(state, topology=topology, now_s=0.0, window=window, outside=outside).state
    return list(state.incidents)


def test_steps_that_go_up_and_down_end_no_change_and_begin_none_twice() -> None:
    """Short windows of a busy machine: three show most of the change, three less than half."""
    slow, fast = (
        simulate(Job(ranks=8, steps=400, step_s=step_s), [], rng=np.random.default_rng(0))
        for step_s in (0.5, 0.45)
    )
    topology = build(slow.layouts)
    state = AttemptState.start("train", 0)
    pairs = zip(windows(slow, topology), windows(fast, topology), strict=True)
    for number, pair in enumerate(pairs):
        outside = Outside(change=changed(0.4, 0.54) if number >= 6 else None)
        window = pair[number // 3 % 2]
        state = advance(state, topology=topology, now_s=0.0, window=window, outside=outside).state
    assert [(i.cause.fault_class, i.status) for i in state.incidents] == [("run.changed", "open")]


def changed(before_s: float, after_s: float, **more: object) -> RunDiff:
    old = replace(OLD, step=Level(p50_s=before_s, spread=0.01, num=30))
    return diff(old, replace(NEW, step=Level(p50_s=after_s, spread=0.01, num=30), **more))  # type: ignore[arg-type]


def test_all_ranks_slower_since_a_restart_is_one_cause_without_a_suspect() -> None:
    (incident,) = course(changed(0.4, 0.54))
    assert (incident.cause.fault_class, incident.cause.verdict) == ("run.changed", "LIKELY")
    assert incident.cause.suspects == () and incident.cause.scope == "run:train"
    assert any("NCCL_ALGO" in item.note for item in incident.cause.evidence)


def test_where_nothing_else_is_known_to_differ_it_stays_open_why() -> None:
    same = changed(0.4, 0.54, env=OLD.env, versions=OLD.versions, kernels=OLD.kernels)
    (incident,) = course(same)
    assert incident.cause.verdict == "INCONCLUSIVE"


def test_a_change_of_shape_or_one_that_is_over_accuses_nobody() -> None:
    assert course(changed(0.4, 0.54, world_size=4)) == []
    assert course(changed(0.4, 0.54), step_s=0.35) == []


def test_a_suspect_that_explains_it_stands_instead() -> None:
    fault = Fault(kind="compute", ranks=(3,), start_step=0, severity=1.4)
    classes = {incident.cause.fault_class for incident in course(changed(0.5, 0.7), fault=fault)}
    assert classes == {"compute.slow"}
