"""`argus replay`: a recording becomes the incident a service would have opened, over the same wire."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from argus.analytics.store import queries
from argus.api.cli import main
from argus.api.cli.serve import product_analyses
from argus.api.replay import NotSent, Replay, as_attempt
from argus.api.service import Service
from argus.collectors.host.client import Answer
from argus.collectors.job import Job, join
from argus.collectors.readers import Reading
from argus.collectors.records.summary import RankWindow
from argus.collectors.records.upload import decode_windows
from argus.evals.simulator.job import Job as SimulatedJob
from argus.evals.simulator.simulate import simulate
from tests.api.kit import FakeClock, new_service, new_store
from tests.api.served import over_http
from tests.api.test_triage import recordings, traces


def made(*, ranks: int = 4, steps: int = 35) -> Job:
    done = simulate(
        SimulatedJob(ranks=ranks, steps=steps, gpu=False, step_s=0.1), rng=np.random.default_rng(1)
    )
    return join([Reading(records=one, source="x") for one in done.records])


class FakeService:
    """Takes everything but the first `num_busy` requests; keeps what it got."""

    def __init__(self, *, num_busy: int = 0, status: int = 200) -> None:
        self.got: list[tuple[str, bytes]] = []
        self.num_looks = 0
        self.num_busy, self.status = num_busy, status

    def __call__(self, path: str, body: bytes, *, headers: Mapping[str, str]) -> Answer:
        if self.num_busy:
            self.num_busy -= 1
            return Answer(status=503, error="busy", retry_after_s=2.0)
        if self.status != 200:
            return Answer(status=self.status, error="no")
        self.got.append((path, body))
        return Answer(status=200, body={"accepted": 1})

    def get(self, path: str) -> Answer:
        """Everything is analysed at the first look."""
        self.num_looks += 1
        attempts = [{"attempt": 0, "windows_by_status": {"analysed": 4}}]
        return Answer(status=200, body={"attempts": attempts})


def replayed(service: FakeService, job: Job, *, speed: float = 0.0) -> tuple[list[RankWindow], list[float]]:
    """The windows that arrived and how long was slept."""
    clock, slept = FakeClock(), list[float]()

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        clock.now_s += seconds

    Replay(post=service, get=service.get, clock=clock, sleep=sleep, rng=random.Random(0), speed=speed).send(
        job
    )
    bodies = [body for path, body in service.got if path.endswith("windows")]
    return [RankWindow.from_bytes(raw) for body in bodies for raw in decode_windows(body)], slept


def test_every_step_of_every_rank_arrives_once_in_order() -> None:
    windows, slept = replayed(FakeService(), made())
    assert [(w.window, w.rank) for w in windows] == [(index, rank) for index in range(4) for rank in range(4)]
    assert sum(len(window.steps) for window in windows) == 4 * 35 and slept == []


def test_it_ends_with_the_word_that_every_rank_ended() -> None:
    service = FakeService()
    replayed(service, made())
    path, body = service.got[-1]
    assert path.endswith("heartbeats")
    assert {beat["state"] for beat in json.loads(body)["heartbeats"]} == {"ended"}
    assert service.got[0][0].endswith("layouts") and service.num_looks == 1


def test_a_busy_service_is_asked_again_and_a_refusal_ends_it() -> None:
    windows, slept = replayed(FakeService(num_busy=3), made())
    assert len(windows) == 16 and len(slept) == 3 and min(slept) >= 2.0
    with pytest.raises(NotSent, match="does not take /v1/ingest/layouts"):
        replayed(FakeService(status=401), made())


def test_a_paced_replay_takes_as_long_as_the_job_did() -> None:
    job = made()
    took_s = (job.records[0].steps["end_ns"].max() - job.records[0].steps["start_ns"].min()) * 1e-9
    _, slept = replayed(FakeService(), job, speed=2.0)
    assert sum(slept) == pytest.approx(took_s / 2, rel=0.2)


def test_steps_count_from_zero_and_clocks_are_moved_together() -> None:
    job = made()
    later = Job(**{**vars(job), "first_step": 5})
    moved = as_attempt(later, run="again", shift_s=100.0)
    before, after = job.records[0], moved.records[0]
    assert after.layout.run == "again" and (after.steps["step"] == before.steps["step"] - 5).all()
    for kind, column in (("steps", "start_ns"), ("collectives", "entry_ns"), ("phases", "start_ns")):
        assert (getattr(after, kind)[column] - getattr(before, kind)[column] == 100 * 10**9).all()
    assert (before.steps["step"] == job.records[0].steps["step"]).all(), "what was given is not changed"


@contextmanager
def working(service: Service, clock: FakeClock) -> Iterator[None]:
    """The service's worker at work in a thread of its own, as `argus serve` has it."""
    done = threading.Event()

    def work() -> None:
        while not done.is_set():
            if not service.worker.turn(clock.now_s):
                done.wait(0.01)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


@pytest.mark.slow
def test_a_recording_becomes_its_incident(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = recordings(tmp_path / "job", kind="starved", ranks=4, steps=100)
    clock, store = FakeClock(time.time()), new_store(tmp_path / "a.sqlite")
    service = new_service(store, clock=clock, analyses=product_analyses(), window_steps=10)
    with over_http(service) as url, working(service, clock):
        code = main(["replay", str(folder), "--server", url, "--run", "again", "--json"])
        sent = json.loads(capsys.readouterr().out)
    assert code == 0 and (sent["ranks"], sent["steps"], sent["run"]) == (4, 100, "again")
    with store.read() as connection:
        found = queries.incidents(
            connection, run="again", status=None, fault_class=None, limit=9, offset=0
        ).items
    store.close()
    assert [item["suspects"] for item in found] == [[2]]


@pytest.mark.slow
def test_a_profile_can_be_replayed_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = traces(tmp_path / "job", {5: 4_000}, num_steps=4)
    store = new_store(tmp_path / "a.sqlite")
    clock = FakeClock(time.time())
    service = new_service(store, clock=clock)
    with over_http(service) as url, working(service, clock):
        assert main(["replay", str(folder), "--server", url]) == 0
    assert "8 windows of 8 ranks and 4 steps" in capsys.readouterr().out
    store.close()


def test_nothing_to_send_and_nobody_there_are_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.txt").write_text("hello")
    assert main(["replay", str(tmp_path / "a.txt")]) == 2
    assert "no file holds a step" in capsys.readouterr().err
    assert main(["replay", str(traces(tmp_path / "job", {})), "--server", "ftp://x"]) == 2
    assert "the server must be a URL" in capsys.readouterr().err
