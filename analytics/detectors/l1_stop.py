"""L1: no step ends any more, or a rank is gone; seen from heartbeats, with the ranks that are behind.

No step for max(60 s, 10 × the median step). Inside a mark or at start-up time alone accuses nobody: some rank
must be behind its group, and where that rank is itself inside a mark or in its first step, which compiles, no rank
may have got on for eight minutes. A vanished rank needs no waiting time.
"""

from __future__ import annotations

from argus.analytics.finding import Evidence, Finding
from argus.analytics.stops import (
    PATIENCE_S,
    Behind,
    in_known_pause,
    is_busy,
    is_over,
    lost_ranks,
    pending_groups,
    quiet_s,
    ranks_behind,
    ranks_left,
    stalled_s,
)
from argus.analytics.view import View
from argus.collectors.records.heartbeat import Heartbeat

NEEDS = "hang"

SIGNALLED = 128
"""The exit code from which on shells and handlers tell of a signal."""

MAX_NAMED = 4
"""Ranks named in a note or told of by their counters; of many that fail together a few tell as much."""


def detect(
    view: View,
    *,
    min_stall_s: float = 60.0,  # shorter pauses are saves, compilations and slow storage
    num_medians: float = 10.0,  # for jobs whose steps take minutes
    patience_s: float = PATIENCE_S,  # for a rank that compiles or saves
) -> tuple[Finding, ...]:
    """At most one culprit finding of kind stop: the ranks lost, else the ranks behind (maybe none)."""
    beats = tuple(sorted(view.beats, key=lambda beat: beat.rank))
    if not beats or is_over(beats):
        return ()
    stall = stalled_s(beats)
    if lost := lost_ranks(beats):
        if left := ranks_left(beats, lost, view.topology):
            return (_left_finding(view, beats, left, lost),)
        return (_finding(view, beats, tuple(b.rank for b in lost), _lost_evidence(lost, stall), None),)
    median_s = max((beat.status.step_p50_ns for beat in beats), default=0) * 1e-9
    limit = max(min_stall_s, num_medians * median_s)
    if (
        stall is None
        or (stall < limit and not view.is_stopped)
        or all(beat.state != "running" for beat in beats)
    ):
        return ()
    found = _waited_for(ranks_behind(beats, view.topology), beats)
    behind, limit = _overdue(view, beats, found, stall_s=stall, limit_s=limit, patience_s=patience_s)
    if not behind and not view.is_stopped and (found or in_known_pause(beats)):
        return ()
    if behind and _gone(beats).issuperset(item.rank for item in behind):
        return (_left_finding(view, beats, behind),)
    pending = pending_groups(beats, view.topology)
    group = behind[0].group if behind else (pending[0] if pending else None)
    evidence = (
        Evidence(name="stalled_s", value=stall, unit="s", baseline=limit, note="no step ended"),
        *((Evidence(name="median_step_s", value=median_s, unit="s"),) if median_s > 0 else ()),
        *_behind_evidence(behind, beats),
    )
    return (_finding(view, beats, tuple(item.rank for item in behind), evidence, group),)


def _left_finding(
    view: View, beats: tuple[Heartbeat, ...], left: tuple[Behind, ...], lost: tuple[Heartbeat, ...] = ()
) -> Finding:
    """Ranks that ended before their group, and those `lost` for it: if none, the rest waits."""
    failed = ", ".join(f"rank {beat.rank} ({_reason(beat)})" for beat in lost[:MAX_NAMED])
    then = f": {failed} failed after it" if failed else ", which waits for it"
    said = {beat.rank: f"{_how_ended(beat)} at step {beat.status.step}" for beat in beats}
    gone = (_of_rank("left", item.rank, f"{said[item.rank]}, before its group{then}") for item in _few(left))
    evidence = (*gone, *_behind_evidence(left, beats), *_stalled(stalled_s(beats)))
    return _finding(view, beats, tuple(item.rank for item in left), evidence, left[0].group)


def _how_ended(beat: Heartbeat) -> str:
    return "ended in order" if beat.state == "ended" else f"exited ({_reason(beat)})"


def _gone(beats: tuple[Heartbeat, ...]) -> set[int]:
    return {beat.rank for beat in beats if beat.state in ("ended", "exited")}


def _waited_for(behind: tuple[Behind, ...], beats: tuple[Heartbeat, ...]) -> tuple[Behind, ...]:
    """A rank that has left makes nobody wait who is in no call: they may have a longer way to their own end."""
    running = [beat.status.groups for beat in beats if beat.state == "running"]
    if any(entered > completed for groups in running for entered, completed in groups.values()):
        return behind
    gone = _gone(beats)
    return tuple(item for item in behind if item.rank not in gone)


