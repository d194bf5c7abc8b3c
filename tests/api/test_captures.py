"""Orders and captures: what hosts are asked, how they wait, what comes in; the whole way once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from socket import gethostname
from typing import Any

import pytest
from starlette.testclient import TestClient

from argus.api.cli import main
from argus.api.http.app import make_app
from argus.api.service import Service
from argus.collectors.host.fake_rank import FakeRank
from argus.collectors.records.layout import Layout
from argus.collectors.records.order import RECORDING_TYPE
from argus.collectors.records.stacks import StackDump, encode_stacks
from argus.collectors.records.switch import is_off
from tests.api.kit import FakeClock, beats_body, layouts_body, make_beat, make_window, service_at, upload
from tests.api.process import Running, environment, start, wait_for
from tests.api.test_http import JSON, WINDOWS


@pytest.fixture
def client(service: Service, clock: FakeClock) -> TestClient:
    return client_of(service, clock)


def client_of(service: Service, clock: FakeClock) -> TestClient:
    """A client of a service that knows a job."""
    client = TestClient(make_app(service), raise_server_exceptions=False)
    client.post("/v1/ingest/layouts", content=layouts_body(), headers=JSON)
    beats = beats_body(*(make_beat(rank, ts_s=clock.now_s, step=57) for rank in range(4)))
    client.post("/v1/ingest/heartbeats", content=beats, headers=JSON)
    return client


def orders(client: TestClient, host: str, after: int = 0) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.get(f"/v1/hosts/{host}/orders", params={"after": after}).json()[
        "orders"
    ]
    return found


def test_a_host_whose_name_has_a_slash_hears_its_orders_and_shows_its_samples(client: TestClient) -> None:
    for path in ("rack%2F1/orders", "rack/1/orders", "rack%2F1%2Forders/orders"):
        assert client.get(f"/v1/hosts/{path}").json() == {"orders": []}
    missing = client.get("/v1/hosts/rack%2F1/samples")
    assert missing.status_code == 404 and "no sample of host 'rack/1'" in missing.text


def test_a_capture_is_ordered_from_the_hosts_of_its_ranks_and_comes_in(client: TestClient) -> None:
    made = client.post("/v1/captures", json={"run": "job", "ranks": [0, 3], "last": 3}).json()
    assert made["hosts"] == ["h-0", "h-1"] and (made["first_step"], made["end_step"]) == (30, 60)
    (one,), (other,) = orders(client, "h-0"), orders(client, "h-1")
    assert (one["kind"], one["ranks"], other["ranks"]) == ("capture", [0], [3])
    assert orders(client, "h-0", after=one["id"]) == []
    where = f"/v1/captures/{made['id']}"
    for rank, body in ((0, b"zstd"), (3, b"")):
        sent = client.post(f"{where}/ranks/{rank}", content=body, headers={"content-type": RECORDING_TYPE})
        assert sent.status_code == 200
    assert client.get(where).json()["bytes"] == {"0": 4, "3": 0}
    assert client.get(f"{where}/ranks/0").content == b"zstd"
    for path, status in ((f"{where}/ranks/1", 404), ("/v1/captures/c-none/ranks/0", 404)):
        sent = client.post(path, content=b"x", headers={"content-type": RECORDING_TYPE})
        assert sent.status_code == status
    assert client.post(f"{where}/ranks/0", content=b"x").status_code == 415


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 422),
        ({"run": "job"}, 422),
        ({"run": "job", "ranks": [0], "incident": "i"}, 422),
        ({"run": "job", "ranks": [-1]}, 422),
        ({"run": "job", "ranks": [99]}, 409),
        ({"run": "none", "ranks": [0]}, 404),
        ({"incident": "i-none"}, 404),
        ({"run": "job", "ranks": [0], "colour": 1}, 422),
    ],
)
def test_captures_that_cannot_be(client: TestClient, body: dict[str, Any], status: int) -> None:
    assert client.post("/v1/captures", json=body).status_code == status


def test_a_burst_goes_to_every_host_if_no_rank_is_named(client: TestClient) -> None:
    assert client.post("/v1/runs/job/burst", json={"seconds": 5, "native": True}).json() == {
        "hosts": ["h-0", "h-1"]
    }
    (order,) = orders(client, "h-1")
    assert (order["kind"], order["ranks"], order["seconds"], order["is_native"]) == (
        "burst",
        [2, 3],
        5.0,
        True,
    )
    assert client.post("/v1/runs/job/burst", json={"seconds": 999}).status_code == 422


def test_an_incident_that_opens_pins_its_suspects_and_two_peers(
    client: TestClient, service: Service, clock: FakeClock
) -> None:
    for window in range(3):
        rows = [make_window(r, window, factor=3.0 if r == 2 and window else 1.0) for r in range(4)]
        client.post("/v1/ingest/windows", content=upload(*rows), headers=WINDOWS)
        clock.now_s += 1
        service.worker.turn(clock.now_s)
    clock.now_s += 5
    found = [*orders(client, "h-0"), *orders(client, "h-1")]
    assert {order["kind"] for order in found} == {"pin"}
    assert sorted(rank for order in found for rank in order["ranks"]) == [1, 2, 3]
    assert all(order["first_step"] == 0 and order["end_step"] >= 20 for order in found)
    (incident,) = client.get("/v1/incidents").json()["items"]
    made = client.post("/v1/captures", json={"incident": incident["id"]}).json()
    assert sorted(made["ranks"]) == [1, 2, 3] and made["incident"] == incident["id"]


def test_who_waits_for_orders_is_let_go_whatever_the_wall_clock_does(client: TestClient) -> None:
    waited = client.get("/v1/hosts/h-0/orders?wait_s=0.05")  # the clock of these tests stands
    assert waited.json() == {"orders": []}


def test_orders_expire(client: TestClient, clock: FakeClock) -> None:
    client.post("/v1/runs/job/burst", json={"ranks": [0]})
    clock.now_s += 601
    assert orders(client, "h-0") == []


@pytest.mark.slow
@pytest.mark.long
def test_the_whole_way_from_ranks_to_a_perfetto_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    service = start(tmp_path / "a.sqlite", key="k", ARGUS_KEY="k", ARGUS_SETTLE_S="0")
    monkeypatch.setenv("ARGUS_KEY", "k")
    monkeypatch.setenv("ARGUS_SERVER", service.url)
    socket = tmp_path / "p" / "s"
    command = [sys.executable, "-m", "argus", "processor", "--socket", str(socket), "--server", service.url]
    processor = subprocess.Popen(command, env=environment(ARGUS_KEY="k"), stderr=subprocess.PIPE, text=True)
    ranks: list[FakeRank] = []
    try:
        assert processor.stderr is not None and "listens" in processor.stderr.readline()
        ranks += [
            FakeRank(socket, Layout(run="my job", attempt=0, rank=rank, world_size=2, pid=os.getpid()))
            for rank in range(2)
        ]
        for rank in ranks:
            rank.play(0, 40)
            rank.status(39)
        host = _host_of(service, "my job")
        assert host == gethostname()
        assert (
            main(
                ["capture", "--run", "my job", "--rank", "1", "--last", "2", "--to", str(tmp_path), "--json"]
            )
            == 0
        )
        result = json.loads(capsys.readouterr().out)
        assert result["ranks"] == [1] and result["rank_steps"] == 20 and not result["missing"]
        assert (
            Path(result["file"]).name == "argus-my-job-20-40.pftrace" and result["bytes_per_rank_step"] > 100
        )
        _use_commands(service, socket, folder=tmp_path, capsys=capsys)
    finally:
        for rank in ranks:
            rank.sock.close()
        processor.terminate()
        processor.communicate()
        assert service.terminate() == 0
    assert not is_off(socket, "my job") and not list(tmp_path.glob("p/s.ring/*"))


def _host_of(service: Any, run: str) -> str:
    wait_for(lambda: any(item["run"] == run for item in service.get("/v1/runs")["items"]))
    where = f"/v1/runs/{run.replace(' ', '%20')}/heartbeats"
    wait_for(lambda: service.get(where)["total"] == 2)
    return str(service.get(where)["items"][0]["host"])


def _use_commands(
    service: Running, socket: Path, *, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Capture to a folder and to a URL, look closer, switch off."""
    assert main(["capture", "--run", "my job", "--rank", "1", "--to", "memory://x"]) == 0
    assert service.post("/v1/runs/my%20job/burst", b'{"ranks": [0], "seconds": 20}')[0] == 200
    wait_for(lambda: service.get("/v1/runs/my%20job/stacks?reason=burst")["total"] > 0)
    assert main(["stacks", "--run", "my job", "--rank", "0"]) == 0
    assert "test_captures.py" in capsys.readouterr().out
    assert main(["off", "--run", "my job"]) == 0
    wait_for(lambda: is_off(socket, "my job"))
    assert main(["status", "--run", "my job"]) == 0
    assert "switched OFF" in capsys.readouterr().out


