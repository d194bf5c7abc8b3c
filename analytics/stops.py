"""What heartbeats say of a job that stands still: since when, and which ranks are behind the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from argus.collectors.records.heartbeat import Heartbeat, Status
from argus.topology.groups import Group
from argus.topology.layout import Topology

GONE = ("exited", "lost")

ENDED_REASONS = ("code 0",)
"""Exits that are the program's own end although it said no goodbye."""

STOP_REASONS = ("signal 2", "signal 15", "code 130", "code 143")
"""What launcher and scheduler do to ranks when a peer died or the job is cancelled: effect, not cause.

The codes are those of a rank that caught the signal and left, 128 and its number.
"""

DRIVEN_REASONS = ("code ", "signal 6")
"""How begins the exit of a rank whose call failed for a member that had left: an exception, or the watchdog's abort."""

EXITED_S = 120.0
"""A run of which no process is left for so long has ended: a launcher that restarts does so within a minute."""

PAUSE_PHASES = ("checkpoint", "eval")

STATUS_S = 1.0
"""Age that a rank's last word may have when it is killed: it speaks once a second."""

TOLD_S = 30.0
"""How long its peers may live on after a rank that was told to stop: as long as launchers wait before they kill."""

PATIENCE_S = 480.0
"""How long nobody may get on while the ranks behind are in their first step, which compiles, or inside a mark.

NCCL's watchdog kills a job ten minutes after a call began unless told otherwise: a healthy job lets nobody wait for
longer, and whoever is told two minutes before that still finds the processes to look into.
"""

NOT_RUNNING = ("T", "Z", "X")
"""Process states in which nothing compiles or saves: stopped, or dead. `t` is a debugger's or a profiler's short look."""

SILENT_S = 45.0
"""A rank whose host has said nothing for this long while others have is lost: nine reports were missed."""


@dataclass(frozen=True, kw_only=True)
class Behind:
    """A rank that keeps a group waiting: its counters against the furthest member's."""

    rank: int
    group: str
    entered: int
    completed: int
    furthest_entered: int
    furthest_completed: int


def newest_s(beats: Sequence[Heartbeat]) -> float:
    """Time of the freshest heartbeat; ages are counted from there, so our own outages make nobody old."""
    return max((beat.ts_s for beat in beats), default=0.0)


def is_over(beats: Sequence[Heartbeat]) -> bool:
    """Every rank ended by its own will, as far as is known: none does so without its peers."""
    rest = [beat for beat in beats if beat.state != "ended" and not _ended_quietly(beat)]
    return len(rest) < len(beats) and all(b.state == "exited" and not b.exit_reason for b in rest)


def was_cancelled(beats: Sequence[Heartbeat]) -> bool:
    """Every rank is gone and nobody died of anything but being told to stop."""
    rest = [b for b in beats if not (b.state in GONE and b.exit_reason in STOP_REASONS)]
    return len(rest) < len(beats) and all(b.state == "ended" or _ended_quietly(b) for b in rest)


def all_gone_s(beats: Sequence[Heartbeat], *, world_size: int, now_s: float) -> float | None:
    """Seconds since the last word of any rank, None while one may still run or was never heard.

    A host that went silent says nothing of its ranks: they may train on.
    """
    if len(beats) < max(world_size, 1) or any(beat.state not in ("exited", "ended") for beat in beats):
        return None
    return min(max(now_s - beat.ts_s, 0.0) + beat.status_age_s for beat in beats)


def lost_ranks(beats: Sequence[Heartbeat]) -> tuple[Heartbeat, ...]:
    """Ranks that vanished of themselves; those merely told to stop only if there is no other, after `TOLD_S`."""
    if was_cancelled(beats):
        return ()
    gone = [beat for beat in beats if beat.state in GONE and not _ended_quietly(beat)]
    gone += _silent(beats)
    causes = [beat for beat in gone if beat.exit_reason not in STOP_REASONS]
    newest = newest_s(beats)
    return tuple(causes or [beat for beat in gone if newest - _last_s(beat) >= TOLD_S])


