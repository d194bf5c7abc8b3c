"""A job is remembered for weeks in a few hundred stretches, and what it grew by in weeks is told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from argus.analytics.eras import FOLD, KEPT, LEVELS, Eras, Stretch, eras_of, places, stretch_of
from argus.analytics.fuse.lasting import Lasting
from argus.analytics.fuse.whole_job import job_causes
from argus.analytics.incident import Cause, Incident
from argus.analytics.lifecycle import open_incident, resolve_incident
from argus.analytics.memory import retain
from argus.analytics.view import PAST_WINDOWS, Digest, View
from argus.evals.play import play
from argus.evals.simulator.job import Fault, Job
from argus.evals.simulator.simulate import simulate
from argus.topology.layout import build
from tests.analytics.fuse.test_whole_job import digests


def window(index: int, step_s: float = 2.0, *, work: float | None = None) -> Stretch:
    return Stretch(
        first_step=10 * index,
        num_steps=10,
        steps=np.array([10 * index]),
        job_step_s=np.array([step_s]),
        typical_step_s=step_s,
        own_s=np.array([step_s / 2]),
        phases=("forward",),
        self_s=np.array([[step_s / 4]]),
        amount=None if work is None else ("tokens", work),
    )


def remembered(windows: Sequence[Stretch]) -> Eras:
    eras = Eras()
    for index, one in enumerate(windows):
        eras = eras.after(index, one)
    return eras


def test_each_level_reaches_further_back_in_as_few_values() -> None:
    eras = remembered([window(n) for n in range(FOLD**3)])
    assert eras.counts == (512, 64, 8, 1, 0)
    assert [len(level) for level in eras.levels] == [KEPT, KEPT, 8, 1, 0]
    assert eras.levels[3][0].num_steps == 10 * FOLD**3 and eras.levels[3][0].first_step == 0
    assert eras.levels[2][-1].first_step == 10 * (FOLD**3 - FOLD**2)


def test_a_window_is_taken_once_and_one_that_says_nothing_is_none() -> None:
    eras = remembered([window(0), window(1)])
    assert eras.after(1, window(1)) == eras
    assert eras.after(2, None).counts == eras.counts and eras.after(2, None).taken == 2


def test_a_stretch_is_the_median_of_its_windows_for_as_much_work() -> None:
    even = stretch_of([window(0, 2.0, work=100.0), window(1, 4.0, work=200.0), window(2, 3.0, work=150.0)])
    assert even.amount == ("tokens", 150.0) and even.job_step_s == pytest.approx([3.0, 3.0, 3.0])
    assert even.own_s == pytest.approx([1.5]) and even.self_s == pytest.approx(np.array([[0.75]]))
    other = [window(0, 2.0, work=100.0), replace(window(1, 4.0), amount=("samples", 8.0))]
    assert stretch_of(other).amount is None and stretch_of(other).job_step_s.tolist() == [2.0, 4.0]


@pytest.mark.parametrize("num", [0, 5, 8, 100, 700])
def test_what_is_read_back_counts_on_where_it_was(num: int) -> None:
    every = [window(n, 2.0 + n / 1000) for n in range(num)]
    wanted = {place for level in places(num) for place in level}
    assert len(wanted) <= (LEVELS + 1) * KEPT
    back = eras_of({place: every[place] for place in wanted}, num=num, taken=num - 1)
    live = remembered(every)
    assert (back.counts, back.taken) == (live.counts, live.taken)
    for mine, kept in zip(back.levels[1:], live.levels[1:], strict=True):
        assert [one.num_steps for one in mine] == [one.num_steps for one in kept]
        assert [one.job_step_s.mean() for one in mine] == pytest.approx(
            [one.job_step_s.mean() for one in kept], rel=0.02
        )
    more = [window(num + n) for n in range(FOLD)]
    for index, one in enumerate(more, start=num):
        back, live = back.after(index, one), live.after(index, one)
    assert back.counts == live.counts


def said(
    step_s: Sequence[float],
    *,
    work: Sequence[float] = (),
    after: Sequence[float] = (),
    remembers: bool = True,
) -> tuple[Cause, ...]:
    """What is said of a job of these windows, of which only the last are still there as such."""
    job = digests([*step_s, *after], amount=work, spread=0.005)
    eras = Eras()
    for one in job[:-3] if remembers else ():
        eras = eras.after(one.index, one)
    topology = build(simulate(Job(ranks=4, steps=20), rng=np.random.default_rng(0)).layouts)
    past = tuple(job[-PAST_WINDOWS - 1 : -1])
    view = View(run="r", attempt=0, topology=topology, now_s=0.0, past=past, digest=job[-1], eras=eras)
    return job_causes(view, Lasting())


def test_what_no_hour_shows_is_told_of_a_day() -> None:
    slow = [2.0] * 100 + [2.0 * (1 + 0.00015 * n) for n in range(500)]
    work = [100.0] * len(slow)
    assert not said(slow, work=work, remembers=False)
    assert not said(slow)  # who knows what the steps had to do
    (told,) = said(slow, work=work)
    assert (told.fault_class, told.verdict, told.suspects) == ("step.slower", "INCONCLUSIVE", ())
    assert told.share_of_step == pytest.approx(1 - 1 / 1.075, abs=0.01)
    assert 900 <= told.onset_step <= 3000


@pytest.mark.parametrize(
    "step_s",
    [
        [2.0] * 600,
        list(2.0 + 0.03 * np.sin(np.arange(600) / 60)),  # to and fro
        [2.0 * (1 + 0.00005 * n) for n in range(600)],  # worth nobody's time
        [2.0 * (1 - 0.0003 * n) for n in range(600)],  # faster
        [2.0] * 20 + [2.4] * 100 + [2.0] * 480,  # was slower once
    ],
)
def test_what_is_no_slow_growth(step_s: list[float]) -> None:
    assert not said(step_s, work=[100.0] * len(step_s))


def test_what_grew_and_is_back_is_not_told() -> None:
    slow = [2.0] * 100 + [2.0 * (1 + 0.00015 * n) for n in range(500)]
    assert said(slow, work=[100.0] * 600)
    assert not said(slow, work=[100.0] * 608, after=[2.0] * 8)


def test_steps_that_grow_with_their_work_are_no_slowdown() -> None:
    slow = [2.0] * 100 + [2.0 * (1 + 0.00015 * n) for n in range(500)]
    assert not said(slow, work=[50.0 * value for value in slow])


def test_windows_in_which_somebody_stood_accused_are_not_what_is_usual() -> None:
    seen = digests([2.0] * 30)
    clean = retain(Eras(), seen, incidents=())
    assert (
        clean.counts[0] == 30 - 3 - 2 and clean.taken == 26
    )  # less those still open to be accused, and start-up
    accused = [replace(one, flagged=(1,)) if 10 <= one.index < 15 else one for one in seen]
    assert retain(Eras(), accused, incidents=()).counts[0] == clean.counts[0] - 5


@pytest.mark.parametrize(("is_open", "fewer"), [(True, 17), (False, 6)])
def test_windows_of_a_job_told_to_be_slow_are_not_what_is_usual(is_open: bool, fewer: int) -> None:
    seen = digests([2.0] * 30)
    slow = _told(seen, last=15, is_open=is_open)
    assert (
        retain(Eras(), seen, incidents=()).counts[0] - retain(Eras(), seen, incidents=[slow]).counts[0]
        == fewer
    )


def _told(seen: Sequence[Digest], *, last: int, is_open: bool) -> Incident:
    cause = Cause(
        fault_class="step.slower", verdict="INCONCLUSIVE", suspects=(), scope="run:r", onset_step=100
    )
    opened = open_incident(cause, run="r", attempt=0, window=14, steps_done=20, world=4)
    opened = replace(opened, last_window=last)
    return opened if is_open else resolve_incident(opened, end_step=seen[last].first_step)


@pytest.mark.slow
def test_a_job_that_grows_too_slowly_for_an_hour_is_one_incident() -> None:
    job = Job(ranks=4, steps=3000, step_s=2.5)
    leak = Fault(kind="slow_all", ranks=(0, 1, 2, 3), severity=1.15, start_step=500, grows=True)
    (found,) = play(simulate(job, [leak], rng=np.random.default_rng(2))).incidents
    assert (found.cause.fault_class, found.cause.suspects) == ("step.slower", ())
    assert found.opened_window <= 240 and 400 <= found.onset_step <= 1000
