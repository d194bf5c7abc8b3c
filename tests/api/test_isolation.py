"""Two projects with a run of the same name: neither sees, names, counts or changes the other's."""

from __future__ import annotations

import asyncio
import re
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
import uvicorn
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from starlette.routing import Route

from argus.agent.registry import registry
from argus.analytics.store.documents import dump
from argus.api.keys import Wish
from argus.api.projects import ProjectError, Projects, database_of
from argus.collectors.records.outside_event import OutsideEvent
from tests.api.guarded import JSON, Guarded, bearer, guarded
from tests.api.kit import FakeClock, layouts_body, new_service, new_store

READS = (
    "/v1/runs/{run}",
    "/v1/runs/{run}/topology",
    "/v1/runs/{run}/facts",
    "/v1/runs/{run}/report",
    "/v1/runs/{run}/heartbeats",
    "/v1/runs/{run}/windows",
    "/v1/runs/{run}/windows/1",
    "/v1/runs/{run}/series",
    "/v1/runs/{run}/findings",
    "/v1/runs/{run}/stacks",
    "/v1/runs/{run}/status",
    "/v1/findings/{finding}",
    "/v1/incidents/{incident}",
    "/v1/incidents/{incident}/diagnosis",
    "/v1/incidents/{incident}/card",
    "/v1/evidence/{evidence}",
    "/v1/captures/{capture}",
    "/v1/hosts/h-1/samples",
)
LISTS = (
    "/v1/runs",
    "/v1/incidents",
    "/v1/diagnoses",
    "/v1/evidence",
    "/v1/events",
    "/v1/history",
    "/v1/history/offenders",
)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Guarded]:
    with guarded(tmp_path, clock=FakeClock()) as site:
        site.play("beta", run="secret-run")
        event = OutsideEvent(time_s=1.0, node="host:h-1", source="dmesg", text="Xid 63", kind="xid")
        body = dump({"events": [event.to_json()]}).encode()
        key = site.headers("ingest", "beta")
        assert site.client.post("/v1/events", content=body, headers={**JSON, **key}).json()["accepted"] == 1
        yield site


def ids(site: Guarded) -> dict[str, str]:
    """Ids of what beta has."""
    beta = site.headers("investigate", "beta")
    finding = site.client.get("/v1/runs/secret-run/findings", headers=beta).json()["items"][0]["id"]
    incident = site.client.get("/v1/incidents", headers=beta).json()["items"][0]["id"]
    called = site.client.post("/v1/tools/list_findings:call", json={"arguments": {}}, headers=beta).json()
    wish = {"run": "secret-run", "ranks": [2]}
    capture = site.client.post("/v1/captures", json=wish, headers=beta).json()["id"]
    return {
        "run": "secret-run",
        "finding": finding,
        "incident": incident,
        "evidence": called["evidence_id"],
        "capture": capture,
    }


def test_another_projects_key_finds_nothing(site: Guarded) -> None:
    known = ids(site)
    mine, theirs = site.headers("admin"), site.headers("read", "beta")
    for path in READS:
        where = path.format(**known)
        is_there = site.client.get(where, headers=theirs).status_code
        assert is_there == 200 or "samples" in path, where
        assert site.client.get(where, headers=mine).status_code == 404, where
    for path in LISTS:
        answer = site.client.get(path, headers=mine)
        assert answer.json()["total"] == 0 and "secret" not in answer.text, path
    assert site.client.get("/v1/hosts/h-1/orders", headers=site.headers("ingest")).json()["orders"] == []
    assert "secret-run" not in site.client.get("/metrics", headers=site.headers("read")).text
    assert "secret-run" in site.client.get("/metrics", headers=theirs).text


def test_no_page_whatsoever_names_another_project(site: Guarded) -> None:
    """Every route that reads, with the ids of another project in its path."""
    known = ids(site)
    asked = 0
    for route in site.app.routes:
        if not isinstance(route, Route) or "GET" not in (route.methods or ()):
            continue
        path = re.sub(r"{(\w+)(:path)?}", lambda found: known.get(found[1], "1"), route.path)
        answer = site.client.get(path, headers=site.headers("admin"))
        assert answer.status_code != 500 and "secret-run" not in answer.text.replace(
            repr("secret-run"), ""
        ), path
        assert answer.status_code == 404 or known["incident"] not in answer.text, path
        asked += 1
    assert asked > 40


