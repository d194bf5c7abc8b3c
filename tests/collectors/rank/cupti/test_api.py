"""The calls made of cupti-python, on a stand-in module."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

import pytest

from argus.collectors.rank.cupti import api as module
from argus.collectors.rank.cupti.api import Cupti, Refused, Unavailable
from argus.collectors.rank.cupti.kinds import DRIVER_LAUNCHES, ENABLED, RUNTIME_LAUNCHES
from tests.collectors.rank.cupti import versions


class StandInError(Exception):
    """As cupti-python's cuptiError."""

    def __init__(self, status: int) -> None:
        super().__init__(f"ERROR ({status})")
        self.status = status


class StandIn:
    """Keeps what is on, and answers with `fails` by the name of the call."""

    def __init__(self) -> None:
        self.on: set[tuple[str, int]] = set()
        self.subscribed: list[int] = []
        self.fails: dict[str, int] = {}
        self.flushes: list[int] = []
        self.cuptiError = StandInError
        self.runtime_api_trace_cbid = SimpleNamespace(
            __members__={name: i for i, name in enumerate(RUNTIME_LAUNCHES, 1)}
        )
        self.driver_api_trace_cbid = SimpleNamespace(__members__={DRIVER_LAUNCHES[0]: 307, "cuInit": 1})

    def _answer(self, call: str) -> None:
        if call in self.fails:
            raise StandInError(self.fails[call])

    def get_timestamp(self) -> int:
        self._answer("get_timestamp")
        return 42

    def activity_enable(self, kind: int) -> None:
        self._answer(f"enable {kind}")
        self.on.add(("kind", kind))

    def activity_disable(self, kind: int) -> None:
        self._answer(f"disable {kind}")
        self.on.discard(("kind", kind))

    def _switch(self, what: str, cbid: int, enable: int) -> None:
        (self.on.add if enable else self.on.discard)((what, cbid))

    def activity_enable_runtime_api(self, cbid: int, enable: int) -> None:
        self._switch("runtime", cbid, enable)

    def activity_enable_driver_api(self, cbid: int, enable: int) -> None:
        self._switch("driver", cbid, enable)

    def activity_flush_all(self, flag: int) -> None:
        self._answer("flush")
        self.flushes.append(flag)

    def activity_get_num_dropped_records(self, _context: int, _stream: int, dropped: int) -> None:
        ctypes.c_size_t.from_address(dropped).value = 3

    def subscribe(self, _callback: object, _userdata: object) -> int:
        self._answer("subscribe")
        self.subscribed.append(1)
        return 1

    def unsubscribe(self, subscriber: int) -> None:
        self.subscribed.remove(subscriber)


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    made = StandIn()
    monkeypatch.setattr(module, "import_module", lambda _name: made)
    return made


def test_everything_is_switched_on_and_off_again(stand_in: StandIn) -> None:
    cupti = Cupti()
    cupti.enable()
    assert {kind for what, kind in stand_in.on if what == "kind"} == set(ENABLED)
    assert len([1 for what, _ in stand_in.on if what == "runtime"]) == len(RUNTIME_LAUNCHES)
    assert ("driver", 307) in stand_in.on  # calls this version does not know are left out
    cupti.disable()
    assert not stand_in.on


def test_what_cannot_be_enabled_as_a_whole_is_not_left_half_on(stand_in: StandIn) -> None:
    stand_in.fails = {f"enable {ENABLED[-1]}": 21}
    with pytest.raises(Refused, match="21"):
        Cupti().enable()
    assert not stand_in.on


def test_one_failure_does_not_keep_the_others_on(stand_in: StandIn) -> None:
    cupti = Cupti()
    cupti.enable()
    stand_in.fails = {f"disable {ENABLED[0]}": 15}
    with pytest.raises(Refused):
        cupti.disable()
    assert stand_in.on == {("kind", ENABLED[0])}


def test_another_subscriber_is_seen_and_ours_never_stays(stand_in: StandIn) -> None:
    cupti = Cupti()
    assert not cupti.has_rival() and not stand_in.subscribed
    stand_in.fails = {"subscribe": 39}
    assert cupti.has_rival()
    stand_in.fails = {"subscribe": 15}
    with pytest.raises(Refused):
        cupti.has_rival()


def test_flushes_clock_and_drops(stand_in: StandIn) -> None:
    cupti = Cupti()
    cupti.flush(is_forced=False)
    cupti.flush(is_forced=True)
    assert stand_in.flushes == [0, 1]
    assert (cupti.now_ns(), cupti.num_dropped()) == (42, 3)
    stand_in.fails = {"flush": 999}
    with pytest.raises(Refused, match="999"):
        cupti.flush(is_forced=False)


@pytest.mark.parametrize("error", [ImportError("no module"), RuntimeError("CUDA driver is not found")])
def test_without_the_package_or_a_driver_it_is_unavailable(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_name: str) -> Any:
        if isinstance(error, ImportError):
            raise error
        return SimpleNamespace(get_timestamp=lambda: (_ for _ in ()).throw(error))

    monkeypatch.setattr(module, "import_module", fails)
    with pytest.raises(Unavailable, match=str(error)):
        Cupti()


def test_cupti_python_has_every_call_and_launch_that_is_used() -> None:
    real = versions.module()
    calls = [name for name in vars(module._Cupti) if not name.startswith("_")]
    assert calls and all(hasattr(real, name) for name in calls)
    assert set(RUNTIME_LAUNCHES) <= set(real.runtime_api_trace_cbid.__members__)
    assert set(DRIVER_LAUNCHES) <= set(real.driver_api_trace_cbid.__members__)
    kinds = real.ActivityKind
    assert [int(kinds[name]) for name in ("CONCURRENT_KERNEL", "MEMCPY", "MEMCPY2", "MEMSET")] == list(
        ENABLED
    )
