"""Stacks: which to take, how one is taken from a real process, what leaves the host."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argus.collectors.host.counters import Counters
from argus.collectors.host.fake_host import HOST
from argus.collectors.host.fake_host import start as start_host
from argus.collectors.host.fake_service import FakeService, serve
from argus.collectors.host.governor import Governor
from argus.collectors.host.notices import Notices
from argus.collectors.host.observers import Observers
from argus.collectors.host.process import Process
from argus.collectors.host.pyspy import Finished, PyThread, find_pyspy, take_dump
from argus.collectors.host.rank import RankState
from argus.collectors.host.ranks import Member
from argus.collectors.host.stack_plan import (
    MAX_SAVED,
    OpenStep,
    Request,
    StackPlan,
    open_steps,
)
from argus.collectors.host.stack_taker import StackTaker
from argus.collectors.host.threads import Task, fold, join_threads, read_children, read_tasks
from argus.collectors.readers.recording import read
from argus.collectors.records.errors import WireError
from argus.collectors.records.frames import Kind
from argus.collectors.records.heartbeat import COMPILING, Status
from argus.collectors.records.layout import Layout
from argus.collectors.records.plan import WindowPlan
from argus.collectors.records.stacks import MAX_STACK, StackDump, Thread, decode_stacks, encode_stacks

TARGET = """
import sys, threading, time
def hold_the_lock():
    print("up", flush=True)
    time.sleep(60)
def side():
    time.sleep(60)
