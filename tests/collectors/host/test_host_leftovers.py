"""Files of ended processors go after a week; those of living ones and waiting uploads stay."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from argus.collectors.host.leftovers import KEEP_S, sweep
from argus.collectors.host.listener import listen


def leave(directory: Path, name: str) -> None:
    """What a processor started by `argus run` leaves when it was killed."""
    directory.chmod(0o700)
    listener = listen(directory / f"{name}.sock")
    assert listener is not None
    listener.sock.close()
    os.close(listener.lock_fd)
    for suffix in (".lock", ".log"):
        (directory / f"{name}{suffix}").write_text("words")
    for suffix in (".launchers", ".ring", ".spool"):
        (directory / f"{name}.sock{suffix}").mkdir(mode=0o700)
    (directory / f"{name}.sock.spool" / "lock").touch()
    (directory / f"{name}.sock.step-0123456789abcdef").touch()


def later(seconds: float = KEEP_S + 60.0) -> float:
    return time.time() + seconds


def test_everything_of_an_ended_run_goes_after_a_week_and_not_before(tmp_path: Path) -> None:
    leave(tmp_path, "run-a")
    (tmp_path / "off").touch()
    assert sweep(tmp_path, now_s=later(KEEP_S - 60.0)) == ()
    assert sweep(tmp_path, now_s=later()) == ("run-a.sock",)
    assert [path.name for path in tmp_path.iterdir()] == ["off"]
    assert sweep(tmp_path, now_s=later()) == ()


def test_a_living_processor_keeps_its_files_however_old(tmp_path: Path) -> None:
    leave(tmp_path, "run-a")
    listener = listen(tmp_path / "run-a.sock")
    assert listener is not None
    assert sweep(tmp_path, now_s=later()) == ()
    listener.close()


def upload_waits(directory: Path) -> None:
    (directory / "run-a.sock.spool" / "0000000000000001-1.windows").touch()


def log_is_young(directory: Path) -> None:
    os.utime(directory / "run-a.log", (later(), later()))


@pytest.mark.parametrize("what", [upload_waits, log_is_young])
def test_what_somebody_may_still_want_stays(tmp_path: Path, what: Callable[[Path], None]) -> None:
    leave(tmp_path, "run-a")
    what(tmp_path)
    assert sweep(tmp_path, now_s=later()) == ()
    assert (tmp_path / "run-a.log").exists()


def test_a_processor_that_starts_in_the_moment_of_a_sweep_is_the_only_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave(tmp_path, "run-a")
    swept, lock = list[tuple[str, ...]](), fcntl.flock

    def late(fd: int, how: int) -> None:
        if not swept:
            swept.append(())
            swept.append(sweep(tmp_path, now_s=later()))
        lock(fd, how)

    monkeypatch.setattr(fcntl, "flock", late)
    first = listen(tmp_path / "run-a.sock")
    assert swept == [(), ("run-a.sock",)] and first is not None
    assert listen(tmp_path / "run-a.sock") is None
    first.close()
