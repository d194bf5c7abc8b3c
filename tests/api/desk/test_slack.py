"""The Slack bot through slack_sdk against the stand-in: one message, edited, never twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from socketserver import BaseRequestHandler, ThreadingTCPServer
from typing import Any

import pytest

from argus.analytics.store import investigations, notices
from argus.analytics.store.engine import Store
from argus.analytics.store.investigations import DONE, Investigation
from argus.api.notifiers import slack, slack_webhook
from argus.api.notify.dispatcher import LEASE_S
from argus.api.notify.matter import Origin
from argus.api.notify.notifier import Digest, Later, Means, Notifier
from argus.api.notify.pace import Pace
from argus.api.service import Service
from argus.api.slack.double import APP_TOKEN, CHANNEL, TOKEN, SlackDouble
from argus.api.slack.render import said
from tests.api.desk.kit import FakeHttp, Recorder, an_incident, announce, dispatcher_of, save, texts
from tests.api.kit import FakeClock, layouts_body, make_window, new_service, service_at, upload
from tests.api.process import PATIENCE_S, ROOT, environment, start, wait_for

slack_sdk = pytest.importorskip("slack_sdk", reason="needs the extra slack")
pytestmark = pytest.mark.slow


@pytest.fixture
def double() -> Iterator[SlackDouble]:
    with SlackDouble(rate_per_s=0) as double:
        yield double
        assert double.faults == []


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(1_700_000_000.0)


@pytest.fixture
def service(tmp_path: Path, clock: FakeClock) -> Iterator[Service]:
    with service_at(tmp_path / "a.sqlite", clock=clock) as service:
        announce(service)
        yield service


@pytest.fixture
def store(service: Service) -> Store:
    return service.store


def bot(double: SlackDouble, **settings: Any) -> Notifier:
    means = Means(http=FakeHttp(), has_agent=True)
    return slack.notifier(
        means, token=TOKEN, channel=CHANNEL, api_url=double.url, **{"signing_secret": "s", **settings}
    )


def roots(double: SlackDouble) -> list[dict[str, Any]]:
    return [one for one in double.messages if "thread_ts" not in one]


def replies(double: SlackDouble) -> list[dict[str, Any]]:
    return [one for one in double.messages if "thread_ts" in one]


def add_outcome(store: Store, incident_id: str, diagnosis: dict[str, Any], *, now_s: float) -> None:
    """The agent has finished."""
    outcome = {**diagnosis, "stage": "agent", "agent": {"note": "The model agrees.", "stance": "agrees"}}
    done = Investigation(
        id="v-1",
        run="job",
        incident_id=incident_id,
        question="",
        asked_by="argus",
        created_s=now_s,
        updated_s=now_s,
        status=DONE,
        outcome=outcome,
    )
    with store.write() as connection:
        investigations.add_investigation(connection, done)


def test_one_message_per_incident_edited_in_place(
    double: SlackDouble, store: Store, clock: FakeClock
) -> None:
    telling = dispatcher_of(
        store, clock, {"slack": bot(double)}, origin=Origin(public_url="https://argus.internal")
    )
    first = save(store, an_incident(), now_s=clock.now_s)
    telling.turn(clock.now_s)
    (root,) = roots(double)
    (evidence,) = replies(double)
    assert "the agent is looking into it" in texts(root["blocks"]) and root["edits"] == 0
    assert "*Evidence*" in texts(evidence["blocks"]) and evidence["thread_ts"] == root["ts"]
    assert f"<https://argus.internal/#/incident/{first.id}|open in Argus>" in texts(root["blocks"])
    clock.now_s += 5
    add_outcome(store, first.id, dict(first.diagnosis or {}), now_s=clock.now_s)
    telling.turn(clock.now_s)
    (root,) = roots(double)
    assert root["edits"] == 1 and "The model agrees." in texts(root["blocks"])
    worse = save(store, replace(first, severity="critical"), now_s=clock.now_s)
    clock.now_s += 5
    telling.turn(clock.now_s)
    loud = [one for one in replies(double) if one["is_broadcast"]]
    assert len(loud) == 1 and "critical" in loud[0]["text"]
    clock.now_s += 60
    save(store, replace(worse, status="resolved", end_step=90, ended="the signal is gone"), now_s=clock.now_s)
    telling.turn(clock.now_s)
    (root,) = roots(double)
    assert "Resolved" in texts(root["blocks"]) and "actions" not in [b["type"] for b in root["blocks"]]
    assert replies(double)[-1]["text"].startswith("\u2705 Resolved after")
    num = len(double.messages)
    dispatcher_of(store, clock, {"slack": bot(double)}, name="restarted").turn(clock.now_s + 60)
    assert len(double.messages) == num and len(roots(double)) == 1


def test_a_rate_limit_is_waited_for(store: Store, clock: FakeClock) -> None:
    with SlackDouble(rate_per_s=1.0, clock=clock) as double:
        telling = dispatcher_of(store, clock, {"slack": bot(double)}, pace=Pace(max_posts=50))
        for rank in range(4):
            save(store, an_incident(scope=f"rank:{rank}"), now_s=clock.now_s)
        for _ in range(40):
            telling.turn(clock.now_s)
            clock.now_s += 1
        assert len(roots(double)) == 4 and len(replies(double)) == 4
        limited = [one for one in double.calls if one[0] == "chat.postMessage"]
        assert len(limited) > 8  # some were refused, and came again after Retry-After


def test_a_message_whose_answer_was_lost_is_found_again(
    double: SlackDouble, store: Store, clock: FakeClock
) -> None:
    double.quirks["chat.postMessage"] = ["drop_answer"]
    telling = dispatcher_of(store, clock, {"slack": bot(double)})
    save(store, an_incident(), now_s=clock.now_s)
    for _ in range(5):
        telling.turn(clock.now_s)
        clock.now_s += 10
    assert len(roots(double)) == 1 and len(replies(double)) == 1
    assert [method for method, _ in double.calls].count("conversations.history") == 1


def test_a_message_that_was_deleted_hides_nothing_that_must_be_noticed(
    double: SlackDouble, store: Store, clock: FakeClock
) -> None:
    telling = dispatcher_of(store, clock, {"slack": bot(double)})
    first = save(store, an_incident(), now_s=clock.now_s)
    telling.turn(clock.now_s)
    double.rooms.messages.clear()
    clock.now_s += 5
    add_outcome(store, first.id, dict(first.diagnosis or {}), now_s=clock.now_s)
    telling.turn(clock.now_s)
    assert double.messages == [], "who deleted it did not want it brought up to date"
    clock.now_s += 5
    worse = save(store, replace(first, severity="critical"), now_s=clock.now_s)
    telling.turn(clock.now_s)
    (root,), (evidence,) = roots(double), replies(double)
    assert "Critical" in texts(root["blocks"]) and evidence["thread_ts"] == root["ts"]
    clock.now_s += 5
    save(store, replace(worse, status="resolved", end_step=90), now_s=clock.now_s)
    telling.turn(clock.now_s)
    assert len(roots(double)) == 1 and "Resolved" in texts(roots(double)[0]["blocks"])


def test_a_message_of_another_project_is_not_taken_for_ours(double: SlackDouble, clock: FakeClock) -> None:
    to, kept = bot(double), dict[str, Any]()
    for project in ("nlp", "vision"):
        day = Digest(
            topic="daily:2026-01-31", title="1 incident", lines=(), now_s=clock.now_s, project=project
        )
        to.tell_digest(replace(day, is_doubtful=bool(kept)), held={}, keep=kept.update)
    assert len(roots(double)) == 2 and kept["ts"] == roots(double)[-1]["ts"]


@contextmanager
def always(raw: bytes) -> Iterator[str]:
    """The URL of something that answers every request with these bytes and hangs up."""

    class Handler(BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(1 << 16)
            self.request.sendall(raw)

    with ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


CUT = b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{"


@pytest.mark.parametrize(
    "raw",
    [CUT, b"SSH-2.0-x\r\n", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"],
    ids=["cut short", "no HTTP", "broken chunks"],
)
def test_an_answer_that_breaks_off_is_a_reason_to_try_again(
    raw: bytes, store: Store, clock: FakeClock
) -> None:
    to = Recorder()
    with always(raw) as url:
        telling: dict[str, Notifier] = {
            "slack": slack.notifier(
                Means(http=FakeHttp()), token="xoxb-x", channel=CHANNEL, api_url=f"{url}/"
            ),
            "slack_webhook": slack_webhook.notifier(Means(http=FakeHttp()), url=url),
            "z": to,
        }
        save(store, an_incident(), now_s=clock.now_s)
        dispatcher_of(store, clock, telling).turn(clock.now_s)
    with store.read() as connection:
        told = {one.notifier: one for one in notices.notices(connection)}
    for name in ("slack", "slack_webhook"):
        assert told[name].error.startswith("Slack does not answer (") and told[name].is_doubtful
    assert to.num_posts == 1


def test_an_answer_without_the_messages_place_is_none() -> None:
    from argus.api.slack.client import SlackClient  # imports slack_sdk

    with always(b'HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n{"ok":true}') as url:
        client = SlackClient("xoxb-x", base_url=f"{url}/")
        with pytest.raises(Later, match="does not say where the message is"):
            client.post(CHANNEL, said("hello"), key="k")


def test_a_wrong_token_is_said_in_one_sentence(double: SlackDouble, store: Store, clock: FakeClock) -> None:
    means = Means(http=FakeHttp())
    wrong = slack.notifier(means, token="xoxb-wrong", channel=CHANNEL, api_url=double.url)
    save(store, an_incident(), now_s=clock.now_s)
    dispatcher_of(store, clock, {"slack": wrong}).turn(clock.now_s)
    with store.read() as connection:
        (kept,) = [one for one in notices.notices(connection) if one.error]
    assert kept.error == "Slack refuses: invalid_auth" and "xoxb" not in repr(kept)


def test_an_outage_loses_nothing(double: SlackDouble, store: Store, clock: FakeClock) -> None:
    double.quirks["chat.postMessage"] = ["unavailable", "unavailable"]
    telling = dispatcher_of(store, clock, {"slack": bot(double)})
    save(store, an_incident(), now_s=clock.now_s)
    for _ in range(6):
        telling.turn(clock.now_s)
        clock.now_s += 10
    assert len(roots(double)) == 1 and len(replies(double)) == 1


@pytest.mark.parametrize("quirks", [["drop_answer"], ["", "unavailable"]], ids=["its answer", "its thread"])
def test_a_message_that_lost_something_says_that_it_is_over(
    double: SlackDouble, store: Store, clock: FakeClock, quirks: list[str]
) -> None:
    double.quirks["chat.postMessage"] = quirks
    telling = dispatcher_of(store, clock, {"slack": bot(double)})
    first = save(store, an_incident(), now_s=clock.now_s)
    telling.turn(clock.now_s)
    (root,) = roots(double)
    assert "Resolved" not in texts(root["blocks"])
    save(store, replace(first, status="resolved", end_step=80), now_s=clock.now_s)
    for _ in range(6):
        clock.now_s += 10
        telling.turn(clock.now_s)
    (root,) = roots(double)
    assert "Resolved" in texts(root["blocks"]) and len(replies(double)) == 2


def test_a_flood_is_one_message_that_grows(double: SlackDouble, store: Store, clock: FakeClock) -> None:
    clock.now_s = clock.now_s // 600 * 600
    telling = dispatcher_of(store, clock, {"slack": bot(double)}, pace=Pace(max_posts=1))
    for rank in range(6):
        save(store, an_incident(scope=f"rank:{rank}"), now_s=clock.now_s)
        clock.now_s += 1
        telling.turn(clock.now_s)
    assert len(roots(double)) == 2
    digest = roots(double)[-1]
    assert "5 more incidents" in texts(digest["blocks"]) and digest["edits"] == 4


def test_the_webhook_is_half_a_minute_of_work(double: SlackDouble, store: Store, clock: FakeClock) -> None:
    to = slack_webhook.notifier(Means(http=FakeHttp()), url=double.webhook_url)
    telling = dispatcher_of(store, clock, {"slack_webhook": to})
    first = save(store, an_incident(), now_s=clock.now_s)
    telling.turn(clock.now_s)
    clock.now_s += 30
    save(store, replace(first, status="resolved", end_step=80), now_s=clock.now_s)
    telling.turn(clock.now_s)
    assert [one["text"].split(" ")[0] for one in roots(double)] == ["warning:", "\u2705"]
    assert double.webhook_url not in repr(to)


def child(db: str, url: str) -> subprocess.Popen[str]:
    """A service's notices in a process of their own."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.api.desk.tell", db, url],
        cwd=ROOT,
        env=environment(),
        stdout=subprocess.PIPE,
        text=True,
    )


