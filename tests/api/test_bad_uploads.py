"""Uploads that are refused, expand without end, break off or hold control characters: nothing of that stays or is shown."""

from __future__ import annotations

import asyncio
import gc
import json
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import zstandard
from starlette.testclient import TestClient

from argus.api.http.app import make_app
from argus.api.ingest import MAX_SPANNED, parse_layouts
from argus.api.service import Service
from argus.collectors.records.cost import Cost
from argus.collectors.records.errors import WireError
from argus.collectors.records.upload import CONTENT_TYPE
from tests.api.kit import FakeClock, beats_body, layouts_body, make_beat, make_window, service_at, upload

EXPANDED = 64 << 20


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with service_at(tmp_path / "a.sqlite", clock=FakeClock()) as service:
        yield service


@pytest.mark.slow
def test_a_refused_upload_leaves_memory_with_its_answer(service: Service) -> None:
    client = TestClient(make_app(service), raise_server_exceptions=False)
    body = zstandard.ZstdCompressor().compress(b"\xff" * EXPANDED)
    gc.disable()
    tracemalloc.start()
    try:
        for _ in range(3):
            answer = client.post("/v1/ingest/windows", content=body, headers={"content-type": CONTENT_TYPE})
            assert answer.status_code == 400
        assert tracemalloc.get_traced_memory()[0] < EXPANDED / 2
    finally:
        tracemalloc.stop()
        gc.enable()


@pytest.mark.parametrize("path", ["/v1/ingest/windows", "/v1/ingest/heartbeats", "/v1/tools/compute:call"])
def test_a_body_that_breaks_off_is_answered_by_nothing(service: Service, path: str) -> None:
    app, sent = make_app(service), list[Any]()
    parts: list[dict[str, Any]] = [
        {"type": "http.request", "body": b"{", "more_body": True},
        {"type": "http.disconnect"},
    ]
    media = CONTENT_TYPE if path.endswith("windows") else "application/json"

    async def receive() -> dict[str, Any]:
        return parts.pop(0) if len(parts) > 1 else parts[0]

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(b"host", b"localhost"), (b"content-type", media.encode())],
        "client": ("127.0.0.1", 1),
        "scheme": "http",
    }
    asyncio.run(app(scope, receive, send))
    assert [one["status"] for one in sent if "status" in one] in ([], [400])


def test_signs_of_life_are_taken_while_windows_wait_for_their_analysis(service: Service) -> None:
    """Refused for long, all hosts would be lost."""
    client = TestClient(make_app(service))
    service.published.show_backlog(service.settings.max_backlog + 1, 120.0)
    windows, beats = upload(make_window(0, 0)), beats_body(make_beat(0, ts_s=1.0))
    for path, body, media, status in (
        ("windows", windows, CONTENT_TYPE, 503),
        ("heartbeats", beats, "application/json", 200),
    ):
        answer = client.post(f"/v1/ingest/{path}", content=body, headers={"content-type": media})
        assert answer.status_code == status


def test_no_control_character_of_a_phase_reaches_metrics(tmp_path: Path) -> None:
    clock = FakeClock()
    with service_at(tmp_path / "a.sqlite", clock=clock) as service:
        service.receive_layouts(layouts_body())
        for window in range(3):
            parts = [replace(make_window(rank, window), names=("", "a\x1b[2Jb\u202e")) for rank in range(4)]
            service.receive_windows(upload(*parts))
            clock.now_s += 20
            while service.worker.turn(clock.now_s):
                pass
        told = [
            line
            for line in TestClient(make_app(service)).get("/metrics").text.splitlines()
            if line.startswith("argus_phase_dur")
        ]
        assert len(told) == len(set(told)) == 4
        assert all(line.isprintable() and 'phase="a\ufffd[2Jb\ufffd"' in line for line in told)


def test_half_a_character_in_what_hosts_name_leaves_metrics_and_analysis_whole(service: Service) -> None:
    """JSON can spell it, and nothing that is sent or stored as UTF-8 can hold it."""
    half = "x\ud800"
    layouts = json.loads(layouts_body())["layouts"]
    group = {**layouts[0]["groups"][0], "desc": half}
    told = {"device": half, "gpu_model": half, "groups": [group]}
    service.receive_layouts(json.dumps({"layouts": [{**one, **told} for one in layouts]}).encode())
    cost = {half: Cost(ratio=1.1, low=1.0, high=1.2, n=9)}
    for window in range(3):
        parts = [replace(make_window(rank, window), overhead=cost) for rank in range(4)]
        service.receive_windows(upload(*parts))
        while service.worker.turn(service.clock()):
            pass
    answer = TestClient(make_app(service)).get("/metrics")
    assert answer.status_code == 200 and service.published.troubles_now() == ()
    assert 'gpu_uuid="x\ufffd"' in answer.text and 'channel="x\ufffd"' in answer.text


@pytest.mark.parametrize("run", ["..", "team/../night", "."])
def test_a_run_without_an_address_is_refused_in_one_sentence(service: Service, run: str) -> None:
    client = TestClient(make_app(service))
    json_type = {"content-type": "application/json"}
    answer = client.post("/v1/ingest/layouts", content=layouts_body(run=run), headers=json_type)
    assert "must not be . or .." in answer.text
    assert client.get("/v1/runs").json()["items"] == []
    client.post("/v1/ingest/layouts", content=layouts_body(run="a..b"), headers=json_type)
    assert [one["run"] for one in client.get("/v1/runs").json()["items"]] == ["a..b"]


def test_the_members_of_one_group_do_not_make_room_for_anothers() -> None:
    spans = [{"first": 0, "step": 1, "num": num} for num in (MAX_SPANNED, 1, -MAX_SPANNED)]
    body = {"layouts": [{"groups": [{"name": "a", "ranks": span} for span in spans]}]}
    with pytest.raises(WireError, match="at most"):
        parse_layouts(json.dumps(body).encode())