def test_orders_of_a_database_in_the_place_of_a_lost_one_come_after_those_that_hosts_know(
    client: TestClient, clock: FakeClock, tmp_path: Path
) -> None:
    for _ in range(3):
        client.post("/v1/runs/job/burst", json={})
    *_, last = orders(client, "h-1")
    clock.now_s += 60.0
    with service_at(tmp_path / "fresh.sqlite", clock=clock) as service:
        fresh = client_of(service, clock)
        fresh.post("/v1/runs/job/burst", json={})
        (order,) = orders(fresh, "h-1", after=last["id"])
    assert order["ranks"] == [2, 3]


def observe(client: TestClient, *dumps: StackDump) -> None:
    raw = {"host": "h-0", **encode_stacks(dumps), "samples": []}
    assert client.post("/v1/ingest/observations", content=json.dumps(raw), headers=JSON).status_code == 200


def test_of_a_long_open_step_two_peers_on_other_hosts_are_asked_once_in_a_while(
    client: TestClient, clock: FakeClock
) -> None:
    dump = StackDump(
        run="job", attempt=0, rank=0, host="h-0", ts_s=1.0, step=57, open_s=1.0, reason="slow_step"
    )
    observe(client, dump, replace(dump, ts_s=2.0, open_s=9.0, reason="baseline"))
    assert orders(client, "h-0") == orders(client, "h-1") == []
    observe(client, replace(dump, ts_s=4.0, open_s=4.0), replace(dump, ts_s=5.0, open_s=5.0, rank=1))
    clock.now_s += 2.0  # the board looks once a second
    assert orders(client, "h-0") == []
    [order] = orders(client, "h-1")
    assert (order["kind"], order["ranks"], order["seconds"]) == ("burst", [2, 3], 1.0)
    clock.now_s += 8.0
    observe(client, replace(dump, ts_s=14.0, open_s=14.0))
    assert len(orders(client, "h-1")) == 1
    clock.now_s += 30.0
    observe(client, replace(dump, ts_s=44.0, open_s=44.0))
    clock.now_s += 2.0
    assert len(orders(client, "h-1")) == 2
    clock.now_s -= 3600.0
    observe(client, replace(dump, ts_s=75.0, open_s=75.0))
    clock.now_s += 2.0
    assert len(orders(client, "h-1")) == 3
