"""A job that stands still while the service restarts, sleeps or hands over: nothing is told twice or taken back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from argus.analytics.store import queries
from argus.api.cli.serve import product_analyses
from argus.api.service import Service
from argus.collectors.records.heartbeat import Heartbeat
from tests.api.kit import FakeClock, beats_body, layouts_body, make_beat, service_at

RANKS = range(4)

Serve = Callable[[], Service]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def serve(tmp_path: Path, clock: FakeClock) -> Iterator[Serve]:
    """Makes a service anew on one and the same database."""
    path = tmp_path / "a.sqlite"
    with ExitStack() as stack:
        yield lambda: stack.enter_context(service_at(path, clock=clock, analyses=product_analyses()))


def beat(rank: int, now_s: float, *, step: int = 10, began_s: float, behind: bool = False) -> Heartbeat:
    made = make_beat(rank, ts_s=now_s, step=step)
    groups = {"0": (step - behind, step - 1)}
    return replace(
        made, status=replace(made.status, step_since_ns=int(began_s * 1e9), groups=groups, phase="backward")
    )


def say(service: Service, clock: FakeClock, beats: Iterable[Heartbeat]) -> None:
    service.receive_heartbeats(beats_body(*beats))
    turn(service, clock, num=1)


def turn(service: Service, clock: FakeClock, *, num: int) -> None:
    for _ in range(num):
        clock.now_s += 1.0
        while service.worker.turn(clock.now_s):
            pass


def told(service: Service) -> list[tuple[str, str]]:
    """What was told of the only incident, and why it ended."""
    with service.store.read() as connection:
        found = queries.incidents(connection, run="job", status=None, fault_class=None, limit=9, offset=0)
        (incident,) = found.items
        whole: Any = queries.incident(connection, incident["id"])
    return [(event["what"], whole["ended"]) for event in whole["events"]]


def lose(service: Service, clock: FakeClock, *, ranks: Iterable[int]) -> float:
    """All ranks speak, then those of `ranks` never again; when the last step began."""
    began_s = clock.now_s
    service.receive_layouts(layouts_body())
    say(service, clock, [beat(rank, clock.now_s, began_s=began_s) for rank in RANKS])
    rest = [rank for rank in RANKS if rank not in set(ranks)]
    for _ in range(4):
        turn(service, clock, num=4)
        if rest:
            say(service, clock, [beat(rank, clock.now_s, began_s=began_s) for rank in rest])
    assert told(service) == [("opened", "")]
    return began_s


@pytest.mark.parametrize("lost", [(2, 3), (0, 1, 2, 3)])
@pytest.mark.parametrize("down_s", [0.0, 3600.0])
def test_a_restart_takes_no_loss_back(
    serve: Serve, clock: FakeClock, lost: tuple[int, ...], down_s: float
) -> None:
    began_s = lose(serve(), clock, ranks=lost)
    clock.now_s += down_s
    after = serve()
    for _ in range(8):
        turn(after, clock, num=4)
        if len(lost) < len(RANKS):
            say(after, clock, [beat(rank, clock.now_s, began_s=began_s) for rank in (0, 1)])
        assert told(after) == [("opened", "")]
    assert after.published.runs_now()[0].ranks_lost == len(lost)


def test_a_sleep_of_the_machine_takes_no_loss_back(serve: Serve, clock: FakeClock) -> None:
    service = serve()
    lose(service, clock, ranks=RANKS)
    clock.now_s += 3600.0
    service.worker.woke(clock.now_s)
    turn(service, clock, num=30)
    assert told(service) == [("opened", "")]


def test_a_restart_takes_no_hang_back(serve: Serve, clock: FakeClock) -> None:
    before = serve()
    began_s = clock.now_s
    before.receive_layouts(layouts_body())
    for _ in range(15):
        turn(before, clock, num=4)
        say(before, clock, [beat(rank, clock.now_s, began_s=began_s, behind=rank == 2) for rank in RANKS])
    assert told(before) == [("opened", "")]
    clock.now_s += 60.0
    after = serve()
    turn(after, clock, num=30)
    assert told(after) == [("opened", "")]
    say(after, clock, [beat(rank, clock.now_s, step=11, began_s=clock.now_s - 1) for rank in RANKS])
    assert told(after)[-1] == ("resolved", "steps end again")


@pytest.mark.parametrize("down_s", [0.0, 3600.0])
def test_after_a_restart_the_lost_are_found_again_when_they_speak(
    serve: Serve, clock: FakeClock, down_s: float
) -> None:
    lose(serve(), clock, ranks=RANKS)
    clock.now_s += down_s
    after = serve()
    turn(after, clock, num=2)
    assert told(after) == [("opened", "")]
    for _ in range(8):
        began_s = clock.now_s - 0.1
        say(after, clock, [beat(rank, clock.now_s, step=11, began_s=began_s) for rank in RANKS])
        turn(after, clock, num=4)
    assert told(after) == [("opened", "steps end again"), ("resolved", "steps end again")]
