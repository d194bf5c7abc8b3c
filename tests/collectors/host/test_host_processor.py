"""The processor between real sockets and a real HTTP server."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from argus.collectors.host import processor as processor_module
from argus.collectors.host import ranks as ranks_module
from argus.collectors.host.client import parse_server
from argus.collectors.host.counters import Counters
from argus.collectors.host.fake_host import HOST, FakeHost
from argus.collectors.host.fake_rank import FakeRank, frames, preamble, steps
from argus.collectors.host.fake_service import FakeService, serve
from argus.collectors.host.ranks import Ranks
from argus.collectors.host.window import cut
from argus.collectors.readers.recording import read
from argus.collectors.records.channels import CHANNELS
from argus.collectors.records.frames import Kind
from argus.collectors.records.heartbeat import Heartbeat
from argus.collectors.records.layout import Layout
from argus.collectors.records.plan import WindowPlan

LAYOUT = Layout(run="run", attempt=0, rank=0, world_size=8, host="host-1", pid=os.getpid())
PLAN = WindowPlan()
Start = Callable[..., FakeHost]
RANK_SCRIPT = """
import os, sys, time
from pathlib import Path
from argus.collectors.host.fake_host import FakeHost
from argus.collectors.host.fake_host import start as start_host
from argus.collectors.host.fake_rank import FakeRank
from argus.collectors.records.layout import Layout
rank = FakeRank(Path(sys.argv[1]), Layout(run="run", attempt=0, rank=3, world_size=8, pid=os.getpid()))
rank.play(0, 5)
rank.status(4)
if len(sys.argv) > 2:
    exec(sys.argv[2])
