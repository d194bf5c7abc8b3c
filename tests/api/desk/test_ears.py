"""What people do in Slack: buttons and questions, by signed HTTP and by Socket Mode."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from sqlalchemy import delete

from argus.agent.stub_llm.scripts import SCRIPTS
from argus.agent.stub_llm.server import StubServer
from argus.analytics.store import marks, silences
from argus.analytics.store.conversations import forget_conversations
from argus.analytics.store.desk_tables import HEARD, INCIDENT_MARKS, SILENCES
from argus.api.notify.settings import NotifySettings
from argus.api.slack.double import APP_TOKEN, CHANNEL, SECRET, TOKEN, SlackDouble
from argus.api.slack.double_socket import DoubleSocket
from argus.api.slack.switchboard import Switchboard
from tests.api.desk.kit import texts
from tests.api.desk.served import Lived, lived
from tests.api.process import wait_for

pytest.importorskip("slack_sdk", reason="needs the extra slack")
pytestmark = pytest.mark.slow

EVE = {"id": "U0EVE", "username": "eve", "name": "eve <!channel>"}


@pytest.fixture(scope="module")
def double() -> Iterator[SlackDouble]:
    with SlackDouble(rate_per_s=0) as double:
        yield double
        assert double.faults == []


def setup(double: SlackDouble, **more: str) -> NotifySettings:
    values = {"token": TOKEN, "channel": CHANNEL, "api_url": double.url, "signing_secret": SECRET, **more}
    return NotifySettings(values={"slack": values})


@pytest.fixture(scope="module")
def model() -> Iterator[StubServer]:
    with StubServer(SCRIPTS["confirm"]) as server:
        yield server


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory, double: SlackDouble, model: StubServer) -> Iterator[Lived]:
    """A service that has told of its incident."""
    settings: dict[str, Any] = {"model_url": model.url, "model": "m", "investigate_from": "off"}
    with lived(tmp_path_factory.mktemp("ears"), notify=setup(double), **settings) as one:
        one.reopen()
        one.desk.dispatcher.turn(one.clock.now_s)
        yield one


@pytest.fixture
def at(told: Lived, double: SlackDouble) -> Lived:
    """It, with nothing pressed or said yet."""
    with told.service.store.write() as connection:
        for table in (INCIDENT_MARKS, SILENCES, HEARD):
            connection.execute(delete(table))
    double.rooms.whispers.clear()
    told.clock.now_s += 10
    return told


def root(double: SlackDouble) -> dict[str, Any]:
    (one,) = [message for message in double.messages if "thread_ts" not in message]
    return one


def pressed(double: SlackDouble, action: str, *, value: str, at: str = "1.0") -> dict[str, Any]:
    return {
        "type": "block_actions",
        "user": EVE,
        "channel": {"id": CHANNEL},
        "message": {"ts": root(double)["ts"]},
        "actions": [{"action_id": action, "value": value, "action_ts": at}],
    }


def said(double: SlackDouble, text: str, *, ts: str = "9.1", **more: Any) -> dict[str, Any]:
    event = {
        "type": "message",
        "channel": CHANNEL,
        "user": "U0EVE",
        "text": text,
        "ts": ts,
        "thread_ts": root(double)["ts"],
        **more,
    }
    return {"type": "event_callback", "event_id": "Ev1", "event": event}


def post(at: Lived, payload: dict[str, Any], *, is_form: bool = False, **wrong: str) -> int:
    """Send as Slack does; `wrong` replaces headers."""
    from slack_sdk.signature import SignatureVerifier

    body = urlencode({"payload": json.dumps(payload)}) if is_form else json.dumps(payload)
    stamp = str(int(at.clock.now_s))
    signature = SignatureVerifier(SECRET).generate_signature(timestamp=stamp, body=body)
    kind = "application/x-www-form-urlencoded" if is_form else "application/json"
    headers = {"content-type": kind, "x-slack-request-timestamp": stamp, "x-slack-signature": str(signature)}
    raw = {key.encode(): value.encode("latin-1") for key, value in {**headers, **wrong}.items()}
    answer = at.client.post("/v1/slack", content=body, headers=raw)
    return answer.status_code


def test_acknowledging_is_seen_in_the_message_and_counts_once(at: Lived, double: SlackDouble) -> None:
    for stamp in ("1.0", "1.0", "2.0"):
        payload = pressed(double, "argus_acknowledge", value=at.incident, at=stamp)
        assert post(at, payload, is_form=True) == 200
    with at.service.store.read() as connection:
        (mark,) = marks.marks_of(connection, [at.incident])
    assert (mark.what, mark.by) == ("acknowledged", "eve <!channel>")
    at.clock.now_s += 1
    at.desk.dispatcher.turn(at.clock.now_s)
    shown = texts(root(double)["blocks"])
    assert "acknowledged by eve &lt;!channel&gt;" in shown and "<!channel>" not in shown


def test_muting_is_a_silence_of_an_hour(at: Lived, double: SlackDouble) -> None:
    assert post(at, pressed(double, "argus_mute", value=at.incident), is_form=True) == 200
    with at.service.store.read() as connection:
        (silence,) = silences.lasting_silences(connection, now_s=at.clock.now_s)
    assert silence.ends_s - silence.starts_s == 3600 and silence.matchers[0].name == "fingerprint"
    at.clock.now_s += 1
    at.desk.dispatcher.turn(at.clock.now_s)
    assert "muted until" in texts(root(double)["blocks"])


def test_details_wrong_and_ask_are_told_to_one_person(at: Lived, double: SlackDouble) -> None:
    for action in ("argus_details", "argus_wrong", "argus_ask"):
        assert post(at, pressed(double, action, value=at.incident), is_form=True) == 200
    assert [one["user"] for one in double.rooms.whispers] == ["U0EVE"] * 3
    assert "rank 2" in texts(double.rooms.whispers[0]["blocks"])


def test_a_question_in_the_thread_is_answered_there_by_the_agent(
    at: Lived, double: SlackDouble, model: StubServer
) -> None:
    before = len(model.requests)
    assert post(at, said(double, "<@U0ARGUS> why &lt;rank 2&gt;?")) == 200
    assert post(at, said(double, "<@U0ARGUS> why &lt;rank 2&gt;?")) == 200  # Slack tells again
    answer = double.messages[-1]
    assert answer["thread_ts"] == root(double)["ts"] and "rank 2" in answer["text"]
    assert answer["text"].startswith("Triage, ")
    assert post(at, said(double, "and its host?", ts="9.2")) == 200
    sent = [message["content"] for message in model.requests[-1]["messages"]]
    assert "why <rank 2>?" in sent and len(model.requests) > before
    latest = at.client.get("/v1/conversations").json()["items"][0]
    assert latest["title"] == "why <rank 2>?"


def test_a_thread_whose_conversation_is_forgotten_is_answered_too(at: Lived, double: SlackDouble) -> None:
    assert post(at, said(double, "<@U0ARGUS> why?")) == 200
    with at.service.store.write() as connection:
        forget_conversations(connection, before_s=at.clock.now_s + 1)
    assert post(at, said(double, "and its host?", ts="9.3")) == 200
    assert double.messages[-1]["text"].startswith("Triage, ")
    latest = at.client.get("/v1/conversations").json()["items"][0]
    assert latest["title"] == "and its host?"


@pytest.mark.parametrize(
    "more",
    [
        {"bot_id": "B1"},
        {"subtype": "message_changed"},
        {"channel": "C0OTHER"},
        {"thread_ts": "1.2"},
        {"thread_ts": None},
        {"type": "reaction_added"},
        {"text": ""},
    ],
)
def test_what_is_not_said_to_us_is_left_alone(at: Lived, double: SlackDouble, more: dict[str, Any]) -> None:
    num = len(double.messages)
    assert post(at, said(double, "why?", **more) if "text" not in more else said(double, "")) == 200
    assert len(double.messages) == num


def test_naming_us_outside_of_a_thread_asks_about_the_run(at: Lived, double: SlackDouble) -> None:
    payload = said(
        double, "<@U0ARGUS> what is slow?", type="app_mention", thread_ts=None, ts=root(double)["ts"]
    )
    assert post(at, payload) == 200
    assert double.messages[-1]["thread_ts"] == root(double)["ts"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"x-slack-signature": "v0=00"},
        {"x-slack-signature": "v0=\u00e9"},
        {"x-slack-request-timestamp": "1"},
        {"x-slack-request-timestamp": "soon"},
    ],
)
def test_what_slack_did_not_sign_is_refused(at: Lived, double: SlackDouble, wrong: dict[str, str]) -> None:
    payload = pressed(double, "argus_acknowledge", value=at.incident)
    assert post(at, payload, is_form=True, **wrong) == 401
    assert at.client.post("/v1/slack", content=b"\xff").status_code == 401
    assert at.client.post("/v1/slack", json={}).status_code == 401
    with at.service.store.read() as connection:
        assert marks.marks_of(connection, [at.incident]) == []


def test_slack_checks_the_url_before_it_uses_it(at: Lived) -> None:
    assert post(at, {"type": "url_verification", "challenge": "abc"}) == 200
    assert post(at, {"type": "whatever"}) == 200


def test_a_button_of_what_is_gone_does_nothing(at: Lived, double: SlackDouble) -> None:
    for action in ("argus_details", "argus_acknowledge", "argus_mute", "argus_wrong", "made_up"):
        assert post(at, pressed(double, action, value="i-gone", at=action), is_form=True) == 200
    assert double.rooms.whispers == []


def test_by_socket_mode_buttons_and_questions_arrive_too(tmp_path: Path, model: StubServer) -> None:
    settings: dict[str, Any] = {"model_url": model.url, "model": "m", "investigate_from": "off"}
    with (
        SlackDouble(rate_per_s=0) as double,
        DoubleSocket(double) as socket,
        lived(tmp_path, notify=setup(double, app_token=APP_TOKEN), **settings) as at,
    ):
        at.reopen()
        at.desk.dispatcher.turn(at.clock.now_s)
        assert at.desk.socket is not None
        at.desk.socket.start()
        envelope = socket.send("interactive", pressed(double, "argus_acknowledge", value=at.incident))
        wait_for(lambda: envelope in socket.acknowledged and _is_marked(at))
        num = len(double.messages)
        socket.send("events_api", said(double, "why?"))
        wait_for(lambda: len(double.messages) > num)


def _is_marked(at: Lived) -> bool:
    with at.service.store.read() as connection:
        return bool(marks.marks_of(connection, [at.incident]))


def test_what_is_pressed_goes_to_the_project_whose_message_it_is(tmp_path: Path) -> None:
    with SlackDouble(rate_per_s=0) as double:
        switchboard, notify = Switchboard(), setup(double)
        with (
            lived(tmp_path, notify=notify, switchboard=switchboard) as first,
            lived(tmp_path / "team", notify=notify, switchboard=switchboard, project="team") as second,
        ):
            second.reopen()
            second.desk.dispatcher.turn(second.clock.now_s)
            assert "team/job" in root(double)["text"]
            assert post(first, said(double, "why?")) == 200
            assert double.messages[-1]["thread_ts"] == root(double)["ts"]
            assert [at.client.get("/v1/conversations").json()["total"] for at in (first, second)] == [0, 1]
