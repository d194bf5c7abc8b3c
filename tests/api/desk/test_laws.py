"""The laws of the notifiers, run on every file of the folder."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from argus.api.notify.decide import CHANGED, OPENED, RESOLVED, WORSE
from argus.api.notify.notifier import Delivery, Later, Means, Notifier, Refused, modules, settings_of
from argus.api.notify.post import Answer
from argus.api.service import Service
from argus.api.slack.double import CHANNEL, TOKEN, SlackDouble
from tests.api.desk.kit import FakeHttp, an_incident, announce, matter, save
from tests.api.kit import FakeClock, service_at

pytest.importorskip("slack_sdk", reason="needs the extra slack")
pytestmark = pytest.mark.slow

NAMES = sorted(modules())
SECRET = "s3cret-value"


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with service_at(tmp_path / "a.sqlite", clock=FakeClock()) as service:
        announce(service)
        yield service


@pytest.fixture
def double() -> Iterator[SlackDouble]:
    with SlackDouble(rate_per_s=0) as double:
        yield double
        assert double.faults == []


def working(name: str, http: FakeHttp, double: SlackDouble) -> Notifier:
    """One that is set up, against stand-ins."""
    settings = {
        "slack": {"token": TOKEN, "channel": CHANNEL, "api_url": double.url, "signing_secret": SECRET},
        "slack_webhook": {"url": double.webhook_url},
        "alertmanager": {"url": "http://am"},
        "pagerduty": {"key": SECRET, "url": "http://pd"},
        "webhook": {"url": "http://hook", "secret": SECRET},
    }[name]
    made: Notifier = modules()[name].notifier(Means(http=http), **settings)
    return made


def tell(to: Notifier, service: Service, held: dict[str, Any], *, news: str, **incident: Any) -> None:
    made = save(service.store, an_incident(**incident), now_s=1e6)

    def keep(now_held: dict[str, Any]) -> None:
        held.clear()
        held.update(now_held)

    told = Delivery(matter=matter(service.store, made, now_s=1e6), news=news, now_s=1e6)
    to.tell(told, held=dict(held), keep=keep)


@pytest.mark.parametrize("name", NAMES)
def test_its_secrets_are_settings_and_never_shown(name: str, double: SlackDouble) -> None:
    module = modules()[name]
    known = {one.name for one in settings_of(name, module)}
    assert set(getattr(module, "SECRETS", ())) <= known
    assert SECRET not in repr(working(name, FakeHttp(), double))
    first = next(iter(inspect.signature(module.notifier).parameters.values()))
    assert first.name == "means"


@pytest.mark.parametrize("name", NAMES)
def test_with_nothing_set_it_says_what_to_set(name: str) -> None:
    with pytest.raises(ValueError, match=r"(?i)set |must be"):
        modules()[name].notifier(Means(http=FakeHttp()))


@pytest.mark.parametrize("name", NAMES)
def test_a_whole_life_is_told_without_a_second_beginning(
    name: str, service: Service, double: SlackDouble
) -> None:
    to = working(name, FakeHttp(), double)
    held: dict[str, Any] = {}
    tell(to, service, held, news=OPENED)
    tell(to, service, held, news=CHANGED)
    tell(to, service, held, news=WORSE, severity="critical")
    tell(to, service, held, news=RESOLVED, severity="critical", status="resolved")
    roots = [one for one in double.messages if "thread_ts" not in one]
    assert len(roots) <= (1 if to.can_edit else 3)


@pytest.mark.parametrize("name", NAMES)
def test_it_fails_only_in_its_own_words(name: str, service: Service, double: SlackDouble) -> None:
    for status in (0, 200, 301, 400, 401, 403, 404, 413, 429, 500, 503):
        http = FakeHttp(answers=[Answer(status=status, text="<html>no</html>")] * 2)
        double.quirks["chat.postMessage"] = ["unavailable"]
        try:
            tell(working(name, http, double), service, {}, news=OPENED)
        except (Later, Refused) as error:
            assert str(error) and SECRET not in str(error) and "\n" not in str(error)
