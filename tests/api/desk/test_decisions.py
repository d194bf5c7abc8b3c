"""Approvals, silences, marks and notices over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.api.desk.served import Lived, lived

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def at(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lived]:
    with lived(tmp_path_factory.mktemp("decisions"), approval_expires_s=600.0) as one:
        yield one


def proposal(at: Lived) -> dict[str, str]:
    diagnosis = at.client.get(f"/v1/incidents/{at.incident}/diagnosis").json()
    return {"incident": at.incident, "action": diagnosis["remediation"][0]["id"]}


def test_an_action_is_approved_once_by_somebody_and_stays_so(at: Lived) -> None:
    asked = at.client.post("/v1/approvals", json=proposal(at)).json()
    again = at.client.post("/v1/approvals", json=proposal(at)).json()
    assert asked["id"] == again["id"] and asked["status"] == "pending" and asked["action"]["command"]
    path = f"/v1/approvals/{asked['id']}:decide"
    done = at.client.post(path, json={"decision": "approve", "note": "go"})
    assert done.status_code == 200 and done.json()["status"] == "approved"
    assert at.client.post(path, json={"decision": "approve"}).status_code == 200  # a double click
    contrary = at.client.post(path, json={"decision": "reject"})
    assert contrary.status_code == 409 and "approved" in contrary.json()["detail"]
    kept = at.client.get(f"/v1/approvals/{asked['id']}").json()
    assert kept["note"] == "go" and kept["decided_by"]
    assert at.client.get("/v1/approvals", params={"incident": at.incident}).json()["total"] == 1
    assert at.client.get("/v1/approvals", params={"incident": "i-0"}).json()["total"] == 0


def test_an_approval_expires(at: Lived) -> None:
    asked = at.client.post("/v1/approvals", json=proposal(at)).json()
    at.clock.now_s += 601
    answer = at.client.post(f"/v1/approvals/{asked['id']}:decide", json={"decision": "approve"})
    assert answer.status_code == 409 and "expired" in answer.json()["detail"]
    assert at.client.get(f"/v1/approvals/{asked['id']}").json()["status"] == "expired"
    assert at.client.post("/v1/approvals", json=proposal(at)).json()["id"] != asked["id"]


def test_another_command_is_another_decision(at: Lived) -> None:
    asked = at.client.post("/v1/approvals", json=proposal(at)).json()
    command = asked["action"]["command"]
    with at.service.store.write() as connection:
        connection.exec_driver_sql(
            "UPDATE incidents SET diagnosis = replace(diagnosis, ?, ?)", (command[:20], "rm -rf / #")
        )
    answer = at.client.post(f"/v1/approvals/{asked['id']}:decide", json={"decision": "approve"})
    assert answer.status_code == 409 and "no longer proposes" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"incident": "i-0", "action": "x"}, 404),
        ({"action": "made_up"}, 404),
        ({"incident": "x"}, 422),
        ({"incident": "x", "action": "y", "command": "rm"}, 422),
    ],
)
def test_only_what_a_diagnosis_proposes_can_be_asked_for(
    at: Lived, body: dict[str, str], status: int
) -> None:
    full = {"incident": at.incident, **body} if body == {"action": "made_up"} else body
    assert at.client.post("/v1/approvals", json=full).status_code == status
    missing = at.client.post("/v1/approvals/a-0:decide", json={"decision": "approve"})
    assert missing.status_code == 404 and at.client.get("/v1/approvals/a-0").status_code == 404


def test_a_silence_is_made_listed_and_ended(at: Lived) -> None:
    wanted = {"run": "job", "class": "compute.slow", "host": "h-0000", "duration_s": 600, "why": "known"}
    made = at.client.post("/v1/silences", json=wanted)
    assert made.status_code == 201
    names = {one["name"]: one["value"] for one in made.json()["matchers"]}
    assert names == {"run": "job", "class": "compute.slow", "host": "h-0000"}
    (listed,) = at.client.get("/v1/silences").json()["items"]
    assert listed["id"] == made.json()["id"] and listed["why"] == "known"
    assert at.client.delete(f"/v1/silences/{listed['id']}").status_code == 200
    assert at.client.get("/v1/silences").json()["total"] == 0
    assert at.client.delete("/v1/silences/s-0").status_code == 404


@pytest.mark.parametrize(
    "wanted",
    [
        {"duration_s": 600},
        {"run": "job"},
        {"run": "job", "duration_s": 0},
        {"run": "job", "duration_s": 1e9},
        {"run": "", "duration_s": 5},
        {"run": "job", "duration_s": 5, "starts_s": 1},
    ],
)
def test_no_silence_of_everything_or_for_ever(at: Lived, wanted: dict[str, Any]) -> None:
    assert at.client.post("/v1/silences", json=wanted).status_code == 422


def test_what_is_said_of_an_incident_is_kept_once(at: Lived) -> None:
    path = f"/v1/incidents/{at.incident}/marks"
    for _ in range(2):
        assert at.client.post(path, json={"what": "wrong", "text": "it was the switch"}).status_code == 201
    listed = at.client.get(path).json()
    assert listed["total"] == 1 and listed["items"][0]["text"] == "it was the switch"
    assert at.client.post(path, json={"what": "boring"}).status_code == 422
    assert at.client.get("/v1/incidents/i-0/marks").status_code == 404
    assert at.client.get("/v1/notices").json()["items"] == []
