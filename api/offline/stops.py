"""The offline path of a job that stands still: dumps of its ranks in, a report out."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from argus.agent.triage import diagnose, no_incident
from argus.analytics.attempt import AttemptState, advance
from argus.analytics.finding import Evidence
from argus.analytics.flight import beats_of, merged_stacks
from argus.analytics.incident import Cause
from argus.analytics.unlike_calls import UnlikeCall, unlike_calls
from argus.api.report import Report, Stack, costliest
from argus.collectors.job import Job
from argus.collectors.readers import Reading
from argus.collectors.records.flight import FlightDump
from argus.topology.layout import build

_SHOWN = 8

DEFAULT = "default_pg"
"""What c10d calls the group of all ranks."""

MAX_TOLD = 10
"""Sentences about calls that differ."""

LINES = "nccl_log"
"""Source of dumps that are put together from lines of a log."""


def analyse_dumps(readings: Sequence[Reading], *, warnings: Sequence[str] = ()) -> Report:
    """The verdict on one hung job's flight-recorder dumps, one of each rank."""
    by_rank, told = _each_once(readings)
    dumps = [dump for _, (_, dump) in sorted(by_rank.items())]
    job = _job([reading for _, (reading, _) in sorted(by_rank.items())])
    topology = build(one.layout for one in job.records)
    unlike = unlike_calls(_of_one_source(by_rank.values()), topology)
    beats = beats_of(dumps, topology, unlike=unlike)
    pending = any(dump.pending for dump in dumps)
    step = advance(
        AttemptState.start(topology.run, topology.attempt),
        topology=topology,
        now_s=max(beat.ts_s for beat in beats),
        beats=beats if pending else (),
        is_stopped=pending,
    )
    are_lines = all(one.layout.source == LINES for one in job.records)
    missing = _missing(job)
    found = (replace(one, cause=_with_unlike(one.cause, unlike)) for one in step.state.incidents)
    incidents = tuple(
        replace(one, diagnosis=diagnose(one, findings=step.findings, topology=topology, missing=missing))
        for one in found
    )
    worst = costliest(incidents)
    stacks = merged_stacks(dumps, worst.cause.suspects if worst else (), unlike=unlike)
    doubt = "calls are pending, but nobody is behind in them" if pending else "no call is pending in any dump"
    remarks = [*warnings, *told, *missing, *(one.text for one in unlike[:MAX_TOLD]), *topology.conflicts]
    return Report(
        job=job,
        topology=topology,
        windows=(),
        collectives=(),
        findings=step.findings,
        incidents=incidents,
        diagnosis=(worst.diagnosis if worst else None)
        or no_incident(missing=missing, doubt=doubt, num_ranks=len(job.ranks)),
        warnings=tuple(dict.fromkeys(remarks)),
        stacks=tuple(Stack(what=what, ranks=ranks, frames=frames) for what, ranks, frames in stacks),
        what="lines of the watchdog" if are_lines else "flight-recorder dumps",
    )


def with_hang(report: Report, hang: Report) -> Report:
    """A report on a job's steps with what its dumps say of the stop after them."""
    incidents = (*hang.incidents, *report.incidents)
    worst = hang.incident or report.incident
    return replace(
        report,
        findings=(*report.findings, *hang.findings),
        incidents=incidents,
        diagnosis=(worst.diagnosis if worst else None) or report.diagnosis,
        warnings=tuple(dict.fromkeys([*report.warnings, *hang.warnings])),
        stacks=(*hang.stacks, *report.stacks),
        stop=hang.incident,
    )


