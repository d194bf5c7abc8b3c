"""Match the flight-recorder dumps of a job's ranks: what each waits for, as heartbeats of a job that stands still.

Counters of a group are compared as they are; a rank with nothing pending while its group is pending is behind.
Counters that include sends and receives differ between members by right: there each pair is compared, by the
calls one end has pending and the other does not. A rank without a dump is not known to be anywhere.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from argus.collectors.records.flight import FlightDump, PendingCall
from argus.collectors.records.heartbeat import Heartbeat, Status
from argus.topology.layout import Topology

DEFAULT_TIMEOUT_NS = 600 * 10**9
"""After so long torch's watchdog gives up where a call does not say otherwise (torch 2.x)."""

MAX_MISMATCHES = 10

Counts = tuple[int, int]


def beats_of(dumps: Sequence[FlightDump], topology: Topology) -> tuple[Heartbeat, ...]:
    """One heartbeat a dump, with the counters of its groups and pairs.

    The moment is that at which the first call timed out, the last step that of the last call anybody made.
    """
    since = max((dump.last_created_ns for dump in dumps), default=0)
    late = [
        call.created_ns + (call.timeout_ns or DEFAULT_TIMEOUT_NS) for dump in dumps for call in dump.pending
    ]
    now = max(min(late, default=since), since)
    counts = _group_counts(dumps, topology)
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


def _group_counts(dumps: Sequence[FlightDump], topology: Topology) -> dict[int, dict[str, Counts]]:
    """Counters of groups without sends; one that is not told is just before the others' first pending call."""
    members: dict[str, list[tuple[FlightDump, str]]] = defaultdict(list)
    for dump in dumps:
        for name in dump.groups:
            group = topology.named.get((dump.rank, name))
            members[group.id if group else f"other/{name}"].append((dump, name))
    out: dict[int, dict[str, Counts]] = {dump.rank: {} for dump in dumps}
    held: dict[int, set[str]] = {}
    for mine in members.values():
        if any(name in dump.p2p_groups for dump, name in mine):
            continue
        told = [pair for dump, name in mine if (pair := dump.groups[name]) is not None]
        before = min((done for entered, done in told if entered > done), default=None)
        for dump, name in mine:
            own = dump.groups[name]
            if own is not None:
                out[dump.rank][name] = own
            elif before is not None:
                out[dump.rank][name] = (before, before)
        for dump, name in _held_unseen(mine, dumps):
            held[dump.rank] = {*held.get(dump.rank, ()), name}
    for rank, names in held.items():
        # It cannot have come to calls that it does not wait in: that others wait there is not its doing.
        out[rank] = {n: pair for n, pair in out[rank].items() if n in names or pair[0] > pair[1]}
    return out


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


def mismatches(dumps: Sequence[FlightDump], topology: Topology) -> tuple[str, ...]:
    """Sentences about calls that members of a group made differently under one number."""
    calls: dict[tuple[str, int], dict[int, PendingCall]] = defaultdict(dict)
    for dump in dumps:
        for call in dump.pending:
            group = topology.named.get((dump.rank, call.group))
            if call.peer < 0 and group is not None:
                calls[group.id, call.seq][dump.rank] = call
    found = []
    for (group_id, seq), by_rank in sorted(calls.items()):
        for what, of in (("", "op"), (" of different sizes or types", "shape")):
            kinds: dict[str, list[int]] = defaultdict(list)
            for rank, call in sorted(by_rank.items()):
                kinds[call.op if of == "op" else f"{call.op} {call.shape}"].append(rank)
            if len(kinds) > 1 and (of == "op" or by_rank_op(by_rank) in ("all_reduce", "broadcast")):
                sides = "; ".join(f"{kind} on {_few(ranks)}" for kind, ranks in sorted(kinds.items()))
                found.append(f"call {seq} of {group_id} differs between ranks{what}: {sides}"[:300])
                break
    return tuple(found[:MAX_MISMATCHES])


def by_rank_op(by_rank: Mapping[int, PendingCall]) -> str:
    """The operation all ranks are in, "" if they differ."""
    ops = {call.op for call in by_rank.values()}
    return ops.pop() if len(ops) == 1 else ""


def merged_stacks(
    dumps: Sequence[FlightDump], behind: Sequence[int]
) -> tuple[tuple[str, tuple[int, ...], tuple[str, ...]], ...]:
    """(what they do, ranks, frames) of all ranks, those behind first; ranks with the same story are one row."""
    rows: dict[tuple[str, tuple[str, ...]], list[int]] = defaultdict(list)
    for dump in sorted(dumps, key=lambda dump: (dump.rank not in behind, dump.rank)):
        call = dump.pending[0] if dump.pending else None
        state = "missing" if dump.rank in behind else "stuck"
        inside = (
            f"{state} in {call.op}" if call else f"{state}, nothing pending" if state == "missing" else "idle"
        )
        rows[inside, call.frames if call else ()].append(dump.rank)
    return tuple((what, tuple(ranks), frames) for (what, frames), ranks in rows.items())


def _few(ranks: Sequence[int]) -> str:
    shown = ", ".join(map(str, ranks[:4]))
    return f"rank{'s' if len(ranks) > 1 else ''} {shown}{', …' if len(ranks) > 4 else ''}"
