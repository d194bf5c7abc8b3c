"""What every host, rank and part of a run sees, and what was lost on the way."""

from __future__ import annotations

from sqlalchemy import Connection

from argus.analytics.store import control, levels, observations, queries
from argus.analytics.store.queries import Json, Which
from argus.collectors.host.reporting import product_version
from argus.collectors.records.channels import off_at
from argus.collectors.records.upload import OLDEST_WIRE, WIRE_VERSION

MAX_RANKS = 1 << 20
MAX_CHANGES = 8
"""Changes of the governor that are shown, the newest first."""


def run_status(connection: Connection, which: Which, *, now_s: float, mixed: str = "") -> Json:
    """The status document of an attempt: versions, switch, last window's coverage, hosts with their ranks.

    `mixed` says that it is two jobs under one name, "" if it is one.
    """
    beats = queries.heartbeats(connection, which.id, limit=MAX_RANKS, offset=0).items
    by_host: dict[str, list[Json]] = {}
    for beat in beats:
        by_host.setdefault(beat["host"], []).append(beat)
    hosts = sorted(by_host)
    reports = control.reports(connection, hosts)
    samples = observations.latest_samples(connection, hosts)
    last = queries.windows(connection, which.id, status="analysed", limit=1, offset=0).items
    key = (which.run, which.attempt)
    level, from_step = levels.levels_of(connection, [key])[key]
    return {
        "run": which.run,
        "attempt": which.attempt,
        "service": {"version": product_version(), "wire": WIRE_VERSION, "oldest_wire": OLDEST_WIRE},
        "is_off": control.switches(connection, [which.run]).get(which.run, False),
        "mixed": mixed,
        "governor": {
            "channels_off": list(off_at(level)),
            "from_step": from_step,
            "changes": levels.changes(connection, key, limit=MAX_CHANGES),
        },
        "window": last[0] if last else None,
        "hosts": [
            {
                "host": host,
                "processor": _aged(reports.get(host), now_s),
                "sample": _aged(samples.get(host), now_s),
                "ranks": [_rank(beat, now_s) for beat in by_host[host]],
            }
            for host in hosts
        ],
    }


def _aged(document: Json | None, now_s: float) -> Json | None:
    return None if document is None else {**document, "age_s": max(0.0, now_s - document["received_s"])}


def _rank(beat: Json, now_s: float) -> Json:
    status = beat["status"]
    return {
        "rank": beat["rank"],
        "state": beat["state"],
        "process_state": beat["process_state"],
        "step": status["step"],
        "phase": status["phase"],
        "in_mark": status["in_mark"],
        "overhead": beat.get("overhead") or {},
        "channels_off": beat.get("channels_off") or [],
        "step_p50_s": status["step_p50_ns"] * 1e-9,
        "age_s": max(0.0, now_s - beat["received_s"]) + beat["status_age_s"],
    }
