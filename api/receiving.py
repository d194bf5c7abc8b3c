"""Rank windows and heartbeats into the store: what several hosts send at one time shares a transaction."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace

from sqlalchemy import Connection

from argus.analytics.store import control, intake, kernels
from argus.analytics.store.belated import Moment, launches_at
from argus.analytics.store.engine import Store
from argus.analytics.store.intake import Arrival, AttemptKey, AttemptRow, Received, Rejection
from argus.analytics.store.levels import levels_of
from argus.api.ingest import Beats, Parsed
from argus.api.known_names import KnownNames
from argus.collectors.records.layout import Layout
from argus.collectors.records.plan_choice import first_plan
from argus.collectors.records.stacks import StackDump

DUMP_AGE_S = 10.0
"""A host sends what it has seen every five seconds: what comes later has waited."""

Json = dict[str, object]


@dataclass(frozen=True, kw_only=True)
class Told:
    """What a host is answered, and which attempt (by key) its items were of."""

    attempts: Mapping[AttemptKey, AttemptRow]
    plans: Sequence[Json] = ()
    switches: Mapping[str, bool] = field(default_factory=dict)
    received: Received | None = None
    unknown_names: Collection[int] = ()


@dataclass(frozen=True, kw_only=True)
class Receiving:
    """Writes batches; `known_names` is its memory of the kernel names that are defined."""

    store: Store
    window_steps: int
    clock: Callable[[], float]
    known_names: KnownNames = field(default_factory=KnownNames)

    def store_beats(self, batch: Sequence[Beats]) -> list[Told]:
        """The latest heartbeat of each rank and report of each host, in one transaction."""
        beats = [beat for one in batch for beat in one.beats.items]
        texts = [text for one in batch for text in one.texts]
        reports = [report for one in batch for report in one.reports.items]
        report_texts = [text for one in batch for text in one.report_texts]
        now_s = self.clock()
        with self.store.write() as connection:
            attempts = self.attempts(connection, {(beat.run, beat.attempt) for beat in beats}, now_s=now_s)
            intake.add_heartbeats(connection, beats, texts=texts, attempts=attempts, now_s=now_s)
            control.save_reports(connection, reports, texts=report_texts, now_s=now_s)
            switches = control.switches(connection, (run for run, _ in attempts))
            plans = {(plan["run"], plan["attempt"]): plan for plan in plans_of(connection, attempts)}
        told = []
        for one in batch:
            keys = sorted({(beat.run, beat.attempt) for beat in one.beats.items})
            runs = {run for run, _ in keys}
            told.append(
                Told(
                    attempts={key: attempts[key] for key in keys},
                    plans=[plans[key] for key in keys],
                    switches={run: is_off for run, is_off in switches.items() if run in runs},
                )
            )
        return told

    def store_windows(self, batch: Sequence[Parsed[Arrival]]) -> list[Told]:
        """Each rank window once and the kernels that came along, in one transaction."""
        now_s = self.clock()
        known = self.known_names.held(now_s=now_s)
        with self.store.write() as connection:
            batch = _by_launch(connection, batch, now_s=now_s)
            keys = {(item.run, item.attempt) for parsed in batch for item in parsed.items}
            attempts = self.attempts(connection, keys, now_s=now_s)
            received = intake.add_uploads(
                connection, [parsed.items for parsed in batch], attempts=attempts, now_s=now_s
            )
            named = kernels.add_kernels(
                connection,
                [_with_kernels(parsed, taken) for parsed, taken in zip(batch, received, strict=True)],
                attempts=attempts,
                known=known,
                now_s=now_s,
            )
        self.known_names.remember(known, [one.known for one in named])
        return [
            Told(
                attempts={key: attempts[key] for key in {(i.run, i.attempt) for i in parsed.items}},
                received=replace(taken, rejected=_all_rejected(parsed, taken)),
                unknown_names=names.unknown,
            )
            for parsed, taken, names in zip(batch, received, named, strict=True)
        ]

    def attempts(
        self, connection: Connection, keys: Collection[AttemptKey], *, now_s: float
    ) -> dict[AttemptKey, AttemptRow]:
        """The attempts' rows, made where they are new."""
        return intake.ensure_attempts(connection, keys, plan=first_plan(self.window_steps), now_s=now_s)


