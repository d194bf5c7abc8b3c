"""A real host processor before a real service: what ranks said is there, also after the service was killed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from argus.collectors.host.fake_rank import FakeRank
from argus.collectors.records.layout import Layout
from tests.api.process import environment, start, wait_for

pytestmark = pytest.mark.slow

WORLD = 2


def layout(rank: int) -> Layout:
    return Layout(run="job", attempt=0, rank=rank, world_size=WORLD, host="h", pid=os.getpid())


@pytest.fixture
def socket_path(tmp_path: Path) -> Path:
    return tmp_path / "p" / "s"


@pytest.fixture
def spawned() -> Iterator[list[subprocess.Popen[str]]]:
    processes: list[subprocess.Popen[str]] = []
    yield processes
    for process in processes:
        process.kill()
        process.communicate()


@pytest.mark.long
def test_a_killed_service_gets_everything_when_it_is_back(
    tmp_path: Path, socket_path: Path, spawned: list[subprocess.Popen[str]]
) -> None:
    db, key = tmp_path / "a.sqlite", {"ARGUS_KEY": "k", "ARGUS_SETTLE_S": "0", "ARGUS_GRACE_S": "60"}
    service = start(db, key="k", **key)
    command = [
        sys.executable,
        "-m",
        "argus",
        "processor",
        "--socket",
        str(socket_path),
        "--server",
        service.url,
    ]
    processor = subprocess.Popen(command, env=environment(ARGUS_KEY="k"), stderr=subprocess.PIPE, text=True)
    spawned.append(processor)
    assert processor.stderr is not None and "listens" in processor.stderr.readline()
    ranks = [FakeRank(socket_path, layout(rank)) for rank in range(WORLD)]
    for rank in ranks:
        rank.play(0, 25)
        rank.status(24)
    wait_for(lambda: any(run["windows"] == 2 for run in service.get("/v1/runs")["items"]))
    service.kill()
    for rank in ranks:
        rank.play(25, 55)
    again = start(db, "--port", service.url.rpartition(":")[2], key="k", **key)
    for rank in ranks:
        rank.play(55, 60)
        rank.status(59)
        rank.bye()
    wait_for(lambda: again.get("/v1/runs/job")["attempts"][0]["windows"] == 6)
    (attempt,) = again.get("/v1/runs/job")["attempts"]
    assert attempt["windows_by_status"] == {"analysed": 6}
    for window in range(6):
        coverage = again.get(f"/v1/runs/job/windows/{window}")["coverage"]
        assert coverage["ratio"] == 1.0 and coverage["missing_ranks"] == []
    wait_for(lambda: again.get("/v1/runs/job")["attempts"][0]["ranks"] == {"ended": WORLD})
    assert again.get("/v1/incidents")["total"] == 0
    assert again.terminate() == 0