time.sleep(60)
"""


def spawn(path: Path, *then: str) -> subprocess.Popen[bytes]:
    env = {**os.environ, "PYTHONPATH": os.getcwd()}
    return subprocess.Popen([sys.executable, "-c", RANK_SCRIPT, str(path), *then], env=env)


def is_beat(check: Callable[[Heartbeat], bool], *, rank: int = 3) -> Callable[[FakeService], bool]:
    return lambda service: any(beat.rank == rank and check(beat) for beat in service.beats)


def test_windows_arrive_as_cut_from_all_records(start: Start, service: FakeService) -> None:
    host = start()
    rank = host.connect()
    for first in range(0, 35, 5):
        rank.play(first, first + 5)
    rank.bye()
    assert service.wait_for(lambda s: len(s.windows) == 4)
    expected = cut(steps(LAYOUT, 0, 35), PLAN)
    assert [w.to_bytes() for w in sorted(service.windows.values(), key=lambda w: w.window)] == [
        w.to_bytes() for w in expected
    ]
    assert service.layouts[0] == LAYOUT
    assert service.wait_for(is_beat(lambda beat: beat.state == "ended", rank=0))


@pytest.mark.slow
def test_all_ranks_of_a_host_share_requests(start: Start, service: FakeService) -> None:
    host = start()
    ranks = [host.connect(number) for number in range(8)]
    for rank in ranks:
        rank.play(0, 11)
    assert service.wait_for(lambda s: len(s.windows) == 8)
    assert len([path for path, _ in service.requests if path.endswith("windows")]) <= 3
    assert service.wait_for(lambda s: {beat.rank for beat in s.beats} == set(range(8)))


@pytest.mark.slow
def test_a_rank_that_reconnects_continues(start: Start, service: FakeService) -> None:
    host = start()
    first = host.connect()
    first.play(0, 6)
    first.sock.close()
    second = host.connect()
    second.play(6, 12)
    assert service.wait_for(lambda s: len(s.windows) == 1)
    (window,) = service.windows.values()
    assert window.steps["step"].tolist() == list(range(10))
    assert window.dropped == {}


@pytest.mark.slow
def test_a_program_that_replaced_itself_is_another_launch_in_a_file_of_its_own(
    start: Start, tmp_path: Path
) -> None:
    host = start(url="", record_bytes=1 << 20)
    for began_ns in (1, 2):
        with FakeRank(host.path, replace(LAYOUT, began_ns=began_ns)) as rank:
            rank.play(0, 25 * began_ns)
        assert host.wait_for(lambda: host.counters.get("argus_collector_ranks") == 0)
    host.stop()
    files = [tmp_path / "rec" / name for name in ("rank-0.argus", "rank-0.2.argus")]
    assert [len(next(iter(read(file))).records.steps) for file in files] == [25, 50]
    assert host.counters.get("argus_collector_dropped_events_total", "late") == 0


@pytest.mark.slow
def test_a_new_attempt_starts_fresh(start: Start, service: FakeService) -> None:
    host = start()
    host.connect().play(0, 12)
    host.connect(attempt=1).play(0, 12)
    assert service.wait_for(lambda s: len(s.windows) == 2)
    assert {window.attempt for window in service.windows.values()} == {0, 1}


@pytest.mark.slow
def test_the_plan_of_the_service_is_followed(start: Start, service: FakeService) -> None:
    service.plans = [{"run": "run", "attempt": 0, "first": 10, "switch": 20, "then": 5}]
    host = start()
    rank = host.connect()
    rank.play(0, 3)
    assert service.wait_for(lambda s: bool(s.layouts))
    assert host.wait_for(lambda: all(m.state._buffer.plan.then == 5 for m in host.ranks))
    rank.play(3, 31)
    assert service.wait_for(lambda s: len(s.windows) == 4)
    assert [w.num_steps for w in sorted(service.windows.values(), key=lambda w: w.window)] == [10, 10, 5, 5]


@pytest.mark.slow
def test_the_level_of_the_service_reaches_every_rank_and_comes_back_in_beats_and_windows(
    start: Start, service: FakeService
) -> None:
    plan = {"run": "run", "attempt": 0, "first": 10, "switch": 0, "then": 0, "level": 2, "from_step": 30}
    service.plans = [plan]
    host = start()
    ranks = [host.connect(rank) for rank in (3, 4)]
    for rank in ranks:
        rank.play(0, 45)
    assert service.wait_for(is_beat(lambda beat: beat.channels_off == CHANNELS[:2]))
    for rank in ranks:
        assert rank.hear() == {"level": 2, "from_step": 30}
    assert service.wait_for(lambda s: len(s.windows) == 8)
    off = {window.window: window.channels_off for window in service.windows.values()}
    assert off[3] == CHANNELS[:2]
    assert any("service decided" in line for line in host.said)


@pytest.mark.slow
def test_a_stopped_rank_shows_its_state_at_once(start: Start, service: FakeService) -> None:
    host = start()
    process = spawn(host.path)
    try:
        assert service.wait_for(is_beat(lambda beat: beat.status.step == 4))
        os.kill(process.pid, signal.SIGSTOP)
        assert service.wait_for(is_beat(lambda beat: beat.process_state == "T" and beat.state == "running"))
        os.kill(process.pid, signal.SIGCONT)
        seen = len(service.beats)
        assert service.wait_for(lambda s: any(beat.process_state in "SR" for beat in s.beats[seen:]))
    finally:
        process.kill()
        process.wait()
    assert service.wait_for(is_beat(lambda beat: beat.state == "exited"))
    assert service.wait_for(is_beat(lambda beat: beat.exit_reason in ("signal 9", "")))
    assert service.wait_for(lambda s: any(w.rank == 3 and len(w.steps) == 5 for w in s.windows.values()))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("then", "state", "reason"),
    [
        ("os._exit(7)", "exited", "code 7"),
        ("os.kill(os.getpid(), 11)", "exited", "signal 11"),
        ("rank.bye(); os._exit(0)", "ended", ""),
        ("rank.bye(); time.sleep(0.5); os._exit(3)", "exited", "code 3"),
        ("rank.bye(); os.kill(os.getpid(), 15)", "ended", ""),
    ],
)
def test_how_a_rank_ended_is_told(
    start: Start, service: FakeService, then: str, state: str, reason: str
) -> None:
    host = start()
    process = spawn(host.path, then)
    process.wait()
    assert service.wait_for(is_beat(lambda beat: beat.state == state and beat.exit_reason in (reason, "")))
    assert host.wait_for(lambda: not len(host.ranks))
    assert service.beats[-1].state == state


@pytest.mark.slow
def test_a_rank_that_lives_on_after_its_goodbye_is_let_go_after_a_time(
    start: Start, service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranks_module, "LEAVE_S", 0.5)
    monkeypatch.setattr(processor_module, "BEATS_S", 0.2)
    host = start()
    process = spawn(host.path, "rank.bye(); time.sleep(60)")
    try:
        assert service.wait_for(is_beat(lambda beat: beat.state == "ended"))
        assert host.wait_for(lambda: not len(host.ranks))
    finally:
        process.kill()
        process.wait()


@pytest.mark.slow
def test_a_fork_that_keeps_the_socket_open_does_not_hide_a_death(start: Start, service: FakeService) -> None:
    host = start()
    process = spawn(host.path, "pid = os.fork()\nif pid == 0: time.sleep(20)\nelse: os._exit(1)")
    process.wait()
    assert service.wait_for(is_beat(lambda beat: beat.state == "exited"))


def test_a_connection_that_closes_without_a_word_is_told_at_once(
    start: Start, service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processor_module, "BEATS_S", 1e9)
    host = start()
    rank = host.connect()
    rank.status(7)
    assert host.wait_for(lambda: host.counters.get("argus_collector_ranks") == 1)
    before = len(service.beats)
    rank.sock.close()
    assert service.wait_for(lambda s: len(s.beats) > before)
    assert service.beats[-1].state == "running" and service.beats[-1].status.step == 7


@pytest.mark.slow
def test_a_second_process_cannot_speak_for_a_connected_rank(start: Start, service: FakeService) -> None:
    host = start()
    host.connect(rank=3).play(0, 1)
    assert host.wait_for(lambda: host.counters.get("argus_collector_rows_total", "steps") == 1)
    hears = RANK_SCRIPT.partition("rank.play")[0] + "print(rank.hear()['refused'])"
    env = {**os.environ, "PYTHONPATH": os.getcwd()}
    command = [sys.executable, "-c", hears, str(host.path)]
    other = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=True)
    assert host.counters.get("argus_collector_rejected_total", "frame") == 1
    assert other.stdout == f"rank 3 of run run, attempt 0, is process {os.getpid()} on this host\n"


@pytest.mark.slow
def test_garbage_is_counted_and_the_others_go_on(start: Start, service: FakeService) -> None:
    host = start()
    rank = host.connect()
    with socket.socket(socket.AF_UNIX) as noise:
        noise.connect(str(host.path))
        noise.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert noise.recv(1) == b""
    with socket.socket(socket.AF_UNIX) as half:
        half.connect(str(host.path))
        half.sendall(preamble(LAYOUT)[:-3])
    rank.play(0, 12)
    assert service.wait_for(lambda s: len(s.windows) == 1)
    assert host.counters.get("argus_collector_rejected_total", "frame") == 1
    assert host.wait_for(lambda: host.counters.get("argus_collector_rejected_total", "cut_frame") == 1)


@pytest.mark.slow
def test_bad_rows_are_counted_in_the_window(start: Start, service: FakeService) -> None:
    host = start()
    rank = host.connect()
    bad = steps(LAYOUT, 0, 3)
    bad.phases["dur_ns"] = -1
    rank.sock.sendall(frames(bad))
    rank.play(3, 12)
    rank.send(Kind.DROPS, {"ring_full": 4})
    assert service.wait_for(lambda s: len(s.windows) == 1)
    (window,) = service.windows.values()
    assert window.dropped == {"bad_value": 6, "ring_full": 4}
    assert host.counters.get("argus_collector_dropped_events_total", "bad_value") == 6
    assert host.counters.get("argus_collector_dropped_events_total", "rank") == 4


@pytest.fixture
def lonely(start: Start) -> FakeHost:
    return start(url="", record_bytes=1 << 20)


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_bytes_kill_the_processor(lonely: FakeHost, data: st.DataObject) -> None:
    good = preamble(LAYOUT) + frames(steps(LAYOUT, 0, 3))
    cuts = data.draw(st.lists(st.integers(0, len(good)), min_size=1, max_size=4))
    noise = data.draw(st.binary(max_size=60))
    raw = bytearray(good if data.draw(st.booleans()) else b"")
    for at in cuts:
        raw[at : at + len(noise)] = noise
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(str(lonely.path))
        try:
            sock.sendall(bytes(raw))
            sock.shutdown(socket.SHUT_WR)
            assert sock.recv(1) == b""
        except (BrokenPipeError, ConnectionResetError):
            pass  # it hung up before everything was sent
    assert lonely.thread.is_alive()


@pytest.mark.slow
def test_a_recording_reads_back_as_what_was_sent(start: Start, tmp_path: Path) -> None:
    host = start(url="", record_bytes=1 << 20)
    rank = host.connect()
    rank.send(Kind.NOTE, {"unseen": "kernels"})
    rank.play(0, 25)
    rank.send(Kind.DROPS, {"ring_full": 2})
    rank.bye()
    assert host.wait_for(lambda: host.counters.get("argus_collector_windows_total") > 0)
    assert host.wait_for(lambda: not len(host.ranks))
    (reading,) = read(tmp_path / "rec" / "rank-0.argus")
    assert not reading.warnings
    assert reading.records.dropped == {"ring_full": 2} and reading.records.unseen == ("kernels",)
    sent = replace(steps(LAYOUT, 0, 25), dropped={"ring_full": 2}, unseen=("kernels",))
    assert [w.to_bytes() for w in cut(reading.records, PLAN)] == [w.to_bytes() for w in cut(sent, PLAN)]


@pytest.mark.slow
def test_a_full_recording_stops_and_says_so_once(start: Start, tmp_path: Path) -> None:
    host = start(url="", record_bytes=3000)
    rank = host.connect()
    for first in range(0, 40, 5):
        rank.play(first, first + 5)
    rank.bye()
    assert host.wait_for(lambda: host.counters.get("argus_collector_windows_total") > 0)
    assert host.wait_for(lambda: not len(host.ranks))
    size = (tmp_path / "rec" / "rank-0.argus").stat().st_size
    assert size <= 3000 and len([line for line in host.said if "full" in line]) == 1
    assert host.counters.get("argus_collector_dropped_events_total", "record_full") > 0
    (reading,) = read(tmp_path / "rec" / "rank-0.argus")
    assert reading.records.layout.rank == 0


@pytest.mark.parametrize(("is_given", "host"), [(True, HOST), (False, "pod-3")])
def test_a_host_that_was_given_a_name_gives_it_to_its_ranks(is_given: bool, host: str) -> None:
    ranks = Ranks(host=HOST, first_steps=10, counters=Counters(), is_host_given=is_given)
    member = ranks.connect(replace(LAYOUT, host="pod-3"), pid=1, now_s=0.0)
    assert member.state.layout.host == host
    assert ranks.named(replace(LAYOUT, host="")).host == HOST


def test_stopping_cuts_and_sends_what_is_open(start: Start, service: FakeService) -> None:
    host = start()
    rank = host.connect()
    rank.play(0, 4)
    assert host.wait_for(lambda: host.counters.get("argus_collector_rows_total", "steps") == 4)
    host.stop()
    (window,) = service.windows.values()
    assert len(window.steps) == 4
    assert not host.path.exists()


@pytest.mark.slow
def test_it_ends_when_launcher_and_ranks_are_gone(start: Start, service: FakeService) -> None:
    launcher = subprocess.Popen(["sleep", "60"])
    host = start(launcher_pid=launcher.pid)
    rank = host.connect()
    rank.play(0, 3)
    launcher.kill()
    launcher.wait()
    time.sleep(0.3)
    assert host.thread.is_alive()
    rank.bye()
    host.thread.join(10.0)
    assert not host.thread.is_alive()
    assert len(service.windows) == 1


@pytest.mark.slow
def test_the_service_that_restarts_elsewhere_hears_the_layouts_again(start: Start) -> None:
    first = FakeService()
    with serve(first):
        port = int(first.url.rsplit(":", 1)[1])
        host = start(url=first.url)
        host.connect().play(0, 3)
        assert first.wait_for(lambda s: bool(s.layouts))
    assert host.wait_for(lambda: host.counters.get("argus_collector_upload_failures_total", "no_answer") > 0)
    second = FakeService()
    with serve(second, port=port):
        assert second.wait_for(lambda s: bool(s.layouts) and bool(s.beats))
        host.stop()
    assert parse_server(second.url).port == port
