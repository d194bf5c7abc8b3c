"""What is done with one live attempt: its windows closed and analysed in order, its heartbeats looked at."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlalchemy.exc import SQLAlchemyError

from argus.analytics.finding import Finding
from argus.analytics.incident import Incident
from argus.analytics.kernels.tops import KernelTop, added_up, kernel_tops
from argus.analytics.numbers import window_numbers
from argus.analytics.outcome import ATTEMPT_OVER
from argus.analytics.outside import Outside
from argus.analytics.stops import EXITED_S, all_gone_s
from argus.analytics.store import history as history_store
from argus.analytics.store import incidents as incident_store
from argus.analytics.store import orders, progress
from argus.analytics.store.damage import is_damage
from argus.analytics.store.engine import Store
from argus.analytics.store.levels import add_change
from argus.analytics.store.progress import LiveAttempt, WindowRow
from argus.analytics.store.relaunch import RELAUNCHED, launch_of
from argus.analytics.view import PAST_WINDOWS
from argus.analytics.window import Coverage, Window
from argus.api.complaints import plainly
from argus.api.course import Analyses, Look
from argus.api.governing import govern, level_of
from argus.api.long_ago import eras_before
from argus.api.metrics import Metrics
from argus.api.outside import outside_now, recall
from argus.api.past import past_now
from argus.api.run_gauges import host_gaps_of, scores_of
from argus.api.settings import Settings
from argus.api.stored_window import missing_evidence, read_window
from argus.api.watch import Watch
from argus.collectors.records.errors import WireError
from argus.collectors.records.heartbeat import Heartbeat
from argus.collectors.records.plan_choice import choose_plan
from argus.topology.layout import Topology, build

LOG = logging.getLogger("argus.analysis")

REBUILD_PAUSES = 4
"""A topology is built again after three times what building it took: that of ten thousand ranks takes seconds."""


@dataclass(frozen=True, kw_only=True)
class Means:
    """What the analysis works with."""

    store: Store
    settings: Settings
    analyses: Analyses
    metrics: Metrics


def begin_watch(means: Means, live: LiveAttempt) -> Watch:
    """Take up an attempt where the store says it was left."""
    run, attempt = live.row.run, live.row.attempt
    with means.store.read() as connection:
        launch = launch_of(connection, run, attempt_id=live.row.id)
        watch = Watch(live=live, launch=launch, course=means.analyses.begin(run, attempt, launch=launch))
        beats = progress.beats_of(connection, live.row.id)
        kept = incident_store.open_incidents(connection, live.row.id)
        past = progress.last_windows(connection, live.row.id, limit=PAST_WINDOWS)
        eras = eras_before(connection, live.row.id, past[0].window) if past else None
        watch.level = level_of(connection, (run, attempt))
    watch.heard = {item.beat.rank: item for item in beats}
    watch.kept = {incident.id: incident for incident in kept}
    # The windows seen again are compared with their past as they were: without the suspects of then.
    older = [incident for incident in kept if past and incident.opened_window < past[0].window]
    watch.course = watch.course.restored(older, eras=eras)
    try:
        refresh(means, watch)
        for row in past:
            _replay(means, watch, row)
    except SQLAlchemyError:
        raise
    except Exception as error:  # noqa: BLE001 - a topology that cannot be built must not stop the others
        survive(means, watch, error, part="replay")
    watch.course = watch.course.restored(kept, watch.bouts)
    watch.has_begun = True
    return watch


def refresh(means: Means, watch: Watch) -> None:
    """Build the topology anew if a layout came in; not after each of a thousand hosts at the start of a job."""
    begun_s = time.perf_counter()
    # The first one waits for nothing: windows close from then on, and each needs it.
    is_early = watch.topology is not None and begun_s < watch.rebuild_s
    if watch.live.layouts_version == watch.layouts_version or is_early:
        return
    with means.store.read() as connection:
        layouts = progress.layouts_of(connection, watch.live.row.id)
    was_known = watch.topology is not None
    watch.topology = build(layouts) if layouts else None
    watch.layouts_version = watch.live.layouts_version
    watch.rebuild_s = begun_s + (time.perf_counter() - begun_s) * REBUILD_PAUSES
    if watch.topology is None or was_known:
        return
    recall(means.store, watch)
    if watch.has_begun:  # else the windows seen again come first
        watch.course = watch.course.restored(list(watch.kept.values()), watch.bouts)


def _replay(means: Means, watch: Watch, row: WindowRow) -> None:
    """Let the course see a window again; what it says of it was told when it was new."""
    assert watch.topology is not None and row.analysed_s is not None
    window = read_window(means.store, watch.live.row.id, row, topology=watch.topology)
    outside = outside_now(means.store, watch, now_s=row.analysed_s, with_stacks=True)
    look = watch.course.look(
        topology=watch.topology, now_s=row.analysed_s, window=window, beats=(), outside=outside
    )
    watch.course = look.course
    _remember_coverage(watch, window.coverage)
    watch.numbers = window_numbers(window)
    watch.missing = missing_evidence(window)


def _remember_coverage(watch: Watch, coverage: Coverage) -> None:
    watch.coverage_ratio, watch.dropped = coverage.ratio, sum(coverage.dropped.values())
    watch.overhead = {channel: cost.ratio for channel, cost in coverage.overhead.items()}


def close_due(
    means: Means, watch: Watch, *, pending: Sequence[WindowRow], now_s: float, not_before_s: float
) -> list[WindowRow]:
    """Close the windows that are due; the closed ones that wait for their analysis, in order."""
    due = watch.growth.closing(
        [row for row in pending if row.status == "open"],
        world_size=watch.live.row.world_size,
        now_s=now_s,
        grace_s=means.settings.grace_s,
        not_before_s=not_before_s,
    )
    if due:
        with means.store.write() as connection:
            progress.close_windows(connection, watch.live.row.id, due, now_s=now_s)
    return [row for row in pending if row.status == "closed" or row.window in due]


def analyse(means: Means, watch: Watch, *, row: WindowRow, beats: Sequence[Heartbeat], now_s: float) -> None:
    """One closed window: look at it, save what that brought, all or nothing."""
    topology = watch.topology
    assert topology is not None, "a window closes only when a layout came in"
    started = time.perf_counter()
    try:
        window = read_window(means.store, watch.live.row.id, row, topology=topology)
        watch.missing = missing_evidence(window)
        fast = replace(window, kernels=())
        outside = outside_now(means.store, watch, now_s=now_s, with_stacks=True)
        look = watch.course.look(topology=topology, now_s=now_s, window=fast, beats=beats, outside=outside)
        numbers = window_numbers(window)
    except Exception as error:
        if isinstance(error, SQLAlchemyError) and not is_damage(error):
            raise  # else it would be read in vain for ever, and nothing behind it at all
        survive(means, watch, error, part="window")
        means.metrics.analysed.labels(result="failed").inc()
        with means.store.write() as connection:
            progress.mark_failed(
                connection,
                watch.live.row.id,
                row.window,
                now_s=now_s,
                error=plainly(error),
            )
        return
    done = (row.window, window.coverage, numbers.to_bytes())
    watch.trouble = ""
    _save(means, watch, look, topology=topology, now_s=now_s, done=None if window.kernels else done)
    if window.kernels:
        _join_kernels(means, watch, window, now_s=now_s, outside=outside, done=done)
    _remember_coverage(watch, window.coverage)
    watch.numbers = numbers
    watch.scores, watch.host_gaps = scores_of(look.findings), host_gaps_of(window)
    means.metrics.analysed.labels(result="analysed").inc()
    means.metrics.analysis_s.observe(time.perf_counter() - started)


def _join_kernels(
    means: Means,
    watch: Watch,
    window: Window,
    *,
    now_s: float,
    outside: Outside,
    done: tuple[int, Coverage, bytes],
) -> None:
    """The same window once more with its kernels, which take longer: by now everybody knows the rest."""
    topology = watch.topology
    assert topology is not None
    try:
        look = watch.course.look(topology=topology, now_s=now_s, window=window, beats=(), outside=outside)
    except SQLAlchemyError:
        raise
    except Exception as error:  # noqa: BLE001 - a detector is a plug-in: what it raises is not known
        survive(means, watch, error, part="kernels")
        look = Look(course=watch.course, findings=(), incidents=())
    watch.kernels = _tops(watch, window, look)
    _save(means, watch, look, topology=topology, now_s=now_s, done=done)


def _tops(watch: Watch, window: Window, look: Look) -> tuple[KernelTop, ...]:
    """The kernels that are shown one by one."""
    try:
        return added_up(kernel_tops(window, look.findings), watch.kernels)
    except WireError:
        return watch.kernels  # L3 has counted the damaged summary; the series keep what was known


def tick(means: Means, watch: Watch, *, beats: Sequence[Heartbeat], now_s: float) -> None:
    """Between windows: look at the heartbeats, choose the plan once the step time is known."""
    topology = watch.topology
    if topology is None:
        return
    watch.ranks_lost = sum(beat.state in ("lost", "exited") for beat in beats)
    try:
        outside = outside_now(means.store, watch, now_s=now_s, with_stacks=False)
        look = watch.course.look(topology=topology, now_s=now_s, window=None, beats=beats, outside=outside)
    except SQLAlchemyError:
        raise
    except Exception as error:  # noqa: BLE001 - a detector is a plug-in: what it raises is not known
        survive(means, watch, error, part="heartbeats")
        return
    _save(means, watch, look, topology=topology, now_s=now_s, done=None)
    _govern(means, watch, beats=beats, now_s=now_s)
    plan = watch.live.row.plan
    if not means.settings.window_steps:
        plan = choose_plan(
            plan,
            beats=beats,
            world_size=watch.live.row.world_size,
            highest_step=watch.live.row.highest_step,
            window_step_s=watch.numbers.typical_step_s if watch.numbers else None,
        )
    if plan != watch.live.row.plan:
        with means.store.write() as connection:
            progress.save_plan(connection, watch.live.row.id, plan)


def _govern(means: Means, watch: Watch, *, beats: Sequence[Heartbeat], now_s: float) -> None:
    """Have channels off on all hosts while their pooled cost is above the budget."""
    row = watch.live.row
    level, change = govern(
        watch.level,
        key=(row.run, row.attempt),
        beats=beats,
        highest_step=row.highest_step,
        budget=means.settings.overhead_budget,
        now_s=now_s,
    )
    if change is not None:
        with means.store.write() as connection:
            add_change(connection, change)
        means.metrics.channel_changes.labels(what="down" if level.level > watch.level.level else "up").inc()
        LOG.info("run %s: %s", row.run, change.text)
    watch.level = level


def _save(
    means: Means,
    watch: Watch,
    look: Look,
    *,
    topology: Topology,
    now_s: float,
    done: tuple[int, Coverage, bytes] | None,
) -> None:
    """Store what a look brought; the course goes on from it only when that is committed."""
    ids = frozenset(finding.id for finding in look.findings)
    findings = [finding for finding in look.findings if finding.id not in watch.told]
    incidents = [
        _diagnosed(means, watch, incident, topology=topology, fresh=look.findings, now_s=now_s)
        for incident in look.incidents
    ]
    if findings or incidents or done or look.bouts:
        attempt_id = watch.live.row.id
        with means.store.write() as connection:
            progress.add_findings(connection, attempt_id, findings, now_s=now_s)
            events = [
                incident_store.save_incident(connection, attempt_id, incident, now_s=now_s)
                for incident in incidents
            ]
            if done:
                window, coverage, numbers = done
                progress.mark_analysed(
                    connection, attempt_id, window, now_s=now_s, coverage=coverage, numbers=numbers
                )
            history_store.save_bouts(connection, attempt_id, look.bouts, topology=topology)
            for event in events:
                if event is not None and event.what == "opened":
                    plan, world = watch.live.row.plan, topology.world_size
                    pin = orders.pin_of(event.incident, plan=plan, world_size=world)
                    orders.add_order(connection, attempt_id, pin, now_s=now_s)
        for event in events:
            if event is not None:
                means.metrics.incidents.labels(what=event.what).inc()
    watch.course, watch.told = look.course, ids
    _keep(watch, incidents)


def _keep(watch: Watch, incidents: Sequence[Incident]) -> None:
    for incident in incidents:
        if incident.status == "open":
            watch.kept[incident.id] = incident
        else:
            watch.kept.pop(incident.id, None)
            watch.past.pop(incident.id, None)


def _diagnosed(
    means: Means,
    watch: Watch,
    incident: Incident,
    *,
    topology: Topology,
    fresh: Sequence[Finding],
    now_s: float,
) -> Incident:
    known = {finding.id: finding for finding in fresh}
    missing = [key for key in incident.cause.findings if key not in known]
    if missing:
        with means.store.read() as connection:
            known.update(progress.findings_by_id(connection, missing))
    findings = [known[key] for key in incident.cause.findings if key in known]
    try:
        told = means.analyses.diagnose(incident, findings=findings, topology=topology, missing=watch.missing)
        past = past_now(means.store, watch, incident, now_s=now_s)
    except SQLAlchemyError:
        raise
    except Exception as error:  # noqa: BLE001 - an incident without wording is better than none
        survive(means, watch, error, part="diagnosis")
        return incident
    return replace(incident, diagnosis={**told, "past": past})


def ended(
    means: Means,
    watch: Watch,
    *,
    beats: Sequence[Heartbeat],
    is_newest: bool,
    has_pending: bool,
    now_s: float,
    since_s: float,
) -> str:
    """Why the attempt is over: relaunched, finished, crashed, superseded, silent; "" while it is not.

    No silence counts before `since_s`, when the service began to listen.
    """
    if watch.live.end_reason == RELAUNCHED:
        return RELAUNCHED
    quiet_s = now_s - max(watch.live.last_seen_s, since_s)
    if quiet_s > means.settings.forget_s:
        return "silent"
    if has_pending:
        return ""
    world = watch.live.row.world_size
    done = world and len(beats) >= world and all(beat.state == "ended" for beat in beats)
    if done and quiet_s >= means.settings.grace_s:
        return "finished"
    gone_s = all_gone_s(beats, world_size=world, now_s=now_s) if world else None
    if gone_s is not None and min(gone_s, now_s - since_s) > EXITED_S:
        return "crashed"
    return "superseded" if not is_newest and quiet_s >= means.settings.silent_s else ""


def end(means: Means, watch: Watch, *, reason: str, now_s: float) -> None:
    """Close the book of an attempt: what is still open ends with its last step."""
    closed = [
        replace(
            incident,
            status="resolved",
            end_step=incident.end_step
            if incident.end_step is not None
            else max(watch.live.row.highest_step, 0),
            ended=incident.ended or f"{ATTEMPT_OVER}: {reason}",
        )
        for incident in watch.kept.values()
    ]
    status = "silent" if reason == "silent" else "ended"
    with means.store.write() as connection:
        for incident in closed:
            incident_store.save_incident(connection, watch.live.row.id, incident, now_s=now_s)
        progress.end_attempt(connection, watch.live.row.id, status=status, reason=reason, now_s=now_s)
    means.metrics.incidents.labels(what="resolved").inc(len(closed))


def survive(means: Means, watch: Watch, error: Exception, *, part: str) -> None:
    """Count an error of the analysis and log it once; the service shows it until the next good look."""
    means.metrics.errors.labels(part=part).inc()
    trouble = f"{part} of {watch.live.row.run!r}: {plainly(error)}"[:500]
    if trouble != watch.trouble:
        LOG.error("analysis failed on %s", trouble, exc_info=error)
    watch.trouble = trouble
