"""What live faults do to the machine is undone, also when the run that did it was told to stop or was killed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from argus.evals.interrupts import ENDING, orderly_end
from argus.evals.live import sweep
from argus.evals.live.cgroup import Controller, find_controller, limited, path_in
from argus.evals.live.faults import faults
from argus.evals.live.launcher import env_of, wait
from argus.evals.live.machine import look
from argus.evals.live.names import name_of

SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]
DIRTY = """
import subprocess, sys, time
from pathlib import Path
from argus.evals.live.cgroup import find_controller, limited
from argus.evals.interrupts import orderly_end
from argus.evals.live.names import marked, name_of
from argus.evals.live.network import network

with orderly_end(), marked(), network(2, relayed=1, directory=Path(sys.argv[1])):
    hog = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        with limited(hog.pid, controller=find_controller(), name=name_of("quota"), share=0.5):
            print("ready", flush=True)
            time.sleep(60)
    finally:
        hog.kill()
        hog.wait()
"""


def test_version_2_gets_its_quota_and_the_process_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files stand in for the kernel's: no machine has both versions' controllers."""
    root = tmp_path / "tree"
    root.mkdir()
    (root / "cgroup.controllers").write_text("cpuset cpu io")
    (root / "cgroup.subtree_control").write_text("")
    controller = find_controller(f"none {tmp_path} cgroup rw,memory 0 0\nnone {root} cgroup2 rw 0 0\n")
    assert controller == Controller(version=2, root=root)
    monkeypatch.setattr(Path, "rmdir", shutil.rmtree)
    before = path_in(controller, Path("/proc/self/cgroup").read_text()).strip("/")
    (root / before).mkdir(parents=True, exist_ok=True)
    with limited(os.getpid(), controller=controller, name="group", share=0.25):
        assert (root / "group" / "cpu.max").read_text() == "25000 100000"
        assert (root / "group" / "cgroup.procs").read_text() == str(os.getpid())
        assert (root / "cgroup.subtree_control").read_text() == "+cpu"
    assert not (root / "group").exists()
    assert (root / before / "cgroup.procs").read_text() == str(os.getpid())
    assert (root / "cgroup.subtree_control").read_text() == "-cpu"


def test_version_1_is_found_by_its_controller(tmp_path: Path) -> None:
    text = f"none /x cgroup rw,cpuset 0 0\nnone {tmp_path} cgroup rw,cpuacct,cpu 0 0\n"
    assert find_controller(text) == Controller(version=1, root=tmp_path)
    assert find_controller("") is None


def test_the_first_signal_unwinds_and_the_next_do_not_disturb() -> None:
    before = [signal.getsignal(number) for number in ENDING]
    undone = []
    with pytest.raises(SystemExit) as end, orderly_end():
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(5.0)  # the handler runs at the latest here and raises
        finally:
            os.kill(os.getpid(), signal.SIGINT)
            undone.append(True)
    assert end.value.code == 128 + signal.SIGTERM and undone
    assert [signal.getsignal(number) for number in ENDING] == before


def test_a_rank_that_fails_ends_the_others() -> None:
    ranks = [subprocess.Popen(SLEEP), subprocess.Popen(["/bin/sh", "-c", "exit 3"])]
    assert wait(ranks) == 3
    assert ranks[0].returncode == -signal.SIGTERM
    env = env_of(1, ranks=4, master="10.0.0.1", interface="eth0")
    assert (env["RANK"], env["WORLD_SIZE"], env["GLOO_SOCKET_IFNAME"]) == ("1", "4", "eth0")


needs_network = pytest.mark.skipif(
    faults()["link_delay"].can(look()) is not None or faults()["cpu_quota"].can(look()) is not None,
    reason="needs root, network namespaces and a CPU controller",
)


@pytest.fixture
def dirty(tmp_path: Path) -> subprocess.Popen[bytes]:
    """A run with a network, a relay, a hog and a quota; its command line says it is one."""
    process = subprocess.Popen(
        [sys.executable, "-c", DIRTY, str(tmp_path), "live"], stdout=subprocess.PIPE, env=_env()
    )
    assert process.stdout is not None and process.stdout.readline() == b"ready\n"
    return process


def _env() -> dict[str, str]:
    root = str(Path(__file__).resolve().parents[2])
    return {**os.environ, "PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])}


def left_of(pid: int) -> list[str]:
    """Kinds of what a run has on the machine."""
    return sorted(item.kind for owner, item in sweep._things() if owner == pid)


@needs_network
@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_nothing_stays_behind(dirty: subprocess.Popen[bytes], number: int) -> None:
    made = left_of(dirty.pid)
    assert set(made) == {"cgroup", "namespace", "process"} and made.count("namespace") == 3
    assert dirty.pid not in {owner for owner, _ in sweep._things() if not sweep.is_running(owner)}
    dirty.send_signal(number)
    dirty.wait(20)
    assert dirty.stdout is not None
    dirty.stdout.close()
    if number == signal.SIGKILL:
        assert set(left_of(dirty.pid)) == {"cgroup", "namespace", "process"}
        sweep.clean(item for owner, item in sweep._things() if owner == dirty.pid)
    assert left_of(dirty.pid) == []


@needs_network
@pytest.mark.slow
def test_version_1_quota_holds_while_it_lasts() -> None:
    controller = find_controller()
    assert controller is not None
    child = subprocess.Popen(SLEEP)
    try:
        before = Path(f"/proc/{child.pid}/cgroup").read_text()
        with limited(child.pid, controller=controller, name=name_of("test"), share=0.3):
            assert path_in(controller, Path(f"/proc/{child.pid}/cgroup").read_text()).endswith("-test")
        assert Path(f"/proc/{child.pid}/cgroup").read_text() == before
    finally:
        child.kill()
        child.wait()
