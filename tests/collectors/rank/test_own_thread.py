"""A thread of ours runs no hook of the program's, and the writer's loop outlives what breaks it."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import NoReturn

import pytest

from argus.collectors.rank.own_thread import OwnThread
from argus.collectors.rank.writer import MAX_BREAKS, Writer
from tests.collectors.rank.test_sink import Rank


def test_a_thread_of_ours_has_its_name_and_runs_no_hook() -> None:
    seen: list[str] = []
    thread = OwnThread(lambda: seen.append(threading.current_thread().name), name="argus-writer")
    thread.join(10.0)  # before its start there is nothing to wait for

    def hook(*_args: object) -> NoReturn:
        raise RuntimeError("planted")

    for set_hook in (threading.setprofile, threading.settrace):
        set_hook(hook)
        try:
            thread.start()
            thread.join(10.0)
        finally:
            set_hook(None)
    assert seen == ["argus-writer"] * 2 and not thread.is_current


@pytest.mark.parametrize(("num_breaks", "is_told"), [(2, False), (MAX_BREAKS, True)])
def test_a_writer_whose_loop_is_broken_goes_on_or_says_that_it_ends(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    num_breaks: int,
    is_told: bool,
) -> None:
    rank, left = Rank(tmp_path / "none.sock"), [num_breaks]
    writer = Writer(rank.stream, rank.session, period_s=0.0)

    def broken() -> None:
        left[0] -= 1
        if left[0] >= 0:
            raise SystemExit

    monkeypatch.setattr(writer, "_write_on", broken)
    writer._run()
    assert rank.session.ring.dropped() == {"writer_error": num_breaks}
    assert ("observed no longer" in caplog.text) is is_told
