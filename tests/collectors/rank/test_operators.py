"""The CPU twin of the kernel channel, and the user's own profiler beside it."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from itertools import pairwise

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn

from argus.collectors.hooks import cpu_operators, torch_profiler
from argus.collectors.rank.channels import Channels, period_of
from argus.collectors.rank.claims import Claims
from argus.collectors.rank.fake_receiver import FakeReceiver
from argus.collectors.rank.guard import Part
from argus.collectors.rank.operators import ENGINE, Operator, Operators, TorchProfiler, rows_of
from argus.collectors.rank.recorder import WARMUP_STEPS, Recorder
from argus.collectors.rank.ring import Ring
from argus.collectors.rank.session import Session
from argus.collectors.rank.timeline import Timeline
from argus.collectors.records.channels import is_profiled, shadowed
from argus.collectors.records.events import FLAG_PROFILED
from tests.collectors.rank.observe import observe

PERIOD = 5


class FakeProfiler:
    """Raises where the real one would: started twice, stopped when it does not run."""

    def __init__(self, found: Sequence[Operator] = ()) -> None:
        self.running = False
        self.starts = 0
        self.found = found

    def start(self) -> None:
        assert not self.running
        self.running, self.starts = True, self.starts + 1

    def stop(self) -> list[Operator]:
        assert self.running
        self.running = False
        return list(self.found)


class Rank:
    def __init__(self, *, run: str = "run", period: int = PERIOD) -> None:
        self.now_ns = 1000
        self.ring = Ring()
        self.recorder = Recorder(ring=self.ring, now_ns=lambda: self.now_ns, cpu_ns=lambda: 0)
        self.claims, self.profiler = Claims(), FakeProfiler([Operator("aten::linear", 10**6, 5)])
        self.operators = Operators(
            recorder=self.recorder,
            claims=self.claims,
            profiler=self.profiler,
            wants=lambda step: is_profiled(run, step, period=period),
        )
        self.recorder.on_step.append(self.operators.on_step)
        self.recorder.on_optimized.append(self.operators.stop)
        self.claims.on_claim(self.operators.stop)

    def run(self, num_steps: int) -> list[int]:
        """Flags of the steps that ended."""
        for _ in range(num_steps):
            self.recorder.begin_iteration()
            self.now_ns += 1000
            self.recorder.close(self.recorder.open(self.recorder.names["forward"]))
            self.recorder.end_candidate()
        self.recorder.begin_iteration()
        return [int(row[5]) for row in self.ring.take("steps")]


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(run=st.text(min_size=1, max_size=20), period=st.integers(1, 200), block=st.integers(0, 10**6))
def test_one_step_of_every_block_is_profiled(run: str, period: int, block: int) -> None:
    steps = range(block * period, (block + 1) * period)
    found = [step for step in steps if is_profiled(run, step, period=period)]
    assert len(found) <= 1 and not any(shadowed(run, step) for step in found)
    assert found or not block or any(shadowed(run, step) for step in steps)


def test_another_run_profiles_other_steps_and_zero_none() -> None:
    one, other = ([s for s in range(500) if is_profiled(run, s, period=50)] for run in "ab")
    assert one != other and len(one) == len(other) == 9  # the first fifty steps are warm-up
    assert not any(is_profiled("a", step, period=0) for step in range(200))


def test_profiled_steps_are_marked_and_so_is_the_one_that_pays() -> None:
    rank = Rank()
    flags = rank.run(40)
    profiled = [s for s in range(WARMUP_STEPS, 40) if is_profiled("run", s, period=PERIOD)]
    marked = [s for s, flag in enumerate(flags) if flag & FLAG_PROFILED]
    assert rank.profiler.starts == len(profiled)
    assert marked == sorted({*profiled, *(s + 1 for s in profiled if s + 1 < 40)})
    assert not rank.profiler.running


def test_two_ranks_mark_the_same_steps_also_when_one_cannot_profile() -> None:
    one, other = Rank(), Rank()
    other.claims.claim()
    wanted = {s for s in range(WARMUP_STEPS, 30) if is_profiled("run", s, period=PERIOD)}
    for rank in (one, other):
        assert wanted <= {s for s, flag in enumerate(rank.run(30)) if flag & FLAG_PROFILED}
    assert one.profiler.starts > 0 and other.profiler.starts == 0


def test_the_users_profiler_ends_ours_at_once() -> None:
    rank = Rank(period=1)
    rank.run(WARMUP_STEPS + 1)
    rank.recorder.begin_iteration()
    assert rank.profiler.running
    rank.claims.claim()
    assert not rank.profiler.running
    starts = rank.profiler.starts
    rank.run(3)
    assert rank.profiler.starts == starts
    rank.claims.release()
    rank.run(1)
    assert rank.profiler.starts > starts


def test_only_the_thread_that_started_it_ends_a_profile() -> None:
    rank = Rank(period=1)
    rank.run(WARMUP_STEPS + 1)
    assert rank.operators.is_running
    thread = threading.Thread(target=rank.operators.stop)
    thread.start()
    thread.join()
    assert rank.profiler.running
    rank.operators.stop()
    assert not rank.profiler.running and rank.recorder.timeline is None


def test_a_fork_ends_a_running_profile_first() -> None:
    rank = Rank(period=1)
    rank.run(WARMUP_STEPS + 1)
    assert rank.profiler.running
    pid = os.fork()
    if pid == 0:
        os._exit(1 if rank.profiler.running else 0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert not rank.profiler.running


def test_operators_become_rows_of_the_phase_they_start_in() -> None:
    ring, line = Ring(), Timeline()
    forward = ring.intern("forward")
    line.put(0, step=7, phase=forward)
    events = [
        Operator("aten::early", -50, 10),
        Operator("aten::linear", 10, 100),
        Operator("autograd::engine::evaluate_function: AddmmBackward0", 110, 30),
    ]
    rows = rows_of(events, timeline=line, intern=ring.intern)
    found = [(ring.names[row["name"]], int(row["dur_ns"])) for row in rows]
    assert found == [("aten::linear", 100), ("AddmmBackward0", 30)]
    assert set(rows["step"]) == {7} and set(rows["phase"]) == {forward}
    assert {ring.names[role] for role in rows["role"]} == {"cpu"}
    assert len(rows_of([], timeline=line, intern=ring.intern)) == 0


def test_the_real_profiler_tells_outermost_operators_also_inside_an_annotation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(cpu_operators.KINETO_LEVEL, cpu_operators.QUIET)
    x, profiler, begun_ns = torch.ones(4, 8, requires_grad=True), TorchProfiler(), time.time_ns()
    layer = nn.Linear(8, 1)
    layer(x).sum().backward()
    profiler.start()
    with torch.profiler.record_function("mine"):
        layer(x).sum().backward()
    events = sorted(profiler.stop(), key=lambda event: event.start_time_ns)
    names = [event.name for event in events]
    assert {"aten::linear", "aten::sum", ENGINE + "AddmmBackward0"} <= set(names)
    assert not {"mine", "aten::addmm", "AddmmBackward0"} & set(names)
    assert all(a.start_time_ns + a.duration_time_ns <= b.start_time_ns for a, b in pairwise(events))
    assert all(begun_ns < event.start_time_ns < time.time_ns() for event in events)


@pytest.mark.parametrize(("text", "period"), [("7", 7), ("1", 1), ("", 50), ("-3", 50), ("often", 50)])
def test_the_setting_is_a_number_of_steps_else_those_of_the_module_phases(text: str, period: int) -> None:
    channels = Channels("run", period=period_of(text))
    wanted = []
    for step in range(170):
        channels.begin(step)
        wanted += [step] if channels.is_profiled else []
    assert wanted == [step for step in range(170) if is_profiled("run", step, period=period)] != []


def operators_job(_rank: int, _world: int) -> None:
    """Thirty steps, one in five profiled; a pause at the end so that the writer has read them."""
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(30):
        model(torch.ones(4, 8)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def profiler_job(_rank: int, _world: int) -> None:
    """The user profiles steps 10 to 13 while one step in two would be profiled by us."""
    model = nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    profile = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
    for step in range(20):
        if step == 10:
            profile.start()
        model(torch.ones(4, 8)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        if step == 13:
            profile.stop()
    assert any("aten::linear" in event.key for event in profile.key_averages())


@pytest.mark.slow
def test_real_operators_of_a_real_job(
    receiver: FakeReceiver, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ARGUS_OPERATOR_STEPS", "5")
    first, second = observe(operators_job, receiver, world=2)
    flagged = [set(r.steps["step"][(r.steps["flags"] & FLAG_PROFILED) != 0]) for r in (first, second)]
    assert flagged[0] == flagged[1] and len(flagged[0]) >= 8
    assert len(first.kernels) > 0
    assert {first.name(int(role)) for role in first.kernels["role"]} == {"cpu"}
    names = {first.name(int(name)) for name in first.kernels["name"]}
    assert {"aten::linear", "AddmmBackward0"} <= names
    phases = {first.name(int(phase)) for phase in first.kernels["phase"]}
    assert {"forward", "backward", "optimizer"} <= phases
    assert set(first.kernels["step"]) <= flagged[0]
    assert "USDT" not in capfd.readouterr().err


@pytest.mark.slow
def test_the_users_profiler_works_and_marks_its_steps(
    receiver: FakeReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARGUS_OPERATOR_STEPS", "2")
    (records,) = observe(profiler_job, receiver, world=1)
    flags = records.steps["flags"][10:14]
    assert (flags & FLAG_PROFILED != 0).all()
    assert not set(records.kernels["step"]) & {11, 12, 13}
    assert set(records.kernels["step"]) & set(range(3, 10)) and set(records.kernels["step"]) & set(
        range(14, 20)
    )
    assert not records.unseen or "switched off" not in " ".join(records.unseen)


def test_nothing_is_left_behind() -> None:
    recorder = Recorder(ring=Ring(), now_ns=lambda: 0, cpu_ns=lambda: 0)
    session = Session(recorder)
    before = vars(torch.autograd.profiler)["_enable_profiler"]
    level = os.environ.get(cpu_operators.KINETO_LEVEL)
    for hook in (cpu_operators, torch_profiler):
        part = Part(hook.__name__, ring=session.ring, on_off=session.unseen)
        hook.install(session, part)
        assert recorder.on_step
        part.off()
    assert vars(torch.autograd.profiler)["_enable_profiler"] is before
    assert not recorder.on_step and not recorder.on_optimized
    assert os.environ.get(cpu_operators.KINETO_LEVEL) == level


class Breaks(FakeProfiler):
    """A profiler whose `where` raises."""

    def __init__(self, where: str) -> None:
        super().__init__()
        self.where = where

    def start(self) -> None:
        super().start()
        if self.where == "start":
            raise RuntimeError("planted")

    def stop(self) -> list[Operator]:
        found = super().stop()
        if self.where == "stop":
            raise RuntimeError("planted")
        return found if self.where != "rows" else [Operator("of no time", 2**80, 0)]


@pytest.mark.parametrize("where", ["start", "stop", "rows"])
def test_a_failure_anywhere_is_said_once_and_training_goes_on(
    where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = Breaks(where)
    monkeypatch.setattr(cpu_operators, "TorchProfiler", lambda: broken)
    now = [0]
    channels = Channels("run", has_shadows=False, period=1)
    recorder = Recorder(ring=Ring(), now_ns=lambda: now[0], cpu_ns=lambda: 0, channels=channels)
    session = Session(recorder)
    part = Part("cpu_operators", ring=session.ring, on_off=session.unseen)
    cpu_operators.install(session, part)
    for _ in range(WARMUP_STEPS + 4):
        recorder.begin_iteration()
        now[0] += 10
        recorder.close(recorder.open(recorder.names["forward"]))
        recorder.end_candidate()
        session.tick()
    assert recorder.step == WARMUP_STEPS + 3
    error = "OverflowError" if where == "rows" else "RuntimeError"
    assert len(session.notes) == 1 and error in session.notes[0]
    assert not part.is_on and not recorder.on_step and not recorder.on_optimized
    assert sum(session.ring.dropped().values()) == 1
    part.off()


def test_a_profiler_that_runs_already_when_we_come_is_respected() -> None:
    recorder = Recorder(ring=Ring(), now_ns=lambda: 0, cpu_ns=lambda: 0)
    session = Session(recorder)
    part = Part("torch_profiler", ring=session.ring, on_off=session.unseen)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        torch_profiler.install(session, part)
        assert session.claims.is_claimed
    assert not session.claims.is_claimed and session.claims.was_claimed
    part.off()


def compiled_job(_rank: int, _world: int) -> None:
    """A compiled module, compiled before the first profiled step."""
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))
    compiled = torch.compile(model, backend="eager")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(12):
        compiled(torch.ones(4, 8)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


@pytest.mark.slow
def test_a_profiled_step_compiles_nothing_anew(
    receiver: FakeReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARGUS_OPERATOR_STEPS", "2")
    (records,) = observe(compiled_job, receiver, world=1)
    kinds = [records.name(int(kind)) for kind in records.events["kind"]]
    late = records.events["step"][[kind == "compile" for kind in kinds]]
    assert len(late) and set(late.tolist()) == {0}
    assert len(records.kernels) > 0