def ranks_left(
    beats: Sequence[Heartbeat], lost: Sequence[Heartbeat], topology: Topology
) -> tuple[Behind, ...]:
    """Ranks that ended in order before every one of `lost`, with fewer calls entered in a group they share.

    The lost ones failed for them then. A pipeline's counters differ by stage and say nothing; those of a rank
    without a goodbye may be a second old.
    """
    if not all(beat.exit_reason.startswith(DRIVEN_REASONS) for beat in lost):
        return ()
    victims = {beat.rank for beat in lost}
    end_s = min(_last_s(beat) + (STATUS_S if beat.exit_reason == "signal 6" else 0.0) for beat in lost)
    ended = {beat.rank for beat in beats if beat.state == "ended" and _last_s(beat) < end_s}
    left: dict[int, Behind] = {}
    both = victims | ended
    for group, members in _counts(beats, topology).items():
        if not group.startswith("pp/") and victims & members.keys():
            pairs = {rank: pair for rank, pair in members.items() if rank in both}
            for item in _late_members(group, pairs):
                if item.rank in ended and item.entered < item.furthest_entered:
                    left.setdefault(item.rank, item)
    return tuple(item for _, item in sorted(left.items()))


def _last_s(beat: Heartbeat) -> float:
    """When the rank itself last spoke, on its host's clock; at its end, if it could tell of it."""
    return beat.ts_s - beat.status_age_s


def _silent(beats: Sequence[Heartbeat]) -> list[Heartbeat]:
    """Running ranks nothing is heard of; while the others' steps go on, only their reporter is gone."""
    newest = newest_s(beats)
    silent = [b for b in beats if b.state == "running" and newest - b.ts_s > SILENT_S]
    if not silent:
        return []
    # By identity: to compare each beat with each takes a minute of ten thousand.
    are_silent = {id(beat) for beat in silent}
    others = stalled_s([beat for beat in beats if id(beat) not in are_silent])
    return silent if others is not None and others > SILENT_S else []


def stalled_s(beats: Sequence[Heartbeat]) -> float | None:
    """Seconds since any running rank last began a step; None if none of them ever did."""
    running = [beat for beat in beats if beat.state == "running" and beat.status.step_since_ns > 0]
    if not running:
        return None
    return min(beat.ts_s - beat.status.step_since_ns * 1e-9 for beat in running)


def has_moved(before: Heartbeat, beat: Heartbeat) -> bool:
    """Whether the rank has got on between two heartbeats: another step, phase or mark, or more calls."""
    was, now = before.status, beat.status
    return (was.step, was.phase, was.phase_since_ns, was.in_mark, was.groups) != (
        now.step,
        now.phase,
        now.phase_since_ns,
        now.in_mark,
        now.groups,
    )


def quiet_s(beats: Sequence[Heartbeat], moves: Mapping[int, float]) -> float:
    """Seconds since any running rank got on; `moves` = when each last did, Unix time by rank. Infinite if none is known."""
    times = [moves[beat.rank] for beat in beats if beat.state == "running" and beat.rank in moves]
    return newest_s(beats) - max(times) if times else float("inf")


def is_busy(beat: Heartbeat) -> bool:
    """Whether a rank may lawfully be long: in its first step, or inside a mark; not while its process is stopped."""
    is_first = beat.status.step_p50_ns == 0
    return (is_first or is_in_pause(beat.status)) and beat.process_state not in NOT_RUNNING


def is_in_pause(status: Status) -> bool:
    """Whether a rank is inside a mark or a phase that may lawfully last: a save, an evaluation."""
    return bool(status.in_mark) or status.phase in PAUSE_PHASES


def in_known_pause(beats: Sequence[Heartbeat]) -> bool:
    """Some rank is inside a mark or such a phase or has ended in order, or none has finished a step yet."""
    running = [beat for beat in beats if beat.state == "running"]
    marked = any(is_in_pause(beat.status) for beat in running)
    return marked or len(running) < len(beats) or all(beat.status.step_p50_ns == 0 for beat in running)