def unlike_sizes(readings: Sequence[Reading]) -> tuple[str, ...]:
    """A sentence if the dumps and the files with steps cannot be of one launch, for its number of ranks.

    A dump that lists no default group has at least the ranks it names.
    """
    known = [reading for reading in readings if reading.is_world_known]
    steps = {one.records.layout.world_size for one in known if len(one.records.steps)}
    dumps = [one.records.layout for one in known if one.dump is not None]
    least = max((one.world_size for one in dumps), default=0)
    is_all = any(group.desc == DEFAULT for one in dumps for group in one.groups)
    if not steps or not least or least in steps or (least < max(steps) and not is_all):
        return ()
    sizes = ", ".join(map(str, sorted(steps)))
    told = f"the files with steps are of a job of {sizes} ranks and the dumps of one of {least}"
    return (f"{told}: they are not of one launch, what is said of a hang is of the latter alone",)


def _each_once(readings: Sequence[Reading]) -> tuple[dict[int, tuple[Reading, FlightDump]], list[str]]:
    """The first dump of each rank, and sentences about the others."""
    by_rank: dict[int, tuple[Reading, FlightDump]] = {}
    told: list[str] = []
    described = any(dump.groups and not dump.undescribed for one in readings if (dump := one.dump))
    # A recorder's dump says more than the lines its watchdog printed, most where it lists its groups' members.
    for reading in sorted(readings, key=_says_less):
        dump = reading.dump
        if dump is not None and dump.rank in by_rank and reading.records.layout.source == LINES:
            continue
        if dump is None or dump.rank in by_rank:
            told.append(f"{reading.source} is a second dump of one rank and is left out")
        elif described and dump.groups and dump.undescribed.issuperset(dump.groups):
            # Of another library, whose calls are counted apart under the same names.
            told.append(f"{reading.source} does not list its groups as other dumps do, and is left out")
        else:
            by_rank[dump.rank] = (reading, dump)
    return by_rank, told


def _of_one_source(found: Collection[tuple[Reading, FlightDump]]) -> list[FlightDump]:
    """The recorders' dumps if there are any: lines of a log name operations and sizes in their own way."""
    recorded = [dump for reading, dump in found if reading.records.layout.source != LINES]
    return recorded or [dump for _, dump in found]


def _with_unlike(cause: Cause, unlike: Sequence[UnlikeCall]) -> Cause:
    """The cause with the call that its suspects, or its group's members, made differently as its first evidence.

    Counters of those ranks end before that call, so the number of completed calls is no evidence of theirs.
    """
    one = next((one for one in unlike if one.group == cause.group), None)
    if one is None:
        return cause
    own = {f"rank {rank} in {one.group}" for rank in one.ranks}
    up_to = "up to the call that differs" if one.is_begun else "as far as they started"
    evidence = tuple(
        replace(item, note=f"{item.note}, {up_to}") if item.name == "entered" and item.note in own else item
        for item in cause.evidence
        if item.name != "completed" or item.note not in own
    )
    name = "call_differs" if one.is_begun else "call_not_started"
    first = Evidence(name=name, value=float(one.seq), unit="calls", note=one.text)
    is_why = set(cause.suspects) <= set(one.ranks)
    return replace(cause, evidence=(first, *evidence) if is_why else evidence)


def _says_less(reading: Reading) -> tuple[bool, bool]:
    return reading.records.layout.source == LINES, not reading.are_members_known


def _job(readings: Sequence[Reading]) -> Job:
    world = max(reading.records.layout.world_size for reading in readings)
    records = tuple(
        replace(one.records, layout=replace(one.records.layout, world_size=world)) for one in readings
    )
    return Job(records=records, world_size=world, first_step=0, num_steps=0, warnings=())


def _missing(job: Job) -> tuple[str, ...]:
    """Ranks that left no dump: not known to be behind, not known to be well."""
    if not job.missing:
        return ()
    shown = ", ".join(map(str, job.missing[:_SHOWN])) + (", …" if len(job.missing) > _SHOWN else "")
    noun = "rank" if len(job.missing) == 1 else "ranks"
    return (
        f"no dump of {len(job.missing)} {noun} of {job.world_size} ({shown}), which may be the ones behind",
    )
