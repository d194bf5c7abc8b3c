"""The charts' documents on a service that has lived through jobs whose faults are known."""

from __future__ import annotations

from base64 import b64decode
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

from argus.api.http.app import make_app
from argus.api.service import Service
from tests.api.kit import beats_body, layouts_body, make_beat

RUN, SLOW = "llm-pretrain", 21


@pytest.fixture
def client(service: Service) -> TestClient:
    return TestClient(make_app(service), raise_server_exceptions=False)


def got(client: TestClient, path: str, **params: Any) -> dict[str, Any]:
    answer = client.get(path, params=params)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def table(chart: dict[str, Any], columns: int) -> np.ndarray[tuple[int, int], np.dtype[np.uint8]]:
    flat = np.frombuffer(b64decode(chart["codes"]), np.uint8)
    return flat.reshape(chart["rows"], columns)


def open_incident(client: TestClient) -> dict[str, Any]:
    items = got(client, "/v1/incidents", status="open", run=RUN)["items"]
    assert len(items) == 1, items
    one: dict[str, Any] = items[0]
    return one


def test_the_demo_tells_its_own_faults(client: TestClient) -> None:
    one = open_incident(client)
    assert one["suspects"] == [SLOW] and one["class"] == "compute.slow"
    classes = {item["run"]: item["class"] for item in got(client, "/v1/incidents")["items"]}
    assert classes["vision-ddp"].startswith(("data.", "host."))


def test_steps_rise_at_the_incident_and_the_checkpoint_is_marked(client: TestClient) -> None:
    chart = got(client, f"/v1/runs/{RUN}/charts/steps", rank=[SLOW])
    columns = ("first_step", "job_s", "slowest_s", "low_s", "high_s")
    assert len({len(chart[name]) for name in columns} | {len(chart["ranks"][str(SLOW)])}) == 1
    onset = chart["incidents"][0]["onset_step"]
    before = [s for s, at in zip(chart["job_s"], chart["first_step"], strict=True) if at < onset - 10]
    after = [s for s, at in zip(chart["job_s"], chart["first_step"], strict=True) if at > onset + 10]
    assert np.median(after) > 1.1 * np.median(before)
    assert "checkpoint" in {mark["what"] for mark in chart["marks"]}


def test_the_heat_map_shows_the_slow_rank_from_its_onset(client: TestClient) -> None:
    chart = got(client, f"/v1/runs/{RUN}/charts/heat", rows=64)
    codes = table(chart, len(chart["window"]))
    onset = open_incident(client)["onset_step"]
    late = np.array(chart["first_step"]) > onset + 10
    assert chart["ranks_per_row"] == 1 and (codes[:, late].argmax(axis=0) == SLOW).all()
    assert np.abs(codes[SLOW, ~late].astype(int)[:-2] - 128).max() < 40


def test_rows_hold_several_ranks_and_a_part_can_be_asked(client: TestClient) -> None:
    coarse = got(client, f"/v1/runs/{RUN}/charts/heat", rows=16)
    assert (coarse["rows"], coarse["ranks_per_row"]) == (16, 2)
    assert table(coarse, len(coarse["window"]))[:, -1].argmax() == SLOW // 2
    part = got(client, f"/v1/runs/{RUN}/charts/heat", rows=64, first_rank=8, last_rank=23)
    assert (part["first_rank"], part["last_rank"], part["rows"]) == (8, 23, 16)


def test_metrics_are_named_and_each_can_be_asked(client: TestClient) -> None:
    metrics = got(client, f"/v1/runs/{RUN}/charts/heat")["metrics"]
    assert {"own", "step", "forward"} <= set(metrics)
    for metric in metrics:
        chart = got(client, f"/v1/runs/{RUN}/charts/heat", metric=metric, windows=3)
        assert table(chart, 3).any()


def test_phases_of_one_window(client: TestClient) -> None:
    chart = got(client, f"/v1/runs/{RUN}/charts/phases", rows=64)
    names = [one["phase"] for one in chart["phases"]]
    codes = table(chart, len(names))
    assert codes[:, names.index("forward")].argmax() == SLOW
    assert {one["is_comm"] for one in chart["phases"]} == {True, False}