def ranks_behind(beats: Sequence[Heartbeat], topology: Topology) -> tuple[Behind, ...]:
    """Ranks that keep others waiting and are not themselves kept waiting by a rank behind them.

    Per group: fewer calls entered than the furthest member; where all entered alike, fewer completed (a rank
    whose device died goes on entering). A rank stuck inside another group's call hands the blame on.
    """
    late: dict[str, list[Behind]] = {}
    held: dict[int, list[str]] = {}
    for group, members in _counts(beats, topology).items():
        late[group] = _late_members(group, members)
        late_ranks = {item.rank for item in late[group]}
        for rank, (entered, completed) in members.items():
            if entered > completed and late_ranks and rank not in late_ranks:
                held.setdefault(rank, []).append(group)
    behind: dict[int, Behind] = {}
    for item in (item for items in late.values() for item in items):
        behind.setdefault(item.rank, item)
    unheard = _held_by_unheard(beats, topology)
    roots = [item for rank, item in sorted(behind.items()) if rank not in held and rank not in unheard]
    return tuple(roots or [behind[rank] for rank in sorted(behind) if rank not in unheard])


def _held_by_unheard(beats: Sequence[Heartbeat], topology: Topology) -> set[int]:
    """Ranks as far as any in a call that a member nobody has heard of keeps from ending."""
    heard = {beat.rank for beat in beats}
    whole: dict[str, bool] = {}  # once a group: its ranks may be all, and each of them tells of it
    furthest: dict[str, int] = {}
    waiting: list[tuple[int, str, int]] = []
    for beat in beats:
        for name, (entered, completed) in beat.status.groups.items():
            group = topology.named.get((beat.rank, name))
            if group is None:
                continue
            if group.id not in whole:
                whole[group.id] = heard.issuperset(group.ranks)
            if whole[group.id]:
                continue
            furthest[group.id] = max(furthest.get(group.id, 0), entered)
            if entered > completed:
                waiting.append((beat.rank, group.id, entered))
    return {rank for rank, group_id, entered in waiting if entered == furthest[group_id]}


def _late_members(group: str, members: Mapping[int, tuple[int, int]]) -> list[Behind]:
    """Members with fewer calls entered than the furthest; if all entered alike, with fewer completed."""
    entered = max(pair[0] for pair in members.values())
    completed = max(pair[1] for pair in members.values())
    level = all(pair[0] == entered for pair in members.values())
    return [
        Behind(
            rank=rank,
            group=group,
            entered=own_entered,
            completed=own_completed,
            furthest_entered=entered,
            furthest_completed=completed,
        )
        for rank, (own_entered, own_completed) in members.items()
        if (own_completed < completed if level else own_entered < entered)
    ]


def pending_groups(beats: Sequence[Heartbeat], topology: Topology) -> tuple[str, ...]:
    """Groups in which every member has entered a call that none of them completes."""
    return tuple(
        group
        for group, members in _counts(beats, topology).items()
        if len(set(members.values())) == 1 and all(e > c for e, c in members.values())
    )


def _counts(beats: Sequence[Heartbeat], topology: Topology) -> dict[str, dict[int, tuple[int, int]]]:
    """(entered, completed) of every member by group id, groups of one reporter left out."""
    known: Mapping[tuple[int, str], Group] = topology.named
    counts: dict[str, dict[int, tuple[int, int]]] = {}
    for beat in beats:
        for name, pair in beat.status.groups.items():
            group = known.get((beat.rank, name))
            counts.setdefault(group.id if group else f"other/{name}", {})[beat.rank] = pair
    return {group: members for group, members in sorted(counts.items()) if len(members) > 1}


def _ended_quietly(beat: Heartbeat) -> bool:
    return beat.state in GONE and beat.exit_reason in ENDED_REASONS
