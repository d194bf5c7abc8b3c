"""Heartbeats as they look now: older than they came in, and lost with a host that went silent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from argus.analytics.store.progress import HeardBeat
from argus.collectors.records.heartbeat import Heartbeat

AFTER_LOSS_S = 5.0
"""How long after a loss the others may still begin a step: the silence begins with the last upload, which
comes every 5 s, and not with the loss."""


def seen_now(
    heard: Sequence[HeardBeat], *, hosts: Mapping[str, float], now_s: float, floor_s: float, silent_s: float
) -> tuple[Heartbeat, ...]:
    """The beats with their age added; running ranks of a silent host are lost.

    `hosts` maps a host to the time of its last sign of life. Silence before `floor_s` does not count:
    the service itself was not listening. Nor does the silence of a host while the others go on step by
    step: they could not without its ranks, so only its processor is gone.
    """
    last_s: dict[str, float] = {}
    for item in heard:
        host = item.beat.host
        last_s[host] = max(last_s.get(host, floor_s), item.received_s)
    last_s = {host: max(at_s, hosts.get(host, 0.0)) for host, at_s in last_s.items()}
    silent = {host for host, at_s in last_s.items() if now_s - at_s > silent_s}
    lost: set[str] = set()
    if silent:
        began_s = max((_step_began_s(item) for item in heard if item.beat.host not in silent), default=0.0)
        lost = {host for host in silent if began_s <= last_s[host] + AFTER_LOSS_S}
    return tuple(
        _seen_now(item, is_lost=item.beat.host in lost, now_s=now_s, floor_s=floor_s) for item in heard
    )


def _step_began_s(item: HeardBeat) -> float:
    """When the rank's current step began, by the service's clock; 0 if it did not say."""
    beat = item.beat
    if beat.state != "running" or not beat.status.step_since_ns:
        return 0.0
    return item.received_s - max(beat.ts_s - beat.status.step_since_ns * 1e-9, 0.0)


def _seen_now(item: HeardBeat, *, is_lost: bool, now_s: float, floor_s: float) -> Heartbeat:
    beat = item.beat
    if beat.state != "running":
        return beat
    unheard_s = max(now_s - max(item.received_s, floor_s), 0.0)
    state = "lost" if is_lost else "running"
    return beat.seen(status_age_s=beat.status_age_s + unheard_s, state=state)
