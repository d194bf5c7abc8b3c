"""NCCL's own timing, joined with the calls by sequence number."""

from __future__ import annotations

import gc
import weakref

import pytest

from argus.collectors.hooks import torch_nccl
from argus.collectors.hooks.torch_nccl import watch
from argus.collectors.rank.fake_gpu import FakeStream
from argus.collectors.rank.fake_nccl import FakeNcclGroup
from argus.collectors.rank.gpu import GpuClock
from argus.collectors.rank.guard import Part
from argus.collectors.rank.recorder import Recorder
from argus.collectors.rank.ring import Ring
from argus.collectors.rank.session import Session


class Rank:
    """A session with one fake NCCL group; `call` launches an all-reduce."""

    def __init__(self, group: FakeNcclGroup) -> None:
        self.now_ns = 1000
        recorder = Recorder(ring=Ring(), now_ns=lambda: self.now_ns, cpu_ns=lambda: 0)
        self.session = Session(recorder)
        self.group = group
        watch(group, self.session, Part("nccl", ring=recorder.ring, on_off=self.session.unseen))

    def call(self, op: str = "all_reduce") -> int:
        log = self.session.calls
        state = log.group(self.group.group_name, [0, 1])
        call = log.begin(self.session.recorder.names[op], state, peer=-1, num_bytes=8)
        assert call is not None
        seq = self.group.issue()
        log.issued(call)
        assert state.timer is not None
        state.timer(call)
        self.now_ns += 10
        return seq

    def rows(self) -> list[tuple[int | float, ...]]:
        return self.session.ring.take("collectives")


def test_each_call_lasts_as_long_as_its_work_ran() -> None:
    rank = Rank(FakeNcclGroup("0"))
    assert rank.group.is_timing
    numbers = [rank.call() for _ in range(3)]
    assert rank.session.calls.status() == {"0": (3, 0)}
    for seq, ran_us in zip(reversed(numbers), (3.0, 2.0, 1.0), strict=True):
        rank.group.finish(seq, ran_us=ran_us)
    rows = rank.rows()
    assert sorted((row[3], row[7] - row[6]) for row in rows) == [(0, 1000), (1, 2000), (2, 3000)]
    assert rank.session.calls.status() == {"0": (3, 3)}


def test_a_work_nobody_saw_issued_is_ignored() -> None:
    rank = Rank(FakeNcclGroup("0"))
    rank.group.finish(rank.group.issue(), ran_us=5.0)
    assert rank.rows() == []
    rank.group.finish(rank.call(), ran_us=7.0)
    assert len(rank.rows()) == 1


def test_send_and_receive_do_not_look_stuck() -> None:
    rank = Rank(FakeNcclGroup("0"))
    rank.call("send")
    assert rank.rows() == []
    assert rank.session.calls.status() == {"0": (1, 1)}


def test_a_group_with_a_hook_of_its_own_keeps_it() -> None:
    group = FakeNcclGroup("7", has_hooks=True)
    rank = Rank(group)
    assert group.hook is None and not group.is_timing
    assert rank.session.notes == ["NCCL: group 7 does not report its works"]


def test_a_group_made_anew_under_an_old_name_reports_its_own_works(monkeypatch: pytest.MonkeyPatch) -> None:
    groups: dict[FakeNcclGroup, tuple[str, None]] = {}
    monkeypatch.setattr(torch_nccl, "nccl_groups", lambda: iter(list(groups)))
    gpu = GpuClock(
        new_event=FakeStream(gpu_now_ns=lambda: 0).new_event, is_capturing=lambda: False, now_ns=lambda: 1000
    )
    recorder = Recorder(ring=Ring(), now_ns=lambda: 1000, cpu_ns=lambda: 0, gpu=gpu)
    session = Session(recorder)
    torch_nccl.install(session, Part("nccl", ring=recorder.ring, on_off=session.unseen))
    for _ in range(2):
        groups[FakeNcclGroup("0")] = ("nccl", None)
        session.groups_changed()
        (group,) = groups
        state = session.calls.group("0", [0, 1])
        call = session.calls.begin(recorder.names["all_reduce"], state, peer=-1, num_bytes=8)
        assert call is not None and state.timer is not None
        seq = group.issue()
        state.timer(call)
        group.finish(seq, ran_us=5.0)
        groups.clear()
        del group
    assert session.calls.status() == {"0": (2, 2)}
    assert len(session.ring.take("collectives")) == 2


def test_a_destroyed_group_is_let_go_of() -> None:
    rank = Rank(FakeNcclGroup("0"))
    rank.group.finish(rank.call(), ran_us=5.0)
    gone = weakref.ref(rank.group)
    del rank.group
    gc.collect()
    assert gone() is None
    assert rank.session.calls.group("0", [0, 1]).timer is None
