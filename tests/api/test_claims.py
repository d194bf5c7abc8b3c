"""Two jobs of one name on hosts of their own are told; a rank that moves is not."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from argus.analytics.store import queries
from argus.api.claims import Claims
from argus.api.cli.status import render
from argus.api.service import Service
from argus.api.status import run_status
from tests.api.kit import FakeClock, beats_body, layouts_body, make_beat, service_at


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with service_at(tmp_path / "a.sqlite", clock=FakeClock()) as service:
        yield service


def say(service: Service, host: str, *, after_s: float = 2.5, ranks: Sequence[int] = (0, 1)) -> None:
    assert isinstance(service.clock, FakeClock)
    service.clock.now_s += after_s
    beats = [replace(make_beat(rank, ts_s=service.clock.now_s), host=host) for rank in ranks]
    service.receive_heartbeats(beats_body(*beats))
    service.worker.turn(service.clock.now_s)


def shown(service: Service) -> str:
    with service.store.read() as connection:
        which = queries.attempt_of(connection, "job", attempt=None)
        assert which is not None
        mixed = service.published.mixed_now(which.id)
        document = run_status(connection, which, now_s=service.clock(), mixed=mixed)
    return "\n".join(render(document))


def test_two_jobs_of_one_name_on_two_hosts_are_told(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    service.receive_layouts(layouts_body(2))
    service.receive_layouts(layouts_body(2, pid=500).replace(b"h-0", b"h-9"))
    with caplog.at_level(logging.WARNING, logger="argus.worker"):
        for _ in range(4):
            say(service, "h-0")
            say(service, "h-9")
    assert "h-0 and h-9 at once" in shown(service) and "ARGUS_RUN" in shown(service)
    assert sum("two jobs" in record.getMessage() for record in caplog.records) == 1


def test_it_is_told_no_more_once_one_of_them_is_over(service: Service) -> None:
    service.receive_layouts(layouts_body(2))
    for _ in range(4):
        say(service, "h-0")
        say(service, "h-9")
    for _ in range(16):
        say(service, "h-9", after_s=5.0)
    assert "two jobs" not in shown(service)


def test_hosts_of_one_job_and_a_host_that_joins_are_not_told(service: Service) -> None:
    service.receive_layouts(layouts_body(4))
    for turn in range(8):
        say(service, "h-0", ranks=(0, 1))
        say(service, "h-1" if turn < 4 else "h-7", ranks=(2, 3))
        say(service, "h-8", ranks=(4, 5))
    assert "two jobs" not in shown(service)


def test_a_slow_request_of_the_host_a_rank_has_left_is_not_told() -> None:
    claims = Claims()
    for at_s, host in enumerate(["a", "a", "b", "a", "b", "b", "b"]):
        claims.hear([replace(make_beat(0, ts_s=at_s), host=host)], now_s=5.0 * at_s)
        if at_s == 3:
            assert claims.told("job", now_s=5.0 * at_s) == ""


def test_last_words_of_a_host_a_rank_has_left_are_not_told() -> None:
    claims = Claims()
    for at_s in range(0, 60, 5):
        for host, state in (("a", "exited"), ("b", "running")):
            claims.hear([replace(make_beat(0, ts_s=at_s, state=state), host=host)], now_s=float(at_s))
    assert claims.told("job", now_s=60.0) == ""
