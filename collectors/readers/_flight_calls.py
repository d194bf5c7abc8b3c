"""The calls in a flight recorder's dump that never ended, and what its entries tell of each group."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from argus.collectors.records.flight import PendingCall

MAX_FRAMES = 64
_PEERS = re.compile(r"^\w+:(send|recv) (\d+)(->|<-)(\d+)")


@dataclass(frozen=True, kw_only=True)
class Told:
    """What entries say: (entered, completed) of groups seen in them, groups with sends, the last sign of life."""

    counts: Mapping[str, tuple[int, int]]
    p2p_groups: frozenset[str]
    last_created_ns: int


def pending_calls(
    entries: Sequence[Mapping[str, Any]], groups: Mapping[str, Sequence[int]]
) -> tuple[tuple[PendingCall, ...], Told]:
    """Calls not completed, in the order they were made, and what the others tell; odd entries count for nothing.

    `groups` holds the global rank at each place of a group, as far as it is known.
    """
    pending: list[PendingCall] = []
    entered: dict[str, int] = {}
    completed: dict[str, int] = {}
    p2p: set[str] = set()
    last = 0
    for entry in entries:
        group, op = _group(entry), str(entry.get("profiling_name", ""))
        if group not in groups:
            continue
        last = max(last, _int(entry.get("time_created_ns")))
        is_p2p = entry.get("is_p2p") is True or bool(_PEERS.match(op))
        seq = _int(entry.get("p2p_seq_id" if is_p2p else "collective_seq_id"))
        is_done = entry.get("state") == "completed" or entry.get("retired") is True
        if is_p2p:
            p2p.add(group)
        else:
            entered[group] = max(entered.get(group, 0), seq)
            if is_done:
                completed[group] = max(completed.get(group, 0), seq)
        if not is_done:
            pending.append(_pending(entry, group=group, places=groups[group], op=op, seq=seq))
    for call in pending:
        if call.peer < 0:
            completed[call.group] = min(completed.get(call.group, call.seq - 1), call.seq - 1)
    counts = {group: (seq, completed.get(group, seq)) for group, seq in entered.items()}
    return tuple(pending), Told(counts=counts, p2p_groups=frozenset(p2p), last_created_ns=last)


def _pending(
    entry: Mapping[str, Any], *, group: str, places: Sequence[int], op: str, seq: int
) -> PendingCall:
    match = _PEERS.match(op)
    peer, is_send = -1, False
    if match is not None:
        place = int(match.group(4)[:9])
        peer, is_send = (places[place] if place < len(places) else -1), match.group(1) == "send"
    frames = entry.get("frames")
    return PendingCall(
        group=group,
        op=(match.group(1) if match else op.rpartition(":")[2].lstrip("_").removesuffix("_base"))[:80],
        seq=seq,
        peer=peer,
        is_send=is_send,
        shape=f"{entry.get('input_sizes', '')} {entry.get('input_dtypes', '')}".strip()[:200],
        created_ns=_int(entry.get("time_created_ns")),
        timeout_ns=_int(entry.get("timeout_ms")) * 1_000_000,
        frames=tuple(map(_frame, frames[:MAX_FRAMES])) if isinstance(frames, list) else (),
        state=str(entry.get("state", ""))[:20],
    )


def _group(entry: Mapping[str, Any]) -> str:
    group = entry.get("process_group")
    return str(group[0])[:256] if isinstance(group, list | tuple) and group else ""


def _frame(raw: object) -> str:
    if not isinstance(raw, dict):
        return "?"
    return f"{raw.get('name', '?')} ({raw.get('filename', '?')}:{raw.get('line', '?')})"[:300]


def _int(value: object) -> int:
    return value if type(value) is int and 0 <= value < 1 << 62 else 0
