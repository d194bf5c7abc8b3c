"""The tools over HTTP and in the store: the same answers, kept, opened, refused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

from argus.agent.context import ToolContext
from argus.agent.evidence import AsOf, Cut, ToolResult
from argus.agent.registry import registry
from argus.analytics.history import UnitDays
from argus.analytics.store import evidence, history, queries
from argus.analytics.store.documents import dump
from argus.api.cli.serve import product_analyses
from argus.api.evidence_book import StoreBook
from argus.api.http.app import make_app
from argus.api.service import Service
from argus.api.store_facts import StoreFacts
from argus.api.tool_capture import MAX_PER_HOST, SPAN_S
from argus.collectors.records.stacks import encode_stacks
from argus.evals.moments import moments
from argus.evals.simulator.groups import layouts
from argus.evals.simulator.simulate import simulate
from tests.agent.jobs import FAULT, JOB, SAMPLE, SLOW, job_facts
from tests.api.kit import (
    FakeClock,
    beats_body,
    layouts_body,
    make_beat,
    new_service,
    new_store,
    service_at,
    upload,
)

JSON = {"content-type": "application/json"}


@dataclass(frozen=True)
class Lived:
    """A database in which the service lived through `JOB`."""

    path: Path
    now_s: float


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Lived:
    path = tmp_path_factory.mktemp("tools") / "a.sqlite"
    store = new_store(path)
    done = simulate(JOB, (FAULT,), rng=np.random.default_rng(0))
    clock = FakeClock(JOB.start_s)
    service = new_service(store, clock=clock, analyses=product_analyses(), window_steps=10)
    service.receive_layouts(dump({"layouts": [item.to_json() for item in done.layouts]}).encode())
    for moment in moments(done):
        clock.now_s = moment.now_s
        if moment.parts:
            service.receive_windows(upload(*moment.parts))
        if moment.beats:
            service.receive_heartbeats(beats_body(*moment.beats))
        while service.worker.turn(clock.now_s):
            pass
    dumps = job_facts().held[0].dumps or ()
    observed = {"host": "h", **encode_stacks(dumps), "samples": [SAMPLE.to_json()]}
    service.receive_observations(dump(observed).encode())
    store.close()
    return Lived(path=path, now_s=clock.now_s)


@pytest.fixture
def service(lived: Lived) -> Iterator[Service]:
    with service_at(lived.path, clock=FakeClock(lived.now_s)) as service:
        yield service


@pytest.fixture
def client(service: Service) -> TestClient:
    return TestClient(make_app(service), raise_server_exceptions=False)


def call(client: TestClient, name: str, **args: Any) -> Any:
    answer = client.post(f"/v1/tools/{name}:call", json={"arguments": args})
    assert answer.status_code == 200, answer.text
    return answer.json()


LAYOUTS = tuple(item.to_json() for item in layouts(JOB))

QUESTIONS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("compare_phase", {"phase": "forward", "ranks": [SLOW]}),
    ("compare_phase", {}),
    ("compare_kernels", {"ranks": [SLOW]}),
    ("collective_skew", {"group": "dp/1"}),
    ("step_series", {"ranks": [SLOW, 2]}),
    ("stacks", {}),
    ("topology_query", {"what": "about", "node": f"rank:{SLOW}"}),
    ("shared_elements", {"ranks": [4, 5, 6, 7], "nature": "self_time"}),
    ("blast_radius", {"node": "host:h-0001"}),
)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "args"), QUESTIONS)
def test_a_database_answers_as_a_recording_does(service: Service, name: str, args: dict[str, Any]) -> None:
    stored = ToolContext(facts=StoreFacts.of(service.store), run="job")
    held = ToolContext(facts=job_facts(), run="job")
    one, other = (registry().call(name, args, context) for context in (stored, held))
    assert one.status == other.status == "ok", (one.note, other.note)
    assert near(one.data) == near(other.data)


def near(value: Any) -> Any:
    """Numbers to three digits: the store keeps phases as 32-bit numbers."""
    if isinstance(value, float):
        return float(f"{value:.3g}")
    if isinstance(value, dict):
        return {key: near(item) for key, item in value.items()}
    return [near(item) for item in value] if isinstance(value, list) else value


@pytest.mark.slow
def test_findings_and_incidents_are_read_back(service: Service, client: TestClient) -> None:
    facts = StoreFacts.of(service.store)
    (incident,) = [one for one in facts.incidents() if SLOW in one.cause.suspects]
    assert facts.incident(incident.id) == incident and facts.incidents(run="other") == []
    found = call(client, "list_findings", incident=incident.id)
    assert found["status"] == "ok" and found["data"]["num_matching"] == len(incident.cause.findings)
    assert {rank: host for rank, (host, _) in facts.units_of("job", 0, [SLOW]).items()} == {SLOW: "h-0001"}
    assert call(client, "list_findings", run="jib")["close"] == ["job"]


@pytest.mark.slow
def test_a_call_is_answered_kept_and_opened(client: TestClient) -> None:
    answer = call(client, "compare_phase", phase="forward", ranks=[SLOW])
    assert answer["data"]["rows"][0]["ratio"] > 1.2 and answer["as_of"]["run"] == "job"
    opened = client.get(f"/v1/evidence/{answer['evidence_id']}").json()
    assert {**opened, "elapsed_ms": answer["elapsed_ms"]} == answer
    pointer = {"name": "r", "evidence": answer["evidence_id"], "path": "/rows/0/ratio"}
    derived = call(client, "compute", expression="r - 1", values=[pointer], unit="share")
    assert derived["data"]["value"] == pytest.approx(answer["data"]["rows"][0]["ratio"] - 1, abs=1e-4)
    assert client.get("/v1/evidence/ev-0").status_code == 404


@pytest.mark.slow
def test_events_and_samples_of_a_host(client: TestClient) -> None:
    told = [
        {"time_s": 1e9, "node": node, "source": "dcgm", "kind": "xid", "text": f"Xid 79 on {node}"}
        for node in ("gpu:h-0001/0", "host:h-0000", "host:elsewhere")
    ]
    assert client.post("/v1/events", json={"events": told}).json()["accepted"] == 3
    answer = call(client, "events_oob", node=f"rank:{SLOW}")["data"]
    assert answer["hosts"][0]["numbers"] == {"cpu_some_s": 2.0}
    assert [row["node"] for row in answer["events"]] == ["gpu:h-0001/0"]
    assert call(client, "events_oob")["data"]["num_events"] == 2


@pytest.mark.slow
def test_the_record_of_a_host_comes_from_the_history(service: Service, client: TestClient) -> None:
    assert call(client, "history", node="host:h-0001")["status"] in ("ok", "no_data")
    row = UnitDays(
        units=(("h-9", "GPU-9"),),
        subjects=("own",),
        unit=np.array([0]),
        subject=np.array([0]),
        day=np.array([20_000]),
        num=np.array([10]),
        sum_log=np.array([10 * np.log(1.2)]),
    )
    with service.store.write() as connection:
        which = queries.attempt_of(connection, "job", attempt=None)
        assert which is not None
        history.add_days(connection, which.id, [row], mark=history.Rolled())
    for node in ("host:h-9", "gpu:GPU-9", "gpu:h-9/GPU-9"):
        (subject,) = call(client, "history", node=node)["data"]["subjects"]
        assert subject["last_ratio"] == pytest.approx(1.2) and subject["last_day"] == "2024-10-04"


@pytest.mark.slow
def test_a_run_is_compared_with_another(service: Service, client: TestClient) -> None:
    body = [{**item, "run": "other"} for item in LAYOUTS]
    client.post("/v1/ingest/layouts", content=dump({"layouts": body}), headers=JSON)
    answer = call(client, "compare_runs", run="job", other="other")
    assert answer["status"] == "gap" and answer["data"]["before"].startswith("other")


def test_the_tools_are_listed_with_their_schemas(tmp_path: Path) -> None:
    with service_at(tmp_path / "a.sqlite", clock=FakeClock()) as service:
        client = TestClient(make_app(service))
        listed = client.get("/v1/tools").json()["tools"]
        paths = client.get("/openapi.json").json()["paths"]
    assert [item["name"] for item in listed] == list(registry().tools)
    for item in listed:
        assert item["openai"]["function"]["parameters"] == item["parameters"]
        operation = paths[f"/v1/tools/{item['name']}:call"]["post"]
        assert operation["operationId"] == item["name"]
        assert operation["x-argus-read-only"] is item["read_only"]
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        assert schema["properties"]["arguments"] == item["parameters"]


@pytest.mark.parametrize(
    ("path", "body", "code"),
    [
        ("/v1/tools/list_findings:call", b"{", 400),
        ("/v1/tools/list_findings:call", b"[" * 100_000, 400),
        ("/v1/tools/list_findings:call", b"[]", 422),
        ("/v1/tools/list_findings:call", b'{"args": {}}', 422),
        ("/v1/tools/list_findings:call", b" " * 300_000, 413),
        ("/v1/tools/list_finding:call", b"{}", 404),
        ("/v1/tools/list_findings:call", b"", 200),
        ("/v1/tools/list_findings:call", b'{"arguments": 3}', 200),
        ("/v1/tools/list_findings:call", b'{"arguments": {"rank": NaN}}', 200),
        ("/v1/tools/list_findings:call", b'{"arguments": {"run": "\\ud800"}}', 200),
        ("/v1/tools/list_findings:call", b'{"arguments": {"run": "\\u0000"}}', 200),
        ("/v1/tools/get_finding:call", b'{"arguments": {"finding": "\\u001b[2J"}}', 200),
    ],
)
def test_bad_calls_are_told(tmp_path: Path, path: str, body: bytes, code: int) -> None:
    with service_at(tmp_path / "a.sqlite", clock=FakeClock()) as service:
        answer = TestClient(make_app(service)).post(path, content=body, headers=JSON)
    assert answer.status_code == code, answer.text
    if code == 200:
        assert answer.json()["status"] in ("no_data", "error") and "failed:" not in answer.json()["note"]


def test_the_tools_need_the_key(tmp_path: Path) -> None:
    with service_at(tmp_path / "a.sqlite", clock=FakeClock(), key="secret") as service:
        client = TestClient(make_app(service))
        for path in ("/v1/tools", "/v1/evidence/ev-0"):
            assert client.get(path).status_code == 401
        assert client.post("/v1/tools/list_findings:call", json={}).status_code == 401
        right = {"authorization": "Bearer secret"}
        assert client.get("/v1/tools", headers=right).status_code == 200


def test_a_host_gives_only_a_few_captures_an_hour(tmp_path: Path) -> None:
    clock = FakeClock()
    with service_at(tmp_path / "a.sqlite", clock=clock) as service:
        client = TestClient(make_app(service))
        client.post("/v1/ingest/layouts", content=layouts_body(), headers=JSON)
        beats = beats_body(*(make_beat(rank, ts_s=clock.now_s) for rank in range(4)))
        client.post("/v1/ingest/heartbeats", content=beats, headers=JSON)
        answers = [call(client, "capture_raw", ranks=[1]) for _ in range(MAX_PER_HOST + 1)]
        assert [one["status"] for one in answers] == ["ok"] * MAX_PER_HOST + ["denied"]
        assert answers[0]["data"]["hosts"] == ["h-0"] and "h-0" in answers[-1]["note"]
        assert client.get(answers[0]["data"]["fetch"]).json()["ranks"] == [1]
        assert call(client, "capture_raw", ranks=[2])["status"] == "ok"
        clock.now_s += SPAN_S + 1
        assert call(client, "capture_raw", ranks=[1])["status"] == "ok"


RESULT = ToolResult(
    tool="t",
    args={"rank": 3},
    status="ok",
    data={"x": 0.1, "list": [1, None]},
    as_of=AsOf(run="job", attempt=0, window=2, step=29, time_s=1.5),
    cut=(Cut(path="/list", shown=2, total=9),),
)


def test_evidence_is_read_back_as_it_was_and_forgotten_after_its_time(tmp_path: Path) -> None:
    store = new_store(tmp_path / "a.sqlite")
    clock = FakeClock(100.0)
    book = StoreBook(store=store, clock=clock, keep_s=50.0)
    book.add(RESULT)
    assert book.get(RESULT.evidence_id) == RESULT
    assert book.get(RESULT.evidence_id).evidence_id == RESULT.evidence_id  # type: ignore[union-attr]
    clock.now_s = 140.0
    book.add(RESULT)
    other = ToolResult(tool="t", args={}, status="no_data", data={})
    clock.now_s = 170.0
    book.add(other)
    assert book.get(RESULT.evidence_id) == RESULT
    with store.read() as connection:
        assert [row["id"] for row in evidence.list_evidence(connection, run=None, limit=9).items] == [
            other.evidence_id,
            RESULT.evidence_id,
        ]
        assert evidence.list_evidence(connection, run="job", limit=9).total == 1
    clock.now_s = 200.0
    book.add(other)
    assert book.get(RESULT.evidence_id) is None
    store.close()
