"""A run may have any name, with slashes in it too."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient

from argus.analytics.store import control
from argus.api.cli.over_http import quoted
from argus.api.http.app import make_app
from argus.api.service import Service
from tests.api.kit import FakeClock, layouts_body, make_window, upload
from tests.api.test_http import JSON, WINDOWS, play

API_JS = Path(__file__).parents[2] / "api" / "web" / "api.js"


@pytest.fixture
def client(service: Service) -> TestClient:
    return TestClient(make_app(service), raise_server_exceptions=False)


def test_a_run_may_have_any_printable_name(client: TestClient, service: Service, clock: FakeClock) -> None:
    name = "team/exp 1?ü#"
    client.post("/v1/ingest/layouts", content=layouts_body(run=name), headers=JSON)
    body = upload(*(make_window(rank, 0, run=name) for rank in range(4)))
    assert client.post("/v1/ingest/windows", content=body, headers=WINDOWS).json()["accepted"] == 4
    service.worker.turn(clock.now_s)
    path = "/v1/runs/" + quote(name, safe="")
    assert client.get(path).json()["run"] == name
    assert client.get(path + "/windows/0").json()["status"] == "analysed"
    assert client.get(path + "/topology").json()["world_size"] == 4


@pytest.mark.parametrize("end", ["report", "charts/steps", "windows/0", "switch", "%2F", "b"])
def test_a_run_may_be_called_like_a_part_of_another(
    client: TestClient, service: Service, clock: FakeClock, end: str
) -> None:
    play(client, service, clock, windows=1)
    name = f"job/{end}"
    client.post("/v1/ingest/layouts", content=layouts_body(run=name), headers=JSON)
    body = upload(*(make_window(rank, 0, run=name) for rank in range(4)))
    assert client.post("/v1/ingest/windows", content=body, headers=WINDOWS).json()["accepted"] == 4
    service.worker.turn(clock.now_s)
    path = f"/v1/runs/{quoted(name)}"
    assert client.get(path).json()["run"] == name
    assert client.get(f"{path}/windows/0").json()["status"] == "analysed"
    assert client.get(f"{path}/report").json()["run"] == name
    assert client.get(f"{path}/charts/steps").status_code == 200
    assert client.put(f"{path}/switch", json={"off": True}).status_code == 200
    with service.store.read() as connection:
        assert control.switches(connection, [name, "job"]) == {name: True}
    if end == "b":  # an unencoded slash does where nothing else is meant by it
        assert client.get(f"/v1/runs/{name}/topology").json()["run"] == name


@pytest.mark.parametrize("sent", ["job%1Freport", "job%1freport", "job%2Fa%1Fb"])
def test_what_stands_for_a_slash_is_none_when_it_is_sent(client: TestClient, sent: str) -> None:
    answer = client.get(f"/v1/runs/{sent}")
    assert answer.status_code == 422 and "printable" in answer.json()["detail"]


def test_the_page_encodes_a_slash_where_it_could_be_read_otherwise_and_only_there(client: TestClient) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    parts = {match[1] for path in paths if (match := re.match(r"/v1/runs/\{run\}/([^/]+)", path))}
    told = re.search(r"^const PART = .*\((\w+(?:\|\w+)+)\)", API_JS.read_text(), re.MULTILINE)
    assert told is not None and set(told[1].split("|")) == parts