def _overdue(
    view: View,
    beats: tuple[Heartbeat, ...],
    found: tuple[Behind, ...],
    *,
    stall_s: float,
    limit_s: float,
    patience_s: float,
) -> tuple[tuple[Behind, ...], float]:
    """Those behind that have no lawful reason to be, or have had it for too long; and the limit they passed."""
    late = {item.rank for item in found}
    busy = frozenset[int]() if view.is_stopped else {b.rank for b in beats if b.rank in late and is_busy(b)}
    if not busy:
        return found, limit_s
    if min(stall_s, quiet_s(beats, view.moves)) >= patience_s:
        return found, max(limit_s, patience_s)
    return tuple(item for item in found if item.rank not in busy), limit_s


def _lost_evidence(lost: tuple[Heartbeat, ...], stall: float | None) -> tuple[Evidence, ...]:
    gone = (_of_rank("lost", beat.rank, f"{_state(beat)}, {_reason(beat)}") for beat in lost)
    num_own = sum(_has_failed_itself(beat) for beat in lost)
    own = (Evidence(name="own_errors", value=float(num_own), unit="ranks"),) if num_own else ()
    last = Evidence(name="last_step", value=float(max(beat.status.step for beat in lost)), unit="step")
    return (*gone, *own, last, *_stalled(stall))


def _reason(beat: Heartbeat) -> str:
    reason = beat.exit_reason or "reason unknown"
    return f"{reason}, raised {beat.status.raised}" if beat.status.raised else reason


def _has_failed_itself(beat: Heartbeat) -> bool:
    """Whether the program left with a code of its own other than 0."""
    word, _, code = beat.exit_reason.partition(" ")
    return word == "code" and code.isdigit() and 0 < int(code) < SIGNALLED


def _state(beat: Heartbeat) -> str:
    return beat.state if beat.state != "running" else "host silent"


def _of_rank(name: str, rank: int, note: str) -> Evidence:
    return Evidence(name=name, value=float(rank), unit="rank", note=note)


def _stalled(stall_s: float | None) -> tuple[Evidence, ...]:
    return () if stall_s is None else (Evidence(name="stalled_s", value=stall_s, unit="s"),)


def _behind_evidence(behind: tuple[Behind, ...], beats: tuple[Heartbeat, ...]) -> tuple[Evidence, ...]:
    by_rank = {beat.rank: beat for beat in beats}
    return tuple(part for item in _few(behind) for part in _counts_of(item, by_rank[item.rank]))


def _few(behind: tuple[Behind, ...]) -> list[Behind]:
    """Those furthest behind, in order of rank."""

    def lead(item: Behind) -> tuple[int, int, int]:
        return item.entered - item.furthest_entered, item.completed - item.furthest_completed, item.rank

    return sorted(sorted(behind, key=lead)[:MAX_NAMED], key=lambda item: item.rank)


def _counts_of(item: Behind, beat: Heartbeat) -> tuple[Evidence, ...]:
    seen = f", phase {beat.status.phase}" if beat.status.phase else ""
    if beat.state == "running":
        seen += f", process {beat.process_state}" if beat.process_state else ""
    else:
        seen = f", {_how_ended(beat)} at step {beat.status.step}"
    return (
        Evidence(
            name="entered",
            value=float(item.entered),
            unit="calls",
            baseline=float(item.furthest_entered),
            note=f"rank {item.rank} in {item.group}{seen}",
        ),
        Evidence(
            name="completed",
            value=float(item.completed),
            unit="calls",
            baseline=float(item.furthest_completed),
            note=f"rank {item.rank} in {item.group}",
        ),
    )


def _finding(
    view: View,
    beats: tuple[Heartbeat, ...],
    ranks: tuple[int, ...],
    evidence: tuple[Evidence, ...],
    group: str | None,
) -> Finding:
    last = max(beat.status.step for beat in beats)
    accused = frozenset(ranks)
    phases = {beat.status.phase for beat in beats if beat.rank in accused and beat.status.phase}
    return Finding(
        run=view.run,
        attempt=view.attempt,
        window=_window_of(view, last),
        level="L1",
        detector="l1_stop",
        kind="stop",
        role="culprit" if ranks else "notice",
        ranks=ranks,
        nodes=tuple(f"rank:{rank}" for rank in ranks) or ((f"group:{group}",) if group else ()),
        group=group,
        phase=min(phases) if phases else None,
        start_step=last,
        share_of_step=1.0,
        evidence=evidence,
    )


def _window_of(view: View, step: int) -> int:
    """Window that holds `step`, counted on from the last one that closed."""
    if not view.past:
        return 0
    last = view.past[-1]
    return last.index + max((step - last.first_step) // last.num_steps, 0)
