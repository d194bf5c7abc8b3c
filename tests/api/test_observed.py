"""Stacks and host samples through HTTP: stored once, read back, bounded, forgotten."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import func, select
from starlette.testclient import TestClient

from argus.analytics.store.engine import Store
from argus.analytics.store.tables import STACKS
from argus.api.http.app import make_app
from argus.api.service import Service
from argus.collectors.records.host_sample import HostSample
from argus.collectors.records.order import RECORDING_TYPE
from argus.collectors.records.report import Report
from argus.collectors.records.stacks import StackDump, Thread, encode_stacks
from tests.api.kit import FakeClock, beats_body, make_beat, new_service

JSON = {"content-type": "application/json"}
DUMP = StackDump(
    run="job/a",
    attempt=0,
    rank=1,
    host="h-0",
    ts_s=5.0,
    step=3,
    reason="slow_step",
    threads=(Thread(kind="main", state="S", stack="train (t.py:1);wait (t.py:9)"), Thread(kind="watchdog")),
)
SAMPLE = HostSample(host="h-0", start_s=1.0, end_s=11.0, numbers={"cpu_some_s": 2.0})


@pytest.fixture
def client(service: Service) -> TestClient:
    return TestClient(make_app(service), raise_server_exceptions=False)


def body(*dumps: StackDump, samples: tuple[HostSample, ...] = ()) -> dict[str, Any]:
    return {"host": "h-0", **encode_stacks(dumps), "samples": [item.to_json() for item in samples]}


def post(client: TestClient, raw: object) -> Any:
    return client.post("/v1/ingest/observations", content=json.dumps(raw), headers=JSON)


def test_what_was_observed_can_be_read_back_once(client: TestClient) -> None:
    raw = body(DUMP, replace(DUMP, rank=2, reason="peer"), samples=(SAMPLE,))
    for _ in range(2):
        assert post(client, raw).json() == {"accepted": 3, "rejected": []}
    stacks = client.get("/v1/runs/job/a/stacks").json()
    assert stacks["total"] == 2
    (one,) = client.get("/v1/runs/job/a/stacks", params={"rank": [1]}).json()["items"]
    assert (one["step"], one["reason"]) == (3, "slow_step")
    assert [t["stack"] for t in one["threads"]] == ["train (t.py:1);wait (t.py:9)", ""]
    assert client.get("/v1/runs/job/a/stacks", params={"reason": "peer"}).json()["total"] == 1
    samples = client.get("/v1/hosts/h-0/samples").json()
    assert samples["total"] == 1 and samples["items"][0]["numbers"] == {"cpu_some_s": 2.0}
    assert client.get("/v1/hosts/h-9/samples").status_code == 404
    assert client.get("/v1/runs/none/stacks").status_code == 404


def test_one_bad_item_costs_only_itself(client: TestClient) -> None:
    raw = body(DUMP, samples=(SAMPLE,))
    raw["dumps"].append({**raw["dumps"][0], "reason": "because"})
    raw["samples"].append({"host": ""})
    answer = post(client, raw)
    assert answer.status_code == 200 and answer.json()["accepted"] == 2
    assert [item["index"] for item in answer.json()["rejected"]] == [1, 3]


@pytest.mark.parametrize(
    "raw", [{}, {"dumps": [], "samples": []}, [], {"dumps": 1, "samples": [], "stacks": []}]
)
def test_what_is_no_observation_is_refused(client: TestClient, raw: object) -> None:
    assert post(client, raw).status_code == 400


def test_equal_stacks_lie_in_the_store_once_and_all_is_forgotten_in_time(
    client: TestClient, service: Service, clock: FakeClock
) -> None:
    post(client, body(*(replace(DUMP, rank=rank, ts_s=float(rank)) for rank in range(20))))
    assert num_stacks(service.store) == 1
    clock.now_s += service.settings.keep_observations_s + 1
    other = replace(DUMP, ts_s=99.0, threads=(Thread(kind="main", stack="other (o.py:1)"),))
    post(client, body(other))
    assert num_stacks(service.store) == 1
    assert client.get("/v1/runs/job/a/stacks").json()["total"] == 1


def num_stacks(store: Store) -> int:
    with store.read() as connection:
        return connection.execute(select(func.count()).select_from(STACKS)).scalar_one()


def beat_with_report(client: TestClient, clock: FakeClock, **report: Any) -> Any:
    raw = json.loads(beats_body(*(make_beat(rank, ts_s=clock.now_s) for rank in range(4))))
    raw["processor"] = {**Report(host="h-0", parts={"stacks": "denied"}, started_s=1.0).to_json(), **report}
    return client.post("/v1/ingest/heartbeats", content=json.dumps(raw), headers=JSON)


def test_status_shows_hosts_ranks_and_parts(client: TestClient, clock: FakeClock) -> None:
    assert beat_with_report(client, clock).json()["switches"] == {}
    post(client, body(samples=(SAMPLE,)))
    clock.now_s += 7
    status = client.get("/v1/runs/job/status").json()
    first, second = status["hosts"]
    assert (first["host"], second["host"], status["is_off"]) == ("h-0", "h-1", False)
    assert first["processor"]["parts"] == {"stacks": "denied"} and first["processor"]["age_s"] == 7
    assert first["sample"]["numbers"] == {"cpu_some_s": 2.0}
    assert second["processor"] is None and [rank["rank"] for rank in second["ranks"]] == [2, 3]
    assert second["ranks"][0]["age_s"] == 7 and second["ranks"][0]["step"] == 10


def test_a_run_is_switched_off_and_on(client: TestClient, clock: FakeClock) -> None:
    assert client.put("/v1/runs/job/switch", json={"off": True}).status_code == 404
    beat_with_report(client, clock)
    for off in (True, False):
        assert client.put("/v1/runs/job/switch", json={"off": off}).json() == {"off": off}
        assert beat_with_report(client, clock).json()["switches"] == {"job": off}
        assert client.get("/v1/runs/job/status").json()["is_off"] is off
    assert client.put("/v1/runs/job/switch", json={"off": "yes"}).status_code == 422


@pytest.mark.parametrize("report", [{"parts": 3}, {"host": ""}, {"host": "a\nb\u0000"}, {"cpu_s": "x"}])
def test_a_bad_report_costs_no_heartbeat(
    client: TestClient, clock: FakeClock, report: dict[str, Any]
) -> None:
    answer = beat_with_report(client, clock, **report)
    assert answer.status_code == 200 and answer.json()["accepted"] == 4
    beats = client.get("/v1/runs/job/heartbeats").json()
    assert beats["total"] == 4


def test_postgres_keeps_observations_too(postgres: Store, clock: FakeClock) -> None:
    service = new_service(postgres, clock=clock)
    client = TestClient(make_app(service), raise_server_exceptions=False)
    raw = body(DUMP, samples=(SAMPLE,))
    for _ in range(2):
        assert post(client, raw).json() == {"accepted": 2, "rejected": []}
    assert client.get("/v1/runs/job/a/stacks").json()["total"] == 1
    assert beat_with_report(client, clock).json()["accepted"] == 4
    assert client.put("/v1/runs/job/switch", json={"off": True}).json() == {"off": True}
    made = client.post("/v1/captures", json={"run": "job", "ranks": [1]}).json()
    where = f"/v1/captures/{made['id']}"
    assert (
        client.post(f"{where}/ranks/1", content=b"abc", headers={"content-type": RECORDING_TYPE}).status_code
        == 200
    )
    assert client.get(where).json()["bytes"] == {"1": 3}
    assert client.get("/v1/hosts/h-0/orders").json()["orders"][0]["capture"] == made["id"]
    assert client.get("/v1/runs/job/status").json()["is_off"] is True


@pytest.mark.parametrize("path", ["series", "stacks", "charts/steps", "charts/kernels"])
def test_a_rank_no_job_can_have_is_refused(client: TestClient, path: str) -> None:
    beats_of_run = beats_body(make_beat(0, ts_s=1.0))
    assert client.post("/v1/ingest/heartbeats", content=beats_of_run, headers=JSON).status_code == 200
    for rank, status in ((0, 200), ((1 << 20) - 1, 200), (-1, 422), (1 << 20, 422), (1 << 63, 422)):
        assert client.get(f"/v1/runs/job/{path}", params={"rank": rank}).status_code == status
