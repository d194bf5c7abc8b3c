"""Out-of-band events through HTTP: stored once, bounded, tied to the run's ranks, forgotten."""

from __future__ import annotations

import json
from typing import Any

import pytest
from starlette.testclient import TestClient

from argus.analytics.store import events as event_store
from argus.analytics.store.engine import Store
from argus.api.http.app import make_app
from argus.api.service import Service
from argus.collectors.records.host_sample import HostSample, KernelEvent
from argus.collectors.records.outside_event import MAX_EVENTS, OutsideEvent
from tests.api.kit import FakeClock, layouts_body, new_service

JSON = {"content-type": "application/json"}
DOWN = {"time": 5.0, "node": "nic:h-1/mlx5_0", "source": "ufm", "text": "port down", "kind": "port_down"}


@pytest.fixture
def client(service: Service) -> TestClient:
    return TestClient(make_app(service), raise_server_exceptions=False)


def post(client: TestClient, *items: object) -> Any:
    return client.post("/v1/events", content=json.dumps({"events": items}), headers=JSON)


def test_an_event_told_twice_is_stored_once(client: TestClient) -> None:
    assert post(client, DOWN, DOWN).json() == {"accepted": 1, "duplicates": 1, "rejected": []}
    assert post(client, DOWN).json()["accepted"] == 0
    found = client.get("/v1/events").json()
    assert found["total"] == 1 and found["items"][0]["node"] == "nic:h-1/mlx5_0"
    assert found["items"][0]["id"] == OutsideEvent.from_json(DOWN).id


def test_events_are_tied_to_the_ranks_of_a_run(client: TestClient) -> None:
    client.post("/v1/ingest/layouts", content=layouts_body(), headers=JSON)
    post(client, DOWN, {**DOWN, "node": "h-9"}, {**DOWN, "node": "rank:3", "kind": ""})
    items = client.get("/v1/events", params={"run": "job"}).json()["items"]
    assert {item["node"]: item["ranks"] for item in items} == {
        "nic:h-1/mlx5_0": [2, 3],
        "host:h-9": [],
        "rank:3": [3],
    }
    assert client.get("/v1/events", params={"run": "none"}).status_code == 404


def test_events_are_found_by_node_kind_and_time(client: TestClient) -> None:
    post(client, DOWN, {**DOWN, "time": 9.0, "node": "host:h-1", "kind": "xid"}, {**DOWN, "node": "h-10"})

    def nodes(**params: Any) -> list[str]:
        return [item["node"] for item in client.get("/v1/events", params=params).json()["items"]]

    assert nodes(node="host:h-1") == ["host:h-1", "nic:h-1/mlx5_0"]
    assert nodes(kind="xid") == ["host:h-1"] == nodes(since_s=6.0)
    assert "host:h-1" not in nodes(until_s=6.0)


@pytest.mark.parametrize(
    "bad",
    [
        3,
        {},
        {**DOWN, "time": "x"},
        {**DOWN, "time": True},
        {**DOWN, "node": "planet:earth"},
        {**DOWN, "node": ""},
        {**DOWN, "source": ""},
        {**DOWN, "kind": "Port Down!"},
        {**DOWN, "text": ["a"]},
        {**DOWN, "value": 1e300},
    ],
)
def test_one_bad_event_costs_only_itself(client: TestClient, bad: object) -> None:
    answer = post(client, bad, DOWN).json()
    assert answer["accepted"] == 1 and [item["index"] for item in answer["rejected"]] == [0]
    assert post(client, bad).status_code == 422


def test_text_is_cut_and_control_characters_go(client: TestClient) -> None:
    post(client, {**DOWN, "text": "\x1b[2J<script>" + "x" * 9999})
    text = client.get("/v1/events").json()["items"][0]["text"]
    assert len(text) == 500 and "\x1b" not in text


def test_a_request_and_the_store_are_bounded(
    client: TestClient, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert post(client, *([DOWN] * (MAX_EVENTS + 1))).status_code == 400
    monkeypatch.setattr(event_store, "MAX_KEPT", 3)
    for number in range(5):
        service.clock.now_s += 1  # type: ignore[attr-defined]
        post(client, {**DOWN, "time": float(number)})
    times = [item["time_s"] for item in client.get("/v1/events").json()["items"]]
    assert times == [4.0, 3.0, 2.0]


def test_the_kernel_log_of_a_host_lands_there_too(client: TestClient) -> None:
    event = KernelEvent(ts_s=7.0, kind="xid", code=79, device="0000:c2:00.0", text="fallen off the bus")
    sample = HostSample(host="h-0", start_s=1.0, end_s=11.0, events=(event,))
    raw = {"host": "h-0", "stacks": [], "dumps": [], "samples": [sample.to_json()]}
    for _ in range(2):
        client.post("/v1/ingest/observations", content=json.dumps(raw), headers=JSON)
    (item,) = client.get("/v1/events", params={"kind": "xid"}).json()["items"]
    assert item["node"] == "host:h-0" and item["text"] == "xid 79 0000:c2:00.0 fallen off the bus"


def test_events_are_forgotten_after_their_time(client: TestClient, service: Service) -> None:
    post(client, DOWN)
    service.clock.now_s += service.settings.keep_observations_s + 1  # type: ignore[attr-defined]
    post(client, {**DOWN, "time": 6.0})
    assert [item["time_s"] for item in client.get("/v1/events").json()["items"]] == [6.0]


def test_postgres_keeps_events_too(postgres: Store, clock: FakeClock) -> None:
    client = TestClient(make_app(new_service(postgres, clock=clock)), raise_server_exceptions=False)
    assert post(client, DOWN, {**DOWN, "time": 9.0}).json()["accepted"] == 2
    assert post(client, DOWN).json()["duplicates"] == 1
    assert client.get("/v1/events", params={"node": "host:h-1"}).json()["total"] == 2
