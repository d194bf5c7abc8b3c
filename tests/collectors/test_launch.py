"""`argus run`: the environment, the processor of the host, and becoming the command."""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

import argus
from argus.api.cli import main
from argus.collectors import launch
from argus.collectors.host.listener import Target, listen
from argus.collectors.rank.sink import connect_to
from argus.collectors.records.endpoint import private_directory

ROOT = Path(argus.__file__).parents[1]

STUB = """
import os, sys, time
sys.path.insert(0, {root!r})
from pathlib import Path
from argus.collectors.rank.fake_receiver import FakeReceiver
from argus.collectors.launch import answers
if answers(Path({socket!r})):
    sys.exit()
open({started!r}, "a").write(f"{{os.getpid()}} {{os.getppid()}} {{os.environ.get('ARGUS_OFF')}}\\n")
FakeReceiver(Path({socket!r})).start()
time.sleep(60)
"""


def plan_of(env: dict[str, str], **options: str) -> launch.Plan:
    return launch.make_plan(
        env,
        run=options.get("run"),
        socket=options.get("socket"),
        server=options.get("server"),
        record=options.get("record"),
        has_processor=True,
        generated="run-1",
    )


def test_a_plan_prefers_options_then_environment_then_defaults() -> None:
    assert plan_of({}).run == "run-1"
    assert plan_of({"SLURM_JOB_ID": "17"}).run == "17"
    assert plan_of({"ARGUS_RUN": "mine", "SLURM_JOB_ID": "17"}).run == "mine"
    assert plan_of({"ARGUS_RUN": "mine"}, run="other").run == "other"
    assert plan_of({"ARGUS_SERVER": "http://a"}, server="http://b").server == "http://b"
    assert plan_of({}, run="night\n17\udce9").run == "night?17?"


def test_without_a_service_it_records_on_a_socket_of_its_own() -> None:
    local, served = plan_of({}), plan_of({"ARGUS_SERVER": "http://a"})
    assert local.record == Path("argus-recording-run-1").absolute()
    assert local.socket.name.startswith("run-1-")
    assert served.record is None
    assert plan_of({}, run="x" * 200).socket.name != plan_of({}, run="x" * 201).socket.name
    assert len(str(plan_of({}, run="x" * 300).socket)) < 100


def test_jobs_share_a_processor_only_if_they_report_to_the_same_place() -> None:
    first = plan_of({}, server="http://a", run="one")
    assert first.socket == plan_of({"ARGUS_SERVER": "http://a"}, run="two").socket
    assert first.socket != plan_of({}, server="http://b").socket
    assert first.socket != plan_of({}, server="http://a", record="here").socket
    assert plan_of({}, run="one").socket != plan_of({}, run="one", record="there").socket
    assert plan_of({"ARGUS_SOCKET": "/s/p.sock"}, server="http://b").socket == Path("/s/p.sock")


