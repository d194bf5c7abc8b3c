"""Laws of simulated layouts: pipelines, experts, work; a host's windows are what `cut` makes of its records."""

from __future__ import annotations

from collections import Counter
from functools import cache

import numpy as np
import pytest

from argus.analytics.window import Window, assemble
from argus.collectors.host.window import COLUMNS, cut
from argus.collectors.records.plan import WindowPlan
from argus.collectors.records.summary import RankWindow
from argus.evals.simulator.groups import shape_of
from argus.evals.simulator.job import Fault, Job
from argus.evals.simulator.program import program_of
from argus.evals.simulator.schedules import BACKWARD, FORWARD, WEIGHTS, order_of
from argus.evals.simulator.simulate import Simulation, simulate
from argus.topology.layout import build

PIPELINE = Job(ranks=16, pp=4, micro_batches=8, steps=20)
JOBS = {
    "data": Job(ranks=8, steps=15, lost_step_probability=0.1, missing=(2,), checkpoint_every=7, eval_every=7),
    "kernels": Job(ranks=4, steps=12, kernels=4),
    "pipeline": Job(ranks=16, pp=4, tp=2, micro_batches=6, steps=15, length_spread=0.3, tells_work=True),
    "interleaved": Job(ranks=8, pp=4, micro_batches=8, steps=15, schedule="interleaved", virtual=2),
    "zero_bubble": Job(ranks=8, pp=4, micro_batches=8, steps=15, schedule="zero_bubble"),
    "loop": Job(ranks=4, steps=12, rollout_ratio=0.5),
    "experts": Job(ranks=16, ep=4, steps=15, routing_spread=0.2, tells_work=True),
    "everything": Job(ranks=32, pp=2, ep=4, tp=2, cp=2, micro_batches=4, steps=15),
    "one replica": Job(ranks=4, pp=4, micro_batches=8, steps=15),
}


@cache
def run(job: Job, *faults: Fault, seed: int = 1) -> Simulation:
    return simulate(job, faults, rng=np.random.default_rng(seed))


def window(done: Simulation, index: int) -> Window:
    parts = next(closed.parts for closed in done.windows(WindowPlan()) if closed.index == index)
    return assemble(parts, build(done.layouts))


def facts(part: RankWindow) -> dict[str, object]:
    """Everything in a window with names in place of their numbers."""
    found: dict[str, object] = {"kernels": part.kernels, "dropped": dict(part.dropped), "host": part.host}
    for name in ("steps", "cells", "details", "collectives", "events"):
        rows, texts = getattr(part, name), COLUMNS.get(name, ())
        found[name] = [
            tuple(
                part.name(int(v)) if c in texts else v.item()
                for c, v in zip(rows.dtype.names, row, strict=True)
            )
            for row in rows
        ]
    return found


@pytest.mark.parametrize("name", list(JOBS))
def test_windows_of_hosts_are_what_the_records_are_cut_into(name: str) -> None:
    """And the phases of the records add up, no call lacks a member."""
    done, plan = run(JOBS[name]), WindowPlan()
    cuts = {(w.rank, w.window): facts(w) for records in done.records for w in cut(records, plan)}
    direct = {(w.rank, w.window): facts(w) for closed in done.windows(plan) for w in closed.parts}
    assert direct == cuts
    assert_phases_add_up_and_no_call_lacks_a_member(done, JOBS[name])


def assert_phases_add_up_and_no_call_lacks_a_member(done: Simulation, job: Job) -> None:
    """Laws of every layout."""
    for records in done.records:
        outer = records.phases[records.phases["depth"] == 0]
        spent = np.bincount(outer["step"], outer["dur_ns"], job.steps)
        step = records.steps["end_ns"] - records.steps["start_ns"]
        assert np.abs(spent[records.steps["step"]] - step).max() < 50  # rounding of each edge
    seen = window(done, 0).collectives
    topology = build(done.layouts)
    assert not topology.conflicts
    sizes = Counter(seen.call.tolist())
    if not job.missing:
        names = window(done, 0).groups
        by_id = {group.id: len(group.ranks) for group in topology.groups}
        expected = {
            int(call): 2 if op in ("send", "recv") else by_id[names[group]]
            for call, op, group in zip(seen.call, seen.op, seen.group, strict=True)
        }
        assert sizes == expected


