"""The kernel channel on a fake CUPTI: start, pressure, rivals, the end."""

from __future__ import annotations

import os

import numpy as np
import pytest

from argus.collectors.rank.claims import Claims
from argus.collectors.rank.cupti import channel as module
from argus.collectors.rank.cupti.anchor import PERIOD_NS, Anchor
from argus.collectors.rank.cupti.channel import OFF_EVENT, RESIDUAL_EVENT, Channel
from argus.collectors.rank.cupti.fake import STAND_IN, FakeCupti, FakeGpu, stand_in_module
from argus.collectors.rank.cupti.join import Joiner
from argus.collectors.rank.cupti.path import ObjectPath, Path
from argus.collectors.rank.cupti.pool import Pool
from argus.collectors.rank.cupti.raw import RawPath
from argus.collectors.rank.guard import Part
from argus.collectors.rank.recorder import Recorder
from argus.collectors.rank.ring import Ring
from argus.collectors.rank.timeline import CallSpans, Timeline
from argus.collectors.records.events import KERNEL, Rows
from argus.collectors.records.launch_series import HOST_GAP, LATENCY

STEP_NS = 10_000_000
AHEAD_NS = 5_000_000_000  # CUPTI's clock against the host's


class Rank:
    """A rank whose steps launch kernels; host time is `now_ns`."""

    def __init__(self, *, how: str = "raw", num_buffers: int = 8, num_bytes: int = 1 << 16) -> None:
        self.now_ns = 1_000_000_000
        self.gpu = FakeGpu(dtypes=STAND_IN)
        self.cupti = FakeCupti(self.gpu, now_ns=lambda: self.now_ns + AHEAD_NS)
        self.ring = Ring()
        self.recorder = Recorder(ring=self.ring, now_ns=lambda: self.now_ns, cpu_ns=lambda: 0)
        timeline = self.recorder.timeline = Timeline()
        self.claims, self.notes = Claims(), list[str]()
        self.pool = Pool(num_buffers=num_buffers, num_bytes=num_bytes)
        self.channel = Channel(
            api=self.cupti,
            path=self.path(how),
            fallback=lambda: ObjectPath(self.cupti),
            joiner=Joiner(
                ring=self.ring,
                timeline=timeline,
                calls=CallSpans(),
                shorten=str,
                group_kind=lambda _index: "dp",
            ),
            recorder=self.recorder,
            claims=self.claims,
            unseen=self.notes.append,
            anchor=Anchor(now_ns=lambda: self.now_ns, cupti_ns=self.cupti.now_ns),
        )
        self.claims.on_claim(self.channel.step_aside)

    def path(self, how: str) -> Path:
        if how == "objects":
            return ObjectPath(self.cupti)
        return RawPath(self.cupti, module=stand_in_module(lambda: self.cupti), pool=self.pool)

    def step(self, *, num_kernels: int = 4) -> None:
        """A forward that launches kernels, then an optimizer."""
        self.recorder.begin_iteration()
        frame = self.recorder.open(self.recorder.names["forward"])
        for _ in range(num_kernels):
            self.now_ns += 100_000
            if self.cupti.is_enabled:
                self.gpu.launch("gemm", at_ns=self.now_ns + AHEAD_NS, dur_ns=50_000)
        self.now_ns += STEP_NS - 100_000 * num_kernels
        self.recorder.close(frame)
        self.recorder.end_candidate()

    def run(self, num_steps: int) -> None:
        for _ in range(num_steps):
            self.step()
            self.channel.tick()
            self.channel.parse()

    def rows(self, kind: str = "kernels") -> Rows:
        blocks = []
        while (block := self.ring.take_block(kind)) is not None:
            blocks.append(block)
        return np.concatenate(blocks) if blocks else np.empty(0, KERNEL)

    def events(self, kind: str) -> list[tuple[float, ...]]:
        wanted = self.ring.intern(kind)
        return [tuple(row) for row in self.ring.rows["events"] if row[1] == wanted]


@pytest.mark.parametrize("how", ["raw", "objects"])
def test_every_kernel_arrives_with_its_step_phase_and_host_time(how: str) -> None:
    rank = Rank(how=how)
    rank.channel.tick()
    rank.run(10)
    rank.channel.stop()
    rows = rank.rows()
    assert np.bincount(rows["step"]).tolist() == [4] * 10
    assert set(rows["phase"]) == {rank.recorder.names["forward"]}
    assert (rows["dur_ns"] == 50_000).all()
    assert (rows["start_ns"] - rows["launch_ns"] == 3000).all()
    assert rows["launch_ns"].min() == 1_000_000_000 + 100_000  # back on the host's clock
    assert not rank.ring.dropped() and not rank.notes


def test_raw_and_objects_give_the_same_rows() -> None:
    ranks = [Rank(how=how) for how in ("raw", "objects")]
    for rank in ranks:
        rank.channel.tick()
        rank.run(6)
        rank.channel.stop()
    one, other = (rank.rows() for rank in ranks)
    assert len(one) == 24 and one.tolist() == other.tolist()


def test_each_step_has_a_launch_latency_and_a_host_gap() -> None:
    rank = Rank()
    rank.channel.tick()
    rank.run(5)
    rank.channel.stop()
    rows = rank.rows("events")
    gaps = rows[rows["kind"] == rank.ring.intern(HOST_GAP)]
    latency = rows[rows["kind"] == rank.ring.intern(LATENCY)]
    assert gaps["step"].tolist() == latency["step"].tolist() == list(range(5))
    assert (latency["dur_ns"] == 3000).all() and (latency["value"] == 3000).all()
    # 50 µs of every 100 µs between the first launch and the end of the last of four kernels.
    assert np.allclose(gaps["value"], 150 / 350)


