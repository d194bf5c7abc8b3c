"""The HTTP face: answers, problems, keys, pages."""

from __future__ import annotations

import resource
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from argus.agent.registry import registry
from argus.analytics.store.documents import dump
from argus.api.http.app import make_app
from argus.api.metrics import METRICS
from argus.api.service import Service
from argus.collectors.host.client import Answer
from argus.collectors.host.uploader import NOT_THE_BODY, is_refusal
from argus.collectors.records.upload import CONTENT_TYPE, WIRE_VERSION, encode_windows
from tests.api.kit import FakeClock, beats_body, layouts_body, make_beat, make_window, service_at, upload

JSON = {"content-type": "application/json"}
WINDOWS = {"content-type": CONTENT_TYPE, "argus-wire": "2"}


@pytest.fixture
def client(service: Service) -> TestClient:
    return TestClient(make_app(service), raise_server_exceptions=False)


def play(client: TestClient, service: Service, clock: FakeClock, *, windows: int = 3, slow: int = 2) -> None:
    """A job whose rank `slow` is slow from window 1 on, analysed."""
    assert client.post("/v1/ingest/layouts", content=layouts_body(), headers=JSON).status_code == 200
    beats = beats_body(*(make_beat(rank, ts_s=clock.now_s) for rank in range(4)))
    assert client.post("/v1/ingest/heartbeats", content=beats, headers=JSON).status_code == 200
    for window in range(windows):
        rows = [make_window(r, window, factor=3.0 if r == slow and window else 1.0) for r in range(4)]
        answer = client.post("/v1/ingest/windows", content=upload(*rows), headers=WINDOWS)
        assert answer.json() == {"accepted": 4, "duplicates": 0, "rejected": []}
        clock.now_s += 1
        service.worker.turn(clock.now_s)


def test_a_job_can_be_read_back(client: TestClient, service: Service, clock: FakeClock) -> None:
    play(client, service, clock)
    runs = client.get("/v1/runs").json()
    assert (runs["total"], runs["items"][0]["run"], runs["items"][0]["world_size"]) == (1, "job", 4)
    (attempt,) = client.get("/v1/runs/job").json()["attempts"]
    assert attempt["windows"] == 3 and attempt["windows_by_status"] == {"analysed": 3}
    assert attempt["ranks"] == {"running": 4}
    topology = client.get("/v1/runs/job/topology").json()
    assert topology["hosts"] == [{"host": "h-0", "ranks": [0, 1]}, {"host": "h-1", "ranks": [2, 3]}]
    assert topology["groups"] == [{"id": "world/0", "kind": "world", "ranks": [0, 1, 2, 3]}]
    assert topology["ranks"][3]["coords"] == {}  # the world group alone tells no ranks apart
    window = client.get("/v1/runs/job/windows/2").json()
    assert window["coverage"]["ratio"] == 1.0
    assert window["numbers"]["phases"][0]["dur_s"] == pytest.approx([0.1, 0.1, 0.3, 0.1], rel=1e-6)
    points = client.get("/v1/runs/job/series", params={"rank": [2]}).json()["points"]
    assert [point["step_s"]["2"] for point in points] == pytest.approx([0.1, 0.3, 0.3])
    findings = client.get("/v1/runs/job/findings", params={"window": 2}).json()
    assert findings["items"][0]["ranks"] == [2] and findings["items"][0]["ratio"] is None
    (incident,) = client.get("/v1/incidents", params={"class": "compute.slow", "status": "open"}).json()[
        "items"
    ]
    assert client.get(f"/v1/incidents/{incident['id']}").json()["suspects"] == [2]
    assert client.get(f"/v1/incidents/{incident['id']}/diagnosis").json()["headline"] == "rank 2"
    card = client.get(f"/v1/incidents/{incident['id']}/card").json()
    assert card == {"text": "compute.slow: rank 2 of 4"}
    beats = client.get("/v1/runs/job/heartbeats").json()
    assert [beat["rank"] for beat in beats["items"]] == [0, 1, 2, 3]


