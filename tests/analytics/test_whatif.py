"""The replay of a pipeline: it reproduces what was recorded, and says what which part of it costs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from argus.agent.worth import worth_lines
from argus.analytics.whatif.graph import NotReplayable
from argus.analytics.whatif.operations import operations_of
from argus.analytics.whatif.shares import Replayer, WhatIf, replayer_of, what_if
from argus.analytics.whatif.timeline import trace_of
from argus.collectors.readers._fake_timers import FakeJob, fake_rows, schedule
from argus.collectors.readers._timer_rows import rank_rows
from argus.collectors.readers._timer_table import Table, groups_of, spans_of
from argus.collectors.records.events import FLAG_WARMUP, RankRecords
from argus.collectors.records.layout import Layout
from argus.topology.layout import Topology, build


def records_of(rows: Sequence[dict[str, object]]) -> list[RankRecords]:
    """What the reader makes of such a table, without the file."""
    rows = sorted(rows, key=lambda r: (r["rank"], r["step"], r["start_ts"], r["seq_id"]))
    ops = tuple(sorted({str(r["optype"]) for r in rows}))

    def ints(key: str) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
        return np.array([r[key] for r in rows], np.int64)

    table = Table(
        dp_rank=ints("dp_rank"),
        stage=ints("stage"),
        rank=ints("rank"),
        step=ints("step"),
        op=np.array([ops.index(str(r["optype"])) for r in rows], np.int64),
        ops=ops,
        start_s=np.array([r["start_ts"] for r in rows], np.float64),
        dur_s=np.array([r["duration"] for r in rows], np.float64),
        chunk=ints("mc"),
        micro_batch=ints("mb_id"),
    )
    groups, spans = groups_of(table), spans_of(table)
    out = []
    for rank in np.unique(table.rank).tolist():
        mine = {name: group for name, group in groups.items() if rank in group.ranks}
        names, made = rank_rows(
            table, rank=rank, rows=np.flatnonzero(table.rank == rank), spans=spans, groups=mine
        )
        layout = Layout(
            run="r", attempt=0, rank=rank, world_size=int(table.rank.max()) + 1, groups=tuple(mine.values())
        )
        out.append(RankRecords(layout=layout, names=names, steps=made["steps"], phases=made["phases"]))
    return out


def topology_of(records: Sequence[RankRecords]) -> Topology:
    return build(one.layout for one in records)


def replayer(job: FakeJob) -> Replayer:
    records = records_of(fake_rows(job))
    made = replayer_of(records, topology_of(records))
    assert made is not None
    return made


def answer(job: FakeJob) -> WhatIf:
    return what_if(replayer(job), world_size=job.replicas * job.stages)


SHAPES = [
    FakeJob(),
    FakeJob(stages=1),
    FakeJob(stages=2, replicas=1, micro_batches=1),
    FakeJob(stages=4, chunks=2),
    FakeJob(stages=2, chunks=3, micro_batches=4),
]


@pytest.mark.parametrize("job", SHAPES)
def test_a_replay_with_recorded_durations_gives_the_recorded_steps(job: FakeJob) -> None:
    rng = np.random.default_rng(3)
    noisy = replace(job, noise=lambda: float(rng.lognormal(sigma=0.2)), slow={(0, job.stages - 1): 1.3})
    again = replayer(noisy)
    assert again.operations.num_left_out == 0
    np.testing.assert_allclose(again.recorded.step_s, again.operations.recorded_s, rtol=1e-6)
    np.testing.assert_allclose(again.recorded.end_s, again.operations.end_s, atol=1e-6)


@pytest.mark.parametrize("job", SHAPES)
def test_an_even_job_has_nothing_to_gain(job: FakeJob) -> None:
    result = answer(job)
    assert result.slowdown == pytest.approx(1.0, abs=1e-6)
    assert max(result.worth_s.values()) == pytest.approx(0.0, abs=1e-6)
    assert "nothing to gain" in worth_lines(result)[0]


@pytest.mark.parametrize("job", [FakeJob(replicas=4), FakeJob(replicas=4, chunks=2)])
def test_one_slow_worker_holds_the_whole_loss(job: FakeJob) -> None:
    sick = replace(job, slow={(2, 1): 2.0})
    result = answer(sick)
    rank = 1 * job.replicas + 2
    assert result.workers == (rank,)
    assert result.worker_share > 0.85
    assert next(iter(result.by_rank)) == rank
    assert result.stage_share < 0.05
    # With its peers' durations the step is that of the even job.
    even = answer(job).sim_s
    assert result.worth_s[rank] == pytest.approx(result.sim_s - even, rel=1e-6)
    assert max(gain for other, gain in result.worth_s.items() if other != rank) < 0.02 * result.worth_s[rank]
    lost = (result.sim_s - result.ideal_s) / result.sim_s
    assert result.gpu_hours_per_day == pytest.approx(lost * 24 * job.replicas * job.stages)


def test_what_a_worker_is_worth_is_told_of_the_steps_asked_for() -> None:
    """A worker that became slow in the middle was worth nothing before."""
    job = FakeJob(replicas=4, steps=10)
    late = [
        {**row, "step": int(str(row["step"])) + 10} for row in fake_rows(replace(job, slow={(2, 1): 2.0}))
    ]
    records = records_of([*fake_rows(job), *late])
    replayer = replayer_of(records, topology_of(records))
    assert replayer is not None
    result = what_if(replayer, world_size=16)
    before, after = result.worth_in(0, 10)[6], result.worth_in(10, 20)[6]
    assert before == pytest.approx(0.0, abs=1e-6) and after == pytest.approx(2 * result.worth_s[6], rel=1e-6)
    assert result.worth_in(500, 510) == result.worth_s


def test_a_heavy_last_stage_is_no_workers_fault() -> None:
    job = FakeJob(replicas=4)
    result = answer(replace(job, slow={(replica, 3): 1.6 for replica in range(4)}))
    assert result.stage_share > 0.8
    assert result.worker_share < 0.3
    assert max(result.worth_s.values()) == pytest.approx(0.0, abs=1e-6)


def test_the_loss_grows_with_the_fault() -> None:
    losses = [answer(FakeJob(slow={(0, 0): factor})) for factor in (1.0, 1.2, 1.5, 2.0, 3.0)]
    gains = [result.worth_s[0] for result in losses]
    assert gains == sorted(gains) and gains[-1] > gains[1] > 0


def test_the_interleaved_schedule_covers_every_chunk_once() -> None:
    job = FakeJob(stages=4, chunks=2)
    for stage in range(4):
        order = schedule(job, stage)
        assert len(order) == len(set(order)) == 2 * job.chunks * job.micro_batches


def test_transfers_recorded_for_every_compute_are_told_from_those_that_took_place() -> None:
    """Some timers hold a transfer for each compute, also where the model begins or ends."""
    rows = fake_rows(FakeJob(stages=2, chunks=2, micro_batches=4))
    padded = list(rows)
    for row in rows:
        first = row["stage"] == 0 and row["mc"] == 0 and row["optype"] == "forward-compute"
        if first:
            padded.append({**row, "optype": "forward-recv", "duration": 0.0, "mc": -1, "seq_id": 0})
    records = records_of(padded)
    made = replayer_of(records, topology_of(records))
    assert made is not None
    np.testing.assert_allclose(made.recorded.step_s, made.operations.recorded_s, rtol=1e-6)


def test_steps_that_differ_or_carry_a_flag_are_left_out() -> None:
    rows = [r for r in fake_rows(FakeJob(steps=5)) if not (r["step"] == 12 and r["optype"] == "optimizer")]
    records = records_of(rows)
    records[0].steps["flags"][0] = FLAG_WARMUP
    operations = operations_of(records, topology_of(records))
    assert operations is not None
    assert operations.steps.tolist() == [1, 3, 4]
    assert operations.num_left_out == 2


def test_records_without_micro_batches_are_not_replayed() -> None:
    records = records_of([r for r in fake_rows(FakeJob()) if not str(r["optype"]).endswith("compute")])
    assert replayer_of(records, topology_of(records)) is None


def test_half_a_pipeline_is_not_replayed() -> None:
    records = [one for one in records_of(fake_rows(FakeJob())) if one.layout.rank != 3]
    assert replayer_of(records, topology_of(records)) is None


def test_transfers_without_their_other_end_are_refused_with_a_reason() -> None:
    rows = [r for r in fake_rows(FakeJob()) if not (r["stage"] == 1 and r["optype"] == "forward-recv")]
    records = records_of(rows)
    with pytest.raises(NotReplayable, match="forward transfers"):
        replayer_of(records, topology_of(records))


def test_the_ideal_timeline_is_a_trace_of_every_worker() -> None:
    again = replayer(FakeJob(slow={(0, 0): 2.0}))
    trace = trace_of(again.operations, again.ideal, title="ideal", max_steps=1)
    events = [event for event in json.loads(json.dumps(trace))["traceEvents"] if event["ph"] == "X"]
    assert {event["pid"] for event in events} == set(range(8))
    assert len(events) == len(again.operations.nodes) * 2
    end = max(event["ts"] + event["dur"] for event in events)
    assert end == pytest.approx(float(again.ideal.step_s[0]) * 1e6)


SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "straggler-analysis"


@pytest.mark.slow
@pytest.mark.skipif(not SHARED.exists(), reason="the public traces are not here")
@pytest.mark.parametrize("name", ["AR", "SE"])
def test_the_public_traces_give_their_authors_answers(name: str) -> None:
    pytest.importorskip("pyarrow")
    from argus.collectors.job import join
    from argus.collectors.readers import phase_timers

    job = join(list(phase_timers.read(SHARED / f"trace-{name}.parquet")))
    made = replayer_of(job.records, build(one.layout for one in job.records))
    assert made is not None
    result = what_if(made, world_size=job.world_size)
    theirs = json.loads((SHARED / f"result-{name}.json").read_text())
    assert job.world_size == theirs["job_meta"]["world_size"]
    assert result.sim_error_median <= {"AR": 0.0056, "SE": 0.0049}[name]
    np.testing.assert_allclose(made.recorded.step_s, list(theirs["step_t_nodelay"].values()), rtol=1e-5)
    assert result.slowdown == pytest.approx(theirs["blocking_slowdown"], rel=1e-4)
    for share, key in ((result.worker_share, "mw"), (result.stage_share, "ms")):
        assert share == pytest.approx(
            json.loads((SHARED / f"{key}-{name}.json").read_text())["rem"], abs=1e-3
        )
