"""The rank's end of the socket against processors that are absent, slow, stalled or restarted."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argus.collectors.rank import writer as writer_module
from argus.collectors.rank.clock import anchored_clock
from argus.collectors.rank.fake_receiver import FakeReceiver
from argus.collectors.rank.recorder import Recorder
from argus.collectors.rank.ring import Ring
from argus.collectors.rank.session import Session
from argus.collectors.rank.sink import Sink, connect_to
from argus.collectors.rank.state import never
from argus.collectors.rank.writer import SEND_TICKS, Stream, Writer, next_turn
from argus.collectors.records.channels import CHANNELS
from argus.collectors.records.frames import FrameReader, Kind, encode_json
from argus.collectors.records.layout import Layout


class Rank:
    """A session whose writer the test drives by hand; a small outbox, a clock it moves."""

    def __init__(
        self, path: Path, *, capacity: int = 64, max_bytes: int = 4096, is_off: Callable[[], bool] = never
    ) -> None:
        self.now_s = 0.0
        self.layouts = [Layout(run="r", attempt=0, rank=0, world_size=1)]
        self.session = Session(
            Recorder(ring=Ring(capacity=capacity), now_ns=anchored_clock(), cpu_ns=lambda: 0)
        )
        self.stream = Stream(
            self.session,
            layout=lambda: self.layouts.pop() if self.layouts else None,
            sink=lambda stream: Sink(
                connect=lambda: connect_to(path),
                prelude=stream.prelude,
                now_s=lambda: self.now_s,
                max_bytes=max_bytes,
                on_control=self.session.control,
            ),
            is_off=is_off,
        )

    def event(self, kind: str, value: float) -> None:
        self.session.recorder.event(kind, start_ns=0, dur_ns=0, value=value)

    def tick(self, *, after_s: float = 10.0) -> None:
        self.now_s += after_s
        self.stream.send_rows()
        self.stream.send_status()
        self.stream.sink.pump()

    def close(self) -> None:
        Writer(self.stream, self.session, period_s=0.0)._finish()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "s" / "p.sock"


@pytest.fixture
def servers() -> Iterator[list[FakeReceiver]]:
    started: list[FakeReceiver] = []
    yield started
    for server in started:
        server.stop()


def listen(path: Path, servers: list[FakeReceiver]) -> FakeReceiver:
    servers.append(FakeReceiver(path).start())
    return servers[-1]


def values(receiver: FakeReceiver) -> list[float]:
    return [float(v) for heard in receiver.heard for rows in heard.rows["events"] for v in rows["value"]]


def test_everything_arrives_in_order_with_a_goodbye(path: Path, servers: list[FakeReceiver]) -> None:
    receiver = listen(path, servers)
    rank = Rank(path)
    for number in range(20):
        rank.event(f"mark:{number}", number)
        rank.tick()
    rank.close()
    receiver.drain()
    [heard] = receiver.heard
    records = heard.records()
    assert [records.name(int(row["kind"])) for row in records.events] == [f"mark:{n}" for n in range(20)]
    assert heard.said_bye and heard.statuses and not heard.dropped
    assert heard.layouts[-1].run == "r"


def test_a_rank_that_is_refused_again_and_again_says_so_once(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path.parent.mkdir()
    rank, told = Rank(path), list[int]()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        server.bind(str(path))
        server.listen()
        for number in range(6):
            rank.event("mark:x", number)
            rank.stream.send_rows()
            rank.stream.sink._reach()
            with server.accept()[0] as sock:
                sock.send(encode_json(Kind.CONTROL, {"refused": "rank 3 of run night is process 7"}))
            rank.tick()  # into a socket that is closed already
            told.append(len(caplog.messages))
            rank.now_s += 10.0
    assert told == [0, 0, 1, 1, 1, 1]
    assert "rank 3 of run night is process 7; give each job a name of its own" in caplog.messages[0]


def test_switched_off_nothing_but_signs_of_life_leaves_and_steps_go_on_counting(
    path: Path, servers: list[FakeReceiver]
) -> None:
    receiver, off = listen(path, servers), [False]
    rank = Rank(path, is_off=lambda: off[0])
    levels = []
    for number in range(9):
        off[0] = 3 <= number < 6
        rank.event("mark:x", number)
        rank.session.recorder.user_step(number)
        rank.tick()
        levels.append(rank.session.recorder.channels.level)
    assert levels == [0, 0, 0, 0, len(CHANNELS), len(CHANNELS), len(CHANNELS), 0, 0]
    rank.close()
    receiver.drain()
    [heard] = receiver.heard
    records = heard.records()
    told = [float(row["value"]) for row in records.events if records.name(int(row["kind"])) == "mark:x"]
    assert told == [0, 1, 2, 6, 7, 8] and not heard.dropped
    assert [status.in_mark for status in heard.statuses[:8]] == [""] * 2 + ["off"] * 3 + [""] * 3
    assert heard.records().steps["step"].tolist()[-1] == 7
    assert [status.step for status in heard.statuses[:8]] == list(range(1, 9))


def test_without_a_processor_the_newest_are_dropped_and_counted(
    path: Path, servers: list[FakeReceiver]
) -> None:
    rank = Rank(path, capacity=16, max_bytes=1000)
    for number in range(500):
        rank.event("mark:x", number)
        if number % 5 == 0:
            rank.tick()
    receiver = listen(path, servers)
    for _ in range(3):
        rank.tick()
    rank.close()
    receiver.drain()
    [heard] = receiver.heard
    got = values(receiver)
    assert got == sorted(got) == list(range(len(got)))
    assert heard.dropped == {"processor_absent": 500 - len(got)}


def test_a_stalled_processor_costs_bounded_memory_and_counts(path: Path, servers: list[FakeReceiver]) -> None:
    receiver = listen(path, servers)
    receiver.stall.set()
    rank = Rank(path, capacity=4000, max_bytes=1 << 16)
    sent = 0
    while not rank.session.ring.dropped() and sent < 200_000:
        for _ in range(4000):
            rank.event("mark:x", sent)
            sent += 1
        rank.tick()
    assert set(rank.session.ring.dropped()) == {"processor_slow"}
    receiver.stall.clear()
    for _ in range(100):
        rank.tick(after_s=0.0)
        if rank.stream.sink.is_empty and not rank.session.ring.rows["events"]:
            break
    rank.close()
    receiver.drain()
    [heard] = receiver.heard
    got = values(receiver)
    assert got == sorted(got)
    assert len(got) + heard.dropped["processor_slow"] == sent


def test_layouts_that_nobody_takes_do_not_pile_up(path: Path, servers: list[FakeReceiver]) -> None:
    rank = Rank(path)
    for number in range(500):
        rank.layouts = [Layout(run="r", attempt=0, rank=0, world_size=1, local_rank=number)]
        rank.tick(after_s=0.0)
    assert sum(map(len, rank.stream.sink._frames)) < 5000
    receiver = listen(path, servers)
    rank.tick()
    rank.close()
    receiver.drain()
    assert receiver.heard[0].layouts[-1].local_rank == 499


def test_a_restarted_processor_hears_layout_and_strings_again(
    path: Path, servers: list[FakeReceiver]
) -> None:
    first = listen(path, servers)
    rank = Rank(path)
    rank.session.unseen("something")
    rank.event("mark:before", 1)
    rank.tick()
    first.stop()
    rank.tick()
    second = listen(path, servers)
    rank.event("mark:before", 2)
    rank.event("mark:after", 3)
    for _ in range(3):
        rank.tick()
    rank.close()
    second.drain()
    [heard] = second.heard
    records = heard.records()
    names = [records.name(int(row["kind"])) for row in records.events]
    assert names[-2:] == ["mark:before", "mark:after"]
    assert records.layout.run == "r" and records.unseen == ("something",)


class Brittle:
    """Takes 10 bytes a write and breaks after `limit` bytes."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.taken = b""

    def send(self, data: memoryview) -> int:
        if len(self.taken) >= self.limit:
            raise BrokenPipeError
        self.taken += bytes(data[:10])
        return min(len(data), 10)

    def fileno(self) -> int:
        return 2  # any that stays open

    def settimeout(self, value: float) -> None:
        assert value >= 0

    def recv(self, size: int) -> bytes:
        raise BlockingIOError

    def close(self) -> None:
        self.limit = 0


