"""The notifiers over HTTP: Alertmanager, PagerDuty, the generic webhook; and the laws of all."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from argus.analytics.store import marks
from argus.analytics.store.engine import Store
from argus.analytics.store.marks import Mark
from argus.api.notifiers import alertmanager, pagerduty, webhook
from argus.api.notify.decide import CHANGED, OPENED, RESOLVED, WORSE
from argus.api.notify.foreign import foreign_silences
from argus.api.notify.matter import DEFAULT, Origin
from argus.api.notify.notifier import (
    Delivery,
    Later,
    Means,
    Notifier,
    NotifierError,
    Refused,
    all_settings,
    modules,
    notifiers_of,
)
from argus.api.notify.post import Answer, HttpxHttp
from argus.api.notify.settings import load_notify
from argus.api.service import Service
from argus.api.settings_sources import load_settings
from tests.api.desk.kit import FakeHttp, an_incident, announce, matter, save
from tests.api.kit import FakeClock, service_at

pytestmark = pytest.mark.slow

NOW_S = 1_000_000.0


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with service_at(tmp_path / "a.sqlite", clock=FakeClock(NOW_S)) as service:
        announce(service)
        yield service


def tell(notifier: Notifier, store: Store, held: dict[str, Any], *, news: str, **incident: Any) -> None:
    made = save(store, an_incident(**incident), now_s=NOW_S)

    def keep(now_held: dict[str, Any]) -> None:
        held.clear()
        held.update(now_held)

    delivery = Delivery(matter=matter(store, made, now_s=NOW_S), news=news, now_s=NOW_S)
    notifier.tell(delivery, held=dict(held), keep=keep)


def test_alertmanager_hears_of_one_alert_per_incident(service: Service) -> None:
    http = FakeHttp()
    held: dict[str, Any] = {}
    to = alertmanager.notifier(Means(http=http), url="http://am:9093/")
    tell(to, service.store, held, news=OPENED)
    tell(to, service.store, held, news=WORSE, severity="critical")
    tell(to, service.store, held, news=RESOLVED, severity="critical", status="resolved")
    (first, worse, last) = [body for _, body, _ in http.sent]
    assert {url for url, _, _ in http.sent} == {"http://am:9093/api/v2/alerts"}
    assert [len(first), len(worse), len(last)] == [1, 2, 1]
    assert first[0]["labels"] == {**worse[1]["labels"]} and first[0]["labels"]["severity"] == "warning"
    assert worse[0]["labels"]["severity"] == "critical" and worse[1]["endsAt"] < worse[0]["endsAt"]
    assert last[0]["endsAt"] == worse[1]["endsAt"] and last[0]["startsAt"] == first[0]["startsAt"]
    assert all(isinstance(value, str) and value for value in first[0]["labels"].values())


def test_an_alert_never_ends_before_it_starts(service: Service) -> None:
    """Alertmanager refuses it, and what came with it."""
    http = FakeHttp()
    to = alertmanager.notifier(Means(http=http), url="http://am:9093")
    made = save(service.store, an_incident(), now_s=NOW_S)
    for news, status in ((CHANGED, "open"), (RESOLVED, "resolved")):
        told = matter(service.store, replace(made, status=status), now_s=NOW_S)
        to.tell(Delivery(matter=told, news=news, now_s=NOW_S - 3600), held={}, keep=lambda held: None)
    assert all(alert["startsAt"] <= alert["endsAt"] for _, (alert,), _ in http.sent)


def test_pagerduty_triggers_acknowledges_and_resolves_under_one_key(service: Service) -> None:
    http = FakeHttp()
    held: dict[str, Any] = {}
    to = pagerduty.notifier(Means(http=http), key="r0uting", url="http://pd")
    tell(to, service.store, held, news=OPENED, severity="critical")
    incident = an_incident(severity="critical")
    with service.store.write() as connection:
        said = Mark(incident_id=incident.id, at_s=NOW_S, what="acknowledged", by="eve")
        marks.add_mark(connection, said)
    tell(to, service.store, held, news=CHANGED, severity="critical")
    tell(to, service.store, held, news=RESOLVED, severity="critical", status="resolved")
    events = [body for _, body, _ in http.sent]
    assert [one["event_action"] for one in events] == ["trigger", "trigger", "acknowledge", "resolve"]
    assert len({one["dedup_key"] for one in events}) == 1 and "r0uting" not in repr(
        replace(to, http=FakeHttp())
    )
    payload = events[0]["payload"]
    assert payload["severity"] == "critical" and len(payload["summary"]) <= 1024
    assert payload["custom_details"]["suspects"] == [2]


def test_what_people_read_of_an_incident_holds_no_characters_that_turn_or_hide_it(service: Service) -> None:
    http, held, evil = FakeHttp(), dict[str, Any](), "h\u202e\x1b[2J\n1"
    named: dict[str, Any] = {"scope": f"host:{evil}", "headline": f"host {evil}", "severity": "critical"}
    tell(
        pagerduty.notifier(Means(http=http), key="k", url="http://pd"),
        service.store,
        held,
        news=OPENED,
        **named,
    )
    tell(alertmanager.notifier(Means(http=http), url="http://am"), service.store, {}, news=OPENED, **named)
    (_, event, _), (_, (alert,), _) = http.sent
    payload = event["payload"]
    shown = [payload[name] for name in ("summary", "source", "component")] + [*alert["annotations"].values()]
    assert all(text.isprintable() for text in shown)
    assert alert["labels"]["host"] == evil  # by which silences know it


def test_projects_with_runs_of_one_name_have_alerts_of_their_own(service: Service) -> None:
    http = FakeHttp()
    to = pagerduty.notifier(Means(http=http), key="r0uting", url="http://pd")
    made = save(service.store, an_incident(severity="critical"), now_s=NOW_S)
    for project in (DEFAULT, "nlp", "vision"):
        told = matter(service.store, made, now_s=NOW_S, origin=Origin(project=project))
        to.tell(Delivery(matter=told, news=OPENED, now_s=NOW_S), held={}, keep=lambda held: None)
    keys = [body["dedup_key"] for _, body, _ in http.sent]
    assert keys[0] == f"argus-{made.fingerprint}" and len(set(keys)) == 3


def test_the_webhook_is_signed_so_that_the_receiver_can_check_it(service: Service) -> None:
    http = FakeHttp()
    held: dict[str, Any] = {}
    to = webhook.notifier(Means(http=http), url="http://hook/x", secret="s3cret")
    tell(to, service.store, held, news=OPENED)
    _, body, headers = http.sent[0]
    told = b".".join((headers["webhook-id"].encode(), headers["webhook-timestamp"].encode(), http.raw[0]))
    mac = base64.b64encode(hmac.new(b"s3cret", told, hashlib.sha256).digest()).decode()
    assert headers["webhook-signature"] == f"v1,{mac}" and "s3cret" not in repr(to)
    assert body["event"] == "opened" and body["incident"]["diagnosis"]["verdict"]
    tell(to, service.store, held, news=OPENED)
    assert http.sent[1][2]["webhook-id"] == headers["webhook-id"]


@pytest.mark.parametrize(
    ("answer", "error", "is_doubtful"),
    [
        (Answer(status=429, retry_after_s=3.0), Later, False),
        (Answer(status=503), Later, False),
        (Answer(status=0, text="ReadTimeout"), Later, True),
        (Answer(status=0, text="ConnectError", is_sent=False), Later, False),
        (Answer(status=400, text="bad"), Refused, False),
        (Answer(status=302), Refused, False),
    ],
)
def test_what_a_receiver_answers_is_understood(
    service: Service, answer: Answer, error: type[Exception], is_doubtful: bool
) -> None:
    for make in (
        lambda http: alertmanager.notifier(Means(http=http), url="http://am"),
        lambda http: pagerduty.notifier(Means(http=http), key="k", url="http://pd"),
        lambda http: webhook.notifier(Means(http=http), url="http://hook", secret="s"),
    ):
        with pytest.raises(error) as caught:
            tell(make(FakeHttp(answers=[answer])), service.store, {}, news=OPENED)
        if isinstance(caught.value, Later):
            assert caught.value.is_doubtful == is_doubtful
            assert caught.value.after_s == answer.retry_after_s


@pytest.mark.parametrize("host", ["a..b", f"{'a' * 70}.x", "xn--zz"])
def test_a_host_that_cannot_be_looked_up_is_one_that_does_not_answer(host: str) -> None:
    with closing(HttpxHttp()) as http:
        answer = http.post(f"http://{host}/hook", b"{}", headers={})
    assert (answer.status, answer.is_sent) == (0, False)


def test_alertmanagers_silences_are_read_as_ours() -> None:
    lasting = {
        "id": "abc",
        "status": {"state": "active"},
        "startsAt": "2026-01-01T00:00:00Z",
        "endsAt": "2026-01-02T00:00:00Z",
        "createdBy": "eve",
        "comment": "maintenance\x1b[2J",
        "matchers": [{"name": "run", "value": "j.b", "isRegex": True, "isEqual": True}],
    }
    over = {**lasting, "id": "old", "status": {"state": "expired"}}
    odd = {**lasting, "id": "odd", "matchers": [{"name": "run", "value": "(", "isRegex": True}]}
    big = {**lasting, "id": "big", "matchers": [{"name": "run", "value": "a{99999999999}", "isRegex": True}]}
    deep = {
        **lasting,
        "id": "deep",
        "matchers": [{"name": "run", "value": "((a{999}){999}){999}", "isRegex": True}],
    }
    found = foreign_silences(json.dumps([lasting, over, odd, big, deep, 7]))
    assert found is not None and [one.id for one in found] == ["am-abc"] and "\x1b" not in found[0].why
    during_s = found[0].starts_s + 10
    assert found[0].covers({"run": "job"}, now_s=during_s) and not found[0].covers(
        {"run": "jo"}, now_s=during_s
    )
    assert foreign_silences("<html>") is None and foreign_silences("[" * 100_000) is None


def test_settings_come_from_the_file_and_the_environment(tmp_path: Path) -> None:
    path = tmp_path / "argus.toml"
    path.write_text('[serve]\nport = 1\n[notify.alertmanager]\nurl = "http://am:9093"\n')
    env = {"ARGUS_WEBHOOK_URL": "http://hook", "ARGUS_WEBHOOK_SECRET": "s3cret"}
    found = load_notify(env=env, path=path)
    assert set(found.values) == {"alertmanager", "webhook"} and found.secrets == ("s3cret",)
    assert "s3cret" not in repr(found)
    assert set(notifiers_of(Means(http=FakeHttp()), values=found.values)) == {"alertmanager", "webhook"}
    settings, warnings = load_settings(env=env, path=path)
    assert settings.port == 1 and warnings == ()


@pytest.mark.parametrize(
    ("text", "env", "said"),
    [
        ("[notify.pigeon]\n", {}, "no notifier"),
        ("[notify.webhook]\nsecret = 'x'\n", {}, "ARGUS_WEBHOOK_SECRET only"),
        ("[notify.webhook]\nuri = 'x'\n", {}, "no setting 'uri'"),
        ("[notify.webhook]\nurl = 7\n", {}, "must be like"),
        ("[notify]\nslack = 1\n", {}, "holds tables"),
        ("", {"ARGUS_WEBHOOK_URL": "http://hook"}, "set ARGUS_WEBHOOK_SECRET"),
        ("", {"ARGUS_ALERTMANAGER_URL": "am:9093"}, "http://"),
        (
            "",
            {"ARGUS_ALERTMANAGER_URL": "http://am", "ARGUS_ALERTMANAGER_SEVERITY": "bad"},
            "severity must be",
        ),
        ("", {"ARGUS_PAGERDUTY_SEVERITY": "info"}, "set ARGUS_PAGERDUTY_KEY"),
        ("", {"ARGUS_SLACK_TOKEN": "xoxb-1"}, "set ARGUS_SLACK_CHANNEL"),
        ("", {"ARGUS_SLACK_TOKEN": "xoxb-1", "ARGUS_SLACK_CHANNEL": "#alerts"}, "the channel's id"),
        ("", {"ARGUS_SLACK_COOLDOWN_S": "soon"}, "must be a number"),
    ],
)
def test_a_wrong_setting_is_one_sentence(tmp_path: Path, text: str, env: dict[str, str], said: str) -> None:
    path = tmp_path / "argus.toml"
    path.write_text(text)
    with pytest.raises(NotifierError, match=said):
        notifiers_of(Means(http=FakeHttp()), values=load_notify(env=env, path=path).values)


def test_no_two_settings_share_a_variable() -> None:
    from argus.api.settings import settings_table

    names = [env for _, env, _, _ in settings_table()]
    assert not set(names) & set(all_settings()) and len(modules()) == 5


def test_every_setting_of_a_notifier_is_documented() -> None:
    text = (Path(__file__).parents[3] / "docs" / "alerts.md").read_text(encoding="utf-8")
    assert not [env for env in all_settings() if f"`{env}`" not in text]


def test_a_changed_state_is_told_by_its_own_stamp() -> None:
    first = an_incident()
    assert first.fingerprint == an_incident(window=50).fingerprint
    assert first.fingerprint != an_incident(scope="rank:3").fingerprint
    assert replace(first, diagnosis=None).fingerprint == first.fingerprint
