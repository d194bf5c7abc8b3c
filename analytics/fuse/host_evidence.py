"""What the hosts' kernels say of a cause: they confirm or contradict it, they never name one."""

from __future__ import annotations

from dataclasses import replace

from argus.analytics.finding import Evidence
from argus.analytics.fuse.counters import check_events
from argus.analytics.host_use import CONTINUED, FLOORS, excess, marked_events, waited_for_cpu
from argus.analytics.incident import Cause
from argus.analytics.outside import Outside
from argus.analytics.view import View

STARVED = "host.cpu_starved"
CONFIRMS = 0.5
"""The kernel's account of the waiting covers at least half of what the suspect lost."""

CONTRADICTS = 0.1
"""It covers less than a tenth: the thread slept or was stopped, nothing took its CPU."""

DIRTY = 0.5
"""A member of a slow group whose waiting for a CPU is worth half of what the group lost may be the cause."""

BLOCKED = frozenset("TtD")
"""Process states that serve no transfer: stopped, traced, in uninterruptible sleep."""


def starvation(cause: Cause, view: View) -> Cause:
    """host.cpu_starved against the run queue and the throttling of the suspects' threads."""
    window = view.window
    lost = cause.share_of_step
    if window is None or cause.fault_class != STARVED or not lost > 0:
        return cause
    found = waited_for_cpu(window, cause.suspects)
    if found is None:
        return cause
    share = (found.value - (found.baseline or 0.0)) / lost
    if all(item.name != found.name for item in cause.evidence):
        cause = replace(cause, evidence=(*cause.evidence, found))
    if share >= CONFIRMS and cause.verdict == "LIKELY":
        return replace(cause, verdict="CONFIRMED")
    if share < CONTRADICTS and cause.verdict == "CONFIRMED":
        return replace(cause, verdict="LIKELY")
    return cause


def clean_members(cause: Cause, view: View) -> Cause:
    """The network is named only when no member waited for a CPU or stood still meanwhile."""
    window = view.window
    if window is None or cause.fault_class != "link.slow":
        return cause
    suspects = frozenset(cause.suspects)
    stopped = [b for b in view.beats if b.rank in suspects and b.process_state[:1] in BLOCKED]
    dirty = tuple(
        Evidence(name="member_state", value=float(beat.rank), unit="rank", note=beat.process_state)
        for beat in stopped
        if beat.process_state
    )
    found = waited_for_cpu(window, cause.suspects)
    if found is not None:
        beyond = found.value - (found.baseline or 0.0)
        if beyond >= max(DIRTY * cause.share_of_step, FLOORS[found.name]):
            dirty = (*dirty, found)
        else:
            cause = replace(cause, evidence=(*cause.evidence, found))
    if not dirty:
        return cause
    return replace(cause, verdict="INCONCLUSIVE", second_best=STARVED, evidence=(*cause.evidence, *dirty))


def host_similarity(cause: Cause, view: View) -> Cause:
    """Suspects of one host that has stood out from the other hosts for some windows on end."""
    window = view.window
    hosts = {view.topology.host_of(rank) for rank in cause.suspects}
    if window is None or len(hosts) != 1 or "" in hosts:
        return cause
    [host] = hosts
    earlier = [digest for digest in view.past if digest.index < window.index][-(CONTINUED - 1) :]
    if len(earlier) < CONTINUED - 1 or any(host not in digest.odd_hosts for digest in earlier):
        return cause
    found = tuple(
        Evidence(name="host_excess", value=by[host], unit="ratio" if "ratio" in name else "1/s", note=name)
        for name, by in ((name, excess(window, name)) for name in FLOORS)
        if host in by
    )
    if not found:
        return cause
    firmer = cause.verdict == "LIKELY" and cause.fault_class.startswith("host.")
    verdict = "CONFIRMED" if firmer else cause.verdict
    return replace(cause, verdict=verdict, evidence=(*cause.evidence, *found))


def device_marks(cause: Cause, view: View) -> Cause:
    """Throttled GPUs and troubled ports of the window, weighed like events that others tell."""
    window = view.window
    events = () if window is None else marked_events(window, now_s=view.now_s)
    return check_events(cause, replace(view, outside=Outside(events=events))) if events else cause
