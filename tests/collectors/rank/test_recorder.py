"""Phases and steps on a clock that the test moves."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from argus.collectors.rank.fake_gpu import FakeStream
from argus.collectors.rank.gpu import GpuClock
from argus.collectors.rank.recorder import MEDIAN_STEPS, Recorder
from argus.collectors.rank.ring import Ring
from argus.collectors.records.events import (
    CLOCK_GPU,
    FLAG_CHECKPOINT,
    FLAG_WARMUP,
    PHASE,
    STEP,
)


@dataclass
class Bench:
    """A recorder with its clocks: `run` lets wall and CPU time pass, `sleep` wall time only."""

    gpu: GpuClock | None = None
    wall_ns: int = 1_000
    cpu_ns: int = 0
    recorder: Recorder = field(init=False)

    def __post_init__(self) -> None:
        self.recorder = Recorder(
            ring=Ring(), now_ns=lambda: self.wall_ns, cpu_ns=lambda: self.cpu_ns, gpu=self.gpu
        )

    def run(self, ns: int) -> None:
        self.wall_ns += ns
        self.cpu_ns += ns

    def sleep(self, ns: int) -> None:
        self.wall_ns += ns

    def phase(self, name: str, inside: Callable[[], None]) -> None:
        frame = self.recorder.open(self.recorder.names[name])
        inside()
        self.recorder.close(frame)

    def rows(self, kind: str) -> list[dict[str, int | float | str]]:
        dtype = {"phases": PHASE, "steps": STEP}[kind]
        names = self.recorder.ring.names
        found = []
        for row in self.recorder.ring.take(kind):
            values: dict[str, int | float | str] = dict(zip(dtype.names or (), row, strict=True))
            for column in ("name", "native"):
                if column in values:
                    values[column] = names[int(values[column])]
            found.append(values)
        return found


def one_step(bench: Bench, *, optimizers: int = 1) -> None:
    bench.recorder.begin_iteration()
    bench.phase("forward", lambda: bench.run(10))
    bench.run(1)
    bench.recorder.begin_iteration()
    bench.phase("backward", lambda: bench.run(20))
    bench.sleep(3)
    for _ in range(optimizers):
        bench.phase("optimizer", lambda: bench.run(5))
        bench.recorder.end_candidate()


def test_outermost_phases_add_up_to_the_step() -> None:
    bench = Bench()
    for _ in range(3):
        one_step(bench)
        bench.run(4)
    bench.recorder.finish()
    steps, phases = bench.rows("steps"), bench.rows("phases")
    assert [row["step"] for row in steps] == [0, 1, 2]
    assert all(row["flags"] == FLAG_WARMUP for row in steps)
    for row in steps:
        inside = [p for p in phases if p["step"] == row["step"] and p["depth"] == 0]
        assert sum(int(p["dur_ns"]) for p in inside) == int(row["end_ns"]) - int(row["start_ns"])
        assert sum(int(p["cpu_ns"]) for p in inside) == row["cpu_ns"]
        assert sorted({str(p["name"]) for p in inside}) == ["backward", "forward", "optimizer", "other"]


def test_the_step_ends_with_the_last_optimizer_before_the_next_forward() -> None:
    bench = Bench()
    one_step(bench, optimizers=2)
    end_ns = bench.wall_ns
    bench.run(50)  # what follows belongs to the next step
    one_step(bench)
    [step] = bench.rows("steps")
    assert step["end_ns"] == end_ns
    assert {row["step"] for row in bench.rows("phases") if row["name"] == "optimizer"} == {0, 1}


def test_a_phase_between_the_steps_end_and_the_next_forward_is_of_the_next_step() -> None:
    bench = Bench()
    one_step(bench)
    bench.phase("data", lambda: bench.sleep(7))
    one_step(bench)
    [data] = [row for row in bench.rows("phases") if row["name"] == "data"]
    assert (data["step"], data["dur_ns"], data["cpu_ns"]) == (1, 7, 0)


def test_argus_step_takes_over_the_steps_end_and_keeps_the_users_number() -> None:
    bench = Bench()
    for number in (100, 101):
        one_step(bench)
        bench.run(9)
        bench.recorder.user_step(number)
    steps = bench.rows("steps")
    assert [(row["step"], row["user_step"]) for row in steps] == [(0, 100), (1, 101)]
    assert steps[1]["start_ns"] == steps[0]["end_ns"]
    assert int(steps[1]["end_ns"]) - int(steps[1]["start_ns"]) == 48


def test_nested_phases_have_depth_and_only_the_outermost_count() -> None:
    bench = Bench()
    bench.phase("backward", lambda: bench.phase("grad_sync", lambda: bench.sleep(5)))
    inner, outer = bench.rows("phases")
    assert (inner["name"], inner["depth"], outer["name"], outer["depth"]) == ("grad_sync", 1, "backward", 0)


def test_a_users_wrapper_around_known_phases_is_not_counted_twice() -> None:
    bench = Bench()
    bench.phase("other", lambda: one_step(bench))
    bench.phase("other", lambda: bench.run(2))
    depths = [row["depth"] for row in bench.rows("phases") if row["name"] == "other"]
    assert depths == [1, 0]


def test_waiting_is_counted_in_every_phase_around_it() -> None:
    bench = Bench()

    def wait() -> None:
        bench.run(2)
        bench.sleep(6)
        bench.recorder.here().wait_ns += 6

    bench.phase("backward", lambda: bench.phase("grad_sync", wait))
    assert [(row["dur_ns"], row["wait_ns"], row["cpu_ns"]) for row in bench.rows("phases")] == [(8, 6, 2)] * 2


def test_consecutive_calls_outside_of_phases_are_one_phase() -> None:
    bench = Bench()
    recorder, here = bench.recorder, bench.recorder.here()
    for _ in range(3):
        recorder.comm_enter(here, name=recorder.names["grad_sync"], native=0)
        bench.sleep(10)
        here.wait_ns += 10
        recorder.comm_leave(here, end_ns=bench.wall_ns, cpu_ns=bench.cpu_ns)
        bench.run(1)
    bench.phase("optimizer", lambda: bench.run(5))
    sync, _ = bench.rows("phases")
    assert (sync["name"], sync["depth"], sync["dur_ns"], sync["wait_ns"]) == ("grad_sync", 0, 32, 30)


def test_flags_stay_on_the_step_that_holds_the_mark() -> None:
    bench = Bench()
    for number in range(5):
        one_step(bench)
        if number == 3:
            bench.recorder.flag(FLAG_CHECKPOINT)  # after step 3's end: in step 4
    bench.recorder.finish()
    flagged = [row["step"] for row in bench.rows("steps") if int(row["flags"]) & FLAG_CHECKPOINT]
    assert flagged == [4]


def test_closing_what_is_not_open_changes_nothing() -> None:
    bench = Bench()
    frame = bench.recorder.open(bench.recorder.names["forward"])
    inner = bench.recorder.open(bench.recorder.names["other"])
    bench.recorder.close(frame)
    bench.recorder.close(inner)
    assert [row["name"] for row in bench.rows("phases")] == ["forward"]


def test_another_threads_phases_never_add_to_the_step() -> None:
    bench = Bench()
    thread = threading.Thread(target=lambda: bench.phase("data", lambda: bench.run(3)))
    thread.start()
    thread.join()
    [row] = bench.rows("phases")
    assert row["depth"] == 1


def test_status_says_what_is_open() -> None:
    bench = Bench()
    for _ in range(2):
        one_step(bench)
    bench.recorder.open(bench.recorder.names["data"])
    status = bench.recorder.status({"0": (4, 3)})
    assert (status.step, status.phase, status.groups) == (2, "data", {"0": (4, 3)})
    assert status.step_p50_ns == 39


def test_gpu_phases_are_delivered_later_on_the_hosts_clock() -> None:
    bench = Bench()
    stream = FakeStream(gpu_now_ns=lambda: bench.wall_ns - 500)
    bench = Bench(
        gpu=GpuClock(
            new_event=stream.new_event, is_capturing=lambda: stream.capturing, now_ns=lambda: bench.wall_ns
        )
    )
    gpu = bench.recorder.gpu
    assert gpu is not None

    def launch() -> None:
        bench.run(3)
        stream.launch(1000)

    bench.phase("forward", launch)
    gpu.poll()
    assert bench.rows("phases") == []
    stream.pass_until_ns = stream.busy_until_ns
    gpu.poll()
    [row] = bench.rows("phases")
    assert (row["clock"], row["dur_ns"], row["start_ns"]) == (CLOCK_GPU, 1003, 1000)


def test_on_a_gpu_backward_waits_from_its_last_bucket_to_its_end() -> None:
    host = [1000]
    stream = FakeStream(gpu_now_ns=lambda: host[0])
    gpu = GpuClock(new_event=stream.new_event, is_capturing=lambda: False, now_ns=lambda: host[0])
    bench = Bench(gpu=gpu)
    frame = bench.recorder.open(bench.recorder.names["backward"])
    assert frame is not None
    for kernel_ns in (100, 200):
        stream.launch(kernel_ns)
        bench.recorder.bucket_ready()
    stream.launch(50)  # the stream stands until the last all-reduce is done
    frame.wait_stamp, bench.recorder.last_bucket = bench.recorder.last_bucket, None
    bench.recorder.close(frame)
    stream.pass_until_ns = 1 << 62
    gpu.poll()
    [row] = bench.rows("phases")
    assert (row["dur_ns"], row["wait_ns"]) == (350, 50)


def test_events_of_phases_that_end_out_of_order_or_untimed_are_used_again() -> None:
    host = [1000]
    stream = FakeStream(gpu_now_ns=lambda: host[0], pass_until_ns=1 << 62)
    gpu = GpuClock(new_event=stream.new_event, is_capturing=lambda: stream.capturing, now_ns=lambda: host[0])
    recorder = Bench(gpu=gpu).recorder
    for _ in range(50):
        host[0] += 1_000
        outer = recorder.open(recorder.names["backward"])
        assert outer is not None
        recorder.open(recorder.names["other"])  # left open inside
        recorder.bucket_ready()
        outer.wait_stamp, recorder.last_bucket = recorder.last_bucket, None
        stream.capturing = True  # no event for its end
        recorder.close(outer)
        stream.capturing = False
        recorder.bucket_ready()  # of no backward that is seen
        recorder.forget_bucket()
        gpu.poll()
    assert len(stream.events) <= 4


def test_nothing_is_put_on_a_stream_that_is_being_captured() -> None:
    bench = Bench()
    stream = FakeStream(gpu_now_ns=lambda: bench.wall_ns, capturing=True)
    bench = Bench(
        gpu=GpuClock(
            new_event=stream.new_event, is_capturing=lambda: stream.capturing, now_ns=lambda: bench.wall_ns
        )
    )
    bench.phase("forward", lambda: bench.run(5))
    assert stream.events == []
    assert [row["clock"] for row in bench.rows("phases")] == [0]


def test_the_writer_thread_may_look_at_any_moment() -> None:
    """Every reading of a clock is a moment at which the other thread may run."""
    looks: list[str] = []
    is_looking = False

    def clock() -> int:
        nonlocal is_looking
        if not is_looking:
            is_looking = True
            looks.append(recorder.status({}).phase)
            is_looking = False
        return 1_000 + len(looks)

    recorder = Recorder(ring=Ring(), now_ns=clock, cpu_ns=clock)
    for _ in range(2 * MEDIAN_STEPS):
        recorder.begin_iteration()
        frame = recorder.open(recorder.names["forward"])
        recorder.close(frame)
        recorder.comm_enter(recorder.here(), name=recorder.names["other"], native=0)
        recorder.comm_leave(recorder.here(), end_ns=clock(), cpu_ns=clock())
        recorder.end_candidate()
    assert {"", "forward", "other"} >= set(looks) and "forward" in looks
    assert recorder.status({}).step_p50_ns > 0


@pytest.mark.parametrize("moment", range(1, 27))
def test_a_collector_that_fails_on_the_writer_thread_may_do_so_at_any_moment(moment: int) -> None:
    """Whatever the other thread forgets between two readings of a clock, nothing raises, which would end a sound part,
    and the step after it is recorded as ever."""
    reads = 0

    def clock() -> int:
        nonlocal reads
        reads += 1
        if reads == moment:
            recorder.forget_open()
        return 1_000 + reads

    recorder = Recorder(ring=Ring(), now_ns=clock, cpu_ns=clock)
    names, here = recorder.names, recorder.here()
    for _ in range(2):
        recorder.begin_iteration()
        outer = recorder.open(names["forward"])
        recorder.open(names["other"])
        recorder.detail(names["grad_sync"], 0, start_ns=1, end_ns=2)
        recorder.close(outer)
        recorder.comm_enter(here, name=names["other"], native=0)
        recorder.comm_leave(here, end_ns=clock(), cpu_ns=clock())
        recorder.end_candidate()
    assert reads >= moment, "the other thread never ran"
    recorder.ring.take("phases")
    recorder.begin_iteration()
    recorder.close(recorder.open(names["optimizer"]))
    recorder.end_candidate()
    recorder.finish()
    rows = [dict(zip(PHASE.names or (), row, strict=True)) for row in recorder.ring.take("phases")]
    told = [(row["step"], row["depth"]) for row in rows if row["name"] == names["optimizer"]]
    assert told == [(2, 0)] and len(recorder.ring.take("steps")) == 3