def test_two_services_one_killed_post_each_incident_once(tmp_path: Path) -> None:
    db = tmp_path / "a.sqlite"
    with service_at(db, clock=FakeClock(time.time())) as service:
        assert_posted_once(service, str(db))


@pytest.mark.long
def test_on_postgresql_too(postgres: Store, postgres_url: str) -> None:
    assert_posted_once(new_service(postgres, clock=FakeClock(time.time())), postgres_url)


def assert_posted_once(service: Service, db: str) -> None:
    """Two processes tell of eight incidents, one is killed among them."""
    with SlackDouble(rate_per_s=0) as double:
        announce(service)
        children = [child(db, double.url) for _ in range(2)]
        try:
            for process in children:
                assert process.stdout is not None and process.stdout.readline() == "ready\n"
            for rank in range(8):
                save(service.store, an_incident(scope=f"rank:{rank}"), now_s=time.time())
                if rank == 3:
                    wait_for(lambda: len(roots(double)) >= 2)
                    os.kill(children[0].pid, signal.SIGKILL)
            wait_for(lambda: len(roots(double)) == 8 and len(replies(double)) == 8)
        finally:
            for process in children:
                process.kill()
                process.communicate()
        keys = [one["metadata"]["event_payload"]["key"] for one in double.messages]
        assert len(keys) == len(set(keys)) == 16


