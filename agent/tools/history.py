"""What happened before: to a host or a GPU, and in incidents like this one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime
from statistics import median
from typing import Annotated

from argus.agent.context import ToolContext, Unknown, fleet_of, incident_of
from argus.agent.evidence import Answer, AsOf, Cut, Json
from argus.agent.facts import UnitDay, UnitHistory
from argus.agent.rows import MAX_NAME, number
from argus.agent.schema import ArgumentError
from argus.agent.similar import Likeness, similar_to
from argus.analytics.outcome import Outcome
from argus.analytics.outside import unit_of
from argus.collectors.records.text import tame
from argus.topology.facts import kind_of_id, name_of_id

MAX_ROWS = 8
MAX_UNITS = 12
MAX_OUTCOMES = 4

DAY_S = 86_400.0


def call(
    context: ToolContext,
    *,
    node: Annotated[str | None, "host:…, gpu:… or rank:N: its record over runs"],
    incident: Annotated[str | None, "id: past incidents like it"],
) -> Answer:
    """The record of a host or GPU over runs, or past incidents that resemble one by class, place and shape,
    with how they ended, what was done and whether it helped. A repeat on the same hardware is evidence, a repeat elsewhere is a pattern."""
    if (node is None) == (incident is None):
        raise ArgumentError("name either a node or an incident")
    return _like(context, incident) if incident is not None else _record(context, str(node))


def _record(context: ToolContext, node: str) -> Answer:
    """Of a rank: of the GPU it runs on now."""
    host, device = _unit(context, node)
    kept = context.facts.history(host=host, device=device)
    if kept is None:
        raise Unknown("no history of hosts and GPUs is kept here")
    if not kept.days and not kept.bouts:
        return Answer(status="no_data", note=f"nothing is remembered of {tame(node, MAX_NAME)}")
    rows = sorted(_subjects(kept.days), key=lambda row: -abs((row["last_ratio"] or 1.0) - 1.0))
    bouts = _bouts(kept)
    lists = {"subjects": (rows, MAX_UNITS), "bouts": (bouts, MAX_ROWS)}
    cut = tuple(
        Cut(path=f"/{k}", shown=most, total=len(v)) for k, (v, most) in lists.items() if len(v) > most
    )
    data: Json = {
        "node": tame(node, MAX_NAME),
        "num_runs_bad": len({bout.run for bout in kept.bouts}),
        **{key: items[:most] for key, (items, most) in lists.items()},
    }
    return Answer(data=data, cut=cut)


def _unit(context: ToolContext, node: str) -> tuple[str | None, str | None]:
    kind, name = kind_of_id(node), name_of_id(node)
    if kind == "rank":
        fleet = fleet_of(context.of_run(None))
        return unit_of(fleet.topology, int(name_of_id(fleet.element(node))))
    if kind == "host":
        return name, None
    if kind == "gpu":
        host, slash, place = name.rpartition("/")
        return (host, place) if slash else (None, name)
    raise ArgumentError(f"node must be a host, a gpu or a rank, got {node[:60]!r}")


def _subjects(days: Sequence[UnitDay]) -> list[Json]:
    """One row a GPU and subject: how it stood beside its peers, first and last."""
    same: dict[tuple[str, str, str], list[UnitDay]] = defaultdict(list)
    for day in days:
        same[day.host, day.device, day.subject].append(day)
    rows = []
    for (host, device, subject), seen in same.items():
        seen.sort(key=lambda day: day.day)
        rows.append(
            {
                "host": tame(host, MAX_NAME),
                "device": tame(device, MAX_NAME),
                "subject": tame(subject, 96),
                "num_days": len(seen),
                "first_day": _date(seen[0].day * DAY_S),
                "last_day": _date(seen[-1].day * DAY_S),
                "first_ratio": number(seen[0].ratio),
                "median_ratio": number(median(day.ratio for day in seen)),
                "last_ratio": number(seen[-1].ratio),
            }
        )
    return rows


def _bouts(kept: UnitHistory) -> list[Json]:
    return [
        {
            "run": tame(bout.run, MAX_NAME),
            "host": tame(bout.host, MAX_NAME),
            "device": tame(bout.device, MAX_NAME),
            "day": _date(bout.since_s),
            "lasted_s": number(bout.until_s - bout.since_s),
            "windows": bout.windows,
        }
        for bout in sorted(kept.bouts, key=lambda bout: -bout.until_s)
    ]


def _date(time_s: float) -> str:
    return datetime.fromtimestamp(time_s, UTC).date().isoformat()


def _like(context: ToolContext, incident_id: str) -> Answer:
    mine = incident_of(context, incident_id)
    past = context.facts.past(mine.cause.fault_class)
    found = similar_to(mine, past, units=context.facts.units_of)
    at = AsOf(run=mine.run, attempt=mine.attempt, window=mine.last_window, step=mine.onset_step)
    if not found:
        return Answer(status="no_data", note=f"no other incident of class {mine.cause.fault_class}", as_of=at)
    became = context.facts.outcomes([one.incident for one in found[:MAX_ROWS]])
    rows = [_row(one, became.get(one.incident.id, ())) for one in found[:MAX_ROWS]]
    cut = (Cut(path="/similar", shown=len(rows), total=len(found)),) if len(rows) < len(found) else ()
    return Answer(data={"num_similar": len(found), "similar": rows}, as_of=at, cut=cut)


def _row(one: Likeness, became: Sequence[Outcome]) -> Json:
    past = one.incident
    advice = (past.diagnosis or {}).get("remediation") or [{}]
    return {
        "id": past.id,
        "run": tame(one.run, MAX_NAME),
        "class": past.cause.fault_class,
        "scope": tame(past.cause.scope, MAX_NAME),
        "hosts": [tame(host, MAX_NAME) for host in one.hosts[:4]],
        "same": list(one.same),
        "verdict": past.cause.verdict,
        "status": past.status,
        "day": None if one.opened_s is None else _date(one.opened_s),
        "onset_step": past.onset_step,
        "end_step": past.end_step,
        "ended": tame(past.ended, 120),
        "gpu_hours": number(past.cost.gpu_hours_so_far),
        "advised": tame(str(advice[0].get("action", "")), 160),
        "outcomes": [_outcome(item) for item in became[-MAX_OUTCOMES:]],
    }


def _outcome(one: Outcome) -> Json:
    """What was done, by whose word, and whether it helped."""
    return {
        "did": tame(one.did, 120),
        "action": tame(one.action, MAX_NAME),
        "result": one.result,
        "source": one.source,
        "by": tame(one.by, MAX_NAME),
        "day": _date(one.at_s),
        "text": tame(one.text, 160),
    }
