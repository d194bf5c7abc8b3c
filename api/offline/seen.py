"""What others than the ranks saw of a job: scrapes, logs and stacks in, witnesses of its diagnosis out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from argus.agent.triage import no_incident
from argus.analytics.host_frames import against_peers
from argus.analytics.outside import NOTHING, Outside, ranks_under
from argus.api.report import Report, Stack
from argus.collectors.job import Job
from argus.collectors.readers import Reading
from argus.collectors.records.events import RankRecords
from argus.collectors.records.outside_event import OutsideEvent
from argus.collectors.records.stacks import StackDump
from argus.topology.layout import Topology, build

ORDER_S = 1e-3
"""Events that do not say when are taken as told one after the other in the order of their files."""

MAX_STACKS = 16


@dataclass(frozen=True, kw_only=True)
class Seen:
    """Events in the order of the files, other names of their nodes, and stacks."""

    events: tuple[OutsideEvent, ...] = ()
    also: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    stacks: tuple[StackDump, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.events or self.stacks)

    def to_json(self) -> list[dict[str, Any]]:
        """Each event once."""
        unique = {(e.node, e.source, e.text): e for e in self.events}
        return [
            {"node": e.node, "source": e.source, "kind": e.kind, "value": e.value, "text": e.text}
            for e in unique.values()
        ]


def seen_by(readings: Iterable[Reading]) -> Seen:
    """Everything the files tell as witnesses."""
    readings = tuple(readings)
    also: dict[str, tuple[str, ...]] = {}
    for reading in readings:
        also |= reading.also
    return Seen(
        events=tuple(event for reading in readings for event in reading.events),
        also=also,
        stacks=tuple(dump for reading in readings for dump in reading.stacks),
    )


def outside_of(seen: Seen, job: Job, topology: Topology) -> Outside:
    """The witnesses as those of this job: on its nodes, at its time, with its last step."""
    if not seen:
        return NOTHING
    now_s = end_s(job)
    last = job.first_step + job.num_steps - 1
    stacks = tuple(
        replace(dump, run=topology.run, attempt=topology.attempt, step=last, ts_s=now_s)
        for dump in seen.stacks
    )
    return Outside(events=_placed(seen, topology, now_s=now_s), stacks=stacks)


def end_s(job: Job) -> float:
    """When the job's last step ended, by its own clock; 0 without steps."""
    return max((int(one.steps["end_ns"].max()) * 1e-9 for one in job.records if len(one.steps)), default=0.0)


def start_s(job: Job) -> float:
    """When the job's first step began, by its own clock; 0 without steps."""
    return min(
        (int(one.steps["start_ns"].min()) * 1e-9 for one in job.records if len(one.steps)), default=0.0
    )


def _placed(seen: Seen, topology: Topology, *, now_s: float) -> tuple[OutsideEvent, ...]:
    """Events by the name the job knows their node by. A counter told once is a note: it shows no growth."""
    readings: dict[tuple[str, str, str, str], int] = defaultdict(int)
    for event in seen.events:
        readings[_counter(event)] += 1
    placed = []
    for index, event in enumerate(seen.events):
        names = (event.node, *seen.also.get(event.node, ()), *_as_run(event.node, topology))
        node = next((name for name in names if ranks_under(topology, name)), event.node)
        is_alone = event.value is not None and event.kind != "clock" and readings[_counter(event)] < 2
        placed.append(
            replace(
                event,
                node=node,
                kind="" if is_alone else event.kind,
                time_s=event.time_s or now_s - (len(seen.events) - index) * ORDER_S,
            )
        )
    return tuple(placed)


def _as_run(node: str, topology: Topology) -> tuple[str, ...]:
    """A log does not know the name of its run."""
    return (f"run:{topology.run}",) if node.startswith("run:") else ()


def _counter(event: OutsideEvent) -> tuple[str, str, str, str]:
    """What makes two readings those of one counter: its text without the number at its beginning."""
    return event.node, event.source, event.kind, event.text.partition(" ")[2]


def analyse_seen(readings: Sequence[Reading], *, warnings: Sequence[str] = ()) -> Report:
    """A report where there are witnesses only: what they say, and that nobody can be accused by it."""
    seen = seen_by(readings)
    layouts = [reading.records.layout for reading in readings if reading.stacks]
    layouts = layouts or [readings[0].records.layout]
    world = max(layout.world_size for layout in layouts)
    by_rank = {layout.rank: replace(layout, world_size=world, run="seen") for layout in layouts}
    job = Job(
        records=tuple(RankRecords(layout=by_rank[rank]) for rank in sorted(by_rank) if seen.stacks),
        world_size=world,
        first_step=0,
        num_steps=0,
        warnings=(),
    )
    what = "profiled stacks" if seen.stacks else "what others saw"
    return Report(
        job=job,
        topology=build(by_rank.values()),
        windows=(),
        collectives=(),
        findings=(),
        incidents=(),
        diagnosis=no_incident(
            missing=("the ranks' own times: steps, phases, collectives",),
            doubt="no file tells how long the ranks took, these only say what they did or what was seen of them",
            num_ranks=len(by_rank),
        ),
        warnings=tuple(dict.fromkeys(warnings)),
        stacks=told_apart(seen.stacks),
        seen=seen.to_json(),
        what=what,
    )


def told_apart(dumps: Sequence[StackDump]) -> tuple[Stack, ...]:
    """The stack that tells each rank most from the others, the largest difference first; equal ones are one row."""
    found: dict[str, list[tuple[int, float, float]]] = defaultdict(list)
    ranks = sorted({dump.rank for dump in dumps})
    for rank in ranks:
        mine = [dump for dump in dumps if dump.rank == rank]
        others = [dump for dump in dumps if dump.rank != rank]
        for stack, share, peers in against_peers(mine, others, limit=1):
            found[stack].append((rank, share, peers))
    rows = sorted(
        found.items(), key=lambda item: (max(peers - share for _, share, peers in item[1]), item[0])
    )
    return tuple(_stack(stack, rows, num_ranks=len(ranks)) for stack, rows in rows[:MAX_STACKS])


def _stack(stack: str, rows: Sequence[tuple[int, float, float]], *, num_ranks: int) -> Stack:
    share = sum(row[1] for row in rows) / len(rows)
    what = f"in {share:.0%} of {'its' if len(rows) == 1 else 'their'} samples"
    if len(rows) == 1 and num_ranks > 1:
        what += f", in {rows[0][2]:.0%} of the other ranks'"
    return Stack(
        what=what, ranks=tuple(rank for rank, _, _ in rows), frames=tuple(reversed(stack.split(";")))
    )
