"""A disk that takes no more: recording and raw ring go on or stop, and every row they lose is counted."""

from __future__ import annotations

import resource
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from argus.collectors.host.counters import Counters
from argus.collectors.host.fake_host import start
from argus.collectors.host.fake_rank import NAMES, frames, steps
from argus.collectors.host.notices import Notices
from argus.collectors.host.rank import Key
from argus.collectors.host.raw_ring import RawRing
from argus.collectors.host.recorder import END_NOTE, Recorder
from argus.collectors.readers.recording import read
from argus.collectors.records.frames import Frame, FrameReader, Kind
from argus.collectors.records.layout import Layout

LAYOUT = Layout(run="run", attempt=0, rank=0, world_size=8)
KEY: Key = ("run", 0, 0)
LOST, RECORDED = "argus_collector_dropped_events_total", "argus_collector_recorded_bytes_total"


@contextmanager
def files_end_at(num_bytes: int) -> Iterator[None]:
    """No file of this process grows beyond: the write that would is cut there, the next one fails."""
    before, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (before, hard))


def played(first: int, end: int) -> list[Frame]:
    return [
        frame
        for start in range(first, end, 10)
        for frame in FrameReader().feed(frames(steps(LAYOUT, start, start + 10)))
    ]


def num_rows(some: Sequence[Frame]) -> int:
    return sum(len(frame.rows) for frame in some if frame.rows is not None)


def rows_in(paths: Iterator[Path]) -> int:
    return sum(num_rows(list(FrameReader().feed(path.read_bytes()))) for path in paths)


@pytest.mark.parametrize("flushes", [False, True])
@pytest.mark.parametrize("limit", [20_000, 320_000])
def test_every_row_of_a_recording_is_in_it_or_counted(tmp_path: Path, limit: int, flushes: bool) -> None:
    counters, said = Counters(), list[str]()
    recorder = Recorder(tmp_path, max_bytes=1 << 20, counters=counters, notices=Notices(said.append))
    sent = played(0, 4000)
    with files_end_at(limit):
        recorder.begin(KEY, layout=LAYOUT, names=NAMES)
        for number, frame in enumerate(sent):
            recorder.write(KEY, frame)
            if flushes and not number % 50:
                recorder.flush()
        recorder.close()
    kept = rows_in(tmp_path.iterdir())
    assert 0 < kept < num_rows(sent)
    assert counters.get(LOST, "record_full") == num_rows(sent) - kept
    assert counters.get(RECORDED) == limit
    [line] = said
    assert "File too large" in line


def test_a_recording_at_its_own_limit_counts_the_rows_too(tmp_path: Path) -> None:
    counters, sent = Counters(), played(0, 1000)
    recorder = Recorder(tmp_path, max_bytes=30_000, counters=counters, notices=Notices(lambda _line: None))
    recorder.begin(KEY, layout=LAYOUT, names=NAMES)
    for frame in sent:
        recorder.write(KEY, frame)
    kept = rows_in(tmp_path.iterdir())
    assert counters.get(LOST, "record_full") == num_rows(sent) - kept > 0


def test_a_recording_at_its_limit_says_in_its_files_why_they_end(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, max_bytes=30_000, counters=Counters(), notices=Notices(lambda _line: None))
    recorder.begin(KEY, layout=LAYOUT, names=NAMES)
    for frame in played(0, 1000):
        recorder.write(KEY, frame)
    (rank,) = read(tmp_path / "rank-0.argus")
    assert rank.records.unseen == (END_NOTE,)
    late = Recorder(tmp_path / "none", max_bytes=10, counters=Counters(), notices=Notices(lambda _line: None))
    late.begin(KEY, layout=LAYOUT, names=NAMES)
    assert [path.read_bytes() for path in (tmp_path / "none").iterdir()] == [b""]


@pytest.mark.slow
def test_one_rank_of_each_attempt_is_told_that_the_recording_ended(tmp_path: Path) -> None:
    host = start(tmp_path, record_bytes=30_000)
    try:
        ranks = [host.connect(rank=0), host.connect(rank=1), host.connect(rank=0, attempt=1)]
        assert host.wait_for(lambda: host.counters.get("argus_collector_ranks") == 3)
        ranks[1].play(0, 1000)
        said = [str(rank.hear()["warning"]) for rank in (ranks[0], ranks[2])]
        ranks[1].sock.settimeout(0.2)
        with pytest.raises(TimeoutError):
            ranks[1].hear()
    finally:
        host.stop()
    assert said == host.said * 2 and "is full; the rest of the run is not recorded" in said[0]


@pytest.mark.slow
def test_a_rank_that_says_goodbye_at_once_is_told_that_the_disk_took_no_more(tmp_path: Path) -> None:
    host = start(tmp_path, record_bytes=1 << 20)
    try:
        with files_end_at(20_000):
            rank = host.connect()
            rank.play(0, 500)
            rank.send(Kind.BYE, {})
            said = str(rank.hear()["warning"])
    finally:
        host.stop()
    assert "File too large" in said


def test_every_row_of_the_raw_ring_is_in_it_or_counted(tmp_path: Path) -> None:
    counters, said = Counters(), list[str]()
    ring = RawRing(
        tmp_path / "ring",
        max_bytes=1 << 30,
        counters=counters,
        notices=Notices(said.append),
        clock=lambda: 0.0,
    )
    ring.begin(KEY, layout=LAYOUT, names=NAMES)
    sent = played(0, 4000)
    with files_end_at(150_000):
        for frame in sent:
            ring.write(KEY, frame)
        ring.end(KEY)
    kept = rows_in((tmp_path / "ring").iterdir())
    ring.flush()
    on_disk = sum(path.stat().st_size for path in (tmp_path / "ring").iterdir())
    assert 0 < kept < num_rows(sent) and len(said) == 1
    assert counters.get(LOST, "ring") == num_rows(sent) - kept
    assert counters.get("argus_collector_ring_bytes") == on_disk
    ring.close()