def test_another_projects_key_changes_nothing(site: Guarded) -> None:
    known, mine = ids(site), site.headers("admin")
    put = site.client.put("/v1/runs/secret-run/switch", json={"off": True}, headers=mine)
    burst = site.client.post("/v1/runs/secret-run/burst", json={}, headers=mine)
    capture = site.client.post("/v1/captures", json={"incident": known["incident"]}, headers=mine)
    part = site.client.post(
        f"/v1/captures/{known['capture']}/ranks/2",
        content=b"x",
        headers={**site.headers("ingest"), "content-type": "application/zstd"},
    )
    assert [answer.status_code for answer in (put, burst, capture)] == [404] * 3
    assert part.status_code in (404, 415)
    before = site.client.get("/v1/runs/secret-run", headers=site.headers("read", "beta")).json()
    site.play("default", run="secret-run", windows=5, slow=0)
    after = site.client.get("/v1/runs/secret-run", headers=site.headers("read", "beta")).json()
    assert before["attempts"][0]["windows"] == after["attempts"][0]["windows"] == 3
    beta = site.client.get("/v1/incidents", headers=site.headers("read", "beta")).json()["items"]
    default = site.client.get("/v1/incidents", headers=site.headers("read")).json()["items"]
    assert [item["suspects"] for item in (*beta, *default)] == [[2], [0]]


def test_no_tool_tells_of_another_project(site: Guarded) -> None:
    known = ids(site)
    words = {"run": "secret-run", "finding": known["finding"], "incident": known["incident"], "other": "x"}
    for name, tool in sorted(registry().tools.items()):
        arguments: dict[str, Any] = {a.name: words[a.name] for a in tool.arguments if a.name in words}
        said = site.client.post(
            f"/v1/tools/{name}:call", json={"arguments": arguments}, headers=site.headers("admin")
        ).json()
        assert said["status"] != "ok" or name == "compute", (name, said)
        assert "h-1" not in str(said["data"]), (name, said)


def test_mcp_gives_each_caller_its_own_project(site: Guarded) -> None:
    """Both at the same time over one server."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(site.app, log_level="warning"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"

    async def runs(project: str) -> list[str]:
        headers = site.headers("read", project)
        found = []
        async with (
            httpx2.AsyncClient(headers=headers, timeout=30.0) as http,
            Client(streamable_http_client(url, http_client=http)) as client,
        ):
            for _ in range(5):
                answer = await client.read_resource("argus://incidents")
                found.append(answer.contents[0].text)  # type: ignore[union-attr]
        return found

    async def both() -> tuple[list[str], list[str]]:
        mine, theirs = await asyncio.gather(runs("default"), runs("beta"))
        return mine, theirs

    try:
        mine, theirs = asyncio.run(both())
    finally:
        server.should_exit = True
        thread.join()
        listener.close()
    assert set(mine) == {"[]"} and all("secret-run" in text for text in theirs)


def test_a_project_lies_in_its_own_database(tmp_path: Path) -> None:
    store = new_store(tmp_path / "a.sqlite")
    where = Path(database_of(str(tmp_path / "a.sqlite"), "beta", root=store))
    assert where == tmp_path / "a.sqlite.projects" / "beta.sqlite" and where.parent.is_dir()
    store.close()


def test_projects_are_opened_once_and_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from argus.api import projects as module

    root = new_service(new_store(tmp_path / "a.sqlite"), clock=FakeClock())
    opened = []

    def make(name: str) -> Any:
        opened.append(name)
        return new_service(new_store(tmp_path / f"{name}.sqlite"), clock=FakeClock())

    monkeypatch.setattr(module, "MAX_PROJECTS", 3)
    projects = Projects(root=root, open_service=make)
    assert projects.of("b") is projects.of("b") and projects.of("c").name == "c"
    with pytest.raises(ProjectError, match="3 projects"):
        projects.of("d")
    assert opened == ["b", "c"]
    with pytest.raises(ProjectError, match="not served"):
        Projects(root=root).of("b")
    for project in projects.opened():
        project.service.store.close()


def test_a_project_on_postgres_is_a_schema(postgres: Any, tmp_path: Path) -> None:
    from argus.analytics.store.engine import open_store
    from argus.api.migrate import upgrade

    url = postgres.engine.url.render_as_string(hide_password=False)
    beta = open_store(database_of(url, "beta-2", root=postgres))
    try:
        upgrade(beta)
        service, root = new_service(beta, clock=FakeClock()), new_service(postgres, clock=FakeClock())
        service.receive_layouts(layouts_body(run="theirs"))
        root.receive_layouts(layouts_body(run="mine"))
        for one, name in ((service, "theirs"), (root, "mine")):
            with one.store.read() as connection:
                assert connection.exec_driver_sql("SELECT run FROM attempts").scalars().all() == [name]
    finally:
        beta.close()
        with postgres.write() as connection:
            connection.exec_driver_sql('DROP SCHEMA "argus_beta-2" CASCADE')


def test_a_key_of_a_project_is_made_while_the_service_runs(site: Guarded) -> None:
    token, _ = site.guard.keyring.create(Wish(project="new", name="", scopes=("read",)), by="test")
    assert site.client.get("/v1/runs", headers=bearer(token)).json()["total"] == 0
    assert {project.name for project in site.guard.projects.opened()} >= {"new"}
