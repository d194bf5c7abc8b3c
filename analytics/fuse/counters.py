"""Test 9, counters and out-of-band events: they confirm or contradict a cause, and never make one.

An event counts if it is of the time of the fault and about the job's own nodes. One that fits the class and
the suspects makes a likely cause a confirmed one. One that tempts to another class, lies off the suspects'
path, or tells a counter that does not grow, is ruled out with its reason (argus-paper.md §6, case 5).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from argus.analytics.finding import Evidence
from argus.analytics.incident import Cause, RuledOut
from argus.analytics.outside import has_grown, ranks_under
from argus.analytics.view import View
from argus.collectors.records.outside_event import OutsideEvent

SPEAKS_OF: Mapping[str, tuple[str, ...]] = {
    "xid": ("compute", "stop"),
    "ecc": ("compute", "stop"),
    "remap": ("compute", "stop"),
    "thermal": ("compute",),
    "power": ("compute",),
    "clock": ("compute",),
    "gpu_lost": ("stop", "compute"),
    "sxid": ("link", "stop"),
    "nvlink": ("link",),
    "pcie": ("link", "compute"),
    "aer": ("link", "compute"),
    "port_down": ("link", "stop"),
    "port_errors": ("link",),
    "congestion": ("link",),
    "oom": ("stop", "host"),
    "cpu": ("host",),
    "storage": ("data", "host"),
    "probe_gemm": ("compute",),
    "probe_copy": ("compute", "link"),
    "probe_allreduce": ("link",),
}
"""What a kind of event is a sign of: the first part of cause classes, the most tempting one first."""

TEMPTS = {
    "compute": "compute.slow",
    "link": "link.slow",
    "host": "host.cpu_starved",
    "data": "data.slow_loader",
    "stop": "stop.lost",
}
"""The class an event of a sort would make one believe in."""

BEFORE_S = 3600.0
"""A sign may come an hour before the slowdown it leads to: a link flaps before it falls back."""

AFTER_S = 60.0
"""Clocks of those who tell events are not ours."""

MAX_NAMED = 3
"""Events told of one sort; all are in /v1/events."""

PROBE_SLOW, PROBE_WELL = 1.10, 1.05
"""A probe's time over its healthy peers': from here on it is slow, below it is well, between it says nothing."""


def check_events(cause: Cause, view: View) -> Cause:
    """The cause with what others said of its time and place."""
    events = [
        event for event in view.outside.events if event.kind in SPEAKS_OF and _is_then(event, cause, view)
    ]
    signs: list[Evidence] = []
    against: list[Evidence] = []
    ruled_out: list[RuledOut] = []
    for event in _latest(events):
        ranks = ranks_under(view.topology, event.node)
        if not ranks or _says_nothing(event):
            continue
        is_here = bool(set(ranks) & set(cause.suspects))
        fits = cause.fault_class.partition(".")[0] in SPEAKS_OF[event.kind]
        if is_here and fits and _contradicts(event):
            against.append(_evidence("probe_well", event))
        elif is_here and fits and has_grown(event, events) is not False:
            signs.append(_evidence("event_for", event))
        elif not _contradicts(event):
            ruled_out += _not_that(event, cause, view, is_here=is_here, events=events)
    return _weighed(cause, signs[:MAX_NAMED], against[:MAX_NAMED], ruled_out[:MAX_NAMED])


def _weighed(
    cause: Cause, signs: Sequence[Evidence], against: Sequence[Evidence], ruled_out: Sequence[RuledOut]
) -> Cause:
    """A sign and a contradiction cancel out; neither makes a verdict where timing made none."""
    verdict = cause.verdict
    if signs and not against and verdict == "LIKELY":
        verdict = "CONFIRMED"
    if against and not signs and verdict == "CONFIRMED":
        verdict = "LIKELY"
    known = {(item.fault_class, item.why) for item in cause.ruled_out}
    new = [item for item in ruled_out if (item.fault_class, item.why) not in known]
    return replace(
        cause,
        verdict=verdict,
        evidence=(*cause.evidence, *signs, *against),
        ruled_out=(*cause.ruled_out, *new),
    )


def _is_then(event: OutsideEvent, cause: Cause, view: View) -> bool:
    """Whether the event is of the time of the fault, as far as that is known."""
    digest = view.digest or (view.past[-1] if view.past else None)
    step_s = digest.typical_step_s if digest is not None else 0.0
    last = digest.first_step + digest.num_steps if digest is not None else cause.onset_step
    lasted_s = max(last - cause.onset_step, 0) * (step_s if math.isfinite(step_s) else 0.0)
    return view.now_s - lasted_s - BEFORE_S <= event.time_s <= view.now_s + AFTER_S


def _latest(events: Sequence[OutsideEvent]) -> list[OutsideEvent]:
    """The newest word of each source on each node and kind, the newest first."""
    last: dict[tuple[str, str, str], OutsideEvent] = {}
    for event in sorted(events, key=lambda each: (each.time_s, each.id)):
        last[event.node, event.source, event.kind] = event
    return sorted(last.values(), key=lambda each: (-each.time_s, each.id))


def _is_probe(event: OutsideEvent) -> bool:
    return event.kind.startswith("probe_") and event.value is not None


def _says_nothing(event: OutsideEvent) -> bool:
    return _is_probe(event) and PROBE_WELL <= (event.value or 0.0) < PROBE_SLOW


def _contradicts(event: OutsideEvent) -> bool:
    return _is_probe(event) and (event.value or 0.0) < PROBE_WELL


def _evidence(name: str, event: OutsideEvent) -> Evidence:
    """The event as one number: a counter's reading, a probe's ratio, else 1 for that it was said."""
    unit = "x" if _is_probe(event) else ""
    return Evidence(
        name="probe_slow" if _is_probe(event) and name == "event_for" else name,
        value=1.0 if event.value is None else event.value,
        unit=unit,
        note=f"{event.kind.replace('_', ' ')} on {event.node} ({event.source})",
    )


def _not_that(
    event: OutsideEvent, cause: Cause, view: View, *, is_here: bool, events: Sequence[OutsideEvent]
) -> list[RuledOut]:
    """Why an event is no sign of the cause; nothing where it tempts to nothing else."""
    said = f"{event.kind.replace('_', ' ')} on {event.node} ({event.source})"
    families = SPEAKS_OF[event.kind]
    family = cause.fault_class.partition(".")[0]
    tempting = TEMPTS[family] if family in families else TEMPTS[families[0]]
    if has_grown(event, events) is False:
        why = f"{said} tells a counter that does not grow: history, not cause"
    elif not is_here:
        why = f"{said} is not on the path of the suspects"
    elif families[0] == "link" and family in ("compute", "host", "data"):
        why = f"{said} explains no lateness: the suspects are late by their own work, before any transfer begins"
    elif families[0] == "link":
        return []
    else:
        why = f"{said}, but the numbers point to {cause.fault_class}"
    return [RuledOut(fault_class=tempting, why=why, evidence=(_evidence("event_against", event),))]
