"""When a rank starts the processor of its host itself."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from socket import gethostname

import pytest

from argus.collectors.rank import attach
from argus.collectors.rank.fake_receiver import FakeReceiver
from argus.collectors.rank.identity import LAUNCH_HOST

HERE, ELSEWHERE = {LAUNCH_HOST: gethostname()}, {LAUNCH_HOST: "another-host"}


class Rank:
    """A connector whose clock the test moves; counts the processors it asked for."""

    def __init__(self, path: Path, env: Mapping[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s, self.num_started = 1000.0, 0
        self._connect = attach._connector(path, env, now_s=lambda: self.now_s)
        monkeypatch.setattr(attach, "_start_processor", self._start)

    def _start(self, _env: Mapping[str, str]) -> None:
        self.num_started += 1

    def reaches(self, *, after_s: float = 5.0) -> bool:
        self.now_s += after_s
        try:
            self._connect().close()
        except OSError:
            return False
        return True


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "s" / "p.sock"


def test_a_killed_processor_is_started_again_but_not_in_a_hurry(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rank = Rank(path, HERE, monkeypatch)
    assert not rank.reaches() and rank.num_started == 0  # `argus run` is at it
    receiver = FakeReceiver(path).start()
    assert rank.reaches()
    receiver.stop()
    assert [rank.reaches() for _ in range(4)] == [False] * 4 and rank.num_started == 1
    assert not rank.reaches(after_s=attach.START_AGAIN_S) and rank.num_started == 2


def test_a_host_without_one_gets_one(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rank = Rank(path, ELSEWHERE, monkeypatch)
    assert not rank.reaches() and rank.num_started == 1


def test_without_argus_run_nothing_is_started(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rank = Rank(path, {}, monkeypatch)
    receiver = FakeReceiver(path).start()
    assert rank.reaches()
    receiver.stop()
    assert not rank.reaches(after_s=3600) and rank.num_started == 0