def test_lists_are_paged(client: TestClient, service: Service, clock: FakeClock) -> None:
    play(client, service, clock, windows=5)
    page = client.get("/v1/runs/job/windows", params={"limit": 2, "offset": 1}).json()
    assert [item["window"] for item in page["items"]] == [3, 2]
    assert (page["total"], page["limit"], page["offset"]) == (5, 2, 1)
    assert client.get("/v1/runs/job/windows", params={"status": "failed"}).json()["total"] == 0


def test_metrics_tell_the_job_and_the_service(client: TestClient, service: Service, clock: FakeClock) -> None:
    play(client, service, clock)
    text = client.get("/metrics").text
    assert 'argus_step_duration_seconds{rank="2",run="job",run_id="job/0"} 0.3' in text
    assert (
        'argus_phase_duration_seconds{clock="wall",phase="forward",rank="0",run="job",run_id="job/0"}' in text
    )
    assert (
        'argus_incident_active{class="compute.slow",run="job",run_id="job/0",severity="warning"} 1.0' in text
    )
    assert 'argus_ingest_windows_total{result="accepted"} 12.0' in text
    for name, _, _, _ in METRICS:
        assert f"# HELP {name} " in text or f"# HELP {name.removesuffix('_total')}" in text
    assert "argus_straggler_score{" not in text  # the fake's findings have no significance
    place = 'cp="",dp="",ep="",gpu_uuid="",host="h-1",pp="",rank="2",run="job",run_id="job/0",tp=""'
    assert f"argus_rank_info{{{place}}} 1.0" in text
    assert 'job="' not in text


def test_a_finished_run_leaves_no_series(client: TestClient, service: Service, clock: FakeClock) -> None:
    play(client, service, clock)
    beats = [make_beat(rank, ts_s=clock.now_s, state="ended") for rank in range(4)]
    client.post("/v1/ingest/heartbeats", content=beats_body(*beats), headers=JSON)
    service.worker.turn(clock.now_s + 1)
    clock.now_s += 60
    service.worker.turn(clock.now_s)
    assert 'run="job"' not in client.get("/metrics").text


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/v1/nothing", 404),
        ("/v1/runs/none", 404),
        ("/v1/runs/none/windows", 404),
        ("/v1/runs/job%00x", 422),
        ("/v1/runs/%ff%fe", 404),
        ("/v1/runs/" + "x" * 300, 422),
        ("/v1/runs/job/windows/99999999999999999999999", 422),
        ("/v1/runs/job/windows/-1", 422),
        ("/v1/runs/job/windows?attempt=99999999999999999999", 422),
        ("/v1/runs/job/windows?limit=0", 422),
        ("/v1/runs/job/windows?offset=1e400", 422),
        ("/v1/runs/job/windows?status=sleeping", 422),
        ("/v1/runs/job/series?rank=nan", 422),
        ("/v1/incidents?class=%00", 422),
        ("/v1/incidents/i-none", 404),
        ("/v1/incidents/i-none/diagnosis", 404),
    ],
)
def test_wrong_questions_get_a_problem(client: TestClient, path: str, status: int) -> None:
    answer = client.get(path)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["status"] == status and answer.json()["detail"]


def big(n: int) -> dict[str, Any]:
    beat = make_beat(0, ts_s=1.0).to_json()
    return {"host": "h", "heartbeats": [{**beat, "status": {**beat["status"], "step": n}}]}


@pytest.mark.parametrize(
    ("path", "body", "headers", "status"),
    [
        ("layouts", b"", JSON, 400),
        ("layouts", b"\xff\xfe{", JSON, 400),
        ("layouts", b"[" * 100_000, JSON, 400),
        ("layouts", b'{"layouts": 3}', JSON, 400),
        ("layouts", b'{"layouts": [{"world_size": 1e999}]}', JSON, 422),
        ("layouts", b'{"layouts": [NaN]}', JSON, 400),
        ("layouts", b'{"layouts": [{"run": "a\\u0000b", "world_size": 1}]}', JSON, 422),
        ("layouts", b'{"layouts": [{"run": "\\ud800", "world_size": 1}]}', JSON, 422),
        ("layouts", b'{"layouts": [{"run": "", "world_size": 1}]}', JSON, 422),
        ("layouts", b"{}", {"content-type": "text/plain"}, 415),
        ("heartbeats", b"{}", JSON, 400),
        ("heartbeats", dump(big(1 << 70)).encode(), JSON, 422),
        ("heartbeats", dump(big(1)).replace('"step":1', '"step":' + "9" * 5000).encode(), JSON, 400),
        ("windows", b"", WINDOWS, 400),
        ("windows", b"not zstd", WINDOWS, 400),
        ("windows", b"x", {**WINDOWS, "argus-wire": "9"}, 426),
        ("windows", b"x", JSON, 415),
    ],
)
def test_garbage_is_refused_with_a_reason(
    client: TestClient, path: str, body: bytes, headers: dict[str, str], status: int
) -> None:
    answer = client.post(f"/v1/ingest/{path}", content=body, headers=headers)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json" and answer.json()["detail"]
    assert f'code="{status}"' in client.get("/metrics").text


