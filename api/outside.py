"""What others than the ranks told of an attempt lately, read for one look at it."""

from __future__ import annotations

from argus.analytics.baseline import DAY_S
from argus.analytics.fuse.counters import AFTER_S, BEFORE_S
from argus.analytics.outside import Outside, unit_of
from argus.analytics.store import events, history, observations
from argus.analytics.store.engine import Store
from argus.analytics.store.queries import Which
from argus.api.facts import change_since_restart
from argus.api.watch import Watch

MAX_EVENTS = 500
"""Events one look takes in, the latest: a flood about other nodes must not slow down every window."""

STACKS_S = 900.0
"""How far back stacks are looked at: a window lasts a minute, and a dump is sent within seconds."""

MAX_STACKS = 400
"""Dumps one look takes in, the latest; a suspect has few, its host takes four a second at most."""


def outside_now(store: Store, watch: Watch, *, now_s: float, with_stacks: bool) -> Outside:
    """Events of the last hours; where a window is looked at, also stacks and what a restart changed."""
    row = watch.live.row
    with store.read() as connection:
        told = events.events_between(
            connection, since_s=now_s - 24 * BEFORE_S, until_s=now_s + AFTER_S, limit=MAX_EVENTS
        )
        if not with_stacks:
            return Outside(events=told, change=watch.change, other_runs=watch.other_runs)
        stacks = observations.dumps_since(connection, row, since_s=now_s - STACKS_S, limit=MAX_STACKS)
        if not watch.is_compared:
            which = Which(id=row.id, run=row.run, attempt=row.attempt)
            watch.is_compared, watch.change = change_since_restart(connection, which)
    return Outside(events=told, stacks=stacks, change=watch.change, other_runs=watch.other_runs)


def recall(store: Store, watch: Watch) -> None:
    """What is remembered of the attempt's GPUs: their bouts of the last day, the runs they were bad in."""
    topology, row = watch.topology, watch.live.row
    assert topology is not None
    units = {rank: unit_of(topology, rank) for rank in topology.ranks if topology.host_of(rank)}
    since_s = watch.live.last_seen_s - DAY_S
    with store.read() as connection:
        watch.bouts = history.bouts_since(connection, row.id, topology=topology, since_s=since_s)
        others = history.other_runs(connection, row.run, list(units.values()))
    watch.other_runs = {rank: others[unit] for rank, unit in units.items() if unit in others}
