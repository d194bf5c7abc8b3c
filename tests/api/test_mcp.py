"""The MCP server, asked by the SDK's own client: in memory, over stdio and over HTTP."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
import uvicorn
from anyio import EndOfStream, create_task_group, wait_all_tasks_blocked
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from mcp_types import INVALID_PARAMS, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse
from starlette.testclient import TestClient

from argus.agent.registry import registry
from argus.api.http import mcp_route
from argus.api.http.app import make_app
from argus.api.mcp import mcp_server
from argus.api.mcp_stdio import Heard, Unanswered
from argus.api.toolbox import ALL, Toolbox
from tests.agent.jobs import SLOW, job_facts
from tests.api.kit import FakeClock, service_at
from tests.api.process import ROOT, environment

Ask = Callable[[Client], Awaitable[Any]]


def asked(ask: Ask, server: Any) -> Any:
    """What a client is told."""

    async def talk() -> Any:
        async with Client(server) as client:
            return await ask(client)

    return asyncio.run(talk())


def in_memory(ask: Ask) -> Any:
    return asked(ask, mcp_server(Toolbox(facts=job_facts(), scopes=ALL)))


def test_the_tools_are_those_of_the_registry() -> None:
    listed = in_memory(lambda client: client.list_tools()).tools
    assert {tool.name: tool.input_schema for tool in listed} == {
        name: tool.parameters for name, tool in registry().tools.items()
    }
    for tool in listed:
        known = registry().tools[tool.name]
        assert tool.description == known.description and tool.annotations is not None
        assert tool.annotations.read_only_hint is known.read_only
        assert tool.annotations.destructive_hint is False and tool.annotations.open_world_hint is False


def test_a_call_answers_with_evidence_that_can_be_read() -> None:
    async def ask(client: Client) -> None:
        answer = await client.call_tool("compare_phase", {"phase": "forward", "ranks": [SLOW]})
        said: Any = answer.structured_content
        assert not answer.is_error and said["status"] == "ok"
        assert json.loads(answer.content[0].text) == said  # type: ignore[union-attr]
        opened = await client.read_resource(f"argus://evidence/{said['evidence_id']}")
        assert json.loads(opened.contents[0].text) == said  # type: ignore[union-attr]

    in_memory(ask)


def test_a_wrong_call_is_an_error_the_model_can_read() -> None:
    async def ask(client: Client) -> None:
        wrong = await client.call_tool("compare_phase", {"phas": "forward"})
        assert wrong.is_error and "did you mean 'phase'" in str(wrong.structured_content)
        unknown = await client.call_tool("compare_phase", {"ranks": [99]})
        assert not unknown.is_error and "rank 7" in str(unknown.structured_content)
        denied = await client.call_tool("capture_raw", {"ranks": [1]})
        assert denied.is_error and "recording" in str(denied.structured_content)

    in_memory(ask)


def test_a_prompt_asked_for_wrongly_is_an_error_and_no_traceback(caplog: pytest.LogCaptureFixture) -> None:
    async def ask(client: Client) -> None:
        for name in ("triage_incident", "nothing"):
            with pytest.raises(MCPError) as told:
                await client.get_prompt(name, {})
            assert told.value.code == INVALID_PARAMS and told.value.message
        assert not [record for record in caplog.records if record.exc_info]

    in_memory(ask)


def test_incidents_and_findings_are_resources_and_triage_is_a_prompt() -> None:
    async def ask(client: Client) -> None:
        listed = await client.read_resource("argus://incidents")
        incident = json.loads(listed.contents[0].text)[0]  # type: ignore[union-attr]
        whole = await client.read_resource(f"argus://incident/{incident['id']}")
        told = json.loads(whole.contents[0].text)  # type: ignore[union-attr]
        assert told["diagnosis"]["root_causes"][0]["node"] == f"rank:{SLOW}"
        finding = await client.read_resource(f"argus://finding/{told['findings'][0]}")
        assert json.loads(finding.contents[0].text)["evidence"]  # type: ignore[union-attr]
        templates = (await client.list_resource_templates()).resource_templates
        assert {one.uri_template.split("/")[2] for one in templates} == {"incident", "finding", "evidence"}
        assert {one.name for one in (await client.list_prompts()).prompts} == {
            "triage_incident",
            "explain_finding",
        }
        prompt = await client.get_prompt("triage_incident", {"incident": incident["id"]})
        assert incident["id"] in prompt.messages[0].content.text  # type: ignore[union-attr]
        for uri in ("argus://incident/i-0", "argus://finding/f-0", "argus://evidence/ev-0"):
            with pytest.raises(MCPError, match="no "):
                await client.read_resource(uri)

    in_memory(ask)


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    listener = socket.create_server(("127.0.0.1", 0))
    with service_at(tmp_path / "a.sqlite", clock=FakeClock()) as service:
        server = uvicorn.Server(uvicorn.Config(make_app(service), log_level="warning"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
        server.should_exit = True
        thread.join()
    listener.close()


@pytest.mark.slow
def test_it_is_served_over_http(url: str) -> None:
    async def ask(client: Client) -> Any:
        return (await client.call_tool("list_findings", {})).structured_content

    answer = asked(ask, streamable_http_client(url))
    assert (answer["status"], answer["note"]) == ("no_data", "no run is known yet")


@pytest.mark.slow
def test_it_is_served_over_stdio(tmp_path: Path) -> None:
    with service_at(tmp_path / "a.sqlite", clock=FakeClock()):
        pass
    command = StdioServerParameters(
        command=sys.executable,
        args=["-m", "argus", "mcp", "--db", str(tmp_path / "a.sqlite")],
        cwd=ROOT,
        env=environment(),
    )

    async def ask(client: Client) -> Any:
        return (await client.call_tool("list_findings", {})).structured_content

    assert asked(ask, stdio_client(command))["status"] == "no_data"


class Asking:
    """A client that asks a few things and closes its side at once."""

    def __init__(self, *messages: object) -> None:
        self._left = [SessionMessage(message) for message in messages]  # type: ignore[arg-type]

    async def receive(self) -> SessionMessage:
        if not self._left:
            raise EndOfStream
        return self._left.pop(0)


def test_what_was_asked_before_stdin_closed_is_waited_for() -> None:
    """Once nothing more is asked, the stream ends with the last answer; what was taken back has none."""

    async def talk() -> list[str]:
        told, unanswered = list[str](), Unanswered()
        ask = JSONRPCRequest(jsonrpc="2.0", id=3, method="tools/call")
        other = JSONRPCRequest(jsonrpc="2.0", id="x", method="tools/call")
        listen = JSONRPCRequest(jsonrpc="2.0", id=9, method="subscriptions/listen")
        back = JSONRPCNotification(jsonrpc="2.0", method="notifications/cancelled", params={"requestId": "x"})
        odd = JSONRPCNotification(jsonrpc="2.0", method="notifications/cancelled", params={"requestId": []})
        heard = Heard(Asking(ask, other, listen, back, odd), unanswered)

        async def listens() -> None:
            async for _ in heard:
                told.append("asked")
            told.append("over")

        async with create_task_group() as tasks:
            tasks.start_soon(listens)
            await wait_all_tasks_blocked()
            told.append("answered")
            unanswered.say(JSONRPCResponse(jsonrpc="2.0", id=3, result={}))
        return told

    assert anyio.run(talk) == [*["asked"] * 5, "answered", "over"]


@pytest.mark.slow
def test_a_request_is_answered_though_stdin_closes_right_after_it(tmp_path: Path) -> None:
    with service_at(tmp_path / "a.sqlite", clock=FakeClock()):
        pass
    hello = {"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    said = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {
            "jsonrpc": "2.0",
            "id": 2,
            "method": "tools/call",
            "params": {"name": "list_findings", "arguments": {}},
        },
    ]
    done = subprocess.run(
        [sys.executable, "-m", "argus", "mcp", "--db", str(tmp_path / "a.sqlite")],
        input="".join(f"{json.dumps(one)}\n" for one in said),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        cwd=ROOT,
        env=environment(),
    )
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == [1, 2]


def test_the_route_needs_the_key_and_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with service_at(tmp_path / "a.sqlite", clock=FakeClock(), key="secret") as service:
        key = {"authorization": "Bearer secret"}
        client = TestClient(make_app(service))
        assert client.post("/mcp", json={}).status_code == 401
        assert client.post("/mcp", json={}, headers=key).status_code == 503  # it does not run yet
        for _ in range(2):  # and again after its end
            with client:
                assert client.post("/mcp", json={}, headers=key).status_code == 400
        monkeypatch.setattr(mcp_route, "find_spec", lambda _: None)
        answer = TestClient(make_app(service)).post("/mcp", headers={"authorization": "Bearer secret"})
        assert answer.status_code == 501 and "argus-triage[mcp]" in answer.json()["detail"]
