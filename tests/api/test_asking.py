"""What the agent would be asked about and was asked before, over HTTP; its counters on /metrics."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from argus.agent.stub_llm.scripts import SCRIPTS
from argus.agent.stub_llm.server import StubServer
from argus.api.agent import agent_for
from argus.api.agent_metrics import AGENT_METRICS
from argus.api.asking import Asking, asking_of
from argus.api.cli.serve import product_analyses
from argus.api.http.app import make_app
from argus.api.memory import NoConversation
from argus.api.service import Service
from argus.api.toolbox import toolbox_of
from argus.evals.simulator.job import Fault, Job
from tests.api.kit import FakeClock, new_service, new_store
from tests.api.served import live

JOB = Job(run="job", ranks=4, steps=100)
FAULT = Fault(kind="compute", ranks=(2,), start_step=50, severity=1.8)


@pytest.fixture(scope="module")
def model() -> Iterator[StubServer]:
    with StubServer(SCRIPTS["confirm"]) as server:
        yield server


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory, model: StubServer) -> Iterator[Service]:
    store, clock = new_store(tmp_path_factory.mktemp("asking") / "a.sqlite"), FakeClock(JOB.start_s)
    service = new_service(
        store, clock=clock, analyses=product_analyses(), window_steps=10, model_url=model.url, model="m"
    )
    live(service, clock, JOB, [FAULT])
    yield service
    store.close()


@pytest.fixture
def client(service: Service) -> TestClient:
    return TestClient(make_app(service), raise_server_exceptions=False)


@pytest.fixture
def asking(service: Service) -> Asking:
    return asking_of(service, agent_for(service), toolbox_of(service))


@pytest.mark.slow
def test_the_case_is_told_with_its_reasons_and_its_numbers_can_be_opened(client: TestClient) -> None:
    case = client.get("/v1/case").json()
    assert (case["run"], case["has_model"]) == ("job", True) and "rank 2" in case["card"]
    assert case == client.get("/v1/case", params={"incident": case["incident"]}).json()
    assert case["diagnosis"]["root_causes"][0]["node"] == "rank:2"
    evidence = case["why"][-1].split()[-1]
    assert client.get(f"/v1/evidence/{evidence}").json()["tool"] == "triage"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/v1/case?run=jub", "no run 'jub'"),
        ("/v1/case?incident=i-0", "no incident 'i-0'"),
        ("/v1/conversations/nobody", "no conversation 'nobody'"),
    ],
)
def test_what_is_not_there_is_said(client: TestClient, path: str, said: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 404 and said in answer.json()["detail"]


@pytest.mark.slow
def test_turns_are_kept_and_told_in_order(client: TestClient, asking: Asking, model: StubServer) -> None:
    steps: list[str] = []
    first = asyncio.run(asking.turn("Which rank?", watch=lambda step: steps.append(step.what)))
    kept = first["conversation"]
    second = asyncio.run(asking.turn("And why?", conversation=kept))
    assert second["conversation"] == kept and second["diagnosis"] == first["diagnosis"]
    assert "Which rank?" in [message["content"] for message in model.requests[-1]["messages"]]
    assert "called" in steps
    told = client.get(f"/v1/conversations/{kept}").json()
    assert [entry["role"] for entry in told["entries"]] == ["user", "assistant"] * 2
    assert told["title"] == "Which rank?" and told["entries"][1]["pages"] == first["answer"]["pages"]
    listed = client.get("/v1/conversations", params={"run": "job", "limit": 1}).json()
    assert listed["items"][0]["id"] == kept and listed["total"] >= 1
    assert client.get("/v1/conversations", params={"run": "other"}).json()["total"] == 0
    with pytest.raises(NoConversation):
        asyncio.run(asking.turn("And why?", conversation="nobody"))


@pytest.mark.slow
def test_the_services_metrics_have_the_agents_counters(client: TestClient, asking: Asking) -> None:
    asyncio.run(asking.agent.investigate(asking.toolbox, asking.case(run=None, incident=None)))
    text = client.get("/metrics").text
    assert all(name in text for name, _, _ in AGENT_METRICS)
    assert 'argus_agent_investigations_total{stage="agent",stance="agrees",' in text
    assert "argus_agent_duration_seconds_count" in text


@pytest.mark.slow
def test_without_the_key_nothing_is_told(tmp_path: Path) -> None:
    store = new_store(tmp_path / "a.sqlite")
    client = TestClient(make_app(new_service(store, clock=FakeClock(), key="secret")))
    for path in ("/v1/case", "/v1/conversations", "/v1/conversations/x"):
        assert client.get(path).status_code == 401
        assert client.get(path, headers={"authorization": "Bearer secret"}).status_code in (200, 404)
    store.close()
