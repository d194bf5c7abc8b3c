"""Failures inside Argus never reach training, and processes that are no ranks stay silent."""

from __future__ import annotations

import _thread
import gc
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest
import torch
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

from argus.collectors.rank import attach
from argus.collectors.rank.calls import CallLog
from argus.collectors.rank.fake_receiver import FakeReceiver
from argus.collectors.rank.recorder import Recorder
from argus.collectors.rank.ring import Ring
from argus.collectors.rank.writer import Stream
from tests.collectors.rank import jobs

pytestmark = pytest.mark.slow

STEPS = 6


def train(rank: int) -> float:
    """A DDP run with a loader; its last loss."""
    torch.manual_seed(1)
    net = DistributedDataParallel(jobs.model())
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    samples = list(torch.randn(4 * STEPS, 16, generator=torch.Generator().manual_seed(rank)))
    batches: DataLoader[torch.Tensor] = DataLoader(samples, batch_size=4)  # type: ignore[arg-type]
    loss = torch.zeros(())
    for x in batches:
        optimizer.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
    torch.distributed.all_reduce(loss.detach())
    return float(loss.detach())


class PlantedError(Exception):
    """Raised inside our own code."""


def fail(*_args: object, **_kwargs: object) -> NoReturn:
    """Stands in for any function of ours."""
    raise PlantedError("planted")


PLACES: list[tuple[type, str, str]] = [
    (Recorder, "open", "error"),
    (Recorder, "close", "error"),
    (Recorder, "begin_iteration", "error"),
    (Recorder, "end_candidate", "error"),
    (Recorder, "detail", "error"),
    (Recorder, "event", "error"),
    (CallLog, "begin", "torch_collectives_error"),
    (CallLog, "issued", "torch_collectives_error"),
    (CallLog, "waited", "torch_collectives_error"),
    (CallLog, "over", "torch_collectives_error"),
    (CallLog, "emit", "torch_collectives_error"),
    (Ring, "put", "error"),
]


def test_a_failure_anywhere_leaves_training_as_it_was_and_is_counted(receiver: FakeReceiver) -> None:
    def job(rank: int, world: int) -> None:
        attach.detach()
        expected = train(rank)
        for owner, name, counted in PLACES:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(owner, name, fail)
                attach.start()
                attachment = attach._attachment
                assert attachment is not None and attachment.session is not None
                session = attachment.session
                assert train(rank) == expected
                dropped = session.ring.dropped()
                assert any(reason.endswith(counted) for reason in dropped), (name, dropped)
                assert any("switched off after PlantedError" in text for text in session.notes), name
                attach.detach()

    assert jobs.run(job, world=2, path=receiver.path) == [0, 0]


def test_a_writer_that_fails_leaves_training_as_it_was(receiver: FakeReceiver) -> None:
    def job(rank: int, world: int) -> None:
        attach.detach()
        expected = train(rank)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Stream, "send_rows", fail)
            attach.start()
            assert train(rank) == expected
            attach.detach()

    assert jobs.run(job, world=2, path=receiver.path) == [0, 0]


@pytest.mark.parametrize("set_hook", [threading.setprofile, threading.settrace])
def test_a_hook_for_threads_that_raises_does_not_end_the_writer(
    receiver: FakeReceiver, set_hook: Callable[[object], None]
) -> None:
    def job(rank: int, world: int) -> None:
        attach.detach()
        set_hook(fail)
        attach.start()
        set_hook(None)
        train(rank)
        assert "argus-writer" in [thread.name for thread in threading.enumerate()]

    assert jobs.run(job, world=1, path=receiver.path) == [0]
    receiver.drain()
    heard = receiver.heard[-1]
    assert heard.said_bye and len(heard.records().steps) == STEPS and not heard.dropped


