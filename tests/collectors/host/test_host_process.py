"""What the kernel says of processes, launchers and sockets."""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import urllib.request
from pathlib import Path

import pytest

from argus.collectors.host import process as process_module
from argus.collectors.host.counters import Counters
from argus.collectors.host.launchers import Launchers
from argus.collectors.host.listener import Peer, listen, peer_of
from argus.collectors.host.metrics import METRICS, serve_metrics
from argus.collectors.host.process import Process, read_stat
from argus.collectors.records.endpoint import MAX_PATH


def exited(*words: str) -> tuple[str, str, str]:
    """Letter before, letter as a zombie, reason after a child has been taken by its parent."""
    child = subprocess.Popen(words)
    process = Process(child.pid)
    before = process.letter()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    zombie = process.letter()
    child.wait()
    assert process.letter() == ""
    reason = process.exit_reason()
    process.close()
    return before, zombie, reason


def test_an_exit_is_seen_with_its_code() -> None:
    before, zombie, reason = exited("sh", "-c", "sleep 0.05; exit 7")
    assert before in "SRD" and zombie == "Z" and reason == "code 7"


def test_a_signal_is_told_as_such() -> None:
    assert exited("sh", "-c", "kill -9 $$")[2] == "signal 9"


def test_a_kill_for_memory_is_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events = tmp_path / "memory.events"
    events.write_text("low 0\noom 1\noom_kill 1\n")
    monkeypatch.setattr(process_module, "_oom_file", lambda pid: events)
    child = subprocess.Popen(["sleep", "60"])
    process = Process(child.pid)
    events.write_text("low 0\noom 2\noom_kill 2\n")
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert process.letter() == "Z" and process.exit_reason() == "oom"
    child.wait()
    process.close()


def test_a_stopped_process_shows_it() -> None:
    child = subprocess.Popen(["sleep", "60"])
    process = Process(child.pid)
    os.kill(child.pid, signal.SIGSTOP)
    os.waitpid(child.pid, os.WUNTRACED)
    assert process.letter() == "T"
    child.kill()
    child.wait()
    process.close()


def test_a_number_used_again_is_another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    process = Process(os.getpid())
    stat = read_stat(os.getpid())
    assert stat is not None
    other = process_module.Stat(letter="R", start=stat.start + 1, exit_status=0)
    monkeypatch.setattr(process_module, "read_stat", lambda pid: other)
    assert process.letter() == ""
    process.close()


def test_without_the_newer_kernel_calls_proc_alone_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(*_: object) -> int:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr("os.pidfd_open", absent)
    monkeypatch.setattr("fcntl.ioctl", absent)
    assert exited("sh", "-c", "exit 3")[1:] == ("Z", "code 3")
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin is not None and child.stdout is not None
        child.stdin.write(b"runs\n")
        child.stdin.flush()
        assert child.stdout.readline() == b"runs\n"
        process = Process(child.pid)
        child.stdin.close()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert (process.letter(), process.exit_reason()) == ("Z", "code 0")


def test_an_exit_that_may_not_be_read_is_unknown_and_not_0(monkeypatch: pytest.MonkeyPatch) -> None:
    """/proc shows 0 there. The kernel tells by pidfd only once the parent has taken the process."""
    stat = process_module.Stat(letter="S", start=7, exit_status=0)
    monkeypatch.setattr(process_module, "read_stat", lambda pid: stat)
    process = Process(os.getpid())
    stat = process_module.Stat(letter="Z", start=7, exit_status=0)
    assert (process.letter(), process.exit_reason()) == ("Z", "")
    process.close()


def test_an_invisible_process_tells_nothing() -> None:
    process = Process(os.getpid(), is_visible=False)
    assert (process.letter(), process.exit_reason(), process.fd) == ("", "", None)


def test_launchers_count_as_long_as_they_live(tmp_path: Path) -> None:
    launchers = Launchers(tmp_path / "l")
    assert not launchers.any_alive()
    child = subprocess.Popen(["sleep", "60"])
    launchers.add(child.pid)
    stat = read_stat(os.getpid())
    assert stat is not None
    (tmp_path / "l" / f"{os.getpid()}-{stat.start + 1}").touch()
    (tmp_path / "l" / "noise").touch()
    assert launchers.any_alive()
    assert [path.name.split("-")[0] for path in (tmp_path / "l").iterdir()] == [str(child.pid)]
    child.kill()
    child.wait()
    assert not launchers.any_alive() and not list((tmp_path / "l").iterdir())
    launchers.add(child.pid)
    assert not launchers.any_alive()


def test_one_listens_the_next_does_not_and_a_stale_socket_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "d" / "p.sock"
    path.parent.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(path))
    first = listen(path)
    assert first is not None and listen(path) is None
    assert path.stat().st_mode & 0o777 == 0o600
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
        accepted, _ = first.sock.accept()
        assert peer_of(accepted) == Peer(pid=os.getpid(), uid=os.getuid())
        accepted.close()
    first.close()
    second = listen(path)
    assert second is not None
    second.close()


def test_only_the_user_and_root_are_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.getuid", lambda: 1000)
    assert [Peer(pid=1, uid=uid).is_trusted for uid in (1000, 0, 1001)] == [True, True, False]


def test_credentials_come_from_the_kernel() -> None:
    class Sock:
        def getsockopt(self, level: int, option: int, size: int) -> bytes:
            assert (level, option) == (socket.SOL_SOCKET, socket.SO_PEERCRED)
            return struct.pack("3i", 42, 1001, 5)

    assert peer_of(Sock()) == Peer(pid=42, uid=1001)  # type: ignore[arg-type]


def test_an_open_directory_or_a_long_path_is_refused(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir(mode=0o755)
    with pytest.raises(ValueError, match="mode 0700"):
        listen(tmp_path / "open" / "p.sock")
    with pytest.raises(ValueError, match=f"longer than {MAX_PATH}"):
        listen(tmp_path / ("x" * 120) / "p.sock")


@pytest.mark.slow
def test_metrics_are_served_on_loopback_with_every_family() -> None:
    counters = Counters()
    counters.add("argus_collector_dropped_events_total", "late", amount=3)
    counters.add("argus_collector_upload_seconds_count", amount=2)
    counters.add("argus_collector_upload_seconds_sum", amount=0.5)
    server = serve_metrics(counters, port=0, version="1.2", cpu_s=lambda: 4.5)
    url = f"http://127.0.0.1:{server.port}/metrics"
    text = urllib.request.urlopen(url, timeout=10).read().decode()
    with pytest.raises(OSError):
        serve_metrics(counters, port=server.port, version="", cpu_s=lambda: 0.0)
    server.close()
    lines = text.splitlines()
    for line in (
        'argus_build_info{version="1.2"} 1.0',
        'argus_collector_dropped_events_total{reason="late"} 3.0',
        "argus_collector_ranks 0.0",
        "argus_collector_upload_seconds_count 2.0",
        "argus_collector_upload_seconds_sum 0.5",
        "argus_collector_cpu_seconds_total 4.5",
    ):
        assert line in lines
    assert all(f"# HELP {name} " in text for name in METRICS)
