"""Match the flight-recorder dumps of a job's ranks: what each waits for, as heartbeats of a job that stands still.

Counters of a group are compared as they are; a rank with nothing pending while its group is pending is behind.
Counters that include sends and receives differ between members by right: there each pair is compared, by the
calls one end has pending and the other does not. A rank without a dump is not known to be anywhere. From a call on
that a few made differently or have not begun, those few are behind, however many calls they entered after it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from argus.analytics.unlike_calls import UnlikeCall
from argus.collectors.records.flight import FlightDump
from argus.collectors.records.heartbeat import Heartbeat, Status
from argus.topology.layout import Topology

DEFAULT_TIMEOUT_NS = 600 * 10**9
"""After so long torch's watchdog gives up where a call does not say otherwise (torch 2.x)."""

Counts = tuple[int, int]


def beats_of(
    dumps: Sequence[FlightDump], topology: Topology, *, unlike: Sequence[UnlikeCall] = ()
) -> tuple[Heartbeat, ...]:
    """One heartbeat a dump, with the counters of its groups and pairs.

    The moment is that at which the first call timed out, the last step that of the last call anybody made.
    """
    since = max((dump.last_created_ns for dump in dumps), default=0)
    late = [
        call.created_ns + (call.timeout_ns or DEFAULT_TIMEOUT_NS) for dump in dumps for call in dump.pending
    ]
    now = max(min(late, default=since), since)
    counts = _group_counts(dumps, topology, {one.group: one for one in unlike})
    pairs = _pair_counts(dumps)
    return tuple(
        Heartbeat(
            run=topology.run,
            attempt=topology.attempt,
            rank=dump.rank,
            host=topology.host_of(dump.rank),
            ts_s=now * 1e-9,
            status=Status(
                ts_ns=now,
                step=0,
                step_since_ns=since,
                step_p50_ns=0,
                groups=counts[dump.rank] | pairs[dump.rank],
            ),
        )
        for dump in dumps
    )


def _group_counts(
    dumps: Sequence[FlightDump], topology: Topology, unlike: Mapping[str, UnlikeCall]
) -> dict[int, dict[str, Counts]]:
    """Counters of groups without sends; one that is not told is just before the others' first pending call."""
    members: dict[str, list[tuple[FlightDump, str]]] = defaultdict(list)
    for dump in dumps:
        for name in dump.groups:
            group = topology.named.get((dump.rank, name))
            members[group.id if group else f"other/{name}"].append((dump, name))
    out: dict[int, dict[str, Counts]] = {dump.rank: {} for dump in dumps}
    held: dict[int, set[str]] = {}
    for group_id, mine in members.items():
        if any(name in dump.p2p_groups for dump, name in mine):
            continue
        told = [pair for dump, name in mine if (pair := dump.groups[name]) is not None]
        before = min((done for entered, done in told if entered > done), default=None)
        for dump, name in mine:
            own = dump.groups[name]
            if own is not None:
                out[dump.rank][name] = _until(unlike.get(group_id), dump.rank, own)
            elif before is not None:
                out[dump.rank][name] = (before, before)
        for dump, name in _held_unseen(mine, dumps):
            held[dump.rank] = {*held.get(dump.rank, ()), name}
    for rank, names in held.items():
        # It cannot have come to calls that it does not wait in: that others wait there is not its doing.
        out[rank] = {n: pair for n, pair in out[rank].items() if n in names or pair[0] > pair[1]}
    return out


def _until(unlike: UnlikeCall | None, rank: int, own: Counts) -> Counts:
    """Counters up to the call that is not alike: what comes after it cannot be compared."""
    if unlike is None:
        return own
    last = unlike.seq - (rank in unlike.ranks)
    return min(own[0], last), min(own[1], last)


def _held_unseen(
    mine: Sequence[tuple[FlightDump, str]], dumps: Sequence[FlightDump]
) -> list[tuple[FlightDump, str]]:
    """Ranks that may wait for a member without a dump: in a group nobody lists, as far as all that tell of it."""
    told = {pair for dump, name in mine if (pair := dump.groups[name]) is not None}
    is_whole = len(mine) > 1 and len(dumps) > max(dump.rank for dump in dumps)
    if is_whole or len(told) != 1 or any(entered == done for entered, done in told):
        return []
    return [(dump, name) for dump, name in mine if name in dump.undescribed]


def _pair_counts(dumps: Sequence[FlightDump]) -> dict[int, dict[str, Counts]]:
    """Pending sends against pending receives of each pair and direction, where both ends left a dump."""
    here = {dump.rank for dump in dumps}
    pending: Counter[tuple[str, int, int, int]] = Counter()
    for dump in dumps:
        for call in dump.pending:
            if call.peer in here:
                ends = (dump.rank, call.peer) if call.is_send else (call.peer, dump.rank)
                pending[call.group, *ends, dump.rank] += 1
    out: dict[int, dict[str, Counts]] = {rank: {} for rank in here}
    for group, source, target in {key[:3] for key in pending}:
        name = f"{group}: rank {source} to rank {target}"
        for rank in (source, target):
            out[rank][name] = (pending[group, source, target, rank], 0)
    return out


def merged_stacks(
    dumps: Sequence[FlightDump], behind: Sequence[int], *, unlike: Sequence[UnlikeCall] = ()
) -> tuple[tuple[str, tuple[int, ...], tuple[str, ...]], ...]:
    """(what they do, ranks, frames) of all ranks, those behind first; ranks with the same story are one row."""
    odd = {rank: one for one in unlike for rank in one.ranks}
    rows: dict[tuple[str, tuple[str, ...]], list[int]] = defaultdict(list)
    for dump in sorted(dumps, key=lambda dump: (dump.rank not in behind, dump.rank)):
        call = dump.pending[0] if dump.pending else None
        state = "missing" if dump.rank in behind else "stuck"
        inside = (
            f"{state} in {call.op}" if call else f"{state}, nothing pending" if state == "missing" else "idle"
        )
        if call and dump.rank in odd:
            inside = (
                f"stuck in {call.op}, unlike the rest"
                if odd[dump.rank].is_begun
                else f"{call.op} scheduled, not started"
            )
        rows[inside, call.frames if call else ()].append(dump.rank)
    return tuple((what, tuple(ranks), frames) for (what, frames), ranks in rows.items())
