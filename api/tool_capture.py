"""The one effect of a tool: raw records ordered from hosts, a few times an hour each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from argus.agent.context import Capture, Denied
from argus.agent.evidence import Json
from argus.analytics.store import asked, orders, queries
from argus.api.captures import Refused, Wanted, capture_ranks
from argus.api.service import Service

MAX_PER_HOST = 4
"""Captures of one host in `SPAN_S`: each reads its raw ring and uploads megabytes beside the training."""

SPAN_S = 3600.0


def capture_for(service: Service) -> Capture:
    """Captures by this service, refused where a host has given enough."""

    def capture(run: str, attempt: int, ranks: Sequence[int], last: int) -> Json:
        with service.store.read() as connection:
            which = queries.attempt_of(connection, run, attempt=attempt)
            if which is None:
                raise Denied(f"no attempt {attempt} of run {run!r}")
            hosts = orders.hosts_of(connection, which.id)
            recent = asked.captured_since(connection, which.id, since_s=service.clock() - SPAN_S)
        used = Counter(host for past in recent for host in {hosts.get(rank) for rank in past})
        full = sorted({hosts[r] for r in ranks if r in hosts and used[hosts[r]] >= MAX_PER_HOST})
        if full:
            raise Denied(f"{', '.join(full[:4])} gave {MAX_PER_HOST} captures in the last hour: ask later")
        try:
            ordered = capture_ranks(service, Wanted(which=which, ranks=ranks, last=last))
        except Refused as error:
            raise Denied(str(error)) from None
        kept = ("id", "ranks", "first_step", "end_step", "hosts")
        return {"fetch": f"/v1/captures/{ordered['id']}", **{name: ordered[name] for name in kept}}

    return capture
