"""All ranks slower alike: one incident that accuses nobody, and none where something else explains it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from argus.analytics.digest import digest_of
from argus.analytics.fuse.lasting import Lasting
from argus.analytics.fuse.whole_job import LASTS_S, growth_in, is_unsuspected, job_causes, rise_of
from argus.analytics.incident import Cause, Incident
from argus.analytics.lifecycle import RUN_OVER, open_incident, update_incident
from argus.analytics.view import Digest, View
from argus.analytics.window import Floats, assemble
from argus.collectors.records.plan import WindowPlan
from argus.evals.play import play
from argus.evals.simulator.job import Fault, Job
from argus.evals.simulator.simulate import simulate
from argus.topology.layout import build

JOB = Job(ranks=8, steps=160, step_s=2.5)
EVERYBODY = tuple(range(8))


def slower(*, start: int, end: int | None = None, severity: float = 1.2) -> Fault:
    return Fault(kind="slow_all", ranks=EVERYBODY, severity=severity, start_step=start, end_step=end)


def incidents(job: Job, *faults: Fault, seed: int = 2) -> tuple[Incident, ...]:
    return play(simulate(job, faults, rng=np.random.default_rng(seed))).incidents


def digests(step_s: Sequence[float], *, amount: Sequence[float] = (), spread: float = 0.01) -> list[Digest]:
    """Windows of 10 steps whose job steps are about these."""
    done = simulate(Job(ranks=4, steps=20), rng=np.random.default_rng(0))
    first = next(done.windows(WindowPlan()))
    base = digest_of(assemble(first.parts, build(done.layouts)))
    rng = np.random.default_rng(1)

    def one(index: int, value: float) -> Digest:
        times: Floats = value * np.exp(rng.normal(0, spread, 10))
        return replace(
            base,
            index=index,
            first_step=10 * index,
            steps=np.arange(10 * index, 10 * index + 10),
            job_step_s=times,
            step_s=np.full(4, value),
            amount=("tokens", amount[index]) if amount else None,
        )

    return [one(index, value) for index, value in enumerate(step_s)]


def test_a_rise_that_lasts_is_found_in_its_window() -> None:
    found = rise_of(digests([2.0] * 8 + [2.3] * 4))
    assert found is not None and found.place == 8
    assert found.before_s == pytest.approx(2.0, rel=0.02) and found.now_s == pytest.approx(2.3, rel=0.02)


def test_steps_that_grow_without_an_end_are_a_rise() -> None:
    found = rise_of(digests([2.0] * 6 + list(np.linspace(2.1, 3.0, 10))))
    assert found is not None and found.before_s == pytest.approx(2.0, rel=0.1)
    assert rise_of(digests([2.0] * 6 + list(np.linspace(2.01, 2.08, 10)))) is None


@pytest.mark.parametrize(
    "step_s",
    [
        [2.0] * 12,
        [2.0] * 10 + [2.3] * 2,  # too new
        [2.0] * 8 + [2.3, 2.0, 2.3, 2.3],  # it was back in between
        [2.0] * 3 + [2.4] + [2.0] * 4 + [2.3] * 4,  # it was there before
        [2.0] * 8 + [2.06] * 4,  # worth nobody's time
        [2.3] * 8 + [2.0] * 4,  # faster
        list(np.linspace(2.0, 2.3, 12)),  # no step at all
        [0.2] * 8 + [0.23] * 4,  # seconds of load, not minutes
    ],
)
def test_what_is_no_lasting_rise(step_s: list[float]) -> None:
    assert rise_of(digests(step_s)) is None


def test_a_doubt_that_got_no_second_vote_is_none_any_more() -> None:
    """One window's suspicion of one rank at the onset does not silence the rule for good."""
    seen = digests([2.0] * 6 + [2.3] * 5)
    assert is_unsuspected(seen, 6)
    for window, expected in ((5, True), (7, True), (8, False), (10, False)):
        doubted = [replace(one, doubted=(2,)) if one.index == window else one for one in seen]
        assert is_unsuspected(doubted, 6) is expected, window
    accused = [replace(one, flagged=(2,)) if one.index == 7 else one for one in seen]
    assert not is_unsuspected(accused, 6)


def growing(slope: float, *, flat: int = 8, windows: int = 10) -> list[float]:
    return [2.0] * flat + [2.0 * (1 + slope * n) for n in range(1, windows + 1)]