def test_a_frame_cut_by_a_lost_connection_is_sent_whole_again() -> None:
    from argus.collectors.records.frames import encode_json

    sockets = [Brittle(35), Brittle(1 << 20)]
    queue = list(sockets)
    now_s = [0.0]

    def connect() -> socket.socket:
        return queue.pop(0)  # type: ignore[return-value]

    sink = Sink(connect=connect, prelude=lambda: b"", now_s=lambda: now_s[0])
    frames = [encode_json(Kind.NOTE, {"unseen": str(n)}) for n in range(5)]
    for frame in frames:
        sink.push(frame)
    sink.pump()
    assert not sink.is_connected
    now_s[0] = 100.0
    sink.pump()
    reader = FrameReader()
    heard = [frame.body for frame in reader.feed(sockets[1].taken)]
    assert heard[-1] == {"unseen": "4"} and reader.pending == 0
    assert sink.is_empty


def test_a_processor_that_hangs_up_at_once_costs_bounded_memory_and_is_asked_ever_less(path: Path) -> None:
    now_s, asked = [0.0], list[float]()
    path.parent.mkdir()

    def connect() -> socket.socket:
        asked.append(now_s[0])
        sock = connect_to(path)
        listening.accept()[0].close()
        return sock

    sink = Sink(connect=connect, prelude=lambda: b"x" * 1000, now_s=lambda: now_s[0], max_bytes=5000)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        for _ in range(100):
            sink.pump()
            now_s[0] += 0.5
    assert sink.has_room and sink.is_empty
    assert [later - sooner for sooner, later in pairwise(asked)] == [0.5, 1.0, 2.0] + [5.0] * 9


