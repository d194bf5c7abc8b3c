"""Small jobs for the service's tests, and an analysis whose answers are known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from argus.agent.triage import no_incident
from argus.analytics.eras import Eras
from argus.analytics.finding import Finding
from argus.analytics.incident import Cause, Cost, Incident
from argus.analytics.outside import NOTHING, Outside
from argus.analytics.recurrence import Bout
from argus.analytics.store.engine import Store, open_store
from argus.analytics.window import Window
from argus.api.course import Analyses, Course, Following
from argus.api.migrate import upgrade
from argus.api.service import Service, make_service
from argus.api.settings import Settings
from argus.collectors.records.events import STEP
from argus.collectors.records.heartbeat import Heartbeat, Status
from argus.collectors.records.layout import GroupInfo, Layout
from argus.collectors.records.summary import PHASE_CELL, RankWindow
from argus.collectors.records.upload import encode_windows
from argus.topology.layout import Topology

STEP_NS = 100_000_000
SLOW_RATIO = 1.5


class FakeClock:
    """A clock that moves when told."""

    def __init__(self, now_s: float = 1_000_000.0) -> None:
        self.now_s = now_s

    def __call__(self) -> float:
        return self.now_s


def make_layout(
    rank: int, *, run: str = "job", attempt: int = 0, world: int = 4, pid: int = 100, began_ns: int = 0
) -> Layout:
    """A rank of a data-parallel job, two ranks a host."""
    group = GroupInfo(name="0", desc="default_pg", ranks=tuple(range(world)))
    return Layout(
        run=run,
        attempt=attempt,
        rank=rank,
        world_size=world,
        host=f"h-{rank // 2}",
        pid=pid + rank,
        began_ns=began_ns,
        groups=(group,),
    )


def make_window(
    rank: int, window: int, *, run: str = "job", attempt: int = 0, num_steps: int = 10, factor: float = 1.0
) -> RankWindow:
    """One rank's window: equal steps, `factor` times the usual length, all in `forward`."""
    first = window * num_steps
    steps = np.zeros(num_steps, STEP)
    steps["step"] = np.arange(first, first + num_steps)
    steps["start_ns"] = steps["step"] * STEP_NS
    steps["end_ns"] = steps["start_ns"] + int(STEP_NS * factor)
    cells = np.zeros(num_steps, PHASE_CELL)
    cells["step"], cells["phase"], cells["native"], cells["count"] = steps["step"], 1, 1, 1
    cells["sum_ns"] = cells["max_ns"] = int(STEP_NS * factor)
    return RankWindow(
        run=run,
        attempt=attempt,
        rank=rank,
        window=window,
        first_step=first,
        num_steps=num_steps,
        host=f"h-{rank // 2}",
        names=("", "forward"),
        steps=steps,
        cells=cells,
    )


def make_beat(
    rank: int,
    *,
    ts_s: float,
    run: str = "job",
    attempt: int = 0,
    state: str = "running",
    step: int = 10,
    p50_s: float = 0.1,
) -> Heartbeat:
    """A rank's heartbeat."""
    status = Status(
        ts_ns=int(ts_s * 1e9), step=step, step_p50_ns=int(p50_s * 1e9), groups={"0": (step, step)}
    )
    host = f"h-{rank // 2}"
    return Heartbeat(run=run, attempt=attempt, rank=rank, host=host, ts_s=ts_s, state=state, status=status)


def upload(*windows: RankWindow) -> bytes:
    """The body of an upload."""
    return encode_windows(window.to_bytes() for window in windows)


@dataclass(frozen=True)
class FakeState:
    """What the fake analysis remembers: the windows it saw and its open incident."""

    run: str
    attempt: int
    launch: int = 0
    seen: tuple[int, ...] = ()
    open: Incident | None = None


@dataclass(frozen=True)
class FakeAdvance:
    """What the fake analysis answers."""

    state: FakeState
    findings: tuple[Finding, ...] = ()
    incidents: tuple[Incident, ...] = ()
    bouts: tuple[Bout, ...] = ()


def fake_advance(
    state: FakeState,
    *,
    topology: Topology,
    now_s: float,
    window: Window | None = None,
    beats: Sequence[Heartbeat] = (),
    outside: Outside = NOTHING,
) -> FakeAdvance:
    """A rank SLOW_RATIO slower than the median is an incident at once; a healthy window resolves it.

    Lost ranks are an incident between windows; a window whose first step is negative or whose number of
    steps is 13 makes it raise.
    """
    if window is None:
        return _look_at_beats(state, beats)
    if window.num_steps == 13:
        raise RuntimeError("thirteen steps")
    state = replace(state, seen=(*state.seen, window.index))
    step_s = np.where(np.isnan(window.step_s), 0.1, window.step_s).mean(axis=1)
    slow = tuple(int(r) for r in window.ranks[step_s > SLOW_RATIO * np.nanmedian(step_s)])
    if not slow:
        return _resolved(state, end_step=window.first_step, index=window.index)
    finding = Finding(
        run=state.run,
        attempt=state.attempt,
        window=window.index,
        level="L2",
        detector="fake",
        kind="self_time",
        role="culprit",
        ranks=slow,
        ratio=float("nan"),
        launch=state.launch,
    )
    incident = _incident(
        state, slow, "compute.slow", window=window.index, step=window.first_step, ids=(finding.id,)
    )
    return FakeAdvance(replace(state, open=incident), (finding,), (incident,))


