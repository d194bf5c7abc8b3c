"""Heartbeats as they look now: older than they came in, and lost with a host that went silent."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from argus.analytics.store.progress import HeardBeat
from argus.api.watch import Watch
from argus.collectors.records.heartbeat import Heartbeat

AFTER_LOSS_S = 5.0
"""How long after a loss the others may still begin a step: the silence begins with the last upload, which
comes every 5 s, and not with the loss."""

SKEW_S = 10.0
"""How far a host's clock may be from the service's before its times are read on the service's: more than an upload
takes, less than any silence that counts."""


def beats_now(watch: Watch, *, now_s: float, floor_s: float, silent_s: float) -> tuple[Heartbeat, ...]:
    """The attempt's heartbeats as they look now; see `seen_now`."""
    stops = [one.cause for one in watch.kept.values() if one.cause.fault_class == "stop.lost"]
    return seen_now(
        [watch.heard[rank] for rank in sorted(watch.heard)],
        hosts=watch.hosts,
        now_s=now_s,
        floor_s=floor_s,
        silent_s=silent_s,
        lost_before={rank for cause in stops for rank in cause.suspects},
    )


def seen_now(
    heard: Sequence[HeardBeat],
    *,
    hosts: Mapping[str, float],
    now_s: float,
    floor_s: float,
    silent_s: float,
    lost_before: Collection[int] = (),
) -> tuple[Heartbeat, ...]:
    """The beats with their age added; running ranks of a silent host are lost.

    `hosts` maps a host to the time of its last sign of life. Silence before `floor_s` does not count:
    the service itself was not listening. But the hosts of ranks that are told to be lost already
    (`lost_before`) stay silent until they speak: that nobody listened is no sign of life. The silence of
    a host does not count while the others go on step by step: they could not without its ranks, so only
    its processor is gone.
    """
    heard = [on_our_clock(item) for item in heard]
    known = {item.beat.host for item in heard if item.beat.rank in lost_before and _runs(item.beat)}
    last_s: dict[str, float] = {}
    for item in heard:
        host = item.beat.host
        since_s = item.received_s if host in known else max(item.received_s, floor_s)
        last_s[host] = max(last_s.get(host, since_s), since_s)
    last_s = {host: max(at_s, hosts.get(host, 0.0)) for host, at_s in last_s.items()}
    silent = {host for host, at_s in last_s.items() if now_s - at_s > silent_s}
    lost: set[str] = set()
    if silent:
        began_s = max((_step_began_s(item) for item in heard if item.beat.host not in silent), default=0.0)
        lost = {host for host in silent if began_s <= last_s[host] + AFTER_LOSS_S}
    return tuple(
        _seen_now(item, is_lost=item.beat.host in lost, now_s=now_s, floor_s=floor_s) for item in heard
    )


def on_our_clock(item: HeardBeat) -> HeardBeat:
    """The beat with its times on the service's clock, where the clock of its host is far off or has jumped.

    The clock of a rank never jumps, that of its processor does: the difference of the two would be a step open for as
    long as the jump, and that of two hosts the silence of one. `phase_since_ns` stays the rank's own, by which it is
    seen to get on.
    """
    beat, status = item.beat, item.beat.status
    own_s = status.ts_ns * 1e-9 + beat.status_age_s
    if abs(item.received_s - beat.ts_s) <= SKEW_S and abs(beat.ts_s - own_s) <= SKEW_S:
        return item
    since_ns = status.step_since_ns
    if since_ns:
        since_ns = max(round((item.received_s - own_s) * 1e9) + since_ns, 1)
    told = replace(status, step_since_ns=since_ns)
    return replace(item, beat=replace(beat, ts_s=item.received_s, status=told))


def _step_began_s(item: HeardBeat) -> float:
    """When the rank's current step began, by the service's clock; 0 if it did not say."""
    beat = item.beat
    if not _runs(beat) or not beat.status.step_since_ns:
        return 0.0
    return item.received_s - max(beat.ts_s - beat.status.step_since_ns * 1e-9, 0.0)


def _seen_now(item: HeardBeat, *, is_lost: bool, now_s: float, floor_s: float) -> Heartbeat:
    beat = item.beat
    if not _runs(beat):
        return beat
    unheard_s = max(now_s - max(item.received_s, floor_s), 0.0)
    state = "lost" if is_lost else "running"
    return beat.seen(status_age_s=beat.status_age_s + unheard_s, state=state)


def _runs(beat: Heartbeat) -> bool:
    """Whether the rank ran when it was last heard of."""
    return beat.state == "running"