def test_nothing_that_was_refused_is_stored(client: TestClient) -> None:
    body = b'{"layouts": [{"run": "a\\u0000b", "world_size": 1}]}'
    client.post("/v1/ingest/layouts", content=body, headers=JSON)
    assert client.get("/v1/runs").json()["total"] == 0


def test_bodies_are_bounded(tmp_path: Path, clock: FakeClock) -> None:
    import zstandard

    limits = {"max_body_bytes": 4096, "max_upload_bytes": 65536}
    with service_at(tmp_path / "b.sqlite", clock=clock, **limits) as service:
        client = TestClient(make_app(service), raise_server_exceptions=False)
        assert client.post("/v1/ingest/layouts", content=b" " * 4097, headers=JSON).status_code == 413
        chunks = client.post("/v1/ingest/layouts", content=iter([b" " * 3000] * 3), headers=JSON)
        assert chunks.status_code == 413
        bomb = zstandard.ZstdCompressor().compress(bytes(1 << 20))
        answer = client.post("/v1/ingest/windows", content=bomb, headers=WINDOWS)
        assert answer.status_code in (400, 413) and "65536" in answer.json()["detail"]


OPERATIONS = frozenset(
    [
        "ingest_layouts",
        "ingest_windows",
        "ingest_heartbeats",
        "ingest_observations",
        "post_events",
        "list_events",
        "list_history",
        "list_offenders",
        "get_facts",
        "get_report",
        "list_stacks",
        "list_samples",
        "get_status",
        "put_switch",
        "list_orders",
        "post_burst",
        "post_capture",
        "get_capture",
        "put_part",
        "get_part",
        "list_runs",
        "get_run",
        "get_topology",
        "list_heartbeats",
        "list_windows",
        "get_window",
        "get_series",
        "list_run_findings",
        "list_incidents",
        "get_incident",
        "get_diagnosis",
        "get_card",
        "healthz",
        "readyz",
        "get_metrics",
        "list_tools",
        "get_evidence",
        "list_evidence",
        "get_run_finding",
        "list_diagnoses",
        "get_info",
        "get_session",
        "log_in",
        "log_out",
        "get_case",
        "list_conversations",
        "get_conversation",
        "post_investigation",
        "list_investigations",
        "get_investigation",
        "get_investigation_events",
        "post_investigation_message",
        "cancel_investigation",
        "post_chat",
        "list_models",
        "post_chat_completion",
        "post_approval",
        "decide_approval",
        "list_approvals",
        "get_approval",
        "post_silence",
        "delete_silence",
        "list_silences",
        "post_mark",
        "list_marks",
        "post_outcome",
        "list_outcomes",
        "list_notices",
        "webhook_alertmanager",
        "webhook_grafana",
        "post_slack",
        "list_keys",
        "create_key",
        "revoke_key",
        "list_audit",
        "get_drift",
        "get_fleet",
        "get_heat_chart",
        "get_kernel_chart",
        "get_map_chart",
        "get_page",
        "get_phase_chart",
        "get_steps_chart",
        "get_timeline",
        "list_captures",
    ]
)
"""Names that clients are generated from: none may change or vanish."""


def test_operation_ids_are_stable_and_unique(client: TestClient) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    ids = [operation["operationId"] for item in paths.values() for operation in item.values()]
    assert sorted(ids) == sorted(set(ids))
    assert set(ids) == {*OPERATIONS, *registry().tools}


