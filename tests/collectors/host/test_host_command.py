"""`argus processor` as a process: one at a time, killed, stopped, no longer needed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from argus.api.cli import main
from argus.api.cli import processor as processor_command
from argus.collectors.host import processor
from argus.collectors.host.fake_rank import FakeRank
from argus.collectors.host.fake_service import FakeService, Reply, serve
from argus.collectors.host.launchers import Launchers
from argus.collectors.host.listener import Listener
from argus.collectors.host.priority import NICE
from argus.collectors.readers.recording import read
from argus.collectors.records.layout import Layout

LAYOUT = Layout(run="run", attempt=0, rank=0, world_size=1, host="h", pid=os.getpid())


class Command:
    """A started processor and its lines."""

    def __init__(self, directory: Path, *options: str) -> None:
        self.path = directory / "p" / "s"
        words = [sys.executable, "-m", "argus", "processor", "--socket", str(self.path), *options]
        env = {k: v for k, v in os.environ.items() if not k.startswith("ARGUS_")}
        self.process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env=env)
        assert self.process.stderr is not None
        self.first_line = self.process.stderr.readline()

    def end(self, number: int) -> tuple[int, str]:
        """Send a signal; exit code and what it still said."""
        self.process.send_signal(number)
        return self.wait()

    def wait(self) -> tuple[int, str]:
        """Exit code and what it still said."""
        _, rest = self.process.communicate(timeout=30)
        return self.process.returncode, rest


Start = Callable[..., Command]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts processors on one socket; none outlives the test."""
    commands: list[Command] = []

    def begin(*options: str) -> Command:
        commands.append(Command(tmp_path, *options))
        return commands[-1]

    yield begin
    for command in commands:
        if command.process.poll() is None:
            command.end(signal.SIGKILL)


@pytest.fixture
def service() -> Iterator[FakeService]:
    with serve(FakeService()) as it:
        yield it


@pytest.mark.slow
def test_a_killed_processor_loses_nothing_it_had_spooled(start: Start, service: FakeService) -> None:
    service.fail = lambda path: Reply(status=503)
    first = start("--server", service.url)
    rank = FakeRank(first.path, LAYOUT)
    rank.play(0, 35)
    spool = Path(f"{first.path}.spool")
    assert service.wait_for(lambda s: any(spool.glob("*.windows")))
    assert first.end(signal.SIGKILL)[0] == -signal.SIGKILL
    rank.sock.close()
    service.fail = lambda path: None
    second = start("--server", service.url)
    assert service.wait_for(lambda s: len(s.windows) == 3)
    assert service.layouts and service.layouts[0] == LAYOUT
    assert second.end(signal.SIGTERM)[0] == 0
    assert not list(spool.glob("*-*"))


@pytest.mark.slow
def test_a_second_one_leaves_at_once_and_metrics_are_on_loopback(
    tmp_path: Path, start: Start, service: FakeService
) -> None:
    first = start("--server", service.url)
    url = first.first_line.split("metrics on ")[1].strip()
    assert url.startswith("http://127.0.0.1:")
    second = start("--server", service.url)
    assert second.wait() == (0, "") and "another processor listens on" in second.first_line
    text = urllib.request.urlopen(url, timeout=10).read().decode()
    assert "argus_collector_ranks 0.0" in text.splitlines()
    assert first.end(signal.SIGTERM) == (0, "")
    assert not first.path.exists()


@pytest.mark.slow
def test_stopping_keeps_on_disk_what_nobody_takes(start: Start) -> None:
    it = start("--server", "http://127.0.0.1:9", "--metrics-port", "-1")
    assert "metrics" not in it.first_line
    with FakeRank(it.path, LAYOUT) as rank:
        rank.play(0, 5)
        code, said = it.end(signal.SIGTERM)
    assert code == 0 and "windows wait in the spool" in said
    assert [path.name.split("-")[1] for path in sorted(Path(f"{it.path}.spool").glob("*.*"))] == [
        "1.layouts",
        "1.windows",
    ]


@pytest.mark.slow
def test_without_a_service_it_records_and_ends_with_its_launcher(tmp_path: Path, start: Start) -> None:
    launcher = subprocess.Popen(["sleep", "60"])
    record = tmp_path / "rec"
    it = start("--record", str(record), "--launcher-pid", str(launcher.pid))
    assert "reports to no service, records into" in it.first_line
    rank = FakeRank(it.path, LAYOUT)
    rank.play(0, 12)
    rank.bye()
    launcher.kill()
    launcher.wait()
    assert it.wait()[0] == 0
    (reading,) = read(record / "rank-0.argus")
    assert len(reading.records.steps) == 12 and not reading.warnings


def test_all_of_it_works_behind_training(start: Start) -> None:
    it = start()
    for task in Path(f"/proc/{it.process.pid}/task").iterdir():
        assert os.getpriority(os.PRIO_PROCESS, int(task.name)) >= NICE
        assert os.sched_getscheduler(int(task.name)) == os.SCHED_BATCH
    assert it.end(signal.SIGTERM)[0] == 0


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--server", "ftp://x"], "--server: the server must be a URL"),
        (["--socket", "/proc/nowhere/s"], "cannot listen on /proc/nowhere/s"),
        (["--socket", "/tmp/argus-test.sock"], "mode 0700"),
        (["--record", "/proc/nowhere"], "cannot record into /proc/nowhere"),
        (["--server", "http://127.0.0.1:9", "--spool", "/proc/nowhere"], "cannot use the spool"),
    ],
)
def test_what_cannot_work_is_one_sentence(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    options: list[str],
    says: str,
) -> None:
    monkeypatch.setattr(processor_command, "give_way", lambda: None)  # not these tests
    words = ["processor", "--socket", str(tmp_path / "p" / "s"), "--metrics-port", "-1", *options]
    assert main(words) == 2
    said = capsys.readouterr().err.strip().splitlines()
    assert said[-1].startswith("argus processor: ") and says in said[-1]
    assert not (tmp_path / "p" / "s").exists()


@pytest.mark.slow
def test_a_launcher_that_comes_while_the_processor_ends_has_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processor_command, "give_way", lambda: None)
    monkeypatch.setattr(signal, "signal", lambda *_args: None)  # not those of these tests
    monkeypatch.setattr(processor, "IDLE_S", 0.0)
    path, came, close = tmp_path / "p" / "s", list[subprocess.Popen[bytes]](), Listener.close

    def late(listener: Listener) -> None:
        if not came:
            came.append(subprocess.Popen(["sleep", "0.2"]))
            Launchers(Path(f"{path}.launchers")).add(came[0].pid)
        close(listener)

    monkeypatch.setattr(Listener, "close", late)
    words = ["processor", "--socket", str(path), "--metrics-port", "-1", "--no-stacks", "--no-host-samples"]
    assert main([*words, "--launcher-pid", str(2**22)]) == 0
    assert capsys.readouterr().err.count("listens on") == 2
    assert came[0].wait() == 0


@pytest.mark.parametrize(
    "options", [["--window-steps", "0"], ["--spool-bytes", "-1"], ["--launcher-pid", "x"]]
)
def test_a_wrong_option_is_wrong_usage(options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["processor", *options])
    assert caught.value.code == 2
    assert options[0] in capsys.readouterr().err


def test_help_names_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["processor", "--help"])
    assert caught.value.code == 0
    text = capsys.readouterr().out
    for option in ("--socket", "--server", "--record", "--spool", "--metrics-port", "--launcher-pid"):
        assert option in text
