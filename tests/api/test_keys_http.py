"""Every route without, with a wrong and with too small a key; what the cookie needs; what is written down."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi import FastAPI
from starlette.routing import Route
from starlette.testclient import TestClient

from argus.api.http import guard
from argus.api.http.app import make_app
from argus.api.http.guard import needs_of
from argus.api.http.mcp_route import PATH as MCP_PATH
from argus.api.keys import IMPLIED, SCOPES, names_this_machine
from tests.api.guarded import BOOTSTRAP, JSON, Guarded, bearer, guarded
from tests.api.kit import FakeClock, layouts_body, service_at

OPEN = {"/healthz", "/readyz", "/openapi.json", "/v1/session", "/", "/web/1"}
"""Routes that anybody may ask: they hold nothing of a run."""


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def site(tmp_path: Path, clock: FakeClock) -> Iterator[Guarded]:
    with guarded(tmp_path, clock=clock, max_requests_s=0) as site:
        yield site


def routes(app: FastAPI) -> Iterator[tuple[str, str, str]]:
    """(method, path with its parameters filled in, scope) of every route of the application."""
    for route in app.routes:
        assert isinstance(route, Route), route
        if route.path == MCP_PATH:
            yield "POST", MCP_PATH, "read"
            continue
        needs = needs_of(route)
        path = re.sub(r"{(\w+)(:path)?}", "1", route.path)
        for method in sorted((route.methods or set()) - {"HEAD"}):
            yield method, path, needs[-1] if needs else ""


def test_every_route_says_its_scope(site: Guarded) -> None:
    silent = {path for _, path, scope in routes(site.app) if not scope}
    assert silent == OPEN
    assert {scope for _, _, scope in routes(site.app)} >= {*SCOPES, "ingest|investigate"}


def test_no_route_answers_without_a_good_key(site: Guarded) -> None:
    wrong: tuple[dict[str, str], ...] = (
        {},
        bearer("wrong"),
        {"authorization": f"Basic {BOOTSTRAP}"},
        {"authorization": "Bearer"},
        bearer("argus_" + "0" * 12 + "_" + "0" * 64),
        bearer(site.tokens["default", "admin"][:-1] + "x"),
        {"cookie": "argus_session=made-up"},
    )
    for method, path, scope in routes(site.app):
        for headers in wrong if scope not in ("", "signature") else ():
            answer = site.client.request(method, path, headers=headers)
            assert answer.status_code == 401, (method, path, headers, answer.text)
            assert answer.headers["content-type"] == "application/problem+json"
            site.guard._buckets.clear()


def test_no_route_answers_to_too_small_a_key(site: Guarded) -> None:
    with site.client as client:
        for method, path, scope in routes(site.app):
            for held in SCOPES if scope not in ("", "signature") else ():
                answer = client.request(method, path, headers=site.headers(held))
                is_enough = bool(set(scope.split("|")) & IMPLIED[held])
                assert (answer.status_code != 403) == is_enough, (method, path, held, answer.text)
                assert answer.status_code not in (401, 500), (method, path, held, answer.text)


def test_the_key_of_training_hosts_reads_nothing(site: Guarded) -> None:
    site.play("default")
    key = site.headers("ingest")
    for method, path, _ in routes(site.app):
        answer = site.client.request(method, path.replace("/1", "/job"), headers=key)
        if method == "GET" and path not in OPEN and "/orders" not in path:
            assert answer.status_code == 403, path


def test_a_key_that_is_revoked_or_over_opens_nothing(site: Guarded, clock: FakeClock) -> None:
    admin = site.headers("admin")
    made = site.client.post("/v1/keys", json={"scopes": ["read"], "days": 1}, headers=admin).json()
    assert site.client.get("/v1/runs", headers=bearer(made["token"])).status_code == 200
    assert site.client.delete(f"/v1/keys/{made['id']}", headers=admin).json()["revoked"] is True
    assert site.client.get("/v1/runs", headers=bearer(made["token"])).status_code == 401
    assert site.client.delete("/v1/keys/none", headers=admin).status_code == 404
    other = site.client.post("/v1/keys", json={"scopes": ["read"], "days": 1}, headers=admin).json()
    clock.now_s += 2 * 86400
    site.guard.keyring._forget()
    assert site.client.get("/v1/runs", headers=bearer(other["token"])).status_code == 401


def test_keys_are_listed_without_their_secrets(site: Guarded) -> None:
    body = site.client.get("/v1/keys", headers=site.headers("admin")).text
    assert all(token[-64:] not in body for token in site.tokens.values()) and "digest" not in body
    with site.guard.keyring.store.read() as connection:
        dumped = str(connection.exec_driver_sql("SELECT * FROM keys").all())
    assert all(token[-64:] not in dumped for token in site.tokens.values())
    listed = site.client.get("/v1/keys?limit=3", headers=site.headers("admin", "beta")).json()
    assert (listed["total"], len(listed["items"])) == (5, 3)
    assert {item["project"] for item in listed["items"]} == {"beta"}


def test_only_the_operator_makes_keys_of_other_projects(site: Guarded) -> None:
    wish = {"scopes": ["read"], "project": "gamma"}
    beta = site.client.post("/v1/keys", json=wish, headers=site.headers("admin", "beta"))
    assert beta.status_code == 403
    made = site.client.post("/v1/keys", json=wish, headers=bearer(BOOTSTRAP)).json()
    assert site.client.get("/v1/runs", headers=bearer(made["token"])).json()["total"] == 0
    assert (
        site.client.delete(f"/v1/keys/{made['id']}", headers=site.headers("admin", "beta")).status_code == 404
    )
    bad = site.client.post("/v1/keys", json={**wish, "project": "../x"}, headers=bearer(BOOTSTRAP))
    assert bad.status_code == 422 and "project" in bad.json()["detail"]


def test_a_browser_gets_in_with_a_key_and_must_know_more_than_its_cookie(site: Guarded) -> None:
    browser = TestClient(site.app, base_url="https://testserver", raise_server_exceptions=False)
    assert browser.get("/v1/session").status_code == 401
    assert browser.post("/v1/session", json={"key": "wrong"}).status_code == 401
    entered = browser.post("/v1/session", json={"key": site.tokens["default", "admin"]})
    cookie = entered.headers["set-cookie"].lower()
    assert all(part in cookie for part in ("httponly", "samesite=strict", "secure", "path=/"))
    told = browser.get("/v1/session").json()
    assert told == entered.json() and told["via"] == "session" and told["project"] == "default"
    assert browser.get("/v1/runs").status_code == 200
    wish = {"scopes": ["read"]}
    assert browser.post("/v1/keys", json=wish).status_code == 403
    assert browser.post("/v1/keys", json=wish, headers={"argus-csrf": "x"}).status_code == 403
    csrf = {"argus-csrf": told["csrf"]}
    for foreign in ({"origin": "https://evil.example"}, {"sec-fetch-site": "cross-site"}):
        assert browser.post("/v1/keys", json=wish, headers={**csrf, **foreign}).status_code == 403
    assert browser.post("/v1/keys", json=wish, headers=csrf).status_code == 200
    assert browser.delete("/v1/session", headers=csrf).status_code == 200
    assert browser.get("/v1/runs").status_code == 401


def test_a_session_ends_with_its_key(site: Guarded, clock: FakeClock) -> None:
    browser = TestClient(site.app, raise_server_exceptions=False)
    token = site.tokens["beta", "read"]
    assert browser.post("/v1/session", json={"key": token}).json()["project"] == "beta"
    assert browser.get("/v1/runs").status_code == 200
    site.client.delete(f"/v1/keys/{token.split('_')[1]}", headers=bearer(BOOTSTRAP))
    assert browser.get("/v1/runs").status_code == 401
    assert browser.post("/v1/session", json={"key": BOOTSTRAP}).status_code == 200
    assert browser.get("/v1/runs").status_code == 200
    site.guard.keyring.bootstrap = "another key of the environment"
    site.guard.keyring._forget()
    assert browser.get("/v1/runs").status_code == 401
    site.guard.keyring.bootstrap = BOOTSTRAP
    site.guard.keyring._forget()
    clock.now_s += 86400
    assert browser.get("/v1/runs").status_code == 401


def test_what_was_done_is_written_down_without_secrets(site: Guarded) -> None:
    site.play("default")
    site.client.put("/v1/runs/job/switch", json={"off": True}, headers=site.headers("approve"))
    site.client.put("/v1/runs/job/switch", json={"off": True}, headers=site.headers("read"))
    site.client.get("/v1/runs", headers=site.headers("ingest", "beta"))
    site.client.get(f"/v1/runs?x={BOOTSTRAP}")
    rows = site.client.get("/v1/audit", headers=bearer(BOOTSTRAP)).json()["items"]
    deeds = [(row["action"], row["outcome"]) for row in rows]
    assert ("put_switch", "200 OK") in deeds and ("put_switch", "403 Forbidden") in deeds
    assert ("create_key", "done") in deeds and "list_runs" in {action for action, _ in deeds}
    switched = next(row for row in rows if row["action"] == "put_switch")
    assert site.tokens["default", "read"].split("_")[1] in switched["who"]
    assert not {action for action, _ in deeds} & {"ingest_windows", "list_findings"}
    mine = site.client.get("/v1/audit", headers=site.headers("admin", "beta")).json()["items"]
    assert mine and {row["project"] for row in mine} == {"beta"}
    assert BOOTSTRAP not in str(rows) and not re.search("[0-9a-f]{64}", str(rows))


def test_a_key_has_its_rate_and_others_theirs(tmp_path: Path, clock: FakeClock) -> None:
    with guarded(tmp_path, clock=clock, max_requests_s=2.0) as site:
        now_s = [0.0]
        site.guard.ticks = lambda: now_s[0]
        mine, others = site.headers("read"), site.headers("read", "beta")
        codes = [site.client.get("/v1/runs", headers=mine).status_code for _ in range(61)]
        assert codes == [200] * 60 + [429]
        slow = site.client.get("/v1/runs", headers=mine)
        assert slow.json()["status"] == 429 and int(slow.headers["retry-after"]) >= 1
        assert site.client.get("/v1/runs", headers=others).status_code == 200
        assert site.client.post(
            "/v1/ingest/layouts", content=layouts_body(), headers={**JSON, **site.headers("ingest")}
        ).is_success
        now_s[0] += 1.0
        assert site.client.get("/v1/runs", headers=mine).status_code == 200


def test_asking_who_one_is_counts_as_a_request_of_the_key(tmp_path: Path, clock: FakeClock) -> None:
    with guarded(tmp_path, clock=clock, max_requests_s=2.0) as site:
        site.guard.ticks = lambda: 0.0
        mine = site.headers("read")
        codes = [site.client.get("/v1/session", headers=mine).status_code for _ in range(61)]
        assert codes == [200] * 60 + [429]
        assert site.client.get("/v1/session", headers=site.headers("read", "beta")).status_code == 200


def test_an_address_that_goes_on_trying_keys_is_told_to_wait(
    site: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "DENIALS_S", 1.0)
    site.guard.ticks = lambda: 0.0
    codes = {site.client.get("/v1/runs", headers=bearer("guess")).status_code for _ in range(31)}
    assert codes == {401, 429}
    assert site.client.get("/v1/runs", headers=site.headers("read")).status_code == 200


def test_without_a_key_only_this_machine_is_answered(tmp_path: Path, clock: FakeClock) -> None:
    with service_at(tmp_path / "a.sqlite", clock=clock) as service:
        client = TestClient(make_app(service), raise_server_exceptions=False)
        assert client.get("/v1/session").json()["via"] == "open"
        assert client.get("/v1/runs", headers={"host": "localhost:8321"}).status_code == 200
        rebound = client.get("/v1/runs", headers={"host": "evil.example:8321"})
        assert rebound.status_code == 421 and "localhost" in rebound.json()["detail"]
        for foreign in ({"origin": "http://evil.example"}, {"sec-fetch-site": "cross-site"}):
            answer = client.post("/v1/captures", json={"run": "x", "ranks": [0]}, headers=foreign)
            assert answer.status_code == 403
        stale = client.get("/v1/runs", headers={"cookie": "argus_session=of-another-day"})
        assert stale.status_code == 200


def test_a_first_key_shuts_the_door(tmp_path: Path, clock: FakeClock) -> None:
    with service_at(tmp_path / "a.sqlite", clock=clock) as service:
        client = TestClient(make_app(service), raise_server_exceptions=False)
        made = client.post("/v1/keys", json={"scopes": ["admin"]}).json()
        assert client.get("/v1/runs").status_code == 401
        admin = bearer(made["token"])
        assert client.delete(f"/v1/keys/{made['id']}", headers=admin).status_code == 200
        assert client.get("/v1/runs").status_code == 401  # the last key is gone, the door stays shut


@pytest.mark.parametrize(
    ("host", "is_ours"),
    [
        ("localhost", True),
        ("LOCALHOST:1", True),
        ("127.0.0.1:8321", True),
        ("[::1]:8321", True),
        ("[::1]", True),
        ("argus:8321", True),
        ("10.0.0.1", False),
        ("evil.example", False),
        ("localhost.evil.example", False),
        ("", False),
    ],
)
def test_names_of_this_machine(host: str, is_ours: bool) -> None:
    assert names_this_machine(host) == is_ours


def test_answers_carry_safe_headers_and_every_problem_is_one(site: Guarded) -> None:
    for path, headers in (("/v1/runs", site.headers("read")), ("/nowhere", {}), ("/v1/runs", {})):
        answer = site.client.get(path, headers=headers)
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"
        if answer.status_code != 200:
            assert answer.json()["status"] == answer.status_code
            assert answer.headers["content-type"] == "application/problem+json"


def test_probes_need_no_key_and_tell_no_names(site: Guarded) -> None:
    site.service("beta").published.show_troubles(("attempt: run secret-run broke",))
    answer = site.client.get("/readyz")
    assert answer.json()["status"] != "ok" and "secret-run" not in answer.text
    assert site.client.get("/healthz").json() == {"status": "ok"}
