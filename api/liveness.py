"""Heartbeats as they look now: older than they came in, and lost with a host that went silent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from argus.analytics.store.progress import HeardBeat
from argus.collectors.records.heartbeat import Heartbeat


def seen_now(
    heard: Sequence[HeardBeat], *, hosts: Mapping[str, float], now_s: float, floor_s: float, silent_s: float
) -> tuple[Heartbeat, ...]:
    """The beats with their age added; running ranks of a silent host are lost.

    `hosts` maps a host to the time of its last sign of life. Silence before `floor_s` does not count:
    the service itself was not listening.
    """
    return tuple(
        _seen_now(item, hosts=hosts, now_s=now_s, floor_s=floor_s, silent_s=silent_s) for item in heard
    )


def _seen_now(
    item: HeardBeat, *, hosts: Mapping[str, float], now_s: float, floor_s: float, silent_s: float
) -> Heartbeat:
    beat = item.beat
    if beat.state != "running":
        return beat
    unheard_s = now_s - max(item.received_s, floor_s)
    silence_s = min(unheard_s, now_s - max(hosts.get(beat.host, 0.0), floor_s))
    state = "lost" if silence_s > silent_s else "running"
    return replace(beat, status_age_s=beat.status_age_s + max(unheard_s, 0.0), state=state)
