"""A real Alertmanager: one alert per incident there, its silences here."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from argus.api.notifiers import alertmanager
from argus.api.notify.decide import OPENED, RESOLVED, WORSE
from argus.api.notify.matter import silenced
from argus.api.notify.notifier import Delivery, Means
from argus.api.notify.post import HttpxHttp
from argus.api.service import Service
from tests.api.desk.kit import an_incident, announce, matter, save
from tests.api.kit import FakeClock, service_at
from tests.api.process import wait_for

pytestmark = pytest.mark.slow

CONFIG = "route: {receiver: nobody, group_wait: 1s}\nreceivers: [{name: nobody}]\n"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A fresh Alertmanager on loopback."""
    found = shutil.which("prometheus-alertmanager") or shutil.which("alertmanager")
    if found is None:
        pytest.skip("no Alertmanager is installed")
    folder = tmp_path_factory.mktemp("alertmanager")
    (folder / "config.yml").write_text(CONFIG)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    where = f"127.0.0.1:{port}"
    options = ("--cluster.listen-address=", f"--web.listen-address={where}", f"--storage.path={folder}")
    process = subprocess.Popen(
        [found, f"--config.file={folder}/config.yml", *options],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        with closing(HttpxHttp()) as http:
            wait_for(lambda: http.get(f"http://{where}/-/ready").is_good)
        yield f"http://{where}"
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def http() -> Iterator[HttpxHttp]:
    with closing(HttpxHttp()) as http:
        yield http


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    now_s = datetime.now(tz=UTC).timestamp()
    with service_at(tmp_path / "a.sqlite", clock=FakeClock(now_s)) as service:
        announce(service)
        yield service


def active(url: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = httpx.get(f"{url}/api/v2/alerts").json()
    return found


def test_an_incident_is_one_alert_until_it_is_resolved(url: str, http: HttpxHttp, service: Service) -> None:
    to, held = alertmanager.notifier(Means(http=http), url=url), dict[str, Any]()

    def tell(news: str, **incident: Any) -> None:
        made = save(service.store, an_incident(**incident), now_s=service.clock())
        told = matter(service.store, made, now_s=service.clock())
        to.tell(Delivery(matter=told, news=news, now_s=service.clock()), held=dict(held), keep=held.update)

    tell(OPENED)
    wait_for(lambda: len(active(url)) == 1)
    (alert,) = active(url)
    assert alert["labels"]["alertname"] == "ArgusIncident" and alert["annotations"]["summary"]
    tell(WORSE, severity="critical")
    wait_for(lambda: [one["labels"]["severity"] for one in active(url)] == ["critical"])
    tell(RESOLVED, severity="critical", status="resolved")
    wait_for(lambda: active(url) == [])


def test_a_silence_there_holds_here(url: str, http: HttpxHttp, service: Service) -> None:
    to = alertmanager.notifier(Means(http=http), url=url)
    now = datetime.now(tz=UTC)
    wanted = {
        "matchers": [{"name": "run", "value": "jo.", "isRegex": True, "isEqual": True}],
        "startsAt": now.isoformat(),
        "endsAt": (now + timedelta(hours=1)).isoformat(),
        "createdBy": "eve",
        "comment": "maintenance",
    }
    made = httpx.post(
        f"{url}/api/v2/silences", content=json.dumps(wanted), headers={"content-type": "application/json"}
    )
    assert made.status_code == 200
    incident = save(service.store, an_incident(), now_s=service.clock())
    told = matter(service.store, incident, now_s=service.clock())

    def is_silenced() -> bool:
        found = to.read_silences()
        return silenced(told, found or (), now_s=now.timestamp() + 60) is not None

    wait_for(is_silenced)