@pytest.mark.parametrize("schedule", ["1f1b", "interleaved", "zero_bubble"])
def test_a_schedule_holds_every_piece_once_and_no_backward_before_its_forward(schedule: str) -> None:
    virtual = 2 if schedule == "interleaved" else 1
    for stage in range(4):
        pieces = order_of(schedule, stage=stage, pp=4, micro_batches=8, virtual=virtual)
        kinds = (FORWARD, BACKWARD, WEIGHTS) if schedule == "zero_bubble" else (FORWARD, BACKWARD)
        wanted = Counter(
            (kind, batch, chunk) for kind in kinds for batch in range(8) for chunk in range(virtual)
        )
        assert Counter((p.kind, p.micro_batch, p.chunk) for p in pieces) == wanted
        place = {(p.kind, p.micro_batch, p.chunk): n for n, p in enumerate(pieces)}
        for (kind, batch, chunk), at in place.items():
            before = {BACKWARD: FORWARD, WEIGHTS: BACKWARD}.get(kind)
            assert before is None or place[before, batch, chunk] < at


def test_a_better_schedule_has_the_shorter_step() -> None:
    def step_s(**schedule: object) -> float:
        job = Job(ranks=8, pp=4, micro_batches=8, steps=10, warmup_steps=0, **schedule)  # type: ignore[arg-type]
        return float(np.median(np.diff(run(job).end_s[:, 0])))

    plain = step_s()
    assert step_s(schedule="zero_bubble") < 0.95 * plain
    assert step_s(schedule="interleaved", virtual=2) < 0.95 * plain
    ideal = Job().step_s * (1 + 3 / 8)
    assert ideal < plain < 1.25 * ideal


def test_a_slow_stage_has_the_smallest_bubble_and_all_steps_end_together() -> None:
    seen = window(
        run(PIPELINE, Fault(kind="compute", ranks=(12, 13, 14, 15), phase="backward", severity=1.3)), 1
    )
    bubble = seen.dur_s[seen.phases.index("pp_recv")].mean(axis=1).reshape(4, 4).mean(axis=1)
    assert int(bubble.argmin()) == 3 and bubble[3] < 0.5 * bubble[0]
    ends = seen.step_s.mean(axis=1)
    assert ends.max() < 1.01 * ends.min()


def test_replicas_work_on_other_samples_and_tell_how_much() -> None:
    done = run(JOBS["pipeline"])
    told = {
        records.layout.rank: records.events["value"][
            records.events["kind"] == records.names.index("work:tokens")
        ]
        for records in done.records
    }
    replica = shape_of(done.job).replica
    for rank, other in ((0, 1), (0, 4), (0, 12)):  # tensor peer, next stage, last stage
        assert replica[rank] == replica[other] and np.array_equal(told[rank], told[other])
    assert replica[0] != replica[2] and not np.array_equal(told[0], told[2])


def test_an_expert_with_more_tokens_works_longer_and_its_group_waits() -> None:
    job = JOBS["experts"]
    done = run(job, Fault(kind="work", group="ep", ranks=(5,), severity=2.0))
    seen = window(done, 0)
    backward = seen.phases.index("backward")
    assert int(seen.self_s[backward].mean(axis=1).argmax()) == 5
    waiting = seen.wait_s[backward].mean(axis=1)
    assert int(waiting[4:8].argmin()) == 1


@pytest.mark.parametrize("kind", ["tp", "ep", "edp", "pp"])
def test_a_link_fault_is_slow_in_its_own_kind_of_group(kind: str) -> None:
    job = JOBS["everything"]
    calls = program_of(job).num_calls
    healthy, slow = run(job), run(job, Fault(kind="link", group=kind, ranks=(5,), severity=2.0))
    for name in calls:
        ratio = slow.costs.transfers[name].max() / healthy.costs.transfers[name].max()
        assert (ratio > 2) == (name == kind)


@pytest.mark.slow
def test_ten_thousand_ranks_are_summarised_window_by_window() -> None:
    done = run(Job(ranks=10_240, ep=32, steps=10))
    (closed,) = done.windows(WindowPlan())
    assert [part.rank for part in closed.parts] == list(range(10_240))


@pytest.mark.parametrize(
    "wrong",
    [
        {"schedule": "gpipe"},
        {"virtual": 2},
        {"pp": 4, "schedule": "interleaved", "virtual": 2, "micro_batches": 3},
        {"pp": 2, "stage_work": (1.0,)},
    ],
)
def test_an_impossible_pipeline_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="must"):
        Job(**wrong)  # type: ignore[arg-type]
