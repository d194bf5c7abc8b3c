"""One level of channels for all hosts of a run: decided from their pooled cost, kept, shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from argus.analytics.store import queries
from argus.api import status
from argus.api.cli.status import render as render_status
from argus.api.metrics import render
from argus.api.service import Service
from argus.collectors.host.counters import Counters
from argus.collectors.host.governor import Governor
from argus.collectors.host.plans import parse_levels
from argus.collectors.records.channels import CHANNELS, off_at
from argus.collectors.records.cost import Cost
from tests.api.kit import FakeClock, beats_body, layouts_body, make_beat, make_window, service_at, upload

DEAR, CHEAP = ({"all": Cost(ratio=1 + c, low=1 + c - 0.002, high=1 + c + 0.002, n=30)} for c in (0.05, 0.001))


def tell(
    service: Service,
    clock: FakeClock,
    costs: tuple[Mapping[str, Cost], Mapping[str, Cost]],
    *,
    step: int,
    level: int = 0,
    attempt: int = 0,
) -> object:
    """Heartbeats of two hosts with two ranks each, then a turn; the plans of the answer after it."""
    beats = [
        replace(
            make_beat(rank, ts_s=clock.now_s, step=step, attempt=attempt),
            overhead=costs[rank // 2],
            channels_off=off_at(level),
        )
        for rank in range(4)
    ]
    service.receive_heartbeats(beats_body(*beats))
    clock.now_s += 1
    while service.worker.turn(clock.now_s):
        pass
    return service.receive_heartbeats(beats_body(*beats))["plans"]


def level(plans: object) -> tuple[int, int]:
    [found] = parse_levels(plans).values()
    return found


def test_all_hosts_hear_one_level_and_a_step_ahead_of_them_all(service: Service, clock: FakeClock) -> None:
    service.receive_layouts(layouts_body())
    assert level(tell(service, clock, (DEAR, CHEAP), step=1200)) == (1, 1500)  # 30 s of 0.1 s ahead
    hosts = [Governor(counters=Counters()) for _ in range(2)]
    for host in hosts:
        host.follow(parse_levels(tell(service, clock, (DEAR, CHEAP), step=1210)))
    assert {host.current("job", 0) for host in hosts} == {(1, 1500)}


def test_within_the_budget_and_on_one_hosts_word_nothing_changes(service: Service, clock: FakeClock) -> None:
    service.receive_layouts(layouts_body())
    assert level(tell(service, clock, (CHEAP, CHEAP), step=1200)) == (0, 0)
    few = {"all": replace(DEAR["all"], n=5)}
    assert level(tell(service, clock, (few, {}), step=3000)) == (0, 0)


def test_it_steps_down_in_order_and_comes_back_more_slowly(service: Service, clock: FakeClock) -> None:
    service.receive_layouts(layouts_body())
    downs, step, now = [], 1200, 0
    for _ in CHANNELS[:2]:
        now, _ = level(tell(service, clock, (DEAR, DEAR), step=step, level=now))
        downs.append(step)
        step += 1400
    assert now == 2
    while now == 2:
        step += 200
        now, _ = level(tell(service, clock, (CHEAP, CHEAP), step=step, level=now))
    assert now == 1 and step - downs[-1] > 2 * (downs[1] - downs[0])


def test_a_restart_of_the_service_and_of_the_job_keep_the_level(tmp_path: Path, clock: FakeClock) -> None:
    with service_at(tmp_path / "b.sqlite", clock=clock) as service:
        service.receive_layouts(layouts_body())
        tell(service, clock, (DEAR, DEAR), step=1200)
    with service_at(tmp_path / "b.sqlite", clock=clock) as service:
        assert level(tell(service, clock, (DEAR, DEAR), step=1300, level=1)) == (1, 1500)
        service.receive_layouts(layouts_body(attempt=1))
        assert level(tell(service, clock, ({}, {}), step=3, attempt=1)) == (1, 0)


def test_a_launch_under_the_same_name_begins_with_the_level_and_counts_its_own_steps(
    service: Service, clock: FakeClock
) -> None:
    service.receive_layouts(layouts_body(pid=100))
    assert level(tell(service, clock, (DEAR, DEAR), step=90_000)) == (1, 90_300)
    clock.now_s += 20
    service.receive_layouts(layouts_body(pid=500))
    assert level(tell(service, clock, ({}, {}), step=3, level=1)) == (1, 0)
    assert level(tell(service, clock, (DEAR, DEAR), step=1200, level=1)) == (2, 1500)
    with service.store.read() as connection:
        which = queries.attempt_of(connection, "job", attempt=None)
        assert which is not None
        document = status.run_status(connection, which, now_s=clock.now_s)
    assert [one["from_step"] for one in document["governor"]["changes"]] == [1500]


def test_each_change_is_seen_in_status_metrics_and_the_window(service: Service, clock: FakeClock) -> None:
    service.receive_layouts(layouts_body())
    tell(service, clock, (DEAR, DEAR), step=1200)
    rows = [replace(make_window(r, 0), channels_off=off_at(1), overhead=DEAR) for r in range(4)]
    service.receive_windows(upload(*rows))
    clock.now_s += 1
    while service.worker.turn(clock.now_s):
        pass
    with service.store.read() as connection:
        which = queries.attempt_of(connection, "job", attempt=None)
        assert which is not None
        document = status.run_status(connection, which, now_s=clock.now_s)
        window = queries.window(connection, which.id, 0)
    assert window is not None
    assert window["coverage"]["overhead"] == {"all": DEAR["all"].to_json()}
    assert any(text.startswith(f"{CHANNELS[0]}: off") for text in window["coverage"]["unseen"])
    assert document["governor"]["channels_off"] == [CHANNELS[0]]
    [change] = document["governor"]["changes"]
    assert change["from_step"] == 1500 and "off from step 1500" in change["text"]
    assert f"  {change['text']}" in list(render_status(document))
    lines = render(service.metrics).decode().splitlines()
    assert f'argus_channel_off{{channel="{CHANNELS[0]}",run="job",run_id="job/0"}} 1.0' in lines
    assert 'argus_channel_changes_total{what="down"} 1.0' in lines