def _look_at_beats(state: FakeState, beats: Sequence[Heartbeat]) -> FakeAdvance:
    if beats and all(beat.state == "ended" for beat in beats):
        return _resolved(state, end_step=max(beat.status.step for beat in beats), index=0)
    lost = tuple(beat.rank for beat in beats if beat.state == "lost")
    if not lost or state.open is not None:
        return FakeAdvance(state)
    index = state.seen[-1] if state.seen else 0
    incident = _incident(state, lost, "stop.lost", window=index, step=0, ids=())
    return FakeAdvance(replace(state, open=incident), (), (incident,))


def _resolved(state: FakeState, *, end_step: int, index: int) -> FakeAdvance:
    if state.open is None:
        return FakeAdvance(state)
    closed = replace(
        state.open, status="resolved", end_step=end_step, last_window=max(index, state.open.last_window)
    )
    return FakeAdvance(replace(state, open=None), (), (closed,))


def _incident(
    state: FakeState,
    ranks: tuple[int, ...],
    fault_class: str,
    *,
    window: int,
    step: int,
    ids: tuple[str, ...],
) -> Incident:
    before = state.open
    cost = Cost(s_per_step=0.1, share_of_step=0.5, gpu_hours_so_far=0.0, gpu_hours_per_day=1.0, method="fake")
    scope = f"rank:{ranks[0]}"
    cause = Cause(fault_class=fault_class, verdict="LIKELY", suspects=ranks, scope=scope, findings=ids)
    return Incident(
        run=state.run,
        attempt=state.attempt,
        launch=state.launch,
        status="open",
        severity="warning",
        cause=cause,
        onset_step=before.onset_step if before else step,
        end_step=None,
        opened_window=before.opened_window if before else window,
        last_window=window,
        cost=cost,
    )


def fake_diagnose(
    incident: Incident, *, findings: Sequence[Finding], topology: Topology, missing: Sequence[str] = ()
) -> dict[str, Any]:
    """Names the suspects and the findings it was given."""
    told = {"headline": f"rank {incident.cause.suspects[0]}", "findings": [item.id for item in findings]}
    return {**no_incident(num_ranks=topology.world_size), **told}


def fake_render(incident: Incident, diagnosis: Mapping[str, Any], *, topology: Topology | None = None) -> str:
    """One line."""
    assert topology is not None
    return f"{incident.cause.fault_class}: {diagnosis['headline']} of {topology.world_size}"


def fake_restore(
    state: FakeState, incidents: Sequence[Incident], bouts: Sequence[Bout], eras: Eras | None = None
) -> FakeState:
    """The state with the one incident that may be open."""
    return replace(state, open=incidents[0] if incidents else None)


def fake_begin(run: str, attempt: int, *, launch: int = 0) -> Course:
    """The fake's course."""
    return Following(state=FakeState(run, attempt, launch), advance=fake_advance, restore=fake_restore)


FAKE_ANALYSES = Analyses(begin=fake_begin, diagnose=fake_diagnose, render=fake_render)


def new_store(path: Path) -> Store:
    """A migrated SQLite store; what is in the file already stays."""
    if not path.exists():
        path.write_bytes(_empty_store())
    return open_store(str(path))


@cache
def _empty_store() -> bytes:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "empty.sqlite"
        store = open_store(str(path))
        upgrade(store)
        store.close()
        return path.read_bytes()


def new_service(
    store: Store, *, clock: FakeClock, analyses: Analyses | None = None, **settings: Any
) -> Service:
    """A service with the fake analysis unless told; its worker is not started."""
    return make_service(
        settings=Settings(**{"settle_s": 0.0, **settings}),
        store=store,
        analyses=analyses or FAKE_ANALYSES,
        clock=clock,
    )


@contextmanager
def service_at(path: Path, *, clock: FakeClock, **settings: Any) -> Iterator[Service]:
    """A service on a file that is closed afterwards."""
    store = new_store(path)
    try:
        yield new_service(store, clock=clock, **settings)
    finally:
        store.close()


def layouts_body(
    world: int = 4, *, run: str = "job", attempt: int = 0, pid: int = 100, began_ns: int = 0
) -> bytes:
    """The request body that announces every rank of a job."""
    from argus.analytics.store.documents import dump

    layouts = [
        make_layout(rank, run=run, attempt=attempt, world=world, pid=pid, began_ns=began_ns).to_json()
        for rank in range(world)
    ]
    return dump({"layouts": layouts}).encode()


def beats_body(*beats: Heartbeat) -> bytes:
    """The request body of heartbeats."""
    from argus.analytics.store.documents import dump

    return dump({"host": beats[0].host, "heartbeats": [beat.to_json() for beat in beats]}).encode()