@pytest.mark.parametrize("name", ["file", "file/recording"])
def test_a_folder_that_cannot_be_made_is_said_before_the_job_starts(name: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    plan = plan_of({}, socket=str(tmp_path / "s" / "p.sock"), record=str(tmp_path / name))
    with pytest.raises(OSError, match=f"^cannot record into {tmp_path / name}: a file is in its place$"):
        launch.ensure_processor(plan, launcher_pid=1, env={})


def test_a_socket_path_that_is_too_long_is_said_at_once_and_leaves_nothing(tmp_path: Path) -> None:
    path, record = tmp_path / ("s" * 107) / "p.sock", tmp_path / "recording"
    plan = plan_of({}, socket=str(path), record=str(record))
    with pytest.raises(ValueError, match=f"^the socket path {path} is longer than 107 bytes$"):
        launch.ensure_processor(plan, launcher_pid=1, env={})
    assert not record.exists() and not path.parent.exists()


def test_the_environment_gets_one_directory_first_and_keeps_the_rest() -> None:
    env = launch.rank_env({"PYTHONPATH": "/a:/b", "HOME": "/h"}, plan_of({}))
    assert env["PYTHONPATH"].split(":")[1:] == ["/a", "/b"]
    assert Path(env["PYTHONPATH"].split(":")[0], "sitecustomize.py").is_file()
    assert (env["HOME"], env["ARGUS_RUN"]) == ("/h", "run-1")
    assert launch.rank_env(env, plan_of(env))["PYTHONPATH"] == env["PYTHONPATH"]
    assert launch.plan_from(env) == plan_of({})


def stub_processor(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, script: str = STUB
) -> tuple[launch.Plan, Path]:
    plan = plan_of({}, socket=str(tmp_path / "s" / "p.sock"))
    started = tmp_path / "started"
    text = script.format(root=str(ROOT), started=str(started), socket=str(plan.socket))
    monkeypatch.setattr(launch, "processor_command", lambda _plan, launcher_pid: [sys.executable, "-c", text])
    return plan, started


@pytest.mark.slow
def test_many_launchers_start_one_detached_processor(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    plan, started = stub_processor(monkeypatch, tmp_path)
    said: list[str] = []

    def ensure() -> None:
        said.append(launch.ensure_processor(plan, launcher_pid=os.getpid(), env=dict(os.environ), wait_s=30))

    threads = [threading.Thread(target=ensure) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(said) == ["joined the processor of this host"] * 3 + ["processor started"]
    [line] = started.read_text().splitlines()
    pid, parent, off = line.split()
    os.kill(int(pid), signal.SIGTERM)
    assert int(parent) != os.getpid() and off == "1"
    assert plan.socket.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.slow
def test_a_launcher_that_was_stopped_while_it_started_one_holds_up_no_other(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plan, _ = stub_processor(monkeypatch, tmp_path, script="")
    private_directory(plan.socket.parent)
    with plan.socket.with_suffix(".lock").open("w") as stopped:
        fcntl.flock(stopped, fcntl.LOCK_EX)
        said = launch.ensure_processor(plan, launcher_pid=1, env=dict(os.environ), wait_s=0.2)
    assert said.startswith("no processor answers yet")


@pytest.mark.slow
def test_a_processor_that_dies_is_said_and_its_words_are_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plan, _ = stub_processor(monkeypatch, tmp_path, script="import sys; sys.exit('broken')")
    said = launch.ensure_processor(plan, launcher_pid=1, env=dict(os.environ), wait_s=0.3)
    log = plan.socket.with_suffix(".log")
    assert said == f"no processor answers yet, see {log}"
    assert log.read_text() == "broken\n"


@pytest.mark.parametrize(
    ("options", "target", "said"),
    [
        (
            ("--record", "inner"),
            Target(record="{here}/outer"),
            ", recording to {here}/outer, instead of recording to {here}/inner: ",
        ),
        (("--server", "http://b:1"), Target(server="http://a:1"), ", http://a:1, instead of http://b:1: "),
        (
            ("--record", "in"),
            Target(server="http://a:1"),
            ", http://a:1, instead of recording to {here}/in: ",
        ),
        (("--record", "in"), Target(), ", which keeps nothing, instead of recording to {here}/in: "),
        (
            ("--record", "same"),
            Target(record="{here}/same", server="http://a:1"),
            ", recording to {here}/same\n",
        ),
        (("--server", "a:1/"), Target(record="{here}/more", server="http://a:1"), ", a:1/\n"),
    ],
)
def test_a_processor_that_was_started_for_something_else_is_told(
    options: tuple[str, str],
    target: Target,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    socket_path = tmp_path / "s" / "p.sock"
    there = replace(target, record=target.record.format(here=tmp_path))
    listener = listen(socket_path, target=there)
    assert listener is not None
    monkeypatch.setenv("ARGUS_SOCKET", str(socket_path))
    monkeypatch.setattr(launch, "start_processor", lambda *_words, **_more: None)
    monkeypatch.setattr(launch, "replace_process", lambda *_words: None)
    monkeypatch.chdir(tmp_path)
    assert main(["run", *options, "--", "true"]) == 0
    err = capsys.readouterr().err
    listener.close()
    assert f": joined the processor of this host{said.format(here=tmp_path)}" in err and err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["s"]  # no folder that stays empty


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """A job's folder with a package of its own called `argus`, which says when it is run."""
    package = tmp_path / "job" / "argus"
    package.mkdir(parents=True)
    for name in ("__init__.py", "__main__.py"):
        (package / name).write_text(f"open({str(tmp_path / 'ran')!r}, 'a').write(__name__)")
    return package.parent


@pytest.mark.slow
def test_a_package_called_argus_in_the_jobs_folder_is_not_the_processor(
    job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(job)
    plan = plan_of({}, socket=str(tmp_path / "s" / "p.sock"), record=str(tmp_path / "rec"))
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(job), str(ROOT)])}
    assert launch.ensure_processor(plan, launcher_pid=1, env=env, wait_s=30) == "processor started"
    with connect_to(plan.socket) as sock:
        raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    os.kill(struct.unpack("3i", raw)[0], signal.SIGTERM)
    assert not (tmp_path / "ran").exists()


@pytest.mark.slow
def test_a_package_called_argus_of_the_job_is_not_run_in_its_ranks(job: Path, tmp_path: Path) -> None:
    (job / "torch.py").touch()
    (job / "train.py").write_text("import torch")
    command = [sys.executable, str(job / "train.py")]
    env = launch.rank_env({**os.environ, "PYTHONPATH": ""}, plan_of({}, socket=str(tmp_path / "p.sock")))
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    assert not (tmp_path / "ran").exists()
    assert "not observing this process" in done.stderr and "of the job's own" in done.stderr


def test_a_directory_others_can_enter_is_refused(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir(mode=0o755)
    plan = plan_of({}, socket=str(tmp_path / "open" / "p.sock"))
    with pytest.raises(ValueError, match="0700"):
        launch.ensure_processor(plan, launcher_pid=1, env={})


def argus_run(*words: str, env: dict[str, str] | None = None) -> subprocess.Popen[str]:
    """`argus run --no-processor` before a command."""
    command = [sys.executable, "-m", "argus", "run", "--no-processor", *words]
    full = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **(env or {})}
    return subprocess.Popen(command, env=full, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_it_becomes_the_command() -> None:
    process = argus_run("--", "bash", "-c", "echo $$; exit 7")
    out, err = process.communicate()
    assert (out, process.returncode) == (f"{process.pid}\n", 7)
    assert err.count("\n") == 1 and err.startswith("argus: run ")


@pytest.mark.slow
def test_signals_reach_the_command() -> None:
    process = argus_run(
        "--", "bash", "-c", "trap 'echo got; exit 5' USR1; echo up; while :; do sleep 0.05; done"
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    process.send_signal(signal.SIGUSR1)
    out, _ = process.communicate()
    assert (out, process.returncode) == ("got\n", 5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        ((), 2, "no command given"),
        (("--",), 2, "no command given"),
        (("--server", "ftp://host", "--", "true"), 2, "--server or ARGUS_SERVER: the server must be a URL"),
        (("--server", "http://host:port", "--", "true"), 2, "--server or ARGUS_SERVER: "),
        (("--", "no-such-command-anywhere"), 127, "command not found"),
        (("--", str(ROOT / "pyproject.toml")), 126, "not executable"),
    ],
)
def test_what_cannot_run_is_one_sentence(words: tuple[str, ...], code: int, text: str) -> None:
    process = argus_run(*words)
    out, err = process.communicate()
    assert (process.returncode, out) == (code, "")
    assert text in err and err.count("\n") == 1


@pytest.mark.slow
def test_python_without_torch_imports_nothing_of_ours(tmp_path: Path) -> None:
    code = (
        "import sys; print(sorted(n for n in sys.modules if n.startswith('argus.')), 'numpy' in sys.modules)"
    )
    process = argus_run("--", sys.executable, "-c", code)
    out, err = process.communicate()
    assert (out, process.returncode) == ("[] False\n", 0), err


@pytest.mark.slow
@pytest.mark.parametrize(("off", "watches"), [("0", True), ("1", False)])
def test_off_is_off(off: str, watches: bool) -> None:
    code = "import sys; print(any(type(f).__name__ == 'TorchFinder' for f in sys.meta_path))"
    process = argus_run("--", sys.executable, "-c", code, env={"ARGUS_OFF": off})
    out, err = process.communicate()
    assert (out, process.returncode) == (f"{watches}\n", 0), err
    assert ("unobserved" in err) is not watches


@pytest.mark.parametrize(
    "words", [["run", "--run", "..", "--", "true"], ["replay", "--run", "a/./b", "nowhere"]]
)
def test_a_run_without_an_address_is_refused_before_anything_begins(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    said = capsys.readouterr().err
    assert "a run cannot be called . or .." in said and said.count("\n") == 1