def test_without_a_thread_for_the_writer_no_patch_stays(receiver: FakeReceiver) -> None:
    def no_thread(*_args: object) -> NoReturn:
        raise RuntimeError("can't start new thread")

    def job(rank: int, world: int) -> None:
        from torch._C._distributed_c10d import ProcessGroup

        attach.detach()
        expected, before, callbacks = train(rank), ProcessGroup.allreduce, len(gc.callbacks)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(_thread, "start_new_thread", no_thread)
            attach.start()
        assert attach.current_session() is None
        assert ProcessGroup.allreduce is before and len(gc.callbacks) == callbacks
        assert train(rank) == expected

    assert jobs.run(job, world=1, path=receiver.path) == [0]


def test_after_detach_nothing_of_ours_is_left(tmp_path: Path) -> None:
    def job(rank: int, world: int) -> None:
        from torch._C._distributed_c10d import ProcessGroup, Work
        from torch.utils.data.dataloader import _BaseDataLoaderIter

        attach.detach()
        places = [
            (ProcessGroup, "allreduce"),
            (Work, "wait"),
            (torch.autograd, "backward"),
            (torch, "save"),
            (_BaseDataLoaderIter, "__next__"),
        ]
        before = [getattr(owner, name) for owner, name in places]
        callbacks = len(gc.callbacks)
        attach.start()
        assert all(getattr(owner, name) is not old for (owner, name), old in zip(places, before, strict=True))
        train(rank)
        attach.detach()
        assert [getattr(owner, name) for owner, name in places] == before
        assert len(gc.callbacks) == callbacks

    assert jobs.run(job, world=2, path=tmp_path / "none.sock") == [0, 0]


def test_a_forked_child_of_a_rank_is_silent(receiver: FakeReceiver) -> None:
    def job(rank: int, world: int) -> None:
        train(rank)
        pid = os.fork()
        if pid == 0:
            net = jobs.model()
            optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
            for _ in range(50):
                net(jobs.batch(0)).sum().backward()
                optimizer.step()
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        train(rank)

    assert jobs.run(job, world=1, path=receiver.path) == [0]
    receiver.drain()
    [heard] = receiver.heard
    assert heard.said_bye
    assert len(heard.records().steps) == 2 * STEPS


def test_a_forked_child_does_not_hold_the_ranks_connection(receiver: FakeReceiver) -> None:
    def job(rank: int, world: int) -> None:
        train(rank)
        assert attach._attachment is not None and attach._attachment.writer is not None
        attach._attachment.writer._tick(sends=True)
        sock = attach._attachment.writer._stream.sink._sock
        assert sock is not None
        number = sock.fileno()
        os.fstat(number)
        pid = os.fork()
        if pid == 0:
            try:
                os.fstat(number)
            except OSError:
                os._exit(0)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        os.fstat(number)

    assert jobs.run(job, world=1, path=receiver.path) == [0]


UNTOLD_EXCEPTION = pytest.mark.xfail(
    sys.version_info >= (3, 13),
    reason="multiprocessing ends after the exception there: docs/limits.md",
    strict=True,
)


@pytest.mark.parametrize(
    ("end", "code", "says_bye"),
    [
        (lambda: os._exit(5), 5, False),
        (lambda: os.kill(os.getpid(), signal.SIGTERM), -signal.SIGTERM, False),
        pytest.param(fail, 1, False, marks=UNTOLD_EXCEPTION),
    ],
    ids=["os._exit", "SIGTERM", "exception"],
)
def test_only_an_orderly_end_says_goodbye(
    receiver: FakeReceiver, end: Callable[[], None], code: int, says_bye: bool
) -> None:
    def job(rank: int, world: int) -> None:
        train(rank)
        end()

    assert jobs.run(job, world=1, path=receiver.path) == [code]
    receiver.drain()
    assert [heard.said_bye for heard in receiver.heard] == [says_bye] * len(receiver.heard)


def test_an_absent_processor_costs_nothing_but_the_records(tmp_path: Path) -> None:
    def job(rank: int, world: int) -> None:
        train(rank)

    assert jobs.run(job, world=2, path=tmp_path / "none.sock") == [0, 0]