def test_steps_that_grow_a_little_with_every_window_are_told_once_it_is_worth_it() -> None:
    grown = growing(0.007)
    told = [n for n in range(1, len(grown) + 1) if growth_in(digests(grown[:n], spread=0.005))]
    assert told and told == list(range(told[0], len(grown) + 1)) and 14 <= told[0] <= 16
    found = growth_in(digests(grown, spread=0.005))
    assert found is not None and found.grows and 8 <= found.place <= 11
    assert found.now_s / found.before_s == pytest.approx(1.07, abs=0.01)


@pytest.mark.parametrize(
    "step_s",
    [
        [2.0] * 18,
        growing(0.004),  # worth nobody's time
        growing(-0.02),  # faster
        [2.0] * 8 + [2.2] * 3,  # a rise, if it lasts
        [2.0] * 8 + [2.2] * 8,  # two levels
        [2.0, 2.1] * 9,  # to and fro
        [2.0] * 6 + [2.2] * 2 + growing(0.007, flat=0, windows=10),  # it was there before
        [0.1 * value for value in growing(0.007)],  # seconds of load, not minutes
    ],
)
def test_what_is_no_growth(step_s: list[float]) -> None:
    assert growth_in(digests(step_s, spread=0.005)) is None


def test_what_grew_has_cost_what_it_cost_on_the_way() -> None:
    (told,) = causes(digests(growing(0.007), spread=0.005))
    opened = open_incident(told, run="r", attempt=0, window=17, steps_done=179, world=4)
    assert told.s_per_step == pytest.approx(0.14, abs=0.02)
    num_steps = 180 - opened.onset_step
    so_far_s = opened.cost.gpu_hours_so_far * 3600 / 4 / num_steps
    assert 0.4 * told.s_per_step < so_far_s < 0.75 * told.s_per_step
    later = update_incident(opened, told, window=18, steps_done=189, world=4)
    added_s = (later.cost.gpu_hours_so_far - opened.cost.gpu_hours_so_far) * 3600 / 4
    assert added_s == pytest.approx(10 * told.s_per_step)


@pytest.mark.slow
def test_a_job_whose_steps_grow_by_a_tenth_is_one_incident() -> None:
    leak = replace(slower(start=60, severity=1.1), grows=True)
    (found,) = incidents(replace(JOB, steps=200), leak)
    assert (found.cause.fault_class, found.cause.suspects) == ("step.slower", ())
    assert found.onset_step >= 50 and found.opened_window <= 15


def test_a_batch_that_grew_is_no_slowdown() -> None:
    times, tokens = [2.0] * 8 + [2.6] * 4, [100.0] * 8 + [130.0] * 4
    assert rise_of(digests(times)) is not None
    assert rise_of(digests(times, amount=tokens)) is None


def test_windows_of_uneven_steps_that_lie_together_are_chance() -> None:
    times = [2.0] * 5 + [2.12] * 3
    assert rise_of(digests(times, spread=0.005)) is not None
    assert rise_of(_with_steps(digests(times, spread=0.0), spread=0.1)) is None


def _with_steps(seen: Sequence[Digest], *, spread: float) -> list[Digest]:
    """The windows with steps that differ, their medians as they were."""
    about = np.exp(spread * np.linspace(-1.5, 1.5, 10))
    return [replace(one, job_step_s=one.job_step_s * about) for one in seen]


def causes(seen: Sequence[Digest], *, known: Sequence[Cause] = ()) -> tuple[Cause, ...]:
    """What is said of the job after these windows, the `known` causes being open."""
    topology = build(simulate(Job(ranks=4, steps=20), rng=np.random.default_rng(0)).layouts)
    view = View(run="r", attempt=0, topology=topology, now_s=0.0, past=tuple(seen[:-1]), digest=seen[-1])
    return job_causes(view, Lasting(open=tuple(known)))


RISEN = [2.0] * 8 + [2.3] * 4


@pytest.mark.parametrize("batch", [0.5, 1.0, 1.5, 3.0])
def test_a_rise_that_is_open_lasts_and_costs_by_the_work_of_now(batch: float) -> None:
    (told,) = causes(digests(RISEN, amount=[100.0] * 12))
    after = digests([*RISEN, 2.3 * batch], amount=[100.0] * 12 + [100.0 * batch])
    (found,) = causes(after, known=[told])
    assert found.share_of_step == pytest.approx(1 - 2.0 / 2.3, abs=0.02)
    assert found.s_per_step == pytest.approx(0.3 * batch, rel=0.15)


