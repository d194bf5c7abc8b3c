"""What other sources say of nodes: the kernel log, GPU and port counters, alerts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from argus.agent.context import ToolContext, Unknown, as_of, fleet_of
from argus.agent.evidence import Answer, Cut, Json
from argus.agent.facts import RunFacts
from argus.agent.rows import DOC_RUN, MAX_NAME, number
from argus.analytics.outside import ranks_under
from argus.collectors.records.host_sample import HostSample, PartState
from argus.collectors.records.outside_event import OutsideEvent
from argus.collectors.records.text import tame
from argus.topology.facts import kind_of_id, name_of_id
from argus.topology.fleet import Fleet

MAX_READ = 2_000
"""Events looked through for those of the node."""

MAX_ROWS = 20
MAX_PARTS = 8
MAX_NUMBERS = 24


def call(
    context: ToolContext,
    *,
    run: Annotated[str | None, DOC_RUN],
    node: Annotated[str | None, "rank:3, host:h-1, …; null = all of the run"],
    since_s: Annotated[float | None, "Unix time; null = all that is kept"],
) -> Answer:
    """Out-of-band events of a node (Xid, ECC, port down, OOM, alerts) and the last counters of its host.
    They confirm or contradict a suspect and never make one: an event off the suspects' path rules nothing in."""
    facts = context.of_run(run)
    fleet = fleet_of(facts)
    hosts = _hosts(fleet, node) if node else ()
    nodes = (fleet.element(node), *(f"host:{host}" for host in hosts)) if node else ()
    events = facts.events(nodes=nodes, since_s=since_s, limit=MAX_READ)
    samples = _samples(facts, hosts)
    if events is None and not samples:
        raise Unknown("no out-of-band events and no samples of hosts are kept here")
    mine = [one for one in events or () if node is not None or _is_ours(fleet, one)]
    rows = [_row(one) for one in mine[:MAX_ROWS]]
    data: Json = {"num_events": len(mine), "events": rows, "hosts": samples}
    cut = (Cut(path="/events", shown=len(rows), total=len(mine)),) if len(rows) < len(mine) else ()
    if not mine and not samples:
        return Answer(status="no_data", data=data, note="no event of this node", as_of=as_of(facts))
    away = hosts and not samples
    note = f"no sample of {', '.join(hosts[:4])} came in" if away else ""
    return Answer(data=data, status="gap" if away else "ok", note=note, as_of=as_of(facts), cut=cut)


def _hosts(fleet: Fleet, node: str) -> tuple[str, ...]:
    """The hosts a node is on."""
    element = fleet.element(node)
    if kind_of_id(element) == "host":
        return (name_of_id(element),)
    return tuple(dict.fromkeys(filter(None, map(fleet.topology.host_of, fleet.ranks_of(element)))))


def _samples(facts: RunFacts, hosts: tuple[str, ...]) -> list[Json]:
    found = facts.samples(hosts[:2]) or {}
    return [_sample(found[host]) for host in hosts if host in found]


def _is_ours(fleet: Fleet, event: OutsideEvent) -> bool:
    """Whether it is about something of this run."""
    return bool(ranks_under(fleet.topology, event.node)) or event.node in fleet.ranks.index


def _row(event: OutsideEvent) -> Json:
    return {
        "time_s": event.time_s,
        "node": tame(event.node, MAX_NAME),
        "source": tame(event.source, 40),
        "kind": tame(event.kind, 40),
        "value": number(event.value),
        "text": tame(event.text, 160),
    }


def _sample(sample: HostSample) -> Json:
    return {
        "host": tame(sample.host, MAX_NAME),
        "time_s": sample.end_s,
        "span_s": number(sample.end_s - sample.start_s),
        "numbers": _numbers(sample.numbers),
        "gpus": [_part(one) for one in sample.gpus[:MAX_PARTS]],
        "ports": [_part(one) for one in sample.ports[:MAX_PARTS]],
    }


def _part(part: PartState) -> Json:
    flags = [tame(flag, 40) for flag in part.flags[:8]]
    return {"name": tame(part.name, 64), "flags": flags, "numbers": _numbers(part.numbers)}


def _numbers(numbers: Mapping[str, float]) -> Json:
    return {tame(k, 40): number(v) for k, v in sorted(numbers.items())[:MAX_NUMBERS]}
