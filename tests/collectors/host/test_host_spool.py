"""The spool keeps what it took, in order, within its limit, over a restart."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from argus.collectors.host import spool as module
from argus.collectors.host.counters import Counters
from argus.collectors.host.delivery import tell_losses
from argus.collectors.host.notices import Notices
from argus.collectors.host.spool import FULL, KINDS, NO_DISK, TOO_SMALL, Spool, SpoolInUse


class Lost(list[tuple[str, int, str]]):
    def __call__(self, kind: str, num: int, why: str) -> None:
        self.append((kind, num, why))


@pytest.fixture
def lost() -> Lost:
    return Lost()


@pytest.fixture
def spool(tmp_path: Path, lost: Lost) -> Iterator[Spool]:
    it = Spool(tmp_path / "spool", max_bytes=100, lost=lost)
    yield it
    it.close()


def drain(spool: Spool) -> list[tuple[str, bytes | None]]:
    out = []
    while (entry := spool.oldest()) is not None:
        out.append((entry.kind, spool.read(entry)))
        spool.done(entry)
    return out


def test_oldest_first_and_gone_when_done(spool: Spool, tmp_path: Path) -> None:
    spool.put("layouts", b"a", num=1)
    spool.put("windows", b"bb", num=2)
    assert (spool.num_bytes, len(spool)) == (3, 2)
    assert drain(spool) == [("layouts", b"a"), ("windows", b"bb")]
    assert [path.name for path in (tmp_path / "spool").iterdir()] == ["lock"]


def test_a_restart_finds_what_waited_and_clears_halves(tmp_path: Path, lost: Lost) -> None:
    first = Spool(tmp_path / "s", max_bytes=100, lost=lost)
    first.put("windows", b"one", num=1)
    first.put("windows", b"two", num=1)
    first.close()
    (tmp_path / "s" / "0000000000000003-1.windows.part").write_bytes(b"half")
    (tmp_path / "s" / "stranger.txt").write_bytes(b"kept")
    second = Spool(tmp_path / "s", max_bytes=100, lost=lost)
    second.put("windows", b"three", num=1)
    assert [body for _, body in drain(second)] == [b"one", b"two", b"three"]
    assert sorted(path.name for path in (tmp_path / "s").iterdir()) == ["lock", "stranger.txt"]
    second.close()


def test_over_the_limit_the_oldest_goes_and_is_counted(spool: Spool, lost: Lost) -> None:
    for num in range(1, 5):
        spool.put("windows", bytes(40), num=num)
    assert lost == [("windows", 1, FULL), ("windows", 2, FULL)]
    assert spool.num_bytes == 80 and len(spool) == 2


def test_what_is_larger_than_the_limit_is_lost_and_drives_out_nothing(spool: Spool, lost: Lost) -> None:
    spool.put("windows", b"kept", num=1)
    assert spool.put("windows", bytes(101), num=2) is True
    assert lost == [("windows", 2, TOO_SMALL)]
    assert spool.num_bytes == 4
    assert drain(spool) == [("windows", b"kept")]


@pytest.mark.parametrize("why", [FULL, TOO_SMALL, NO_DISK])
def test_each_kind_that_is_lost_is_said_once_and_counted(tmp_path: Path, why: str) -> None:
    said: list[str] = []
    counters = Counters()
    lost = tell_losses(tmp_path, counters=counters, notices=Notices(said.append))
    for kind in ("observations", "windows", "layouts", "windows"):
        lost(kind, 3, why)
    assert [next(kind for kind in KINDS if kind in text) for text in said] == [
        "observations",
        "windows",
        "layouts",
    ]
    assert counters.get("argus_collector_dropped_windows_total", why) == 6
    assert counters.get("argus_collector_dropped_observations_total", why) == 3


def test_a_directory_belongs_to_one_processor(spool: Spool, tmp_path: Path, lost: Lost) -> None:
    with pytest.raises(SpoolInUse, match="another running processor"):
        Spool(tmp_path / "spool", max_bytes=1, lost=lost)


def test_a_disk_that_refuses_leaves_a_little_in_memory(
    spool: Spool, tmp_path: Path, lost: Lost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MEMORY_BYTES", 5)

    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    assert spool.put("windows", b"1234", num=3) is False
    assert spool.put("windows", b"5678", num=4) is False
    assert lost == [("windows", 4, NO_DISK)]
    assert [path.name for path in (tmp_path / "spool").iterdir()] == ["lock"]
    assert drain(spool) == [("windows", b"1234")]
    assert spool.num_bytes == 0


def no_directory_syncs(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    """From now on the system refuses to sync a directory."""
    sync = os.fsync

    def refused(fd: int) -> None:
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            raise OSError(code, os.strerror(code))
        sync(fd)

    monkeypatch.setattr("os.fsync", refused)


def test_a_file_system_that_syncs_no_directories_takes_what_it_can(
    spool: Spool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_directory_syncs(monkeypatch, errno.EINVAL)
    assert spool.put("windows", b"1234", num=1) is True
    assert len(list((tmp_path / "spool").glob("*.windows"))) == 1


def test_what_the_disk_may_not_keep_is_not_left_there_too(
    spool: Spool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_directory_syncs(monkeypatch, errno.EIO)
    assert spool.put("windows", b"1234", num=1) is False
    assert drain(spool) == [("windows", b"1234")]
    assert [path.name for path in (tmp_path / "spool").iterdir()] == ["lock"]


def test_a_disk_gone_read_only_stops_nobody(
    spool: Spool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool.put("windows", b"1234", num=1)

    def refused(*_args: object, **_options: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(Path, "unlink", refused)
    monkeypatch.setattr("os.fsync", refused)
    entry = spool.oldest()
    assert entry is not None
    spool.done(entry)
    assert spool.oldest() is None
    assert spool.put("windows", b"5678", num=1) is False
    assert drain(spool) == [("windows", b"5678")]


def test_a_file_that_vanished_reads_as_nothing(spool: Spool, tmp_path: Path) -> None:
    spool.put("windows", b"x", num=1)
    entry = spool.oldest()
    assert entry is not None
    (tmp_path / "spool" / entry.file_name).unlink()
    assert spool.read(entry) is None
    spool.done(entry)
    assert len(spool) == 0