def test_ready_says_why_not(client: TestClient, service: Service, clock: FakeClock) -> None:
    with client:
        assert client.get("/readyz").json()["status"] == "ok"
        assert client.get("/healthz").json() == {"status": "ok"}
    service.published.show_backlog(service.settings.max_backlog + 1, 120.0)
    answer = TestClient(client.app).get("/readyz")
    assert answer.status_code == 503 and any("to be analysed: " in why for why in answer.json()["reasons"])


def test_a_failed_analysis_degrades_and_keeps_taking(
    client: TestClient, service: Service, clock: FakeClock
) -> None:
    client.post("/v1/ingest/layouts", content=layouts_body(), headers=JSON)
    body = upload(*(make_window(rank, 0, num_steps=13) for rank in range(4)))
    client.post("/v1/ingest/windows", content=body, headers=WINDOWS)
    service.worker.turn(clock.now_s)
    with client:
        answer = client.get("/readyz")
    assert (answer.status_code, answer.json()["status"]) == (200, "degraded")
    assert "thirteen steps" in answer.json()["reasons"][0]
    assert 'argus_windows_analysed_total{result="failed"} 1.0' in client.get("/metrics").text


def test_an_overloaded_service_tells_when_to_come_back(client: TestClient, service: Service) -> None:
    service.published.show_backlog(service.settings.max_backlog + 1, 120.0)
    answer = client.post("/v1/ingest/windows", content=upload(make_window(0, 0)), headers=WINDOWS)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")


def test_a_full_gate_turns_requests_away(client: TestClient, service: Service) -> None:
    assert client.post("/v1/ingest/layouts", content=layouts_body(), headers=JSON).status_code == 200
    gate = client.app.state.gates["default"]  # type: ignore[attr-defined]
    for _ in range(service.settings.max_uploads):
        assert gate.enter(is_small=False)
    answer = client.post("/v1/ingest/layouts", content=layouts_body(), headers=JSON)
    assert answer.status_code == 503 and "retry-after" in answer.headers
    gate.leave(is_small=False)
    assert client.post("/v1/ingest/layouts", content=layouts_body(), headers=JSON).status_code == 200


def test_a_database_that_fails_is_a_503(client: TestClient, service: Service) -> None:
    with service.store.write() as connection:
        connection.exec_driver_sql("DROP TABLE findings")
        connection.exec_driver_sql("DROP TABLE layouts")
    assert client.post("/v1/ingest/layouts", content=layouts_body(), headers=JSON).status_code == 503


def test_a_disk_that_takes_no_writes_is_not_ready_and_loses_nothing(
    client: TestClient, service: Service, tmp_path: Path
) -> None:
    client.post("/v1/ingest/layouts", content=layouts_body(), headers=JSON)
    wal = max(path.stat().st_size for path in tmp_path.glob("*.sqlite-wal"))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (wal, hard))
    try:
        refused = client.post("/v1/ingest/layouts", content=layouts_body(), headers=JSON)
        full = client.get("/readyz")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert refused.status_code >= 500  # kept by its sender, and sent again
    assert full.status_code == 503 and "takes no writes" in str(full.json()["reasons"])
    assert "takes no writes" not in str(client.get("/readyz").json()["reasons"])
    assert client.post("/v1/ingest/layouts", content=layouts_body(), headers=JSON).status_code == 200


def test_a_newer_senders_windows_are_kept_by_it_until_the_service_is_upgraded(client: TestClient) -> None:
    client.post("/v1/ingest/layouts", content=layouts_body(), headers=JSON)
    now = make_window(0, 0).to_bytes()
    newer = now.replace(b'"version":2', b'"version":9')
    assert newer != now
    for body, headers in (
        (encode_windows([now, newer]), WINDOWS),
        (encode_windows([now]), {**WINDOWS, "argus-wire": str(WIRE_VERSION + 1)}),
    ):
        answer = client.post("/v1/ingest/windows", content=body, headers=headers)
        assert answer.status_code == 426 and "upgrade this side" in answer.json()["detail"]
        assert answer.status_code in NOT_THE_BODY and not is_refusal(Answer(status=426))
    older = client.post(
        "/v1/ingest/windows",
        content=encode_windows([now.replace(b'"version":2', b'"version":0')]),
        headers=WINDOWS,
    )
    assert older.status_code == 422
