"""The kernel hook in a session: it starts with CUDA, says why it cannot, and leaves nothing."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from argus.collectors.hooks import cuda_kernels
from argus.collectors.rank.cupti import process
from argus.collectors.rank.cupti.api import Unavailable
from argus.collectors.rank.cupti.fake import STAND_IN, FakeCupti, FakeGpu, stand_in_module
from argus.collectors.rank.cupti.path import ObjectPath
from argus.collectors.rank.cupti.pool import Pool
from argus.collectors.rank.cupti.raw import RawPath
from argus.collectors.rank.fake_gpu import FakeStream
from argus.collectors.rank.gpu import GpuClock
from argus.collectors.rank.guard import Part
from argus.collectors.rank.recorder import Recorder
from argus.collectors.rank.ring import Ring
from argus.collectors.rank.session import Session


def session_with_gpu() -> Session:
    stream = FakeStream(gpu_now_ns=lambda: 0)
    clock = GpuClock(new_event=stream.new_event, is_capturing=lambda: False, now_ns=lambda: 1)
    return Session(Recorder(ring=Ring(), now_ns=lambda: 1, cpu_ns=lambda: 0, gpu=clock))


def install(session: Session) -> Part:
    part = Part("cuda_kernels", ring=session.ring, on_off=session.unseen)
    cuda_kernels.install(session, part)
    return part


@pytest.fixture
def cupti(monkeypatch: pytest.MonkeyPatch) -> FakeCupti:
    fake = FakeCupti(FakeGpu(dtypes=STAND_IN), now_ns=lambda: 1)
    path = RawPath(fake, module=stand_in_module(lambda: fake), pool=Pool(num_buffers=2, num_bytes=4096))
    monkeypatch.setattr(process, "shared_api", lambda: fake)
    monkeypatch.setattr(process, "best_path", lambda: (path, ""))
    return fake


def test_without_a_gpu_there_is_nothing_to_install() -> None:
    session = Session(Recorder(ring=Ring(), now_ns=lambda: 1, cpu_ns=lambda: 0))
    install(session)
    session.tick()
    assert session.kernels is None and not session.notes


def test_it_waits_for_cuda_then_collects_and_leaves_nothing(
    cupti: FakeCupti, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = session_with_gpu()
    part = install(session)
    session.tick()
    assert session.kernels is None and not cupti.calls
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    session.tick()
    session.tick()
    assert session.kernels is not None and cupti.is_enabled
    assert session.recorder.timeline is not None and session.calls.spans is not None
    session.claims.claim()
    assert not cupti.is_enabled
    session.claims.release()
    session.tick()
    assert cupti.is_enabled
    part.off()
    assert not cupti.is_enabled and session.kernels is None
    assert session.recorder.timeline is None and session.calls.spans is None
    calls = list(cupti.calls)
    session.claims.claim()
    session.tick()
    assert cupti.calls == calls and not session.ring.dropped()


def test_it_can_be_switched_off(cupti: FakeCupti, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARGUS_KERNELS", "off")
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    session = session_with_gpu()
    install(session)
    session.tick()
    assert session.kernels is None and not cupti.calls


def test_objects_can_be_asked_for(cupti: FakeCupti, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARGUS_KERNELS", "objects")
    monkeypatch.setattr(process, "shared_objects", lambda: ObjectPath(cupti))
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    session = session_with_gpu()
    part = install(session)
    session.tick()
    assert session.kernels is not None and session.kernels.path.name == "objects"
    part.off()


def test_a_process_without_cupti_says_so_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent() -> None:
        raise Unavailable("cupti-python is not installed")

    monkeypatch.setattr(process, "shared_api", absent)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    session = session_with_gpu()
    part = install(session)
    session.tick()
    session.tick()
    assert session.notes == ["kernels: cupti-python is not installed"] and not part.is_on


def test_an_exception_inside_switches_the_part_off_and_cupti_too(
    cupti: FakeCupti, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    session = session_with_gpu()
    part = install(session)
    session.tick()
    session.tick()
    assert session.kernels is not None
    monkeypatch.setattr(session.kernels, "tick", lambda: 1 / 0)
    session.tick()
    assert not part.is_on and not cupti.is_enabled
    assert session.ring.dropped() == {"cuda_kernels_error": 1}
    assert "switched off" in session.notes[-1]


def test_the_kind_of_a_group_comes_from_its_description(monkeypatch: pytest.MonkeyPatch) -> None:
    groups = (SimpleNamespace(name="5", desc="mesh_dp"), SimpleNamespace(name="0", desc="default_pg"))
    monkeypatch.setattr(cuda_kernels, "process_groups", lambda: groups)
    assert [cuda_kernels.kind_of_group(name) for name in ("5", "0", "9")] == ["dp", "world", "world"]


def test_real_cupti_without_a_driver_is_unavailable() -> None:
    pytest.importorskip("cupti.cupti", reason="cupti-python (extra `gpu`) is not installed")
    if torch.cuda.is_available():
        pytest.skip("this machine has a driver")
    from argus.collectors.rank.cupti.api import Cupti

    with pytest.raises(Unavailable):
        Cupti()