def test_a_connection_that_held_is_sought_again_at_once_when_it_breaks() -> None:
    sockets, now_s, asked = [Brittle(1 << 20), Brittle(1 << 20)], [0.0], list[float]()

    def connect() -> socket.socket:
        asked.append(now_s[0])
        if len(asked) not in (3, 4):
            raise ConnectionRefusedError
        return sockets[len(asked) - 3]  # type: ignore[return-value]

    sink = Sink(connect=connect, prelude=lambda: b"x" * 100, now_s=lambda: now_s[0])
    while len(asked) < 4:
        if now_s[0] == 3.0:
            sockets[0].limit = 0
        sink.push(b"y")
        sink.pump()
        now_s[0] += 0.5
    assert asked == [0.0, 0.5, 1.5, 3.5]
    assert sockets[1].taken == b"x" * 100 + b"yy" and sink.is_empty


def test_a_socket_of_nobody_is_an_error(path: Path) -> None:
    with pytest.raises(OSError, match=r"."):
        connect_to(path)


def test_a_turn_that_fails_is_counted_and_the_next_one_reports(
    path: Path, servers: list[FakeReceiver], monkeypatch: pytest.MonkeyPatch
) -> None:
    receiver, rank = listen(path, servers), Rank(path)
    writer, turns = Writer(rank.stream, rank.session, period_s=0.0), [0]

    def planted(*_args: object) -> NoReturn:
        turns[0] += 1
        raise RuntimeError("planted")

    def turn() -> None:
        rank.now_s += 10.0
        writer._try(partial(writer._tick, sends=True))

    for value in range(6):
        rank.event("gc", value)
        with monkeypatch.context() as patch:
            if value % 2:
                patch.setattr(writer_module, "encode_rows", planted)
            turn()
    rank.session.ring.put("events", (0,))  # a collector's mistake
    turn()
    monkeypatch.setattr(rank.session, "tick", planted)
    turn()
    monkeypatch.undo()
    rank.event("gc", 9.0)
    turn()
    rank.close()
    receiver.drain()
    assert turns == [4]
    assert values(receiver) == [0.0, 2.0, 4.0, 9.0]
    [heard] = receiver.heard
    assert heard.records().dropped == {"unpackable": 4, "writer_error": 1}
    assert heard.said_bye and any("RuntimeError" in note for note in rank.session.notes)


def test_of_the_turns_within_two_periods_one_sends_also_after_late_ones(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rank, seen, now_s = Rank(path), list[tuple[float, bool]](), [10.125]
    writer = Writer(rank.stream, rank.session, period_s=0.25)

    class Stop(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            now_s[0] += timeout or 0.0
            return len(seen) == 12

    def turn(*, sends: bool) -> None:
        seen.append((now_s[0], sends))
        now_s[0] += 0.375 if 3 <= len(seen) < 7 else 0.01  # some take longer than a period

    monkeypatch.setattr(writer, "_stop", Stop())
    monkeypatch.setattr(writer, "_tick", turn)
    monkeypatch.setattr(writer, "_finish", lambda: None)
    with monkeypatch.context() as patch:
        patch.setattr(writer_module, "time", SimpleNamespace(time=lambda: now_s[0]))
        writer._run()
    assert all(at_s % 0.25 == pytest.approx(0.0) or at_s % 0.25 == pytest.approx(0.25) for at_s, _ in seen)
    slots = [int(at_s / 0.25 + 0.01) // SEND_TICKS for at_s, _ in seen]
    sent = [slot for slot, (_, sends) in zip(slots, seen, strict=True) if sends]
    assert sent == sorted(set(slots))  # each once, at its first turn
    assert seen[0][1]


@given(now_s=st.floats(0, 4e9), period_s=st.floats(1e-3, 10))
def test_the_next_turn_is_a_whole_period_and_not_far(now_s: float, period_s: float) -> None:
    turn, wait_s = next_turn(now_s, period_s)
    assert -1e-6 <= wait_s <= period_s + 1e-6
    assert turn * period_s == pytest.approx(now_s + wait_s)