@pytest.mark.long
def test_a_service_posts_within_seconds_and_not_again_after_kill_9(tmp_path: Path) -> None:
    with SlackDouble(rate_per_s=0) as double:
        slack_env = {
            "ARGUS_SLACK_API_URL": double.url,
            "ARGUS_SLACK_TOKEN": TOKEN,
            "ARGUS_SLACK_CHANNEL": CHANNEL,
            "ARGUS_SETTLE_S": "0",
        }
        running = start(tmp_path / "a.sqlite", **slack_env)
        running.post("/v1/ingest/layouts", layouts_body())
        for window in range(3):
            rows = [make_window(r, window, factor=3.0 if r == 2 and window else 1.0) for r in range(4)]
            running.post("/v1/ingest/windows", upload(*rows))
        wait_for(lambda: len(replies(double)) == 1)
        running.kill()
        again = start(tmp_path / "a.sqlite", **slack_env)
        # Killed between Slack's answer and the note of it, the message is looked for when the dead one's lease is over.
        wait_for(
            lambda: again.get("/v1/notices")["items"][0]["status"] == "posted",
            patience_s=LEASE_S + PATIENCE_S / 2,
        )
        time.sleep(2.0)  # four looks of the new one
        assert len(roots(double)) == 1 and len(replies(double)) == 1 and double.faults == []
        assert again.terminate() == 0


def test_the_stand_in_is_a_command_that_prints_what_is_posted() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "argus", "dev", "slack-double"],
        cwd=ROOT,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        url = process.stdout.readline().split()[-1]
        client = slack_sdk.WebClient(token=TOKEN, base_url=url)
        assert client.chat_postMessage(channel=CHANNEL, text="hello\x1b[2J")["ok"]
        assert process.stdout.readline() == "chat.postMessage: hello?[2J\n"
        assert client.apps_connections_open(app_token=APP_TOKEN)["url"].startswith("ws://127.0.0.1:")
    finally:
        process.kill()
        process.communicate()