threading.Thread(target=side, name="side", daemon=True).start()
hold_the_lock()
"""


def step(rank: int, *, open_s: float = 0.1, median_s: float = 1.0, attempt: int = 0) -> OpenStep:
    return OpenStep(key=("run", attempt, rank), pid=100 + rank, step=7, open_s=open_s, median_s=median_s)


def asked(requests: Sequence[Request]) -> list[tuple[int, str]]:
    return [(request.rank.key[2], request.reason) for request in requests]


@pytest.fixture
def target() -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen([sys.executable, "-c", TARGET], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "up\n"
    yield process
    process.kill()
    process.communicate()


def test_every_rank_is_dumped_once_a_minute_not_all_at_once() -> None:
    plan = StackPlan()
    per_second = [asked(plan.due([step(rank) for rank in range(8)], now_s=float(s))) for s in range(121)]
    counts = [sum((rank, "baseline") in due for due in per_second) for rank in range(8)]
    assert counts == [2] * 8 and max(map(len, per_second)) == 1


def test_a_slow_open_step_brings_that_rank_and_two_peers_each_second_until_it_ends() -> None:
    plan = StackPlan()
    ranks = [step(rank) for rank in range(8)]
    slow = [replace(r, open_s=1.6) if r.key[2] == 3 else r for r in ranks]
    assert asked(plan.due(ranks, now_s=0.0)) == []
    for second in (1.0, 2.0, 3.0):
        assert asked(plan.due(slow, now_s=second)) == [(3, "slow_step"), (2, "peer"), (4, "peer")]
    assert asked(plan.due(ranks, now_s=4.0)) == []


def test_peers_are_of_the_same_attempt_and_not_slow_themselves_if_there_are_others() -> None:
    plan = StackPlan()
    ranks = [step(0, open_s=2.0), step(1, open_s=2.0), step(2), step(3), step(1, attempt=1)]
    due = plan.due(ranks, now_s=0.0)
    assert {(r.rank.key[1:], r.reason) for r in due} == {
        ((0, 0), "slow_step"),
        ((0, 1), "slow_step"),
        ((0, 2), "peer"),
        ((0, 3), "peer"),
    }


def test_the_budget_holds_when_all_are_slow_and_still_reaches_every_rank() -> None:
    plan = StackPlan()
    ranks = [step(rank, open_s=9.0) for rank in range(64)]
    due = [asked(plan.due(ranks, now_s=float(s))) for s in range(60)]
    assert sum(map(len, due)) <= MAX_SAVED + 4 * 60
    assert {rank for one in due for rank, _ in one} == set(range(64)) and plan.skipped > 0


def test_a_burst_ends_and_an_unknown_median_is_never_slow() -> None:
    plan = StackPlan()
    ranks = [step(0, open_s=99.0, median_s=0.0)]
    plan.burst([("run", 0, 0)], seconds=3.0, is_native=True, now_s=0.0)
    due = [plan.due(ranks, now_s=float(s)) for s in range(6)]
    assert [len(one) for one in due] == [1, 1, 1, 0, 0, 0]
    assert all(one[0].is_native and one[0].count == 1 and one[0].reason == "burst" for one in due[:3])


def member(*, step: int, open_s: float, p50_s: float, mark: str = "") -> Member:
    layout = Layout(run="run", attempt=0, rank=0, world_size=1, pid=os.getpid())
    state = RankState(layout, plan=WindowPlan(), now_s=100.0)
    state.status_s = 100.0
    ts = 10**18
    state.status = Status(
        ts_ns=ts, step=step, step_since_ns=ts - int(open_s * 1e9), step_p50_ns=int(p50_s * 1e9), in_mark=mark
    )
    return Member(state=state, process=Process(os.getpid()), letter="R")


def test_what_is_open_is_judged_when_it_was_said_and_silence_counts_only_when_it_is_real() -> None:
    (now,) = open_steps([member(step=5, open_s=0.2, p50_s=0.3)], now_s=101.0)
    assert not now.is_slow and now.open_s == pytest.approx(0.2)
    (silent,) = open_steps([member(step=5, open_s=0.2, p50_s=0.3)], now_s=103.0)
    assert silent.is_slow and silent.open_s == pytest.approx(3.2)
    (marked,) = open_steps([member(step=5, open_s=9.0, p50_s=0.3, mark="checkpoint")], now_s=100.0)
    assert not marked.is_slow
    (compiling,) = open_steps([member(step=5, open_s=9.0, p50_s=0.3, mark=COMPILING)], now_s=100.0)
    assert compiling.is_slow  # what is compiled, and why again, stands in its stacks


@pytest.mark.slow
def test_a_real_process_shows_its_threads(target: subprocess.Popen[str]) -> None:
    dump = take_dump(target.pid, program=find_pyspy())
    assert dump.error == "", dump.detail
    threads = join_threads(target.pid, dump.threads, tasks=read_tasks(target.pid), children={})
    main, side = threads[0], next(thread for thread in threads if thread.name == "side")
    assert main.kind == "main" and main.state == "S" and "hold_the_lock" in main.stack.split(";")[-1]
    assert side.kind == "other" and side.stack.split(";")[-1].startswith("side (")


@pytest.mark.slow
def test_a_stopped_process_is_still_read_also_when_native_frames_are_wanted(
    target: subprocess.Popen[str],
) -> None:
    target.send_signal(signal.SIGSTOP)
    while read_tasks(target.pid)[target.pid].state != "T":
        time.sleep(0.01)
    taker = StackTaker(host=HOST, counters=Counters(), program=find_pyspy(), wall_clock=lambda: 5.0)
    rank = OpenStep(key=("run", 0, 0), pid=target.pid, step=3, open_s=1.0, median_s=0.1)
    dump = taker.dump(Request(rank=rank, reason="burst", is_native=True))
    assert (dump.error, dump.is_native, dump.threads[0].state) == ("", False, "T")
    assert "hold_the_lock" in dump.threads[0].stack


@pytest.mark.slow
def test_native_frames_come_in_bursts(target: subprocess.Popen[str]) -> None:
    taker = StackTaker(host=HOST, counters=Counters(), program=find_pyspy(), wall_clock=lambda: 5.0)
    rank = OpenStep(key=("run", 0, 0), pid=target.pid, step=3, open_s=1.0, median_s=0.1)
    dump = taker.dump(Request(rank=rank, reason="burst", is_native=True))
    assert dump.is_native and dump.error == "" and "hold_the_lock" in dump.threads[0].stack


@pytest.mark.parametrize(
    ("done", "error", "num_runs"),
    [
        (Finished(code=None), "timeout", 1),
        (Finished(code=1, err="Permission Denied: Try running again"), "denied", 1),
        (Finished(code=1, err="No such file or directory (os error 2)"), "gone", 1),
        (Finished(code=1, err="Failed to get stack traces"), "no_answer", 2),
        (Finished(code=0, out="not json"), "no_answer", 2),
        (Finished(code=0, out='[{"frames": 3}]'), "no_answer", 2),
    ],
)
def test_a_process_that_does_not_answer_is_a_recorded_fact(done: Finished, error: str, num_runs: int) -> None:
    runs: list[Sequence[str]] = []

    def run(command: Sequence[str], _timeout_s: float) -> Finished:
        runs.append(command)
        return done

    assert take_dump(1, program="py-spy", run=run).error == error and len(runs) == num_runs


def test_without_pyspy_the_reason_is_said() -> None:
    assert take_dump(1, program=None).error == "not_installed"


@pytest.mark.parametrize(
    ("name", "comm", "frames", "kind"),
    [
        ("", "pt_autograd_0", (), "autograd"),
        ("argus-writer", "python", (), "argus"),
        ("Thread-1", "pt_data_pin", (), "loader"),
        ("Thread-1", "python", ("f (torch/utils/data/_utils/pin_memory.py:1)",), "loader"),
        ("QueueFeederThread", "python", ("f (multiprocessing/queues.py:1)",), "loader"),
        ("Thread-1", "python", ("f (a.py:1)",), "other"),
    ],
)
def test_threads_are_classified(name: str, comm: str, frames: tuple[str, ...], kind: str) -> None:
    python = PyThread(tid=11, name=name, has_gil=True, is_active=True, frames=frames)
    tasks = {
        11: Task(comm=comm, state="D", wchan="nfs_wait"),
        12: Task(comm="pt_nccl_watchdg", state="S", wchan=""),
    }
    threads = join_threads(10, [python], tasks=tasks, children={})
    assert [(t.kind, t.state) for t in threads] == [(kind, "D"), ("watchdog", "S")]
    assert threads[0].wchan == "nfs_wait" and threads[0].has_gil


def test_loader_workers_are_child_processes(tmp_path: Path) -> None:
    for pid in (5, 6):
        task = tmp_path / str(pid) / "task" / str(pid)
        task.mkdir(parents=True)
        for place in (task, tmp_path / str(pid)):
            (place / "stat").write_text(f"{pid} (py (x)) D 1 2")
            (place / "wchan").write_text("nfs_wait")
    (tmp_path / "5" / "task" / "5" / "children").write_text("6 ")
    children = read_children(5, root=tmp_path)
    (thread,) = join_threads(9, [], tasks={}, children=children)
    assert (thread.kind, thread.state, thread.wchan, thread.name) == (
        "loader",
        "D",
        "nfs_wait",
        "process 6 py (x)",
    )


def test_a_stack_too_long_keeps_its_inner_frames() -> None:
    text = fold([f"frame{i} (file.py:{i})" for i in range(2000)])
    assert len(text) <= MAX_STACK and text.startswith("…;frame") and text.endswith("frame1999 (file.py:1999)")


DUMP = StackDump(
    run="run",
    attempt=0,
    rank=1,
    host="h",
    ts_s=5.0,
    step=3,
    reason="slow_step",
    threads=(Thread(kind="main", stack="a;b"), Thread(kind="other", stack="a;b")),
)


def test_equal_stacks_travel_once() -> None:
    raw = json.loads(json.dumps(encode_stacks([DUMP, replace(DUMP, rank=2)])))
    assert raw["stacks"] == ["a;b"] and decode_stacks(raw) == (DUMP, replace(DUMP, rank=2))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(key=st.sampled_from(sorted(encode_stacks([DUMP])["dumps"][0])), value=json_values)
def test_any_value_in_a_dump_is_taken_or_refused(key: str, value: object) -> None:
    raw = encode_stacks([DUMP])
    raw["dumps"][0][key] = value
    try:
        (dump,) = decode_stacks(raw)
    except WireError:
        return
    assert dump.reason in ("baseline", "slow_step", "peer", "burst") and dump.host.isprintable()


def test_control_characters_do_not_get_through() -> None:
    raw = encode_stacks([replace(DUMP, threads=(Thread(kind="main", stack="a\x1b[2J;b"),))])
    (dump,) = decode_stacks(raw)
    assert dump.threads[0].stack.isprintable()


@pytest.mark.slow
def test_a_stalled_rank_is_dumped_and_reaches_the_service(tmp_path: Path) -> None:
    def observers(counters: Counters, notices: Notices) -> Observers:
        taker = StackTaker(host=HOST, counters=counters, program=find_pyspy(), wall_clock=time.time)
        it = Observers(host=HOST, stacks=taker, watch=None, counters=counters, notices=notices)
        it.start()
        return it

    with serve(FakeService()) as service:
        host = start_host(tmp_path, url=service.url, observers=observers)
        rank = host.connect(3)
        rank.play(0, 5)
        body = Status(ts_ns=10**18, step=5, step_since_ns=10**18 - 10**9, step_p50_ns=10**8).to_json()
        rank.send(Kind.STATUS, body)
        try:
            assert service.wait_for(lambda s: any(d.reason == "slow_step" and not d.error for d in s.stacks))
        finally:
            host.stop()
    dump = next(d for d in service.stacks if d.reason == "slow_step" and not d.error)
    assert (dump.rank, dump.step, dump.host) == (3, 5, HOST) and dump.open_s > 0.9
    assert any("test_host_stacks.py" in thread.stack for thread in dump.threads)
    assert host.counters.get("argus_collector_stack_dumps_total", "ok") >= 1


class HeldTaker(StackTaker):
    """Its dumps come when the test lets them."""

    def __init__(self, counters: Counters) -> None:
        super().__init__(host=HOST, counters=counters, program=None, wall_clock=lambda: 5.0)
        self.begun, self.go = threading.Event(), threading.Event()
        self.last_error = ""

    def dump(self, request: Request) -> StackDump:
        self.begun.set()
        assert self.go.wait(20.0)
        return super().dump(request)


def test_a_dump_that_outlasts_its_rank_is_in_the_recording_as_it_is_at_the_service(tmp_path: Path) -> None:
    takers: list[HeldTaker] = []

    def observers(counters: Counters, notices: Notices) -> Observers:
        takers.append(HeldTaker(counters))
        it = Observers(
            host=HOST, stacks=takers[0], watch=None, counters=counters, notices=notices, is_taped=True
        )
        it.start()
        return it

    with serve(FakeService()) as service:
        host = start_host(tmp_path, url=service.url, observers=observers, record_bytes=1 << 20)
        rank = host.connect(3)
        rank.play(0, 5)
        late = Status(ts_ns=10**18, step=5, step_since_ns=10**18 - 10**9, step_p50_ns=10**8)
        rank.send(Kind.STATUS, late.to_json())
        assert takers[0].begun.wait(10.0)
        rank.bye()
        assert service.wait_for(lambda s: any(beat.state == "ended" for beat in s.beats))
        time.sleep(0.5)  # ten seconds of the processor: the end is acknowledged more than once
        takers[0].go.set()
        assert host.wait_for(lambda: not len(host.ranks))
        host.stop()
    (reading,) = read(tmp_path / "rec" / "rank-3.argus")
    kept = {(dump.reason, dump.step) for dump in reading.records.stacks}
    assert kept == {(dump.reason, dump.step) for dump in service.stacks} and ("slow_step", 5) in kept


class FakeTaker(StackTaker):
    """Takes requests, dumps nothing; `last_error` is what the test says."""

    def __init__(self) -> None:
        super().__init__(host=HOST, counters=Counters(), program="py-spy", wall_clock=lambda: 0.0)
        self.asked: list[Request] = []

    def submit(self, requests: Sequence[Request]) -> None:
        self.asked += requests


@pytest.mark.parametrize(
    ("error", "reasons"), [("", {"slow_step"}), ("denied", set()), ("not_installed", set())]
)
def test_where_dumps_cannot_be_they_are_not_asked_for_and_it_is_said_once(
    error: str, reasons: set[str]
) -> None:
    taker, said = FakeTaker(), list[str]()
    taker.last_error = error
    observers = Observers(
        host=HOST, stacks=taker, watch=None, counters=Counters(), notices=Notices(said.append)
    )
    for now_s in (101.0, 102.0):
        observers.look(
            [member(step=5, open_s=9.0, p50_s=0.3)], is_off=Governor(counters=Counters()).is_off, now_s=now_s
        )
    assert {request.reason for request in taker.asked} == reasons
    assert len(said) == bool(error) and observers.parts()["stacks"] == (error or "ok")


@pytest.mark.parametrize("error", [RuntimeError("can't start new thread"), KeyError("frames")])
def test_a_taker_survives_what_a_dump_may_raise(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def fail(_request: Request) -> StackDump:
        raise error

    counters = Counters()
    taker = StackTaker(host=HOST, counters=counters, program="py-spy", wall_clock=lambda: 0.0)
    monkeypatch.setattr(taker, "dump", fail)
    taker.start()
    taker.submit([Request(rank=step(rank), reason="burst") for rank in range(3)])
    taker._queue.put(None)
    taker._thread.join(10.0)
    assert counters.get("argus_collector_stack_dumps_total", "error") == 3 and not taker.take()