@pytest.mark.parametrize("batch", [0.5, 1.0, 1.5, 3.0])
def test_a_batch_that_grew_keeps_no_rise_open(batch: float) -> None:
    (told,) = causes(digests(RISEN, amount=[100.0] * 12))
    after = digests([*RISEN, 2.0 * batch], amount=[100.0] * 12 + [100.0 * batch])
    assert not causes(after, known=[told])


def test_a_rise_told_without_work_is_held_against_its_own_step_time() -> None:
    (told,) = causes(digests(RISEN))
    assert "step_work" not in {item.name for item in told.evidence}
    (found,) = causes(digests([*RISEN, 2.3]), known=[told])
    assert found.s_per_step == pytest.approx(0.3, rel=0.15)
    assert not causes(digests([*RISEN, 2.0]), known=[told])


def test_short_steps_need_more_windows() -> None:
    num = int(np.ceil(LASTS_S / 5.0)) + 1
    short = [0.5] * num + [0.6] * num
    assert rise_of(digests(short)) is not None and rise_of(digests(short[: num + 4])) is None


@pytest.mark.slow
def test_all_ranks_slower_alike_are_one_incident_that_accuses_nobody_and_ends() -> None:
    (found,) = incidents(JOB, slower(start=80, end=140))
    cause = found.cause
    assert (cause.fault_class, cause.verdict, cause.suspects) == ("step.slower", "INCONCLUSIVE", ())
    assert cause.scope == f"run:{JOB.run}" and abs(found.onset_step - 80) <= 2
    assert found.status == "resolved" and found.end_step is not None and abs(found.end_step - 140) <= 10
    assert found.cost.share_of_step == pytest.approx(1 - 1 / 1.2, abs=0.04)
    assert cause.separation is not None and cause.separation.command.startswith("argus probe --hosts h-")
    assert cause.second_best == "compute.slow" and cause.phase == "backward"


@pytest.mark.slow
def test_what_is_left_of_a_slowdown_that_eased_has_its_own_begin_and_price() -> None:
    job = Job(ranks=8, steps=260, step_s=2.5)
    dip, rest = incidents(job, slower(start=84, end=144, severity=1.5), slower(start=144, severity=1.2))
    assert (dip.onset_step, rest.onset_step) == (84, dip.end_step + 1 if dip.end_step else -1)
    step = next(item for item in rest.cause.evidence if item.name == "step_s")
    assert step.baseline is not None and step.value / step.baseline == pytest.approx(1.2, abs=0.03)
    lost_s = sum(one.cost.gpu_hours_so_far for one in (dip, rest)) * 3600 / job.ranks
    assert lost_s == pytest.approx(2.5 * (60 * 0.5 + 116 * 0.2), rel=0.1)


@pytest.mark.slow
def test_one_slow_rank_is_not_the_whole_job_nor_both() -> None:
    slow = Fault(kind="compute", ranks=(3,), severity=1.3, start_step=80)
    assert [i.cause.suspects for i in incidents(JOB, slow)] == [(3,)]


@pytest.mark.slow
def test_a_rank_that_explains_it_takes_the_incident_over() -> None:
    """First all are slower alike, then it turns out to be one of them."""
    slow = Fault(kind="compute", ranks=(3,), severity=1.5, start_step=130)
    first, other = incidents(replace(JOB, steps=200), slower(start=80, end=130), slow)
    assert (first.cause.fault_class, first.status) == ("step.slower", "resolved")
    assert other.cause.suspects == (3,)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_healthy_job_of_long_steps_has_no_incident(seed: int) -> None:
    noisy = replace(JOB.noise, daily=0.03, drift=0.02)
    assert not incidents(replace(JOB, steps=300, noise=noisy), seed=seed)


@pytest.mark.slow
def test_where_all_wait_longer_for_their_data_that_is_told() -> None:
    late = Fault(kind="data", ranks=EVERYBODY, severity=1.2, start_step=80)
    (found,) = incidents(JOB, late)
    assert (found.cause.fault_class, found.cause.verdict) == ("data.slow_loader", "LIKELY")
    assert not found.cause.suspects and found.ended == RUN_OVER