def test_the_map_places_every_rank(client: TestClient) -> None:
    chart = got(client, f"/v1/runs/{RUN}/charts/map")
    world = chart["world_size"]
    assert {len(chart["host"]), len(chart["device"]), *map(len, chart["coords"].values())} == {world}
    assert chart["sizes"] == {"dp": 8, "pp": 4}
    assert set(chart["leaf"]) == {"leaf-1", "leaf-2"}
    codes = np.frombuffer(b64decode(chart["codes"]), np.uint8)
    assert codes.argmax() == SLOW


def test_kernel_curves_are_distributions_and_the_suspect_lies_right_of_its_peers(client: TestClient) -> None:
    chart = got(client, f"/v1/runs/{RUN}/charts/kernels", rank=[SLOW])
    assert chart["kernels"] and SLOW not in chart["peers"]
    for kernel in chart["kernels"]:
        lines = [
            kernel["suspects"][str(SLOW)],
            kernel["peers_low"],
            kernel["peers_mid"],
            kernel["peers_high"],
        ]
        assert all((np.diff(line) >= -1e-9).all() and 0 <= min(line) <= max(line) <= 1 for line in lines)
        assert (np.array(kernel["peers_low"]) <= np.array(kernel["peers_high"]) + 1e-12).all()
    worst = chart["kernels"][0]
    assert worst["ratio"] > 1.2
    assert np.mean(worst["suspects"][str(SLOW)]) < np.mean(worst["peers_low"])


def test_the_fleet_tells_cost_coverage_and_drift(client: TestClient) -> None:
    page = got(client, "/v1/fleet")
    first = page["runs"][0]
    assert first["run"] == RUN and first["coverage_ratio"] == 1.0 and first["num_hosts"] == 4
    assert {one["channel"] for one in first["overhead"]} == {"stacks", "phases", "collectives"}
    drift = got(client, "/v1/fleet/drift", days=20)
    worst = drift["units"][0]
    seen = [one for one in worst["ratio"] if one is not None]
    assert worst["device"] == "GPU-6e000005" and seen[-1] > seen[0]


def test_a_capture_is_listed_and_becomes_a_trace(client: TestClient) -> None:
    items = got(client, "/v1/incidents", run="vision-ddp")["items"]
    capture = got(client, "/v1/captures", incident=items[0]["id"])["items"][0]
    assert capture["bytes"] and set(map(int, capture["bytes"])) == set(capture["ranks"])
    trace = client.get(f"/v1/captures/{capture['id']}/timeline")
    assert trace.status_code == 200 and trace.headers["content-disposition"].endswith('.pftrace"')
    assert b"all_reduce" in trace.content


def test_a_chart_of_nothing_says_why(client: TestClient, service: Service) -> None:
    service.receive_layouts(layouts_body(run="young"))
    for chart in ("phases", "kernels"):
        assert "note" in got(client, f"/v1/runs/young/charts/{chart}", rank=0)
    service.receive_heartbeats(beats_body(make_beat(0, ts_s=1.0, run="unborn")))
    for chart in ("heat", "phases", "map", "kernels"):
        assert "layout" in got(client, f"/v1/runs/unborn/charts/{chart}", rank=0)["note"]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/v1/runs/nobody/charts/steps", 404),
        ("/v1/runs/nobody/charts/heat", 404),
        (f"/v1/runs/{RUN}/charts/kernels?rank=32", 404),
        (f"/v1/runs/{RUN}/charts/kernels", 422),
        ("/v1/runs/vision-ddp/charts/kernels?rank=3", 200),
        (f"/v1/runs/{RUN}/charts/heat?rows=0", 422),
        (f"/v1/runs/{RUN}/charts/heat?metric=nothing&first_rank=9999", 200),
        (f"/v1/runs/{RUN}/charts/phases?window=0", 200),
        ("/v1/captures?incident=nobody", 404),
        ("/v1/captures/nobody/timeline", 404),
        ("/v1/fleet/drift?subject=nothing", 200),
    ],
)
def test_what_is_not_there_is_said(client: TestClient, path: str, status: int) -> None:
    answer = client.get(path)
    assert answer.status_code == status, answer.text