def test_under_pressure_records_are_dropped_and_counted() -> None:
    rank = Rank(num_buffers=1, num_bytes=1024)
    rank.channel.tick()
    rank.step(num_kernels=50)
    rank.channel.tick()
    rank.channel.parse()
    dropped = rank.ring.dropped()
    assert dropped["kernel_buffers"] >= 1
    rank.channel.stop()
    assert len(rank.rows()) + rank.ring.dropped()["kernel_cupti"] // 2 >= 48
    assert rank.pool.num_free == 1


def test_a_rival_is_left_alone_and_followed() -> None:
    rank = Rank()
    rank.cupti.rival = True
    rank.channel.tick()
    assert not rank.channel.is_on and "register" not in rank.cupti.calls
    assert rank.notes == ["kernels: another CUPTI client is at work"]
    rank.cupti.rival = False
    rank.run(3)
    assert not rank.channel.is_on  # not before the pause is over
    rank.now_ns += module.RETRY_NS
    rank.run(3)
    assert rank.channel.is_on
    rank.channel.stop()
    assert set(rank.rows()["step"]) == {4, 5}
    assert len(rank.events(OFF_EVENT)) == 1


def test_a_profiler_of_the_user_goes_first() -> None:
    rank = Rank()
    rank.channel.tick()
    rank.run(3)
    rank.claims.claim()
    assert not rank.cupti.is_enabled and rank.notes == ["kernels while torch.profiler runs"]
    rank.run(3)
    assert not rank.cupti.is_enabled
    rank.cupti.rival = True  # Kineto keeps its subscription
    rank.claims.release()
    rank.run(3)
    rank.channel.stop()
    assert rank.channel.counts.registrations == 2
    assert sorted(set(rank.rows()["step"])) == [0, 1, 2, 7, 8]
    (off,) = rank.events(OFF_EVENT)
    assert off[3] == 4 * STEP_NS


def test_callbacks_are_registered_once_while_nobody_replaces_them() -> None:
    rank = Rank()
    for _ in range(3):
        rank.run(2)
        rank.channel.pause(is_paused=True)
        rank.run(2)
        assert not rank.cupti.is_enabled
        rank.channel.pause(is_paused=False)
    assert rank.cupti.calls.count("register") == 1


def test_a_client_that_replaces_our_callbacks_is_noticed() -> None:
    rank = Rank()
    rank.run(3)
    rank.cupti.displace()
    rank.run(module.SILENT_STEPS)
    assert rank.channel.is_on
    rank.now_ns += module.SILENT_NS
    rank.run(1)
    assert not rank.channel.is_on
    assert rank.notes == ["kernels: another CUPTI client took over the records"]
    rank.now_ns += module.RETRY_NS
    rank.run(4)
    assert rank.channel.is_on and rank.cupti.calls.count("register") == 2


@pytest.mark.parametrize("call", ["register", "enable", "now", "rival"])
def test_a_refusal_is_said_and_tried_again(call: str) -> None:
    rank = Rank()
    rank.cupti.refuses = call
    rank.run(2)
    assert not rank.channel.is_on and len(rank.notes) == 1 and call in rank.notes[0]
    assert not rank.cupti.is_enabled
    rank.cupti.refuses = ""
    rank.now_ns += module.RETRY_NS
    rank.run(2)
    assert rank.channel.is_on


def test_a_layout_that_does_not_hold_falls_back_to_objects() -> None:
    rank = Rank()
    rank.cupti.hops = lambda buffer: [0, 8]  # type: ignore[method-assign]
    rank.run(3)
    assert rank.channel.path.name == "objects" and rank.channel.is_on
    assert rank.notes[0].startswith("kernels: read as objects")
    assert rank.ring.dropped() == {"kernel_unreadable": 1}
    rank.run(3)
    rank.channel.stop()
    assert sorted(set(rank.rows()["step"]))[-3:] == [3, 4, 5]


def test_the_clock_is_anchored_again_and_the_residual_told() -> None:
    rank = Rank()
    rank.run(2)
    drift_ns = 700
    rank.cupti.clock_ns = lambda: rank.now_ns + AHEAD_NS - drift_ns
    rank.now_ns += PERIOD_NS
    rank.run(1)
    assert [event[4] for event in rank.events(RESIDUAL_EVENT)] == [drift_ns]
    assert PERIOD_NS <= 60_000_000_000


def test_after_stop_nothing_is_on_and_every_buffer_is_back() -> None:
    rank = Rank()
    rank.channel.start_parsing(Part("kernels", ring=rank.ring, on_off=rank.notes.append))
    rank.run(3)
    rank.channel.stop()
    assert not rank.cupti.is_enabled and rank.pool.num_free == 8
    before = list(rank.cupti.calls)
    rank.run(2)
    assert rank.cupti.calls == before
    assert set(rank.rows()["step"]) == {1, 2}


def test_a_forked_child_does_not_touch_cupti() -> None:
    rank = Rank()
    rank.run(2)
    calls = list(rank.cupti.calls)
    pid = os.fork()
    if pid == 0:
        rank.channel.stop()
        os._exit(0 if rank.cupti.calls == calls else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert rank.channel.is_on
