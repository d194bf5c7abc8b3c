"""The analysis run again on one incident, with everything that came in since it last looked; nothing of it is stored."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from argus.analytics.finding import Finding
from argus.analytics.incident import Incident
from argus.analytics.lifecycle import is_stop
from argus.analytics.store import progress, queries
from argus.analytics.store.engine import Store
from argus.analytics.store.progress import WindowRow
from argus.analytics.view import PAST_WINDOWS
from argus.api.course import Analyses, Course
from argus.api.outside import outside_now, recall
from argus.api.stored_window import missing_evidence, read_window
from argus.api.watch import Watch
from argus.topology.layout import build

LOG = logging.getLogger("argus.analysis")

MIN_WINDOWS = 12
"""Windows seen again at the least: a third of them may be the fault's, the others say what is usual."""

MAX_RANK_WINDOWS = 120_000
"""Rank windows seen again at the most: some twenty seconds of a thread."""

LookAgain = Callable[[Incident], dict[str, Any] | None]
"""The diagnosis of an incident by what is known now; None if it cannot be had or there is no such thing any more."""


@dataclass(kw_only=True)
class _Seen:
    """What the looks brought so far."""

    course: Course
    findings: dict[str, Finding] = field(default_factory=dict)
    incidents: dict[str, Incident] = field(default_factory=dict)
    missing: tuple[str, ...] = ()


def look_again_on(store: Store, analyses: Analyses) -> LookAgain:
    """A second look at any incident of a store."""

    def look_again(incident: Incident) -> dict[str, Any] | None:
        try:
            return _looked(store, analyses, incident)
        except Exception as error:
            LOG.error("the second look at incident %s failed", incident.id, exc_info=error)
            return None

    return look_again


def _looked(store: Store, analyses: Analyses, incident: Incident) -> dict[str, Any] | None:
    if is_stop(incident):  # the heartbeats behind it are looked at every second anyway
        return _as_stored(store, incident)
    with store.read() as connection:
        which = queries.attempt_of_incident(connection, incident.id)
        if which is None:
            return None
        live = progress.attempt_seen(connection, which.id)
        layouts = progress.layouts_of(connection, which.id)
        past = progress.last_windows(connection, which.id, limit=PAST_WINDOWS)
    begun = analyses.begin(incident.run, incident.attempt, launch=incident.launch)
    watch = Watch(live=live, course=begun)
    if not layouts:
        return None
    watch.topology = build(layouts)
    recall(store, watch)
    rows = _rows(past, incident, world_size=watch.topology.world_size)
    if not rows:
        return None
    seen = _Seen(course=watch.course.restored(_before(incident, rows[0]), watch.bouts))
    for row in rows:
        _look(store, watch, row, seen)
    return _diagnosed(analyses, watch, incident, seen)


def _as_stored(store: Store, incident: Incident) -> dict[str, Any] | None:
    with store.read() as connection:
        found = queries.whole_incident(connection, incident.id)
    return None if found is None else found.diagnosis


def _rows(past: list[WindowRow], incident: Incident, *, world_size: int) -> list[WindowRow]:
    """The windows to see again: the last ones that speak of the incident."""
    most = max(MAX_RANK_WINDOWS // max(world_size, 1), MIN_WINDOWS)
    known = [row for row in past if incident.status == "open" or row.window <= incident.last_window]
    return known[-most:] if known and known[-1].window >= incident.last_window else []


def _before(incident: Incident, first: WindowRow) -> list[Incident]:
    """The incident as it stood before the first window, its class open: else its ranks would pass for usual."""
    if incident.opened_window >= first.window:
        return []
    undecided = replace(incident.cause, fault_class="unknown", verdict="INCONCLUSIVE", evidence=())
    return [replace(incident, cause=undecided, status="open", end_step=None)]


def _look(store: Store, watch: Watch, row: WindowRow, seen: _Seen) -> None:
    """One window, as it was, with what is known of its time by now."""
    assert watch.topology is not None and row.analysed_s is not None
    window = read_window(store, watch.live.row.id, row, topology=watch.topology)
    outside = outside_now(store, watch, now_s=row.analysed_s, with_stacks=True)
    look = seen.course.look(
        topology=watch.topology, now_s=row.analysed_s, window=window, beats=(), outside=outside
    )
    seen.course = look.course
    seen.findings |= {finding.id: finding for finding in look.findings}
    seen.incidents |= {one.id: one for one in look.incidents}
    seen.missing = missing_evidence(window)


def _diagnosed(analyses: Analyses, watch: Watch, incident: Incident, seen: _Seen) -> dict[str, Any] | None:
    assert watch.topology is not None
    alike = [one for one in seen.incidents.values() if one.status == "open" and _is_same(one, incident)]
    if not alike:
        return None
    now = max(alike, key=lambda one: one.cost.gpu_hours_per_day)
    behind = [seen.findings[key] for key in now.cause.findings if key in seen.findings]
    told = analyses.diagnose(now, findings=behind, topology=watch.topology, missing=seen.missing)
    return {**told, "past": (incident.diagnosis or {}).get("past", [])}


def _is_same(one: Incident, other: Incident) -> bool:
    """Whether both speak of the same place."""
    mine, theirs = one.cause, other.cause
    shared = set(mine.suspects) & set(theirs.suspects) or set(mine.paths) & set(theirs.paths)
    return mine.scope == theirs.scope or bool(shared)