def dumps_by_launch(connection: Connection, parsed: Parsed[StackDump], *, now_s: float) -> Parsed[StackDump]:
    """Stack dumps under the name of the launch that they were taken in; of one that is not known they are refused."""
    moments = [
        Moment(
            run=one.run,
            attempt=one.attempt,
            rank=one.rank,
            at_ns=int(one.ts_s * 1e9),
            age_s=now_s - one.ts_s,
        )
        for one in parsed.items
    ]
    old = [moment for moment in moments if moment.age_s >= DUMP_AGE_S]
    names = launches_at(connection, old, now_s=now_s) if old else {}
    items: list[StackDump] = []
    rejected = list(parsed.rejected)
    for place, (one, moment) in enumerate(zip(parsed.items, moments, strict=True)):
        name = names.get(moment, one.run)
        if name is None:
            reason = f"a stack dump is of an earlier launch of run {one.run}, which is not known here"
            rejected.append(Rejection(index=place, reason=reason))
        else:
            items.append(one if name == one.run else replace(one, run=name))
    return Parsed(items=tuple(items), rejected=tuple(rejected))


def _by_launch(
    connection: Connection, batch: Sequence[Parsed[Arrival]], *, now_s: float
) -> list[Parsed[Arrival]]:
    """The windows under the name of the launch that they were recorded in; of one that is not known they are refused."""
    names = launches_at(connection, {_moment(item) for one in batch for item in one.items}, now_s=now_s)
    if not names:
        return list(batch)
    return [_named(parsed, names) for parsed in batch]


def _named(parsed: Parsed[Arrival], names: Mapping[Moment, str | None]) -> Parsed[Arrival]:
    items: list[Arrival] = []
    rejected = list(parsed.rejected)
    for item in parsed.items:
        name = names.get(_moment(item), item.run)
        if name is None:
            reason = (
                f"window {item.window} is of an earlier launch of run {item.run}, which is not known here"
            )
            rejected.append(Rejection(index=item.index, reason=reason))
        else:
            items.append(item if name == item.run else replace(item, run=name))
    return Parsed(items=tuple(items), rejected=tuple(rejected))


def _moment(item: Arrival) -> Moment:
    return Moment(run=item.run, attempt=item.attempt, rank=item.rank, at_ns=item.ended_ns, age_s=item.age_s)


def _with_kernels(parsed: Parsed[Arrival], taken: Received) -> list[Arrival]:
    """What carries kernels of what was not refused."""
    refused = {item.index for item in taken.rejected}
    return [item for item in parsed.items if item.kernels and item.index not in refused]


def _all_rejected(parsed: Parsed[Arrival], taken: Received) -> tuple[Rejection, ...]:
    return tuple(sorted((*parsed.rejected, *taken.rejected), key=lambda item: item.index))


def windows_answer(told: Told) -> Json:
    """What the sender of rank windows is told."""
    assert told.received is not None
    answer: Json = {
        "accepted": told.received.accepted,
        "duplicates": told.received.duplicates,
        "rejected": [asdict(item) for item in told.received.rejected],
    }
    if told.unknown_names:
        answer["unknown_names"] = [f"{key:x}" for key in sorted(told.unknown_names)]
    return answer


def plans_of(connection: Connection, attempts: Mapping[AttemptKey, AttemptRow]) -> list[Json]:
    """How each attempt's windows are cut and which channels are off, the same for all its hosts."""
    levels = levels_of(connection, attempts)
    return [
        {
            "run": row.run,
            "attempt": row.attempt,
            "first": row.plan.first,
            "switch": row.plan.switch,
            "then": row.plan.then,
            "level": levels[key][0],
            "from_step": levels[key][1],
        }
        for key, row in sorted(attempts.items())
    ]


def hosts_of(
    items: Iterable[Layout | Arrival], attempts: Mapping[AttemptKey, AttemptRow]
) -> dict[int, set[str]]:
    """Hosts heard of, by attempt id; what is of an earlier launch is no sign of life of this one."""
    hosts: dict[int, set[str]] = {}
    for item in items:
        if (attempt := attempts.get((item.run, item.attempt))) is not None:
            hosts.setdefault(attempt.id, set()).add(item.host)
    return hosts
